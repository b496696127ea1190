"""Matrices of scipy.linalg that are made from a few numbers, and equations with banded or Toeplitz matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndual.rules.registry import composition
from ndual.rules.stacks import stacked
from ndual.rules.support import add, array_of, real_as, scipy_linalg

Arrays = tuple[Any, ...]


@composition("scipy.linalg.toeplitz")
def toeplitz(xp: Any, c: Any, r: Any = None) -> Any:
    """One take from the column, reversed, followed by the row."""
    c = xp.atleast_1d(array_of(xp, c))
    r = xp.conj(c) if r is None else xp.atleast_1d(array_of(xp, r))
    m, n = xp.shape(c)[-1], xp.shape(r)[-1]
    lead = np.broadcast_shapes(xp.shape(c)[:-1], xp.shape(r)[:-1])
    c, r = (xp.broadcast_to(v, (*lead, xp.shape(v)[-1])) for v in (c, r))
    return xp.concatenate((c[..., ::-1], r[..., 1:]), -1)[..., xp.arange(m)[::-1, None] + xp.arange(n)]


@composition("scipy.linalg.circulant")
def circulant(xp: Any, c: Any) -> Any:
    """One take."""
    c = array_of(xp, c)
    n = xp.shape(c)[-1]
    return c[..., (xp.arange(n)[:, None] - xp.arange(n)) % n]


@composition("scipy.linalg.hankel")
def hankel(xp: Any, c: Any, r: Any = None) -> Any:
    """The entries along antidiagonals: the first column, then the last row."""
    c = xp.ravel(array_of(xp, c))
    n = xp.size(c)
    r = xp.zeros_like(c) if r is None else xp.ravel(array_of(xp, r))
    whole = xp.concatenate((c, r[1:]))
    return whole[xp.arange(n)[:, None] + xp.arange(xp.size(r))]


@composition("scipy.linalg.companion")
def companion(xp: Any, a: Any) -> Any:
    """The coefficients over the first one, above a shifted unit matrix."""
    a = array_of(xp, a)
    n = xp.shape(a)[-1]
    first = -a[..., 1:] / (1.0 * a[..., :1])
    below = xp.broadcast_to(xp.eye(n - 2, n - 1), (*xp.shape(a)[:-1], n - 2, n - 1))
    return xp.concatenate((first[..., None, :], below.astype(first.dtype)), -2)


@composition("scipy.linalg.convolution_matrix")
def convolution_matrix(xp: Any, a: Any, n: Any, mode: str = "full") -> Any:
    """Shifted copies of a vector in the columns, cut as the mode says."""
    a = array_of(xp, a)
    m, n = xp.shape(a)[-1], int(n)
    if n <= 0 or m == 0 or mode not in ("full", "valid", "same"):
        raise ValueError(f"convolution_matrix: expected n > 0, an array and a mode; got {n}, {xp.shape(a)}, {mode!r}")
    index = xp.arange(m + n - 1)[:, None] - xp.arange(n)
    inside = (index >= 0) & (index < m)
    whole = xp.where(inside, a[..., xp.where(inside, index, 0)], 0.0)
    if mode == "same":
        start = (min(n, m) - 1) // 2
        return whole[..., start : start + max(n, m), :]
    cut = min(n, m) - 1
    return whole[..., cut : m + n - 1 - cut, :] if mode == "valid" else whole


@composition("scipy.linalg.fiedler")
def fiedler(xp: Any, a: Any) -> Any:
    """The distances of the numbers from each other."""
    a = array_of(xp, a)
    return abs(a[..., :, None] - a[..., None, :])


@composition("scipy.linalg.leslie")
def leslie(xp: Any, f: Any, s: Any) -> Any:
    """Fecundities above, survivals below the diagonal."""
    f, s = array_of(xp, f), array_of(xp, s)
    lead = np.broadcast_shapes(xp.shape(f)[:-1], xp.shape(s)[:-1])
    n = xp.shape(f)[-1]
    f, s = xp.broadcast_to(f, (*lead, n)), xp.broadcast_to(s, (*lead, n - 1))
    below = s[..., :, None] * xp.eye(n - 1, n, dtype=s.dtype)
    return xp.concatenate((f[..., None, :], below), -2)


@composition("scipy.linalg.fiedler_companion")
def fiedler_companion(xp: Any, a: Any) -> Any:
    """The coefficients over the first one, where SciPy puts them: it is asked with the numbers of these."""
    a = xp.atleast_1d(array_of(xp, a))
    n = xp.shape(a)[-1]
    # Of the polynomial 1, -2, -3, … the cell of coefficient k is k + 1; other cells are 0 or 1, and more than n here.
    at = scipy_linalg(xp).fiedler_companion(np.concatenate(([1.0], -np.arange(2.0, n + 1))))
    if n < 2:
        return a[..., 1:]
    at = np.where(at == 0, n + 1, at).astype(int) - 1
    first = -a[..., 1:] / (1.0 * a[..., :1])
    ends = xp.broadcast_to(xp.asarray([1.0, 0.0], dtype=first.dtype), (*xp.shape(a)[:-1], 2))
    return xp.concatenate((ends[..., :1], first, ends[..., 1:]), -1)[..., at]


@composition("scipy.linalg.solve_circulant")
def solve_circulant(
    xp: Any, c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> Any:
    """A quotient of transforms; the spectrum that counts as zero is SciPy's, and stays."""
    c, b = xp.atleast_1d(array_of(xp, c)), xp.atleast_1d(array_of(xp, b))
    fc = xp.fft.fft(xp.moveaxis(c, caxis, -1), axis=-1)
    fb = xp.fft.fft(xp.moveaxis(b, baxis, -1), axis=-1)
    size = abs(fc)
    if tol is None:
        tol = size.max(axis=-1, keepdims=True) * xp.shape(fc)[-1] * np.finfo(np.float64).eps
    zero = size <= tol
    if bool(zero.any()):
        if singular == "raise":
            raise np.linalg.LinAlgError("near singular circulant matrix.")
        fc = xp.where(zero, 1.0, fc)
    found = xp.fft.ifft(xp.where(zero, 0.0, fb / fc), axis=-1)
    found = found if "c" in (c.dtype.kind, b.dtype.kind) else found.real
    return xp.moveaxis(found, -1, outaxis)


@composition("scipy.linalg.diagsvd")
def diagsvd(xp: Any, s: Any, M: int, N: int) -> Any:
    """The singular values on the diagonal of a matrix of zeros."""
    part = xp.diag(array_of(xp, s))
    if M >= N:
        return xp.concatenate((part, xp.zeros((M - N, N), part.dtype)), 0)
    return xp.concatenate((part, xp.zeros((M, N - M), part.dtype)), 1)


@composition("scipy.linalg.khatri_rao")
def khatri_rao(xp: Any, a: Any, b: Any) -> Any:
    """The Kronecker products of the columns."""
    a, b = array_of(xp, a), array_of(xp, b)
    c = a[..., :, None, :] * b[..., None, :, :]
    return xp.reshape(c, (*xp.shape(c)[:-3], -1, xp.shape(c)[-1]))


def _columns(xp: Any, r: Any) -> Any:
    """Lanes of right sides ``(N, n, ...)`` as the columns of one, and back by :func:`_lanes`."""
    return xp.moveaxis(r, 0, -1).reshape(r.shape[1], -1)


def _lanes(xp: Any, columns: Any, shape: tuple[int, ...]) -> Any:
    """One solution for all columns, as lanes again."""
    return xp.moveaxis(columns.reshape(*shape[1:], shape[0]), -1, 0)


def _band_times(xp: Any, bands: Any, upper: int, lower: int, y: Any) -> Any:
    """Lanes of a banded matrix ``(N, bands, n)`` times a constant ``(n, ...)``."""
    n = y.shape[0]
    out = xp.zeros((bands.shape[0], *y.shape), xp.result_type(bands, y))
    for k in range(-upper, lower + 1):  # row - column
        rows = slice(max(k, 0), n + min(k, 0))
        columns = slice(max(-k, 0), n + min(-k, 0))
        band = bands[:, upper + k, columns]
        out[:, rows] = out[:, rows] + band.reshape(*band.shape, *(1,) * (y.ndim - 1)) * y[columns]
    return out


def _band_cotangent(xp: Any, g: Any, y: Any, upper: int, lower: int) -> Any:
    """The bands of -g y^H."""
    n = y.shape[0]
    out = xp.zeros_like(g, shape=(upper + lower + 1, n))
    for k in range(-upper, lower + 1):
        rows = slice(max(k, 0), n + min(k, 0))
        columns = slice(max(-k, 0), n + min(-k, 0))
        band = g[rows] * xp.conj(y[columns])
        out[upper + k, columns] = -(band.sum(axis=-1) if y.ndim > 1 else band)
    return out


def _band_adjoint(xp: Any, ab: Any, upper: int, lower: int) -> Any:
    """The bands of the conjugate transpose, which has as many above as this has below."""
    n = ab.shape[-1]
    out = xp.zeros_like(ab)
    for k in range(-upper, lower + 1):
        rows = slice(max(k, 0), n + min(k, 0))
        columns = slice(max(-k, 0), n + min(-k, 0))
        out[..., lower - k, rows] = xp.conj(ab[..., upper + k, columns])
    return out


def _solve_banded_vjp(xp: Any, w: Any, y: Any, x: Arrays, l_and_u: Any, **_: Any) -> Arrays:
    (ab, b), (lower, upper) = x, l_and_u
    g = scipy_linalg(xp).solve_banded((upper, lower), _band_adjoint(xp, ab, upper, lower), w)
    return real_as(ab, _band_cotangent(xp, g, y, upper, lower)), real_as(b, g)


def _solve_banded_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, l_and_u: Any, **_: Any) -> Any:
    (ab, _b), (dab, db) = x, dx
    lower, upper = l_and_u
    r = db if dab is None else add(xp, -_band_times(xp, dab, upper, lower, y), db)
    return _lanes(xp, scipy_linalg(xp).solve_banded(l_and_u, ab, _columns(xp, r)), r.shape)


@stacked(
    "scipy.linalg.solve_banded",
    "(l_and_u) ab b",
    "2 v",
    _solve_banded_vjp,
    overwrite_ab=False,
    overwrite_b=False,
    check_finite=True,
)
def solve_banded(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """A dx = db - dA x, all lanes as columns of one right side."""
    return _solve_banded_jvp(xp, y, x, dx, **options)


def _whole_band(xp: Any, ab: Any, lower: Any) -> Any:
    """Lanes of all bands of the Hermitian matrix that one triangle's bands stand for."""
    ab = ab if lower else ab[:, ::-1]
    upper = []
    for k in range(ab.shape[1] - 1, 0, -1):
        row = ab[:, k]
        if lower:  # the band below, row - column = k, mirrored
            row = xp.concatenate((xp.zeros_like(row[:, :k]), row[:, : row.shape[1] - k]), 1)
        upper.append(xp.conj(row) if lower else row)
    main, below = (ab[:, 0] + xp.conj(ab[:, 0])) / 2, []  # the imaginary part of a diagonal is not read
    for k in range(1, ab.shape[1]):
        row = ab[:, k]
        if not lower:
            row = xp.conj(xp.concatenate((row[:, k:], xp.zeros_like(row[:, :k])), 1))
        below.append(row)
    return xp.stack([*upper, main, *below], 1)


def _half_band(xp: Any, g: Any, lower: Any) -> Any:
    """The transpose of `_whole_band`, without lanes."""
    width, n = g.shape[0] // 2, g.shape[1]
    out = [(g[width] + xp.conj(g[width])) / 2]
    for k in range(1, width + 1):
        above, below = g[width - k, k:], g[width + k, : n - k]
        both = below + xp.conj(above) if lower else above + xp.conj(below)
        pad = xp.zeros_like(both, shape=(k,))
        out.append(xp.concatenate((both, pad) if lower else (pad, both)))
    return xp.stack(out if lower else out[::-1])


def _solveh_banded_vjp(xp: Any, w: Any, y: Any, x: Arrays, lower: Any, **_: Any) -> Arrays:
    ab, b = x
    width = ab.shape[0] - 1
    g = scipy_linalg(xp).solveh_banded(ab, w, lower=lower)
    return real_as(ab, _half_band(xp, _band_cotangent(xp, g, y, width, width), lower)), real_as(b, g)


def _solveh_banded_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, lower: Any, **_: Any) -> Any:
    (ab, _b), (dab, db) = x, dx
    r = db
    if dab is not None:
        width = ab.shape[0] - 1
        r = add(xp, -_band_times(xp, _whole_band(xp, dab, lower), width, width, y), db)
    return _lanes(xp, scipy_linalg(xp).solveh_banded(ab, _columns(xp, r), lower=lower), r.shape)


@stacked(
    "scipy.linalg.solveh_banded",
    "ab b",
    "2 v",
    _solveh_banded_vjp,
    overwrite_ab=False,
    overwrite_b=False,
    lower=False,
    check_finite=True,
)
def solveh_banded(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """As for a general band, with the mirrored bands moving too."""
    return _solveh_banded_jvp(xp, y, x, dx, **options)


def _toeplitz_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = dict(zip(("c_or_cr", "b", "check_finite"), args, strict=False)) | kwargs
    c = names["c_or_cr"]
    c, r = c if isinstance(c, tuple) else (c, None)
    return (c, r, names["b"]), {"check_finite": names.get("check_finite", True)}


def _toeplitz_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, **_: Any) -> Any:
    (c, r, _b), (dc, dr, t) = x, dx
    library = scipy_linalg(xp)
    if dc is not None or dr is not None:
        n = c.shape[0]
        first = xp.zeros((len(dr), n), dr.dtype) if dc is None else dc
        other = xp.conj(first) if r is None else xp.zeros_like(first) if dr is None else dr
        t = add(xp, -_toeplitz_product(xp, first, other, y), t)
    return _lanes(xp, library.solve_toeplitz(c if r is None else (c, r), _columns(xp, t)), t.shape)


def _toeplitz_vjp(xp: Any, w: Any, y: Any, x: Arrays, **_: Any) -> Arrays:
    c, r, b = x
    other = c if r is None else xp.conj(r)  # the first entry of a row is not read, nor that of the adjoint's column
    g = scipy_linalg(xp).solve_toeplitz((xp.concatenate((xp.conj(c[:1]), other[1:])), xp.conj(c)), w)
    whole = -xp.matmul(g.reshape(len(g), -1), xp.conj(y.reshape(len(y), -1)).T)
    gc, gr = _toeplitz_entries(xp, whole, r)
    return real_as(c, gc), None if gr is None else real_as(r, gr), real_as(b, g)


@stacked("scipy.linalg.solve_toeplitz", "c r? b", "1 1 v", _toeplitz_vjp, binder=_toeplitz_arguments, check_finite=True)
def solve_toeplitz(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """A dx = db - dA x, all lanes as columns of one right side."""
    return _toeplitz_jvp(xp, y, x, dx, **options)


def _toeplitz_factors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = dict(zip(("c_or_cr", "x", "check_finite", "workers"), args, strict=False)) | kwargs
    c = names.pop("c_or_cr")
    c, r = c if isinstance(c, tuple) else (c, None)
    return (c, r, names.pop("x")), names


def _toeplitz_product(xp: Any, c: Any, r: Any, y: Any) -> Any:
    """Lanes of a Toeplitz matrix times a constant; a row of zeros has no entry of its own on the diagonal."""
    index = xp.arange(c.shape[-1])[:, None] - xp.arange(r.shape[-1])
    last_row, last_column = r.shape[-1] - 1, c.shape[-1] - 1
    below, above = xp.minimum(abs(index), last_column), xp.minimum(abs(index), last_row)
    return xp.einsum("nij,j...->ni...", xp.where(index >= 0, c[:, below], r[:, above]), y)


def _toeplitz_entries(xp: Any, whole: Any, r: Any) -> tuple[Any, Any]:
    """The cotangents of column and row from that of the matrix; the row's first entry is not read."""
    m, n = whole.shape
    gc = xp.stack([xp.trace(whole, -k) for k in range(m)])
    gr = xp.stack([xp.trace(whole, k) for k in range(n)])
    gr = xp.concatenate((xp.zeros_like(gr[:1]), gr[1:]))
    return (gc + xp.conj(gr), None) if r is None else (gc, gr)


def _matmul_toeplitz_vjp(xp: Any, w: Any, y: Any, x: Arrays, **_: Any) -> Arrays:
    c, r, v = x
    whole = xp.matmul(w.reshape(len(w), -1), xp.conj(v.reshape(len(v), -1)).T)
    gc, gr = _toeplitz_entries(xp, whole, r)
    gx = xp.matmul(xp.conj(toeplitz(xp, c, r)).T, w)
    return real_as(c, gc), None if gr is None else real_as(r, gr), real_as(v, gx)


@stacked(
    "scipy.linalg.matmul_toeplitz", "c r? x", "1 1 v", _matmul_toeplitz_vjp, binder=_toeplitz_factors,
    check_finite=False, workers=None,
)  # fmt: skip
def matmul_toeplitz(xp: Any, y: Any, x: Arrays, dx: Arrays, **_: Any) -> Any:
    """The lanes dT x + T dx, in the type of the result: SciPy transforms in double precision."""
    (c, r, v), (dc, dr, dv) = x, dx
    t: Any = None
    if dc is not None or dr is not None:
        first = xp.zeros((len(dr), len(c)), dr.dtype) if dc is None else dc
        zeros = xp.zeros((len(first), len(c if r is None else r)), first.dtype)
        t = _toeplitz_product(xp, first, xp.conj(first) if r is None else zeros if dr is None else dr, v)
    if dv is not None:
        t = add(xp, _lanes(xp, xp.matmul(toeplitz(xp, c, r), _columns(xp, dv)), (len(dv), len(c), *v.shape[1:])), t)
    return t.astype(y.dtype)
