"""How functions of sparse matrices are checked: both modes and second order, against differences of plain calls."""

from __future__ import annotations

import numpy as np

import ndual

H = 1e-3
N = 5
BANDS = np.eye(N) * 6 + np.diag(np.ones(N - 1), 1) + np.diag(np.ones(N - 1), -1)
CELLS = np.nonzero(BANDS)
X = BANDS[CELLS] + np.random.default_rng(0).normal(size=CELLS[0].size) / 5  # the cells of a matrix of three bands
Z = X + 0.3j * np.cos(np.arange(X.size))


def differences(f, x, t):
    """The slope along t, from six plain calls."""

    def at(k):
        return f(x + k * H * t)

    return (45 * (at(1) - at(-1)) - 9 * (at(2) - at(-2)) + (at(3) - at(-3))) / (60 * H)


def check(function, x, tolerance=1e-7, exact=True):
    """The value bit by bit, tangents, cotangents and second derivatives in two ways."""

    def f(x):
        return np.ravel(function(x))

    def size(x):
        return np.sum(np.real(w * f(x) * f(x)))

    def slope(x):
        return ndual.grad(size, mode="reverse")(x)

    plain = f(x)
    t = np.cos(np.arange(x.size)) + (1j * np.sin(np.arange(x.size)) if x.dtype.kind == "c" else 0)
    w = np.sin(1 + np.arange(plain.size))
    value, tangent = ndual.jvp(f, (x,), (t,))
    (np.testing.assert_array_equal if exact else np.testing.assert_allclose)(value, plain)
    assert value.dtype == tangent.dtype == plain.dtype
    np.testing.assert_allclose(tangent, differences(f, x, t), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        np.sum(np.real(np.conj(slope(x)) * t)), differences(size, x, t), rtol=10 * tolerance, atol=10 * tolerance
    )
    want = differences(slope, x, t)
    got, near = ndual.jvp(slope, (x,), (t,))[1], 100 * tolerance * np.abs(want).max(initial=1)
    np.testing.assert_allclose(got, want, rtol=100 * tolerance, atol=near)
    twice = ndual.jvp(lambda x: ndual.jvp(size, (x,), (t,))[1], (x,), (t,))[1]
    np.testing.assert_allclose(twice, np.sum(np.real(np.conj(want) * t)), rtol=100 * tolerance, atol=near)
