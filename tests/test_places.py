"""Places for stand-ins: which are found again without looking, which keep theirs, and what a call leaves as it was."""

import contextvars
import importlib
import os
import pathlib
import pickle
import sys
import threading
import types

import numpy as np
import pytest
import scipy.linalg
from scipy import interpolate, optimize, special, stats
from scipy.linalg import solve_triangular
from scipy.stats import _distn_infrastructure

import ndual
from ndual._core._dual import swaps
from ndual.frontend import intercept
from ndual.frontend._gate import Gate

X = np.array([0.3, 0.7, 1.9])
SPLINE = interpolate.CubicSpline(np.arange(4.0), np.array([0.0, 1.0, 8.0, 27.0]))
LOWER = np.array([[2.0, 0.0], [1.0, 4.0]])
INVERSE = np.array([[0.5, 0.0], [-0.125, 0.25]])
intercept.room.refresh(())
CODES = [site for site in intercept.room.sites if site.name == "__code__"]
grows = {"np": np, "LOWER": LOWER}
exec("def f(x):\n    return eval('np.sum(x)') if x.ndim == 2 else eval('np.sum(solve(LOWER, x))')", grows)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    assert swaps() == 0
    assert solve_triangular is scipy.linalg.solve_triangular
    assert type(solve_triangular) is not Gate
    assert len(CODES) == 4
    assert all(site.scope.__code__ is site.original for site in CODES)
    assert type(SPLINE(1.5)) is np.ndarray


def known(b):
    return np.sum(solve_triangular(LOWER, b, lower=True))


def unknown(b):
    return eval("known")(b)


# ---- what is known is not looked for again -----------------------------------------------------------------------


@pytest.mark.parametrize("f", [known, unknown])
def test_nothing_is_looked_for_where_nothing_has_changed(f, monkeypatch):
    prepared = ndual.prepare_gradient(f, X[:2])
    assert np.allclose(prepared(X[:2])[1], INVERSE.sum(0))
    asked = []
    for name in ("look", "left"):
        monkeypatch.setattr(intercept.Guard, name, lambda self, name=name: asked.append(name))
    for _ in range(3):
        assert np.allclose(prepared(X[:2])[1], INVERSE.sum(0))
        assert np.allclose(ndual.grad(f)(X[:2]), INVERSE.sum(0))
    assert not asked


def test_a_namespace_that_grew_is_looked_at_again():
    f = grows["f"]
    prepared = ndual.prepare_gradient(f, X[:2])
    with pytest.raises(NameError):
        prepared(X[:2])
    grows["solve"] = scipy.linalg.solve
    assert np.allclose(prepared(X[:2])[1], INVERSE.sum(0))
    del grows["solve"]
    with pytest.raises(NameError):
        prepared(X[:2])


def test_every_namespace_is_watched():
    """A name is bound anew in each of many modules in turn: to a function that needs a stand-in, and back."""
    source = "def f(x):\n    return step(inner(x)) if inner else step(x)"
    spaces = [{"step": np.negative, "inner": None} for _ in range(12)]
    for space, below in zip(spaces, [None, *spaces], strict=False):
        exec(source, space)
        space["inner"] = below and below["f"]
    f = spaces[-1]["f"]
    guard = intercept.room.guard(f, True)
    prepared = ndual.prepare_jacobian(f, X[:2])
    assert np.array_equal(prepared(X[:2])[1], np.eye(2))
    helpers = {"solve": scipy.linalg.solve, "HALF": np.diag([2.0, 2.0])}
    exec("def step(v):\n    return solve(HALF, v)", helpers)
    for space in spaces:
        assert guard.holds()
        space["step"] = helpers["step"]
        assert not guard.holds()
        assert np.allclose(prepared(X[:2])[1], -np.eye(2) / 2)
        space["step"] = np.negative
        assert np.array_equal(prepared(X[:2])[1], np.eye(2))
        space["unrelated"] = 1.0
        assert guard.holds()
        del spaces[0]["step"]
        assert not guard.holds()
        spaces[0]["step"] = np.negative


def test_a_namespace_that_grows_in_the_call():
    namespace = {"np": np, "LOWER": LOWER}
    source = (
        "def g(x):\n    global solve\n    from scipy.linalg import solve\n    return eval('np.sum(solve(LOWER, x))')"
    )
    exec(source, namespace)
    for _ in range(2):
        assert np.allclose(ndual.grad(namespace["g"])(X[:2]), INVERSE.sum(0))


@pytest.mark.parametrize("f", [known, unknown])
def test_the_switch_is_one_threads_own(f):
    prepared = ndual.prepare_gradient(f, X[:2])
    right = []
    with ndual.config(intercept=False):
        with pytest.raises(ndual.NdualError):
            prepared(X[:2])
        worker = threading.Thread(target=lambda: right.append(np.allclose(ndual.grad(f)(X[:2]), INVERSE.sum(0))))
        worker.start()
        worker.join()
        with ndual.config(intercept=True):
            assert np.allclose(prepared(X[:2])[1], INVERSE.sum(0))
        with pytest.raises(ndual.NdualError):
            prepared(X[:2])
    assert right == [True]
    assert np.allclose(prepared(X[:2])[1], INVERSE.sum(0))


def test_what_changes_in_the_call_is_seen_at_the_next():
    """Somebody binds a name in the very namespace that holds a stand-in at that moment."""
    namespace = {"np": np, "solve": scipy.linalg.solve, "LOWER": LOWER, "factor": 1.0}
    exec("def f(x):\n    return factor * np.sum(solve(LOWER, x))", namespace)
    prepared = ndual.prepare_gradient(namespace["f"], X[:2])
    guard = intercept.room.guard(namespace["f"], True)
    for value in (2.0, 3.0):
        prepared(X[:2])
        assert guard.known
        met = []

        def meddle(frame, event, argument, value=value, met=met):
            if frame.f_code is namespace["f"].__code__ and event == "return":
                met.append(type(namespace["solve"]))
                namespace["factor"] = value

        sys.setprofile(meddle)
        try:
            prepared(X[:2])
        finally:
            sys.setprofile(None)
        assert met == [Gate]
        assert np.allclose(prepared(X[:2])[1], value * INVERSE.sum(0))
        assert [fact[2] for fact in guard.facts if fact[1] == "factor" and fact[0] is namespace] == [value]


def test_nested_calls_share_a_place():
    def outer(b):
        assert type(solve_triangular) is Gate
        inner = ndual.grad(known)(b)
        assert type(solve_triangular) is Gate
        return known(b) + inner[0]

    assert np.allclose(ndual.grad(outer)(X[:2]), INVERSE.sum(0))


def test_the_functions_of_the_suite(monkeypatch):
    """Twelve of them need nothing, the last one a stand-in in one place."""
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[1] / "asv_bench")
    cases = importlib.import_module("suite").CASES
    assert len(cases) == 13
    for name, case in cases.items():
        proof = intercept.room.prove(case.function)
        assert proof.known
        assert [site.name for site in proof.sites] == ["solve_triangular"] * (name == "gp_lml")
        assert proof.holds == (name != "gp_lml")


# ---- gates that stay ---------------------------------------------------------------------------------------------


def test_private_modules_keep_their_gates():
    ndual.grad(optimize.rosen)(X)
    assert type(_distn_infrastructure.asarray) is Gate
    assert _distn_infrastructure.asarray == np.asarray
    assert type(np.asarray) is not Gate
    assert not [name for name in special.__all__ if type(getattr(special, name)) is Gate]
    assert not [name for name in stats.__all__ if type(getattr(stats, name)) is Gate]
    assert pickle.loads(pickle.dumps(special.zeta)) is special.zeta
    copied = pickle.loads(pickle.dumps(stats.gamma(2.0)))
    assert copied.pdf(X) == pytest.approx(X * np.exp(-X))
    assert type(copied.pdf(X)) is np.ndarray
    assert type(np.r_[1.0, X]) is np.ndarray


def test_what_stays_needs_no_place():
    for scope, needed in ((vars(_distn_infrastructure), []), ({"asarray": np.asarray}, ["asarray"])):
        f = types.FunctionType((lambda x: asarray([x, x])).__code__, scope)  # noqa: F821
        proof = intercept.room.prove(f)
        assert [site.name for site in proof.sites] == needed
        assert proof.holds == (not needed)
        assert np.array_equal(ndual.jacobian(f)(2.0), np.ones(2))


def test_values_of_rows_are_computed_on_plain_arrays():
    """A row's value may be a function of these modules, called while a derivative is taken."""
    assert type(special._basic.asarray) is Gate
    for x in (X, np.array(0.7)):
        orders = np.full(x.shape, 2.0)
        got = ndual.jvp(lambda x, n=orders: special.polygamma(n, x), (x,), (np.ones_like(x),))[1]
        assert np.allclose(got, special.polygamma(3, x))


def test_other_threads_do_not_meet_duals_through_them():
    stop, wrong = threading.Event(), []

    def plain():
        want = stats.norm.logpdf(X)
        while not stop.is_set():
            got = stats.norm.logpdf(X)
            if type(got) is not np.ndarray or not np.array_equal(got, want) or type(np.r_[X, 1.0]) is not np.ndarray:
                wrong.append(got)

    helper = threading.Thread(target=plain)
    helper.start()
    try:
        for _ in range(30):
            assert np.allclose(ndual.grad(lambda m: -stats.norm.logpdf(X, m).sum())(0.5), (0.5 - X).sum())
    finally:
        stop.set()
        helper.join()
    assert not wrong


# ---- methods whose code is exchanged -----------------------------------------------------------------------------


def cubic(t):
    return np.sum(SPLINE(t))


def test_methods_called_hot_before_and_in_between():
    """Python specialises calls that were made often, for the code that the function had."""
    call = type(SPLINE).__call__

    def hot(t, times=1):
        for _ in range(times):
            out = call(SPLINE, t)
        return np.sum(out)

    plain = hot(X, times=50)
    for _ in range(10):
        assert np.allclose(ndual.grad(hot)(X), 3 * X**2)
        assert hot(X, times=20) == plain


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_methods_are_put_back_after_an_exception(error):
    def f(t):
        cubic(t)
        raise error

    with pytest.raises(error):
        ndual.grad(f)(X)


def test_methods_in_other_threads():
    stop, wrong = threading.Event(), []
    want = SPLINE(X)

    def plain():
        while not stop.is_set():
            got = SPLINE(X)
            if type(got) is not np.ndarray or not np.array_equal(got, want):
                wrong.append(got)

    helpers = [threading.Thread(target=plain) for _ in range(2)]
    for thread in helpers:
        thread.start()
    try:
        for _ in range(50):
            assert np.allclose(ndual.grad(cubic)(X), 3 * X**2)
    finally:
        stop.set()
        for thread in helpers:
            thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_methods_are_themselves_in_the_child_of_a_fork():
    def f(t):
        out = cubic(t)
        child = os.fork()
        if child == 0:
            os._exit(0 if all(site.scope.__code__ is site.original for site in CODES) else 1)
        assert os.waitpid(child, 0)[1] == 0
        return out

    assert np.allclose(ndual.grad(f)(X), 3 * X**2)


# ---- NumPy's context variables -----------------------------------------------------------------------------------


def in_a_thread(function):
    result = []
    worker = threading.Thread(target=lambda: result.append(function()))
    worker.start()
    worker.join()
    return result[0]


def variables():
    return {variable.name for variable in contextvars.copy_context()}


def test_a_derivative_leaves_numpys_variables_set_to_what_they_were():
    def derivative():
        before = np.geterr()
        ndual.grad(np.sum)(X)
        return variables(), before == np.geterr()

    names, same = in_a_thread(derivative)
    assert {"numpy.ufunc.extobj", "current_allocator"} <= names
    assert same


def test_the_first_derivative_under_another_error_state():
    def derivative():
        default = np.geterr()
        with np.errstate(over="raise", call=print):
            ndual.grad(np.sum)(X)
            inside, called = np.geterr(), np.geterrcall()
        restored = np.geterr() == default and np.geterrcall() is None
        ndual.grad(np.sum)(X)
        return inside["over"], called, restored and np.geterr() == default, variables()

    over, called, restored, names = in_a_thread(derivative)
    assert over == "raise"
    assert called is print
    assert restored
    assert "numpy.ufunc.extobj" in names
