"""Rules that move elements, join and cut."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.join
import ndual.rules.shape  # noqa: F401

LINEAR = [
    ("reshape", (2, 3, 4), ((4, 6),), {}),
    ("reshape", (2, 3, 4), (-1,), {}),
    ("reshape", (2, 3, 4), ((-1, 2),), {"order": "F"}),
    ("reshape", (2, 3), ((3, 2), "A"), {}),
    ("reshape", (0, 3), ((3, -1),), {}),
    ("reshape", (2, 3), ((3, 2),), {"copy": True}),
    ("ravel", (2, 3), (), {}),
    ("ravel", (2, 3), ("F",), {}),
    ("ravel", (2, 3), ("K",), {}),
    ("ravel", (), (), {}),
    ("transpose", (2, 3, 4), (), {}),
    ("transpose", (2, 3, 4), ((2, 0, 1),), {}),
    ("transpose", (2, 3, 4), ((-1, 0, 1),), {}),
    ("matrix_transpose", (2, 3, 4), (), {}),
    ("swapaxes", (2, 3, 4), (0, -1), {}),
    ("moveaxis", (2, 3, 4), (0, -1), {}),
    ("moveaxis", (2, 3, 4), ([0, 1], [-1, 0]), {}),
    ("rollaxis", (2, 3, 4), (2,), {}),
    ("rollaxis", (2, 3, 4), (0, 3), {}),
    ("rollaxis", (2, 3, 4), (1, -1), {}),
    ("squeeze", (1, 3, 1), (), {}),
    ("squeeze", (1, 3, 1), (-1,), {}),
    ("squeeze", (1, 3, 1), ((0, 2),), {}),
    ("expand_dims", (2, 3), (0,), {}),
    ("expand_dims", (2, 3), ((-1, 1),), {}),
    ("broadcast_to", (3, 1), ((2, 3, 4),), {}),
    ("broadcast_to", (), (3,), {}),
    ("flip", (2, 3), (), {}),
    ("flip", (2, 3), (-1,), {}),
    ("flip", (2, 3, 4), ((0, 2),), {}),
    ("fliplr", (2, 3), (), {}),
    ("flipud", (2, 3), (), {}),
    ("rot90", (2, 3), (), {}),
    ("rot90", (2, 3, 4), (3, (1, -1)), {}),
    ("roll", (2, 3), (2,), {}),
    ("roll", (2, 3), (1, -1), {}),
    ("roll", (2, 3), ((1, 2), (0, 1)), {}),
    ("roll", (2, 3), (1, (0, 1)), {}),
    ("tile", (2, 3), (2,), {}),
    ("tile", (3,), ((2, 1, 2),), {}),
    ("tile", (2, 1, 3), ((2, 2),), {}),
    ("tile", (), (3,), {}),
    ("repeat", (2, 3), (2,), {}),
    ("repeat", (2, 3), ([1, 0, 2], -1), {}),
    ("repeat", (2, 3), (2, 0), {}),
    ("resize", (2, 3), ((4, 2),), {}),
    ("resize", (3,), (2,), {}),
    ("copy", (2, 3), (), {}),
    ("diagonal", (3, 4), (), {}),
    ("diagonal", (3, 4, 2), (1, 2, 0), {}),
    ("diagonal", (3, 4), (-1,), {}),
    ("diagonal", (3, 4), (7,), {}),
    ("linalg.diagonal", (2, 3, 4), (), {"offset": 1}),
    ("diag", (3,), (), {}),
    ("diag", (3,), (-2,), {}),
    ("diag", (3, 4), (1,), {}),
    ("diagflat", (2, 2), (1,), {}),
    ("tril", (3, 4), (), {}),
    ("tril", (3,), (-1,), {}),
    ("tril", (2, 3, 3), (1,), {}),
    ("triu", (3, 4), (1,), {}),
    ("trace", (3, 4), (), {}),
    ("trace", (3, 4, 2), (1, 2, 0), {}),
    ("linalg.trace", (2, 3, 4), (), {"offset": -1}),
    ("delete", (5,), (1,), {}),
    ("delete", (4, 3), ([0, -1], 0), {}),
    ("delete", (4, 3), (slice(1, 3), 1), {}),
    ("delete", (4, 3), ([0, 5],), {}),
    ("pad", (4,), (2,), {}),
    ("pad", (3, 4), (((1, 2), (0, 3)),), {"constant_values": 5.0}),
    ("pad", (3, 4), ((1, 2), "edge"), {}),
    ("pad", (3, 4), ((1, 2), "reflect"), {}),
    ("pad", (3, 4), ((1, 2), "reflect"), {"reflect_type": "odd"}),
    ("pad", (3, 4), ((1, 2), "symmetric"), {}),
    ("pad", (3, 4), ((1, 2), "wrap"), {}),
    ("pad", (3, 4), ((1, 2), "mean"), {"stat_length": ((1, 2), (3, 3))}),
    ("pad", (3, 4), ((1, 2), "linear_ramp"), {"end_values": 3.0}),
    ("pad", (3, 4), ({-1: (1, 2)},), {}),
    ("split", (6, 2), (3,), {}),
    ("split", (2, 6), ([1, 4], -1), {}),
    ("array_split", (7,), (3,), {}),
    ("hsplit", (6,), (2,), {}),
    ("hsplit", (2, 6), ([2],), {}),
    ("vsplit", (4, 2), (2,), {}),
    ("dsplit", (1, 2, 4), (2,), {}),
    ("unstack", (2, 3), (), {"axis": -1}),
]


@pytest.mark.parametrize("case", LINEAR, ids=str)
def test_linear(rng, case):
    name, shape, args, kwargs = case
    a = rng.standard_normal(shape)
    check(f"numpy.{name}", a, *args, **kwargs)
    if a.ndim > 1:
        check(f"numpy.{name}", np.asfortranarray(a), *args, **kwargs)
        check(f"numpy.{name}", rng.standard_normal((*shape[:-1], 2 * shape[-1]))[..., ::-2], *args, **kwargs)


VIEWS = [
    c for c in LINEAR if c[0] in ["transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims", "flip"]
]


@pytest.mark.parametrize("case", VIEWS, ids=str)
def test_lanes_of_views_are_views(rng, case):
    name, shape, args, kwargs = case
    function, rule = rule_of(f"numpy.{name}")
    a, t = rng.standard_normal(shape), rng.standard_normal((2, *shape))
    for out in push(rule, None, (a,), (t,), (args, kwargs)):
        assert np.shares_memory(out, t)
    assert np.shares_memory(function(a, *args, **kwargs), a)


def test_broadcast_and_diag_and_split_share_memory(rng):
    t = rng.standard_normal((2, 4, 4))
    for name, args in (("diagonal", ()), ("diag", ()), ("split", (2,)), ("broadcast_to", ((3, 4, 4),)), ("rot90", ())):
        _, rule = rule_of(f"numpy.{name}")
        assert np.shares_memory(push(rule, None, (t[0],), (t,), (args, {}))[0], t)


def test_joins(rng):
    a, b, c = rng.standard_normal((2, 3)), rng.standard_normal((2, 2)), rng.standard_normal((2, 3))
    for passive in ((), (0,), (1,)):
        check("numpy.concatenate", [a, b], 1, passive=passive)
        check("numpy.concatenate", [a, b], axis=None, passive=passive)
        check("numpy.concatenate", (a, c), passive=passive)
        check("numpy.stack", [a, c], passive=passive)
        check("numpy.stack", [a, c], axis=-1, passive=passive)


def test_concatenate_values():
    function, rule = rule_of("numpy.concatenate")
    x = (np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]))
    w = np.arange(1.0, 6.0)
    g = rule.vjp(np, w, function(x), x, axis=0, dtype=None, casting="same_kind")
    np.testing.assert_array_equal(np.concatenate(g), w)


def test_compositions(rng):
    v, m, t = rng.standard_normal(3), rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 4))
    s = np.float64(2.0)
    for x in (s, v, m, t):
        for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
            check(f"numpy.{name}", x)
    check("numpy.atleast_2d", v, m)
    check("numpy.hstack", [v, v])
    check("numpy.hstack", [m, m])
    check("numpy.hstack", [s, v])
    check("numpy.vstack", [v, m])
    check("numpy.dstack", [v, v])
    check("numpy.dstack", [m, m])
    check("numpy.column_stack", [v, v[::-1], rng.standard_normal((3, 2))])
    check("numpy.block", [[m, m[:, :1]], [np.ones((1, 3)), np.array([[2.0]])]])
    check("numpy.block", [v, s])
    check("numpy.block", [[v], [v]])
    check("numpy.block", v)
    check("numpy.append", v, [1.0, 2.0])
    check("numpy.append", m, m, axis=1)
    check("numpy.broadcast_arrays", v, m)
    check("numpy.meshgrid", v, np.arange(2.0))
    check("numpy.meshgrid", v, np.arange(2.0), np.arange(4.0), indexing="ij", sparse=True)
    check("numpy.full_like", m, 3.0)
    check("numpy.full_like", m, v)


def test_insert(rng):
    v, m = rng.standard_normal(4), rng.standard_normal((3, 4))
    check("numpy.insert", v, 1, 5.0)
    check("numpy.insert", v, [3, 0, 0], [1.0, 2.0, 3.0])
    check("numpy.insert", v, -1, [1.0, 2.0])
    check("numpy.insert", v, slice(1, 3), 7.0)
    check("numpy.insert", m, 1, 5.0)
    check("numpy.insert", m, 1, [1.0, 2.0, 3.0], axis=1)
    check("numpy.insert", m, [1], [[1.0], [2.0], [3.0]], axis=1)
    check("numpy.insert", m, [0, 2], rng.standard_normal((2, 4)), axis=0)
