"""Gradients on a device, where there is one."""

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

    params = (["forward", "reverse"], ["chain", "gemm", "gemv", "trsm"])
    param_names = ("mode", "function")

    def setup(self, mode: str, function: str) -> None:
        if cp is None:
            raise NotImplementedError("needs CuPy and a device")
        n = 256
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


def chain(a: Any) -> Any:
    """Rows alone."""
    return lambda x: cp.sum(cp.sin(cp.cos(cp.exp(x))))


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


FUNCTIONS = {"chain": chain, "gemm": gemm, "gemv": gemv, "trsm": trsm}
