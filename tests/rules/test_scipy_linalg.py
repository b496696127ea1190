"""scipy.linalg."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from harness import check, inner, pull, push, random_like, rule_of

import ndual.rules.matrix_equations
import ndual.rules.norm
import ndual.rules.scipy_linalg


def matrix(rng, *shape, dtype=float):
    a = rng.standard_normal(shape)
    return a + 1j * rng.standard_normal(shape) if dtype is complex else a


def spd(rng, n=4, dtype=float):
    a = matrix(rng, n, n, dtype=dtype)
    return a @ np.conj(a.T) + n * np.eye(n)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_solve_triangular(rng, dtype, trans, lower, unit):
    a = matrix(rng, 4, 4, dtype=dtype) + 4 * np.eye(4)
    for b in (matrix(rng, 4, dtype=dtype), matrix(rng, 4, 3, dtype=dtype)):
        for m in (a, np.asfortranarray(a)):
            for passive in ((), (0,), (1,)):
                kwargs = {"trans": trans, "lower": lower, "unit_diagonal": unit, "passive": passive}
                check("scipy.linalg.solve_triangular", m, b, **kwargs)


def test_solve_triangular_float32_and_empty(rng):
    a, b = (matrix(rng, 3, 3) + 3 * np.eye(3)).astype("f4"), matrix(rng, 3).astype("f4")
    _, rule = rule_of("scipy.linalg.solve_triangular")
    xs, extra = rule.bind((a, b), {"lower": True})
    (t,) = push(rule, scipy.linalg.solve_triangular(a, b, lower=True), xs, (a[None], None), extra)
    assert t.dtype == np.float32
    np.testing.assert_allclose(t[0], -scipy.linalg.solve_triangular(a, b, lower=True), rtol=1e-5)
    check("scipy.linalg.solve_triangular", np.zeros((0, 0)), np.zeros(0))


def test_the_other_triangle_is_not_read(rng):
    a = np.tril(matrix(rng, 4, 4)) + 4 * np.eye(4)
    a[np.triu_indices(4, 1)] = np.nan
    b = matrix(rng, 4)
    _, rule = rule_of("scipy.linalg.solve_triangular")
    y = scipy.linalg.solve_triangular(a, b, lower=True, check_finite=False)
    xs, extra = rule.bind((a, b), {"lower": True})
    for n in (1, 2):
        (t,) = push(rule, y, xs, (np.stack([a] * n), None), extra)
        np.testing.assert_allclose(t, np.stack([-y] * n))


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(rng, dtype, lower):
    a = spd(rng, dtype=dtype)
    check("scipy.linalg.cholesky", a, lower=lower)
    check("scipy.linalg.cho_factor", a, lower=lower)
    c = scipy.linalg.cho_factor(a, lower=lower)
    for b in (matrix(rng, 4, dtype=dtype), matrix(rng, 4, 2, dtype=dtype)):
        for passive in ((), (0,), (2,)):
            check("scipy.linalg.cho_solve", c, b, passive=passive)


@pytest.mark.parametrize("dtype", [float, complex])
def test_solve(rng, dtype):
    a = spd(rng, dtype=dtype)
    for b in (matrix(rng, 4, dtype=dtype), matrix(rng, 4, 2, dtype=dtype)):
        for kwargs in ({}, {"assume_a": "gen"}, {"assume_a": "pos"}, {"assume_a": "her", "lower": True}):
            check("scipy.linalg.solve", a, b, **kwargs)
        if dtype is float:
            check("scipy.linalg.solve", a, b, assume_a="gen", transposed=True)
            check("scipy.linalg.solve", a, b, assume_a="sym", passive=(1,))


@pytest.mark.parametrize("dtype", [float, complex])
def test_one_matrix(rng, dtype):
    a = matrix(rng, 4, 4, dtype=dtype) + np.diag(2.0 * np.arange(4))
    check("scipy.linalg.inv", a)
    check("scipy.linalg.det", a)
    check("scipy.linalg.expm", a / 3)
    check("scipy.linalg.expm", np.stack([a, a.T]) / 3)
    check("scipy.linalg.norm", a)
    check("scipy.linalg.svdvals", a, tol=1e-6, h=1e-3)
    for lower in (True, False):
        check("scipy.linalg.eigvalsh", a, lower=lower, tol=1e-6, h=1e-3)
        check("scipy.linalg.eigh", a, lower=lower, eigvals_only=True, tol=1e-6, h=1e-3)
        if dtype is float:
            check("scipy.linalg.svd", a, tol=1e-6, h=1e-3)


def test_built_matrices(rng):
    a, v = matrix(rng, 2, 3), matrix(rng, 4)
    check("scipy.linalg.block_diag", a, v, np.float64(2.0))
    check("scipy.linalg.block_diag", a, v, np.float64(2.0), passive=(0, 2))
    check("scipy.linalg.toeplitz", v)
    check("scipy.linalg.toeplitz", v, a[0])
    check("scipy.linalg.circulant", v)


@pytest.mark.parametrize("lower", [True, False])
def test_eigh_puts_the_matrix_together(rng, lower):
    a, t = matrix(rng, 4, 4), matrix(rng, 2, 4, 4)
    a, t = a + a.T, t + t.transpose(0, 2, 1)
    _, rule = rule_of("scipy.linalg.eigh")
    w, v = y = scipy.linalg.eigh(a, lower=lower)
    xs, extra = rule.bind((a,), {"lower": lower})
    dw, dv = push(rule, y, xs, (t, None), extra)
    whole = (dv * w) @ v.T + (v * dw[:, None, :]) @ v.T + (v * w) @ dv.transpose(0, 2, 1)
    np.testing.assert_allclose(whole, t, atol=1e-10)


def test_generalised_eigh(rng):
    a, b = matrix(rng, 4, 4), spd(rng)
    a = a + a.T
    check("scipy.linalg.eigvalsh", a, b, tol=1e-6, h=1e-3)
    check("scipy.linalg.eigh", a, b, eigvals_only=True, lower=False, tol=1e-6, h=1e-3)
    _, rule = rule_of("scipy.linalg.eigh")
    for passive in ((), (0,), (1,)):
        w, v = y = scipy.linalg.eigh(a, b)
        ta, tb = (t + t.transpose(0, 2, 1) for t in (matrix(rng, 2, 4, 4), matrix(rng, 2, 4, 4)))
        ta, tb = (None if i in passive else t for i, t in enumerate((ta, tb)))
        xs, extra = rule.bind((a, b), {})
        dw, dv = push(rule, y, xs, (ta, tb), extra)
        ta, tb = (np.zeros((2, 4, 4)) if t is None else t for t in (ta, tb))
        left = ta @ v + a @ dv
        right = tb @ (v * w) + b @ (dv * w) + b @ (v * dw[:, None, :])
        np.testing.assert_allclose(left, right, atol=1e-9)
        np.testing.assert_allclose(
            dv.transpose(0, 2, 1) @ b @ v + v.T @ tb @ v + v.T @ b @ dv, np.zeros((2, 4, 4)), atol=1e-9
        )
        g = [random_like(rng, o) for o in y]
        back = pull(rule, g, y, xs, extra)
        want = inner(g[0], dw[0]) + inner(g[1], dv[0])
        np.testing.assert_allclose(inner(back[0], ta[0]) + inner(back[1], tb[0]), want, atol=1e-8)


@pytest.mark.parametrize("dtype", [float, complex])
def test_matrix_equations(rng, dtype):
    a, b, q = (matrix(rng, *s, dtype=dtype) for s in ((3, 3), (4, 4), (3, 4)))
    a = a - 5 * np.eye(3)
    s = matrix(rng, 3, 3, dtype=dtype)
    for passive in ((), (0,), (1,)):
        check("scipy.linalg.solve_sylvester", a, b, q, passive=passive)
        check("scipy.linalg.solve_continuous_lyapunov", a, s, passive=passive)
        check("scipy.linalg.solve_discrete_lyapunov", a / 20, s, passive=passive)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_norms_that_are_numbers_of_python(mode):
    assert type(scipy.linalg.norm(np.array([3.0, 4.0]))) is float
    np.testing.assert_allclose(ndual.grad(scipy.linalg.norm, mode=mode)(np.array([3.0, 4.0])), [0.6, 0.8])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_unequal_forms_of_one_factor(mode):
    # U of a wide matrix [s, 0] is [1, 0]; its second entry turns by 1/s, and P = U^H A moves with it.
    a = np.array([[2.0, 0.0]])
    u = ndual.jacobian(lambda a: scipy.linalg.polar(a, side="right")[0], mode=mode)(a)
    p = ndual.jacobian(lambda a: scipy.linalg.polar(a, side="right")[1], mode=mode)(a)
    np.testing.assert_allclose(u.reshape(2, 2), [[0, 0], [0, 0.5]], atol=1e-14)
    np.testing.assert_allclose(p.reshape(4, 2), [[1, 0], [0, 1], [0, 1], [0, 0]], atol=1e-14)
