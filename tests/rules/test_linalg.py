"""Solving and factorising."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual
from ndual.rules import registry


def matrix_of(rng, char, *shape):
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if char in "FD" else a).astype(char)


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


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("columns", [(), (3,)])
def test_solve_with_factors_that_are_kept(rng, char, columns, monkeypatch):
    """A matrix large enough for it: the value is NumPy's own, and what is kept changes nothing but the time."""
    n = 40
    a = (matrix_of(rng, char, n, n) + 8 * np.eye(n)).astype(char)
    b, da = matrix_of(rng, char, n, *columns), matrix_of(rng, char, n, n)
    a_as_they_come = (a, np.asfortranarray(a), a[::-1, ::-1].copy()[::-1, ::-1])
    tolerance = 1e-11 if char in "dD" else 1e-3

    def results(a):
        value, tangent = ndual.jvp(np.linalg.solve, (a, b), (da, b))
        g = ndual.grad(lambda a, b: np.sum(np.abs(np.linalg.solve(a, b)) ** 2), argnums=(0, 1), mode="reverse")(a, b)
        return value, tangent, *g

    for one in a_as_they_come:
        found = results(one)
        np.testing.assert_array_equal(found[0], np.linalg.solve(one, b))
        assert {part.dtype for part in found} == {np.dtype(char)}
        want = np.linalg.solve(one.astype(complex), b - da @ found[0])
        np.testing.assert_allclose(found[1], want, rtol=tolerance, atol=tolerance)
        y = found[0]
        back = np.linalg.solve(one.astype(complex).conj().T, 2 * y)
        whole = -back.reshape(n, -1) @ y.reshape(n, -1).conj().T
        np.testing.assert_allclose(found[2], whole, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found[3], back, rtol=tolerance, atol=tolerance)
    monkeypatch.delitem(registry.KERNELS, "solve")
    for one, other in zip(results(a), found, strict=True):
        np.testing.assert_allclose(one, other, rtol=10 * tolerance, atol=10 * tolerance)


def test_factors_are_kept_where_numpy_has_its_usual_library():
    names = np.__config__.show(mode="dicts")["Build Dependencies"]["blas"]["name"]
    made = registry.KERNELS["solve"](np.eye(40), np.ones(40))
    assert (made is not None) == (names == "scipy-openblas") or not sys.platform.startswith("linux")
    assert registry.KERNELS["solve"](np.zeros((40, 40)), np.ones(40)) is None
    with pytest.raises(np.linalg.LinAlgError):
        ndual.jvp(np.linalg.solve, (np.zeros((40, 40)), np.ones(40)), (np.eye(40), np.ones(40)))


def test_what_is_kept_outlives_a_write(rng):
    a, b = matrix_of(rng, "d", 40, 40) + 8 * np.eye(40), matrix_of(rng, "d", 40)

    def f(a, b):
        a = 1.0 * a
        y = np.linalg.solve(a, b)
        a[...] = 0.0
        return np.sum(y * y)

    y = np.linalg.solve(a, b)
    g = ndual.grad(f, argnums=(0, 1), mode="reverse")(a, b)
    np.testing.assert_allclose(g[1], np.linalg.solve(a.T, 2 * y), rtol=1e-12)
    np.testing.assert_allclose(g[0], -np.outer(g[1], y), rtol=1e-12)
    second = ndual.hvp(f, (a, b), (np.eye(40), b), mode="reverse")[2]
    h = 1e-4
    moved = [ndual.grad(f, argnums=1, mode="reverse")(a + s * h * np.eye(40), b + s * h * b) for s in (1, -1)]
    np.testing.assert_allclose(second[1], (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-7)


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
