"""Covariances, correlations and histograms. Means, spreads and order statistics live in ``reduce`` and ``order``."""

from __future__ import annotations

import warnings
from typing import Any

from ndual.rules.registry import composition, structured
from ndual.rules.support import array_of, conj, lane_count

Arrays = tuple[Any, ...]


def _variables(xp: Any, m: Any, dtype: Any, rowvar: Any) -> Any:
    """The observations as floating-point rows, one for each variable."""
    ndim = xp.ndim(m)
    if ndim > 2:
        raise ValueError(f"numpy.cov: expected at most 2 dimensions; got {ndim}")
    return (m if ndim == 2 else xp.reshape(m, (1, -1))).astype(dtype)


def _weights(xp: Any, w: Any, count: int, name: str) -> Any:
    w = array_of(xp, w)
    if xp.ndim(w) > 1 or xp.shape(w)[0] != count:
        raise RuntimeError(f"numpy.cov: expected {count} {name}, one for each observation; got {xp.shape(w)}")
    if bool(xp.any(w < 0)):
        raise ValueError(f"numpy.cov: expected {name} that are not negative")
    return w.astype(float)


@composition("numpy.cov")
def cov(
    xp: Any, m: Any, y: Any = None, rowvar: Any = True, bias: Any = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The product of the deviations with themselves over the sum of weights, which may be active too."""
    m = array_of(xp, m)
    y = None if y is None else array_of(xp, y)
    if dtype is None:
        dtype = xp.result_type(m.dtype, xp.float64, *(() if y is None else (y.dtype,)))
    x = _variables(xp, m, dtype, rowvar)
    if not rowvar and xp.ndim(m) != 1:
        x = x.T
    if xp.shape(x)[0] == 0:
        return xp.zeros((0, 0))
    if y is not None:
        y = _variables(xp, y, dtype, rowvar)
        x = xp.concatenate((x, y.T if not rowvar and xp.shape(y)[0] != 1 else y), 0)
    ddof = (1 if bias == 0 else 0) if ddof is None else ddof
    count = xp.shape(x)[1]
    w = None
    if fweights is not None:
        w = _weights(xp, fweights, count, "fweights")
        if not bool(xp.all(w == xp.round(w))):
            raise TypeError("numpy.cov: expected integer fweights")
    if aweights is not None:
        aweights = _weights(xp, aweights, count, "aweights")
        w = aweights if w is None else w * aweights
    average, total = xp.average(x, axis=1, weights=w, returned=True)
    total = total[0]
    if w is None:
        total = count - ddof
    elif ddof != 0:
        total = total - (ddof if aweights is None else ddof * sum(w * aweights) / total)
    if total <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        total = 0.0
    x = x - average[:, None]
    right = x.T if w is None else (x * w).T
    c = xp.dot(x, conj(xp, right))
    with xp.errstate(divide="ignore"):
        return xp.squeeze(c * xp.true_divide(1, total))


@composition("numpy.corrcoef")
def corrcoef(xp: Any, x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Any:
    """The covariances over the products of standard deviations."""
    c = xp.cov(x, y, rowvar, dtype=dtype)
    if xp.ndim(c) == 0:
        return c / c
    deviation = xp.sqrt(xp.diag(c).real)
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        return xp.clip(c.real, -1, 1) + 1j * xp.clip(c.imag, -1, 1)
    return xp.clip(c, -1, 1)


def _place(xp: Any, a: Any, edges: Any) -> tuple[Any, Any]:
    """The bin of each element of the flattened `a`, and whether it has one; the last bin has both of its edges."""
    flat = a.reshape(-1)
    bins = xp.searchsorted(edges, flat, side="right") - 1
    bins = xp.where(flat == edges[-1], edges.shape[0] - 2, bins)
    return bins, (flat >= edges[0]) & (flat <= edges[-1])


def _counts(xp: Any, a: Any, weights: Any, edges: Any) -> Any:
    bins, inside = _place(xp, a, edges)
    heights = xp.ones(int(inside.sum())) if weights is None else weights.reshape(-1)[inside]
    if heights.dtype.kind == "c":
        real, imag = (xp.bincount(bins[inside], part, edges.shape[0] - 1) for part in (heights.real, heights.imag))
        return real + 1j * imag
    return xp.bincount(bins[inside], heights, edges.shape[0] - 1)


def _count_lanes(xp: Any, a: Any, edges: Any, t: Any) -> Any:
    n, size = t.shape[0], edges.shape[0] - 1
    bins, inside = _place(xp, a, edges)
    t = t.reshape(n, -1)[:, inside]
    index = (bins[inside] + size * xp.arange(n)[:, None]).reshape(-1)
    parts = (t.real, t.imag) if t.dtype.kind == "c" else (t,)
    sums = [xp.bincount(index, part.reshape(-1), n * size).reshape(n, size) for part in parts]
    return sums[0] if len(sums) == 1 else sums[0] + 1j * sums[1]


def _ends(xp: Any, a: Any) -> tuple[Any, Any]:
    """Equal shares of the elements that are the least, and of those that are the greatest."""
    low, high = (a == a.min()).astype(a.dtype), (a == a.max()).astype(a.dtype)
    return low / low.sum(), high / high.sum()


def _edge_lanes(xp: Any, edges: Any, x: Arrays, dx: Arrays, range_: Any) -> Any:
    """The lanes of the edges: those that were given, or between those of the extremes of the data."""
    (a, bins), (da, dbins) = x[:2], dx[:2]
    if bins.ndim == 1:
        return dbins
    if da is None or range_ is not None or a.size == 0:
        return None
    low, high = ((da * share).sum(axis=tuple(range(1, da.ndim)))[:, None] for share in _ends(xp, a))
    step = xp.arange(edges.shape[0]) / (edges.shape[0] - 1)
    return low * (1 - step) + high * step


def _edges_vjp(xp: Any, w: Any, y: Any, x: Arrays, **options: Any) -> Arrays:
    a, bins = x[:2]
    if bins is not None and bins.ndim == 1:
        return None, w
    if options["range"] is not None or a.size == 0:
        return None, None
    step = xp.arange(y.shape[0]) / (y.shape[0] - 1)
    low, high = _ends(xp, a)
    return low * (w * (1 - step)).sum() + high * (w * step).sum(), None


@structured("numpy.histogram_bin_edges", "a bins? (range) (weights)", _edges_vjp, range=None, weights=None)
def histogram_bin_edges(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """The edges lie evenly between the extremes of the data."""
    bins = xp.asarray(10) if x[1] is None else x[1]
    found = _edge_lanes(xp, y, (x[0], bins), dx, options["range"])
    return xp.zeros((lane_count(dx), *y.shape), y.dtype) if found is None else found


def _histogram_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, density: Any, **options: Any) -> Arrays:
    (a, bins, weights), (heights, edges) = x, y
    wh, we = w
    of_edges = xp.zeros_like(edges) if we is None else we
    of_weights = None
    if wh is not None:
        if density:
            width = xp.diff(edges)
            total = _counts(xp, a, weights, edges).sum()
            of_width = -wh * heights / width
            of_edges = (
                of_edges + xp.concatenate((-of_width, of_width[-1:] * 0)) + xp.concatenate((of_width[:1] * 0, of_width))
            )
            wh = wh / (width * total) - (wh * heights).sum() / total
        if weights is not None:
            place, inside = _place(xp, a, edges)
            of_weights = xp.where(inside, wh[xp.where(inside, place, 0)], 0).reshape(weights.shape)
    bins = xp.asarray(10) if bins is None else bins
    of_a, of_bins = _edges_vjp(xp, of_edges, edges, (a, bins), **options)
    return of_a, of_bins, of_weights


@structured("numpy.histogram", "a bins? (range) (density) weights?", _histogram_vjp, range=None, density=None)
def histogram(xp: Any, y: Arrays, x: Arrays, dx: Arrays, density: Any, **options: Any) -> Arrays:
    """Sums of the lanes of the weights in each bin; a density also moves with the edges and with the total."""
    (a, bins, weights), (heights, edges) = x, y
    bins = xp.asarray(10) if bins is None else bins
    d_edges = _edge_lanes(xp, edges, (a, bins), dx, options["range"])
    n = lane_count(dx)
    out = None
    if weights is not None or density:
        out = xp.zeros((n, *heights.shape), heights.dtype)
        if dx[2] is not None:
            out = out + _count_lanes(xp, a, edges, dx[2])
        if density:
            width = xp.diff(edges)
            total = _counts(xp, a, weights, edges).sum()
            out = out / (width * total) - heights * out.sum(axis=1, keepdims=True) / total
            if d_edges is not None:
                out = out - heights * xp.diff(d_edges, axis=1) / width
    return out, xp.zeros((n, *edges.shape), edges.dtype) if d_edges is None else d_edges
