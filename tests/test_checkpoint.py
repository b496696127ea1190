"""Checkpoints: the derivatives of plain code, from arguments alone."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ndual

ROOT = Path(__file__).resolve().parents[1]
U = np.array([0.3, -1.1, 0.7])


def steps(u, count=5, h=0.1):
    for _ in range(count):
        u = u + h * np.sin(u)
    return u


def in_place(u, count=5, h=0.1):
    for _ in range(count):
        u += h * np.sin(u)


def derivative_of_steps(u, count, h=0.1):
    """By hand: the product of 1 + h cos(u) over the steps."""
    d = np.ones_like(u)
    for _ in range(count):
        d *= 1 + h * np.cos(u)
        u = u + h * np.sin(u)
    return d


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_blocks_that_return(mode):
    block = ndual.checkpoint(steps)

    def f(u):
        for _ in range(4):
            u = block(u)
        return np.sum(u)

    value, gradient = ndual.value_and_grad(f, mode=mode)(U)
    np.testing.assert_allclose(value, np.sum(steps(U, 20)), rtol=1e-15)
    np.testing.assert_allclose(gradient, derivative_of_steps(U, 20), rtol=1e-14)
    np.testing.assert_array_equal(f(U), value)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_blocks_that_write_into_their_argument(mode):
    block = ndual.checkpoint(in_place)

    def f(u):
        u = u.copy()
        for _ in range(4):
            block(u)
            u *= 2.0
            u /= 2.0
        return np.sum(u * u)

    value, gradient = ndual.value_and_grad(f, mode=mode)(U)
    end = steps(U, 20)
    np.testing.assert_allclose(value, np.sum(end**2), rtol=1e-14)
    np.testing.assert_allclose(gradient, 2 * end * derivative_of_steps(U, 20), rtol=1e-13)


def test_arguments_of_the_function_itself_are_not_written_to():
    block = ndual.checkpoint(in_place)

    def f(u):
        block(u)
        return np.sum(u)

    u = U.copy()
    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(u), derivative_of_steps(U, 5), rtol=1e-14)
    np.testing.assert_array_equal(u, U)


def test_checkpoints_in_checkpoints():
    inner = ndual.checkpoint(lambda u: steps(u, 2))

    @ndual.checkpoint
    def outer(u):
        for _ in range(3):
            u = inner(u)
        return u

    gradient = ndual.grad(lambda u: np.sum(outer(outer(u))), mode="reverse")(U)
    np.testing.assert_allclose(gradient, derivative_of_steps(U, 12), rtol=1e-14)


def test_numbers_and_containers():
    @ndual.checkpoint
    def f(p, *, scale):
        a, b = p["a"], p["b"][0]
        return {"x": a * b * scale, "y": (a**2, "text", 3)}

    def g(a, b):
        r = f({"a": a, "b": [b]}, scale=2.0)
        assert r["y"][1:] == ("text", 3)
        return r["x"] + r["y"][0]

    assert ndual.grad(g, argnums=(0, 1), mode="reverse")(3.0, 5.0) == (16.0, 6.0)
    assert g(3.0, 5.0) == 39.0


def test_arguments_overwritten_later():
    @ndual.checkpoint
    def cube(u):
        return u**3

    def f(u):
        u = u.copy()
        v = cube(u)
        u[:] = 1.0
        return np.sum(v * u)

    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(U), 3 * U**2, rtol=1e-14)


def test_constant_arrays_overwritten_later():
    @ndual.checkpoint
    def product(u, c):
        return u * c

    c = np.array([1.0, 2.0, 3.0])

    def f(u):
        work = c.copy()
        v = product(u, work)
        work[:] = 0.0
        return np.sum(v)

    np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(U), c)


def test_the_same_array_twice():
    @ndual.checkpoint
    def f(a, b):
        a *= 2.0
        return np.sum(a * b)

    def g(u):
        u = u.copy()
        return f(u, u)

    np.testing.assert_allclose(ndual.grad(g, mode="reverse")(U), 8 * U, rtol=1e-14)


def test_random_numbers_are_those_of_the_first_run():
    seen = []

    @ndual.checkpoint
    def f(u):
        r = np.random.standard_normal(u.shape)
        seen.append(r)
        return u * r

    np.random.seed(5)
    gradient = ndual.grad(lambda u: np.sum(f(u) * np.random.standard_normal(1)[0]), mode="reverse")(U)
    after = np.random.standard_normal()
    np.random.seed(5)
    r, factor, expected = np.random.standard_normal(3), np.random.standard_normal(1)[0], np.random.standard_normal()
    np.testing.assert_allclose(gradient, r * factor, rtol=1e-15)
    np.testing.assert_array_equal(seen[0], seen[1])
    assert len(seen) == 2
    assert after == expected


@pytest.mark.parametrize("modes", list(itertools.product(("forward", "reverse"), repeat=2)))
def test_second_derivatives(modes):
    block = ndual.checkpoint(lambda u: np.sin(u) * u[0])
    second = ndual.checkpoint(in_place)

    def f(u):
        v = block(u)
        second(v)
        return np.sum(v)

    def plain(u):
        return np.sum(steps(np.sin(u) * u[0]))

    inner, outer = modes
    found = ndual.jacobian(ndual.grad(f, mode=inner), mode=outer)(U)
    expected = ndual.jacobian(ndual.grad(plain, mode="forward"), mode="forward")(U)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_active_values_that_are_no_arguments_are_refused():
    def f(u):
        @ndual.checkpoint
        def g(v):
            return u * v

        return np.sum(g(u))

    with pytest.raises(ndual.NdualError, match="use only its arguments"):
        ndual.grad(f, mode="reverse")(U)

    def h(u):
        u = u.copy()

        @ndual.checkpoint
        def g(v):
            u[0] = 3.0
            return v * 2

        return np.sum(g(u * 1.0) + u)

    with pytest.raises(ndual.NdualError, match="use only its arguments"):
        ndual.grad(h, mode="reverse")(U)


def test_views_of_arguments_are_refused():
    with pytest.raises(ndual.AliasError, match="a view of an argument"):
        ndual.grad(lambda u: np.sum(ndual.checkpoint(lambda v: v[1:])(u)), mode="reverse")(U)


def test_an_argument_may_be_returned():
    @ndual.checkpoint
    def f(u):
        u *= u
        return u

    def g(u):
        u = u.copy()
        v = f(u)
        assert v is u
        v *= 3.0
        return np.sum(u)

    np.testing.assert_allclose(ndual.grad(g, mode="reverse")(U), 6 * U, rtol=1e-15)


def test_writing_what_was_there_is_refused():
    @ndual.checkpoint
    def f(u):
        u[:] = np.zeros(3)
        return u

    def g(u):
        v = 0.0 * u + u - u
        return np.sum(f(v) + u)

    with pytest.raises(ndual.NdualError, match="the very values"):
        ndual.grad(g, mode="reverse")(U)


def test_errors_of_the_function_itself_come_through():
    @ndual.checkpoint
    def f(u):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ndual.grad(lambda u: np.sum(f(u)), mode="reverse")(U)
    np.testing.assert_array_equal(ndual.grad(np.sum, mode="reverse")(U), np.ones(3))


def grown(kind, size, count):
    """Kilobytes that a gradient takes above the plain run, as a process of its own sees them."""
    out = subprocess.run(
        [sys.executable, str(ROOT / "asv_bench" / "tape_memory.py"), kind, str(size), str(count)],
        capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return float(out.stdout.split()[-1])


def test_memory_of_checkpoints():
    states = grown("checkpoint", 300_000, 400) / (300_000 * 8 / 1024)
    assert states < 48  # 2 sqrt(400) + 2 and some room; 63 if arguments of a block were held as long as its results


def test_linear_steps_in_place_store_nothing():
    assert grown("stencil", 100_000, 300) < 10_000  # a single array a step would be 240,000
