"""Flattening and rebuilding of arguments: what is a leaf, what is refused, and in which words."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndual
from ndual.objects import plain_data
from ndual.structure import ARRAY, SCALAR, Flat, check_same, rebuild, rebuild_gradient

Pair = namedtuple("Pair", "left right")

leaves = st.one_of(
    st.floats(allow_nan=False),
    st.integers(),
    st.none(),
    st.text(max_size=3),
    st.lists(st.floats(-1, 1), max_size=3).map(np.array),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.tuples(inner, inner).map(lambda p: Pair(*p)),
    ),
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@given(trees)
def test_rebuild_gives_the_structure_back(tree):
    flat = Flat([1.5, tree], "args[0]")
    assert same(rebuild(flat.tree, flat.values), [1.5, tree])


def test_kinds_of_leaves():
    flat = Flat({"a": np.ones((2, 3), np.float32), "b": (1.0, 2, "n"), "c": Pair(np.float64(3), 1j)}, "args[0]")
    assert [leaf.kind for leaf in flat.leaves] == [ARRAY, SCALAR, SCALAR, SCALAR]
    assert [leaf.name for leaf in flat.leaves] == [
        "args[0]['a']",
        "args[0]['b'][0]",
        "args[0]['c'].left",
        "args[0]['c'].right",
    ]
    assert rebuild_gradient(flat.tree, [0, 1, 2, 3]) == {"a": 0, "b": (1, None, None), "c": Pair(2, 3)}


def test_containers_keep_their_class_and_order():
    value = OrderedDict([("z", 1.0), ("a", [2.0])])
    flat = Flat(value, "args[0]")
    back = rebuild(flat.tree, flat.values)
    assert type(back) is OrderedDict
    assert list(back) == ["z", "a"]


def test_an_array_that_occurs_twice_is_one_leaf():
    x = np.ones(3)
    flat = Flat((x, [x], x.copy()), "args[0]")
    assert len(flat.leaves) == 2
    first, (second,), third = rebuild(flat.tree, flat.values)
    assert first is second
    assert first is not third


def test_a_python_int_is_promoted_only_on_top():
    assert Flat(3, "args[0]").values == [3.0]
    assert Flat([3, 1.0], "args[0]").values == [1.0]


@pytest.mark.parametrize("value", [[1, 2], {"a": None}, "text", np.arange(3), np.array([True]), np.int64(3), True, ()])
def test_without_a_float_leaf(value):
    with pytest.raises(ndual.ArgumentTypeError, match=r"args\[0\]: expected .* float"):
        Flat(value, "args[0]")


@pytest.mark.parametrize("value", [np.longdouble(1), np.ones(2, np.longdouble), [np.ones(2, np.clongdouble)]])
def test_longdouble_is_refused(value):
    with pytest.raises(ndual.UnsupportedDtype, match=r"astype\(np\.(float64|complex128)\)"):
        Flat(value, "args[0]")


def test_foreign_byte_order_is_refused():
    with pytest.raises(ndual.UnsupportedDtype, match=r"byte order.*astype\(np.float64\)"):
        Flat(np.ones(2).astype(">f8" if np.little_endian else "<f8"), "args[0]")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([1.0, "a"], object), "object array"),
        (np.ma.array([1.0], mask=[False]), "MaskedArray"),
        ([1.0, object()], r"args\[0\]\[1\].*got object"),
    ],
)
def test_what_has_no_meaning_is_refused(value, words):
    with pytest.raises(ndual.ArgumentTypeError, match=words):
        Flat(value, "args[0]")


def test_a_container_in_itself():
    value = [1.0]
    value.append(value)
    flat = Flat(value, "args[0]")
    back = rebuild(flat.tree, flat.values)
    assert back is not value
    assert back[0] == 1.0
    assert back[1] is back


def test_subclasses_of_ndarray_become_plain():
    flat = Flat(np.ones(3).view(np.recarray), "args[0]")
    assert type(flat.values[0]) is np.ndarray


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        ([1.0, 2.0], [1.0], "list of 2.*list of 1"),
        ({"a": 1.0}, {"b": 1.0}, "keys 'a'.*keys 'b'"),
        ((1.0, [2.0]), (1.0, 2.0), r"args\[0\]\[1\]"),
        ([1.0, "n"], [1.0, None], r"args\[0\]\[1\]: expected a str.*NoneType"),
        ([1.0, 2.0], (1.0, 2.0), "list of 2.*tuple of 2"),
    ],
)
def test_differences_are_named(one, two, words):
    with pytest.raises(ndual.CacheMismatchError, match=words):
        check_same(Flat(one, "args[0]").tree, Flat(two, "args[0]").tree, "args[0]")


def test_plain_data():
    assert plain_data((1.0, "a", [np.ones(2), {"k": None}]))
    assert not plain_data([np.zeros])
    assert not plain_data(np.array([print], object))
    assert not plain_data(Pair(1.0, 2.0))
