"""Rules for scipy.linalg: triangular factors by Gaussian elimination, of any shape, and solving with them.

The pivots stay where they are: the derivative is that of the factorisation without pivoting of the permuted matrix.
"""

from __future__ import annotations

from typing import Any

from ndual.rules import linalg
from ndual.rules.registry import structured
from ndual.rules.stacks import stacked
from ndual.rules.support import adjoint, scipy_linalg
from ndual.rules.triangular import tri_inverse, tri_part

Arrays = tuple[Any, ...]


def _over_upper(xp: Any, m: Any, upper: Any) -> Any:
    """M U^-1, by the inverse, which serves all lanes."""
    return xp.matmul(m, tri_inverse(xp, upper, False))


def _lanes(xp: Any, lower: Any, upper: Any, t: Any) -> Arrays:
    """From lanes of the permuted matrix, dL and dU: with F = L^-1 dA U^-1, L tril(F, -1) and triu(F) U."""
    k = lower.shape[-1]
    l1, u1 = lower[..., :k, :], upper[..., :k]
    f = _over_upper(xp, xp.matmul(tri_inverse(xp, l1), t[..., :k, :k]), u1)
    strict = tri_part(xp, f, True, True)
    dl, du = xp.matmul(l1, strict), xp.matmul(f - strict, u1)
    if lower.shape[-2] > k:
        rest = _over_upper(xp, t[..., k:, :] - xp.matmul(lower[..., k:, :], du), u1)
        dl = xp.concatenate((dl, rest), -2)
    if upper.shape[-1] > k:
        rest = xp.matmul(tri_inverse(xp, l1), t[..., k:] - xp.matmul(dl, upper[..., k:]))
        du = xp.concatenate((du, rest), -1)
    return dl, du


def _cotangent(xp: Any, lower: Any, upper: Any, gl: Any, gu: Any) -> Any:
    """The cotangent of the permuted matrix; each step is the adjoint of one in `_lanes`."""
    k = lower.shape[-1]
    l1h, u1h = adjoint(xp, lower[..., :k, :]), adjoint(xp, upper[..., :k])
    under = adjoint(xp, tri_inverse(xp, lower[..., :k, :]))
    over = adjoint(xp, tri_inverse(xp, upper[..., :k], False))
    g1, h1 = gl[..., :k, :], gu[..., :k]
    below = beside = None
    if upper.shape[-1] > k:
        beside = xp.matmul(under, gu[..., k:])
        g1 = g1 - xp.matmul(beside, adjoint(xp, upper[..., k:]))
    if lower.shape[-2] > k:
        below = xp.matmul(gl[..., k:, :], over)
        h1 = h1 - xp.matmul(adjoint(xp, lower[..., k:, :]), below)
    gf = tri_part(xp, xp.matmul(l1h, g1), True, True) + tri_part(xp, xp.matmul(h1, u1h), False)
    g = xp.matmul(xp.matmul(under, gf), over)
    if below is not None:
        return xp.concatenate((g, below), -2)
    return g if beside is None else xp.concatenate((g, beside), -1)


def _factors(xp: Any, y: Arrays, a: Any, permute_l: Any, p_indices: Any) -> Arrays:
    """P, L and U with A = P L U, whatever form they were asked for in."""
    if permute_l:
        p, lower, upper = scipy_linalg(xp).lu(a)
        return p, lower, upper
    p, lower, upper = y
    return (xp.eye(a.shape[-2], dtype=a.dtype)[p] if p_indices else p), lower, upper


def _lu_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, permute_l: Any, p_indices: Any, **_: Any) -> Arrays:
    p, lower, upper = _factors(xp, y, x[0], permute_l, p_indices)
    gl, gu = w[-2:]
    gl = xp.zeros_like(lower) if gl is None else xp.matmul(xp.swapaxes(p, -1, -2), gl) if permute_l else gl
    gu = xp.zeros_like(upper) if gu is None else gu
    return (xp.matmul(p, _cotangent(xp, lower, upper, gl, gu)),)


_LU: dict[str, Any] = {"permute_l": False, "overwrite_a": False, "check_finite": True, "p_indices": False}


@structured("scipy.linalg.lu", "a", _lu_vjp, **_LU)
def lu(xp: Any, y: Arrays, x: Arrays, dx: Arrays, permute_l: Any, p_indices: Any, **_: Any) -> Arrays:
    """Triangles of L^-1 dA U^-1, the pivots staying where they are."""
    p, lower, upper = _factors(xp, y, x[0], permute_l, p_indices)
    dl, du = _lanes(xp, lower, upper, xp.matmul(xp.swapaxes(p, -1, -2), dx[0]))
    return (xp.matmul(p, dl), du) if permute_l else (None, dl, du)


def _rows(xp: Any, pivots: Any, n: int) -> Any:
    """The order of rows that the interchanges of LAPACK lead to, for a stack of them."""
    pivots = xp.asarray(pivots)
    flat = pivots.reshape(-1, pivots.shape[-1])
    rows = xp.broadcast_to(xp.arange(n), (flat.shape[0], n)).copy()
    each = xp.arange(flat.shape[0])
    for i in range(flat.shape[1]):
        k = flat[:, i]
        rows[each, i], rows[each, k] = rows[each, k], rows[each, i].copy()
    return rows.reshape(*pivots.shape[:-1], n)


def _permuted(xp: Any, rows: Any, m: Any) -> Any:
    """The rows of a stack of matrices, or of lanes of it, in another order."""
    rows = xp.broadcast_to(rows[..., None], (*m.shape[:-1], 1))
    return xp.take_along_axis(m, rows, -2)


def _packed(xp: Any, packed: Any) -> Arrays:
    """L and U from the matrix that holds both."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    return xp.tril(packed[..., :k], -1) + xp.eye(m, k, dtype=packed.dtype), xp.triu(packed[..., :k, :])


def _together(xp: Any, dl: Any, du: Any) -> Any:
    """Parts of L and U in one matrix: what lies below its diagonal, and the rest."""
    m, n, k = dl.shape[-2], du.shape[-1], dl.shape[-1]
    if n > k:
        dl = xp.concatenate((dl, xp.zeros((*dl.shape[:-1], n - k), dl.dtype)), -1)
    if m > k:
        du = xp.concatenate((du, xp.zeros((*du.shape[:-2], m - k, n), du.dtype)), -2)
    return xp.tril(dl, -1) + xp.triu(du)


def _lu_factor_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, **_: Any) -> Arrays:
    g, k = w[0], min(x[0].shape[-2:])
    lower, upper = _packed(xp, y[0])
    inside = _cotangent(xp, lower, upper, xp.tril(g[..., :k], -1), xp.triu(g[..., :k, :]))
    return (_permuted(xp, xp.argsort(_rows(xp, y[1], g.shape[-2]), -1), inside),)


@structured("scipy.linalg.lu_factor", "a", _lu_factor_vjp, overwrite_a=False, check_finite=True)
def lu_factor(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """Both triangles in one matrix."""
    moved = _permuted(xp, _rows(xp, y[1], x[0].shape[-2]), dx[0])
    lower, upper = _packed(xp, y[0])
    dl, du = _lanes(xp, lower, upper, moved)
    return _together(xp, dl, du), None


def _operation(xp: Any, m: Any, trans: Any) -> Any:
    return m if trans == 0 else xp.swapaxes(m, -1, -2) if trans == 1 else adjoint(xp, m)


def _lu_solve_vjp(xp: Any, w: Any, y: Any, x: Arrays, trans: int, **_: Any) -> Arrays:
    packed, pivots, b = x
    lower, upper = _packed(xp, packed)
    rows = _rows(xp, pivots, packed.shape[-1])
    a = _permuted(xp, xp.argsort(rows, -1), xp.matmul(lower, upper))
    g, gb = linalg.solve_vjp(xp, w, y, (_operation(xp, a, trans), b))
    g = _permuted(xp, rows, _operation(xp, g, trans))
    return _together(xp, xp.matmul(g, adjoint(xp, upper)), xp.matmul(adjoint(xp, lower), g)), None, gb


@stacked(
    "scipy.linalg.lu_solve", "*lu_and_piv b", "2 1 v", _lu_solve_vjp, trans=0, overwrite_b=False, check_finite=True
)
def lu_solve(xp: Any, y: Any, x: Arrays, dx: Arrays, trans: int, **_: Any) -> Any:
    """A dx = db - dA x with the matrix that the factors stand for."""
    (packed, pivots, b), (move, _p, db) = x, dx
    lower, upper = _packed(xp, packed)
    back = xp.argsort(_rows(xp, pivots, packed.shape[-1]), -1)
    a = _operation(xp, _permuted(xp, back, xp.matmul(lower, upper)), trans)
    if move is not None:
        dl = tri_part(xp, move, True, True)
        move = _permuted(xp, back, xp.matmul(dl, upper) + xp.matmul(lower, move - dl))
        move = _operation(xp, move, trans)
    return linalg.solve(xp, y, (a, b), (move, db))
