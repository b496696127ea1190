"""Whole problems for reverse mode, beside what one has for them in SciPy, by hand or from other libraries.

Each function is a context manager that yields contestants whose results were compared before. No peer is timed that
is not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.optimize import minimize, rosen, rosen_der, rosen_hess
from timing import Contestants

import ndual


def rosenbrock(x):
    """The usual function, on the whole array."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def cholesky_by_loops(a):
    """The log-determinant by Cholesky's factorisation in place, element by element."""
    a = a.copy()
    n = a.shape[0]
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                a[i, j] -= a[i, k] * a[j, k]
        d = np.sqrt(a[j, j])
        for i in range(j, n):
            a[i, j] /= d
    return 2 * sum(np.log(a[i, i]) for i in range(n))


def kalman_filter(p, seen):
    """The negative log-likelihood of a sum of two positions, each with its speed, by a loop that updates in place.

    The parameters: how the speeds last, how they drive each other, and the logarithms of two noises.
    """
    a = np.eye(4, dtype=np.asarray(p[:0]).dtype)
    a[0, 1] = a[2, 3] = 0.1
    a[1, 1], a[3, 3] = np.tanh(p[0]), np.tanh(p[1])
    a[1, 3], a[3, 1] = p[2], p[3]
    q = np.exp(2.0 * p[4]) * np.diag([0.0, 1.0, 0.0, 1.0])
    noise = np.exp(2.0 * p[5])
    h = np.array([1.0, 0.0, 1.0, 0.0])
    state, cover = np.zeros(4, a.dtype), np.eye(4, dtype=a.dtype)
    total = 0.0
    for y in seen:
        state[:] = a @ state
        cover[:] = a @ cover @ a.T
        cover += q
        across = cover @ h
        spread = h @ across + noise
        gap = y - h @ state
        total += 0.5 * (np.log(spread) + gap * gap / spread)
        gain = across / spread
        state += gain * gap
        cover -= np.outer(gain, across)
    return total


def kalman_data(steps: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and observations drawn near to them."""
    rng = np.random.default_rng(1960)
    p = np.array([2.0, 1.8, 0.05, -0.05, -1.0, -0.7])
    speeds = np.cumsum(rng.standard_normal((steps, 2)) * 0.3, 0)
    return p, 0.1 * np.cumsum(speeds, 0).sum(1) + 0.5 * rng.standard_normal(steps)


def kalman_by_complex_steps(p: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The gradient to rounding."""
    steps = p + 1e-30j * np.eye(p.size)
    return np.array([kalman_filter(step, seen).imag / 1e-30 for step in steps])


@contextmanager
def gradient_of_kalman_filter(peers: bool) -> Iterator[Contestants]:
    """Value and all six derivatives in both modes, beside the value alone."""
    p, seen = kalman_data()
    want = kalman_by_complex_steps(p, seen)
    calls: Contestants = {"plain": lambda: kalman_filter(p, seen)}
    for mode in ("forward", "reverse"):
        gradient = ndual.prepare_gradient(lambda p: kalman_filter(p, seen), p, mode=mode)
        assert np.allclose(gradient(p)[1], want, rtol=1e-9), f"{mode} gives another gradient"
        calls[mode] = lambda gradient=gradient: gradient(p)
    yield calls


def logistic(w, X, s):
    """The negative log-likelihood of labels of plus and minus one."""
    return np.sum(np.logaddexp(0, -s * (X @ w)))


def logistic_data(rows: int = 10_000, columns: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, a design matrix and labels of plus and minus one."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((rows, columns))
    truth = rng.standard_normal(columns) / np.sqrt(columns)
    s = np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1.0, -1.0)
    return 0.5 * truth, X, s


def logistic_hessian(w: np.ndarray, X: np.ndarray, s: np.ndarray) -> np.ndarray:
    """As one would write it in NumPy."""
    p = 1.0 / (1.0 + np.exp(s * (X @ w)))
    return X.T @ ((p * (1.0 - p))[:, None] * X)


def _peer(name: str) -> Any:
    """A module of a library that may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _autograd_hessian(make: Callable[[Any], Callable[[Any], Any]], x: np.ndarray) -> Callable[[], Any] | None:
    """The Hessian by autograd of a function that takes its namespace from ``make(numpy)``."""
    autograd = _peer("autograd")
    if autograd is None:
        return None
    evaluate = autograd.hessian(make(importlib.import_module("autograd.numpy")))
    return lambda: evaluate(x)


def _agreed(want: np.ndarray, hessians: dict[str, Callable[[], Any] | None]) -> Contestants:
    """Those that are there; all of them must give the same matrix."""
    found: Contestants = {}
    for name, call in hessians.items():
        if call is not None:
            assert np.allclose(call(), want, rtol=1e-8, atol=1e-8), f"{name} gives another Hessian"
            found[name] = call
    return found


@contextmanager
def reverse_rosenbrock(peers: bool) -> Iterator[Contestants]:
    """Value and gradient, of the function as it is written here and of SciPy's own, beside SciPy's value."""
    x = np.linspace(-1.0, 1.0, 1000)
    calls = {
        "ndual": ndual.prepare_gradient(rosenbrock, x, mode="reverse"),
        "ndual of rosen": ndual.prepare_gradient(rosen, x, mode="reverse"),
    }
    jax = _peer("rewritten_jax") if peers else None
    if jax is not None:
        calls["jax.jit*"] = jax.gradient(jax.rosenbrock, x)
    contestants: Contestants = {"rosen": lambda: rosen(x), "rosen_der": lambda: rosen_der(x)}
    for name, call in calls.items():
        assert np.allclose(call(x)[1], rosen_der(x), rtol=1e-10), f"{name} gives another gradient"
        contestants[name] = lambda call=call: call(x)
    yield contestants


@contextmanager
def minimize_rosenbrock(peers: bool) -> Iterator[Contestants]:
    """From a start at which all take the same 51 evaluations; a prepared object is what ``jac=True`` asks for."""
    start = np.linspace(0.5, 1.5, 1000)
    gradient = ndual.prepare_gradient(rosenbrock, start, mode="reverse")
    ways: dict[str, Callable[[], Any]] = {
        "rosen_der": lambda: minimize(rosen, start, jac=rosen_der, method="L-BFGS-B"),
        "ndual": lambda: minimize(gradient, start, jac=True, method="L-BFGS-B"),
    }
    jax = _peer("rewritten_jax") if peers else None
    if jax is not None:
        compiled = jax.gradient(jax.rosenbrock, start)
        ways["jax.jit*"] = lambda: minimize(compiled, start, jac=True, method="L-BFGS-B")
    results = {name: way() for name, way in ways.items()}
    for name, found in results.items():
        assert found.success, f"{name}: {found.message}"
        assert np.allclose(found.x, 1.0, atol=1e-3), f"{name} ends elsewhere"
    assert len({found.nfev for found in results.values()}) == 1, "other evaluations, so times do not compare"
    yield dict(ways)


@contextmanager
def hessian_of_rosenbrock(peers: bool) -> Iterator[Contestants]:
    """Value, gradient and Hessian at n = 100, beside SciPy's Hessian by hand."""
    x = np.linspace(-1.0, 1.0, 100)
    prepared = ndual.prepare_hessian(rosenbrock, x, mode="reverse")
    hessians: dict[str, Callable[[], Any] | None] = {
        "rosen_hess": lambda: rosen_hess(x),
        "ndual": lambda: prepared(x)[2],
    }
    if peers:
        hessians["autograd"] = _autograd_hessian(
            lambda anp: lambda x: anp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2), x
        )
        jax = _peer("rewritten_jax")
        hessians["jax.jit*"] = jax and jax.hessian(jax.rosenbrock, x)
    yield _agreed(rosen_hess(x), hessians)


@contextmanager
def hessian_of_logistic(peers: bool) -> Iterator[Contestants]:
    """The Hessian of a likelihood by 50 weights, beside NumPy by hand."""
    w, X, s = logistic_data()
    prepared = ndual.prepare_hessian(lambda w: logistic(w, X, s), w, mode="reverse")
    hessians: dict[str, Callable[[], Any] | None] = {
        "by hand": lambda: logistic_hessian(w, X, s),
        "ndual": lambda: prepared(w)[2],
    }
    if peers:
        hessians["autograd"] = _autograd_hessian(lambda anp: lambda w: anp.sum(anp.logaddexp(0, -s * anp.dot(X, w))), w)
        jax = _peer("rewritten_jax")
        hessians["jax.jit*"] = jax and jax.hessian(jax.logistic, w, X, s)
    yield _agreed(logistic_hessian(w, X, s), hessians)
