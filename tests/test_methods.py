"""``plain.dot(dual)``, which no protocol hands over; and that the method is NumPy's for everybody else."""

import copy
import pickle

import numpy as np
import pytest

import ndual

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
X = np.array([0.5, -1.0, 2.0])


class Sub(np.ndarray):
    pass


def test_a_plain_array_times_a_dual():
    assert np.array_equal(ndual.jacobian(lambda x: A.dot(x))(X), A)
    assert np.array_equal(ndual.jacobian(lambda x: A.dot(b=x))(X), A)
    assert np.array_equal(ndual.jacobian(lambda x: A.view(Sub).dot(x))(X), A)
    assert np.array_equal(ndual.derivative(lambda t: A.dot(t))(3.0), A)


def test_an_array_made_inside():
    def f(x):
        weights = np.zeros(3)
        first = A.dot(weights)
        weights[0] = x[1]
        return first + A.dot(weights)

    assert np.array_equal(ndual.jacobian(f)(X), [[0, 1, 0], [0, 4, 0]])


def test_an_output_from_outside_is_refused():
    out = np.zeros(2)
    with pytest.raises(ndual.DerivativeLostError):
        ndual.jacobian(lambda x: A.dot(x, out=out))(X)
    assert np.array_equal(out, [0, 0])


def test_plain_calls_are_numpys():
    out = np.zeros(2)
    assert A.dot(X, out) is out
    assert np.array_equal(out, A @ X)
    assert np.array_equal(A.dot(X, out=None), A @ X)
    assert np.array_equal(A.dot([1.0, 1.0, 1.0]), A.sum(1))
    assert np.array_equal(A.dot(2.0), 2 * A)
    assert type(A.view(Sub).dot(X)) is Sub
    for wrong in ({}, {"c": 1}):
        with pytest.raises(TypeError):
            A.dot(**wrong)
    with pytest.raises(ValueError, match="aligned"):
        A.dot(A)


def test_the_method_looks_like_numpys():
    method = np.ndarray.dot
    assert method.__name__ == "dot"
    assert method.__objclass__ is np.ndarray
    assert "dot" in method.__doc__
    assert pickle.loads(pickle.dumps(method)) is method
    assert copy.deepcopy(method) is method


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("shape", [(6,), (3, 2), (2, 1, 3)])
def test_a_shuffle_of_a_dual(make, shape):
    start, numbers = np.arange(6.0) / 3, np.arange(6).reshape(shape)
    make(3).shuffle(numbers)

    def f(x):
        y = x.reshape(shape) * 1.0
        make(3).shuffle(y)
        return y.ravel()

    assert np.array_equal(ndual.jacobian(f)(start), np.eye(6)[numbers.ravel()])
    assert np.array_equal(ndual.jvp(f, (start,), (start,))[0], start[numbers.ravel()])


def test_other_shuffles():
    def f(x):
        y = x.reshape(2, 3) * 1.0
        np.random.default_rng(1).shuffle(y, axis=1)
        np.random.seed(1)
        np.random.shuffle(y)
        return y.ravel()

    start = np.arange(6.0)
    assert np.array_equal(ndual.jacobian(f)(start) @ start, f(start))
    items = [3, 1, 2]
    np.random.default_rng(0).shuffle(items)
    assert sorted(items) == [1, 2, 3]
