"""SciPy's Rosenbrock family."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import optimize

from real_code.entries import Case, Entry, entry, generator


def entries() -> Iterator[Entry]:
    """The function, and its derivatives as functions of the point (and of the vector that the Hessian meets)."""
    for name in ("rosen", "rosen_der", "rosen_hess", "rosen_hess_prod"):
        rng = generator(name)
        function = getattr(optimize, name)
        both = name == "rosen_hess_prod"
        sizes = (3, 4, 7) if name in ("rosen_hess", "rosen_hess_prod") else (2, 3, 7)
        cases = []
        for n in sizes:
            points = [(rng.uniform(-1.5, 1.5, n), *([rng.uniform(-1, 1, n)] if both else [])) for _ in range(4)]
            cases.append(Case(function, points, (0, 1) if both else (0,), wanted=2))
        if name == "rosen":
            cases.append(Case(function, [(np.array([[1.2, 0.7, 1.5], [0.4, -0.3, 1.1]]),)]))
        yield entry(f"scipy.optimize.{name}", cases)
