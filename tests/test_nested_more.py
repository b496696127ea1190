"""More of derivatives of derivatives: sweeps in chunks, numbers as arrays, constants of either level."""

from __future__ import annotations

import numpy as np
import pytest

import ndual

grad, jacobian = ndual.grad, ndual.jacobian


@pytest.mark.parametrize("chunk", [None, 1, 2, 3])
def test_inner_passes_in_which_nothing_moves(chunk):
    """The rows of a chunked sweep that are duals of an outer derivative keep their places."""
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    one = np.ones(2)

    def tangent(f, operator):
        return ndual.jvp(lambda x, y: operator(f, (0, 1), chunk_size=chunk)(x, y), (x, y), (one, one))[1]

    for f, expected in [
        (lambda x, y: y[0] ** 3, ([0.0, 0.0], [18.0, 0.0])),
        (lambda x, y: x[0] ** 3, ([6.0, 0.0], [0.0, 0.0])),
        (lambda x, y: y[1] ** 3, ([0.0, 0.0], [0.0, 24.0])),
    ]:
        np.testing.assert_allclose(tangent(f, grad), expected)
        np.testing.assert_allclose([tangent(lambda x, y, f=f: [f(x, y)], jacobian)[0]], [expected])
    zero, two = np.zeros((2, 2)), 2 * np.eye(2)
    np.testing.assert_allclose(tangent(lambda x, y: y**2, jacobian), (zero, two))
    np.testing.assert_allclose(tangent(lambda x, y: (y**2, x**2), jacobian), ((zero, two), (two, zero)))


ARRAYS_OF_NUMBERS = {
    "ravel": lambda p: p.ravel(),
    "new axis": lambda p: p[None],
    "ellipsis": lambda p: p[...],
    "reshape": lambda p: p.reshape(1),
    "np.ravel": np.ravel,
    "np.reshape": lambda p: np.reshape(p, (1, 1)),
    "atleast_1d": np.atleast_1d,
    "atleast_2d": np.atleast_2d,
    "expand_dims": lambda p: np.expand_dims(p, 0),
    "asarray": lambda p: np.asarray(p),
}


@pytest.mark.parametrize("name", ARRAYS_OF_NUMBERS)
def test_a_number_does_not_change_under_the_arrays_made_of_it(name):
    def f(x):
        p = np.sum(x)
        q = ARRAYS_OF_NUMBERS[name](p)
        q[...] = 7.0 * x[0]
        return p * p + np.sum(q) * x[0]

    x, v = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    value, gradient, product = ndual.hvp(f, (x,), (v,))
    np.testing.assert_allclose(value, 16.0)
    np.testing.assert_allclose(gradient, [20.0, 6.0])
    np.testing.assert_allclose(product, [14.0, 0.0])


@pytest.mark.parametrize("argnums", [(0,), (1,), (0, 1)])
def test_constants_of_an_inner_derivative_in_arrays_of_the_outer(argnums):
    """An array argument without lanes is a plain constant, whatever level it came in at."""
    d = np.array([0.3, 0.4])

    def inner(x, p, d):
        q = np.ravel(p - np.arange(2))
        q *= d
        q[1:] -= d[:1]
        np.add(q, d, out=q)
        return np.sum(q) * np.sum(x)

    x = np.array([0.5, 0.7])
    product = ndual.jvp(lambda x, p: grad(inner, argnums)(x, p, d), (x, 0.6), (np.ones(2), 2.0))[1]
    expected = ([1.4, 1.4], 1.4)  # the sum of q is 0.7 p and a constant
    for found, k in zip(product, argnums, strict=True):
        np.testing.assert_allclose(found, expected[k], atol=1e-15)
