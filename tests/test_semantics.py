"""What derivatives mean where conventions differ between libraries, each pinned by numbers worked out by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import ndual

CHUNKS = [1, 2, 3, 8]


@pytest.fixture(params=CHUNKS)
def grad(request):
    """The gradient at every chunk width."""

    def make(f, argnums=0):
        return ndual.grad(f, argnums=argnums, chunk_size=request.param)

    return make


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def test_rosenbrock(grad):
    x = np.array([1.2, 1.2])
    assert rosenbrock(x) == pytest.approx(5.8)
    np.testing.assert_allclose(grad(rosenbrock)(x), [115.6, -48])


def test_joining_arrays(grad):
    w = np.arange(1.0, 6.0)
    a, b = grad(lambda a, b: np.sum(w * np.concatenate([a, b])), (0, 1))(np.zeros(2), np.zeros(3))
    np.testing.assert_array_equal(a, [1, 2])
    np.testing.assert_array_equal(b, [3, 4, 5])
    m = np.array([[1.0, 2, 3], [4, 5, 6]])
    a, b = grad(lambda a, b: np.sum(m * np.hstack([a, b])), (0, 1))(np.zeros((2, 1)), np.zeros((2, 2)))
    np.testing.assert_array_equal(a, [[1], [4]])
    np.testing.assert_array_equal(b, [[2, 3], [5, 6]])
    for axis in (0, -1):
        parts = grad(lambda a, b, axis=axis: np.sum(np.stack([a, b], axis) * 2), (0, 1))(np.ones(3), np.ones(3))
        np.testing.assert_array_equal(parts, np.full((2, 3), 2.0))
    np.testing.assert_array_equal(grad(lambda v: np.sum(w[:3] * np.concatenate([v[::-1]])))(np.zeros(3)), [3, 2, 1])
    flat = grad(lambda a: np.sum(np.arange(6.0) * np.concatenate([a, 2 * a], axis=None)))(np.zeros((3, 1)))
    np.testing.assert_array_equal(flat, [[6], [9], [12]])


def test_block_diagonals(grad):
    w = np.arange(1.0, 10.0).reshape(3, 3)
    a, b = grad(lambda a, b: np.sum(w * scipy.linalg.block_diag(a, b)), (0, 1))(np.zeros((1, 2)), np.zeros((2, 1)))
    np.testing.assert_array_equal(a, [[1, 2]])
    np.testing.assert_array_equal(b, [[6], [9]])


def test_permuted_axes(grad):
    w = np.array([[1.0, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(grad(lambda x: np.sum(w * x.T))(np.zeros((2, 3))), [[1, 3, 5], [2, 4, 6]])
    w = np.arange(24.0).reshape(4, 2, 3)
    got = grad(lambda x: np.sum(w * np.transpose(x, (2, 0, 1))))(np.zeros((2, 3, 4)))
    np.testing.assert_array_equal(got, w.transpose(1, 2, 0))
    np.testing.assert_array_equal(got[0, 1], [1, 7, 13, 19])


def test_broadcast_and_repeated_cells_accumulate(grad):
    assert grad(lambda x: np.broadcast_to(x, (3,)).sum())(np.ones(1)).tolist() == [3]
    assert grad(lambda x: np.sum(x[[0, 2, 0, 3]] * np.arange(1.0, 5.0)))(np.zeros(4)).tolist() == [4, 0, 2, 4]
    assert grad(lambda x: np.prod(x))(np.array([2.0, 0, 3])).tolist() == [0, 6, 0]
    assert grad(lambda x: np.cumprod(x).sum())(np.array([2.0, 0, 3])).tolist() == [1, 8, 0]
    assert grad(lambda x: np.max(x))(np.array([2.0, 2, 1])).tolist() == [0.5, 0.5, 0]


def test_in_place_updates(grad):
    def f(x):
        u = x.copy()
        u[1:] += u[:-1]
        u *= u
        u[0] = 5.0
        return np.sum(u)

    assert grad(f)(np.array([1.0, 2, 3])).tolist() == [6, 16, 10]


def test_integers_take_part_as_constants():
    value, tangent = ndual.jvp(lambda x: np.concatenate([x, np.array([3, 4])]), (np.array([1.0, 2.0]),), (np.ones(2),))
    assert value.dtype == float
    assert tangent.tolist() == [1, 1, 0, 0]
    value, tangent = ndual.jvp(lambda x: x * np.array([2, 3], "i"), (np.ones(2, "f"),), (np.ones(2, "f"),))
    assert value.dtype == tangent.dtype == np.float64
    assert ndual.grad(lambda x: x * x)(3) == 6.0
    got = ndual.grad(lambda d: np.sum(d["x"]) * d["n"])({"x": np.ones(2), "n": 3})
    assert got["n"] is None
    assert got["x"].tolist() == [3, 3]
    for bad in (np.arange(3), np.array([True])):
        with pytest.raises(ndual.NdualError):
            ndual.grad(np.sum)(bad)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, "3", True])
def test_bad_chunk_sizes(chunk):
    with pytest.raises(ValueError, match="chunk_size"):
        ndual.grad(np.sum, chunk_size=chunk)(np.ones(3))


def test_every_chunk_size_gives_the_same():
    x = np.linspace(0.1, 1, 10)

    def f(x):
        return np.sum(np.sin(x[:-1]) * x[1:] ** 2) + np.prod(x)

    want = ndual.grad(f, chunk_size=1)(x)
    for chunk in (*range(2, 13), 17, 100, None):
        np.testing.assert_allclose(ndual.grad(f, chunk_size=chunk)(x), want, rtol=1e-14)


def test_stop_gradient(grad):
    def f(x):
        still = ndual.stop_gradient(x)
        assert type(still) is np.ndarray
        return x[0] * still[1]

    assert grad(f)(np.array([3.0, 4.0])).tolist() == [4, 0]

    def g(x):
        y = x * 1.0
        still = ndual.stop_gradient(y)
        still[0] = 100.0
        return np.sum(y)

    x = np.array([1.0, 2.0])
    assert ndual.value_and_grad(g)(x)[0] == 3
    assert x.tolist() == [1, 2]


def test_writing_into_what_was_made_outside_raises(grad):
    outside = np.zeros(2)

    def f(x):
        outside[:] = x
        return np.sum(outside)

    with pytest.raises(ndual.DerivativeLostError, match=r"test_semantics.py:\d+"):
        grad(f)(np.ones(2))
    assert outside.tolist() == [0, 0]


def test_reductions_with_initial_where_and_out(grad):
    assert float(grad(lambda a: np.sum(np.array([1.0, 2.0]) * a, initial=a))(1.0)) == 4
    mask = np.array([True, False, True])
    assert grad(lambda x: np.sum(x * x, where=mask))(np.array([1.0, 2, 3])).tolist() == [2, 0, 6]
    assert grad(lambda x: np.max(x, initial=2.5))(np.array([1.0, 2, 3])).tolist() == [0, 0, 1]

    def f(x):
        out = np.empty_like(x[0])
        np.sum(x, axis=0, out=out)
        return out[0] * out[1]

    assert grad(f)(np.array([[1.0, 2], [3, 4]])).tolist() == [[6, 4], [6, 4]]


def test_an_active_initial_value_counts(grad):
    def f(a):
        return np.sum(np.array([1.0, 2.0]), initial=a)

    try:
        got = grad(f)(5.0)
    except ndual.NdualError:
        return
    assert float(got) == 1


def test_steps_have_derivative_zero(grad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ndual.ConstantOutputWarning)
        for f in (np.floor, np.rint, np.sign, np.ceil, np.trunc, lambda x: np.argmax(x) * 1.0, lambda x: x > 0):
            got = grad(lambda x, f=f: np.sum(f(x) * 1.0))(np.array([0.5, 1.7]))
            assert got.tolist() == [0, 0]


def test_a_constant_output_after_a_comparison_warns():
    with pytest.warns(ndual.ConstantOutputWarning):
        assert ndual.grad(lambda x: 1.0 if x > 0 else 2.0)(3.0) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ndual.grad(lambda x: 1.0)(3.0) == 0


def test_cholesky_reads_the_lower_triangle_only(grad):
    a = np.array([[4.0, 2], [2, 3]])
    got = grad(lambda a: np.sum(np.linalg.cholesky(a)))(a)
    np.testing.assert_allclose(got, [[0.2133883476, 0], [0.1464466094, 0.3535533906]], atol=1e-9)
    assert got[0, 1] == 0
    np.testing.assert_allclose(grad(lambda a: np.linalg.slogdet(a)[1])(a), [[0.375, -0.25], [-0.25, 0.5]])
    got = grad(lambda a: np.linalg.solve(a, np.array([1.0, 2])).sum())(a)
    np.testing.assert_allclose(got, [[0.015625, -0.09375], [0.03125, -0.1875]])


def test_a_square_root_of_zero_in_a_norm(grad):
    assert grad(np.linalg.norm)(np.zeros(3)).tolist() == [0, 0, 0]
    np.testing.assert_allclose(grad(np.linalg.norm)(np.array([3.0, 4.0])), [0.6, 0.8])


def test_rebinding_a_scalar_argument_is_no_write(grad):
    def f(s):
        t = s
        s += 1.0
        return s * t

    assert float(grad(f)(2.0)) == 5
