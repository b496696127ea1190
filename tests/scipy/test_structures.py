"""Solvers that take and return structures."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.optimize

import ndual
import ndual.scipy

Pair = namedtuple("Pair", "a b")
METHODS = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "dogleg",
           "trust-constr", "Nelder-Mead", "Powell", "COBYLA", None]  # fmt: skip


@dataclass(frozen=True)
class Inner:
    rate: float
    unit: str = "m"


@dataclass
class Model:
    inner: object
    w: np.ndarray
    parts: object = None


def start():
    return Model(Inner(0.5), np.array([0.0, 0.0]), [Pair(0.0, "text"), {"k": 0.2}])


def objective(p, shift=0.0):
    near = (p.inner.rate - 1.0) ** 2 + np.sum((p.w - np.array([2.0, 3.0])) ** 2)
    return near + (p.parts[0].a - 4.0 - shift) ** 2 + (p.parts[1]["k"] - p.inner.rate) ** 2


def check(found, rel=1e-4, shift=0.0):
    assert type(found) is Model
    assert (type(found.inner), found.inner.unit, found.parts[0].b) == (Inner, "m", "text")
    got = [found.inner.rate, *found.w, found.parts[0].a, found.parts[1]["k"]]
    assert got == pytest.approx([1.0, 2.0, 3.0, 4.0 + shift, 1.0], rel=rel)


@pytest.mark.parametrize("method", METHODS)
def test_minimize(method):
    if method is None:
        found = ndual.scipy.minimize(objective, start(), (1.0,))
    else:
        found = ndual.scipy.minimize(objective, start(), 1.0, method=method, tol=1e-8)
    check(found.x, 1e-3, 1.0)
    assert found.vector.shape == (5,)
    assert found.success


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_residuals_and_roots(mode):
    def f(p):
        return np.stack([
            p.inner.rate - 1.0, p.w[0] - 2.0, p.w[1] - 3.0, p.parts[0].a - 4.0, p.parts[1]["k"] - p.inner.rate,
        ])  # fmt: skip

    check(ndual.scipy.least_squares(f, start(), mode=mode).x)
    check(ndual.scipy.root(f, start(), mode=mode).x)
    check(ndual.scipy.root(f, start(), method="lm", mode=mode).x)
    check(ndual.scipy.root(f, start(), method="krylov", mode=mode).x)


def test_bounds():
    low = Model(Inner(0.0), np.array([-9.0, -9.0]), [Pair(-9.0, "text"), {"k": -9.0}])
    high = Model(Inner(9.0), np.array([1.5, 9.0]), [Pair(9.0, "text"), {"k": 9.0}])
    found = ndual.scipy.minimize(objective, start(), bounds=(low, high))
    assert found.x.w == pytest.approx([1.5, 3.0], rel=1e-4)
    found = ndual.scipy.least_squares(lambda p: p["a"] - np.array([1.0, 2.0]), {"a": np.zeros(2)},
                                      bounds=({"a": np.full(2, -1.0)}, {"a": np.full(2, 1.5)}))  # fmt: skip
    assert found.x["a"] == pytest.approx([1.0, 1.5], rel=1e-4)
    found = ndual.scipy.minimize(lambda x: np.sum((x - 3.0) ** 2), np.zeros(2), bounds=[(0.0, 1.0), (0.0, 9.0)])
    assert found.x == pytest.approx([1.0, 3.0])
    with pytest.raises(ndual.ArgumentValueError, match="a pair of lower and upper bounds"):
        ndual.scipy.minimize(objective, start(), bounds=[(0.0, 1.0)] * 5)


def test_vectors_and_numbers():
    found = ndual.scipy.minimize(scipy.optimize.rosen, np.array([-1.2, 1.0]), method="trust-exact")
    assert found.x == pytest.approx([1.0, 1.0], rel=1e-5)
    assert found.x.shape == (2,)
    assert ndual.scipy.minimize(lambda x: (x - 3.0) ** 2, 0.0).x == pytest.approx(3.0)
    with pytest.raises(ndual.ArgumentTypeError, match=r"x0\['n'\]: expected float parameters; got integers"):
        ndual.scipy.minimize(lambda p: p["a"] ** 2, {"a": 1.0, "n": 3})
