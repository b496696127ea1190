"""Tangents through a stored tape: against analytic values, and against the passes of forward mode."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ndual

X = np.array([0.4, -1.3, 2.2])
V = np.array([1.0, -2.0, 0.5])
A = np.array([[1.0, 2.0, -1.0], [0.5, -3.0, 4.0]])
S = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])


def test_a_product():
    value, push = ndual.linearize(lambda A, x: A @ np.sin(x), A, X)
    assert_array_equal(value, A @ np.sin(X))
    B = np.arange(6.0).reshape(2, 3)
    for _ in range(2):
        assert_allclose(push(B, V), B @ np.sin(X) + A @ (np.cos(X) * V), rtol=1e-15)
        assert_allclose(push(None, V), A @ (np.cos(X) * V), rtol=1e-15)
        assert_allclose(push(B, None), B @ np.sin(X), rtol=1e-15)


def test_it_runs_once_and_owns_what_it_needs():
    runs = []
    x = X.copy()

    def f(x):
        runs.append(1)
        return np.exp(x) * x[0]

    value, push = ndual.linearize(f, x)
    x[:] = value[:] = 0
    want = np.exp(X) * (X[0] * V + V[0])
    for _ in range(2):
        found = push(V)
        assert_allclose(found, want, rtol=1e-15)
        found[:] = 0
    assert len(runs) == 1


def test_structures_numbers_and_aux():
    def f(p, n):
        return {"a": p["x"] * p["y"], "b": (p["y"] ** 2, "text", 3.0)}, p["x"]

    _value, push, aux = ndual.linearize(f, {"x": X, "y": 2.0, "s": "t"}, np.arange(2), has_aux=True)
    assert_array_equal(aux, X)
    found = push({"x": V, "y": 0.5, "s": None}, None)
    assert_allclose(found["a"], 2 * V + 0.5 * X)
    assert_allclose(found["b"][0], 2.0)
    assert found["b"][1] is None
    assert found["b"][2] == 0.0
    assert_array_equal(push(None, None)["a"], np.zeros(3))
    _value, push = ndual.linearize(lambda t: np.sin(t) * t, 0.7)
    assert_allclose(push(2.0), 2 * (np.cos(0.7) * 0.7 + np.sin(0.7)), rtol=1e-15)


def writes(x):
    y = np.zeros(5)
    y[1:4] = x
    y[0] = x[2] * x[1]
    y[2:] *= y[:3]
    y[[4, 0]] = y[[0, 3]] * 2
    z = y[::-1]
    z[1:] += z[:-1]
    y[y > 1] = 0.5
    for i in range(1, 5):
        y[i] = y[i - 1] * 0.5 + np.sin(y[i])
    return y


def steps(x):
    u = np.concatenate([x, x[::-1] ** 2])
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u *= np.cos(u)
    return u.reshape(2, 3).T


def linear_algebra(x):
    m = S + np.outer(x, x)
    w, v = np.linalg.eigh(m)
    return np.linalg.solve(m, x) + w + np.abs(v[0]) + np.linalg.inv(m) @ x + np.sum(np.linalg.cholesky(m))


def shapes(x):
    a = np.stack([x, x * 2, np.roll(x, 1)])
    b = np.where(a > 0, a, a**2) + np.max(a, axis=0) + np.cumsum(a, axis=1)
    return np.sort(b.ravel())[::2], np.linalg.norm(a), np.einsum("ij,ik->jk", a, b), np.mean(b, axis=1), np.prod(x)


def numbers(x):
    s, out = 0.0, []
    for i in range(3):
        s = s * x[i] + np.sin(x[i]) / (1 + s * s)
        out.append(s if s > 0 else -s * x[0])
    return np.array(out), s


def complexes(x):
    z = np.exp(1j * x) * (1 + 2j)
    return z, np.abs(z) ** 2 + z.imag * x, np.fft.fft(x), np.fft.ifft(z).real


@pytest.mark.parametrize("f", [writes, steps, linear_algebra, shapes, numbers, complexes])
def test_as_forward_mode(f):
    value, tangent = ndual.jvp(f, (X,), (V,))
    found, push = ndual.linearize(f, X)
    values, tangents, pushed = [entry if isinstance(entry, tuple) else (entry,) for entry in (found, tangent, push(V))]
    for v, w, g in zip(values, value if isinstance(value, tuple) else (value,), pushed, strict=True):
        assert_allclose(v, w, rtol=1e-14)
        assert g.dtype == np.asarray(v).dtype
    for t, g in zip(tangents, pushed, strict=True):
        assert_allclose(g, t, rtol=1e-12, atol=1e-14)
    # The same tape the other way: <w, push(v)> = <pullback(w), v>, also after one another on one tape.
    rng = np.random.default_rng(1)
    ws = [rng.standard_normal(np.shape(g)) * (1 + 1j if np.iscomplexobj(g) else 1) for g in pushed]
    _, pullback = ndual.vjp(f, X)
    back = pullback(tuple(ws) if isinstance(found, tuple) else ws[0])[0]
    left = sum(np.vdot(w, g).real for w, g in zip(ws, pushed, strict=True))
    assert_allclose(left, back @ V, rtol=1e-12)


def test_float32_and_float16():
    for dtype, tol in ((np.float32, 1e-6), (np.float16, 2e-3)):
        x = X.astype(dtype)
        value, push = ndual.linearize(lambda x: np.sin(x) * x + np.sum(x), x)
        found = push(V.astype(dtype))
        assert found.dtype == value.dtype == dtype
        assert_allclose(found, (np.cos(X) * X + np.sin(X)) * V + V.sum(), rtol=tol, atol=tol)


def test_inside_of_derivatives():
    def f(x):
        _value, push = ndual.linearize(lambda y: y**3 * x[0], x)
        return np.sum(push(x))  # 3 x0 x³: the inner derivative takes x[0] as a constant

    want = 9 * X[0] * X**2 + np.array([3 * np.sum(X**3), 0, 0])
    assert_allclose(ndual.grad(f, mode="forward")(X), want, rtol=1e-13)
    assert_allclose(ndual.grad(f, mode="reverse")(X), want, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndual.linearize(np.sin), ValueError, "linearize expects the arguments of the function after it"),
        (lambda: ndual.linearize(np.sin, X)[1](), ValueError, "a tangent for each of the 1 primals; got 0"),
        (
            lambda: ndual.linearize(np.sin, X)[1](np.ones(2)),
            ValueError,
            r"the shape of the argument, \(3,\); got \(2,\)",
        ),
        (lambda: ndual.linearize(lambda x, n: x * n, 1.0, True)[1](1.0, 1.0), TypeError, r"None for args\[1\]"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ndual.NdualError)


def test_zero_times_infinity_in_a_product():
    """A zero tangent annihilates an infinite factor, as in forward mode."""
    B = np.array([[np.inf, 1.0], [2.0, 3.0]])
    A, t = np.ones((1, 2)), np.array([[0.0, 1.0]])
    _, push = ndual.linearize(lambda A: A @ B, A)
    assert_array_equal(push(t), [[2.0, 3.0]])
    assert_array_equal(push(t), ndual.jvp(lambda A: A @ B, (A,), (t,))[1])
