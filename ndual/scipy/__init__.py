"""Derivatives in the shapes that SciPy's solvers ask for.

The adapters hold no solver and know none: they hand out functions of a float64 vector. SciPy overwrites the vectors
that it passes and keeps the arrays that it gets, so what is remembered is keyed on bytes and every result is fresh.
Three of SciPy's solvers are wrapped, for parameters that are no vector.
"""

from ndual.scipy.curves import Curve, curve
from ndual.scipy.equations import BoundaryValue, Ode, bvp, ode
from ndual.scipy.problems import Problem, problem
from ndual.scipy.scalars import Scalar, scalar
from ndual.scipy.solvers import least_squares, minimize, root

__all__ = [
    "BoundaryValue",
    "Curve",
    "Ode",
    "Problem",
    "Scalar",
    "bvp",
    "curve",
    "least_squares",
    "minimize",
    "ode",
    "problem",
    "root",
    "scalar",
]
