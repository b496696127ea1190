"""Interception: which functions need it, that it reaches them, and that nothing of it is left behind."""

import contextvars
import copy
import functools
import importlib.util
import os
import pickle
import signal
import sys
import threading
import types

import numpy as np
import pytest
import scipy
import scipy.linalg
from scipy.linalg import solve as linear_solve
from scipy.linalg import solve_triangular

import ndual
from ndual._core._dual import swaps
from ndual.frontend import intercept
from ndual.frontend._gate import Gate

A = np.array([[2.0, 1.0], [1.0, 3.0]])
B = np.array([1.0, 1.0])
WANT = -np.outer(np.linalg.solve(A.T, np.ones(2)), np.linalg.solve(A, B))
# In a container, where no gate is put for it.
HELD = (scipy.linalg.solve,)
LIMIT = 3.0
real_namespace = {"scipy": scipy, "np": np}


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    assert swaps() == 0
    assert scipy.linalg.solve is HELD[0]
    assert linear_solve is HELD[0]
    assert not [k for k, v in globals().items() if type(v) is Gate]


def by_attribute(a):
    return np.sum(scipy.linalg.solve(a, B))


def by_name(a):
    return np.sum(linear_solve(a, B))


def by_helper(a):
    return by_name(a)


def by_import(a):
    from scipy.linalg import solve

    return np.sum(solve(a, B))


class Model:
    def loss(self, a):
        return by_name(a)

    __call__ = loss


exec("def in_a_namespace(a):\n    return np.sum(scipy.linalg.solve(a, np.array([1.0, 1.0])))", real_namespace)


@pytest.mark.parametrize(
    "f",
    [
        by_attribute,
        by_name,
        by_helper,
        by_import,
        Model().loss,
        Model(),
        functools.partial(by_name),
        lambda a: by_attribute(a),
        real_namespace["in_a_namespace"],
        lambda a: np.sum(functools.reduce(lambda s, b: s + linear_solve(b, B), [a], 0.0)),
    ],
)
def test_calls_reach_the_rules(f):
    assert np.allclose(ndual.grad(f)(A), WANT)
    assert np.allclose(ndual.grad(f, chunk_size=2)(A), WANT)
    assert np.allclose(ndual.prepare_gradient(f, A)(A)[1], WANT)


def test_switched_off():
    with ndual.config(intercept=False), pytest.raises(ndual.NdualError):
        ndual.grad(by_name)(A)


def test_a_name_taken_after_the_first_call():
    module = types.ModuleType("late_module")
    exec("import numpy as np\ndef f(a): return np.sum(solve(a, np.array([1.0, 1.0])))", vars(module))
    sys.modules["late_module"] = module
    try:
        with pytest.raises(NameError):
            ndual.grad(module.f)(A)
        module.solve = HELD[0]
        assert np.allclose(ndual.grad(module.f)(A), WANT)
        assert module.solve is HELD[0]
    finally:
        del sys.modules["late_module"]


def test_plain_calls_inside_are_plain():
    def f(a):
        inverse = linear_solve(np.eye(2), np.eye(2))
        assert np.asarray(HELD[0](inverse, inverse)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        return np.sum(linear_solve(a, inverse @ B))

    assert np.allclose(ndual.grad(f)(A), WANT)


def test_gates_pass_for_the_function():
    def f(a):
        gate = scipy.linalg.solve
        assert type(gate) is Gate
        assert gate == HELD[0]
        assert (gate != HELD[0]) is False
        assert hash(gate) == hash(HELD[0])
        assert {HELD[0]: 1}[gate] == 1
        assert gate.__name__ == "solve"
        assert gate.__doc__ is not None
        assert pickle.loads(pickle.dumps(gate)) is HELD[0]
        assert copy.deepcopy(gate) is copy.copy(gate) is HELD[0]
        assert repr(gate) == repr(HELD[0])
        return np.sum(gate(a, B))

    assert np.allclose(ndual.grad(f)(A), WANT)


def test_modules_imported_inside(tmp_path, monkeypatch):
    (tmp_path / "imported_inside.py").write_text("from scipy.linalg import solve\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(a):
        import imported_inside

        return np.sum(imported_inside.solve(a, B))

    assert np.allclose(ndual.grad(f)(A), WANT)
    assert sys.modules.pop("imported_inside").solve is HELD[0]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, GeneratorExit])
def test_taken_out_after_an_exception(error):
    def f(a):
        linear_solve(a, B)
        raise error

    with pytest.raises(error):
        ndual.grad(f)(A)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of callbacks of the collector
def test_interrupts_at_any_moment():
    """A signal may arrive between any two instructions of Python code."""

    def f(a):
        return np.sum(linear_solve(a, B))

    def interrupt(*unused):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + 4e-6 * k)
                for _ in range(20):
                    # NumPy's errstate may be cut off too, and must not reach other tests.
                    contextvars.copy_context().run(ndual.grad(f), A)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert swaps() == 0
            assert scipy.linalg.solve is HELD[0]
            assert ndual._core.current_level() is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads():
    stop, wrong = threading.Event(), []

    def hammer():
        while not stop.is_set():
            if type(scipy.linalg.solve(A, B)) is not np.ndarray or type(linear_solve(A, B)) is not np.ndarray:
                wrong.append("lifted")

    def differentiate():
        right = [np.allclose(ndual.grad(by_name, chunk_size=1)(A), WANT) for _ in range(60)]
        if not all(right):
            wrong.append("lost")

    helpers = [threading.Thread(target=hammer) for _ in range(2)]
    workers = [threading.Thread(target=differentiate) for _ in range(2)]
    for t in (*helpers, *workers):
        t.start()
    for t in workers:
        t.join()
    stop.set()
    for t in helpers:
        t.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle():
    def f(a):
        child = os.fork()
        if child == 0:
            os._exit(0 if swaps() == 0 and scipy.linalg.solve is HELD[0] else 1)
        assert os.waitpid(child, 0)[1] == 0
        return np.sum(linear_solve(a, B))

    assert np.allclose(ndual.grad(f)(A), WANT)


# ---- the proof ---------------------------------------------------------------------------------------------------


def proof(f):
    return intercept.room.prove(f)


def closure(inner):
    def f(x):
        return inner(x)

    return f


def helper(x):
    return np.sum(x) * LIMIT


def uses_a_global_list(x):
    return helper(x) if x.ndim else WANT.sum()


def with_random(x):
    return np.sum(x) * np.random.rand()


WEIGHTS = np.ones(3)
TABLE = [1.0, 2.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(np.cos(np.exp(x)))),
        lambda x: np.sum(x * WEIGHTS[: len(x)]) * LIMIT,
        lambda x: sum(v * v for v in x),
        helper,
        uses_a_global_list,
        closure(np.sin),
        closure(helper),
        closure(closure(helper)),
        functools.wraps(helper)(lambda x: helper(x)),
        lambda x, n=3, w=WEIGHTS: np.sum(x**n),
        lambda x: np.linalg.slogdet(x)[1],
        lambda x: scipy.special.expit(x),
        np.sum,
        with_random,
    ],
)
def test_holds(f):
    found = proof(f)
    assert found.holds
    assert found.random == (f is with_random)


@pytest.mark.parametrize(
    "f",
    [
        by_attribute,
        by_name,
        by_helper,
        by_import,
        closure(linear_solve),
        closure(closure(by_name)),
        lambda x, s=linear_solve: s(x, B),
        lambda x: TABLE[0] * x,
        lambda x: Model().loss(x),
        lambda x: getattr(scipy.linalg, "solve")(x, B),  # noqa: B009
        lambda x: eval("linear_solve")(x, B),
        lambda x: [linear_solve(v, B) for v in [x]],
        Model().loss,
        Model(),
    ],
)
def test_fails(f):
    found = proof(f)
    assert not found.holds
    assert found.random == (not found.known)


def test_facts_are_looked_at_again():
    namespace = {"np": np}
    exec("def inner(x): return np.sum(x)\ndef f(x): return inner(x)", namespace)
    f = namespace["f"]
    assert ndual.grad(f)(np.ones(2)).tolist() == [1.0, 1.0]
    guard = intercept.room.guard(f, True)
    assert guard.holds()
    namespace["solve"] = HELD[0]
    namespace["B"] = B
    exec("def inner(a): return np.sum(solve(a, B))", namespace)
    assert not guard.holds()
    assert np.allclose(ndual.grad(f)(A), WANT)
    exec("def inner(x): return 2.0 * np.sum(x)", namespace)
    assert ndual.grad(f)(np.ones(2)).tolist() == [2.0, 2.0]


def test_cells_are_looked_at_again():
    inner = helper

    def f(x):
        return inner(x)

    prepared = ndual.prepare_gradient(f, A)
    assert np.array_equal(prepared(A)[1], np.full((2, 2), LIMIT))
    inner = by_name
    assert np.allclose(prepared(A)[1], WANT)


def test_arguments_that_are_functions_are_intercepted():
    def f(a, solver):
        return np.sum(solver(a, B))

    with pytest.raises(ndual.NdualError):
        # A function handed over before the gates were in place cannot be reached.
        ndual.grad(f)(A, HELD[0])
    assert np.allclose(ndual.grad(f)(A, lambda a, b: linear_solve(a, b)), WANT)


def test_adapters_prove_the_users_function():
    import ndual.scipy

    plain = ndual.scipy.curve(lambda t, a, b: a * np.exp(b * t))
    assert plain.jac(np.ones(2), 1.0, 0.0).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert plain._memo.engine.plan.run.guard.proven
    lifted = ndual.scipy.problem(lambda x: linear_solve(x.reshape(2, 2), B).sum())
    assert np.allclose(lifted.jac(A.ravel()), WANT.ravel())
    assert not lifted._memo.engine.plan.run.guard.proven


def test_the_function_itself_may_be_one_that_gates_would_catch():
    a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 6.0])
    inverse = np.array([[0.5, 0.0], [-0.125, 0.25]])
    lower = functools.partial(solve_triangular, lower=True)
    for f in (lower, lambda a, b: solve_triangular(a, b, lower=True)):
        value, tangent = ndual.jvp(f, (a, b), (np.zeros((2, 2)), np.ones(2)))
        np.testing.assert_allclose(value, inverse @ b)
        np.testing.assert_allclose(tangent, inverse @ np.ones(2))
    jacobian = ndual.jacobian(solve_triangular, argnums=1)
    for _ in range(2):
        np.testing.assert_allclose(jacobian(a, b, lower=True), inverse)


@pytest.mark.parametrize(
    ("f", "writes", "sites"),
    [
        (lambda x: np.sum(x * np.eye(3)[0]), False, []),
        (lambda x: np.sum(x * np.array([1.0, 2.0, 3.0])), False, ["array", "sum"]),
        (lambda x: operator_in_place(np.zeros(3), x), True, ["zeros"]),
        (lambda x: np.add(x, 1.0, out=np.empty_like(x)), True, []),
        (lambda x: np.add(x, 1.0, out=np.empty_like(WEIGHTS)), True, ["empty_like"]),
        (lambda x: np.linalg.norm([x[0], x[1]]), False, ["norm"]),
        (lambda x: np.linalg.norm(x[0, 1]), False, []),
        (lambda x: x.shape[0] * x.real.sum(), False, []),
    ],
)
def test_what_is_known_to_be_needed(f, writes, sites):
    found = proof(f)
    assert found.known
    assert found.writes == writes
    assert [site.name for site in found.sites] == sites
    assert found.holds == (not sites)


def operator_in_place(out, x):
    out += x
    return np.sum(out)


def test_libraries_that_load_when_they_are_looked_at_are_not(monkeypatch):
    spec = importlib.util.find_spec("colorsys")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "colorsys", lazy)
    spec.loader.exec_module(lazy)

    def f(a):
        hidden = {}
        exec("import wave", hidden)  # a module that is new: all are looked at again
        return np.sum(linear_solve(a, B))

    monkeypatch.delitem(sys.modules, "wave", raising=False)
    np.testing.assert_allclose(ndual.grad(f)(A), WANT)
    assert type(lazy) is not types.ModuleType
    assert lazy.rgb_to_hsv(1.0, 0.0, 0.0) == (0.0, 1.0, 1.0)
    assert type(lazy) is types.ModuleType
    monkeypatch.undo()
    ndual.grad(lambda a: np.sum(linear_solve(a, B)))(A)  # modules are told by their number, which is another one again
