"""What is a view and what a copy in reverse mode: parts of complex numbers, reshapes in either order, at two levels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ndual

MODES = ["forward", "reverse"]


@pytest.mark.parametrize("mode", MODES)
def test_parts_of_complex_numbers(mode):
    x = np.array([3.0, 2.0])
    assert ndual.grad(lambda p: (p[0] + 1j * p[1]).imag ** 2, mode=mode)(x).tolist() == [0.0, 4.0]
    assert ndual.grad(lambda p: (p[0] + 1j * p[1]).real ** 2, mode=mode)(x).tolist() == [6.0, 0.0]

    def written(p):
        z = p + 0j
        z.imag[...] = p * p
        z.real[0] = 7.0
        return np.sum(z.real) + 2 * np.sum(z.imag)

    assert ndual.grad(written, mode=mode)(x).tolist() == [12.0, 9.0]


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray, lambda a: np.asfortranarray(a)[::-1]])
def test_reshapes_in_either_order(order, make):
    """The cotangent of a cell is the weight of the place to which NumPy takes it, be it by a view or by a copy."""
    x = make(np.arange(12.0).reshape(3, 4))
    w = np.arange(1.0, 13.0)
    want = np.empty((3, 4))
    for cell in np.ndindex(3, 4):
        unit = make(np.zeros((3, 4)))
        unit[cell] = 1.0
        want[cell] = w @ unit.reshape(-1, order=order)

    def f(x):
        return np.sum(x.reshape(-1, order=order) * w)

    def cubed(x):
        return np.sum(x.reshape(-1, order=order) ** 3 * w)

    for mode in MODES:
        np.testing.assert_array_equal(ndual.grad(f, mode=mode)(x), want)
    for inner, outer in itertools.product(MODES, repeat=2):
        second = ndual.grad(lambda x, inner=inner: np.sum(ndual.grad(cubed, mode=inner)(x)), mode=outer)(x)
        np.testing.assert_allclose(second, 6 * x * want, rtol=1e-14)


@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("order", ["C", "F"])
def test_writes_into_reshaped_arrays(order, make):
    """They reach the array exactly if NumPy's reshape is a view, at every level."""
    x = make(np.arange(1.0, 7.0).reshape(2, 3))

    def f(x):
        y = x * 1.0
        y.reshape(-1, order=order)[1:3] = 9.0
        return np.sum(y**3)

    plain = x * 1.0
    plain.reshape(-1, order=order)[1:3] = 9.0
    for mode in MODES:
        np.testing.assert_allclose(ndual.grad(f, mode=mode)(x), np.where(plain == x, 3 * x**2, 0.0))
    for inner, outer in itertools.product(MODES, repeat=2):
        second = ndual.grad(lambda x, inner=inner: np.sum(ndual.grad(f, mode=inner)(x)), mode=outer)(x)
        np.testing.assert_allclose(second, np.where(plain == x, 6 * x, 0.0))


def test_each_row_of_a_jacobian_has_memory_of_its_own():
    for mode in MODES:
        got = ndual.jacobian(lambda x: x / np.sqrt(np.sum(x**2) + 1e-30), mode=mode)(np.zeros(3))
        np.testing.assert_allclose(got, 1e15 * np.eye(3))


def test_zero_times_infinity_in_a_product_of_windows():
    """Windows of one array as a factor: a zero cotangent annihilates the infinity of the other one."""
    B = np.array([[np.inf, 1.0], [2.0, 3.0]])
    w = np.array([[0.0, 1.0], [0.0, 1.0]])

    def f(x):
        return np.sum(np.lib.stride_tricks.sliding_window_view(x, 2) @ B * w)

    for mode in MODES:
        np.testing.assert_array_equal(ndual.grad(f, mode=mode)(np.ones(3)), [1.0, 4.0, 3.0])
