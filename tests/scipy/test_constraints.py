"""Constraints in both of SciPy's forms, for every method that takes them."""

import numpy as np
import pytest
from scipy import optimize

import ndual
import ndual.scipy

HALF = np.array([0.5, 0.5])


def objective(x):
    return np.exp(x[0]) * (4.0 * x[0] ** 2 + 2.0 * x[1] ** 2 + 4.0 * x[0] * x[1] + 2.0 * x[1] + 1.0)


def objective_gradient(x):
    e = np.exp(x[0])
    return np.array([objective(x) + e * (8.0 * x[0] + 4.0 * x[1]), e * (4.0 * x[0] + 4.0 * x[1] + 2.0)])


def curves(x):
    """Both are to be at least 0."""
    return np.stack([x[0] + x[1] - x[0] * x[1] - 1.5, x[0] * x[1] + 10.0])


def curves_jacobian(x):
    return np.array([[1.0 - x[1], 1.0 - x[0]], [x[1], x[0]]])


START = [-1.0, 1.0]
OPTIMUM = np.array([-9.547405, 1.047405])


def disc(x):
    return x[0] ** 2 + x[1] ** 2


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA", "COBYQA"])
@pytest.mark.parametrize("form", ["dictionary", "object"])
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0", "ignore:Constraint options")
def test_inequalities(method, form):
    p, c = ndual.scipy.problem(objective), ndual.scipy.problem(curves)
    by_hand = {"type": "ineq", "fun": curves, "jac": curves_jacobian}
    ours = c.constraint()
    if form == "object":
        by_hand = optimize.NonlinearConstraint(curves, 0.0, np.inf, jac=curves_jacobian)
        ours = c.nonlinear_constraint(0.0, np.inf)
    gradients = {"jac": p.jac}, {"jac": objective_gradient}
    if method.startswith("COBY"):  # these take no derivatives, and ignore those of constraints
        gradients = {}, {}
    if method == "trust-constr" and form == "object":
        ours.hess = optimize.BFGS()
    settings = {"options": {"maxiter": 3000}} if method == "trust-constr" else {"tol": 1e-8}
    found = optimize.minimize(p.fun, START, method=method, constraints=ours, **gradients[0], **settings)
    exact = optimize.minimize(objective, START, method=method, constraints=[by_hand], **gradients[1], **settings)
    assert found.x == pytest.approx(exact.x, abs=1e-5)
    assert found.nfev <= exact.nfev
    assert found.x == pytest.approx(OPTIMUM, abs=0.05 if method == "trust-constr" else 1e-4)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0", "ignore:Constraint options")
def test_equations_and_scalar_constraints(method):
    line = ndual.scipy.problem(lambda x, a: x[0] + x[1] - a, args=(2.0,))
    p = ndual.scipy.problem(disc)
    for constraint in (line.constraint("eq"), line.nonlinear_constraint(0.0, 0.0)):
        if method == "trust-constr" and not isinstance(constraint, dict):
            constraint.hess = optimize.BFGS()
        found = optimize.minimize(p.fun, [3.0, 0.0], jac=p.jac, method=method, constraints=[constraint])
        assert found.x == pytest.approx([1.0, 1.0], abs=1e-6)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0", "ignore:Constraint options")
def test_a_constraint_of_one_output_in_an_array(method):
    p, c = ndual.scipy.problem(disc), ndual.scipy.problem(lambda x: x[:1] * x[1:] - 2.0)
    ways = [c.constraint(), c.nonlinear_constraint(0.0, np.inf)]
    if method == "trust-constr":
        ways[1].hess = optimize.BFGS()
    for constraint in ways:
        found = optimize.minimize(p.fun, [2.0, 2.0], jac=p.jac, method=method, constraints=constraint)
        assert found.x == pytest.approx([np.sqrt(2.0)] * 2, abs=1e-3)


def test_plain_jacobians():
    for jac in (ndual.jacobian(curves), curves_jacobian):
        constraint = {"type": "ineq", "fun": curves, "jac": jac}
        found = optimize.minimize(
            objective, START, jac=ndual.grad(objective), method="SLSQP", constraints=constraint, tol=1e-8
        )
        assert found.x == pytest.approx(OPTIMUM, abs=1e-4)


def test_calls_are_shared():
    calls = []

    def counted(x):
        calls.append(1)
        return curves(x)

    p, c = ndual.scipy.problem(objective), ndual.scipy.problem(counted)
    optimize.minimize(p.fun, START, jac=p.jac, method="SLSQP", constraints=c.constraint(), tol=1e-8)
    ours, calls[:] = len(calls), []
    by_hand = {"type": "ineq", "fun": counted, "jac": curves_jacobian}
    optimize.minimize(objective, START, jac=objective_gradient, method="SLSQP", constraints=by_hand, tol=1e-8)
    assert ours <= len(calls) + 5


def test_the_forms():
    c = ndual.scipy.problem(curves)
    made = c.nonlinear_constraint([0.0, -1.0], 5.0, keep_feasible=[True, False])
    assert (made.lb, made.ub, made.keep_feasible) == ([0.0, -1.0], 5.0, [True, False])
    x = np.array([2.0, 3.0])
    assert made.fun(x).tolist() == curves(x).tolist()
    assert made.jac(x).tolist() == curves_jacobian(x).tolist()
    form = c.constraint("eq")
    assert form["type"] == "eq"
    assert form["jac"](x).tolist() == curves_jacobian(x).tolist()
    with pytest.raises(ndual.ArgumentValueError, match=r'"ineq" .* or "eq" .*; got \'leq\''):
        c.constraint("leq")


def test_constraints_on_nested_parameters():
    x0 = {"a": 3.0, "b": np.zeros(2)}
    p = ndual.scipy.problem(lambda q: q["a"] ** 2 + np.sum(q["b"] ** 2), x0=x0)
    c = ndual.scipy.problem(lambda q: q["a"] + 2.0 * q["b"].sum() - 9.0, x0=x0)
    found = optimize.minimize(p.fun, p.x0, jac=p.jac, method="SLSQP", constraints=c.constraint("eq"), tol=1e-12)
    best = p.restore(found.x)
    assert best["a"] == pytest.approx(1.0, abs=1e-6)
    assert best["b"] == pytest.approx([2.0, 2.0], abs=1e-6)
