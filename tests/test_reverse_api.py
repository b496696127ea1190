"""Reverse mode as users meet it: pullbacks, gradients and Jacobians against analytic values."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ndual

X = np.array([0.4, -1.3, 2.2])
A = np.array([[1.0, 2.0, -1.0], [0.5, -3.0, 4.0]])
Z = np.array([1.0 + 2.0j, 0.5 - 1.0j])


def chain(x):
    return np.sum(np.sin(x) * x[::-1])


CHAIN = np.cos(X) * X[::-1] + np.sin(X)[::-1]


# ---- vjp ---------------------------------------------------------------------------------------------------------


def test_vjp_of_a_product():
    value, pullback = ndual.vjp(lambda A, x: A @ x, A, X)
    assert_array_equal(value, A @ X)
    w = np.array([2.0, -1.0])
    to_a, to_x = pullback(w)
    assert_allclose(to_a, np.outer(w, X), rtol=1e-15)
    assert_allclose(to_x, A.T @ w, rtol=1e-15)


def test_a_pullback_may_be_called_again_and_owns_what_it_needs():
    a, x = A.copy(), X.copy()
    large = np.linspace(1.0, 2.0, 10_000)
    idx = np.array([0, 2])

    def f(a, x):
        seen = np.asarray(large)
        return np.exp(a) @ x + np.sum(large * np.sum(x) * seen) + np.take(x, idx)

    want = ndual.vjp(f, A.copy(), X.copy())[1](np.array([1.0, 3.0]))
    value, pullback = ndual.vjp(f, a, x)
    kept = value.copy()
    a[:], x[:], idx[:], value[:] = 0, 0, 1, 0
    assert large.flags.writeable
    large[:] = 0
    first = pullback(np.array([1.0, 3.0]))
    for g in first:
        g[:] = 7
    for _ in range(2):
        for g, exact in zip(pullback(np.array([1.0, 3.0])), want, strict=True):
            assert_array_equal(g, exact)
    assert_allclose(kept, np.exp(A) @ X + np.sum(np.linspace(1, 2, 10_000) ** 2) * np.sum(X) + X[[0, 2]])
    assert_allclose(want[0], np.array([[1.0], [3.0]]) * np.exp(A) * X, rtol=1e-14)


def test_vjp_of_a_number_needs_no_cotangent():
    value, pullback = ndual.vjp(lambda x, y: x**2 * y, 3.0, 5)
    assert value == 45.0
    assert pullback() == (30.0, 9.0)
    assert pullback(2.0) == (60.0, 18.0)
    assert_allclose(ndual.vjp(chain, X)[1]()[0], CHAIN, rtol=1e-14)


def test_vjp_of_structures():
    def f(p, n, s):
        return {"a": p["x"] * n, "b": (p["y"], s, np.sum(p["x"]) * p["y"])}

    value, pullback = ndual.vjp(f, {"x": X, "y": 2.0, "z": "text"}, np.array([1, 2, 3]), "label")
    assert value["b"][1] == "label"
    w = {"a": np.array([1.0, 0.0, -1.0]), "b": (0.5, None, 2.0)}
    first, second, third = pullback(w)
    assert second is None
    assert third is None
    assert first["z"] is None
    assert_allclose(first["x"], np.array([1.0, 0.0, -3.0]) + 2.0 * 2.0)
    assert_allclose(first["y"], 0.5 + 2.0 * X.sum())
    assert_allclose(pullback({"a": None, "b": (1.0, None, None)})[0]["y"], 1.0)


def test_vjp_of_one_array_twice():
    first, second = ndual.vjp(lambda a, b: a[0] + 2 * b[0], X, X)[1]()
    assert_array_equal(first, [1, 0, 0])
    assert_array_equal(second, [2, 0, 0])
    (pair,) = ndual.vjp(lambda p: p[0][0] + 2 * p[1][0], (X, X))[1]()
    assert pair[0] is pair[1]
    assert_array_equal(pair[0], [3, 0, 0])


def test_vjp_has_aux():
    _value, pullback, aux = ndual.vjp(lambda x: (np.sum(x), {"twice": 2 * x, "n": 3}), X, has_aux=True)
    assert_array_equal(aux["twice"], 2 * X)
    assert type(aux["twice"]) is np.ndarray
    assert aux["n"] == 3
    assert_array_equal(pullback()[0], np.ones(3))


def test_dtypes_and_layouts_come_back():
    f32 = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    value, pullback = ndual.vjp(lambda x, c: np.sum(x.T * c), f32.T, np.float32(2.0))
    to_x, to_c = pullback()
    assert value.dtype == to_x.dtype == np.float32
    assert_array_equal(to_x, np.full((2, 2), 2, np.float32))
    assert float(to_c) == 10.0
    half = ndual.vjp(lambda x: np.sum(x * x), np.array([1.0, 3.0], np.float16))[1]()[0]
    assert half.dtype == np.float16
    assert_array_equal(half, [2.0, 6.0])


def test_complex_cotangents():
    # Re <w, push(v)> = Re <pullback(w), v>, and for a holomorphic function the pullback multiplies by conj(f').
    w = np.array([1.0 - 0.5j, 2.0j])
    assert_allclose(ndual.vjp(lambda z: z**3, Z)[1](w)[0], np.conj(3 * Z**2) * w, rtol=1e-14)
    assert_allclose(ndual.vjp(lambda z: np.sum(np.abs(z) ** 2), Z)[1]()[0], 2 * Z, rtol=1e-14)
    assert_allclose(ndual.vjp(lambda x: np.exp(1j * x), X)[1](1j * np.exp(1j * X))[0], np.ones(3), rtol=1e-14)


def test_a_pullback_frees_its_tape():
    gc.collect()
    before = ndual._core.pool_info()["live"]
    _value, pullback = ndual.vjp(lambda x: np.sum(np.exp(np.sin(x))), np.linspace(0, 1, 100_000))
    tape = weakref.ref(pullback._trace.tape)
    assert ndual._core.pool_info()["live"] >= before + 2 * 800_000
    del pullback
    assert tape() is None
    assert ndual._core.pool_info()["live"] <= before + 10_000


def test_vjp_inside_of_derivatives():
    def f(x):
        _value, pullback = ndual.vjp(lambda y: np.sum(y**3) * x[0], x)
        return np.sum(pullback()[0])

    # 3 x0 sum(x²): the inner derivative takes x[0] as a constant.
    want = 6 * X[0] * X + np.array([3 * np.sum(X**2), 0, 0])
    assert_allclose(ndual.grad(f, mode="forward")(X), want, rtol=1e-13)
    assert_allclose(ndual.grad(f, mode="reverse")(X), want, rtol=1e-13)
    assert_allclose(ndual.jvp(f, (X,), (np.ones(3),))[1], want.sum(), rtol=1e-13)


# ---- gradients and Jacobians -------------------------------------------------------------------------------------


def filled(x):
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] ** 2 * y[i - 1] if x[i] < 0 else np.sin(x[i])
    y[1:] += y[:-1]
    return np.sum(y**2)


def two(a, b):
    return np.outer(a, b).ravel()[::2], a[0] * b


MODES = pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])


@MODES
def test_gradients(mode):
    value, g = ndual.value_and_grad(chain, mode=mode)(X)
    assert value == chain(X)
    assert_allclose(g, CHAIN, rtol=1e-14)
    assert_allclose(ndual.grad(chain, mode=mode)(X), CHAIN, rtol=1e-14)
    x = np.array([0.5, -0.3, 2.0])
    s = np.sin(x[0])
    y = np.array([s, s + 0.09 * s, 0.09 * s + np.sin(2.0)])
    c = np.cos(x[0])
    want = [
        2 * (y[0] + 1.09 * y[1] + 0.09 * y[2]) * c,
        2 * (y[1] + y[2]) * 2 * x[1] * s,
        2 * y[2] * np.cos(2.0),
    ]
    assert_allclose(ndual.grad(filled, mode=mode)(x), want, rtol=1e-13)


@MODES
def test_several_arguments_and_aux(mode):
    def f(a, n, b):
        return np.sum(a * b) * n, a

    (value, aux), (to_b, to_a) = ndual.value_and_grad(f, argnums=(2, 0), has_aux=True, mode=mode)(X, 2, 3.0)
    assert_allclose(value, 6 * X.sum())
    assert_array_equal(aux, X)
    assert_allclose(to_b, 2 * X.sum())
    assert_array_equal(to_a, np.full(3, 6.0))
    assert ndual.grad(lambda x, *, k: np.sum(x) * k, mode=mode)(X, k=3).tolist() == [3, 3, 3]


@MODES
def test_jacobians(mode):
    jac = ndual.jacobian(lambda x: A @ np.sin(x), mode=mode)(X)
    assert_allclose(jac, A * np.cos(X), rtol=1e-14)
    a, b = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    (ra, rb), (sa, sb) = ndual.jacobian(two, argnums=(0, 1), mode=mode)(a, b)
    assert_array_equal(ra, [[3, 0], [0, 3]])
    assert_array_equal(rb, [[1, 0], [2, 0]])
    assert_array_equal(sa, [[3, 0], [-1, 0]])
    assert_array_equal(sb, [[1, 0], [0, 1]])
    cube = ndual.jacobian(lambda x: x[:, None] * x, mode=mode)(X)
    assert_array_equal(cube, np.eye(3)[:, None] * X[None, :, None] + X[:, None, None] * np.eye(3))
    first, second = ndual.jacobian(lambda x: (np.sum(x), x[0] * x[1]), mode=mode)(X)
    assert_array_equal(first, np.ones(3))
    assert_array_equal(second, [X[1], X[0], 0])


@MODES
def test_jacobian_of_nothing_and_of_constants(mode):
    assert ndual.jacobian(lambda x: x[:0], mode=mode)(X).shape == (0, 3)
    jac = ndual.jacobian(lambda x: (x, np.ones(2)), mode=mode)(X)
    assert_array_equal(jac[0], np.eye(3))
    assert_array_equal(jac[1], np.zeros((2, 3)))
    value, g = ndual.value_and_grad(lambda x: 3.0, mode=mode)(X)
    assert value == 3.0
    assert_array_equal(g, np.zeros(3))


@MODES
def test_jacobian_of_structures(mode):
    f = lambda p: {"y": p["a"] * p["b"][0], "n": 3}  # noqa: E731
    jac = ndual.jacobian(f, mode=mode)({"a": X, "b": (2.0, "t")})
    assert jac["n"] is None
    assert_array_equal(jac["y"]["a"], 2 * np.eye(3))
    assert_array_equal(jac["y"]["b"][0], X)
    assert jac["y"]["b"][1] is None


@MODES
def test_complex_conventions(mode):
    assert_allclose(ndual.grad(lambda z: np.sum(np.abs(z) ** 2), mode=mode)(Z), 2 * Z, rtol=1e-14)
    assert_allclose(ndual.grad(lambda z: np.sum(z**3), holomorphic=True, mode=mode)(Z), 3 * Z**2, rtol=1e-14)
    jac = ndual.jacobian(lambda z: z**2 + z[0], holomorphic=True, mode=mode)(Z)
    assert_allclose(jac, np.diag(2 * Z) + np.array([[1, 0], [1, 0]]), rtol=1e-14)
    jac = ndual.jacobian(lambda x: np.exp(1j * x), mode=mode)(X)
    assert_allclose(jac, np.diag(1j * np.exp(1j * X)), rtol=1e-14)


@MODES
def test_derivative(mode):
    assert_allclose(ndual.derivative(lambda t: np.sin(t) * t, mode=mode)(0.7), np.cos(0.7) * 0.7 + np.sin(0.7))
    assert_allclose(ndual.derivative(lambda t: t * X, mode=mode)(2.0), X)


def test_jacrev_runs_the_function_once():
    runs = []

    def f(x):
        runs.append(1)
        return np.outer(x, x)

    jac = ndual.jacrev(f)(X)
    assert len(runs) == 1
    assert_array_equal(jac, ndual.jacfwd(f)(X))
    assert ndual.jacrev(np.sin).__name__ == "sin"


def test_dtype_of_a_jacobian_is_that_of_the_output():
    x = np.array([1.0, 2.0], np.float32)
    for mode in ("forward", "reverse"):
        assert ndual.jacobian(lambda x: x * np.ones(2), mode=mode)(x).dtype == np.float64
        assert ndual.jacobian(lambda x: x * x, mode=mode)(x).dtype == np.float32


# ---- prepared ----------------------------------------------------------------------------------------------------


def test_prepared_gradient():
    prepared = ndual.prepare_gradient(chain, X, mode="reverse")
    rng = np.random.default_rng(3)
    kept = []
    for _ in range(3):
        x = rng.standard_normal(3)
        value, g = prepared(x)
        assert value == chain(x)
        kept.append((g, np.cos(x) * x[::-1] + np.sin(x)[::-1]))
    for g, exact in kept:
        assert_allclose(g, exact, rtol=1e-14)
    text = repr(prepared)
    assert "prepared gradient of chain: mode reverse, passes 1, tape" in text
    assert int(text.split("tape ")[1].split()[0]) > 0
    assert_allclose(prepared.clone()(X)[1], CHAIN, rtol=1e-14)
    with pytest.raises(ndual.CacheMismatchError):
        prepared(np.ones(4))


def test_prepared_buffers():
    prepared = ndual.prepare_gradient(chain, X, mode="reverse", copy=False)
    first = prepared(X)[1]
    second = prepared(2 * X)[1]
    assert np.shares_memory(first, second)
    assert_allclose(first, np.cos(2 * X) * 2 * X[::-1] + np.sin(2 * X)[::-1], rtol=1e-14)
    jacobian = ndual.prepare_jacobian(lambda x: x**2, X, mode="reverse", copy=False)
    first, second = jacobian(X)[1], jacobian(2 * X)[1]
    assert np.shares_memory(first, second)
    assert_allclose(first, np.diag(4 * X))


def test_prepared_jacobian_and_structures():
    prepared = ndual.prepare_jacobian(two, X[:2], X[:2], argnums=(0, 1), mode="reverse")
    (value, _), ((to_a, to_b), _) = prepared(np.array([1.0, 2.0]), np.array([3.0, -1.0]))
    assert_array_equal(value, [3.0, 6.0])
    assert_array_equal(to_a, [[3, 0], [0, 3]])
    assert_array_equal(to_b, [[1, 0], [2, 0]])
    nested = ndual.prepare_gradient(lambda p: np.sum(p["a"]) * p["b"], {"a": X, "b": 1.0}, mode="reverse")
    value, g = nested({"a": 2 * X, "b": 3.0})
    assert_array_equal(g["a"], np.full(3, 3.0))
    assert_allclose(g["b"], 2 * X.sum())


def test_a_prepared_object_keeps_its_tape_and_others_only_a_small_one():
    def loop(x):
        s = 0.0
        for _ in range(20_000):
            s = s * 0.5 + x
        return s

    prepared = ndual.prepare_gradient(loop, 1.0, mode="reverse")
    assert prepared(1.0)[1] == pytest.approx(2.0)
    tape = prepared._plan.run.tape
    size = tape.nbytes
    assert size > 500_000
    assert prepared(2.0)[1] == pytest.approx(2.0)
    assert prepared._plan.run.tape is tape
    assert tape.nbytes == size
    ndual.grad(loop, mode="reverse")(1.0)
    ndual.grad(loop, mode="reverse")(1.0)
    from ndual.frontend.intercept import cached

    (known,) = [plan for plan in cached(loop).plans.values() if plan.reverse]
    assert known.run.tape is None or known.run.tape.nbytes <= 256 * 1024


# ---- auto --------------------------------------------------------------------------------------------------------


def mode_of(prepared):
    return repr(prepared).split("mode ")[1].split(",")[0]


def test_gradients_of_many_numbers_go_back():
    for n, mode in ((1, "forward"), (16, "forward"), (17, "reverse"), (100, "reverse")):
        x = np.linspace(0.1, 1.0, n)
        prepared = ndual.prepare_gradient(lambda x: np.sum(np.sin(x)), x)
        assert mode_of(prepared) == mode
        assert_allclose(prepared(x)[1], np.cos(x), rtol=1e-14)
    assert mode_of(ndual.prepare_gradient(np.sum, np.ones(100), chunk_size=8)) == "forward"
    assert mode_of(ndual.prepare_gradient(np.sum, {"a": np.ones((3, 4)), "b": np.ones(5)})) == "reverse"


@pytest.mark.parametrize(("n", "m", "mode"), [(100, 1, "forward"), (300, 1, "reverse"), (300, 200, "forward")])
def test_jacobians_go_back_where_outputs_are_few(n, m, mode):
    runs = []

    def f(x):
        runs.append(1)
        return np.sin(x[:m]) * x[-1]

    x = np.linspace(0.1, 1.0, n)
    prepared = ndual.prepare_jacobian(f, x)
    want = np.zeros((m, n))
    want[np.arange(m), np.arange(m)] = np.cos(x[:m]) * x[-1]
    want[:, -1] += np.sin(x[:m])
    for _ in range(2):
        assert_allclose(prepared(x)[1], want, rtol=1e-14)
        assert mode_of(prepared) == mode
    passes = prepared._plan.run.passes
    assert len(runs) == 2 * passes + (1 if m == 200 else 0)


def test_auto_goes_forward_where_reverse_cannot():
    from ndual.rules.registry import Structured

    def broken(*args, **kwargs):
        raise ndual.NoRuleError("none here")

    from ndual.reverse.apply import RULES

    kept = RULES[Structured]
    RULES[Structured] = broken
    try:
        f = lambda x: np.sum(np.sort(x) ** 2)  # noqa: E731
        x = np.linspace(0.1, 1.0, 300)
        assert_allclose(ndual.grad(f)(x), 2 * x)
        assert_allclose(ndual.jacobian(f)(x), 2 * x)
        with pytest.raises(ndual.NoRuleError):
            ndual.grad(f, mode="reverse")(x)
    finally:
        RULES[Structured] = kept


def test_auto_inside_of_derivatives():
    x = np.linspace(0.1, 1.0, 40)
    outer = lambda x: np.sum(ndual.grad(lambda y: np.sum(y**3))(x) * x)  # noqa: E731
    assert_allclose(ndual.grad(outer)(x), 9 * x**2, rtol=1e-13)
    assert_allclose(ndual.grad(outer, chunk_size=7)(x), 9 * x**2, rtol=1e-13)
    assert_allclose(ndual.jacobian(ndual.grad(lambda y: np.sum(y**3)))(x), np.diag(6 * x), rtol=1e-13)
