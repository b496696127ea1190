"""Each problem of the job solved twice, with exact derivatives and with SciPy's 2-point differences, and measured.

The numbers only: printing is :mod:`ndual.job.report`, drawing :mod:`ndual.job.picture`. An *evaluation* is one call
of the user's function, so that a pass that carries a chunk of a Jacobian counts as one, and so does each shifted call
that a difference needs (SciPy's own ``nfev`` leaves those out).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import approx_fprime, least_squares, minimize

import ndual.scipy
from ndual import prepare_gradient
from ndual.job import kalman, nist, rosenbrock

ROSENBROCK_SIZES = (10, 30, 100, 200)
KALMAN_SIZES = (2, 4, 8, 16, 32)
REPEATS = 15
PATIENCE = 1.0  # seconds of repeats for one way; what takes longer is run once

Solver = Callable[[Callable[..., Any], bool], np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """One way of solving one problem: the answer, its agreement with the certified one, and what it took."""

    answer: np.ndarray
    digits: float
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """The two ways side by side, with the time of one plain call of the function (0 where it says nothing)."""

    problem: str
    size: int
    exact: Outcome
    differences: Outcome
    call: float = 0.0


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        """Count one more call and make it."""
        self.calls += 1
        return self.function(*args)


def fastest(work: Callable[[], Any], repeats: int) -> float:
    """Return the smallest time of a few runs, in seconds."""
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return float(best)


def compare(
    problem: str, size: int, function: Callable[..., Any], solve: Solver, digits: Callable[[np.ndarray], float]
) -> Comparison:
    """Solve both ways with ``solve(function, exact)``; short ones again and again in turns, for the smallest time."""
    outcomes = []
    for exact in (True, False):
        counted = Counted(function)
        begin = time.perf_counter()
        answer = solve(counted, exact)
        outcomes.append(Outcome(answer, digits(answer), counted.calls, time.perf_counter() - begin))
    best = [outcome.seconds for outcome in outcomes]
    for _ in range(min(REPEATS, int(PATIENCE / max(best)))):
        for k, exact in enumerate((True, False)):
            best[k] = min(best[k], fastest(functools.partial(solve, function, exact), 1))
    first, second = (replace(outcome, seconds=seconds) for outcome, seconds in zip(outcomes, best, strict=True))
    return Comparison(problem, size, first, second)


def fit(data: nist.Dataset, number: int) -> Comparison:
    """Fit one of NIST's problems from its first or second start with ``least_squares``."""
    start = data.starts[number - 1]
    options: dict[str, Any] = {"method": "trf", "ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}

    def solve(residual: Callable[..., Any], exact: bool) -> np.ndarray:
        if exact:
            problem = ndual.scipy.problem(residual)
            return np.asarray(least_squares(problem.fun, start, jac=problem.jac, **options).x)
        return np.asarray(least_squares(residual, start, jac="2-point", **options).x)

    name = f"{data.name}, start {number}"
    return compare(name, len(start), data.residual, solve, lambda b: nist.digits(b, data.certified))


def valley(n: int) -> Comparison:
    """Minimise Rosenbrock's function of n variables with L-BFGS-B."""
    x0 = rosenbrock.start(n)
    options = {"maxiter": 10_000, "maxfun": 10_000_000, "ftol": 1e-15, "gtol": 1e-10}

    def solve(function: Callable[..., Any], exact: bool) -> np.ndarray:
        if exact:
            both = ndual.scipy.problem(function).fun_and_jac
            return np.asarray(minimize(both, x0, jac=True, method="L-BFGS-B", options=options).x)
        return np.asarray(minimize(function, x0, jac="2-point", method="L-BFGS-B", options=options).x)

    return replace(
        compare("Rosenbrock, minimised", n, rosenbrock.rosenbrock, solve, lambda x: nist.digits(x, np.ones(n))),
        call=fastest(lambda: rosenbrock.rosenbrock(x0), 50),
    )


def filtering(n: int) -> Comparison:
    """Take the gradient of the Kalman likelihood at one point, state size n."""
    model, p = kalman.example(n)
    reference = kalman.complex_step(model, p)

    def solve(function: Callable[..., Any], exact: bool) -> np.ndarray:
        if exact:
            return np.asarray(prepare_gradient(function, p)(p)[1])
        return np.asarray(approx_fprime(p, function))

    return replace(
        compare("Kalman, gradient", n, model, solve, lambda g: nist.digits(g, reference)),
        call=fastest(lambda: model(p), 5),
    )


def fits() -> Iterator[Comparison]:
    """Fit the NIST problems, each from both starts."""
    for data in nist.DATASETS:
        for number in range(1, 1 + len(data.starts)):
            yield fit(data, number)


def valleys() -> Iterator[Comparison]:
    """Minimise Rosenbrock's function at growing size."""
    return map(valley, ROSENBROCK_SIZES)


def filters() -> Iterator[Comparison]:
    """Differentiate the Kalman likelihood at growing state size."""
    return map(filtering, KALMAN_SIZES)


def total() -> int:
    """Count the comparisons that the whole job makes."""
    return sum(len(data.starts) for data in nist.DATASETS) + len(ROSENBROCK_SIZES) + len(KALMAN_SIZES)
