"""The thirteen functions rewritten for ``torch.func``: tensors in, float64, one thread. A peer, marked as rewritten."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import suite
import torch

torch.set_num_threads(1)


def _sum(x):
    return torch.sum(x)


def _loop_sum(x):
    total = 0.0
    for i in range(len(x)):
        total = total + x[i]
    return total


def _sum_sin(x):
    return torch.sum(torch.sin(x))


def _loop_sum_sin(x):
    total = 0.0
    for i in range(len(x)):
        total = total + torch.sin(x[i])
    return total


def _kron(x, y):
    return torch.sum(torch.kron(x, y))


def _kron_view(x, y):
    return torch.sum(torch.kron(x[:20, :20].contiguous(), torch.triu(y)))


def _naive_map(x):
    flat = x.ravel()
    return torch.sum(torch.stack([torch.sin(torch.cos(torch.exp(flat[i]))) for i in range(len(flat))]))


def _map(x):
    return torch.sum(torch.sin(torch.cos(torch.exp(x))))


def _mlp(w2, w1, y, x):
    error = y - w2 @ torch.relu(w1 @ x)
    return torch.sum(error * error)


def _gp(x, y, s):
    n = x.shape[0]
    squared = (x[:, None] - x[None, :]) ** 2
    factor = torch.linalg.cholesky(torch.exp(-0.5 * squared) + s * torch.eye(n, dtype=x.dtype))
    white = torch.linalg.solve_triangular(factor, y[:, None], upper=False)[:, 0]
    return -0.5 * torch.dot(white, white) - torch.sum(torch.log(torch.diag(factor))) - 0.5 * n * math.log(2 * math.pi)


def _turing(u, data):
    p = 1.0 / (1.0 + torch.exp(-u))
    theta = suite.LOW + (suite.HIGH - suite.LOW) * p
    mean, sd = theta[0], theta[1]
    prior = torch.sum(-0.5 * ((theta - suite.PRIOR_MEAN) / suite.PRIOR_SD) ** 2)
    prior = suite.CONSTANT + prior + torch.sum(torch.log(p) + torch.log(1.0 - p))
    logs = torch.log(data)
    z = (logs - mean) / sd
    return prior + torch.sum(-logs - torch.log(sd) - suite.HALF_LOG_2PI - 0.5 * z * z)


def _product(x):
    y, a = x[0], x[1]
    for _ in range(400):
        y = y * a
    return y


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum_1000": _sum,
    "_sum_1000": _loop_sum,
    "sum_sin_1000": _sum_sin,
    "_sum_sin_1000": _loop_sum_sin,
    "kron_sum": _kron,
    "kron_view_sum": _kron_view,
    "naive_map_sin_cos_exp": _naive_map,
    "map_sin_cos_exp": _map,
    "broadcast_sin_cos_exp": _map,
    "simple_mlp": _mlp,
    "gp_lml": _gp,
    "turing_broadcast_benchmark": _turing,
    "large_single_block": _product,
}


def jvp(case: suite.Case) -> Callable[[], tuple[Any, Any]]:
    """One forward derivative of the rewritten case."""
    active, passive, direction = (tuple(torch.tensor(np.asarray(x)) for x in group) for group in case.inputs())
    function = _FUNCTIONS[case.name]

    def closed(*z: Any) -> Any:
        return function(*z, *passive)

    return lambda: torch.func.jvp(closed, active, direction)


def backward(case: suite.Case) -> Callable[[], tuple[Any, Any]]:
    """Value and gradient of the rewritten case on leaves that are there already."""
    active, passive, _ = (tuple(torch.tensor(np.asarray(x)) for x in group) for group in case.inputs())
    function = _FUNCTIONS[case.name]
    leaves = [x.requires_grad_() for x in active]

    def call() -> tuple[Any, Any]:
        value = function(*leaves, *passive)
        return value, torch.autograd.grad(value, leaves)

    return call


def value_and_grad(case: suite.Case) -> Callable[[], tuple[Any, Any]]:
    """The same through ``torch.func``."""
    active, passive, _ = (tuple(torch.tensor(np.asarray(x)) for x in group) for group in case.inputs())
    evaluate = torch.func.grad_and_value(_FUNCTIONS[case.name], argnums=tuple(range(len(active))))

    def call() -> tuple[Any, Any]:
        gradient, value = evaluate(*active, *passive)
        return value, gradient

    return call
