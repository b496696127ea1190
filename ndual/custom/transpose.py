"""The transpose of a linear function that is given as code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import DerivativeLostError, NoRuleError, RuleError
from ndual.pullback import vjp


def transposed(
    linear: Callable[..., list[Any]], zeros: list[Any], name: str, given: str, missing: str
) -> Callable[[list[Any]], list[Any]]:
    """The transpose of ``linear(*leaves) -> leaves``, from a record of one run; `zeros` are leaves to run it at."""
    try:
        at_zero, pull = vjp(lambda *leaves: tuple(linear(*leaves)), *zeros)
    except (NoRuleError, DerivativeLostError) as error:
        raise NoRuleError(
            f"expected a {missing} of {name}, or a {given} that can be transposed; got a {given} of which ndual cannot "
            f"take the derivative: {error}. Give {missing}= too"
        ) from error
    for part in map(_core.bottom, at_zero):
        if np.any((part != 0) & (part == part)):
            what = "tangents" if given == "jvp" else "cotangent"
            raise RuleError(
                f"the {given} of {name}: expected a linear function of the {what}, zero for zero; got "
                f"{part!r} for zero. Multiply what it returns by what it gets"
            )
    return lambda ws: list(pull(tuple(ws)))
