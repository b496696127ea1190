"""Compiled structures: the same as walked ones, for what they were made for, and a refusal of anything else."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndual
from ndual.layout import LARGEST, Layout, layout_of, walked
from ndual.structure import Flat, has_float, rebuild_gradient
from ndual.tangents import Shared

Pair = namedtuple("Pair", "left right")
MODES = ["forward", "reverse"]


@dataclass
class Inner:
    a: float


@dataclass(frozen=True)
class Frozen:
    i: object
    x: object


@dataclass(slots=True)
class Slotted:
    i: object
    x: object


class Partly:
    __slots__ = ("__dict__", "a", "b")


class Params(dict):
    """A dict of the user's."""

    def __init__(self, *, must_not_run):
        raise AssertionError


class Attributes(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self


class Names(list):
    pass


def compiled(*args):
    """The layout of some arguments, and the flat ones that it was made from."""
    flats = [Flat(value, f"args[{i}]") for i, value in enumerate(args)]
    leaves = [leaf for flat in flats for leaf in flat.leaves]
    layout = layout_of({i: flat.tree for i, flat in enumerate(flats)}, leaves, range(len(args)), False, len(args))
    assert isinstance(layout, Layout)
    return layout, flats


def alike(a, b, seen):
    """Whether two structures are of the same classes and contents, with the same parts shared."""
    if isinstance(a, np.ndarray):
        return a is b
    fields = getattr(a, "__dict__", None)
    if type(a) is Slotted:
        fields = {"i": a.i, "x": a.x}
    if not isinstance(a, tuple | list | dict | deque) and fields is None:
        return type(a) is type(b) and a == b
    if not isinstance(a, tuple):
        if id(a) in seen:
            return seen[id(a)] is b
        seen[id(a)] = b
    if type(a) is not type(b):
        return False
    if a is b:  # an object that holds no float
        return fields is not None and not has_float(a)
    if isinstance(a, dict):
        return list(a) == list(b) and all(alike(a[k], b[k], seen) for k in a)
    if isinstance(a, tuple | list | deque):
        return len(a) == len(b) and all(alike(x, y, seen) for x, y in zip(a, b, strict=True))
    return all(alike(value, getattr(b, key), seen) for key, value in fields.items())


leaves = st.one_of(
    st.floats(-9, 9), st.integers(), st.text(max_size=2), st.just(None), st.just(1j), st.builds(lambda: np.ones(2)),
    st.just(np.float32(2.0)), st.builds(lambda: np.arange(3)),
)  # fmt: skip
structures = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers(), st.booleans()), inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(lambda d: defaultdict(list, d)),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(OrderedDict),
        st.lists(inner, max_size=3).map(lambda v: deque(v, 4)),
        st.lists(inner, max_size=3).map(Names),
        st.tuples(inner, inner).map(lambda p: [p, p[0], p]),
        st.builds(Pair, inner, inner),
        st.builds(Frozen, inner, inner),
        st.builds(Slotted, inner, inner),
        st.builds(lambda i: SimpleNamespace(i=i, again=[i, i]), inner),
    ),
)


@settings(max_examples=200, deadline=None)
@given(structures)
def test_code_and_walk_agree(structure):
    layout, (flat,) = compiled([1.5, structure])
    value = [1.5, structure]
    given_ = layout.load(lambda p: p, (value,))
    assert all(a is b for a, b in zip(given_, flat.values, strict=False))
    by_code = layout.call(*given_)
    by_walk = walked(*flat.values, ({0: flat.tree}, Shared({0: flat}), lambda p: p, None, 1))
    assert alike(value, by_code, {})
    assert alike(by_walk, by_code, {})
    numbers = list(map(float, range(len(flat.values))))
    assert alike(rebuild_gradient(flat.tree, numbers), layout.gradient(numbers)[0], {})


def ring():
    a, b = SimpleNamespace(v=2.0), Frozen(i=[3.0], x=5.0)
    a.other, a.me = [b], {"k": a}
    b.i.append(b.i)
    return a


@pytest.mark.parametrize(
    "make",
    [
        ring,
        lambda: Attributes(a=1.0, b=[2.0]),
        lambda: [1.0, Params.__new__(Params)],
        lambda: defaultdict(list, a=1.0),
        lambda: deque([1.0, 2.0], maxlen=7),
        lambda: Pair(1.0, [2.0]),
        lambda: [(1.0, 2.0)] * 2,
        lambda: {"class": 1.0, "not a name": {1: 2.0, (2, 3): 4.0, None: 5.0}},
        lambda: SimpleNamespace(**{"class": 1.0, "not a name": 2.0}),
    ],
)
def test_round_trip(make):
    value = make()
    layout, (flat,) = compiled(value)
    back = layout.call(*layout.load(lambda p: p, (value,)))
    assert alike(value, back, {})
    assert alike(value, walked(*flat.values, ({0: flat.tree}, Shared({0: flat}), lambda p: p, None, 1)), {})
    if type(value) is Attributes:
        assert back.b == [2.0]
    if isinstance(value, defaultdict):
        assert back.default_factory is list
    if isinstance(value, deque):
        assert back.maxlen == 7


def partly(**fields):
    found = Partly()
    for name, value in fields.items():
        setattr(found, name, value)
    return found


x, y = np.ones(2), np.ones(2)
one = Inner(1.0)


@pytest.mark.parametrize(
    ("example", "other"),
    [
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], (1.0, 2.0)),
        ([1.0], Names([1.0])),
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": 1.0, "b": 2.0}, {"b": 1.0, "a": 2.0}),
        (Inner(1.0), SimpleNamespace(a=1.0)),
        (SimpleNamespace(a=1.0), SimpleNamespace(a=1.0, b=2.0)),
        (SimpleNamespace(a=1.0), SimpleNamespace(b=1.0)),
        (partly(a=1.0), partly(a=1.0, b=2.0)),
        (partly(a=1.0, b=2.0), partly(a=1.0)),
        (partly(a=1.0), partly(a=1.0, c=2.0)),
        (partly(a=1.0, c=2.0), partly(a=1.0)),
        ([one, one], [Inner(1.0), Inner(1.0)]),
        ([Inner(1.0), Inner(1.0)], [one, one]),
        ([x, x], [x, y]),
        ([x, y], [x, x]),
        ([1.0, 2], [1.0, 2.5]),
        ([1.0, 2], [1.0, "2"]),
        ([1.0, np.arange(2)], [1.0, np.arange(3)]),
        ([1.0, np.arange(2)], [1.0, np.arange(2) > 0]),
        ([1.0, {"a"}], [1.0, {2.0}]),
        ([1.0, SimpleNamespace(calls=1)], [1.0, SimpleNamespace(calls=1.0)]),
        ([1.0, SimpleNamespace(held=[1])], [1.0, SimpleNamespace(held=[1.0])]),
        (deque([1.0], 3), deque([1.0], 4)),
        (defaultdict(list, a=1.0), defaultdict(dict, a=1.0)),
        (Attributes(a=1.0), Params.__new__(Params)),
    ],
)
def test_code_takes_nothing_else(example, other):
    layout, _ = compiled(example)
    assert layout.load(print, (example,)) is not None
    assert layout.load(print, (other,)) is None
    assert layout.load(print, (example, other)) is None


def test_parts_of_two_arguments_are_left_to_the_walk():
    layout, _ = compiled(Inner(1.0), Inner(2.0))
    assert layout.load(print, (one, Inner(2.0))) is not None
    assert layout.load(print, (one, one)) is None


def test_large_structures_are_left_to_the_walk():
    values = [1.0] * LARGEST
    assert layout_of({0: Flat(values, "args[0]").tree}, [], (0,), True, 1) is None
    for mode in MODES:
        value, gradient = ndual.prepare_gradient(lambda p: p[3] * p[5], values, mode=mode)(values)
        assert (value, gradient[3], sum(gradient)) == (1.0, 1.0, 2.0)


@pytest.mark.parametrize("mode", MODES)
def test_a_function_that_is_differentiated_again_and_again(mode):
    function = ndual.value_and_grad(lambda p, q: p.i["w"] @ q[0] * p.x, (0, 1), mode=mode)
    for k in range(1, 6):
        w, q = np.array([1.0, 2.0]) * k, np.array([3.0, 4.0])
        value, (g, h) = function(Frozen(i={"w": w, "n": "text"}, x=float(k)), [q, 2])
        assert value == 11.0 * k * k
        assert (g.i["w"].tolist(), g.i["n"], g.x) == ([3.0 * k, 4.0 * k], None, 11.0 * k)
        assert (h[0].tolist(), h[1]) == ([1.0 * k * k, 2.0 * k * k], None)
    value, (g, h) = function(Slotted(i={"w": np.ones(3)}, x=2.0), [np.ones(3)])
    assert (value, g.x, g.i["w"].tolist(), h[0].tolist()) == (6.0, 3.0, [2.0] * 3, [2.0] * 3)
    counted = SimpleNamespace(x=1.0, held=SimpleNamespace(calls=1))
    twice = ndual.grad(lambda p: p.x * p.x * p.held.calls, mode=mode)
    for calls in (1, 2, 3, 4):
        counted.held.calls = calls
        assert twice(counted).x == 2.0 * calls
    counted.held.calls = 5.0
    assert (twice(counted).x, twice(counted).held.calls) == (10.0, 1.0)


def test_a_direction_again_and_again():
    def f(p, q):
        return p.i["w"] @ q[0] * p.x

    for k in range(1, 5):
        p, q = Frozen(i={"w": np.array([1.0, 2.0]) * k, "n": "text"}, x=2.0), [np.array([3.0, 4.0])]
        t, u = Frozen(i={"w": np.array([1.0, 0.0]), "n": None}, x=1.0), [np.array([0.0, 1.0])]
        assert ndual.jvp(f, (p, q), (t, u)) == (22.0 * k, 6.0 + 11.0 * k + 4.0 * k)
        assert ndual.jvp(f, (p, q), (t, None)) == (22.0 * k, 6.0 + 11.0 * k)
        assert ndual.jvp(f, (p, q), (None, u)) == (22.0 * k, 4.0 * k)
        with pytest.raises(ndual.ArgumentValueError, match=r"tangent of args\[0\]: expected a Frozen"):
            ndual.jvp(f, (p, q), (1.0, u))
        with pytest.raises(ndual.ArgumentValueError, match="got none"):
            ndual.jvp(f, (p, q), (None, None))
        with pytest.raises(ndual.ArgumentValueError, match="a tangent for each of the 2 primals; got 1"):
            ndual.jvp(f, (p, q), (t,))
    other = Slotted(i={"w": np.ones(2)}, x=1.0), (np.ones(2),)
    assert ndual.jvp(f, other, ({"i": {"w": np.ones(2)}, "x": 0.0}, None)) == (2.0, 2.0)


@pytest.mark.parametrize("mode", MODES)
def test_a_prepared_object(mode):
    def f(p, c):
        p.i[0] = p.i[0] * c
        return p.i[0] * p.x[1]

    prepared = ndual.prepare_gradient(f, Slotted(i=[1.0], x=(1, np.float32(2.0))), 3.0, mode=mode)
    given_ = Slotted(i=[4.0], x=(7, np.float32(0.5)))
    value, g = prepared(given_, 3.0)
    assert (value, g.i, g.x, given_.i) == (6.0, [1.5], (None, 12.0), [4.0])
    assert type(g.x[1]) is np.float32
    for bad, words in (
        (Slotted(i=[4], x=given_.x), r"args\[0\]\.i\[0\]: expected a float64 number.*got an int"),
        (Slotted(i=[True], x=given_.x), r"args\[0\]\.i\[0\]: expected a float64 number.*got a bool"),
        (Slotted(i=["a"], x=given_.x), r"args\[0\]\.i\[0\]: expected a float64 number.*got a str"),
        (Slotted(i=[np.ones(2)], x=given_.x), r"args\[0\]\.i\[0\]: expected a float64 number.*shape \(2,\)"),
        (Slotted(i=[4.0], x=(7, 0.5)), r"args\[0\]\.x\[1\]: expected a float32 number.*got a float64"),
        (Slotted(i=[4.0], x=("7", np.float32(0.5))), r"args\[0\]\.x\[0\]: expected an int.*got a str"),
        (Slotted(i=[4.0], x=[7, np.float32(0.5)]), r"args\[0\]\.x: expected a tuple of 2.*got a list of 2"),
        (Slotted(i=[4.0], x=7), r"args\[0\]\.x: expected a tuple of 2.*got an int"),
        (Frozen(i=[4.0], x=given_.x), r"args\[0\]: expected a Slotted.*got a Frozen"),
    ):
        with pytest.raises(ndual.CacheMismatchError, match=words):
            prepared(bad, 3.0)
    with pytest.raises(ndual.ArgumentValueError, match="expected 2 arguments"):
        prepared(given_)


@pytest.mark.parametrize("mode", MODES)
def test_changes_by_another_name(mode):
    held = Slotted(i=[1.0], x={"k": 2.0})

    def appended(p):
        held.i.append(p.i[0])
        return p.x["k"]

    def replaced(p):
        held.x["k"] = p.x["k"]
        return p.x["k"]

    def removed(p):
        del held.x
        return p.x["k"]

    for f, words in ((appended, "a list"), (replaced, "a dict"), (removed, "a Slotted")):
        held.i, held.x = [1.0], {"k": 2.0}
        prepared = ndual.prepare_gradient(f, Slotted(i=[1.0], x={"k": 2.0}), mode=mode)
        with pytest.raises(ndual.AliasError, match=rf"args\[0\]: expected f to change what it is given; got {words}"):
            prepared(held)


def test_nested_derivatives_go_through_prepared_objects():
    prepared = ndual.prepare_gradient(lambda p: p["x"] ** 3, {"x": 1.0})
    assert ndual.derivative(lambda t: prepared({"x": t})[1]["x"])(2.0) == 12.0


def test_containers_with_attributes_are_refused():
    held = Names([1.0])
    held.title = "text"
    with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]\.w: expected a list that holds its .*title"):
        ndual.grad(lambda p: p.w[0])(SimpleNamespace(w=held))
