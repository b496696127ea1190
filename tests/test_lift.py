"""``@ndual.lift``: what it adds."""

import functools
import sys

import numpy as np
import pytest
import scipy.linalg

import ndual

A = np.array([[2.0, 1.0], [1.0, 3.0]])
B = np.array([1.0, 1.0])
WANT = -np.outer(np.linalg.solve(A.T, np.ones(2)), np.linalg.solve(A, B))
SOLVERS = {"solve": scipy.linalg.solve}


def twice(f):
    @functools.wraps(f)
    def wrapper(*args):
        return 2 * f(*args)

    return wrapper


def value_and_slope(f, x=3.0):
    value, slope = ndual.value_and_grad(f)(x)
    return float(value), float(slope)


# ---- what it adds ------------------------------------------------------------------------------------------------


@ndual.lift
def cube(x):
    return float(x) ** 3


@ndual.lift
def by_map(x):
    return sum(map(float, [x, 2 * x])) * max([x], key=float)


@ndual.lift
def by_array(x):
    out = np.ndarray(2)
    out[0], out[1] = x, x * x
    return np.sum(out)


@ndual.lift
def by_buffer(x, work=np.zeros(3)):  # noqa: B008
    """A default that is written into."""
    work[1] = x * x
    return np.sum(work)


@ndual.lift
def by_keyword(x, *, work=np.ones(2)):  # noqa: B008
    work[0] *= x
    return work[0] * work[1]


@ndual.lift
def by_default(x, zeros=np.zeros):
    out = zeros(2)
    out[0] = x
    return out[0] ** 2


@ndual.lift
def inner_functions(x):
    number = float

    def inner(y, kind=float):
        return kind(y) * number(y)

    return inner(x) + sum(float(v) for v in [x])


@ndual.lift
def plain_int(x):
    return int(x) * x


class Model:
    scale = 2.0

    def __init__(self, solver=None):
        self.solver = solver

    @ndual.lift
    def method(self, x):
        return float(x) * self.__factor(x)

    def __factor(self, x):
        return self.scale * x

    @staticmethod
    @ndual.lift
    def static(x):
        return float(x) ** 2

    @ndual.lift
    @staticmethod
    def static_below(x):
        return float(x) ** 2

    @classmethod
    @ndual.lift
    def of_class(cls, x):
        return cls.scale * float(x)

    @property
    @ndual.lift
    def factor(self):
        return float(self.solver)

    @ndual.lift
    def solve(self, a):
        return np.sum(self.solver(a, B))


class Child(Model):
    @ndual.lift
    def method(self, x):
        return super().method(float(x)) + __class__.scale * x


@pytest.mark.parametrize(
    ("f", "value", "slope"),
    [
        (cube, 27.0, 27.0),
        (by_map, 27.0, 18.0),
        (by_array, 12.0, 7.0),
        (by_buffer, 9.0, 6.0),
        (by_keyword, 3.0, 1.0),
        (by_default, 9.0, 6.0),
        (inner_functions, 12.0, 7.0),
        (plain_int, 9.0, 3.0),
        (Model().method, 18.0, 12.0),
        (Model.static, 9.0, 6.0),
        (Model.static_below, 9.0, 6.0),
        (Model().of_class, 6.0, 2.0),
        (lambda x: Model(x).factor, 3.0, 1.0),
        (Child().method, 24.0, 14.0),
        (ndual.lift(Child().method), 24.0, 14.0),
        (ndual.lift(lambda x: float(x) * x), 9.0, 6.0),
        (ndual.lift(lambda x, w=np.zeros(1): (w.fill(x), w[0] ** 2)[1]), 9.0, 6.0),  # noqa: B008
        (ndual.lift(functools.partial(lambda a, x: a * float(x), 2.0)), 6.0, 2.0),
        (twice(cube), 54.0, 54.0),
        (ndual.lift(twice(lambda x: float(x) * x)), 18.0, 12.0),
    ],
)
def test_derivatives_are_kept(f, value, slope):
    assert value_and_slope(f) == (value, slope)
    assert value_and_slope(f) == (value, slope)
    prepared = ndual.prepare_gradient(f, 3.0)
    assert [float(v) for v in prepared(3.0)] == [value, slope]


def test_without_lift_it_raises():
    for f in (lambda x: float(x) ** 3, lambda x, work=np.zeros(3): (work.fill(x), np.sum(work))[1]):  # noqa: B008
        with pytest.raises(ndual.DerivativeLostError, match=r"test_lift\.py"):
            ndual.grad(f)(3.0)


def test_functions_from_containers_and_attributes_reach_their_rules():
    @ndual.lift
    def from_container(a):
        return np.sum(SOLVERS["solve"](a, B))

    @ndual.lift
    def from_default(a, solve=SOLVERS["solve"]):
        return np.sum(solve(a, B))

    @ndual.lift
    def from_partial(a, solve=functools.partial(SOLVERS["solve"], assume_a="gen")):  # noqa: B008
        return np.sum(solve(a, B))

    for f in (from_container, from_default, from_partial, Model(SOLVERS["solve"]).solve):
        np.testing.assert_allclose(ndual.grad(f)(A), WANT)


def test_complex_numbers():
    f = ndual.lift(lambda x: abs(complex(x, 2 * x) * complex(x)))
    assert value_and_slope(f) == pytest.approx((9 * 5**0.5, 6 * 5**0.5))
    with pytest.raises(TypeError):
        ndual.lift(lambda z: float(z))(1j)
    with pytest.raises(TypeError):
        ndual.grad(ndual.lift(lambda x: float(complex(x))))(3.0)


def test_types_are_still_types():
    @ndual.lift
    def f(x):
        y = np.zeros(1, dtype=float)
        assert isinstance(y, np.ndarray) and isinstance(float(x), float) and type(1.0) is float  # noqa: UP003
        assert float("1.5") == 1.5 and float() == 0.0 and complex() == 0j and float(np.float32(2)) == 2.0  # noqa: UP018
        return x.astype(float)

    assert value_and_slope(f) == (3.0, 1.0)


def test_float_of_an_array_and_of_an_object():
    class Number:
        def __init__(self, x):
            self.x = x

        def __float__(self):
            return self.x

    assert ndual.grad(ndual.lift(lambda x: float(x) ** 2))(np.array([3.0])).tolist() == [6.0]
    assert value_and_slope(ndual.lift(lambda x: float(Number(x)) ** 2)) == (9.0, 6.0)
    with pytest.raises(TypeError):
        ndual.grad(ndual.lift(lambda x: float(x)))(np.array([3.0, 4.0]))


# ---- default buffers -----------------------------------------------------------------------------------------------


def test_each_derivative_starts_from_the_default_as_it_is():
    @ndual.lift
    def f(x, memory=np.zeros(1)):  # noqa: B008
        memory[0] = memory[0] + x * x
        return memory[0]

    def both(x):
        f(x)
        return f(x)

    assert value_and_slope(both) == (18.0, 12.0)
    assert value_and_slope(both) == (18.0, 12.0)
    assert f.__defaults__[0].tolist() == [0.0]
    assert f(2.0) == 4.0 and f(2.0) == 8.0
    assert value_and_slope(f) == (17.0, 6.0)
    own = np.zeros(1)
    with pytest.raises(ndual.DerivativeLostError):
        ndual.grad(lambda x: f(x, own))(3.0)


def test_nested_derivatives_start_from_the_buffer_of_the_one_around():
    @ndual.lift
    def keep(x, memory=np.zeros(1)):  # noqa: B008
        memory[0] = memory[0] + x
        return memory[0]

    def outer(x):
        keep(x)
        slope = ndual.grad(lambda y: keep(y) * y)(2.0)  # of (x + y) * y
        return slope * keep(0.0)  # (x + 2 * 2) * x: what was written inside ended there

    assert value_and_slope(outer) == (21.0, 10.0)
    assert ndual.grad(ndual.grad(by_buffer))(3.0) == 2.0
    assert ndual.grad(ndual.grad(cube))(3.0) == 18.0


def test_integer_buffers_take_plain_values_or_raise():
    f = ndual.lift(lambda x, counts=np.zeros(2, int): (counts.fill(int(x)), counts[0] * x)[1])  # noqa: B008
    assert value_and_slope(f) == (9.0, 3.0)


# ---- classes and modules -------------------------------------------------------------------------------------------


def test_classes_and_modules_are_lifted_in_place(tmp_path, monkeypatch):
    (tmp_path / "lifted_module.py").write_text(
        "import functools\n"
        "from math import floor\n"
        "def square(x): return float(x) ** 2\n"
        "def helper(x): return square(float(x)) + 1\n"
        "def wrapped(f):\n"
        "    @functools.wraps(f)\n"
        "    def call(x): return f(x)\n"
        "    return call\n"
        "@wrapped\n"
        "def behind(x): return 3 * float(x)\n"
        "class Model:\n"
        "    def __init__(self, x): self.x = float(x)\n"
        "    @property\n"
        "    def twice(self): return 2 * float(self.x)\n"
        "    @functools.cached_property\n"
        "    def thrice(self): return 3 * float(self.x)\n"
        "    @staticmethod\n"
        "    def half(x): return float(x) / 2\n"
        "    class Inner:\n"
        "        def call(self, x): return float(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import lifted_module as module

    from_import = module.helper
    functions = [
        lambda x: from_import(x) - 1,
        module.behind,
        lambda x: module.Model(x).twice,
        lambda x: module.Model(x).thrice,
        lambda x: module.Model(x).half(x),
        lambda x: module.Model.Inner().call(x),
    ]
    for f in functions:
        with pytest.raises(ndual.DerivativeLostError):
            ndual.grad(f)(3.0)
    assert ndual.lift(module) is module
    assert [value_and_slope(f)[1] for f in functions] == [6.0, 3.0, 2.0, 3.0, 0.5, 1.0]
    assert ndual.lift(module.Model) is module.Model
    del sys.modules["lifted_module"]
