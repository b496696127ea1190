"""Rows made at run time: in every mode, dtype and layout, as the rows of the table."""

import copy
import math
import pickle

import mpmath
import numpy as np
import pytest

import ndual
from ndual.rules.elementwise import TABLE
from ndual.rules.row import POSITIVE, UNIT
from ndual.testing import check_rule

MODES = ("forward", "reverse")
both_modes = pytest.mark.parametrize("mode", MODES)
X = np.linspace(-3.0, 3.0, 7)

ELU = ndual.elementwise("elu", "x0 if x0 > 0 else exp(x0) - 1", "1 if x0 > 0 else y + 1")
SOFTPLUS = ndual.elementwise("softplus", "log1p(exp(-abs(x0))) + maximum(x0, 0)", "expit(x0)")
SWISH = ndual.elementwise("swish", "x0 * expit(x0)")
PLANCK = ndual.elementwise("planck", "x0 ** 3 / (exp(x0 / x1) - 1)", domain=(POSITIVE, POSITIVE))
BLEND = ndual.elementwise(
    "blend", "x2 * x0 + (1 - x2) * x1", "x2", "1 - x2", "x0 - x1", domain=(POSITIVE, POSITIVE, UNIT)
)
STEPPED = ndual.elementwise("stepped", "x0 * x1 if not (x0 > 1 or x1 < 0) and x0 != 2 else 2 * x0", None, "x0")
DIGAMMA = ndual.elementwise("half_digamma", "digamma(x0) / 2", domain=POSITIVE)

FORMS = {
    ELU: lambda x: x if x > 0 else mpmath.exp(x) - 1,
    SOFTPLUS: lambda x: mpmath.log(1 + mpmath.exp(x)),
    SWISH: lambda x: x / (1 + mpmath.exp(-x)),
    PLANCK: lambda x, t: x**3 / (mpmath.exp(x / t) - 1),
    BLEND: lambda a, b, c: c * a + (1 - c) * b,
    DIGAMMA: lambda x: mpmath.digamma(x) / 2,
}
names = pytest.mark.parametrize("f", FORMS, ids=lambda f: f.__name__)


def points(f, n):
    rng = np.random.default_rng(3)
    return [rng.uniform(0.2, 0.9, n) for _ in range(f._row.nin)]


@names
def test_values_and_derivatives(f):
    args = points(f, 700)  # more than a block
    few = [a[::100] for a in args]
    want = [float(FORMS[f](*map(mpmath.mpf, cells))) for cells in zip(*few, strict=True)]
    assert np.allclose(f(*few), want, rtol=1e-13)
    for i in range(len(args)):
        order = tuple(int(k == i) for k in range(len(args)))
        slopes = [float(mpmath.diff(FORMS[f], cells, order)) for cells in zip(*few, strict=True)]
        for mode in MODES:
            found = ndual.grad(lambda *a: np.sum(f(*a)), i, mode=mode)(*args)
            assert np.allclose(found[::100], slopes, rtol=1e-11), (i, mode)
    curve = [float(mpmath.diff(FORMS[f], cells, (2, *[0] * (len(args) - 1)))) for cells in zip(*few, strict=True)]
    got = ndual.hessian(lambda a: np.sum(f(a, *few[1:])))(few[0])
    assert np.allclose(np.diag(got), curve, rtol=1e-9, atol=1e-12)


@names
def test_check_rule(f):
    check_rule(f, *points(f, 4), widths=(1, 4))


@both_modes
def test_numbers_dtypes_and_broadcasting(mode):
    assert type(ELU(0.5)) is np.float64 and ELU(0.5) == 0.5
    assert ndual.derivative(ELU, mode=mode)(-1.0) == pytest.approx(math.exp(-1), rel=1e-15)
    for dtype in (np.float16, np.float32, np.float64):
        got = ndual.grad(lambda x: np.sum(ELU(x)), mode=mode)(X.astype(dtype))
        assert got.dtype == dtype and np.allclose(got, np.where(X > 0, 1, np.exp(X)), rtol=3 * np.finfo(dtype).eps)
        assert ELU(X.astype(dtype)).dtype == dtype
    assert ELU(3) == 3.0 and ELU([1, 2]).tolist() == [1.0, 2.0]
    a, b = X[:, None], np.abs(X) + 0.5
    got = ndual.grad(lambda a, b: np.sum(BLEND(a, b, 0.25)), (0, 1), mode=mode)(a, b)
    assert got[0].tolist() == [[0.25 * 7]] * 7 and np.allclose(got[1], 0.75 * 7)
    odd = X.reshape(1, 7)[:, ::-2]
    got = ndual.grad(lambda x: np.sum(SOFTPLUS(x[:, ::-2]) ** 2), mode=mode)(X.reshape(1, 7))
    assert np.allclose(got[:, ::-2], 2 * SOFTPLUS(odd) / (1 + np.exp(-odd))) and (got[:, 1::2] == 0).all()


@both_modes
def test_out_and_writes(mode):
    def f(x):
        y = np.zeros_like(x)
        ELU(x, out=y)
        y[0] = 7.0
        return np.sum(y * x)

    assert np.allclose(ndual.grad(f, mode=mode)(X)[1:], (np.where(X > 0, 2 * X, np.exp(X) * (1 + X) - 1))[1:])
    out = np.empty(7)
    assert ELU(X, out=out) is out and np.allclose(out, np.where(X > 0, X, np.expm1(X)))


@both_modes
def test_an_operand_without_a_partial(mode):
    # not (x0 > 1 or x1 < 0) and x0 != 2 else 2 x0
    got = ndual.grad(lambda b: np.sum(STEPPED(np.array([0.5, 2.0]), b)), mode=mode)(np.array([1.0, 3.0]))
    assert got.tolist() == [0.5, 2.0]
    assert STEPPED(np.array([0.5, 2.0, 0.5]), np.array([1.0, 3.0, -1.0])).tolist() == [0.5, 4.0, 1.0]
    with pytest.raises(ndual.NoRuleError, match="stepped has no derivative with respect to operand 0"):
        ndual.grad(lambda a: np.sum(STEPPED(a, X)), mode=mode)(X)


@both_modes
def test_points_where_the_expression_says_nan(mode):
    sinc = ndual.elementwise(
        "sin_over", "sin(x0) / x0 if x0 != 0 else 1", "(cos(x0) - y) / x0", at={(0.0,): (0.0, -1 / 3)}
    )
    assert ndual.grad(lambda x: np.sum(sinc(x)), mode=mode)(np.zeros(3)).tolist() == [0.0] * 3
    assert ndual.hessian(lambda x: np.sum(sinc(x)))(np.zeros(1)).item() == pytest.approx(-1 / 3)


@both_modes
def test_rows_need_no_interception(mode):
    from ndual.frontend import intercept

    def f(x):
        return np.sum(ELU(x))

    ndual.grad(f, mode=mode)(X)
    assert intercept.cached(f).known


def test_a_name_may_be_taken_again():
    first = ndual.elementwise("again", "2 * x0")
    second = ndual.elementwise("again", "3 * x0")
    for f, slope in ((first, 2.0), (second, 3.0)):
        assert ndual.grad(lambda x: np.sum(f(x)))(X).tolist() == [slope] * 7  # noqa: B023


def test_copies_and_the_same_row_again():
    assert pickle.loads(pickle.dumps(ELU)) is ELU and copy.deepcopy(BLEND) is BLEND
    assert ndual.elementwise("swish", "x0 * expit(x0)") is SWISH


def test_more_rows_than_there_are_slots():
    for k in range(70):
        f = ndual.elementwise(f"many_{k}", f"{k} * x0 + sin(x0)")
        assert np.allclose(ndual.grad(lambda x: np.sum(f(x)))(X), k + np.cos(X), rtol=1e-14)  # noqa: B023
    assert "many_1" not in TABLE


REFUSED = [
    (("f", "x0 + z"), r"'x0 \+ z': expected one of x0, y"),
    (("f", "x0 +"), "is not an expression"),
    (("f", "3 * pi"), "one to three operands"),
    (("f", "x1 * 2"), "one to three operands"),
    (("f", "x0 * x1", "x1"), "a partial for each of the 2 operands of f, or none; got 1"),
    (("f", "y + x0"), "in terms of itself"),
    (("f", "floorish(x0)"), "'floorish' has no row in the table"),
    (("sin", "x0"), "a name that is not in the table; got 'sin'"),
    (("f", "x0 if x0 else 1"), "a condition is expected"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_rows_that_cannot_be_read(given, message):
    with pytest.raises(ndual.ArgumentValueError, match=message):
        ndual.elementwise(*given)


@both_modes
def test_complex_operands(mode):
    z = np.array([1 + 2j, 0.3 - 1j])
    f = ndual.elementwise("z_exp", "x0 * exp(x0)", holomorphic=True)
    got = ndual.grad(lambda z: np.sum(f(z)), holomorphic=True, mode=mode)(z)
    assert np.allclose(got, (1 + z) * np.exp(z), rtol=1e-14) and np.allclose(f(z), z * np.exp(z), rtol=1e-14)
    with pytest.raises(ndual.ArgumentTypeError, match="elu expects real operands; got complex"):
        ELU(z)
    with pytest.raises(ndual.NoRuleError, match="for complex operands"):
        ndual.grad(lambda z: np.sum(ELU(z)).real, mode=mode)(z)


def test_bad_calls():
    with pytest.raises(ndual.ArgumentTypeError, match="elementwise expects an expression as text; got float"):
        ndual.elementwise("f", 3.0)
    with pytest.raises(
        ndual.ArgumentTypeError, match="elementwise expects a partial as an expression as text; got fun"
    ):
        ndual.elementwise("f", "x0", lambda x: x)
    with pytest.raises(ndual.ArgumentTypeError, match=r"elu expects 1 operand\(s\); got 2"):
        ELU(X, X)


@pytest.mark.parametrize("out", [np.zeros(7, int), np.zeros(3), [0.0] * 7])
def test_an_out_that_does_not_fit_is_refused(out):
    with pytest.raises(ndual.ArgumentTypeError, match="as out; got"):
        ELU(X, out=out)


def test_an_expression_too_deep_to_be_read_is_refused():
    with pytest.raises(ndual.ArgumentValueError, match="that can be read"):
        ndual.elementwise("too_deep", "+".join(["x0"] * 3000))
