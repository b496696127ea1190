"""The name-based test functions of opfunu: every class, in its own dimension and, where it may vary, in 2, 5 and 10."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from opfunu import name_based

from real_code.entries import Case, Entry, entry, generator, inside

DIMENSIONS = (2, 5, 10)
TRIES, WANTED = 8, 2
LEFT_OUT = {"Katsuura": "rounds multiples of 2**32 * x: no step is narrow enough for differences"}


def instances(kind: Any) -> Iterator[Any]:
    """The problem in each dimension that it takes."""
    with contextlib.redirect_stdout(io.StringIO()):
        first = kind()
        yield first
        if first.dim_changeable:
            for n in DIMENSIONS:
                if n != first.ndim and (not first.dim_supported or n in first.dim_supported):
                    # A class may need more dimensions than it says.
                    with contextlib.suppress(Exception):
                        yield kind(ndim=n)


def elsewhere(rng: np.random.Generator, problem: Any) -> Iterator[np.ndarray]:
    """Points for functions that are flat or undefined in most of their box: near the minimum, and in the unit cube."""
    x = np.asarray(problem.x_global, dtype=float)
    for _ in range(TRIES):
        if x.shape == problem.lb.shape:
            yield x + 0.02 * (problem.ub - problem.lb) * rng.uniform(-1.0, 1.0, x.shape)
        yield rng.uniform(0.1, 0.9, problem.lb.shape)


def entries() -> Iterator[Entry]:
    """One entry for each class, in alphabetical order."""
    for name, kind in inspect.getmembers(name_based, inspect.isclass):
        if name == "Benchmark":
            continue
        label = f"opfunu.name_based.{name}"
        if name in LEFT_OUT:
            yield Entry(label, left_out=LEFT_OUT[name])
            continue
        cases = []
        for problem in instances(kind):
            rng = generator(f"{name}{problem.ndim}")
            points = [(x,) for x in (*inside(rng, problem.lb, problem.ub, TRIES), *elsewhere(rng, problem))]
            cases.append(Case(problem.evaluate, points, wanted=WANTED))
        yield entry(label, cases)
