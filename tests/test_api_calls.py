"""The operators as calls: what they refuse, exceptions, several passes, progress, and callables of every kind."""

import inspect
import math
import random

import numpy as np
import pytest
from scipy.optimize import rosen_der as rosenbrock_gradient

import ndual
from ndual import _core


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


# ---- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndual.grad(np.sum)(np.arange(3)), TypeError, r"args\[0\].*int64 array.*astype\(float\)"),
        (lambda: ndual.grad(np.sum)(np.array([True])), TypeError, "bool array"),
        (lambda: ndual.grad(np.sum)(True), TypeError, "at least one float"),
        (lambda: ndual.grad(np.sum)([1, 2]), TypeError, r"Pass floats \(1.0, not 1\)"),
        (lambda: ndual.grad(np.sum)(np.ones(2, np.longdouble)), ndual.UnsupportedDtype, "astype"),
        (lambda: ndual.grad(np.sum, chunk_size=0), ValueError, "positive int or None; got 0"),
        (lambda: ndual.grad(np.sum, chunk_size=-2), ValueError, "got -2"),
        (lambda: ndual.grad(np.sum, chunk_size=2.0), ValueError, "got 2.0"),
        (lambda: ndual.grad(np.sum, argnums=3)(np.ones(2)), ValueError, "positions of the 1 arguments.*got 3"),
        (lambda: ndual.grad(np.sum, argnums=(0, 0))(np.ones(2)), ValueError, "different positions"),
        (lambda: ndual.grad(np.sum, argnums="0"), TypeError, "an int or a tuple of ints; got '0'"),
        (lambda: ndual.grad(np.sum, argnums=()), TypeError, "an int or a tuple of ints"),
        (lambda: ndual.grad(rosenbrock(np.ones(2))), TypeError, r"Write grad\(f\)\(x\), not grad\(f\(x\)\)"),
        (lambda: ndual.jacobian(np.sum, mode="rev"), ValueError, "mode expects one of"),
        (lambda: ndual.grad(lambda x: float(x))(1.0), ndual.DerivativeLostError, "float"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ndual.NdualError)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_an_exception_leaves_nothing_behind(error, chunk_size):
    calls = []

    def f(x):
        x[0] = 7.0
        calls.append(1)
        if len(calls) == 2 or chunk_size is None:
            raise error
        return np.sum(x)

    x = np.ones(4)
    with pytest.raises(error):
        ndual.grad(f, chunk_size=chunk_size)(x)
    assert _core.current_level() is None
    assert x.tolist() == [1.0] * 4
    assert ndual.grad(rosenbrock, chunk_size=chunk_size)(x) == pytest.approx(rosenbrock_gradient(x))


def test_a_dual_that_outlives_its_call():
    kept = []
    ndual.grad(lambda x: (kept.append(x), np.sum(x))[1])(np.ones(3))
    with pytest.raises(ndual.StaleDualError):
        kept[0] + 1.0
    with pytest.raises(ndual.StaleDualError):
        ndual.grad(lambda x: np.sum(x * kept[0]))(np.ones(3))


# ---- passes ------------------------------------------------------------------------------------------------------


def test_random_numbers_are_the_same_in_every_pass():
    class Noisy:
        def __call__(self, x):
            return np.sum(x * np.random.rand(3)) + random.random() * x[0]

    def plain(x):
        return np.sum(x * np.random.standard_normal(3))

    for f in (Noisy(), plain):
        np.random.seed(3)
        random.seed(3)
        want = ndual.grad(f, chunk_size=3)(np.ones(3))
        after = np.random.rand(), random.random()
        np.random.seed(3)
        random.seed(3)
        assert np.array_equal(ndual.grad(f, chunk_size=1)(np.ones(3)), want)
        assert (np.random.rand(), random.random()) == after


def test_a_function_that_changes_from_pass_to_pass():
    calls = []

    def f(x):
        calls.append(1)
        return np.sum(x) * len(calls)

    with pytest.raises(ndual.NdualError, match=r'pass 2 of 2.*chunk_size=4 or mode="reverse"'):
        ndual.grad(f, chunk_size=2)(np.ones(4))


def test_nan_passes_through():
    gradient = ndual.grad(lambda x: np.sum(x) * math.nan, chunk_size=1)(np.ones(2))
    assert np.isnan(gradient).all()


def test_progress(capsys):
    pytest.importorskip("tqdm")
    gradient = ndual.grad(rosenbrock, chunk_size=2, progress=True)(np.ones(6))
    assert gradient == pytest.approx(rosenbrock_gradient(np.ones(6)))
    assert "3/3" in capsys.readouterr().err


def test_wrappers_look_like_the_function():
    for wrapped in (ndual.grad(rosenbrock), ndual.value_and_grad(rosenbrock), ndual.jacobian(rosenbrock)):
        assert inspect.isfunction(wrapped)
        assert wrapped.__name__ == "rosenbrock"
        assert wrapped.__wrapped__ is not None
        assert list(inspect.signature(wrapped).parameters) == ["x"]


def test_callables_of_every_kind():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        def loss(self, x):
            return self.scale * np.sum(x * x)

        __call__ = loss

    import functools

    x = np.array([1.0, 2.0])
    for f in (
        Model(3.0),
        Model(3.0).loss,
        functools.partial(Model.loss, Model(3.0)),
        functools.partial(lambda s, x: s * np.sum(x * x), 3.0),
    ):
        assert ndual.grad(f)(x).tolist() == [6.0, 12.0]
        assert ndual.jvp(f, (x,), (np.ones(2),))[1] == 18.0
    assert ndual.grad(np.sum)(x).tolist() == [1.0, 1.0]
