"""BLAS through scipy.linalg.blas: every routine and flag against differences of the routine itself.

All routines are polynomials or quotients in their operands, so that differences of fourth order are exact to rounding.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.linalg import blas

import ndual

TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
H = 1e-3


def flat(out):
    """All results in one vector, without integers."""
    parts = out if isinstance(out, tuple) else (out,)
    return np.concatenate([np.ravel(part) for part in parts if not isinstance(part, int) and part.dtype.kind in "fc"])


def as_arrays(out):
    """Python numbers as arrays."""
    if isinstance(out, tuple):
        return tuple(map(as_arrays, out))
    return np.asarray(out) if isinstance(out, float | complex) else out


def differences(f, x, t):
    def at(h):
        return f(*[a + h * d for a, d in zip(x, t, strict=True)])

    return (8 * (at(H) - at(-H)) - (at(2 * H) - at(-2 * H))) / (12 * H)


def check(routine, x, kwargs, tolerance=1e-8, second=True):
    """Value, tangent, cotangent and second derivative of a routine in all of its operands."""
    rng = np.random.default_rng(5)

    def f(*x):
        return flat(as_arrays(routine(*x, **kwargs)))

    def like(a):
        t = rng.standard_normal(np.shape(a))
        return t + 1j * rng.standard_normal(np.shape(a)) if np.iscomplexobj(a) else t + 0

    x = tuple(np.array(a)[()] for a in x)
    t = tuple(like(a)[()] if np.ndim(a) == 0 else like(a).astype(a.dtype) for a in x)
    want = differences(f, x, t)
    value, tangent = ndual.jvp(f, x, t)
    plain = f(*x)
    np.testing.assert_array_equal(value, plain)
    assert value.dtype == plain.dtype == tangent.dtype
    np.testing.assert_allclose(tangent, want, rtol=tolerance, atol=tolerance)

    w = like(plain)

    def loss(*x):
        return np.sum(np.real(np.conj(w) * f(*x) * (f(*x) if second else 1)))

    def gradients(*x):
        return ndual.grad(loss, argnums=tuple(range(len(x))), mode="reverse")(*x)

    g = gradients(*x)
    paired = sum(np.real(np.sum(np.conj(gk) * tk)) for gk, tk in zip(g, t, strict=True))
    rate = 2 * plain * want if second else want
    np.testing.assert_allclose(paired, np.real(np.sum(np.conj(w) * rate)), rtol=10 * tolerance, atol=10 * tolerance)
    lanes = ndual.grad(loss, argnums=tuple(range(len(x))), mode="forward")(*x)  # many at once
    for one, other in zip(lanes, g, strict=True):
        np.testing.assert_allclose(one, other, rtol=10 * tolerance, atol=10 * tolerance)
    if second:
        got = ndual.jvp(lambda *x: np.concatenate([np.ravel(gk) for gk in gradients(*x)]), x, t)[1]
        want = differences(lambda *x: np.concatenate([np.ravel(gk) for gk in gradients(*x)]), x, t)
        np.testing.assert_allclose(got, want, rtol=10 * tolerance, atol=10 * tolerance)


def cells(letter, *shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape)).astype(TYPES[letter]) if letter in "cz" else a.astype(TYPES[letter])


def number(letter, k):
    return [1.5 - 0.5j, -0.75 + 1j][k] if letter in "cz" else [1.5, -0.75][k]


def tri(letter, n):
    return cells(letter, n, n, seed=2) + 3 * np.eye(n, dtype=TYPES[letter])


def flags(**options):
    names = list(options)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*options.values())]


LEVEL3 = {
    "gemm": (flags(trans_a=(0, 1, 2), trans_b=(0, 1, 2)), "sdcz"),
    "symm": (flags(side=(0, 1), lower=(0, 1)), "sdcz"),
    "hemm": (flags(side=(0, 1), lower=(0, 1)), "cz"),
    "syrk": (flags(trans=(0, 1), lower=(0, 1)), "sdcz"),
    "herk": (flags(trans=(0, 2), lower=(0, 1)), "cz"),
    "syr2k": (flags(trans=(0, 1), lower=(0, 1)), "sdcz"),
    "her2k": (flags(trans=(0, 2), lower=(0, 1)), "cz"),
    "trmm": (flags(side=(0, 1), lower=(0, 1), trans_a=(0, 1, 2), diag=(0, 1)), "sdcz"),
    "trsm": (flags(side=(0, 1), lower=(0, 1), trans_a=(0, 1, 2), diag=(0, 1)), "sdcz"),
}


def operands3(name, letter, f):
    """Operands of a routine of level 3, in the order of its call up to `c`."""
    alpha, beta = number(letter, 0), number(letter, 1)
    if name == "gemm":
        a, b = (3, 4), (4, 2)
        a, b = a[::-1] if f["trans_a"] else a, b[::-1] if f["trans_b"] else b
        return alpha, cells(letter, *a), cells(letter, *b), beta, cells(letter, 3, 2)
    if name in ("symm", "hemm"):
        return alpha, cells(letter, *(2 * (2 if f["side"] else 3,))), cells(letter, 3, 2), beta, cells(letter, 3, 2)
    if name in ("syrk", "herk"):
        return alpha, cells(letter, *((2, 3) if f["trans"] else (3, 2))), beta, cells(letter, 3, 3)
    if name in ("syr2k", "her2k"):
        shape = (2, 3) if f["trans"] else (3, 2)
        return alpha, cells(letter, *shape), cells(letter, *shape, seed=1), beta, cells(letter, 3, 3)
    return alpha, tri(letter, 2 if f["side"] else 3), cells(letter, 3, 2)


CASES3 = [(name, f) for name, (options, _) in LEVEL3.items() for f in options]


@pytest.mark.parametrize(
    ("name", "f"), CASES3, ids=lambda v: v if isinstance(v, str) else "".join(map(str, v.values()))
)
def test_level_3(name, f):
    for letter in set("dz") & set(LEVEL3[name][1]):
        check(getattr(blas, letter + name), operands3(name, letter, f), f, second=letter == "d")


@pytest.mark.parametrize("name", LEVEL3)
def test_without_the_optional_operand(name):
    for letter in LEVEL3[name][1]:
        f = LEVEL3[name][0][0]
        x = operands3(name, letter, f)
        if name not in ("trmm", "trsm"):
            x = x[:-2]
        check(getattr(blas, letter + name), x, f, 1e-8 if letter in "dz" else 2e-2, second=False)


VECTORS = flags(incx=(1, 2, -1, -2), incy=(1, -2), offx=(0, 1), offy=(0, 2))
X, Y = 9, 9


def gemv(letter, f):
    n = 3 if f.get("trans") else 2
    return number(letter, 0), cells(letter, 3, 2), cells(letter, X)[: n * 2 + 1], number(letter, 1), cells(letter, Y)


def symv(letter, f):
    return number(letter, 0), cells(letter, 3, 3), cells(letter, 7), number(letter, 1), cells(letter, Y)


LEVEL2 = {
    "gemv": ([v | t for v, t in zip(VECTORS, itertools.cycle(flags(trans=(0, 1, 2))))], gemv, "dz"),
    "symv": ([v | t for v, t in zip(VECTORS, itertools.cycle(flags(lower=(0, 1))))], symv, "d"),
    "hemv": ([v | t for v, t in zip(VECTORS, itertools.cycle(flags(lower=(0, 1))))], symv, "z"),
    "trmv": (
        flags(incx=(1, -2), offx=(0, 1), lower=(0, 1), trans=(0, 1, 2), diag=(0, 1)),
        lambda letter, f: (tri(letter, 3), cells(letter, 7)), "dz",
    ),
    "trsv": (
        flags(incx=(1, -2), offx=(0, 1), lower=(0, 1), trans=(0, 1, 2), diag=(0, 1)),
        lambda letter, f: (tri(letter, 3), cells(letter, 7)), "dz",
    ),
    "ger": ([{}], lambda letter, f: (number(letter, 0), cells(letter, 3), cells(letter, 2)), "d"),
    "geru": ([{}], lambda letter, f: (number(letter, 0), cells(letter, 3), cells(letter, 2)), "z"),
    "gerc": ([{}], lambda letter, f: (number(letter, 0), cells(letter, 3), cells(letter, 2)), "z"),
    "syr": (
        flags(lower=(0, 1), incx=(1, 2, -2), offx=(0, 1)),
        lambda letter, f: (number(letter, 0), cells(letter, 6)), "dz",
    ),
    "her": (
        flags(lower=(0, 1), incx=(1, 2, -2), offx=(0, 1)),
        lambda letter, f: (number(letter, 0), cells(letter, 6)), "z",
    ),
    "syr2": (
        flags(lower=(0, 1), incx=(1, 2), offy=(0, 1)),
        lambda letter, f: (number(letter, 0), cells(letter, 3 * f["incx"] - 1), cells(letter, 4)), "d",
    ),
    "her2": (
        flags(lower=(0, 1), incx=(1, 2), offy=(0, 1)),
        lambda letter, f: (number(letter, 0), cells(letter, 3 * f["incx"]), cells(letter, 4)), "z",
    ),
}  # fmt: skip
CASES2 = [(name, f) for name, (options, _, _) in LEVEL2.items() for f in options]


@pytest.mark.parametrize("name", LEVEL2)
def test_level_2(name):
    options, operands, letters = LEVEL2[name]
    for k, f in enumerate(options):
        for letter in letters:
            check(getattr(blas, letter + name), operands(letter, f), f, second=letter == "d" and k % 5 == 0)


@pytest.mark.parametrize("name", ["dger", "zgeru", "zgerc", "dsyr", "zher", "dsyr2", "zher2"])
@pytest.mark.parametrize("lower", [0, 1])
def test_updates_of_a_matrix(name, lower):
    two = name[1:3] == "ge" or name.endswith("2")
    x, n = (cells(name[0], 3), cells(name[0], 2 if "ge" in name else 3))[: 1 + two], 3
    f = {"incx": -1} if "ge" in name else {"lower": lower}

    def routine(alpha, *x, **kwargs):
        return getattr(blas, name)(alpha, *x[:-1], a=x[-1], **kwargs)

    check(routine, (number(name[0], 0), *x, cells(name[0], n, 2 if "ge" in name else 3)), f)


def rot(letter, f):
    return cells(letter, X), cells(letter, Y, seed=1), 0.6, -0.8


LEVEL1 = {
    "axpy": (lambda letter, f: (cells(letter, X), cells(letter, Y, seed=1), number(letter, 0)), "dz"),
    "copy": (lambda letter, f: (cells(letter, X), cells(letter, Y, seed=1)), "dz"),
    "swap": (lambda letter, f: (cells(letter, X), cells(letter, Y, seed=1)), "dz"),
    "dot": (lambda letter, f: (cells(letter, X), cells(letter, Y, seed=1)), "d"),
    "dotu": (lambda letter, f: (cells(letter, X), cells(letter, Y, seed=1)), "z"),
    "dotc": (lambda letter, f: (cells(letter, X), cells(letter, Y, seed=1)), "z"),
    "rot": (rot, ["d", "zd"]),
}


@pytest.mark.parametrize("name", LEVEL1)
def test_level_1(name):
    operands, letters = LEVEL1[name]
    for k, f in enumerate([{}, {"n": 2}, {"incx": 2, "incy": 2}, *({**f, "n": 3} for f in VECTORS)]):
        for letter in letters:
            routine = getattr(blas, letter + name)

            def call(x, y, *more, routine=routine, **f):
                x, y = 1 * x, 1 * y
                if name == "axpy":
                    f = {**f, "a": more[0]}
                    more = ()
                return routine(x, y, *more, **f)

            check(call, operands(letter[0], f), f, second=k % 9 == 0)


@pytest.mark.parametrize("name", ["dscal", "zscal", "zdscal", "dnrm2", "dznrm2", "dasum", "dzasum"])
def test_level_1_of_one_vector(name):
    letter = "z" if "z" in name else "d"
    for f in [{}, {"n": 2}, {"incx": 2}, {"incx": 3, "offx": 1}]:
        if "scal" in name:
            a = 1.5 if name == "zdscal" else number(letter, 0)
            check(lambda a, x, **f: getattr(blas, name)(a, 1 * x, **f), (a, cells(letter, X)), f)
        else:
            check(getattr(blas, name), (cells(letter, X),), f)


def test_rotg():
    for a, b in [(0.6, 2.0), (-3.0, 1.0), (1.0, -4.0)]:
        check(blas.drotg, (a, b), {}, second=False)


@pytest.mark.parametrize("name", [n for n in dir(blas) if n[:1] in "sc" and n[1:] in (*LEVEL1, *LEVEL2, *LEVEL3)])
def test_single_precision_stays(name):
    letter, base = name[0], name[1:]
    f = next(iter((LEVEL3.get(base) or LEVEL2.get(base) or [[{}]])[0])) if base not in LEVEL1 else {}
    make = operands3 if base in LEVEL3 else None
    x = make(base, letter, f) if make else (LEVEL2.get(base, [0, LEVEL1.get(base, [0])[0]])[1])(letter, f)
    if base == "axpy":
        x = x[:2]
    arrays = [k for k, a in enumerate(x) if np.ndim(a)]

    def call(*given):
        ops = list(x)
        for k, a in zip(arrays, given, strict=True):
            ops[k] = 1 * a
        return getattr(blas, name)(*ops, **f)

    given = [x[k] for k in arrays]
    plain = as_arrays(call(*given))
    value, tangent = ndual.jvp(lambda *g: call(*g), tuple(given), tuple(given))
    for p, v, t in zip(*(([o] if not isinstance(o, tuple) else o) for o in (plain, value, tangent)), strict=True):
        assert np.asarray(v).dtype == np.asarray(t).dtype == p.dtype
    grads = ndual.grad(
        lambda *g: np.real(np.sum(flat(as_arrays(call(*g))))), argnums=tuple(range(len(given))), mode="reverse"
    )(*given)
    for g, a in zip(grads, given, strict=True):
        assert g.dtype == a.dtype
