"""logsumexp, softmax, log_softmax."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from harness import check, push, rule_of

import ndual.rules.special  # noqa: F401


@pytest.mark.parametrize("kwargs", [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}])
def test_logsumexp(rng, kwargs):
    a, b = rng.standard_normal((3, 4)), rng.random((3, 4)) + 0.5
    check("scipy.special.logsumexp", a, **kwargs)
    check("scipy.special.logsumexp", a, b=b, **kwargs)
    check("scipy.special.logsumexp", a, b=b[0].copy(), passive=(0,), **kwargs)
    check("scipy.special.logsumexp", a, b=b, return_sign=True, **kwargs)


def test_logsumexp_at_infinities():
    function, rule = rule_of("scipy.special.logsumexp")
    a = np.array([1.0, -np.inf, 1.0])
    xs, extra = rule.bind((a,), {})
    (t,) = push(rule, function(a), xs, (np.eye(3), None), extra)
    np.testing.assert_allclose(t, [0.5, 0, 0.5])
    a = np.array([1.0, np.inf])
    xs, extra = rule.bind((a,), {})
    (t,) = push(rule, function(a), xs, (np.eye(2), None), extra)
    np.testing.assert_array_equal(t, [0, 1])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_softmax(rng, axis):
    a = rng.standard_normal((3, 4))
    check("scipy.special.softmax", a, axis)
    check("scipy.special.log_softmax", a, axis=axis)
    assert scipy.special.softmax(a).shape == a.shape
