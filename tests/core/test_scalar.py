"""Dual scalars: what a number does in Python and NumPy, with its partials; immutable, unhashable, of one call only."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import ndual
from ndual import _core

LANES = np.array([1.0, 0.5, 0.0])


@pytest.fixture
def d(lift):
    return lift(np.float64(1.5), LANES)


@pytest.fixture
def e(lift):
    return lift(np.float64(-0.25), LANES[::-1].copy())


BINARY = {
    operator.add: lambda a, b: (1, 1),
    operator.sub: lambda a, b: (1, -1),
    operator.mul: lambda a, b: (b, a),
    operator.truediv: lambda a, b: (1 / b, -(a / b) * (1 / b)),
    operator.mod: lambda a, b: (1, -math.floor(a / b)),
}


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_operators(d, e, op):
    a, b = np.float64(1.5), np.float64(-0.25)
    da, db = BINARY[op](a, b)
    ta, tb = LANES, LANES[::-1]
    for got, value, lanes in (
        (op(d, e), op(a, b), da * ta + db * tb),
        (op(d, -0.25), op(a, b), da * ta),
        (op(1.5, e), op(a, b), db * tb),
        (op(d, b), op(a, b), da * ta),
        (op(a, e), op(a, b), db * tb),
        (op(d, 2), op(a, 2.0), BINARY[op](a, 2.0)[0] * ta),
        (op(d, np.int64(2)), op(a, 2.0), BINARY[op](a, 2.0)[0] * ta),
        (op(True, e), op(1.0, b), BINARY[op](1.0, b)[1] * tb),
    ):
        assert isinstance(got, np.float64)
        assert _core.primal(got) == value
        np.testing.assert_allclose(_core.lanes(got), lanes, rtol=1e-15)


def test_other_operators(d):
    for got, value, slope in (
        (-d, -1.5, -1.0),
        (+d, 1.5, 1.0),
        (abs(-d), 1.5, 1.0),
        (d**2, 2.25, 3.0),
        (d**0, 1.0, 0.0),
        (2**d, 2**1.5, 2**1.5 * math.log(2)),
        (d**-1, 1 / 1.5, -1 / 2.25),
        (divmod(d, 1.0)[1], 0.5, 1.0),
    ):
        assert _core.primal(got) == pytest.approx(value, rel=1e-15)
        np.testing.assert_allclose(_core.lanes(got), slope * LANES, rtol=1e-15)
    with pytest.raises(TypeError):
        pow(d, 2, 3)


def test_steps_are_numbers(d, e):
    for got, value in (
        (d // e, -6.0),
        (d // -0.25, -6.0),
        (1.5 // e, -6.0),
        (divmod(d, 1.0)[0], 1.0),
        (round(d, 0), 2.0),
        (np.floor(d), 1.0),
        (np.sign(e), -1.0),
        (np.rint(d), 2.0),
    ):
        assert type(got) is np.float64
        assert got == value


def test_comparisons_and_conversions_give_the_primal(d, e):
    assert d > e
    assert d >= 1.5
    assert d == 1.5
    assert 1.0 < d < 2
    assert d != e
    assert int(d) == 1
    assert round(d) == 2
    assert type(round(d)) is int
    assert math.floor(d) == 1
    assert math.ceil(d) == 2
    assert math.trunc(e) == 0
    assert bool(d)
    assert not bool(d * 0.0)
    assert d.is_integer() is False or not d.is_integer()


@pytest.mark.parametrize(
    "lose",
    [
        float,
        complex,
        np.array,
        np.asarray,
        lambda d: np.array([d, 1.0], float),
        lambda d: math.atan(d),
        hash,
        lambda d: {d: 1},
        lambda d: np.zeros(2).__setitem__(0, d),
        lambda d: np.add(np.ones(2), d, out=np.ones(2)),
        lambda d: "%g" % d,  # noqa: UP031
        memoryview,
        operator.index,
        lambda d: [1, 2][d],
    ],
)
def test_nothing_drops_the_derivative_silently(d, lose):
    with pytest.raises((ndual.DerivativeLostError, TypeError)):
        lose(d)


def test_a_lost_derivative_names_the_line(d):
    with pytest.raises(ndual.DerivativeLostError, match=r"test_scalar.py:\d+.*stop_gradient"):
        float(d)


def test_printing_and_format_show_the_primal_as_no_number(d):
    assert str(d) == "~1.5"
    assert f"{d:.2f}" == "~1.50"
    assert format(d, "08.3f") == "~0001.500"
    assert f"{d}" == "~1.5"
    assert "1.5" in repr(d)
    for text in (str(d), f"{-d}", format(d, "e"), repr(d)):
        for read in (float, complex, int, Decimal, Fraction):
            with pytest.raises((ValueError, ArithmeticError)):
                read(text)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda d: copy.deepcopy([d])[0]])
def test_copies_keep_the_partials(d, again):
    twin = again(d)
    assert _core.is_dual(twin)
    np.testing.assert_array_equal(_core.lanes(twin), LANES)
    assert _core.primal(twin) == 1.5


def test_classes_and_attributes(d):
    assert isinstance(d, float)
    assert isinstance(d, np.float64)
    assert isinstance(d, np.floating)
    assert np.isscalar(d)
    assert d.dtype == np.float64
    assert d.shape == ()
    assert d.ndim == 0
    assert d.size == 1
    for same in (d.real, d.T, d.item(), d.copy(), d.conjugate(), d[()]):
        np.testing.assert_array_equal(_core.lanes(same), LANES)
    assert d.imag == 0
    for got in (d.astype(np.float32), d.reshape(1), d.sum(), d.clip(0, 5), d.ravel()):
        np.testing.assert_array_equal(np.ravel(_core.lanes(got)), LANES)
    with pytest.raises(AttributeError):
        _ = d.nothing
    with pytest.raises((AttributeError, TypeError)):
        d.value = 3


def test_ufuncs_and_functions(d):
    for f, slope in (
        (np.sin, math.cos(1.5)),
        (np.exp, math.exp(1.5)),
        (np.sqrt, 0.5 / math.sqrt(1.5)),
        (np.square, 3.0),
    ):
        got = f(d)
        assert isinstance(got, np.float64)
        assert _core.primal(got) == pytest.approx(f(1.5), rel=1e-15)
        np.testing.assert_allclose(_core.lanes(got), slope * LANES, rtol=1e-14)
    assert not np.isnan(d)
    assert np.isfinite(d)


@pytest.mark.parametrize("width", [*range(1, 17), 17, 20, 33])
def test_widths(width):
    rng = np.random.default_rng(width)
    s, t = rng.uniform(size=(2, width))
    with _core.Level(width) as level:
        a, b = _core.dual(2.0, s, level), _core.dual(3.0, t, level)
        assert (type(a) is _core.NDualArray) == (width > 16)
        assert isinstance(a, np.float64)
        for got, lanes in ((a * b, 3 * s + 2 * t), (a + b, s + t), (a - 1.0, s), (1.0 / a, -0.25 * s)):
            np.testing.assert_allclose(_core.lanes(got), lanes, rtol=1e-15)
        row = np.stack([a, b])
        np.testing.assert_array_equal(_core.lanes(row), np.stack([s, t], 1))
        np.testing.assert_array_equal(_core.lanes(row[1]), t)


@pytest.mark.parametrize("dtype", ["e", "f", "D", "F"])
def test_scalars_of_other_dtypes_are_immutable_too(lift, dtype):
    d = lift(np.array(1.5, dtype))
    assert isinstance(d, np.dtype(dtype).type)
    product = d * d
    assert product.dtype == dtype
    np.testing.assert_array_equal(_core.lanes(product), np.asarray(3, dtype) * _core.lanes(d))
    with pytest.raises(TypeError):
        d[...] = 2
    before = d
    d += 1
    assert _core.primal(before) == np.asarray(1.5, dtype)
    assert _core.primal(d) == np.asarray(2.5, dtype)


@pytest.mark.parametrize("value", [1.5, np.ones(3)])
def test_the_class_makes_no_dual(value):
    with _core.Level(2) as level:
        kind = type(_core.dual(value, np.ones((2, *np.shape(value))), level))
        for args in ((), (1.0,), (value, value)):
            with pytest.raises(TypeError, match="derivative call"):
                kind(*args)
        with pytest.raises(TypeError):
            _core.dual(value, value, None)


def test_a_stale_scalar_raises():
    with _core.Level(2) as level:
        old = _core.dual(1.0, np.ones(2), level)
        fresh = pickle.loads(pickle.dumps(1.0))
        assert fresh == 1.0
    for use in (
        lambda: old * 2.0,
        lambda: old + old,
        lambda: -old,
        lambda: old > 1,
        lambda: np.sin(old),
        lambda: old**2,
    ):
        with pytest.raises(ndual.StaleDualError):
            use()
    with _core.Level(2) as level:
        young = _core.dual(1.0, np.ones(2), level)
        for use in (lambda: old * young, lambda: young + old, lambda: np.maximum(old, young), lambda: young - old):
            with pytest.raises(ndual.StaleDualError):
                use()
    with _core.Level(3) as level, pytest.raises(ndual.StaleDualError):
        old * _core.dual(1.0, np.ones(3), level)
    assert "1.0" in repr(old)
    assert str(old) == "~1.0"


def test_a_scalar_of_another_thread_raises(d):
    errors = []

    def use():
        for act in (lambda: d * 2.0, lambda: np.sin(d)):
            try:
                act()
            except Exception as error:
                errors.append(type(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert errors == [ndual.StaleDualError] * 2
