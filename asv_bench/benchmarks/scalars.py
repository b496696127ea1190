"""Scalar duals in loops: what a user's Python loop over numbers costs with a derivative."""

import numpy as np

import ndual


def logistic(x):
    """Two hundred steps of the logistic map on Python floats."""
    a, y = x[0], x[1]
    for _ in range(200):
        y = a * y * (1.0 - y)
    return y


def chain(x):
    """Two hundred steps that call NumPy's functions on numbers."""
    y = x[0]
    for _ in range(200):
        y = np.sin(y) + x[1] * np.exp(-y)
    return y


class Loop:
    """Value and gradient of a loop over scalars, by the number of inputs (one lane each)."""

    params = (["logistic", "chain"], [2, 8])
    param_names = ("function", "inputs")

    def setup(self, function, inputs):
        self.function = {"logistic": logistic, "chain": chain}[function]
        self.x = np.concatenate([[3.6, 0.3], np.zeros(inputs - 2)])
        self.floats = self.x.tolist()
        self.gradient = ndual.prepare_gradient(self.function, self.x)

    def time_gradient(self, function, inputs):
        self.gradient(self.x)

    def time_value_on_floats(self, function, inputs):
        self.function(self.floats)
