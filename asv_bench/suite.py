"""Thirteen functions that frameworks for automatic differentiation are commonly timed on, as plain NumPy.

Names, sizes and meaning follow the inter-framework suite of Mooncake.jl, so that its published ratios can stand beside
these. Each :class:`Case` has its inputs from a fixed seed and a gradient written by hand, which is what a derivative is
checked against. No library for derivatives is imported here.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

LOW, HIGH = 0.1, 10.0
PRIOR_MEAN, PRIOR_SD = 1.0, 2.0
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


_MASS = _normal_cdf((HIGH - PRIOR_MEAN) / PRIOR_SD) - _normal_cdf((LOW - PRIOR_MEAN) / PRIOR_SD)
CONSTANT = 2.0 * (-math.log(PRIOR_SD) - HALF_LOG_2PI - math.log(_MASS)) + 2.0 * math.log(HIGH - LOW)


def sum_1000(x):
    """NumPy's sum."""
    return np.sum(x)


def _sum_1000(x):
    """A sum in a Python loop."""
    total = 0.0
    for i in range(len(x)):
        total = total + x[i]
    return total


def sum_sin_1000(x):
    """One transcendental function and a sum."""
    return np.sum(np.sin(x))


def _sum_sin_1000(x):
    """The same in a Python loop."""
    total = 0.0
    for i in range(len(x)):
        total = total + np.sin(x[i])
    return total


def kron_sum(x, y):
    """A Kronecker product of 640,000 entries, summed."""
    return np.sum(np.kron(x, y))


def kron_view_sum(x, y):
    """The same of a view and a triangle."""
    return np.sum(np.kron(x[:20, :20], np.triu(y)))


def naive_map_sin_cos_exp(x):
    """A chain of three functions, written element by element into a fresh array."""
    flat = x.ravel()
    out = np.empty_like(flat)
    for i in range(flat.size):
        out[i] = np.sin(np.cos(np.exp(flat[i])))
    return np.sum(out)


def map_sin_cos_exp(x):
    """The same chain on the whole array (a map and a broadcast are the same thing in NumPy)."""
    return np.sum(np.sin(np.cos(np.exp(x))))


def simple_mlp(w2, w1, y, x):
    """Squared error of a network with one hidden layer; everything active, the data too."""
    hidden = w1 @ x
    error = y - w2 @ (hidden * (hidden >= 0))
    return np.sum(error * error)


def gp_lml(x, y, s):
    """Log marginal likelihood of a Gaussian process with 128 points."""
    n = x.shape[0]
    squared = (x[:, None] - x[None, :]) ** 2
    factor = np.linalg.cholesky(np.exp(-0.5 * squared) + s * np.eye(n))
    white = solve_triangular(factor, y, lower=True)
    return -0.5 * np.dot(white, white) - np.sum(np.log(np.diag(factor))) - 0.5 * n * np.log(2 * np.pi)


def turing_broadcast_benchmark(u, data):
    """Posterior of a log-normal with truncated normal priors through a logistic bijection, 100,000 observations."""
    p = 1.0 / (1.0 + np.exp(-u))
    theta = LOW + (HIGH - LOW) * p
    mean, sd = theta[0], theta[1]
    prior = CONSTANT + np.sum(-0.5 * ((theta - PRIOR_MEAN) / PRIOR_SD) ** 2) + np.sum(np.log(p) + np.log(1.0 - p))
    logs = np.log(data)
    z = (logs - mean) / sd
    return prior + np.sum(-logs - np.log(sd) - HALF_LOG_2PI - 0.5 * z * z)


def large_single_block(x):
    """Four hundred products of scalars, one after the other."""
    y = x[0]
    a = x[1]
    for _ in range(400):
        y = y * a
    return y


def _by_hand_sum(x):
    return (np.ones_like(x),)


def _by_hand_sin(x):
    return (np.cos(x),)


def _by_hand_kron(x, y):
    return np.full_like(x, y.sum()), np.full_like(y, x.sum())


def _by_hand_kron_view(x, y):
    gx = np.zeros_like(x)
    gx[:20, :20] = np.triu(y).sum()
    return gx, np.triu(np.full_like(y, x[:20, :20].sum()))


def _by_hand_chain(x):
    e = np.exp(x)
    return (-np.cos(np.cos(e)) * np.sin(e) * e,)


def _by_hand_mlp(w2, w1, y, x):
    hidden = w1 @ x
    on = hidden >= 0
    twice = 2.0 * (y - w2 @ (hidden * on))
    back = -(w2.T @ twice) * on
    return -twice @ (hidden * on).T, back @ x.T, twice, w1.T @ back


def _by_hand_gp(x, y, s):
    n = x.shape[0]
    gap = x[:, None] - x[None, :]
    kernel = np.exp(-0.5 * gap * gap)
    inverse = np.linalg.inv(kernel + s * np.eye(n))
    alpha = inverse @ y
    by_kernel = 0.5 * (np.outer(alpha, alpha) - inverse)
    by_gap = -by_kernel * kernel * gap
    return by_gap.sum(1) - by_gap.sum(0), -alpha, np.trace(by_kernel)


def _by_hand_turing(u, data):
    p = 1.0 / (1.0 + np.exp(-u))
    theta = LOW + (HIGH - LOW) * p
    mean, sd = theta
    z = (np.log(data) - mean) / sd
    by_theta = -(theta - PRIOR_MEAN) / PRIOR_SD**2 + np.array([z.sum() / sd, (z @ z - z.size) / sd])
    return (by_theta * (HIGH - LOW) * p * (1.0 - p) + 1.0 - 2.0 * p,)


def _by_hand_product(x):
    return (np.array([x[1] ** 400, 400.0 * x[0] * x[1] ** 399]),)


@dataclass(frozen=True)
class Case:
    """One function with its hand-written gradient and the shapes of its active arguments (() is a scalar).

    `target` is what value and gradient in reverse mode may take, in times of the value alone.
    """

    name: str
    function: Callable[..., Any]
    by_hand: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    target: float

    def inputs(self) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """The active arguments, the passive ones and a direction; the same every time."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        active: tuple[Any, ...]
        if self.name == "gp_lml":
            x = 0.2 * np.arange(128.0)
            kernel = np.exp(-0.5 * (x[:, None] - x[None, :]) ** 2) + np.eye(128)
            active = (x, np.linalg.cholesky(kernel) @ rng.standard_normal(128), np.float64(1.0))
        elif self.name == "large_single_block":
            active = (np.array([0.9, 0.99]),)
        else:
            active = tuple(rng.standard_normal(shape) for shape in self.shapes)
        passive = (np.exp(1.5 + 0.5 * rng.standard_normal(100_000)),) if "turing" in self.name else ()
        direction = [
            rng.standard_normal(shape) if shape else np.float64(rng.standard_normal()) for shape in self.shapes
        ]
        return active, passive, tuple(direction)

    def reference(self) -> tuple[float, float]:
        """The value and the directional derivative at the inputs, from the hand-written gradient."""
        value, gradient = self.gradient()
        _, _, direction = self.inputs()
        return value, sum(float(np.sum(g * v)) for g, v in zip(gradient, direction, strict=True))

    def gradient(self) -> tuple[float, tuple[Any, ...]]:
        """The value and the hand-written gradient at the inputs, one part for each active argument."""
        active, passive, _ = self.inputs()
        return float(self.function(*active, *passive)), self.by_hand(*active, *passive)


CASES = {
    case.name: case
    for case in (
        Case("sum_1000", sum_1000, _by_hand_sum, ((1000,),), 0.6),
        Case("_sum_1000", _sum_1000, _by_hand_sum, ((1000,),), 0.8),
        Case("sum_sin_1000", sum_sin_1000, _by_hand_sin, ((1000,),), 0.6),
        Case("_sum_sin_1000", _sum_sin_1000, _by_hand_sin, ((1000,),), 1.6),
        Case("kron_sum", kron_sum, _by_hand_kron, ((20, 20), (40, 40)), 0.6),
        Case("kron_view_sum", kron_view_sum, _by_hand_kron_view, ((40, 30), (40, 40)), 0.6),
        Case("naive_map_sin_cos_exp", naive_map_sin_cos_exp, _by_hand_chain, ((10, 10),), 2.2),
        Case("map_sin_cos_exp", map_sin_cos_exp, _by_hand_chain, ((10, 10),), 0.7),
        Case("broadcast_sin_cos_exp", map_sin_cos_exp, _by_hand_chain, ((10, 10),), 0.7),
        Case("simple_mlp", simple_mlp, _by_hand_mlp, ((128, 256), (256, 128), (128, 70), (128, 70)), 2.8),
        Case("gp_lml", gp_lml, _by_hand_gp, ((128,), (128,), ()), 3.2),
        Case("turing_broadcast_benchmark", turing_broadcast_benchmark, _by_hand_turing, ((2,),), 1.3),
        Case("large_single_block", large_single_block, _by_hand_product, ((2,),), 0.9),
    )
}
