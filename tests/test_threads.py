"""Interception on one thread leaves the others, children of a fork, and everything that outlives the call alone."""

import functools
import importlib
import math
import os
import sys
import threading
from math import sin as sine

import numpy as np
import pytest
from numpy import zeros

import ndual
from ndual._core._dual import swaps
from ndual.frontend._gate import Gate, TypeGate

X = np.array([0.6, 1.7, 2.3])
ORIGINALS = {
    (np, "zeros"): np.zeros, (np, "array"): np.array, (np, "float64"): np.float64, (np, "linspace"): np.linspace,
    (math, "sin"): math.sin, (math, "exp"): math.exp,
}  # fmt: skip


def assert_removed():
    assert swaps() == 0
    for (module, name), original in ORIGINALS.items():
        assert getattr(module, name) is original
    assert zeros is np.zeros
    assert sine is math.sin


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    assert_removed()


def f(x):
    out = zeros(3)
    for k in range(3):
        out[k] = math.sin(x[k]) * np.float64(x[k])
    return np.sum(np.array([out[0], out[1], sine(x[2]) * x[2]]))


WANT = np.sin(X) + X * np.cos(X)


def unproven(x):
    return eval("f")(x)


@pytest.mark.parametrize("call", [f, unproven])
def test_three_others_hammer_numpy(call):
    stop, wrong = threading.Event(), []
    array, real = np.ndarray, np.float64

    def hammer():
        while not stop.is_set():
            if not (
                type(np.zeros(3)) is array
                and type(np.array([1.0, 2.0])) is array
                and type(zeros(3)) is array
                and type(math.sin(0.5)) is float
                and type(np.float64(0.5)) is real
                and np.vectorize(lambda v: v)(np.zeros(2)).sum() == 0.0
            ):
                wrong.append("lifted")

    helpers = [threading.Thread(target=hammer) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in helpers:
            t.start()
        for _ in range(40):
            np.testing.assert_allclose(ndual.grad(call, chunk_size=1)(X), WANT, rtol=1e-12)
    finally:
        stop.set()
        for t in helpers:
            t.join()
        sys.setswitchinterval(interval)
    assert not wrong


def test_two_threads_differentiate():
    failed = []

    def differentiate(call):
        right = [np.allclose(ndual.grad(call)(X), WANT, rtol=1e-12) for _ in range(40)]
        if not all(right):
            failed.append(call)

    workers = [threading.Thread(target=differentiate, args=(call,)) for call in (f, unproven, f)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert not failed


def test_a_worker_thread_inside_is_loud():
    def spawns(x):
        result = []
        worker = threading.Thread(target=lambda: result.append(_caught(lambda: math.sin(x[0]))))
        worker.start()
        worker.join()
        assert isinstance(result[0], ndual.NdualError)
        return np.sum(x)

    with pytest.raises(ndual.StaleDualError, match="another thread"):
        ndual.grad(spawns)(X)


def _caught(call):
    try:
        return call()
    except Exception as error:
        return error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle():
    def forks(x):
        out = np.zeros(3)
        child = os.fork()
        if child == 0:
            clean = all(getattr(module, name) is original for (module, name), original in ORIGINALS.items())
            os._exit(0 if clean and swaps() == 0 else 1)
        assert os.waitpid(child, 0)[1] == 0
        out[0] = math.sin(x[0])
        return np.sum(out)

    assert ndual.grad(forks)(X)[0] == pytest.approx(np.cos(0.6))


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_takes_the_gates_out(error):
    def fails(x):
        out = np.zeros(3)
        out[0] = x[0]
        raise error

    for _ in range(2):
        with pytest.raises(error):
            ndual.grad(fails)(X)
        assert_removed()


def test_nested_interception_ends_with_the_outermost_call():
    def outer(x):
        held = np.zeros
        plain = ndual.grad(lambda y: np.sum(np.array([v * v for v in y])))(np.ones(3))
        assert type(np.zeros) is type(held) is Gate
        out = np.zeros(3)
        out[:] = x * plain
        return np.sum(out)

    assert ndual.grad(outer)(X).tolist() == [2.0] * 3


# ---- what outlives the call ------------------------------------------------------------------------------------------


def test_a_module_imported_inside(tmp_path, monkeypatch):
    (tmp_path / "imported_while_lifted.py").write_text(
        "import math\nimport numpy as np\nfrom numpy import zeros, float64\nfrom math import sin\n"
        "GRID = np.linspace(0.0, 1.0, 3)\nEMPTY = zeros(3)\n"
        "class Settings:\n    weights = np.ones(3)\n"
        "def square(x):\n    out = zeros(3)\n    out[:] = [v * v for v in x]\n    return out * Settings.weights\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def importing(x):
        module = importlib.import_module("imported_while_lifted")
        return np.sum(module.square(x) + module.GRID)

    for _ in range(2):
        assert ndual.grad(importing)(X) == pytest.approx(2 * X)
    module = sys.modules.pop("imported_while_lifted")
    assert module.zeros is np.zeros
    assert module.sin is math.sin
    assert module.float64 is np.float64
    assert type(module.GRID) is type(module.EMPTY) is type(module.Settings.weights) is np.ndarray
    assert not [name for name, value in vars(module).items() if type(value) in (Gate, TypeGate)]


@functools.lru_cache
def nodes(n):
    return np.linspace(0.0, 1.0, n)


class Model:
    grid = None

    def loss(self, x):
        if self.grid is None:
            self.grid = np.array([1.0, 2.0, 3.0])
            self.table = {"half": np.full(3, 0.5)}
        return np.sum(self.grid * nodes(3) * x * self.table["half"]) + 0.0 * (
            self.grid @ self.grid + sum(self.grid * self.grid)
        )


def test_constants_that_code_caches():
    """Made inside a derivative, they stay constants: in the next one, and outside of any."""
    nodes.cache_clear()
    model = Model()
    want = np.array([0.0, 0.5, 1.5])
    for width in (1, 3, 3):
        assert ndual.grad(model.loss, chunk_size=width)(X).tolist() == want.tolist()
    assert model.loss(X) == pytest.approx(want @ X)
    grid = model.grid
    assert np.asarray(grid * 2.0 + nodes(3)).tolist() == [2.0, 4.5, 7.0]
    assert (grid @ grid, float(grid[1]), grid[1:].sum(), len(grid)) == (14.0, 2.0, 5.0, 3)
    assert np.linalg.norm(grid) == pytest.approx(14**0.5)
    assert np.sort(grid)[::-1].tolist() == [3.0, 2.0, 1.0]
    assert np.sin(grid).tolist() == np.sin([1.0, 2.0, 3.0]).tolist()
    assert bool((grid > 1.0).any())
    grid[0] = 5.0
    assert ndual.grad(model.loss)(np.asarray(grid)).tolist() == want.tolist()
    assert ndual.grad(lambda x: np.sum(x * grid))(X).tolist() == [5.0, 2.0, 3.0]
    assert ndual.grad(lambda x: np.sum(x * x))(grid).tolist() == [10.0, 4.0, 6.0]


def test_a_cached_buffer_that_duals_were_written_into_is_loud_later():
    kept = []

    def first(x):
        kept.append(np.zeros(3))
        kept[0][0] = x[0]
        return np.sum(kept[0])

    assert ndual.grad(first)(X).tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(ndual.StaleDualError):
        kept[0] + 1.0
