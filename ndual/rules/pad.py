"""The rule for numpy.pad, in every mode: one axis after the other, as NumPy fills them.

Modes that only move or mix elements are NumPy's own call on the lanes. Constants, ramp ends and statistics of the
array may be active, and are filled in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import conj, index_map, lane_count, refuse, scatter_add


def _widths(xp: Any, ndim: int, pad_width: Any) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            pairs[axis] = (width, width) if isinstance(width, int) else tuple(width)
        return pairs
    return [(int(a), int(b)) for a, b in xp.broadcast_to(pad_width, (ndim, 2))]


def _ends(t: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
    """The first `before` and the last `after` elements along an axis."""
    lead = (slice(None),) * axis
    n = t.shape[axis]
    return t[(*lead, slice(0, before))], t[(*lead, slice(n - after, n))]


def _filled(
    xp: Any, t: Any, widths: list[tuple[int, int]], fill: Callable[[Any, int, int, int], Any], first: int
) -> Any:
    """`t` between what `fill` gives for each axis (counted from `first`) and side."""
    for k, (before, after) in enumerate(widths):
        axis = k + first
        sides = [fill(t, k, 0, before), t, fill(t, k, 1, after)]
        t = xp.concatenate([side for side in sides if side is not None], axis)
    return t


def _repeated(xp: Any, one: Any, axis: int, count: int) -> Any:
    return xp.broadcast_to(one, (*one.shape[:axis], count, *one.shape[axis + 1 :]))


def _constant(xp: Any, t: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    """Lanes of the constants ``(N, ndim, 2)`` around lanes of the array."""

    def fill(t: Any, k: int, side: int, count: int) -> Any:
        one = values[:, k, side].reshape(t.shape[:1] + (1,) * (t.ndim - 1))
        return xp.broadcast_to(one, (*t.shape[: k + 1], count, *t.shape[k + 2 :]))

    return _filled(xp, t, widths, fill, 1)


def _ramp(xp: Any, t: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    """Lanes of the ramps' ends ``(N, ndim, 2)``, run from the edges of the lanes of the array."""

    def fill(t: Any, k: int, side: int, count: int) -> Any:
        edge = _ends(t, k + 1, 1, 1)[side]
        end = values[:, k, side].reshape(t.shape[:1] + (1,) * (t.ndim - 1))
        steps = xp.arange(1, count + 1) / max(count, 1)
        share = (steps if side else steps[::-1]).reshape((count,) + (1,) * (t.ndim - k - 2))
        return edge * (1 - share) + end * share

    return _filled(xp, t, widths, fill, 1)


def _weights(xp: Any, part: Any, axis: int, mode: str) -> Any:
    """How a statistic of `part` along an axis is mixed from its elements; equal ones share."""
    if mode == "median":
        n = part.shape[axis]
        order = xp.argsort(xp.argsort(part, axis=axis, kind="stable"), axis=axis, kind="stable")
        hit = (order == (n - 1) // 2) | (order == n // 2)
    else:
        extreme = part.max(axis=axis, keepdims=True) if mode == "maximum" else part.min(axis=axis, keepdims=True)
        hit = part == extreme
    return hit / hit.sum(axis=axis, keepdims=True)


def _statistic(xp: Any, a: Any, t: Any, widths: list[tuple[int, int]], mode: str, stat_length: Any) -> Any:
    lengths = None if stat_length is None else xp.broadcast_to(stat_length, (a.ndim, 2))
    for axis, pair in enumerate(widths):
        whole = a.shape[axis]
        count = [whole if lengths is None else min(int(lengths[axis, side]), whole) for side in (0, 1)]
        values, lanes = _ends(a, axis, *count), _ends(t, axis + 1, *count)
        around: list[tuple[Any, Any]] = []
        for side in (0, 1):
            weight = _weights(xp, values[side], axis, mode)
            value = (values[side] * weight).sum(axis=axis, keepdims=True)
            lane = (lanes[side] * weight).sum(axis=axis + 1, keepdims=True)
            around.append((_repeated(xp, value, axis, pair[side]), _repeated(xp, lane, axis + 1, pair[side])))
        a = xp.concatenate((around[0][0], a, around[1][0]), axis)
        t = xp.concatenate((around[0][1], t, around[1][1]), axis + 1)
    return t


_STATISTICS = ("maximum", "minimum", "median")
_MOVES = ("edge", "wrap")


def _pairs(xp: Any, d: Any, ndim: int) -> Any:
    shape = (d.shape[0],) + (1,) * (3 - d.ndim) + d.shape[1:] if d.ndim < 3 else d.shape
    return xp.broadcast_to(d.reshape(shape), (d.shape[0], ndim, 2))


def _pad(
    xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], pad_width: Any, mode: Any, stat_length: Any,
    reflect_type: str,
) -> Any:  # fmt: skip
    (a, _, _), (da, dconstant, dend) = x, dx
    if callable(mode):
        raise refuse("numpy.pad", "a function for its mode", "Pad with zeros and write the margins in a loop.")
    widths = _widths(xp, a.ndim, pad_width)
    n = lane_count(dx)
    t = xp.zeros((n, *a.shape), a.dtype) if da is None else da
    if mode in ("constant", "linear_ramp"):
        given = dconstant if mode == "constant" else dend
        around = xp.zeros((n, a.ndim, 2), t.dtype) if given is None else _pairs(xp, given, a.ndim)
        out = (_constant if mode == "constant" else _ramp)(xp, t, widths, around)
    elif mode in _STATISTICS:
        out = _statistic(xp, a, t, widths, mode, stat_length)
    else:
        options: dict[str, Any] = {"reflect_type": reflect_type} if mode in ("reflect", "symmetric") else {}
        if mode == "mean" and stat_length is not None:
            options = {"stat_length": [(1, 1), *xp.broadcast_to(stat_length, (a.ndim, 2)).tolist()]}
        out = xp.pad(t, [(0, 0), *widths], "constant" if mode == "empty" else mode, **options)
    return out.astype(y.dtype) if out.dtype != y.dtype else out


def _pad_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, ...], pad_width: Any, mode: Any, stat_length: Any, reflect_type: str
) -> tuple[Any, ...]:
    a, constant, _ = x
    widths = _widths(xp, a.ndim, pad_width)
    other = (None, None)
    if mode == "empty" or (mode == "constant" and constant is None):
        return w[tuple(slice(b, b + n) for (b, _), n in zip(widths, a.shape, strict=True))], *other
    if mode in _MOVES or (mode in ("reflect", "symmetric") and reflect_type == "even"):
        return scatter_add(xp, index_map(xp, "pad", a, widths, mode), w, a.shape), *other
    found: list[Any] = []
    for k, operand in enumerate(x):
        if operand is None:
            found.append(None)
            continue
        # From the matrix of the map: these modes are rare, and an exact transpose of each would be long.
        eye = xp.eye(operand.size, dtype=w.dtype).reshape(operand.size, *operand.shape)
        units = tuple(eye if i == k else None for i in range(3))
        rows = _pad(xp, y, x, units, pad_width, mode, stat_length, reflect_type).reshape(operand.size, -1)
        found.append((conj(xp, rows) @ w.reshape(-1)).reshape(operand.shape))
    return tuple(found)


@structured(
    "numpy.pad",
    "array (pad_width) (mode) constant_values= end_values=",
    _pad_vjp,
    mode="constant",
    stat_length=None,
    reflect_type="even",
)
def pad(
    xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], pad_width: Any, mode: Any, stat_length: Any,
    reflect_type: str,
) -> Any:  # fmt: skip
    """The lanes padded below the lane axis, those of constants, ramp ends or statistics around them."""
    return _pad(xp, y, x, dx, pad_width, mode, stat_length, reflect_type)
