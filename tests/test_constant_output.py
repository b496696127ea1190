"""A constant output warns where active values were compared on the way, and only there."""

import math
import warnings

import numpy as np
import pytest

import ndual

X = np.array([0.3, 1.7, 2.2])

STEPS = {
    "a branch": lambda x: 1.0 if x[0] > 1 else 0.0,
    "int()": lambda x: float(int(x[0])),
    "bool()": lambda x: 1.0 if x[0] else 0.0,
    "round()": lambda x: round(x[0]) * 1.0,
    "round() to digits": lambda x: round(x[0], 1),
    "//": lambda x: x[0] // 1,
    "divmod": lambda x: divmod(x[0], 1.0)[0],
    "in": lambda x: 1.0 if 1.7 in x else 0.0,
    "sorted": lambda x: [1.0, 2.0, 3.0][sorted(range(3), key=lambda i: x[i])[0]],
    "index of min": lambda x: [1.0, 2.0][[x[0], x[1]].index(min(x[0], x[1]))],
    "math.floor": lambda x: 1.0 * math.floor(x[0]),
    "math.trunc": lambda x: 1.0 * math.trunc(x[0]),
    "math.isclose": lambda x: 1.0 * math.isclose(x[0], 1.3),
    "is_integer": lambda x: 1.0 * x[0].is_integer(),
    "floor": lambda x: np.sum(np.floor(x)),
    "sign": lambda x: np.sum(np.sign(x)),
    "rint": lambda x: np.sum(np.rint(x)),
    "np.round": lambda x: np.sum(np.round(x, 1)),
    "fix": lambda x: np.fix(x[0]),
    "heaviside": lambda x: np.heaviside(x[1], 0.5),
    "astype(int)": lambda x: 1.0 * np.sum(x.astype(int)),
    "argmax": lambda x: 1.0 * np.argmax(x),
    "the method": lambda x: 1.0 * x.argmax(),
    "argsort": lambda x: 1.0 * np.argsort(x)[0],
    "any": lambda x: 1.0 * np.any(x > 0),
    "where": lambda x: np.sum(np.where(x > 1, 1.0, 0.0)),
    "count_nonzero": lambda x: 1.0 * np.count_nonzero(x),
    "searchsorted": lambda x: 1.0 * np.searchsorted([0.0, 1.0], x[0]),
    "digitize": lambda x: 1.0 * np.sum(np.digitize(x, [1.0, 2.0])),
    "allclose": lambda x: 1.0 * np.allclose(x, 1),
    "unique counts": lambda x: 1.0 * np.unique(x, return_counts=True)[1].sum(),
    "a cell of an integer array": lambda x: 1.0 * np.bincount([int(v) for v in x]).sum(),
    "text": lambda x: 1.0 * len(str(x[0])),
}
CONSTANTS = {
    "size": lambda x: 1.0 * np.size(x) * x.size * len(x),
    "shape": lambda x: np.sum(np.zeros(x.shape)) + np.shape(x)[0],
    "dtype": lambda x: 1.0 if x.dtype == float and np.result_type(x, 1.0) == np.dtype(float) else 0.0,
    "a type": lambda x: 1.0 if isinstance(x, np.ndarray) and not np.iscomplexobj(x) else 0.0,
    "a constant": lambda x: 3.0,
    "stop_gradient": lambda x: np.sum(ndual.stop_gradient(x)),
    "a constant compared": lambda x: 1.0 if np.zeros(3)[0] < 1 else 0.0,
}
DEPENDENT = {
    "a branch": lambda x: np.sum(x * x) if x[0] > 1 else np.sum(x),
    "a stationary point": lambda x: np.sum((x - X) ** 2) if x[0] < 5 else 0.0,
    "a floor beside": lambda x: np.sum(np.floor(x) + x),
}


def warned(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    assert all(w.category is ndual.ConstantOutputWarning and w.filename == __file__ for w in seen)
    return len(seen)


@pytest.mark.parametrize("name", STEPS)
def test_steps_warn(name):
    f = STEPS[name]
    assert warned(lambda: np.testing.assert_array_equal(ndual.grad(f)(X), np.zeros(3))) == 1
    assert warned(lambda: ndual.grad(f, chunk_size=2)(X)) == 1
    assert warned(lambda: ndual.jvp(f, (X,), (X,))) == 1


@pytest.mark.parametrize("f", [*CONSTANTS.values(), *DEPENDENT.values()], ids=[*CONSTANTS, *DEPENDENT])
def test_nothing_else_does(f):
    assert warned(lambda: ndual.grad(f)(X)) == 0
    assert warned(lambda: ndual.grad(f, chunk_size=2)(X)) == 0
    assert warned(lambda: ndual.jvp(f, (X,), (X,))) == 0


def test_every_operator_warns_at_the_callers_line():
    whole = (X,), (X,)
    calls = (
        lambda: ndual.jacobian(np.floor)(X),
        lambda: ndual.jacobian(np.floor, chunk_size=2)(X),
        lambda: ndual.jacfwd(lambda x: {"a": np.floor(x), "b": 1.0 * (x > 1)})(X),
        lambda: ndual.derivative(lambda t: np.floor(t))(1.3),
        lambda: ndual.prepare_gradient(STEPS["floor"], X)(X),
        lambda: ndual.prepare_jacobian(lambda x: np.floor(x), X)(X),
        lambda: ndual.prepare_derivative(STEPS["where"], X)(*whole),
    )
    assert [warned(call) for call in calls] == [1] * len(calls)
    assert warned(lambda: ndual.jacobian(lambda x: (np.floor(x), x))(X)) == 0
