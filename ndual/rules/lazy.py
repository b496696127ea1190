"""What SciPy's own Python code calls to evaluate formulas only where their conditions hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndual.rules.registry import composition
from ndual.rules.support import array_of


def _parts(xp: Any, cond: Any, flat: list[Any], function: Callable[..., Any]) -> tuple[Any, Any]:
    """Where the condition holds, and the function of the elements there."""
    at = xp.flatnonzero(cond)
    found = array_of(xp, function(*(a[at] for a in flat)))
    return at, found if xp.ndim(found) else xp.broadcast_to(found, at.shape)


def _joined(xp: Any, places: Sequence[Any], pieces: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Pieces put together so that each lands where it was taken from."""
    order = xp.argsort(xp.concatenate(places))
    return xp.reshape(xp.concatenate(pieces)[order], shape)


@composition("scipy._lib._util._lazyselect")
def lazyselect(
    xp: Any, condlist: Sequence[Any], choicelist: Sequence[Callable[..., Any]], arrays: Sequence[Any], default: Any = 0
) -> Any:
    """The function of the last condition that holds, or a number where none does."""
    shape = xp.broadcast_shapes(*(xp.shape(a) for a in arrays))
    flat = [xp.ravel(xp.broadcast_to(a, shape)) for a in arrays]
    which = xp.zeros(shape, int).reshape(-1)
    for k, cond in enumerate(condlist):
        which[xp.broadcast_to(cond, shape).reshape(-1)] = k + 1
    found = [_parts(xp, which == k + 1, flat, f) for k, f in enumerate(choicelist)]
    rest = xp.flatnonzero(which == 0)
    places = [rest, *(at for at, _ in found)]
    return _joined(xp, places, [xp.full(rest.shape, default, float), *(piece for _, piece in found)], shape)
