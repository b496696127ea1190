"""scipy.integrate.quad by its bounds, where it is the differentiated function itself or in a formula."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import ndual
from ndual.rules import registry


def test_bounds():

    got = ndual.grad(lambda a, b: scipy.integrate.quad(np.cos, a, b)[0], argnums=(0, 1))(0.3, 1.1)
    assert got == pytest.approx((-np.cos(0.3), np.cos(1.1)))
    assert ndual.grad(lambda b: scipy.integrate.quad(lambda t, k: t**k, 0.0, b, args=(2,))[0])(1.5) == pytest.approx(
        1.5**2
    )
    assert ndual.grad(lambda a: scipy.integrate.quad(lambda t: np.exp(-t), a, np.inf)[0])(0.7) == pytest.approx(
        -np.exp(-0.7)
    )
    assert ndual.grad(lambda x: scipy.integrate.quad(np.exp, 0.0, x * x, full_output=1)[0])(0.5) == pytest.approx(
        np.exp(0.25)
    )


def test_what_has_no_rule_is_refused():
    with pytest.raises(ndual.NoRuleError, match="weight"):
        ndual.grad(lambda b: scipy.integrate.quad(np.exp, 0.0, b, weight="cos", wvar=2.0)[0])(2.0)


def test_cotangents():
    rule = registry.RULES["scipy.integrate.quad"]
    arrays, params = rule.bind((np.cos, np.asarray(0.3), np.asarray(1.1)), {})
    back = rule.vjp(np, (2.0, None), (0.0, 0.0), arrays, **params)
    assert back == pytest.approx((-2 * np.cos(0.3), 2 * np.cos(1.1)))
