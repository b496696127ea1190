"""Solving and factorising."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.linalg  # noqa: F401


def spd(rng, *batch, n=4, dtype=float):
    a = rng.standard_normal((*batch, n, n)).astype(dtype)
    if dtype is complex:
        a = a + 1j * rng.standard_normal((*batch, n, n))
    return a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_cholesky(rng, batch, dtype):
    a = spd(rng, *batch, dtype=dtype)
    check("numpy.linalg.cholesky", a)
    check("numpy.linalg.cholesky", a, upper=True)


def test_cholesky_blocked(rng):
    check("numpy.linalg.cholesky", spd(rng, n=75), tol=1e-7)


def test_cholesky_reads_the_lower_triangle():
    a = np.array([[4.0, 2.0], [2.0, 3.0]])
    function, rule = rule_of("numpy.linalg.cholesky")
    y = function(a)
    (g,) = rule.vjp(np, np.ones((2, 2)), y, (a,), upper=False)
    np.testing.assert_allclose(g, [[0.2133883476, 0], [0.1464466094, 0.3535533906]], atol=1e-9)
    d = np.full((1, 2, 2), np.nan)
    d[0][np.tril_indices(2)] = 1
    (t,) = push(rule, y, (a,), (d,), {"upper": False})
    assert np.isfinite(t).all()


@pytest.mark.parametrize("dtype", [float, complex])
def test_solve(rng, dtype):
    a = spd(rng, dtype=dtype)
    b = a[:, 1].copy()
    check("numpy.linalg.solve", a, b)
    check("numpy.linalg.solve", a, a[:, :2].copy())
    check("numpy.linalg.solve", a, b, passive=(0,))
    check("numpy.linalg.solve", a, b, passive=(1,))
    stack = spd(rng, 2, 3, dtype=dtype)
    check("numpy.linalg.solve", stack, b)
    check("numpy.linalg.solve", stack, stack[0, :, :, :2].copy())
    check("numpy.linalg.solve", a, stack[..., :3].copy())


def test_solve_values():
    a, b = np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([1.0, 2.0])
    function, rule = rule_of("numpy.linalg.solve")
    g, _ = rule.vjp(np, np.ones(2), function(a, b), (a, b))
    np.testing.assert_allclose(g, [[0.015625, -0.09375], [0.03125, -0.1875]])


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "pinv"])
def test_one_matrix(rng, name, batch, dtype):
    check(f"numpy.linalg.{name}", spd(rng, *batch, dtype=dtype), tol=2e-7)


def test_det_singular():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    _, rule = rule_of("numpy.linalg.det")
    (g,) = rule.vjp(np, np.float64(1), np.linalg.det(a), (a,))
    np.testing.assert_allclose(g, [[4, -2], [-2, 1]], atol=1e-12)
    zero = np.zeros((3, 3))
    (g,) = rule.vjp(np, np.float64(1), np.linalg.det(zero), (zero,))
    np.testing.assert_array_equal(g, 0)
    check("numpy.linalg.det", np.zeros((0, 0)))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_pinv_lstsq(rng, shape):
    a = rng.standard_normal(shape)
    check("numpy.linalg.pinv", a, tol=1e-6, h=1e-3)
    check("numpy.linalg.lstsq", a, rng.standard_normal(shape[0]), rcond=None, tol=1e-6, h=1e-3)
    check("numpy.linalg.lstsq", a, rng.standard_normal((shape[0], 2)), rcond=None, tol=1e-6, h=1e-3)


def test_pinv_of_low_rank(rng):
    a = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 3))
    _, rule = rule_of("numpy.linalg.pinv")
    b = np.linalg.pinv(a)
    da = a[None] * 2.0
    (t,) = push(rule, b, (a,), (da,), {"rcond": None, "hermitian": False, "rtol": None})
    np.testing.assert_allclose(t[0], -2 * b, atol=1e-10)
