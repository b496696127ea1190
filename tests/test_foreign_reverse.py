"""Interpolants and integrators in reverse mode, and at two levels: right values are SciPy's own derivatives, exact
solutions, and differences of maps that are linear.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate

import ndual
from ndual import _core

KNOTS = np.array([0.0, 1.0, 2.5, 4.0])
HEIGHTS = np.array([1.0, 2.0, 0.0, 3.0])
POINTS = np.array([0.3, 1.7, 3.9])
CUBIC = scipy.interpolate.CubicSpline(KNOTS, HEIGHTS)
GRID = scipy.interpolate.RegularGridInterpolator((KNOTS, KNOTS), np.outer(HEIGHTS, KNOTS**2))


@pytest.mark.parametrize(
    "curve",
    [
        CUBIC,
        scipy.interpolate.UnivariateSpline(KNOTS, HEIGHTS, s=0),
        scipy.interpolate.make_interp_spline(KNOTS, HEIGHTS, k=3),
        scipy.interpolate.PchipInterpolator(KNOTS, HEIGHTS),
    ],
    ids=lambda curve: type(curve).__name__,
)
def test_curves_at_duals(curve):
    got = ndual.jacobian(lambda t: curve(t), mode="reverse")(POINTS)
    np.testing.assert_allclose(got, np.diag(curve(POINTS, 1)), rtol=1e-14)
    assert ndual.grad(lambda t: curve(t) ** 2, mode="reverse")(1.7) == pytest.approx(2 * curve(1.7) * curve(1.7, 1))
    for one in ("forward", "reverse"):
        for two in ("forward", "reverse"):
            second = ndual.grad(ndual.grad(lambda t: curve(t), mode=one), mode=two)(1.7)
            assert second == pytest.approx(float(curve(1.7, 2)), rel=1e-13), (one, two)


def test_several_curves_at_duals():
    two = scipy.interpolate.CubicSpline(KNOTS, np.stack([HEIGHTS, KNOTS], 1))
    got = ndual.jacobian(lambda t: two(t), mode="reverse")(POINTS)
    np.testing.assert_allclose(got, np.einsum("ij,ik->ijk", two(POINTS, 1), np.eye(3)), rtol=1e-13, atol=1e-15)


def spline(y, **options):
    return scipy.interpolate.CubicSpline(KNOTS, y, **options)


def jacobian_of_affine(f, at):
    columns = [f(at + e.reshape(at.shape)) - f(at) for e in np.eye(at.size)]
    return np.stack(columns, -1).reshape(*np.shape(f(at)), *at.shape)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(
    "f",
    [
        lambda y: spline(y)(POINTS),
        lambda y: spline(y)(1.7),
        lambda y: spline(y)(POINTS.reshape(1, 3), 1),
        lambda y: spline(y, bc_type="natural")(POINTS),
        lambda y: spline(y, bc_type=((1, 0.5), (2, 0.25)))(POINTS),
        lambda y: spline(y, bc_type=("natural", (1, 0.25)))(POINTS),
        lambda y: spline(np.stack([y, 2 * y], 1), bc_type=((1, [0.5, 1.0]), "not-a-knot"))(POINTS),
        lambda y: spline(np.stack([y, y[::-1]]), axis=1)(POINTS),
        lambda y: spline(np.stack([y, y[::-1]]), axis=-1).derivative()(1.7),
        lambda y: spline(y).integrate(0.5, 3.0),
        lambda y: scipy.interpolate.make_interp_spline(KNOTS, y, k=3)(POINTS),
        lambda y: scipy.interpolate.make_interp_spline(KNOTS, y, 3, None, ([(1, 0.5)], [(1, 0.0)]))(POINTS),
        lambda y: scipy.interpolate.RegularGridInterpolator((KNOTS,), y)(POINTS),
        lambda y: scipy.interpolate.RegularGridInterpolator((KNOTS, KNOTS), np.outer(HEIGHTS, y))((POINTS, 0.5)),
        lambda y: scipy.interpolate.RegularGridInterpolator((KNOTS, KNOTS), np.outer(y, HEIGHTS), "cubic")([0.5, 2]),
        lambda y: scipy.interpolate.RegularGridInterpolator(
            (KNOTS, KNOTS), np.outer(y, HEIGHTS)[:, :, None] * KNOTS, bounds_error=False, fill_value=0.0
        )([[0.5, 2.0], [5.0, 1.0]]),
    ],
)
def test_interpolants_of_dual_values(f, mode):
    assert ndual.value_and_grad(lambda y: np.sum(f(y)), mode=mode)(HEIGHTS)[0] == pytest.approx(
        np.sum(f(HEIGHTS)), rel=1e-14
    )
    np.testing.assert_allclose(ndual.jacobian(f, mode=mode)(HEIGHTS), jacobian_of_affine(f, HEIGHTS), atol=1e-12)


def test_a_periodic_spline_of_dual_values():
    """Its first value is its last, so that only their sum is a derivative."""

    def f(y):
        return spline(np.stack([y[0], y[1], y[2], y[0]]), bc_type="periodic")(POINTS)

    for mode in ("forward", "reverse"):
        got = ndual.jacobian(f, mode=mode)(HEIGHTS[:3])
        np.testing.assert_allclose(got, jacobian_of_affine(f, HEIGHTS[:3]), atol=1e-12)


def test_values_and_points_together():
    """d²/dp dt of s_{py}(t) at p = 1 is the slope of the curve, whatever the modes."""
    for one in ("forward", "reverse"):
        for two in ("forward", "reverse"):
            inner = ndual.grad(lambda p, t: scipy.interpolate.CubicSpline(KNOTS, p * HEIGHTS)(t), argnums=1, mode=one)
            assert inner(1.0, 1.7) == pytest.approx(float(CUBIC(1.7, 1)))
            assert ndual.grad(inner, argnums=0, mode=two)(1.0, 1.7) == pytest.approx(float(CUBIC(1.7, 1))), (one, two)
            swapped = ndual.grad(lambda p, t: scipy.interpolate.CubicSpline(KNOTS, p * HEIGHTS)(t), mode=one)
            assert ndual.grad(swapped, argnums=1, mode=two)(1.0, 1.7) == pytest.approx(float(CUBIC(1.7, 1))), (one, two)


def test_grids_at_duals():
    q = np.array([[0.5, 2.0], [2.0, 0.25]])
    h = 1e-4  # inside the cells the function is bilinear, so that differences are exact
    steps = [(GRID(q + h * e.reshape(2, 2)) - GRID(q - h * e.reshape(2, 2))) / (2 * h) for e in np.eye(4)]
    got = ndual.jacobian(lambda q: GRID(q), mode="reverse")(q)
    np.testing.assert_allclose(got, np.stack(steps, -1).reshape(2, 2, 2), atol=1e-9)
    one = ndual.grad(lambda t: GRID((t, 2.0))[0], mode="reverse")(0.5)
    assert one == pytest.approx(got[0, 0, 0], rel=1e-12)


def decay(t, y, k):
    return [-k * y[0] + 0.1 * y[1], k * y[0] - 0.1 * y[1]]


@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA"])
def test_solve_ivp(method):
    times = np.array([0.0, 0.4, 1.5])

    def f(p):
        found = scipy.integrate.solve_ivp(
            lambda t, y: -p[0] * y, (0.0, 1.5), [p[1]], method, times, rtol=1e-8, atol=1e-10
        )
        return found.y[0]

    p = np.array([0.7, 2.0])
    exact = np.stack([-times * p[1] * np.exp(-p[0] * times), np.exp(-p[0] * times)], -1)
    np.testing.assert_allclose(ndual.jacobian(f, mode="reverse")(p), exact, rtol=1e-7, atol=1e-9)
    assert ndual.value_and_grad(lambda p: f(p)[-1], mode="reverse")(p)[0] == f(p)[-1]


def test_odeint():
    times = np.array([0.0, 0.4, 1.5])

    def f(k):
        return scipy.integrate.odeint(decay, [1.0, k], times, args=(k,), tfirst=True)

    def exact(k):  # y0 + y1 is kept, and y0 relaxes to its share
        total, rate = 1.0 + k, k + 0.1
        first = 0.1 * total / rate + (1.0 - 0.1 * total / rate) * np.exp(-rate * times)
        return np.stack([first, total - first], -1)

    want = np.imag(exact(0.7 + 1e-30j)) * 1e30
    np.testing.assert_allclose(ndual.jacobian(f, mode="reverse")(0.7), want, rtol=1e-7, atol=1e-8)
    assert ndual.value_and_grad(lambda k: f(k)[-1, 0], mode="reverse")(0.7)[0] == f(0.7)[-1, 0]


@pytest.mark.parametrize("one", ["forward", "reverse"])
@pytest.mark.parametrize("two", ["forward", "reverse"])
def test_integrators_at_two_levels(one, two):
    def ivp(k):
        return scipy.integrate.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [1.0], rtol=1e-8).y[0, -1]

    def ode(k):
        return scipy.integrate.odeint(lambda y, t: -k * y, 1.0, [0.0, 2.0])[-1, 0]

    for f in (ivp, ode):
        got = ndual.grad(ndual.grad(f, mode=one), mode=two)(0.7)
        assert got == pytest.approx(4 * np.exp(-1.4), rel=1e-6)
    got = ndual.grad(ndual.grad(lambda p: scipy.integrate.quad(lambda t: np.exp(p * t), 0.0, p)[0], mode=one), mode=two)
    p = 0.8
    want = np.imag(slope_of_integral(p + 1e-30j)) * 1e30
    assert got(p) == pytest.approx(want, rel=1e-10)


def slope_of_integral(p):
    """d/dp of (exp(p²) - 1) / p."""
    return 2 * np.exp(p * p) - (np.exp(p * p) - 1) / (p * p)


def test_a_system_too_stiff_is_refused():
    def f(k):
        return scipy.integrate.solve_ivp(lambda t, y: -k * (y - np.cos(t)), (0.0, 100.0), [0.0], "BDF").y[0, -1]

    with pytest.raises(ndual.NoRuleError, match="stiff"):
        ndual.grad(f, mode="reverse")(1e6)


def test_lanes_of_what_is_recorded_are_refused():
    def asks(x):
        _core.split(x)
        return x.sum()

    for f in (asks, lambda x: _core.lanes(x).sum(), lambda x: _core.split_window(x)[0].sum()):
        with pytest.raises(ndual.NoRuleError, match="reverse"):
            ndual.grad(f, mode="reverse")(np.ones(3))
