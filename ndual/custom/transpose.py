"""The transpose of a linear function that is given as code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndual.errors import DerivativeLostError, NoRuleError
from ndual.pullback import vjp


def transposed(
    linear: Callable[..., list[Any]], zeros: list[Any], name: str, given: str, missing: str
) -> Callable[[list[Any]], list[Any]]:
    """The transpose of ``linear(*leaves) -> leaves``, from a record of one run; `zeros` are leaves to run it at."""
    try:
        _, pull = vjp(lambda *leaves: tuple(linear(*leaves)), *zeros)
    except (NoRuleError, DerivativeLostError) as error:
        raise NoRuleError(
            f"expected a {missing} of {name}, or a {given} that can be transposed; got a {given} of which ndual cannot "
            f"take the derivative: {error}. Give {missing}= too"
        ) from error
    return lambda ws: list(pull(tuple(ws)))
