"""Functions told to write into their arguments: what they overwrite is not what derivatives are computed from."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.linalg

import ndual

A = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, 1.0], [0.0, 1.0, 6.0]])
W = np.arange(1.0, 10.0).reshape(3, 3)
INVERSE = np.linalg.inv(A)
OVERWRITING = {
    "det": (lambda a: scipy.linalg.det(a, overwrite_a=True), np.linalg.det(A) * INVERSE.T),
    "inv": (lambda a: np.sum(W * scipy.linalg.inv(a, True)), -INVERSE.T @ W @ INVERSE.T),
    "svdvals": (lambda a: np.sum(scipy.linalg.svdvals(a, overwrite_a=True)), np.eye(3)),
    "solve": (
        lambda a: np.sum(scipy.linalg.solve(a, np.asfortranarray(W), overwrite_a=True, overwrite_b=True)),
        -np.outer(INVERSE.T @ np.ones(3), (INVERSE @ W).sum(axis=1)),
    ),
    "right side": (
        lambda b: np.sum(W * scipy.linalg.solve(A, b, overwrite_a=True, overwrite_b=True)),
        INVERSE.T @ W,
    ),
    "median": (lambda a: 2 * np.median(a[:, 2], overwrite_input=True), np.array([[0, 0, 0], [0, 0, 2], [0, 0, 0]])),
    "percentile": (
        lambda a: np.sum(np.percentile(a, 100, axis=0, overwrite_input=True) * [1.0, 2.0, 3.0]),
        np.diag([1.0, 2.0, 3.0]),
    ),
}


@pytest.mark.parametrize("name", OVERWRITING)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunk", [None, 2])
def test_overwritten_arguments(name, order, chunk):
    f, expected = OVERWRITING[name]
    constant = A.copy()
    for g in (f, lambda a: f(np.array(1 * a, order=order, copy=True))):
        a = np.array(A, order=order)
        np.testing.assert_allclose(ndual.grad(g, chunk_size=chunk)(a), expected, atol=1e-13)
        np.testing.assert_array_equal(a, A)
    np.testing.assert_array_equal(A, constant)


def test_second_derivative_of_an_overwriting_function():
    second = ndual.hessian(lambda a: scipy.linalg.det(a, overwrite_a=True))(np.asfortranarray(A[:2, :2]))
    expected = [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_allclose(second.reshape(4, 4), expected, atol=1e-14)


C = np.array([0.5, 4.0, -2.0])
WRITERS = {
    "at": (lambda c: np.multiply.at(c, [0, 0], 3.0), [4.5, 4.0, -2.0]),
    "at of float32": (lambda c: np.add.at(c, slice(0, 2), np.float32(0.5)), [1.0, 4.5, -2.0]),
    "at of itself": (lambda c: np.add.at(c[1:], [0, 0], c[1:2]), [0.5, 12.0, -2.0]),
    "clip": (lambda c: np.clip(c, 0, 1, c), [0.5, 1.0, 0.0]),
    "cumsum": (lambda c: np.cumsum(c, 0, None, c), [0.5, 4.5, 2.5]),
    "dot": (lambda c: np.dot(A, [1.0, 0.0, 1.0], c), [4.0, 2.0, 6.0]),
    "round": (lambda c: np.round(c, 0, c), [0.0, 4.0, -2.0]),
    "nan_to_num": (lambda c: np.nan_to_num(c, False), [0.5, 4.0, -2.0]),
    "copyto": (lambda c: np.copyto(c, [[1.0, 2.0, 3.0]]), [1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_writers_of_constant_arguments(name):
    write, expected = WRITERS[name]

    def f(x, c):
        write(c)
        return np.sum(c * x)

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(ndual.grad(f)(x, C.copy()), expected)
    np.testing.assert_array_equal(ndual.jvp(f, (x, C.copy()), (np.ones(3), None))[1], np.sum(expected))


@pytest.mark.parametrize("n", [1, 3])
def test_ufunc_at_leaves_the_callers_memory_alone(n):
    def f(x, c):
        np.add.at(c, [0, 0], 1.0)
        return np.sum(c * x)

    x, c = np.arange(1.0, n + 1), np.ones(n)
    for given in (c, c[::-1]):
        np.testing.assert_array_equal(ndual.grad(f, chunk_size=1)(x, given), [3.0, 1.0, 1.0][:n])
        np.testing.assert_array_equal(ndual.jvp(f, (x, given), (np.ones(n), None))[1], n + 2.0)
        np.testing.assert_array_equal(c, np.ones(n))
    with pytest.raises(ndual.errors.AliasError):
        ndual.jvp(f, (x, x[::-1]), (np.ones(n), None))
    np.testing.assert_array_equal(x, np.arange(1.0, n + 1))


def test_masked_copies_drop_leading_axes():
    def f(x):
        y = 1 * x
        np.copyto(y, x[None] ** 2, where=np.array([True, False, True]))
        return np.sum(y)

    np.testing.assert_array_equal(ndual.grad(f)(np.array([1.0, 2.0, 3.0])), [2.0, 1.0, 6.0])


def test_products_of_nothing():
    def f(x):
        empty = x[None][:0]
        return np.prod(empty) * x[0] + np.sum(np.prod(empty, axis=0) * x) + np.sum(np.prod(empty, axis=1))

    np.testing.assert_array_equal(ndual.grad(f)(np.array([1.0, 2.0, 3.0])), [2.0, 1.0, 1.0])


def test_axes_as_an_array():
    def f(x):
        return np.sum(W * np.outer(x, x**2).transpose(np.array([1, 0]))) + np.sum(x.transpose(np.array([0])))

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ndual.grad(f)(x), W.T @ x**2 + 2 * x * (W @ x) + 1)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_overlapping_writes_into_a_reversed_argument(mode):
    """NumPy copies in the order of the memory here, and so must the derivative."""
    b = np.arange(1.0, 7.0)[::-1].copy()[::-1]
    w = np.arange(6.0)

    def f(b):
        b[::2] = b[:3]
        return np.sum(b * w)

    want = [np.array(f(np.eye(6)[k][::-1].copy()[::-1])) for k in range(6)]  # f is linear
    for chunk in (None, 1, 4) if mode == "forward" else (None,):
        np.testing.assert_array_equal(ndual.grad(f, mode=mode, chunk_size=chunk)(b), want)


MATRIX = np.random.default_rng(0).standard_normal((5, 5))
OUTPUTS = {
    "multiply": lambda z, w: np.multiply(z, 2.0, out=(z,)),
    "exp": lambda z, w: np.exp(z, out=(z,)),
    "matmul": lambda z, w: np.matmul(MATRIX, z, out=(w,)),
    "clip": lambda z, w: np.clip(z, 0.2, 0.7, out=(z,)),
    "modf": lambda z, w: np.modf(3 * z, out=(z, w)),
    "divmod": lambda z, w: np.divmod(3 * z, 0.7, out=(w, z)),
    "part of divmod": lambda z, w: np.divmod(3 * z, 0.7, out=(None, z)),
    "modf by position": lambda z, w: np.modf(3 * z, z, w),
    "divmod by position": lambda z, w: np.divmod(3 * z, 0.7, w, z),
    "multiply by position": lambda z, w: np.multiply(z, 2.0, w),
    "by position": lambda z, w: np.cumsum(z, 0, None, w),
    "none by position": lambda z, w: np.copyto(w, np.take(z, [0, 1, 9, 3, 2], None, None, "clip")),
    "clip by position": lambda z, w: np.clip(z, 0.2, 0.7, w),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_in_tuples_and_by_position(name, mode):
    x, step = np.linspace(0.1, 1.0, 5), 1e-6

    def f(x):
        z, w = np.sin(x), np.zeros_like(x)
        OUTPUTS[name](z, w)
        return np.sum(z * z) + np.sum(w * w)

    value, found = ndual.value_and_grad(f, mode=mode)(x)
    assert value == pytest.approx(f(x), rel=1e-14)
    want = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(found, want, atol=1e-8)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, **said: np.cumsum(x, **said),
        lambda x, **said: np.cumsum(x, 0, None, **said),
        lambda x, **said: np.dot(x, x, **said),
        lambda x, **said: np.take(x, [1, 0, 1], **said),
        lambda x, **said: np.trace(x[:4].reshape(2, 2), **said),
        lambda x, **said: np.outer(x, x, **said),
        lambda x, **said: np.exp(x, **said),
    ],
)
def test_no_output_by_name_is_no_output(call):
    x = np.linspace(0.3, 2.0, 5)
    for mode in ("forward", "reverse"):
        value, gradient = ndual.value_and_grad(lambda x: np.sum(call(x, out=None)), mode=mode)(x)
        assert value == np.sum(call(x))
        np.testing.assert_array_equal(gradient, ndual.grad(lambda x: np.sum(call(x)), mode=mode)(x))


def test_what_a_ufunc_means_anyway_may_be_said():
    x = np.linspace(0.3, 2.0, 5)
    kind = "".join(["same", "_kind"])
    for true in (True, np.True_):
        said = {"casting": kind, "order": "K", "subok": True, "where": true, "dtype": None}
        for f in (np.modf, lambda x, **said: np.divmod(x, 0.7, **said), lambda x, **said: (np.sin(x, **said), x)):
            saying = ndual.jvp(functools.partial(f, **said), (x,), (x,))
            for got, want in zip(saying, ndual.jvp(f, (x,), (x,)), strict=True):
                np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(ndual.grad(lambda x: np.vecdot(x, x, keepdims=False))(x), 2 * x)
    outer = ndual.grad(lambda x: np.sum(np.multiply.outer(x, x, dtype=None, casting=kind)))(x)
    np.testing.assert_allclose(outer, np.full(5, 2 * np.sum(x)), rtol=1e-14)
    with pytest.raises(ndual.NoRuleError, match=r"numpy\.matmul: the derivative does not cover these arguments: dtype"):
        ndual.grad(lambda x: np.matmul(x, x, dtype=np.float32))(x)
    with pytest.raises(ndual.NoRuleError, match=r"numpy\.vecdot: the derivative does not cover these arguments: axes"):
        ndual.grad(lambda x: np.vecdot(x, x, axes=()))(x)


BY_NAME = {
    "dot": lambda x, w: np.dot(b=x, a=w),
    "dot constant first": lambda x, w: np.dot(b=w, a=x),
    "tensordot": lambda x, w: np.tensordot(b=x, a=w, axes=1),
    "correlate": lambda x, w: np.correlate(v=x[0], a=w[1], mode="full"),
    "convolve": lambda x, w: np.convolve(v=x[0], a=w[1]),
    "kron": lambda x, w: np.kron(b=x, a=w),
    "outer": lambda x, w: np.outer(b=x, a=w),
    "inner": lambda x, w: np.inner(w, x.T),
    "transpose": lambda x, w: np.transpose(axes=(1, 0), a=x) @ w,
    "roll": lambda x, w: np.roll(shift=1, a=x) * w,
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("call", BY_NAME)
def test_arrays_by_name_are_those_of_their_names(call, mode):
    f = BY_NAME[call]
    x = np.array([[1.0, 0.3, -0.2], [0.7, 2.0, 0.1], [0.5, -1.0, 3.0]])
    w = np.arange(9.0).reshape(3, 3) - 2.5
    c = np.cos(np.arange(f(x, w).size)).reshape(f(x, w).shape)
    value, gradient = ndual.value_and_grad(lambda x: np.sum(f(x, w) * c), mode=mode)(x)
    assert value == pytest.approx(np.sum(f(x, w) * c), rel=1e-13)
    units = np.eye(9).reshape(9, 3, 3)
    want = [np.sum((f(x + u, w) - f(x - u, w)) * c) / 2 for u in units]  # exact: f is linear
    np.testing.assert_allclose(gradient.ravel(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("mask", [1, 0, 2, 1.0, True, False, [1, 0], [[1], [0]], (0, 1), np.array([True, False])])
def test_masks_that_are_no_arrays_of_booleans(mask, mode):
    def one(x):
        out = x * 9.0
        np.sin(x, out=out, where=mask)
        return np.sum(out * np.arange(1.0, 5.0).reshape(2, 2))

    def two(x):
        out = x * 9.0
        np.multiply(x, x, out=out, where=mask)
        return np.sum(out)

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    on = np.broadcast_to(np.asarray(mask, bool), x.shape)
    value, gradient = ndual.value_and_grad(one, mode=mode)(x)
    assert value == pytest.approx(one(x))
    np.testing.assert_allclose(gradient, np.where(on, np.cos(x), 9.0) * np.arange(1.0, 5.0).reshape(2, 2))
    np.testing.assert_allclose(ndual.grad(two, mode=mode)(x), np.where(on, 2 * x, 9.0))


def test_masks_of_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="expected where= as booleans; got an array of int64"):
        ndual.grad(lambda x: np.sum(np.sin(x, out=x * 2.0, where=np.array([1, 0]))))(np.ones(2))
