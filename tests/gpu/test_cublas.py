"""BLAS with coefficients that move: the formulas on every machine, cuBLAS itself where there is a device."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import ndual
from ndual.rules import registry

A, B, C = np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 6], [7, 8]]), np.array([[1.0, 0], [2, 1]])
MODES = ["forward", "reverse"]


class Blas:
    """The routines by name: of cuBLAS, or their rules on arrays of the host."""

    def __init__(self, xp, module=None):
        self.xp, self._module = xp, module

    def __getattr__(self, name):
        if self._module is not None:
            return getattr(self._module, name)
        body = registry.RULES[f"cupy.cublas.{name}"].body
        return lambda *args, **kwargs: body(np, *args, **kwargs)

    def array(self, a):
        return self.xp.asarray(a)

    def host(self, obj):
        if isinstance(obj, tuple | list):
            return type(obj)(map(self.host, obj))
        return obj.get() if hasattr(obj, "get") else obj


@pytest.fixture(params=["host", "device"])
def blas(request):
    if request.param == "host":
        return Blas(np)
    cupy = request.getfixturevalue("device")
    return Blas(cupy, importlib.import_module("cupy.cublas"))


@pytest.mark.parametrize("mode", MODES)
def test_gemm(blas, mode):
    def f(a, b, c, alpha, beta):
        out = c * 1.0
        return blas.xp.sum(blas.gemm("N", "N", a, b, out=out, alpha=alpha, beta=beta))

    arguments = (*map(blas.array, (A, B, C)), 2.0, 3.0)
    value, found = ndual.value_and_grad(f, argnums=(0, 1, 2, 3, 4), mode=mode)(*arguments)
    da, db, dc, dalpha, dbeta = blas.host(found)
    assert float(value) == 280
    assert (dalpha, dbeta) == (134, 4)
    np.testing.assert_array_equal(da, 2 * np.broadcast_to(B.sum(1), (2, 2)))
    np.testing.assert_array_equal(db, 2 * np.broadcast_to(A.sum(0)[:, None], (2, 2)))
    np.testing.assert_array_equal(dc, np.full((2, 2), 3.0))


@pytest.mark.parametrize("mode", MODES)
def test_gemv(blas, mode):
    def f(x, y, alpha, beta):
        out = y * 1.0
        blas.gemv("N", alpha, blas.array(A), x, beta, out)
        return blas.xp.sum(out)

    arguments = (blas.array([1.0, -1.0]), blas.array([10.0, 20.0]), 2.0, 3.0)
    value, found = ndual.value_and_grad(f, argnums=(0, 1, 2, 3), mode=mode)(*arguments)
    dx, dy, dalpha, dbeta = blas.host(found)
    assert float(value) == 86
    assert (dalpha, dbeta) == (-2, 30)
    np.testing.assert_array_equal(dx, 2 * A.sum(0))
    np.testing.assert_array_equal(dy, [3, 3])


@pytest.mark.parametrize("mode", MODES)
def test_what_a_plain_zero_stands_before_is_not_read(blas, mode):
    bad = np.array([[np.nan, np.inf], [1.0, 2.0]])

    def f(a, b):
        return blas.xp.sum(blas.gemm("N", "T", a, b, out=b * 1.0, alpha=0.0, beta=2.0))

    da, db = blas.host(ndual.grad(f, argnums=(0, 1), mode=mode)(blas.array(bad), blas.array(B)))
    np.testing.assert_array_equal(da, np.zeros((2, 2)))
    np.testing.assert_array_equal(db, np.full((2, 2), 2.0))


@pytest.mark.parametrize("mode", MODES)
def test_transposes_and_hermitian(blas, mode):
    z = A + 1j * B

    def f(z):
        return blas.xp.sum(abs(blas.gemm("H", "T", z, z, alpha=2.0)) ** 2)

    found = blas.host(ndual.grad(f, mode=mode)(blas.array(z)))
    expected = ndual.grad(lambda z: np.sum(abs(2 * z.conj().T @ z.T) ** 2))(z)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_vectors(blas, mode):
    def f(x, y, a):
        out = y * 1.0
        blas.axpy(a, x, out)
        blas.scal(a, out)
        square = blas.xp.zeros((2, 2))
        blas.ger(a, x, y, square)
        sums = blas.geam("N", "T", a, square, 2.0, square)
        return blas.dot(x, out) + blas.nrm2(y) + blas.asum(x) + blas.xp.sum(sums * square)

    def g(x, y, a):
        out = a * (y + a * x)
        square = a * np.outer(x, y)
        return x @ out + np.sqrt(y @ y) + np.sum(abs(x)) + np.sum((a * square + 2 * square.T) * square)

    given = np.array([1.0, -1.5]), np.array([0.5, 2.0]), 1.5
    found = ndual.grad(f, argnums=(0, 1, 2), mode=mode)(*[blas.array(v) if np.ndim(v) else v for v in given])
    for got, expected in zip(blas.host(found), ndual.grad(g, argnums=(0, 1, 2))(*given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
