"""How results lie in memory, which decides what is a view of them, and writes whose place has a say in the value."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import ndual
from ndual import _core

MODES = ["forward", "reverse"]


def laid(rng, shape, axes, backwards):
    x = rng.uniform(-1, 1, [shape[a] for a in axes]).transpose(np.argsort(axes))
    return x[tuple(slice(None, None, -1 if b else 1) for b in backwards)]


@pytest.mark.parametrize(
    "f",
    [
        np.add, np.maximum, lambda x, y: y - x, lambda x, y: np.where(x > y, x, y), lambda x, y: np.sin(x),
        lambda x, y: x.copy("K"), lambda x, y: np.zeros_like(x), lambda x, y: np.gradient(x, axis=0),
        lambda x, y: np.unwrap(x, axis=0), lambda x, y: np.insert(x, 0, 0.5, axis=0), lambda x, y: np.sum(x, 0),
        lambda x, y: np.concatenate([x, y]), lambda x, y: x[[0, 0]],
    ],
)  # fmt: skip
def test_results_lie_as_in_numpy(f):
    rng = np.random.default_rng(3)
    for shape, axes, other in itertools.product(
        [(2, 3, 4), (3, 1, 2)], itertools.permutations(range(3)), itertools.permutations(range(3))
    ):
        x, y = (laid(rng, shape, a, rng.random(3) < 0.2) for a in (axes, other))
        want = f(x, y)
        with _core.Level(1) as level:
            got = f(*(_core.dual(v, np.ones((1, *v.shape)), level) for v in (x, y)))
            lie = [[s for s, n in zip(a.strides, a.shape, strict=True) if n > 1] for a in (got, want)]
        assert lie[0] == lie[1], (x.strides, y.strides)


@pytest.mark.parametrize("mode", MODES)
def test_a_view_of_a_result_is_written_to(mode):
    """Operands that disagree give C order, so that the flattened result is a view of it."""
    x, w = np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3)), np.arange(1.0, 7.0).reshape(2, 3)

    def f(x):
        y = x * w
        y.reshape(-1)[0] = 5.0
        return np.sum(y)

    value, gradient = ndual.value_and_grad(f, mode=mode)(x)
    assert value == f(x) == 95.0
    w[0, 0] = 0.0
    np.testing.assert_array_equal(gradient, w)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("join", [np.concatenate, lambda parts, out: np.stack([p[0] for p in parts], out=out[:2])])
def test_joins_of_parts_of_the_target(mode, join):
    """NumPy copies one part after the other, so that the second one is read after the first was written."""

    def f(x):
        y = x * 1.0
        join([y[1:], y[:1]], out=y)
        return np.sum(y * np.array([1.0, 10.0, 100.0]))

    x = np.array([1.0, 2.0, 3.0])
    value, gradient = ndual.value_and_grad(f, mode=mode)(x)
    assert value == f(x)
    np.testing.assert_array_equal(gradient, [f(row) for row in np.eye(3)])


def test_precision_of_sums_is_that_of_their_place():
    x = np.float32([1.0, 2.0**-25])

    def f(x, dtype, add):
        out = np.zeros((1,), dtype)
        add(x.reshape(1, 2), axis=1, out=out)
        return out[0]

    for add in (np.sum, np.mean, np.add.reduce):
        assert ndual.value_and_grad(f)(x, np.float64, add)[0] == f(x, np.float64, add) != f(x, np.float32, add)
        wide = x.astype(float)
        assert ndual.value_and_grad(f)(wide, np.float32, add)[0] == f(wide, np.float32, add)


def test_inserted_values_take_the_type_of_the_array():
    f = lambda x, s: np.insert(x, 1, s)  # noqa: E731
    x, s = np.float32([1.0, 2.0]), np.float64(0.1)
    value, _ = ndual.jvp(f, (x, s), (x, s))
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, f(x, s))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 40])
def test_powers_of_numbers_and_math_are_those_of_libm(dtype, width):
    """In all passes, with numbers in their own class and with those of more lanes."""
    x = np.random.default_rng(1).uniform(0.1, 1, 40).astype(dtype)
    for f in (lambda x: x[0] ** 3, lambda x: (x[1] + 1) ** 0.7, lambda x: math.tanh(x[2]), lambda x: 2.0 ** x[3]):
        assert ndual.value_and_grad(f, chunk_size=width)(x)[0] == f(x)


def test_constants_made_inside_are_added_to_plain_arrays():
    data = np.ones(3)

    def f(x):
        plain = data.copy()
        plain += np.linspace(0.0, 1.0, 3)
        np.sum(np.zeros((1, 1)), axis=1, out=plain[:1])
        return np.sum(x * plain)

    np.testing.assert_array_equal(ndual.grad(f)(np.ones(3)), [0.0, 1.5, 2.0])


VIEWS = {
    "T": lambda b: b.T, "backwards": lambda b: b[::-1], "columns": lambda b: b[:, 1:3],
    "stretched": lambda b: np.broadcast_to(b[:, :1], (3, 4)), "whole": lambda b: b,
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", "CFA")
def test_reverse_of_reshapes_that_copy(view, order):
    b = np.arange(1.0, 13.0).reshape(3, 4)
    cells = VIEWS[view](np.arange(12).reshape(3, 4))
    for shape in [s for k in (1, 2, 3, 4) for s in itertools.product((1, 2, 3, 4, 6, 12), repeat=k)]:
        if math.prod(shape) != cells.size:
            continue
        weights = np.arange(1.0, cells.size + 1).reshape(shape)
        want = np.bincount(cells.reshape(shape, order=order).ravel(), weights.ravel(), 12).reshape(3, 4)
        f = lambda b: np.sum(VIEWS[view](b * 1.0).reshape(shape, order=order) * weights)  # noqa: B023, E731
        np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(b), want)


def test_reverse_of_stretched_views_with_as_many_cells_as_their_memory():
    w = np.arange(6.0).reshape(2, 3)
    f = lambda x: np.sum(np.broadcast_to((x * x)[::2], (2, 3)) * w)  # noqa: E731
    x = np.arange(1.0, 7.0)
    for _ in range(3):
        np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(x), 2 * x * np.array([3.0, 0, 5, 0, 7, 0]))


def test_reverse_of_masks_of_stretched_views():
    w = np.arange(6.0).reshape(3, 2)
    f = lambda x: np.sum(np.broadcast_to(x * 1.0, (3, 2))[w > 0] * w[w > 0])  # noqa: E731
    np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(np.ones((3, 1))), [[1.0], [5.0], [9.0]])


@pytest.mark.parametrize("mode", MODES)
def test_overlapping_copies_in_arguments_that_lie_backwards(mode):
    """NumPy copies cell after cell here, so that the direction in memory shows; lanes lie in that of the values."""

    def f(b):
        b[::2] = b[:3]
        return b

    b = np.arange(1.0, 7.0)[::-1]
    want = np.stack([f(row[::-1].copy()[::-1]) for row in np.eye(6)], -1)
    np.testing.assert_array_equal(ndual.jacobian(f, mode=mode)(b), want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ufunc", [np.add, np.multiply])
def test_constants_written_over_what_moves(mode, ufunc):
    """Rows long enough for NumPy's loop to take each at once: nothing of the lanes below is left."""
    ones = np.ones((10, 30))

    def f(x):
        y = x * 1.0
        ufunc(ones[:5], ones[:5], out=y[::-2])
        return np.sum(y * 3.0)

    want = np.full((10, 30), 3.0)
    want[1::2] = 0.0
    np.testing.assert_array_equal(ndual.grad(f, mode=mode)(ones), want)


def test_reverse_of_writes_beside_what_is_kept():
    """Views that a function of NumPy made of constants may be written to, and empty ones are in nobody's way."""

    def f(x):
        v = np.cosh(np.zeros((4, 2)))
        y = x * v.T
        np.expand_dims(v, 1)[0] = 3.0
        w = x[0, :1] * 2.0
        z = w[1:] * w[1:]
        w[[-1, -1]] = y[0, 0]
        return np.sum(y) + np.sum(z) + np.sum(w)

    np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(np.ones((1, 4))), [[3.0, 2.0, 2.0, 2.0]])
