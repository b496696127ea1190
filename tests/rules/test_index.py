"""Taking, choosing, writing by index; interpolation."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.index
import ndual.rules.interp  # noqa: F401


def test_take(rng):
    v, m = rng.standard_normal(4), rng.standard_normal((3, 4))
    check("numpy.take", v, [0, 2, 0, 3])
    check("numpy.take", v, 1)
    check("numpy.take", m, [[0, 2], [1, -1]], axis=1)
    check("numpy.take", m, [5, 7])
    check("numpy.take", m, [5, 9], axis=0, mode="wrap")
    check("numpy.take_along_axis", m, np.argsort(m, axis=1), axis=1)
    check("numpy.take_along_axis", m, np.array([[0, 1, 1, 2]]), 0)
    check("numpy.take_along_axis", m, np.array([0, 5, 5]), axis=None)
    check("numpy.compress", [True, False, True, True], v)
    check("numpy.compress", [False, True], m, axis=1)
    check("numpy.compress", [False, True, True], m)
    check("numpy.extract", m > 0, m)


def test_gather_adds_repeats():
    _, rule = rule_of("numpy.take")
    g = rule.transpose(np, np.array([1.0, 2, 3, 4]), np.zeros(4), [0, 2, 0, 3])
    np.testing.assert_array_equal(g, [4, 0, 2, 4])


def test_choose_and_select(rng):
    a, b, c = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal((3, 1))
    index = rng.integers(0, 3, (3, 4))
    for passive in ((), (0,), (1, 2)):
        check("numpy.choose", index, [a, b, c], passive=passive)
        check("numpy.choose", index * 2, [a, b, c], mode="wrap", passive=passive)
        check("numpy.choose", index * 2, (a, b, c), mode="clip", passive=passive)
        check("numpy.select", [a > 1, a > 0], [a, b], passive=passive)
    check("numpy.select", [a > 1, a > 0], [a, b], np.float64(0.7))
    check("numpy.select", [a > 1, a > 0], [a, b], default=c)


def test_unique(rng):
    a = np.array([3.0, 1.0, 3.0, 2.0])
    function, rule = rule_of("numpy.unique")
    t = np.array([[1.0, 2.0, 3.0, 4.0]])
    for kwargs in ({}, {"return_counts": True, "return_inverse": True}):
        xs, params = rule.bind((a,), kwargs)
        out = push(rule, function(a, **kwargs), xs, (t,), params)
        np.testing.assert_array_equal(out[0], [[2, 4, 1]])
        assert all(o is None for o in out[1:])
    check("numpy.unique", rng.standard_normal((4, 2)), axis=0)


@pytest.mark.parametrize("kwargs", [{}, {"left": np.float64(-1.5), "right": np.float64(2.5)}, {"period": 3.1}])
def test_interp(rng, kwargs):
    nodes, values = np.array([0.0, 1.0, 1.7, 3.0]), rng.standard_normal(4)
    x = np.array([[-0.7, 0.33, 1.2], [2.9, 3.4, 1.5]])
    for passive in ((), (0, 1), (1, 2), (2,), (0, 2)):
        check("numpy.interp", x, nodes, values, passive=passive, **kwargs)
    check("numpy.interp", np.float64(0.4), nodes, values, **kwargs)
    check("numpy.interp", x, nodes, values + 1j * values[::-1], **{k: v for k, v in kwargs.items() if k == "period"})


def test_interp_at_the_nodes():
    function, rule = rule_of("numpy.interp")
    x, nodes, values = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0])
    xs, params = rule.bind((x, nodes, values), {})
    (t,) = push(rule, function(x, nodes, values), xs, (np.ones((1, 3)), None, None, None, None), params)
    np.testing.assert_array_equal(t, [[1, 4, 4]])


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put(rng, mode):
    _, rule = rule_of("numpy.put")
    ind = [5, -1, 2] if mode == "raise" else [5, 13, -20]
    for v in (7.0, [1.0, 2.0], np.arange(6.0)):
        a, b = rng.standard_normal((3, 4)), None
        b = a.copy()
        np.put(a, ind, v, mode)
        rule.body(np, b, ind, v, mode)
        np.testing.assert_array_equal(a, b)


def test_writes(rng):
    cases = [
        ("put_along_axis", (np.array([[0], [2], [1]]), 9.0, 1)),
        ("put_along_axis", (np.array([[0, 1, 2, 0]]), np.arange(4.0)[None], 0)),
        ("put_along_axis", (np.array([3, 7]), 1.0, None)),
        ("place", (np.arange(12).reshape(3, 4) % 3 == 0, [1.0, 2.0, 3.0])),
        ("putmask", (np.arange(12).reshape(3, 4) % 3 == 0, np.arange(5.0))),
        ("putmask", (np.arange(12).reshape(3, 4) % 3 == 0, 2.0)),
        ("copyto", (np.arange(4.0),)),
        ("copyto", (np.arange(4.0), "same_kind", np.array([True, False, True, True]))),
        ("copyto", (3.0, "same_kind", np.eye(3, 4, dtype=bool))),
        ("fill_diagonal", (2.0,)),
        ("fill_diagonal", ([1.0, 2.0],)),
    ]
    for name, args in cases:
        function, rule = rule_of(f"numpy.{name}")
        a = rng.standard_normal((3, 4))
        b = a.copy()
        function(a, *args)
        rule.body(np, b, *args)
        np.testing.assert_array_equal(a, b, err_msg=name)
    for shape, wrap in (((7, 3), True), ((7, 3), False), ((3, 3, 3), False), ((3, 7), True)):
        a = np.zeros(shape)
        b = a.copy()
        np.fill_diagonal(a, 5.0, wrap)
        rule_of("numpy.fill_diagonal")[1].body(np, b, 5.0, wrap)
        np.testing.assert_array_equal(a, b)
