"""Arrays whose shape is set in place keep, for what was done before, the shape that they had."""

from __future__ import annotations

import numpy as np
import pytest

import ndual

MODES = ["forward", "reverse"]


def weights(*shape):
    return np.linspace(0.0, 1.0, int(np.prod(shape))).reshape(shape)


def argument(x):
    w = weights(*x.shape)
    z = x * w
    x.shape = x.shape[::-1]
    return np.sum(z * w) + np.sum(x[0] ** 2)


def result(x):
    w = weights(*x.shape)
    y = np.sin(x)
    z = y * 2
    y.shape = (*x.shape[::-1], 1)
    return np.sum(z * w) + np.sum(y**2)


def read_by_value(x):
    y = x * 1.0
    z = np.sin(y)
    y.shape = -1
    return np.sum(z * weights(*x.shape)) + y[1]


def structured(x):
    y = np.cumsum(x, axis=1)
    s = np.sort(y, axis=0)
    y.shape = (-1, 1)
    s.shape = x.shape[::-1]
    return np.sum(s @ np.ones(x.shape[0])) + np.sum(y[2:] * 3)


def more_axes(x):
    x = np.ravel(x)
    y = x * x
    x.shape = (2, 1, -1)
    return np.sum(y[1:] * 2) + np.sum(x[0] ** 2)


def written(x):
    y = x * 2.0
    z = np.exp(y)
    y.shape = -1
    y[1:] = y[:-1] * 0.5
    return np.sum(z * weights(*x.shape)) + np.sum(y * y)


FUNCTIONS = [argument, result, read_by_value, structured, more_axes, written]


@pytest.mark.parametrize("shape", [(2, 3), (2, 9000)])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_both_modes(f, shape):
    x = np.random.default_rng(5).uniform(0.2, 1.5, shape)
    v = np.random.default_rng(6).standard_normal(shape)
    before = x.copy()
    value, gradient = ndual.value_and_grad(f, mode="reverse")(x)
    step = 1e-6
    plain = [f((x + h * v).copy()) for h in (0.0, step, -step)]
    assert value == pytest.approx(plain[0], rel=1e-13)
    assert gradient.shape == shape
    assert np.vdot(gradient, v) == pytest.approx(ndual.jvp(f, (x,), (v,))[1], rel=1e-12)
    assert np.vdot(gradient, v) == pytest.approx((plain[1] - plain[2]) / (2 * step), rel=1e-5, abs=1e-5)
    assert x.shape == shape
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_second_derivatives(f, mode):
    x = np.random.default_rng(5).uniform(0.2, 1.5, (2, 3))
    v = np.random.default_rng(6).standard_normal((2, 3))
    nested = ndual.grad(lambda x: np.sum(ndual.grad(f, mode=mode)(x) * v), mode="reverse")(x)
    step = 1e-6
    ahead, behind = (ndual.grad(f, mode="reverse")(x + h * v) for h in (step, -step))
    np.testing.assert_allclose(nested, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_checkpoints_leave_shapes():
    @ndual.checkpoint
    def step(u):
        s = np.sin(u)
        u.shape = (3, 2)
        return s * 2

    with pytest.raises(
        ndual.NdualError, match=r"expected a checkpoint to leave the shapes .* \(2, 3\) set to \(3, 2\)"
    ):
        ndual.grad(lambda u: np.sum(step(u)), mode="reverse")(np.ones((2, 3)))


def test_containers_and_prepared_objects():
    def f(p):
        z = p["a"] * p["b"][0]
        p["a"].shape = (3, 2)
        return np.sum(z**2) + np.sum(p["a"][0])

    p = {"a": np.arange(6.0).reshape(2, 3), "b": [np.ones((2, 3))]}
    prepared = ndual.prepare_gradient(f, p, mode="reverse")
    for _ in range(2):
        found = prepared(p)[1]
        want = ndual.grad(f, mode="forward")(p)
        np.testing.assert_allclose(found["a"], want["a"])
        np.testing.assert_allclose(found["b"][0], want["b"][0])
