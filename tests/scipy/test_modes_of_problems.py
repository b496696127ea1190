"""Which mode the adapters take."""

import numpy as np
import pytest
from scipy.optimize import rosen_der

import ndual.scipy


@pytest.mark.parametrize("n", [5, 17, 150, 200, 1000])
def test_objectives_of_many_numbers_run_once_a_gradient(n):
    runs = []

    def rosenbrock(x):
        runs.append(1)
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    problem = ndual.scipy.problem(rosenbrock)
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal(n)
        runs.clear()
        value, gradient = problem.fun_and_jac(x)
        np.testing.assert_allclose(gradient, rosen_der(x), rtol=1e-11, atol=1e-9)
        assert value == pytest.approx(rosenbrock(x), rel=1e-13)
        if seed:
            assert len(runs) == 2


def test_residuals_stay_forward():
    problem = ndual.scipy.problem(lambda p: p[:20] * p[20:])
    p = np.arange(1.0, 41.0)
    for _ in range(2):
        np.testing.assert_array_equal(problem.jac(p), np.hstack([np.diag(p[20:]), np.diag(p[:20])]))


@pytest.mark.parametrize(("options", "passes"), [({"mode": "forward"}, 1), ({"chunk_size": 10}, 4), ({}, 1)])
def test_a_mode_or_chunk_that_is_said_stays(options, passes):
    runs = []
    problem = ndual.scipy.problem(lambda p: runs.append(1) or np.sum(p * p), **options)
    for _ in range(3):
        runs.clear()
        np.testing.assert_array_equal(problem.jac(np.arange(40.0)), 2 * np.arange(40.0))
        assert len(runs) == passes
