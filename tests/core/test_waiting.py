"""Lanes that wait: what shares lanes with others, or has factors in their place, behaves as if it had its own."""

from __future__ import annotations

import numpy as np
import pytest

import ndual
from ndual import _core

N = 16
"""Lanes, with arrays of 1000 cells: both far above where lanes begin to wait."""
X = np.linspace(0.1, 2.0, 1000)
T = np.random.default_rng(5).standard_normal((N, X.size))


def jacobian_of(f, x=X):
    """Values and lanes of f along the rows of T."""
    with _core.Level(N) as level:
        out = f(_core.dual(x, T.astype(x.dtype), level))
        return _core.primal(out), _core.lanes(out)


def by_complex_steps(f, x=X):
    return np.array([f(x + 1e-200j * t).imag / 1e-200 for t in T])


def chain(x):
    return np.exp(np.sin(3.0 * x) * -0.5 + 1.0) / 2.0


def two_bases(x):
    a = np.sin(x)
    return a * x + np.cos(a) - x


def constants(x):
    return np.linspace(-1.0, 1.0, x.size) * np.sqrt(x) * X[::-1]


def written_before(x):
    y = x.copy()
    z = np.sin(y)
    y *= 3.0
    return y * z


def written_after(x):
    y = np.cos(x)
    z = 2.0 * y
    z[10:20] = 0.0
    y[5:15] *= z[5:15]
    return y + z


def written_to_the_original(x):
    y = x * 2.0
    z = y.copy()
    y[::2] = 1.0
    z[::3] *= y[::3]
    return z + y


def views(x):
    y = np.exp(x)
    return y[::-1] + y.reshape(20, 50).T.reshape(-1)


@pytest.mark.parametrize(
    "f", [chain, two_bases, constants, written_before, written_after, written_to_the_original, views]
)
def test_lanes_are_those_of_complex_steps(f):
    value, lanes = jacobian_of(f)
    np.testing.assert_allclose(value, f(X), rtol=1e-14)
    np.testing.assert_allclose(lanes, by_complex_steps(f), rtol=1e-12, atol=1e-13)


def test_a_matrix():
    a = X.reshape(20, 50)
    weights = np.linspace(0.0, 1.0, 50)
    with _core.Level(N) as level:
        x = _core.dual(a, T.reshape(N, 20, 50), level)
        lanes = _core.lanes(np.sin(x) * weights)
    np.testing.assert_allclose(lanes, np.cos(a) * weights * T.reshape(N, 20, 50), rtol=1e-14)


def test_float32():
    _, lanes = jacobian_of(lambda x: np.float32(2) * np.sqrt(x) * x[:1].dtype.type(3), X.astype(np.float32))
    assert lanes.dtype == np.float32
    np.testing.assert_allclose(lanes, 3 / np.sqrt(X) * T, rtol=1e-5)


def test_the_sum_of_a_chain():
    _, lanes = jacobian_of(lambda x: np.sum(chain(x)))
    np.testing.assert_allclose(lanes, by_complex_steps(lambda x: np.sum(chain(x))), rtol=1e-11)


def test_one_cell_of_a_chain():
    _, lanes = jacobian_of(lambda x: chain(x)[7])
    np.testing.assert_allclose(lanes, by_complex_steps(lambda x: chain(x)[7]), rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 3, 700])
def test_a_product_with_a_matrix(rows):
    a = np.random.default_rng(6).standard_normal((rows, X.size))
    f = lambda x: a @ chain(x)  # noqa: E731
    _, lanes = jacobian_of(f)
    np.testing.assert_allclose(lanes, by_complex_steps(f), rtol=1e-9, atol=1e-11)


def test_a_product_with_a_transposed_matrix_and_a_vector():
    a = np.random.default_rng(6).standard_normal((X.size, 7))
    for f in (lambda x: a.T @ chain(x), lambda x: np.dot(a[:, 2], chain(x))):
        _, lanes = jacobian_of(f)
        np.testing.assert_allclose(lanes, by_complex_steps(f), rtol=1e-9, atol=1e-11)


def test_zeros_stay_strong():
    x = X.copy()
    x[3] = 0.0
    with _core.Level(N) as level:
        t = T.copy()
        t[:, 3] = 0.0
        root = np.sqrt(_core.dual(x, t, level))
        assert np.isfinite(_core.lanes(2.0 * root)).all()
        assert np.isfinite(_core.lanes(np.sum(root))).all()
        assert np.isfinite(_core.lanes(np.ones((2, x.size)) @ root)).all()


def test_factors_that_would_overflow_do_not():
    scale = np.full(X.size, 1e-200)
    scale[::2] = 1e200
    with _core.Level(N) as level:
        x = _core.dual(X, T * scale[::-1], level)
        lanes = _core.lanes(x * scale * scale)
    assert np.isfinite(lanes).all()
    np.testing.assert_allclose(lanes, T * scale[::-1] * scale * scale, rtol=1e-14)


def test_zero_factors_then_others():
    weights = np.where(np.arange(X.size) % 3, 1.5, 0.0)
    f = lambda x: np.sin(np.exp(x) * weights) * weights * np.cos(weights)  # noqa: E731
    _, lanes = jacobian_of(f)
    np.testing.assert_allclose(lanes, by_complex_steps(f), rtol=1e-12, atol=1e-13)


def test_several_passes_write_over_their_seeds():
    x = np.linspace(0.5, 1.5, 3000)
    f = lambda x: np.sin(x) * np.linspace(0.0, 2.0, x.size)  # noqa: E731
    jacobian = ndual.jacobian(f, mode="forward", chunk_size=700)(x)
    np.testing.assert_allclose(jacobian, np.diag(np.cos(x) * np.linspace(0.0, 2.0, x.size)), rtol=1e-14)


def test_what_is_never_asked_for_takes_no_memory():
    with _core.Level(N) as level:
        x = _core.dual(X, T, level)
        before = _core.pool_info()["live"]
        y = np.cos(np.sin(x) * 2.0)
        assert _core.pool_info()["live"] - before < 4 * X.nbytes
        _core.lanes(y)
        assert _core.pool_info()["live"] - before > N * X.nbytes


def test_lanes_that_were_lent_are_not_kept():
    """A loop of copies and writes, or of rows and writes, takes as much memory as one round of it."""
    matrix = np.random.default_rng(3).standard_normal((4096, 16))
    live = []

    def f(p, rounds):
        u, s = matrix @ p, 0.0
        for _ in range(rounds):
            old = u.copy()
            u[1:-1] = old[1:-1] + 0.1 * (old[2:] - 2 * old[1:-1] + old[:-2])
            s = s + np.sin(u).sum()
        live.append(_core.pool_info()["live"])
        return s

    for rounds in (3, 30):
        ndual.jacobian(lambda p, rounds=rounds: np.stack([f(p, rounds)]), mode="forward", chunk_size=16)(np.ones(16))
    assert live[1] <= 1.5 * live[0]


def test_parts_of_a_buffer_do_not_wait():
    """Rows of a table, each made of the one before: a write to one of them copies none of the others."""
    matrix = np.random.default_rng(3).standard_normal((512, 16))
    live = []

    def f(p, rows):
        table = np.zeros((rows, 512))
        table[0] = matrix @ p
        for i in range(1, rows):
            table[i] = np.tanh(table[i - 1])
        live.append(_core.pool_info()["live"] / rows)
        return table[-1, :3]

    for rows in (10, 80):
        found = ndual.jacobian(lambda p, rows=rows: f(p, rows), mode="forward", chunk_size=16)(np.ones(16))
        want = ndual.jacobian(lambda p, rows=rows: f(p, rows), mode="reverse")(np.ones(16))
        np.testing.assert_allclose(found, want, rtol=1e-12)
    assert live[2] <= 2.0 * live[0]
