"""Sorting and order statistics."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.order  # noqa: F401


def sample(rng, shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 3.0


@pytest.mark.parametrize("axis", [-1, 0, None])
def test_sort_and_partition(rng, axis):
    a = sample(rng, (3, 7))
    check("numpy.sort", a, axis)
    check("numpy.sort", a, axis=axis, kind="heapsort")
    check("numpy.sort", a, axis=axis, stable=True)
    if "descending" in inspect.signature(np.sort).parameters:
        check("numpy.sort", a, axis=axis, descending=True)
    check("numpy.partition", a, 2, axis)
    check("numpy.partition", a, (0, -1), axis=axis)


METHODS = [
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]


@pytest.mark.parametrize("method", METHODS)
def test_quantile(rng, method):
    a = sample(rng, (4, 5))
    for q in (0.3, np.array([0.0, 0.25, 1.0]), np.array([[0.1], [0.5]])):
        for kwargs in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (1, 0)}):
            check("numpy.quantile", a, q, method=method, passive=(1,), **kwargs)
            check("numpy.percentile", a, 100 * q, method=method, passive=(1,), **kwargs)


@pytest.mark.parametrize("method", ["linear", "hazen", "weibull", "median_unbiased", "interpolated_inverted_cdf"])
def test_quantile_wrt_q(rng, method):
    a = sample(rng, (4, 5))
    for q in (np.float64(0.33), np.array([0.21, 0.77])):
        check("numpy.quantile", a, q, method=method, h=1e-4)
        check("numpy.quantile", a, q, axis=1, method=method, passive=(0,), h=1e-4)
        check("numpy.nanpercentile", a, 100 * q, axis=0, method=method, h=1e-3)


def test_quantile_ends():
    function, rule = rule_of("numpy.quantile")
    a = np.array([1.0, 2.0, 5.0])
    for q, slope in ((0.0, 2.0), (1.0, 6.0), (0.5, 6.0)):
        xs, params = rule.bind((a, np.float64(q)), {})
        (t,) = push(rule, function(a, q), xs, (None, np.ones(1)), params)
        np.testing.assert_array_equal(t, [slope])


def test_nan_quantiles(rng):
    a = sample(rng, (4, 5))
    a[0, 1] = a[2, 2] = a[2, 4] = np.nan
    for kwargs in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
        check("numpy.nanquantile", a, 0.3, passive=(1,), **kwargs)
        check("numpy.nanpercentile", a, [30.0, 60.0], passive=(1,), **kwargs)
        check("numpy.nanmedian", a, **kwargs)


@pytest.mark.parametrize("shape", [(5,), (4,), (3, 4), (2, 3, 4)])
def test_median(rng, shape):
    a = sample(rng, shape)
    check("numpy.median", a)
    check("numpy.median", a, axis=-1, keepdims=True)
    check("numpy.median", a, axis=0)
