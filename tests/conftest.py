"""What several test files share: a running level, duals with random lanes, and how hard Hypothesis tries."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import hypothesis
import numpy as np
import pytest

import ndual
from ndual import _core

sys.path.insert(0, str(Path(__file__).parent))  # programs_*.py, which several files share

# The same programs and numbers in every run, so that a change is judged by what it changes.
hypothesis.settings.register_profile("usual", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile("deep", max_examples=3000, deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("NDUAL_TEST_PROFILE", "usual"))

WIDTH = 3


@pytest.fixture
def level():
    """A running level of three lanes."""
    with _core.Level(WIDTH) as running:
        yield running


@pytest.fixture
def lift(level):
    """``lift(value)``: a dual with random lanes, each of them different; ``lift(value, lanes)``: with those."""
    rng = np.random.default_rng(7)

    def make(value, lanes=None):
        value = np.asarray(value)
        if lanes is None:
            lanes = rng.uniform(-1, 1, (WIDTH, *value.shape))
            if value.dtype.kind == "c":
                lanes = lanes + 1j * rng.uniform(-1, 1, lanes.shape)
        return _core.dual(value, np.asarray(lanes, value.dtype), level)

    return make


@pytest.fixture
def same(level):
    """``same(dual, value, lanes)``: assert value, dtype, shape and lanes exactly; lanes None for a constant."""

    def check(got, value, lanes):
        found = _core.primal(got)
        assert np.asarray(found).dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(found, value, strict=True) if isinstance(found, np.ndarray) else None
        np.testing.assert_array_equal(found, value)
        if lanes is None:
            assert not _core.is_dual(got)
        else:
            np.testing.assert_array_equal(_core.lanes(got), lanes)

    return check


@pytest.fixture
def check_loss():
    """``check(outcome, f)``: that the derivative of x² at the default of f is "kept", "raised" or "warned" of."""

    def check(outcome, f):
        (x,) = f.__defaults__[:1]
        if outcome == "raised":
            with pytest.raises(ndual.NdualError) as caught:
                ndual.grad(f)(x)
            file = os.path.basename(f.__code__.co_filename)
            said = str(caught.value)  # a thread of Python's own has no line of the user's
            assert f"{file}:" in said or "another thread" in said, said
            return
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            got = ndual.grad(f)(x)
        assert [w.category for w in seen] == ([ndual.ConstantOutputWarning] if outcome == "warned" else [])
        np.testing.assert_allclose(got, np.zeros_like(x) if outcome == "warned" else 2 * x, rtol=1e-14)

    return check
