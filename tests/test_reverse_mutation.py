"""Writes in differentiated code: reverse mode agrees with forward mode, and both with extrapolated differences."""

import itertools

import numpy as np
import programs_in_place
import programs_that_write
import pytest
from programs_that_write import X

import ndual

FUNCTIONS = programs_that_write.FUNCTIONS | programs_in_place.FUNCTIONS


def differences(f, x):
    """The Jacobian by extrapolated central differences."""
    columns = []
    for i in range(len(x)):
        table = []
        for k in range(5):
            h = 0.001 / 2**k
            up, down = x.copy(), x.copy()
            up[i] += h
            down[i] -= h
            table.append((np.asarray(f(up)) - np.asarray(f(down))) / (2 * h))
        for order in range(1, 5):
            table = [(4**order * b - a) / (4**order - 1) for a, b in itertools.pairwise(table)]
        columns.append(table[0])
    return np.stack(columns, -1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_writes(name):
    f = FUNCTIONS[name]
    x = X.copy()
    value, gradient = ndual.value_and_grad(f, mode="reverse")(x)
    np.testing.assert_array_equal(x, X)
    forward = ndual.grad(f, mode="forward")(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_allclose(value, f(X.copy()), rtol=1e-14)
    np.testing.assert_allclose(gradient, forward, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, differences(f, X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("modes", [("forward", "reverse"), ("reverse", "reverse"), ("reverse", "forward")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_writes_inside_of_another_derivative(name, modes):
    f = FUNCTIONS[name]
    inner = ndual.grad(f, mode=modes[1])
    found = ndual.jacobian(inner, mode=modes[0])(X.copy())
    expected = differences(ndual.grad(f, mode="forward"), X)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
