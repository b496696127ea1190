"""Matrix products and factors that the core forms itself, held against the rules that state them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ndual
from ndual import _core
from ndual.rules import linalg, triangular
from ndual.rules.registry import RULES

SHAPES = {
    "matrices": ((3, 4), (4, 5)),
    "row": ((4,), (4, 5)),
    "column": ((3, 4), (4,)),
    "vectors": ((4,), (4,)),
    "single": ((1, 1), (1, 1)),
    "large": ((70, 40), (40, 65)),
}
LAYOUTS = {
    "C": lambda a: np.ascontiguousarray(a),
    "F": lambda a: np.asfortranarray(a),
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
}
WINDOWS = (((0, 5), (0, 5)), ((0, 2), (2, 5)), ((0, 3), (1, 5)), ((1, 4), (2, 3)), ((3, 5), (0, 1)), ((0, 5), (0, 0)))


def lanes(rng, shape, dtype, window):
    t = np.zeros((5, *shape), dtype)
    t[slice(*window)] = rng.standard_normal((window[1] - window[0], *shape))
    return t


def expected(a, b, da, db):
    """The product rule written out, one lane after the other."""
    out = [x @ b + a @ y for x, y in zip(da, db, strict=True)]
    return np.array(out)


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SHAPES)
def test_products_of_windows(name, dtype, windows):
    rng = np.random.default_rng(7)
    (a, b) = (rng.standard_normal(shape).astype(dtype) for shape in SHAPES[name])
    da, db = (lanes(rng, x.shape, dtype, w) for x, w in zip((a, b), windows, strict=True))
    tolerance = 1e-13 if dtype is np.float64 else 2e-5
    for function, layout in itertools.product((np.matmul, np.dot), LAYOUTS.values()):
        level = _core.Level(5)
        with level:
            x, y = _core.dual(layout(a), da, level), _core.dual(layout(b), db, level)
            got = function(x, y)
            value, tangent = _core.primal(got), _core.lanes(got)
        assert np.array_equal(value, function(layout(a), layout(b)))
        assert value.dtype == dtype and tangent.dtype == dtype
        np.testing.assert_allclose(tangent, expected(a, b, da, db), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", SHAPES)
def test_one_constant_factor(name, which):
    rng = np.random.default_rng(8)
    pair = [rng.standard_normal(shape) for shape in SHAPES[name]]
    t = lanes(rng, pair[which].shape, np.float64, (1, 4))
    level = _core.Level(5)
    with level:
        args = list(pair)
        args[which] = _core.dual(pair[which], t, level)
        got = _core.lanes(args[0] @ args[1])
    other = [np.zeros((5, *x.shape)) for x in pair]
    other[which] = t
    np.testing.assert_allclose(got, expected(*pair, *other), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("function", [np.matmul, np.dot])
def test_zero_annihilates_what_is_not_finite(function):
    a, b = np.array([[0.0, 2.0], [3.0, 0.0]]), np.array([[np.inf, 1.0], [2.0, np.nan]])
    with np.errstate(invalid="ignore"):
        _, tangent = ndual.jvp(lambda x: function(x, b), (a,), (np.eye(2)[::-1].copy(),))
    # The second row of the tangent has its one in the first column and meets inf; the first meets NaN.
    np.testing.assert_array_equal(tangent, [[2.0, np.nan], [np.inf, 1.0]])


def test_the_rule_and_the_core_agree_on_random_products():
    rng = np.random.default_rng(9)
    rule = RULES["numpy.matmul"]
    for shapes in SHAPES.values():
        a, b = (rng.standard_normal(s) for s in shapes)
        da, db = (rng.standard_normal((3, *s)) for s in shapes)
        by_rule = rule.lanes(np, da, b, True, False) + rule.lanes(np, a, db, False, True)
        level = _core.Level(3)
        with level:
            got = _core.lanes(_core.dual(a, da, level) @ _core.dual(b, db, level))
        np.testing.assert_allclose(got, by_rule, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100])
def test_cholesky_lanes_against_the_formula(n, dtype):
    rng = np.random.default_rng(n)
    root = rng.standard_normal((n, n))
    factor = np.linalg.cholesky(root @ root.T + n * np.eye(n))
    da = rng.standard_normal((3, n, n))
    got = _core.cholesky_lanes(factor.astype(dtype), da.astype(dtype))
    want = linalg._cholesky_small(np, np.linalg.inv(factor), factor, da)
    np.testing.assert_allclose(got, want, rtol=0, atol=(1e-12 if dtype is np.float64 else 1e-4) * np.abs(want).max())
    da[:, *np.triu_indices(n, 1)] = np.nan
    read = _core.cholesky_lanes(factor.astype(dtype), da.astype(dtype))
    np.testing.assert_array_equal(read, got)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("n", [1, 5, 32, 70])
def test_triangle_times_vector(n, lower, unit):
    rng = np.random.default_rng(n)
    da, x = rng.standard_normal((2, n, n)), rng.standard_normal(n)
    want = np.matmul(triangular.tri_part(np, da, lower, unit), x)
    unread = np.triu(np.ones((n, n), bool), 1) if lower else np.tril(np.ones((n, n), bool), -1)
    da[:, unread] = np.nan
    for layout in (da, np.asfortranarray(da), np.ascontiguousarray(da.swapaxes(1, 2)).swapaxes(1, 2)):
        np.testing.assert_allclose(_core.triangle_times_vector(layout, x, lower, unit), want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("chunk", [1, 2, 3, 8, None])
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (30, 3), (1, 4), (130, 5)])
def test_products_with_the_argument_itself(rows, columns, chunk):
    """The lanes of X @ w, w being what is differentiated, are the columns of X, exactly; also of a part of w."""
    X = np.random.default_rng(rows).standard_normal((rows, columns))
    w = np.arange(1.0, columns + 1)

    def jacobian(f):
        return ndual.jacobian(f, mode="forward", chunk_size=chunk)(w)

    part = np.zeros_like(X)
    part[:, 1:3] = X[:, :2]
    backwards = np.zeros_like(X)
    backwards[:, 2], backwards[:, 1] = X[:, 0], X[:, 1]
    assert np.array_equal(jacobian(lambda w: X @ w), X)
    assert np.array_equal(jacobian(lambda w: np.asfortranarray(X) @ w), X)
    assert np.array_equal(jacobian(lambda w: X[:, :2] @ w[1:3]), part)
    assert np.allclose(jacobian(lambda w: X[:, :2] @ w[2:0:-1]), backwards, rtol=1e-15)
    assert np.array_equal(jacobian(lambda w: np.dot(X[0], w)), X[0])


def test_products_with_the_argument_meet_no_zero():
    """A zero of a lane annihilates infinities and NaN, and what is left of a product is the column."""
    X = np.array([[np.inf, 1.0], [2.0, np.nan]])
    assert np.array_equal(ndual.jacobian(lambda w: X @ w, mode="forward")(np.ones(2)), X, equal_nan=True)
