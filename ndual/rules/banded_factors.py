"""Rules for scipy.linalg: Cholesky factors of banded matrices, which stay banded, and what is solved with them.

The tangents follow the elimination column by column, all lanes at once; the cotangents go back the same way.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.special_matrices import _band_adjoint, _band_cotangent, _band_times, _columns, _lanes
from ndual.rules.stacks import stacked
from ndual.rules.support import add, conj, real_as, scipy_linalg, truth

Arrays = tuple[Any, ...]


def _inside(xp: Any, ab: Any, low: bool) -> Any:
    """Which places of the storage hold a cell of the matrix."""
    rows, n = ab.shape[-2:]
    row, column = xp.arange(rows)[:, None], xp.arange(n)
    return column < n - row if low else column >= rows - 1 - row


def _below(xp: Any, ab: Any, low: bool) -> Any:
    """The bands of a triangle as those of the lower one; zeros where there is no cell."""
    ab = xp.where(_inside(xp, ab, low), ab, 0)
    return ab if low else _band_adjoint(xp, ab, ab.shape[-2] - 1, 0)


def _back(xp: Any, bands: Any, low: bool) -> Any:
    """The inverse of the same."""
    return bands if low else _band_adjoint(xp, bands, 0, bands.shape[-2] - 1)


def _eliminated(xp: Any, factor: Any, t: Any) -> Any:
    """Lanes of the lower bands of L from those of A."""
    width, n = factor.shape[0] - 1, factor.shape[1]
    out = xp.zeros(t.shape, t.dtype)
    left = xp.concatenate((t, xp.zeros((*t.shape[:-1], width), t.dtype)), -1)
    for j in range(n):
        pivot, column = factor[0, j].real, factor[1:, j]
        dpivot = left[:, 0, j].real / (2 * pivot)
        dcolumn = (left[:, 1:, j] - column * dpivot[:, None]) / pivot
        out[:, 0, j] = dpivot
        out[:, 1:, j] = dcolumn
        for p in range(width):
            move = dcolumn[:, p:] * conj(xp, column[p]) + column[p:] * conj(xp, dcolumn[:, p : p + 1])
            left[:, : width - p, j + 1 + p] = left[:, : width - p, j + 1 + p] - move
    return out


def _eliminated_cotangent(xp: Any, factor: Any, g: Any) -> Any:
    """The cotangent of the lower bands of A from that of L's."""
    width, n = factor.shape[0] - 1, factor.shape[1]
    out = xp.zeros((width + 1, n + width), g.dtype)
    for j in reversed(range(n)):
        pivot, column = factor[0, j].real, factor[1:, j]
        below = xp.zeros(width, g.dtype)
        below[:] = g[1:, j]
        for p in range(width):
            beside = out[: width - p, j + 1 + p]
            below[p:] = below[p:] - beside * column[p]
            below[p] = below[p] - (conj(xp, beside) * column[p:]).sum()
        top = g[0, j].real - (conj(xp, column) * below).sum().real / pivot
        out[1:, j] = below / pivot
        out[0, j] = top / (2 * pivot)
    return out[:, :n]


def _cholesky_banded_vjp(xp: Any, w: Any, y: Any, x: Arrays, lower: Any, **_: Any) -> Arrays:
    low = truth(lower)
    g = _back(xp, _eliminated_cotangent(xp, _below(xp, y, low), _below(xp, w, low)), low)
    return (real_as(x[0], xp.where(_inside(xp, y, low), g, w)),)


@stacked(
    "scipy.linalg.cholesky_banded", "ab", "2", _cholesky_banded_vjp, overwrite_ab=False, lower=False, check_finite=True
)
def cholesky_banded(xp: Any, y: Any, x: Arrays, dx: Arrays, lower: Any, **_: Any) -> Any:
    """The bands of the factor; places that hold no cell keep what they held."""
    low = truth(lower)
    t = _back(xp, _eliminated(xp, _below(xp, y, low), _below(xp, dx[0], low)), low)
    return xp.where(_inside(xp, y, low), t, dx[0])


def _widths(bands: Any, low: bool) -> tuple[int, int]:
    """How many bands of a factor lie above and below its diagonal."""
    width = bands.shape[-2] - 1
    return (0, width) if low else (width, 0)


def _pair(xp: Any, bands: Any, low: bool) -> tuple[Arrays, Arrays]:
    """The factors A = F G in the order of the product, with lanes, and their widths: L L^H, or U^H U."""
    above, below = _widths(bands, low)
    other = _band_adjoint(xp, bands, above, below)
    pair = ((bands, above, below), (other, below, above))
    return pair if low else pair[::-1]


def _lanes_times(xp: Any, factor: Arrays, y: Any) -> Any:
    """Lanes of a factor times something constant."""
    bands, above, below = factor
    return _band_times(xp, bands, above, below, y)


def _times(xp: Any, factor: Arrays, lanes: Any) -> Any:
    """A factor that is constant times lanes of vectors."""
    bands, above, below = factor
    wide = xp.moveaxis(lanes, 0, -1)
    return xp.moveaxis(_band_times(xp, bands[None], above, below, wide)[0], -1, 0)


def _cho_solve_banded_vjp(xp: Any, w: Any, y: Any, x: Arrays, **_: Any) -> Arrays:
    cb, low, b = x
    low = bool(low)
    g = scipy_linalg(xp).cho_solve_banded((cb, low), w)
    second = _pair(xp, cb, low)[1]
    gy, gg = (_times(xp, second, v[None])[0] for v in (y, g))
    above, below = _widths(cb, low)
    pairs = ((g, gy), (y, gg)) if low else ((gg, y), (gy, g))
    gc = _band_cotangent(xp, *pairs[0], above, below) + _band_cotangent(xp, *pairs[1], above, below)
    return real_as(cb, gc), None, real_as(b, g)


@stacked(
    "scipy.linalg.cho_solve_banded", "*cb_and_lower b", "2 - v", _cho_solve_banded_vjp,
    overwrite_b=False, check_finite=True,
)  # fmt: skip
def cho_solve_banded(xp: Any, y: Any, x: Arrays, dx: Arrays, **_: Any) -> Any:
    """A dy = db - dA y with A = L L^H, all lanes as columns of one right side."""
    (cb, _low, _b), (dc, _p, db) = x, dx
    low, r = bool(_low), db
    if dc is not None:
        first, second = _pair(xp, cb, low)
        dfirst, dsecond = _pair(xp, dc, low)
        inner = _times(xp, second, y[None])[0]
        t = _lanes_times(xp, dfirst, inner) + _times(xp, first, _lanes_times(xp, dsecond, y))
        r = add(xp, -t, db)
    return _lanes(xp, scipy_linalg(xp).cho_solve_banded((cb, low), _columns(xp, r)), r.shape)
