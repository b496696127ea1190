"""Derivatives of derivatives: every level keeps its own tangents, whatever meets whatever."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.special

import ndual
from ndual import _core

grad, jacobian = ndual.grad, ndual.jacobian
X = np.array([0.5, -0.3, 1.2])


def hessian(f):
    return jacobian(grad(f))


def test_no_perturbation_confusion():
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(1.0))(4.0) == 8.0
    assert grad(lambda x: grad(lambda y: y * y)(3.0) + 0.0 * x)(2.0) == 0.0
    assert grad(lambda x: grad(lambda y: x * y * y)(x))(3.0) == 12.0


@pytest.mark.parametrize(
    ("f", "x", "orders"),
    [
        (np.sin, 0.7, [np.cos(0.7), -np.sin(0.7), -np.cos(0.7), np.sin(0.7)]),
        (lambda x: x**5, 2.0, [80.0, 160.0, 240.0, 240.0]),
        (lambda x: np.exp(2 * x), 0.5, [2 * np.e, 4 * np.e, 8 * np.e, 16 * np.e]),
        (lambda x: 1 / x, 2.0, [-1 / 4, 2 / 8, -6 / 16, 24 / 32]),
        (lambda x: np.log(x) * x, 2.0, [np.log(2.0) + 1, 0.5, -0.25, 0.25]),
        (lambda x: scipy.special.erf(x), 0.0, [2 / np.sqrt(np.pi), 0.0, -4 / np.sqrt(np.pi), 0.0]),
    ],
)
def test_higher_derivatives_of_a_number(f, x, orders):
    for expected in orders:
        f = grad(f)
        np.testing.assert_allclose(f(x), expected, rtol=1e-13, atol=1e-14)
        assert type(f(x)) is np.float64


def test_third_derivative_of_a_function_of_two():
    x, y = 0.7, 1.3
    third = grad(grad(grad(lambda x, y: np.exp(x * y), 0), 1), 1)
    np.testing.assert_allclose(third(x, y), (2 * x + x * x * y) * np.exp(x * y), rtol=1e-13)
    tensor = jacobian(jacobian(grad(lambda z: np.exp(z[0] * z[1]))))(np.array([x, y]))
    assert tensor.shape == (2, 2, 2)
    np.testing.assert_allclose(tensor[0, 1, 1], third(x, y), rtol=1e-13)
    np.testing.assert_allclose(tensor, tensor.transpose(2, 1, 0), rtol=1e-13)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_loop(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


def rosenbrock_hessian(x):
    n = len(x)
    h = np.zeros((n, n))
    for i in range(n - 1):
        h[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        h[i + 1, i + 1] += 200
        h[i, i + 1] -= 400 * x[i]
        h[i + 1, i] -= 400 * x[i]
    return h


@pytest.mark.parametrize("f", [rosenbrock, rosenbrock_loop])
@pytest.mark.parametrize("chunk", [1, 3, None])
def test_rosenbrock(f, chunk):
    x = np.linspace(-1, 1.5, 7)
    found = jacobian(grad(f, chunk_size=chunk), chunk_size=chunk)(x)
    np.testing.assert_allclose(found, rosenbrock_hessian(x), rtol=1e-13, atol=1e-11)
    found = hessian(f)(np.array([1.2, 1.2]))
    np.testing.assert_allclose(found, [[1250, -480], [-480, 200]], rtol=1e-14)


def test_what_is_written_and_seen_through_views():
    def f(x):
        y = np.zeros_like(x)
        y[:] = x
        tail = y[1:]
        tail *= x[:-1]
        y[0] = np.exp(x[0])
        m = np.empty_like(x).reshape(3, 1)
        m[:, 0] = y
        m[0] += tail[:1]
        return np.sum(m[::-1].T * m.T)

    def same(x):
        y = [np.exp(x[0]), x[1] * x[0], x[2] * x[1]]
        y[0] = y[0] + y[1]
        return 2 * y[0] * y[2] + y[1] * y[1]

    np.testing.assert_allclose(hessian(f)(X), hessian(same)(X), rtol=1e-13)
    a, b, c = X
    np.testing.assert_allclose(hessian(f)(X)[2, 2], 0, atol=1e-15)
    np.testing.assert_allclose(hessian(f)(X)[1, 2], 2 * np.exp(a) + 4 * a * b, rtol=1e-13)
    np.testing.assert_allclose(hessian(f)(X)[0, 0], 2 * np.exp(a) * b * c + 2 * b * b, rtol=1e-13)


def test_an_outer_value_is_written_into_inner_and_outer_arrays():
    def outer(x):
        kept = np.zeros_like(x)

        def inner(y):
            z = np.zeros_like(y)
            z[0] = x[0]  # a constant to the inner derivative
            z[1:] = y[1:] * x[1:]
            z[1] *= z[0]
            kept[1] = x[2]  # into an outer array, from inside
            y[2] = 7.0
            return np.sum(z * z)

        g = grad(inner)(np.ones(3))
        return np.sum(g) + kept[1]

    # inner: sum g = 2 x1^2 x0^2 + 2 x2^2
    a, b, c = X
    np.testing.assert_allclose(grad(outer)(X), [4 * a * b * b, 4 * a * a * b, 4 * c + 1], rtol=1e-14)


def test_an_inner_value_does_not_fit_an_outer_array():
    def outer(x):
        kept = np.zeros_like(x)

        def inner(y):
            kept[0] = y[0]
            return np.sum(y)

        return np.sum(grad(inner)(x))

    with pytest.raises(ndual.DerivativeLostError, match="inner derivative"):
        grad(outer)(X)

    def swallowed(x):
        def inner(y):
            with contextlib.suppress(ndual.DerivativeLostError):
                x[0] += y[0]
            return np.sum(y)

        return np.sum(grad(inner)(x))

    with pytest.raises(ndual.DerivativeLostError, match="inner derivative"):
        grad(swallowed)(X)


def test_arguments_stay_as_they_are():
    def outer(x):
        def inner(y):
            y *= y
            return np.sum(y * x)

        g = grad(inner)(x)  # 2 x^2
        return np.sum(x * g)  # 2 x^3

    np.testing.assert_allclose(grad(outer)(X), 6 * X**2, rtol=1e-14)
    np.testing.assert_array_equal(X, [0.5, -0.3, 1.2])


def test_arguments_that_share_memory_and_are_written():
    def outer(x):
        def inner(a, b):
            a *= 2
            return np.sum(a * b)

        return np.sum(grad(inner)(x, x[:]))

    with pytest.raises(ndual.AliasError):
        grad(outer)(X)
    read = lambda x: np.sum(grad(lambda a, b: np.sum(a * b), (0, 1))(x, x)[0] * x)  # noqa: E731
    np.testing.assert_allclose(grad(read)(X), 2 * X)


def test_a_kept_dual_of_an_ended_inner_derivative_raises():
    kept = []

    def outer(x):
        grad(lambda y: kept.append(y * x) or np.sum(y))(x)
        return np.sum(kept[0])

    with pytest.raises(ndual.StaleDualError):
        grad(outer)(X)
    kept.clear()

    def numbers(x):
        grad(lambda y: kept.append(y) or y * y)(1.0)
        grad(lambda y: y * kept[0])(1.0)
        return x

    with pytest.raises(ndual.StaleDualError):
        grad(numbers)(1.0)
    assert _core.current_level() is None


def test_a_suspended_generator_goes_on_inside_another_derivative():
    def f(x):
        def powers():
            t = x
            while True:
                yield t
                t = t * x

        g = powers()
        a = next(g)
        inner = grad(lambda y: y * y * next(g))(2.0)  # 4 x^2, the generator computing one level out
        return a + inner + next(g)

    np.testing.assert_allclose(grad(f)(1.5), 1 + 8 * 1.5 + 3 * 1.5**2)


def test_recursion_and_state_of_a_closure():
    def nth(f, n):
        return f if n == 0 else grad(nth(f, n - 1))

    np.testing.assert_allclose(nth(lambda x: x**6, 6)(1.1), 720, rtol=1e-12)

    def f(x):
        scale = 1.0

        def g(y):
            nonlocal scale
            scale = scale * x
            return scale * y

        return grad(g)(1.0) + grad(g)(1.0)  # x + x^2

    assert grad(f)(3.0) == 7.0


def test_newton_inside():
    def root(a):
        t = 1.5
        for _ in range(7):
            F = lambda t: t * t - a  # noqa: E731
            t = t - F(t) / grad(F)(t)
        return t

    np.testing.assert_allclose(grad(root)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-14)
    np.testing.assert_allclose(grad(grad(root))(2.0), -0.25 / 2.0**1.5, rtol=1e-13)


def test_gradients_of_all_operators_inside():
    A = np.array([[2.0, 1.0], [0.5, 3.0]])
    x = np.array([0.4, 0.9])
    f = lambda y: np.sum(np.sin(A @ y))  # noqa: E731
    c, s = np.cos(A @ x), np.sin(A @ x)
    H = -A.T @ (s[:, None] * A)
    v = np.array([1.0, -2.0])
    np.testing.assert_allclose(hessian(f)(x), H, rtol=1e-13)
    np.testing.assert_allclose(grad(lambda y: ndual.jvp(f, (y,), (v,))[1])(x), H @ v, rtol=1e-13)
    np.testing.assert_allclose(grad(lambda y: ndual.jvp(f, (y,), (y,))[1])(x), H @ x + A.T @ c, rtol=1e-13)
    np.testing.assert_allclose(ndual.jvp(grad(f), (x,), (v,))[1], H @ v, rtol=1e-13)
    np.testing.assert_allclose(ndual.jvp(grad(f), (x,), (v,))[0], A.T @ c, rtol=1e-13)
    value, g = ndual.value_and_grad(lambda y: np.sum(ndual.value_and_grad(f)(y)[1] ** 2))(x)
    np.testing.assert_allclose(value, np.sum((A.T @ c) ** 2), rtol=1e-13)
    np.testing.assert_allclose(g, 2 * H @ A.T @ c, rtol=1e-13)
    J = jacobian(lambda y: jacobian(lambda z: np.sin(A @ z))(y))(x)
    np.testing.assert_allclose(J, -s[:, None, None] * A[:, :, None] * A[:, None, :], rtol=1e-13)
    np.testing.assert_allclose(ndual.derivative(ndual.derivative(lambda t: np.stack([t**3, t])))(2.0), [12, 0])


def test_prepared_objects_inside_and_outside():
    f = lambda y: np.sum(y**3)  # noqa: E731
    outside = ndual.prepare_gradient(f, X)
    np.testing.assert_allclose(jacobian(lambda y: outside(y)[1])(X), np.diag(6 * X), rtol=1e-14)
    np.testing.assert_allclose(outside(X)[1], 3 * X**2, rtol=1e-14)

    def inside(y):
        return np.sum(ndual.prepare_gradient(f, y)(y)[1])

    np.testing.assert_allclose(grad(inside)(X), 6 * X, rtol=1e-14)
    with pytest.raises(ndual.CacheMismatchError):
        grad(lambda y: np.sum(outside(y[1:])[1]))(X)
    push = ndual.prepare_derivative(f, X)
    np.testing.assert_allclose(grad(lambda y: push((y,), (y,))[1])(X), 9 * X**2, rtol=1e-14)


def test_one_function_with_plain_and_outer_arguments_in_turn():
    g = grad(lambda y: np.sum(np.exp(y)))
    for _ in range(2):
        np.testing.assert_allclose(g(X), np.exp(X))
        np.testing.assert_allclose(jacobian(g)(X), np.diag(np.exp(X)))
    h = grad(lambda t: t**3)
    for _ in range(2):
        assert h(2.0) == 12.0
        assert grad(h)(2.0) == 12.0


def test_structured_arguments_and_auxiliary_data():
    def outer(p):
        def inner(q):
            return q["a"] * np.sum(q["b"] ** 2), (q["a"], p["a"] * 1.0)

        g, aux = grad(inner, has_aux=True)(p)
        return np.sum(g["b"]) + aux[0] + aux[1]  # 2 a sum(b) + 2 a

    g = grad(outer)({"a": 2.0, "b": X})
    np.testing.assert_allclose(g["a"], 2 * X.sum() + 2)
    np.testing.assert_allclose(g["b"], np.full(3, 4.0))


def test_outputs_that_are_constant_inside():
    assert grad(lambda x: np.sum(grad(lambda y: x * 3.0)(1.0)) + x)(2.0) == 1.0
    value, g = ndual.value_and_grad(lambda x: ndual.value_and_grad(lambda y: x * x)(1.0)[0])(3.0)
    assert (value, g) == (9.0, 6.0)
    assert grad(lambda x: np.sum(ndual.stop_gradient(grad(lambda y: y * y * y)(x)) * x))(2.0) == 12.0


def test_complex_inside():
    f = lambda z: np.sum(np.abs(z) ** 2 * z.real)  # noqa: E731
    z = np.array([1.0 + 2.0j, -0.5 + 0.3j])

    def outer(t):
        g = grad(f)(z * t)  # t^2 (3 a^2 + b^2 + 2 a b i)
        return np.sum(g.real) + np.sum(g.imag)

    a, b = z.real, z.imag
    np.testing.assert_allclose(grad(outer)(1.5), 3 * np.sum(3 * a * a + b * b + 2 * a * b), rtol=1e-13)


def test_float32_stays_float32():
    x = X.astype(np.float32)
    h = hessian(lambda y: np.sum(y**3))(x)
    assert h.dtype == np.float32
    np.testing.assert_allclose(h, np.diag(6 * x), rtol=1e-6)
    assert type(grad(grad(lambda t: t * t * t))(np.float32(2.0))) is np.float32


def test_more_lanes_than_the_widest_scalar_class():
    n = 20
    x = np.linspace(0.1, 1, n)

    def f(y):
        total = 1.0
        for i in range(n):
            total = total * y[i]
        return total

    p = np.prod(x)
    expected = p / np.outer(x, x)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(hessian(f)(x), expected, rtol=1e-11, atol=1e-22)


def test_branches_see_the_value():
    f = lambda x: np.sum(np.where(x > 0, x**3, -(x**2))) + (x[0] ** 2 if x[0] > 0 else 0.0)  # noqa: E731
    np.testing.assert_allclose(hessian(f)(X), np.diag([3.0 + 2, -2.0, 7.2]), rtol=1e-14)


def test_numbers_of_an_inner_derivative_beside_plain_arrays():
    def outer(x):
        def inner(t):
            y = t * np.array([1.0, 2.0])
            y[0] = x * t
            return np.sum(y * x)

        return grad(inner)(3.0)  # x^2 + 2 x

    assert grad(outer)(5.0) == 12.0
