"""The SciPy adapters, on SciPy's own solvers."""

import threading

import numpy as np
import pytest

import ndual
import ndual.scipy

optimize = pytest.importorskip("scipy.optimize")


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "trust-constr"])
@pytest.mark.parametrize("together", [False, True])
def test_minimize(method, together):
    x0 = np.array([-1.2, 1.0, 0.5, 0.3])
    p = ndual.scipy.problem(rosen)
    if together:
        ours = optimize.minimize(p.fun_and_jac, x0, jac=True, method=method, tol=1e-8)
    else:
        ours = optimize.minimize(p.fun, x0, jac=p.jac, method=method, tol=1e-8)
    exact = optimize.minimize(rosen, x0, jac=optimize.rosen_der, method=method, tol=1e-8)
    assert ours.x == pytest.approx(exact.x, abs=1e-5)
    assert ours.nfev <= exact.nfev * 1.1 + 2


def test_plain_operators_fit_too():
    x0 = np.array([-1.2, 1.0])
    found = optimize.minimize(rosen, x0, jac=ndual.grad(rosen), method="BFGS")
    assert found.x == pytest.approx([1.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares(method):
    t = np.linspace(0.0, 2.0, 30)
    y = 3.0 * np.exp(-1.5 * t) + 0.5

    def residual(p, t, y):
        return p[0] * np.exp(p[1] * t) + p[2] - y

    p = ndual.scipy.problem(residual, args=(t, y))
    found = optimize.least_squares(p.fun, [1.0, -1.0, 0.0], jac=p.jac, method=method, xtol=1e-12)
    assert found.x == pytest.approx([3.0, -1.5, 0.5], rel=1e-9)
    q = ndual.scipy.problem(residual)
    found = optimize.least_squares(q.fun, [1.0, -1.0, 0.0], jac=q.jac, args=(t, y), method=method)
    assert found.x == pytest.approx([3.0, -1.5, 0.5], rel=1e-6)


def test_curve_fit():
    t = np.linspace(0.0, 2.0, 30)

    def model(t, a, b):
        return a * np.sin(b * t)

    c = ndual.scipy.curve(model)
    assert c.jac(t, 2.0, 1.5) == pytest.approx(np.stack([np.sin(1.5 * t), 2.0 * t * np.cos(1.5 * t)], axis=1))
    found, _ = optimize.curve_fit(c.fun, t, model(t, 2.0, 1.5), p0=(1.5, 1.4), jac=c.jac)
    assert found == pytest.approx([2.0, 1.5], rel=1e-9)


@pytest.mark.parametrize("method", ["hybr", "lm"])
@pytest.mark.parametrize("together", [False, True])
def test_root(method, together):
    def f(x):
        return np.stack([x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1.0, 0.5 * (x[1] - x[0]) ** 3 + x[1]])

    p = ndual.scipy.problem(f)
    if together:
        found = optimize.root(p.fun_and_jac, [0.0, 0.0], jac=True, method=method)
    else:
        found = optimize.root(p.fun, [0.0, 0.0], jac=p.jac, method=method)
    assert found.success
    assert f(found.x) == pytest.approx([0.0, 0.0], abs=1e-9)


def counted():
    calls = []

    def f(x):
        calls.append(x)
        return np.sum(x * x)

    return f, calls


def test_results_are_fresh_float64():
    p = ndual.scipy.problem(lambda x: np.outer(x, x)[0])
    x = np.array([1.0, 2.0], np.float32)
    for get in (p.fun, p.jac):
        one, two = get(x), get(x)
        assert one.dtype == np.float64
        assert one.flags.c_contiguous
        assert one.flags.owndata or one.base is not None
        assert not np.shares_memory(one, two)
    value, jac = p.fun_and_jac(np.array([1, 2], np.int8))
    assert jac.tolist() == [[2.0, 0.0], [2.0, 1.0]]
    assert value.tolist() == [1.0, 2.0]
    assert isinstance(ndual.scipy.problem(np.sum).fun(x), float)
    assert p.jac(x).flags.c_contiguous


def test_identity_does_not_alias():
    p = ndual.scipy.problem(lambda x: x)
    x = np.ones(2)
    assert not np.shares_memory(p.fun(x), x)


def test_work_is_shared_once():
    f, calls = counted()
    p = ndual.scipy.problem(f)
    x = np.ones(3)
    jac = p.jac(x)
    assert len(calls) == 1
    assert p.fun(x) == 3.0
    assert len(calls) == 1
    assert p.fun(x) == 3.0
    assert len(calls) == 2
    jac[:] = 0.0
    assert p.jac(x).tolist() == [2.0, 2.0, 2.0]


def test_fun_learns_to_compute_both():
    f, calls = counted()
    p = ndual.scipy.problem(f)
    for k in range(8):
        x = np.full(3, 1.0 + k)
        assert p.fun(x) == 3.0 * (1 + k) ** 2
        assert p.jac(x).tolist() == [2.0 + 2 * k] * 3
    assert len(calls) == 2 * 2 + 6
    before = len(calls)
    for k in range(5):
        p.fun(np.full(3, 20.0 + k))
    assert len(calls) == before + 5
    assert calls[-1].__class__ is np.ndarray
    assert type(calls[-1]) is np.ndarray


def test_a_vector_that_is_overwritten():
    p = ndual.scipy.problem(lambda x: np.sum(x * x))
    x = np.ones(2)
    for k in range(6):
        x[:] = k
        assert p.fun(x) == 2.0 * k * k
        assert p.jac(x).tolist() == [2.0 * k] * 2


def test_f_may_write_into_its_argument():
    def f(x):
        x *= x
        return np.sum(x)

    p = ndual.scipy.problem(f)
    x = np.array([1.0, 2.0])
    assert (p.fun(x), p.jac(x).tolist(), x.tolist()) == (5.0, [2.0, 4.0], [1.0, 2.0])


def test_other_arguments_are_part_of_the_key():
    p = ndual.scipy.problem(lambda x, s, data: s * np.sum(x * data))
    x, data = np.ones(2), np.ones(2)
    for k in range(4):
        data[:] = k
        for s in (1.0, 2.0):
            assert p.jac(x, s, data).tolist() == [s * k, s * k]
            assert p.fun(x, s, data) == 2 * s * k


def test_threads_do_not_share():
    p = ndual.scipy.problem(lambda x: np.sum(x**3))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.standard_normal(5)
            if not np.allclose(p.fun(x), np.sum(x**3)) or not np.allclose(p.jac(x), 3 * x * x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_changing_sizes():
    p = ndual.scipy.problem(lambda x: np.sum(x * x))
    for n in (1, 3, 0, 2):
        assert p.jac(np.ones(n)).tolist() == [2.0] * n


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndual.scipy.problem(3.0), TypeError, "expects a function"),
        (lambda: ndual.scipy.problem(np.sum).jac(np.ones(2) * 1j), TypeError, "real numbers"),
        (
            lambda: ndual.scipy.problem(lambda x: x * 1j).jac(np.ones(2)),
            TypeError,
            "return real numbers; got complex128",
        ),
        (lambda: ndual.scipy.problem(lambda x: "a").fun(np.ones(2)), TypeError, "return real numbers"),
        (lambda: ndual.scipy.problem(np.sum, chunk_size=0), ValueError, "chunk_size"),
        (lambda: ndual.scipy.problem(np.sum, mode="reverse"), ndual.NdualError, "not available yet"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ndual.NdualError)
