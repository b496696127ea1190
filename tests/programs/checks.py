"""What must hold of a program: NumPy's bits, untouched inputs, the reference's slopes, one gradient in all modes."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy as np
import steps_control  # noqa: F401 (registers its steps)
import steps_memory  # noqa: F401
import steps_values  # noqa: F401
from program import Program, RefusedError
from reference import directions, like, slope

import ndual

MODES = ["forward", "reverse"]


class WrongError(AssertionError):
    """A program does not give what it should."""


def copied(value: Any) -> Any:
    """A copy with the memory layout of the original."""
    if not isinstance(value, np.ndarray):
        return value
    made = like(value, value.dtype)
    made[...] = value
    return made


def same_bits(got: Any, want: Any) -> bool:
    got, want = np.asarray(got), np.asarray(want)
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def close(got: Any, want: Any, tolerance: float) -> bool:
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return got.shape == want.shape and bool(np.all(np.abs(got - want) <= tolerance * np.max(np.abs(want), initial=1.0)))


def gradient(program: Program, mode: str) -> tuple[Any, ...]:
    """The gradient in one mode, after the checks that one mode allows."""
    values, constants = program.inputs()
    f = program.function(constants)
    total, kept = f(*map(copied, values))
    chosen = random.Random(program.seed)
    size = sum(np.size(value) for value in values)
    widths = [None, None, 1, 3, 5] if size < 60 else [None, size // 3]
    if constants:  # a number that does not move in one of several passes leaves plain arrays plain
        widths = [size]
    options: dict[str, Any] = {"chunk_size": chosen.choice(widths)} if mode == "forward" else {}
    given = [copied(value) for value in values]
    with ndual.config(exact=True, debug=len(given) == 1 and chosen.random() < 0.3):
        places = tuple(range(len(given)))
        found, slopes = ndual.value_and_grad(f, places, has_aux=True, mode=mode, **options)(*given)
    # NumPy's loops have other last bits where cells do not lie side by side, in some of its blocks and not in others
    spread = any(re.search(r"\*\* (?!2\b)|np\.power|::", block.text) for block in program.blocks)
    spread = spread or any(argument.layout in ("backwards", "spaced") for argument in program.arguments)
    for name, got, want in zip(("total", *program.kept), (found[0], *found[1]), (total, *kept), strict=True):
        if not same_bits(got, want) and not (spread and close(got, want, 1e-14) and got.dtype == want.dtype):
            raise WrongError(f"{mode}: {name} is {got!r}, NumPy has {want!r}")
    for argument, got, want in zip(program.arguments, given, values, strict=True):
        if not same_bits(got, want):
            raise WrongError(f"{mode}: the argument {argument.name} was changed to {got!r} from {want!r}")
    fresh = program.inputs()[1]
    for name, got in constants.items():
        if not same_bits(got, fresh[name]):
            raise WrongError(f"{mode}: the constant {name} was changed")
    for argument, got, value in zip(program.arguments, slopes, values, strict=True):
        if np.shape(got) != np.shape(value) or np.asarray(got).dtype != np.asarray(value).dtype:
            raise WrongError(f"{mode}: the gradient for {argument.name} is {got!r}")
    return slopes


def check(program: Program, modes: list[str] | None = None) -> None:
    """Raise if anything about a program is not as it should be."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = {mode: gradient(program, mode) for mode in modes or MODES}
        except ndual.DerivativeLostError:
            # What is made of arrays from outside alone is plain, and stays so: refused, as documented. Where it was not
            # foreseen when the program was drawn there is nothing to check.
            if program.constants:
                return
            raise
        (first, slopes), *others = found.items()
        for mode, other in others:
            for argument, got, want in zip(program.arguments, other, slopes, strict=True):
                if not close(got, want, program.family.agreement):
                    raise WrongError(
                        f"the gradient for {argument.name} is {got!r} in {mode} mode, {want!r} in {first} mode"
                    )
        for direction in directions(program):
            try:
                want = slope(program, direction)
            except RefusedError:
                return
            parts = [np.sum(g * np.asarray(t)) for g, t in zip(slopes, direction, strict=True)]
            scale = sum(np.sum(np.abs(g * np.asarray(t))) for g, t in zip(slopes, direction, strict=True))
            if not abs(sum(parts) - want) <= program.family.tolerance * max(1.0, scale):
                raise WrongError(f"the slope along a direction is {sum(parts)!r}, the reference has {want!r}")


def failure(program: Program, modes: list[str] | None = None) -> str:
    """What is wrong with a program, or nothing; its first line tells faults apart."""
    try:
        check(program, modes)
    except WrongError as error:
        return f"{str(error).split(' is ')[0]}\n{error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}\n{error}"
    return ""
