"""What forward mode does with the lanes of two operands: windows that meet, overlap or lie apart."""

import itertools

import numpy as np
import pytest

from ndual._core import forward

PLACES = [(low, count) for low in range(5) for count in range(1, 4)]


@pytest.mark.parametrize(("a", "b"), itertools.product(PLACES, PLACES))
def test_sum_of_two_windows(a, b):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((count, 3)) for _, count in (a, b))
    low, high = min(a[0], b[0]), max(a[0] + a[1], b[0] + b[1])
    want = np.zeros((high - low, 3))
    want[a[0] - low : a[0] - low + a[1]] += x
    want[b[0] - low : b[0] - low + b[1]] += y
    np.testing.assert_array_equal(forward.add(np, x, a[0], y, b[0]), want)


def test_sum_of_two_windows_of_two_types():
    got = forward.add(np, np.ones((1, 2), np.float32), 0, np.full((1, 2), 0.1), 2)
    np.testing.assert_array_equal(got, [[1.0, 1.0], [0.0, 0.0], [0.1, 0.1]])
    assert got.dtype == np.float64
