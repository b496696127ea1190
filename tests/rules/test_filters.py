"""scipy.signal.lfilter: by its input, and by its coefficients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from harness import check

import ndual
import ndual.rules.filters


@pytest.mark.parametrize("axis", [-1, 0])
def test_lfilter(rng, axis):
    b, a = rng.standard_normal(3), np.array([1.3, -0.4, 0.2, 0.1])
    x = rng.standard_normal((7, 6))
    check("scipy.signal.lfilter", b, a, x, axis)
    check("scipy.signal.lfilter", b, a, x[0].copy())
    check("scipy.signal.lfilter", b, a, x, axis=axis, passive=(0, 1))


def test_the_response_of_a_first_order_filter():
    # y_k = r y_{k-1} + x_k, so that the answer to an impulse is r**k.
    impulse = np.array([1.0, 0, 0, 0, 0])
    got = ndual.jacobian(lambda r: scipy.signal.lfilter([1.0], np.array([1.0, -r]), impulse))(0.5)
    k = np.arange(5)
    assert np.allclose(got, k * 0.5 ** np.maximum(k - 1, 0))
    got = ndual.jacobian(lambda x: scipy.signal.lfilter([1.0], [1.0, -0.5], x))(impulse)
    assert np.allclose(got, np.tril(0.5 ** np.maximum(k[:, None] - k, 0)))


def test_initial_conditions_are_refused():
    with pytest.raises(ndual.NoRuleError, match="zi"):
        ndual.jacobian(lambda x: scipy.signal.lfilter([1.0], [1.0, 0.5], x, zi=np.zeros(1))[0])(np.ones(3))
