"""Differentiates every entry with ndual and says how it went."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ndual
from real_code import of_lmfit, of_opfunu, of_scipy, of_statsmodels, of_statsmodels_parts, reference
from real_code.entries import Case, Entry, lifted
from real_code.manifest import LEFT_OUT, REFUSED, RIGHT, WITH_LIFT, WRONG

# Between derivative and reference, relative to the largest entry; the uncertainty of the reference comes on top.
TOLERANCE = 1e-7
SOURCES = (of_lmfit, of_opfunu, of_scipy, of_statsmodels, of_statsmodels_parts)


def entries() -> Iterator[Entry]:
    """All of them."""
    for source in SOURCES:
        yield from source.entries()


def call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A call as a user would make it, on arguments of its own, with the same random numbers each time."""
    np.random.seed(5)
    return function(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))


def trusted(case: Case) -> list[Any]:
    """The points of a case whose differences can be trusted, as many as wanted; flat ones only for want of others.

    Each comes as its arguments, the derivatives and their uncertainty.
    """
    found, level = [], []
    for args in case.points:
        want, error = reference.jacobian(lambda *a: call(case.function, a), args, case.argnums)
        if reference.certain(want, error):
            found.append((args, want, error))
            if len(found) == case.wanted:
                return found
        elif reference.flat(want):
            level.append((args, want, error))
    found = (found + level)[: case.wanted]
    if not found:
        raise RuntimeError(f"{case.function}: none of {len(case.points)} points has differences to trust")
    return found


def differentiate(function: Callable[..., Any], args: tuple[Any, ...], argnums: tuple[int, ...]) -> tuple[Any, ...]:
    """The derivatives by each of the arguments."""
    np.random.seed(5)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ndual.jacobian(function, argnums=argnums)(*copies)


def outcome(function: Callable[..., Any], checked: list[Any], argnums: tuple[int, ...]) -> str:
    """How differentiating a function went at all points."""
    for args, want, error in checked:
        try:
            got = differentiate(function, args, argnums)
        except ndual.NdualError as refusal:
            return f"{REFUSED}: {type(refusal).__name__}"
        except Exception as failure:
            return f"{WRONG}: raised {type(failure).__name__}"
        if got is None:
            return f"{WRONG}: took the output for no float"
        allowed = TOLERANCE * reference.size_of(want) + 2 * error
        for a, b in zip(got, want, strict=True):
            if a is None or np.shape(a) != np.shape(b) or not np.all(np.abs(a - b) <= allowed):
                return f"{WRONG}: {a!r} where differences give {b!r}"
    return RIGHT


def prove(entry: Entry) -> str:
    """The result of an entry, as the manifest has it."""
    if entry.left_out:
        return f"{LEFT_OUT}: {entry.left_out}"
    results = []
    for case in entry.cases:
        checked = trusted(case)
        result = outcome(case.function, checked, case.argnums)
        if result.startswith(REFUSED):
            with lifted(case.function, ndual.lift) as function:
                with_lift = outcome(function, checked, case.argnums)
            result = WITH_LIFT if with_lift == RIGHT else result if with_lift.startswith(REFUSED) else with_lift
        results.append(result)
    for worst in (WRONG, REFUSED, WITH_LIFT):
        for result in results:
            if result.startswith(worst):
                return result
    return RIGHT
