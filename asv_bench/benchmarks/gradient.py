"""Gradients of scalar functions at growing size, and forward derivatives of the suite, beside the plain call."""

import sys
from pathlib import Path

import numpy as np

import ndual

sys.path.insert(0, str(Path(__file__).parents[1]))
from suite import CASES


def rosenbrock(x):
    """The usual function, on the whole array."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def quadratic(x):
    """A product with a constant matrix."""
    n = x.size
    return x @ (np.eye(n) + 1.0 / n) @ x


class Gradient:
    """The full forward gradient, chunked."""

    params = (["rosenbrock", "quadratic"], [10, 100, 400])
    param_names = ("function", "n")

    def setup(self, function, n):
        self.function = globals()[function]
        self.x = np.linspace(-1.0, 1.0, n)
        self.gradient = ndual.prepare_gradient(self.function, self.x)

    def time_forward(self, function, n):
        self.gradient(self.x)

    def time_value(self, function, n):
        self.function(self.x)


class Suite:
    """One forward direction of the thirteen functions, all array arguments active."""

    params = tuple(CASES)
    param_names = ("case",)

    def setup(self, case):
        active, passive, self.direction = CASES[case].inputs()
        self.function = CASES[case].function
        self.primals = (*active, *passive)
        argnums = tuple(range(len(active)))
        self.derivative = ndual.prepare_derivative(self.function, *self.primals, argnums=argnums)

    def time_jvp(self, case):
        self.derivative(self.primals, self.direction)

    def time_value(self, case):
        self.function(*self.primals)
