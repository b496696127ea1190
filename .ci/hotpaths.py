"""The hot paths whose work is counted or watched: five short workloads on fixed inputs.

Used by ``counts.py`` (instructions) and ``sanitize.py`` (memory errors and leaks); nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ndual


def logistic(x: Any) -> Any:
    """Loop over scalars in Python."""
    a, y = x[0], x[1]
    for _ in range(100):
        y = a * y * (1.0 - y) + x[2]
    return y


def small(x: Any) -> Any:
    """Work on ten elements, with a write into a fresh array."""
    out = np.zeros_like(x)
    out[1:] = np.exp(x[:-1]) * x[1:]
    return np.sum(out * x)


def elementwise(x: Any) -> Any:
    """Spend the time in the kernels, at a thousand elements."""
    return np.sum(np.sin(x) * np.exp(-x) + np.tanh(x) / (1.0 + x * x))


def rosenbrock(x: Any) -> Any:
    """Slice and multiply with many lanes: the usual function."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def products(x: Any) -> Any:
    """Multiply matrices and solve with one."""
    a = np.outer(x, x) + 10.0 * np.eye(x.size)
    return x @ a @ np.linalg.solve(a, x)


def paths() -> dict[str, Callable[[], Any]]:
    """Return each hot path as a call on a prepared object."""
    line = np.linspace(0.1, 0.9, 1000)
    one = np.ones(1000)
    along = ndual.prepare_derivative(elementwise, line)
    scalars = ndual.prepare_gradient(logistic, np.array([3.5, 0.4, 0.001, 0.0]))
    gradients = {f: ndual.prepare_gradient(f, line[:n]) for f, n in ((small, 10), (rosenbrock, 100), (products, 16))}
    return {
        "scalar loop, 4 lanes": lambda: scalars(np.array([3.5, 0.4, 0.001, 0.0])),
        "small arrays, 10 lanes": lambda: gradients[small](line[:10]),
        "kernels, 1000 elements": lambda: along((line,), (one,)),
        "Rosenbrock gradient, 100": lambda: gradients[rosenbrock](line[:100]),
        "products and solve, 16": lambda: gradients[products](line[:16]),
    }
