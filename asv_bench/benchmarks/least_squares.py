"""Jacobians of residuals and whole fits with SciPy, exact beside SciPy's 2-point differences."""

import numpy as np
from scipy.optimize import approx_fprime, least_squares

import ndual
import ndual.scipy
from ndual.job import nist

TIMES = np.linspace(0.0, 10.0, 2000)
TRUTH = np.concatenate([np.linspace(1.0, 2.0, 10), np.linspace(0.5, 5.0, 10)])


def sines(p):
    """Ten amplitudes and ten frequencies against 2000 observations."""
    return p[:10] @ np.sin(np.outer(p[10:], TIMES))


class Sines:
    """The Jacobian of a sum of sines, 2000 x 20."""

    def setup(self):
        self.p = TRUTH * 1.01
        self.jacobian = ndual.prepare_jacobian(sines, self.p)

    def time_exact(self):
        self.jacobian(self.p)

    def time_two_point(self):
        approx_fprime(self.p, sines)

    def time_value(self):
        sines(self.p)


class Nist:
    """A whole fit from the near start."""

    params = tuple(data.name for data in nist.DATASETS)
    param_names = ("problem",)

    def setup(self, problem):
        self.data = next(data for data in nist.DATASETS if data.name == problem)

    def time_exact(self, problem):
        problem_ = ndual.scipy.problem(self.data.residual)
        least_squares(problem_.fun, self.data.starts[1], jac=problem_.jac)

    def time_two_point(self, problem):
        least_squares(self.data.residual, self.data.starts[1])
