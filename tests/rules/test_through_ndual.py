"""The rules as users meet them: public calls on duals against extrapolated differences, each argument active."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special
from harness import differences, outputs, random_like

import ndual
from ndual.testing.modes import disagreement, second_orders

RNG = np.random.default_rng(7)
V, W, M, Q, T = (RNG.standard_normal(s) for s in ((4,), (4,), (3, 4), (4, 4), (2, 3, 4)))
S = Q @ Q.T + 4 * np.eye(4)
GRID = np.cumsum(RNG.random(4) + 0.3)
MASK = np.arange(12).reshape(3, 4) % 3 == 0
COLUMN = np.array([[1], [0], [2]])


def written(a, change):
    """A copy of an array after an in-place change, so that the change is what is differentiated."""
    b = a.copy()
    change(b)
    return b


CASES = [
    ("outer", lambda a, b: np.outer(a, b), V, W),
    ("outer of scalar", lambda a, b: np.outer(a, b), np.float64(2.0), W),
    ("kron", lambda a, b: np.kron(a, b), M, Q[:2, :3]),
    ("kron of ranks", lambda a, b: np.kron(a, b), V, M),
    ("cross", lambda a, b: np.cross(a, b), M[:, :3], V[:3]),
    ("cross axis", lambda a, b: np.cross(a, b, axis=0), M, M[::-1] * 2),
    ("dot", lambda a, b: np.dot(a, b), M, V),
    ("dot method", lambda a, b: a.dot(b), M, Q),
    ("vdot", lambda a, b: np.vdot(a, b), V, W),
    ("inner", lambda a, b: np.inner(a, b), M, Q),
    ("matmul", lambda a, b: a @ b, M, Q),
    ("matmul stacks", lambda a, b: a @ b, T, Q),
    ("matmul vectors", lambda a, b: a @ b, V, W),
    ("tensordot", lambda a, b: np.tensordot(a, b, ((1, 2), (0, 1))), T, M),
    ("einsum", lambda a, b: np.einsum("ij,kj->ik", a, b), M, Q),
    ("einsum three", lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c), M, Q, V),
    ("einsum trace", lambda a: np.einsum("ii", a), Q),
    ("einsum lists", lambda a, b: np.einsum(a, [0, 1], b, [1], [0]), M, V),
    ("vecdot", lambda a, b: np.vecdot(a, b), M, V),
    ("matvec", lambda a, b: np.matvec(a, b), M, V),
    ("vecmat", lambda a, b: np.vecmat(a, b), V, Q),
    ("convolve", lambda a, b: np.convolve(a, b), V, M[0, :3]),
    ("correlate", lambda a, b: np.correlate(a, b, "full"), V, M[0, :3]),
    ("polyval", lambda p, x: np.polyval(p, x), V, M),
    ("polyval scalar", lambda p, x: np.polyval(p, x), V, np.float64(0.7)),
    ("polyfit", lambda x, y: np.polyfit(x, y, 2), GRID, V),
    ("polyfit weights", lambda x, y, w: np.polyfit(x, y, 1, w=w), GRID, V, GRID[::-1]),
    ("vander", lambda x: np.vander(x, 3), V),
    ("multi_dot", lambda a, b, c: np.linalg.multi_dot([a, b, c]), M, Q, V),
    ("matrix_power", lambda a: np.linalg.matrix_power(a, 5), Q),
    ("matrix_power negative", lambda a: np.linalg.matrix_power(a, -2), S),
    ("matrix_power 0", lambda a: np.linalg.matrix_power(a, 0) + a, S),
    ("cond", lambda a: np.linalg.cond(a), S),
    ("cond 1", lambda a: np.linalg.cond(a, 1), S),
    ("cholesky", lambda a: np.linalg.cholesky(a), S),
    ("solve", lambda a, b: np.linalg.solve(a, b), S, V),
    ("solve matrix", lambda a, b: np.linalg.solve(a, b), S, M.T),
    ("inv", lambda a: np.linalg.inv(a), S),
    ("det", lambda a: np.linalg.det(a), S),
    ("slogdet", lambda a: np.linalg.slogdet(a)[1], S),
    ("slogdet fields", lambda a: np.linalg.slogdet(a).logabsdet, S),
    ("pinv", lambda a: np.linalg.pinv(a), M),
    ("lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], M.T, V),
    ("norm", lambda a: np.linalg.norm(a), V),
    ("norm axis", lambda a: np.linalg.norm(a, axis=1), M),
    ("norm nuclear", lambda a: np.linalg.norm(a, "nuc"), M),
    ("eigh", lambda a: np.linalg.eigh(a + a.T)[0], S),
    ("eigh vectors", lambda a: np.abs(np.linalg.eigh(a).eigenvectors), S),
    ("eigvalsh", lambda a: np.linalg.eigvalsh(a), S),
    ("svd", lambda a: np.linalg.svd(a, compute_uv=False), M),
    ("qr", lambda a: np.linalg.qr(a), M),
    ("trace", lambda a: np.trace(a), Q),
    ("solve_triangular", lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True), S, V),
    ("cho_solve", lambda a, b: scipy.linalg.cho_solve(scipy.linalg.cho_factor(a), b), S, V),
    ("scipy cholesky", lambda a: scipy.linalg.cholesky(a, lower=True), S),
    ("scipy solve", lambda a, b: scipy.linalg.solve(a, b, assume_a="pos"), S, V),
    ("scipy det", lambda a: scipy.linalg.det(a), S),
    ("expm", lambda a: scipy.linalg.expm(a), Q / 3),
    ("block_diag", lambda a, b: scipy.linalg.block_diag(a, b), M, V),
    ("toeplitz", lambda a, b: scipy.linalg.toeplitz(a, b), V, W),
    ("toeplitz one", lambda a: scipy.linalg.toeplitz(a), V),
    ("circulant", lambda a: scipy.linalg.circulant(a), V),
    ("logsumexp", lambda a: scipy.special.logsumexp(a, axis=1), M),
    ("softmax", lambda a: scipy.special.softmax(a, axis=1), M),
    ("log_softmax", lambda a: scipy.special.log_softmax(a), V),
    ("sum", lambda a: np.sum(a, axis=0), M),
    ("sum initial", lambda a, b: np.sum(a, initial=b), V, np.float64(2.0)),
    ("sum where", lambda a: np.sum(a, where=MASK), M),
    ("mean", lambda a: a.mean(axis=1, keepdims=True), M),
    ("prod", lambda a: a.prod(axis=0), M),
    ("max", lambda a: a.max(), M),
    ("min", lambda a: np.min(a, axis=1), M),
    ("var", lambda a: np.var(a, ddof=1), M),
    ("std", lambda a: a.std(axis=0), M),
    ("ptp", lambda a: np.ptp(a, axis=0), M),
    ("average", lambda a, w: np.average(a, weights=w), M, MASK + M**2),
    ("average axis", lambda a, w: np.average(a, axis=1, weights=w), M, V**2),
    ("average returned", lambda a, w: np.average(a, axis=1, weights=w, returned=True), M, V**2),
    ("nansum", lambda a: np.nansum(np.where(MASK, np.nan, a)), M),
    ("nanmean", lambda a: np.nanmean(np.where(MASK, np.nan, a), axis=0), M),
    ("nanmax", lambda a: np.nanmax(np.where(MASK, np.nan, a), axis=0), M),
    ("cumsum", lambda a: np.cumsum(a), M),
    ("cumprod", lambda a: np.cumprod(a, axis=1), M),
    ("cumulative_sum", lambda a: np.cumulative_sum(a, axis=0, include_initial=True), M),
    ("diff", lambda a: np.diff(a, 2), M),
    ("diff ends", lambda a, b: np.diff(a, prepend=b, append=0.0), V, np.float64(1.5)),
    ("ediff1d", lambda a, b: np.ediff1d(a, to_end=b), M, V),
    ("gradient", lambda a: np.gradient(a), M),
    ("gradient spacing", lambda a, h: np.gradient(a, h), V, np.float64(0.3)),
    ("gradient grid", lambda a, x: np.gradient(a, x, axis=1, edge_order=2), M, GRID),
    ("trapezoid", lambda y, x: np.trapezoid(y, x), M, GRID),
    ("trapezoid dx", lambda y, h: np.trapezoid(y, dx=h), V, np.float64(0.3)),
    ("interp", lambda x, p, f: np.interp(x, p, f), GRID + 0.1, GRID, V),
    ("interp ends", lambda f, a: np.interp([0.0, 1.0, 9.0], GRID, f, left=a), V, np.float64(1.0)),
    ("sort", lambda a: np.sort(a, axis=0), M),
    ("partition", lambda a: np.partition(a, 2), V),
    ("median", lambda a: np.median(a, axis=1), M),
    ("quantile", lambda a: np.quantile(a, [0.2, 0.7]), M),
    ("percentile", lambda a: np.percentile(a, 35, axis=0, keepdims=True), M),
    ("take", lambda a: np.take(a, [0, 2, 2], axis=1), M),
    ("take method", lambda a: a.take([0, 5]), M),
    ("take_along_axis", lambda a: np.take_along_axis(a, np.argsort(a, axis=1), 1), M),
    ("compress", lambda a: np.compress([True, False, True], a, axis=0), M),
    ("extract", lambda a: np.extract(MASK, a), M),
    ("choose", lambda a, b: np.choose(MASK.astype(int), [a, b]), M, V),
    ("select", lambda a, b: np.select([MASK, a > 0], [a, b], 3.0), M, V),
    ("select default", lambda a, b: np.select([MASK], [a], b), M, np.float64(2.0)),
    ("unique", lambda a: np.unique(a), M),
    ("bincount", lambda a: np.bincount([0, 2, 2, 1], a), V),
    ("concatenate", lambda a, b: np.concatenate([a, b, np.ones((1, 4))]), M, Q),
    ("concatenate flat", lambda a, b: np.concatenate([a, b], axis=None), M, V),
    ("stack", lambda a, b: np.stack([a, b, np.arange(4.0)], 1), V, W),
    ("stack scalars", lambda a: np.stack([a[0], a[1] ** 2, 3.0]), V),
    ("hstack", lambda a, b: np.hstack([a, b]), V, W),
    ("vstack", lambda a, b: np.vstack([a, b]), V, M),
    ("dstack", lambda a, b: np.dstack([a, b]), V, W),
    ("column_stack", lambda a, b: np.column_stack([a, b]), V, Q),
    ("block", lambda a, b: np.block([[a, a[:, :1]], [b, np.ones((4, 1))]]), M, Q),
    ("append", lambda a, b: np.append(a, b), M, V),
    ("insert", lambda a, b: np.insert(a, 1, b, axis=0), M, V),
    ("insert scalar", lambda a, b: np.insert(a, [0, 2], b), V, np.float64(2.0)),
    ("delete", lambda a: np.delete(a, 1, axis=1), M),
    ("pad", lambda a: np.pad(a, 1), M),
    ("pad reflect", lambda a: np.pad(a, ((1, 1), (0, 2)), mode="reflect"), M),
    ("split", lambda a: np.split(a, 2, axis=1), M),
    ("hsplit", lambda a: np.hsplit(a, [1, 3]), M),
    ("meshgrid", lambda a, b: np.meshgrid(a, b), V, W),
    ("meshgrid ij", lambda a, b: np.meshgrid(a, b, indexing="ij", sparse=True), V, W),
    ("broadcast_arrays", lambda a, b: tuple(c * 2 for c in np.broadcast_arrays(a, b)), V, M),
    ("broadcast_to", lambda a: np.broadcast_to(a, (3, 4)), V),
    ("atleast_2d", lambda a: np.atleast_2d(a), V),
    ("atleast_3d", lambda a: np.atleast_3d(a), M),
    ("reshape", lambda a: np.reshape(a, (4, 3), order="F"), M),
    ("reshape method", lambda a: a.reshape(2, -1), M),
    ("ravel", lambda a: np.ravel(a.T), M),
    ("transpose", lambda a: np.transpose(a, (2, 0, 1)), T),
    ("moveaxis", lambda a: np.moveaxis(a, 0, -1), T),
    ("swapaxes", lambda a: np.swapaxes(a, 0, 2), T),
    ("squeeze", lambda a: np.squeeze(a[:, :1]), M),
    ("expand_dims", lambda a: np.expand_dims(a, (0, 2)), M),
    ("flip", lambda a: np.flip(a, 1), M),
    ("rot90", lambda a: np.rot90(a), M),
    ("roll", lambda a: np.roll(a, 2, 1), M),
    ("tile", lambda a: np.tile(a, (2, 1)), M),
    ("repeat", lambda a: np.repeat(a, [1, 2, 0], axis=0), M),
    ("resize", lambda a: np.resize(a, (5, 3)), M),
    ("diag", lambda a: np.diag(a), V),
    ("diag of matrix", lambda a: np.diag(a, 1), Q),
    ("diagonal", lambda a: np.diagonal(a), Q),
    ("diagflat", lambda a: np.diagflat(a), V),
    ("tril", lambda a: np.tril(a), Q),
    ("triu", lambda a: np.triu(a, 1), Q),
    ("quantile of q", lambda a, q: np.quantile(a, q), M, np.float64(0.33)),
    ("piecewise", lambda a: np.piecewise(a, [a < 0, a > 0.5], [lambda t: -t, np.sqrt, 3.0]), M),
    ("piecewise scalar", lambda a: np.piecewise(a, [a < 0, a >= 0], [lambda t: -t, lambda t: t**2]), np.float64(1.5)),
    ("simpson", lambda y, x: scipy.integrate.simpson(y, x=x), M, GRID),
    ("simpson odd", lambda y, h: scipy.integrate.simpson(y, dx=h), V[:3], np.float64(0.3)),
    ("cumulative_trapezoid", lambda y, x: scipy.integrate.cumulative_trapezoid(y, x, initial=0), M, GRID),
    ("generalised eigh", lambda a, b: scipy.linalg.eigh(a, b, eigvals_only=True), S, S + np.eye(4)),
    ("sylvester", lambda a, b, q: scipy.linalg.solve_sylvester(a, b, q), S, S, Q),
    ("lyapunov", lambda a, q: scipy.linalg.solve_continuous_lyapunov(a, q), S, Q),
    ("add.reduce", lambda a: np.add.reduce(a), M),
    ("multiply.reduce", lambda a: np.multiply.reduce(a, axis=1, keepdims=True), M),
    ("maximum.reduce", lambda a: np.maximum.reduce(a, axis=None), M),
    ("logaddexp.reduce", lambda a: np.logaddexp.reduce(a, axis=1), M),
    ("add.accumulate", lambda a: np.add.accumulate(a, 1), M),
    ("multiply.accumulate", lambda a: np.multiply.accumulate(a), M),
    ("maximum.accumulate", lambda a: np.maximum.accumulate(a, axis=1), M),
    ("add.outer", lambda a, b: np.add.outer(a, b), M, V),
    ("arctan2.outer", lambda a, b: np.arctan2.outer(a, b), GRID, W),
    ("add.reduceat", lambda a: np.add.reduceat(a, [0, 2, 1], axis=1), M),
    ("add.at", lambda a, b: written(a, lambda c: np.add.at(c, [0, 2, 0], b)), M, V),
    ("multiply.at", lambda a, b: written(a, lambda c: np.multiply.at(c, ([0, 2, 0], [1, 1, 1]), b)), M, V[:3]),
    ("add.at many", lambda a, b: written(a, lambda c: np.add.at(c, np.arange(3600) % 3, np.repeat(b, 900))), V, W),
    ("fft", lambda a: np.abs(np.fft.fft(a)), V),
    ("rfft", lambda a: np.fft.irfft(np.fft.rfft(a) * 2j, 4), V),
    ("full_like", lambda a, b: np.full_like(a, b) * a, V, np.float64(2.0)),
    ("put", lambda a, b: written(a, lambda c: np.put(c, [0, 5], b)), M, V[:2]),
    ("put_along_axis", lambda a, b: written(a, lambda c: np.put_along_axis(c, COLUMN, b, 1)), M, M[:, :1]),
    ("place", lambda a, b: written(a, lambda c: np.place(c, MASK, b)), M, V[:2]),
    ("putmask", lambda a, b: written(a, lambda c: np.putmask(c, MASK, b)), M, V),
    ("copyto", lambda a, b: written(a, lambda c: np.copyto(c, b)), M, V),
    ("copyto where", lambda a, b: written(a, lambda c: np.copyto(c, b, where=MASK)), M, V),
    ("fill_diagonal", lambda a, b: written(a, lambda c: np.fill_diagonal(c, b)), Q, V),
]


SUMMED_OTHERWISE = {"add.reduceat", "add.at many"}


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_against_differences(case):
    name, f, *args = case
    args = [np.float64(a) if np.ndim(a) == 0 else np.array(a) for a in args]
    tangents = [np.asarray(RNG.standard_normal(np.shape(a)))[()] for a in args]
    for active in {tuple(range(len(args))), *((i,) for i in range(len(args)))}:
        moved = tuple(t if i in active else None for i, t in enumerate(tangents))
        value, tangent = ndual.jvp(f, tuple(args), moved)

        def replace(step, moved=moved):
            return tuple(a if t is None else a + step * t for a, t in zip(args, moved, strict=True)), {}

        for got, plain in zip(outputs(value), outputs(f(*args)), strict=True):
            np.testing.assert_allclose(got, plain, rtol=1e-13 if name in SUMMED_OTHERWISE else 0, err_msg=name)
        for got, want in zip(outputs(tangent), differences(f, (), {}, replace, 1e-3), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, err_msg=f"{name}, active {active}")


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_reverse_and_second_order(case):
    """In reverse as forward, which the test above holds against differences; the same for the Hessian of a sum."""
    _, f, *args = case
    args = [np.float64(a) if np.ndim(a) == 0 else np.array(a) for a in args]
    rng = np.random.default_rng(3)
    try:
        assert disagreement(lambda x: f(*x), args, range(len(args)), rng) is None
        assert second_orders(lambda x: f(*x), args, range(len(args)), rng) is None
        return
    except ndual.DerivativeLostError:  # Python code of SciPy, which is reached by interception
        pass
    every = tuple(range(len(args)))
    for one, other in zip(
        *(ndual.jacobian(f, every, mode=mode)(*args) for mode in ("forward", "reverse")), strict=True
    ):
        for a, b in zip(outputs(one), outputs(other), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11 * np.max(np.abs(a), initial=1.0))
    w = [random_like(rng, y) for y in outputs(f(*args)) if np.asarray(y).dtype.kind == "f"]

    def weighted(*x):
        return sum(np.sum(c * y) for c, y in zip(w, outputs(f(*x)), strict=True))

    if all(np.asarray(a).dtype.kind == "f" for a in args):
        want, *found = (
            ndual.jacobian(ndual.grad(weighted, mode=inner), mode=outer)(*args)
            for inner, outer in itertools.product(("forward", "reverse"), repeat=2)
        )
        for got in found:
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * np.max(np.abs(want), initial=1.0))


def test_chunks_agree():
    f = lambda a: np.linalg.solve(a + a.T + 9 * np.eye(4), a @ a).ravel()[:5]  # noqa: E731
    whole = ndual.jacobian(f)(Q)
    for width in (1, 3, 16):
        np.testing.assert_allclose(ndual.jacobian(f, chunk_size=width)(Q), whole, rtol=1e-12)
