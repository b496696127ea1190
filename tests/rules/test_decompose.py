"""Eigenvalues, singular values, QR, norms."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check, inner, pull, push, random_like, rule_of

import ndual.rules.decompose
import ndual.rules.norm  # noqa: F401

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (1, 1)]


def matrix(rng, shape, dtype=float):
    a = rng.standard_normal(shape)
    return a + 1j * rng.standard_normal(shape) if dtype is complex else a


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1)])
def test_eigh(rng, shape, uplo):
    check("numpy.linalg.eigh", matrix(rng, shape), UPLO=uplo, tol=1e-6, h=1e-3)
    for dtype in (float, complex):
        check("numpy.linalg.eigvalsh", matrix(rng, shape, dtype), UPLO=uplo, tol=1e-6, h=1e-3)


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_eig(rng, shape, dtype):
    a = 0.3 * matrix(rng, shape, dtype) + np.diag(2.0 * np.arange(shape[-1]))
    check("numpy.linalg.eig", a, tol=1e-6, h=1e-3)
    check("numpy.linalg.eigvals", a, tol=1e-6, h=1e-3)
    a[..., 0, 1], a[..., 1, 0] = 4.0, -5.0
    check("numpy.linalg.eig", a, tol=1e-6, h=1e-3)
    check("numpy.linalg.eigvals", a, tol=1e-6, h=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_svd(rng, shape):
    a = matrix(rng, shape)
    check("numpy.linalg.svd", a, full_matrices=False, tol=1e-6, h=1e-3)
    check("numpy.linalg.svd", a, compute_uv=False, tol=1e-6, h=1e-3)
    check("numpy.linalg.svdvals", matrix(rng, shape, complex), tol=1e-6, h=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("full", [False, True])
def test_svd_puts_the_matrix_together(rng, shape, dtype, full):
    """d(U S V^H) = dA, the columns stay orthonormal, and the transpose pairs with the lanes."""
    a, t = matrix(rng, shape, dtype), matrix(rng, (2, *shape), dtype)
    _, rule = rule_of("numpy.linalg.svd")
    y = np.linalg.svd(a, full_matrices=full)
    params = {"full_matrices": full, "compute_uv": True, "hermitian": False}
    u, s, vh = y
    du, ds, dvh = push(rule, y, (a,), (t,), params)
    k = s.shape[-1]
    product = (du[..., :k] * s[..., None, :]) @ vh[..., :k, :] + (u[..., :k] * ds[..., None, :]) @ vh[..., :k, :]
    product = product + (u[..., :k] * s[..., None, :]) @ dvh[..., :k, :]
    np.testing.assert_allclose(product, t, atol=1e-9)
    turn = np.conj(np.swapaxes(u, -1, -2)) @ du
    np.testing.assert_allclose(turn + np.conj(np.swapaxes(turn, -1, -2)), 0, atol=1e-9)
    turn = dvh @ np.conj(np.swapaxes(vh, -1, -2))
    np.testing.assert_allclose(turn + np.conj(np.swapaxes(turn, -1, -2)), 0, atol=1e-9)
    w = [random_like(rng, o) for o in y]
    (g,) = pull(rule, w, y, (a,), params)
    np.testing.assert_allclose(
        inner(g, t[0]), sum(inner(p, d[0]) for p, d in zip(w, (du, ds, dvh), strict=True)), atol=1e-8
    )


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_eigh_complex_puts_the_matrix_together(rng, shape):
    a, t = matrix(rng, shape, complex), matrix(rng, (2, *shape), complex)
    a, t = (m + np.conj(np.swapaxes(m, -1, -2)) for m in (a, t))
    _, rule = rule_of("numpy.linalg.eigh")
    y = np.linalg.eigh(a)
    dw, dv = push(rule, y, (a,), (t,), {"UPLO": "L"})
    h = lambda m: np.conj(np.swapaxes(m, -1, -2))  # noqa: E731
    w, v = y
    whole = (dv * w[..., None, :]) @ h(v) + (v * dw[..., None, :]) @ h(v) + (v * w[..., None, :]) @ h(dv)
    np.testing.assert_allclose(whole, t, atol=1e-9)
    g = [random_like(rng, o) for o in y]
    (back,) = pull(rule, g, y, (a,), {"UPLO": "L"})
    np.testing.assert_allclose(inner(back, t[0]), inner(g[0], dw[0]) + inner(g[1], dv[0]), atol=1e-8)


def test_coinciding_eigenvalues():
    _, rule = rule_of("numpy.linalg.eigh")
    y = np.linalg.eigh(np.eye(2))
    t = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    dw, dv = push(rule, y, (np.eye(2),), (t,), {"UPLO": "L"})
    np.testing.assert_array_equal(dw, [[1, 2]])
    np.testing.assert_array_equal(dv, 0)
    t = np.array([[[0.0, 0.0], [1.0, 0.0]]])
    assert not np.isfinite(push(rule, y, (np.eye(2),), (t,), {"UPLO": "L"})[1]).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [float, complex])
def test_qr(rng, shape, dtype):
    a = matrix(rng, shape, dtype)
    check("numpy.linalg.qr", a, tol=1e-6, h=1e-3)
    check("numpy.linalg.qr", a, mode="r", tol=1e-6, h=1e-3)


def test_qr_complete(rng):
    a, t = matrix(rng, (5, 3)), matrix(rng, (2, 5, 3))
    _, rule = rule_of("numpy.linalg.qr")
    q, r = y = np.linalg.qr(a, "complete")
    dq, dr = push(rule, y, (a,), (t,), {"mode": "complete"})
    np.testing.assert_allclose(dq @ r + q @ dr, t, atol=1e-9)
    w = [random_like(rng, o) for o in y]
    (g,) = pull(rule, w, y, (a,), {"mode": "complete"})
    np.testing.assert_allclose(inner(g, t[0]), inner(w[0], dq[0]) + inner(w[1], dr[0]), atol=1e-8)


@pytest.mark.parametrize("dtype", [float, complex])
def test_norms(rng, dtype):
    def far_from_kinks(shape):
        size = 1 + rng.permutation(int(np.prod(shape))).reshape(shape) / 2
        return size * np.sign(rng.standard_normal(shape)) * (np.exp(1j * size) if dtype is complex else 1)

    v, m, t = (far_from_kinks(s) for s in ((5,), (3, 4), (2, 3, 4)))
    for order in (None, 2, 1, 3, 2.5, 0.5, -1, -2, np.inf, -np.inf):
        check("numpy.linalg.norm", v, order)
        check("numpy.linalg.norm", m, order, axis=1, keepdims=True)
        check("numpy.linalg.vector_norm", t, axis=(0, 2), ord=2 if order is None else order)
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        check("numpy.linalg.norm", m, order, tol=1e-6, h=1e-3)
        check("numpy.linalg.norm", t, order, axis=(2, 0), tol=1e-6, h=1e-3)
        check("numpy.linalg.matrix_norm", t, ord="fro" if order is None else order, keepdims=True, tol=1e-6, h=1e-3)
    check("numpy.linalg.norm", t)
    check("numpy.linalg.norm", t, keepdims=True)
    check("numpy.linalg.norm", v, 0)


def test_norm_at_singular_points():
    _, rule = rule_of("numpy.linalg.norm")
    for order in (None, 1, 2, 3, np.inf):
        (g,) = rule.vjp(
            np, np.float64(1), np.linalg.norm(np.zeros(3), order), (np.zeros(3),), ord=order, axis=None, keepdims=False
        )
        np.testing.assert_array_equal(g, 0)
    x = np.array([3.0, -3.0, 1.0])
    (g,) = rule.vjp(np, np.float64(1), np.float64(3), (x,), ord=np.inf, axis=None, keepdims=False)
    np.testing.assert_array_equal(g, [0.5, -0.5, 0])
    (g,) = rule.vjp(np, np.float64(1), np.float64(1), (np.eye(2),), ord=2, axis=None, keepdims=False)
    np.testing.assert_allclose(g, np.eye(2) / 2, atol=1e-15)


def test_chains(rng):
    a, b, c, v = matrix(rng, (2, 3)), matrix(rng, (3, 4)), matrix(rng, (4, 5)), matrix(rng, (4,))
    check("numpy.linalg.multi_dot", [a, b, c])
    check("numpy.linalg.multi_dot", [a, b, v])
    check("numpy.linalg.multi_dot", [a[0].copy(), b, c])
    check("numpy.linalg.multi_dot", [a[0].copy(), b, v])
    check("numpy.linalg.multi_dot", [a, b], passive=(0,))
    m = matrix(rng, (2, 3, 3))
    for n in (-3, -1, 0, 1, 2, 3, 4, 7):
        check("numpy.linalg.matrix_power", m, n)
    for p in (None, 2, -2, 1, np.inf, "fro"):
        check("numpy.linalg.cond", m[0], p)
