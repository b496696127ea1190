"""Differential equations: stiff solvers and boundary values with our Jacobians."""

import pickle

import numpy as np
import pytest
from scipy.integrate import odeint, solve_bvp, solve_ivp

import ndual
import ndual.scipy

RATES = (0.04, 1e4, 3e7)


def robertson(t, y, a, b, c):
    slow, fast, square = a * y[0], b * y[1] * y[2], c * y[1] ** 2
    return np.stack([fast - slow, slow - fast - square, square])


def robertson_jacobian(t, y, a, b, c):
    return np.array([[-a, b * y[2], b * y[1]], [a, -b * y[2] - 2.0 * c * y[1], -b * y[1]], [0.0, 2.0 * c * y[1], 0.0]])


def turned(y, t, *args):
    return robertson(t, y, *args)


def effort(found):
    return found.nfev, found.njev, found.nlu


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
@pytest.mark.parametrize("way", ["ode", "fixed", "plain"])
def test_solve_ivp(method, way):
    settings = {"method": method, "rtol": 1e-7, "atol": 1e-10}
    exact = solve_ivp(robertson, (0.0, 100.0), [1, 0, 0], jac=robertson_jacobian, args=RATES, **settings)
    o = ndual.scipy.ode(robertson, RATES if way == "fixed" else ())
    fun, jac = (robertson, ndual.jacobian(robertson, argnums=1)) if way == "plain" else (o.fun, o.jac)
    args = () if way == "fixed" else RATES
    found = solve_ivp(fun, (0.0, 100.0), [1, 0, 0], jac=jac, args=args or None, **settings)
    assert found.success
    # The Jacobians agree to rounding, and so do the steps that follow from them.
    assert found.y[:, -1] == pytest.approx(exact.y[:, -1], rel=1e-6)
    assert all(a <= b * 1.02 + 2 for a, b in zip(effort(found), effort(exact), strict=True))


@pytest.mark.parametrize("start", [np.ones(2, np.float32), np.ones(2, np.int8), [1, 1]])
@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_starts_of_other_dtypes(start, method):
    def f(t, y):
        return np.stack([-100.0 * (y[0] - np.cos(t)), -y[1] * y[0]])

    def by_hand(t, y):
        return np.array([[-100.0, 0.0], [-y[1], -y[0]]])

    o = ndual.scipy.ode(f)
    exact = solve_ivp(f, (0.0, 2.0), start, method=method, jac=by_hand)
    for fun, jac in ((o.fun, o.jac), (f, ndual.jacobian(f, argnums=1))):
        found = solve_ivp(fun, (0.0, 2.0), start, method=method, jac=jac)
        assert found.y[:, -1] == pytest.approx(exact.y[:, -1], rel=1e-6)
        assert effort(found) <= effort(exact)


def test_complex_states():
    def f(t, y):
        return np.stack([1j * y[1] - 50.0 * y[0], -y[0] * y[1]])

    def by_hand(t, y):
        return np.array([[-50.0, 1j], [-y[1], -y[0]]])

    o = ndual.scipy.ode(f)
    y0 = np.array([1.0 + 0.0j, 0.5j])
    assert o.jac(0.0, y0).tolist() == by_hand(0.0, y0).tolist()
    # BDF is the implicit method of solve_ivp that takes complex states.
    found = solve_ivp(o.fun, (0.0, 1.0), y0, method="BDF", jac=o.jac)
    exact = solve_ivp(f, (0.0, 1.0), y0, method="BDF", jac=by_hand)
    assert found.y[:, -1] == pytest.approx(exact.y[:, -1], rel=1e-9)
    assert effort(found) <= effort(exact)


@pytest.mark.parametrize("tfirst", [False, True])
@pytest.mark.parametrize("col_deriv", [False, True])
def test_odeint(tfirst, col_deriv):
    times = np.array([0.0, 1.0, 10.0, 100.0])
    o = ndual.scipy.ode(robertson if tfirst else turned, tfirst=tfirst)
    asked = []

    def dfun(*args):
        asked.append(1)
        return (o.jac_transposed if col_deriv else o.jac)(*args)

    settings = {"full_output": True, "rtol": 1e-8, "atol": 1e-11, "mxstep": 5000}
    found, info = odeint(
        o.fun, [1.0, 0.0, 0.0], times, args=RATES, Dfun=dfun, col_deriv=col_deriv, tfirst=tfirst, **settings
    )
    exact, facts = odeint(
        robertson, [1.0, 0.0, 0.0], times, args=RATES, Dfun=robertson_jacobian, tfirst=True, **settings
    )
    assert asked
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert info["nfe"][-1] <= facts["nfe"][-1] * 1.02 + 2 and info["nje"][-1] <= facts["nje"][-1] * 1.02 + 2


def test_the_jacobian_by_hand():
    o = ndual.scipy.ode(robertson, RATES)
    y = np.array([0.9, 1e-5, 0.1])
    assert o.fun(0.0, y).tolist() == robertson(0.0, y, *RATES).tolist()
    assert o.jac(0.0, y) == pytest.approx(robertson_jacobian(0.0, y, *RATES), rel=1e-15)
    assert o.jac_transposed(0.0, y).tolist() == o.jac(0.0, y).T.tolist()
    assert o.jac(0, y, 1.0, 0.0, 0.0).tolist() == [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    for found in (o.jac(0.0, y), o.jac_transposed(0.0, y), o.fun(0.0, y)):
        assert found.flags.c_contiguous
        found[...] = np.nan
    assert o.jac(0.0, y)[0, 0] == -0.04
    swapped = ndual.scipy.ode(turned, RATES, tfirst=False)
    assert swapped.jac(y, 0.0).tolist() == o.jac(0.0, y).tolist()
    assert pickle.loads(pickle.dumps(swapped)).jac(y, 0.0).tolist() == o.jac(0.0, y).tolist()


def test_functions_as_people_write_them():
    import math

    def f(t, y, mu):
        out = np.zeros(3)
        out[0] = y[1]
        out[1:] = np.array([mu * (1.0 - y[0] ** 2) * y[1] - y[0], math.exp(-t) * y[2]])
        return out

    o = ndual.scipy.ode(f, args=5.0)
    want = [[0.0, 1.0, 0.0], [-21.0, -15.0, 0.0], [0.0, 0.0, 1.0]]
    assert o.jac(0, [2.0, 1.0, 3.0]).tolist() == want

    def bc(ya, yb):
        return np.array([ya[0] - 1.0, yb[0] * yb[1], 0.0])

    b = ndual.scipy.bvp(lambda x, y: np.array([y[1], y[2] * y[0], x * y[1]]), bc)
    y = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = b.fun_jac(np.array([0.5, 1.5]), y)
    assert found[:, :, 1].tolist() == [[0.0, 1.0, 0.0], [6.0, 0.0, 2.0], [0.0, 1.5, 0.0]]
    assert b.bc_jac(y[:, 0], y[:, 1])[1].tolist() == [[0.0, 0.0, 0.0], [4.0, 2.0, 0.0], [0.0, 0.0, 0.0]]


def test_lists_of_numbers():
    o = ndual.scipy.ode(lambda t, y: [y[1], 0, t * y[0]])
    assert o.jac(2.0, np.ones(3)).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    assert ndual.scipy.ode(lambda t, y: 0.0 * t + 3.0).jac(0.0, np.ones(1)).tolist() == [0.0]
    steady = ndual.scipy.ode(lambda t, y: np.arange(2))
    assert steady.jac(0.0, np.ones(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


MESH = np.linspace(0.0, 1.0, 6)


def bratu(x, y):
    return np.stack([y[1], -np.exp(y[0])])


def bratu_jacobian(x, y):
    found = np.zeros((2, 2, x.size))
    found[0, 1] = 1.0
    found[1, 0] = -np.exp(y[0])
    return found


def ends(ya, yb):
    return np.stack([ya[0], yb[0]])


def ends_jacobian(ya, yb):
    return np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])


def test_solve_bvp():
    b = ndual.scipy.bvp(bratu, ends)
    start = np.zeros((2, MESH.size))
    settings = {"tol": 1e-8, "fun_jac": b.fun_jac, "bc_jac": b.bc_jac}
    found = solve_bvp(b.fun, b.bc, MESH, start, **settings)
    exact = solve_bvp(bratu, ends, MESH, start, tol=1e-8, fun_jac=bratu_jacobian, bc_jac=ends_jacobian)
    assert found.success
    assert found.niter <= exact.niter and found.x.size <= exact.x.size
    assert found.sol(0.5) == pytest.approx(exact.sol(0.5), rel=1e-10, abs=1e-12)
    mixed = solve_bvp(bratu, ends, MESH, start, tol=1e-8, fun_jac=b.fun_jac)
    assert mixed.sol(0.5) == pytest.approx(exact.sol(0.5), rel=1e-6, abs=1e-9)


def test_solve_bvp_with_an_unknown_parameter():
    def string(x, y, p):
        return np.vstack((y[1], -(p[0] ** 2) * y[0]))

    def fixed(ya, yb, p):
        return np.stack([ya[0], yb[0], ya[1] - p[0]])

    def string_jacobian(x, y, p):
        by_y, by_p = np.zeros((2, 2, x.size)), np.zeros((2, 1, x.size))
        by_y[0, 1], by_y[1, 0] = 1.0, -(p[0] ** 2)
        by_p[1, 0] = -2.0 * p[0] * y[0]
        return by_y, by_p

    def fixed_jacobian(ya, yb, p):
        return (
            np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]),
            np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]),
            np.array([[0.0], [0.0], [-1.0]]),
        )

    b = ndual.scipy.bvp(string, fixed)
    start = np.zeros((2, MESH.size))
    start[0] = np.sin(6.0 * MESH)
    rng = np.random.default_rng(0)
    y, p = rng.standard_normal((2, MESH.size)), np.array([1.5])
    for ours, by_hand in (
        (b.fun_jac(MESH, y, p), string_jacobian(MESH, y, p)),
        (b.bc_jac(y[:, 0], y[:, -1], p), fixed_jacobian(y[:, 0], y[:, -1], p)),
    ):
        assert len(ours) == len(by_hand)
        for one, other in zip(ours, by_hand, strict=True):
            assert one.flags.c_contiguous
            assert one == pytest.approx(other, rel=1e-15)
    found = solve_bvp(b.fun, b.bc, MESH, start, p=[6], fun_jac=b.fun_jac, bc_jac=b.bc_jac)
    exact = solve_bvp(string, fixed, MESH, start, p=[6], fun_jac=string_jacobian, bc_jac=fixed_jacobian)
    assert found.p == pytest.approx([2.0 * np.pi], abs=1e-3)
    assert found.p == pytest.approx(exact.p, rel=1e-10)
    assert found.niter <= exact.niter


def test_y_of_any_layout():
    b = ndual.scipy.bvp(bratu, ends)
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((2, 2 * MESH.size))
    for y in (wide[:, ::2], np.asfortranarray(wide[:, ::2]), wide[:, ::2].astype(np.float32), wide[:, ::2] * 1j):
        found = b.fun_jac(MESH, y)
        assert found.shape == (2, 2, MESH.size)
        assert found.flags.c_contiguous
        want = np.zeros((2, 2, MESH.size), y.dtype)
        want[0, 1], want[1, 0] = 1.0, -np.exp(y[0])
        np.testing.assert_allclose(found, want, rtol=1e-6)
        found[...] = np.nan
        assert np.isfinite(b.fun_jac(MESH, y)).all()


def test_lists_and_constants_at_the_ends():
    b = ndual.scipy.bvp(lambda x, y: [y[1], 0.0 * x], lambda ya, yb: [ya[0], yb[1] ** 2])
    assert b.fun(MESH, np.ones((2, 6))).shape == (2, 6)
    found = b.fun_jac(MESH, np.ones((2, 6)))
    assert found[0, 1].tolist() == [1.0] * 6
    assert not found[1].any() and not found[0, 0].any()
    at_a, at_b = b.bc_jac(np.ones(2), np.full(2, 3.0))
    assert at_a.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert at_b.tolist() == [[0.0, 0.0], [0.0, 6.0]]


@pytest.mark.parametrize("adapter", [ndual.scipy.ode, lambda f: ndual.scipy.bvp(np.sum, f)])
def test_what_is_no_function(adapter):
    with pytest.raises(ndual.ArgumentTypeError, match="expects a function; got int"):
        adapter(3)
