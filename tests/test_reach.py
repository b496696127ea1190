"""Where calls of intercepted functions may hide in user code: each way keeps the derivative, in every operator."""

import dataclasses
import functools
import itertools
import math
import operator
import sys
import types
from functools import partial
from math import sin as sine

import numpy as np
import pytest
from numpy import zeros

import ndual
from ndual.frontend._gate import Gate, TypeGate

X = np.array([0.6, 1.7, 2.3])
other = types.ModuleType("an_other_module")
squares = None
SOURCE = """
import math
import numpy as np
from numpy import zeros as make

def squares(x):
    out = make(3)
    for k in range(3):
        out[k] = x[k] ** 2
    return out

def deep(x):
    return np.array([v for v in squares(x)])

class Helper:
    offset = 0.0
    def __init__(self):
        self.calls = 0
    def method(self, x):
        self.calls += 1
        return squares(x)
    @staticmethod
    def static(x):
        return np.array([v * v for v in x])
    @classmethod
    def of_class(cls, x):
        return np.array([v * v + cls.offset for v in x])
    def __call__(self, x):
        return self.method(x)
    def __matmul__(self, x):
        return np.array([v * v for v in x])
    def __getitem__(self, x):
        return np.array([v * v for v in x])

class Child(Helper):
    def method(self, x):
        return super().method(x) + np.zeros(3)

class Point:
    def __init__(self, x):
        self.x = x
    @property
    def squared(self):
        out = np.empty(3)
        out[:] = [v * v for v in self.x]
        return out
    def __add__(self, other):
        return Point(np.array([a + b for a, b in zip(self.x, other.x)]))
    def __len__(self):
        return len(self.x)
"""


@pytest.fixture(scope="module", autouse=True)
def other_module():
    sys.modules["an_other_module"] = other
    exec(SOURCE, vars(other))
    globals().update(squares=other.squares)
    yield
    del sys.modules["an_other_module"]


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    for scope in (vars(np), vars(math), globals(), vars(sys.modules["an_other_module"])):
        assert not [name for name, value in scope.items() if type(value) in (Gate, TypeGate)]
    assert np.vectorize.__call__.__module__.startswith("numpy")


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        work = np.zeros(3)
        work[...] = f(*args, **kwargs)
        return work

    return wrapper


def generated(x):
    def cells():
        for k in range(3):
            cell = np.zeros(1)
            cell[0] = x[k] ** 2
            yield cell[0]

    return np.fromiter(cells(), float)


def closure(make, square):
    def f(x):
        out = make(3)
        for k in range(3):
            out[k] = square(x[k])
        return out

    return f


def with_default(x, make=np.zeros, *, again=np.array):
    out = make(3)
    out[:] = [v * v for v in x]
    return again([v + 0.0 for v in out])


def imports_inside(x):
    import math as mathematics

    import numpy
    from numpy import empty

    out = empty(3)
    out[:] = numpy.array([mathematics.pow(v, 2.0) for v in x])
    return out


def mutual(x, depth=3):
    return np.array([v * v for v in x]) if depth == 0 else again(x, depth - 1)


def again(x, depth):
    return mutual(x, depth)


def local_class(x):
    class Local:
        start = np.zeros(3)

        def run(self):
            out = self.start + np.array([v * v for v in x])
            out[0] = x[0] ** 2
            return out

    return Local().run()


@dataclasses.dataclass
class State:
    work: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    total: float = 0.0

    def fill(self, x):
        self.work[:] = [v * v for v in x]
        return self.work


def comprehension(x):
    rows = {k: np.array([v, 1.0]) for k, v in enumerate(x)}
    return np.array([rows[k][0] * rows[k][0] for k in sorted(rows, key=lambda k: k)])


def sorted_by(x):
    order = sorted(range(3), key=lambda k: -x[k])
    out = np.zeros(3)
    for k in order:
        out[k] = x[k] * max(x[k], 0.0) + min(0.0, x[k])
    return out


def caught(x):
    out = np.zeros(3)
    try:
        out[5] = x[0]
    except IndexError:
        out[:] = [abs(v) ** 2 for v in x]
    finally:
        out = out + np.zeros(3)
    return out


def with_context(x):
    with np.errstate(all="ignore"):
        return np.array([pow(v, 2) for v in x])


def walrus_and_match(x):
    if (n := len(x)) == 3:
        out = np.zeros(n)
    match out.shape:
        case (3,):
            out[:] = x * x
    return out


async def waiting(x):
    out = np.zeros(3)
    out[:] = [v * v for v in x]
    return out


def coroutine(x):
    try:
        waiting(x).send(None)
    except StopIteration as done:
        return done.value


FORMS = {
    "direct": lambda x: np.array([x[0] ** 2, x[1] ** 2, x[2] ** 2]),
    "from-import": lambda x: operator.iadd(zeros(3), np.array([v * v for v in x])),
    "helper": lambda x: squares(x),
    "helper of another module": lambda x: other.squares(x),
    "two modules down": lambda x: other.deep(x),
    "method": lambda x: other.Helper().method(x),
    "static method": lambda x: other.Helper.static(x),
    "class method": lambda x: other.Helper.of_class(x),
    "callable object": lambda x: other.Helper()(x),
    "operator": lambda x: other.Helper() @ x,
    "item": lambda x: other.Helper()[x],
    "super": lambda x: other.Child().method(x),
    "property": lambda x: other.Point(x).squared,
    "added": lambda x: (other.Point(x * x) + other.Point(np.zeros(3))).x,
    "decorator": decorated(lambda x: np.array([v * v for v in x])),
    "decorated twice": decorated(decorated(lambda x: x * x)),
    "generator": generated,
    "closure": closure(np.zeros, lambda v: v * v),
    "closure over math": closure(np.empty, lambda v: math.pow(v, 2)),
    "default argument": with_default,
    "partial": lambda x: partial(np.full, 3)(1.0) * np.array(list(map(partial(math.pow), x, [2.0] * 3))),
    "partial of the function": partial(closure(np.ones, lambda v: v**2)),
    "reduce": lambda x: functools.reduce(lambda out, k: out + np.eye(3)[k] * x[k] ** 2, range(3), np.zeros(3)),
    "map": lambda x: np.array(list(map(math.exp, map(math.log, x * x)))),
    "filter": lambda x: np.array([v * v for v in filter(lambda v: v > 0, x)]),
    "accumulate": lambda x: np.diff(np.array([0.0, *itertools.accumulate(v * v for v in x)])),
    "star": lambda x: np.array([*[v * v for v in x]]),
    "import inside": imports_inside,
    "recursion": mutual,
    "class inside": local_class,
    "dataclass": lambda x: State().fill(x),
    "comprehension": comprehension,
    "sorted": sorted_by,
    "exceptions": caught,
    "context manager": with_context,
    "match": walrus_and_match,
    "coroutine": coroutine,
    "eval": lambda x: eval("np.array([v * v for v in x])", {"np": np, "x": x}),
    "getattr": lambda x: getattr(np, "array")([v * v for v in x]),  # noqa: B009
    "sum": lambda x: sum((np.eye(3)[k] * x[k] * x[k] for k in range(3)), np.zeros(3)),
    "round and divmod": lambda x: np.array([divmod(v * v, 100.0)[1] + 0 * round(v, 1) for v in x]),
    "vectorize": lambda x: np.vectorize(lambda v: v * v)(x),
    "vectorized, cells and number": lambda x: np.vectorize(lambda v, w: v * w if v > 0 else 0.0)(x, x),
    "frompyfunc": lambda x: np.frompyfunc(lambda v: v * v, 1, 1)(x).astype(float),
    "piecewise": lambda x: np.piecewise(x, [x > 0, x <= 0], [lambda v: v * v, 0.0]),
    "fromfunction": lambda x: np.fromfunction(lambda k: x[k.astype(int)] ** 2, (3,)),
    "sine": lambda x: x * x + 0 * sine(x[0]),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_keeps_the_derivative(name):
    f = FORMS[name]
    want = np.diag(2 * X)
    for width in (1, 3):
        np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(X), want, rtol=1e-12)
    value, tangent = ndual.jvp(f, (X,), (np.ones(3),))
    np.testing.assert_allclose(value, X * X, rtol=1e-12)
    np.testing.assert_allclose(tangent, 2 * X, rtol=1e-12)
    prepared = ndual.prepare_jacobian(f, X)
    for _ in range(2):
        np.testing.assert_allclose(prepared(X)[1], want, rtol=1e-12)


KEPT = np.zeros(3)
OBJECT = types.SimpleNamespace(work=np.zeros(3))


@pytest.mark.parametrize("place", ["global", "attribute", "closure"])
def test_buffers_made_outside_are_loud(place):
    enclosed = np.zeros(3)

    def f(x):
        work = {"global": KEPT, "attribute": OBJECT.work, "closure": enclosed}[place]
        work[0] = x[0]
        return np.sum(work)

    with pytest.raises(ndual.DerivativeLostError, match=r"test_reach\.py"):
        ndual.grad(f)(X)
    assert KEPT.tolist() == OBJECT.work.tolist() == enclosed.tolist() == [0.0] * 3


def test_random_numbers_are_constants():
    rng = np.random.default_rng(3)

    def f(x):
        noise = np.random.standard_normal(3) + np.random.rand(3) + np.random.normal(size=3)
        assert type(noise) is np.ndarray
        assert type(rng.random(3)) is np.ndarray
        return np.sum(noise * 0 + x * x)

    assert ndual.grad(f)(X) == pytest.approx(2 * X)


@np.vectorize
def step(v, low):
    return v * v if v > low else math.exp(v)


def test_a_function_vectorized_outside():
    grid = np.array([[0.5], [2.0]])

    def f(x):
        return step(x, 1.0).sum() + np.vectorize(lambda t: t * x[0])(grid).sum() + step(x[1], low=5.0)

    assert ndual.grad(f)(X) == pytest.approx([math.exp(0.6) + 2.5, 2 * 1.7 + math.exp(1.7), 2 * 2.3])
    inner = np.vectorize(lambda a, b: np.sum(a * b), signature="(n),(n)->()")
    rows = np.arange(6.0).reshape(2, 3)
    assert ndual.jacobian(lambda x: inner(rows, x))(X) == pytest.approx(rows)
    halves = np.vectorize(lambda v: (v / 2, v * v))
    assert ndual.jacobian(lambda x: halves(x)[1])(X) == pytest.approx(np.diag(2 * X))


def test_functions_that_give_duals_for_a_plain_array():
    plain = np.arange(4.0).reshape(2, 2)

    def pieces(x):
        return np.piecewise(plain, [plain < 1, plain > 2], [x[0], lambda t: t**2 * x[1], lambda t: t * x[2]]).ravel()

    rows = ndual.jacobian(lambda x: np.apply_along_axis(lambda row: row * x[0] + x[1:], 1, plain).ravel())(X)
    assert np.array_equal(ndual.jacobian(pieces)(X), [[1, 0, 0], [0, 0, 1], [0, 0, 2], [0, 9, 0]])
    assert np.array_equal(rows, [[0, 1, 0], [1, 0, 1], [2, 1, 0], [3, 0, 1]])


def test_selection_where_a_type_of_numpy_is_named():
    def f(x):
        return np.select([np.array([[True], [False]]), np.zeros(3, bool)], [x, 1.0], 3.0).ravel()

    assert np.array_equal(ndual.jacobian(f)(X), np.vstack([np.eye(3), np.zeros((3, 3))]))


def test_an_array_for_a_sequence():
    assert np.array_equal(ndual.grad(lambda x: math.fsum(x))(X), np.ones(3))
    assert np.array_equal(ndual.grad(lambda x: np.ones(3).dot([x[0], 2.0, x[1]]))(X), [1, 1, 0])


def test_a_constant_written_by_the_method_of_brackets():
    work = np.ones(2)
    f = lambda x, out: (out.__setitem__(0, x[0] * x[1]), operator.setitem(out, 1, x[2]), out.sum())[2]  # noqa: E731
    assert np.allclose(ndual.grad(f)(X, work), [1.7, 0.6, 1.0], rtol=1e-15)
    assert work.tolist() == [1.0, 1.0]
