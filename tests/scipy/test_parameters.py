"""Parameters in containers: flattened for SciPy, restored for the function and the result."""

from collections import namedtuple

import numpy as np
import pytest
from scipy import optimize

import ndual
import ndual.scipy

Line = namedtuple("Line", ["slope", "offset"])
X = np.linspace(-1.0, 1.0, 20)


def test_a_dict():
    seen = []

    def f(p):
        seen.append(p)
        return np.sum((p["scale"] * X + p["shift"][1] - p["shift"][0] * X**2 - (2.0 * X + 1.0 + 3.0 * X**2)) ** 2)

    p = ndual.scipy.problem(f, x0={"scale": 0.5, "shift": np.array([1.0, -1.0])})
    assert p.x0.tolist() == [0.5, 1.0, -1.0]
    assert p.x0 is not p.x0
    found = optimize.minimize(p.fun, p.x0, jac=p.jac, method="BFGS")
    best = p.restore(found.x)
    assert list(best) == ["scale", "shift"]
    assert best["scale"] == pytest.approx(2.0, abs=1e-5)
    assert best["shift"] == pytest.approx([-3.0, 1.0], abs=1e-5)
    assert isinstance(seen[0]["scale"], float) and seen[0]["shift"].shape == (2,)
    best["shift"][:] = 0.0
    assert found.x[1] == pytest.approx(-3.0, abs=1e-5)


@pytest.mark.parametrize(
    ("x0", "f", "vector", "gradient"),
    [
        (2.0, lambda a: a**3, [2.0], [12.0]),
        (2, lambda a: a**3, [2.0], [12.0]),
        ((2.0, 3.0), lambda p: p[0] * p[1], [2.0, 3.0], [3.0, 2.0]),
        ([2, 3], lambda x: np.sum(x**2), [2.0, 3.0], [4.0, 6.0]),
        ([[1.0, 2.0], [3.0, 4.0]], lambda x: x[0] @ x[1], [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 1.0, 2.0]),
        (np.array([[1, 2], [3, 4]]), lambda x: x[0] @ x[1], [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 1.0, 2.0]),
        (np.array([[1, 2], [3, 4]], np.float32).T, lambda x: x[0, 1] ** 2, [1.0, 3.0, 2.0, 4.0], [0.0, 6.0, 0.0, 0.0]),
        (np.array(3.0), lambda x: x * x, [3.0], [6.0]),
        (Line(2.0, 1.0), lambda p: p.slope * 4.0 + p.offset**2, [2.0, 1.0], [4.0, 2.0]),
        (({"a": [1.0, np.ones(2)]}, 5.0), lambda p: p[0]["a"][1] @ p[0]["a"][1] * p[1], [1.0, 1.0, 1.0, 5.0],
         [0.0, 10.0, 10.0, 2.0]),
        ({"w": 2.0, "kind": "square", "flag": True}, lambda p: p["w"] ** 2 if p["kind"] == "square" else 0.0, [2.0],
         [4.0]),
        ({"w": np.float32(0.1)}, lambda p: p["w"] ** 2, [float(np.float32(0.1))], [2.0 * float(np.float32(0.1))]),
        (1.0 + 2.0j, lambda z: abs(z) ** 2, [1.0, 2.0], [2.0, 4.0]),
        ({"z": np.array([1.0 + 2.0j, 3.0])}, lambda p: np.sum(np.abs(p["z"]) ** 2), [1.0, 2.0, 3.0, 0.0],
         [2.0, 4.0, 6.0, 0.0]),
    ],
)  # fmt: skip
def test_layouts(x0, f, vector, gradient):
    p = ndual.scipy.problem(f, x0=x0)
    assert p.x0.tolist() == vector
    assert p.fun(p.x0) == pytest.approx(f(p.restore(p.x0)))
    assert p.jac(p.x0) == pytest.approx(gradient, rel=1e-15)
    again = p.flatten(p.restore(p.x0 + 1.0))
    assert again.tolist() == [v + 1.0 for v in vector]
    assert p.jac(p.x0.astype(np.float32)) == pytest.approx(gradient, rel=1e-6)


def test_structure_and_types_come_back():
    x0 = Line([1.0, np.zeros((2, 1), np.float32)], {"z": 1j, "on": False, "name": "n", "none": None})
    p = ndual.scipy.problem(lambda q: q.slope[0], x0=x0)
    got = p.restore([5, 6, 7, 8, 9])
    assert type(got) is Line and type(got.slope) is list and type(got.slope[0]) is float
    assert got.slope[0] == 5.0
    assert got.slope[1].shape == (2, 1) and got.slope[1].dtype == np.float64
    assert got.offset == {"z": 8 + 9j, "on": False, "name": "n", "none": None}
    assert type(got.offset["z"]) is complex


def test_the_start_may_change_afterwards():
    start = np.ones(2)
    p = ndual.scipy.problem(lambda q: q["a"] @ q["a"], x0={"a": start})
    start[:] = 7.0
    assert p.x0.tolist() == [1.0, 1.0]


def test_residuals_and_bounds():
    p = ndual.scipy.problem(lambda q, t: q.slope * t + q.offset - (2.0 * t - 1.0), args=(X,), x0=Line(0.0, 0.5))
    bounds = p.flatten(Line(0.0, 0.0)), p.flatten(Line(1.5, np.inf))
    found = optimize.least_squares(p.fun, p.x0, jac=p.jac, bounds=bounds)
    best = p.restore(found.x)
    assert best.slope == pytest.approx(1.5)
    assert best.offset == pytest.approx(0.0, abs=1e-6)
    assert p.jac(p.x0).shape == (20, 2)


def test_a_function_that_writes_into_its_parameters():
    def f(q):
        q["a"] *= 2.0
        return np.sum(q["a"] ** 2)

    p = ndual.scipy.problem(f, x0={"a": np.array([1.0, 2.0])})
    x = p.x0
    assert (p.fun(x), p.jac(x).tolist(), x.tolist()) == (20.0, [8.0, 16.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("x0", "words"),
    [
        ({"a": 1, "b": 2.0}, r"x0\['a'\]: expected float parameters; got integers \(1\).*args="),
        ((1.0, np.arange(3)), r"x0\[1\]: expected float parameters; got integers"),
        ({"a": "b"}, "at least one float"),
        (np.array([object()]), "object array"),
    ],
)
def test_starts_that_are_refused(x0, words):
    with pytest.raises(ndual.ArgumentTypeError, match=words):
        ndual.scipy.problem(np.sum, x0=x0)


def test_calls_that_are_refused():
    p = ndual.scipy.problem(lambda q: q["a"] @ q["a"], x0={"a": np.ones(2)})
    for call in (p.fun, p.jac, p.restore):
        with pytest.raises(ndual.ArgumentValueError, match="vector of 2 parameters, as x0 has; got 3"):
            call(np.ones(3))
    with pytest.raises(ndual.CacheMismatchError, match=r"keys 'a'.*keys 'b'"):
        p.flatten({"b": np.ones(2)})
    with pytest.raises(ndual.ArgumentValueError, match="as in x0"):
        p.flatten({"a": np.ones(3)})
    with pytest.raises(ndual.ArgumentValueError, match=r"problem\(f, x0="):
        ndual.scipy.problem(np.sum).restore(np.ones(2))
