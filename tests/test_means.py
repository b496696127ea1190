"""Means of all cells are sums that are divided: their values are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import ndual
from ndual.frontend import ahead

MODES = ["forward", "reverse"]
N = 1 << 15
FORMS = {"function": lambda x: np.mean(x), "method": lambda x: x.mean(), "by rule": lambda x: np.mean(x, axis=None)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 4), (129,)])
def test_values_and_gradients(form, shape, mode):
    x = np.random.default_rng(3).standard_normal(shape)
    value, gradient = ndual.value_and_grad(FORMS[form], mode=mode)(x)
    assert value == np.mean(x)
    assert type(value) is np.float64
    np.testing.assert_array_equal(gradient, np.full(shape, 1.0 / x.size))
    views = ndual.grad(lambda x: FORMS[form](x[::-1].T * 3.0), mode=mode)(x)
    np.testing.assert_allclose(views, np.full(shape, 3.0 / x.size), rtol=1e-15)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex128])
def test_other_types(form, dtype):
    x = np.linspace(0.1, 1.0, 6).astype(dtype)
    value, tangent = ndual.jvp(FORMS[form], (x,), (x,))
    assert value == np.mean(x)
    assert value.dtype == tangent.dtype == dtype
    assert tangent == pytest.approx(np.mean(x), rel=1e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_and_numbers(form):
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        value, _ = ndual.jvp(FORMS[form], (np.empty(0),), (np.empty(0),))
    assert np.isnan(value)
    assert ndual.grad(FORMS[form])(np.array([2.0])).tolist() == [1.0]


@pytest.mark.parametrize("form", FORMS)
def test_higher_derivatives(form):
    x = np.array([0.3, 0.7, 1.1])
    hessian = ndual.hessian(lambda x: FORMS[form](np.exp(x) * x[0]))(x)
    e = np.exp(x)
    want = np.diag(e * x[0])
    want[0] += e
    want[:, 0] += e
    np.testing.assert_allclose(hessian, want / 3, rtol=1e-14)
    nested = ndual.grad(lambda x: FORMS[form](ndual.grad(lambda y: FORMS[form](y**3))(x)))(x)
    np.testing.assert_allclose(nested, 2 * x / 3, rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_large_results_need_not_be_there(form, mode, monkeypatch):
    x, y = np.random.default_rng(0).standard_normal((2, N))
    told = []

    def summed_here(row):
        told.append(ahead.summed_next(ahead.sys._getframe(1), row, ahead.registry.lookup, ahead.SUMS))
        return told[-1]

    ndual._core.set_summed_next(summed_here)
    try:
        calls = {
            "function": lambda x, y: np.mean(x * y) + np.mean(np.cos(x)),
            "method": lambda x, y: (x * y).mean() + np.cos(x).mean(),
            "by rule": lambda x, y: np.mean(x * y, axis=None) + np.cos(x).mean(axis=0),
        }
        if mode == "reverse":
            value, (gx, gy) = ndual.value_and_grad(calls[form], (0, 1), mode=mode)(x, y)
        else:
            value, tangent = ndual.jvp(calls[form], (x, y), (y, x))
    finally:
        ndual._core.set_summed_next(ahead.summed_here)
    # In reverse the cosine comes with the sine, which is its partial and has to be there.
    assert told.count(True) == (0 if form == "by rule" else 2 if mode == "forward" else 1)
    assert value == pytest.approx(np.mean(x * y) + np.mean(np.cos(x)), rel=1e-13)
    if mode == "reverse":
        np.testing.assert_allclose(gx, (y - np.sin(x)) / N, rtol=1e-13, atol=1e-18)
        np.testing.assert_allclose(gy, x / N, rtol=1e-13)
    else:
        assert tangent == pytest.approx(np.mean(y * y + x * x - np.sin(x) * y), rel=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_means_of_products_of_kronecker(mode):
    a, b = np.random.default_rng(1).uniform(0.5, 1.0, (2, 7, 9))
    f = lambda a, b: np.mean(np.kron(a, b)) + np.outer(a, b).mean()  # noqa: E731
    value, (ga, gb) = ndual.value_and_grad(f, (0, 1), mode=mode)(a, b)
    assert value == pytest.approx(2 * a.mean() * b.mean(), rel=1e-14)
    np.testing.assert_allclose(ga, np.full(a.shape, 2 * b.mean() / a.size), rtol=1e-13)
    np.testing.assert_allclose(gb, np.full(b.shape, 2 * a.mean() / b.size), rtol=1e-13)


@pytest.mark.parametrize("mode", MODES)
def test_exact_and_debug(mode):
    x = np.random.default_rng(0).standard_normal(N)
    for setting in ({"exact": True}, {"debug": True}):
        with ndual.config(**setting):
            value, gradient = ndual.value_and_grad(lambda x: np.mean(x * x), mode=mode, chunk_size=1)(x[:50])
            large, _ = ndual.jvp(lambda x: np.mean(x * x), (x,), (x,))
        assert value == np.mean(x[:50] * x[:50])
        assert large == np.mean(x * x)
        np.testing.assert_allclose(gradient, 2 * x[:50] / 50, rtol=1e-14)
