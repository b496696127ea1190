"""Rules that join arrays and cut them: concatenate, stack, block, insert, pad, split and their like.

The joining primitives take a sequence of arrays, any of which may be constant; the rest are compositions of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndual.rules.registry import composition, linear, structured
from ndual.rules.support import (
    lane_count,
    one_axis,
    scattered,
    zeros_lanes,
)


def _concatenate_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: Any, dtype: Any, casting: str
) -> tuple[Any, ...]:
    out, start, axis = [], 0, None if axis is None else one_axis(axis, w.ndim)
    for a in x:
        stop = start + (a.size if axis is None else a.shape[axis])
        piece = w[start:stop] if axis is None else w[(slice(None),) * axis + (slice(start, stop),)]
        out.append(piece.reshape(a.shape))
        start = stop
    return tuple(out)


@structured(
    "numpy.concatenate numpy.concat", "*arrays", _concatenate_vjp, axis=0, out=None, dtype=None, casting="same_kind"
)
def concatenate(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: Any, dtype: Any, casting: str) -> Any:
    """Joins the lanes below the lane axis, zeros for constants; the transpose cuts the cotangent."""
    n = lane_count(dx)
    lanes = [zeros_lanes(xp, n, a, y.dtype) if t is None else t for a, t in zip(x, dx, strict=True)]
    if axis is None:
        return xp.concatenate([t.reshape(n, -1) for t in lanes], 1)
    return xp.concatenate(lanes, one_axis(axis, y.ndim) + 1)


def _stack_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: int, dtype: Any, casting: str) -> tuple[Any, ...]:
    return tuple(xp.moveaxis(w, axis, 0))


@structured("numpy.stack", "*arrays", _stack_vjp, axis=0, out=None, dtype=None, casting="same_kind")
def stack(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: int, dtype: Any, casting: str) -> Any:
    """Stacks the lanes below the lane axis, zeros for constants; the transpose takes the slices."""
    n = lane_count(dx)
    lanes = [zeros_lanes(xp, n, a, y.dtype) if t is None else t for a, t in zip(x, dx, strict=True)]
    return xp.stack(lanes, one_axis(axis, y.ndim) + 1)


def _raised(xp: Any, a: Any, ndim: int) -> Any:
    shape = xp.shape(a)
    return xp.reshape(a, (1,) * (ndim - len(shape)) + shape) if len(shape) < ndim else a


def _each(xp: Any, arrays: tuple[Any, ...], lift: Callable[[Any, Any], Any]) -> Any:
    out = tuple(lift(xp, a) for a in arrays)
    return out[0] if len(out) == 1 else out


def _array(xp: Any, a: Any) -> Any:
    return a if hasattr(a, "shape") else xp.asarray(a)


def _one(xp: Any, a: Any) -> Any:
    return _raised(xp, a, 1) if xp.ndim(a) < 1 else _array(xp, a)


def _two(xp: Any, a: Any) -> Any:
    return _raised(xp, a, 2) if xp.ndim(a) < 2 else _array(xp, a)


def _three(xp: Any, a: Any) -> Any:
    if xp.ndim(a) == 2:
        return xp.reshape(a, (*xp.shape(a), 1))
    return xp.reshape(a, (1, -1, 1)) if xp.ndim(a) < 2 else _array(xp, a)


@composition("numpy.atleast_1d")
def atleast_1d(xp: Any, *arys: Any) -> Any:
    """A reshape of each."""
    return _each(xp, arys, _one)


@composition("numpy.atleast_2d")
def atleast_2d(xp: Any, *arys: Any) -> Any:
    """A reshape of each."""
    return _each(xp, arys, _two)


@composition("numpy.atleast_3d")
def atleast_3d(xp: Any, *arys: Any) -> Any:
    """A reshape of each."""
    return _each(xp, arys, _three)


@composition("numpy.hstack")
def hstack(xp: Any, tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Concatenates along axis 1, vectors along axis 0."""
    parts = [_one(xp, a) for a in tup]
    return xp.concatenate(parts, 0 if parts and xp.ndim(parts[0]) == 1 else 1, dtype=dtype, casting=casting)


@composition("numpy.vstack numpy.row_stack")
def vstack(xp: Any, tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Concatenates along axis 0 after raising to two axes."""
    return xp.concatenate([_two(xp, a) for a in tup], 0, dtype=dtype, casting=casting)


@composition("numpy.dstack")
def dstack(xp: Any, tup: Any) -> Any:
    """Concatenates along axis 2 after raising to three axes."""
    return xp.concatenate([_three(xp, a) for a in tup], 2)


@composition("numpy.column_stack")
def column_stack(xp: Any, tup: Any) -> Any:
    """Concatenates along axis 1, vectors as columns."""
    return xp.concatenate([xp.reshape(a, (-1, 1)) if xp.ndim(a) < 2 else a for a in tup], 1)


@composition("numpy.block")
def block(xp: Any, arrays: Any) -> Any:
    """Concatenates the innermost lists along the last axis, the next along the one before, and so on."""

    def depth(a: Any) -> int:
        return 1 + max(map(depth, a)) if isinstance(a, list) else 0

    def leaf_ndim(a: Any) -> int:
        return max(map(leaf_ndim, a)) if isinstance(a, list) else xp.ndim(a)

    levels = depth(arrays)
    ndim = max(levels, leaf_ndim(arrays))

    def join(a: Any, level: int) -> Any:
        if not isinstance(a, list):
            return _raised(xp, a, ndim)
        return xp.concatenate([join(part, level + 1) for part in a], level - levels)

    return join(arrays, 0) if levels else xp.copy(arrays)


@composition("numpy.append")
def append(xp: Any, arr: Any, values: Any, axis: Any = None) -> Any:
    """Concatenates, flattened without an axis."""
    return xp.concatenate(
        (xp.ravel(arr), xp.ravel(values)) if axis is None else (arr, values), 0 if axis is None else axis
    )


@composition("numpy.insert")
def insert(xp: Any, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Takes from the array joined with the values, where NumPy's own call on positions says."""
    arr = xp.ravel(arr) if axis is None else arr
    axis = one_axis(0 if axis is None else axis, xp.ndim(arr))
    shape = xp.shape(arr)
    single = isinstance(obj, slice) is False and xp.ndim(obj) == 0
    values = _raised(xp, values, len(shape))
    if single:
        values = xp.moveaxis(values, 0, axis)
        count = xp.shape(values)[axis]
    else:
        count = len(xp.arange(shape[axis])[obj])
    positions = xp.insert(xp.arange(shape[axis]), obj, -1 - xp.arange(count))
    values = xp.broadcast_to(values, (*shape[:axis], count, *shape[axis + 1 :]))
    index = xp.where(positions < 0, shape[axis] - 1 - positions, positions)
    values = xp.astype(values, arr.dtype) if values.dtype != arr.dtype else values
    joined = xp.take(xp.concatenate((arr, values), axis), index, axis)
    return xp.copy(joined, order="F") if len(shape) > 1 and arr.flags.fnc else joined


@linear("numpy.delete", scattered("delete"))
def delete(xp: Any, t: Any, arr: Any, obj: Any, axis: Any = None) -> Any:
    """Keeps the other elements; the transpose puts zeros where some were dropped."""
    if axis is None:
        return xp.delete(t.reshape(t.shape[0], -1), obj, 1)
    return xp.delete(t, obj, one_axis(axis, arr.ndim) + 1)


def _cut(name: str, axis_of: Callable[..., int]) -> None:
    """Register a splitting function: lanes are cut at the same places, the transpose joins, zeros for the unused."""

    def transpose(xp: Any, w: Any, x: Any, sections: Any, axis: int = 0) -> Any:
        parts = xp.array_split(x, sections, axis_of(x, axis))
        filled = [p for p in w if p is not None]
        return xp.concatenate(
            [xp.zeros(a.shape, filled[0].dtype) if p is None else p for a, p in zip(parts, w, strict=True)],
            axis_of(x, axis),
        )

    @linear(name, transpose)
    def lanes(xp: Any, t: Any, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        return xp.array_split(t, indices_or_sections, one_axis(axis_of(ary, axis), ary.ndim) + 1)

    lanes.__doc__ = f"{name}: views of the lanes, cut below the lane axis; the transpose joins."


_cut("numpy.split", lambda x, axis: axis)
_cut("numpy.array_split", lambda x, axis: axis)
_cut("numpy.vsplit", lambda x, axis: 0)
_cut("numpy.hsplit", lambda x, axis: 0 if x.ndim == 1 else 1)
_cut("numpy.dsplit", lambda x, axis: 2)


def _unstack_t(xp: Any, w: Any, x: Any, *, axis: int = 0) -> Any:
    filled = [p for p in w if p is not None]
    return xp.stack([xp.zeros_like(filled[0]) if p is None else p for p in w], axis)


@linear("numpy.unstack", _unstack_t)
def unstack(xp: Any, t: Any, x: Any, *, axis: int = 0) -> Any:
    """Views along an axis; the transpose stacks."""
    return tuple(xp.moveaxis(t, one_axis(axis, x.ndim) + 1, 0))


@composition("numpy.meshgrid")
def meshgrid(xp: Any, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Each vector along its own axis, broadcast unless sparse."""
    ndim = len(xi)
    sizes = [xp.size(x) for x in xi]
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[0], order[1] = 1, 0
    out = []
    for x, axis, n in zip(xi, order, sizes, strict=True):
        out.append(xp.reshape(x, tuple(n if i == axis else 1 for i in range(ndim))))
    if not sparse:
        shape = [0] * ndim
        for axis, n in zip(order, sizes, strict=True):
            shape[axis] = n
        out = [xp.broadcast_to(x, tuple(shape)) for x in out]
    return tuple(xp.copy(x) for x in out) if copy else tuple(out)
