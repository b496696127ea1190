"""The line shapes of lmfit, by all their parameters: those fitted to data, and the constants of a measurement."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from lmfit import lineshapes

from real_code.entries import Case, Entry, entry, generator

FORMS = {
    "step": ("linear", "atan", "erf", "logistic"),
    "rectangle": ("linear", "atan", "erf", "logistic"),
    "thermal_distribution": ("bose", "maxwell", "fermi"),
}
DATA = ("x", "y")
TRIES = 6


def values(rng: Any, name: str, parameters: list[inspect.Parameter], x: Any) -> list[Any]:
    """Arguments near the usual: positive widths, everything off the values where a term would vanish."""
    given: list[Any] = []
    for parameter in parameters:
        if parameter.name in DATA:
            given.append(x.copy() if parameter.name == "x" else 0.5 * x)
        elif parameter.name.startswith(("center", "shift", "intercept", "skew")):
            given.append(float(rng.uniform(0.1, 0.9)))
        elif parameter.name.startswith("expon"):
            given.append(float(rng.uniform(1.2, 2.5)))
        elif name == "dho" and parameter.name == "gamma":
            given.append(float(rng.uniform(1.5, 2.5)))
        elif parameter.name in ("gamma", "fraction", "decay"):
            given.append(float(rng.uniform(0.2, 0.8)))
        else:
            given.append(float(rng.uniform(0.7, 1.9)))
    return given


def entries() -> Iterator[Entry]:
    """Every public function of the module, each form of those with several as an entry of its own."""
    functions = [f for f in vars(lineshapes).values() if inspect.isfunction(f) and f.__module__ == lineshapes.__name__]
    for function in functions:
        name = function.__name__
        for form in FORMS.get(name, ("",)):
            label = f"lmfit.lineshapes.{name}" + (f"[{form}]" if form else "")
            rng = generator(label)
            parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "form"]
            chosen = tuple(i for i, p in enumerate(parameters) if p.name not in DATA)
            cases = []
            # The abscissae are positive, since logarithms of them are taken, and lie off the centres.
            for x in (np.linspace(0.35, 4.1, 11), 1.37):
                x = x if name != "not_zero" else 1.0
                points = [tuple(values(rng, name, parameters, np.asarray(x))) for _ in range(TRIES)]
                if not isinstance(x, np.ndarray):
                    points = [tuple(float(v) for v in point) for point in points]
                if form:
                    points = [(*point, form) for point in points]
                cases.append(Case(function, points, chosen or (0,)))
            yield entry(label, cases)
