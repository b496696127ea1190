"""``@ndual.lift``: a lifted function is otherwise the function it was, and what cannot be lifted is refused."""

import contextlib
import functools
import inspect
import pickle
import sys
import traceback
import types

import numpy as np
import pytest

import ndual


def value_and_slope(f, x=3.0):
    value, slope = ndual.value_and_grad(f)(x)
    return float(value), float(slope)


@ndual.lift
def cube(x):
    return float(x) ** 3


def twice(f):
    @functools.wraps(f)
    def wrapper(*args):
        return 2 * f(*args)

    return wrapper


# ---- the function it was -------------------------------------------------------------------------------------------


def make_counter():
    count = 0

    def step(x, by: "float" = 1.0, *, sign: "int" = 1) -> "float":
        """Counts."""
        nonlocal count
        count += 1
        return float(x) * by * sign * count

    return step, lambda: count


def test_closures_are_shared():
    step, count = make_counter()
    lifted = ndual.lift(step)
    assert value_and_slope(lifted) == (3.0, 1.0)
    assert count() == 1
    assert step(2.0) == 4.0
    assert count() == 2
    assert value_and_slope(lifted) == (9.0, 3.0)
    assert lifted.__closure__ == step.__closure__


def test_what_a_function_carries():
    step, _ = make_counter()
    step.note = "kept"
    lifted = ndual.lift(step)
    assert inspect.signature(lifted) == inspect.signature(step)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__", "note"):
        assert getattr(lifted, name) == getattr(step, name), name
    assert lifted.__annotations__ == step.__annotations__ == {"by": "float", "sign": "int", "return": "float"}
    assert not hasattr(lifted, "__wrapped__")
    assert lifted.__code__ is not step.__code__
    assert inspect.getsource(lifted) == inspect.getsource(step)
    assert pickle.loads(pickle.dumps(cube)) is cube
    outer = ndual.lift(twice(cube))
    assert outer.__wrapped__ is not cube and outer.__wrapped__(2.0) == 8.0
    assert ndual.lift(cube)(2.0) == 8.0


def test_the_lambda_that_was_meant():
    pair = (lambda x: float(x), lambda x: 2 * float(x))
    same = [lambda x: 3 * float(x) for _ in range(2)]
    twins = (lambda x: float(x) + 1), (lambda x: float(x) + 1)
    assert [value_and_slope(ndual.lift(f)) for f in pair] == [(3.0, 1.0), (6.0, 2.0)]
    assert [value_and_slope(ndual.lift(f)) for f in (*same, *twins)] == [(9.0, 3.0)] * 2 + [(4.0, 1.0)] * 2
    for f in twins:
        assert list(ndual.lift(f).__code__.co_positions())[-1] == list(f.__code__.co_positions())[-1]


def test_generators_and_coroutines():
    @ndual.lift
    def generated(x):
        yield float(x)
        got = yield 2 * float(x)
        yield got * x

    def f(x):
        g = generated(x)
        return next(g) + next(g) + g.send(4.0)

    @ndual.lift
    async def awaited(x):
        return float(x) ** 2

    def g(x):
        with pytest.raises(StopIteration) as stop:
            awaited(x).send(None)
        return stop.value.value

    assert inspect.isgeneratorfunction(generated) and inspect.iscoroutinefunction(awaited)
    assert value_and_slope(f) == (21.0, 7.0)
    assert value_and_slope(g) == (9.0, 6.0)


@ndual.lift
def fails(x, work=np.zeros(1)):  # noqa: B008
    """Fails."""
    y = float(x)
    with contextlib.suppress(KeyError):
        return max(
            y,
            1 // int(y - y),
            2,
        )
    return None


def test_tracebacks_name_the_line():
    for call in (fails, ndual.grad(fails)):
        with pytest.raises(ZeroDivisionError) as caught:
            call(3.0)
        frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.name == "fails"]
        assert [(frame.filename, frame.line) for frame in frames] == [(__file__, "1 // int(y - y),")]


def test_errors_of_calls_are_those_of_the_function():
    f = ndual.lift(lambda g: g(1))
    for g in (3, lambda: None):
        with pytest.raises(TypeError) as plain:
            (lambda g: g(1))(g)
        with pytest.raises(TypeError) as lifted:
            f(g)
        assert str(lifted.value).rpartition(".")[2] == str(plain.value).rpartition(".")[2]


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [np.sin, len, 3.0, functools.lru_cache(cube), object()])
def test_what_is_no_function_is_refused(target):
    with pytest.raises(ndual.ArgumentTypeError, match="next to def"):
        ndual.lift(target)


def test_a_wrapper_that_hides_its_function_is_refused():
    with pytest.raises(ndual.ArgumentTypeError, match="keeps the function from it"):
        ndual.lift(ndual.grad(cube))


def test_no_source():
    namespace = {}
    exec("def f(x): return float(x)", namespace)
    with pytest.raises(ndual.ArgumentValueError, match=r"no source at <string>:1.*x\[\(\)\]"):
        ndual.lift(namespace["f"])


def test_a_file_that_changed(tmp_path, monkeypatch):
    path = tmp_path / "changing.py"
    path.write_text("def f(x): return float(x)\ng = lambda x: float(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import changing

    path.write_text("def f(x): return 2 * float(x)\ng = lambda x: 2 + float(x)\n")
    for f in (changing.f, changing.g):
        with pytest.raises(ndual.ArgumentValueError, match=r"changing\.py:\d"):
            ndual.lift(f)
    path.write_text("import (\n")
    with pytest.raises(ndual.ArgumentValueError):
        ndual.lift(changing.f)
    del sys.modules["changing"]


def test_functions_whose_asserts_pytest_rewrote():
    def checked(x):
        y = float(x)
        assert y > 0
        return y

    assert value_and_slope(ndual.lift(checked)) == (3.0, 1.0)


def test_an_empty_cell_and_a_shadowed_name():
    def outer():
        @ndual.lift
        def inner(x):
            return late(x)

        def late(x, float=lambda x: 5 * x):  # noqa: A002
            return float(x)

        return inner, late

    inner, late = outer()
    assert value_and_slope(inner) == (15.0, 5.0)
    assert value_and_slope(ndual.lift(late)) == (15.0, 5.0)
    assert isinstance(inner, types.FunctionType)
