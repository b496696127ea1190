"""LAPACK through scipy.linalg.lapack: every routine that has a rule against differences of the routine itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import lapack
from test_blas import cells, check, flags, tri

import ndual
from ndual.rules import registry


def spread(letter, n=4):
    """A matrix whose eigenvalues, singular values and pivots are far from each other."""
    return cells(letter, n, n) / 4 + np.diag([1.0, 2.5, -4.0, 6.0][:n])


def positive(letter, n=4):
    a = cells(letter, n, n)
    return a @ a.conj().T + n * np.eye(n)


def factored(letter, n=4):
    return getattr(lapack, letter + "getrf")(cells(letter, n, n, seed=9))[:2]


def hermitian_name(letter, name):
    return f"{'he' if letter == 'z' else 'sy'}{name}"


@pytest.mark.parametrize("letter", "dz")
def test_lu(letter):
    check(getattr(lapack, letter + "getrf"), (cells(letter, 4, 4, seed=9),), {})
    for shape in ((5, 3), (3, 5)):
        check(getattr(lapack, letter + "getrf"), (cells(letter, *shape, seed=9),), {}, 1e-7)
    lu, piv = factored(letter)
    assert piv.tolist() != [0, 1, 2, 3]
    for trans in (0, 1, 2):
        for b in (cells(letter, 4, 2), cells(letter, 4)):
            check(lambda lu, b, **f: getattr(lapack, letter + "getrs")(lu, piv, b, **f), (lu, b), {"trans": trans})
    check(lambda lu: getattr(lapack, letter + "getri")(lu, piv), (lu,), {})
    for b in (cells(letter, 4, 2), cells(letter, 4)):
        check(getattr(lapack, letter + "gesv"), (cells(letter, 4, 4, seed=9), b), {})


@pytest.mark.parametrize("letter", "dz")
@pytest.mark.parametrize("lower", [0, 1])
def test_cholesky(letter, lower):
    f = {"lower": lower}
    for clean in (0, 1):
        check(getattr(lapack, letter + "potrf"), (positive(letter),), {**f, "clean": clean})
    c = tri(letter, 4)
    check(getattr(lapack, letter + "potrs"), (c, cells(letter, 4, 2)), f)
    factor = getattr(lapack, letter + "potrf")  # whose diagonal is real
    check(lambda a: getattr(lapack, letter + "potri")(factor(a, **f)[0], **f), (positive(letter),), {})
    for b in (cells(letter, 4, 2), cells(letter, 4)):
        check(getattr(lapack, letter + "posv"), (positive(letter), b), f)


@pytest.mark.parametrize("letter", "dz")
def test_triangular(letter):
    for f in flags(lower=(0, 1), trans=(0, 1, 2), unitdiag=(0, 1)):
        check(getattr(lapack, letter + "trtrs"), (tri(letter, 3), cells(letter, 3, 2)), f, second=False)
    for f in flags(lower=(0, 1), unitdiag=(0, 1)):
        check(getattr(lapack, letter + "trtri"), (tri(letter, 3),), f)


@pytest.mark.parametrize("letter", "dz")
@pytest.mark.parametrize("driver", ["ev", "evd"])
def test_eigenvalues(letter, driver):
    routine = getattr(lapack, letter + hermitian_name(letter, driver))
    for lower in (0, 1):
        if letter == "d":  # the phase of complex vectors is the library's
            check(routine, (spread("d"),), {"lower": lower})
        check(lambda a, **f: (routine(a, **f)[0],), (spread(letter),), {"lower": lower})
        check(lambda a, **f: (routine(a, compute_v=0, **f)[0],), (spread(letter),), {"lower": lower})

        def invariant(a, lower=lower):
            w, v, _ = routine(a, lower=lower)
            return (v * w**2) @ v.conj().T

        check(invariant, (spread(letter),), {})


@pytest.mark.parametrize("name", ["dgesdd", "dgesvd", "zgesdd"])
def test_singular_values(name):
    routine, letter = getattr(lapack, name), name[0]
    a = spread(letter)[:, :3]
    if letter == "d":
        check(lambda a: routine(a, full_matrices=0), (a,), {})
    check(lambda a: routine(a, compute_uv=0)[1], (a,), {})

    def invariant(a):
        u, s, vh, _ = routine(a, full_matrices=0)
        return (u * s**2) @ vh

    check(invariant, (a,), {})


@pytest.mark.parametrize("letter", "dz")
@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (2, 3)])
def test_householder(letter, shape):
    a = cells(letter, *shape)
    check(lambda a: getattr(lapack, letter + "geqrf")(a)[:2], (a,), {}, 1e-6)
    check(lambda a: getattr(lapack, letter + "geqp3")(a)[::2][:2], (a,), {}, 1e-6)
    qr, tau = getattr(lapack, letter + "geqrf")(a)[:2]
    orgqr = getattr(lapack, {"d": "dorgqr", "z": "zungqr"}[letter])
    if shape[0] >= shape[1]:
        check(lambda qr, tau: orgqr(qr, tau)[0], (qr, tau), {})
    ormqr = getattr(lapack, {"d": "dormqr", "z": "zunmqr"}[letter])
    for side in "LR":
        for trans in "N" + {"d": "T", "z": "C"}[letter]:
            c = cells(letter, *((shape[0], 5) if side == "L" else (5, shape[0])))
            check(
                lambda qr, tau, c, side=side, trans=trans: ormqr(side, trans, qr[:, : len(tau)], tau, c, 64)[0],
                (qr, tau, c), {}, second=False,
            )  # fmt: skip


def test_a_triangular_matrix_has_the_derivatives_that_stay_triangular():
    """Where zeros lie below its head a column's reflector jumps, but not along tangents that have zeros there too."""
    a = np.triu(cells("d", 3, 3) + 3 * np.eye(3))
    t = np.triu(cells("d", 3, 3, seed=4))
    value, tangent = ndual.jvp(lambda a: lapack.dgeqrf(a)[0], (a,), (t,))
    np.testing.assert_array_equal(value, a)
    np.testing.assert_array_equal(tangent, t)
    with pytest.raises(ndual.NdualError, match="reflector that jumps"):
        ndual.jvp(lambda a: lapack.dgeqrf(a)[0], (a,), (np.ones((3, 3)),))


def test_q_and_r_multiply_to_the_matrix():
    """Through both routines the matrix comes back, and its derivative with it."""

    def f(a):
        qr, tau, _, _ = lapack.dgeqrf(a)
        q, _, _ = lapack.dorgqr(qr, tau)
        return q @ np.triu(qr[:3])

    a, t = cells("d", 5, 3), cells("d", 5, 3, seed=3)
    value, tangent = ndual.jvp(f, (a,), (t,))
    np.testing.assert_allclose(value, a, atol=1e-14)
    np.testing.assert_allclose(tangent, t, atol=1e-13)
    np.testing.assert_allclose(ndual.grad(lambda a: np.sum(t * f(a)), mode="reverse")(a), t, atol=1e-13)


def test_info_is_an_integer_and_failure_has_no_derivative():
    seen = []

    def f(a):
        c, info = lapack.dpotrf(a)
        seen.append(info)
        return np.sum(c)

    for mode in ("forward", "reverse"):
        assert np.isfinite(ndual.grad(f, mode=mode)(positive("d"))).all()
        with pytest.raises(ndual.NdualError, match="potrf returned info=1"):
            ndual.grad(f, mode=mode)(-positive("d"))
    assert seen == [0, 1] * 2
    assert {type(info) for info in seen} == {int}


@pytest.mark.parametrize("name", ["spotrf", "sgetrf", "sgesv", "cposv", "ssyevd", "sgesdd", "cgetrf", "strtrs"])
def test_single_precision_stays(name):
    a = positive(name[0]).astype(np.complex64 if name[0] == "c" else np.float32)
    x = (a, a) if name[1:] in ("gesv", "posv", "trtrs") else (a,)
    routine = getattr(lapack, name)
    plain = [p for p in routine(*x) if not isinstance(p, int) and p.dtype.kind in "fc"]
    out = [p for p in ndual.jvp(lambda *x: routine(*x), x, x)[1] if getattr(p, "dtype", a.dtype).kind in "fc"]
    assert [p.dtype for p in out if hasattr(p, "dtype")] == [p.dtype for p in plain]
    g = ndual.grad(lambda a: np.sum(np.abs(routine(a, *x[1:])[0])), mode="reverse")(a)
    assert g.dtype == a.dtype


def test_every_rule_serves_a_routine_that_is_there():
    names = [d for d in registry.RULES if d.startswith(("scipy.linalg.blas.", "scipy.linalg.lapack."))]
    assert len(names) > 150
    assert not [d for d in names if registry.lookup(d) is None]
