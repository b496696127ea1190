"""Bilinear rules and einsum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.einsum
import ndual.rules.products  # noqa: F401


def arrays(rng, dtype, *shapes):
    out = []
    for shape in shapes:
        a = rng.standard_normal(shape)
        out.append(np.asarray(a + 1j * rng.standard_normal(shape) if dtype is complex else a))
    return out


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(
    "shapes",
    [
        *[((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4))],
        *[((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4))],
        *[((2, 0), (0, 3)), ((1, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (1, 5, 3, 4)), ((0, 3), (3, 2))],
    ],
)
def test_matmul(rng, dtype, shapes):
    a, b = arrays(rng, dtype, *shapes)
    for passive in ((), (0,), (1,)):
        check("numpy.matmul", a, b, passive=passive)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("name", ["dot", "inner"])
def test_dot_and_inner(rng, dtype, name):
    shapes = [(), (3,), (2, 3), (4, 2, 3)]
    for sa, sb in itertools.product(shapes, shapes):
        if name == "dot" and len(sb) >= 2:
            sb = (*sb[:-2], 3, 5)
        a, b = arrays(rng, dtype, sa, sb)
        for passive in ((), (0,), (1,)):
            check(f"numpy.{name}", a, b, passive=passive)


@pytest.mark.parametrize("dtype", [float, complex])
def test_vector_products(rng, dtype):
    a, b = arrays(rng, dtype, (2, 3), (2, 3))
    check("numpy.vdot", a, b)
    u, v, m = arrays(rng, dtype, (4, 1, 3), (2, 3), (2, 5, 3))
    check("numpy.vecdot", u, v)
    check("numpy.vecdot", v, u)
    check("numpy.vecdot", a.T.copy(), b.T.copy(), axis=0)
    check("numpy.linalg.vecdot", u, v, axis=-1)
    check("numpy.matvec", m, v)
    check("numpy.matvec", m, v[0])
    check("numpy.vecmat", v, np.swapaxes(m, 1, 2).copy())
    check("numpy.vecmat", v[0], np.swapaxes(m, 1, 2).copy())


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        (((2, 3, 4), (3, 4, 5)), 2),
        (((2, 3, 4), (4, 5)), 1),
        (((2, 3), (4, 5)), 0),
        (((2, 3, 4), (4, 2, 5)), ((0, 2), (1, 0))),
        (((2, 3, 4), (4, 2, 5)), ((2, 0), (0, 1))),
        (((2, 3, 4), (5, 3)), (1, 1)),
        (((2, 3, 4), (5, 3)), (-2, -1)),
        (((4, 3, 2), (2, 3, 4)), ([0, 1, 2], [2, 1, 0])),
    ],
)
def test_tensordot(rng, dtype, shapes, axes):
    a, b = arrays(rng, dtype, *shapes)
    check("numpy.tensordot", a, b, axes)
    check("numpy.tensordot", a, b, axes=axes, passive=(0,))


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve_and_correlate(rng, dtype, mode):
    for n, m in [(1, 1), (5, 3), (3, 5), (5, 4), (4, 5), (6, 2), (2, 6), (4, 4)]:
        a, v = arrays(rng, dtype, (n,), (m,))
        check("numpy.convolve", a, v, mode)
        check("numpy.correlate", a, v, mode)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("i,i", ((3,), (3,))),
        ("i,j->ij", ((3,), (4,))),
        ("ii->i", ((3, 3),)),
        ("ii", ((3, 3),)),
        ("iij,j->i", ((3, 3, 4), (4,))),
        ("ij->", ((2, 3),)),
        ("ij->j", ((2, 3),)),
        ("ji", ((2, 3),)),
        ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
        ("...ij,...jk", ((2, 3), (5, 3, 4))),
        ("i...,i...->...", ((3, 2), (3, 2))),
        ("i...->...", ((3, 2),)),
        ("ij,kj,kl->il", ((2, 3), (4, 3), (4, 5))),
        ("ij,kl->i", ((2, 3), (4, 5))),
        ("bij,bj,bi->b", ((5, 2, 3), (5, 3), (5, 2))),
        ("ij,ij->ij", ((2, 3), (2, 1))),
        (" i j , j -> i ", ((2, 3), (3,))),
        (",i->i", ((), (3,))),
    ],
)
def test_einsum(rng, dtype, subscripts, shapes):
    ops = arrays(rng, dtype, *shapes)
    check("numpy.einsum", subscripts, *ops)
    check("numpy.einsum", subscripts, *ops, optimize=True)
    if len(ops) > 1:
        check("numpy.einsum", subscripts, *ops, passive=(0,))


def test_einsum_interleaved(rng):
    a, b = arrays(rng, float, (2, 3), (3, 4))
    check("numpy.einsum", a, [0, 1], b, [1, 2], [0, 2])
    check("numpy.einsum", a, [Ellipsis, 1], b, [1, 2])


def test_einsum_large_goes_through_blas(rng):
    a, b = arrays(rng, float, (60, 50), (50, 60))
    check("numpy.einsum", "ij,jk->ik", a, b)


def test_compositions(rng):
    a, b, c = arrays(rng, float, (2, 3), (4, 3), (3,))
    for x, y in [(a, b), (a, c), (c, a), (c, c), (np.float64(2), a), (a, 3.0), (np.ones((2, 1, 2)), b)]:
        check("numpy.outer", x, y)
        check("numpy.kron", x, y)
    check("numpy.linalg.outer", c, c)
    check("numpy.cross", c, b)
    check("numpy.cross", b.T.copy(), c, axisa=0)
    check("numpy.cross", a, c, axisc=0)
    check("numpy.cross", a.T.copy(), a.T.copy()[:, ::-1], axis=0)


def test_strong_zero():
    inf, nan = np.inf, np.nan
    _, matmul = rule_of("numpy.matmul")
    b = np.array([[inf, 1.0], [nan, 2.0], [-inf, 3.0]])
    t = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0, 0, 2]]])
    (out,) = push(matmul, None, (np.ones((5, 3)), b), (t, None), ((), {}))
    np.testing.assert_array_equal(out[0], [[0, 0], [inf, 1], [nan, 4], [nan, 2], [-inf, 6]])
    _, einsum = rule_of("numpy.einsum")
    xs, extra = einsum.bind(("ij,jk->ik", np.ones((5, 3)), b), {})
    (out,) = push(einsum, None, xs, (t, None), extra)
    np.testing.assert_array_equal(out[0], [[0, 0], [inf, 1], [nan, 4], [nan, 2], [-inf, 6]])
    _, dot = rule_of("numpy.dot")
    (out,) = push(dot, None, (np.ones(2), np.array([inf, 3.0])), (np.array([[0.0, 2.0], [1, 1]]), None), ((), {}))
    np.testing.assert_array_equal(out, [6, inf])
