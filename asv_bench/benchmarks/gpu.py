"""Gradients on a device, where there is one: ``asv run --launch-method spawn``, since a device survives no fork."""

from __future__ import annotations

from functools import partial
from typing import Any

import ndual

try:
    import cupy as cp

    cp.cuda.runtime.getDeviceCount()
except Exception:  # CuPy has errors of its own for a missing driver
    cp = None


class Device:
    """Value and gradient of functions of arrays on the device, the work included."""

    params = (["forward", "reverse"], ["elementwise", "products", "gemm", "gemv", "trsm", "cholesky"])
    param_names = ("mode", "function")
    processes = 1
    repeat = (2, 5, 1.0)
    warmup_time = 0.05

    def setup(self, mode: str, function: str) -> None:
        if cp is None:
            raise NotImplementedError("needs CuPy and a device")
        n = 1024
        a = cp.random.default_rng(1).standard_normal((n, n)) + n * cp.eye(n)
        x = cp.linspace(0.0, 1.0, n)
        self.f, self.x = FUNCTIONS[function](a), x
        if mode == "reverse":
            self.call = partial(ndual.value_and_grad(self.f, mode=mode), x)
        else:
            self.call = partial(ndual.jvp, self.f, (x,), (x,))
        self.call()

    def time_derivative(self, mode: str, function: str) -> None:
        self.call()
        cp.cuda.runtime.deviceSynchronize()


def elementwise(a: Any) -> Any:
    """Rows alone, of a whole matrix: three functions and a sum."""
    return lambda x: cp.sum(cp.sin(cp.cos(cp.exp(a * x))))


def products(a: Any) -> Any:
    """Rows of two operands."""
    return lambda x: cp.sum((2.0 * a + x) * x - x / (1.0 + a * a))


def gemm(a: Any) -> Any:
    """A product of matrices."""
    return lambda x: cp.sum((a * x) @ a)


def gemv(a: Any) -> Any:
    """A matrix times a vector."""
    return lambda x: cp.sum((a @ x) ** 2)


def trsm(a: Any) -> Any:
    """A triangular system."""
    from cupyx.scipy.linalg import solve_triangular

    lower = cp.tril(a)
    return lambda x: cp.sum(solve_triangular(lower, x, lower=True) ** 2)


def cholesky(a: Any) -> Any:
    """A factorisation."""
    spd = a @ a.T
    return lambda x: cp.sum(cp.log(cp.diag(cp.linalg.cholesky(spd + x * x[:, None]))))


FUNCTIONS = {f.__name__: f for f in (elementwise, products, gemm, gemv, trsm, cholesky)}
