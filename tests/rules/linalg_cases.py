"""Calls of every linear algebra function with its options, for `check_rule`.

Vectors that have no sign or phase of their own (complex ones of svd and eigh, null spaces) are checked elsewhere by
what they put together. What has no
derivative stands in a list of its own.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg as sl

from ndual.frontend.dispatch import dispatch
from ndual.testing import check_rule
from ndual.testing.inputs import leaves

la, inf = np.linalg, np.inf
ORDERS = ("fro", "nuc", 1, -1, 2, -2, inf, -inf)
STRUCTURES = {
    "diagonal": lambda a: np.diag(np.diag(a)),
    "tridiagonal": lambda a: np.triu(np.tril(a, 1), -1),
    "banded": lambda a: np.triu(np.tril(a, 1), -1),
    "upper triangular": np.triu,
    "lower triangular": np.tril,
    "sym": lambda a: a + a.T,
    "symmetric": lambda a: a + a.T,
}
HERMITIAN = ("her", "hermitian", "pos", "positive definite")
FULL = (None, "gen", "general")


class Draw:
    """Matrices of one kind of numbers."""

    def __init__(self, kind):
        self.rng, self.kind = np.random.default_rng(0), kind

    def any(self, *shape):
        a = self.rng.normal(size=shape)
        return a + 1j * self.rng.normal(size=shape) if self.kind == "complex" else a

    def well(self, *shape):
        return self.any(*shape) / 3 + np.eye(*shape[-2:]) * np.arange(2, 2 + shape[-1])

    def definite(self, *shape):
        a = self.any(*shape) / 3
        return a @ np.swapaxes(a.conj(), -1, -2) + np.eye(shape[-1]) * np.arange(1, 1 + shape[-1])


def of_numpy(d):
    a, b, v, m = d.well(3, 3), d.well(2, 3, 3), d.any(3), d.any(3, 2)
    p, stack = d.definite(3, 3), d.definite(2, 3, 3)
    tall, wide = d.well(4, 3), d.well(3, 4)
    for pair in (
        (a, v),
        (a, m),
        (b, v),
        (b, m),
        (b, d.any(2, 3, 2)),
        (a, d.any(2, 3, 2)),
        (b[:, None], d.any(2, 3, 1)),
    ):
        yield la.solve, pair, {}
    for f in (la.inv, la.det, la.slogdet, la.eigvals, la.eig):
        yield f, (a,), {}
        yield f, (b,), {}
    for upper in (False, True):
        yield la.cholesky, (p,), {"upper": upper}
        yield la.cholesky, (stack,), {"upper": upper}
    for mode in ("reduced", "r") + (("complete",) if d.kind == "real" else ()):
        for shape in (tall, wide, a, d.well(2, 4, 3)):
            yield la.qr, (shape,), {"mode": mode}
    for shape in (tall, wide, a, d.well(2, 4, 3)):
        yield la.qr, (shape,), {"mode": "raw"}
    for shape in (tall, d.well(2, 3, 4)):
        yield la.svdvals, (shape,), {}
        yield la.svd, (shape,), {"compute_uv": False}
        yield la.pinv, (shape,), {}
    yield la.svd, (p,), {"compute_uv": False, "hermitian": True}
    yield la.pinv, (p,), {"hermitian": True}
    yield la.pinv, (p,), {"rcond": 1e-3}
    for uplo in "LU":
        yield la.eigvalsh, (stack,), {"UPLO": uplo}
        if d.kind == "real":
            yield la.eigh, (stack,), {"UPLO": uplo}
    if d.kind == "real":
        for full in (True, False):
            for shape in (tall, wide, b):
                yield la.svd, (shape,), {"full_matrices": full}
        yield la.svd, (p,), {"hermitian": True}
    yield la.lstsq, (tall, d.any(4)), {}
    yield la.lstsq, (tall, d.any(4, 2)), {"rcond": 1e-10}
    yield la.lstsq, (wide, m), {}
    for n in (-3, -1, 0, 1, 2, 3, 5):
        yield la.matrix_power, (b, n), {}
    yield la.multi_dot, ([v, a, m],), {}
    yield la.multi_dot, ([a, p, m, d.any(2, 3), v],), {}
    for order in (None, 0, 1, 2, 3, 2.5, -1, -2, inf, -inf):
        yield la.norm, (v,), {"ord": order}
        yield la.norm, (b,), {"ord": order, "axis": 1, "keepdims": True}
        yield la.vector_norm, (a,), {"ord": 2 if order is None else order}
    for order in ORDERS:
        yield la.norm, (b,), {"ord": order, "axis": (0, 2)}
        yield la.matrix_norm, (b,), {"ord": order}
        yield la.cond, (b,), {"p": order}
    yield la.cond, (a,), {}
    yield la.tensorinv, (d.well(6, 6).reshape(2, 3, 6),), {"ind": 2}
    yield la.tensorinv, (d.well(4, 4).reshape(4, 2, 2),), {"ind": 1}
    yield la.tensorsolve, (d.well(6, 6).reshape(2, 3, 6), d.any(2, 3)), {}
    yield la.tensorsolve, (d.well(4, 4).reshape(2, 2, 4).transpose(0, 2, 1), d.any(2, 2)), {"axes": (1,)}


def factors_of_scipy(d):
    a, b, v, m, p = d.well(3, 3), d.well(2, 3, 3), d.any(3), d.any(3, 2), d.definite(3, 3)
    turned = a[[2, 0, 1]].copy()
    for form in ({}, {"permute_l": True}, {"p_indices": True}, {"permute_l": True, "p_indices": True}):
        for shape in (turned, d.well(4, 3)[::-1].copy(), d.well(3, 4)[::-1].copy(), b[:, ::-1].copy()):
            yield sl.lu, (shape,), form
    for shape in (turned, b[:, ::-1].copy(), d.well(4, 3), d.well(3, 4)):
        yield sl.lu_factor, (shape,), {}
    for trans in (0, 1, 2):
        yield sl.lu_solve, (sl.lu_factor(turned), v), {"trans": trans}
        yield sl.lu_solve, (sl.lu_factor(turned), m), {"trans": trans}
    for lower in (False, True):
        yield sl.cholesky, (d.definite(2, 3, 3),), {"lower": lower}
        yield sl.cho_factor, (p,), {"lower": lower}
        yield sl.cho_solve, (sl.cho_factor(p, lower=lower), v), {}
        yield sl.cho_solve, (sl.cho_factor(p, lower=lower), m), {}
        yield sl.eigvalsh, (p, d.definite(3, 3)), {"lower": lower}
        yield sl.eigvalsh, (p,), {"lower": lower, "subset_by_index": (1, 2)}
        yield sl.eigh, (p,), {"lower": lower, "eigvals_only": True, "subset_by_value": (0.5, 2.6)}
        if d.kind == "real":
            yield sl.eigh, (d.definite(3, 3),), {"lower": lower}
            yield sl.eigh, (p, d.definite(3, 3)), {"lower": lower}
        for kind in (1, 2, 3):
            metric = d.definite(3, 3)
            yield sl.eigvalsh, (p, metric), {"lower": lower, "type": kind, "subset_by_index": (1, 2)}
            if d.kind == "real":
                yield sl.eigh, (p, metric), {"lower": lower, "type": kind}
                yield sl.eigh, (p, metric), {"lower": lower, "type": kind, "subset_by_index": (1, 1)}
        if d.kind == "real":
            for part in ({"subset_by_index": (1, 2)}, {"subset_by_value": (0.5, 2.6)}):
                yield sl.eigh, (p,), {"lower": lower, **part}
        for hermitian in (True, False):
            whole = a + (a.conj().T if hermitian else a.T)
            blocks = whole * np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]])  # no pivot on the diagonal to begin with
            for given in (whole, blocks):
                yield sl.ldl, (given,), {"lower": lower, "hermitian": hermitian}
        for width in (1, 2):
            bands = (d.any(width + 1, 5) / 3)[:: 1 if lower else -1].copy()
            bands[0 if lower else -1] = np.arange(4, 9)
            yield sl.cholesky_banded, (bands,), {"lower": lower}
            factor = (np.where(np.abs(bands) > 3, bands.real, bands), lower)
            yield sl.cho_solve_banded, (factor, d.any(5)), {}
            yield sl.cho_solve_banded, (factor, d.any(5, 2)), {}
    for mode in ("full", "economic", "r"):
        for shape in (a, d.well(3, 4), d.well(4, 3)):
            if d.kind == "real" or mode != "full" or shape.shape != (3, 4):
                yield sl.rq, (shape,), {"mode": mode}
    yield sl.eig, (a,), {"right": False, "homogeneous_eigvals": True}
    if d.kind == "real":
        yield sl.eig, (a,), {"left": True}
        yield sl.eig, (a,), {"left": True, "right": False}
        yield sl.eig, (p, d.definite(3, 3)), {"left": True}
    yield sl.eigvals, (a,), {}
    yield sl.eigvals, (a, p), {}
    for options in ({}, {"pivoting": True}, {"conjugate": True}, {"mode": "left"}, {"mode": "left", "conjugate": True}):
        for rows in (4, 2) if d.kind == "real" else (4,):
            count = min(rows, 3) if "mode" in options else rows
            for c in (d.any(count), d.any(count, 2) if "mode" in options else d.any(2, count)):
                yield sl.qr_multiply, (d.well(rows, 3), c), options
    if d.kind == "real":
        yield sl.null_space, (d.well(3, 4),), {}
        yield sl.null_space, (d.well(2, 3, 4),), {}
        yield sl.orth, (d.well(4, 2),), {}
        yield sl.schur, (np.triu(a) + a.T / 9,), {}
    for first, second in ((d.well(6, 3), d.any(6, 2)), (d.well(5, 2), d.any(5, 3))):
        yield sl.subspace_angles, (first, second), {}
    for f in (sl.eig,) if d.kind == "real" else ():
        yield f, (a,), {}
        yield f, (p, d.definite(3, 3)), {}
    for mode in ("full", "economic", "r"):
        for pivoting in (False, True):
            if d.kind == "real" or mode != "full":
                yield sl.qr, (d.well(4, 3),), {"mode": mode, "pivoting": pivoting}
            yield sl.qr, (d.well(3, 4),), {"mode": mode, "pivoting": pivoting}
    yield sl.svdvals, (a,), {}
    for side in ("left", "right"):
        for shape in ((3, 3), (4, 3), (3, 4)):
            yield sl.polar, (d.well(*shape),), {"side": side}
    yield sl.orthogonal_procrustes, (d.well(4, 3), d.any(4, 3)), {}
    yield sl.lstsq, (d.well(4, 3), d.any(4)), {}
    yield sl.pinv, (d.well(4, 3),), {}
    yield sl.pinvh, (p,), {}
    yield sl.norm, (v,), {}
    for order in ORDERS:
        yield sl.norm, (a,), {"ord": order}


def stacks_of_scipy(d):
    """What SciPy takes matrix by matrix, one operand broadcast against the other."""
    a, b, v, m = d.well(3, 3), d.well(2, 3, 3), d.any(3), d.any(3, 2)
    p, stack, rights = d.definite(3, 3), d.definite(2, 3, 3), d.any(2, 3, 2)
    bands, half = d.any(2, 3, 5) / 3, d.any(2, 2, 5) / 3
    bands[:, 1], half[:, 0] = 5, 5
    c, r = d.any(2, 4), d.any(4)
    c[:, 0] = 6
    for left, right in ((b, rights), (a, rights), (b, m), (b, v), (b[:, None], d.any(2, 3, 2))):
        yield sl.solve, (left, right), {}
        yield sl.solve_triangular, (left, right), {"lower": True}
        yield sl.lu_solve, (sl.lu_factor(left), right), {}
        yield sl.cho_solve, ((left, True), right), {}
        yield sl.lstsq, (left, right), {}
    for right in (d.any(5), d.any(5, 2), d.any(2, 5, 2)):
        yield sl.solve_banded, ((1, 1), bands, right), {}
        yield sl.solveh_banded, (half, right), {"lower": True}
        yield sl.cho_solve_banded, ((half, True), right), {}
    yield sl.cholesky_banded, (half,), {"lower": True}
    yield sl.solve_toeplitz, (c, d.any(4, 2)), {}
    yield sl.solve_toeplitz, ((c, r), d.any(2, 4, 2)), {}
    yield sl.matmul_toeplitz, (c, d.any(4)), {}
    yield sl.matmul_toeplitz, ((c, d.any(3)), d.any(3, 2)), {}
    yield sl.toeplitz, (c, r), {}
    yield sl.circulant, (c,), {}
    yield sl.expm_frechet, (b / 3, d.any(3, 3)), {}
    yield sl.solve_sylvester, (a, d.well(2, 2), rights), {}
    yield sl.solve_continuous_lyapunov, (a, d.any(2, 3, 3)), {}
    yield sl.solve_discrete_lyapunov, (b / 8, d.any(3, 3)), {}
    yield sl.orthogonal_procrustes, (d.well(4, 3), d.any(2, 4, 3)), {}
    for first, second in ((stack, p), (p, stack), (stack, stack[::-1])):
        yield sl.eigvalsh, (first, second), {}
        yield sl.eigvals, (first, second), {}
    yield sl.eigvalsh, (stack,), {"subset_by_index": (1, 2)}
    for lower in (False, True):
        yield sl.cho_factor, (stack,), {"lower": lower}
        yield sl.ldl, (stack,), {"lower": lower}
    if d.kind == "real":
        yield sl.eigh, (stack,), {"subset_by_index": (0, 1)}
        yield sl.eig, (stack,), {"left": True}
        yield sl.rq, (b,), {}
        for mode in ("economic", "r"):
            yield sl.qr, (d.well(2, 4, 3),), {"mode": mode, "pivoting": True}
        yield sl.qr, (d.well(2, 4, 3),), {"mode": "r"}


def solvers_of_scipy(d):
    a, b, v, m, p = d.well(3, 3), d.well(2, 3, 3), d.any(3), d.any(3, 2), d.definite(3, 3)
    for kind in (*FULL, *STRUCTURES, *HERMITIAN):
        given = p if kind in HERMITIAN else STRUCTURES.get(kind, np.copy)(a)
        yield sl.solve, (given, v), {"assume_a": kind}
        yield sl.solve, (given, m), {"assume_a": kind, "lower": True}
        if d.kind == "real":
            yield sl.solve, (given, v), {"assume_a": kind, "transposed": True}
        if kind not in ("tridiagonal", "banded", "symmetric", "hermitian", "positive definite", *FULL[1:]):
            yield sl.inv, (given,), {"assume_a": kind}
    for right in (m, d.any(2, 3, 2)):
        yield sl.solve, (b, right), {}
        yield sl.solve, (b, right), {"assume_a": "lower triangular"}
    for trans in (0, 1, 2, "N", "T", "C"):
        for lower in (False, True):
            for unit in (False, True):
                options = {"trans": trans, "lower": lower, "unit_diagonal": unit}
                yield sl.solve_triangular, (a, m if unit else v), options
                if trans in (0, 1, 2):
                    yield sl.solve_triangular, (b, m), options
    bands = d.any(4, 5)
    bands[1] += 5
    yield sl.solve_banded, ((2, 1), bands, d.any(5)), {}
    yield sl.solve_banded, ((2, 1), bands, d.any(5, 2)), {}
    yield sl.solve_banded, ((1, 1), bands[:3], d.any(5)), {}
    for lower in (False, True):
        for count in (2, 3):
            half = d.any(count, 5) / 2
            half[0 if lower else -1] = np.arange(4, 9)
            yield sl.solveh_banded, (half, d.any(5)), {"lower": lower}
            yield sl.solveh_banded, (half, d.any(5, 2)), {"lower": lower}
    c, r = d.any(4), d.any(4)
    c[0] = r[0] = 6
    yield sl.solve_toeplitz, (c, d.any(4)), {}
    yield sl.solve_toeplitz, ((c, r), d.any(4, 2)), {}
    yield sl.toeplitz, (c,), {}
    yield sl.toeplitz, (c, r), {}
    yield sl.solve_circulant, (c, d.any(4, 2)), {}
    yield sl.solve_circulant, (c * np.ones((2, 1, 1)), d.any(3, 4)), {"baxis": -1, "outaxis": -1}
    for n in (2, 3, 5, 6):
        yield sl.fiedler_companion, (d.any(n) + 3,), {}
    for lower in (False, True):
        bands = np.stack([np.arange(1, 6) * 3 + 0 * d.any(5).real, d.any(5)])[:: 1 if lower else -1].copy()
        for part in ({}, {"select": "i", "select_range": (1, 2)}, {"select": "v", "select_range": (4, 11)}):
            yield sl.eigvals_banded, (bands,), {"lower": lower, **part}
            if d.kind == "real":
                yield sl.eig_banded, (bands,), {"lower": lower, **part}
                yield sl.eigh_tridiagonal, (bands[0 if lower else 1], d.any(4)), part
                yield sl.eigvalsh_tridiagonal, (bands[0 if lower else 1], d.any(4)), part


def functions_of_scipy(d):
    a, b, v = d.well(3, 3), d.well(2, 3, 3), d.any(3)
    for f in (sl.expm, sl.logm, sl.sqrtm, sl.cosm, sl.sinm, sl.tanm, sl.coshm, sl.sinhm, sl.tanhm):
        yield f, (a / 4,), {}
    for f in (sl.expm, sl.sqrtm, sl.logm):
        yield f, (b / 3,), {}
    for options in ({}, {"compute_expm": False}, {"method": "blockEnlarge"}):
        yield sl.expm_frechet, (a / 3, d.any(3, 3)), options
    yield sl.block_diag, (a, v, np.float64(2.0)), {}
    yield sl.block_diag, (b, d.any(2, 2, 2)), {}
    yield sl.solve_sylvester, (a, d.well(2, 2), d.any(3, 2)), {}
    yield sl.solve_continuous_lyapunov, (a, d.any(3, 3)), {}
    for method in (None, "direct", "bilinear"):
        yield sl.solve_discrete_lyapunov, (a / 8, d.any(3, 3)), {"method": method}


def riccati(name, with_e, with_s):
    """The equation as a function of matrices that it sees the Hermitian parts of.

    With e, SciPy (1.17) balances to another equation: what it returns leaves a residual of 0.1.
    """

    def solved(a, b, q, r, *more):
        given = iter(more)
        e, s = next(given) if with_e else None, next(given) if with_s else None
        q, r = ((m + m.conj().T) / 2 for m in (q, r))
        return dispatch(getattr(sl, name), (a, b, q, r, e, s), {"balanced": False})

    return solved


def riccati_equations(d):
    for name in ("solve_continuous_are", "solve_discrete_are"):
        for with_e in (False, True):
            for with_s in (False, True):
                more = (np.eye(3) + d.any(3, 3) / 20,) * with_e + (d.any(3, 2) / 20,) * with_s
                first = d.any(3, 3) / 6 - (np.eye(3) if "cont" in name else 0)
                args = (first, d.any(3, 2) / 2, d.definite(3, 3), d.definite(2, 2), *more)
                yield riccati(name, with_e, with_s), args, {}


# LAPACK gives some vectors another sign in single precision; a real matrix taken as complex sits where phases jump.
GAUGES = (la.svd, la.qr, la.eigh, la.eig, sl.eigh, sl.eig, sl.qr, sl.rq, sl.schur, sl.orth, sl.null_space)


def check(f, args, options):
    """Check one call in every dtype that has a stable answer; SciPy takes float16, and answers in float32."""
    scipys = "F" if any(np.iscomplexobj(a) for a in leaves(args)) else "f"
    dtypes = "d" if f in GAUGES else scipys if f.__module__.startswith("scipy") else "dfDF"
    fixed = {key: options[key] for key in ("p",) if key in options}
    options = {key: value for key, value in options.items() if key not in fixed}
    function = (lambda *a, **k: f(*a, **fixed, **k)) if fixed else f
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_rule(function, *args, dtypes=dtypes, widths=(), rtol=1e-6, **options)


def parameters(*groups):
    """Each call of these groups with its name, for real and complex numbers."""
    for kind in ("real", "complex"):
        for group in groups:
            for k, (f, args, options) in enumerate(group(Draw(kind))):
                words = " ".join(f"{key}={value}" for key, value in options.items())
                yield pytest.param(f, args, options, id=f"{group.__name__} {kind} {k} {f.__name__} {words}")
