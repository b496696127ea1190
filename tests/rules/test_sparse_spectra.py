"""A few eigenvalues, singular values and vectors of sparse matrices with duals, against differences of SciPy's results.

Vectors enter by what they put together, which neither a sign nor a phase changes.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from sparse_checks import check

import ndual

N = 9
RNG = np.random.default_rng(1)
FULL = RNG.normal(size=(N, N)) * (RNG.random((N, N)) < 0.4) + np.diag(np.arange(1, N + 1) * 1.5)
CELLS = np.nonzero(FULL)
X = FULL[CELLS]
Z = X + 0.3j * np.cos(np.arange(X.size))
METRIC = sp.diags(np.arange(1.0, N + 1) / 3).tocsc()
START = {"v0": np.ones(N)}
SHORT = {"v0": np.ones(5), "k": 2}


def square(x, kind="csr_array"):
    return getattr(sp, kind)((x, CELLS), shape=(N, N))


def hermitian(x):
    a = square(x)
    return (a + a.conj().T) * 0.5


def short(x):
    return square(x)[:5, :].tocsc()


def together(pair, weights=np.sin):
    w, v = pair
    return (v * weights(w)) @ v.conj().T


def joined(triple):
    u, s, vh = triple
    return (u * np.sin(s)) @ vh


def block():
    return np.cos(np.arange(2.0 * N)).reshape(N, 2)


SYMMETRIC = {
    "values": lambda x: sla.eigsh(hermitian(x), k=3, **START)[0],
    "vectors": lambda x: together(sla.eigsh(hermitian(x), k=3, **START)),
    "values alone": lambda x: sla.eigsh(hermitian(x), k=3, return_eigenvectors=False, **START),
    "the smallest": lambda x: together(sla.eigsh(hermitian(x), k=2, which="SA", **START)),
    "near a number": lambda x: together(sla.eigsh(hermitian(x), k=2, sigma=3.3, **START)),
    "a metric": lambda x: together(sla.eigsh(hermitian(x), k=2, M=METRIC, **START)),
}
REAL = {
    "a dual metric": lambda x: together(
        sla.eigsh(hermitian(x), k=2, M=sp.diags(x[:N] ** 2 + 3, format="csc"), **START)
    ),
    "a dense matrix": lambda x: together(sla.eigsh(hermitian(x).toarray(), k=2, **START)),
    "a matrix as an operator": lambda x: together(sla.eigsh(sla.aslinearoperator(hermitian(x)), k=2, **START)),
    "vectors themselves": lambda x: sla.eigsh(hermitian(x), k=2, **START)[1],
    "lobpcg": lambda x: together(sla.lobpcg(hermitian(x), block(), tol=1e-12, maxiter=300)),
    "lobpcg with a metric": lambda x: together(sla.lobpcg(hermitian(x), block(), B=METRIC, tol=1e-12, maxiter=300)),
}
GENERAL = {
    "values": lambda x: sla.eigs(square(x), k=2, **START)[0],
    "values alone": lambda x: sla.eigs(square(x), k=2, return_eigenvectors=False, **START),
    "vectors": lambda x: together(sla.eigs(square(x), k=2, **START), np.asarray),
    "near a number": lambda x: together(sla.eigs(square(x), k=2, M=METRIC, sigma=2.2, **START), np.exp),
}
SINGULAR = {
    "all": lambda x: joined(sla.svds(short(x), **SHORT)),
    "a tall matrix": lambda x: joined(sla.svds(short(x).T, **SHORT)),
    "values": lambda x: sla.svds(short(x), return_singular_vectors=False, **SHORT),
    "left vectors": lambda x: together(sla.svds(short(x), return_singular_vectors="u", **SHORT)[1::-1]),
    "right vectors": lambda x: together(
        (lambda _, s, vh: (s, vh.conj().T))(*sla.svds(short(x), return_singular_vectors="vh", **SHORT))
    ),
    "propack": lambda x: joined(sla.svds(short(x), solver="propack", **SHORT)),
    "a dense matrix": lambda x: joined(sla.svds(short(x).toarray(), **SHORT)),
}


@pytest.mark.parametrize("x", [X, Z], ids=["real", "complex"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_hermitian_matrices(name, x):
    check(SYMMETRIC[name], x, 1e-6, exact=False)


@pytest.mark.filterwarnings("ignore:The problem size")
@pytest.mark.parametrize("name", REAL)
def test_real_matrices(name):
    check(REAL[name], X, 1e-6, exact=False)


@pytest.mark.parametrize("x", [X, Z], ids=["real", "complex"])
@pytest.mark.parametrize("name", GENERAL)
def test_general_matrices(name, x):
    check(GENERAL[name], x, 1e-6)


@pytest.mark.parametrize("x", [X, Z], ids=["real", "complex"])
@pytest.mark.parametrize("name", SINGULAR)
def test_singular_values(name, x):
    check(SINGULAR[name], x, 1e-6, exact=False)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_single_precision_stays(mode):
    x = X.astype("f")
    for f in (
        lambda x: np.sum(sla.eigsh(square(x) + square(x).T, k=2)[0]),
        lambda x: np.sum(sla.svds(short(x), k=2)[1]),
        lambda x: np.sum(np.abs(sla.eigsh(square(x) + square(x).T, k=2)[1])),
    ):
        g = ndual.grad(f, mode=mode)(x)
        assert g.dtype == "f"
        np.testing.assert_allclose(g, ndual.grad(f, mode=mode)(X), rtol=2e-3, atol=2e-3)


def test_values_that_coincide_have_no_derivative_of_their_own():
    def f(x):
        return np.abs(sla.eigsh(sp.diags(x), k=2, v0=np.arange(1.0, 7))[1])

    with pytest.raises(ndual.NdualError, match="coincide"):
        ndual.jacobian(f)(np.array([1.0, 2, 3, 4, 9, 9]))


def scaled(x):
    return sla.LinearOperator((N, N), matvec=lambda v: x[:N] * v.reshape(-1), rmatvec=lambda v: x[:N] * v.reshape(-1))


@pytest.mark.parametrize(
    ("use", "match"),
    [
        (lambda x: sla.eigsh(scaled(x), k=2)[0], "Pass a sparse or a dense matrix"),
        (lambda x: sla.svds(scaled(x), k=2)[1], "Pass a sparse or a dense matrix"),
        (lambda x: sla.lobpcg(hermitian(x), block(), Y=np.ones((N, 1)))[0], "Project the matrix"),
    ],
)
@pytest.mark.filterwarnings("ignore:The problem size")
def test_what_is_not_reached_says_so(use, match):
    with pytest.raises(ndual.NdualError, match=match):
        ndual.grad(lambda x: np.sum(use(x)))(X)
