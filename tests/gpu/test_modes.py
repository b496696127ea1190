"""Derivatives of functions of arrays on a device, in both modes and of second order, are those of the host."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from fake_device import Device, FakeStorage, Namespace, inside, outside

import ndual
from ndual import _core
from ndual._core.storage import HOST

X = np.arange(1.0, 13.0).reshape(3, 4) / 4
V = np.linspace(0.3, 1.4, 5)


def shifted(x):
    y = x.ravel() * 1.0
    y[1:] = y[:-1] * 2
    y[1:] = y[:-1]
    return np.sum(y * y)


def scattered(x):
    y = x * 1.0
    y[[0, 0, 2]] = x[[0, 1, 2]]
    return np.sum(y * y)


def masked(x):
    y = x * 1.0
    y[x > 1] = 0.0
    return np.sum(y * y)


def row_of_row(x):
    y = x.copy()
    y[0] = y[1] * 2
    return np.sum(y * y)


def in_place(x):
    y = x * 1.0
    y *= x
    y[1:] *= 3.0
    return np.sum(y**3)


def argument(x):
    x[1:] *= 3.0
    return np.sum(x**3)


def buffer(x):
    z = np.zeros_like(x)
    view = z[1:]
    z[0] = x[0] ** 2
    view[0] = x[1] * x[0]
    return np.sum(z * x)


def added_at(x):
    y = x * 1.0
    np.add.at(y, [0, 0, 2], x[[0, 1, 2]])
    return np.sum(y**3)


def summand(x):
    """The cotangents of the operands of a sum are one array, to one of which more is added."""
    a, b = x * 1.0, x * 2.0
    d = a * a
    return np.sum(d) + np.sum((a + b) * x)


def real_parts(x):
    """A view of the real parts has half the cells of the lanes that it is a view of."""
    z = x + 1j * x**2
    z.real *= 2
    z.imag[0] = x[1]
    return np.sum(abs(z * z) ** 2)


FUNCTIONS = {
    "sin": lambda x: np.sum(np.sin(x)),
    "chain": lambda x: np.sum(np.sin(np.cos(np.exp(x)))),
    "polynomial": lambda x: np.sum(x * x + 2 * x - 1 / x),
    "cells": lambda x: np.sum(x[0] * x[1]) + x[2, 3] * x[0, 0],
    "gather": lambda x: np.sum(x[[0, 2, 0]] * np.sum(x)),
    "views": lambda x: np.sum(np.outer(x.reshape(-1), x.T.ravel()) ** 2),
    "matmul": lambda x: np.sum((x @ x.T) ** 2),
    "concatenate": lambda x: np.sum(np.concatenate([x, x * 2, x.T.reshape(3, 4)], axis=1) ** 2),
    "extremes": lambda x: np.sum(np.max(x, axis=1) * np.min(x)),
    "cumsum": lambda x: np.sum(np.cumsum(x, axis=1) ** 2),
    "prod": lambda x: np.prod(x),
    "statistics": lambda x: np.var(x) + np.mean(x, axis=0)[1],
    "where": lambda x: np.sum(np.where(x > 1, x * x, x)),
    "sort": lambda x: np.sum(np.sort(x[::-1], axis=0) ** 2),
    "solve": lambda x: np.sum(np.linalg.solve(np.sin(x[:, :3]) + 4 * np.cos(x[:, 1:] * x[:, 1:]), x[:, 3])),
    "einsum": lambda x: np.sum(np.einsum("ij,kj->ik", x, x) ** 2),
    "norm": lambda x: np.linalg.norm(x),
    "broadcast": lambda x: np.sum(x * x[0] + x[:, :1]),
    "shifted": shifted,
    "scattered": scattered,
    "masked": masked,
    "row_of_row": row_of_row,
    "in_place": in_place,
    "argument": argument,
    "buffer": buffer,
    "added_at": added_at,
    "summand": summand,
    "array": lambda x: np.sum(np.array([x[0, 0], x[1, 1] * 2]) ** 2),
    "array_of_rows": lambda x: np.sum(np.array([x[0], x[1] * 2, x[2] * x[0]]) ** 2),
    "nested_array": lambda x: np.sum(np.asarray([[x[0, 0], 1.0, 2], [x[0, 1], x[1, 2] * x[0, 0], 0.5]]) ** 3),
    "stack_of_cells": lambda x: np.sum(np.stack([x[0, 0], x[1, 1] * 2]) ** 2),
    "hstack_of_cells": lambda x: np.sum(np.hstack([x[0, 0], x[0], x[1, 1] * 2]) ** 2),
    "logsumexp": lambda x: scipy.special.logsumexp(x * x) + np.sum(scipy.special.logsumexp(x, axis=1, keepdims=True)),
    "softmax": lambda x: np.sum(scipy.special.softmax(x, axis=0) * x) + np.sum(scipy.special.log_softmax(x)),
    "clip": lambda x: np.sum(np.clip(x, 0.5, 1.5) ** 2),
    "complex": lambda x: np.sum(np.real(np.conj(x + 1j * x[::-1]) @ (x + 2j * x).T) ** 2),
    "real_parts": real_parts,
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(memory, name, mode):
    if name == "scattered" and memory.xp.__name__ == "cupy":
        pytest.skip("which of several writes to one cell counts, CuPy does not say")
    f = FUNCTIONS[name]
    given = memory.array(X)
    value, gradient = ndual.value_and_grad(f, mode=mode)(given)
    expected, reference = ndual.value_and_grad(f, mode=mode)(X.copy())
    assert isinstance(gradient, memory.xp.ndarray)
    np.testing.assert_allclose(memory.host(value), expected, rtol=1e-12)
    np.testing.assert_allclose(memory.host(gradient), reference, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(memory.host(given), X)


def real_parts_of_a_row(x):
    return real_parts(np.stack([x, x * x]))


SECOND = {
    "sin": lambda x: np.sum(np.sin(x) * x),
    "prod": np.prod,
    "cells": lambda x: x[0] * x[1] ** 2 + np.sum(x[[0, 2]]) * x[3],
    "outer": lambda x: np.sum(np.outer(x, x) @ x),
    "concatenate": lambda x: np.sum(np.concatenate([x, x * x]) ** 2),
    "cumsum": lambda x: np.sum(np.cumsum(x) ** 3),
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "var": np.var,
    "max": lambda x: np.max(x) ** 2 * np.sum(x),
    "buffer": buffer,
    "where": lambda x: np.sum(np.where(x > 0.6, x**3, x)),
    "solve": lambda x: np.sum(np.linalg.solve(np.outer(x, x) + np.diag(x + 1), x)),
    "fft": lambda x: np.sum(abs(np.fft.fft(x)) ** 2 * x) + np.sum(np.real(np.fft.ifft(np.fft.fft(x) ** 2)) * x),
    "real_parts": real_parts_of_a_row,
    "cholesky": lambda x: np.sum(np.linalg.cholesky(np.outer(x, x) + np.diag(x + 1)) ** 3),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", SECOND)
def test_hessians(memory, name, mode):
    f = SECOND[name]
    found = ndual.hessian(f, mode=mode)(memory.array(V))
    np.testing.assert_allclose(memory.host(found), ndual.hessian(f)(V), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("count", [1, 2])
def test_hessians_of_what_does_not_move(memory, dtype, mode, count):
    def f(*x):
        y = np.ceil(x[0]) if count == 1 else np.copysign(*x)
        return np.sum(y * y)

    xs = [V.astype(dtype), V.astype(dtype) + 1][:count]
    found = ndual.hessian(f, argnums=tuple(range(count)), mode=mode)(*map(memory.array, xs))
    expected = ndual.hessian(f, argnums=tuple(range(count)))(*xs)
    for row, reference in zip(memory.host(found), expected, strict=True):
        for got, there in zip(row, reference, strict=True):
            np.testing.assert_allclose(got, there)


class Turning(FakeStorage):
    """With what a kernel of second order computes, by NumPy, and the rows that it was asked for."""

    def __init__(self):
        super().__init__(Namespace())
        self.rows = []

    def turned(self, row, i, values, lanes, value, w, tw, width):
        self.rows.append(row.name)
        x, t, y, w, tw = outside((values, lanes, value, w, tw))
        partial = HOST.form(row, "real", i)(x, y)
        dual = np.zeros((width, *np.broadcast_shapes(*map(np.shape, (*x, w)))))
        for j, tangent in enumerate(t):
            if tangent is not None:
                tangent = tangent.reshape(width, *(1,) * (dual.ndim - tangent.ndim), *tangent.shape[1:])
                dual += HOST.form(row, "second", i * row.nin + j)(x, y) * tangent * w
        return inside(partial * w), inside(dual if tw is None else dual + partial * tw)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", SECOND)
def test_hessians_by_kernels_of_second_order(name, mode):
    storage = Turning()
    _core.register_storage(storage)
    try:
        found = ndual.hessian(SECOND[name], mode=mode)(Device(V.copy()))
    finally:
        _core.unregister_storage(storage)
    np.testing.assert_allclose(found._hidden, ndual.hessian(SECOND[name])(V), rtol=1e-10, atol=1e-12)
    if name in ("sin", "logsumexp", "where"):
        assert {"sin": "sin", "logsumexp": "exp", "where": "power"}[name] in storage.rows


OUTER = {
    "logsumexp": SECOND["logsumexp"],
    "cholesky": SECOND["cholesky"],
    "broadcast": lambda x: np.sum(np.broadcast_to(x, (3, 5)) ** 3) + np.sum(np.broadcast_to(x[:, None], (5, 2)) ** 2),
    "recurrence": lambda x: x[0] * x[1] + x[2] * (x[0] * x[1]) ** 2,
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", OUTER)
def test_gradient_of_a_gradient(memory, name, mode):
    def outer(x):
        return np.sum(ndual.grad(OUTER[name], mode=mode)(x) ** 2)

    found = ndual.grad(outer, mode="reverse")(memory.array(V))
    np.testing.assert_allclose(memory.host(found), ndual.grad(outer)(V), rtol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_numbers_beside_arrays(memory, mode):
    def f(x, s):
        return np.sum(np.sin(x * s)) * s

    value, (dx, ds) = ndual.value_and_grad(f, argnums=(0, 1), mode=mode)(memory.array(X), 1.5)
    expected, (rx, rs) = ndual.value_and_grad(f, argnums=(0, 1), mode=mode)(X, 1.5)
    np.testing.assert_allclose(memory.host(value), expected)
    np.testing.assert_allclose(memory.host(dx), rx)
    assert isinstance(ds, float)
    assert ds == pytest.approx(rs)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_structures(memory, mode):
    found = ndual.grad(lambda d: np.sum(d["a"] * d["b"]), mode=mode)({"a": memory.array(X), "b": 2.0})
    np.testing.assert_array_equal(memory.host(found["a"]), np.full_like(X, 2.0))
    assert found["b"] == pytest.approx(X.sum())


def test_the_other_operators(memory):
    x = memory.array(V)
    _, tangent = ndual.jvp(lambda x: x * x, (x,), (memory.array(np.ones(5)),))
    np.testing.assert_allclose(memory.host(tangent), 2 * V)
    _value, pullback = ndual.vjp(lambda x: x * x, x)
    np.testing.assert_allclose(memory.host(pullback(memory.array(V))[0]), 2 * V * V)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(memory.host(ndual.jacobian(lambda x: x * x, mode=mode)(x)), np.diag(2 * V))
        prepared = ndual.prepare_gradient(lambda x: np.sum(x * x), x, mode=mode)
        for k in (1.0, 2.0):
            np.testing.assert_allclose(memory.host(prepared(memory.array(k * V))[1]), 2 * k * V)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_host_and_device_do_not_mix(memory, mode):
    with pytest.raises((ndual.NdualError, TypeError), match=r"memory|device"):
        ndual.grad(lambda x: np.sum(x * X), mode=mode)(memory.array(X))


MIXED = {
    "multiply": (lambda x: np.sum(x * X), r"multiply: .*argument 1, .*float64 of shape \(3, 4\) in host memory"),
    "hypot": (lambda x: np.sum(np.hypot(X[0], x)), r"hypot: .*argument 0, .*float64 of shape \(4,\) in host memory"),
    "matmul": (lambda x: np.sum(x @ X.T), r"matmul: .*argument 1, .*float64 of shape \(4, 3\) in host memory"),
    "solve": (lambda x: np.linalg.solve(X[:, :3], x), r"solve: .*argument 0, .*float64 of shape \(3, 3\)"),
    "array": (lambda x: np.array([x[0], X[0]]), r"array: .*argument 1, .*float64 of shape \(4,\) in host memory"),
    "assignment": (lambda x: (x * 1.0).__setitem__(0, X[0]), r"assignment: .*the value, .*float64 of shape \(4,\)"),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", MIXED)
def test_errors_name_the_operand_and_its_memory(memory, name, mode):
    f, text = MIXED[name]
    device = "device 0" if memory.xp.__name__ == "cupy" else "on a device"
    with pytest.raises(ndual.NdualError, match=text) as caught:
        ndual.jacobian(f, mode=mode)(memory.array(X))
    assert device in str(caught.value)
    assert "test_modes.py" in str(caught.value)


def test_a_prepared_object_is_of_one_memory(memory):
    prepared = ndual.prepare_gradient(lambda x: np.sum(x * x), memory.array(X))
    with pytest.raises(ndual.CacheMismatchError, match="array of shape"):
        prepared(X)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_dtypes(memory, dtype, mode):
    x = (X + (1j * X[::-1] if dtype[0] == "c" else 0)).astype(dtype)
    found = ndual.grad(lambda x: np.sum(abs(x * x + np.exp(x))), mode=mode)(memory.array(x))
    assert found.dtype == dtype
    reference = ndual.grad(lambda x: np.sum(abs(x * x + np.exp(x))), mode=mode)(x)
    np.testing.assert_allclose(memory.host(found), reference, rtol=1e-12 if dtype in ("f8", "c16") else 1e-5)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("part", [slice(None), slice(None, None, -1)])
def test_arguments_that_share_memory_are_not_written_to(memory, mode, part):
    def f(x, y):
        x[0] *= 2
        return np.sum(x * y)

    x = memory.array(X)
    gradient = ndual.grad(f, argnums=(0, 1), mode=mode)
    with pytest.raises(ndual.AliasError, match="share no memory"):
        gradient(x, x[part])
    apart = gradient(x[:1], x[1:2])
    np.testing.assert_array_equal(memory.host(apart[0]), 2 * X[1:2])


def test_what_a_pullback_remembers_is_its_own(memory):
    x = memory.array(X)
    _, pullback = ndual.vjp(lambda x: x * x, x)
    _, pushforward = ndual.linearize(lambda x: x * x, x)
    x[0] = 99.0
    ones = memory.array(np.ones_like(X))
    np.testing.assert_array_equal(memory.host(pullback(ones)[0]), 2 * X)
    np.testing.assert_array_equal(memory.host(pushforward(ones)), 2 * X)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_look_at_every_operation(memory, mode):
    with ndual.config(debug=True):
        found = ndual.grad(FUNCTIONS["row_of_row"], mode=mode)(memory.array(X))
        np.testing.assert_allclose(memory.host(found), ndual.grad(FUNCTIONS["row_of_row"])(X))
        with pytest.raises(ndual.NotANumberError, match="value of log"), np.errstate(all="ignore"):
            ndual.grad(lambda x: np.sum(np.log(x)), mode=mode)(memory.array(-X))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_numbers_on_a_device_and_on_the_host(memory, mode):
    found = ndual.hessian(lambda x: np.sin(x) * x, mode=mode)(memory.array(1.5))
    np.testing.assert_allclose(memory.host(found), 2 * np.cos(1.5) - 1.5 * np.sin(1.5))
    c = memory.array(X)
    np.testing.assert_allclose(memory.host(ndual.jacobian(lambda t: c * t * t, mode=mode)(1.5)), 3 * X)
