"""Rules for reductions: sums, means, products, extremes and spreads, with every option of the public signatures.

A reduction of one array is given by its local gradient where that is enough. Running forms live in ``running.py``,
order statistics in ``order.py``.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, passive, structured
from ndual.rules.support import (
    axis_tuple,
    conj,
    given,
    inverse_permutation,
    kept,
    lane_axes,
    local_gradient,
    quiet,
    spread,
    strong_multiply,
    truth,
    unbroadcast,
)

passive(
    "numpy.any numpy.all numpy.argmax numpy.argmin numpy.nanargmax numpy.nanargmin numpy.count_nonzero "
    "numpy.isclose numpy.allclose numpy.array_equal numpy.array_equiv numpy.linalg.matrix_rank "
    "numpy.isposinf numpy.isneginf numpy.isreal numpy.iscomplex "
    "scipy.linalg.bandwidth scipy.linalg.issymmetric scipy.linalg.ishermitian"
)


def _extras(where: Any) -> dict[str, Any]:
    return {} if where is True else {"where": where}


def _selected(xp: Any, where: Any, a: Any) -> Any:
    return xp.broadcast_to(where, a.shape)


def _sum_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: Any, dtype: Any, keepdims: Any, where: Any
) -> tuple[Any, ...]:
    a, initial = x
    g = xp.broadcast_to(kept(xp.asarray(w), axis, keepdims, a.shape), a.shape)
    return (g if where is True else xp.where(where, g, 0)), None if initial is None else xp.asarray(w).sum()


@structured("numpy.sum", "a initial=", _sum_vjp, axis=None, dtype=None, out=None, keepdims=False, where=True)
def sum_(
    xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: Any, dtype: Any, keepdims: Any, where: Any
) -> Any:
    """The sum of the lanes; an active `initial` adds its own."""
    (a, _), (da, dinitial) = x, dx
    out = None
    if da is not None:
        out = da.sum(axis=lane_axes(axis, a.ndim), keepdims=truth(keepdims), **_extras(where))
    if dinitial is not None:
        start = xp.broadcast_to(dinitial.reshape(dinitial.shape[0], *(1,) * y.ndim), (dinitial.shape[0], *y.shape))
        out = start if out is None else out + start
    return out


def _count(xp: Any, a: Any, axis: Any, where: Any) -> Any:
    if where is True:
        n = 1
        for i in axis_tuple(axis, a.ndim):
            n *= a.shape[i]
        return n
    return _selected(xp, where, a).sum(axis=axis_tuple(axis, a.ndim), keepdims=True)


def _mean_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, dtype: Any, keepdims: Any, where: Any
) -> tuple[Any, ...]:
    g = kept(xp.asarray(w), axis, keepdims, x[0].shape) / _count(xp, x[0], axis, where)
    g = xp.broadcast_to(g, x[0].shape)
    return (g if where is True else xp.where(where, g, 0),)


@structured("numpy.mean", "a", _mean_vjp, axis=None, dtype=None, out=None, keepdims=False, where=True)
def mean(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, dtype: Any, keepdims: Any, where: Any) -> Any:
    """The mean of the lanes."""
    return dx[0].mean(axis=lane_axes(axis, x[0].ndim), keepdims=truth(keepdims), **_extras(where))


def _valid(xp: Any, a: Any, where: Any = True) -> Any:
    return ~xp.isnan(a) & where


_EXTREME: dict[str, Any] = {"axis": None, "out": None, "keepdims": False, "initial": None, "where": True}
_FOLD: dict[str, Any] = {"axis": None, "dtype": None, "out": None, "keepdims": False}


def _extreme(xp: Any, y: Any, a: Any, axis: Any, mask: Any, initial: Any, **_: Any) -> Any:
    hit = xp.where(xp.isnan(y), xp.isnan(a), a == y) & mask
    ties = hit.sum(axis=axis_tuple(axis, a.ndim), keepdims=True)
    if given(initial):
        ties = ties + (y == initial)
    return hit / xp.where(ties == 0, 1, ties).astype(y.dtype)


@local_gradient("numpy.max numpy.amax", **_EXTREME)
@local_gradient("numpy.min numpy.amin", **_EXTREME)
def _extreme_gradient(xp: Any, y: Any, a: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    """Ties share equally, a constant `initial` among them; a NaN result belongs to the NaN."""
    return _extreme(xp, y, a, axis, where, initial)


@local_gradient("numpy.nanmax", **_EXTREME)
@local_gradient("numpy.nanmin", **_EXTREME)
def _nan_extreme_gradient(xp: Any, y: Any, a: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    """As for the plain extremes, NaN elements left out."""
    return _extreme(xp, y, a, axis, _valid(xp, a, where), initial)


@local_gradient("numpy.ptp", axis=None, out=None, keepdims=False)
def _ptp_gradient(xp: Any, y: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    """The maximum's share less the minimum's."""
    axes = axis_tuple(axis, a.ndim)
    top, bottom = a.max(axis=axes, keepdims=True), a.min(axis=axes, keepdims=True)
    return _extreme(xp, top, a, axis, True, None) - _extreme(xp, bottom, a, axis, True, None)


def others_product(xp: Any, a: Any, axis: Any) -> Any:
    """For each element the product of the others along `axis`: the products before it times those after it."""
    axes = axis_tuple(axis, a.ndim)
    order = tuple(i for i in range(a.ndim) if i not in axes) + axes
    moved = xp.transpose(a, order)
    if a.size == 0:
        return xp.ones_like(a)
    flat = moved.reshape(*moved.shape[: a.ndim - len(axes)], -1)
    ones = xp.ones_like(flat[..., :1])
    before = xp.cumprod(xp.concatenate((ones, flat[..., :-1]), -1), -1)
    after = xp.cumprod(xp.concatenate((ones, flat[..., :0:-1]), -1), -1)[..., ::-1]
    return xp.transpose((before * after).reshape(moved.shape), inverse_permutation(order))


@local_gradient("numpy.prod", **_FOLD, initial=None, where=True)
def _prod_gradient(
    xp: Any, y: Any, a: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any = None, where: Any = True
) -> Any:
    """The product of the other factors, exact with zeros and where the whole product under- or overflows."""
    g = others_product(xp, a if where is True else xp.where(where, a, 1), axis)
    g = g * initial if given(initial) else g
    return g if where is True else xp.where(where, g, 0)


@local_gradient("numpy.nanprod", **_FOLD, initial=None, where=True)
def _nanprod_gradient(
    xp: Any, y: Any, a: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any = None, where: Any = True
) -> Any:
    """The product of the other factors that are not NaN."""
    return _prod_gradient(xp, y, a, axis, dtype, keepdims, initial, _valid(xp, a, where))


@local_gradient("numpy.nansum", **_FOLD, initial=None, where=True)
def _nansum_gradient(xp: Any, y: Any, a: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    """One where the element is not NaN."""
    return _valid(xp, a, where).astype(a.dtype)


@local_gradient("numpy.nanmean", **_FOLD, where=True)
def _nanmean_gradient(xp: Any, y: Any, a: Any, axis: Any, dtype: Any, keepdims: Any, where: Any) -> Any:
    """One over the count of elements that are not NaN."""
    valid = _valid(xp, a, where)
    return valid / xp.maximum(valid.sum(axis=axis_tuple(axis, a.ndim), keepdims=True), 1).astype(a.real.dtype)


_SPREAD: dict[str, Any] = {
    "axis": None,
    "dtype": None,
    "out": None,
    "ddof": 0,
    "keepdims": False,
    "where": True,
    "correction": None,
}


def _deviation(xp: Any, x: tuple[Any, Any], axis: Any, ddof: Any, mask: Any, correction: Any) -> tuple[Any, Any]:
    """The masked deviations from the mean, and the divisor."""
    a, mean = x
    ddof = correction if given(correction) else ddof
    axes = axis_tuple(axis, a.ndim)
    if mask is True:
        center = a.mean(axis=axes, keepdims=True) if mean is None else mean
        return a - center, _count(xp, a, axis, True) - ddof
    n = _selected(xp, mask, a).sum(axis=axes, keepdims=True)
    center = xp.where(mask, a, 0).sum(axis=axes, keepdims=True) / n if mean is None else mean
    return xp.where(mask, a - center, 0), n - ddof


def _register_spread(name: str, root: bool, skip_nan: bool) -> None:
    """A variance or a deviation, by the data and by a mean that was computed before."""

    def slopes(
        xp: Any, y: Any, x: tuple[Any, Any], axis: Any, ddof: Any, keepdims: Any, where: Any, correction: Any
    ) -> Any:
        a = x[0]
        mask = _valid(xp, a, where) if skip_nan else where
        deviation, n = _deviation(xp, x, axis, ddof, mask, correction)
        if not root:
            return deviation * 2 / n
        y = kept(xp.asarray(y), axis, keepdims, a.shape)
        return xp.where(y == 0, 0, deviation / (n * xp.where(y == 0, 1, y)))

    @quiet
    def vjp(
        xp: Any, w: Any, y: Any, x: tuple[Any, Any], axis: Any, keepdims: Any, dtype: Any = None, **params: Any
    ) -> tuple[Any, Any]:
        g = slopes(xp, y, x, axis, keepdims=keepdims, **params)
        of_a = strong_multiply(xp, g, kept(xp.asarray(w), axis, keepdims, x[0].shape))
        return of_a, None if x[1] is None else unbroadcast(-of_a, x[1].shape)

    @structured(name, "a mean=", vjp, **_SPREAD)
    @quiet
    def jvp(
        xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], axis: Any, keepdims: Any, dtype: Any, **params: Any
    ) -> Any:
        g = slopes(xp, y, x, axis, keepdims=keepdims, **params)
        total = None
        for t, sign in ((dx[0], 1), (dx[1], -1)):
            if t is not None:
                part = strong_multiply(xp, conj(xp, g), spread(t, x[0].ndim))
                part = sign * (part.real if g.dtype.kind == "c" else part)
                total = part if total is None else total + part
        assert total is not None
        return total.sum(axis=lane_axes(axis, x[0].ndim), keepdims=truth(keepdims))

    jvp.__doc__ = f"{name}: the deviations times their own tangents; 0 where a standard deviation is 0."


_register_spread("numpy.var", False, False)
_register_spread("numpy.std", True, False)
_register_spread("numpy.nanvar", False, True)
_register_spread("numpy.nanstd", True, True)


@composition("numpy.average")
def average(
    xp: Any, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """The sum of weighted elements over the sum of weights; the weights may be active too."""
    keep = truth(keepdims)
    if weights is None:
        out = xp.mean(a, axis, keepdims=keep)
        total: Any = xp.size(a) / xp.size(out)
    else:
        if xp.shape(weights) != xp.shape(a):
            axes = axis_tuple(axis, xp.ndim(a))
            order = sorted(range(len(axes)), key=lambda i: axes[i])
            shape = tuple(n if i in axes else 1 for i, n in enumerate(xp.shape(a)))
            weights = xp.reshape(xp.transpose(weights, order), shape)
            weights = xp.broadcast_to(weights, xp.shape(a))
        total = xp.sum(weights, axis, keepdims=keep)
        out = xp.sum(xp.multiply(a, weights), axis, keepdims=keep) / total
    return (out, xp.broadcast_to(total, xp.shape(out))) if returned else out
