"""Rules for running forms and differences: cumsum, cumprod, diff, gradient, trapezoid, bincount and unwrap."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, linear, structured
from ndual.rules.support import conj, given, one_axis, ordered_as, truth


def _along(xp: Any, a: Any, axis: Any) -> tuple[Any, int]:
    """The array and axis that a running form without an axis stands for: the flattened array."""
    return (a.reshape(-1), 0) if axis is None or a.ndim == 0 else (a, one_axis(axis, a.ndim))


def _lanes_along(xp: Any, t: Any, a: Any, axis: Any) -> tuple[Any, int]:
    return (t.reshape(t.shape[0], a.size), 1) if axis is None or a.ndim == 0 else (t, one_axis(axis, a.ndim) + 1)


def _reversed_sum(xp: Any, w: Any, axis: int) -> Any:
    return xp.flip(xp.cumsum(xp.flip(w, axis), axis), axis)


def _cumsum_t(xp: Any, w: Any, a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _reversed_sum(xp, w, 0 if axis is None else axis).reshape(a.shape)


@linear("numpy.cumsum", _cumsum_t)
def cumsum(xp: Any, t: Any, a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The running sums of the lanes; the transpose runs backward."""
    t, axis = _lanes_along(xp, t, a, axis)
    return xp.cumsum(t, axis)


def _with_zero(include_initial: Any, t: Any, axis: int, xp: Any) -> Any:
    if not truth(include_initial):
        return t
    shape = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
    return xp.concatenate((xp.zeros(shape, t.dtype), t), axis)


def _after_first(include_initial: Any, w: Any, axis: int) -> Any:
    return w[(slice(None),) * axis + (slice(1, None),)] if truth(include_initial) else w


def _cumulative_sum_t(
    xp: Any, w: Any, x: Any, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    axis = 0 if axis is None else one_axis(axis, x.ndim)
    return _reversed_sum(xp, _after_first(include_initial, w, axis), axis)


@linear("numpy.cumulative_sum", _cumulative_sum_t)
def cumulative_sum(
    xp: Any, t: Any, x: Any, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """cumsum, after a zero if asked for."""
    axis = 1 if axis is None else one_axis(axis, x.ndim) + 1
    return _with_zero(include_initial, xp.cumsum(t, axis), axis, xp)


def _nan_free(xp: Any, a: Any, t: Any) -> Any:
    return xp.where(xp.isnan(a), 0, t)


def _nancumsum_t(xp: Any, w: Any, a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _nan_free(xp, a, _cumsum_t(xp, w, a, axis))


@linear("numpy.nancumsum", _nancumsum_t)
def nancumsum(xp: Any, t: Any, a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Cumsum with the lanes of NaN elements taken as zero."""
    return cumsum(xp, _nan_free(xp, a, t), a, axis)


def _zero_split(xp: Any, a: Any, axis: int) -> tuple[Any, Any, Any]:
    """Where no zero has come yet, where the first zero is, and the running product with that zero as one."""
    zeros = xp.cumsum(a == 0, axis)
    first = (a == 0) & (zeros == 1)
    return zeros == 0, first, xp.cumprod(xp.where(first, 1, a), axis)


def _cumprod_lanes(xp: Any, a: Any, t: Any, axis: int) -> Any:
    clear, first, product = _zero_split(xp, a, axis)
    safe = xp.where(clear, a, 1)
    before = product * xp.cumsum(xp.where(clear, t / safe, 0), axis + 1)
    return xp.where(clear, before, product * xp.cumsum(xp.where(first, t, 0), axis + 1))


def _cumprod_cotangent(xp: Any, a: Any, w: Any, axis: int) -> Any:
    clear, first, product = (conj(xp, v) for v in _zero_split(xp, a, axis))
    safe = conj(xp, xp.where(clear, a, 1))
    share = _reversed_sum(xp, xp.where(clear, w * product, 0), axis) / safe
    return xp.where(clear, share, xp.where(first, _reversed_sum(xp, xp.where(clear, 0, w * product), axis), 0))


def _cumprod_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, dtype: Any) -> tuple[Any]:
    a, axis = _along(xp, x[0], axis)
    return (_cumprod_cotangent(xp, a, w, axis).reshape(x[0].shape),)


@structured("numpy.cumprod", "a", _cumprod_vjp, axis=None, dtype=None, out=None)
def cumprod(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, dtype: Any) -> Any:
    """Before the first zero y times the running sum of da/a; from it on only the zero's own lane counts."""
    t, _ = _lanes_along(xp, dx[0], x[0], axis)
    a, axis = _along(xp, x[0], axis)
    return _cumprod_lanes(xp, a, t, axis)


def _cumulative_prod_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, dtype: Any, include_initial: Any
) -> tuple[Any]:
    a, axis = _along(xp, x[0], axis)
    return (_cumprod_cotangent(xp, a, _after_first(include_initial, w, axis), axis),)


@structured("numpy.cumulative_prod", "x", _cumulative_prod_vjp, axis=None, dtype=None, out=None, include_initial=False)
def cumulative_prod(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, dtype: Any, include_initial: Any) -> Any:
    """cumprod, after a one (whose tangent is zero) if asked for."""
    a, axis = _along(xp, x[0], axis)
    return _with_zero(include_initial, _cumprod_lanes(xp, a, dx[0], axis), axis + 1, xp)


def _nancumprod_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, dtype: Any) -> tuple[Any]:
    a = xp.where(xp.isnan(x[0]), 1, x[0])
    return (_nan_free(xp, x[0], _cumprod_vjp(xp, w, y, (a,), axis, dtype)[0]),)


@structured("numpy.nancumprod", "a", _nancumprod_vjp, axis=None, dtype=None, out=None)
def nancumprod(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, dtype: Any) -> Any:
    """Cumprod with NaN elements taken as the constant one."""
    a = xp.where(xp.isnan(x[0]), 1, x[0])
    return cumprod(xp, y, (a,), (_nan_free(xp, x[0], dx[0]),), axis, dtype)


def _cut(axis: int, start: Any, stop: Any) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(start, stop))


@composition("numpy.diff")
def diff(xp: Any, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours, n times; prepended and appended values may be active."""
    axis = one_axis(axis, xp.ndim(a))

    def ends(value: Any) -> list[Any]:
        if not given(value):
            return []
        shape = xp.shape(a)
        return [xp.broadcast_to(value, (*shape[:axis], 1, *shape[axis + 1 :])) if xp.ndim(value) == 0 else value]

    if n == 0:
        return a
    first, last = ends(prepend), ends(append)
    a = xp.concatenate([*first, a, *last], axis) if first or last else a
    for _ in range(n):
        a = a[_cut(axis, 1, None)] - a[_cut(axis, None, -1)]
    return a


@composition("numpy.ediff1d")
def ediff1d(xp: Any, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, between the given ends."""
    flat = xp.ravel(ary)
    parts = [] if to_begin is None else [xp.ravel(to_begin)]
    parts.append(flat[1:] - flat[:-1])
    parts += [] if to_end is None else [xp.ravel(to_end)]
    return xp.concatenate(parts) if len(parts) > 1 else parts[0]


@composition("numpy.trapezoid numpy.trapz scipy.integrate.trapezoid")
def trapezoid(xp: Any, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The sum of spacing times the mean of neighbours."""
    ndim = xp.ndim(y)
    axis = one_axis(axis, ndim)
    spacing = dx
    if x is not None:
        if xp.ndim(x) == 1:
            spacing = xp.reshape(xp.diff(x), tuple(-1 if i == axis else 1 for i in range(ndim)))
        else:
            spacing = xp.diff(x, axis=axis)
    return xp.sum(spacing * (y[_cut(axis, 1, None)] + y[_cut(axis, None, -1)]) / 2.0, axis)


def _along_axis(xp: Any, f: Any, h: Any, axis: int, edge_order: int) -> Any:
    """numpy.gradient along one axis, for one number h or the coordinates' differences h."""
    lo, mid, hi = f[_cut(axis, None, -2)], f[_cut(axis, 1, -1)], f[_cut(axis, 2, None)]

    def at(i: int) -> Any:
        return f[_cut(axis, i, i + 1 or None)]

    if xp.ndim(h) == 0:
        inside = (hi - lo) / (2.0 * h)
        first = last = h
        start, stop = ((-1.5 / h, 2.0 / h, -0.5 / h), (0.5 / h, -2.0 / h, 1.5 / h))
    else:
        shape = tuple(-1 if i == axis else 1 for i in range(xp.ndim(f)))
        h1, h2 = h[:-1], h[1:]
        a, b, c = -h2 / (h1 * (h1 + h2)), (h2 - h1) / (h1 * h2), h1 / (h2 * (h1 + h2))
        inside = xp.reshape(a, shape) * lo + xp.reshape(b, shape) * mid + xp.reshape(c, shape) * hi
        first, last = h[0], h[-1]
        if edge_order == 2:
            p, q, r, s = h[0], h[1], h[-2], h[-1]
            start = (-(2.0 * p + q) / (p * (p + q)), (p + q) / (p * q), -p / (q * (p + q)))
            stop = (s / (r * (r + s)), -(s + r) / (r * s), (2.0 * s + r) / (s * (r + s)))
    if edge_order == 1:
        ends = (at(1) - at(0)) / first, (at(-1) - at(-2)) / last
    else:
        ends = (
            start[0] * at(0) + start[1] * at(1) + start[2] * at(2),
            stop[0] * at(-3) + stop[1] * at(-2) + stop[2] * at(-1),
        )
    return ordered_as(xp, xp.concatenate((ends[0], inside, ends[1]), axis), f)


@composition("numpy.gradient")
def gradient(xp: Any, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside and one-sided ones at the ends; spacings and coordinates may be active."""
    ndim = xp.ndim(f)
    if axis is None:
        axes = tuple(range(ndim))
    else:
        axes = tuple(one_axis(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))
    spacing = list(varargs) if len(varargs) > 1 else [varargs[0] if varargs else 1.0] * len(axes)
    steps = [xp.diff(h) if xp.ndim(h) == 1 else h for h in spacing]
    out = tuple(_along_axis(xp, f, h, a, edge_order) for h, a in zip(steps, axes, strict=True))
    return out[0] if len(axes) == 1 else out


def _bincount_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], bins: Any, minlength: Any) -> tuple[Any]:
    return (w[xp.asarray(bins)],)


@structured("numpy.bincount", "(bins) weights?", _bincount_vjp, minlength=0)
def bincount(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], bins: Any, minlength: Any) -> Any:
    """The sums of the lanes of the weights in each bin."""
    n, size = dx[0].shape[0], y.shape[0]
    index = xp.asarray(bins) + size * xp.arange(n)[:, None]
    return xp.bincount(index.reshape(-1), dx[0].reshape(-1), n * size).reshape(n, size)


@composition("numpy.unwrap")
def unwrap(xp: Any, p: Any, discont: Any = None, axis: int = -1, *, period: Any = 6.283185307179586) -> Any:
    """The corrections are whole periods, which move with an active period only."""
    axis = one_axis(axis, xp.ndim(p))
    step = xp.diff(p, axis=axis)
    high = period / 2
    moved = xp.mod(step + high, period) - high
    moved = xp.where((moved == -high) & (step > 0), high, moved)
    correction = xp.where(abs(step) < (high if discont is None else discont), 0.0, moved - step)
    joined = xp.concatenate((p[_cut(axis, 0, 1)], p[_cut(axis, 1, None)] + xp.cumsum(correction, axis)), axis)
    return ordered_as(xp, joined, p)
