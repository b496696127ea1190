"""Running sums and products, differences, polynomials."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check, push, rule_of

import ndual.rules.running  # noqa: F401


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_running(rng, name):
    for a in (rng.standard_normal(5), rng.standard_normal((3, 4)), rng.standard_normal((2, 3)) + 1j, np.zeros((0, 3))):
        check(f"numpy.{name}", a)
        check(f"numpy.{name}", a, -1)
        check(f"numpy.{name}", a, axis=0)
    if name.startswith("nan"):
        a = rng.standard_normal((3, 4))
        a[1, 1] = np.nan
        check(f"numpy.{name}", a, axis=1)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative(rng, name):
    check(f"numpy.{name}", rng.standard_normal(5))
    check(f"numpy.{name}", rng.standard_normal(5), include_initial=True)
    check(f"numpy.{name}", rng.standard_normal((3, 4)), axis=1, include_initial=True)


def test_cumprod_zeros():
    function, rule = rule_of("numpy.cumprod")
    a = np.array([2.0, 0.0, 3.0])
    (g,) = rule.vjp(np, np.ones(3), function(a), (a,), axis=None, dtype=None)
    np.testing.assert_array_equal(g, [1, 8, 0])
    for a in ([2.0, 0.0, 3.0], [0.0, 2.0, 5.0], [2.0, 0.0, 3.0, 0.0, 7.0], [[0.0, 1.0], [0.0, 2.0], [3.0, 0.0]]):
        check("numpy.cumprod", np.array(a), axis=0)


def test_vander_and_bincount(rng):
    x = np.array([0.0, 1.5, -2.0])
    check("numpy.vander", x)
    check("numpy.vander", x, 5, increasing=True)
    check("numpy.vander", x, N=1)
    check("numpy.bincount", np.array([0, 3, 3, 1]), rng.standard_normal(4))
    check("numpy.bincount", np.array([0, 3, 3, 1]), weights=rng.standard_normal(4), minlength=7)
    _, rule = rule_of("numpy.vander")
    (t,) = push(rule, np.vander([0.0], 3), (np.zeros(1),), (np.ones((1, 1)),), {"N": 3, "increasing": False})
    np.testing.assert_array_equal(t, [[[0, 1, 0]]])


def test_compositions(rng):
    v, m = rng.standard_normal(6), rng.standard_normal((4, 5))
    t = np.cumsum(rng.random(5)) + 0.1
    check("numpy.diff", v)
    check("numpy.diff", m, 2, axis=0)
    check("numpy.diff", m, prepend=0.0, append=m[:, :2])
    check("numpy.diff", v, n=0)
    check("numpy.ediff1d", m)
    check("numpy.ediff1d", v, to_begin=1.0, to_end=[2.0, 3.0])
    for args, kwargs in [
        ((m,), {}),
        ((m, t), {}),
        ((m,), {"dx": 0.5, "axis": 0}),
        ((m, m**2), {}),
        ((m, t[:4]), {"axis": 0}),
    ]:
        check("numpy.trapezoid", *args, **kwargs)
    for order in (1, 2):
        check("numpy.gradient", v, edge_order=order)
        check("numpy.gradient", v, 0.3, edge_order=order)
        check("numpy.gradient", m, edge_order=order)
        check("numpy.gradient", m, 2.0, t, edge_order=order)
        check("numpy.gradient", m, t, axis=1, edge_order=order)
        check("numpy.gradient", m, axis=(1, 0), edge_order=order)
    check("numpy.polyval", v, 0.7)
    check("numpy.polyval", v, m)
    check("numpy.polyval", [1, 2, 3], m)
    check("numpy.polyfit", t, v[:5], 2)
    check("numpy.polyfit", t, m.T, 2, w=t)
