"""Rules that users write: both modes, nested, trees of arguments, errors. Values are analytic."""

import colorsys
import functools
import types
from dataclasses import dataclass

import numpy as np
import pytest

import ndual
from ndual.testing import check_rule

MODES = ("forward", "reverse")
X = np.array([1.0, 2.0])
both_modes = pytest.mark.parametrize("mode", MODES)


def opaque(x):
    """What no dual gets through."""
    if type(x) not in (np.ndarray, np.float64, float, np.float32):
        raise TypeError(f"expected plain memory; got {type(x)}")
    return np.frombuffer(np.asarray(x).tobytes(), np.asarray(x).dtype).reshape(np.shape(x))


def norm2(x):
    return float(np.sum(opaque(x) ** 2))


BY_VJP = ndual.custom_rule(norm2, vjp=lambda y, primals, w: (2 * w * primals[0],))
BY_JVP = ndual.custom_rule(norm2, jvp=lambda y, primals, ts: 2 * np.sum(primals[0] * ts[0]))
BY_BOTH = ndual.custom_rule(
    norm2, jvp=lambda y, primals, ts: 2 * np.sum(primals[0] * ts[0]), vjp=lambda y, primals, w: (2 * w * primals[0],)
)
rules = pytest.mark.parametrize("g", [BY_VJP, BY_JVP, BY_BOTH], ids=["vjp", "jvp", "both"])


@both_modes
@rules
def test_uses_accumulate(g, mode):
    assert ndual.grad(lambda x: g(x) + g(x), mode=mode)(X).tolist() == [4.0, 8.0]
    assert g(X) == 5.0 and type(g(X)) is float
    value, gradient = ndual.value_and_grad(lambda x: g(x) * x[0], mode=mode)(X)
    assert value == 5.0 and gradient.tolist() == [5.0 + 2.0, 4.0]


@rules
def test_second_derivatives_by_every_mode_over_every_mode(g):
    # f = (x·x)², whose Hessian is 8 x xᵀ + 4 (x·x) I
    want = 8 * np.outer(X, X) + 20 * np.eye(2)

    def f(x):
        return g(x) ** 2

    for outer in MODES:
        for inner in MODES:
            got = ndual.jacobian(ndual.grad(f, mode=inner), mode=outer)(X)
            assert np.allclose(got, want, rtol=1e-14), (outer, inner)
    assert np.allclose(ndual.hessian(f)(X), want, rtol=1e-14)


@both_modes
def test_perturbations_are_not_confused(mode):
    add = ndual.custom_rule(lambda a, b: a + b, jvp=lambda y, p, t: sum(part for part in t if part is not None))
    times = ndual.custom_rule(lambda a, b: a * b, vjp=lambda y, p, w: (w * p[1], w * p[0]))
    d = functools.partial(ndual.derivative, mode=mode)
    assert d(lambda x: x * d(lambda y: x + y)(x))(1.0) == 1.0
    assert d(lambda x: times(x, d(lambda y: add(x, y))(x)))(1.0) == 1.0
    assert d(lambda x: times(x, d(lambda y: times(x, y))(x)))(3.0) == 6.0  # d/dx x·x


@dataclass
class Point:
    r: float
    phi: np.ndarray
    name: str = "p"


@both_modes
def test_trees_of_arguments_and_results(mode):
    def f(p, pair, power):
        r, phi = float(p.r), np.asarray(p.phi)
        return {"x": r * np.cos(phi), "n": 3, "z": (pair[0] * power, pair[1]["w"] * r)}

    def vjp(y, primals, w):
        p, pair, power = primals
        dr = np.sum(w["x"] * np.cos(p.phi)) + w["z"][1] * pair[1]["w"]
        return Point(dr, -w["x"] * p.r * np.sin(p.phi)), (w["z"][0] * power, {"w": w["z"][1] * p.r}), None

    g = ndual.custom_rule(f, vjp=vjp)

    def loss(p, pair):
        out = g(p, pair, 2)
        assert out["n"] == 3
        return np.sum(out["x"] ** 2) + out["z"][0] * out["z"][1]

    p, pair = Point(2.0, np.array([0.3, 0.4])), (1.5, {"w": 0.7})
    got = ndual.grad(loss, (0, 1), mode=mode)(p, pair)
    c, s = np.cos(p.phi), np.sin(p.phi)
    assert got[0].r == pytest.approx(4 * np.sum(c * c) + 3.0 * 0.7, rel=1e-14)
    assert np.allclose(got[0].phi, -8 * c * s, rtol=1e-14)
    assert got[1][0] == pytest.approx(2 * 1.4, rel=1e-14)
    assert got[1][1]["w"] == pytest.approx(3.0 * 2.0, rel=1e-14)


@both_modes
def test_dtypes_stay(mode):
    x32 = X.astype(np.float32)
    half = ndual.custom_rule(lambda x: opaque(x) * x.dtype.type(2), vjp=lambda y, p, w: (np.float64(2) * w,))
    for x in (X, x32):
        got = ndual.grad(lambda x: np.sum(half(x)), mode=mode)(x)
        assert got.dtype == x.dtype and got.tolist() == [2.0, 2.0]
    z = np.array([1 + 2j, 3 - 1j])
    square = ndual.custom_rule(lambda z: z * z, jvp=lambda y, p, t: 2 * p[0] * t[0])
    got = ndual.grad(lambda z: np.sum(square(z)), holomorphic=True, mode=mode)(z)
    assert np.allclose(got, 2 * z)
    back = ndual.custom_rule(lambda z: z * z, vjp=lambda y, p, w: (w * np.conj(2 * p[0]),))
    assert np.allclose(ndual.grad(lambda z: np.sum(back(z).real), mode=mode)(z), np.conj(2 * z))


@both_modes
def test_cotangents_that_are_one_array(mode):
    add = ndual.custom_rule(
        lambda a, b: a + b, vjp=lambda y, p, w: (w, w),
        jvp=lambda y, p, t: t[0] if t[1] is None else t[1] if t[0] is None else t[0] + t[1],
    )  # fmt: skip

    def f(a, b):
        return np.sum(add(a, b) * 3) + np.sum(a * a) + np.sum(5 * add(b, a))

    got = ndual.grad(f, (0, 1), mode=mode)(X, 2 * X)
    assert got[0].tolist() == (8 + 2 * X).tolist() and got[1].tolist() == [8.0, 8.0]


@both_modes
def test_what_the_caller_overwrites_afterwards_is_kept(mode):
    def f(x):
        y = x * 1.0
        out = BY_VJP(y)
        y[:] = 0.0
        return out + np.sum(y)

    assert ndual.grad(f, mode=mode)(X).tolist() == [2.0, 4.0]


@both_modes
def test_results_are_arrays_of_their_own(mode):
    same = ndual.custom_rule(lambda x: x, vjp=lambda y, p, w: (w,))

    def f(x):
        y = same(x)
        y[0] = 5.0
        return np.sum(y * x)

    assert ndual.grad(f, mode=mode)(X).tolist() == [5.0, 4.0]


@both_modes
def test_functions_inside_run_as_if_no_derivative_was_taken(mode):
    def work(x):
        out = np.zeros(2)
        assert type(out) is np.ndarray
        out[:] = opaque(x)
        return out * float(ndual.grad(lambda t: t * t)(3.0))  # a derivative of its own

    g = ndual.custom_rule(work, jvp=lambda y, p, t: np.array([6.0, 6.0]) * t[0])

    def f(x):
        constant = g(np.ones(2))
        constant[0] = x[0]  # what holds no derivative takes active values
        return np.sum(g(x) * constant)

    assert ndual.grad(f, mode=mode)(X).tolist() == [2 * 6.0, 36.0]


@both_modes
def test_keywords(mode):
    def f(x, y=2.0, *, scale=1.0):
        return opaque(x) * float(y) * scale

    g = ndual.custom_rule(f, vjp=lambda out, p, w, scale=1.0: (w * p[1] * scale, np.sum(w * p[0]) * scale))
    assert ndual.grad(lambda x: np.sum(g(y=x[1], x=x, scale=3.0)), mode=mode)(X).tolist() == [6.0, 15.0]
    with pytest.raises(ndual.ArgumentTypeError, match=r"by position; got it by keyword.*test_custom_rules\.py:"):
        ndual.grad(lambda x: np.sum(g(x, scale=x[0])), mode=mode)(X)


@both_modes
def test_results_without_a_float_are_constants(mode):
    steps = ndual.custom_rule(lambda x: {"n": int(x[1]), "s": "text", "l": [1, None]}, vjp=lambda y, p, w: (None,))
    nothing = ndual.custom_rule(lambda x: None, jvp=lambda y, p, t: None)

    def f(x):
        assert nothing(x) is None
        out = steps(x)
        return np.sum(x) * out["n"] * len(out["s"])

    assert ndual.grad(f, mode=mode)(X).tolist() == [8.0, 8.0]
    with pytest.warns(ndual.ConstantOutputWarning):
        assert ndual.grad(lambda x: steps(x)["n"] * 1.0, mode=mode)(X).tolist() == [0.0, 0.0]


@both_modes
def test_a_rule_of_the_library_may_be_replaced(mode):
    hypotenuse = np.linalg.norm
    before = ndual.grad(hypotenuse, mode=mode)(X)
    ndual.defrule(hypotenuse, vjp=lambda y, p, w: (7 * w * p[0] / y,))
    try:
        assert np.allclose(ndual.grad(lambda x: np.linalg.norm(x), mode=mode)(X), 7 * before, rtol=1e-14)
    finally:
        forget(hypotenuse)
    assert np.array_equal(ndual.grad(lambda x: np.linalg.norm(x), mode=mode)(X), before)


@both_modes
def test_nondiff(mode):
    digits = ndual.nondiff(lambda x, of: len(f"{float(opaque(x)[0]):g}") + of["n"])
    assert ndual.grad(lambda x: x[0] * digits(x, {"n": x[1]}), mode=mode)(np.array([2.5, 1.0])).tolist() == [4.0, 0.0]
    name = ndual.nondiff(lambda p, *, extra: len(f"{float(p.r):g}{float(extra):g}"))
    assert ndual.grad(lambda x: x[0] * name(Point(x[0], x), extra=x[1]), mode=mode)(np.array([2.5, 1.0]))[0] == 4.0
    fill = ndual.nondiff(lambda x: np.zeros(2))

    def f(x):
        out = fill(x)
        out[:] = x
        return np.sum(out)

    assert ndual.grad(f, mode=mode)(X).tolist() == [1.0, 1.0]
    with pytest.warns(ndual.ConstantOutputWarning):
        ndual.grad(lambda x: digits(x, {"n": 0.5}) * 1.0, mode=mode)(X)


# ---- rules that are wrong ------------------------------------------------------------------------------------------

WRONG = [
    ({"vjp": lambda y, p, w: 2 * w * p[0]}, "reverse", r"the vjp of norm2: expected a tuple with a cotangent for each"),
    ({"vjp": lambda y, p, w: (w, w)}, "reverse", r"the vjp of norm2: .*each of the 1 arguments.*got 2 entries"),
    ({"vjp": lambda y, p, w: (w,)}, "reverse", r"the vjp of norm2: .*expected the shape.*\(2,\); got \(\)"),
    ({"vjp": lambda y, p, w: (w * 1j * p[0],)}, "reverse", r"the vjp of norm2: .*expected a float64 array.*complex128"),
    ({"vjp": lambda y, p, w: ("w",)}, "reverse", r"the vjp of norm2: .*expected a float64 array.*got str"),
    ({"jvp": lambda y, p, t: t[0]}, "forward", r"the jvp of norm2: .*expected the shape of the.*\(\); got \(2,\)"),
    ({"jvp": lambda y, p, t: (1.0, 2.0)}, "forward", r"the jvp of norm2: "),
]


@pytest.mark.parametrize(("rule", "mode", "message"), WRONG)
def test_wrong_results_say_what_was_expected(rule, mode, message):
    g = ndual.custom_rule(norm2, **rule)
    with pytest.raises(ndual.RuleError, match=message):
        ndual.grad(lambda x: g(x) * 1.0, mode=mode)(X)


def test_rules_that_cannot_be_made():
    with pytest.raises(ndual.ArgumentValueError, match=r"got none\. For a function without.*nondiff"):
        ndual.custom_rule(norm2)
    with pytest.raises(ndual.ArgumentTypeError, match="expects a function as vjp; got int"):
        ndual.custom_rule(norm2, vjp=3)
    with pytest.raises(ndual.ArgumentTypeError, match="expects a function; got float"):
        ndual.custom_rule(3.0, vjp=norm2)
    with pytest.raises(ndual.ArgumentValueError, match="augmented and reverse together; got augmented alone"):
        ndual.custom_rule(norm2, augmented=norm2)
    with pytest.raises(ndual.ArgumentValueError, match=r"name arguments of norm2 \(x\); got 'z'"):
        ndual.custom_rule(norm2, augmented=norm2, reverse=norm2, overwritten=["z"])


def test_a_mode_that_cannot_be_derived_says_which_to_give():
    g = ndual.custom_rule(norm2, jvp=lambda y, p, t: 2 * np.sum(p[0] * opaque(t[0])))
    assert ndual.grad(g, mode="forward")(X).tolist() == [2.0, 4.0]
    with pytest.raises((ndual.NoRuleError, TypeError), match=r"expected plain memory|Give vjp= too"):
        ndual.grad(g, mode="reverse")(X)
    h = ndual.custom_rule(norm2, vjp=lambda y, p, w: (2 * float(w) * p[0],))
    with pytest.raises(ndual.NoRuleError, match=r"expected a jvp of norm2, or a vjp that can be transposed.*Give jvp="):
        ndual.grad(h, mode="forward")(X)


@both_modes
def test_active_values_from_outside_raise(mode):
    def f(x):
        g = ndual.custom_rule(lambda t: t * x[0], vjp=lambda y, p, w: (w,))
        return np.sum(g(x))

    with pytest.raises(ndual.DerivativeLostError, match=r"nothing active but its arguments"):
        ndual.grad(f, mode=mode)(X)


# ---- functions of others -------------------------------------------------------------------------------------------

library = types.ModuleType("somebodys_library")
exec(
    "import numpy as np\n"
    "def f(x):\n    return np.frombuffer(np.asarray(x).tobytes()) ** 3\n"
    "def deep(x):\n    return helper(x) + 0.0\n"
    "def helper(x):\n    return f(x)\n",
    vars(library),
)


@pytest.fixture
def somebodys(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "somebodys_library", library)
    return library


@both_modes
def test_a_rule_for_a_function_of_somebody_else(somebodys, mode):
    ndual.defrule(somebodys.f, vjp=lambda y, p, w: (w * 3 * p[0] ** 2,))
    taken = somebodys.f  # as by `from library import f`
    for call in (
        lambda x: np.sum(somebodys.f(x)), lambda x: np.sum(taken(x)), lambda x: np.sum(somebodys.deep(x)),
        lambda x: np.sum(CALLER(x)),
    ):  # fmt: skip
        assert ndual.grad(call, mode=mode)(X).tolist() == [3.0, 12.0]
    assert somebodys.f(X).tolist() == [1.0, 8.0]
    assert np.allclose(ndual.hessian(lambda x: np.sum(somebodys.f(x)))(X), np.diag(6 * X))
    assert ndual.jacobian(somebodys.f, mode=mode)(X).tolist() == [[3.0, 0.0], [0.0, 12.0]]


def CALLER(x):  # noqa: N802 (a name in the globals of a user)
    return library.deep(x)


from scipy.spatial.distance import minkowski  # noqa: E402 (names of others, as users take them)
from scipy.special import nrdtrimn  # noqa: E402
from scipy.special.cython_special import erfcx as compiled_erfcx  # noqa: E402


@both_modes
def test_rules_for_functions_of_scipy(mode):
    def vjp(y, primals, w):
        u, v = primals
        g = w * (u - v) / y
        return g, -g

    ndual.defrule(minkowski, vjp=vjp)
    # The mean of a normal distribution of which P(X <= x) = p: x - std * ndtri(p).
    ndual.defrule(nrdtrimn, vjp=lambda y, p, w: (None, np.sum(w * (y - p[2]) / p[1]), w))
    import scipy.spatial

    u, v = np.array([3.0, 0.0]), np.array([0.0, 4.0])
    for f in (lambda u: minkowski(u, v), lambda u: scipy.spatial.distance.minkowski(u, v)):
        assert np.allclose(ndual.grad(f, mode=mode)(u), [0.6, -0.8], rtol=1e-14)
    got = ndual.grad(lambda s, x: np.sum(nrdtrimn(0.975, s, x) * X), (0, 1), mode=mode)(2.0, X)
    assert got[0] == pytest.approx(-3 * 1.959963984540054, rel=1e-14) and np.allclose(got[1], X, rtol=1e-14)


@both_modes
def test_a_rule_for_a_compiled_function(mode):
    with pytest.raises((TypeError, ndual.DerivativeLostError)):
        ndual.grad(lambda x: compiled_norm(x), mode=mode)(0.5)  # before there is a rule, for a proof is known by then
    ndual.defrule(compiled_erfcx, jvp=lambda y, p, t: (2 * p[0] * y - 2 / np.sqrt(np.pi)) * t[0])
    try:
        value, slope = ndual.value_and_grad(lambda x: compiled_norm(x), mode=mode)(0.5)
        y = 0.6156903441929258743  # mpmath: exp(1/4) erfc(1/2)
        assert value == pytest.approx(y**2, rel=1e-14)
        assert slope == pytest.approx(2 * y * (y - 2 / np.sqrt(np.pi)), rel=1e-13)
        second = ndual.derivative(ndual.derivative(compiled_norm, mode=mode), mode=mode)(0.5)
        d = y - 2 / np.sqrt(np.pi)
        assert second == pytest.approx(2 * d * d + 2 * y * (2 * y + d), rel=1e-12)
    finally:
        forget(compiled_erfcx)


@both_modes
def test_prepared_objects_learn_of_a_rule(somebodys, mode):
    somebodys.late = lambda x: np.frombuffer(np.asarray(x).tobytes()) ** 2

    def f(x):
        return np.sum(somebodys.late(x))

    prepared = ndual.prepare_gradient(f, X, mode=mode)
    with pytest.raises(ndual.DerivativeLostError):
        prepared(X)
    ndual.defrule(somebodys.late, jvp=lambda y, p, t: 2 * p[0] * t[0])
    assert prepared(X)[1].tolist() == [2.0, 4.0]


def forget(function):
    """No rule for a function any more."""
    from ndual.frontend import defined

    defined._handlers.pop(id(function))


def compiled_norm(x):
    return compiled_erfcx(x) ** 2


def test_a_stdlib_function_and_what_is_refused():
    ndual.defrule(colorsys.rgb_to_yiq, jvp=lambda y, p, t: (0.3 * t[0], 0.599 * t[0], 0.213 * t[0]))
    for mode in MODES:
        assert ndual.grad(lambda r: colorsys.rgb_to_yiq(r, 0.5, 0.5)[1], mode=mode)(0.2) == pytest.approx(0.599)
    with pytest.raises(ndual.ArgumentTypeError, match="without a rule in the table; got <ufunc 'sin'>"):
        ndual.defrule(np.sin, jvp=lambda y, p, t: t[0])
    with pytest.raises(ndual.ArgumentTypeError, match="that modules have by name; got builtin"):
        ndual.defrule(X.sum, jvp=lambda y, p, t: t[0])


@rules
def test_check_rule(g):
    check_rule(g, X, dtypes="d", widths=(1, 3))


def test_check_rule_finds_a_wrong_rule():
    g = ndual.custom_rule(norm2, vjp=lambda y, p, w: (3 * w * p[0],))
    with pytest.raises(AssertionError, match="norm2"):
        check_rule(g, X, dtypes="d", widths=(1,))
    h = ndual.custom_rule(norm2, vjp=lambda y, p, w: (3 * w * p[0],), jvp=lambda y, p, t: 2 * np.sum(p[0] * t[0]))
    with pytest.raises(AssertionError, match=r"norm2.*in reverse"):
        check_rule(h, X, dtypes="d", widths=(1,))
