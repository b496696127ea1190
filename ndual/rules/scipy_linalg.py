"""Rules for scipy.linalg: triangular and Cholesky solves, general solves, decompositions, expm, structured matrices.

SciPy's signatures differ from NumPy's; the formulas are those of ``linalg.py`` and ``decompose.py``. Only what the
routine reads enters a derivative: one triangle, no unit diagonal.
"""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose, linalg
from ndual.rules.linalg import cholesky_cotangent, cholesky_lanes
from ndual.rules.registry import KERNELS, structured
from ndual.rules.stacks import stacked
from ndual.rules.support import (
    adjoint,
    conj,
    lane_count,
    real_as,
    refuse,
    scipy_linalg,
    spread,
    truth,
    unbroadcast,
    zeros_lanes,
)
from ndual.rules.triangular import host_char, literal, tri_apply, tri_part, tri_solve, whole

_CALL: dict[str, Any] = {"overwrite_b": False, "check_finite": True}


def _operation(trans: Any) -> Any:
    return {"N": 0, "T": 1, "C": 2}.get(trans, trans)


def _apply(xp: Any, m: Any, t: Any) -> Any:
    """M times every lane."""
    return xp.matmul(t, xp.swapaxes(m, -1, -2)) if t.ndim == 2 else xp.matmul(m, t)


def _outer_cotangent(xp: Any, gb: Any, y: Any, trans: int) -> Any:
    gb, y = (gb[:, None], y[:, None]) if y.ndim == 1 else (gb, y)
    left, right = (gb, adjoint(xp, y)) if trans == 0 else (y, adjoint(xp, gb)) if trans == 2 else (conj(xp, y), gb.T)
    # A product of one column by one row is BLAS's slowest.
    return xp.multiply(-left, right) if left.shape[1] == 1 else xp.matmul(-left, right)


def _triangle(xp: Any, m: Any, low: bool, trans: int, unit: bool) -> Any:
    """The triangle that is read, transposed as `trans` says, of a stack of matrices or lanes."""
    part = tri_part(xp, m, low, unit)
    return adjoint(xp, part) if trans == 2 else xp.swapaxes(part, -1, -2) if trans else part


def _solve_triangular_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, Any], trans: Any, lower: Any, unit_diagonal: Any, **_: Any
) -> tuple[Any, Any]:
    a, b = x
    trans, low, unit = _operation(trans), truth(lower), truth(unit_diagonal)
    if a.ndim > 2 or b.ndim > 2:
        whole = _triangle(xp, a, low, trans, unit) + (xp.eye(a.shape[-1], dtype=a.dtype) if unit else 0)
        g, gb = linalg.solve_vjp(xp, w, y, (whole, b))
        return tri_part(xp, _triangle(xp, g, low != bool(trans), trans, unit), low, unit), gb
    if trans == 0:
        gb = tri_solve(xp, a, w[None], low, 2, unit)[0]
    else:
        gb = tri_solve(xp, xp.conj(a) if trans == 1 and a.dtype.kind == "c" else a, w[None], low, 0, unit)[0]
    if y.ndim == 1 and host_char(xp, gb, y) is not None:
        return KERNELS["outer_triangle"](*((y, gb) if trans else (gb, y)), low, unit), gb
    return tri_part(xp, _outer_cotangent(xp, gb, y, trans), low, unit, fresh=True), gb


@structured(
    "scipy.linalg.solve_triangular", "a b", _solve_triangular_vjp, trans=0, lower=False, unit_diagonal=False, **_CALL
)
def solve_triangular(
    xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], trans: Any, lower: Any, unit_diagonal: Any, **_: Any
) -> Any:
    """op(A) dy = db - op(dA) y, with the triangle of dA that belongs to what was read."""
    (a, b), (da, db) = x, dx
    trans, low, unit = _operation(trans), truth(lower), truth(unit_diagonal)
    if a.ndim > 2 or b.ndim > 2:
        whole = _triangle(xp, a, low, trans, unit) + (xp.eye(a.shape[-1], dtype=a.dtype) if unit else 0)
        move = None if da is None else _triangle(xp, da, low, trans, unit)
        return linalg.solve(xp, y, (whole, b), (move, db))
    if da is None:
        return tri_solve(xp, a, db, low, trans, unit)
    r = tri_apply(xp, da, y, low, trans, unit)
    r = -r if db is None else db - r
    return tri_solve(xp, a, r, low, trans, unit, fresh=True)


def _upper(xp: Any, factor: Any, lower: bool) -> Any:
    return factor if lower else adjoint(xp, factor)


def _cholesky_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], lower: Any, **_: Any) -> tuple[Any]:
    low = truth(lower)
    return (_upper(xp, cholesky_cotangent(xp, _upper(xp, y, low), _upper(xp, w, low)), low),)


_FACTOR: dict[str, Any] = {"lower": False, "overwrite_a": False, "check_finite": True}


@structured("scipy.linalg.cholesky", "a", _cholesky_vjp, **_FACTOR)
def cholesky(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], lower: Any, **_: Any) -> Any:
    """L Phi(L^-1 dA L^-H) of the triangle that was read."""
    low = truth(lower)
    return _upper(xp, cholesky_lanes(xp, _upper(xp, y, low), _upper(xp, dx[0], low)), low)


def _other_triangle(xp: Any, c: Any, a: Any, lanes: Any, low: bool) -> Any:
    """Lanes of what the factorisation does not use: the operand's, or nothing where SciPy (1.18) clears it."""
    return xp.where(c == a, tri_part(xp, lanes, not low, True), 0)


def _cho_factor_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], **_: Any) -> tuple[Any]:
    c, low = y[0], bool(y[1])
    g = w[0] if isinstance(w, tuple | list) else w
    inside = _cholesky_vjp(xp, tri_part(xp, g, low), tri_part(xp, c, low), x, low)[0]
    return (inside + _other_triangle(xp, c, x[0], g, low),)


@stacked("scipy.linalg.cho_factor", "a", "2", _cho_factor_vjp, **_FACTOR)
def cho_factor(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], **_: Any) -> Any:
    """The Cholesky factor's lanes, and those of the other triangle."""
    c, low = y[0], bool(y[1])  # SciPy 1.18 returns an array
    t = cholesky(xp, tri_part(xp, c, low), x, dx, low)
    return tri_part(xp, t, low) + _other_triangle(xp, c, x[0], dx[0], low), None


def _cho_solve_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], **_: Any) -> tuple[Any, ...]:
    c, low = x[0], bool(x[1])
    step = 0 if low else 2
    first = tri_solve(xp, c, w[None], low, step)
    gb = tri_solve(xp, c, first, low, 2 - step)[0]
    factor = tri_part(xp, c, low)
    u, v = (gb[:, None], y[:, None]) if y.ndim == 1 else (gb, y)
    s = xp.matmul(u, adjoint(xp, v))
    s = s + adjoint(xp, s)
    g = -xp.matmul(s, factor) if low else -xp.matmul(factor, s)
    return tri_part(xp, g, low), None, gb


@stacked("scipy.linalg.cho_solve", "*c_and_lower b", "2 - v", _cho_solve_vjp, **_CALL)
def cho_solve(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], **_: Any) -> Any:
    """A dy = db - dA y with A = L L^H and dA = dL L^H + L dL^H, two triangular solves for all lanes."""
    (c, low, _b), (dc, _, db) = x, dx
    low = bool(low)
    r = db
    if dc is not None:
        step = 2 if low else 0
        factor = tri_part(xp, c, low)
        inner = xp.matmul(adjoint(xp, factor) if low else factor, y)
        t = tri_apply(xp, dc, inner, low, 2 - step)
        t = t + _apply(xp, factor if low else adjoint(xp, factor), tri_apply(xp, dc, y, low, step))
        r = -t if db is None else db - t
    first = tri_solve(xp, c, r, low, 0 if low else 2)
    return tri_solve(xp, c, first, low, 2 if low else 0)


_SOLVE: dict[str, Any] = {"lower": False, "overwrite_a": False, **_CALL, "assume_a": None, "transposed": False}
_FULL = (None, "gen", "general", "banded")
_TRIANGLES = {"upper triangular": False, "lower triangular": True}
_BANDS = {"diagonal": 0, "tridiagonal": 1}
_SYMMETRIC = ("sym", "symmetric")
_HERMITIAN = ("her", "hermitian", "pos", "positive definite")


def _symmetric(xp: Any, m: Any, lower: bool) -> Any:
    part = tri_part(xp, m, lower)
    return part + xp.swapaxes(tri_part(xp, m, lower, True), -1, -2)


def _from_symmetric(xp: Any, g: Any, lower: bool) -> Any:
    return tri_part(xp, g, lower) + tri_part(xp, xp.swapaxes(g, -1, -2), lower, True)


def _reading(name: str, xp: Any, a: Any, lower: Any, assume_a: Any) -> tuple[Any, Any]:
    """What a solver reads of its matrix: the map from the matrix (or lanes) to what counts, and its transpose."""
    low = truth(lower)
    if assume_a in _FULL:
        return (lambda m: m), (lambda g: g)
    if assume_a in _HERMITIAN or (assume_a in _SYMMETRIC and a.dtype.kind != "c"):
        return (lambda m: whole(xp, m, low)), (lambda g: literal(xp, g, low))
    if assume_a in _SYMMETRIC:
        return (lambda m: _symmetric(xp, m, low)), (lambda g: _from_symmetric(xp, g, low))
    if assume_a in _TRIANGLES:
        return (lambda m: tri_part(xp, m, _TRIANGLES[assume_a])), (lambda g: tri_part(xp, g, _TRIANGLES[assume_a]))
    if assume_a in _BANDS:
        rows = xp.arange(a.shape[-1])
        inside = abs(rows[:, None] - rows) <= _BANDS[assume_a]
        return (lambda m: xp.where(inside, m, 0)), (lambda g: xp.where(inside, g, 0))
    raise refuse(name, f"assume_a={assume_a!r}", "Use assume_a='gen'.")


def _solve_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, Any], lower: Any, assume_a: Any, transposed: Any, **_: Any
) -> tuple[Any, Any]:
    a, b = x
    used, back = _reading("scipy.linalg.solve", xp, a, lower, assume_a)
    if truth(transposed):
        g, gb = linalg.solve_vjp(xp, w, y, (xp.swapaxes(used(a), -1, -2), b))
        return back(xp.swapaxes(g, -1, -2)), gb
    g, gb = linalg.solve_vjp(xp, w, y, (used(a), b))
    return back(g), gb


@structured("scipy.linalg.solve", "a b", _solve_vjp, **_SOLVE)
def solve(
    xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], lower: Any, assume_a: Any, transposed: Any, **_: Any
) -> Any:
    """As numpy.linalg.solve, of the part of the matrix that the solver reads."""
    (a, b), (da, db) = x, dx
    used, _back = _reading("scipy.linalg.solve", xp, a, lower, assume_a)
    a, da = used(a), None if da is None else used(da)
    if truth(transposed):
        a, da = xp.swapaxes(a, -1, -2), None if da is None else xp.swapaxes(da, -1, -2)
    return linalg.solve(xp, y, (a, b), (da, db))


def _diagonal_factor(xp: Any, y: Any) -> Any:
    """What takes a tangent to that of an inverted diagonal, beside which SciPy leaves what it finds."""
    return xp.where(xp.eye(y.shape[-1], dtype=bool), -y * y, 1)


def _inv_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], assume_a: Any, lower: Any, **_: Any) -> tuple[Any]:
    if assume_a == "diagonal":
        return (w * conj(xp, _diagonal_factor(xp, y)),)
    _used, back = _reading("scipy.linalg.inv", xp, x[0], lower, assume_a)
    return (back(linalg.inv_vjp(xp, w, y, x)[0]),)


@structured("scipy.linalg.inv", "a", _inv_vjp, overwrite_a=False, check_finite=True, assume_a=None, lower=False)
def inverse(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], assume_a: Any, lower: Any, **_: Any) -> Any:
    """-Y dA Y, of the part of the matrix that is read."""
    if assume_a == "diagonal":
        return dx[0] * _diagonal_factor(xp, y)
    used, _back = _reading("scipy.linalg.inv", xp, x[0], lower, assume_a)
    return linalg.inv(xp, y, x, (used(dx[0]),))


def _svd_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], full_matrices: Any, compute_uv: Any, **_: Any) -> tuple[Any]:
    return decompose.svd_vjp(xp, w, y, x, full_matrices, compute_uv, False)


_SVD: dict[str, Any] = {"overwrite_a": False, "check_finite": True, "lapack_driver": "gesdd"}


@structured("scipy.linalg.svd", "a", _svd_vjp, full_matrices=True, compute_uv=True, **_SVD)
def svd(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], full_matrices: Any, compute_uv: Any, **_: Any) -> Any:
    """As numpy.linalg.svd."""
    return decompose.svd(xp, y, x, dx, full_matrices, compute_uv, False)


def _svdvals_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], **_: Any) -> tuple[Any]:
    return decompose.svd_vjp(xp, w, y, x, False, False, False)


@structured("scipy.linalg.svdvals", "a", _svdvals_vjp, overwrite_a=False, check_finite=True)
def svdvals(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], **_: Any) -> Any:
    """Re(u^H dA v)."""
    return decompose.svdvals(xp, y, x, dx)


def _expm_lanes(xp: Any, a: Any, t: Any) -> Any:
    """The upper right block of expm([[A, dA], [0, A]]), all lanes stacked (Higham 2008, 10.13)."""
    lanes, n = t.shape[0], a.shape[-1]
    wide = xp.broadcast_to(a, t.shape)
    top = xp.concatenate((wide, t), -1)
    bottom = xp.concatenate((xp.zeros_like(wide), wide), -1)
    whole = scipy_linalg(xp).expm(xp.concatenate((top, bottom), -2))
    return whole.reshape(lanes, *a.shape[:-2], 2 * n, 2 * n)[..., :n, n:]


def _expm_vjp(xp: Any, w: Any, y: Any, x: tuple[Any]) -> tuple[Any]:
    return (_expm_lanes(xp, adjoint(xp, x[0]), w[None])[0],)


@structured("scipy.linalg.expm", "A", _expm_vjp)
def expm(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any]) -> Any:
    """A block of the exponential of a block triangular matrix."""
    return _expm_lanes(xp, x[0], dx[0])


def _doubled(xp: Any, a: Any, e: Any) -> Any:
    """The matrix [[A, E], [0, A]], or lanes of it."""
    return xp.concatenate((xp.concatenate((a, e), -1), xp.concatenate((xp.zeros_like(a), a), -1)), -2)


def _expm_frechet_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any], compute_expm: Any, **_: Any) -> tuple[Any, Any]:
    a, e = x
    n = a.shape[-1]
    first, second = w if truth(compute_expm) else (None, w)
    corner = xp.zeros((2 * n, 2 * n), xp.result_type(a, e))
    if first is not None:
        corner[:n, :n] = first
    if second is not None:
        corner[:n, n:] = second
    g = _expm_lanes(xp, adjoint(xp, _doubled(xp, a, e)), corner[None])[0]
    return real_as(a, g[:n, :n] + g[n:, n:]), real_as(e, g[:n, n:])


@stacked(
    "scipy.linalg.expm_frechet", "A E", "2 2", _expm_frechet_vjp, method=None, compute_expm=True, check_finite=True
)
def expm_frechet(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], compute_expm: Any, **_: Any) -> Any:
    """Both results are blocks of expm([[A, E], [0, A]]), whose derivative is a block of one twice as large."""
    (a, e), (da, de) = x, dx
    n, lanes = a.shape[-1], lane_count(dx)
    da = zeros_lanes(xp, lanes, a, a.dtype) if da is None else da
    de = zeros_lanes(xp, lanes, e, e.dtype) if de is None else de
    out = _expm_lanes(xp, _doubled(xp, a, e), _doubled(xp, da, de))
    return (out[:, :n, :n], out[:, :n, n:]) if truth(compute_expm) else out[:, :n, n:]


def _corners(x: tuple[Any, ...]) -> list[tuple[slice, slice]]:
    out, row, column = [], 0, 0
    for a in x:
        m, n = _block_shape(a)[-2:]
        out.append((slice(row, row + m), slice(column, column + n)))
        row, column = row + m, column + n
    return out


def _block_shape(a: Any) -> tuple[int, ...]:
    return (*(1,) * max(2 - a.ndim, 0), *a.shape)


def _block_diag_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        unbroadcast(w[..., rows, columns], _block_shape(a)).reshape(a.shape)
        for a, (rows, columns) in zip(x, _corners(x), strict=True)
    )


@structured("scipy.linalg.block_diag", "arrs...", _block_diag_vjp)
def block_diag(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...]) -> Any:
    """The lanes of each block in its place."""
    out = zeros_lanes(xp, lane_count(dx), y, y.dtype)
    for a, t, (rows, columns) in zip(x, dx, _corners(x), strict=True):
        if t is not None:
            out[..., rows, columns] = spread(t.reshape(t.shape[0], *_block_shape(a)), y.ndim)
    return out
