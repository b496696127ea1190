"""Sparse matrices that are filled cell by cell with duals, against differences of SciPy's results."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from sparse_checks import check

import ndual

N = 5
X = 3 + np.cos(np.arange(13.0))
CELLS = np.nonzero(np.eye(N) + np.diag(np.ones(N - 1), 1) + np.diag(np.ones(N - 1), -1))
OTHER = sp.csr_array(np.arange(25.0).reshape(N, N))
KINDS = ["lil_matrix", "lil_array", "dok_matrix", "dok_array"]


def assembled(x, kind):
    a = getattr(sp, kind)((N, N))
    a[0, 0] = 3.0
    for i in range(N):
        a[i, i] = a[i, i] + x[i]
    for i in range(N - 1):
        a[i, i + 1] += x[i] * x[i + 1]
        a[i + 1, i] = -x[i]
    a[-1, 0] = x[2]
    a[1:3, 3] = x[4:6]
    a[[0, 2], [2, 0]] = x[7]
    a[4, :3] = x[1:4]
    a[3:, 3:] = x[:4].reshape(2, 2) + 5 * np.eye(2)
    assert isinstance(a, getattr(sp, kind))
    assert sp.issparse(a)
    assert a.shape == (N, N)
    assert kind[:3] == a.format
    return a


def converted(x, kind):
    a = sp.csr_array((x, CELLS), shape=(N, N))
    a = a.tolil() if kind.startswith("lil") else a.todok()
    a[0, 3] = x[1]
    b = a.copy()
    b[0, 0] = 0.0
    return np.concatenate([a.toarray(), b.toarray()])


def with_diagonal(a, x):
    a.setdiag(x[:N])
    a.setdiag(x[0], -2)
    return a.toarray()


USED = {
    "toarray": lambda a, x: a.toarray(),
    "csr": lambda a, x: a.tocsr() @ x[:N],
    "product": lambda a, x: a @ x[:N],
    "from the left": lambda a, x: np.ones(N) @ a,
    "one cell": lambda a, x: a[1, 1] * a[0, 3],
    "a row": lambda a, x: a[1:2, :].toarray(),
    "solved": lambda a, x: sla.spsolve((a + sp.eye(N) * 9).tocsc(), x[:N]),
    "factors": lambda a, x: sla.splu((a + sp.eye(N) * 9).tocsc()).solve(x[:N]),
    "iterated": lambda a, x: sla.gmres(a + sp.eye(N) * 20, x[:N], rtol=1e-13)[0],
    "operators": lambda a, x: (2 * a - a.T + a @ a + OTHER @ a).toarray(),
    "hstack": lambda a, x: sp.hstack([a, sp.eye(N)]).toarray(),
    "norm": lambda a, x: sla.norm(a),
    "diagonals": with_diagonal,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", USED)
def test_used(name, kind):
    check(lambda x: USED[name](assembled(x, kind), x), X, 1e-6, exact=False)


@pytest.mark.parametrize("kind", KINDS)
def test_converted(kind):
    check(lambda x: converted(x, kind), X)
    check(lambda x: getattr(sp, kind)(sp.csr_array((x, CELLS), shape=(N, N))).toarray(), X)
    check(lambda x: getattr(sp, kind)(x[:9].reshape(3, 3)) @ x[:3], X)


@pytest.mark.parametrize("kind", ["dok_matrix", "dok_array"])
def test_a_dictionary(kind):
    def f(x):
        a = assembled(x, kind)
        assert (0, 0) in a
        assert len(a) == len(a.keys()) == len(list(a))
        return sum(v * (i + 1) for (i, _), v in a.items()) + a.get((0, 0)) + a.get((0, 4), 7.0) + sum(a.values())

    def plain(x):
        a = assembled(x, kind)
        return sum(v * (i + 1) for (i, _), v in a.items()) + a[0, 0] + a[0, 4] + 7.0 + a.sum()

    check(plain, X, exact=False)
    np.testing.assert_allclose(ndual.grad(f)(X), ndual.grad(plain)(X))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_from_outside_stays_plain(kind, mode):
    a = getattr(sp, kind)((N, N))

    def f(x):
        a[0, 1] = 2.0
        a[0, 0] = x[0]
        return a.sum()

    with pytest.raises(ndual.NdualError, match="inside"):
        ndual.grad(f, mode=mode)(X)
    assert type(a) is getattr(sp, kind)
    assert a[0, 1] == 2.0
    assert a.nnz == 1


def test_plain_matrices_stay_scipys():
    def f(x):
        a = sp.lil_array((N, N))
        a[0, 0] = 2.0
        assert type(a) is sp.lil_array
        return a.tocsr() @ x[:N]

    ndual.jacobian(f)(X)
    a = sp.lil_array((N, N))
    a[1, 1:3] = [2.0, 3.0]
    np.testing.assert_array_equal(a.toarray()[1], [0, 2, 3, 0, 0])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_cells_keep_the_number_that_was_written(mode):
    """An array of one cell may change afterwards."""

    def f(p):
        a = sp.lil_matrix((2, 2))
        v = p * 1.0
        a[0, 0] = v[0, ...]
        v[0] = 0.0
        return a.sum() ** 2

    value, found = ndual.value_and_grad(f, mode=mode)(np.array([3.0]))
    assert (value, found.tolist()) == (9.0, [6.0])
