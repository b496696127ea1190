"""Rules for solving and factorising: solve, inv, det, slogdet, pinv, lstsq, and Cholesky for NumPy and SciPy.

One factorisation serves all lanes. Formulas are IEEE: an infinity in a factorisation spreads as it does in the value.
Giles 2008 is "Collected matrix derivative results for forward and reverse mode AD"; Murray 2016 is
"Differentiation of the Cholesky decomposition".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndual.rules.registry import KERNELS, structured
from ndual.rules.support import add, adjoint, is_raw, local_gradient, spread, truth, unbroadcast
from ndual.rules.triangular import host_char, literal, tri_inverse, tri_part, tri_solve, whole


def solve_lanes(xp: Any, a: Any, r: Any) -> Any:
    """Solve a x = r for lanes r ``(N, *batch, n, k)`` with one factorisation of each matrix of the stack."""
    n, k = r.shape[0], r.shape[-1]
    if n == 1:
        return xp.linalg.solve(a, r[0])[None]
    if a.ndim == 2 and r.ndim == 3 and is_raw(xp, a, r):  # a quarter of the time that small systems take otherwise
        rows, size = r.transpose(1, 0, 2).reshape(-1, n * k), r.shape[1]
        return xp.linalg.solve(a, rows).reshape(size, n, k).transpose(1, 0, 2).copy()
    wide = xp.moveaxis(r, 0, -2)
    solved = xp.linalg.solve(a, wide.reshape(*wide.shape[:-2], n * k))
    lanes = xp.moveaxis(solved.reshape(*solved.shape[:-1], n, k), -2, 0)
    return xp.ascontiguousarray(lanes) if is_raw(xp, lanes) else lanes


def _keeping(xp: Any, x: tuple[Any, Any], **_: Any) -> Any:
    """The solution with the factors of the matrix, for one matrix of NumPy's."""
    return KERNELS["solve"](*x) if "solve" in KERNELS and xp is np and is_raw(xp, *x) else None


def _with_factors(xp: Any, kept: Any, r: Any, op: bytes) -> Any:
    """Solve for lanes r ``(N, n)`` or ``(N, n, k)`` with factors that are there; None if these do not fit."""
    if kept is None or not is_raw(xp, r) or r.dtype != kept.lu.dtype:
        return None
    rows = np.array(r if r.ndim == 2 else r.swapaxes(1, 2), order="C")
    kept.solve(rows, op)
    return rows if r.ndim == 2 else np.ascontiguousarray(rows.swapaxes(1, 2))


def solve_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any], kept: Any = None) -> tuple[Any, Any]:
    """The cotangents -g y^H and g with A^H g = w (Giles 2008, 2.3.1)."""
    a, b = x
    column = b.ndim == 1
    found = _with_factors(xp, kept, w[None], b"C")
    y, w = (y[..., None], w[..., None]) if column else (y, w)
    if found is None:
        gb = xp.linalg.solve(adjoint(xp, a), w)
    else:
        gb = found[0][..., None] if column else found[0]
    ga = -xp.matmul(gb, adjoint(xp, y))
    gb = gb[..., 0] if column else gb
    return unbroadcast(ga, a.shape), unbroadcast(gb, b.shape)


@structured("numpy.linalg.solve", "a b", solve_vjp, keeping=_keeping)
def solve(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], kept: Any = None) -> Any:
    """A dy = db - dA y (Giles 2008, 2.3.1)."""
    (a, b), (da, db) = x, dx
    column = b.ndim == 1
    y = y[..., None] if column else y
    r: Any = None
    if da is not None:
        r = -xp.matmul(spread(da, y.ndim), y)
    if db is not None:
        t = db[..., None] if column else db
        t = spread(t, y.ndim)
        r = t if r is None else add(xp, r, t)
        if r.shape[1:] != y.shape:
            r = xp.broadcast_to(r, (r.shape[0], *y.shape))
    found = _with_factors(xp, kept, r[..., 0] if column else r, b"N")
    if found is not None:
        return found
    out = solve_lanes(xp, a, r)
    return out[..., 0] if column else out


def inv_vjp(xp: Any, w: Any, y: Any, x: tuple[Any]) -> tuple[Any]:
    """-Y^H w Y^H (Giles 2008, 2.2.3)."""
    h = adjoint(xp, y)
    return (-xp.matmul(xp.matmul(h, w), h),)


@structured("numpy.linalg.inv", "a", inv_vjp)
def inv(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any]) -> Any:
    """-Y dA Y (Giles 2008, 2.2.3)."""
    return -xp.matmul(xp.matmul(y, dx[0]), y)


def cofactors(xp: Any, a: Any) -> Any:
    """The derivatives of the determinant, from the singular values so that singular matrices are exact too."""
    from ndual.rules.reduce import others_product

    u, s, vh = xp.linalg.svd(a)
    scale = others_product(xp, s, -1) if s.shape[-1] else s
    sign = xp.linalg.det(u) * xp.linalg.det(vh)
    return sign[..., None, None] * xp.conj(xp.matmul(u * scale[..., None, :], vh))


def _last_two(**_: Any) -> tuple[Any, Any]:
    return (-2, -1), False


@local_gradient("numpy.linalg.det", reduced=_last_two)
def _det_gradient(xp: Any, y: Any, a: Any) -> Any:
    """The cofactors: det(A) A^-T, and through singular values where A is singular or nearly so."""
    if a.shape[-1] == 0:
        return xp.zeros_like(a)
    tiny = xp.abs(y) <= 1e-8 * xp.prod(xp.linalg.norm(a, axis=-1, keepdims=True), axis=-2, keepdims=True)
    if bool(tiny.any()):
        return cofactors(xp, a)
    return y * xp.swapaxes(xp.linalg.inv(a), -1, -2)


@local_gradient("scipy.linalg.det", reduced=_last_two, overwrite_a=False, check_finite=True)
def _scipy_det_gradient(xp: Any, y: Any, a: Any, overwrite_a: Any, check_finite: Any) -> Any:
    """As numpy.linalg.det."""
    return _det_gradient(xp, y, a)


def _slogdet_vjp(xp: Any, w: Any, y: Any, x: tuple[Any]) -> tuple[Any]:
    sign, _ = y
    h = adjoint(xp, xp.linalg.inv(x[0]))
    w_sign, w_log = w
    scale = 0 if w_log is None else xp.asarray(w_log)
    if w_sign is not None and sign.dtype.kind == "c":
        scale = scale + 1j * (1j * xp.conj(w_sign) * sign).real
    return (xp.asarray(scale)[..., None, None] * h,)


@structured("numpy.linalg.slogdet", "a", _slogdet_vjp)
def slogdet(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any]) -> Any:
    """tr(A^-1 dA); a complex sign turns with its imaginary part (Giles 2008, 2.2.4)."""
    sign, _ = y
    inverse = xp.linalg.inv(x[0])
    t = (xp.swapaxes(inverse, -1, -2) * dx[0]).sum(axis=(-2, -1))
    if sign.dtype.kind == "c":
        return 1j * t.imag * sign, t.real
    return None, t


def _pinv_tangent(xp: Any, p: Any, a: Any, da: Any) -> Any:
    dh, ph = adjoint(xp, da), adjoint(xp, p)
    ap, pa = xp.matmul(a, p), xp.matmul(p, a)
    out = -xp.matmul(xp.matmul(p, da), p)
    first = xp.matmul(p, xp.matmul(ph, dh))
    out = out + first - xp.matmul(first, ap)
    second = xp.matmul(xp.matmul(dh, ph), p)
    return out + second - xp.matmul(pa, second)


def _pinv_cotangent(xp: Any, p: Any, a: Any, w: Any) -> Any:
    wh, ph = adjoint(xp, w), adjoint(xp, p)
    ap, pa = xp.matmul(a, p), xp.matmul(p, a)
    out = -xp.matmul(xp.matmul(ph, w), ph)
    left = wh - xp.matmul(ap, wh)
    out = out + xp.matmul(xp.matmul(left, p), ph)
    right = wh - xp.matmul(wh, pa)
    return out + xp.matmul(ph, xp.matmul(p, right))


def _pinv_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], hermitian: Any, **_: Any) -> tuple[Any]:
    if truth(hermitian):
        return (literal(xp, _pinv_cotangent(xp, y, whole(xp, x[0], True), w), True),)
    return (_pinv_cotangent(xp, y, x[0], w),)


@structured("numpy.linalg.pinv", "a", _pinv_vjp, rcond=None, hermitian=False, rtol=None)
def pinv(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], hermitian: Any, **_: Any) -> Any:
    """The derivative at constant rank (Golub and Pereyra 1973); of the lower triangle if `hermitian`."""
    if truth(hermitian):
        return _pinv_tangent(xp, y, whole(xp, x[0], True), whole(xp, dx[0], True))
    return _pinv_tangent(xp, y, x[0], dx[0])


def _lstsq_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any], rcond: Any) -> tuple[Any, Any]:
    (a, b), (z, residuals, _, _) = x, y
    column = b.ndim == 1
    p = xp.linalg.pinv(a) if rcond is None else xp.linalg.pinv(a, rcond)
    z, b = (z[:, None], b[:, None]) if column else (z, b)
    ga, gb = xp.zeros_like(a), xp.zeros_like(b)
    if w[0] is not None:
        wz = w[0][:, None] if column else w[0]
        ga = ga + _pinv_cotangent(xp, p, a, xp.matmul(wz, adjoint(xp, b)))
        gb = gb + xp.matmul(adjoint(xp, p), wz)
    if w[1] is not None and residuals.size:
        r = (b - xp.matmul(a, z)) * (2 * w[1])
        gb, ga = gb + r, ga - xp.matmul(r, adjoint(xp, z))
    if len(w) > 3 and w[3] is not None:
        u, _, vh = xp.linalg.svd(a, full_matrices=False)
        ga = ga + xp.matmul(u * w[3], vh)
    return ga, gb[:, 0] if column else gb


@structured("numpy.linalg.lstsq", "a b", _lstsq_vjp, rcond=None)
def lstsq(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], rcond: Any) -> Any:
    """pinv(A) b at constant rank; residuals and singular values have their own tangents."""
    (a, b), (da, db), (z, residuals, _, _s) = x, dx, y
    column = b.ndim == 1
    p = xp.linalg.pinv(a) if rcond is None else xp.linalg.pinv(a, rcond)
    z, b = (z[:, None], b[:, None]) if column else (z, b)
    db = db[..., None] if column and db is not None else db
    dz: Any = None
    dr: Any = None
    ds: Any = None
    if da is not None:
        dz = xp.matmul(_pinv_tangent(xp, p, a, da), b)
        dr = -xp.matmul(da, z)
        u, _, vh = xp.linalg.svd(a, full_matrices=False)
        ds = xp.einsum("ij,nik,jk->nj", xp.conj(u), da, xp.conj(vh)).real
    if db is not None:
        dz = add(xp, dz, xp.matmul(p, db))
        dr = db if dr is None else dr + db
    rest = (xp.conj(b - xp.matmul(a, z)) * dr).real.sum(axis=1) * 2 if residuals.size else None
    return (dz[..., 0] if column else dz), rest, None, ds


def _halved(xp: Any, s: Any) -> Any:
    """The lower triangle with half the diagonal."""
    return tri_part(xp, s, True) - xp.eye(s.shape[-1], dtype=s.dtype) * s / 2


def _cholesky_small(xp: Any, inverse: Any, factor: Any, da: Any) -> Any:
    """L Phi(L^-1 dA L^-H) from the lower triangle of dA: with T the halved triangle, M = L^-1 T L^-H, Phi(M + M^H)."""
    m = xp.matmul(xp.matmul(inverse, _halved(xp, da)), adjoint(xp, inverse))
    return xp.matmul(factor, _halved(xp, m + adjoint(xp, m)))


def _between(xp: Any, factor: Any, lanes: Any, trans: int) -> Any:
    """L^-1 X L^-H for lanes X, or L^-H X L^-1 with `trans` 2."""
    half = tri_solve(xp, factor, lanes, True, trans)
    return adjoint(xp, tri_solve(xp, factor, adjoint(xp, half), True, trans))


def _on_device(xp: Any, *arrays: Any) -> bool:
    """Whether a triangular system takes one call and an inverse takes a factorisation: arrays that are no duals."""
    return xp is not np and arrays[0].ndim == 2 and arrays[0].size > 0 and is_raw(xp, *arrays)


def cholesky_lanes(xp: Any, factor: Any, da: Any) -> Any:
    """Tangents of a lower Cholesky factor; only the lower triangle of dA is read (Murray 2016)."""
    if factor.ndim == 2 and factor.size and host_char(xp, factor, da) is not None:
        return KERNELS["cholesky_lanes"](factor, da)
    if _on_device(xp, factor, da):
        m = _between(xp, factor, _halved(xp, da), 0)
        return xp.matmul(factor, _halved(xp, m + adjoint(xp, m)))
    return _cholesky_small(xp, tri_inverse(xp, factor), factor, da)


def cholesky_cotangent(xp: Any, factor: Any, w: Any) -> Any:
    """The cotangent of the lower triangle that was read, zeros above (Murray 2016)."""
    if factor.ndim == 2 and factor.size and host_char(xp, factor, w) is not None:
        return KERNELS["cholesky_cotangent"](factor, w)
    p = _halved(xp, xp.matmul(adjoint(xp, factor), w))
    if _on_device(xp, factor, w):
        s = _between(xp, factor, p[None], 2)[0]
    else:
        inverse = tri_inverse(xp, factor)
        s = xp.matmul(xp.matmul(adjoint(xp, inverse), p), inverse)
    return _halved(xp, s + adjoint(xp, s))


def _factored(xp: Any, x: tuple[Any], upper: Any) -> Any:
    """The factor by a routine of the memory's own, where it has one."""
    own = getattr(xp, "cholesky", None) if xp is not np and is_raw(xp, *x) else None
    return None if own is None else (own(x[0], truth(upper)), None)


def _cholesky_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], upper: Any, kept: Any = None) -> tuple[Any]:
    if truth(upper):
        return (adjoint(xp, cholesky_cotangent(xp, adjoint(xp, y), adjoint(xp, w))),)
    return (cholesky_cotangent(xp, y, w),)


@structured("numpy.linalg.cholesky", "a", _cholesky_vjp, keeping=_factored, upper=False)
def cholesky(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], upper: Any, kept: Any = None) -> Any:
    """L Phi(L^-1 dA L^-H), Phi the lower triangle with half the diagonal, of the triangle that was read."""
    if truth(upper):
        return adjoint(xp, cholesky_lanes(xp, adjoint(xp, y), adjoint(xp, dx[0])))
    return cholesky_lanes(xp, y, dx[0])
