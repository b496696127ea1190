"""Rules for order statistics: sort, partition, median, quantiles.

All of them pick or mix elements by rank. Where values repeat, equal elements are told apart by position, as a stable
sort does.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import (
    axis_tuple,
    inverse_permutation,
    lane_count,
    one_axis,
    refuse,
    scatter_add,
)


def _sort_index(xp: Any, x: Any, axis: Any, descending: Any) -> tuple[Any, int]:
    """Where each element of the sorted array comes from, along one axis of x (flattened if there is no axis)."""
    axis = -1 if axis is None else axis
    # NumPy knows `descending` since 2.5.
    how = {"stable": True, "descending": True} if descending else {"kind": "stable"}
    return xp.argsort(x, axis=axis, **how), axis


def _partition_index(xp: Any, x: Any, y: Any, axis: Any) -> tuple[Any, int]:
    """Match the rearranged elements to their sources by rank, whatever order NumPy left them in."""
    axis = -1 if axis is None else axis
    source, target = xp.argsort(x, axis=axis, kind="stable"), xp.argsort(y, axis=axis, kind="stable")
    index = xp.empty_like(source)
    xp.put_along_axis(index, target, source, axis)
    return index, axis


def _gather(xp: Any, t: Any, a: Any, index: Any, axis: Any) -> Any:
    if axis is None:
        return xp.take(t.reshape(t.shape[0], a.size), index, 1)
    return xp.take_along_axis(t, index[None], one_axis(axis, a.ndim) + 1)


def _scatter(xp: Any, w: Any, a: Any, index: Any, axis: Any) -> Any:
    if axis is None:
        return scatter_add(xp, index, w, a.shape)
    flat = xp.take_along_axis(xp.arange(a.size).reshape(a.shape), index, axis)
    return scatter_add(xp, flat, w, a.shape)


def _fields(name: str, order: Any) -> None:
    if order is not None:
        raise refuse(name, "order=", "It belongs to structured dtypes, which carry no derivative.")


def _sort_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, descending: Any, **_: Any) -> tuple[Any]:
    a = x[0].reshape(-1) if axis is None else x[0]
    return (_scatter(xp, w, x[0], _sort_index(xp, a, axis, descending)[0], axis),)


@structured("numpy.sort", "a", _sort_vjp, axis=-1, kind=None, order=None, stable=None, descending=None)
def sort(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, order: Any, descending: Any, **_: Any) -> Any:
    """The lanes in the order that sorts the value."""
    _fields("numpy.sort", order)
    a = x[0].reshape(-1) if axis is None else x[0]
    return _gather(xp, dx[0], x[0], _sort_index(xp, a, axis, descending)[0], axis)


def _partition_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], kth: Any, axis: Any, **_: Any) -> tuple[Any]:
    a = x[0].reshape(-1) if axis is None else x[0]
    return (_scatter(xp, w, x[0], _partition_index(xp, a, y, axis)[0], axis),)


@structured("numpy.partition", "a (kth)", _partition_vjp, axis=-1, kind="introselect", order=None)
def partition(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], kth: Any, axis: Any, order: Any, **_: Any) -> Any:
    """The lanes in the order in which the values were left."""
    _fields("numpy.partition", order)
    a = x[0].reshape(-1) if axis is None else x[0]
    return _gather(xp, dx[0], x[0], _partition_index(xp, a, y, axis)[0], axis)


def _rows(a: Any, axis: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The permutation that puts the reduced axes last, and the shape of the others."""
    axes = axis_tuple(axis, a.ndim)
    order = tuple(i for i in range(a.ndim) if i not in axes) + axes
    return order, tuple(a.shape[i] for i in order[: a.ndim - len(axes)])


class _Quantile:
    """The two order statistics that each quantile of each row mixes, and their weights.

    A quantile is equivariant under monotone maps of the ranks, so NumPy's own call on the ranks 0 .. n-1 gives the
    position between two order statistics for every method.
    """

    def __init__(self, xp: Any, a: Any, q: Any, axis: Any, method: str, skip_nan: bool) -> None:
        self.order, self.rest = _rows(a, axis)
        self.rows = xp.transpose(a, self.order).reshape(*self.rest, -1)
        self.sorting = xp.argsort(self.rows, axis=-1, kind="stable")
        n = self.rows.shape[-1]
        q = xp.asarray(q, float)
        self.q_shape = q.shape
        self.counts = n - xp.isnan(self.rows).sum(-1) if skip_nan else xp.full(self.rest, n)
        self.rank = xp.zeros((*q.shape, *self.rest))
        for m in sorted(set(self.counts.reshape(-1).tolist()) - {0}):
            one = xp.asarray(xp.quantile(xp.arange(float(m)), q, method=method))
            one = one.reshape(q.shape + (1,) * self.counts.ndim)
            self.rank = xp.where(self.counts == m, one, self.rank)
        self.low = xp.floor(self.rank).astype(int)
        self.high = xp.minimum(self.low + 1, n - 1)
        self.weight = self.rank - self.low

    def pick(self, xp: Any, at: Any) -> Any:
        """The position in its row of the order statistic `at`."""
        sorting = self.sorting.reshape((1,) * len(self.q_shape) + self.sorting.shape)
        return xp.take_along_axis(sorting, at[..., None], -1)[..., 0]

    def slope(self, xp: Any, method: str) -> Any:
        """The derivative with respect to q, one-sided at order statistics and 0 for the methods that jump."""
        if method not in _RANKS_PER_Q:
            return xp.zeros(self.rank.shape)
        last = xp.maximum(self.counts - 1, 0)
        low = xp.clip(self.low, 0, xp.maximum(last - 1, 0))
        rows = self.rows.reshape((1,) * len(self.q_shape) + self.rows.shape)
        low_value = xp.take_along_axis(rows, self.pick(xp, low)[..., None], -1)[..., 0]
        high_value = xp.take_along_axis(rows, self.pick(xp, xp.minimum(low + 1, last))[..., None], -1)[..., 0]
        moves = (self.rank > 0) & (self.rank < last) if method != "linear" else True
        return xp.where(moves, (high_value - low_value) * (self.counts + _RANKS_PER_Q[method]), 0)


# How many ranks a quantile moves per unit of q: the number of values plus this.
_RANKS_PER_Q = {
    "linear": -1,
    "hazen": 0,
    "interpolated_inverted_cdf": 0,
    "weibull": 1,
    "median_unbiased": 1 / 3,
    "normal_unbiased": 1 / 4,
}


def _quantile_jvp(xp: Any, y: Any, t: Any, s: _Quantile) -> Any:
    n = t.shape[0]
    moved = xp.transpose(t, (0, *(i + 1 for i in s.order))).reshape(n, *(1,) * len(s.q_shape), *s.rest, -1)
    low = xp.take_along_axis(moved, s.pick(xp, s.low)[None, ..., None], -1)[..., 0]
    high = xp.take_along_axis(moved, s.pick(xp, s.high)[None, ..., None], -1)[..., 0]
    out = xp.where(s.weight == 0, low, low * (1 - s.weight) + high * s.weight)
    return out.reshape(n, *y.shape)


def _quantile_vjp(xp: Any, w: Any, a: Any, s: _Quantile) -> Any:
    w = xp.asarray(w).reshape(s.q_shape + s.rest)
    count = s.rows.shape[-1]
    row = xp.arange(s.rows.size // max(count, 1)).reshape(s.rest) * count
    g = scatter_add(xp, row + s.pick(xp, s.low), w * (1 - s.weight), s.rows.shape)
    g = g + scatter_add(xp, row + s.pick(xp, s.high), w * s.weight, s.rows.shape)
    shape = tuple(a.shape[i] for i in s.order)
    return xp.transpose(g.reshape(shape), inverse_permutation(s.order))


def _method(method: Any, interpolation: Any) -> str:
    return str(method if interpolation is None else interpolation)


def _picked(xp: Any, y: Any, a: Any, axis: Any, q_ndim: int) -> tuple[Any, tuple[int, ...]]:
    """Equal shares of the elements of each row that a weighted quantile is equal to, it being always one of them."""
    order, rest = _rows(a, axis)
    rows = xp.transpose(a, order).reshape(*rest, -1)
    y = xp.asarray(y)
    y = y.reshape(*y.shape[:q_ndim], *rest, 1)
    hit = xp.where(xp.isnan(y), xp.isnan(rows), rows == y)
    return hit / xp.maximum(hit.sum(-1, keepdims=True), 1), order


def _weighted_jvp(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: Any) -> Any:
    n = lane_count(dx)
    if dx[0] is None:
        return xp.zeros((n, *xp.shape(y)), y.dtype)
    share, order = _picked(xp, y, x[0], axis, x[1].ndim)
    moved = xp.transpose(dx[0], (0, *(i + 1 for i in order)))
    moved = moved.reshape(n, *(1,) * x[1].ndim, *share.shape[x[1].ndim :])
    return (moved * share).sum(-1).reshape(n, *xp.shape(y))


def _weighted_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: Any) -> tuple[Any, ...]:
    share, order = _picked(xp, y, x[0], axis, x[1].ndim)
    w = xp.asarray(w).reshape(*share.shape[:-1], 1)
    g = (share * w).sum(axis=tuple(range(x[1].ndim))).reshape(tuple(x[0].shape[i] for i in order))
    return xp.transpose(g, inverse_permutation(order)), None, None


_OPTIONS: dict[str, Any] = {
    "axis": None,
    "out": None,
    "overwrite_input": False,
    "method": "linear",
    "keepdims": False,
    "interpolation": None,
}


def _register_quantile(name: str, scale: float, skip_nan: bool) -> None:
    def ranked(xp: Any, x: tuple[Any, ...], axis: Any, method: str) -> _Quantile:
        return _Quantile(xp, x[0], xp.asarray(x[1]) / scale, axis, method, skip_nan)

    def vjp(
        xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: Any, method: Any, interpolation: Any, **_: Any
    ) -> tuple[Any, ...]:
        if x[2] is not None:
            return _weighted_vjp(xp, w, y, x, axis)
        method = _method(method, interpolation)
        s = ranked(xp, x, axis, method)
        of_q = xp.asarray(w).reshape(s.rank.shape) * s.slope(xp, method) / scale
        return _quantile_vjp(xp, w, x[0], s), of_q.sum(axis=tuple(range(len(s.q_shape), of_q.ndim))), None

    @structured(name, "a q weights=", vjp, **_OPTIONS)
    def jvp(
        xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: Any, method: Any, interpolation: Any, **_: Any
    ) -> Any:
        if x[2] is not None:
            return _weighted_jvp(xp, y, x, dx, axis)
        method = _method(method, interpolation)
        s = ranked(xp, x, axis, method)
        out = None if dx[0] is None else _quantile_jvp(xp, xp.asarray(y), dx[0], s)
        if dx[1] is not None:
            dq = dx[1].reshape(dx[1].shape + (1,) * len(s.rest)) / scale
            part = (dq * s.slope(xp, method)).reshape(dq.shape[0], *xp.shape(y))
            out = part if out is None else out + part
        return out

    jvp.__doc__ = f"{name}: the two neighbouring order statistics' lanes, mixed as the value mixes them."


for _name, _scale, _skip in (
    ("numpy.quantile", 1.0, False),
    ("numpy.percentile", 100.0, False),
    ("numpy.nanquantile", 1.0, True),
    ("numpy.nanpercentile", 100.0, True),
):
    _register_quantile(_name, _scale, _skip)


def _register_median(name: str, skip_nan: bool) -> None:
    def vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, **_: Any) -> tuple[Any]:
        return (_quantile_vjp(xp, w, x[0], _Quantile(xp, x[0], 0.5, axis, "linear", skip_nan)),)

    @structured(name, "a", vjp, axis=None, out=None, overwrite_input=False, keepdims=False)
    def jvp(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, keepdims: Any, **_: Any) -> Any:
        s = _Quantile(xp, x[0], 0.5, axis, "linear", skip_nan)
        return _quantile_jvp(xp, xp.asarray(y), dx[0], s)

    jvp.__doc__ = f"{name}: the middle element's lane, or the mean of the middle two's."


_register_median("numpy.median", False)
_register_median("numpy.nanmedian", True)
