"""Covariances, histograms, polynomials, sets, windows, grids with active ends, and padding, as users call them."""

from __future__ import annotations

import numpy as np
import pytest
from harness import check

import ndual
from ndual.testing import check_rule

RNG = np.random.default_rng(11)
V, W, M = RNG.standard_normal(5), RNG.standard_normal(5), RNG.standard_normal((3, 5))
Z = V + 1j * W
POSITIVE = np.abs(W) + 0.5
T = np.cumsum(POSITIVE)

RULED = [
    (np.cov, (M,), {}),
    (np.cov, (M, V), {"bias": True}),
    (np.cov, (M.T, M[::-1].T), {"rowvar": False, "ddof": 0}),
    (np.cov, (M,), {"fweights": [1, 2, 3, 1, 2]}),
    (np.cov, (Z, Z[::-1] * 2), {}),
    (np.cov, (V,), {}),
    (np.corrcoef, (M,), {}),
    (np.corrcoef, (V, W), {}),
    (np.polyadd, (V, M[0, :3]), {}),
    (np.polysub, (M[0, :3], V), {}),
    (np.polymul, (V, M[0, :3]), {}),
    (np.polydiv, (V[:2], M[0, :3]), {}),
    (np.polyder, (V,), {"m": 2}),
    (np.polyder, (Z,), {}),
    (np.polyint, (V,), {}),
    (np.polyint, (V,), {"m": 2, "k": [1.0, 2.0]}),
    (np.poly, (V,), {}),
    (np.unwrap, (V * 9,), {}),
    (np.unwrap, (M * 9,), {"axis": 0, "period": 2.5}),
    (np.union1d, (V, W), {}),
    (np.setdiff1d, (V, W), {}),
    (np.setxor1d, (V, W), {}),
    (np.unique_all, (V,), {}),
    (np.sort_complex, (Z,), {}),
    (np.lib.stride_tricks.sliding_window_view, (V, 3), {}),
    (np.lib.stride_tricks.sliding_window_view, (M, (2, 2)), {}),
    (np.lib.stride_tricks.sliding_window_view, (M, 2), {"axis": -1}),
    (np.linspace, (V[0], W[0]), {"num": 7}),
    (np.linspace, (V, W), {"num": 4, "endpoint": False, "axis": 1}),
    (np.linspace, (M, V), {"num": 3, "retstep": True, "axis": -1}),
    (np.logspace, (V[0], W[0]), {"num": 4, "base": 2.0}),
    (np.logspace, (V, W), {"num": 4, "axis": 1}),
    (np.geomspace, (POSITIVE[0], POSITIVE[1]), {"num": 5}),
    (np.geomspace, (POSITIVE, POSITIVE[::-1] * 2), {"num": 3, "axis": -1, "endpoint": False}),
    (np.apply_over_axes, (np.sum, T.reshape(1, 5), (0, 1)), {}),
    (np.fft.hfft, (Z,), {}),
    (np.fft.ihfft, (V,), {"norm": "ortho"}),
    (np.linalg.tensorinv, (RNG.standard_normal((2, 3, 6)),), {}),
    (np.linalg.tensorsolve, (RNG.standard_normal((2, 3, 6)), RNG.standard_normal((2, 3))), {}),
    (np.quantile, (M, np.array([0.3, 0.8])), {"axis": 1, "weights": POSITIVE, "method": "inverted_cdf"}),
    (np.percentile, (V, 40.0), {"weights": POSITIVE, "method": "inverted_cdf"}),
    (np.nanquantile, (V, 0.5), {"weights": POSITIVE, "method": "inverted_cdf"}),
    (np.pad, (M, ((1, 2), (0, 3)), "linear_ramp"), {}),
    (np.pad, (M, 2, "maximum"), {}),
    (np.pad, (M, (1, 2), "minimum"), {"stat_length": 2}),
    (np.pad, (M, 1, "median"), {}),
    (np.pad, (M, 1, "mean"), {"stat_length": ((1, 2), (3, 3))}),
    (np.pad, (M, 1, "reflect"), {"reflect_type": "odd"}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), RULED, ids=lambda v: getattr(v, "__name__", None))
def test_rule(function, args, kwargs):
    check_rule(function, *args, widths=(1, 3), dtypes="df" if function is np.poly else "dfD", rtol=1e-6, **kwargs)


def test_rule_without_ndual():
    data = np.array([0.1, 0.4, 0.4, 0.7, 0.95])
    for density in (None, True):
        check("numpy.histogram", data, np.array([0.0, 0.35, 0.6, 1.0]), None, density, POSITIVE, passive=(0,), h=1e-3)
    check("numpy.histogram", data, 4, None, True, POSITIVE, passive=(1,), h=1e-3)
    check("numpy.histogram", data, np.array([0.0, 0.35, 0.6, 1.0]), density=True, passive=(0,), h=1e-3)
    check("numpy.histogram_bin_edges", data, 6)
    check("numpy.histogram_bin_edges", data, np.array([0.0, 0.5, 1.0]), passive=(0,))
    check("numpy.linspace", V, W, 1)
    check("numpy.linspace", V, 2.0, 5, retstep=True)
    check("numpy.pad", M, ((1, 2), (0, 3)), constant_values=np.array([[1.0, 2.0], [3.0, 4.0]]))
    check("numpy.pad", M, 2, "linear_ramp", end_values=np.array([[1.0, 2.0], [3.0, 4.0]]))
    check("numpy.pad", M, 1, constant_values=np.array(2.5))


def slopes(f, *x):
    """The Jacobian by one argument, from central differences, exact for what is linear."""
    h = 1e-6
    return (np.asarray(f(x[0] + h)) - np.asarray(f(x[0] - h))) / (2 * h)


def test_weights_and_a_given_mean_may_be_active():
    def weighted(w):
        return np.cov(M, aweights=w)[0, 1]

    got = ndual.grad(weighted)(POSITIVE)
    for k in range(5):
        step = 1e-6 * np.eye(5)[k]
        assert got[k] == pytest.approx((weighted(POSITIVE + step) - weighted(POSITIVE - step)) / 2e-6, rel=1e-6)
    # The sum of squared deviations from c over n has the derivatives 2 (x - c) / n and -2 mean(x - c).
    a, c = ndual.grad(lambda a, c: np.var(a, mean=c), argnums=(0, 1))(V, 0.25)
    np.testing.assert_allclose(a, 2 * (V - 0.25) / 5, rtol=1e-14)
    assert c == pytest.approx(-2 * np.mean(V - 0.25))
    # A standard deviation is still 0 where all are equal.
    np.testing.assert_array_equal(ndual.grad(np.std)(np.ones(4)), np.zeros(4))


def test_polyfit_with_covariance_and_diagnostics():
    def parts(y):
        c, v = np.polyfit(T, y, 1, cov=True)
        return np.concatenate((c, v.ravel()))

    jac = ndual.jacobian(parts)(V)
    for k in range(5):
        step = 1e-6 * np.eye(5)[k]
        np.testing.assert_allclose(jac[:, k], (parts(V + step) - parts(V - step)) / 2e-6, rtol=1e-5, atol=1e-8)
    x = np.linspace(0.0, 1.0, 5)
    residual = ndual.grad(lambda y: np.polyfit(x, y, 1, full=True)[1][0])(V)
    line = np.polyval(np.polyfit(x, V, 1), x)
    np.testing.assert_allclose(residual, 2 * (V - line), rtol=1e-10)


def test_steps_of_histograms_have_no_derivative_but_weights_do():
    edges = np.array([0.0, 1.0, 2.0])
    x = np.array([0.5, 1.5, 1.7, 2.0, 5.0])
    w = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    got = ndual.jacobian(lambda w: np.histogram(x, edges, weights=w)[0])(w)
    np.testing.assert_array_equal(got, [[1, 0, 0, 0, 0], [0, 1, 1, 1, 0]])
    got = ndual.grad(lambda x: np.histogram(x, 2)[1] @ np.array([1.0, 10.0, 100.0]))(x)
    np.testing.assert_allclose(got, [6.0, 0, 0, 0, 105.0])


def test_ties_share():
    x = np.array([2.0, 2.0, 1.0])
    np.testing.assert_allclose(ndual.grad(lambda a: np.pad(a, (0, 1), "maximum")[-1])(x), [0.5, 0.5, 0])
    q = ndual.grad(lambda a: np.quantile(a, 0.9, weights=[1.0, 1.0, 1.0], method="inverted_cdf"))(x)
    np.testing.assert_allclose(q, [0.5, 0.5, 0])


def test_functions_along_an_axis():
    a = RNG.standard_normal((2, 3, 4))

    def rows(a):
        return np.apply_along_axis(lambda v: np.outer(v, v)[:2, 1:] * v.sum(), 1, a)

    tangent = RNG.standard_normal(a.shape)
    value, got = ndual.jvp(rows, (a,), (tangent,))
    np.testing.assert_array_equal(value, rows(a))
    np.testing.assert_allclose(got, (rows(a + 1e-6 * tangent) - rows(a - 1e-6 * tangent)) / 2e-6, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(ndual.grad(lambda a: np.apply_along_axis(np.max, 2, a).sum())(a) != 0,
                                  a == a.max(axis=2, keepdims=True))  # fmt: skip


def test_windows_are_views():
    def f(x):
        x = x * 1.0
        windows = np.lib.stride_tricks.sliding_window_view(x, 2)
        x[1] *= 3.0
        return (windows * np.array([[1.0, 2.0], [3.0, 4.0]])).sum()

    np.testing.assert_array_equal(ndual.grad(f)(np.ones(3)), [1, 15, 4])


def test_roots_and_poly():
    p = np.array([0.0, 2.0, -4.0, 10.0, -6.0, 0.0])
    x = np.roots(p)
    tangent = RNG.standard_normal(6)
    tangent[[0, -1]] = 0.0  # the degree and the root at zero stay
    value, got = ndual.jvp(np.roots, (p,), (tangent,))
    np.testing.assert_array_equal(value, x)
    # p(x) = 0 gives dx = -dp(x) / p'(x).
    want = -np.polyval(tangent, x) / np.polyval(np.polyder(p), x)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    a = RNG.standard_normal((3, 3))
    _, got = ndual.jvp(np.poly, (a,), (np.eye(3),))
    # Of det(t - a - s) by s: minus the derivative of the polynomial by t.
    np.testing.assert_allclose(got, np.append(0, -np.polyder(np.poly(a))), rtol=1e-9, atol=1e-12)


def test_division_gives_quotient_and_remainder():
    v, w = M[0, :3], M[1, :4]
    dv, dw = RNG.standard_normal(3), RNG.standard_normal(4)
    (q, r), (dq, dr) = ndual.jvp(np.polydiv, (w, v), (dw, dv))
    np.testing.assert_array_equal(q, np.polydiv(w, v)[0])
    np.testing.assert_array_equal(r, np.polydiv(w, v)[1])
    whole = np.polyadd(np.polymul(dq, v), np.polymul(q, dv))
    np.testing.assert_allclose(np.polyadd(whole, dr), dw, rtol=1e-9, atol=1e-10)


def test_sets_take_the_lanes_of_the_elements_they_keep():
    a, b = np.array([3.0, 1.0, 2.0, 1.0]), np.array([1.0, 3.0, 7.0])
    weight = np.array([1.0, 10.0, 100.0])
    got = ndual.grad(lambda a: np.intersect1d(a, b) @ weight[:2])(a)
    np.testing.assert_array_equal(got, [10, 1, 0, 0])
    assert [list(v) for v in ndual.jvp(lambda a: np.intersect1d(a, b, return_indices=True), (a,), (a,))[0]] == [
        [1, 3], [1, 0], [0, 1],
    ]  # fmt: skip
    for options in ({}, {"sorted": False}):
        got = ndual.grad(lambda a, o=options: np.sum(np.unique(a, **o) ** 2))(a)
        np.testing.assert_array_equal(got, [6, 2, 4, 0])
    got = ndual.grad(lambda a: np.sum(np.unique_values(a) ** 2))(a)
    np.testing.assert_array_equal(got, [6, 2, 4, 0])
    values, tangent = ndual.jvp(np.unique_values, (a,), (2 * a,))
    np.testing.assert_array_equal(values, np.unique_values(a))
    np.testing.assert_array_equal(tangent, 2 * values)


def test_trimming_and_casting():
    x = np.array([0.0, 1.0, 0.0, 2.0, 0.0])
    for options in ({}, {"trim": "f"}, {"trim": "B"}):
        value, got = ndual.jvp(lambda x, o=options: np.trim_zeros(x, **o), (x,), (np.arange(5.0),))
        np.testing.assert_array_equal(value, np.trim_zeros(x, **options))
        np.testing.assert_array_equal(got, np.arange(5.0)[0 if options == {"trim": "B"} else 1 :][: len(value)])
    assert (
        ndual.grad(lambda x: np.trim_zeros(np.pad(x, 1), axis=0).sum() ** 2)(np.ones((2, 2))).tolist()
        == [[8.0] * 2] * 2
    )
    value, got = ndual.jvp(lambda x: np.real_if_close(x * (1 + 1e-18j)), (x,), (x,))
    assert value.dtype == got.dtype == float
    np.testing.assert_array_equal(got, x)
    value, got = ndual.jvp(lambda x: np.astype(x, np.float32), (x,), (x,))
    assert value.dtype == got.dtype == np.float32
    assert ndual.jvp(np.sort_complex, (x[::-1],), (x[::-1],))[1].tolist() == [0, 0, 0, 1, 2]


def test_a_window_shape_by_beta():
    # d/db of i0(b a) / i0(b) = (a i1(b a) - i1(b) i0(b a) / i0(b)) / i0(b), here at a = 0 and b = 2.
    got = ndual.jacobian(lambda b: np.kaiser(5, b))(2.0)
    i0, i1 = 2.2795853023360673, 1.5906368546373291
    assert got[0] == pytest.approx(-i1 / i0**2, rel=1e-14)
    assert got[2] == pytest.approx(0.0, abs=1e-15)
