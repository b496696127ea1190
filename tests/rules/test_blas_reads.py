"""What BLAS and LAPACK do not read enters no derivative: every routine, flag and coefficient of zero, one and two.

Which cells a routine reads is asked of the routine itself, by a NaN in each cell in turn. Then all others are NaN at
once, and value and derivatives in both modes must be those of the clean operands, taken from differences.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.linalg import blas, lapack
from test_blas import LEVEL3, as_arrays, cells, differences, flags, flat, operands3, tri

import ndual


def unread(f, x, into):
    """For each operand the cells that change nothing, or only their own place in the result; and these places."""
    clean = f(*x)
    assert np.isfinite(clean).all()
    masks, places = [], np.zeros(clean.shape, bool)
    for k, a in enumerate(x):
        mask = np.zeros(np.shape(a), bool)
        for cell in np.ndindex(*mask.shape):
            dirty = [np.array(v) for v in x]
            dirty[k][cell] = np.nan
            found = f(*dirty)
            other = ~(found == clean)
            own = k == into and other.sum() == 1 and clean[other][0] == a[cell] and np.isnan(found[other][0])
            mask[cell] = own or not other.any()
            places |= other & own
        masks.append(mask)
    return masks, places


def check(f, x, into=None, tolerance=1e-7):
    """The derivatives by all operands, with NaN wherever the routine does not look; how many cells that were."""
    rng = np.random.default_rng(8)
    x = tuple(np.array(a) for a in x)
    masks, places = unread(f, x, into)
    dirty = tuple(np.where(mask, np.nan, a).astype(a.dtype) for a, mask in zip(x, masks, strict=True))
    t = tuple((cells("z" if np.iscomplexobj(a) else "d", *a.shape, seed=7)).astype(a.dtype) for a in x)
    want = differences(f, x, t)
    value, tangent = ndual.jvp(f, dirty, t)
    np.testing.assert_array_equal(value, f(*dirty))
    np.testing.assert_array_equal(value[~places], f(*x)[~places])
    np.testing.assert_allclose(tangent[~places], want[~places], rtol=tolerance, atol=tolerance)
    w = np.where(places, 0, rng.standard_normal(want.shape))
    used = np.flatnonzero(~places)
    numbers = tuple(range(len(x)))
    for mode in ("forward", "reverse"):
        g = ndual.grad(lambda *x: np.sum(np.real(w[used] * f(*x)[used])), argnums=numbers, mode=mode)(*dirty)
        paired = 0.0
        for gk, tk, mask in zip(g, t, masks, strict=True):
            assert np.isfinite(gk).all()
            assert (np.asarray(gk)[mask] == 0).all()
            paired += np.sum(np.real(np.conj(gk) * tk))
        np.testing.assert_allclose(paired, np.sum(np.real(w * want)), rtol=10 * tolerance, atol=10 * tolerance)
    return sum(int(mask.sum()) for mask in masks)


def coefficients(letter, takes_beta):
    """Zero, one and two, for both coefficients."""
    return itertools.product((0.0, 1.0, 2.0), (0.0, 1.0, 2.0) if takes_beta else (None,))


@pytest.mark.parametrize("name", LEVEL3)
def test_level_3(name):
    options, letters = LEVEL3[name]
    takes_c = name not in ("trmm", "trsm")
    for letter in sorted(set("dz") & set(letters)):
        routine = getattr(blas, letter + name)
        for k, f in enumerate(options):
            ops = operands3(name, letter, f)
            arrays = [np.array(a) for a in ops if np.ndim(a)]
            for number, (alpha, beta) in enumerate(coefficients(letter, takes_c)):

                def call(*x, alpha=alpha, beta=beta, routine=routine, f=f):
                    return flat(routine(alpha, *x[:-1], beta, x[-1], **f) if takes_c else routine(alpha, *x, **f))

                found = check(call, arrays, into=len(arrays) - 1 if takes_c else None)
                # Triangles and unit diagonals always, C without beta; A and B without alpha where the library says so.
                assert found or name == "gemm" or (name in ("syrk", "herk") and beta)
                assert beta != 0 or found >= arrays[-1].size
                if (k + number) % 3 == 0:  # coefficients that are active, on operands that are there

                    def by_all(alpha, beta, *x, routine=routine, f=f):
                        return flat(routine(alpha, *x[:-1], beta, x[-1], **f) if takes_c else routine(alpha, *x, **f))

                    given = (np.array(alpha), np.array(0.0 if beta is None else beta), *arrays)
                    t = tuple(np.cos(np.arange(1, a.size + 1)).reshape(a.shape).astype(a.dtype) for a in given)
                    np.testing.assert_allclose(
                        ndual.jvp(by_all, given, t)[1], differences(by_all, given, t), rtol=1e-8, atol=1e-8
                    )


STEPS = flags(incx=(1, 2, -2), offx=(0, 1))
LEVEL2 = {
    "gemv": (flags(trans=(0, 1, 2), incx=(1, -2), incy=(1, 2)), "dz"),
    "symv": (flags(lower=(0, 1), incx=(1, -2), incy=(1, 2)), "d"),
    "hemv": (flags(lower=(0, 1), incx=(1, -2), incy=(1, 2)), "z"),
}


@pytest.mark.parametrize("name", LEVEL2)
def test_products_of_a_matrix_and_a_vector(name):
    options, letters = LEVEL2[name]
    for letter in letters:
        routine = getattr(blas, letter + name)
        for f in options:
            shape = (2, 3) if name == "gemv" else (3, 3)
            arrays = (cells(letter, *shape), cells(letter, 7), cells(letter, 7, seed=1))
            rows, columns = shape[::-1] if f.get("trans") else shape
            x = arrays[1][: (columns - 1) * abs(f["incx"]) + 1]
            for alpha, beta in coefficients(letter, True):

                def call(a, x, y, alpha=alpha, beta=beta, routine=routine, f=f):
                    return flat(routine(alpha, a, x, beta, 1 * y, **f))

                found = check(call, (arrays[0], x, arrays[2]), into=2)
                assert found >= (3 if name != "gemv" else 0) + (rows if beta == 0 else 0)


@pytest.mark.parametrize("name", ["trmv", "trsv"])
def test_a_triangle_and_a_vector(name):
    for letter in "dz":
        for f in flags(lower=(0, 1), trans=(0, 1, 2), diag=(0, 1), incx=(1, -2)):
            found = check(
                lambda a, x, f=f, letter=letter: flat(getattr(blas, letter + name)(a, 1 * x, **f)),
                (tri(letter, 3), cells(letter, 7)), into=1,
            )  # fmt: skip
            assert found >= (6 if f["diag"] else 3)


@pytest.mark.parametrize("name", ["dger", "zgeru", "zgerc", "dsyr", "zsyr", "zher", "dsyr2", "zher2"])
def test_updates(name):
    letter, general = name[0], "ge" in name
    two = general or name.endswith("2")
    for f in flags(incx=(1, -1)) if general else flags(lower=(0, 1), incx=(1, 2)):
        vectors = (cells(letter, 5 if f["incx"] == 2 else 3), cells(letter, 3, seed=1))[: 1 + two]
        for alpha in (0.0, 1.0, 2.0):
            found = check(
                lambda *x, alpha=alpha, f=f: flat(getattr(blas, name)(alpha, *x[:-1], a=x[-1], **f)),
                (*vectors, cells(letter, 3, 3)), into=len(vectors),
            )  # fmt: skip
            assert found >= (0 if general else 3) + (2 if f["incx"] == 2 else 0)


LEVEL1 = {
    "axpy": (lambda r, x, y, k, f: r(x, 1 * y, a=k, **f), "dz", 1),
    "scal": (lambda r, x, y, k, f: r(k, 1 * x, **{n: v for n, v in f.items() if n[-1] in "xn"}), "dz", 0),
    "dot": (lambda r, x, y, k, f: r(x, y, **f), "d", None),
    "dotu": (lambda r, x, y, k, f: r(x, y, **f), "z", None),
    "dotc": (lambda r, x, y, k, f: r(x, y, **f), "z", None),
    "copy": (lambda r, x, y, k, f: r(x, 1 * y, **f), "dz", None),
    "swap": (lambda r, x, y, k, f: r(1 * x, 1 * y, **f), "dz", None),
    "rot": (lambda r, x, y, k, f: r(x, y, k / 2, 1 - k / 2, **f), "d", None),
    "nrm2": (lambda r, x, y, k, f: r(x, **{n: v for n, v in f.items() if n[-1] in "xn"}), ["d", "dz"], None),
    "asum": (lambda r, x, y, k, f: r(x, **{n: v for n, v in f.items() if n[-1] in "xn"}), ["d", "dz"], None),
}


@pytest.mark.parametrize("name", LEVEL1)
def test_vectors(name):
    use, letters, into = LEVEL1[name]
    for letter in letters:
        routine = getattr(blas, letter + name)
        for f in flags(incx=(1, 2), offx=(0, 1), incy=(1, 2)):
            for k in (0.0, 1.0, 2.0):
                given = (cells(letter[-1], 5), cells(letter[-1], 6, seed=1))
                one = name in ("scal", "nrm2", "asum")
                found = check(
                    lambda *x, k=k, f=f, routine=routine: flat(as_arrays(use(routine, x[0], x[-1], k, {**f, "n": 2}))),
                    given[: 1 + (not one)], into=into,
                )  # fmt: skip
                assert found >= (3 if name in ("dot", "nrm2", "asum", "copy", "axpy") else 0)


def definite(letter):
    a = cells(letter, 3, 3)
    return a @ a.conj().T + 3 * np.eye(3)


def solvers(letter):
    """Calls of LAPACK with the operands that they take, the one that they write into, and how many cells they skip."""

    def of(name):
        return getattr(lapack, letter + name)

    lu, piv = of("getrf")(tri(letter, 3))[:2]
    right = cells(letter, 3, 2)

    yield lambda a: flat(of("getrf")(a)[0]), (tri(letter, 3),), None, 0
    yield lambda a: flat(of("getri")(a, piv)[0]), (lu,), None, 0
    yield lambda a, b: flat(of("gesv")(a, b)[2]), (tri(letter, 3), right), None, 0
    yield lambda a: flat(of("geqrf")(a)[:2]), (tri(letter, 3),), None, 0
    yield lambda a: flat(of("gesdd")(a, compute_uv=0)[1]), (tri(letter, 3),), None, 0
    qr, tau = of("geqrf")(tri(letter, 3))[:2]
    form = "orgqr" if letter == "d" else "ungqr"
    yield lambda qr, tau: flat(of(form)(qr, tau)[0]), (qr, tau), None, 6
    for trans in (0, 1, 2):
        yield lambda a, b, t=trans: flat(of("getrs")(a, piv, b, trans=t)[0]), (lu, right), None, 0
        for f in flags(lower=(0, 1), unitdiag=(0, 1)):
            yield (
                lambda a, b, f=f, t=trans: flat(of("trtrs")(a, b, trans=t, **f)[0]), (tri(letter, 3), right), None,
                6 if f["unitdiag"] else 3,
            )  # fmt: skip
    for f in flags(lower=(0, 1), unitdiag=(0, 1)):
        yield (
            lambda a, f=f: flat(of("trtri")(a, **f)[0]),
            (tri(letter, 3),),
            0,
            6 if f["unitdiag"] else 3,
        )
    for lower in (0, 1):
        for clean in (0, 1):
            yield (
                lambda a, k=clean, n=lower: flat(of("potrf")(a, lower=n, clean=k)[0]),
                (definite(letter),),
                0,
                3,
            )
        factor = np.real(tri(letter, 3)) + (np.triu(tri(letter, 3), 1) + np.tril(tri(letter, 3), -1)) / 4
        yield lambda c, b, n=lower: flat(of("potrs")(c, b, lower=n)[0]), (factor, right), None, 3
        if letter == "d":  # a complex factor has a real diagonal, which its derivative in test_lapack takes care of
            yield lambda c, n=lower: flat(of("potri")(c, lower=n)[0]), (factor,), 0, 3
        yield (
            lambda a, b, n=lower: flat(of("posv")(a, b, lower=n)[1]),
            (definite(letter), right),
            None,
            3,
        )
        for name in ("syev", "syevd") if letter == "d" else ("heev", "heevd"):
            yield (
                lambda a, r=name, n=lower: flat(of(r)(a, compute_v=0, lower=n)[0]),
                (definite(letter),), None, 3,
            )  # fmt: skip


@pytest.mark.parametrize("letter", "dz")
def test_lapack(letter):
    for f, x, into, skipped in solvers(letter):
        assert check(f, x, into, 1e-6) >= skipped
