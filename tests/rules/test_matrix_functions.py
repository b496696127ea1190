"""The rest of scipy.linalg: functions of a matrix, factors, structured matrices, Riccati equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as sl

import ndual
from ndual.testing import check_rule

RNG = np.random.default_rng(5)
Q, P, M = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3)), RNG.standard_normal((4, 3))
S = Q @ Q.T + 3 * np.eye(3)
V, W = RNG.standard_normal(4), RNG.standard_normal(4)
BAND = np.array([[0.0, 1.0, 0.5, 0.3], [4.0, 5.0, 6.0, 5.0], [0.2, 0.7, 0.4, 0.0]])
HALF = np.array([[0.0, 1.0, 0.5, 0.3], [4.0, 5.0, 6.0, 5.0]])
LU = sl.lu_factor(Q)
COLUMN = V + np.array([5.0, 0.0, 0.0, 0.0])

CASES = [
    (sl.sqrtm, (S,), {}),
    (sl.logm, (S,), {}),
    (sl.cosm, (Q,), {}),
    (sl.sinm, (Q,), {}),
    (sl.tanm, (Q / 3,), {}),
    (sl.coshm, (Q,), {}),
    (sl.sinhm, (Q,), {}),
    (sl.tanhm, (Q,), {}),
    (sl.polar, (M,), {}),
    (sl.polar, (M.T,), {"side": "left"}),
    (sl.polar, (Q + 1j * P,), {}),
    (sl.orthogonal_procrustes, (M, RNG.standard_normal((4, 3))), {}),
    (sl.lu, (Q,), {}),
    (sl.lu, (Q,), {"permute_l": True}),
    (sl.lu, (Q,), {"p_indices": True}),
    (sl.lu_factor, (Q,), {}),
    (sl.lu_solve, (LU, V[:3]), {}),
    (sl.lu_solve, (LU, M.T), {"trans": 1}),
    (sl.eig, (S + 0.1 * Q,), {}),
    (sl.eigvals, (S + 0.1 * Q,), {}),
    (sl.lstsq, (M, V), {}),
    (sl.lstsq, (M, RNG.standard_normal((4, 2))), {}),
    (sl.pinv, (M,), {}),
    (sl.pinvh, (S,), {}),
    (sl.qr, (M,), {"mode": "economic"}),
    (sl.qr, (Q,), {}),
    (sl.qr, (Q,), {"pivoting": True}),
    (sl.qr, (M,), {"mode": "r"}),
    (sl.hankel, (V, W), {}),
    (sl.hankel, (V,), {}),
    (sl.companion, (V,), {}),
    (sl.convolution_matrix, (V, 3), {}),
    (sl.convolution_matrix, (V, 6), {"mode": "same"}),
    (sl.convolution_matrix, (V, 6), {"mode": "valid"}),
    (sl.fiedler, (V,), {}),
    (sl.leslie, (V, W[:3]), {}),
    (sl.khatri_rao, (M, Q), {}),
    (sl.solve_banded, ((1, 1), BAND, V), {}),
    (sl.solve_banded, ((1, 1), BAND, RNG.standard_normal((4, 2))), {}),
    (sl.solveh_banded, (HALF, V), {}),
    (sl.solveh_banded, (HALF[::-1, :] * [[1.0], [1.0]], V), {"lower": True}),
    (sl.solve_toeplitz, (COLUMN, W), {}),
    (sl.solve_toeplitz, ((COLUMN, W), RNG.standard_normal((4, 2))), {}),
    (sl.eigh_tridiagonal, (V, W[:3] + 2), {}),
    (sl.eigvalsh_tridiagonal, (V, W[:3] + 2), {}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_rule(function, args, kwargs):
    check_rule(function, *args, widths=(1, 3), dtypes="d", rtol=1e-6, **kwargs)


def test_a_product_with_a_toeplitz_matrix():
    got = ndual.jvp(lambda c, x: sl.matmul_toeplitz(c, x), (V, W), (W, V))
    np.testing.assert_allclose(got[0], sl.toeplitz(V) @ W, rtol=1e-14)
    np.testing.assert_allclose(got[1], sl.toeplitz(W) @ W + sl.toeplitz(V) @ V, rtol=1e-14)


def test_polar_factors_of_equal_singular_values():
    # At the unit matrix the rotation moves by the antisymmetric part, the stretch by the symmetric one.
    u, p = ndual.jvp(sl.polar, (np.eye(3),), (Q,))[1]
    np.testing.assert_allclose(u, (Q - Q.T) / 2, atol=1e-14)
    np.testing.assert_allclose(p, (Q + Q.T) / 2, atol=1e-14)


def test_the_square_root_solves_its_sylvester_equation():
    value, d = ndual.jvp(sl.sqrtm, (S,), (Q,))
    np.testing.assert_allclose(value @ d + d @ value, Q, atol=1e-12)


def test_a_fractional_power():
    # The derivative of the square of the fourth root is that of the square root.
    def root(a):
        fourth = sl.fractional_matrix_power(a, 0.25)
        return fourth @ fourth

    np.testing.assert_allclose(ndual.jvp(root, (S,), (Q,))[1], ndual.jvp(sl.sqrtm, (S,), (Q,))[1], atol=1e-10)


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
def test_riccati_equations(name):
    def solve(*x):
        return getattr(sl, name)(*x)

    x = (Q / 2, P[:, :2], S, np.eye(2) + 0.1)
    t = (P, Q[:, 1:], P + P.T, np.array([[0.3, 0.1], [0.1, -0.2]]))

    def moved(h):
        return solve(*(a + h * b for a, b in zip(x, t, strict=True)))

    want = (8 * (moved(1e-4) - moved(-1e-4)) - (moved(2e-4) - moved(-2e-4))) / 12e-4
    np.testing.assert_allclose(ndual.jvp(solve, x, t)[1], want, rtol=1e-8, atol=1e-9)
    for k in range(4):
        alone = tuple(b if i == k else np.zeros_like(b) for i, b in enumerate(t))
        found = ndual.jvp(lambda a, k=k: solve(*x[:k], a, *x[k + 1 :]), (x[k],), (t[k],))[1]
        np.testing.assert_allclose(found, ndual.jvp(solve, x, alone)[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda a: sl.eig(a, S, homogeneous_eigvals=True)[0], "quotients"),
        (lambda a: sl.schur(a - a.T)[0], "complex"),
    ],
)
def test_a_refusal_says_what_to_do(call, match):
    with pytest.raises(ndual.NdualError, match=match):
        ndual.jvp(call, (Q,), (P,))
