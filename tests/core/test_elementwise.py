"""Elementwise calls on duals: points pinned by hand, dtypes, results and outputs as NumPy has them."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
import scipy.special

import ndual
from ndual import _core

INF, NAN = math.inf, math.nan


def along(f, *point):
    """Value and the partials by every operand, through arrays and through scalars, which must agree."""
    n = len(point)
    with _core.Level(n) as level, np.errstate(all="ignore"):
        lanes = np.eye(n)
        scalars = [_core.dual(float(v), lanes[i], level) for i, v in enumerate(point)]
        arrays = [_core.dual(np.full(5, v), np.repeat(lanes[i][:, None], 5, 1), level) for i, v in enumerate(point)]
        one, many = f(*scalars), f(*arrays)
        value, partials = _core.primal(one), _core.lanes(one) if _core.is_dual(one) else np.zeros(n)  # a step
        np.testing.assert_array_equal(_core.primal(many), np.full(5, value))
        np.testing.assert_array_equal(_core.lanes(many), np.repeat(partials[:, None], 5, 1))
    return float(value), partials.tolist()


# What NumPy's documentation, analysis and 50-digit arithmetic say at the points where formulas break.
PINNED = [
    (np.clip, (0.0, 0.0, 1.0), 0.0, (1, 0, 0)),
    (np.clip, (1.0, 0.0, 1.0), 1.0, (1, 0, 0)),
    (np.clip, (2.0, 0.0, 1.0), 1.0, (0, 0, 1)),
    (np.clip, (-1.0, 0.0, 1.0), 0.0, (0, 1, 0)),
    (np.clip, (-0.0, 0.0, 1.0), -0.0, (1, 0, 0)),
    (np.clip, (0.0, 3.0, 2.0), 2.0, (0, 0, 1)),
    (np.clip, (2.5, 3.0, 2.0), 2.0, (0, 0, 1)),
    (np.clip, (5.0, 3.0, 2.0), 2.0, (0, 0, 1)),
    (np.clip, (NAN, 0.0, 1.0), NAN, (1, 0, 0)),
    (np.clip, (0.5, NAN, 1.0), NAN, (0, 1, 0)),
    (np.maximum, (1.0, 1.0), 1.0, (0.5, 0.5)),
    (np.minimum, (1.0, 1.0), 1.0, (0.5, 0.5)),
    (np.maximum, (0.0, -0.0), -0.0, (0.5, 0.5)),
    (np.maximum, (NAN, 1.0), NAN, (1, 0)),
    (np.maximum, (1.0, NAN), NAN, (0, 1)),
    (np.fmax, (NAN, 1.0), 1.0, (0, 1)),
    (np.fmin, (1.0, NAN), 1.0, (1, 0)),
    (np.power, (0.0, 0.5), 0.0, (INF, 0)),
    (np.power, (0.0, 1.0), 0.0, (1, 0)),
    (np.power, (0.0, 2.0), 0.0, (0, 0)),
    (np.remainder, (-7.5, 2.0), 0.5, (1, 4)),
    (np.fmod, (-7.5, 2.0), -1.5, (1, 3)),
    (np.copysign, (-5.0, 3.0), 5.0, (-1, 0)),
    (np.hypot, (0.0, 0.0), 0.0, (0, 0)),
    (np.hypot, (3.0, 4.0), 5.0, (0.6, 0.8)),
    (np.absolute, (0.0,), 0.0, (0,)),
    (np.sign, (0.0,), 0.0, (0,)),
    (np.arctan2, (1.0, 2.0), math.atan2(1, 2), (0.4, -0.2)),
    (np.tanh, (20.0,), 1.0, (1.6993417021166356e-17,)),
    (scipy.special.expit, (0.0,), 0.5, (0.25,)),
    (scipy.special.expit, (-800.0,), 0.0, (0,)),
    (scipy.special.xlogy, (0.0, 3.0), 0.0, (1.0986122886681098, 0)),
    (scipy.special.xlog1py, (0.0, -0.5), 0.0, (-0.6931471805599453, 0)),
    (np.sinc, (0.0,), 1.0, (0,)),
    (np.sinc, (0.5,), 2 / math.pi, (-1.2732395447351628,)),
    (np.sqrt, (0.0,), 0.0, (INF,)),
    (np.log, (0.0,), -INF, (INF,)),
    (np.reciprocal, (0.0,), INF, (-INF,)),
    (np.exp, (1000.0,), INF, (INF,)),
    (np.arctanh, (1.0,), INF, (INF,)),
    (np.floor, (1.5,), 1.0, (0,)),
    (np.floor_divide, (7.5, 2.0), 3.0, (0, 0)),
    (np.logaddexp, (-1e6, 1e6), 1e6, (0, 1)),
    (np.heaviside, (0.0, 0.25), 0.25, (0, 1)),
    (operator.truediv, (1.0, 0.0), INF, (INF, -INF)),
]


@pytest.mark.parametrize(("f", "point", "value", "partials"), PINNED)
def test_pinned_points(f, point, value, partials):
    got, slopes = along(f, *point)
    assert got == pytest.approx(value, rel=4e-16, nan_ok=True)
    assert math.copysign(1, got) == math.copysign(1, value) or math.isnan(value)
    assert slopes == pytest.approx(list(partials), rel=1e-15, abs=0)


def test_powers():
    assert along(lambda x: x**2.0, 0.0)[1] == [0]
    assert along(lambda x: x**0.5, 0.0)[1] == [INF]
    assert along(lambda x: x**0.0, 0.0) == (1, [0])
    assert along(lambda x: x**1.0, 0.0) == (0, [1])
    assert along(lambda x: x**3.0, -2.0) == (-8, [12])
    assert along(lambda x: x**-2, -2.0) == (0.25, [0.25])
    assert along(lambda x: x * x**0.5, 0.0) == (0, [0])
    assert math.isnan(along(lambda x, p: x**p, -2.0, 2.0)[1][1])
    with _core.Level(1) as level:
        base = _core.dual(np.float64(0.0), np.zeros(1), level)
        assert _core.lanes(base ** _core.dual(np.float64(0.0), np.ones(1), level)) != 0
        assert _core.lanes(base ** _core.dual(np.float64(2.0), np.ones(1), level)) == 0


def test_float32_saturation():
    value, slope = ndual.jvp(np.tanh, (np.array([10.0], "f"),), (np.ones(1, "f"),))
    assert value.dtype == slope.dtype == np.float32
    assert slope[0] == pytest.approx(8.244614e-9, rel=1e-6)


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (np.sqrt, 0.0), (np.log, 0.0), (lambda x: 1 / x, 0.0), (np.exp, 1000.0), (np.arctanh, 1.0), (np.arccosh, 1.0),
        (lambda x: np.arctan2(x, 0.0 * x), 0.0), (np.cbrt, 0.0), (lambda x: x * INF, 1.0), (lambda x: INF * x, 0.0),
        (lambda x: x / 0.0, 1.0), (lambda x: x**-1.0, 0.0), (np.sinh, 1000.0), (np.expm1, 1000.0), (np.log1p, -1.0),
        (lambda x: x * np.array([INF, NAN, 1.0])[0], 2.0), (np.arcsin, 1.0), (lambda x: x**0.5, 0.0),
        (np.tan, math.pi / 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [None, 1, 7, 1000])
def test_a_lane_of_zeros_stays_zero(f, at, n):
    with _core.Level(2) as level, np.errstate(all="ignore"):
        value = np.float64(at) if n is None else np.full(n, at)
        x = _core.dual(value, np.stack([np.ones(np.shape(value)), np.zeros(np.shape(value))]), level)
        lanes = _core.lanes(f(x))
        assert (lanes[1] == 0).all()
        assert not (lanes[0] == 0).all() or f is np.tan


def test_compositions_at_their_limits():
    with np.errstate(all="ignore"):
        assert ndual.grad(lambda x: 1 / (1 + np.exp(-x)))(-800.0) == 0
        assert ndual.grad(lambda x: np.sqrt(x) ** 2)(0.0) == 0
        assert ndual.grad(lambda x: x * np.log(x))(0.0) != ndual.grad(lambda x: x)(0.0)
        assert ndual.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0))(0.0) == 0


def test_complex_conventions():
    assert ndual.grad(lambda z: np.abs(z) ** 2)(1 + 2j) == pytest.approx(2 + 4j)
    assert ndual.grad(np.abs)(3 + 4j) == pytest.approx(0.6 + 0.8j)
    assert ndual.grad(np.abs)(0j) == 0
    assert ndual.grad(lambda z: (z * z).real)(1 + 2j) == pytest.approx(2 - 4j)
    for f, slope in (
        (np.exp, np.exp),
        (np.sin, np.cos),
        (np.log, lambda z: 1 / z),
        (np.sqrt, lambda z: 0.5 / np.sqrt(z)),
    ):
        value, tangent = ndual.jvp(f, (np.array([1 + 2j]),), (np.array([2 - 1j]),))
        np.testing.assert_array_equal(value, f(np.array([1 + 2j])))
        np.testing.assert_allclose(tangent, slope(np.array([1 + 2j])) * (2 - 1j), rtol=1e-14)
    z = np.array([1 + 2j, 3 - 1j])
    t = np.array([1j, 2.0])
    for f, want in ((np.conj, t.conj()), (np.real, t.real), (np.imag, t.imag), (np.angle, (t / z).imag)):
        np.testing.assert_allclose(ndual.jvp(f, (z,), (t,))[1], want, rtol=1e-15)


OPERANDS = {
    "f16": np.linspace(1, 2, 3).astype("e"),
    "f32": np.linspace(1, 2, 3).astype("f"),
    "f64": np.linspace(1, 2, 3),
    "c64": np.linspace(1, 2, 3).astype("F"),
    "c128": np.linspace(1, 2, 3).astype("D"),
    "i8": np.arange(1, 4, dtype="b"),
    "i32": np.arange(1, 4, dtype="i"),
    "i64": np.arange(1, 4),
    "u64": np.arange(1, 4, dtype="Q"),
    "bool": np.array([True, False, True]),
    "float": 1.5,
    "int": 2,
    "complex": 1 + 2j,
    "np.float32": np.float32(1.5),
    "np.float64": np.float64(1.5),
    "np.int64": np.int64(2),
    "list": [1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("other", OPERANDS)
@pytest.mark.parametrize("dtype", "efdFD")
@pytest.mark.parametrize("op", [np.add, np.multiply, np.divide, np.power, np.maximum], ids=lambda f: f.__name__)
def test_promotion_is_numpys(lift, op, dtype, other):
    x, y = OPERANDS["f64"].astype(dtype), OPERANDS[other]
    d = lift(x)
    for plain, dual in (((x, y), (d, y)), ((y, x), (y, d))):
        with np.errstate(all="ignore"):
            if op is np.maximum and "c" in np.result_type(x, np.asarray(y)).kind:
                continue
            want, got = op(*plain), op(*dual)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(_core.primal(got), want)
        assert _core.lanes(got).dtype == want.dtype


def test_float16_rounds_once_an_operation(lift):
    x = np.linspace(0.1, 3, 50).astype("e")
    d = lift(x)
    for f, slope in ((np.exp, np.exp), (np.sqrt, lambda v: 0.5 / np.sqrt(v)), (np.square, lambda v: 2 * v)):
        got = f(d)
        np.testing.assert_array_equal(_core.primal(got), f(x))
        exact = slope(x.astype(float)) * _core.lanes(d).astype(float)
        near = np.maximum(np.spacing(np.abs(exact).astype("e")).astype(float), 2.0**-24)
        assert (abs(_core.lanes(got).astype(float) - exact) <= 0.52 * near).all()


def test_float16_partials_are_float16():
    value, slope = ndual.jvp(lambda v: v * np.float16(3), (np.array([1, 2], "e"),), (np.ones(2, "e"),))
    assert value.dtype == slope.dtype == np.float16
    assert slope.tolist() == [3, 3]
    whole = np.arange(8, dtype="e").reshape(2, 4)
    value, slope = ndual.jvp(lambda v: np.concatenate([v[:, ::2], v[::-1, 1::2]]), (whole,), (whole + 1,))
    assert value.dtype == slope.dtype == np.float16
    np.testing.assert_array_equal(slope, value + 1)


def test_mixed_precision_clip():
    value, slope = ndual.jvp(
        lambda x, low: np.clip(x, low, 1.0), (np.float32(0.5), np.float64(0.50000001)), (np.float32(1), np.float64(0))
    )
    assert value.dtype == np.float64
    assert value == 0.50000001
    assert slope == 0
    value, slope = ndual.jvp(lambda x: np.clip(x, 0.50000001, 1.0), (np.float32(0.5),), (np.float32(1),))
    assert value.dtype == np.float32
    assert value == 0.5
    assert slope == 1


@pytest.mark.parametrize("bounds", [(None, 1.0), (0.5, None), (0.5, 1.0)])
def test_clip_with_an_absent_bound(lift, bounds):
    x = np.array([0.0, 0.75, 2.0])
    got = np.clip(lift(x), *bounds)
    want = np.clip(x, *bounds)
    np.testing.assert_array_equal(_core.primal(got), want)
    np.testing.assert_array_equal((_core.lanes(got) != 0).all(0), want == x)


def test_integer_powers_of_ints_raise_as_in_numpy(lift):
    with pytest.raises(ValueError, match="negative integer"):
        np.arange(3) ** np.array(-1)
    np.testing.assert_array_equal(_core.primal(lift(np.array([2.0, 4.0])) ** -1), [0.5, 0.25])


def test_passive_functions_give_plain_arrays(lift):
    d = lift(np.array([1.0, NAN, -2.0]))
    for f in (np.isnan, np.isfinite, np.signbit, np.logical_not):
        got = f(d)
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, f(_core.primal(d)))
    np.testing.assert_array_equal(d > 0, [True, False, False])
    np.testing.assert_array_equal(np.less(0, d), [True, False, False])


@pytest.mark.parametrize("f", [np.bitwise_and, np.gcd, np.left_shift])
def test_refused_ufuncs_say_why(lift, f):
    with pytest.raises((ndual.NoRuleError, TypeError)):
        f(lift(np.ones(2)), 1)
    with pytest.raises(ndual.NoRuleError, match=r"test_elementwise.py:\d+"):
        scipy.special.zetac(lift(np.ones(2)))


def test_a_foreign_class_gets_its_turn(lift):
    class Other:
        __array_ufunc__ = None

        def __radd__(self, x):
            return "radd"

    assert lift(np.ones(2)) + Other() == "radd"
    with pytest.raises(TypeError):
        lift(np.ones(2)) + object()


def test_unknown_keywords_are_refused(lift):
    with pytest.raises((ndual.NdualError, TypeError)):
        np.sin(lift(np.ones(2)), signature="d->d")
    with pytest.raises(ndual.NdualError, match="out="):
        np.sin(lift(np.ones(2)), where=np.array([True, False]))


def test_out_arguments_are_checked_before_anything_is_written(lift):
    d, out = lift(np.ones(3)), lift(np.full(2, 9.0))
    with pytest.raises(ValueError, match="broadcast"):
        np.add(d, d, out=out)
    np.testing.assert_array_equal(_core.primal(out), [9, 9])
    narrow = lift(np.ones(3, "f"))
    with pytest.raises(TypeError):
        np.add(lift(np.ones(3) + 1j), 1.0, out=narrow)
    assert np.add(d, 1.0, out=narrow) is narrow
    assert np.add(d, 1.0, narrow) is narrow
    np.testing.assert_array_equal(_core.lanes(narrow), _core.lanes(d).astype("f"))


@pytest.mark.parametrize("exact", [False, True])
def test_sines_are_exact_on_demand(exact):
    x = np.linspace(-50, 50, 4001)
    with ndual.config(exact=exact), _core.Level(1) as level:
        for f in (np.sin, np.cos):
            got = _core.primal(f(_core.dual(x, np.ones((1, x.size)), level)))
            if exact:
                np.testing.assert_array_equal(got, f(x))
            assert (abs(got - f(x)) <= np.spacing(abs(f(x)))).all()


def test_what_a_loop_raises_is_handed_on(lift):
    quantile = pytest.importorskip("scipy.stats").cauchy._ppf
    assert _core.primal(quantile(lift(np.array([0.5])))) == 0.0
    with pytest.raises(OverflowError):
        quantile(lift(np.array([0.5, 0.0])))
    with pytest.raises(OverflowError):
        quantile(lift(0.0))
