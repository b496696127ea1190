"""Minimisers with our Hessians, constraints with theirs, roots with second derivatives."""

import numpy as np
import pytest
from scipy import optimize

import ndual
import ndual.scipy

DENSE = ["Newton-CG", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"]
PRODUCTS = ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"]
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


def smooth_hessian(x, shift=SHIFT):
    n = len(x)
    couple = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    couple[0, 0] = couple[-1, -1] = 1.0
    return np.diag(np.exp(x - shift)) + couple


def smooth_product(x, p, shift=SHIFT):
    return smooth_hessian(x, shift) @ p


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def effort(found):
    return found.nfev, found.get("njev", 0), found.get("nhev", 0)


def test_values_and_dtypes():
    p = ndual.scipy.problem(rosen)
    x = np.array([-1.2, 0.7, 1.1])
    assert p.hess(x) == pytest.approx(optimize.rosen_hess(x), rel=1e-13)
    direction = np.array([1.0, -2.0, 0.5])
    assert p.hessp(x, direction) == pytest.approx(optimize.rosen_hess_prod(x, direction), rel=1e-13)
    for dtype in (np.int8, np.float32, bool):
        unit = np.array([1, 0, 1], dtype)
        got = p.hessp(x.astype(np.float32), unit)
        assert got.dtype == np.float64
        assert got == pytest.approx(optimize.rosen_hess_prod(x.astype(np.float32).astype(float), unit.astype(float)))
    for get in (p.hess, lambda x: p.hessp(x, direction)):
        one, two = get(x), get(x)
        assert one.dtype == np.float64 and one.flags.c_contiguous and one.flags.writeable
        assert not np.shares_memory(one, two) and not np.shares_memory(one, x)
        one[...] = np.nan
        assert get(x).tolist() == two.tolist()
    assert p.hess([1, 1, 1]).tolist() == optimize.rosen_hess(np.ones(3)).tolist()
    assert x.tolist() == [-1.2, 0.7, 1.1]


def test_an_oracle():
    x = np.array([-0.3, 1.1, 0.6, 2.0])
    p = ndual.scipy.problem(smooth)
    assert optimize.approx_fprime(x, p.jac) == pytest.approx(p.hess(x), abs=1e-6)
    assert p.hess(x) == pytest.approx(smooth_hessian(x), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("method", DENSE)
@pytest.mark.parametrize("plain", [False, True])
def test_same_way_as_by_hand(method, plain):
    x0 = np.array([-1.0, 1.0, 0.5, 0.3])
    exact = optimize.minimize(smooth, x0, jac=smooth_gradient, hess=smooth_hessian, method=method)
    p = ndual.scipy.problem(smooth)
    fun, jac, hess = (smooth, ndual.grad(smooth), ndual.hessian(smooth)) if plain else (p.fun, p.jac, p.hess)
    ours = optimize.minimize(fun, x0, jac=jac, hess=hess, method=method)
    assert ours.x == pytest.approx(exact.x, abs=1e-8)
    assert all(a <= b for a, b in zip(effort(ours), effort(exact), strict=True))


@pytest.mark.parametrize("method", PRODUCTS)
@pytest.mark.parametrize("plain", [False, True])
def test_products_with_the_hessian(method, plain):
    x0 = np.array([-1.0, 1.0, 0.5, 0.3])
    exact = optimize.minimize(smooth, x0, jac=smooth_gradient, hessp=smooth_product, method=method)
    p = ndual.scipy.problem(smooth)
    fun, jac, hessp = p.fun, p.jac, p.hessp
    if plain:
        fun, jac = smooth, ndual.grad(smooth)
        hessp = lambda x, p: ndual.hvp(smooth, (x,), (p,))[2]  # noqa: E731
    ours = optimize.minimize(fun, x0, jac=jac, hessp=hessp, method=method)
    assert ours.x == pytest.approx(exact.x, abs=1e-8)
    assert all(a <= b for a, b in zip(effort(ours), effort(exact), strict=True))


@pytest.mark.parametrize("method", DENSE)
def test_rosenbrock(method):
    x0 = np.array([-1.2, 1.0, 0.5])
    p = ndual.scipy.problem(rosen)
    ours = optimize.minimize(p.fun, x0, jac=p.jac, hess=p.hess, method=method)
    exact = optimize.minimize(rosen, x0, jac=optimize.rosen_der, hess=optimize.rosen_hess, method=method)
    assert ours.x == pytest.approx(exact.x, abs=1e-5)
    assert ours.nfev <= exact.nfev * 1.1 + 2
    assert ours.nhev <= exact.nhev * 1.1 + 2


@pytest.mark.parametrize("method", DENSE)
@pytest.mark.parametrize("start", [np.zeros(4, np.float32), np.zeros(4, np.int8), [0, 0, 0, 0]])
def test_starts_of_any_dtype(method, start):
    p = ndual.scipy.problem(smooth)
    want = optimize.minimize(
        smooth, np.zeros(4), jac=smooth_gradient, hess=smooth_hessian, tol=1e-10, method="trust-exact"
    )
    single = np.asarray(start).dtype == np.float32
    for fun, jac, hess in (
        (p.fun, p.jac, p.hess),
        (smooth, ndual.grad(smooth), ndual.hessian(smooth)),
    ):
        found = optimize.minimize(fun, start, jac=jac, hess=hess, method=method)
        assert found.x == pytest.approx(want.x, abs=2e-3 if single else 1e-4)
    if method in PRODUCTS:
        found = optimize.minimize(p.fun, start, jac=p.jac, hessp=p.hessp, method=method)
        assert found.x == pytest.approx(want.x, abs=2e-3 if single else 1e-4)


def test_older_names_and_arguments():
    shift = np.array([1.0, 2.0])
    p = ndual.scipy.problem(smooth)
    want = optimize.minimize(smooth, np.zeros(2), args=(shift,), jac=smooth_gradient, tol=1e-10).x
    for second in ({"fhess": p.hess}, {"fhess_p": p.hessp}):
        found = optimize.fmin_ncg(p.fun, np.zeros(2), fprime=p.jac, args=(shift,), disp=False, **second)
        assert found == pytest.approx(want, abs=1e-5)
    q = ndual.scipy.problem(smooth, args=(shift,))
    assert q.hess(np.zeros(2)) == pytest.approx(smooth_hessian(np.zeros(2), shift), rel=1e-14)
    assert q.hessp(np.zeros(2), [1, 0]) == pytest.approx(smooth_hessian(np.zeros(2), shift)[0], rel=1e-14)
    assert p.hess(np.zeros(2), shift).tolist() == q.hess(np.zeros(2)).tolist()


def test_global_minimisers_with_hessians():
    def wells(x):
        return np.sum((x * x - 1.0) ** 2 + 0.3 * x)

    def by_hand(x):
        return 4.0 * x * (x * x - 1.0) + 0.3

    p = ndual.scipy.problem(wells)
    bounds = [(-2.0, 2.0)] * 2
    results = []
    for fun, jac, hess in ((p.fun, p.jac, p.hess), (wells, by_hand, lambda x: np.diag(12.0 * x * x - 4.0))):
        local = {"method": "trust-exact", "jac": jac, "hess": hess}
        results.append(
            (
                optimize.basinhopping(fun, [1.0, 1.0], niter=20, rng=1, minimizer_kwargs=dict(local)),
                optimize.dual_annealing(fun, bounds, maxiter=20, rng=1, minimizer_kwargs=dict(local)),
                optimize.shgo(fun, bounds, minimizer_kwargs={**local, "method": "trust-ncg"}),
            )
        )
    for found, exact in zip(*results, strict=True):
        assert found.x == pytest.approx(exact.x, abs=1e-6)
        assert found.nfev <= exact.nfev


def circle(x):
    return np.stack([x[0] ** 2 + x[1] ** 2, x[0] * x[1] ** 3])


def circle_jacobian(x):
    return np.array([[2.0 * x[0], 2.0 * x[1]], [x[1] ** 3, 3.0 * x[0] * x[1] ** 2]])


def circle_hessian(x, v):
    mixed = 3.0 * x[1] ** 2
    return v[0] * 2.0 * np.eye(2) + v[1] * np.array([[0.0, mixed], [mixed, 6.0 * x[0] * x[1]]])


@pytest.mark.parametrize(
    ("f", "hessian"),
    [
        (circle, circle_hessian),
        (lambda x: [x[0] ** 2 + x[1] ** 2, x[0] * x[1] ** 3], circle_hessian),
        (lambda x: x[0] * x[1] ** 3, lambda x, v: circle_hessian(x, [0.0, v[0]])),
        (lambda x: x[:1] * x[1:] ** 3, lambda x, v: circle_hessian(x, [0.0, v[0]])),
    ],
)
def test_weighted_hessians(f, hessian):
    x = np.array([1.5, -0.5])
    p = ndual.scipy.problem(f)
    v = np.array([2.0, -3.0])[: np.size(f(x))]
    assert p.weighted_hess(x, v) == pytest.approx(hessian(x, v), rel=1e-14)
    assert p.weighted_hess(x.astype(np.float32), v.astype(np.int8)) == pytest.approx(hessian(x, v), rel=1e-14)
    made = p.nonlinear_constraint(0.0, 1.0)
    assert made.hess(x, v).tolist() == p.weighted_hess(x, v).tolist()


@pytest.mark.parametrize("start", [[1.2, 0.4], np.array([1, 1], np.int8)])
def test_trust_constr_with_the_hessian_of_a_constraint(start):
    p, c = ndual.scipy.problem(rosen), ndual.scipy.problem(circle)
    ours = c.nonlinear_constraint([-np.inf, 0.0], [1.5, np.inf])
    by_hand = optimize.NonlinearConstraint(
        circle, [-np.inf, 0.0], [1.5, np.inf], jac=circle_jacobian, hess=circle_hessian
    )
    plain = optimize.NonlinearConstraint(
        circle, [-np.inf, 0.0], [1.5, np.inf], jac=ndual.jacobian(circle),
        hess=lambda x, v: ndual.hessian(lambda x: v @ circle(x))(x),
    )  # fmt: skip
    settings = {"method": "trust-constr", "options": {"maxiter": 500}}
    exact = optimize.minimize(
        rosen, start, jac=optimize.rosen_der, hess=optimize.rosen_hess, constraints=by_hand, **settings
    )
    for constraint, second in ((ours, {"hess": p.hess}), (ours, {"hessp": p.hessp}), (plain, {"hess": p.hess})):
        if constraint is plain and np.asarray(start).dtype.kind == "i":
            continue
        found = optimize.minimize(p.fun, start, jac=p.jac, constraints=[constraint], **second, **settings)
        assert found.x == pytest.approx(exact.x, abs=1e-6)
        assert found.nfev <= exact.nfev and found.constr_nhev <= exact.constr_nhev


def test_nested_parameters():
    x0 = {"a": 1.0, "b": np.array([[1.0, 2.0]])}
    p = ndual.scipy.problem(lambda q: q["a"] ** 2 * q["b"][0, 0] + np.exp(q["b"][0, 1]), x0=x0)
    assert p.hess(p.x0) == pytest.approx(np.array([[2.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, np.exp(2.0)]]))
    assert p.hessp(p.x0, [0, 1, 0]) == pytest.approx([2.0, 0.0, 0.0])


def test_an_objective_in_an_array():
    p = ndual.scipy.problem(lambda x: x**4)
    assert p.hess([2.0]).tolist() == [[48.0]]
    assert p.hessp([2.0], [1.0]).tolist() == [48.0]
    found = optimize.minimize(p.fun, [1.0], jac=p.jac, hess=p.hess, method="trust-exact")
    assert found.x == pytest.approx([0.0], abs=0.05)
    for call in (
        lambda: ndual.scipy.problem(np.sin).hess(np.ones(2)),
        lambda: ndual.scipy.problem(np.sin).hessp(np.ones(2), np.ones(2)),
    ):
        with pytest.raises(ndual.ArgumentTypeError, match=r"real scalar; got shape \(2,\)"):
            call()


def cubic(x, a=2.0):
    return x**3 - a


def test_halley():
    s = ndual.scipy.scalar(cubic)
    assert s.fprime2(3.0) == 18.0
    assert s.fun_and_fprimes(3.0) == (25.0, 27.0, 18.0)
    assert ndual.scipy.scalar(np.sin).fprime2(np.array([0.5, 1.0])) == pytest.approx(-np.sin([0.5, 1.0]), rel=1e-15)
    assert ndual.scipy.scalar(np.exp).fprime2(1.0 + 2.0j) == pytest.approx(np.exp(1.0 + 2.0j), rel=1e-14)
    by_hand = {"fprime": lambda x: 3.0 * x * x, "fprime2": lambda x: 6.0 * x}
    exact = optimize.newton(cubic, 1.0, full_output=True, **by_hand)[1]
    root, info = optimize.newton(s.fun, 1.0, fprime=s.fprime, fprime2=s.fprime2, full_output=True)
    assert root == pytest.approx(2.0 ** (1 / 3), rel=1e-14)
    assert info.function_calls <= exact.function_calls
    many = optimize.newton(s.fun, np.full(3, 2), fprime=s.fprime, fprime2=s.fprime2, args=(np.array([1.0, 8.0, 27.0]),))
    assert many == pytest.approx([1.0, 2.0, 3.0])
    exact = optimize.root_scalar(cubic, x0=1.0, method="halley", **by_hand)
    apart = optimize.root_scalar(s.fun, x0=1.0, fprime=s.fprime, fprime2=s.fprime2, method="halley")
    together = optimize.root_scalar(s.fun_and_fprimes, x0=1.0, fprime=True, fprime2=True, method="halley")
    for found in (apart, together):
        assert found.root == pytest.approx(2.0 ** (1 / 3), rel=1e-14)
        assert found.function_calls <= exact.function_calls
    second = ndual.derivative(ndual.derivative(cubic))
    plain = optimize.root_scalar(cubic, x0=1.0, fprime=ndual.derivative(cubic), fprime2=second, method="halley")
    assert plain.root == pytest.approx(2.0 ** (1 / 3), rel=1e-14)


def test_a_function_that_solves_another_problem_inside():
    inner = ndual.scipy.problem(lambda x: np.sum((x - 2.0) ** 2))

    def f(x):
        y = inner.jac(np.zeros(2))
        return np.sum(x * y)

    assert ndual.scipy.problem(f).jac(np.ones(2)).tolist() == [-4.0, -4.0]
