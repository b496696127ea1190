"""Objects that a function returns: their tangents, Jacobians and cotangents, and second derivatives over objects."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import ndual

MODES = ["forward", "reverse"]
WAYS = [("forward", 1), ("forward", 2), ("forward", 3), ("forward", 8), ("reverse", None)]


@dataclass
class Inner:
    a: float


@dataclass(frozen=True, slots=True)
class Outer:
    i: object
    x: object
    note: object = "text"


def state(t):
    return Outer(Inner(t * t), {"w": t * np.array([1.0, 2.0]), "n": 3})


def test_tangent():
    value, tangent = ndual.jvp(state, (3.0,), (10.0,))
    assert (value.i.a, value.x["w"].tolist(), value.x["n"], value.note) == (9.0, [3.0, 6.0], 3, "text")
    assert type(tangent) is Outer
    assert (tangent.i.a, tangent.x["w"].tolist(), tangent.x["n"], tangent.note) == (60.0, [10.0, 20.0], None, None)
    push = ndual.prepare_derivative(state, 1.0)
    assert push((3.0,), (10.0,))[1].i.a == 60.0


@pytest.mark.parametrize(("mode", "chunk_size"), WAYS)
def test_jacobian(mode, chunk_size):
    def f(p):
        return Outer(deque([p.i.a * p.x]), defaultdict(list, k=p.i.a**2))

    j = ndual.jacobian(f, mode=mode, chunk_size=chunk_size)(Outer(Inner(2.0), np.array([3.0, 5.0])))
    assert type(j) is type(j.i[0]) is Outer
    assert (j.i[0].i.a.tolist(), j.i[0].x.tolist()) == ([3.0, 5.0], [[2.0, 0.0], [0.0, 2.0]])
    assert (j.x["k"].i.a, j.x["k"].x.tolist(), j.note) == (4.0, [0.0, 0.0], None)
    assert ndual.derivative(state, mode=mode)(3.0).i.a == 6.0


def test_cotangents():
    value, pullback = ndual.vjp(state, 3.0)
    assert value.i.a == 9.0
    assert pullback(Outer(Inner(1.0), {"w": np.array([1.0, 10.0]), "n": None})) == (27.0,)
    assert pullback({"i": {"a": 1.0}, "x": {"w": [0.0, 0.0], "n": None}, "note": None}) == (6.0,)
    with pytest.raises(ndual.ArgumentValueError, match=r"cotangent of the output\.x: expected a dict of 2"):
        pullback(Outer(Inner(1.0), [1.0, 2.0]))
    assert ndual.linearize(state, 3.0)[1](10.0).i.a == 60.0


@pytest.mark.parametrize("mode", MODES)
def test_one_part_twice_and_circles(mode):
    def f(t):
        node = SimpleNamespace(v=t**3, held=[])
        node.me = node.held
        node.held.append(node)
        return node, node

    one, two = ndual.derivative(f, mode=mode)(2.0)
    assert one is two
    assert one.me is one.held
    assert one.held[0] is one
    assert one.v == 12.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3, 8])
def test_hessian(mode, chunk_size):
    p = Outer(Inner(3.0), np.array([1.0, 2.0]))

    def f(p):
        return p.i.a**2 * np.sum(p.x**2)

    h = ndual.hessian(f, mode=mode, chunk_size=chunk_size)(p)
    assert type(h) is type(h.i.a) is Outer
    assert (h.i.a.i.a, h.i.a.x.tolist(), h.i.a.note) == (10.0, [12.0, 24.0], None)
    assert (h.x.i.a.tolist(), h.x.x.tolist(), h.note) == ([12.0, 24.0], [[18.0, 0.0], [0.0, 18.0]], None)
    value, g, again = ndual.prepare_hessian(f, p, mode=mode, chunk_size=chunk_size)(p)
    assert (value, g.i.a, g.x.tolist(), again.i.a.i.a) == (45.0, 30.0, [18.0, 36.0], 10.0)
    value, g, product = ndual.hvp(f, (p,), (Outer(Inner(1.0), np.array([0.0, 1.0])),), mode=mode)
    assert (value, g.i.a, product.i.a, product.x.tolist()) == (45.0, 30.0, 34.0, [12.0, 42.0])


@pytest.mark.parametrize("mode", MODES)
def test_hessian_of_a_circle(mode):
    node = SimpleNamespace(v=2.0)
    node.next = node
    h = ndual.hessian(lambda p: p.next.v**3 * p.v, mode=mode)(node)
    assert h.v.v == 48.0
    assert h.next is h
    assert h.v.next is h.v


def test_constants_stop_in_objects():
    def f(x):
        held = ndual.stop_gradient(Outer(Inner(x), [x, deque([x], 2), {"k": x}]))
        assert type(held) is Outer
        assert held.x[1].maxlen == 2
        return x * held.i.a * held.x[0] * held.x[1][0] * held.x[2]["k"]

    assert ndual.grad(f)(2.0) == 16.0
    plain = Inner(1.0)
    assert ndual.stop_gradient(plain) is plain


def test_what_cannot_be_returned():
    with pytest.raises(ndual.ArgumentTypeError, match=r"tuples, lists, dicts and objects of them from f; got set"):
        ndual.jvp(lambda t: {Box(t)}, (2.0,), (1.0,))
    with pytest.raises(ndual.ArgumentTypeError, match=r"grad expects f\(x\) to be a real scalar"):
        ndual.grad(state)(2.0)


class Box:
    def __init__(self, held):
        self.held = held
