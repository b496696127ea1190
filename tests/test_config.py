"""The switches: what may be set, for how long, and for whom."""

import threading

import numpy as np
import pytest

import ndual
from ndual import _core
from ndual.config import settings


def test_nested_and_restored():
    assert not settings.exact
    with ndual.config(exact=True, intercept=False):
        assert settings.exact
        with ndual.config(exact=False):
            assert not settings.exact
            assert not settings.intercept
        assert settings.exact
    assert not settings.exact
    assert settings.intercept


def test_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), ndual.config(debug=True):
        raise ZeroDivisionError
    assert not settings.debug


def test_reused_and_reentered():
    switch = ndual.config(exact=True)
    with switch, switch:
        assert settings.exact
    assert not settings.exact


def test_per_thread():
    seen = []
    with ndual.config(exact=True):
        thread = threading.Thread(target=lambda: seen.append(settings.exact))
        thread.start()
        thread.join()
    assert seen == [False]


def test_exact_reaches_the_core():
    x = np.linspace(0.1, 50.0, 1001)
    with ndual.config(exact=True):
        value, _ = ndual.jvp(np.sin, (x,), (np.ones_like(x),))
    assert np.array_equal(value, np.sin(x))


def test_pool_limit_reaches_the_core():
    before = _core.pool_info()["limit"]
    with ndual.config(pool_limit=4096):
        assert _core.pool_info()["limit"] == 4096
    assert _core.pool_info()["limit"] == before


@pytest.mark.parametrize(
    ("switches", "error", "words"),
    [
        ({"exakt": True}, TypeError, "one of the keys exact, debug, intercept, copy_constants, pool_limit; got exakt"),
        ({"exact": 1}, TypeError, "True or False; got 1"),
        ({"pool_limit": -1}, ValueError, "at least 0 bytes; got -1"),
        ({"pool_limit": 1.5}, TypeError, "number of bytes or None; got 1.5"),
    ],
)
def test_bad_switches(switches, error, words):
    with pytest.raises(error, match=words) as caught:
        ndual.config(**switches)
    assert isinstance(caught.value, ndual.NdualError)
