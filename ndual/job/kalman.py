"""The log-likelihood of a linear-Gaussian state-space model by the Kalman filter, as plain NumPy.

The model and data made from a fixed seed, at any state size; nothing in here knows that derivatives exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def _log_determinant(s: Any) -> Any:
    return np.linalg.slogdet(s)[1]


@dataclass(frozen=True, eq=False)
class Kalman:
    """Observations ``(steps, m)`` of a hidden state of size n >= 2, seen through the fixed matrix `h` ``(m, n)``.

    The 3n parameters are: n persistences (through tanh), n couplings to the next state in a ring, and n log standard
    deviations of the process noise. Measurement noise has the standard deviation 0.5.
    """

    h: np.ndarray
    seen: np.ndarray

    def __call__(self, p: Any, log_determinant: Callable[[Any], Any] = _log_determinant) -> Any:
        """Return the negative log-likelihood at the parameters `p`, without its constant."""
        h = self.h
        m, n = h.shape
        a = np.diag(np.tanh(p[:n])) + np.diag(p[n : 2 * n - 1], 1)
        a[n - 1, 0] = p[2 * n - 1]
        q = np.diag(np.exp(2.0 * p[2 * n :]))
        noise = 0.25 * np.eye(m)
        state = np.zeros(n)
        cover = np.eye(n)
        total = 0.0
        for y in self.seen:
            state = a @ state
            cover = a @ cover @ a.T + q
            gap = y - h @ state
            across = cover @ h.T
            spread = h @ across + noise
            gain = np.linalg.solve(spread, across.T).T
            total = total + 0.5 * (log_determinant(spread) + gap @ np.linalg.solve(spread, gap))
            state = state + gain @ gap
            cover = cover - gain @ across.T
        return total


def example(n: int, steps: int = 60) -> tuple[Kalman, np.ndarray]:
    """Make a model of state size n with observations drawn from it, and a point to differentiate at.

    Examples
    --------
    >>> model, p = example(4)
    >>> model.seen.shape, p.shape
    ((60, 2), (12,))
    """
    rng = np.random.default_rng(1960 + n)
    m = max(1, n // 2)
    h = rng.standard_normal((m, n)) / np.sqrt(n)
    p = np.concatenate([np.full(n, 0.7), np.full(n, 0.05), np.full(n, -0.5)]) + 0.05 * rng.standard_normal(3 * n)
    a = np.diag(np.tanh(p[:n])) + np.diag(p[n : 2 * n - 1], 1)
    a[n - 1, 0] = p[2 * n - 1]
    state = np.zeros(n)
    seen = np.empty((steps, m))
    for step in range(steps):
        state = a @ state + np.exp(p[2 * n :]) * rng.standard_normal(n)
        seen[step] = h @ state + 0.5 * rng.standard_normal(m)
    return Kalman(h, seen), p


def complex_step(model: Kalman, p: np.ndarray) -> np.ndarray:
    """Return the gradient by the complex step, exact to rounding: what both columns of the report are compared with."""
    gradient = np.empty(p.size)
    for k in range(p.size):
        shifted = p.astype(complex)
        shifted[k] += 1e-30j
        gradient[k] = model(shifted, lambda s: np.log(np.linalg.det(s))).imag / 1e-30
    return gradient
