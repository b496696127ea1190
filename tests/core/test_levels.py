"""Levels: one at a time on a thread, ended by whatever ends the call, known by every dual."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import ndual
from ndual import _core


def test_a_level_lives_inside_its_block():
    level = _core.Level(4)
    assert not level.alive
    with level:
        assert level.alive
        assert _core.current_level() is level
    assert not level.alive
    assert _core.current_level() is None
    with pytest.raises(ndual.NdualError, match="once"):
        level.__enter__()


@pytest.mark.parametrize("width", [0, -1])
def test_a_level_needs_a_lane(width):
    with pytest.raises(ValueError, match="at least 1 lane"):
        _core.Level(width)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_ends_a_call_leaves_no_state(error):
    def f(x):
        x *= 2
        raise error

    x = np.arange(3.0)
    with pytest.raises(error):
        ndual.jvp(f, (x,), (np.ones(3),))
    assert _core.current_level() is None
    np.testing.assert_array_equal(x, np.arange(3.0))
    assert ndual.grad(lambda v: np.sum(v * v))(x).tolist() == [0, 2, 4]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
def test_a_failing_inner_derivative_leaves_the_outer_one_usable(error):
    def fail(y):
        np.linalg.cholesky(np.outer(y, y) + np.eye(2))  # rules take NumPy's memory from the pool until the call ends
        raise error

    def f(x):
        before = _core.current_level()
        with pytest.raises(error):
            ndual.grad(fail)(x)
        assert _core.current_level() is before
        return np.sum(x * x)

    before = np._core.multiarray.get_handler_name()
    assert ndual.grad(f)(np.ones(2)).tolist() == [2, 2]
    assert _core.current_level() is None
    assert np._core.multiarray.get_handler_name() == before


def test_threads_have_their_own_levels():
    results = {}
    barrier = threading.Barrier(4)

    def work(k):
        def f(x):
            barrier.wait()
            return np.sum(x ** (k + 1))

        results[k] = ndual.grad(f)(np.full(3, 2.0))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        np.testing.assert_allclose(results[k], np.full(3, (k + 1) * 2.0**k))


def escaped():
    kept = []

    def f(x):
        kept.append(x)
        kept.append(x[0])
        kept.append(x * 2)
        return np.sum(x)

    ndual.jvp(f, (np.arange(3.0),), (np.ones(3),))
    return kept


USES = [
    lambda d: d + 1,
    lambda d: d * d,
    lambda d: np.exp(d),
    lambda d: np.sum(d),
    lambda d: d > 0,
    lambda d: abs(d),
    lambda d: np.add(1.0, d),
    lambda d: np.stack([d, d]),
    lambda d: np.maximum(d, 0),
    lambda d: d**2,
    lambda d: -d,
    lambda d: d.sum(),
    lambda d: d.copy() + 1,
    lambda d: copy.deepcopy(d) + 1,
]


@pytest.mark.parametrize("use", USES, ids=range(len(USES)))
def test_stale_duals_raise(use):
    for dual in escaped():
        with pytest.raises(ndual.StaleDualError):
            use(dual)


ARRAY_USES = [
    lambda d: d[0],
    lambda d: d[1:],
    lambda d: d[[0, 1]],
    lambda d: d.__setitem__(0, 1.0),
    lambda d: d.__iadd__(1.0),
    lambda d: d.reshape(3, 1),
    lambda d: d.T,
    lambda d: d.astype(np.float32),
    lambda d: d.tolist(),
    lambda d: np.sort(d),
    lambda d: d.real,
    lambda d: list(d),
    lambda d: np.sin(d, out=d),
    lambda d: d.conj(),
    lambda d: d.fill(0.0),
]


@pytest.mark.parametrize("use", ARRAY_USES, ids=range(len(ARRAY_USES)))
def test_stale_arrays_raise(use):
    whole, _, product = escaped()
    for dual in (whole, product):
        with pytest.raises(ndual.StaleDualError):
            use(dual)


def test_a_stale_dual_inside_a_new_call_raises():
    whole, cell, product = escaped()
    for old in (whole, cell, product):
        with pytest.raises(ndual.StaleDualError):
            ndual.grad(lambda x, old=old: np.sum(x * old))(np.ones(3))
        with pytest.raises(ndual.StaleDualError):
            ndual.grad(lambda x, old=old: np.sum(np.concatenate([x, np.atleast_1d(old)])))(np.ones(3))


def test_a_stale_dual_still_shows_itself():
    whole, cell, _ = escaped()
    assert str(whole) == "~[0. 1. 2.]"
    assert "NDual" in repr(whole)
    assert str(cell) == "~0.0"
    assert "NDual" in repr(cell)
    assert f"{cell:.1f}" == "~0.0"
    assert whole.shape == (3,)
    assert whole.dtype == float


def test_a_dual_in_another_thread_raises(lift):
    d = lift(np.arange(3.0))
    seen = []

    def work():
        try:
            np.sin(d)
        except ndual.StaleDualError as error:
            seen.append(str(error))
        with _core.Level(3) as other:
            try:
                d + _core.dual(np.ones(3), np.ones((3, 3)), other)
            except ndual.StaleDualError as error:
                seen.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(seen) == 2
    assert all("thread" in message for message in seen)


def test_a_dual_keeps_its_memory_alive(lift):
    d = lift(np.arange(1000.0)) * 2.0
    view = d[10:20][::2]
    value = _core.primal(view)
    del d
    gc.collect()
    np.testing.assert_array_equal(_core.primal(view), value)


def test_the_users_array_is_let_go():
    class Owner(np.ndarray):
        pass

    x = np.arange(4.0).view(Owner)
    watch = weakref.ref(x)
    with _core.Level(1) as level:
        d = _core.dual(x, np.ones((1, 4)), level)
        y = d * 2
        del d, x
    del y
    gc.collect()
    assert watch() is None


def test_the_message_names_both_levels():
    with _core.Level(1) as first:
        old = _core.dual(np.ones(2), np.ones((1, 2)), first)
    with _core.Level(1) as second:
        _core.dual(np.ones(2), np.ones((1, 2)), second)
        with pytest.raises(ndual.StaleDualError, match=f"{second.id}.*{first.id}"):
            old + 1


@pytest.mark.parametrize(("value", "tangent"), [(np.ones(2), np.ones(2)), (np.ones(2), np.ones((2, 2))), (1.0, 1.0)])
def test_lanes_of_a_wrong_shape_are_refused(value, tangent):
    with _core.Level(1) as level, pytest.raises(ValueError, match="Lanes come first"):
        _core.dual(value, tangent, level)


@pytest.mark.parametrize("dtype", ["g", "G", "i", "?", "O", "U1", "M8[s]"])
def test_unsupported_dtypes_are_refused(level, dtype):
    value = np.zeros(2, dtype)
    with pytest.raises(ndual.UnsupportedDtype, match="expected float16"):
        _core.dual(value, np.zeros((3, 2)), level)


def test_mixing_with_longdouble_or_objects_is_refused(lift):
    d = lift(np.ones(2))
    with pytest.raises(ndual.UnsupportedDtype):
        d + np.ones(2, np.longdouble)
    with pytest.raises(ndual.UnsupportedDtype):
        d.astype(np.longdouble)
    with pytest.raises(ndual.NoRuleError, match="object"):
        d + np.array([None, 1], object)
