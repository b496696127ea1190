"""Derivatives by other engines inside of ndual's, and ndual's inside of theirs; values are analytic."""

import contextlib
import importlib.util
from dataclasses import dataclass

import numpy as np
import pytest

import ndual
from ndual.testing import check_rule

MODES = ("forward", "reverse")
X = np.array([0.3, 0.7, -1.1])
both_modes = pytest.mark.parametrize("mode", MODES)


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def engine(name, installed=True):
    return pytest.param(name, marks=needs(name) if installed else ())


ENGINES = [
    engine("jax"), engine("torch"), engine("autograd"), engine("complex_step", False),
    engine("finite_differences", False),
]  # fmt: skip
RECORDING = ENGINES[:3]


class Counted:
    """exp(x) * x in the terms of an engine, and how often it was called; `plain` without complex numbers."""

    def __init__(self, name):
        self.name = name
        self.calls = self.plain = 0

    @property
    def xp(self):
        return importlib.import_module(
            {"jax": "jax.numpy", "torch": "torch", "autograd": "autograd.numpy"}.get(self.name, "numpy")
        )

    def __call__(self, x):
        self.calls += 1
        self.plain += not np.iscomplexobj(x) if self.name == "complex_step" else 1
        return self.xp.exp(x) * x


def inner(x):
    return np.exp(x) * x


@both_modes
@pytest.mark.parametrize("name", ENGINES)
def test_inside_a_larger_function(name, mode):
    f = Counted(name)
    g = ndual.differentiate_with(f, name)
    want = np.cos(inner(X)) * np.exp(X) * (1 + X) * X + np.sin(inner(X))

    def loss(x):
        return np.sum(np.sin(g(x)) * x)

    value, gradient = ndual.value_and_grad(loss, mode=mode)(X)
    assert np.allclose(value, np.sum(np.sin(inner(X)) * X), rtol=1e-14)
    assert np.allclose(gradient, want, rtol=1e-13 if name != "finite_differences" else 1e-10)
    assert f.plain == 1 or name == "finite_differences"
    assert f.calls == 1 or name in ("complex_step", "finite_differences")
    assert np.allclose(g(X), inner(X), rtol=1e-14) and type(g(X)) is np.ndarray
    assert np.allclose(ndual.jacobian(g, mode=mode)(X), np.diag(np.exp(X) * (1 + X)), rtol=1e-10)


@pytest.mark.parametrize("name", ENGINES)
def test_a_pullback_is_used_again_without_a_run(name):
    f = Counted(name)
    _, pullback = ndual.vjp(ndual.differentiate_with(f, name), X)
    first = pullback(np.ones(3))
    calls = f.calls
    assert np.allclose(pullback(2 * np.ones(3))[0], 2 * first[0], rtol=1e-12)
    assert f.calls == calls
    _, push = ndual.linearize(ndual.differentiate_with(f, name), X)
    assert np.allclose(push(X), np.exp(X) * (1 + X) * X, rtol=1e-10)


@both_modes
@pytest.mark.parametrize("name", ENGINES)
def test_what_is_overwritten_afterwards_is_kept(name, mode):
    g = ndual.differentiate_with(lambda x, c: x * x * c, name)

    def loss(x, c):
        y = x * 1.0
        out = g(y, c)
        y[:] = 7.0
        c[:] = 9.0
        out[0] = 0.0
        return np.sum(out)

    c = np.array([2.0, 3.0, 4.0])
    assert np.allclose(ndual.grad(loss, mode=mode)(X, c), 2 * X * c * [0, 1, 1], rtol=1e-9)
    assert c.tolist() == [2.0, 3.0, 4.0]


@dataclass
class Setting:
    a: float
    w: np.ndarray
    n: int = 2


@both_modes
@pytest.mark.parametrize("name", ENGINES)
def test_trees_of_arguments_and_results(name, mode):
    def f(s, pair, scale=1.0):
        return {"y": s.a * s.w * scale, "z": (pair[0] ** s.n, pair[1]["v"] * s.w[0]), "k": 5}

    g = ndual.differentiate_with(f, name)

    def loss(s, pair):
        out = g(s, pair, scale=3.0)
        assert out["k"] == 5
        return np.sum(out["y"]) + out["z"][0] * out["z"][1]

    got = ndual.grad(loss, (0, 1), mode=mode)(Setting(2.0, np.array([0.5, 0.25])), (1.5, {"v": 4.0}))
    # y = 3 a w; z = pair0², v w0
    close = {"rtol": 1e-9, "atol": 1e-9}
    assert np.allclose(got[0].a, 3 * 0.75, **close)
    assert np.allclose(got[0].w, [6.0 + 2.25 * 4.0, 6.0], **close)
    assert np.allclose(got[1][0], 2 * 1.5 * 4.0 * 0.5, **close) and np.allclose(got[1][1]["v"], 2.25 * 0.5, **close)


@both_modes
@pytest.mark.parametrize("name", ENGINES)
def test_dtypes(name, mode):
    g = ndual.differentiate_with(lambda x: x * x, name)
    x = np.array([1.5, 2.0], np.float32)
    got = ndual.grad(lambda x: np.sum(g(x)), mode=mode)(x)
    assert got.dtype == np.float32 and np.allclose(got, 2 * x, rtol=1e-5)
    assert ndual.grad(g, mode=mode)(1.5) == pytest.approx(3.0, rel=1e-10)


@both_modes
@pytest.mark.parametrize("name", [*RECORDING, engine("finite_differences", False)])
def test_complex_numbers(name, mode):
    z = np.array([1 + 2j, 0.5 - 1j])
    g = ndual.differentiate_with(lambda z: z * z, name)
    close = {"rtol": 1e-9, "atol": 1e-9}
    assert np.allclose(ndual.grad(lambda z: np.sum(g(z)), holomorphic=True, mode=mode)(z), 2 * z, **close)
    got = ndual.grad(lambda z: np.sum(g(z).real), mode=mode)(z)
    assert np.allclose(got, np.conj(2 * z), **close)


@pytest.mark.parametrize("name", RECORDING)
def test_second_derivatives(name):
    g = ndual.differentiate_with(Counted(name), name)

    def f(x):
        return np.sum(g(x)) ** 2

    y, d, dd = np.sum(inner(X)), np.exp(X) * (1 + X), np.exp(X) * (2 + X)
    want = 2 * np.outer(d, d) + np.diag(2 * y * dd)
    for outer in MODES:
        for within in MODES:
            got = ndual.jacobian(ndual.grad(f, mode=within), mode=outer)(X)
            assert np.allclose(got, want, rtol=1e-12), (outer, within)
    assert np.allclose(ndual.hessian(f)(X), want, rtol=1e-12)


@pytest.mark.parametrize("name", ["complex_step", "finite_differences"])
def test_second_derivatives_are_refused(name):
    g = ndual.differentiate_with(inner, name)
    with pytest.raises(ndual.NoRuleError, match=f'second derivative of inner; got "{name}"'):
        ndual.hessian(lambda x: np.sum(g(x)))(X)


@both_modes
def test_complex_steps_that_lose_the_imaginary_part_raise(mode):
    for f in (
        lambda x: np.abs(x) * x,
        lambda x: np.real(x) * 1.0,
        lambda x: np.maximum(x, 0.0) if x[0] > 1 else x.real,
    ):
        g = ndual.differentiate_with(f, "complex_step")
        with pytest.raises(
            ndual.DerivativeLostError, match="to compute with complex numbers what it computes with real"
        ):
            ndual.grad(lambda x: np.sum(g(x)), mode=mode)(-X)  # noqa: B023
    g = ndual.differentiate_with(lambda z: z * z, "complex_step")
    with pytest.raises(ndual.ArgumentTypeError, match="expected real arguments and outputs"):
        ndual.grad(lambda z: np.sum(g(z).real), mode=mode)(X + 1j)


@pytest.mark.parametrize("name", ENGINES)
def test_check_rule(name):
    check_rule(ndual.differentiate_with(lambda x, a: x * x * a, name), X, X[::-1], dtypes="df", widths=(1, 3))


# ---- deep in a call stack ------------------------------------------------------------------------------------------

CALLS = []


def third(x):
    CALLS.append(type(x))
    return np.exp(x) * x


def second(x):
    return third(x) + 0.0


def first(x):
    return np.sum(np.sin(second(x)))


@both_modes
@pytest.mark.parametrize("name", ["complex_step", "finite_differences", engine("autograd")])
def test_using_reaches_a_function_three_calls_deep(name, mode):
    want = np.cos(inner(X)) * np.exp(X) * (1 + X)
    CALLS.clear()
    assert np.allclose(ndual.grad(first, mode=mode)(X), want, rtol=1e-14)
    own = list(CALLS)
    scope = pytest.MonkeyPatch()
    with contextlib.ExitStack() as stack:
        stack.callback(scope.undo)
        if name == "autograd":
            scope.setitem(globals(), "np", importlib.import_module("autograd.numpy"))
            want = np.array(want)
        CALLS.clear()
        with ndual.using({third: name}):
            if name == "autograd":
                got = ndual.grad(lambda x: np_sum_sin(second(x)), mode=mode)(X)
            else:
                got = ndual.grad(first, mode=mode)(X)
                # Plain memory arrived, once as it is.
                assert all(kind is not own[0] for kind in CALLS)
    assert np.allclose(got, want, rtol=1e-9)
    CALLS.clear()
    assert np.allclose(ndual.grad(first, mode=mode)(X), want, rtol=1e-14)  # and it ends with the statement
    assert own == CALLS


def target(x):
    CALLS.append(type(x))
    return np.exp(x) * x


def holders():
    held = target
    return {
        "a closure": lambda x: np.sum(held(x)), "a default": lambda x, h=target: np.sum(h(x)),
        "a global": lambda x: np.sum(target(x)), "all": lambda x, h=target: np.sum(held(x) + h(x) + target(x)),
    }  # fmt: skip


@both_modes
def test_using_reaches_every_name_also_of_functions_that_ran_before(mode):
    functions = holders()
    own = [ndual.grad(f, mode=mode)(X) for f in functions.values()]
    for (name, f), want in zip(functions.items(), own, strict=True):
        with ndual.using({target: "complex_step"}):
            CALLS.clear()
            assert np.allclose(ndual.grad(f, mode=mode)(X), want, rtol=1e-13), name
            assert set(CALLS) == {np.ndarray}, name


REAL_NUMPY = np


def np_sum_sin(y):
    return REAL_NUMPY.sum(REAL_NUMPY.sin(y))


class Compiled:
    """As numba's dispatchers: takes plain memory, has the Python function behind it."""

    def __init__(self, py_func):
        self.py_func = py_func

    def __call__(self, x):
        return self.py_func(np.frombuffer(np.asarray(x).tobytes(), np.asarray(x).dtype).reshape(np.shape(x)))


COMPILED = Compiled(inner)


def around(x):
    return np.sum(np.sin(COMPILED(x)))


@both_modes
def test_compiled_functions(mode):
    want = np.cos(inner(X)) * np.exp(X) * (1 + X)
    with pytest.raises(ndual.ArgumentTypeError, match=r'differentiate_with\(inner, "finite_differences"\)'):
        ndual.grad(COMPILED, mode=mode)
    for name in ("complex_step", "finite_differences"):
        g = ndual.differentiate_with(COMPILED, name)
        assert np.allclose(ndual.grad(lambda x: np.sum(np.sin(g(x))), mode=mode)(X), want, rtol=1e-9)  # noqa: B023
        with ndual.using({COMPILED: name}):
            assert np.allclose(ndual.grad(around, mode=mode)(X), want, rtol=1e-9)


@needs("numba")
@both_modes
def test_numba(mode):
    import numba

    @numba.njit
    def f(x):
        return np.exp(x) * x

    for name in ("complex_step", "finite_differences"):
        g = ndual.differentiate_with(f, name)
        got = ndual.grad(lambda x: np.sum(np.sin(g(x))), mode=mode)(X)  # noqa: B023
        assert np.allclose(got, np.cos(inner(X)) * np.exp(X) * (1 + X), rtol=1e-9)


def test_unknown_engines_and_those_that_are_not_installed(monkeypatch):
    with pytest.raises(ndual.ArgumentValueError, match=r"expects one of 'jax', 'torch'.*as backend; got 'jaks'"):
        ndual.differentiate_with(inner, "jaks")
    with pytest.raises(ndual.ArgumentTypeError, match="expects a function; got float"):
        ndual.differentiate_with(3.0, "jax")
    with (
        pytest.raises(ndual.ArgumentTypeError, match="expects a mapping of functions to backends; got function"),
        ndual.using(inner),
    ):
        pass
    for name in ("jax", "torch", "autograd"):
        monkeypatch.setitem(importlib.import_module("sys").modules, name, None)
        for module in ("jax.numpy", "autograd.core"):
            monkeypatch.setitem(importlib.import_module("sys").modules, module, None)
        with pytest.raises(ImportError, match=rf'pip install "ndual\[{name}\]"'):
            ndual.differentiate_with(inner, name)


# ---- the other way -------------------------------------------------------------------------------------------------


def mutating(x, p):
    y = np.zeros(3)
    y[:] = x
    y[1:] *= y[:-1]
    return np.sum(np.sin(y)) * p["s"]


def mutating_gradient(x, s):
    c = np.cos([x[0], x[0] * x[1], x[1] * x[2]])
    return s * np.array([c[0] + c[1] * x[1], c[1] * x[0] + c[2] * x[2], c[2] * x[1]])


@needs("jax")
def test_inside_jax():
    import jax
    import jax.numpy as jnp

    import ndual.interop

    f = ndual.interop.jax_function(mutating)
    h = ndual.interop.jax_function(lambda x, n: np.stack([x[0] * x[1], np.sum(x)]) * n)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda x, p: f(x, p) ** 2, argnums=(0, 1)))
        value = mutating(X, {"s": 2.0})
        to_x, to_p = gradient(jnp.asarray(X), {"s": jnp.asarray(2.0)})
        assert np.allclose(to_x, 2 * value * mutating_gradient(X, 2.0), rtol=1e-13)
        assert np.allclose(to_p["s"], 2 * value * value / 2.0, rtol=1e-13)
        got = jax.jacrev(lambda x: h(x, 3))(jnp.asarray(X))
        assert np.allclose(got, [[3 * X[1], 3 * X[0], 0.0], [3.0, 3.0, 3.0]])
        assert np.allclose(jax.vmap(lambda x: f(x, {"s": 1.0}))(jnp.stack([X, 2 * X])), [
            mutating(X, {"s": 1.0}), mutating(2 * X, {"s": 1.0})
        ])  # fmt: skip
        shaped = ndual.interop.jax_function(np.log, result=jax.ShapeDtypeStruct((3,), np.float64))
        assert np.allclose(jax.grad(lambda x: jnp.sum(shaped(x)))(jnp.abs(X)), 1 / np.abs(X))
    z = np.array([1 + 2j])
    square = ndual.interop.jax_function(lambda z: np.sum((z * z).real))
    assert np.allclose(jax.grad(square)(z.astype(np.complex64)), jax.grad(lambda z: jnp.sum((z * z).real))(z), 1e-5)


@needs("torch")
def test_inside_torch():
    import torch

    import ndual.interop

    calls = []

    def counted(x, s):
        calls.append(1)
        return mutating(x, {"s": s}), x * s

    f = ndual.interop.torch_function(counted)
    x = torch.tensor(X, requires_grad=True)
    a, b = f(x, 2.0)
    (a**2 + torch.sum(b * b)).backward()
    want = 2 * mutating(X, {"s": 2.0}) * mutating_gradient(X, 2.0) + 8 * X
    assert np.allclose(x.grad.numpy(), want, rtol=1e-13) and len(calls) == 1
    y = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    f(y, 2.0)[1].sum().backward()
    assert y.grad.dtype == torch.float32 and y.grad.tolist() == [2.0] * 3
    assert not f(torch.tensor(X), 1.0)[0].requires_grad
    assert torch.autograd.gradcheck(lambda x: f(x, 1.5)[0], (x,))


@pytest.mark.parametrize("name", ["jax_function", "torch_function"])
def test_interop_names_what_to_install(name, monkeypatch):
    import ndual.interop

    library = name.partition("_")[0]
    monkeypatch.setitem(importlib.import_module("sys").modules, library, None)
    with pytest.raises(ImportError, match=rf"ndual\[{library}\]"):
        getattr(ndual.interop, name)(inner)


@pytest.mark.parametrize("name", RECORDING)
def test_keywords_come_in_the_terms_of_the_engine(name):
    engine = Counted(name)
    kinds = set()

    def f(x, *, k):
        kinds.add(type(x) is np.ndarray or type(k) is np.ndarray)
        return x * k

    g = ndual.differentiate_with(f, engine.name)
    np.testing.assert_allclose(g(X, k=X), X * X)
    np.testing.assert_allclose(ndual.grad(lambda x: np.sum(g(x, k=X)))(X), X)
    assert kinds == {False} or name == "autograd"
