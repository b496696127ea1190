"""check_rule over every row of the table, and proof that it notices faults: wrong, narrowing and aliasing rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import ndual
from ndual import _core
from ndual.rules import registry
from ndual.rules.elementwise import TABLE
from ndual.testing import check_gradient, check_rule


@pytest.mark.filterwarnings("ignore:non-integer arg n:DeprecationWarning")
# SciPy's own hyp0f1 divides by zero far out, and says so on the side.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", TABLE)
def test_row(name):
    check_rule(name)


def planted(name, **changes):
    return replace(TABLE[name], **changes)


def test_a_copy_of_a_row_passes():
    check_rule(planted("sqrt"), widths=(1, 3))
    check_rule(planted("multiply"), widths=(1, 3))


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (planted("sqrt", partials=("0.4 / y",)), "first derivative"),
        (planted("divide", partials=("1 / x1", "y / x1")), "first derivative by operand 1"),
        (planted("power", partials=("x1 * power(x0, x1 - 1)", "y * log(x1)")), "first derivative by operand 1"),
        (planted("sin", second={(0, 0): "y"}), "second derivative"),
        (planted("multiply", second={(0, 1): "x0"}), "second derivative by operands 0 and 1"),
        (planted("exp", complex_partials=("conj(y)",)), "complex derivative"),
    ],
)
def test_a_wrong_row_is_caught(row, where):
    with pytest.raises(AssertionError, match=where):
        check_rule(row)


def test_a_wrong_row_far_from_the_others_is_caught_by_its_reference():
    mpmath = pytest.importorskip("mpmath")
    check_rule("tanh", reference=mpmath.tanh, widths=(2,))
    with pytest.raises(AssertionError, match="first derivative"):
        check_rule("tanh", reference=mpmath.sinh, widths=(2,))


@pytest.fixture
def planted_rule():
    """A rule for one of this module's functions, forgotten afterwards."""
    from ndual.frontend import dispatch

    added = []

    def plant(function, rule):
        dispatch._RULES[function] = rule
        added.append(function)
        return rule

    yield plant
    for function in added:
        del dispatch._RULES[function]


def linear(function, lanes):
    return registry.Linear(function.__name__, (f"{__name__}.{function.__name__}",), lanes=lanes, transpose=_twice)


def _twice(xp, w, x):
    return 2 * w


def _protocol(body):
    """A function that duals take over as they do NumPy's."""

    def function(x):
        if _core.is_dual(x):
            return x.__array_function__(function, (type(x),), (x,), {})
        return body(x)

    function.__name__ = body.__name__
    return function


@_protocol
def double(x):
    return 2 * x


@_protocol
def window(x):
    return x[1:]


def run(function, rule):
    """check_rule on the rule object, which is enough for a function that no library has."""
    from ndual.testing.call import CallCheck

    CallCheck(function, rule, (np.linspace(1.0, 2.0, 6),), {}, 1e-7, 0).run("fd", (1, 3))


def test_a_right_linear_rule_passes(planted_rule):
    run(double, planted_rule(double, linear(double, lambda xp, t, x: 2 * t)))


def test_a_wrong_linear_rule_is_caught(planted_rule):
    rule = planted_rule(double, linear(double, lambda xp, t, x: 3 * t))
    with pytest.raises(AssertionError, match="expected lanes"):
        run(double, rule)


def test_a_wrong_transpose_is_caught(planted_rule):
    rule = registry.Linear("double", ("double",), lanes=lambda xp, t, x: 2 * t, transpose=lambda xp, w, x: w)
    with pytest.raises(AssertionError, match="transpose"):
        run(double, planted_rule(double, rule))


def test_narrowing_is_caught(planted_rule):
    rule = planted_rule(double, linear(double, lambda xp, t, x: 2 * t.astype(np.float32)))
    with pytest.raises(AssertionError, match="float32"):
        run(double, rule)


def test_narrowing_in_a_composition_is_caught(planted_rule):
    square = _protocol(lambda x: x * x)
    rule = registry.Composition("square", ("square",), body=lambda xp, x: (x * x).astype(np.float32))
    with pytest.raises(AssertionError, match="expected float64"):
        run(square, planted_rule(square, rule))


@pytest.mark.parametrize("keep", [lambda t: t[:, 1:].copy(), lambda t: t[:, 1:] * 1.0])
def test_lanes_that_are_copied_for_a_view_are_caught(planted_rule, keep):
    rule = registry.Linear("window", ("window",), lanes=lambda xp, t, x: keep(t), transpose=_window_transpose)
    with pytest.raises(AssertionError, match=r"view|lanes"):
        run(window, planted_rule(window, rule))


def test_lanes_that_are_a_view_for_a_fresh_value_become_their_own(planted_rule):
    fresh = _protocol(lambda x: x.copy())
    rule = registry.Linear("fresh", ("fresh",), lanes=lambda xp, t, x: t, transpose=lambda xp, w, x: w)
    run(fresh, planted_rule(fresh, rule))


def test_a_true_view_passes(planted_rule):
    rule = registry.Linear("window", ("window",), lanes=lambda xp, t, x: t[:, 1:], transpose=_window_transpose)
    run(window, planted_rule(window, rule))


def _window_transpose(xp, w, x):
    out = xp.zeros_like(x)
    out[1:] = w
    return out


A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
B = np.arange(6.0).reshape(3, 2) / 4
x = np.linspace(0.5, 2.0, 6)
m = np.arange(12.0).reshape(3, 4) / 5 + 0.1


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (np.matmul, (A, B), {}),
        (np.dot, (A, A[0]), {}),
        (np.outer, (x, A[0]), {}),
        (np.kron, (A, B), {}),
        (np.einsum, ("ij,jk->ik", A, B), {}),
        (np.sum, (m,), {"axis": 0}),
        (np.sum, (m,), {}),
        (np.mean, (m,), {"axis": 1, "keepdims": True}),
        (np.prod, (m,), {"axis": 1}),
        (np.max, (m,), {"axis": 0}),
        (np.var, (m,), {"ddof": 1}),
        (np.cumsum, (m,), {"axis": 1}),
        (np.cumprod, (m,), {"axis": 1}),
        (np.diff, (m,), {}),
        (np.sort, (x[::-1],), {}),
        (np.take, (m, [0, 2, 0]), {"axis": 1}),
        (np.reshape, (m, (4, 3)), {}),
        (np.transpose, (m,), {}),
        (np.swapaxes, (m, 0, 1), {}),
        (np.moveaxis, (m, 0, 1), {}),
        (np.broadcast_to, (A[0], (2, 3)), {}),
        (np.squeeze, (m[:, :1],), {}),
        (np.expand_dims, (m, 0), {}),
        (np.ravel, (m,), {}),
        (np.diag, (A,), {}),
        (np.tril, (A,), {}),
        (np.trace, (A,), {}),
        (np.flip, (m,), {"axis": 0}),
        (np.roll, (m, 2), {"axis": 1}),
        (np.repeat, (m, 2), {"axis": 0}),
        (np.tile, (m, (1, 2)), {}),
        (np.concatenate, ([A, B],), {"axis": 1}),
        (np.stack, ([x, 2 * x],), {"axis": 1}),
        (np.split, (x, 2), {}),
        (np.linalg.solve, (A, B), {}),
        (np.linalg.inv, (A,), {}),
        (np.linalg.det, (A,), {}),
        (np.linalg.slogdet, (A,), {}),
        (np.linalg.cholesky, (A,), {}),
        (np.linalg.norm, (m,), {}),
        (scipy.linalg.solve_triangular, (A, B), {"lower": True}),
        (np.interp, (np.array([0.3, 1.2]), np.arange(3.0), np.array([1.0, 4.0, 2.0])), {}),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_structured_rule(function, args, kwargs):
    check_rule(function, *args, widths=(1, 2, 3, 8, 17), **kwargs)


def test_check_gradient_tells_right_from_wrong():
    check_gradient(lambda a, b: np.sum(np.sin(a) * b["w"]), x, {"w": 2 * x, "n": 3})
    check_gradient(lambda z: np.sum(np.abs(z) ** 2), x + 1j)
    with pytest.raises(AssertionError, match="expected the derivative"):
        check_gradient(lambda a: np.sum(ndual.stop_gradient(a) * a), x)


@pytest.mark.parametrize("bad", [3, "nonsense"])
def test_check_rule_says_what_it_wants(bad):
    with pytest.raises(ndual.NdualError, match=r"check_rule expects|dotted name"):
        check_rule(bad)
    with pytest.raises(ndual.NdualError, match="example arguments"):
        check_rule(np.linalg.solve)
