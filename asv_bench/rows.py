"""The rows beside the suite: scalars, small arrays, the price of a call, Rosenbrock's gradient, a Jacobian of sines; in
reverse mode the problems of ``problems``.

A row gives contestants, the first of which is what the others are divided by, in a context in which they can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from problems import (
    gradient_of_kalman_filter,
    hessian_of_logistic,
    hessian_of_rosenbrock,
    minimize_rosenbrock,
    reverse_rosenbrock,
    rosenbrock,
)
from scipy.optimize import approx_fprime, rosen_der
from timing import Contestants, Statement

import ndual
from ndual import _core


@dataclass(frozen=True)
class Row:
    """A name, what makes the contestants, a remark for the reader, and what is aimed at.

    A target ``(a, b, limit)`` says that a may take at most `limit` times what b takes.
    """

    name: str
    contestants: Callable[[bool], Any]  # a context manager that yields Contestants; the flag asks for peers
    remark: str = ""
    mode: str = "forward"
    targets: tuple[tuple[str, str, float], ...] = ()


def _scalar(text: str, unrolled: int) -> Callable[[bool], Any]:
    @contextmanager
    def contestants(peers: bool) -> Iterator[Contestants]:
        level = _core.Level(8)
        with level:
            a, b = (_core.dual(value, np.linspace(0.1, 0.8, 8), level) for value in (1.1, 0.9))
            yield {"float": Statement(text, unrolled, a=1.1, b=0.9), "ndual": Statement(text, unrolled, a=a, b=b)}

    return contestants


def _array(text: str, n: int) -> Callable[[bool], Any]:
    @contextmanager
    def contestants(peers: bool) -> Iterator[Contestants]:
        rng = np.random.default_rng(n)
        plain = {name: rng.standard_normal(n) for name in "xy"}
        level = _core.Level(4)
        with level:
            # Copies lie where the intermediates of a program do: in the pool, on cache lines of their own.
            duals = {
                name: _core.dual(value, rng.standard_normal((4, n)), level).copy() for name, value in plain.items()
            }
            yield {
                "numpy": Statement(text, 5, sin=np.sin, **plain),
                "ndual": Statement(text, 5, sin=np.sin, **duals),
            }

    return contestants


@contextmanager
def _rosenbrock(peers: bool) -> Iterator[Contestants]:
    x = np.linspace(-1.0, 1.0, 100)
    gradient = ndual.prepare_gradient(rosenbrock, x, mode="forward")
    assert np.allclose(gradient(x)[1], rosen_der(x), rtol=1e-12)
    yield {
        "rosen_der": lambda: rosen_der(x),
        "ndual": lambda: gradient(x),
        "2-point": lambda: approx_fprime(x, rosenbrock),
    }


TIMES = np.linspace(0.0, 10.0, 2000)
_TRUTH = np.concatenate([np.linspace(1.0, 2.0, 10), np.linspace(0.5, 5.0, 10)])


def residual_of(xp: Any) -> Callable[[Any], Any]:
    """Ten amplitudes and ten frequencies against 2000 observations, in the array namespace `xp`."""
    seen = _TRUTH[:10] @ np.sin(np.outer(_TRUTH[10:], TIMES)) + 0.01 * np.cos(37.0 * TIMES)

    def residual(p: Any) -> Any:
        a, w = p[:10], p[10:]
        return a @ xp.sin(xp.outer(w, TIMES)) - seen

    return residual


def sines_by_hand(p: np.ndarray) -> np.ndarray:
    """The Jacobian of the residual, as one would write it in NumPy."""
    angle = np.outer(p[10:], TIMES)
    jacobian = np.empty((20, TIMES.size))
    np.sin(angle, out=jacobian[:10])
    np.multiply(p[:10, None] * TIMES, np.cos(angle), out=jacobian[10:])
    return jacobian.T


@contextmanager
def _sines(peers: bool) -> Iterator[Contestants]:
    p = _TRUTH * 1.01
    residual = residual_of(np)
    jacobian = ndual.prepare_jacobian(residual, p)
    assert np.allclose(jacobian(p)[1], sines_by_hand(p), rtol=1e-10, atol=1e-10)
    contestants: Contestants = {
        "by hand": lambda: sines_by_hand(p),
        "ndual": lambda: jacobian(p),
        "2-point": lambda: approx_fprime(p, residual),
    }
    if peers:
        try:
            from rewritten_jax import sines_jacobian
        except ImportError:
            pass
        else:
            compiled = sines_jacobian(residual_of, p)
            assert np.allclose(compiled(), sines_by_hand(p), rtol=1e-10, atol=1e-10)
            contestants["jax.jit*"] = compiled
    yield contestants


@contextmanager
def _unprepared(peers: bool) -> Iterator[Contestants]:
    x, v = np.linspace(0.0, 1.0, 10), np.ones(10)

    def function(x):
        return np.sum(np.sin(x))

    prepared = ndual.prepare_derivative(function, x)
    yield {"prepared": lambda: prepared((x,), (v,)), "ndual.jvp": lambda: ndual.jvp(function, (x,), (v,))}


ROWS = [
    *(
        Row(f"scalar {text}{how}", _scalar(text, unrolled), remark)
        for unrolled, how, remark in (
            (0, "", "8 lanes, as timeit has it"),
            (20, " unrolled", "20 in a row, local names"),
        )
        for text in ("a * b", "a + b", "a * 2.0")
    ),
    *(
        Row(f"array {text.replace('sin(', 'np.sin(')} n={n}", _array(text, n), "4 lanes against the plain call")
        for n in (10, 1000)
        for text in ("sin(x)", "x * y", "x[3]")
    ),
    Row("unprepared call", _unprepared, "what ndual.jvp adds to a prepared object"),
    Row("Rosenbrock gradient n=100", _rosenbrock, "against scipy.optimize.rosen_der"),
    Row("sum of sines Jacobian", _sines, "2000 x 20; against NumPy by hand"),
    Row(
        "Kalman filter 500 steps",
        gradient_of_kalman_filter,
        "4 states, 6 parameters: value and gradient against the value",
        "forward",
        (("forward", "plain", 5.0),),
    ),
    Row(
        "Rosenbrock reverse n=1000",
        reverse_rosenbrock,
        "value and gradient against the value alone",
        "reverse",
        (("ndual", "rosen", 2.0),),
    ),
    Row(
        "L-BFGS-B Rosenbrock n=1000",
        minimize_rosenbrock,
        "scipy.optimize.minimize end to end",
        "reverse",
        (("ndual", "rosen_der", 1.2), ("ndual", "jax.jit*", 1.0)),
    ),
    Row(
        "Hessian Rosenbrock n=100",
        hessian_of_rosenbrock,
        "against scipy.optimize.rosen_hess",
        "reverse",
        (("ndual", "rosen_hess", 3.5),),
    ),
    Row(
        "Hessian logistic 10000x50",
        hessian_of_logistic,
        "against NumPy by hand",
        "reverse",
        (("ndual", "jax.jit*", 1.0), ("ndual", "autograd", 0.2)),
    ),
]
