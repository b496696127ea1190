"""NumPy's linear algebra with its options, in both modes, at second order, in all dtypes."""

from __future__ import annotations

import itertools

import linalg_cases as cases
import numpy as np
import pytest
import scipy.linalg as sl

import ndual
from ndual.frontend.dispatch import dispatch
from ndual.testing.inputs import leaves

la = np.linalg


@pytest.mark.parametrize(("f", "args", "options"), list(cases.parameters(cases.of_numpy)))
def test_both_modes(f, args, options):
    cases.check(f, args, options)


def turned(q, numbers):
    """Columns of no sign or phase of their own, put together so that neither counts."""
    return (q * numbers[..., None, :]) @ np.swapaxes(q.conj(), -1, -2)


def of_eigh(library):
    def together(a):
        w, v = library.eigh(a)
        return turned(v, np.sin(w))

    return together


def of_eig(library):
    def together(a):
        w, v = library.eig(a)
        return (v * np.exp(w)[..., None, :]) @ np.linalg.inv(v)

    return together


def of_svd(library):
    def together(a):
        u, s, vh = library.svd(a, full_matrices=False)
        return (u * np.sin(s)[..., None, :]) @ vh

    return together


def of_qr(library):
    mode = "economic" if library is sl else "reduced"

    def together(a):
        q, r = library.qr(a, mode=mode)
        return turned(q, np.arange(1, a.shape[-1] + 1).astype(a.real.dtype)) @ (q @ (np.abs(r) ** 2))

    return together


def of_rq(library):
    def together(a):
        _, q = library.rq(a)
        return turned(np.swapaxes(q.conj(), -1, -2), np.arange(1, a.shape[-1] + 1).astype(a.real.dtype)) @ a.conj().T

    return together


def of_part(library):
    def together(a):
        w, v = library.eigh(a, subset_by_index=(1, 2))
        return turned(v, np.sin(w))

    return together


def of_pencil(library):
    def together(a):
        metric = (np.eye(a.shape[-1]) * 3).astype(a.dtype) + a / 4
        total = 0
        for kind in (1, 2, 3):
            w, v = library.eigh(a, metric, type=kind)
            total = total + turned(v, np.sin(w))
        return total

    return together


def of_left(library):
    def together(a):
        w, left, right = library.eig(a, left=True)
        return turned(left, np.exp(w)) @ turned(right, w)

    return together


def of_general(library):
    def together(a):
        metric = (np.eye(a.shape[-1]) * 3).astype(a.dtype) + a.T / 4
        w, left, right = library.eig(a, metric, left=True)
        return turned(left, np.exp(w)) @ turned(right, w)

    return together


def of_bands(library):
    def together(a):
        bands = np.stack([np.diag(a), np.append(np.diag(a, -1), a[0, 0])])
        w, v = library.eig_banded(bands, lower=True)
        part = library.eig_banded(bands[::-1], select="i", select_range=(1, 2))
        return turned(v, np.sin(w)) @ turned(part[1], part[0])

    return together


def of_spans(library):
    def together(a):
        q, n = library.orth(a[:, :2]), library.null_space(a[:2])
        return turned(q, np.ones(2, a.real.dtype)) @ a @ turned(n, np.ones(1, a.real.dtype))

    return together


def of_schur(library):
    def together(a):
        t, z = library.schur(a, output="complex")
        weights = np.arange(1, 4).astype(a.real.dtype)
        return turned(z, weights) @ (z * np.exp(np.diag(t))) @ z.conj().T

    return together


TOGETHER = [(make, library) for make in (of_eigh, of_eig, of_svd, of_qr) for library in (la, sl)]
TOGETHER += [(make, sl) for make in (of_rq, of_part, of_pencil, of_left, of_general, of_bands, of_spans, of_schur)]


@pytest.mark.parametrize("char", "dDfF")
@pytest.mark.parametrize(("make", "library"), TOGETHER, ids=lambda v: v.__name__)
def test_vectors_in_every_precision(make, library, char):
    """What vectors of any sign or phase put together: against differences, and single against double precision."""
    f, d = make(library), cases.Draw("complex" if char in "DF" else "real")
    a = d.well(4, 4)[:, :3] if make is of_qr else d.well(3, 3)
    t, w = d.any(*a.shape), d.any(*f(a).shape)
    if make in (of_eigh, of_part, of_pencil):
        a, t = a + a.conj().T, t + t.conj().T
    h = 1e-3

    def at(k):
        return f(a + k * h * t)

    want = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    tolerance = 1e-8 if char in "dD" else 2e-3
    a, t = a.astype(char), t.astype(char)
    plain = f(a)
    value, tangent = ndual.jvp(f, (a,), (t,))
    assert value.dtype == tangent.dtype == plain.dtype
    scale = np.abs(want).max()
    np.testing.assert_allclose(tangent, want, rtol=tolerance, atol=tolerance * scale)
    w = w.astype(plain.dtype)
    g = ndual.grad(lambda a: np.sum(np.real(np.conj(w) * f(a))), mode="reverse")(a)
    assert g.dtype == a.dtype
    paired = np.sum(np.real(np.conj(w) * want))
    np.testing.assert_allclose(
        np.sum(np.real(np.conj(g) * t)), paired, rtol=10 * tolerance, atol=10 * tolerance * scale
    )


@pytest.mark.parametrize("char", "dzsc")
def test_the_raw_form_of_scipys_qr(char):
    letter = {"d": "d", "z": "D", "s": "f", "c": "F"}[char]
    for shape, pivoting in itertools.product(((4, 3), (3, 4)), (False, True)):
        d = cases.Draw("complex" if char in "zc" else "real")
        a, t = d.well(*shape), d.any(*shape)

        def f(a, pivoting=pivoting):
            (packed, tau), r, *_ = sl.qr(a, mode="raw", pivoting=pivoting)
            return np.concatenate([packed.ravel(), tau, r.ravel()])

        def at(k, a=a, t=t, f=f):
            return f(a + k * 1e-3 * t)

        want = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / 12e-3
        a, t, exact = a.astype(letter), t.astype(letter), char in "dz"
        value, tangent = ndual.jvp(f, (a,), (t,))
        np.testing.assert_array_equal(value, f(a))
        assert tangent.dtype == a.dtype
        np.testing.assert_allclose(tangent, want, rtol=1e-8 if exact else 1e-3, atol=1e-8 if exact else 1e-3)
        g = ndual.grad(lambda a, f=f: np.sum(np.real(f(a) * f(a))), mode="reverse")(a)
        got = np.sum(np.real(np.conj(g) * t))
        np.testing.assert_allclose(got, np.sum(np.real(2 * f(a) * want)), rtol=1e-7 if exact else 1e-2)


A = np.array([[4.0, 1.0], [2.0, 5.0]])
REFUSED = [
    (sl.eig, (A.T @ A, A), {"homogeneous_eigvals": True}),
    (sl.hessenberg, (A,), {}),
    (sl.schur, (np.array([[0.0, 1.0], [-1.0, 0.0]]),), {}),
]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("f", "args", "options"), REFUSED, ids=lambda v: getattr(v, "__name__", None))
def test_what_has_no_derivative_says_so(f, args, options, mode):
    def total(a):
        found = leaves(dispatch(f, (a, *args[1:]), options))
        return sum(np.sum(np.real(part)) for part in found)

    with pytest.raises(ndual.NoRuleError):
        ndual.grad(total, mode=mode)(args[0])
