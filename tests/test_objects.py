"""Objects as arguments: what is differentiated in them, what stays shared, what comes back, what is refused."""

from __future__ import annotations

import datetime
import functools
import logging
import pathlib
import random
import re
import threading
from dataclasses import InitVar, dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndual
from ndual.structure import Flat, rebuild

WAYS = [("forward", 1), ("forward", 2), ("forward", 3), ("forward", 8), ("reverse", None)]


@pytest.fixture(params=WAYS, ids=[f"{mode} {chunk}" for mode, chunk in WAYS])
def evaluate(request):
    """Value and gradient in both modes, and forward at every width."""
    mode, chunk = request.param

    def make(f, argnums=0):
        return ndual.value_and_grad(f, argnums, mode=mode, chunk_size=chunk)

    return make


@dataclass
class Inner:
    a: float


@dataclass
class Outer:
    i: Inner
    x: float


@dataclass(frozen=True)
class Frozen:
    i: object
    x: float


@dataclass(slots=True, kw_only=True)
class Slotted:
    i: object
    x: float = 2.0


class Plain:
    def __init__(self, i, x):
        self.i, self.x, self.note, self.n = i, x, "text", 3

    def scaled(self):
        return self.i.a**2 * self.x


class Bare:
    __slots__ = ("__hidden", "next", "x")

    def __init__(self, x):
        self.x = x
        self.__hidden = 5.0

    def hidden(self):
        return self.__hidden


@dataclass
class Derived:
    w: np.ndarray
    scale: InitVar[float] = 1.0
    double: float = field(init=False)

    def __post_init__(self, scale):
        self.double = 2.0 * scale


@pytest.mark.parametrize("kind", [Outer, Frozen, Slotted, Plain, SimpleNamespace])
def test_nested_objects(evaluate, kind):
    p = kind(i=Inner(1.0), x=2.0)
    value, g = evaluate(lambda p: p.i.a**2 * p.x)(p)
    assert value == 2.0
    assert type(g) is kind
    assert type(g.i) is Inner
    assert (g.i.a, g.x) == (4.0, 1.0)
    assert (p.i.a, p.x) == (1.0, 2.0)
    value, tangent = ndual.jvp(lambda p: p.i.a**2 * p.x, (p,), (kind(i=Inner(1.0), x=10.0),))
    assert (value, tangent) == (2.0, 14.0)


def test_methods_and_constant_fields(evaluate):
    value, g = evaluate(lambda p: p.scaled() * p.n)(Plain(Inner(1.0), 2.0))
    assert (value, g.i.a, g.x, g.n, g.note) == (6.0, 12.0, 3.0, None, None)


def test_private_slots_and_init_var(evaluate):
    value, g = evaluate(lambda p: p.x * p.hidden())(Bare(3.0))
    assert (value, g.x, g.hidden()) == (15.0, 5.0, 3.0)
    value, g = evaluate(lambda p: np.sum(p.w) * p.double)(Derived(np.array([1.0, 2.0]), 0.5))
    assert (value, g.w.tolist(), g.double) == (3.0, [1.0, 1.0], 3.0)


def test_lists_of_objects_and_depth(evaluate):
    value, g = evaluate(lambda p: p[0].a * p[1].a)([Inner(1.0), Inner(3.0)])
    assert (value, g[0].a, g[1].a) == (3.0, 3.0, 1.0)
    deep = {"k": [Outer((Plain(Frozen(i=Slotted(i=Inner(3.0)), x=1.0), 1.0),), 1.0)]}
    value, g = evaluate(lambda p: p["k"][0].i[0].i.i.i.a ** 2)(deep)
    assert (value, g["k"][0].i[0].i.i.i.a) == (9.0, 6.0)


def test_cycles(evaluate):
    node = Bare(3.0)
    node.next = node
    value, g = evaluate(lambda p: p.next.next.x * p.x)(node)
    assert (value, g.x) == (9.0, 6.0)
    assert g.next is g
    quiet = Outer(None, 3.0)  # of a class without methods
    quiet.i = [quiet]
    for _ in range(3):
        value, g = evaluate(lambda p: p.i[0].x * p.x)(quiet)
        assert (value, g.x) == (9.0, 6.0)
        assert g.i[0] is g
    a, b = SimpleNamespace(v=2.0), SimpleNamespace(v=5.0)
    a.other, b.other = [b], {"k": a}
    value, g = evaluate(lambda p: p.other[0].other["k"].v * p.other[0].v)(a)
    assert (value, g.v, g.other[0].v) == (10.0, 5.0, 2.0)
    assert g.other[0].other["k"] is g


def test_one_object_twice_in_one_argument(evaluate):
    a = SimpleNamespace(x=1.0)
    value, g = evaluate(lambda p: p[0].x + 2 * p[1].x)((a, a))
    assert (value, g[0].x) == (3.0, 3.0)
    assert g[0] is g[1]

    def changed(p):
        p[0].x *= 2
        return p[1].x ** 2

    value, g = evaluate(changed)((a, a))
    assert (value, g[0].x, a.x) == (4.0, 8.0, 1.0)
    held = [3.0]

    def written(p):
        p[0][0] *= 2
        return p[1][0]

    value, g = evaluate(written)([held, held])
    assert (value, g[0], held) == (6.0, [2.0], [3.0])


def test_one_object_in_two_arguments(evaluate):
    a = SimpleNamespace(x=1.0)
    value, (one, two) = evaluate(lambda a, b: a.x + 2 * b.x, (0, 1))(a, a)
    assert (value, one.x, two.x) == (3.0, 1.0, 2.0)
    ones = SimpleNamespace(x=1.0)
    assert ndual.jvp(lambda a, b: a.x + 2 * b.x, (a, a), (ones, ones)) == (3.0, 3.0)


@pytest.mark.parametrize("make", [lambda: SimpleNamespace(x=1.0), lambda: [1.0], lambda: {"x": 1.0}])
def test_a_change_of_what_two_arguments_share(evaluate, make):
    def f(a, b):
        held = a if isinstance(a, list | dict) else a.__dict__
        held[0 if isinstance(a, list) else "x"] *= 2.0
        return b["x"] if isinstance(b, dict) else b[0] if isinstance(b, list) else b.x

    a = make()
    with pytest.raises(ndual.AliasError, match=r"args\[0\]: expected arguments that share nothing .*copy"):
        evaluate(f, (0, 1))(a, a)
    evaluate(f, (0, 1))(make(), make())


@pytest.mark.parametrize("constant", [False, True])
def test_a_change_by_another_name(evaluate, constant):
    a = SimpleNamespace(x=3.0)

    def f(p, other):
        (other if constant else a).x *= 2.0
        return p.x

    with pytest.raises(ndual.AliasError, match=r"args\[0\]: expected f to change what it is given.*another name"):
        evaluate(f)(a, a if constant else None)


def test_arrays_in_containers_that_are_written_into(evaluate):
    def f(p):
        d, x = p
        d["w"][0] *= 3
        return x[0] * x[1]

    x = np.array([2.0, 5.0])
    call = evaluate(f)
    for _ in range(3):
        value, (d, g) = call(({"w": x}, x))
        assert (value, g.tolist(), x.tolist()) == (30.0, [15.0, 6.0], [2.0, 5.0])
        assert d["w"] is g


def test_objects_without_floats_stay_what_they_are(evaluate):
    counter = SimpleNamespace(calls=0)

    def f(p):
        p["counter"].calls += 1
        return p["x"] ** 2

    assert evaluate(f)({"x": 3.0, "counter": counter})[1] == {"x": 6.0, "counter": None}
    assert counter.calls >= 1


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_prepared(mode):
    prepared = ndual.prepare_gradient(lambda p: p.i.a**2 * p.x, Outer(Inner(1.0), 2.0), mode=mode)
    for call in (prepared, prepared.clone()):
        for a in (1.0, 2.0, 1.0):
            value, g = call(Outer(Inner(a), 3.0))
            assert (value, g.i.a, g.x) == (3 * a * a, 6 * a, a * a)
    with pytest.raises(ndual.CacheMismatchError, match=r"args\[0\]\.i: expected an Inner.*SimpleNamespace"):
        prepared(Outer(SimpleNamespace(a=1.0), 2.0))
    with pytest.raises(ndual.CacheMismatchError, match=r"args\[0\]\.i\.a"):
        prepared(Outer(Inner(np.ones(2)), 2.0))


@pytest.mark.parametrize("bad", [iter([1.0]), {1.0}], ids=["iterator", "set"])
def test_what_cannot_be_looked_into_is_refused(bad):
    with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]\.layers\[1\]\.w: expected numbers"):
        ndual.grad(lambda p: p.x)(SimpleNamespace(x=1.0, layers=[1.0, SimpleNamespace(w=bad)]))


def test_what_stands_in_fields_and_is_no_parameter(evaluate):
    class Job:
        def __init__(self):
            self.x, self.log, self.lock = 3.0, logging.getLogger("job"), threading.Lock()
            self.when, self.path, self.pattern = datetime.datetime(2020, 1, 1), pathlib.Path("a"), re.compile("a")
            self.names, self.random, self.call = {"a", "b", 3}, random.Random(1), functools.partial(max, 1.0)

    job = Job()

    def f(job):
        assert job.path.name == "a"
        assert "b" in job.names
        with job.lock:
            return job.x * job.call(job.x)

    for _ in range(3):
        value, g = evaluate(f)(job)
        assert (value, g.x, g.log, g.lock, g.names) == (9.0, 6.0, None, None, None)
    prepared = ndual.prepare_gradient(f, job)
    assert prepared(Job())[0] == 9.0
    job.names.add(2.0)
    for call in (evaluate(f), prepared):
        with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]\.names: .*got set"):
            call(job)


def test_refusals():
    for fields in (np.zeros(2, [("a", float)]), np.zeros(2, [("a", float)])[0]):
        with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]\.v: expected a float array; got fields a"):
            ndual.grad(lambda p: p.x)(SimpleNamespace(x=1.0, v=fields))
    with pytest.raises(ndual.ArgumentTypeError, match="without any"):
        ndual.grad(lambda p: p.n)(SimpleNamespace(n=1))
    with pytest.raises(ndual.ArgumentValueError, match=r"tangent of args\[0\]\.i: expected an Inner"):
        ndual.jvp(lambda p: p.x, (Outer(Inner(1.0), 2.0),), (Outer(1.0, 1.0),))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_parameters_of_scipy(mode):
    import scipy.optimize

    import ndual.scipy

    p = ndual.scipy.problem(lambda p: (p.i.a - 3.0) ** 2 + (p.x - 1.0) ** 2, x0=Frozen(i=Inner(0.0), x=0.0), mode=mode)
    assert p.jac(p.x0).tolist() == [-6.0, -2.0]
    found = p.restore(scipy.optimize.minimize(p.fun, p.x0, jac=p.jac).x)
    assert type(found) is Frozen
    assert (found.i.a, found.x) == (pytest.approx(3.0), pytest.approx(1.0))


def test_pullback_and_push():
    p = Frozen(i=Inner(3.0), x=2.0)
    value, pullback = ndual.vjp(lambda p: p.i.a**2 * p.x, p)
    (g,) = pullback()
    assert (value, g.i.a, g.x) == (18.0, 12.0, 9.0)
    assert ndual.linearize(lambda p: p.i.a**2 * p.x, p)[1]({"i": {"a": 1.0}, "x": 10.0}) == 102.0


@pytest.mark.parametrize(("mode", "chunk_size"), WAYS)
def test_prepared_with_a_closure(mode, chunk_size):
    d = np.array([1.0, 2.0, 3.0])
    for wrap, take in ((lambda p: p, lambda p: p), (Inner, lambda p: p.a), (lambda p: [{"k": p}], lambda p: p[0]["k"])):
        prepared = ndual.prepare_gradient(
            lambda p, take=take: np.sum((d * take(p)) ** 2), wrap(1.0), mode=mode, chunk_size=chunk_size
        )
        assert [take(prepared(wrap(p))[1]) for p in (1.0, 2.0, 1.0)] == [28.0, 56.0, 28.0]


def test_a_frozen_object_stays_frozen(evaluate):
    def f(p):
        with pytest.raises(AttributeError):
            p.x = 5.0
        return p.x * p.i

    assert evaluate(f)(Frozen(i=2.0, x=3.0))[1] == Frozen(i=3.0, x=2.0)


def test_attrs_classes(evaluate):
    attrs = pytest.importorskip("attrs")
    made = [attrs.make_class("Made", ["i", "x"], **kinds) for kinds in ({}, {"slots": False}, {"frozen": True})]
    for kind in made:
        p = kind(i=Inner(1.0), x=2.0)
        for _ in range(3):
            value, g = evaluate(lambda p: p.i.a**2 * p.x)(p)
            assert (value, type(g), g.i.a, g.x) == (2.0, kind, 4.0, 1.0)


def test_what_is_too_deep():
    chain = None
    for _ in range(5000):
        chain = SimpleNamespace(v=1.0, next=chain)
    with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]: expected a structure that is less deep"):
        ndual.grad(lambda p: p.v)(chain)


def test_odd_containers(evaluate):
    pair = ([], 2.0)
    pair[0].append(pair)
    with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]\[0\]\[0\]: .*got a tuple that contains itself"):
        evaluate(lambda p: p[1])(pair)

    class Number(int):
        pass

    class Failing:
        def __init__(self):
            self.x = 2.0

        def __deepcopy__(self, memo):
            raise RuntimeError

        __copy__ = __reduce__ = __getstate__ = __deepcopy__

        def __eq__(self, other):
            raise RuntimeError

        __hash__ = None

    failing = Failing()
    value, g = evaluate(lambda p: p[0].x * p[1].x * p[2])([failing, failing, Number(3)])
    assert (value, g[0].x, g[2]) == (12.0, 12.0, None)
    assert g[0] is g[1]


@pytest.mark.parametrize(
    ("tangent", "words"),
    [
        ({"layers": [1.0]}, r"tangent of args\[0\]\.layers: expected a list of 2"),
        ({"layers": [1.0, 2.0]}, r"tangent of args\[0\]\.layers\[1\]: expected a dict of 1 .*'w'.*got float"),
        ({"layers": [1.0, {"w": np.ones(3)}]}, r"args\[0\]\.layers\[1\]\['w'\]: expected the shape.*\(2,\).*\(3,\)"),
        ({"layers": [1.0, {"w": "text"}]}, r"tangent of args\[0\]\.layers\[1\]\['w'\]: expected a float64 array"),
        ({"layer": []}, r"tangent of args\[0\]: expected a SimpleNamespace with the fields layers"),
        (3.0, r"tangent of args\[0\]: expected a SimpleNamespace with the fields layers.*got float"),
    ],
)  # fmt: skip
def test_tangents_that_do_not_match(tangent, words):
    p = SimpleNamespace(layers=[2.0, {"w": np.ones(2)}])
    with pytest.raises((ndual.ArgumentValueError, ndual.ArgumentTypeError), match=words):
        ndual.jvp(lambda p: p.layers[0], (p,), (tangent,))


numbers = st.one_of(st.floats(-9, 9), st.integers(), st.text(max_size=2), st.just(None))
structures = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.tuples(inner, inner).map(lambda p: [p, p[0], p]),
        st.builds(Frozen, inner, inner),
        st.builds(Plain, inner, inner),
        st.builds(lambda i, x: Slotted(i=i, x=x), inner, inner),
        st.builds(lambda i: SimpleNamespace(i=i, again=[i, i]), inner),
    ),
)


def alike(a, b, pairs):
    """Whether two structures are the same, with the same parts shared."""
    if not isinstance(a, list | dict | tuple) and not hasattr(a, "x") and not hasattr(a, "again"):
        return type(a) is type(b) and a == b
    if not isinstance(a, tuple):
        if id(a) in pairs:
            return pairs[id(a)] is b
        pairs[id(a)] = b
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(alike(x, y, pairs) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(alike(a[k], b[k], pairs) for k in a)
    names = ("i", "x") if isinstance(a, Slotted) else tuple(vars(a))
    return all(alike(getattr(a, n), getattr(b, n), pairs) for n in names)


@settings(max_examples=200, deadline=None)
@given(structures)
def test_round_trip(structure):
    flat = Flat([1.5, structure], "args[0]")
    back = rebuild(flat.tree, flat.values)
    assert back is not structure
    assert alike([1.5, structure], back, {})
