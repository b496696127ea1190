"""Roots: systems with ``root`` and ``fsolve``, single equations with ``newton`` and ``root_scalar``."""

import numpy as np
import pytest
from scipy import optimize

import ndual
import ndual.scipy


def system(x, a=1.0):
    return np.stack([x[0] + 0.5 * (x[0] - x[1]) ** 3 - a, 0.5 * (x[1] - x[0]) ** 3 + x[1]])


def system_jacobian(x, a=1.0):
    slope = 1.5 * (x[0] - x[1]) ** 2
    return np.array([[1.0 + slope, -slope], [-slope, 1.0 + slope]])


@pytest.mark.parametrize("method", ["hybr", "lm"])
@pytest.mark.parametrize("way", ["apart", "together", "plain"])
@pytest.mark.parametrize("start", [[0.0, 0.0], [0, 0], np.zeros(2, np.float32), np.zeros(2, np.int8)])
def test_root(method, way, start):
    p = ndual.scipy.problem(system)
    fun, jac = {
        "apart": (p.fun, p.jac),
        "together": (p.fun_and_jac, True),
        "plain": (system, ndual.jacobian(system)),
    }[way]
    if way == "plain" and np.asarray(start).dtype.kind == "i":
        # root hands an integer start to the Jacobian as it is, and integers have no derivative.
        with pytest.raises(ndual.ArgumentTypeError, match=r"x.astype\(float\)"):
            optimize.root(fun, start, jac=jac, method=method)
        return
    found = optimize.root(fun, start, jac=jac, method=method)
    exact = optimize.root(system, start, jac=system_jacobian, method=method)
    assert found.success
    assert found.x == pytest.approx(exact.x, abs=1e-7)
    assert found.nfev <= exact.nfev and found.njev <= exact.njev
    assert system(found.x) == pytest.approx([0.0, 0.0], abs=1e-8)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_options_and_arguments(method):
    p = ndual.scipy.problem(system)
    found = optimize.root(p.fun, [0.0, 0.0], args=(2.0,), jac=p.jac, method=method, options={"col_deriv": 0})
    turned = optimize.root(
        p.fun, [0.0, 0.0], args=(2.0,), jac=p.jac_transposed, method=method, options={"col_deriv": 1}
    )
    assert system(found.x, 2.0) == pytest.approx([0.0, 0.0], abs=1e-9)
    assert turned.x.tolist() == found.x.tolist()


def test_fsolve():
    # Not symmetric, so that a transposed Jacobian would not do.
    def f(x):
        return [x[0] * np.cos(x[1]) - 4.0, x[1] * x[0] - x[1] - 5.0]

    def by_hand(x):
        return [[np.cos(x[1]), -x[0] * np.sin(x[1])], [x[1], x[0] - 1.0]]

    p = ndual.scipy.problem(f)
    want, facts, _, _ = optimize.fsolve(f, [1.0, 1.0], fprime=by_hand, full_output=True)
    for jac, col_deriv in ((p.jac, 0), (p.jac_transposed, 1)):
        found, info, ok, _ = optimize.fsolve(p.fun, [1, 1], fprime=jac, col_deriv=col_deriv, full_output=True)
        assert ok == 1
        assert found == pytest.approx(want, abs=1e-10)
        assert info["nfev"] <= facts["nfev"] and info["njev"] <= facts["njev"]
    plain = ndual.jacobian(lambda x: np.stack(f(x)))
    assert optimize.fsolve(f, [1.0, 1.0], fprime=plain) == pytest.approx(want, abs=1e-10)


def test_systems_of_one_equation():
    p = ndual.scipy.problem(lambda x: x**3 - 2.0)
    want = pytest.approx([2.0 ** (1 / 3)], rel=1e-8)
    assert optimize.fsolve(p.fun, 1.0, fprime=p.jac) == want
    assert optimize.fsolve(p.fun, 1.0, fprime=p.jac_transposed, col_deriv=True) == want
    for method in ("hybr", "lm"):
        assert optimize.root(p.fun, 1.0, jac=p.jac, method=method).x == want
        assert optimize.root(p.fun_and_jac, 1.0, jac=True, method=method).x == want
    assert optimize.leastsq(p.fun, 1.0, Dfun=p.jac)[0] == want
    for method in ("trf", "dogbox", "lm"):
        assert optimize.least_squares(p.fun, 1.0, jac=p.jac, method=method).x == want


def cubic(x, a=2.0):
    return x**3 - a


def test_derivatives_of_a_number():
    s = ndual.scipy.scalar(lambda x: np.exp(2.0 * x) * np.sin(x))
    x = 0.7
    e, sine, cosine = np.exp(2.0 * x), np.sin(x), np.cos(x)
    assert s.fun(x) == e * sine
    assert s.fprime(x) == pytest.approx(e * (2.0 * sine + cosine), rel=1e-15)
    assert s.fun_and_fprime(np.float64(x)) == (s.fun(x), s.fprime(x))
    assert type(s.fun(1)) is float and type(s.fprime(np.float32(1.0))) is float
    assert s.fprime(1) == s.fprime(1.0)
    z = 0.3 + 0.4j
    slope = np.exp(2.0 * z) * (2.0 * np.sin(z) + np.cos(z))
    assert s.fprime(z) == pytest.approx(slope, rel=1e-14)


def test_newton():
    s = ndual.scipy.scalar(cubic)
    root, info = optimize.newton(s.fun, 1.0, fprime=s.fprime, args=(3.0,), full_output=True)
    exact = optimize.newton(cubic, 1.0, fprime=lambda x, a: 3.0 * x * x, args=(3.0,), full_output=True)[1]
    assert root == pytest.approx(3.0 ** (1 / 3), rel=1e-14)
    assert info.function_calls <= exact.function_calls
    assert optimize.newton(cubic, 1.0, fprime=ndual.derivative(cubic)) == pytest.approx(2.0 ** (1 / 3), rel=1e-14)
    assert optimize.newton(s.fun, 1, fprime=s.fprime) == pytest.approx(2.0 ** (1 / 3), rel=1e-14)
    assert optimize.newton(s.fun, 1j, fprime=s.fprime) ** 3 == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_newton_of_many_starts(dtype):
    a = np.linspace(1.0, 10.0, 7)
    s = ndual.scipy.scalar(cubic)
    start = np.full(7, 2, dtype)
    found = optimize.newton(s.fun, start, fprime=s.fprime, args=(a,))
    assert found == pytest.approx(np.cbrt(a), rel=1e-6)
    assert start.tolist() == [2.0] * 7


@pytest.mark.parametrize("together", [False, True])
def test_root_scalar(together):
    s = ndual.scipy.scalar(cubic)
    fun, fprime = (s.fun_and_fprime, True) if together else (s.fun, s.fprime)
    found = optimize.root_scalar(fun, x0=1.0, fprime=fprime, method="newton")
    exact = optimize.root_scalar(cubic, x0=1.0, fprime=lambda x: 3.0 * x * x, method="newton")
    assert found.root == pytest.approx(2.0 ** (1 / 3), rel=1e-14)
    assert found.function_calls <= exact.function_calls
    plain = optimize.root_scalar(ndual.scipy.scalar(cubic, (5.0,)).fun_and_fprime, x0=1, fprime=True)
    assert plain.root == pytest.approx(5.0 ** (1 / 3), rel=1e-12)


def test_what_is_not_elementwise_is_refused():
    with pytest.raises(ndual.ArgumentTypeError, match=r"elementwise.*shape of x, \(3,\); got \(\)"):
        ndual.scipy.scalar(np.sum).fprime(np.ones(3))
    with pytest.raises(ndual.ArgumentTypeError, match="expects a function; got float"):
        ndual.scipy.scalar(2.0)
