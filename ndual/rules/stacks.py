"""Rules for functions that SciPy maps over stacks of matrices: their formulas are of one matrix, and mapped likewise.

The value is that of SciPy's one call. Operands of one matrix are broadcast against stacks, as SciPy does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import unbroadcast

Shape = tuple[int, ...]
Arrays = tuple[Any, ...]


def _ranks(cores: list[str], x: Arrays) -> list[int | None]:
    """How many axes of each operand belong to one matrix or vector; None of what is no operand."""
    found: list[int | None] = []
    for core, a in zip(cores, x, strict=True):
        if core == "-" or a is None:
            found.append(None)
        else:
            found.append(min(a.ndim, 2) if core == "v" else int(core))
    return found


def _lead(a: Any, rank: int | None) -> Shape:
    shape: Shape = () if rank is None else a.shape[: a.ndim - rank]
    return shape


def _stack_shape(x: Arrays, ranks: list[int | None]) -> Shape:
    """The shape of the stack, () where there is none."""
    leads = [_lead(a, rank) for a, rank in zip(x, ranks, strict=True)]
    longest = max(map(len, leads))
    padded = [(1,) * (longest - len(lead)) + lead for lead in leads]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


def _wide(xp: Any, a: Any, rank: int | None, shape: Shape, lanes: Shape = ()) -> Any:
    if rank is None or a is None:
        return a
    core = a.shape[a.ndim - rank :]
    missing = len(lanes) + len(shape) + rank - a.ndim
    a = a.reshape(*lanes, *(1,) * missing, *a.shape[len(lanes) :])
    return xp.broadcast_to(a, (*lanes, *shape, *core))


def _at(v: Any, index: Any) -> Any:
    """The part of a result, or of each of several, that belongs to one matrix."""
    if isinstance(v, tuple | list):
        return tuple(None if part is None else part[index] for part in v)
    return v[index]


def _indices(shape: Shape) -> Iterator[Shape]:
    return itertools.product(*map(range, shape))


def _together(xp: Any, parts: list[Any], shape: Shape, lanes: Shape = ()) -> Any:
    """What was found for each matrix, as a stack."""
    if any(part is None for part in parts):
        return None
    core = parts[0].shape[len(lanes) :]
    return xp.stack(parts, len(lanes)).reshape(*lanes, *shape, *core)


def _tangents(cores: list[str], formula: Callable[..., Any], native: Callable[..., bool]) -> Callable[..., Any]:
    def jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, **params: Any) -> Any:
        ranks = _ranks(cores, x)
        shape = _stack_shape(x, ranks)
        if not shape or native(x, params):
            return formula(xp, y, x, dx, **params)
        lanes = next(t.shape[:1] for t in dx if t is not None)
        wide = [_wide(xp, a, rank, shape) for a, rank in zip(x, ranks, strict=True)]
        moves = [_wide(xp, t, rank, shape, lanes) for t, rank in zip(dx, ranks, strict=True)]
        found = []
        for index in _indices(shape):
            one = tuple(a if rank is None else a[index] for a, rank in zip(wide, ranks, strict=True))
            move = tuple(None if t is None else t[(slice(None), *index)] for t in moves)
            found.append(formula(xp, _at(y, index), one, move, **params))
        if isinstance(found[0], tuple):
            return tuple(_together(xp, list(parts), shape, lanes) for parts in zip(*found, strict=True))
        return _together(xp, found, shape, lanes)

    jvp.__doc__ = formula.__doc__
    return jvp


def _cotangents(cores: list[str], formula: Callable[..., Any], native: Callable[..., bool]) -> Callable[..., Any]:
    def vjp(xp: Any, w: Any, y: Any, x: Arrays, **params: Any) -> Arrays:
        ranks = _ranks(cores, x)
        shape = _stack_shape(x, ranks)
        if not shape or native(x, params):
            out: Arrays = formula(xp, w, y, x, **params)
            return out
        wide = [_wide(xp, a, rank, shape) for a, rank in zip(x, ranks, strict=True)]
        found = []
        for index in _indices(shape):
            one = tuple(a if rank is None else a[index] for a, rank in zip(wide, ranks, strict=True))
            found.append(formula(xp, _at(w, index), _at(y, index), one, **params))
        stacks = (_together(xp, list(parts), shape) for parts in zip(*found, strict=True))
        return tuple(None if g is None else unbroadcast(g, a.shape) for g, a in zip(stacks, x, strict=True))

    return vjp


def _never(x: Arrays, params: dict[str, Any]) -> bool:
    return False


def over_stacks(
    cores: str, jvp: Callable[..., Any], vjp: Callable[..., Any], native: Callable[..., bool] = _never
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The formulas of one matrix for stacks too (see :func:`stacked`)."""
    ranks = cores.split()
    return _tangents(ranks, jvp, native), _cotangents(ranks, vjp, native)


def stacked(
    serves: str,
    arrays: str,
    cores: str,
    vjp: Callable[..., Any],
    native: Callable[..., bool] = _never,
    binder: Callable[..., Any] | None = None,
    **defaults: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated jvp of one matrix, and its vjp, for stacks too (:func:`registry.structured` has the rest).

    `cores` says of each operand how many axes belong to one matrix: 1, 2, v (one of a vector, two of anything larger)
    or - (no operand). `native` says of operands and parameters whether the formulas take stacks themselves.
    """

    def decorate(jvp: Callable[..., Any]) -> Callable[..., Any]:
        forward, back = over_stacks(cores, jvp, vjp, native)
        structured(serves, arrays, back, binder=binder, **defaults)(forward)
        return jvp

    return decorate
