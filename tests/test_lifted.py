"""Structures with tangents as values: what is put into a lane comes out of it, and nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndual


@dataclass
class Inner:
    a: float
    name: str = "n"


@dataclass(frozen=True)
class Outer:
    inner: Inner
    x: np.ndarray


def numbers(obj):
    """The floats of a structure, in order; anything else is left out."""
    if isinstance(obj, Inner):
        return numbers(obj.a)
    if isinstance(obj, Outer):
        return numbers(obj.inner) + numbers(obj.x)
    if isinstance(obj, dict):
        return [n for value in obj.values() for n in numbers(value)]
    if isinstance(obj, list | tuple):
        return [n for value in obj for n in numbers(value)]
    if isinstance(obj, np.ndarray):
        return list(obj.ravel())
    return [obj] if isinstance(obj, float | complex | np.inexact) else []


LEAVES = st.one_of(
    st.floats(-4, 4),
    st.builds(lambda n: np.arange(1.0, n + 1), st.integers(1, 3)),
    st.builds(lambda: np.ones((2, 1), np.float32)),
    st.just("text"),
    st.just(None),
)
STRUCTURES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
        st.builds(lambda v: Outer(Inner(2.0), np.ones(2)), inner),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(STRUCTURES)
def test_units_come_out_where_they_belong(structure):
    count = len(numbers(structure))
    if count == 0:
        with pytest.raises(ndual.ArgumentTypeError, match="value: expected at least one float"):
            ndual.lift_value(structure)
        return
    lifted = ndual.lift_value(structure)
    assert lifted.width == count
    assert numbers(ndual.primal(lifted)) == numbers(structure)
    for lane in range(count):
        assert numbers(ndual.tangent(lifted, lane)) == [float(k == lane) for k in range(count)]
    assert not any(numbers(ndual.tangent(ndual.zero_lifted(3, structure), 2)))


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_scatter(width):
    value = Outer(Inner(1.0), np.array([2.0, 3.0]))
    lifted = ndual.zero_lifted(width, value)
    for lane in range(width):
        lifted.scatter(lane, Outer(Inner(10.0 * lane, "other"), np.array([lane, 5.0])))
    for lane in range(width):
        found = ndual.tangent(lifted, lane)
        assert type(found) is Outer
        assert found.inner.name is None
        assert found.inner.a == 10.0 * lane
        assert found.x.tolist() == [lane, 5.0]
    assert ndual.primal(lifted).inner == value.inner
    found.x[0] = 99.0
    ndual.primal(lifted).x[0] = 99.0
    value.x[0] = 77.0
    assert ndual.tangent(lifted, width - 1).x[0] == width - 1
    assert ndual.primal(lifted).x[0] == 2.0


def test_its_lanes_are_tangents():
    """Along the unit tangents, jvp has the columns of the Jacobian."""
    value = {"a": np.array([1.0, 2.0]), "b": 3.0}
    lifted = ndual.lift_value(value)
    columns = [
        ndual.jvp(lambda d: d["a"] * d["b"], (value,), (ndual.tangent(lifted, k),))[1] for k in range(lifted.width)
    ]
    assert np.array(columns).tolist() == [[3.0, 0.0], [0.0, 3.0], [1.0, 2.0]]


def test_complex_numbers_have_two_lanes():
    lifted = ndual.lift_value(2.0 + 1j)
    assert [ndual.tangent(lifted, k) for k in range(2)] == [1.0, 1.0j]


def test_bad_input():
    lifted = ndual.lift_value([np.ones(2), 1.0], [[np.ones(2), 2.0]])
    for wrong, error, text in (
        (lambda: ndual.zero_lifted(0, 1.0), ndual.ArgumentValueError, "lanes from 1 on; got 0"),
        (lambda: ndual.zero_lifted(2, "text"), ndual.ArgumentTypeError, "value: expected at least one float"),
        (lambda: ndual.tangent(lifted, 1), ndual.ArgumentValueError, "one of the 1 lanes; got 1"),
        (lambda: ndual.tangent(1.0, 0), ndual.ArgumentTypeError, "tangent expects a Lifted; got float"),
        (lambda: ndual.primal([1.0]), ndual.ArgumentTypeError, "primal expects a Lifted; got list"),
        (lambda: lifted.scatter(0, [np.ones(3), 1.0]), ndual.ArgumentValueError, r"value\[0\]: expected the shape"),
        (lambda: lifted.scatter(0, [np.ones(2)]), ndual.ArgumentValueError, "tangent: expected a list of 2"),
        (lambda: lifted.scatter(0, [np.ones(2), "x"]), ndual.ArgumentTypeError, r"value\[1\]"),
    ):
        with pytest.raises(error, match=text):
            wrong()
    assert ndual.tangent(lifted, 0)[1] == 2.0
