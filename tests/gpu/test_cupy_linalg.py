"""Sums, factorisations and triangular systems of CuPy's arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndual
from ndual import _core

MODES = ["forward", "reverse"]


def equal(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found.get(), expected, rtol=rtol, atol=1e-14)


LINALG = {
    "cholesky": lambda xp, a: xp.sum(xp.log(xp.diag(xp.linalg.cholesky(a)))),
    "solve": lambda xp, a: xp.sum(xp.linalg.solve(a, a[0])),
    "inv": lambda xp, a: xp.sum(xp.linalg.inv(a) ** 2),
    "slogdet": lambda xp, a: xp.linalg.slogdet(a)[1],
    "det": lambda xp, a: xp.linalg.det(a),
    "eigh": lambda xp, a: xp.sum(xp.linalg.eigh(a)[0] ** 3),
    "svd": lambda xp, a: xp.sum(xp.linalg.svd(a, full_matrices=False)[1] ** 3),
    "qr": lambda xp, a: xp.sum(xp.abs(xp.linalg.qr(a)[1])),
    "norm": lambda xp, a: xp.linalg.norm(a),
    "einsum": lambda xp, a: xp.sum(xp.einsum("ij,jk->ik", a, a) ** 2),
    "tensordot": lambda xp, a: xp.sum(xp.tensordot(a, a, axes=([0], [1])) ** 2),
    "trace": lambda xp, a: xp.trace(a @ a),
    "dot": lambda xp, a: xp.sum(xp.dot(a, a[0]) ** 2),
    "kron": lambda xp, a: xp.sum(xp.kron(a, a) ** 2),
}


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(device, name):
    cp = device
    f = LINALG[name]
    a = cp.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
    expected = ndual.grad(lambda a: f(np, a))(a.get())
    for mode in MODES:
        found = ndual.grad(lambda a: f(cp, a), mode=mode)(a)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-10, atol=1e-12)
    second = ndual.hessian(lambda a: f(cp, a))(a)
    np.testing.assert_allclose(second.get(), ndual.hessian(lambda a: f(np, a))(a.get()), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n", [1, 31, 4_097, 1_000_003])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_right_to_rounding(device, dtype, n):
    """Of all cells and of each lane, with a row before them or not, and the same bit by bit."""
    cp = device
    rng = np.random.default_rng(n)
    x, t = rng.uniform(0, 1, n).astype(dtype), rng.uniform(0, 1, (3, n)).astype(dtype)
    y = x * x.dtype.type(3)
    rtol = 1.2e-7 if dtype == "f4" else 1e-15
    ndual.grad(lambda x: cp.sum(x))(cp.ones(1))  # which makes the device known
    with _core.Level(3) as level:
        for found, value, lanes in (
            ((d := _core.dual(cp.asarray(x), cp.asarray(t), level)).sum(), x, t),
            ((d * 3.0).sum(), y, t * t.dtype.type(3)),
            ((2.0 * d[::-1]).sum(), x * x.dtype.type(2), t * t.dtype.type(2)),
        ):
            exact = [math.fsum(value), *map(math.fsum, lanes)]
            sums = [_core.primal(found).get(), *_core.lanes(found).get()]
            np.testing.assert_allclose(np.array(sums, float), exact, rtol=rtol)
        again = (d * 3.0).sum()
        first = (d * 3.0).sum()
        assert _core.primal(again).get() == _core.primal(first).get()
        np.testing.assert_array_equal(_core.lanes(again).get(), _core.lanes(first).get())


@pytest.mark.parametrize("trans", [0, 1, "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_triangular_systems(device, dtype, lower, trans):
    cp = device
    import cupyx.scipy.linalg
    import scipy.linalg

    rng = np.random.default_rng(4)
    a = (rng.standard_normal((5, 5)) + 5 * np.eye(5)).astype(dtype)
    a = a + (1j * rng.standard_normal((5, 5)) if dtype == "c16" else 0)
    for b in (rng.standard_normal(5).astype(dtype), rng.standard_normal((5, 2)).astype(dtype)):

        def f(xp, solve, a, b):
            return xp.sum(xp.abs(solve(a, b, trans=trans, lower=lower)) ** 2)

        expected = ndual.grad(lambda a, b: f(np, scipy.linalg.solve_triangular, a, b), argnums=(0, 1))(a, b)
        for mode in MODES:
            g = ndual.grad(lambda a, b: f(cp, cupyx.scipy.linalg.solve_triangular, a, b), argnums=(0, 1), mode=mode)
            for layout in (a, np.asfortranarray(a)):
                for found, reference in zip(g(cp.asarray(layout), cp.asarray(b)), expected, strict=True):
                    np.testing.assert_allclose(found.get(), reference, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_cholesky(device, dtype):
    """The values, types and errors of CuPy, by another routine; the derivatives of the host."""
    cp = device
    import cupyx

    rng = np.random.default_rng(3)
    host = rng.standard_normal((20, 20)) + (1j * rng.standard_normal((20, 20)) if dtype[0] == "c" else 0)
    host = (host @ host.conj().T + 20 * np.eye(20)).astype(dtype)
    host[np.triu_indices(20, 1)] = 7.0  # of which nothing is read
    a = cp.asarray(host)
    rtol = 1e-12 if dtype in ("f8", "c16") else 1e-4
    for mode in MODES:
        seen = []

        def f(a, seen=seen):
            factor = cp.linalg.cholesky(a)
            seen.append(ndual.stop_gradient(factor))
            return cp.sum(cp.abs(factor) ** 2 * cp.arange(20))

        found = ndual.grad(f, mode=mode)(a)
        assert seen[0].dtype == found.dtype == dtype
        equal(seen[0], cp.linalg.cholesky(a).get(), rtol)
        expected = ndual.grad(lambda a: np.sum(np.abs(np.linalg.cholesky(a)) ** 2 * np.arange(20)))(host)
        np.testing.assert_allclose(found.get(), expected, rtol=rtol, atol=100 * rtol)
        upper = ndual.grad(lambda a: np.sum(np.abs(np.linalg.cholesky(a.T, upper=True)) ** 2), mode=mode)(a)
        reference = ndual.grad(lambda a: np.sum(np.abs(np.linalg.cholesky(a.T, upper=True)) ** 2))(host)
        np.testing.assert_allclose(upper.get(), reference, rtol=rtol, atol=100 * rtol)
        stacked = ndual.grad(lambda a: cp.sum(cp.abs(cp.linalg.cholesky(cp.stack([a, 2 * a])))), mode=mode)(a)
        reference = ndual.grad(lambda a: np.sum(np.abs(np.linalg.cholesky(np.stack([a, 2 * a])))))(host)
        np.testing.assert_allclose(stacked.get(), reference, rtol=rtol, atol=100 * rtol)
        with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="order 1 is not"):
            ndual.grad(f, mode=mode)(-a)
        with cupyx.errstate(linalg="ignore"):
            ndual.grad(f, mode=mode)(-a)
