"""Reverse mode: the suite, growing sizes, writes in place, second derivatives, pullbacks; beside the plain call."""

import sys
from pathlib import Path

import numpy as np

import ndual

sys.path.insert(0, str(Path(__file__).parents[1]))
from problems import logistic, logistic_data, rosenbrock
from suite import CASES

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


def chain(x):
    """Three functions, one after the other."""
    return np.sum(np.sin(np.cos(np.exp(x))))


def polynomial(x):
    """Products and sums, no functions."""
    return np.sum(((2.0 * x + 1.0) * x - 3.0) * x)


def shared(x):
    """One intermediate that is used four times."""
    y = np.tanh(x)
    return np.sum(y * y + y / (2.0 + y))


def broadcast(x):
    """A column against a row."""
    n = int(np.sqrt(x.size))
    a = x[: n * n].reshape(n, n)
    return np.sum(a * x[:n] + a / (1.0 + x[:n, None] ** 2))


def total(x):
    """A sum and nothing else."""
    return np.sum(x)


class Suite:
    """Value and gradient of the thirteen functions by all array arguments."""

    params = tuple(CASES)
    param_names = ("case",)

    def setup(self, case):
        active, passive, _ = CASES[case].inputs()
        self.function = CASES[case].function
        self.args = (*active, *passive)
        self.argnums = tuple(range(len(active)))
        self.gradient = ndual.prepare_gradient(self.function, *self.args, argnums=self.argnums, mode="reverse")
        self.unprepared = ndual.value_and_grad(self.function, self.argnums, mode="reverse")

    def time_prepared(self, case):
        self.gradient(*self.args)

    def time_unprepared(self, case):
        self.unprepared(*self.args)

    def time_value(self, case):
        self.function(*self.args)


class _Gradient:
    """Value and gradient of a function of one array, its memory, and the function alone."""

    def prepare(self, function, x):
        self.function, self.x = function, x
        self.gradient = ndual.prepare_gradient(function, x, mode="reverse")

    def time_gradient(self, *params):
        self.gradient(self.x)

    def time_value(self, *params):
        self.function(self.x)


class Elementwise(_Gradient):
    """Whole arrays of growing size."""

    params = ([f.__name__ for f in (chain, polynomial, shared, broadcast, rosenbrock, total)], SIZES)
    param_names = ("function", "n")

    def setup(self, function, n):
        self.prepare(globals()[function], np.linspace(-1.0, 1.0, n))


class Product(_Gradient):
    """A product of two matrices, both active, and of a constant matrix with a vector."""

    params = (["matrices", "vector"], [3, 10, 30, 100, 300, 1000])
    param_names = ("operands", "n")

    def setup(self, operands, n):
        rng = np.random.default_rng(n)
        if operands == "matrices":
            self.prepare(lambda x: np.sum(x[0] @ x[1]), rng.standard_normal((2, n, n)))
        else:
            constant = rng.standard_normal((n, n))
            self.prepare(lambda x: np.sum((constant @ x) ** 2), rng.standard_normal(n))


def by_elements(x):
    """A loop over x[i]."""
    y = 0.0
    for i in range(x.size - 1):
        y = y + x[i] * x[i + 1]
    return y


def by_rows(x):
    """A loop over pieces of a hundred, or of what there is."""
    y = 0.0
    for row in x.reshape(-1, min(x.size, 100)):
        y = y + np.sum(row * row)
    return y


def by_places(x):
    """An array of indices, each place twice."""
    places = np.arange(2 * x.size) % x.size
    return np.sum(x[places] ** 2)


def by_mask(x):
    """About half of the elements."""
    return np.sum(x[x > 0.0] ** 2)


class Indexing(_Gradient):
    """Elements, rows, arrays of indices and masks."""

    params = ([f.__name__ for f in (by_elements, by_rows, by_places, by_mask)], [10, 1_000, 100_000, 1_000_000])
    param_names = ("how", "n")
    timeout = 300

    def setup(self, how, n):
        self.prepare(globals()[how], np.linspace(-1.0, 1.0, n))


def stencil(x):
    """Twenty steps of a diffusion, in place."""
    u = x.copy()
    for _ in range(20):
        u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def waves(x):
    """Twenty steps that are not linear, so that their operands must be kept."""
    u = x.copy()
    for _ in range(20):
        u += 0.01 * np.sin(u)
    return np.sum(u)


def marching(x):
    """Each row from the one before, written into an array made for it."""
    rows = np.zeros((20, x.size))
    rows[0] = x
    for k in range(19):
        rows[k + 1] = rows[k] + 0.1 * rows[k] * (1.0 - rows[k])
    return np.sum(rows[-1])


def recurrence(x):
    """Each element from the one before, number by number."""
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, x.size):
        y[i] = 0.5 * y[i - 1] + x[i]
    return np.sum(y * y)


def scattered(x):
    """Contributions that meet at the same places."""
    bins = np.zeros(x.size // 2)
    np.add.at(bins, np.arange(x.size) % bins.size, x * x)
    return np.sum(bins * bins)


class Mutation(_Gradient):
    """Writes into arrays."""

    params = ([f.__name__ for f in (stencil, waves, marching, recurrence, scattered)], [10, 1_000, 100_000])
    param_names = ("function", "n")
    timeout = 300

    def setup(self, function, n):
        self.prepare(globals()[function], np.linspace(0.1, 0.9, n))


class Hessian:
    """Value, gradient and Hessian, forward over reverse; products that need no matrix."""

    params = ("rosenbrock 100", "logistic 10000x50")
    param_names = ("problem",)
    timeout = 300

    def setup(self, problem):
        if problem.startswith("rosenbrock"):
            self.function, self.x = rosenbrock, np.linspace(-1.0, 1.0, 100)
        else:
            self.x, X, s = logistic_data()
            self.function = lambda w: logistic(w, X, s)
        self.hessian = ndual.prepare_hessian(self.function, self.x, mode="reverse")
        self.v = np.ones_like(self.x)

    def time_hessian(self, problem):
        self.hessian(self.x)

    def time_product(self, problem):
        ndual.hvp(self.function, (self.x,), (self.v,), mode="reverse")

    def time_value(self, problem):
        self.function(self.x)


class Pullback:
    """A function of many outputs: its pullback, a sweep through a tape that is there, the whole Jacobian by rows."""

    params = (10, 100, 1_000)
    param_names = ("n",)

    def setup(self, n):
        matrix = np.random.default_rng(n).standard_normal((10, n))
        self.function = lambda x: np.tanh(matrix @ np.sin(x))
        self.x, self.w, self.v = np.linspace(-1.0, 1.0, n), np.ones(10), np.ones(n)
        _, self.pullback = ndual.vjp(self.function, self.x)
        _, self.push = ndual.linearize(self.function, self.x)
        self.jacobian = ndual.prepare_jacobian(self.function, self.x, mode="reverse")
        self.unprepared = ndual.jacrev(self.function)

    def time_vjp(self, n):
        _, pullback = ndual.vjp(self.function, self.x)
        pullback(self.w)

    def time_sweep(self, n):
        self.pullback(self.w)

    def time_push(self, n):
        self.push(self.v)

    def time_jacobian(self, n):
        self.jacobian(self.x)

    def time_jacrev(self, n):
        self.unprepared(self.x)

    def time_value(self, n):
        self.function(self.x)
