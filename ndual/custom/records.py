"""What all engines have in common: records of a run, and outputs taken apart into floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]
Leaves = list[Any]


class Linear:
    """The derivative of a function at a point, of the leaves of arguments and output."""

    def push(self, ts: Leaves) -> Leaves:
        """The tangents of the output."""
        raise NotImplementedError

    def pull(self, ws: Leaves) -> Leaves:
        """The cotangents of the arguments."""
        raise NotImplementedError


class Hole:
    """The place of a float in an output."""

    def __init__(self, number: int) -> None:
        self.number = number


def mapped(obj: Any, function: Callable[[Any], Any]) -> Any:
    """Containers with what they hold replaced."""
    if type(obj) in (tuple, list):
        return type(obj)([mapped(part, function) for part in obj])
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*[mapped(part, function) for part in obj])
    if isinstance(obj, dict):
        return {key: mapped(part, function) for key, part in obj.items()}
    return function(obj)


def taken(out: Any, is_float: Callable[[Any], bool]) -> tuple[Leaves, Any]:
    """The floats of an output in order, and the rest of it with places for them."""
    floats: Leaves = []

    def visit(part: Any) -> Any:
        if type(part) not in (float, complex) and not is_float(part):
            return part
        floats.append(part)
        return Hole(len(floats) - 1)

    return floats, mapped(out, visit)


def filled(skeleton: Any, floats: Leaves, plain: Callable[[Any], Any]) -> Any:
    """An output of NumPy's arrays and numbers."""
    return mapped(skeleton, lambda part: numpy_of(plain(floats[part.number] if type(part) is Hole else part)))


def numpy_of(part: Any) -> Any:
    """A number where an array has no axes."""
    return part[()] if isinstance(part, np.ndarray) and not part.ndim else part


def copies(leaves: Leaves) -> Leaves:
    """Leaves in memory of their own; numbers of Python stay what they are, for NumPy widens nothing by them."""
    return [leaf if leaf is None or type(leaf) in (float, complex) else numpy_of(np.array(leaf)) for leaf in leaves]


def has_float_dtype(part: Any) -> bool:
    """Whether something is an array or number of floats, by its dtype."""
    return getattr(getattr(part, "dtype", None), "kind", "") in ("f", "c")
