"""Python code of NumPy and SciPy that counts as that of its caller: distributions, polynomials, index tricks, rosen."""

import numpy as np
import pytest
import scipy.special
from scipy import optimize, stats

import ndual

X = np.array([0.3, -0.7, 1.9])


def test_a_normal_density_by_all_its_arguments():
    m, s = 0.4, 1.3
    got = ndual.jacobian(stats.norm.logpdf, argnums=(0, 1, 2))(X, m, s)
    u = (X - m) / s
    assert np.allclose(got[0], np.diag(-u / s))
    assert np.allclose(got[1], u / s)
    assert np.allclose(got[2], (u * u - 1) / s)


def test_distribution_functions_and_their_inverses():
    assert np.allclose(ndual.jacobian(stats.norm.cdf)(X), np.diag(stats.norm.pdf(X)))
    assert np.allclose(ndual.derivative(stats.cauchy.ppf)(0.2), np.pi / np.sin(0.2 * np.pi) ** 2)
    assert np.allclose(ndual.derivative(stats.expon.isf)(0.2), -5.0)
    assert np.allclose(ndual.derivative(lambda a: stats.logistic(a).cdf(1.5))(1.0), -stats.logistic.pdf(0.5))
    q = ndual.derivative(lambda q: stats.beta.ppf(q, 2.0, 3.0))(0.4)
    assert np.allclose(q, 1 / stats.beta.pdf(stats.beta.ppf(0.4, 2.0, 3.0), 2.0, 3.0))


def test_counts_by_their_parameters():
    counts = np.array([0, 2, 5])
    assert np.allclose(ndual.jacobian(lambda mu: stats.poisson.logpmf(counts, mu))(1.7), counts / 1.7 - 1)
    p = 0.3
    score = counts / p - (6 - counts) / (1 - p)
    assert np.allclose(ndual.jacobian(lambda p: stats.binom.logpmf(counts, 6, p))(p), score)
    assert np.allclose(
        ndual.jacobian(lambda p: stats.binom.pmf(counts, 6, p))(p), score * stats.binom.pmf(counts, 6, p)
    )
    got = ndual.jacobian(lambda n: stats.nbinom.pmf(counts, n, p))(2.5)
    digamma = scipy.special.digamma
    want = stats.nbinom.pmf(counts, 2.5, p) * (digamma(counts + 2.5) - digamma(2.5) + np.log(p))
    assert np.allclose(got, want)


def test_points_outside_of_the_support_have_no_derivative():
    assert np.array_equal(np.diag(ndual.jacobian(stats.expon.pdf)(np.array([-1.0, 0.5]))), [0.0, -np.exp(-0.5)])


def test_a_multivariate_normal_density():
    cov = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.1]])
    mean = np.array([0.1, 0.2, 0.3])
    inverse = np.linalg.inv(cov)
    d = inverse @ (X - mean)
    got = ndual.grad(stats.multivariate_normal.logpdf, argnums=(0, 1))(X, mean, cov)
    assert np.allclose(got[0], -d)
    assert np.allclose(got[1], d)
    along = np.diag([1.0, 2.0, 3.0])
    got = ndual.derivative(lambda t: stats.multivariate_normal.logpdf(X, mean, cov + t * along))(0.0)
    assert np.allclose(got, 0.5 * (d @ along @ d - np.trace(inverse @ along)))


@pytest.mark.parametrize(
    ("value", "of_x", "of_c"),
    [
        (np.polynomial.polynomial.polyval, 2 - 6 * X, np.stack([X**0, X, X**2], 1)),
        (np.polynomial.chebyshev.chebval, 2 - 12 * X, np.stack([X**0, X, 2 * X**2 - 1], 1)),
        (np.polynomial.legendre.legval, 2 - 9 * X, np.stack([X**0, X, 1.5 * X**2 - 0.5], 1)),
        (lambda x, c: np.polynomial.Polynomial(c)(x), 2 - 6 * X, np.stack([X**0, X, X**2], 1)),
    ],
)
def test_polynomials(value, of_x, of_c):
    c = np.array([1.0, 2.0, -3.0])
    got = ndual.jacobian(value, argnums=(0, 1))(X, c)
    assert np.allclose(got[0], np.diag(of_x))
    assert np.allclose(got[1], of_c)


def test_index_tricks():
    got = ndual.jacobian(lambda x: np.r_[7.0, x, x[0] * 2])(X)
    assert np.array_equal(got, np.vstack([np.zeros(3), np.eye(3), [2.0, 0.0, 0.0]]))
    got = ndual.jacobian(lambda x: np.c_[x, 3 * x])(X)
    assert np.array_equal(got, np.stack([np.eye(3), 3 * np.eye(3)], 1))


def test_rosenbrock_and_its_derivatives():
    hessian = optimize.rosen_hess(X)
    assert np.allclose(ndual.grad(optimize.rosen)(X), optimize.rosen_der(X))
    assert np.allclose(ndual.jacobian(optimize.rosen_der)(X), hessian)
    assert np.allclose(ndual.jacobian(optimize.rosen_hess_prod, argnums=1)(X, X), hessian)
    third = ndual.jacobian(optimize.rosen_hess)(X)
    assert np.allclose(third[0, 0], [2400 * X[0], -400.0, 0.0])
    assert np.allclose(third[0, 1], [-400.0, 0.0, 0.0])


def test_a_library_that_calls_them_gets_plain_arrays():
    def f(x):
        knots = scipy.interpolate.make_interp_spline([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 0.0, 1.0])
        assert type(knots.t) is np.ndarray
        return x

    import scipy.interpolate

    assert ndual.derivative(f)(1.0) == 1.0
