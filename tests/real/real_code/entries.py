"""What an entry of the proof is: a function nobody here wrote, and points at which it is differentiated."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Make = Callable[[Callable[[Any], Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Case:
    """One setting of a function: its arguments, which are differentiated, and the points to try in this order."""

    function: Callable[..., Any]
    points: Sequence[tuple[Any, ...]]
    argnums: tuple[int, ...] = (0,)
    wanted: int = 1


@dataclass(frozen=True)
class Entry:
    """A function with its settings, or the reason why it has no derivative to take."""

    name: str
    cases: Sequence[Case] = field(default_factory=tuple)
    left_out: str = ""


@contextlib.contextmanager
def lifted(function: Any, lift: Callable[[Any], Any]) -> Iterator[Any]:
    """The same function or bound method with its code lifted, and meanwhile the other functions of its module too."""
    bound = isinstance(function, types.MethodType)
    plain = function.__func__ if bound else function
    module = vars(sys.modules[plain.__module__])
    before = {k: f for k, f in module.items() if type(f) is types.FunctionType and f.__module__ == plain.__module__}
    changed = {name: lift(f) for name, f in before.items()}
    module.update(changed)
    try:
        found = changed[plain.__name__] if before.get(plain.__name__) is plain else lift(plain)
        yield types.MethodType(found, function.__self__) if bound else found
    finally:
        module.update(before)


def entry(name: str, cases: Sequence[Case]) -> Entry:
    """An entry of the settings in which the function can be differentiated, or one that says why there are none."""
    reasons = [reason_against(case.function, case.points[0]) for case in cases]
    kept = [case for case, reason in zip(cases, reasons, strict=True) if not reason]
    return Entry(name, kept) if kept else Entry(name, left_out=reasons[0])


def reason_against(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Why a function cannot be differentiated by anyone, or nothing."""
    files = set()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            sys.setprofile(lambda frame, event, arg: files.add(frame.f_code.co_filename))
            value = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))
        except Exception as error:
            return f"fails without derivatives: {type(error).__name__}: {error}".partition("\n")[0]
        finally:
            sys.setprofile(None)
    if any(file.endswith("numdiff.py") for file in files):
        return "is itself taken by differences"
    dtype = np.asarray(value).dtype
    return "" if dtype.kind == "f" else f"returns {dtype}"


def generator(name: str) -> np.random.Generator:
    """Random numbers of an entry's own, so that adding one changes no other."""
    return np.random.default_rng(list(name.encode()))


def inside(rng: np.random.Generator, low: Any, high: Any, count: int) -> Iterator[np.ndarray]:
    """Points in the middle half of a box."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    middle, half = (low + high) / 2, (high - low) / 4
    for _ in range(count):
        yield middle + half * rng.uniform(-1.0, 1.0, middle.shape)
