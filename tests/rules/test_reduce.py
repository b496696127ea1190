"""Reductions with every option."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.reduce  # noqa: F401

AXES = [
    ((), {}),
    ((5,), {}),
    ((5,), {"axis": -1}),
    ((3, 4), {"axis": 0, "keepdims": True}),
    ((2, 3, 4), {"axis": (0, -1)}),
]
AXES += [((2, 3), {"axis": None, "keepdims": True}), ((2, 3), {"axis": (0, 1)}), ((2, 3), {"keepdims": False})]
PLAIN = [
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "amax",
    "amin",
    "ptp",
    "var",
    "std",
    "nansum",
    "nanmean",
    "nanprod",
    "nanmax",
    "nanmin",
    "nanvar",
    "nanstd",
]
MASKED = [
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "var",
    "std",
    "nansum",
    "nanmean",
    "nanprod",
    "nanmax",
    "nanmin",
    "nanvar",
    "nanstd",
]


def sample(rng, shape):
    """Distinct values of order one."""
    return np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) / 3.0 + 0.3)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize(("shape", "kwargs"), AXES, ids=str)
def test_axes(rng, name, shape, kwargs):
    if shape == () and name in ("std", "nanstd"):
        return
    check(f"numpy.{name}", sample(rng, shape), **kwargs)


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_where(rng, name, axis):
    a = sample(rng, (3, 4))
    mask = a < 3
    mask[0] = True
    mask[:, 1] = True
    kwargs = {"initial": 0.5} if name.endswith(("max", "min")) else {}
    check(f"numpy.{name}", a, axis=axis, where=mask, **kwargs)
    check(f"numpy.{name}", a, axis=axis, where=np.array([[True], [False], [True]]), **kwargs)


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanprod", "nanmax", "nanmin", "nanvar", "nanstd"])
def test_nan(rng, name):
    a = sample(rng, (3, 4))
    a[0, 1] = a[2, 2] = np.nan
    for axis in (None, 0, 1):
        check(f"numpy.{name}", a, axis=axis)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std"])
def test_complex(rng, name):
    a = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
    check(f"numpy.{name}", a, axis=0)
    check(f"numpy.{name}", a)


def test_options(rng):
    a = sample(rng, (3, 4))
    check("numpy.sum", a, initial=np.float64(2.0))
    check("numpy.sum", a, axis=0, initial=np.float64(2.0))
    check("numpy.sum", a, 1, None, None, True)
    check("numpy.prod", a, initial=2.5)
    check("numpy.var", a, ddof=1)
    check("numpy.std", a, axis=1, correction=1)
    check("numpy.max", a, initial=1.5)
    check("numpy.min", a, axis=1, initial=0.1)
    check("numpy.var", a, mean=np.mean(a) + 0.5)
    check("numpy.std", a, axis=0, mean=np.mean(a, axis=0, keepdims=True) + 0.5, ddof=1)
    check("numpy.nanvar", a, mean=np.mean(a) + 0.5)
    for name in ("sum", "prod", "nansum"):
        check(f"numpy.{name}", np.zeros((0, 3)), axis=0)


def gradient(name, x, **kwargs):
    function, rule = rule_of(f"numpy.{name}")
    x = np.asarray(x, float)
    y = function(x, **kwargs)
    _, params = rule.bind((x,), kwargs)
    params.pop("out", None)
    with np.errstate(all="ignore"):
        g = rule.vjp(np, np.ones_like(y), y, (x, None)[: len(rule.arrays)], **params)[0]
        eye = np.eye(x.size).reshape(x.size, *x.shape)
        (t,) = push(rule, y, (x, None)[: len(rule.arrays)], (eye, None)[: len(rule.arrays)], params)
    np.testing.assert_array_equal(t.reshape(x.size, -1).sum(1).reshape(x.shape), np.broadcast_to(g, x.shape))
    return np.broadcast_to(g, x.shape)


def test_pinned_points():
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(gradient("max", [2, 2, 1]), [0.5, 0.5, 0])
    np.testing.assert_array_equal(gradient("min", [2, 2, 1, 1, 1]), np.array([0, 0, 1, 1, 1]) / 3)
    np.testing.assert_array_equal(gradient("max", [2, nan, 1]), [0, 1, 0])
    np.testing.assert_array_equal(gradient("nanmax", [2, nan, 2]), [0.5, 0, 0.5])
    np.testing.assert_array_equal(gradient("max", [2, 2, 1], initial=2), [1 / 3, 1 / 3, 0])
    np.testing.assert_array_equal(gradient("max", [2, 2, 1], initial=3), [0, 0, 0])
    np.testing.assert_array_equal(gradient("max", [inf, 2]), [1, 0])
    np.testing.assert_array_equal(gradient("ptp", [1, 1, 3]), [-0.5, -0.5, 1])
    np.testing.assert_array_equal(gradient("ptp", [1, 1]), [0, 0])
    np.testing.assert_array_equal(gradient("prod", [2, 0, 3]), [0, 6, 0])
    np.testing.assert_array_equal(gradient("prod", [0, 0, 3]), [0, 0, 0])
    np.testing.assert_array_equal(gradient("prod", [1e-200, 1e-200]), [1e-200, 1e-200])
    np.testing.assert_array_equal(gradient("std", [3, 3, 3]), [0, 0, 0])
    np.testing.assert_array_equal(gradient("nanstd", [3, nan, 3]), [0, 0, 0])
    np.testing.assert_array_equal(gradient("nanmean", [3, nan, 3]), [0.5, 0, 0.5])
    np.testing.assert_array_equal(gradient("max", [[1, 1], [0, 2]], axis=1), [[0.5, 0.5], [0, 1]])


def test_average(rng):
    a, w = sample(rng, (3, 4)), rng.random((3, 4)) + 0.5
    check("numpy.average", a)
    check("numpy.average", a, 0, w)
    check("numpy.average", a, axis=1, weights=w[0])
    check("numpy.average", a, axis=(1, 0), weights=w.T.copy())
    check("numpy.average", a, axis=1, weights=w[0], returned=True, keepdims=True)
    check("numpy.average", a, weights=w, returned=True)
