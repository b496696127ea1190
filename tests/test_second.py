"""Hessians and Hessian products against analytic ones."""

from __future__ import annotations

import numpy as np
import pytest

import ndual


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] += -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    g[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return g


def rosenbrock_hessian(x):
    h = np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1)
    d = np.zeros_like(x)
    d[:-1] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    d[1:] += 200
    return h + np.diag(d)


def test_rosenbrock_of_two():
    x = np.array([1.2, 1.2])
    value, gradient, h = ndual.prepare_hessian(rosenbrock, x)(x)
    np.testing.assert_allclose(value, 5.8, rtol=1e-14)
    np.testing.assert_allclose(gradient, [115.6, -48], rtol=1e-14)
    np.testing.assert_allclose(h, [[1250, -480], [-480, 200]], rtol=1e-14)


@pytest.mark.parametrize("chunk", [1, 2, 3, 8, None])
@pytest.mark.parametrize("n", [2, 7, 30])
def test_every_chunk_size(n, chunk):
    x = np.linspace(-1.2, 1.4, n)
    expected = rosenbrock_hessian(x)
    np.testing.assert_allclose(ndual.hessian(rosenbrock, chunk_size=chunk)(x), expected, rtol=1e-12, atol=1e-10)
    value, gradient, h = ndual.prepare_hessian(rosenbrock, x, chunk_size=chunk)(x)
    np.testing.assert_allclose(value, rosenbrock(x), rtol=1e-15)
    np.testing.assert_allclose(gradient, rosenbrock_gradient(x), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(h, expected, rtol=1e-12, atol=1e-10)


def test_product_with_a_vector():
    x, v = np.linspace(-1.2, 1.4, 7), np.arange(7.0)
    value, gradient, product = ndual.hvp(rosenbrock, (x,), (v,))
    np.testing.assert_allclose(value, rosenbrock(x), rtol=1e-15)
    np.testing.assert_allclose(gradient, rosenbrock_gradient(x), rtol=1e-12)
    np.testing.assert_allclose(product, rosenbrock_hessian(x) @ v, rtol=1e-12)


def test_several_arguments():
    def f(a, x, c):
        return a * np.sum(x**2) + c * a**3

    x = np.array([1.0, -2.0])
    (aa, ax), (xa, xx) = ndual.hessian(f, (0, 1))(2.0, x, 3.0)
    np.testing.assert_allclose(aa, 36.0)
    np.testing.assert_allclose(ax, 2 * x)
    np.testing.assert_allclose(xa, 2 * x)
    np.testing.assert_allclose(xx, 4 * np.eye(2))
    assert ndual.hessian(f)(2.0, x, c=3.0) == 36.0
    value, gradient, product = ndual.hvp(f, (2.0, x, 3.0), (1.0, np.array([1.0, 0.0]), None))
    assert value == 34.0
    np.testing.assert_allclose(gradient[0], 41.0)
    np.testing.assert_allclose(gradient[1], 4 * x)
    np.testing.assert_allclose(product[0], 36.0 + 2.0)
    np.testing.assert_allclose(product[1], 2 * x + np.array([4.0, 0.0]))
    _, gradient, product = ndual.hvp(f, (2.0, x, 3.0), (None, x, None))
    np.testing.assert_allclose(gradient, 4 * x)
    np.testing.assert_allclose(product, 4 * x)


def test_containers_and_shapes():
    def f(p):
        return p["s"] * np.sum(p["m"] * p["m"].T) + p["s"] ** 2

    m = np.arange(4.0).reshape(2, 2)
    h = ndual.hessian(f)({"s": 3.0, "m": m})
    assert h["s"]["s"] == 2.0
    np.testing.assert_allclose(h["s"]["m"], 2 * m.T)
    np.testing.assert_allclose(h["m"]["s"], 2 * m.T)
    assert h["m"]["m"].shape == (2, 2, 2, 2)
    np.testing.assert_allclose(h["m"]["m"][0, 1, 1, 0], 6.0)
    np.testing.assert_allclose(np.sum(h["m"]["m"]), 24.0)


def test_auxiliary_data_and_types():
    h, aux = ndual.hessian(lambda x: (np.sum(x**3), x * 2), has_aux=True)(np.float32([1, 2]))
    assert h.dtype == np.float32
    np.testing.assert_array_equal(h, np.diag([6.0, 12.0]))
    assert type(aux) is np.ndarray
    np.testing.assert_array_equal(aux, [2, 4])


def test_a_hessian_can_be_differentiated():
    third = ndual.jacobian(ndual.hessian(lambda x: np.prod(x)))(np.array([1.0, 2.0, 3.0]))
    expected = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        expected[i, j, k] = 1.0
    np.testing.assert_allclose(third, expected, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ndual.hessian(3.0), ndual.ArgumentTypeError),
        (lambda: ndual.hessian(lambda x: x)(np.ones(2)), ndual.ArgumentTypeError),
        (lambda: ndual.hessian(lambda x: x.real)(1.0 + 2.0j), ndual.ArgumentTypeError),
        (lambda: ndual.hvp(np.sum, np.ones(2), np.ones(2)), ndual.ArgumentTypeError),
        (lambda: ndual.hvp(np.sum, (np.ones(2),), (None,)), ndual.ArgumentValueError),
        (lambda: ndual.prepare_hessian(np.sum), ndual.ArgumentValueError),
        (lambda: ndual.prepare_hessian(np.sum, np.ones(2))(np.ones(3)), ndual.CacheMismatchError),
    ],
)
def test_what_is_refused(call, error):
    with pytest.raises(error):
        call()
