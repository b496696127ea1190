"""Minimisers with our gradients: the same way to the same point as with derivatives written by hand."""

import warnings

import numpy as np
import pytest
from scipy import optimize
from scipy.differentiate import derivative

import ndual
import ndual.scipy

GRADIENTS = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "trust-constr"]
SHIFT = np.array([0.5, -1.0, 2.0, 0.25])


def smooth(x, shift=SHIFT):
    """Convex, with one minimum."""
    return np.sum(np.exp(x - shift) - x) + 0.5 * np.sum((x[1:] - x[:-1]) ** 2)


def smooth_gradient(x, shift=SHIFT):
    found = np.exp(x - shift) - 1.0
    step = x[1:] - x[:-1]
    found[1:] += step
    found[:-1] -= step
    return found


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


class Counted:
    def __init__(self, f):
        self.f = f
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.f(*args)


def evaluations(result):
    return result.nfev, result.get("njev", 0)


def test_gradients_agree_with_an_oracle():
    x = np.array([-0.3, 1.1, 0.6, 2.0])
    for f in (smooth, rosen):
        p = ndual.scipy.problem(f)
        assert optimize.check_grad(p.fun, p.jac, x) < 1e-5 * np.abs(p.jac(x)).max()
        assert optimize.approx_fprime(x, f) == pytest.approx(p.jac(x), rel=1e-5)
        assert optimize.check_grad(f, ndual.grad(f), x) < 1e-5 * np.abs(p.jac(x)).max()
    assert p.jac(x) == pytest.approx(optimize.rosen_der(x), rel=1e-14)
    assert smooth_gradient(x) == pytest.approx(ndual.grad(smooth)(x), rel=1e-14)
    bell = ndual.scipy.scalar(lambda t: np.exp(-t * t))
    assert derivative(bell.fun, np.linspace(-1.0, 1.0, 5)).df == pytest.approx(bell.fprime(np.linspace(-1.0, 1.0, 5)))


@pytest.mark.parametrize("method", GRADIENTS)
@pytest.mark.parametrize("way", ["apart", "together", "plain"])
def test_same_way_as_by_hand(method, way):
    x0 = np.array([-1.0, 1.0, 0.5, 0.3])
    exact = optimize.minimize(smooth, x0, jac=smooth_gradient, method=method)
    f = Counted(smooth)
    p = ndual.scipy.problem(f)
    fun, jac = {
        "apart": (p.fun, p.jac),
        "together": (p.fun_and_jac, True),
        "plain": (f, ndual.grad(f)),
    }[way]
    ours = optimize.minimize(fun, x0, jac=jac, method=method)
    assert ours.x == pytest.approx(exact.x, abs=1e-8)
    assert all(a <= b for a, b in zip(evaluations(ours), evaluations(exact), strict=True))
    # One forward pass gives value and gradient, so that what is shared is not computed again.
    assert f.calls <= exact.nfev + (exact.get("njev") or exact.nfev)
    if way == "apart" and method in ("BFGS", "L-BFGS-B", "CG", "TNC"):
        assert f.calls <= exact.nfev + 5


@pytest.mark.parametrize("method", GRADIENTS)
def test_rosenbrock(method):
    x0 = np.array([-1.2, 1.0, 0.5, 0.3])
    p = ndual.scipy.problem(rosen)
    options = {"maxfun": 2000} if method == "TNC" else {}
    ours = optimize.minimize(p.fun, x0, jac=p.jac, method=method, tol=1e-8, options=options)
    exact = optimize.minimize(rosen, x0, jac=optimize.rosen_der, method=method, tol=1e-8, options=options)
    assert ours.x == pytest.approx(exact.x, abs=1e-5)
    assert ours.nfev <= exact.nfev * 1.1 + 2


@pytest.mark.parametrize("method", GRADIENTS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, list])
def test_starts_of_any_dtype(method, dtype):
    start = [1, 0, 2, -1] if dtype is list else np.array([1, 0, 2, -1], dtype)
    p = ndual.scipy.problem(smooth, x0=start)
    assert p.x0.dtype == np.float64
    want = optimize.minimize(smooth, p.x0, jac=smooth_gradient, method=method)
    for fun, jac in ((p.fun, p.jac), (p.fun_and_jac, True), (smooth, ndual.grad(smooth))):
        found = optimize.minimize(fun, p.x0, jac=jac, method=method)
        assert found.x == pytest.approx(want.x, abs=1e-6)  # where rounding ends the search, it moves x by 1e-8
        if dtype is np.float32 and method in ("TNC", "SLSQP"):
            continue  # SciPy refuses a float32 start here, whatever the derivative
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "overflow encountered in cast")  # float32 CG line searches, by hand too
            found = optimize.minimize(fun, start, jac=jac, method=method)
        assert found.x == pytest.approx(want.x, abs=2e-3 if dtype is np.float32 else 1e-6)


def test_scipy_itself_refuses_these_float32_starts():
    for method in ("TNC", "SLSQP"):
        with pytest.raises((ValueError, Exception), match=r"float64"):
            optimize.minimize(smooth, np.zeros(4, np.float32), jac=smooth_gradient, method=method)


@pytest.mark.parametrize("method", GRADIENTS)
@pytest.mark.parametrize("n", [1, 2])
def test_an_objective_may_return_its_number_in_an_array(method, n):
    def f(x):
        return np.sum((x - 3.0) ** 2 + (x - 3.0) ** 4, keepdims=True)

    p = ndual.scipy.problem((lambda x: (x - 3.0) ** 2 + (x - 3.0) ** 4) if n == 1 else f)
    exact = optimize.minimize(
        f, np.zeros(n), jac=lambda x: 2.0 * (x - 3.0) + 4.0 * (x - 3.0) ** 3, method=method, tol=1e-9
    )
    assert p.fun(np.zeros(n)).shape == (1,)
    assert p.jac(np.zeros(n)).shape == (n,)
    for fun, jac in ((p.fun, p.jac), (p.fun_and_jac, True)):
        found = optimize.minimize(fun, np.zeros(n), jac=jac, method=method, tol=1e-9)
        assert found.x == pytest.approx(np.full(n, 3.0), abs=1e-3)
        assert found.nfev <= exact.nfev


def test_arguments_and_bounds():
    shift = np.array([1.0, 2.0])
    p = ndual.scipy.problem(smooth)
    bounds = optimize.Bounds([-1.0, -1.0], [0.5, 3.0])
    for method in ("L-BFGS-B", "TNC", "SLSQP", "trust-constr"):
        got = optimize.minimize(p.fun, [0.0, 0.0], args=(shift,), jac=p.jac, method=method, bounds=bounds)
        want = optimize.minimize(smooth, [0.0, 0.0], args=(shift,), jac=smooth_gradient, method=method, bounds=bounds)
        assert got.x == pytest.approx(want.x, abs=1e-6)
        assert got.nfev <= want.nfev


def test_older_names():
    x0 = np.zeros(4)
    p = ndual.scipy.problem(smooth)
    want = optimize.minimize(smooth, x0, jac=smooth_gradient, tol=1e-10).x
    close = {"abs": 1e-3}
    assert optimize.fmin_bfgs(p.fun, x0, fprime=p.jac, disp=False) == pytest.approx(want, **close)
    assert optimize.fmin_cg(p.fun, x0, fprime=p.jac, disp=False) == pytest.approx(want, **close)
    assert optimize.fmin_l_bfgs_b(p.fun, x0, fprime=p.jac)[0] == pytest.approx(want, **close)
    assert optimize.fmin_l_bfgs_b(p.fun_and_jac, x0)[0] == pytest.approx(want, **close)
    assert optimize.fmin_tnc(p.fun, x0, fprime=p.jac, disp=0)[0] == pytest.approx(want, **close)
    assert optimize.fmin_slsqp(p.fun, x0, fprime=p.jac, disp=False) == pytest.approx(want, **close)
    step = -p.jac(x0)
    assert optimize.line_search(p.fun, p.jac, x0, step)[0] == optimize.line_search(smooth, smooth_gradient, x0, step)[0]


def wells(x):
    """Two valleys in every direction; the deeper one at about -1."""
    return np.sum((x * x - 1.0) ** 2 + 0.3 * x)


def wells_gradient(x):
    return 4.0 * x * (x * x - 1.0) + 0.3


BOUNDS = [(-2.0, 2.0)] * 3


@pytest.mark.parametrize("plain", [False, True])
def test_basinhopping(plain):
    p = ndual.scipy.problem(wells)
    fun, jac = (wells, ndual.grad(wells)) if plain else (p.fun, p.jac)
    found = [
        optimize.basinhopping(f, np.ones(3), niter=20, rng=1, minimizer_kwargs={"jac": g, "method": "BFGS"})
        for f, g in ((fun, jac), (wells, wells_gradient))
    ]
    assert found[0].x == pytest.approx(found[1].x, abs=1e-6)
    assert (found[0].nfev, found[0].njev) <= (found[1].nfev, found[1].njev)
    both = optimize.basinhopping(p.fun_and_jac, np.ones(3), niter=5, rng=1, minimizer_kwargs={"jac": True})
    assert both.fun <= wells(np.ones(3))


@pytest.mark.parametrize("plain", [False, True])
def test_dual_annealing(plain):
    p = ndual.scipy.problem(wells)
    fun, jac = (wells, ndual.grad(wells)) if plain else (p.fun, p.jac)
    found = []
    for f, g in ((fun, jac), (wells, wells_gradient)):
        local = {"method": "L-BFGS-B", "jac": g, "bounds": BOUNDS}
        found.append(optimize.dual_annealing(f, BOUNDS, maxiter=30, rng=2, minimizer_kwargs=local))
    assert found[0].x == pytest.approx(found[1].x, abs=1e-5)
    assert wells_gradient(found[0].x) == pytest.approx(np.zeros(3), abs=1e-4)
    assert found[0].nfev <= found[1].nfev


@pytest.mark.parametrize("way", ["keyword", "options", "plain", "together"])
def test_shgo(way):
    p = ndual.scipy.problem(wells)
    by_hand = optimize.shgo(wells, BOUNDS, minimizer_kwargs={"method": "SLSQP", "jac": wells_gradient})
    if way == "options":
        found = optimize.shgo(p.fun, BOUNDS, options={"jac": p.jac}, minimizer_kwargs={"method": "SLSQP"})
    elif way == "together":
        found = optimize.shgo(p.fun_and_jac, BOUNDS, minimizer_kwargs={"method": "SLSQP", "jac": True})
    else:
        fun, jac = (wells, ndual.grad(wells)) if way == "plain" else (p.fun, p.jac)
        found = optimize.shgo(fun, BOUNDS, minimizer_kwargs={"method": "SLSQP", "jac": jac})
    assert found.x == pytest.approx(by_hand.x, abs=1e-4)
    assert found.nfev <= by_hand.nfev * (1 if way != "options" else 10)


def test_differential_evolution_polishes_with_the_gradient():
    p = ndual.scipy.problem(wells)
    polished = []

    def polish(fun, x0, **kwds):
        polished.append(optimize.minimize(p.fun, x0, jac=p.jac, bounds=kwds["bounds"], method="L-BFGS-B"))
        return polished[-1]

    found = optimize.differential_evolution(p.fun, BOUNDS, rng=3, maxiter=20, polish=polish)
    assert len(polished) == 1
    assert wells_gradient(found.x) == pytest.approx(np.zeros(3), abs=1e-4)
    assert found.x == pytest.approx(np.full(3, -1.035765), abs=1e-3)
