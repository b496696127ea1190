"""Rows that are left to the sum behind them: which code says so, and that no program sees a difference."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import threading

import numpy as np
import pytest

import ndual
from ndual.frontend.ahead import summed_next
from ndual.rules import registry
from ndual.rules.elementwise import TABLE


class Probe:
    """An operand that asks, of every row it is given to, whether its result is summed next."""

    def __init__(self, found):
        self.found = found

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        self.found.append(summed_next(sys._getframe(1), TABLE[ufunc.__name__], registry.lookup, (np.sum,)))
        return self

    def __array_function__(self, function, types, args, kwargs):
        return self

    def __mul__(self, other):
        self.found.append(summed_next(sys._getframe(1), TABLE["multiply"], registry.lookup, (np.sum,)))
        return self

    def __neg__(self):
        self.found.append(summed_next(sys._getframe(1), TABLE["negative"], registry.lookup, (np.sum,)))
        return self

    def __getitem__(self, index):
        return self

    def sum(self, *args, **kwargs):
        return self

    def max(self):
        return self

    def __call__(self, x):
        return self


total = np.sum
starmap = itertools.starmap


def same(x):
    return x


def fake_sum(x):
    return x


class Other:
    cos = staticmethod(np.cos)
    sum = staticmethod(np.sum)


WAITING = """
np.sum(np.cos(x)) | total(np.cos(x)) | np.cos(x).sum() | np.sum(x * y) | (x * y).sum() | np.sum(-x) | (-x).sum()
np.sum(np.hypot(x, y[0])) | (2.0, np.sum(x * 3.0)) | same(np.sum(np.cos(x))) | [np.sum(np.cos(x)) for _ in "ab"]
"""
COMPUTED = """
total(x)(np.cos(x)) | np.cos(x).sum(0) | np.cos(x).sum | np.cos(x).sum.__name__ | same(np.cos(x).sum)
np.cos(x) | np.max(np.cos(x)) | np.cos(x).max() | np.sum(np.cos(x), 0) | np.sum(np.cos(x), axis=0)
np.cos(x).sum(axis=0) | same(np.cos(x)) | fake_sum(np.cos(x)) | np.sum(same(np.cos(x))) | np.sum([np.cos(x)])
np.sum((np.cos(x),)[0]) | np.sum(operator.mul(x, y)) | np.sum(functools.reduce(operator.mul, [x, y]))
np.sum(next(map(np.cos, [x]))) | np.sum(next(starmap(np.hypot, [(x, y)]))) | np.sum(z := np.cos(x))
np.sum(np.cos(x) if x is y else np.cos(y)) | np.sum(np.cos(x if x is y else y)) | np.sum(Other.cos(x))
Other.sum(np.cos(x)) | np.sum(np.cos(x))[np.cos(x)] | (lambda sum: sum(np.cos(x)))(np.sum) | np.sum(*[np.cos(x)])
np.sum((lambda: np.cos(x))()) | np.sum(np.cos(x)[0]) | np.sum(np.hypot(x, y, dtype=float))
np.sum(np.hypot(*[x, y]))
"""


def asked(source):
    found = []
    x = y = Probe(found)
    eval(f"lambda: {source}", {**globals(), "x": x, "y": y})()
    return found


@pytest.mark.parametrize("source", [s.strip() for s in WAITING.replace("\n", "|").split("|") if s.strip()])
def test_code_that_sums_next(source):
    found = asked(source)
    assert found
    assert all(found)


@pytest.mark.parametrize("source", [s.strip() for s in COMPUTED.replace("\n", "|").split("|") if s.strip()])
def test_code_that_does_anything_else(source):
    found = asked(source)
    assert found
    assert not found[-1]


def test_names_are_looked_up_each_time():
    scope = {"np": np, "total": np.sum, "cos": np.cos}
    found = []
    scope["x"] = Probe(found)
    f = eval("lambda: total(cos(x))", scope)
    f()
    scope["total"] = fake_sum
    f()
    scope["total"], scope["cos"] = np.sum, lambda x: np.cos(x)
    f()
    scope["cos"] = np.sin  # another row
    f()
    assert found == [True, False, False, True]


X = np.arange(1.0, 13.0).reshape(3, 4) / 4
C = np.linspace(0.5, 2.0, 4)


def written_between(x, c):
    y = x * c
    c[...] = 7.0
    return np.sum(y) + np.sum(x * c)


def written_after(x, c):
    s = np.sum(x * c)
    c[...] = 7.0
    return s * np.sum(x * c)


def operand_written_after(x, c):
    y = x * 1.0
    s = np.sum(y * y) + np.sum(np.exp(y)) + np.sum(np.sqrt(y)) + np.sum(1.0 / y)
    y[0] = 5.0
    y *= x
    return s * np.sum(y * c)


def written_by_a_callee(x, c):
    def changes(y):
        c[...] = 7.0
        return y

    return np.sum(changes(x * c)) + np.sum(changes(x) * c)


def written_by_a_generator(x, c):
    def factors():
        yield x
        yield c
        c[...] = 7.0
        yield x

    return np.sum(functools.reduce(operator.mul, factors()))


def read_twice(x, c):
    return np.sum(y := x * c) * np.sum(y * y) + np.sum(np.cos(x)) * np.cos(x).sum()


def views(x, c):
    y = np.sin(x * c)
    v = y[1:, ::2]
    v *= 3.0
    return np.sum(v * v) + np.sum(x.T * x.T) + np.sum(x[::2, ::-1] * c[::-1]) + np.sum(x[1:2] * x[:, 1:2])


def after_an_error(x, c):
    def fails(y):
        c[...] = 7.0
        raise ValueError(y.shape)

    s = np.sum(x * c)
    for _ in range(2):
        try:
            s = s + np.sum(fails(x * c))
        except ValueError:
            s = s + np.sum(x * c)
    return s


def saturated(x, c):
    return np.sum(np.tanh(x)) + np.sum(np.exp(-x * c)) + np.sum(np.log1p(x)) + np.sum(np.maximum(x, c))


def numbers(x, c):
    return np.sum(x * 3.0) + np.sum(2.0 / x) + np.sum(x**2) + np.sum(x**3.0) + np.sum(-x) + np.sum(x - x[0, 0] * x)


PROGRAMS = [
    written_between, written_after, operand_written_after, written_by_a_callee, written_by_a_generator, read_twice,
    views, after_an_error, saturated, numbers,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(memory, program, mode, dtype):
    x, c = X.astype(dtype), C.astype(dtype)
    rtol = 1e-12 if dtype == "f8" else 1e-5
    value, gradient = ndual.value_and_grad(lambda x: program(x, memory.array(c)), mode=mode)(memory.array(x))
    expected, reference = ndual.value_and_grad(lambda x: program(x, c.copy()), mode=mode)(x)
    np.testing.assert_allclose(memory.host(value), expected, rtol=rtol)
    np.testing.assert_allclose(memory.host(gradient), reference, rtol=rtol, atol=rtol)
    assert memory.host(value).dtype == dtype


@pytest.mark.parametrize("inner", ["forward", "reverse"])
@pytest.mark.parametrize("outer", ["forward", "reverse"])
def test_nested_levels(memory, outer, inner):
    def f(x):
        return np.sum(np.sin(x)) * np.sum(x * x)

    def g(x):
        return np.sum(ndual.grad(f, mode=inner)(x) * x) + np.sum(np.cos(x))

    found = ndual.grad(g, mode=outer)(memory.array(X))
    np.testing.assert_allclose(memory.host(found), ndual.grad(g)(X), rtol=1e-11)
    second = ndual.hessian(f, mode=inner)(memory.array(C))
    np.testing.assert_allclose(memory.host(second), ndual.hessian(f)(C), rtol=1e-11)


def test_what_is_kept_after_the_run(memory):
    x = memory.array(X)

    def f(x):
        return np.sum(np.exp(x)) * np.sum(np.sin(x)) + np.sum(1.0 / x)

    _, pullback = ndual.vjp(f, x)
    _, pushforward = ndual.linearize(f, x)
    expected = ndual.grad(f)(X)
    x[...] = 99.0
    for _ in range(2):
        np.testing.assert_allclose(memory.host(pullback(memory.array(np.array(1.0)))[0]), expected, rtol=1e-12)
        found = memory.host(pushforward(memory.array(np.ones_like(X))))
        np.testing.assert_allclose(found, expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_threads(memory, mode):
    gradient = ndual.grad(lambda x: np.sum(np.cos(x)) * np.sum(x * x), mode=mode)
    expected = [ndual.grad(lambda x: np.sum(np.cos(x)) * np.sum(x * x))(X * k) for k in range(1, 5)]
    failed = []

    def run(k):
        for _ in range(5):
            found = memory.host(gradient(memory.array(X * k)))
            if not np.allclose(found, expected[k - 1], rtol=1e-11):
                failed.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


class Answers(list):
    """A list with an attribute."""


@pytest.fixture
def answers(memory, monkeypatch):
    """What the storage is told, and a way to tell it something else."""
    module = "ndual.gpu.storage" if memory.xp.__name__ == "cupy" else "fake_device"
    found = Answers()

    def noting(*args):
        found.append(summed_next(*args))
        return found[-1]

    monkeypatch.setattr(f"{module}.summed_next", noting)
    found.always = lambda: monkeypatch.setattr(f"{module}.summed_next", lambda *args: True)
    return found


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_rows_that_wait(memory, mode, answers):
    x = memory.array(X)
    ndual.grad(lambda x: np.sum(np.cos(x)), mode=mode)(x)
    ndual.grad(lambda x: np.sum(x * C[0]) + (x * x).sum(), mode=mode)(x)
    assert answers == [True, True, True, False]
    ndual.grad(lambda x: np.sum(np.cos(np.sin(x))), mode=mode)(x)
    assert answers == [True, True, True, False, False, True]
    with ndual.config(debug=True):
        ndual.grad(lambda x: np.sum(np.cos(x)), mode=mode)(x)
    assert len(answers) == 6
    ndual.hessian(lambda x: np.sum(np.cos(x)), mode=mode)(x)
    assert not any(answers[6:])


USES = {
    "cells": lambda y: y[0],
    "operands": lambda y: y * 2.0,
    "copies": lambda y: y.copy(),
    "views": lambda y: y.T,
    "functions": lambda y: np.concatenate([y, y]),
    "sums along axes": lambda y: y.sum(axis=0),
    "results": lambda y: y,
    "writes": lambda y: y.__setitem__(0, 1.0),
    "constants": lambda y: ndual.stop_gradient(y) * 2.0,
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("use", USES)
def test_what_waits_is_of_no_other_use(memory, mode, use, answers):
    """Were the instruction misread, there would be an error and no wrong number."""
    answers.always()
    with pytest.raises((ndual.NdualError, TypeError, AttributeError)):
        ndual.jacobian(lambda x: USES[use](np.cos(x)), mode=mode)(memory.array(X))
