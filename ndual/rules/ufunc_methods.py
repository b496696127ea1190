"""The methods of binary ufuncs: reduce, accumulate, outer, at, reduceat, as compositions of the ufunc itself.

They are keyed by ufunc and method. Where NumPy has a function of its own for one (sum for add.reduce), that is used;
otherwise the ufunc is applied in NumPy's order, so that values agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndual.rules.registry import composition
from ndual.rules.support import function, one_axis, refuse

_BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "float_power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "hypot",
    "arctan2",
    "logaddexp",
    "logaddexp2",
    "fmod",
    "remainder",
    "copysign",
]
_COMPARISONS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
_FOLDS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_RUNS = {"add": "cumsum", "multiply": "cumprod"}
_ROUNDS = 1000  # repeats of one index up to which at() adds in NumPy's order; beyond, sums differ in the last bits


def _absent(value: Any) -> bool:
    return value is None or type(value).__name__.startswith("_NoValue")


def _slice_of(a: Any, axis: int, index: Any) -> Any:
    return a[(slice(None),) * axis + (index,)]


def _fold(name: str) -> Callable[..., Any]:
    def body(
        xp: Any,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        given = {} if _absent(initial) else {"initial": initial}
        given |= {} if where is True else {"where": where}
        given |= {} if dtype is None else {"dtype": dtype}
        return function(xp, _FOLDS[name])(array, axis, keepdims=bool(keepdims), **given)

    return body


def _fold_by_steps(name: str) -> Callable[..., Any]:
    def body(
        xp: Any,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        if where is not True or isinstance(axis, tuple) or (axis is None and xp.ndim(array) > 1):
            raise refuse(f"numpy.{name}.reduce", "where= or several axes", "Reduce one axis at a time.")
        axis = one_axis(0 if axis is None else axis, xp.ndim(array))
        count = xp.shape(array)[axis]
        steps = [_slice_of(array, axis, k) for k in range(count)]
        steps = steps if _absent(initial) else [initial, *steps]
        out = steps[0]
        for step in steps[1:]:
            out = function(xp, name)(out, step)
        return xp.expand_dims(out, axis) if keepdims else out

    return body


def _run(name: str) -> Callable[..., Any]:
    def body(xp: Any, array: Any, axis: Any = 0, dtype: Any = None) -> Any:
        if name in _RUNS:
            return function(xp, _RUNS[name])(array, axis)
        axis = one_axis(axis, xp.ndim(array))
        steps = [_slice_of(array, axis, 0)]
        for k in range(1, xp.shape(array)[axis]):
            steps.append(function(xp, name)(steps[-1], _slice_of(array, axis, k)))
        return xp.stack(steps, axis)

    return body


def _outer(name: str) -> Callable[..., Any]:
    def body(xp: Any, A: Any, B: Any) -> Any:
        return function(xp, name)(xp.reshape(A, xp.shape(A) + (1,) * xp.ndim(B)), B)

    return body


def _rank_of_repeats(xp: Any, flat: Any) -> Any:
    """How often each position has come before, in order."""
    order = xp.argsort(flat, kind="stable")
    ordered = flat[order]
    rank = xp.empty(flat.size, int)
    rank[order] = xp.arange(flat.size) - xp.searchsorted(ordered, ordered)
    return rank


def _at(name: str) -> Callable[..., Any]:
    def body(xp: Any, a: Any, indices: Any, b: Any) -> None:
        shape = xp.shape(a)
        chosen = xp.arange(xp.size(a)).reshape(shape)[indices]
        flat = chosen.reshape(-1)
        if flat.size == 0:
            return
        values = xp.ravel(xp.broadcast_to(b, chosen.shape))
        rank = _rank_of_repeats(xp, flat)
        if name == "add" and rank.max() >= _ROUNDS:
            a += xp.reshape(xp.bincount(flat, values, xp.size(a)), shape)
            return
        rounds = [xp.flatnonzero(rank == k) for k in range(int(rank.max()) + 1)]
        pieces = [values[now] for now in rounds]  # copies: the values may be cells of a
        for now, piece in zip(rounds, pieces, strict=True):
            place = xp.unravel_index(flat[now], shape)
            a[place] = function(xp, name)(a[place], piece)

    return body


def _reduceat(name: str) -> Callable[..., Any]:
    def body(xp: Any, array: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
        axis = one_axis(axis, xp.ndim(array))
        starts = [int(i) for i in indices]
        stops = [*starts[1:], xp.shape(array)[axis]]
        fold = _fold(name) if name in _FOLDS else _fold_by_steps(name)
        parts = []
        for start, stop in zip(starts, stops, strict=True):
            piece = _slice_of(array, axis, slice(start, stop if start < stop else start + 1))
            parts.append(fold(xp, piece, axis))
        return xp.stack(parts, axis)

    return body


for _name in _BINARY:
    for _method, _body in (
        ("reduce", _fold(_name) if _name in _FOLDS else _fold_by_steps(_name)),
        ("accumulate", _run(_name)),
        ("outer", _outer(_name)),
        ("at", _at(_name)),
        ("reduceat", _reduceat(_name)),
    ):
        _body.__doc__ = f"numpy.{_name}.{_method}, by numpy.{_name} and what is built on it."
        composition(f"numpy.{_name}.{_method}")(_body)
for _name in _COMPARISONS:
    _body = _outer(_name)
    _body.__doc__ = f"numpy.{_name}.outer, without derivative."
    composition(f"numpy.{_name}.outer")(_body)
