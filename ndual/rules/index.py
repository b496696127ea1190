"""Rules that take elements by index and write them: take, compress, choose, select, put and their like."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, linear, passive, structured
from ndual.rules.support import index_map, lane_count, one_axis, scatter_add, scattered, spread, unbroadcast

passive(
    "numpy.flatnonzero numpy.nonzero numpy.argwhere numpy.searchsorted numpy.digitize numpy.argsort numpy.argpartition "
    "numpy.lexsort numpy.isin numpy.unravel_index numpy.ravel_multi_index numpy.packbits"
)


@linear("numpy.take", scattered("take"))
def take(xp: Any, t: Any, a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """The same indices from every lane; the transpose adds repeats up."""
    if axis is None:
        return xp.take(t.reshape(t.shape[0], a.size), indices, 1, mode=mode)
    return xp.take(t, indices, one_axis(axis, a.ndim) + 1, mode=mode)


@linear("numpy.take_along_axis", scattered("take_along_axis"))
def take_along_axis(xp: Any, t: Any, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """The same indices from every lane."""
    if axis is None:
        return xp.take(t.reshape(t.shape[0], arr.size), indices, 1)
    return xp.take_along_axis(t, indices[None], one_axis(axis, arr.ndim) + 1)


def _compress_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], condition: Any, axis: Any) -> tuple[Any]:
    index = xp.compress(condition, xp.arange(x[0].size).reshape(x[0].shape), axis)
    return (scatter_add(xp, index, w, x[0].shape),)


@structured("numpy.compress", "(condition) a", _compress_vjp, axis=None, out=None)
def compress(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], condition: Any, axis: Any) -> Any:
    """The same elements of every lane."""
    (a,), (t,) = x, dx
    if axis is None:
        return xp.compress(condition, t.reshape(t.shape[0], a.size), 1)
    return xp.compress(condition, t, one_axis(axis, a.ndim) + 1)


def _extract_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], condition: Any) -> tuple[Any]:
    index = xp.extract(condition, xp.arange(x[0].size).reshape(x[0].shape))
    return (scatter_add(xp, index, w, x[0].shape),)


@structured("numpy.extract", "(condition) arr", _extract_vjp)
def extract(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], condition: Any) -> Any:
    """The same elements of every lane."""
    return xp.compress(xp.ravel(condition), dx[0].reshape(dx[0].shape[0], x[0].size), 1)


def _choose_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], a: Any, mode: str) -> tuple[Any, ...]:
    which = _which(xp, a, len(x), mode)
    return tuple(unbroadcast(xp.where(which == i, w, 0), c.shape) for i, c in enumerate(x))


def _which(xp: Any, a: Any, count: int, mode: str) -> Any:
    a = xp.asarray(a)
    return xp.mod(a, count) if mode == "wrap" else xp.clip(a, 0, count - 1)


@structured("numpy.choose", "(a) *choices", _choose_vjp, out=None, mode="raise")
def choose(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], a: Any, mode: str) -> Any:
    """Each element's lane from the array that the index names."""
    which = _which(xp, a, len(x), mode)
    out = xp.zeros((lane_count(dx), *y.shape), y.dtype)
    for i, t in enumerate(dx):
        if t is not None:
            out = xp.where(which == i, spread(t, y.ndim), out)
    return out


def _winner(xp: Any, condlist: Any, shape: tuple[int, ...]) -> Any:
    """The number of the first condition that holds, one past the last if none does."""
    which = xp.full(shape, len(condlist))
    for i in range(len(condlist) - 1, -1, -1):
        which = xp.where(condlist[i], i, which)
    return which


def _select_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], condlist: Any) -> tuple[Any, ...]:
    which = _winner(xp, condlist, y.shape)
    return tuple(None if c is None else unbroadcast(xp.where(which == i, w, 0), c.shape) for i, c in enumerate(x))


@structured("numpy.select", "(condlist) *choicelist default?", _select_vjp)
def select(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], condlist: Any) -> Any:
    """Each element's lane from the first choice whose condition holds, or from the default."""
    which = _winner(xp, condlist, y.shape)
    out = xp.zeros((lane_count(dx), *y.shape), y.dtype)
    for i, t in enumerate(dx):
        if t is not None:
            out = xp.where(which == i, spread(t, y.ndim), out)
    return out


_UNIQUE: dict[str, Any] = {
    "return_index": False,
    "return_inverse": False,
    "return_counts": False,
    "axis": None,
    "equal_nan": True,
}


def _first_of(xp: Any, y: Any, a: Any, axis: Any, equal_nan: Any, in_order: bool) -> Any:
    """Where each of the unique elements comes first; NumPy may return them in any order if none is asked for."""
    index = xp.unique(a, return_index=True, axis=axis, equal_nan=equal_nan)[1]
    if in_order or axis is not None:
        return index
    values = y[0] if isinstance(y, tuple) else y
    return index[xp.argsort(xp.argsort(values, kind="stable"), kind="stable")]


def _unique_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any, equal_nan: Any, **rest: Any) -> tuple[Any]:
    w = w[0] if isinstance(y, tuple) else w
    index = _first_of(xp, y, x[0], axis, equal_nan, rest["sorted"])
    if axis is not None:
        index = index_map(xp, "take", x[0], index, axis)
    return (scatter_add(xp, index, w, x[0].shape),)


@structured("numpy.unique", "ar", _unique_vjp, **_UNIQUE, sorted=True)
def unique(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any, equal_nan: Any, **rest: Any) -> Any:
    """Where values repeat, the first one's lane."""
    (a,), (t,) = x, dx
    index = _first_of(xp, y, a, axis, equal_nan, rest["sorted"])
    if axis is None:
        out = xp.take(t.reshape(t.shape[0], a.size), index, 1)
    else:
        out = xp.take(t, index, one_axis(axis, a.ndim) + 1)
    return (out, *(None for _ in y[1:])) if isinstance(y, tuple) else out


def joined(xp: Any, v: Any) -> Any:
    """A list of numbers or duals as one array."""
    return xp.stack(v) if isinstance(v, list | tuple) and v else v


def _flat_values(xp: Any, v: Any, count: int) -> Any:
    """The first `count` of the endlessly repeated values."""
    v = joined(xp, v)
    if xp.ndim(v) == 0:
        return v
    flat = xp.ravel(v)
    return flat if xp.size(flat) == count else xp.take(flat, xp.arange(count) % xp.size(flat))


@composition("numpy.put")
def put(xp: Any, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """An assignment by index."""
    ind = xp.ravel(ind)
    size = xp.size(a)
    if mode == "wrap":
        ind = ind % size
    elif mode == "clip":
        ind = xp.clip(ind, 0, size - 1)
    else:
        if ind.size and not bool(xp.all((ind >= -size) & (ind < size))):
            raise IndexError(f"numpy.put: expected indices of an array of size {size}; got {ind}")
        ind = xp.where(ind < 0, ind + size, ind)
    a[xp.unravel_index(ind, xp.shape(a))] = _flat_values(xp, v, ind.size)


@composition("numpy.put_along_axis")
def put_along_axis(xp: Any, arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """An assignment by the index arrays that take_along_axis reads by."""
    if axis is None:
        arr[xp.unravel_index(indices, xp.shape(arr))] = values
        return
    axis = one_axis(axis, xp.ndim(arr))
    shape = xp.shape(arr)
    index = tuple(
        indices if i == axis else xp.arange(n).reshape((1,) * i + (n,) + (1,) * (len(shape) - i - 1))
        for i, n in enumerate(shape)
    )
    arr[index] = values


@composition("numpy.place")
def place(xp: Any, arr: Any, mask: Any, vals: Any) -> None:
    """An assignment under a mask, values in order and repeated as needed."""
    mask = xp.broadcast_to(xp.asarray(mask, bool), xp.shape(arr))
    arr[mask] = _flat_values(xp, vals, int(mask.sum()))


@composition("numpy.putmask")
def putmask(xp: Any, a: Any, mask: Any, values: Any) -> None:
    """An assignment under a mask, each cell taking the value at its own flat position."""
    mask = xp.broadcast_to(xp.asarray(mask, bool), xp.shape(a))
    values = joined(xp, values)
    if xp.ndim(values) == 0:
        a[mask] = values
    else:
        a[mask] = xp.take(xp.ravel(values), xp.flatnonzero(mask) % xp.size(values))


@composition("numpy.copyto")
def copyto(xp: Any, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """An assignment, under a mask if there is one."""
    if where is True:
        dst[...] = src
        return
    mask = xp.broadcast_to(xp.asarray(where, bool), xp.shape(dst))
    if xp.ndim(src) > xp.ndim(dst):  # NumPy drops leading axes of one
        src = xp.reshape(src, xp.shape(src)[xp.ndim(src) - xp.ndim(dst) :])
    dst[mask] = src if xp.ndim(src) == 0 else xp.broadcast_to(src, xp.shape(dst))[mask]


@composition("numpy.fill_diagonal")
def fill_diagonal(xp: Any, a: Any, val: Any, wrap: bool = False) -> None:
    """An assignment to the main diagonal."""
    shape = xp.shape(a)
    if len(shape) == 2:
        step, end = shape[1] + 1, None if wrap else shape[1] * shape[1]
    else:
        step, end = 1 + sum(shape[0] ** i for i in range(1, len(shape))), None
    at = xp.arange(xp.size(a))[:end:step]
    a[xp.unravel_index(at, shape)] = _flat_values(xp, val, at.size)


@composition("numpy.piecewise")
def piecewise(xp: Any, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Each function of the elements whose condition holds, written where they came from."""
    shape = xp.shape(x)
    if xp.ndim(condlist) == len(shape):
        condlist = [condlist]
    conditions = [xp.broadcast_to(xp.asarray(c, bool), shape) for c in condlist]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~xp.any(xp.stack(conditions), axis=0))
    if not shape:
        chosen = [f for c, f in zip(conditions, funclist, strict=True) if c]
        piece = chosen[-1] if chosen else 0.0
        return piece(x, *args, **kw) if callable(piece) else piece + 0 * x
    y = xp.zeros_like(x)
    for c, f in zip(conditions, funclist, strict=True):
        y[c] = f(x[c], *args, **kw) if callable(f) else f
    return y
