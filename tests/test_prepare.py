"""Prepared objects: the same derivatives, checked signatures, owned buffers, one call at a time."""

import re
import threading
import weakref

import numpy as np
import pytest

import ndual
from ndual import _core


def quartic(x):
    return np.sum(x**4) + x[0] * x[-1]


def quartic_gradient(x):
    g = 4 * x**3
    g[0] += x[-1]
    g[-1] += x[0]
    return g


def test_derivative():
    push = ndual.prepare_derivative(lambda a, b: a @ b, np.ones((2, 2)), np.ones(2))
    a, b = np.arange(4.0).reshape(2, 2), np.array([1.0, -1.0])
    value, tangent = push((a, b), (np.eye(2), np.array([0.0, 1.0])))
    assert value.tolist() == (a @ b).tolist()
    assert tangent.tolist() == (np.eye(2) @ b + a @ [0.0, 1.0]).tolist()


def test_derivative_with_constants_and_order():
    push = ndual.prepare_derivative(lambda a, n, b: a**n * b, 2.0, 3, 5.0, argnums=(2, 0))
    value, tangent = push((2.0, 3, 5.0), (1.0, 0.0))
    assert (value, tangent) == (40.0, 8.0)
    value, tangent = push((2.0, 2, 5.0), (0.0, 1.0))
    assert (value, tangent) == (20.0, 20.0)


def test_derivative_of_structures():
    push = ndual.prepare_derivative(lambda p: {"s": p["a"] * p["b"][0]}, {"a": np.ones(2), "b": [1.0, "n"]})
    value, tangent = push(({"a": np.array([1.0, 2.0]), "b": [3.0, "n"]},), ({"a": np.ones(2), "b": [1.0, None]},))
    assert value["s"].tolist() == [3.0, 6.0]
    assert tangent["s"].tolist() == [4.0, 5.0]


@pytest.mark.parametrize("chunk_size", [None, 1, 3, 4, 100])
def test_gradient_again_and_again(chunk_size):
    rng = np.random.default_rng(1)
    prepared = ndual.prepare_gradient(quartic, np.zeros(10), chunk_size=chunk_size)
    kept = []
    for _ in range(3):
        x = rng.standard_normal(10)
        value, gradient = prepared(x)
        assert value == pytest.approx(quartic(x))
        assert gradient == pytest.approx(quartic_gradient(x))
        kept.append((x, gradient))
    for x, gradient in kept:
        assert gradient == pytest.approx(quartic_gradient(x))


def test_closure_data_is_read_at_every_call():
    d = np.array([1.0, 2.0, 3.0])
    prepared = ndual.prepare_gradient(lambda p: np.sum((d * p) ** 2), 1.0)
    assert [prepared(p)[1] for p in (1.0, 2.0, 1.0)] == [28.0, 56.0, 28.0]
    d *= 2.0
    assert prepared(1.0)[1] == 112.0


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_copy_false_returns_the_buffer(chunk_size):
    prepared = ndual.prepare_gradient(quartic, np.ones(4), copy=False, chunk_size=chunk_size)
    _, first = prepared(np.ones(4))
    x = np.arange(4.0)
    _, second = prepared(x)
    assert np.shares_memory(first, second)
    assert first == pytest.approx(quartic_gradient(x))
    jacobian = ndual.prepare_jacobian(lambda x: x * x, np.ones(4), copy=False, chunk_size=chunk_size)
    assert np.shares_memory(jacobian(x)[1], jacobian(x)[1])
    assert np.array_equal(jacobian(x)[1], np.diag(2 * x))


def test_copies_share_nothing():
    prepared = ndual.prepare_gradient(quartic, np.ones(4))
    _, first = prepared(np.ones(4))
    before = first.copy()
    first_bytes = first.tobytes()
    _, second = prepared(np.arange(4.0))
    assert not np.shares_memory(first, second)
    assert first.tobytes() == first_bytes == before.tobytes()
    second[:] = 0.0
    assert prepared(np.ones(4))[1] == pytest.approx(before)


def test_jacobian():
    prepared = ndual.prepare_jacobian(lambda x, c: np.outer(x, x)[0] * c, np.ones(3), 2.0, chunk_size=2)
    x = np.array([1.0, 2.0, 3.0])
    value, jacobian = prepared(x, 3.0)
    assert value.tolist() == [3.0, 6.0, 9.0]
    assert jacobian.tolist() == [[6.0, 0.0, 0.0], [6.0, 3.0, 0.0], [9.0, 0.0, 3.0]]


def test_structures_with_fresh_constants():
    prepared = ndual.prepare_gradient(lambda p: p["x"] ** p["n"], {"x": 2.0, "n": 3})
    assert prepared({"x": 2.0, "n": 3})[1] == {"x": 12.0, "n": None}
    assert prepared({"x": 2.0, "n": 2})[1] == {"x": 4.0, "n": None}


def test_has_aux():
    prepared = ndual.prepare_gradient(lambda x: (np.sum(x * x), x[0]), np.ones(2), has_aux=True)
    (value, aux), gradient = prepared(np.array([1.0, 2.0]))
    assert (value, aux, gradient.tolist()) == (5.0, 1.0, [2.0, 4.0])


def test_repr():
    text = repr(ndual.prepare_gradient(quartic, np.ones(10), chunk_size=4))
    assert text == "<prepared gradient of quartic: mode forward, chunk 4, passes 3, 320 bytes>"
    text = repr(ndual.prepare_derivative(quartic, np.ones(10)))
    assert re.fullmatch(r"<prepared derivative of quartic: mode forward, chunk 1, passes 1, \d+ bytes>", text)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((np.ones(4), 1.0, {"k": [1.0]}), r"args\[0\]: expected a float64 array of shape \(3,\).*shape \(4,\)"),
        ((np.ones((3, 1)), 1.0, {"k": [1.0]}), r"args\[0\].*\(3, 1\)"),
        ((np.ones(3, np.float32), 1.0, {"k": [1.0]}), r"args\[0\].*float64.*got a float32"),
        ((np.ones(3, int), 1.0, {"k": [1.0]}), r"args\[0\].*float64.*got an int64"),
        (([1.0, 1.0, 1.0], 1.0, {"k": [1.0]}), r"args\[0\].*float64 array.*got a list"),
        ((np.ones(3), np.ones(1), {"k": [1.0]}), r"args\[1\]: expected a float64 number.*float64 array"),
        ((np.ones(3), 1j, {"k": [1.0]}), r"args\[1\].*complex128"),
        ((np.ones(3), 1.0, {"k": [1.0, 2.0]}), r"args\[2\]\['k'\]: expected a list of 1.*got a list of 2"),
        ((np.ones(3), 1.0, {"q": [1.0]}), r"args\[2\]: expected a dict with the keys 'k'.*'q'"),
        ((np.ones(3), 1.0, {"k": [np.ones(1)]}), r"args\[2\]\['k'\]\[0\]: expected a float64 number"),
    ],
)
def test_mismatch(args, words):
    example = np.ones(3), 1.0, {"k": [1.0]}

    def f(a, b, c):
        return np.sum(a) * b * c["k"][0]

    prepared = ndual.prepare_gradient(f, *example, argnums=(0, 1, 2))
    with pytest.raises(ndual.CacheMismatchError, match=words):
        prepared(*args)
    assert prepared(*example)[0] == 3.0


def test_mismatch_of_flat_arguments_and_constants():
    prepared = ndual.prepare_derivative(lambda a, b: a * b, np.ones(3), np.ones(3, int), argnums=0)
    with pytest.raises(ndual.CacheMismatchError, match=r"args\[0\]"):
        prepared((np.ones(2), np.ones(3, int)), (np.ones(2),))
    with pytest.raises(ndual.CacheMismatchError, match=r"args\[1\].*int64 array of shape \(3,\)"):
        prepared((np.ones(3), np.ones(3)), (np.ones(3),))
    with pytest.raises(ValueError, match="expected 2 arguments; got 1"):
        prepared((np.ones(3),), (np.ones(3),))
    with pytest.raises(ValueError, match=r"tangent of args\[0\].*\(3,\).*\(4,\)"):
        prepared((np.ones(3), np.ones(3, int)), (np.ones(4),))
    with pytest.raises(ValueError, match="expected 1 tangents"):
        prepared((np.ones(3), np.ones(3, int)), (np.ones(3), np.ones(3)))


def test_a_python_int_fits_where_a_float_was():
    assert ndual.prepare_gradient(lambda x: x * x, 2.0)(3)[1] == 6.0
    assert ndual.prepare_gradient(lambda x: x * x, 3)(2.0)[1] == 4.0


def test_prepare_refuses():
    with pytest.raises(ValueError, match="prepare_gradient expects example arguments"):
        ndual.prepare_gradient(quartic)
    with pytest.raises(TypeError, match="real scalar"):
        ndual.prepare_gradient(lambda x: x, np.ones(2))(np.ones(2))
    with pytest.raises(TypeError, match="prepare_jacobian expects a function"):
        ndual.prepare_jacobian(2.0, 1.0)
    with pytest.raises(ValueError, match="prepare_derivative expects mode='auto' or mode='forward'"):
        ndual.prepare_derivative(quartic, np.ones(2), mode="reverse")
    with pytest.raises(ValueError, match="chunk_size"):
        ndual.prepare_gradient(quartic, np.ones(2), chunk_size=0)


def test_concurrent_use_raises_and_clones_work():
    inside, go = threading.Event(), threading.Event()

    def f(x):
        inside.set()
        go.wait(10)
        return np.sum(x * x)

    prepared = ndual.prepare_gradient(f, np.ones(2))
    clone = prepared.clone()
    results = []
    thread = threading.Thread(target=lambda: results.append(prepared(np.ones(2))))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(ndual.NdualError, match=r"one call at a time.*\.clone\(\)"):
        prepared(np.ones(2))
    go.set()
    thread.join()
    assert results[0][1].tolist() == [2.0, 2.0]
    assert clone(np.ones(2))[1].tolist() == [2.0, 2.0]
    assert prepared(np.ones(2))[1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("make", [ndual.prepare_derivative, ndual.prepare_gradient, ndual.prepare_jacobian])
def test_clone_of_each_kind(make):
    clone = make(lambda p: p["x"] * p["x"], {"x": 2.0}).clone()
    if make is ndual.prepare_derivative:
        assert clone(({"x": 3.0},), ({"x": 1.0},)) == (9.0, 6.0)
    else:
        assert clone({"x": 3.0}) == (9.0, {"x": 6.0})


def test_recursion_raises():
    def f(x):
        return prepared(x)[0]

    prepared = ndual.prepare_gradient(f, 1.0)
    with pytest.raises(ndual.NdualError, match="one call at a time"):
        prepared(1.0)
    assert _core.current_level() is None


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_usable_after_an_exception(error):
    fail = [True]

    def f(x):
        x[0] = -x[0]
        if fail[0]:
            raise error
        return np.sum(x)

    x = np.ones(3)
    prepared = ndual.prepare_gradient(f, x, chunk_size=2)
    for _ in range(2):
        with pytest.raises(error):
            prepared(x)
    fail[0] = False
    assert prepared(x)[1].tolist() == [-1.0, 1.0, 1.0]
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_example_arguments_are_not_kept():
    class Tagged(np.ndarray):
        pass

    x = np.ones(5).view(Tagged)
    gone = weakref.ref(x)
    prepared = ndual.prepare_gradient(quartic, x)
    del x
    assert gone() is None
    assert prepared(np.ones(5))[1] == pytest.approx(quartic_gradient(np.ones(5)))


def test_functions_are_not_kept_alive_by_the_calls():
    big = np.ones(10)

    def f(x):
        return np.sum(x * big)

    ndual.jvp(f, (big,), (big,))
    ndual.grad(f)(big)
    ndual.jacobian(f)(big)
    gone = weakref.ref(f)
    del f
    assert gone() is None


@pytest.mark.parametrize(
    "f", [lambda x: x, lambda x: x.reshape(2, 2), lambda x: x.T, lambda x: x[::-1], lambda x: x[1:]]
)
def test_results_that_are_views_of_the_argument_are_the_callers_own(f):
    x = np.arange(4.0)
    prepared = ndual.prepare_jacobian(f, x)
    value, jacobian = prepared(x)
    before = value.copy(), jacobian.copy()
    value[...], jacobian[...] = 9.0, 7.0
    np.testing.assert_array_equal(x, np.arange(4.0))
    for got, want in zip(prepared(x), before, strict=True):
        np.testing.assert_array_equal(got, want)


def test_directions_through_large_arrays_are_remembered():
    """A run along given directions makes no seeds, so that no size of the arguments speaks against keeping it."""
    f = lambda x: np.sum(x * x)  # noqa: E731
    x = np.ones(1_000_000)
    ndual.jvp(f, (x,), (x,))
    from ndual.frontend.intercept import cached

    (plan,) = cached(f).plans.values()
    assert plan.run.nbytes == 0
    assert plan.run.suits((x,), True, (x,))
