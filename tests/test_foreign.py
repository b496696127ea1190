"""Functions of NumPy and SciPy that no protocol hands over: duals in lists, sparse products, integrators."""

import math

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from scipy.integrate import odeint, quad, solve_ivp

import ndual

X = np.array([0.6, 1.7, 2.3])
SPARSE = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
DENSE = SPARSE.toarray()


LISTS = {
    "sum": (lambda x: np.sum([x[0], x[1] * x[2]]), [1.0, 2.3, 1.7]),
    "mean of a tuple": (lambda x: np.mean((x[0], x[1])), [0.5, 0.5, 0.0]),
    "norm": (lambda x: np.linalg.norm([x[0], x[1], x[2]]), X / np.sqrt(X @ X)),
    "dot": (lambda x: np.dot([x[0], x[1]], [2.0, 3.0]), [2.0, 3.0, 0.0]),
    "max": (lambda x: np.max([x[0], x[1] * 5.0, 1.0]), [0.0, 5.0, 0.0]),
    "square root": (lambda x: np.sqrt([x[0], 4.0]).sum(), [0.5 / np.sqrt(0.6), 0.0, 0.0]),
    "add": (lambda x: np.add([x[0], x[1]], 1.0).sum(), [1.0, 1.0, 0.0]),
    "concatenate": (lambda x: np.concatenate(([x[0], 2.0], x, [1.0])).sum(), [2.0, 1.0, 1.0]),
    "stack of lists": (lambda x: np.stack([[x[0], 1.0], [x[1], 2.0]])[:, 0].sum(), [1.0, 1.0, 0.0]),
    "determinant": (lambda x: np.linalg.det([[x[0], 1.0], [1.0, x[1]]]), [1.7, 0.6, 0.0]),
    "diagonal matrix": (lambda x: np.trace(np.diag([x[0], x[1] ** 2])), [1.0, 3.4, 0.0]),
    "comprehension": (lambda x: np.prod([v * 1.0 for v in x]), np.prod(X) / X),
}


@pytest.mark.parametrize("name", LISTS)
def test_duals_in_lists(name):
    f, want = LISTS[name]
    for width in (1, 3):
        np.testing.assert_allclose(ndual.grad(f, chunk_size=width)(X), want, rtol=1e-12, atol=1e-15)
    value, _ = ndual.value_and_grad(lambda x: eval("f")(x) if False else f(x))(X)
    assert value == pytest.approx(f(X), rel=1e-15)


class Objective:
    def __call__(self, x):
        return np.sum([x[0], np.linalg.norm((x[1], x[2]))])


def test_duals_in_lists_of_an_object():
    r = np.hypot(1.7, 2.3)
    np.testing.assert_allclose(ndual.grad(Objective())(X), [1.0, 1.7 / r, 2.3 / r], rtol=1e-13)


# ---- sparse matrices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dia"])
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_products_with_sparse_matrices(kind, family):
    a = getattr(scipy.sparse, f"{kind}_{family}")(DENSE)
    for width in (1, 2, 3):
        got = ndual.jacobian(lambda x: a @ x, chunk_size=width)(X)
        np.testing.assert_allclose(got, DENSE)
        np.testing.assert_allclose(ndual.jacobian(lambda x: x[:2] @ a, chunk_size=width)(X)[:, :2], DENSE.T)
        if kind != "coo":  # whose dot asks no operand
            np.testing.assert_allclose(ndual.jacobian(lambda x: a.dot(x), chunk_size=width)(X), DENSE)
        two = ndual.jacobian(lambda x: a @ np.outer(x, [1.0, 2.0]), chunk_size=width)(X)
        np.testing.assert_allclose(two, np.einsum("ik,j->ijk", DENSE, [1.0, 2.0]))
        if family == "matrix":
            np.testing.assert_allclose(ndual.jacobian(lambda x: a * x, chunk_size=width)(X), DENSE)


def test_sparse_matrices_and_buffers_without_lanes():
    def f(x):
        ones = np.ones(3)
        assert (SPARSE @ ones).tolist() == [3.0, 3.0]
        assert scipy.sparse.csr_array(np.eye(2)).toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]
        out = SPARSE @ ones
        out[0] = x[0] * out[1]
        return np.sum(out)

    assert ndual.grad(f)(X).tolist() == [3.0, 0.0, 0.0]


def test_sparse_solve():
    a = scipy.sparse.csc_array(np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]))
    inverse = np.linalg.inv(a.toarray())
    for width in (1, 3):
        got = ndual.jacobian(lambda x: scipy.sparse.linalg.spsolve(a, x), chunk_size=width)(X)
        np.testing.assert_allclose(got, inverse, rtol=1e-13)
    wide = ndual.jacobian(lambda x: scipy.sparse.linalg.spsolve(a, np.outer(x, [1.0, 2.0])))(X)
    np.testing.assert_allclose(wide, np.einsum("ik,j->ijk", inverse, [1.0, 2.0]), rtol=1e-13)


def test_rosen_and_its_derivatives():
    x = np.array([0.5, 1.5, 0.25])
    np.testing.assert_allclose(ndual.grad(scipy.optimize.rosen)(x), scipy.optimize.rosen_der(x), rtol=1e-12)
    f = scipy.optimize.rosen
    np.testing.assert_allclose(ndual.grad(lambda x: f(x) * 2)(x), 2 * scipy.optimize.rosen_der(x), rtol=1e-12)
    np.testing.assert_allclose(
        ndual.jacobian(scipy.optimize.rosen_der)(x), scipy.optimize.rosen_hess(x), rtol=1e-12, atol=1e-12
    )


# ---- integrals -------------------------------------------------------------------------------------------------------


def by_mpmath(f, *ends):
    """The derivative of an integral with respect to p at 0.7, in 30 digits."""
    with mpmath.workdps(30):
        return float(mpmath.diff(lambda p: mpmath.quad(lambda t: f(t, p), list(ends)), mpmath.mpf("0.7"), h=1e-8))


def test_quad_of_a_closure_and_of_arguments():
    want = by_mpmath(lambda t, p: mpmath.exp(-p * t) * mpmath.sin(t), 0, 2)
    plain = quad(lambda t: np.exp(-0.7 * t) * np.sin(t), 0.0, 2.0)
    for f in (
        lambda p: quad(lambda t: np.exp(-p * t) * np.sin(t), 0.0, 2.0),
        lambda p: quad(lambda t, q: np.exp(-q * t) * np.sin(t), 0.0, 2.0, args=(p,)),
        lambda p: scipy.integrate.quad(lambda t, q: np.exp(-q * t) * np.sin(t), 0.0, 2.0, (p,)),
    ):
        value, slope = ndual.jvp(lambda p, f=f: f(p)[0], (0.7,), (1.0,))
        assert value == plain[0]
        assert slope == pytest.approx(want, rel=1e-12)


def test_quad_with_ends_that_move_or_are_infinite():
    slope = ndual.derivative(lambda p: quad(lambda t: np.exp(-p * t * t), 0.0, p)[0])(0.7)
    want = by_mpmath(lambda t, p: mpmath.exp(-p * t * t), 0, mpmath.mpf("0.7")) + np.exp(-(0.7**3))
    assert slope == pytest.approx(want, rel=1e-12)
    assert ndual.derivative(lambda p: quad(lambda t: np.exp(-p * t * t), -np.inf, np.inf)[0])(0.7) == pytest.approx(
        -0.5 * np.sqrt(np.pi) * 0.7**-1.5, rel=1e-8
    )
    assert ndual.derivative(lambda p: quad(lambda t: np.exp(-p * t), 0.0, np.inf)[0])(0.7) == pytest.approx(
        -1 / 0.49, rel=1e-8
    )
    assert ndual.derivative(lambda p: quad(lambda t: np.exp(p * t), -np.inf, p)[0])(0.7) == pytest.approx(
        np.exp(0.49) * (2 - 1 / 0.49), rel=1e-8
    )
    assert ndual.derivative(lambda p: quad(lambda t: p * t, 2.0, 0.0)[0])(0.7) == pytest.approx(-2.0, rel=1e-13)


def test_quad_of_numbers_is_plain():
    def f(x):
        found = quad(lambda t: t * t, 0.0, 1.0)
        assert type(found[0]) is float
        assert len(quad(np.cos, 0.0, 1.0, full_output=1)) == 3
        with pytest.warns(scipy.integrate.IntegrationWarning):
            quad(lambda t: 1 / t, 0.0, 1.0, limit=5)
        return x[0] * found[0]

    assert ndual.grad(f)(X)[0] == pytest.approx(1 / 3)
    with pytest.raises(ndual.NoRuleError, match="weight="):
        ndual.grad(lambda x: quad(lambda t: x[0] * t, 0.0, 1.0, weight="cos", wvar=2.0)[0])(X)


def decay(t, y, k, c):
    return [-k * y[0], k * y[0] - c * y[1]]


def exact(k, c, y, t):
    """Both components of the chain, by hand."""
    return y * np.exp(-k * t), y * k / (c - k) * (np.exp(-k * t) - np.exp(-c * t))


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_solve_ivp_in_parameters_and_start(method):
    times = np.linspace(0.0, 1.5, 4)

    def f(p):
        found = solve_ivp(
            lambda t, y: decay(t, y, p[0], p[1]), (0.0, 1.5), [p[2], 0.0], method=method, t_eval=times,
            rtol=1e-9, atol=1e-11,
        )  # fmt: skip
        return found.y

    p = np.array([0.8, 0.3, 2.0])
    want = np.stack([np.imag(exact(*(p + 1e-30j * e), times)) * 1e30 for e in np.eye(3)], -1)
    for width in (1, 3):
        np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(p), want, rtol=1e-6, atol=1e-7)
    assert np.array_equal(ndual.jvp(f, (p,), (p,))[0], f(p))


def test_solve_ivp_with_args_and_what_it_refuses():
    def f(k):
        found = solve_ivp(decay, (0.0, 1.0), np.array([1.0, 0.0]), args=(k, 0.3), rtol=1e-9, atol=1e-11)
        assert found.success
        return found.y[0, -1]

    assert ndual.derivative(f)(0.8) == pytest.approx(-np.exp(-0.8), rel=1e-7)
    with pytest.raises(ndual.NoRuleError, match="events="):
        ndual.derivative(lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], dense_output=True).y[0, -1])(0.8)
    with pytest.raises(ndual.NoRuleError, match="times"):
        ndual.derivative(lambda k: solve_ivp(lambda t, y: -y, (0.0, k), [1.0]).y[0, -1])(0.8)


def test_odeint():
    times = np.linspace(0.0, 1.5, 4)
    p = np.array([0.8, 0.3, 2.0])

    def f(p):
        return odeint(lambda y, t, k: decay(t, y, k, p[1]), [p[2], 0.0], times, args=(p[0],), rtol=1e-10, atol=1e-12)

    want = np.stack([np.imag(exact(*(p + 1e-30j * e), times)).T * 1e30 for e in np.eye(3)], -1)
    for width in (1, 3):
        np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(p), want, rtol=1e-6, atol=1e-7)
    assert np.array_equal(ndual.jvp(f, (p,), (p,))[0], f(p))
    assert ndual.grad(lambda x: odeint(lambda y, t: -y, 1.0, times)[-1, 0] * x[0])(X)[0] == pytest.approx(np.exp(-1.5))


# ---- interpolants ---------------------------------------------------------------------------------------------------

KNOTS = np.array([0.0, 1.0, 2.5, 4.0])
HEIGHTS = np.array([1.0, 2.0, 0.0, 3.0])
TABLE = scipy.interpolate.CubicSpline(KNOTS, HEIGHTS)


class Lookup:
    def __init__(self):
        self.curve = scipy.interpolate.CubicSpline(KNOTS, HEIGHTS)
        self.grid = scipy.interpolate.RegularGridInterpolator((KNOTS, KNOTS), np.outer(HEIGHTS, KNOTS**2))
        self.fitted = scipy.interpolate.UnivariateSpline(KNOTS, HEIGHTS, s=0)
        self.by_bases = scipy.interpolate.make_interp_spline(KNOTS, HEIGHTS, k=3)
        self.monotone = scipy.interpolate.PchipInterpolator(KNOTS, HEIGHTS)


LOOKUP = Lookup()


@pytest.mark.parametrize("name", ["curve", "fitted", "by_bases", "monotone"])
def test_curves_at_duals(name):
    curve = getattr(LOOKUP, name)
    t = np.array([0.3, 1.7, 3.9])
    for f in (lambda t: getattr(LOOKUP, name)(t), lambda t: curve(t)):
        for width in (1, 3):
            np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(t), np.diag(curve(t, 1)), rtol=1e-14)
        assert np.array_equal(ndual.jvp(f, (t,), (t,))[0], curve(t))
    assert ndual.derivative(lambda t: curve(t) ** 2)(1.7) == pytest.approx(2 * curve(1.7) * curve(1.7, 1))
    assert ndual.derivative(lambda t: curve(t, 1))(1.7) == pytest.approx(float(curve(1.7, 2)))
    if name == "curve":
        assert ndual.derivative(lambda t: TABLE([t, 2 * t]).sum())(1.2) == pytest.approx(
            TABLE(1.2, 1) + 2 * TABLE(2.4, 1)
        )
        two = scipy.interpolate.CubicSpline(KNOTS, np.stack([HEIGHTS, KNOTS], 1))
        got = ndual.jacobian(lambda t: two(t))(t)
        np.testing.assert_allclose(got, np.einsum("ij,ik->ijk", two(t, 1), np.eye(3)), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("ends", ["not-a-knot", "natural", "clamped", ((1, 0.5), (2, 0.25))])
def test_splines_of_dual_values(ends):
    """Linear in the values, or affine where numbers are prescribed at the ends."""
    t = np.array([0.3, 1.7, 3.9])

    def f(y):
        return scipy.interpolate.CubicSpline(KNOTS, y, bc_type=ends)(t)

    want = np.stack([f(HEIGHTS + e) - f(HEIGHTS) for e in np.eye(4)], -1)
    for width in (1, 4):
        np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(HEIGHTS), want, atol=1e-13)
    assert np.array_equal(ndual.jvp(f, (HEIGHTS,), (HEIGHTS,))[0], f(HEIGHTS))


def test_what_a_spline_of_dual_values_can_do():
    def curve(y):
        return scipy.interpolate.CubicSpline(KNOTS, [y[0], y[1], y[2], 3.0])

    plain = scipy.interpolate.CubicSpline(KNOTS, HEIGHTS)
    for f, want in (
        (lambda c, t: c(t), plain(1.7)),
        (lambda c, t: c.derivative()(t), plain(1.7, 1)),
        (lambda c, t: c(t, 1), plain(1.7, 1)),
        (lambda c, t: c.integrate(0.5, t), plain.integrate(0.5, 1.7)),
    ):
        value, _ = ndual.value_and_grad(lambda y, f=f: f(curve(y), 1.7))(HEIGHTS[:3])
        assert value == pytest.approx(float(want), rel=1e-14)
        steps = [f(curve(HEIGHTS[:3] + e), 1.7) - f(curve(HEIGHTS[:3]), 1.7) for e in np.eye(3)]
        np.testing.assert_allclose(ndual.grad(lambda y, f=f: f(curve(y), 1.7))(HEIGHTS[:3]), steps, atol=1e-13)
    slope = ndual.derivative(lambda t: curve(HEIGHTS * t)(1.7 * t), 0)(1.0)
    scaled = plain(1.7) - scipy.interpolate.CubicSpline(KNOTS, [0.0, 0.0, 0.0, 3.0])(1.7) + 1.7 * plain(1.7, 1)
    assert slope == pytest.approx(float(scaled), rel=1e-12)
    with pytest.raises(ndual.NoRuleError, match="knots"):
        ndual.grad(lambda x: scipy.interpolate.CubicSpline(x, HEIGHTS)(1.0))(KNOTS)


def test_grids():
    points = np.array([[0.5, 2.0], [2.0, 0.25]])
    values = np.outer(HEIGHTS, KNOTS**2)

    def f(q):
        return LOOKUP.grid(q.reshape(2, 2))

    value, jacobian = ndual.jvp(f, (points.ravel(),), (points.ravel(),))[0], ndual.jacobian(f)(points.ravel())
    np.testing.assert_array_equal(value, f(points.ravel()))
    h = 1e-4  # inside the cells the function is bilinear, so that differences are exact
    steps = [(f(points.ravel() + h * e) - f(points.ravel() - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(jacobian, np.stack(steps, -1), atol=1e-9)

    def of_values(v):
        return scipy.interpolate.RegularGridInterpolator((KNOTS, KNOTS), v * values)((0.5, 2.0))

    assert ndual.derivative(of_values)(2.0).item() == pytest.approx(of_values(1.0).item(), rel=1e-14)


def test_second_derivatives():
    """The same at two levels: each hands the values on to the one around it."""

    def twice(f, at):
        return float(ndual.derivative(ndual.derivative(f))(at))

    assert twice(lambda t: LOOKUP.curve(t), 1.7) == pytest.approx(float(LOOKUP.curve(1.7, 2)))
    assert twice(lambda p: quad(lambda t: np.exp(p * t), 0.0, 1.0)[0], 0.5) == pytest.approx(
        quad(lambda t: t * t * np.exp(0.5 * t), 0.0, 1.0)[0], rel=1e-12
    )
    assert twice(lambda t: np.sum([t**3, 1.0]) + math.exp(t), 0.5) == pytest.approx(3.0 + np.exp(0.5))
    assert twice(lambda t: (SPARSE @ np.array([t**2, t, 1.0])).sum(), 0.5) == pytest.approx(2.0)
    assert twice(lambda t: np.vectorize(lambda v: v**3)(np.array([t, 1.0])).sum(), 0.5) == pytest.approx(3.0)
