"""Derivatives by parameters against mpmath, tails and extremes included."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from ndual.rules import parameters


def lower_gamma(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper_gamma(a, x):
    return -mp.gammainc(a, x, regularized=True)


def lower_beta(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def upper_beta(a, b, x):
    return -mp.betainc(a, b, x, 1, regularized=True)


def student(df, t):
    return mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + t * t), regularized=True) / 2  # for t < 0


def lower_f(m, n, x):
    return mp.betainc(m / 2, n / 2, 0, m * x / (n + m * x), regularized=True)


# The function, its reference, the operand, the points. A tail is referred to the function that is small there.
CASES = [
    ("gammainc_a", lower_gamma, 0, [(0.001, 1e-8), (0.1, 0.001), (0.5, 0.2), (2.5, 2.0), (10.0, 1e-3), (300.0, 200.0)]),
    ("gammainc_a", upper_gamma, 0, [(0.001, 3.0), (0.5, 40.0), (2.5, 3.0), (10.0, 60.0), (1e4, 10100.0)]),
    ("betainc_a", lower_beta, 0, [(0.01, 0.01, 1e-6), (0.3, 50.0, 1e-4), (2.5, 4.0, 0.2), (300.0, 1.0, 0.9)]),
    ("betainc_a", upper_beta, 0, [(0.01, 0.5, 0.9), (1.0, 4.0, 0.8), (20.0, 400.0, 0.1), (300.0, 0.5, 0.9999)]),
    ("betainc_b", lower_beta, 1, [(0.01, 0.01, 1e-6), (2.5, 4.0, 0.2), (300.0, 1.0, 0.9)]),
    ("betainc_b", upper_beta, 1, [(0.01, 0.5, 0.9), (1.0, 4.0, 0.8), (20.0, 400.0, 0.1)]),
    ("stdtr_df", student, 0, [(0.3, -0.5), (1.0, -30.0), (2.5, -1.7), (10.0, -1e-3), (100.0, -2.0), (1e4, -1.2)]),
    ("fdtr_dfn", lower_f, 0, [(0.5, 60.0, 0.01), (3.0, 6.0, 0.9), (20.0, 1.0, 10.0)]),
    ("fdtr_dfd", lower_f, 1, [(0.5, 60.0, 0.01), (3.0, 6.0, 0.9), (20.0, 1.0, 10.0)]),
    ("jv_order", mp.besselj, 0, [(0.3, 1e-3), (-0.5, 3.0), (-2.0, 3.0), (1.0, 15.0), (-2.5, 12.0), (20.0, 40.0)]),
    ("jv_order", mp.besselj, 0, [(7.0, 7.9), (20.0, 15.0), (60.0, 50.0), (2.5, 100.0)]),
    ("yv_order", mp.bessely, 0, [(0.3, 1e-3), (2.5, 0.5), (1.0, 15.0), (-1.5, 2.0), (20.0, 40.0)]),
    ("kve_order", lambda v, x: mp.besselk(v, x) * mp.exp(x), 0, [(0.3, 1e-3), (2.5, 0.5), (-1.5, 2.0), (20.0, 300.0)]),
    ("iv_order", lambda v, x: mp.log(mp.besseli(v, x)), 0, [(0.3, 1e-3), (2.5, 0.5), (20.0, 300.0)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reference", "operand", "points"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_against_mpmath(name, reference, operand, points):
    with mp.workdps(40):
        for x in points:
            want = mp.diff(lambda t, x=x: reference(*map(mp.mpf, x[:operand]), t, *map(mp.mpf, x[operand + 1 :])),
                           mp.mpf(x[operand]))  # fmt: skip
            got = getattr(parameters, name)(*x)
            assert abs(got - want) <= 3e-10 * abs(want), (x, got, want)


def test_where_the_integer_order_is_zero():
    # At order 0 the slopes of I are -K, those of J are pi / 2 times Y, those of Y are -pi / 2 times J.
    for x in (0.5, 3.0, 20.0):
        # Against I itself that of I is nothing from 20 on: exp(-2 x).
        assert parameters.iv_order(0.0, x) == pytest.approx(float(-mp.besselk(0, x) / mp.besseli(0, x)), abs=1e-15)
        assert parameters.jv_order(0.0, x) == pytest.approx(float(mp.pi / 2 * mp.bessely(0, x)), rel=1e-12)
        assert parameters.yv_order(0.0, x) == pytest.approx(float(-mp.pi / 2 * mp.besselj(0, x)), rel=1e-12)
        assert parameters.kve_order(0.0, x) == 0


def test_ends_dtypes_and_shapes():
    assert parameters.gammainc_a(2.0, 0.0) == parameters.gammainc_a(2.0, np.inf) == 0
    assert parameters.betainc_a(2.0, 3.0, 0.0) == parameters.betainc_a(2.0, 3.0, 1.0) == 0
    assert parameters.stdtr_df(2.0, 0.0) == 0
    assert parameters.jv_order(1.5, 0.0) == 0
    assert parameters.jv_order(0.0, 0.0) == -np.inf
    assert np.isnan(parameters.jv_order(1.5, -1.0))
    a, x = np.linspace(0.5, 3.0, 4)[:, None], np.linspace(0.1, 4.0, 3)
    grid = parameters.gammainc_a(a, x)
    assert grid.shape == (4, 3)
    assert grid[2, 1] == parameters.gammainc_a(a[2, 0], x[1])
    single = parameters.gammainc_a(a.astype(np.float32), x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, grid, rtol=1e-5)
    assert parameters.jv_order(np.zeros(0), np.zeros(0)).shape == (0,)


def test_a_value_does_not_depend_on_its_neighbours():
    """Quadratures are chosen for a whole array; each element must come out as it does alone."""
    v, x = np.array([0.3, 20.0, 60.0, 2.5]), np.array([0.5, 15.0, 50.0, 100.0])
    for f in (parameters.jv_order, parameters.yv_order, parameters.kve_order):
        np.testing.assert_allclose(f(v, x), [f(a, b) for a, b in zip(v, x, strict=True)], rtol=1e-11)


def test_what_cannot_be_resolved_is_nan_and_harms_no_other():
    v, x = np.array([np.nan, 1e6, 0.3, 0.3, np.inf]), np.array([1.0, 1e6, np.inf, 2.0, 1.0])
    for f in (parameters.jv_order, parameters.yv_order):
        got = f(v, x)
        assert np.isfinite(got).tolist() == [False, False, False, True, False]
        assert got[3] == pytest.approx(f(0.3, 2.0), rel=1e-13)
    with mp.workdps(30):
        want = mp.diff(lambda t: mp.besselj(t, 3000), 2.5)
    assert parameters.jv_order(2.5, 3000.0) == pytest.approx(float(want), rel=1e-9)
