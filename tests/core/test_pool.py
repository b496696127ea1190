"""The memory pool: what is freed is used again, within a limit; nothing is counted twice or forgotten."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import ndual
from ndual import _core


@pytest.fixture
def restored():
    limit = _core.pool_info()["limit"]
    yield
    _core.set_pool_limit(limit)


def live():
    gc.collect()
    return _core.pool_info()["live"]


def test_memory_comes_back(restored):
    before = live()
    for _ in range(50):
        ndual.grad(lambda x: np.sum(np.sin(x) * x[::-1] + np.exp(-x)))(np.linspace(0, 1, 1000))
    assert live() == before


def test_memory_comes_back_after_an_exception(restored):
    before = live()
    kept = []

    def f(x):
        y = x * 2
        kept.append(y[3:])
        raise KeyboardInterrupt

    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):
            ndual.jvp(f, (np.ones(500),), (np.ones(500),))
    kept.clear()
    assert live() == before


def test_a_buffer_is_used_again(restored):
    with _core.Level(4) as level:
        x = _core.dual(np.ones(5000), np.ones((4, 5000)), level)
        y = x * 2.0
        held = _core.pool_info()["held"]
        del y
        assert _core.pool_info()["held"] > held
        again = x * 3.0
        assert _core.pool_info()["held"] <= held
        del again


def test_a_view_keeps_its_buffer(restored):
    with _core.Level(2) as level:
        x = _core.dual(np.arange(1000.0), np.ones((2, 1000)), level)
        views = [(x * k)[k::7] for k in range(20)]
        rest = [x * 5.0 for _ in range(20)]
        for k, view in enumerate(views):
            np.testing.assert_array_equal(_core.primal(view), (np.arange(1000.0) * k)[k::7])
        del rest


def test_results_outlive_their_call(restored):
    """Buffers that were handed to the user are not reused under them."""
    f = ndual.prepare_gradient(lambda x: np.sum(x * x), np.ones(300))
    first = [f(np.full(300, float(k)))[1] for k in range(10)]
    for k, gradient in enumerate(first):
        np.testing.assert_array_equal(gradient, np.full(300, 2.0 * k))
    values = [ndual.jvp(lambda x, k=k: x * k, (np.ones(300),), (np.ones(300),)) for k in range(10)]
    for k, (value, tangent) in enumerate(values):
        np.testing.assert_array_equal(value, k)
        np.testing.assert_array_equal(tangent, k)


@pytest.mark.parametrize("limit", [0, 1 << 16, 1 << 30])
def test_the_limit_holds(restored, limit):
    _core.set_pool_limit(limit)
    with _core.Level(2) as level:
        x = _core.dual(np.ones(50_000), np.ones((2, 50_000)), level)
        for _ in range(20):
            x = x * 2.0
    del x
    gc.collect()
    assert _core.pool_info()["held"] <= limit
    assert _core.pool_info()["limit"] == limit


def test_a_negative_limit_is_refused():
    with pytest.raises(ValueError, match="pool_limit"):
        _core.set_pool_limit(-1)


def test_impossible_sizes_raise_and_leave_the_pool_whole(restored):
    before = live()
    with _core.Level(8) as level:
        x = _core.dual(np.ones((1 << 20, 1)), np.ones((8, 1 << 20, 1)), level)
        with pytest.raises(MemoryError):
            x * np.ones((1, 1 << 26))
        np.testing.assert_array_equal(_core.primal(x[:3] * 2.0), np.full((3, 1), 2.0))
    del x
    assert live() == before


def test_sizes_beyond_the_address_space_raise():
    with _core.Level(3) as level:
        x = _core.dual(np.ones(1), np.ones((3, 1)), level)
        with pytest.raises(MemoryError):
            x * np.broadcast_to(1.0, (1 << 30, 1 << 29))


def test_threads_share_the_pool(restored):
    def work():
        for n in (10, 100, 300):
            for _ in range(30):
                gradient = ndual.grad(lambda x: np.sum(x * x * x))(np.full(n, 2.0))
                if not (gradient == 12).all():
                    wrong.append(n)

    wrong = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
