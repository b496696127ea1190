"""QR by LAPACK's packed reflectors: geqrf, and orgqr and ormqr, which multiply by them.

With A = Q R, Q is the product of reflectors 1 - tau v v^H. The tangents follow the algorithm, one reflector after the
other, all lanes at once; cotangents come from the tangents of the unit vectors, so that they are for small matrices.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.blas_terms import names_of, of_rank
from ndual.rules.registry import structured, undefined
from ndual.rules.support import adjoint, conj, dense_vjp, lane_count

Arrays = tuple[Any, ...]


def _lapack(pattern: str) -> str:
    return " ".join(names_of(pattern, "lapack"))


def _reflect(xp: Any, v: Any, dv: Any, tau: Any, dtau: Any, c: Any, dc: Any) -> Arrays:
    """(1 - tau v v^H) C for a column v, and its lanes."""
    row = xp.matmul(adjoint(xp, v), c)
    moved = xp.matmul(adjoint(xp, dv), c) + xp.matmul(adjoint(xp, v), dc)
    scaled = xp.matmul(dv, row) + xp.matmul(v, moved)
    return c - tau * xp.matmul(v, row), dc - tau * scaled - dtau[:, None, None] * xp.matmul(v, row)


def _geqrf_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    qr, taus = y[0], y[1]
    c, dc = (of_rank(v, 2, lanes).astype(qr.dtype) for lanes, v in enumerate((x[0], dx[0])))
    dqr, dtaus = xp.zeros((len(dc), *qr.shape), qr.dtype), xp.zeros((len(dc), *taus.shape), qr.dtype)
    for j in range(taus.shape[0]):
        a, da, tau, beta = c[:, 0], dc[:, :, 0], taus[j], qr[j, j]
        still = a.shape[0] > 1 and bool(tau == 0)
        if still:
            below = (da != 0) & (xp.arange(a.shape[0]) > 0)
            if bool(below.any()):
                undefined("geqrf: a column below whose head there are zeros has a reflector that jumps there")
            da = xp.where(below, float("nan"), da)
        dbeta = da[:, 0]
        if a.shape[0] > 1 or a.dtype.kind == "c":
            dbeta = xp.matmul(da, conj(xp, a)).real / beta
            dtaus[:, j] = (a[0] * dbeta - da[:, 0] * beta) / beta**2
        v = xp.concatenate((xp.ones(1, qr.dtype), qr[j + 1 :, j]))[:, None]
        tail = da[:, 1:] - qr[j + 1 :, j] * (da[:, 0] - dbeta)[:, None]
        tail = tail if still else tail / (a[0] - beta)
        dv = xp.concatenate((xp.zeros((len(dc), 1), qr.dtype), tail), -1)[..., None]
        dqr[:, j, j] = dbeta
        dqr[:, j + 1 :, j] = dv[:, 1:, 0]
        c, dc = _reflect(xp, v, dv, conj(xp, tau), conj(xp, dtaus[:, j]), c[:, 1:], dc[..., 1:])
        dqr[:, j, j + 1 :] = dc[:, 0]
        c, dc = c[1:], dc[:, 1:]
    return dqr, dtaus, None, None


@structured(_lapack("s,d,c,z:geqrf"), "a", dense_vjp(_geqrf_jvp), lwork=None, overwrite_a=0)
def geqrf(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """Each column's reflector, and what it does to the columns on its right."""
    return _geqrf_jvp(xp, y, x, dx)


def _geqp3_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    order = y[1] - 1
    packed, taus = _geqrf_jvp(xp, (y[0], y[2]), (x[0][:, order],), (dx[0][:, :, order],))[:2]
    return packed, None, taus, None, None


@structured(_lapack("s,d,c,z:geqp3"), "a", dense_vjp(_geqp3_jvp), lwork=None, overwrite_a=0)
def geqp3(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """As geqrf, of the columns in the order of the pivots, which stay."""
    return _geqp3_jvp(xp, y, x, dx)


def _multiply(xp: Any, x: Arrays, dx: Arrays, c: Any, dc: Any, adjoint_of: bool) -> Any:
    """The lanes of Q C, or of Q^H C."""
    (qr, taus), (dqr, dtaus) = x, dx
    count, n = taus.shape[0], len(dc)
    for j in range(count) if adjoint_of else reversed(range(count)):
        v = xp.concatenate((xp.zeros(j, qr.dtype), xp.ones(1, qr.dtype), qr[j + 1 :, j]))[:, None]
        dv = xp.zeros((n, qr.shape[0], 1), qr.dtype)
        if dqr is not None:
            dv[:, j + 1 :, 0] = dqr[:, j + 1 :, j]
        tau, dtau = taus[j], xp.zeros(n, qr.dtype) if dtaus is None else dtaus[:, j]
        if adjoint_of:
            tau, dtau = conj(xp, tau), conj(xp, dtau)
        c, dc = _reflect(xp, v, dv, tau, dtau, c, dc)
    return dc


def _orgqr_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    q, n = y[0], lane_count(dx)
    moved = _multiply(xp, x, dx, xp.eye(*q.shape, dtype=q.dtype), xp.zeros((n, *q.shape), q.dtype), False)
    return moved, None, None


@structured(_lapack("s,d:orgqr c,z:ungqr"), "a tau", dense_vjp(_orgqr_jvp), lwork=None, overwrite_a=0)
def orgqr(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """The first columns of Q."""
    return _orgqr_jvp(xp, y, x, dx)


def _ormqr_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, side: Any, trans: Any, **_: Any) -> Arrays:
    (*pair, c), (*moves, dc) = x, dx
    dc = xp.zeros((lane_count(dx), *c.shape), c.dtype) if dc is None else dc
    right, turned = side in ("R", b"R"), trans not in ("N", b"N")
    if right:  # (Q^H C^H)^H
        c, dc = adjoint(xp, c), adjoint(xp, dc)
    moved = _multiply(xp, tuple(pair), tuple(moves), c, dc, turned != right)
    return (adjoint(xp, moved) if right else moved), None, None


_ORMQR: dict[str, Any] = {"side": None, "trans": None, "lwork": None, "overwrite_c": 0}


@structured(
    _lapack("s,d:ormqr c,z:unmqr"), "(side) (trans) a tau c (lwork)", dense_vjp(_ormqr_jvp), **_ORMQR
)  # fmt: skip
def ormqr(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **params: Any) -> Arrays:
    """Q C, C Q, or the same with the adjoint of Q."""
    return _ormqr_jvp(xp, y, x, dx, **params)
