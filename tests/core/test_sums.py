"""Sums of doubles have NumPy's bits, whoever adds them up, and those of products are as good as their terms allow."""

import math

import numpy as np
import pytest

import ndual

SIZES = [*range(1, 40), 127, 128, 129, 136, 137, 255, 256, 257, 1000, 1003, 2047, 2048, 2049, 4099, 20_001]


def numbers(n, seed=0):
    rng = np.random.default_rng([n, seed])
    return rng.standard_normal(n) * 10.0 ** rng.integers(-9, 9, n)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_bits_of_sums(mode):
    for n in SIZES:
        x = numbers(n)
        value, gradient = ndual.value_and_grad(lambda x: np.sum(x), mode=mode, chunk_size=2 if n < 50 else None)(x[:50])
        assert value == np.sum(x[:50])
        assert np.array_equal(gradient, np.ones(min(n, 50)))
        value, tangent = ndual.jvp(lambda x: np.sum(x), (x,), (numbers(n, 1),))
        assert value == np.sum(x)
        assert tangent == np.sum(numbers(n, 1))


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
