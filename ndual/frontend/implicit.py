"""Solutions of equations as duals: a routine found the value, and the equation says how it moves.

With F(x) = 0 at the value and S an inverse of F's slope there, x - S F(x) moves as the solution does, to one order more
than x: as many passes as there are levels, of which each costs a residual and one solve with constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual._core.nested import Formula
from ndual.rules.registry import Linear

Arrays = tuple[Any, ...]

_SAME = Linear("the value of a routine", (), lambda xp, t, x: t, lambda xp, w, x: w)


def valued(dual: Any, value: Any) -> Any:
    """A dual array with the value that was really computed, at every level."""
    if not _core.is_dual(dual):
        return value.copy()
    return forward.apply(_SAME, Formula(lambda x: valued(x, value)), (dual,), {})


def still(dual: Any) -> Any:
    """The same with zeros for its value: what a linear map makes of its derivatives alone."""
    return valued(dual, np.zeros_like(_core.bottom(dual)))


def settled(values: Arrays, improve: Callable[..., Arrays]) -> Arrays:
    """The values with their derivatives, by ``improve``, which takes x to x - S F(x)."""
    found, level = values, _core.current_level()
    while level is not None:
        better = improve(*found)
        if not any(map(_core.is_dual, better)):
            return values
        found = tuple(valued(new, value) for new, value in zip(better, values, strict=True))
        level = level.outer
    return found
