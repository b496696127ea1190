"""Residuals and models: ``least_squares``, ``leastsq``, ``curve_fit``."""

import pickle

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse import csr_matrix

import ndual
import ndual.scipy

T = np.linspace(0.0, 2.0, 30)
SEEN = 3.0 * np.exp(-1.5 * T) + 0.5
START = [1.0, -1.0, 0.0]


def model(t, a, b, c):
    return a * np.exp(b * t) + c


def model_jacobian(t, a, b, c):
    decay = np.exp(b * t)
    return np.stack([decay, a * t * decay, np.ones_like(t)], axis=1)


def residual(p, t=T, y=SEEN):
    return p[0] * np.exp(p[1] * t) + p[2] - y


def residual_jacobian(p, t=T, y=SEEN):
    return model_jacobian(t, *p)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
@pytest.mark.parametrize("plain", [False, True])
def test_least_squares(method, plain):
    p = ndual.scipy.problem(residual, args=(T, SEEN))
    fun, jac = (residual, ndual.jacobian(residual)) if plain else (p.fun, p.jac)
    ours = optimize.least_squares(fun, START, jac=jac, method=method, xtol=1e-12)
    exact = optimize.least_squares(residual, START, jac=residual_jacobian, method=method, xtol=1e-12)
    assert ours.x == pytest.approx([3.0, -1.5, 0.5], rel=1e-9)
    assert ours.nfev <= exact.nfev and (ours.njev or 0) <= (exact.njev or 0)
    q = ndual.scipy.problem(residual)
    found = optimize.least_squares(q.fun, START, jac=q.jac, args=(T, SEEN), method=method)
    assert found.x == pytest.approx([3.0, -1.5, 0.5], rel=1e-6)


def test_sums_of_few_calls():
    calls = []

    def counted(p):
        calls.append(1)
        return residual(p)

    p = ndual.scipy.problem(counted)
    exact = optimize.least_squares(residual, START, jac=residual_jacobian)
    optimize.least_squares(p.fun, START, jac=p.jac)
    assert len(calls) <= exact.nfev + 3


@pytest.mark.parametrize("loss", ["soft_l1", "cauchy"])
def test_robust_losses_and_bounds(loss):
    p = ndual.scipy.problem(residual)
    ways = [
        optimize.least_squares(f, [1.0, -1.0, 0.7], jac=g, loss=loss, bounds=([0, -2, 0.6], [9, 0, 2]), x_scale="jac")
        for f, g in ((p.fun, p.jac), (residual, residual_jacobian))
    ]
    assert ways[0].x == pytest.approx(ways[1].x, rel=1e-7)
    assert ways[0].nfev <= ways[1].nfev


@pytest.mark.parametrize("method", ["trf", "dogbox"])
def test_iterative_and_sparse_settings_stay_as_they_are(method):
    def chain(x):
        return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])

    n = 6
    pattern = np.zeros((2 * n - 2, n), int)
    for i in range(n - 1):
        pattern[i, i] = pattern[i, i + 1] = pattern[n - 1 + i, i] = 1
    p = ndual.scipy.problem(chain)
    for options in ({"tr_solver": "lsmr"}, {"jac_sparsity": csr_matrix(pattern)}, {"tr_solver": "exact"}):
        found = optimize.least_squares(p.fun, np.full(n, 0.5), jac=p.jac, method=method, **options)
        assert found.x == pytest.approx(np.ones(n), abs=1e-5)
    # Without a Jacobian the pattern guides SciPy's own differences, on our values.
    found = optimize.least_squares(p.fun, np.full(n, 0.5), method=method, jac_sparsity=csr_matrix(pattern))
    assert found.x == pytest.approx(np.ones(n), abs=1e-4)
    sparse = optimize.least_squares(p.fun, np.full(n, 0.5), jac=lambda x: csr_matrix(p.jac(x)), method=method)
    assert sparse.x == pytest.approx(np.ones(n), abs=1e-5)


@pytest.mark.parametrize("col_deriv", [False, True])
def test_leastsq(col_deriv):
    p = ndual.scipy.problem(residual)
    jac = p.jac_transposed if col_deriv else p.jac
    found = optimize.leastsq(p.fun, START, args=(T, SEEN), Dfun=jac, col_deriv=col_deriv)[0]
    assert found == pytest.approx([3.0, -1.5, 0.5], rel=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_starts_of_other_dtypes(dtype, method):
    start = np.array([1, -1, 0], dtype)
    p = ndual.scipy.problem(residual)
    for fun, jac in ((p.fun, p.jac), (residual, ndual.jacobian(residual))):
        found = optimize.least_squares(fun, start, jac=jac, method=method)
        assert found.x == pytest.approx([3.0, -1.5, 0.5], rel=1e-4)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_curve_fit(method):
    c = ndual.scipy.curve(model)
    assert c.jac(T, 3.0, -1.0, 2.0) == pytest.approx(model_jacobian(T, 3.0, -1.0, 2.0), rel=1e-14)
    noisy = SEEN + 0.01 * np.cos(40.0 * T)
    sigma = np.linspace(0.5, 1.0, T.size)
    for settings in ({"sigma": sigma}, {"sigma": np.diag(sigma**2), "absolute_sigma": True}, {}):
        ours = optimize.curve_fit(c.fun, T, noisy, p0=START, jac=c.jac, method=method, **settings)
        exact = optimize.curve_fit(model, T, noisy, p0=START, jac=model_jacobian, method=method, **settings)
        assert ours[0] == pytest.approx(exact[0], rel=1e-6)
        assert ours[1] == pytest.approx(exact[1], rel=1e-4)


def test_curve_fit_without_a_start():
    def decay(t, a, b=1.0):
        return a * np.exp(-b * t)

    def by_hand(t, a, b):
        return np.stack([np.exp(-b * t), -a * t * np.exp(-b * t)], axis=1)

    seen = decay(T, 3.0, 1.5)
    c = ndual.scipy.curve(decay)
    ours = optimize.curve_fit(c.fun, T, seen, jac=c.jac, full_output=True)
    exact = optimize.curve_fit(decay, T, seen, jac=by_hand, full_output=True)
    assert ours[0] == pytest.approx([3.0, 1.5], rel=1e-6)
    assert ours[2]["nfev"] <= exact[2]["nfev"]
    bounded = optimize.curve_fit(c.fun, T, seen, jac=c.jac, bounds=([0, 0], [5, 3]))
    assert bounded[0] == pytest.approx([3.0, 1.5], rel=1e-6)


def test_curve_fit_with_a_plain_jacobian():
    def jac(t, *params):
        return np.stack(ndual.jacobian(model, argnums=(1, 2, 3))(t, *params), axis=1)

    found, _ = optimize.curve_fit(model, T, SEEN, p0=START, jac=jac)
    assert found == pytest.approx([3.0, -1.5, 0.5], rel=1e-7)


def test_curves_of_several_variables_and_leaving_out_what_is_missing():
    def plane(xy, a, b):
        return a * xy[0] + b * np.sin(xy[1])

    xy = np.stack([np.linspace(0.0, 1.0, 12), np.linspace(2.0, 5.0, 12)])
    seen = plane(xy, 2.0, -3.0)
    c = ndual.scipy.curve(plane)
    assert optimize.curve_fit(c.fun, xy, seen, jac=c.jac)[0] == pytest.approx([2.0, -3.0])
    xy[0, 3] = seen[5] = np.nan
    found, _ = optimize.curve_fit(c.fun, xy, seen, jac=c.jac, nan_policy="omit", check_finite=False)
    assert found == pytest.approx([2.0, -3.0])


def test_data_that_changes_in_place_is_seen():
    t = np.array([1.0, 2.0])
    c = ndual.scipy.curve(lambda t, a: a * t)
    for k in range(5):
        t[:] = k
        assert c.fun(t, 2.0).tolist() == [2.0 * k] * 2
        assert c.jac(t, 2.0).tolist() == [[float(k)]] * 2


def test_a_curve_can_be_sent_to_another_process():
    fun, jac = pickle.loads(pickle.dumps((ndual.scipy.curve(model).fun, ndual.scipy.curve(model).jac)))
    assert fun(T, 3.0, -1.5, 0.5) == pytest.approx(SEEN)
    assert jac(T, 3.0, -1.5, 0.5).shape == (30, 3)
