"""Rules for eigenvalues, singular values and QR, all lanes in one batched product.

Formulas are IEEE: where eigenvalues or singular values coincide, the vectors have no derivative and the lanes say so
with an infinity or NaN, unless the lane does not mix the two. Symmetric solvers depend on the triangle they read, and
only on it. Giles 2008 is "Collected matrix derivative results for forward and reverse mode AD".
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured, undefined
from ndual.rules.support import adjoint, conj, quiet, real_as, refuse, truth
from ndual.rules.triangular import literal, tri_part, whole


def _over(xp: Any, gap: Any, m: Any) -> Any:
    """M / gap, zero where m is zero."""
    if bool(((gap == 0) & (m != 0)).any()):
        undefined(
            "eigenvectors or singular vectors of equal (or zero) values have no derivative: any rotation of them is as "
            "good. Use a function of the matrix that does not need them (inv, solve, expm, the values alone), or a "
            "point where the values differ"
        )
    return xp.where(m == 0, 0, m / xp.where((m == 0) & (gap == 0), 1, gap))


def _gaps(w: Any) -> Any:
    return w[..., None, :] - w[..., :, None]


def _diagonal(xp: Any, m: Any) -> Any:
    return xp.diagonal(m, 0, -2, -1)


def _with_diagonal(xp: Any, d: Any) -> Any:
    return d[..., None, :] * xp.eye(d.shape[-1], dtype=d.dtype)


def _spectrum(xp: Any, w: Any, v: Any, among: Any) -> tuple[Any, Any, Any, Any]:
    """All values and vectors, where the given ones are among them, and the gaps between them."""
    if among is None:
        return w, v, xp.eye(w.shape[-1], dtype=bool), _gaps(w)
    values, every, start = among
    own = xp.eye(values.shape[-1], w.shape[-1], -start, dtype=bool)
    return values, every, own, w[..., None, :] - values[..., :, None]


def _own(xp: Any, m: Any, among: Any) -> Any:
    """The entries that belong to one and the same vector."""
    if among is not None:
        m = m[..., among[2] : among[2] + m.shape[-1], :]
    return _diagonal(xp, m)


@quiet
def eigh_lanes(
    xp: Any, w: Any, v: Any, da: Any, db: Any = None, vectors: bool = True, among: Any = None
) -> tuple[Any, Any]:
    """diag(M) and V (M / gaps) with M = V^H dA V (Giles 2008, 3.1); for A v = w B v, M has - w V^H dB V too.

    Where w and v are a part of the spectrum, `among` has all values, all vectors and the number of the first of these.
    """
    _, every, own, gaps = _spectrum(xp, w, v, among)
    vh = adjoint(xp, every)
    m: Any = 0 if da is None else xp.matmul(xp.matmul(vh, da), v)
    metric = None if db is None else xp.matmul(xp.matmul(vh, db), v)
    if metric is not None:
        m = m - metric * w[..., None, :]
    dw = _own(xp, m, among).real
    if not vectors:
        return dw, None
    inside = _over(xp, gaps, xp.where(own, 0, m))
    dv = xp.matmul(every, inside)
    return dw, dv if metric is None else dv - v * (_own(xp, metric, among).real / 2)[..., None, :]


@quiet
def eigh_cotangent(xp: Any, w: Any, v: Any, gw: Any, gv: Any, among: Any = None) -> Any:
    """The cotangent of the whole matrix."""
    _, every, own, gaps = _spectrum(xp, w, v, among)
    inside: Any = 0
    if gv is not None:
        inside = xp.matmul(every, _over(xp, gaps, xp.where(own, 0, xp.matmul(adjoint(xp, every), gv))))
    if gw is not None:
        inside = inside + v * gw[..., None, :]
    return xp.matmul(inside, adjoint(xp, v))


@quiet
def eigh_metric_cotangent(xp: Any, w: Any, v: Any, gw: Any, gv: Any, among: Any = None) -> Any:
    """The cotangent of B in A v = w B v."""
    _, every, own, gaps = _spectrum(xp, w, v, among)
    inside: Any = 0
    if gv is not None:
        c = xp.matmul(adjoint(xp, every), gv)
        turn = _over(xp, gaps, xp.where(own, 0, c))
        inside = -xp.matmul(every, turn * w[..., None, :]) - v * (_own(xp, c, among) / 2)[..., None, :]
    if gw is not None:
        inside = inside - v * (gw * w)[..., None, :]
    return xp.matmul(inside, adjoint(xp, v))


def _eigh_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], UPLO: str) -> tuple[Any]:
    return (literal(xp, eigh_cotangent(xp, y[0], y[1], w[0], w[1]), UPLO.upper() == "L"),)


@structured("numpy.linalg.eigh", "a", _eigh_vjp, UPLO="L")
def eigh(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], UPLO: str) -> Any:
    """First-order perturbation; the vectors keep their length and, if complex, their phase."""
    return eigh_lanes(xp, y[0], y[1], whole(xp, dx[0], UPLO.upper() == "L"))


def _eigvalsh_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], UPLO: str) -> tuple[Any]:
    _, v = xp.linalg.eigh(x[0], UPLO)
    return (literal(xp, eigh_cotangent(xp, y, v, w, None), UPLO.upper() == "L"),)


@structured("numpy.linalg.eigvalsh", "a", _eigvalsh_vjp, UPLO="L")
def eigvalsh(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], UPLO: str) -> Any:
    """v^H dA v for each eigenvector."""
    _, v = xp.linalg.eigh(x[0], UPLO)
    da = whole(xp, dx[0], UPLO.upper() == "L")
    return (conj(xp, v) * xp.matmul(da, v)).sum(axis=-2).real


def _rotation(xp: Any, v: Any, u: Any) -> Any:
    """Keep each vector's length one and, if it is complex, its largest component real, as LAPACK does."""
    out = u - v * (conj(xp, v) * u).sum(axis=-2, keepdims=True).real
    if v.dtype.kind == "c":
        k = xp.abs(v).argmax(axis=-2)[..., None, :]
        top = xp.take_along_axis(v, k, -2)
        out = out - 1j * v * (xp.take_along_axis(u, xp.broadcast_to(k, (*u.shape[:-2], 1, u.shape[-1])), -2) / top).imag
    return out


def _rotation_transpose(xp: Any, v: Any, g: Any) -> Any:
    out = g - v * (conj(xp, g) * v).sum(axis=-2, keepdims=True).real
    if v.dtype.kind == "c":
        k = xp.abs(v).argmax(axis=-2)[..., None, :]
        top = xp.take_along_axis(v, k, -2)
        scale = (xp.conj(g) * 1j * v).sum(axis=-2, keepdims=True).real
        rows = xp.arange(v.shape[-2])[:, None]
        out = out - xp.where(rows == k, 1j * scale / xp.conj(top), 0)
    return out


@quiet
def _eig_vjp(xp: Any, w: Any, y: Any, x: tuple[Any]) -> tuple[Any]:
    values, v = y
    inside: Any = 0
    if w[1] is not None:
        eye = xp.eye(values.shape[-1], dtype=bool)
        m = xp.where(eye, 0, xp.matmul(adjoint(xp, v), _rotation_transpose(xp, v, w[1])))
        inside = _over(xp, conj(xp, _gaps(values)), m)
    if w[0] is not None:
        inside = inside + _with_diagonal(xp, w[0])
    return (real_as(x[0], xp.linalg.solve(adjoint(xp, v), xp.matmul(inside, adjoint(xp, v)))),)


@structured("numpy.linalg.eig", "a", _eig_vjp)
@quiet
def eig(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any]) -> Any:
    """diag(M) and V (M / gaps) with M = V^-1 dA V, the vectors then normalised as LAPACK's (Giles 2008, 3.1)."""
    values, v = y
    m = xp.linalg.solve(v, xp.matmul(dx[0], v))
    eye = xp.eye(values.shape[-1], dtype=bool)
    dv = xp.matmul(v, _over(xp, _gaps(values), xp.where(eye, 0, m)))
    return _diagonal(xp, m), _rotation(xp, v, dv)


def _matched(xp: Any, y: Any, a: Any) -> Any:
    values, v = xp.linalg.eig(a)
    order = xp.abs(y[..., :, None] - values[..., None, :]).argmin(axis=-1)
    # Where both orders agree, as they do nearly always, equal values keep a vector each.
    agree = xp.abs(y - values) <= xp.sqrt(xp.finfo(values.dtype).eps) * xp.abs(values).max(
        axis=-1, keepdims=True, initial=0
    )
    order = xp.where(agree.all(axis=-1, keepdims=True), xp.arange(values.shape[-1]), order)
    return xp.take_along_axis(v, order[..., None, :], -1)


def _eigvals_vjp(xp: Any, w: Any, y: Any, x: tuple[Any]) -> Any:
    return _eig_vjp(xp, (w, None), (y, _matched(xp, y, x[0])), x)


@structured("numpy.linalg.eigvals", "a", _eigvals_vjp)
def eigvals(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any]) -> Any:
    """diag(V^-1 dA V)."""
    v = _matched(xp, y, x[0])
    return _diagonal(xp, xp.linalg.solve(v, xp.matmul(dx[0], v)))


def _thin(s: Any, u: Any, vh: Any) -> tuple[Any, Any, Any, Any]:
    k = s.shape[-1]
    return u[..., :k], u[..., k:], vh[..., :k, :], vh[..., k:, :]


@quiet
def svd_lanes(xp: Any, u: Any, s: Any, vh: Any, da: Any) -> tuple[Any, Any, Any]:
    """The singular values' and vectors' lanes; null space columns move with the rest (Giles 2008, 3.2)."""
    u1, u2, vh1, vh2 = _thin(s, u, vh)
    v1 = adjoint(xp, vh1)
    av = xp.matmul(da, v1)
    p = xp.matmul(adjoint(xp, u1), av)
    ph, row, column = adjoint(xp, p), s[..., None, :], s[..., :, None]
    gap, eye = row**2 - column**2, xp.eye(s.shape[-1], dtype=bool)
    inner_u = _over(xp, gap, xp.where(eye, 0, p * row + column * ph))
    inner_v = _over(xp, gap, xp.where(eye, 0, column * p + ph * row))
    ds = _diagonal(xp, p).real
    if p.dtype.kind == "c":
        inner_u = inner_u + _with_diagonal(xp, 1j * _over(xp, s, _diagonal(xp, p).imag))
    du = xp.matmul(u1, inner_u)
    dv = xp.matmul(v1, inner_v)
    if u.shape[-2] > s.shape[-1]:
        du = du + _over(xp, row, av - xp.matmul(u1, p))
    if vh.shape[-1] > s.shape[-1]:
        au = xp.matmul(adjoint(xp, da), u1)
        dv = dv + _over(xp, row, au - xp.matmul(v1, ph))
    if u2.shape[-1]:
        du = xp.concatenate((du, -xp.matmul(u1, xp.matmul(adjoint(xp, du), u2))), -1)
    dvh = adjoint(xp, dv)
    if vh2.shape[-2]:
        dvh = xp.concatenate((dvh, -xp.matmul(xp.matmul(vh2, dv), vh1)), -2)
    return du, ds, dvh


@quiet
def svd_cotangent(xp: Any, u: Any, s: Any, vh: Any, gu: Any, gs: Any, gvh: Any) -> Any:
    """The cotangent of the matrix; each step is the adjoint of one in `svd_lanes`."""
    u1, u2, vh1, vh2 = _thin(s, u, vh)
    v1, k = adjoint(xp, vh1), s.shape[-1]
    row, column = s[..., None, :], s[..., :, None]
    gap, eye = row**2 - column**2, xp.eye(k, dtype=bool)
    inner: Any = 0 if gs is None else _with_diagonal(xp, gs)
    outside: Any = 0
    if gu is not None:
        g = gu[..., :k]
        if u2.shape[-1]:
            g = g - xp.matmul(u2, xp.matmul(adjoint(xp, gu[..., k:]), u1))
        m = xp.matmul(adjoint(xp, u1), g)
        f = _over(xp, gap, xp.where(eye, 0, m))
        inner = inner + (f + adjoint(xp, f)) * row
        if m.dtype.kind == "c":
            inner = inner + _with_diagonal(xp, 1j * _over(xp, s, _diagonal(xp, m).imag))
        if u.shape[-2] > k:
            outside = outside + xp.matmul(_over(xp, row, g - xp.matmul(u1, m)), vh1)
    if gvh is not None:
        g = adjoint(xp, gvh[..., :k, :])
        if vh2.shape[-2]:
            g = g - xp.matmul(adjoint(xp, vh2), xp.matmul(gvh[..., k:, :], v1))
        m = xp.matmul(vh1, g)
        f = _over(xp, gap, xp.where(eye, 0, m))
        inner = inner + column * (f + adjoint(xp, f))
        if vh.shape[-1] > k:
            outside = outside + xp.matmul(u1, adjoint(xp, _over(xp, row, g - xp.matmul(v1, m))))
    return xp.matmul(xp.matmul(u1, inner), vh1) + outside


def svd_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], full_matrices: Any, compute_uv: Any, hermitian: Any) -> tuple[Any]:
    """Give the cotangent for singular values alone, or for the whole decomposition."""
    a = whole(xp, x[0], True) if truth(hermitian) else x[0]
    if truth(compute_uv):
        g = svd_cotangent(xp, *y, *w)
    else:
        u, s, vh = xp.linalg.svd(a, full_matrices=False)
        g = svd_cotangent(xp, u, s, vh, None, w, None)
    return (literal(xp, g, True) if truth(hermitian) else g,)


@structured("numpy.linalg.svd", "a", svd_vjp, full_matrices=True, compute_uv=True, hermitian=False)
def svd(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], full_matrices: Any, compute_uv: Any, hermitian: Any) -> Any:
    """Singular values from u^H dA v, vectors from the gaps of the squares; of the lower triangle if `hermitian`."""
    if truth(hermitian):
        x, dx = (whole(xp, x[0], True),), (whole(xp, dx[0], True),)
    if truth(compute_uv):
        return svd_lanes(xp, *y, dx[0])
    return svdvals(xp, y, x, dx)


def _svdvals_vjp(xp: Any, w: Any, y: Any, x: tuple[Any]) -> tuple[Any]:
    return svd_vjp(xp, w, y, x, False, False, False)


@structured("numpy.linalg.svdvals", "x", _svdvals_vjp)
def svdvals(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any]) -> Any:
    """Re(u^H dA v)."""
    u, _, vh = xp.linalg.svd(x[0], full_matrices=False)
    return (conj(xp, u) * xp.matmul(dx[0], adjoint(xp, vh))).sum(axis=-2).real


def _skew(xp: Any, c: Any) -> Any:
    """The part of Q^H dA R^-1 that turns Q: below the diagonal antisymmetric, R's diagonal staying real."""
    low = tri_part(xp, c, True, True)
    out = low - adjoint(xp, low)
    return out + _with_diagonal(xp, 1j * _diagonal(xp, c).imag) if c.dtype.kind == "c" else out


def _qr_square(xp: Any, q: Any, r: Any, da: Any) -> tuple[Any, Any]:
    m = xp.linalg.solve(xp.swapaxes(r, -1, -2), xp.swapaxes(da, -1, -2))
    m = xp.swapaxes(m, -1, -2)
    c = xp.matmul(adjoint(xp, q), m)
    turn = _skew(xp, c)
    return xp.matmul(q, turn - c) + m, xp.matmul(c - turn, r)


def _qr_square_cotangent(xp: Any, q: Any, r: Any, gq: Any, gr: Any) -> Any:
    w = xp.matmul(adjoint(xp, q), gq) - xp.matmul(gr, adjoint(xp, r))
    inner = tri_part(xp, w - adjoint(xp, w), True, True) - w
    if w.dtype.kind == "c":
        inner = inner + _with_diagonal(xp, 1j * _diagonal(xp, w).imag)
    g = gq + xp.matmul(q, inner)
    return adjoint(xp, xp.linalg.solve(r, adjoint(xp, g)))


# The tangents and cotangents of mode="raw", which are those of LAPACK's reflectors.
RAW: list[Any] = []


def _qr_parts(xp: Any, y: Any, a: Any, mode: str) -> Any:
    if mode not in ("reduced", "r", "complete"):
        raise refuse("numpy.linalg.qr", f"mode={mode!r}", "Use mode='reduced'.")
    return xp.linalg.qr(a) if mode == "r" else y


def _qr_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], mode: str) -> tuple[Any]:
    if mode == "raw":
        raw: tuple[Any] = RAW[1](xp, w, y, x)
        return raw
    a = x[0]
    q, r = _qr_parts(xp, y, a, mode)
    gq, gr = (None, w) if mode == "r" else w
    gq = xp.zeros_like(q) if gq is None else gq
    gr = xp.zeros_like(r) if gr is None else gr
    m, n = a.shape[-2:]
    if m < n:
        rest = a[..., m:]
        gq = gq + xp.matmul(rest, adjoint(xp, gr[..., m:]))
        first = _qr_square_cotangent(xp, q, r[..., :m], gq, gr[..., :m])
        return (xp.concatenate((first, xp.matmul(q, gr[..., m:])), -1),)
    q1, q2 = q[..., :n], q[..., n:]
    g1 = gq[..., :n]
    if q2.shape[-1]:
        g1 = g1 - xp.matmul(q2, xp.matmul(adjoint(xp, gq[..., n:]), q1))
    return (_qr_square_cotangent(xp, q1, r[..., :n, :], g1, gr[..., :n, :]),)


@structured("numpy.linalg.qr", "a", _qr_vjp, mode="reduced")
def qr(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], mode: str) -> Any:
    """With C = Q^H dA R^-1: dQ = Q (skew(C) - C) + dA R^-1 and dR = (C - skew(C)) R, at full rank."""
    if mode == "raw":
        return RAW[0](xp, y, x, dx)
    a, da = x[0], dx[0]
    q, r = _qr_parts(xp, y, a, mode)
    m, n = a.shape[-2:]
    if m < n:
        dq, dr = _qr_square(xp, q, r[..., :m], da[..., :m])
        rest = xp.matmul(adjoint(xp, dq), a[..., m:]) + xp.matmul(adjoint(xp, q), da[..., m:])
        dr = xp.concatenate((dr, rest), -1)
        return dr if mode == "r" else (dq, dr)
    q1, q2 = q[..., :n], q[..., n:]
    dq, dr = _qr_square(xp, q1, r[..., :n, :], da)
    if mode == "r":
        return dr
    if q2.shape[-1]:
        dq = xp.concatenate((dq, -xp.matmul(q1, xp.matmul(adjoint(xp, dq), q2))), -1)
        dr = xp.concatenate((dr, xp.zeros((*dr.shape[:-2], m - n, n), dr.dtype)), -2)
    return dq, dr
