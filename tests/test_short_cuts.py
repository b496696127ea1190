"""Functions of NumPy that f only calls are reached without its protocols: the same values, derivatives and errors."""

import contextlib
import dis
import threading

import numpy as np
import pytest
from numpy import exp

import ndual
from ndual._core._dual import swaps
from ndual.frontend import intercept
from ndual.frontend._gate import Gate
from ndual.frontend.proof import _values

X = np.array([0.3, 0.7, 1.9])


def both(f, x):
    return f(x)


def only_called(x):
    return np.sum(np.sin(x) * exp(x))


def kept(x):
    return np.add.reduce(both(np.sin, x)) + np.sum(np.cos(x)) + np.sum(np.sin(x))


def names(f):
    return {site.name for site in intercept.room.prove(f).shorts}


def test_which_functions():
    assert names(only_called) == {"sum", "sin", "exp"}
    assert names(kept) == {"sum", "cos"}, "what is handed on, or asked for more than a call, stays what it is"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("f(x)", set()),
        ("m.f(x)", {"m"}),
        ("m.n.f(x)", {"m", "n"}),
        ("m.f", {"m", "f"}),
        ("g(f)", {"f"}),
        ("g(m.f)", {"m", "f"}),
        ("m.f.g(x)", {"m", "f"}),
        ("m.f(m.g(x), m.h)", {"m", "h"}),
    ],
)
def test_names_that_are_more_than_called(source, expected):
    code = {}
    exec(f"def t(x): return {source}", code)
    # Before Python 3.12 a method of a module that a function imports is loaded in another way than that of a global.
    assert _values(code["t"].__code__) == expected, dis.dis(code["t"])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_values_and_derivatives(mode):
    value, gradient = ndual.value_and_grad(only_called, mode=mode)(X)
    assert value == only_called(X)
    assert np.allclose(gradient, (np.cos(X) + np.sin(X)) * np.exp(X), rtol=1e-14)
    assert swaps() == 0
    assert type(vars(np)["sin"]) is np.ufunc
    assert type(exp) is np.ufunc


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_other_arguments(mode):
    """Lists, keywords, plain arrays, masks and numbers come to what they come to without short cuts."""

    def f(x):
        y = np.empty_like(x)
        np.exp(x, out=y)
        y = np.add(y, np.multiply(x, 2.0)) + np.add([x[0], 1.0, x[2]], x) + np.sin(X)
        return np.sum(y) + np.sum(np.maximum(x, 0.5, where=[True, False, True], out=np.zeros_like(x)))

    expected = np.exp(X) + 2 + [2, 1, 2] + [0, 0, 1]
    assert np.allclose(ndual.grad(f, mode=mode)(X), expected, rtol=1e-14)


def test_errors_are_those_of_numpy():
    def broken(x):
        return np.sum(np.add(x, "a"))

    def short(x):
        return np.sum(np.add(x, np.ones(2)))

    with pytest.raises((TypeError, np.exceptions.DTypePromotionError)):
        ndual.grad(broken)(X)
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        ndual.grad(short)(X)
    assert swaps() == 0


def test_nested_derivatives():
    hessian = ndual.jacobian(ndual.grad(only_called, mode="reverse"), mode="forward")(X)
    assert np.allclose(hessian, np.diag(2 * np.cos(X) * np.exp(X)), rtol=1e-13)


def during(look):
    """What `look` finds while a derivative is taken of a function that needs no stand-in."""

    class Out:
        found = None

        def write(self, text):
            self.found = look()

    def f(x):
        print(end=" ")
        return np.sum(np.sin(x))

    assert intercept.room.prove(f).holds
    out = Out()
    with contextlib.redirect_stdout(out):
        gradient = ndual.grad(f)(X)
    assert np.array_equal(gradient, np.cos(X))
    return out.found


def test_interception_may_be_off():
    def look():
        return type(vars(np)["sin"])

    assert during(look) is Gate
    with ndual.config(intercept=False):
        assert during(look) is np.ufunc
    assert look() is np.ufunc


def test_other_threads_call_the_function():
    """A thread without a derivative meets the stand-in, which is the function for it."""

    def elsewhere():
        seen = []
        thread = threading.Thread(target=lambda: seen.append((type(vars(np)["sin"]), np.sin(X), np.sum([X, X]))))
        thread.start()
        thread.join()
        return seen[0]

    kind, sine, total = during(elsewhere)
    assert kind is Gate
    assert np.array_equal(sine, np.sin(X))
    assert total == np.sum([X, X])


class Doubled(np.ndarray):
    """A class whose ufuncs give twice what NumPy's do."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return 2 * getattr(ufunc, method)(*[np.asarray(a) if type(a) is Doubled else a for a in inputs], **kwargs)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_operands_with_a_say_of_their_own(mode):
    weights = np.array([1.0, 2.0, 3.0])
    own = weights.view(Doubled)
    for f in (lambda x: np.sum(np.multiply(own, x)), lambda x: np.sum(np.multiply(x, own)), lambda x: np.sum(x * own)):
        assert np.array_equal(ndual.grad(f, mode=mode)(X), 2 * weights)
    masked = np.ma.array(weights, mask=[False, True, False])
    with pytest.raises(ndual.errors.DerivativeLostError, match="masked array"):
        ndual.grad(lambda x: np.sum(np.multiply(x, masked)), mode=mode)(X)
