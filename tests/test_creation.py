"""Arrays that user code makes while a derivative is taken, and the functions that make them from duals."""

import cmath
import functools
import math
from math import exp
from math import hypot as distance

import numpy as np
import pytest
from numpy import array, zeros
from numpy import float64 as double

import ndual

X = np.array([0.6, 1.7, 2.3])
THREE = {"shape": 3}


def slopes(f, x=X):
    """The Jacobian by complex steps where f is written in NumPy alone."""
    return np.stack([np.imag(f(x + 1e-30j * e)) * 1e30 for e in np.eye(len(x))], -1)


def check(f, want, x=X, rtol=1e-13):
    for width in (1, 2, 3):
        np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(x), want, rtol=rtol, atol=1e-15)


# ---- buffers -----------------------------------------------------------------------------------------------------


def filled(make):
    def f(x):
        out = make()
        for i in range(3):
            out[i] = x[i] ** 2
        return out

    return f


BUFFERS = {
    "zeros": lambda: np.zeros(3),
    "from-import": lambda: zeros(3),
    "empty": lambda: np.empty(3),
    "ones": lambda: np.ones((3,), dtype=float),
    "full": lambda: np.full(3, 2.5),
    "array": lambda: np.array([1.0, 2.0, 3.0]),
    "asarray": lambda: np.asarray([1.0, 2.0, 3.0]),
    "array of an outside array": lambda: np.array(X),
    "copy": lambda: np.copy(X),
    "zeros_like": lambda: np.zeros_like(X),
    "full_like": lambda: np.full_like(X, 7.0),
    "linspace": lambda: np.linspace(0.0, 1.0, 3),
    "logspace": lambda: np.logspace(0.0, 1.0, 3),
    "geomspace": lambda: np.geomspace(1.0, 2.0, 3),
    "arange": lambda: np.arange(0.0, 3.0),
    "fromiter": lambda: np.fromiter((k for k in range(3)), float),
    "require": lambda: np.require([1.0, 2.0, 3.0], float, "C"),
    "arithmetic": lambda: 2.0 * np.zeros(3) + 1.0,
    "float type": lambda: np.zeros(3, np.float64),
    "star": lambda: np.zeros(*(3,)),
    "keywords": lambda: np.zeros(**THREE),
    "partial": functools.partial(lambda n: np.zeros(n), 3),
    "sort": lambda: np.sort(np.array([3.0, 2.0, 1.0])),
    "ascontiguousarray": lambda: np.ascontiguousarray([1.0, 2.0, 3.0]),
    "view": lambda: np.zeros(6)[::2],
    "reshaped": lambda: np.zeros((3, 1)).ravel(),
    "raveled by function": lambda: np.ravel(np.zeros((1, 3))),
    "squeezed": lambda: np.squeeze(np.zeros((1, 3))),
    "eye": lambda: np.eye(3)[1],
    "identity": lambda: np.identity(3)[:, 1],
}


@pytest.mark.parametrize("name", BUFFERS)
def test_duals_written_into_a_buffer(name):
    check(filled(BUFFERS[name]), np.diag(2 * X))


def test_views_of_a_buffer_see_what_is_written():
    def f(x):
        out = np.zeros((2, 3))
        rows = [np.ravel(out), out.T, np.swapaxes(out, 0, 1), out[1], np.squeeze(out[None])]
        out[1, 2] = x[0] * x[1]
        rows[0][0] = x[2]
        return np.array([rows[0][5], rows[1][2, 1], rows[2][2, 1], rows[3][2], rows[4][1, 2], out[0, 0]])

    want = [X[1], X[0], 0.0]
    check(f, [want] * 5 + [[0.0, 0.0, 1.0]])


def test_a_buffer_without_duals_is_a_plain_array():
    def f(x):
        out = np.zeros(3)
        out[1] = 2.0
        assert type(out[1]) == np.float64  # noqa: E721 (while the derivative is taken, "is" it is not)
        assert float(out[1:2][0]) == math.sqrt(4.0) == 2.0
        assert out.sum() == 2.0
        assert isinstance(out, np.ndarray)
        assert type(np.array([1, 2])) is np.ndarray
        assert type(np.zeros(2, int)) is type(np.zeros(2, bool)) is np.ndarray
        assert type(np.array(["a"])) is type(np.array([None])) is np.ndarray
        assert memoryview(out).tolist() == out.tolist() == [0.0, 2.0, 0.0]
        assert bytes(out.tobytes()) == np.asarray(out).tobytes()
        assert ("%g" % out[1]) == "2"  # noqa: UP031
        assert np.searchsorted(out, 1.0) == np.array([0.0]).searchsorted(2.0)
        assert repr(out) == "array([0., 2., 0.])"
        return out[1] * x[0]

    check(f, [2.0, 0.0, 0.0])


def test_types_of_numbers():
    def f(x):
        assert isinstance(x[0], np.float64)
        assert isinstance(np.float64(1.0), np.float64)
        assert not isinstance(1, np.float64)
        assert issubclass(np.float64, np.floating)
        assert np.issubdtype(np.zeros(2).dtype, np.float64)
        assert np.zeros(2).dtype == np.float64
        assert np.dtype(np.float64) == np.finfo(np.float64).dtype
        assert type(np.float64(3)) == np.float64  # noqa: E721
        assert {np.float64: 1}[double] == 1
        assert np.zeros(2, np.float32).dtype == np.float32 != np.float64
        assert np.int64(x[1]) == 1
        assert type(np.int64(x[1])) == np.int64  # noqa: E721
        assert bool(x[1])
        assert np.float32(x[0]).dtype == np.float32
        return np.array([np.float64(x[0]), double(x)[1], np.float32(x[2]) * 1.0, x[0] * np.int32(x[2])])

    check(f, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 0]])


LISTS = {
    "flat": lambda x: array([x[0], 2.0 * x[1], 1.0]),
    "nested": lambda x: np.array([[x[0], 1], [x[1] * x[2], 2.5]]).ravel(),
    "rows": lambda x: np.array([x, x[::-1], [1.0, 2.0, 3.0]])[:, :2].ravel(),
    "tuples": lambda x: np.asarray(((x[0], x[1]), (0.0, x[2]))).T.ravel(),
    "arrays and lists": lambda x: np.array([x * 2.0, [x[0], 0.0, 1.0]]).ravel(),
    "number": lambda x: np.array(x[1]).reshape(1),
    "asarray is an alias": lambda x: _written(np.asarray, x),
    "array is a copy": lambda x: _written(np.array, x),
    "full": lambda x: np.full((2, 2), x[1]).ravel(),
    "order": lambda x: np.array([[x[0], x[1]], [x[2], 1.0]], order="F").ravel("K"),
    "ndmin": lambda x: np.array([x[0], x[1]], ndmin=2)[0],
    "fromiter": lambda x: np.fromiter((v * v for v in x), x.dtype),
    "list comprehension": lambda x: np.array([v**2 for v in x]),
    "map": lambda x: np.array(list(map(np.sin, x))),
    "full_like": lambda x: np.full_like(np.zeros(2, x.dtype), x[1]),
}


def test_a_range_with_dual_ends():
    check(lambda x: np.arange(x[0], 5.0, x[1]), [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 2.0, 0.0]])


def _written(make, x):
    y = x * 1.0
    z = make(y)
    z[0] = x[1] * x[2]
    return y + z


@pytest.mark.parametrize("name", LISTS)
def test_arrays_of_duals(name):
    f = LISTS[name]
    value, jacobian = ndual.jvp(f, (X,), (X,))[0], slopes(f)
    np.testing.assert_allclose(value, np.real(f(X)), rtol=1e-15)
    check(f, jacobian)


def test_types_of_lists():
    def f(x):
        assert np.array([np.float32(1.0), x[0]]).dtype == np.float32
        assert np.array([1.0, x[0]]).dtype == np.float64
        assert np.array([x, x]).dtype == np.float32
        assert np.array([x[0], 1j]).dtype == np.complex128
        assert np.array([x[1], 2.0], dtype=int).tolist() == [1, 2]
        assert type(np.array([x[1]], dtype=int)) is np.ndarray
        assert np.array([x[0]], np.float16).dtype == np.float16
        return np.sum(np.array([x[0], x[1]], np.float32))

    assert ndual.grad(f)(X.astype(np.float32)).tolist() == [1.0, 1.0, 0.0]


def test_ragged_lists_raise_as_in_numpy():
    for rows in (lambda x: [[x[0]], [x[1], x[2]]], lambda x: [x[0], [x[1]]], lambda x: [x, x[:2]]):
        with pytest.raises(ValueError, match="inhomogeneous"):
            ndual.jacobian(lambda x, rows=rows: np.array(rows(x)))(X)


def test_passes_in_which_nothing_moves():
    """One lane a pass: what depends on the others alone is a plain number there."""
    for f in (lambda x: math.exp(x[0]), lambda x: math.exp(x[2]), lambda x: np.array([x[1]])[0] + 0.0):
        for width in (1, 2, 3):
            value, gradient = ndual.value_and_grad(f, chunk_size=width)(X)
            assert value == f(X)
            assert np.count_nonzero(gradient) == 1


# ---- math and cmath ----------------------------------------------------------------------------------------------


def test_math():
    check(lambda x: math.sin(x[0]) * exp(x[1]), np.array([np.cos(0.6), np.sin(0.6), 0.0]) * np.exp(1.7))
    check(lambda x: math.log(x[1], x[2]), [0, 1 / (1.7 * np.log(2.3)), -np.log(1.7) / (2.3 * np.log(2.3) ** 2)])
    check(lambda x: distance(*x), X / np.sqrt(X @ X))
    check(lambda x: math.fsum(v * v for v in x), 2 * X)
    check(lambda x: math.prod(x), np.prod(X) / X)
    check(lambda x: math.pow(x[0], x[1]), 0.6**1.7 * np.array([1.7 / 0.6, np.log(0.6), 0.0]))
    check(lambda x: math.floor(x[2]) * x[0] + math.modf(x[1])[0], [2.0, 1.0, 0.0])
    check(lambda x: cmath.exp(1j * x[0]).real, [-np.sin(0.6), 0.0, 0.0])
    check(lambda x: sum(map(math.sqrt, x)), 0.5 / np.sqrt(X))


def test_math_gives_its_own_values_and_errors():
    for name in ("sin", "exp", "log", "tanh", "gamma", "erf", "atan"):
        function = getattr(math, name)
        assert ndual.jvp(lambda x, name=name: getattr(math, name)(x), (0.7,), (1.0,))[0] == function(0.7)
    for bad, error in ((lambda x: math.sqrt(-x), ValueError), (lambda x: math.exp(x * 1e4), OverflowError)):
        with pytest.raises(error):
            ndual.derivative(bad)(0.7)
    with pytest.raises(TypeError, match="length-1"):
        ndual.grad(lambda x: math.sin(x))(X)


# ---- constants that the caller passes ------------------------------------------------------------------------------


def test_a_constant_argument_may_be_written_into():
    def f(x, work, scale):
        helper(work, x)
        work[2] = 4.0
        return work * scale[0]

    def helper(work, x):
        work[:2] = x[:2] ** 2

    work, scale = np.array([1.0, 2.0, 3.0]), np.array([2.0])
    for width in (1, 2, 3):
        got = ndual.jacobian(f, chunk_size=width)(X, work, scale)
        np.testing.assert_allclose(got, np.diag([4 * X[0], 4 * X[1], 0.0]))
        assert work.tolist() == [1.0, 2.0, 3.0]
    prepared = ndual.prepare_jacobian(f, X, work, scale)
    for _ in range(2):
        value, got = prepared(X, work, scale)
        np.testing.assert_allclose(got, np.diag([4 * X[0], 4 * X[1], 0.0]))
        assert value[2] == 8.0
        assert work.tolist() == [1.0, 2.0, 3.0]


def test_a_constant_argument_keeps_what_it_was_when_numbers_are_written():
    def f(x, work):
        work += 1.0
        np.put(work, [0], 5.0)
        return np.sum(work) * x[0]

    work = np.zeros(3)
    for width in (1, 3):
        assert ndual.grad(f, chunk_size=width)(X, work).tolist() == [7.0, 0.0, 0.0]
        assert work.tolist() == [0.0] * 3
