"""SciPy's distributions and NumPy's series as users call them: by variate and by parameters, frozen and not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st
from numpy.polynomial import Polynomial, chebyshev, hermite_e, legendre

import ndual
from ndual.testing.reference import directional

X, U, K = np.array([0.3, 0.7, 1.9]), np.array([0.2, 0.55, 0.9]), np.array([0, 2, 3])
CONTINUOUS = {
    "norm": (X, 0.2, 1.3),
    "t": (X, 3.5, 0.1, 1.2),
    "gamma": (X, 2.2, 0.0, 1.5),
    "beta": (U, 2.2, 3.1),
    "expon": (X, 0.1, 1.4),
    "lognorm": (X, 0.8, 0.0, 1.2),
    "chi2": (X, 3.3),
    "f": (X, 4.2, 6.1),
    "cauchy": (X, 0.2, 1.1),
    "logistic": (X, 0.2, 1.1),
    "laplace": (X, 0.2, 1.1),
    "uniform": (U, -0.1, 2.2),
    "weibull_min": (X, 1.7, 0.0, 1.3),
    "pareto": (X + 1, 2.2),
    "gumbel_r": (X, 0.1, 1.2),
    "invgamma": (X, 2.4),
    "genextreme": (X, 0.2),
    "triang": (U, 0.4),
    "genpareto": (X, 0.2),
    "johnsonsu": (X, 0.3, 1.2),
}
DISCRETE = {"poisson": (K, 1.7), "binom": (K, 5, 0.4), "nbinom": (K, 2.3, 0.4), "geom": (K + 1, 0.3)}
METHODS = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
CASES = [
    (name, m, (U, *args[1:]) if m in ("ppf", "isf") else args) for name, args in CONTINUOUS.items() for m in METHODS
]
CASES += [(name, m, args) for name, args in DISCRETE.items() for m in ("logpmf", "pmf", "cdf", "sf")]


def is_active(arg):
    return np.asarray(arg).dtype.kind == "f"


@pytest.mark.parametrize(("name", "method", "args"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_distribution(name, method, args):
    active = [a for a in args if is_active(a)]
    tangents = [np.full_like(a, 0.3 + 0.1 * i) if np.ndim(a) else 0.3 + 0.1 * i for i, a in enumerate(active)]

    def f(*given):
        rest = iter(given)
        return getattr(getattr(st, name), method)(*(next(rest) if is_active(a) else a for a in args))

    def moved(h):
        return [f(*(a + h * t for a, t in zip(active, tangents, strict=True)))]

    (want,), error = directional(moved, 1e-2)
    value, got = ndual.jvp(f, tuple(active), tuple(tangents))
    np.testing.assert_array_equal(value, f(*active))
    np.testing.assert_allclose(got, want, rtol=1e-7 + 50 * error, atol=(1e-8 + 50 * error) * np.max(np.abs(want)))


def test_known_slopes():
    # Of Student's log density by its degrees of freedom.
    v, x = 3.5, 0.7
    want = 0.5 * (sc.digamma((v + 1) / 2) - sc.digamma(v / 2) - 1 / v - np.log1p(x * x / v)
                  + (v + 1) * x * x / (v * (v + x * x)))  # fmt: skip
    assert ndual.derivative(lambda v: st.t.logpdf(x, v))(v) == pytest.approx(want, rel=1e-13)
    assert ndual.derivative(lambda x: st.norm.cdf(x))(0.4) == pytest.approx(st.norm.pdf(0.4), rel=1e-14)
    assert ndual.derivative(lambda p: st.binom.logpmf(2, 5, p))(0.3) == pytest.approx(2 / 0.3 - 3 / 0.7, rel=1e-12)


PRIOR = st.gamma(2.0, scale=1.5)


def test_frozen_distributions():
    # log density (a - 1) log(x) - x / s: made outside, and inside of active parameters.
    assert ndual.derivative(lambda x: PRIOR.logpdf(x))(0.8) == pytest.approx(1 / 0.8 - 1 / 1.5, rel=1e-13)
    got = ndual.grad(lambda p: st.norm(p[0], p[1]).logpdf(X).sum())(np.array([0.2, 1.3]))
    z = (X - 0.2) / 1.3
    np.testing.assert_allclose(got, [z.sum() / 1.3, ((z * z - 1) / 1.3).sum()], rtol=1e-12)


def test_multivariate_distributions():
    a = np.array([1.5, 2.5, 3.0])
    x = np.array([0.2, 0.3, 0.5])
    got = ndual.grad(lambda a: st.dirichlet.logpdf(x, a))(a)
    np.testing.assert_allclose(got, sc.digamma(a.sum()) - sc.digamma(a) + np.log(x), rtol=1e-12)


def test_gates_are_gone_afterwards():
    before = st._continuous_distns.np.asarray, dict(vars(st._distn_infrastructure))
    ndual.derivative(lambda x: st.norm.logpdf(x))(0.4)
    after = st._continuous_distns.np.asarray, dict(vars(st._distn_infrastructure))
    assert before[0] is after[0]
    assert before[1] == after[1]


@pytest.mark.parametrize(
    "f",
    [
        lambda c: np.polynomial.polynomial.polyval(X, c),
        lambda c: chebyshev.chebval(X, c),
        lambda c: legendre.legval(c[:2], c),
        lambda c: hermite_e.hermeval(X, hermite_e.hermemul(c, c[:2])),
        lambda c: np.polynomial.polynomial.polymul(c, c),
        lambda c: chebyshev.chebint(c, k=[c[0]]),
        lambda c: legendre.legder(c),
        lambda c: np.polynomial.polynomial.polyfromroots(c),
        lambda c: np.polynomial.polynomial.polyvander(c, 3),
        lambda c: Polynomial(c)(X),
        lambda c: (Polynomial(c) * Polynomial(c[:2])).deriv()(X),
    ],
)
def test_series(f):
    c, t = np.array([0.4, -1.2, 0.7, 0.3]), np.array([1.0, -0.5, 0.3, 0.8])
    (want,), _ = directional(lambda h: [f(c + h * t)], 1e-2)
    value, got = ndual.jvp(f, (c,), (t,))
    np.testing.assert_array_equal(value, f(c))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
