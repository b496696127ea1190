"""Second and third derivatives in every combination of modes, against analytic values."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import ndual

MODES = ("forward", "reverse")
RNG = np.random.default_rng(7)
A = RNG.standard_normal((12, 4))
SIGNS = np.where(RNG.random(12) < 0.5, 1.0, -1.0)
X4 = np.array([0.3, -0.7, 1.1, 0.4])


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_loop(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


def rosenbrock_in_place(x):
    y = x[1:].copy()
    y -= x[:-1] ** 2
    y **= 2
    y *= 100
    z = np.empty_like(x)
    z[:] = 1
    z -= x
    z[-1] = 0
    return np.sum(y) + np.sum(z**2)


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("f", [rosenbrock, rosenbrock_loop, rosenbrock_in_place])
@pytest.mark.parametrize("n", [2, 7, 30])
def test_rosenbrock(f, n, mode):
    x = np.linspace(-1.2, 1.4, n)
    expected = scipy.optimize.rosen_hess(x)
    np.testing.assert_allclose(ndual.hessian(f, mode=mode)(x), expected, rtol=1e-12, atol=1e-10)
    value, gradient, found = ndual.prepare_hessian(f, x, mode=mode)(x)
    np.testing.assert_allclose(value, scipy.optimize.rosen(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, scipy.optimize.rosen_der(x), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)
    v = np.cos(np.arange(n))
    value, gradient, product = ndual.hvp(f, (x,), (v,), mode=mode)
    np.testing.assert_allclose(gradient, scipy.optimize.rosen_der(x), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(product, scipy.optimize.rosen_hess_prod(x, v), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("chunk", [7, None])
def test_rosenbrock_of_a_hundred(chunk):
    x = np.linspace(-1.2, 1.4, 100)
    found = ndual.hessian(rosenbrock, mode="reverse", chunk_size=chunk)(x)
    np.testing.assert_allclose(found, scipy.optimize.rosen_hess(x), rtol=1e-12, atol=1e-10)


def logistic(w):
    return np.sum(np.logaddexp(0, -SIGNS * (A @ w)))


def logistic_hessian(w):
    p = 1 / (1 + np.exp(-(A @ w)))
    return A.T @ (A * (p * (1 - p))[:, None])


def branches(x):
    y = x.copy()
    for i in range(len(y)):
        if y[i] > 0:
            y[i] = np.sin(y[i]) * y[i]
        else:
            y[i] = y[i] ** 3
    return np.sum(y) * x[0]


def branches_hessian(x):
    y = np.where(x > 0, np.sin(x) * x, x**3)
    d = np.where(x > 0, np.cos(x) * x + np.sin(x), 3 * x**2)
    h = np.diag(np.where(x > 0, 2 * np.cos(x) - np.sin(x) * x, 6 * x)) * x[0]
    h[0] += d
    h[:, 0] += d
    assert np.isfinite(y).all()
    return h


def matmuls(x):
    m = x.reshape(2, 2)
    return np.sum(m @ m)


def matmuls_hessian(x):
    h = np.zeros((4, 4))
    for i, j, k in itertools.product(range(2), repeat=3):  # the sum of x_ik x_kj
        h[2 * i + k, 2 * k + j] += 1
        h[2 * k + j, 2 * i + k] += 1
    return h


def log_determinant(x):
    m = np.eye(4) * 3 + np.outer(x, x)
    return 2 * np.sum(np.log(np.diag(np.linalg.cholesky(m))))


def log_determinant_hessian(x):  # log(3^3 (3 + x.x))
    s = 3 + x @ x
    return 2 * np.eye(4) / s - 4 * np.outer(x, x) / s**2


def solved(x):
    return x @ np.linalg.solve(np.diag(1 + x**2), x)


def solved_hessian(x):  # the sum of x^2 / (1 + x^2)
    return np.diag((2 - 6 * x**2) / (1 + x**2) ** 3)


def complex_inside(x):
    z = np.exp(1j * x) * x[0]
    return np.sum(np.abs(z) ** 2 + z.real)


def complex_inside_hessian(x):
    h = np.diag(-np.cos(x)) * x[0]
    h[0] -= np.sin(x)
    h[:, 0] -= np.sin(x)
    h[0, 0] += 2 * len(x)
    return h


def scattered(x):
    y = np.zeros(6)
    y[[1, 3, 5]] = x[[0, 2, 2]] * x[1]
    y[::2] += x[1:] ** 2
    return np.sum(y**2)


def scattered_hessian(x):
    # (x0 x1)^2 + 2 (x2 x1)^2 + x1^4 + x2^4 + x3^4
    a, b, c, d = x
    return np.array(
        [
            [2 * b * b, 4 * a * b, 0, 0],
            [4 * a * b, 2 * a * a + 4 * c * c + 12 * b * b, 8 * b * c, 0],
            [0, 8 * b * c, 4 * b * b + 12 * c * c, 0],
            [0, 0, 0, 12 * d * d],
        ]
    )


CASES = [
    (logistic, logistic_hessian), (branches, branches_hessian), (matmuls, matmuls_hessian),
    (log_determinant, log_determinant_hessian), (solved, solved_hessian), (complex_inside, complex_inside_hessian),
    (scattered, scattered_hessian),
]  # fmt: skip


@pytest.mark.parametrize(("f", "hessian"), CASES)
@pytest.mark.parametrize("mode", MODES)
def test_hessian(f, hessian, mode):
    found = ndual.hessian(f, mode=mode)(X4)
    np.testing.assert_allclose(found, hessian(X4), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("f", "hessian"), CASES)
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(MODES, repeat=2)))
def test_jacobian_of_a_gradient(f, hessian, outer, inner):
    found = ndual.jacobian(ndual.grad(f, mode=inner), mode=outer)(X4)
    np.testing.assert_allclose(found, hessian(X4), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=2)))
def test_gradient_of_a_gradient_of_numbers(modes):
    inner = ndual.grad(lambda x: x**3 * np.sin(x), mode=modes[0])
    found = ndual.grad(inner, mode=modes[1])(0.7)
    np.testing.assert_allclose(found, 6 * 0.7 * np.sin(0.7) + 6 * 0.49 * np.cos(0.7) - 0.343 * np.sin(0.7), rtol=1e-13)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)))
def test_three_levels(modes):
    def f(x):
        y = x.copy()
        y[1:] *= x[:-1]
        return np.exp(y[0]) * y[1] + np.sum(y**3)

    def third(x):
        # exp(a) a b + a^3 + a^3 b^3, summed over the gradient of the gradient of both directions
        a, b = x
        aaa = np.exp(a) * (a + 3) * b + 6 + 6 * b**3
        aab = np.exp(a) * (a + 2) + 18 * a * b**2
        abb = 18 * a**2 * b
        bbb = 6 * a**3
        return np.array([aaa + 2 * aab + abb, aab + 2 * abb + bbb])

    x = np.array([0.4, -1.3])
    first = ndual.grad(f, mode=modes[0])
    second = ndual.grad(lambda x: np.sum(first(x)), mode=modes[1])
    found = ndual.grad(lambda x: np.sum(second(x)), mode=modes[2])(x)
    np.testing.assert_allclose(found, third(x), rtol=1e-12)


def test_no_perturbation_confusion():
    for outer, inner in itertools.product(MODES, repeat=2):
        found = ndual.grad(lambda x: x * ndual.grad(lambda y: x * y, mode=inner)(2.0), mode=outer)(4.0)  # noqa: B023
        assert found == 8.0


def test_several_arguments_in_reverse():
    def f(a, x, c):
        return a * np.sum(x**2) + c * a**3

    x = np.array([1.0, 2.0])
    (aa, ax), (xa, xx) = ndual.hessian(f, argnums=(0, 1), mode="reverse")(2.0, x, 5.0)
    np.testing.assert_allclose(aa, 6 * 5 * 2.0)
    np.testing.assert_allclose(ax, 2 * x)
    np.testing.assert_allclose(xa, 2 * x)
    np.testing.assert_allclose(xx, 4.0 * np.eye(2))


def test_aux_in_reverse():
    found, aux = ndual.hessian(lambda x: (np.sum(x**3), "aux"), has_aux=True, mode="reverse")(X4)
    np.testing.assert_allclose(found, np.diag(6 * X4), rtol=1e-14)
    assert aux == "aux"


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
def test_formulas_that_look_at_values_are_no_comparisons_of_the_user(mode):
    def f(x):
        return np.zeros(2) @ np.array([x[0] ** 2 + x[1] ** 2, x[0] * x[1]])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ndual.hessian(f, mode=mode)(np.array([0.5, 0.5])), np.zeros((2, 2)))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_prepared_hessian_says_how(mode):
    prepared = ndual.prepare_hessian(lambda x: np.sum(x**3), np.ones(3), mode=mode)
    assert f"gradient {mode}" in repr(prepared)
    assert repr(prepared.clone()) == repr(prepared)


@pytest.mark.parametrize(("inner", "outer"), list(itertools.product(MODES, MODES)))
@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_of_arguments_without_numbers(inner, outer, shape):
    found = ndual.jacobian(ndual.grad(lambda x: np.sum(x**2), mode=inner), mode=outer)(np.zeros(shape))
    assert found.shape == shape + shape


@pytest.mark.parametrize("seed", range(4))
def test_gradients_of_several_passes_differ_by_rounding(seed):
    """What moves in a pass decides in which order a cotangent is added up; that is no other function."""
    q, v = np.random.default_rng(seed).standard_normal((2, 500))

    def f(p):
        return np.sum((q * p[:1] + p[1:2]) * np.sin(v * p[2:3])) + np.sum(p * p)

    p = np.linspace(0.5, 1.0, 200)
    found = ndual.hessian(f)(p)
    s, c = np.sin(v * p[2]), np.cos(v * p[2])
    np.testing.assert_allclose(found, found.T, atol=1e-11)
    np.testing.assert_allclose(np.diag(found)[3:], 2.0)
    np.testing.assert_allclose(found[0, 2], np.sum(q * v * c), rtol=1e-11)
    np.testing.assert_allclose(found[2, 2] - 2.0, -np.sum((q * p[0] + p[1]) * v * v * s), rtol=1e-11)
