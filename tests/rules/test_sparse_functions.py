"""Functions of sparse matrices with duals, against differences of SciPy's results."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from sparse_checks import CELLS, N, X, Z, check

import ndual

OTHER = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]]))


OPERATOR = sla.aslinearoperator(np.eye(N))


def square(x, kind="csr_array"):
    return getattr(sp, kind)((x, CELLS), shape=(N, N))


USED = {
    **{f"norm of order {k}": lambda a, x, k=k: sla.norm(a, k) for k in (None, "fro", 1, -1, np.inf, -np.inf, 2)},
    **{
        f"norms of order {k} along {axis}": lambda a, x, k=k, axis=axis: sla.norm(a, k, axis=axis)
        for k in (None, 1, 2, 3, np.inf, -np.inf)
        for axis in (0, 1)
    },
    "norm of both axes": lambda a, x: sla.norm(a, 1, axis=(1, 0)),
    "inverse": lambda a, x: sla.inv(a.tocsc()).toarray(),
    "power": lambda a, x: sla.matrix_power(a, 5).toarray(),
    "exponential": lambda a, x: sla.expm(a.tocsc() * 0.3).toarray(),
    "lower triangle": lambda a, x: sla.spsolve_triangular(sp.tril(a).tocsr(), x[:N]),
    "upper triangle": lambda a, x: sla.spsolve_triangular(sp.triu(a).tocsc(), x[:N], lower=False),
    "unit triangle": lambda a, x: sla.spsolve_triangular(sp.tril(a, -1).tocsr(), x[:N], unit_diagonal=True),
    "columns": lambda a, x: sla.spsolve_triangular(sp.tril(a).tocsr(), x[:N, None] * np.ones(2)),
    "exponential times": lambda a, x: sla.expm_multiply(a * 0.2, x[:N]),
    "exponential times columns": lambda a, x: sla.expm_multiply(a * 0.2, np.stack([x[:N], x[1 : N + 1]], 1)),
    "at several times": lambda a, x: sla.expm_multiply(a * 0.2, x[:N], start=0, stop=1.5, num=4),
    "without the end": lambda a, x: sla.expm_multiply(a * 0.2, x[:N], start=0.5, stop=1.5, num=4, endpoint=False),
    "decay": lambda a, x: sla.expm_multiply(a * -1.5, x[:N]),
    "dense": lambda a, x: sla.expm_multiply(a.toarray() * 0.2, x[:N]),
    "sparse right-hand sides": lambda a, x: sla.spsolve(a.tocsc(), sp.csc_array(np.eye(N))[:, :3] * x[0]).toarray(),
    "constant ones": lambda a, x: sla.spsolve(a.tocsc(), sp.csc_array(np.eye(N))).toarray(),
    "one in a sparse column": lambda a, x: sla.spsolve(a.tocsc(), sp.csc_array(x[:N, None])),
    "kronsum": lambda a, x: sp.kronsum(a, OTHER).toarray(),
    "kronsum on the right": lambda a, x: sp.kronsum(OTHER, a, "csc").toarray(),
    "kronsum of two": lambda a, x: sp.kronsum(a, a * x[0]).data,
    "find": lambda a, x: sp.find(a)[2],
    "largest and smallest": lambda a, x: a.max() * a.min(),
    "mean": lambda a, x: a.mean(),
}
REAL = ("max", "min", "largest")


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix"])
@pytest.mark.parametrize("name", USED)
def test_used(name, kind):
    if isinstance(USED[name](square(X, kind), X), np.matrix):  # from SciPy 1.18 on
        pytest.skip("a numpy.matrix, which is refused")
    check(lambda x: USED[name](square(x, kind), x), X, 1e-6, exact=False)


COMPLEX = [name for name in USED if not name.startswith("largest") and not any(k in name for k in ("-inf", "order -1"))]


@pytest.mark.parametrize("name", COMPLEX)
def test_used_in_complex_numbers(name):
    check(lambda x: USED[name](square(x), x), Z, 1e-6, exact=False)


def test_constant_matrices():
    check(lambda x: sla.spsolve_triangular(sp.tril(square(X)).tocsr(), x[:N]), X)
    check(lambda x: sla.expm_multiply(square(X), x[:N]), X, 1e-6)


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix"])
def test_cells_that_are_written(kind):
    def f(x):
        a = square(x, kind)
        a[0, 0] = x[3]
        a[2, 1] = x[1] * x[2]
        a[0, 4] = x[5]
        a[1, :] = x[:N]
        a.setdiag(x[:N] ** 2)
        a.setdiag(x[0], 1)
        a.sum_duplicates()
        a.sort_indices()
        a.eliminate_zeros()
        assert a.count_nonzero() == a.nnz
        return a.toarray()

    check(f, X)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_single_precision_stays(mode):
    x = X.astype("f")
    for f in (
        lambda x: sla.norm(square(x)),
        lambda x: np.sum(sla.expm_multiply(square(x), np.ones(N, "f"))),
        lambda x: np.sum(sla.spsolve_triangular(sp.tril(square(x)).tocsr(), np.ones(N, "f"))),
        lambda x: sla.inv(square(x, "csc_array")).sum(),
    ):
        assert ndual.jvp(f, (x,), (x,))[1].dtype == np.asarray(f(x)).dtype
        np.testing.assert_allclose(ndual.grad(f, mode=mode)(x), ndual.grad(f)(X), rtol=1e-3)


@pytest.mark.parametrize(
    ("use", "match"),
    [
        (lambda a, x: sla.spsolve_triangular(a, x[:N]), "other triangle"),
        (lambda a, x: sla.spsolve_triangular(sp.tril(a).tocsr(), x[:N], unit_diagonal=True), "diagonal"),
        (lambda a, x: sla.expm_multiply(sla.aslinearoperator(a) + OPERATOR, x[:N], traceA=1.0), "operator"),
        (lambda a, x: sla.expm_multiply(a, x[:N], start=0, stop=x[0], num=3), "Scale the matrix"),
        (lambda a, x: sla.onenormest(a), "onenormest"),
        (lambda a, x: a.max(axis=0), "toarray"),
    ],
)
def test_what_is_not_reached_says_so(use, match):
    with pytest.raises(ndual.NdualError, match=match):
        ndual.grad(lambda x: np.sum(use(square(x), x)))(X)


def test_scipys_own_errors():
    with pytest.raises(ValueError, match="norm order"):
        ndual.grad(lambda x: sla.norm(square(x), 7))(X)
    with pytest.raises(ValueError, match="exponent"):
        ndual.grad(lambda x: sla.matrix_power(square(x), -1).sum())(X)
