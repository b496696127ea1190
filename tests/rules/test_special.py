"""logsumexp, softmax, log_softmax."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from harness import check, push, rule_of

import ndual


@pytest.mark.parametrize("kwargs", [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}])
def test_logsumexp(rng, kwargs):
    a, b = rng.standard_normal((3, 4)), rng.random((3, 4)) + 0.5
    check("scipy.special.logsumexp", a, **kwargs)
    check("scipy.special.logsumexp", a, b=b, **kwargs)
    check("scipy.special.logsumexp", a, b=b[0].copy(), passive=(0,), **kwargs)
    check("scipy.special.logsumexp", a, b=b, return_sign=True, **kwargs)


def test_logsumexp_at_infinities():
    function, rule = rule_of("scipy.special.logsumexp")
    a = np.array([1.0, -np.inf, 1.0])
    xs, extra = rule.bind((a,), {})
    (t,) = push(rule, function(a), xs, (np.eye(3), None), extra)
    np.testing.assert_allclose(t, [0.5, 0, 0.5])
    a = np.array([1.0, np.inf])
    xs, extra = rule.bind((a,), {})
    (t,) = push(rule, function(a), xs, (np.eye(2), None), extra)
    np.testing.assert_array_equal(t, [0, 1])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_softmax(rng, axis):
    a = rng.standard_normal((3, 4))
    check("scipy.special.softmax", a, axis)
    check("scipy.special.log_softmax", a, axis=axis)
    assert scipy.special.softmax(a).shape == a.shape


def slope(f, x, h=1e-3):
    """Differences of fourth order."""
    parts = [np.asarray(f(x + k * h)) for k in (1, -1, 2, -2)]
    return (8 * (parts[0] - parts[1]) - (parts[2] - parts[3])) / (12 * h)


ORDERS = [
    lambda x: scipy.special.hankel1(1.5, x),
    lambda x: scipy.special.hankel2(2, x),
    lambda x: scipy.special.hankel1e(1.5, x),
    lambda x: scipy.special.hankel2e(0, x),
    lambda x: scipy.special.iti0k0(x),
    lambda x: scipy.special.itj0y0(x),
    lambda x: scipy.special.it2i0k0(x),
    lambda x: scipy.special.it2j0y0(x),
    lambda x: scipy.special.legendre_p(3, x / 3),
    lambda x: scipy.special.assoc_legendre_p(3, 1, x / 3),
    lambda x: scipy.special.sph_legendre_p(3, 1, x),
    lambda x: scipy.special.sph_harm_y(3, 1, x, 0.4),
    lambda x: scipy.special.sph_harm_y(3, -2, 0.7, x),
    lambda x: scipy.special.sph_harm_y(2, 1, x, x * x),
    lambda x: scipy.special.multigammaln(x + 2, 3),
]


@pytest.mark.parametrize("f", ORDERS)
def test_functions_of_an_order(f):
    for x in (np.array([0.4, 1.3, 2.2]), np.float64(0.9)):
        value, got = ndual.jvp(f, (x,), (np.ones_like(x),))
        for v, g, w, plain in zip(np.atleast_1d(value), np.atleast_1d(got), np.atleast_1d(slope(f, x)),
                                  np.atleast_1d(f(x)), strict=True):  # fmt: skip
            np.testing.assert_array_equal(v, plain)
            np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-8)


def test_the_integral_of_airy_functions():
    (ai, bi, am, bm), got = ndual.jvp(scipy.special.itairy, (1.3,), (1.0,))
    assert (ai, bi, am, bm) == scipy.special.itairy(1.3)
    np.testing.assert_allclose(got, [*scipy.special.airy(1.3)[::2], *scipy.special.airy(-1.3)[::2]], rtol=1e-15)


def test_lamberts_function_on_its_branches():
    # At 0 the slope of the first branch is 1; where W = 1, at e, it is 1 / (2 e).
    assert ndual.derivative(lambda x: np.real(scipy.special.lambertw(x)))(0.0) == 1.0
    assert ndual.derivative(lambda x: np.real(scipy.special.lambertw(x)))(np.e) == pytest.approx(0.5 / np.e, rel=1e-14)
    z = -0.1
    w = scipy.special.lambertw(z, -1).real
    got = ndual.derivative(lambda x: np.real(scipy.special.lambertw(x, -1)))(z)
    assert got == pytest.approx(w / (z * (1 + w)), rel=1e-12)


def test_a_list_of_duals_is_an_array():
    def f(x):
        return scipy.special.logsumexp([x[0], 2 * x[1]])

    got = ndual.grad(f)(np.array([0.3, 0.1]))
    e = np.exp([0.3, 0.2])
    np.testing.assert_allclose(got, e / e.sum() * [1, 2], rtol=1e-14)
