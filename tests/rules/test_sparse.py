"""Products and solves with a sparse matrix: in every format, from either side, with arrays made inside."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import ndual
from ndual.rules import registry
from ndual.rules.sparse import product

D = np.array([[1.0, 0, 2], [0, 0, 3], [4, 5, 0], [0, 6, 0]])
X, Z = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, -1.0, 0.5])
KINDS = ("csr", "csc", "coo", "dia", "bsr", "dok", "lil")
FORMATS = [f"{name}_{kind}" for name in KINDS for kind in ("matrix", "array")]


@pytest.mark.parametrize("name", FORMATS)
def test_products(name):
    a = getattr(scipy.sparse, name)(D)
    assert np.array_equal(ndual.jacobian(lambda x: a @ x)(X), D)
    assert np.array_equal(ndual.jacobian(lambda x: a.dot(x))(X), D)
    assert np.array_equal(ndual.jacobian(lambda z: z @ a)(Z), D.T)
    assert np.array_equal(ndual.jacobian(lambda z: a.T @ z)(Z), D.T)
    many = ndual.jacobian(lambda x: a @ x)(np.stack([X, 2 * X], 1))
    assert np.array_equal(many, np.einsum("ik,jl->ijkl", D, np.eye(2)))
    rows = ndual.jacobian(lambda z: z @ a)(np.stack([Z, Z]))
    assert np.array_equal(rows, np.einsum("ik,lj->ijkl", np.eye(2), D))


def test_arrays_made_inside():
    a = scipy.sparse.csr_array(D)

    def f(x):
        weights = np.zeros(3)
        first = a @ weights
        weights[0] = x
        return first + a @ weights

    assert np.array_equal(ndual.jacobian(f)(3.0), D[:, 0])


def test_plain_products_are_scipys():
    a = scipy.sparse.csr_array(D)
    ndual.jacobian(lambda x: a @ x)(X)
    assert np.array_equal(a @ X, D @ X)
    assert np.array_equal((a @ a.T).toarray(), D @ D.T)
    with pytest.raises(ValueError, match="mismatch"):
        a @ Z


def test_shapes_that_do_not_fit_are_scipys_error():
    a = scipy.sparse.csr_array(D)
    with pytest.raises(ValueError, match="mismatch"):
        ndual.jacobian(lambda z: a @ z)(Z)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 2)])
def test_spsolve(shape):
    dense = np.array([[4.0, 1, 0], [0, 3, 1], [1, 0, 5]])
    a = scipy.sparse.csc_array(dense)
    b = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    got = ndual.jacobian(lambda b: scipy.sparse.linalg.spsolve(a, b))(b)
    inverse = np.linalg.inv(dense)
    want = np.einsum("ik,jl->ijkl", inverse, np.eye(2)) if shape == (3, 2) else inverse.reshape(3, *shape)
    assert np.allclose(got, want)


def test_cotangents_are_adjoint_to_tangents():
    rng = np.random.default_rng(0)
    a = scipy.sparse.csc_array(np.array([[4.0, 1, 0], [0, 3, 1], [1, 0, 5]]))
    rule, function = registry.RULES["ndual.rules.sparse.product"], product
    for shape in ((3,), (3, 2)):
        x, t, w = (rng.normal(size=shape) for _ in range(3))
        arrays, params = rule.bind((a, x), {})
        forth = rule.jvp(np, function(a, x), arrays, (t[None],), **params)[0]
        back = rule.vjp(np, w, function(a, x), arrays, **params)[0]
        assert np.vdot(back, t) == pytest.approx(np.vdot(w, forth))
