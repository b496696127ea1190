"""BLAS routines called directly: value and derivative in both modes, beside the plain call and NumPy's product."""

import numpy as np
from scipy.linalg import blas

import ndual

SIZES = (4, 64, 256)


def gemm(a, b):
    """A product of two matrices and a number."""
    return np.sum(blas.dgemm(0.5, a, b))


def matmul(a, b):
    """The same by NumPy."""
    return np.sum(0.5 * (a @ b))


def gemv(a, b):
    """A matrix times a vector, added to another one."""
    return np.sum(blas.dgemv(0.5, a, b[0], 2.0, b[1]))


def trsm(a, b):
    """Triangular systems."""
    return np.sum(blas.dtrsm(0.5, a, b))


FUNCTIONS = {f.__name__: f for f in (gemm, matmul, gemv, trsm)}


class Routines:
    """The tangent along one direction, and the gradient by both operands."""

    params = (tuple(FUNCTIONS), SIZES)
    param_names = ("routine", "n")

    def setup(self, routine, n):
        rng = np.random.default_rng(0)
        self.function = FUNCTIONS[routine]
        a = np.triu(rng.standard_normal((n, n))) / n + 2 * np.eye(n)
        self.args = (np.asfortranarray(a), np.asfortranarray(rng.standard_normal((n, n))))
        self.tangent = ndual.prepare_derivative(self.function, *self.args, argnums=(0, 1))
        self.gradient = ndual.prepare_gradient(self.function, *self.args, argnums=(0, 1), mode="reverse")

    def time_plain(self, routine, n):
        self.function(*self.args)

    def time_forward(self, routine, n):
        self.tangent(self.args, self.args)

    def time_reverse(self, routine, n):
        self.gradient(*self.args)
