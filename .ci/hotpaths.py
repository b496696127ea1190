"""The hot paths whose work is counted or watched: short workloads on fixed inputs, forward and reverse.

The thirteen functions of the benchmarks are among them in reverse. Used by ``counts.py`` (instructions) and
``sanitize.py`` (memory errors and leaks); nothing is measured here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ndual

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench"))
from suite import CASES

LINE, START = np.linspace(0.1, 0.9, 1000), np.array([3.5, 0.4, 0.001, 0.0])
Call = Callable[[], Any]


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


def stencil(x: Any) -> Any:
    """Write in place: steps of a diffusion."""
    u = x.copy()
    for _ in range(10):
        u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def marching(x: Any) -> Any:
    """Write element by element, reading what was written."""
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, x.size):
        y[i] = 0.5 * y[i - 1] + x[i]
    return np.sum(y * y)


def scattered(x: Any) -> Any:
    """Add to places that are met several times."""
    bins = np.zeros(x.size // 4)
    np.add.at(bins, np.arange(x.size) % bins.size, x * x)
    return np.sum(bins * bins)


def _gradient(function: Callable[..., Any], x: Any, mode: str) -> Call:
    prepared = ndual.prepare_gradient(function, x, mode=mode)
    return lambda: prepared(x)


def _along(function: Callable[..., Any], x: Any) -> Call:
    prepared, one = ndual.prepare_derivative(function, x), np.ones_like(x)
    return lambda: prepared((x,), (one,))


def _case(name: str) -> Call:
    active, passive, _ = CASES[name].inputs()
    args = (*active, *passive)
    prepared = ndual.prepare_gradient(CASES[name].function, *args, argnums=tuple(range(len(active))), mode="reverse")
    return lambda: prepared(*args)


def _hessian(function: Callable[..., Any], x: Any) -> Call:
    prepared = ndual.prepare_hessian(function, x, mode="reverse")
    return lambda: prepared(x)


def _pullback(function: Callable[..., Any], x: Any) -> Call:
    def call() -> Any:
        _, pullback = ndual.vjp(function, x)
        return pullback()

    return call


def paths() -> dict[str, Callable[[], Call]]:
    """Return what makes each hot path, a call on a prepared object: one that was not made is not in the way."""
    make = functools.partial
    forward = {
        "scalar loop, 4 lanes": make(_gradient, logistic, START, "forward"),
        "small arrays, 10 lanes": make(_gradient, small, LINE[:10], "forward"),
        "kernels, 1000 elements": make(_along, elementwise, LINE),
        "Rosenbrock gradient, 100": make(_gradient, rosenbrock, LINE[:100], "forward"),
        "products and solve, 16": make(_gradient, products, LINE[:16], "forward"),
    }
    reverse = {
        "scalar loop, 4": make(_gradient, logistic, START, "reverse"),
        "small arrays, 10": make(_gradient, small, LINE[:10], "reverse"),
        "kernels, 1000": make(_gradient, elementwise, LINE, "reverse"),
        "Rosenbrock gradient, 100": make(_gradient, rosenbrock, LINE[:100], "reverse"),
        "products and solve, 16": make(_gradient, products, LINE[:16], "reverse"),
        "stencil in place, 100": make(_gradient, stencil, LINE[:100], "reverse"),
        "marching writes, 100": make(_gradient, marching, LINE[:100], "reverse"),
        "np.add.at, 1000": make(_gradient, scattered, LINE, "reverse"),
        "vjp not prepared, 10": make(_pullback, small, LINE[:10]),
        "Hessian of Rosenbrock, 20": make(_hessian, rosenbrock, LINE[:20]),
        **{name: make(_case, name) for name in CASES},
    }
    return forward | {f"reverse: {name}": one for name, one in reverse.items()}
