"""Rules for sets of numbers, for windows over an array, for grids with active ends, and for functions along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndual.rules.registry import composition, linear, structured
from ndual.rules.support import array_of, axis_tuple, one_axis, scattered, spread, strong_multiply, unbroadcast

Arrays = tuple[Any, ...]


@composition("numpy.union1d")
def union1d(xp: Any, ar1: Any, ar2: Any) -> Any:
    """The unique elements of both."""
    return xp.unique(xp.concatenate((array_of(xp, ar1), array_of(xp, ar2)), axis=None))


def _set(xp: Any, a: Any, is_set: bool) -> Any:
    a = array_of(xp, a)
    return xp.ravel(a) if is_set else xp.unique(a)


@composition("numpy.setdiff1d")
def setdiff1d(xp: Any, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Those of the first that are not in the second."""
    a = _set(xp, ar1, assume_unique)
    return a[~xp.isin(a, array_of(xp, ar2))]


@composition("numpy.setxor1d")
def setxor1d(xp: Any, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Those that are in one of both."""
    a, b = _set(xp, ar1, assume_unique), _set(xp, ar2, assume_unique)
    return xp.sort(xp.concatenate((a[~xp.isin(a, b)], b[~xp.isin(b, a)])))


@composition("numpy.intersect1d")
def intersect1d(xp: Any, ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Those of the first that are in the second too."""
    a, b = xp.ravel(array_of(xp, ar1)), xp.ravel(array_of(xp, ar2))
    first: Any = None
    second: Any = None
    if not assume_unique:
        a, first = xp.unique(a, return_index=True)
        b, second = xp.unique(b, return_index=True)
    both = xp.concatenate((a, b))
    order = xp.argsort(both, kind="stable")
    both = both[order]
    twice = both[1:] == both[:-1]
    out = both[:-1][twice]
    if not return_indices:
        return out
    at, other = order[:-1][twice], order[1:][twice] - xp.size(a)
    return (out, at, other) if first is None else (out, first[at], second[other])


@composition("numpy.sort_complex")
def sort_complex(xp: Any, a: Any) -> Any:
    """Sorted, as complex numbers."""
    out = xp.sort(array_of(xp, a))
    return out if out.dtype.kind == "c" else out.astype(xp.result_type(out.dtype, xp.complex64))


@composition("numpy.real_if_close")
def real_if_close(xp: Any, a: Any, tol: float = 100) -> Any:
    """The real part, if the imaginary parts are that small."""
    a = array_of(xp, a)
    if a.dtype.kind != "c":
        return a
    limit = tol * xp.finfo(a.dtype).eps if tol > 1 else tol
    return a.real if bool(xp.all(abs(a.imag) < limit)) else a


def _trimmed(xp: Any, x: Any, trim: str, axis: Any) -> tuple[slice, ...]:
    axes = axis_tuple(axis, x.ndim)
    found = xp.argwhere(x)
    out = []
    for i in range(x.ndim):
        if i not in axes:
            out.append(slice(None))
        elif len(found) == 0:
            out.append(slice(0, 0))
        else:
            low, high = int(found[:, i].min()), int(found[:, i].max()) + 1
            out.append(slice(low if "f" in trim.lower() else None, high if "b" in trim.lower() else None))
    return tuple(out)


def _trim_zeros_t(xp: Any, w: Any, x: Any, trim: str = "fb", axis: Any = None) -> Any:
    out = xp.zeros_like(x)
    out[_trimmed(xp, x, trim, axis)] = w
    return out


@linear("numpy.trim_zeros", _trim_zeros_t)
def trim_zeros(xp: Any, t: Any, filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """The same window of the lanes."""
    return t[(slice(None), *_trimmed(xp, filt, trim, axis))]


@linear("numpy.lib.stride_tricks.sliding_window_view", scattered("lib.stride_tricks.sliding_window_view"))
def sliding_window_view(
    xp: Any, t: Any, x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """The same windows over the lanes, a view too."""
    along = tuple(a + 1 for a in axis_tuple(axis, x.ndim))
    window = tuple(window_shape) if hasattr(window_shape, "__iter__") else (window_shape,)
    return xp.lib.stride_tricks.sliding_window_view(t, window, along, writeable=writeable)


def _grid(xp: Any, num: Any, endpoint: Any, ndim: int) -> Any:
    """How far each point lies between start and stop."""
    steps = int(num) - 1 if endpoint else int(num)
    return (xp.arange(int(num)) / max(steps, 1)).reshape((-1,) + (1,) * ndim)


def _ends_of(xp: Any, x: Arrays) -> tuple[int, ...]:
    return tuple(xp.broadcast_shapes(x[0].shape, x[1].shape))


def _linspace_vjp(
    xp: Any, w: Any, y: Any, x: Arrays, num: Any, endpoint: Any, retstep: Any, dtype: Any, axis: Any, device: Any
) -> Arrays:
    shape = _ends_of(xp, x)
    share = _grid(xp, num, endpoint, len(shape))
    (of_y, of_step) = w if retstep else (w, None)
    low = high = xp.zeros(shape)
    if of_y is not None:
        of_y = xp.moveaxis(of_y, axis, 0)
        low, high = (of_y * (1 - share)).sum(axis=0), (of_y * share).sum(axis=0)
    steps = int(num) - 1 if endpoint else int(num)
    if of_step is not None and steps > 0:
        low, high = low - of_step / steps, high + of_step / steps
    return unbroadcast(low, x[0].shape), unbroadcast(high, x[1].shape)


@structured(
    "numpy.linspace",
    "start stop",
    _linspace_vjp,
    num=50,
    endpoint=True,
    retstep=False,
    dtype=None,
    axis=0,
    device=None,
)
def linspace(
    xp: Any, y: Any, x: Arrays, dx: Arrays, num: Any, endpoint: Any, retstep: Any, dtype: Any, axis: Any, device: Any
) -> Any:
    """The lanes of both ends, mixed as each point lies between them."""
    ndim = len(_ends_of(xp, x))
    share = _grid(xp, num, endpoint, ndim)
    value = y[0] if retstep else y
    steps = int(num) - 1 if endpoint else int(num)
    total: Any = None
    step: Any = None
    for t, part, sign in ((dx[0], 1 - share, -1), (dx[1], share, 1)):
        if t is not None:
            t = spread(t, ndim)
            d = t[:, None] * part
            total = d if total is None else total + d
            step = sign * t if step is None else step + sign * t
    total = xp.moveaxis(total, 1, one_axis(axis, value.ndim) + 1)
    shape = (total.shape[0], *value.shape)
    total = (total if total.shape == shape else xp.broadcast_to(total, shape).copy()).astype(value.dtype)
    if not retstep:
        return total
    step = xp.broadcast_to(step, (step.shape[0], *xp.shape(y[1]))).copy()
    return total, step / steps if steps > 0 else xp.full(step.shape, float("nan"))


@composition("numpy.logspace")
def logspace(
    xp: Any, start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
    axis: int = 0,
) -> Any:  # fmt: skip
    """The powers of a base, which may be active, at evenly spaced exponents."""
    if xp.ndim(base):
        shape = xp.broadcast_shapes(xp.shape(start), xp.shape(stop), xp.shape(base))
        start, stop = xp.broadcast_to(start, shape), xp.broadcast_to(stop, shape)
        base = xp.expand_dims(xp.broadcast_to(base, shape), axis)
    out = xp.power(base, xp.linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else out.astype(dtype)


def _geometric(xp: Any, y: Any, x: Arrays, num: Any, endpoint: Any, axis: Any) -> tuple[Any, Any, Any, int]:
    ndim = len(_ends_of(xp, x))
    return xp.moveaxis(y, axis, 0), _grid(xp, num, endpoint, ndim), [spread(a[None], ndim) for a in x], ndim


def _geomspace_vjp(xp: Any, w: Any, y: Any, x: Arrays, num: Any, endpoint: Any, dtype: Any, axis: Any) -> Arrays:
    y, share, (start, stop), _ = _geometric(xp, y, x, num, endpoint, axis)
    w = xp.moveaxis(w, axis, 0)
    low, high = xp.conj(y * (1 - share) / start), xp.conj(y * share / stop)
    return unbroadcast((w * low).sum(axis=0), x[0].shape), unbroadcast((w * high).sum(axis=0), x[1].shape)


@structured("numpy.geomspace", "start stop", _geomspace_vjp, num=50, endpoint=True, dtype=None, axis=0)
def geomspace(xp: Any, y: Any, x: Arrays, dx: Arrays, num: Any, endpoint: Any, dtype: Any, axis: Any) -> Any:
    """Each point is a product of powers of both ends, and so moves with their relative changes."""
    moved, share, (start, stop), ndim = _geometric(xp, y, x, num, endpoint, axis)
    total: Any = 0
    for t, factor in ((dx[0], moved * (1 - share) / start), (dx[1], moved * share / stop)):
        if t is not None:
            total = total + strong_multiply(xp, factor[None], spread(t, ndim)[:, None])
    return xp.moveaxis(total, 1, one_axis(axis, y.ndim) + 1).astype(y.dtype)


@composition("numpy.apply_along_axis")
def apply_along_axis(xp: Any, func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """The function of each row, joined along the axis."""
    arr = array_of(xp, arr)
    axis = one_axis(axis, xp.ndim(arr))
    rows = xp.moveaxis(arr, axis, -1)
    outer = xp.shape(rows)[:-1]
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    found = [array_of(xp, func1d(rows[index], *args, **kwargs)) for index in xp.ndindex(outer)]
    inner = xp.shape(found[0])
    out = xp.reshape(xp.stack(found), (*outer, *inner))
    behind = tuple(range(axis, len(outer)))
    return xp.moveaxis(out, behind, tuple(i + len(inner) for i in behind)) if behind and inner else out


@composition("numpy.apply_over_axes")
def apply_over_axes(xp: Any, func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """The function over one axis after the other, the number of axes kept."""
    out = array_of(xp, a)
    for axis in (axes,) if xp.ndim(axes) == 0 else axes:
        number = one_axis(axis, xp.ndim(a))
        found = func(out, number)
        out = found if xp.ndim(found) == xp.ndim(out) else xp.expand_dims(found, number)
    return out


@composition("numpy.kaiser")
def kaiser(xp: Any, M: Any, beta: Any) -> Any:
    """Bessel's function over an arch; the shape parameter may be active."""
    if M == 1:
        return xp.ones(1)
    alpha = (M - 1) / 2.0
    arch = xp.sqrt(1 - ((xp.arange(M) - alpha) / alpha) ** 2.0)
    return xp.i0(beta * arch) / xp.i0(array_of(xp, beta))
