"""Rules for scipy.linalg: factors of other forms, by those of QR and of triangles.

R Q and L D L^H keep their pivots; the reflectors of ``mode="raw"`` are those of LAPACK's geqrf.
"""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose
from ndual.rules.householder import _geqrf_jvp
from ndual.rules.registry import undefined
from ndual.rules.scipy_linalg import _reading
from ndual.rules.stacks import over_stacks, stacked
from ndual.rules.support import add, adjoint, dense_vjp, lane_count, refuse, scipy_linalg, truth

Arrays = tuple[Any, ...]


def _raw_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays) -> Arrays:
    moved = _geqrf_jvp(xp, (xp.swapaxes(y[0], -1, -2), y[1]), x, dx)
    return xp.swapaxes(moved[0], -1, -2), moved[1]


decompose.RAW[:] = over_stacks("2", _raw_jvp, dense_vjp(_raw_jvp))


def _qr_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, mode: str, pivoting: Any, **_: Any) -> Any:
    modes = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in modes:
        raise refuse("scipy.linalg.qr", f"mode={mode!r}", "Use mode='economic'.")
    a, t = x[0], dx[0]
    if pivoting:
        a, t = a[..., y[-1]], t[..., y[-1]]
    several = isinstance(y, tuple | list)  # not in mode="r" of stacks, where SciPy unpacks its tuple of one
    first = (y[:-1] if pivoting else y) if several else (y,)
    if mode == "r":
        q, r = xp.linalg.qr(a)
        # SciPy gives a tuple of one matrix, with rows of zeros below.
        dr = decompose.qr(xp, (q, r), (a,), (t,), "reduced")[1]
        missing = first[0].shape[-2] - dr.shape[-2]
        dr = xp.concatenate((dr, xp.zeros((*dr.shape[:-2], missing, dr.shape[-1]), dr.dtype)), -2)
        if not several:
            return dr
        out: Any = (dr,)
    else:
        out = decompose.qr(xp, first, (a,), (t,), modes[mode])
    return (*out, None) if pivoting else out


@stacked(
    "scipy.linalg.qr", "a", "2", dense_vjp(_qr_jvp),
    overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True,
)  # fmt: skip
def qr(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """As numpy.linalg.qr; pivots stay where they are."""
    return _qr_jvp(xp, y, x, dx, **options)


def _multiply_jvp(
    xp: Any, y: Arrays, x: Arrays, dx: Arrays, mode: str, pivoting: Any, conjugate: Any, overwrite_c: Any, **_: Any
) -> Arrays:
    (a, c), (da, dc) = x, dx
    form = "full" if mode == "left" and truth(overwrite_c) else "economic"
    q, *rest = scipy_linalg(xp).qr(a, mode=form, pivoting=bool(pivoting))
    moves: Any = (None, None)
    if da is not None:
        moves = _qr_jvp(xp, (q, *rest), (a,), (da,), form, pivoting)
    q, dq = (None if v is None else xp.conj(v) if conjugate else v for v in (q, moves[0]))
    left = mode == "left"
    c, dc = (None if v is None else v[..., None] if left and c.ndim == 1 else v for v in (c, dc))
    t: Any = None if dc is None else xp.matmul(q, dc) if left else xp.matmul(dc, q)
    if dq is not None:
        t = add(xp, xp.matmul(dq, c) if left else xp.matmul(c, dq), t)
    k = min(a.shape)
    dr = xp.zeros((lane_count(dx), *y[1].shape), y[1].dtype) if moves[1] is None else moves[1][..., :k, :]
    return (t.reshape(len(t), *y[0].shape), dr, None)[: len(y)]


@stacked(
    "scipy.linalg.qr_multiply", "a c", "2 v", dense_vjp(_multiply_jvp),
    mode="right", pivoting=False, conjugate=False, overwrite_a=False, overwrite_c=False,
)  # fmt: skip
def qr_multiply(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **options: Any) -> Arrays:
    """Q C or C Q, and R."""
    return _multiply_jvp(xp, y, x, dx, **options)


def _flipped(xp: Any, m: Any) -> Any:
    """The adjoint of a matrix, or of lanes, whose rows were put in the opposite order."""
    return adjoint(xp, m[..., ::-1, :])


def _rq_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, mode: str, **_: Any) -> Any:
    a, t = _flipped(xp, x[0]), _flipped(xp, dx[0])
    if mode == "r":
        q, r = scipy_linalg(xp).rq(x[0], mode="economic")[::-1]
        dr = _rq_lanes(xp, q, r, a, t, "reduced")[0]
        missing = y.shape[-1] - dr.shape[-1]
        return xp.concatenate((xp.zeros((*dr.shape[:-1], missing), dr.dtype), dr), -1)
    return _rq_lanes(xp, y[1], y[0], a, t, "reduced" if mode == "economic" else "complete")


def _rq_lanes(xp: Any, q: Any, r: Any, a: Any, t: Any, mode: str) -> Arrays:
    # A = R Q with rows reversed, and then adjoint, is a product of Q^H and a triangle: its QR.
    first = adjoint(xp, q[::-1]), adjoint(xp, r[::-1, ::-1])
    dq, dr = decompose.qr(xp, first, (a,), (t,), mode)
    return adjoint(xp, dr)[..., ::-1, ::-1], adjoint(xp, dq)[..., ::-1, :]


@stacked("scipy.linalg.rq", "a", "2", dense_vjp(_rq_jvp), overwrite_a=False, lwork=None, mode="full", check_finite=True)
def rq(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """The QR factors of the matrix with its rows reversed, adjoint."""
    return _rq_jvp(xp, y, x, dx, **options)


def _blocks(xp: Any, d: Any) -> Any:
    """The number of the diagonal block, of one or two rows, in which each row of D is."""
    joined = xp.concatenate((xp.zeros(1, bool), xp.diagonal(d, -1) != 0))
    return xp.cumsum(~joined)


def _ldl_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, lower: Any, hermitian: Any, **_: Any) -> Arrays:
    outer, d, order = y
    low, hermitian = truth(lower), truth(hermitian)
    read, _back = _reading("scipy.linalg.ldl", xp, x[0], low, "her" if hermitian else "sym")
    t = read(dx[0])[:, order][:, :, order]
    # D is known by its lower bands where they are not zero: SciPy fills in both.
    row = _blocks(xp, d)[:, None]
    same, strict = row == row.T, row > row.T if low else row < row.T
    factor = outer[order]

    def turned(m: Any) -> Any:
        return adjoint(xp, m) if hermitian else xp.swapaxes(m, -1, -2)

    f = xp.linalg.solve(factor, turned(xp.linalg.solve(factor, turned(t))))
    inside = xp.where(strict, f, 0)
    empty = (d == 0).all(axis=0)
    s = xp.matmul(inside, xp.linalg.inv(d + xp.where(xp.eye(len(d), dtype=bool), empty, 0)))
    if bool(((inside != 0) & empty).any()):
        undefined("ldl: a pivot that is zero leaves a column of L without derivative")
        s = xp.where((inside != 0) & empty, float("nan"), s)
    moved = xp.matmul(factor, s)
    return moved[:, xp.argsort(order)], xp.where(same, f, 0), None


@stacked(
    "scipy.linalg.ldl", "A", "2", dense_vjp(_ldl_jvp), lower=True, hermitian=True, overwrite_a=False, check_finite=True
)
def ldl(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **options: Any) -> Arrays:
    """With F = L^-1 dA L^-H: its diagonal blocks, and L times the blocks below them over D; pivots stay."""
    return _ldl_jvp(xp, y, x, dx, **options)
