"""Sums of doubles have NumPy's bits, whoever adds them up, and those of products are as good as their terms allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndual

SIZES = [*range(1, 40), 127, 128, 129, 136, 137, 255, 256, 257, 1000, 1003, 2047, 2048, 2049, 4099, 20_001]
DTYPES = [np.float32, np.float64]


def numbers(n, seed=0):
    rng = np.random.default_rng([n, seed])
    return rng.standard_normal(n) * 10.0 ** rng.integers(-9, 9, n)


def test_the_kernel_adds_up():
    """With the versions of NumPy whose order it has; with others NumPy's own loop does."""
    if np.lib.NumpyVersion(np.__version__) >= "2.6.0":
        pytest.skip("an order that is not known here")
    assert ndual._core._dual.adds_up()


def test_kernel_of_sums(kernels):
    for n in SIZES:
        x = numbers(n)
        assert np.float64(0.0) + kernels.cells(np.float64).sum(x.ctypes.data, n) == np.sum(x)
        narrow = x.astype(np.float32)
        wide = np.sum(narrow.astype(float))
        assert kernels.cells(np.float32).sum(narrow.ctypes.data, n) == wide


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel_of_products(kernels, dtype):
    for n in SIZES:
        a, b = numbers(n, 1).astype(dtype), np.random.default_rng(n).standard_normal(n).astype(dtype)
        products = a.astype(float) * b
        got = kernels.cells(dtype).dot(a.ctypes.data, b.ctypes.data, n)
        assert got == pytest.approx(math.fsum(products), rel=0, abs=1e-14 * math.fsum(np.abs(products)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("into", ["fresh", "from", "beside"])
def test_kernel_of_affine_cells(kernels, dtype, into):
    for n in SIZES:
        a, b = np.random.default_rng(n).standard_normal((2, n)).astype(dtype)
        room = np.full(n + 2, 7.0, dtype)
        number, f, g = dtype(0.25), dtype(-1.5), dtype(3.0)
        for beside in (None, b):
            want = number + (f * a if beside is None else f * a + g * b)
            room[1:-1] = {"fresh": 0.0, "from": a, "beside": b}[into]
            to = room[1:-1].ctypes.data
            source = to if into == "from" else a.ctypes.data
            other = None if beside is None else to if into == "beside" else b.ctypes.data
            kernels.cells(dtype).affine(n, to, number, f, source, g, other)
            np.testing.assert_array_equal(room[1:-1], want)
        kernels.cells(dtype).affine(n, room[1:-1].ctypes.data, 0.125, 0.0, None, 0.0, None)
        np.testing.assert_array_equal(room, np.r_[7.0, np.full(n, 0.125), 7.0])


def test_bits_of_sums():
    for n in SIZES:
        x, v = numbers(n), numbers(n, 1)
        value, gradient = ndual.value_and_grad(lambda x: np.sum(x), mode="reverse")(x)
        assert value == np.sum(x)
        assert np.array_equal(gradient, np.ones(n))
        value, tangent = ndual.jvp(lambda x: np.sum(x), (x,), (v,))
        assert value == np.sum(x)
        assert tangent == np.sum(v)


@pytest.mark.parametrize("n", [1, 7, 8, 200])
def test_sums_of_negative_zeros(n):
    x = np.full(n, -0.0)
    value, tangent = ndual.jvp(lambda x: np.sum(x), (x,), (x,))
    assert np.signbit(value) == np.signbit(np.sum(x))
    assert np.signbit(tangent) == np.signbit(np.sum(x))


def test_no_numbers():
    value, gradient = ndual.value_and_grad(lambda x: np.sum(x))(np.empty(0))
    assert value == 0
    assert gradient.shape == (0,)


@pytest.mark.parametrize("n", [5, 15, 16, 17, 33, 2048, 2049, 2080, 10_007])
def test_sums_of_products(n):
    """The partial of a factor that is one number is a sum of products, taken back from a cotangent of many cells."""
    x, c = np.random.default_rng(n).standard_normal((2, n))
    factor = ndual.grad(lambda a, x: np.sum(c * (a * x)), mode="reverse")(np.float64(0.5), x)
    assert factor == pytest.approx(math.fsum(c * x), rel=1e-13, abs=1e-13 * math.fsum(np.abs(c * x)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [3, 64, 65, 1030])
def test_multiples_and_their_sums(n, dtype):
    """Shadows as a number, a number times cells, and a sum of two such, spelt out for the caller."""
    x, y = np.random.default_rng(n).standard_normal((2, n)).astype(dtype)
    plain = ndual.grad(lambda x: 3 * np.sum(x), mode="reverse")(x)
    assert np.array_equal(plain, np.full(n, 3, dtype))
    once = ndual.grad(lambda x: 2 * np.sum(x * y), mode="reverse")(x)
    assert np.array_equal(once, 2 * y)
    both = ndual.grad(lambda x: 2 * np.sum(x * y) + np.sum(x) * 3 + 4 * np.sum(x * x), mode="reverse")(x)
    np.testing.assert_allclose(both, 2 * y + 3 + 8 * x, rtol=0, atol=1e-5 if dtype == "f4" else 1e-13)
    assert both.dtype == dtype
