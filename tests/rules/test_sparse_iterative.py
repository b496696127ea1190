"""Iterative solvers with duals in matrices, operators and right-hand sides, against differences of SciPy's results."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from sparse_checks import BANDS, CELLS, N, X, Z, check

import ndual

RNG = np.random.default_rng(0)
B = RNG.normal(size=N)
TIGHT = {"rtol": 1e-13}
TALL = sp.csr_array(RNG.normal(size=(7, 4)))
INVERSE = sla.aslinearoperator(sp.diags(1 / np.arange(5.0, 10)))
ENDS = {"atol": 1e-14, "btol": 1e-14}


def square(x, kind="csr_array"):
    return getattr(sp, kind)((x, CELLS), shape=(N, N))


def hermitian(x, kind="csr_array"):
    a = square(x, kind)
    return (a + a.conj().T) / 2


def operator(x):
    return sla.LinearOperator(
        (N, N),
        matvec=lambda v: x[0] * v * 6 + np.roll(v, 1) * x[1] + x[2] * v.sum(),
        rmatvec=lambda v: x[0] * v * 6 + np.roll(v, -1) * x[1] + x[2] * v.sum(),
    )


class Scaled(sla.LinearOperator):
    """An operator whose duals are in an attribute."""

    def __init__(self, x):
        super().__init__(float, (N, N))
        self.scales = {"main": [x[:N]]}

    def _matvec(self, v):
        return self.scales["main"][0] * v.reshape(-1) * 3 + v.sum()

    def _adjoint(self):
        return self


def named(names):
    return [(name, getattr(sla, name)) for name in names.split()]


SOLVED = {
    **{name: lambda x, f=f: f(hermitian(x), B * x[0], **TIGHT)[0] for name, f in named("cg minres")},
    **{
        name: lambda x, f=f: f(square(x, "csc_matrix"), x[:N], **TIGHT)[0]
        for name, f in named("cgs bicg bicgstab gmres lgmres qmr gcrotmk tfqmr")
    },
    "a dense matrix": lambda x: sla.gmres(square(x).toarray(), B, **TIGHT)[0],
    "a constant matrix": lambda x: sla.cg(BANDS, x[:N], **TIGHT)[0],
    "a constant sparse matrix": lambda x: sla.bicgstab(sp.dia_array(BANDS), x[:N], **TIGHT)[0],
    "a right-hand side in a column": lambda x: sla.gmres(square(x), x[:N, None], **TIGHT)[0],
    "a preconditioner and a first guess": lambda x: sla.gmres(
        square(x), B, M=sp.diags(1 / square(x).diagonal()), x0=x[:N], callback=lambda v: None, callback_type="x",
        **TIGHT,
    )[0],
    "an incomplete factorisation": lambda x: sla.gmres(
        square(x), B, M=sla.LinearOperator((N, N), sla.spilu(square(x, "csc_array")).solve), **TIGHT
    )[0],
    "two preconditioners": lambda x: sla.qmr(square(x), B, M1=INVERSE, M2=sla.aslinearoperator(np.eye(N)), **TIGHT)[0],
    "an absolute tolerance": lambda x: sla.bicgstab(square(x), B, rtol=0.0, atol=1e-12)[0],
    "vectors kept": lambda x: sla.lgmres(square(x), B, outer_v=[], **TIGHT)[0],
    "a shift": lambda x: sla.minres(hermitian(x), B, shift=x[3], **TIGHT)[0],
    "an operator": lambda x: sla.gmres(operator(x), B, **TIGHT)[0],
    "an operator and a right-hand side": lambda x: sla.bicg(operator(x), x[:N], **TIGHT)[0],
    "an operator without rmatvec": lambda x: sla.cg(
        sla.LinearOperator((N, N), matvec=lambda v: x[:N] * v * 3 + v.sum()), B, **TIGHT
    )[0],
    "an operator of a class": lambda x: sla.bicgstab(Scaled(x), B, **TIGHT)[0],
    "an operator of a sparse matrix": lambda x: sla.bicgstab(sla.aslinearoperator(square(x)), B, **TIGHT)[0],
    "an operator of a dense matrix": lambda x: sla.qmr(sla.aslinearoperator(square(x).toarray()), B, **TIGHT)[0],
    "a sum of operators": lambda x: sla.gmres(sla.aslinearoperator(square(x)) + operator(x) * 2.0, B, **TIGHT)[0],
}  # fmt: skip
COMPLEX = {
    **{name: lambda x, f=f: f(square(x), x[:N], **TIGHT)[0] for name, f in named("cgs bicg bicgstab gmres qmr")},
    "cg": lambda x: sla.cg(hermitian(x), x[:N], **TIGHT)[0],
}


@pytest.mark.parametrize("name", SOLVED)
def test_solved(name):
    check(SOLVED[name], X)


@pytest.mark.parametrize("name", COMPLEX)
def test_solved_in_complex_numbers(name):
    check(COMPLEX[name], Z)


def test_products_of_operators():
    check(lambda x: operator(x).matvec(x[:N]), X)
    check(lambda x: operator(x) @ x[:N] + operator(x).H @ x[1 : N + 1] + sla.aslinearoperator(BANDS) @ x[:N], X)
    check(lambda x: operator(x) @ np.stack([x[:N], x[1 : N + 1]], 1), X)
    check(lambda x: (operator(x) * x[1]) @ x[:N] + (x[2] * sla.aslinearoperator(BANDS)).T @ x[:N], X)


def tall(x):
    return sp.csr_array((x, TALL.indices, TALL.indptr), shape=TALL.shape)


def wide(x):
    return tall(x).T.tocsr()


LEAST = {
    "tall": lambda f, x: f(tall(x), x[:7], **ENDS)[0],
    "wide": lambda f, x: f(wide(x), x[:4], **ENDS)[0],
    "damped": lambda f, x: f(tall(x), x[:7], damp=0.7, **ENDS)[0],
    "dual damping": lambda f, x: f(wide(x), x[:4], damp=np.abs(x[3]), **ENDS)[0],
    "damping below zero": lambda f, x: f(wide(x), x[:4], damp=-0.5, **ENDS)[0],
    "dual damping below zero": lambda f, x: f(wide(x), x[:4], damp=x[3] - 3.0, **ENDS)[0],
    "a first guess": lambda f, x: f(wide(x), x[:4], x0=x[3:10], **ENDS)[0],
    "a first guess, damped": lambda f, x: f(wide(x), x[:4], x0=x[3:10], damp=0.5, **ENDS)[0],
    "a constant matrix": lambda f, x: f(TALL, x[:7], **ENDS)[0],
    "an operator": lambda f, x: f(sla.aslinearoperator(tall(x)), x[:7], **ENDS)[0],
    "a dense matrix": lambda f, x: f(tall(x).toarray(), np.ones(7), **ENDS)[0],
    "a matrix of rank one": lambda f, x: f(x[:7, None] * x[:3], x[10:17], **ENDS)[0],
    "norms": lambda f, x: np.stack([f(tall(x), x[:7], **ENDS)[k] for k in ((3, 4, 8) if f is LSQR else (3, 7))]),
    "norms, damped": lambda f, x: np.stack(
        [f(tall(x), x[:7], damp=0.5, **ENDS)[k] for k in ((3, 4, 8) if f is LSQR else (3, 7))]
    ),
}
LSQR, LSMR = sla.lsqr, sla.lsmr


@pytest.mark.parametrize("name", LEAST)
@pytest.mark.parametrize("f", [LSQR, LSMR], ids=["lsqr", "lsmr"])
def test_least_squares(f, name):
    check(lambda x: LEAST[name](f, x), TALL.data, 1e-6)


@pytest.mark.parametrize("damp", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("f", [LSQR, LSMR], ids=["lsqr", "lsmr"])
def test_results_of_least_squares_are_scipys(f, damp):
    """All of them, the estimates of norms too."""
    found = []
    ndual.jvp(lambda x: found.append(f(tall(x), x[:7], damp=damp)) or x, (TALL.data,), (TALL.data,))
    for got, want in zip(found[0], f(TALL, TALL.data[:7], damp=damp), strict=True):
        np.testing.assert_array_equal(ndual.stop_gradient(got), want)


@pytest.mark.filterwarnings("ignore:The problem size")
def test_constant_operators_stay_scipys():
    a = np.diag(np.arange(1.0, 31)) + 1.0
    block = np.cos(np.arange(60.0)).reshape(30, 2)
    constant = sla.LinearOperator(a.shape, matvec=lambda v: a @ v, matmat=lambda v: a @ v, dtype=float)
    plain = sla.lobpcg(constant, block)[0], sla.cg(constant, np.ones(30))[0]

    def f(x):
        found = sla.lobpcg(constant, block)[0], sla.cg(constant, np.ones(30))[0]
        for got, want in zip(found, plain, strict=True):
            assert type(got) is np.ndarray
            np.testing.assert_allclose(got, want, rtol=1e-12)  # some BLAS round by where arrays lie
        return np.sum(x) * found[0][0]

    np.testing.assert_allclose(ndual.grad(f)(X), np.full(X.size, plain[0][0]), rtol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_single_precision_stays(mode):
    x = X.astype("f")

    def hermitian(x):
        return square(x) + square(x).T

    value = sla.cg(hermitian(x), B.astype("f"))[0]
    assert ndual.jvp(lambda x: sla.cg(hermitian(x), B.astype("f"))[0], (x,), (x,))[1].dtype == value.dtype == "f"
    assert ndual.grad(lambda x: np.sum(sla.cg(hermitian(x), B.astype("f"))[0]), mode=mode)(x).dtype == "f"


def test_the_routine_runs_once_for_the_value():
    seen = []

    def f(x):
        return np.sum(sla.cg(hermitian(x), B, callback=lambda v: seen.append(v), **TIGHT)[0])

    f(X)
    plain = len(seen)
    for mode in ("forward", "reverse"):
        seen.clear()
        ndual.grad(f, mode=mode)(X)
        assert len(seen) == plain
        assert all(type(v) is np.ndarray for v in seen)


def test_what_did_not_converge_has_no_derivative():
    def f(x):
        x, info = sla.cg(hermitian(x), B, maxiter=1, **TIGHT)
        assert info > 0
        return x

    with pytest.raises(ndual.NdualError, match="converge"):
        ndual.jvp(f, (X,), (X,))
    np.testing.assert_array_equal(ndual.jvp(lambda x: x + 0 * np.isnan(f(x)).sum(), (X,), (X,))[1], X)


def test_what_an_iteration_estimates_has_no_derivative():
    tangent = ndual.jvp(lambda x: sla.lsqr(tall(x), x[:7])[6], (TALL.data,), (TALL.data,))[1]
    assert np.isnan(tangent)


def test_what_changes_later_does_not_count():
    def f(x):
        a = BANDS * 1.0
        scale = x[:N] * 1.0
        y = sla.gmres(a, x[:N], **TIGHT)[0]
        z = sla.gmres(sla.LinearOperator((N, N), lambda v: scale * v + v[::-1], lambda v: scale * v + v[::-1]), y)[0]
        a[:] = 0.0
        scale[:] = 0.0
        return np.sum(y * z)

    forward = ndual.grad(f, mode="forward")(X)
    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(X), forward, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("use", "match"),
    [
        (lambda x: sla.gmres(sla.LinearOperator((N, N), lambda v: 4 * v + x[:N] * v.sum()), B)[0], "rmatvec"),
        (lambda x: sla.cg(BANDS, sp.csr_array(x[:N, None]))[0], "toarray"),
        (lambda x: sla.spilu(square(x, "csc_array")).solve(B), "preconditioner"),
    ],
)
def test_what_is_not_reached_says_so(use, match):
    with pytest.raises(ndual.NdualError, match=match):
        ndual.grad(lambda x: np.sum(use(x)), mode="reverse")(X)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_least_squares_that_stopped_early(mode):
    """No derivative hangs on a run that ended for the number of its iterations, far from the solution."""
    a = np.random.default_rng(0).standard_normal((20, 12))
    with pytest.raises(ndual.UndefinedDerivativeError, match="istop=7"):
        ndual.grad(lambda b: np.sum(sla.lsqr(a, b, iter_lim=3)[0]), mode=mode)(np.ones(20))
