"""BLAS and LAPACK called from unmodified code: what is not read, what is written, how the routines are come by."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg import blas, get_blas_funcs, lapack
from scipy.linalg.blas import dgemm, dtrsm

import ndual
from ndual.rules import blas_terms

A = np.array([[1.0, 2.0], [3.0, 4.0]])
B = np.array([[5.0, 6.0], [7.0, 8.0]])
C = np.array([[1.0, 0.0], [2.0, 1.0]])
T = np.array([[2.0, 1.0], [0.0, 4.0]])
ONE = np.ones((2, 2))
NAN = np.full((2, 2), np.nan)
MODES = ("forward", "reverse")
(found_gemm,) = get_blas_funcs(("gemm",), dtype="d")


def gradients(f, *x, mode):
    return ndual.grad(f, argnums=tuple(range(len(x))), mode=mode)(*x)


def same(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("mode", MODES)
def test_coefficients_of_gemm_and_gemv(mode):
    got = gradients(lambda *x: dgemm(*x).sum(), 2.0, A, B, 3.0, C, mode=mode)
    same(got, (134.0, [[22, 30], [22, 30]], [[8, 8], [12, 12]], 4.0, 3 * ONE))
    x, y = np.array([1.0, -1.0]), np.array([10.0, 20.0])
    got = gradients(lambda *x: blas.dgemv(*x).sum(), 2.0, A, x, 3.0, y, mode=mode)
    same(got, (-2.0, [[2, -2], [2, -2]], [8, 12], 30.0, [3, 3]))


def test_trsm_with_a_zero_coefficient():
    singular, b = np.array([[1.0, 1.0], [0.0, 0.0]]), A
    for a in (singular, NAN):
        value, tangent = ndual.jvp(lambda b, a=a: dtrsm(0.0, a, b), (b,), (ONE,))
        same((value, tangent), (0 * ONE, 0 * ONE))
        value, tangent = ndual.jvp(lambda a, b: dtrsm(0.0, a, b), (a, b), (ONE, ONE))
        same((value, tangent), (0 * ONE, 0 * ONE))
        same(gradients(lambda a, b: dtrsm(0.0, a, b).sum(), a, b, mode="reverse"), (0 * ONE, 0 * ONE))
    value, tangent = ndual.jvp(lambda alpha: dtrsm(alpha, T, b), (0.0,), (1.0,))
    same((value, tangent), (0 * ONE, [[0.125, 0.5], [0.75, 1.0]]))
    value, tangent = ndual.jvp(lambda alpha: dtrsm(alpha, singular, b), (0.0,), (0.0,))
    same((value, tangent), (0 * ONE, 0 * ONE))
    assert ndual.grad(lambda alpha: dtrsm(alpha, T, b).sum(), mode="reverse")(0.0) == 2.375
    # By alpha and b at once, the coefficient enters the second derivative although it is zero.
    mixed = ndual.hessian(lambda v: dtrsm(v[0], T, v[1:].reshape(2, 2)).sum())(np.append(0.0, b))
    np.testing.assert_allclose(mixed[0], [0, 0.5, 0.5, 0.125, 0.125])


def test_nothing_is_solved_for_a_zero_coefficient_that_does_not_move(monkeypatch):
    def solve(*_):
        raise AssertionError("a triangular system was solved")

    monkeypatch.setattr(blas_terms, "solve", solve)
    _, tangent = ndual.jvp(lambda alpha, a, b: dtrsm(alpha, a, b), (0.0, T, A), (0.0, ONE, ONE))
    same((tangent,), (0 * ONE,))
    same((ndual.grad(lambda b: dtrsm(0.0, T, b).sum(), mode="reverse")(A),), (0 * ONE,))
    with pytest.raises(AssertionError, match="was solved"):
        ndual.jvp(lambda alpha: dtrsm(alpha, T, A), (0.0,), (1.0,))


def test_zero_annihilates_infinity_in_the_product_that_a_coefficient_scales():
    a, b = np.array([[0.0, 1.0]]), np.array([[np.inf], [2.0]])
    assert ndual.jvp(lambda alpha: dgemm(alpha, a, b), (3.0,), (1.0,))[1] == 2.0
    assert ndual.grad(lambda alpha: dgemm(alpha, a, b).sum(), mode="reverse")(3.0) == 2.0


@pytest.mark.parametrize("mode", MODES)
def test_trsm(mode):
    below = np.array([[2.0, 1.0], [np.nan, 4.0]])
    _, tangent = ndual.jvp(lambda a, b: dtrsm(2.0, a, b), (below, A), (np.array([[1.0, 0], [0, 0]]), ONE))
    same((tangent,), ([[0.625, 0.25], [0.5, 0.5]],))
    got = gradients(lambda *x: dtrsm(*x).sum(), 2.0, below, A, mode=mode)
    same(got, (2.375, [[-0.625, -1.75], [0, -0.4375]], [[1, 1], [0.25, 0.25]]))


def test_the_value_is_the_routines_own():
    """Some libraries give NaN for 0 * NaN, some zero: what is returned is what came back; derivatives are zero."""
    for n in (2, 64):
        a, b = np.full((n, n), np.nan), np.ones((n, n))
        value, tangent = ndual.jvp(lambda b, a=a: dgemm(0.0, a, b), (b,), (b,))
        np.testing.assert_array_equal(value, dgemm(0.0, a, b))
        np.testing.assert_array_equal(tangent, 0)


def test_norm_of_zero():
    for name in ("dnrm2", "dasum"):
        routine = getattr(blas, name)
        for mode in MODES:
            same((ndual.grad(lambda x, r=routine: r(x), mode=mode)(np.zeros(3)),), (np.zeros(3),))
    np.testing.assert_allclose(ndual.grad(lambda x: blas.dnrm2(x))(np.array([3.0, 4.0])), [0.6, 0.8])
    assert blas.idamax(np.array([1.0, -3.0])) == 1
    assert ndual.grad(lambda x: x[blas.idamax(x)] ** 2)(np.array([1.0, -3.0])).tolist() == [0, -6]


def test_the_other_triangle_stays():
    c = np.array([[1.0, 2.0], [9.0, 4.0]])
    value, tangent = ndual.jvp(lambda c: blas.dsyrk(2.0, A, beta=3.0, c=c), (c,), (ONE,))
    same((value, tangent), ([[13, 28], [9, 62]], [[3, 3], [1, 3]]))
    got = ndual.grad(lambda a: blas.dsymm(1.0, a, A).sum())(np.array([[2.0, 1.0], [7.0, 3.0]]))
    same((got,), ([[3, 10], [0, 7]],))


LAYOUTS = {
    "F": lambda a: np.array(a, order="F"),
    "C": lambda a: np.array(a, order="C"),
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "view": lambda a: np.array(a, order="F").T.copy().T,
    "float32": lambda a: np.array(a, np.float32, order="F"),
}
WRITERS = {
    "gemm": lambda c: blas.dgemm(1.0, A, B, 2.0, c, overwrite_c=1),
    "gemm without": lambda c: blas.dgemm(1.0, A, B, 2.0, c),
    "symm": lambda c: blas.dsymm(1.0, A, B, 2.0, c, overwrite_c=1),
    "syrk": lambda c: blas.dsyrk(1.0, A, 2.0, c, overwrite_c=1),
    "trmm": lambda c: blas.dtrmm(2.0, T, c, overwrite_b=1),
    "trsm": lambda c: dtrsm(2.0, T, c, overwrite_b=1),
    "ger": lambda c: blas.dger(1.0, A[0], A[1], a=c, overwrite_a=1),
    "potrf": lambda c: lapack.dpotrf(c, overwrite_a=1)[0],
    "geqp3": lambda c: lapack.dgeqp3(c, overwrite_a=1)[0],
    "getrs": lambda c: lapack.dgetrs(T, np.array([0, 1]), c, overwrite_b=1)[0],
}
VECTORS = {
    "axpy": lambda y: blas.daxpy(A[0], y, a=2.0),
    "axpy of itself": lambda y: blas.daxpy(y, y, a=2.0),
    "scal": lambda y: blas.dscal(2.0, y),
    "copy": lambda y: blas.dcopy(A[0], y),
    "swap": lambda y: blas.dswap(1 * y, y)[0],
    "rot": lambda y: blas.drot(y, A[0], 0.6, 0.8, overwrite_x=1)[0],
    "gemv": lambda y: blas.dgemv(1.0, A, A[0], 2.0, y, overwrite_y=1),
    "trsv": lambda y: blas.dtrsv(T, y, overwrite_x=1),
}
CASES = [(f, v) for f in WRITERS.values() for v in (np.array([[4.0, 1.0], [1.0, 5.0]]),)]
CASES += [(f, np.array([3.0, 7.0])) for f in VECTORS.values()]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[*WRITERS, *VECTORS])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_is_followed_as_scipy_does(case, layout):
    """The operand after the call, the result, and both again after a write into the result."""
    call, start = CASES[case]
    w = np.random.default_rng(0).standard_normal((3, *start.shape))

    def f(x):
        c = LAYOUTS[layout](np.asarray(x) * 1.0)
        out = call(c)
        before = np.sum(w[0] * c)
        out *= 3.0
        return before + np.sum(w[1] * c * c) + np.sum(w[2] * out)

    h = 1e-3 if layout != "float32" else 2e-2

    def at(k, t):
        return f(start + k * h * t)

    want = np.array([(8 * (at(1, t) - at(-1, t)) - (at(2, t) - at(-2, t))) / (12 * h)
                     for t in np.eye(start.size).reshape(-1, *start.shape)]).reshape(start.shape)  # fmt: skip
    tolerance = {"rtol": 1e-7, "atol": 1e-7} if layout != "float32" else {"rtol": 1e-3, "atol": 1e-2}
    if layout == "float32" and case in (0,):
        tolerance["atol"] = 1e-1
    for mode in MODES:
        value, got = ndual.value_and_grad(f, mode=mode)(start)
        np.testing.assert_allclose(value, f(start), rtol=1e-6)
        np.testing.assert_allclose(got, want, **tolerance)
    np.testing.assert_allclose(ndual.grad(f, chunk_size=1)(start), want, **tolerance)


def test_arguments_stay_as_they_are():
    x, c = np.array([1.0, 2.0]), np.array([3.0, 4.0])

    def f(x, c):
        blas.daxpy(np.ones(2), c)  # constants alone
        out = blas.daxpy(x, c, a=2.0)
        return np.sum(out * c) + np.sum(blas.dscal(3.0, x))

    for mode in MODES:
        got = gradients(f, x, c, mode=mode)
        same(got, (4 * (c + 1 + 2 * x) + 3, 2 * (c + 1 + 2 * x)))
        got = ndual.grad(f, mode=mode, **({"chunk_size": 1} if mode == "forward" else {}))(x, c)
        same((got,), (4 * (c + 1 + 2 * x) + 3,))
        same((x, c), ([1, 2], [3, 4]))


def test_second_derivatives_of_what_is_overwritten():
    """By keyword and by position, an array of constants too."""

    def f(x, c):
        out = dgemm(1.0, x, x, 2.0, c, 0, 0, 1)
        y = np.ones(2)
        blas.daxpy(x[0], y, a=x[1, 1])
        return np.sum(c * c) + np.sum(out) + np.sum(y * blas.dscal(2.0, x[1] ** 2))

    def plain(x, c):
        out = x @ x + 2.0 * c
        return np.sum(out * out) + np.sum(out) + np.sum((1 + x[1, 1] * x[0]) * 2.0 * x[1] ** 2)

    start = np.asfortranarray([[4.0, 1.0], [1.0, 3.0]])
    want = ndual.hessian(lambda x: plain(x, 1.0 * start))(start)
    for mode in MODES:
        got = ndual.jacobian(ndual.grad(lambda x: f(x, np.array(start)), mode=mode))(start)
        np.testing.assert_allclose(got, want)
    same(gradients(f, start, start.copy("F"), mode="reverse"), gradients(plain, start, start, mode="reverse"))


def test_results_go_into_fresh_arrays():
    def f(x):
        y = np.zeros(2)
        blas.daxpy(x, y, a=2.0)
        z = np.zeros((2, 2), order="F")
        dgemm(1.0, np.outer(x, x), A, 1.0, z, overwrite_c=1)
        return y.sum() + z.sum()

    x = np.array([1.0, 2.0])
    want = 2 + 2 * 0 + (A.sum(1) @ x) + x.sum() * A.sum(1)
    for mode in MODES:
        np.testing.assert_allclose(ndual.grad(f, mode=mode)(x), want)


def test_an_array_from_outside_is_not_written_to():
    outside = np.zeros(2)

    def f(x):
        blas.daxpy(x, outside)
        return x.sum()

    for mode in MODES:
        with pytest.raises(ndual.DerivativeLostError):
            ndual.grad(f, mode=mode)(np.ones(2))
    assert not outside.any()


class Holder:
    def __init__(self, x):
        self.gemm, self.potrf = scipy.linalg.get_blas_funcs("gemm", (x,)), lapack.get_lapack_funcs(["potrf"], (x,))[0]


@pytest.mark.parametrize("mode", MODES)
def test_ways_to_come_by_a_routine(mode):
    def through_getters(x):
        gemm, trmm = scipy.linalg.get_blas_funcs(("gemm", "trmm"), (x, A))
        held = Holder(x)
        assert gemm.typecode == held.gemm.typecode == "d"
        return gemm(1.0, x, A).sum() + trmm(1.0, x, A).sum() + held.gemm(1.0, x, A).sum() + held.potrf(x)[0].sum()

    def closed_over():
        (inner,) = get_blas_funcs(("gemm",), (A,))
        return lambda x: inner(1.0, x, A).sum()

    x = np.array([[4.0, 1.0], [1.0, 3.0]])
    want = ndual.grad(lambda x: (x @ A).sum(), mode=mode)(x)
    factor = ndual.grad(lambda x: np.linalg.cholesky(x.T).sum(), mode=mode)(x)
    np.testing.assert_allclose(ndual.grad(through_getters, mode=mode)(x), 2 * want + np.triu(want) + factor)
    for f in (
        lambda x: dgemm(1.0, x, A).sum(),
        lambda x: found_gemm(1.0, x, A).sum(),
        lambda x: scipy.linalg.blas.dgemm(1.0, x, A).sum(),
        closed_over(),
    ):
        np.testing.assert_allclose(ndual.grad(f, mode=mode)(x), want)
    assert type(dgemm).__name__ == type(found_gemm).__name__ == "fortran"


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda x: blas.dgbmv(2, 2, 0, 0, 1.0, x, x[0]), "scipy.linalg.blas.dgbmv.*gemv"),
        (lambda x: blas.dspmv(2, 1.0, x[0], x[0]), "scipy.linalg.blas.dspmv.*full matrix"),
        (lambda x: lapack.dgeev(x), "scipy.linalg.lapack.dgeev.*numpy.linalg"),
        (lambda x: blas.dscal(2.0, x[0], incx=-1), "incx=-1"),
        (lambda x: blas.dgemm(1.0, 1j * x, x), "complex operands of a real routine"),
    ],
)
def test_refusals_name_the_routine(call, match):
    for mode in MODES:
        with pytest.raises(ndual.NdualError, match=match):
            ndual.grad(lambda x: np.sum(call(x)[0]), mode=mode)(A)


def test_constants_pass_by():
    def f(x):
        w, _, _, _, _ = lapack.dgeev(A)
        return np.sum(w * x) + blas.ddot(A[0], A[1])

    np.testing.assert_array_equal(ndual.grad(f)(np.ones(2)), lapack.dgeev(A)[0])
