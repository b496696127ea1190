"""Functions that write into their arguments, for the checks of functions that return what they compute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.testing.inputs import is_float


def rule_of(function: Any) -> Any:
    """The rule of a function that writes into its arguments; None for any other function."""
    rule = getattr(function, "__ndual_rule__", None)
    return rule if rule is not None and rule.overwritten else None


def returning(function: Callable[..., Any], places: frozenset[int]) -> Callable[..., Any]:
    """The function on copies of what it overwrites, which it returns beside its result."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        copies = [_copy(arg) if i in places else arg for i, arg in enumerate(args)]
        out = function(*copies, **kwargs)
        written = tuple(copies[i] for i in sorted(places))
        return written if out is None else (out, *written)

    return call


def _copy(arg: Any) -> Any:
    """A copy that takes active values while a derivative is taken."""
    if _core.is_dual(arg) or not isinstance(arg, np.ndarray):
        return arg.copy() if _core.is_dual(arg) else arg
    return arg.copy() if _core.current_level() is None else _core.lazy(arg.copy())


def not_added(rule: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rng: np.random.Generator) -> str | None:
    """What is wrong with a reverse run that does not add to the cotangents of arrays; None if it does."""
    if not hasattr(rule, "reverse"):
        return None
    before = [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    out, tape = rule.augmented(*before, **kwargs)
    start = [rng.uniform(-1.0, 1.0, np.shape(arg)) if is_float(arg) and np.ndim(arg) else None for arg in args]
    weights = () if out is None else (rng.uniform(-1.0, 1.0, np.shape(out))[()],)

    def run(scale: float) -> list[Any]:
        shadows = [
            s if s is None else np.asarray(s if i in rule.overwritten else scale * s, np.asarray(args[i]).dtype).copy()
            for i, s in enumerate(start)
        ]
        rule.reverse(tape, *weights, *shadows)
        return shadows

    for i, (s, empty, full) in enumerate(zip(start, run(0.0), run(1.0), strict=True)):
        if s is not None and i not in rule.overwritten and not np.allclose(full, s + empty, 1e-5, 1e-6):
            return (
                f"expected a reverse run that adds to cotangents, {s + empty!r} for argument {i} where {s!r} was; got "
                f"{full!r}. Write dx += …, not dx[:] = …"
            )
    return None
