"""Random structures: every way gives the analytic gradient, in the classes and with the sharing of the argument."""

from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import ndual

Pair = namedtuple("Pair", "left right")
WAYS = [{"mode": "reverse"}, {}, {"chunk_size": 1}, {"chunk_size": 2}, {"chunk_size": 3}, {"chunk_size": 8}]


@dataclass(frozen=True)
class Frozen:
    i: object
    x: object


@dataclass(slots=True)
class Slotted:
    i: object
    x: object


class Plain:
    def __init__(self, i, x):
        self.i, self.x = i, x

    def used(self):
        return self.x


leaves = st.one_of(
    st.floats(-3, 3), st.integers(-3, 3), st.text(max_size=1), st.none(),
    st.lists(st.floats(-3, 3), max_size=3).map(np.array), st.floats(-3, 3).map(np.float64),
)  # fmt: skip
structures = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.text(max_size=1), inner, max_size=2).map(OrderedDict),
        st.lists(inner, max_size=2).map(deque),
        st.builds(Pair, inner, inner),
        st.builds(Frozen, inner, inner),
        st.builds(Slotted, inner, inner),
        st.builds(Plain, inner, inner),
        st.builds(lambda i: SimpleNamespace(i=i, again=[i, i]), inner),
    ),
    max_leaves=12,
)


def parts(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | deque):
        return list(value)
    if isinstance(value, Slotted):
        return [value.i, value.x]
    return list(vars(value).values()) if hasattr(value, "__dict__") and not isinstance(value, np.ndarray) else None


def pairs(value, other, owner=None):
    """Each float of a structure with the one in its place in another, and where it is kept."""
    if isinstance(value, float):
        return [((id(owner[0]), owner[1]), value, other)]
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return [(id(value), value, other)]
    held = parts(value)
    if held is None or other is None:
        return []
    # Tuples are values: what is in one is kept where the tuple is.
    places = [(owner[0], (owner[1], k)) if isinstance(value, tuple) else (value, k) for k in range(len(held))]
    found = [pairs(a, b, place) for a, b, place in zip(held, parts(other), places, strict=True)]
    return [pair for each in found for pair in each]


@settings(max_examples=40, deadline=None)
@given(structures, structures)
def test_every_way_gives_the_gradient(a, b):
    held = [1.5, a, b]
    weights = {}
    for k, (place, _, _) in enumerate(pairs(held, held)):
        weights[place] = weights.get(place, 0.0) + 2.0 * (k + 1)

    def f(given):
        return sum((k + 1.0) * np.sum(x * x) for k, (_, _, x) in enumerate(pairs(held, given)))

    value = f(held)
    for way in WAYS:
        again = ndual.value_and_grad(f, **way)
        calls = [lambda again=again: again(held)] * 3
        calls.append(lambda way=way: ndual.prepare_gradient(f, held, **way)(held))
        calls.append(lambda way=way: ndual.value_and_grad(lambda: f(held), wrt="held", **way)())
        for call in calls:
            got, gradient = call()
            np.testing.assert_allclose(got, value, rtol=1e-12)
            found = pairs(held, gradient)
            assert len(found) == len(pairs(held, held))
            for place, x, g in found:
                np.testing.assert_allclose(g, weights[place] * x, rtol=1e-12)
