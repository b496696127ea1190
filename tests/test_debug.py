"""config(debug=True): what an operation or a rule did wrong, named with the user's line; tables of what a run does."""

import dataclasses
import warnings

import numpy as np
import pytest

import ndual
from ndual import _core
from ndual.frontend import dispatch
from ndual.rules import registry

MODES = ["forward", "reverse"]
X = np.array([0.5, 1.5, 2.5])


@pytest.fixture(autouse=True)
def debugging():
    with ndual.config(debug=True):
        yield
    assert not _core.debugging()


def same_with_debug(f, x):
    for mode in MODES:
        with ndual.config(debug=False):
            value, gradient = ndual.value_and_grad(f, mode=mode)(x)
        found = ndual.value_and_grad(f, mode=mode)(x)
        np.testing.assert_array_equal(found[0], value)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-14)


def sound(x):
    u = np.zeros(3)
    u[:2] = np.sin(x[:2]) * x[0]
    u[2] = x[1] ** 2 / x[2]
    u *= np.linalg.norm(x)
    a = np.outer(u, x) + 3 * np.eye(3)
    if u[0] > 100:
        return 0.0
    b = np.linalg.solve(a, u).reshape(3, 1).T
    return np.sum(b @ a) + np.max(x) - np.mean(np.sort(u)) + np.var(x) + np.where(x > 1, x, 0.0)[2]


def test_sound_functions_give_what_they_give_without():
    same_with_debug(sound, X)
    same_with_debug(lambda x: x * x, 2.0)
    same_with_debug(lambda x: np.sin(x) / x + float(2) ** x, 0.3)
    hessian = ndual.hessian(sound)(X)
    with ndual.config(debug=False):
        np.testing.assert_allclose(hessian, ndual.hessian(sound)(X), rtol=1e-12)


def made_in_the_value(x):
    y = x - 1.0
    z = np.log(y)  # of -0.5
    return np.sum(z * 2)


def made_by_a_number(x):
    y = x[0] - 1.0
    return np.sqrt(y) + x[1]


def made_by_inf(x):
    big = np.exp(x * 1000)
    return np.sum(big - big)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("f", "operation", "line"),
    [(made_in_the_value, "log", 2), (made_by_a_number, "sqrt", 2), (made_by_inf, "subtract", 2)],
)
def test_the_first_nan_of_a_value(f, operation, line, mode):
    with pytest.raises(ndual.NotANumberError) as caught:
        ndual.grad(f, mode=mode)(X)
    assert isinstance(caught.value, ArithmeticError)
    said = str(caught.value)
    assert f"NaN in the value of {operation}" in said
    assert f"test_debug.py:{f.__code__.co_firstlineno + line}, in {f.__name__}" in said


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operands_are_named():
    with pytest.raises(ndual.NotANumberError, match=r"of log at index \(0,\).*operand 0 = -0\.5"):
        ndual.grad(made_in_the_value)(X)


@pytest.mark.parametrize("mode", MODES)
def test_nan_of_the_user_is_passed_on(mode):
    x = np.array([np.nan, 1.0])
    assert np.isnan(ndual.grad(lambda x: np.sum(np.sin(x) * np.array([1.0, np.nan])), mode=mode)(x)).all()


def power_of_zero(x):
    y = x * 0.0
    return np.sum(y ** (x - 1.5))  # 0 ** 0: the derivative by the exponent is NaN


@pytest.mark.parametrize("mode", MODES)
def test_the_first_nan_of_a_derivative(mode):
    what = "tangent of power" if mode == "forward" else "cotangent that power gives its operand 1"
    with pytest.raises(
        ndual.NotANumberError, match=f"NaN in the {what}.*test_debug.py:{power_of_zero.__code__.co_firstlineno + 2}"
    ):
        ndual.grad(power_of_zero, mode=mode)(np.array([1.5]))


def square_of_root(x):
    y = np.sqrt(x)
    return np.sum(y**2)


@pytest.mark.parametrize("mode", MODES)
def test_zero_times_infinity_is_named(mode):
    with pytest.warns(ndual.StrongZeroWarning, match=r"test_debug\.py:\d+, in square_of_root.*taken as 0"):
        assert ndual.grad(square_of_root, mode=mode)(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ndual.grad(square_of_root, mode=mode)(np.array([2.0, 1.0]))
        ndual.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), mode="forward")(np.array([0.0, 1.0]))


# ---- rules that break what they promise ----------------------------------------------------------------------------


def doubled(x):
    """A function whose rule is up to each test."""
    return 2.0 * x


def halves(x):
    """One whose value is a view."""
    return x[:2]


@pytest.fixture
def rule(monkeypatch):
    """Give a function a rule for the length of a test; the result calls it by that rule, and sums."""

    def register(function, jvp=None, vjp=None):
        made = dataclasses.replace(registry.RULES["numpy.linalg.inv"], name=function.__name__, jvp=jvp, vjp=vjp)
        monkeypatch.setitem(dispatch._RULES, function, made)
        return lambda x: np.sum(dispatch.dispatch(function, (x,), {}))

    return register


@pytest.mark.parametrize(
    ("vjp", "said"),
    [
        (lambda xp, w, y, x, **rest: (np.sum(w),), r"shape of its operand, \(3,\); got \(\)"),
        (lambda xp, w, y, x, **rest: (2 * w.astype(np.float32),), "of its operand's type, float64; got float32"),
    ],
)
def test_cotangents_of_another_shape_or_type(rule, vjp, said):
    with pytest.raises(ndual.RuleError, match=f"vjp of doubled.*{said}"):
        ndual.grad(rule(doubled, vjp=vjp), mode="reverse")(X)


@pytest.mark.parametrize("mode", MODES)
def test_nan_of_a_rule(rule, mode):
    f = rule(doubled, lambda xp, y, x, dx, **rest: dx[0] * np.nan, lambda xp, w, y, x, **rest: (w * np.nan,))
    with pytest.raises(ndual.NotANumberError, match=r"NaN in the (tangent|cotangent).*doubled.*test_debug\.py"):
        ndual.grad(f, mode=mode)(X)


def test_memory_that_value_and_derivative_do_not_share_alike(rule):
    f = rule(halves, lambda xp, y, x, dx, **rest: dx[0][:, :2].copy())
    with pytest.raises(ndual.AliasError, match="view"):
        ndual.grad(f, mode="forward")(X)
    f = rule(doubled, lambda xp, y, x, dx, **rest: dx[0])  # NDual copies the lanes then, so that nothing is lost
    assert ndual.grad(f, mode="forward")(X).tolist() == [1.0, 1.0, 1.0]


# ---- tables --------------------------------------------------------------------------------------------------------


def traced(x, c):
    y = np.sin(x) * c
    y[0] = 2.0
    z = y @ y
    return np.sqrt(z) + x[1]


def test_a_table_of_operations():
    x, c = np.linspace(0.1, 1.0, 100), np.ones(100)
    table = ndual.trace_table(traced, x, c)
    names = [row.operation for row in table.rows]
    assert names[:3] == ["sin", "multiply", "clear"]
    assert "numpy.matmul" in names and "sqrt" in names and "add" in names
    first = traced.__code__.co_firstlineno
    assert [row.line - first for row in table.rows[:3]] == [1, 1, 2]
    assert all(row.file == __file__ and row.function == "traced" for row in table.rows)
    assert table.rows[0].operands == ((100,),)
    assert table.rows[1].operands == ((100,), (100,))
    assert table.rows[1].results == ((100,),)
    assert table.rows[1].dtype == np.float64
    assert all(row.forward >= 0 and row.backward >= 0 for row in table.rows)
    assert sum(row.forward + row.backward for row in table.rows) <= table.seconds
    assert table.nbytes == sum(row.nbytes for row in table.rows) >= 2400  # x, the constant, y
    said = str(table)
    assert said == repr(table)
    assert f"test_debug.py:{first + 1}" in said and "100 100 -> 100" in said
    assert said.splitlines()[-1].startswith(f"{len(table)} operations: forward ")
    assert ndual.trace_table(traced, x, c, argnums=1).rows[0].operation == "multiply"


def test_a_long_table_is_cut_where_it_is_printed():
    def f(x):
        for _ in range(100):
            x = np.sin(x)
        return x

    table = ndual.trace_table(f, np.ones(3))
    assert len(table) == 100
    lines = str(table).splitlines()
    assert len(lines) == 63
    assert "40 more" in lines[31]


def test_tables_of_numbers_and_containers():
    def f(p):
        total = 0.0
        for v in p["a"]:
            total = total + v * v
        return {"out": total * p["b"]}

    table = ndual.trace_table(f, {"a": np.array([1.0, 2.0]), "b": 3.0})
    assert [row.operation for row in table.rows].count("multiply") == 3
    with pytest.raises(ndual.ArgumentTypeError):
        ndual.trace_table(3.0, X)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_memory_that_nothing_was_written_to_may_hold_anything(mode):
    def made_by(name):
        def f(x):
            y = _core.watched_rule(name, lambda: x * np.nan, (), (x,), {})
            y[...] = x * x
            return np.sum(y)

        with ndual.config(debug=True):
            return ndual.grad(f, mode=mode)(np.ones(3))

    assert (made_by("numpy.empty_like") == 2).all()
    with pytest.raises(ndual.NotANumberError):
        made_by("numpy.copy")
