"""The thirteen functions rewritten for JAX and jitted with ``fori_loop``, float64: a peer, marked as rewritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import suite
from jax.scipy.linalg import solve_triangular

jax.config.update("jax_enable_x64", True)


def _sum(x):
    return jnp.sum(x)


def _loop_sum(x):
    return jax.lax.fori_loop(0, len(x), lambda i, total: total + x[i], 0.0)


def _sum_sin(x):
    return jnp.sum(jnp.sin(x))


def _loop_sum_sin(x):
    return jax.lax.fori_loop(0, len(x), lambda i, total: total + jnp.sin(x[i]), 0.0)


def _kron(x, y):
    return jnp.sum(jnp.kron(x, y))


def _kron_view(x, y):
    return jnp.sum(jnp.kron(x[:20, :20], jnp.triu(y)))


def _naive_map(x):
    flat = x.ravel()
    put = jax.lax.fori_loop(
        0, flat.size, lambda i, out: out.at[i].set(jnp.sin(jnp.cos(jnp.exp(flat[i])))), jnp.empty_like(flat)
    )
    return jnp.sum(put)


def _map(x):
    return jnp.sum(jnp.sin(jnp.cos(jnp.exp(x))))


def _mlp(w2, w1, y, x):
    error = y - w2 @ jax.nn.relu(w1 @ x)
    return jnp.sum(error * error)


def _gp(x, y, s):
    n = x.shape[0]
    squared = (x[:, None] - x[None, :]) ** 2
    factor = jnp.linalg.cholesky(jnp.exp(-0.5 * squared) + s * jnp.eye(n))
    white = solve_triangular(factor, y, lower=True)
    return -0.5 * jnp.dot(white, white) - jnp.sum(jnp.log(jnp.diag(factor))) - 0.5 * n * jnp.log(2 * jnp.pi)


def _turing(u, data):
    p = 1.0 / (1.0 + jnp.exp(-u))
    theta = suite.LOW + (suite.HIGH - suite.LOW) * p
    mean, sd = theta[0], theta[1]
    prior = jnp.sum(-0.5 * ((theta - suite.PRIOR_MEAN) / suite.PRIOR_SD) ** 2)
    prior = suite.CONSTANT + prior + jnp.sum(jnp.log(p) + jnp.log(1.0 - p))
    logs = jnp.log(data)
    z = (logs - mean) / sd
    return prior + jnp.sum(-logs - jnp.log(sd) - suite.HALF_LOG_2PI - 0.5 * z * z)


def _product(x):
    return jax.lax.fori_loop(0, 400, lambda _, y: y * x[1], x[0])


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
    """One forward derivative of the rewritten case, compiled, the inputs already on the device."""
    active, passive, direction = (tuple(map(jnp.asarray, group)) for group in case.inputs())
    function = _FUNCTIONS[case.name]
    compiled = jax.jit(lambda z, v, rest: jax.jvp(lambda *w: function(*w, *rest), z, v))

    def call() -> tuple[Any, Any]:
        value, slope = compiled(active, direction, passive)
        slope.block_until_ready()
        return value, slope

    return call


def value_and_grad(case: suite.Case) -> Callable[[], tuple[Any, Any]]:
    """Value and gradient of the rewritten case in reverse mode, compiled, the inputs already on the device."""
    active, passive, _ = (tuple(map(jnp.asarray, group)) for group in case.inputs())
    compiled = jax.jit(jax.value_and_grad(_FUNCTIONS[case.name], argnums=tuple(range(len(active)))))
    return lambda: jax.block_until_ready(compiled(*active, *passive))


def sines_jacobian(residual_of: Callable[[Any], Callable[[Any], Any]], p: Any) -> Callable[[], Any]:
    """The compiled ``jacfwd`` of a residual that takes its array namespace from ``residual_of(jnp)``."""
    compiled = jax.jit(jax.jacfwd(residual_of(jnp)))
    point = jnp.asarray(p)
    return lambda: compiled(point).block_until_ready()


def rosenbrock(x):
    """The usual function."""
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def gradient(function: Callable[..., Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Value and gradient of a function written for JAX, compiled, for NumPy arrays in and out, as SciPy needs it."""
    compiled = jax.jit(jax.value_and_grad(function))
    compiled(x)

    def call(x: Any) -> tuple[Any, Any]:
        value, slope = compiled(x)
        return float(value), np.asarray(slope)

    return call


def hessian(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """The compiled Hessian by the first argument, all of them already on the device."""
    compiled = jax.jit(jax.hessian(function))
    device = tuple(map(jnp.asarray, args))
    return lambda: compiled(*device).block_until_ready()


def logistic(w, X, s):
    """The negative log-likelihood of labels of plus and minus one."""
    return jnp.sum(jnp.logaddexp(0.0, -s * (X @ w)))
