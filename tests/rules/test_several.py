"""Elementwise functions with several outputs, optional parameters or sequences."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.special

import ndual
from ndual.rules import registry

X = np.array([0.7, -2.2, 3.6])


def jacobian(f, x=X):
    return ndual.jacobian(f)(x)


def slope(f, x, h=1e-6):
    return (f(x + h) - f(x - h)) / (2 * h)


def test_rounding_keeps_the_value_and_has_derivative_zero():
    value, tangent = ndual.jvp(lambda x: np.round(x * 1.0, 1), (X,), (np.ones(3),))
    assert np.array_equal(value, np.round(X, 1))
    assert np.array_equal(tangent, np.zeros(3))
    assert np.array_equal(ndual.grad(lambda x: np.sum(np.fix(x) * x))(X), np.fix(X))


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda x: np.clip(x, -1, 1), [1, 0, 0]),
        (lambda x: np.clip(x, None, 1), [1, 1, 0]),
        (lambda x: np.clip(x, a_min=-1.0, a_max=None), [1, 0, 1]),
        (lambda x: x.clip(-1, max=5), [1, 0, 1]),
        (lambda x: np.clip(x, min=-1, max=1), [1, 0, 0]),
    ],
)
def test_clip(call, want):
    assert np.array_equal(ndual.grad(lambda x: np.sum(call(x)))(X), want)


def test_clip_keeps_float32_beside_python_bounds():
    value, tangent = ndual.jvp(lambda x: np.clip(x, 0.5, None), (X.astype("f4"),), (np.ones(3, "f4"),))
    assert value.dtype == tangent.dtype == np.float32


def test_nan_to_num_in_place_and_complex():
    x = np.array([1.0, np.nan, np.inf, -np.inf])
    value, tangent = ndual.jvp(lambda x: np.nan_to_num(x, nan=7.0, neginf=-3.0), (x,), (np.ones(4),))
    assert np.array_equal(value, np.nan_to_num(x, nan=7.0, neginf=-3.0))
    assert np.array_equal(tangent, [1, 0, 0, 0])

    def inside(x):
        y = x * 1.0
        np.nan_to_num(y, copy=False)
        return y

    value, tangent = ndual.jvp(inside, (x,), (np.ones(4),))
    assert np.array_equal(value, np.nan_to_num(x))
    assert np.array_equal(tangent, [1, 0, 0, 0])
    assert np.isnan(x[1])


def test_angle_in_degrees():
    z = np.array([1 + 2j])
    _, tangent = ndual.jvp(lambda z: np.angle(z, deg=True), (z,), (np.array([1j]),))
    assert tangent == pytest.approx([np.degrees(0.2)])


def test_modf_frexp_divmod():
    assert np.array_equal(jacobian(lambda x: np.modf(x)[0] + 5 * np.modf(x)[1]), np.eye(3))
    assert np.array_equal(np.diag(jacobian(lambda x: np.frexp(x)[0])), [1, 0.25, 0.25])
    quotient = np.floor_divide(X[2], X)
    row = jacobian(lambda x: np.divmod(x[2], x)[1])
    want = -np.diag(quotient)
    want[:, 2] += 1
    assert np.array_equal(row, want)


@pytest.mark.parametrize("name", ["sici", "shichi", "fresnel", "airy"])
def test_special_outputs(name):
    function = getattr(scipy.special, name)
    for k in range(len(function(1.0))):
        d = ndual.grad(lambda x, k=k: np.sum(function(x)[k]))(np.abs(X))
        assert d == pytest.approx(slope(lambda x, k=k: function(x)[k], np.abs(X)), rel=1e-7, abs=1e-7)


def test_ellipj_by_its_argument_only():
    for k in range(4):
        d = ndual.grad(lambda x, k=k: np.sum(scipy.special.ellipj(x, 0.3)[k]))(X)
        assert d == pytest.approx(slope(lambda x, k=k: scipy.special.ellipj(x, 0.3)[k], X), rel=1e-7, abs=1e-7)
    with pytest.raises(ndual.NoRuleError, match="parameter m"):
        ndual.grad(lambda x: np.sum(scipy.special.ellipj(X, x)[0]))(np.abs(X) / 4)


@pytest.mark.parametrize("z", [0.0, 0.3, 7.5, 12.0, 1 + 2j, -3 - 1j, 5 + 0.005j, 9 + 0.1j, 10 - 9j, 2 - 9j, 1e8])
def test_faddeeva_function_by_mpmath(z):
    with mpmath.workdps(200):
        if abs(z) < 1e3:
            w = mpmath.exp(-(mpmath.mpc(z) ** 2)) * mpmath.erfc(mpmath.mpc(0, -1) * z)
            want = complex(2j / mpmath.sqrt(mpmath.pi) - 2 * z * w)
        else:
            want = complex(-1j / mpmath.sqrt(mpmath.pi) / z**2 * (1 + mpmath.mpf(3) / (2 * z**2)))
    got = ndual.derivative(scipy.special.wofz, holomorphic=isinstance(z, complex))(z)
    assert got == pytest.approx(want, rel=1e-12)
    if isinstance(z, float) and z < 20:
        assert got.real == pytest.approx(-2 * z * math.exp(-z * z), rel=1e-13)


def test_a_voigt_profile_by_its_complex_form():
    x = np.linspace(-1, 4, 7)
    s, g = 0.8, 0.3

    def profile(sigma, gamma):
        z = (x + 1j * gamma) / (sigma * np.sqrt(2))
        return np.real(scipy.special.wofz(z)) / (sigma * np.sqrt(2 * np.pi))

    got = ndual.jacobian(profile, argnums=(0, 1))(s, g)
    want = ndual.jacobian(lambda a, b: scipy.special.voigt_profile(x, a, b), argnums=(0, 1))(s, g)
    for a, b in zip(got, want, strict=True):
        assert a == pytest.approx(b, rel=1e-12)


@pytest.mark.parametrize(
    ("dotted", "args", "want"),
    [
        ("math.hypot", (3.0, 4.0), 5.0),
        ("math.dist", ((3.0, 0.0), (0.0, 4.0)), 5.0),
        ("math.prod", ([2.0, 3.0],), 6.0),
        ("math.sumprod", ([2.0, 3.0], [4.0, 5.0]), 23.0),
        ("math.fma", (2.0, 3.0, 4.0), 10.0),
        ("cmath.rect", (2.0, math.pi / 2), 2j),
    ],
)
def test_compositions_of_math_have_the_value(dotted, args, want):
    assert registry.RULES[dotted].body(np, *args) == pytest.approx(want)


def test_polar_and_fsum():
    assert registry.RULES["cmath.polar"].body(np, 2j) == pytest.approx((2.0, math.pi / 2))
    assert registry.RULES["math.fsum"].jvp(np, 3.0, (1.0, 2.0), (np.ones(2), None)) == pytest.approx([1, 1])


def test_cotangents_are_adjoint_to_tangents():
    rng = np.random.default_rng(0)
    x, t = rng.uniform(0.5, 3, 4), rng.normal(size=4)
    for name in ("numpy.modf", "numpy.frexp", "scipy.special.sici", "scipy.special.airy"):
        rule, y = registry.RULES[name], registry.lookup(name)(x)
        dy = rule.jvp(np, y, (x,), (t[None],))
        w = [rng.normal(size=4) for _ in y]
        back = rule.vjp(np, w, y, (x,))[0]
        forth = sum(np.vdot(a, b) for a, b in zip(w, dy, strict=True) if b is not None)
        assert np.vdot(back, t) == pytest.approx(forth), name


def test_divmod_and_angle_cotangents():
    x1, x2, w = np.array([5.5, 7.2]), np.array([2.0]), np.array([1.0, 3.0])
    back = registry.RULES["numpy.divmod"].vjp(np, (None, w), np.divmod(x1, x2), (x1, x2))
    assert np.array_equal(back[0], w)
    assert np.array_equal(back[1], [-(1 * 2 + 3 * 3)])
    z = np.array([3 + 4j])
    (back,) = registry.RULES["numpy.angle"].vjp(np, np.ones(1), np.angle(z), (z,), deg=False)
    assert np.vdot(back, 1j * z).real == pytest.approx(1.0)
