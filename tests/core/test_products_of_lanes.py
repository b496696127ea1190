"""Products of a matrix with a row of the table, whose lanes are worked out a part at a time."""

import numpy as np
import pytest

import ndual

RNG = np.random.default_rng(5)
B = RNG.standard_normal((3000, 40))
W = RNG.standard_normal(40)
SHAPES = {"vector": (3000,), "column": (3000, 1), "two columns": (1500, 2)}
FACTORS = {
    "rows": RNG.standard_normal((30, 3000)),
    "turned": RNG.standard_normal((3000, 30)).T,
    "row": RNG.standard_normal(3000),
}


def of(shape, a):
    a = a[..., : shape[0]]
    return lambda w: a @ np.sin(B.astype(w.dtype) @ w).reshape(shape).astype(a.dtype)


def jacobian(shape, a):
    """By hand, from the sine's derivative."""
    a, cells = a[..., : shape[0]], (np.cos(B @ W)[:, None] * B).reshape(*shape, 40)
    return np.tensordot(a, cells, (-1, 0))


@pytest.mark.parametrize("width", [1, 8, 40])
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_a_row(shape, factor, width):
    shape, a = SHAPES[shape], FACTORS[factor]
    f = of(shape, a)
    np.testing.assert_allclose(
        ndual.jacobian(f, mode="forward", chunk_size=width)(W), jacobian(shape, a), rtol=1e-11, atol=1e-11
    )
    value, _ = ndual.jvp(f, (W,), (W,))
    np.testing.assert_allclose(value, f(W), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("shape", ["vector", "column"])
def test_values_of_prepared_products(shape):
    """The values are one more row of the product, or NumPy's own to the bit."""
    f = of(SHAPES[shape], FACTORS["rows"])
    prepared = ndual.prepare_jacobian(f, W, mode="forward", chunk_size=40)
    value, found = prepared(W)
    np.testing.assert_allclose(value, f(W), rtol=1e-13, atol=1e-12)
    with ndual.config(exact=True):
        value, same = prepared(W)
    assert value.tolist() == f(W).tolist()
    np.testing.assert_allclose(same, found, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("shape", ["vector", "column"])
def test_products_in_single_precision(shape):
    a = FACTORS["rows"].astype(np.float32)
    f = of(SHAPES[shape], a)
    found = ndual.jacobian(f, mode="forward", chunk_size=40)(W.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, jacobian(SHAPES[shape], FACTORS["rows"]), rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("shape", ["vector", "column"])
def test_products_with_what_is_not_finite(shape, bad):
    """The value is NumPy's; a lane that is zero in every cell stays so."""
    a = FACTORS["rows"].copy()
    a[3, 7] = bad
    v = np.zeros((40, 40))
    v[np.arange(1, 40), np.arange(1, 40)] = 1.0
    f = of(SHAPES[shape], a)
    prepared = ndual.prepare_jacobian(lambda u: f(W + v @ u), np.zeros(40), mode="forward", chunk_size=40)
    with np.errstate(all="ignore"):
        value, found = prepared(np.zeros(40))
    np.testing.assert_allclose(value, f(W), rtol=1e-13, atol=1e-12)
    want = jacobian(SHAPES[shape], a)
    want[..., 0] = 0.0
    np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-11)
