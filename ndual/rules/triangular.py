"""Triangular systems with all lanes in one call: NumPy's gemm in blocks on host arrays, the public functions elsewhere.

Helpers for the factorisation rules; no rule is registered here. Of SciPy's BLAS only routines that stay on one
thread are used (trsv, trsm of few columns, trtri of a small block): SciPy and NumPy bundle an OpenBLAS each, and where
both pools of threads are at work on two busy cores a trsm or trmv of order 128 takes 50 ms instead of 0.05.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ndual.rules.registry import KERNELS
from ndual.rules.support import adjoint, conj, is_raw, scipy_linalg

BLOCK = 32
_THREADED = 8  # right-hand sides from which OpenBLAS gives a trsm to several threads


@lru_cache
def _blas(name: str, char: str) -> Any:
    from scipy.linalg import blas, lapack

    return getattr(blas, char + name, None) or getattr(lapack, char + name)


def host_char(xp: Any, *arrays: Any) -> str | None:
    """The BLAS letter if all arrays are host arrays of one real BLAS type, else None."""
    if xp.__name__ != "numpy" or not is_raw(xp, *arrays):
        return None
    char = arrays[0].dtype.char
    if char not in "fd" or any(a.dtype.char != char for a in arrays):
        return None
    return "s" if char == "f" else "d"


@lru_cache(maxsize=8)
def _outside(xp: Any, n: int, lower: bool, unit: bool) -> Any:
    """Where the elements of an n by n matrix are that a triangle leaves out."""
    ones = xp.ones((n, n), bool)
    return ~(xp.tril(ones, -1 if unit else 0) if lower else xp.triu(ones, 1 if unit else 0))


def tri_part(xp: Any, a: Any, lower: bool, unit: bool = False, fresh: bool = False) -> Any:
    """The referenced triangle, zeros elsewhere (a unit diagonal is not referenced); a `fresh` array may be reused."""
    n = a.shape[-1]
    if n <= 512 and is_raw(xp, a) and a.shape[-2] == n:
        if fresh:
            xp.copyto(a, 0, where=_outside(xp, n, lower, unit))
            return a
        return xp.where(_outside(xp, n, lower, unit), a.dtype.type(0), a)
    return xp.tril(a, -1 if unit else 0) if lower else xp.triu(a, 1 if unit else 0)


def whole(xp: Any, a: Any, lower: bool) -> Any:
    """The Hermitian matrix that one triangle stands for (the imaginary part of a diagonal is not read)."""
    part = tri_part(xp, a, lower, True)
    diagonal = tri_part(xp, a, lower) - part
    return part + adjoint(xp, part) + (diagonal + adjoint(xp, diagonal)) / 2


def literal(xp: Any, s: Any, lower: bool) -> Any:
    """The cotangent of the triangle that was read, from that of the whole matrix."""
    both = s + adjoint(xp, s)
    part = tri_part(xp, both, lower, True)
    return part + (tri_part(xp, both, lower) - part) / 2


def _fortran(a: Any, lower: bool, trans: bool) -> tuple[Any, int, int]:
    """Give a matrix to Fortran without a copy: C order counts as the transpose."""
    if a.flags.c_contiguous:
        return a.T, int(not lower), int(not trans)
    return a, int(lower), int(trans)


def tri_solve(xp: Any, a: Any, r: Any, lower: bool, trans: int = 0, unit: bool = False, fresh: bool = False) -> Any:
    """Solve op(a) x = r for lanes r ``(N, n)`` or ``(N, n, k)``; op by SciPy's `trans`; `fresh` r may be reused."""
    char = host_char(xp, a, r)
    if char is None or r.size == 0:
        return _tri_solve_public(xp, a, r, lower, trans, unit)
    if r.ndim == 2 and r.shape[0] == 1:
        matrix, low, op = _fortran(a, lower, trans != 0)
        x = r[0] if fresh else r[0].copy()
        return _blas("trsv", char)(matrix, x, lower=low, trans=op, diag=int(unit), overwrite_x=1)[None]
    if r.ndim == 2 and r.shape[0] < _THREADED:
        matrix, low, op = _fortran(a, lower, trans != 0)
        rows = r if fresh and r.flags.c_contiguous else r.copy(order="C")
        return _blas("trsm", char)(1.0, matrix, rows.T, lower=low, trans_a=op, diag=int(unit), overwrite_b=1).T
    matrix, low = (a.T, not lower) if trans else (a, lower)
    if r.ndim == 2:
        return _substitute(xp, matrix, r.T, low, unit, char).T
    return _substitute(xp, matrix, r[0] if r.shape[0] == 1 else r, low, unit, char).reshape(r.shape)


def _substitute(xp: Any, a: Any, r: Any, lower: bool, unit: bool, char: str) -> Any:
    """Block substitution: the inverse of each diagonal block times what the blocks before it leave."""
    n = a.shape[0]
    x = xp.empty(r.shape, r.dtype)
    starts = range(0, n, BLOCK)
    for start in starts if lower else reversed(starts):
        stop = min(start + BLOCK, n)
        rest = r[..., start:stop, :]
        known = slice(0, start) if lower else slice(stop, n)
        if known.start != known.stop:
            rest = rest - xp.matmul(a[start:stop, known], x[..., known, :])
        xp.matmul(_inverse_block(xp, a[start:stop, start:stop], lower, unit, char), rest, out=x[..., start:stop, :])
    return x


def _inverse_block(xp: Any, a: Any, lower: bool, unit: bool, char: str) -> Any:
    """The inverse of one small triangular block, in C order, whatever the other triangle holds."""
    a = tri_part(xp, a, lower, unit)
    if unit:
        a += xp.eye(a.shape[0], dtype=a.dtype)
    return factor_inverse(a, lower, char)


def factor_inverse(a: Any, lower: bool, char: str) -> Any:
    """The inverse of a small triangular block with zeros in the other triangle."""
    return _blas("trtri", char)(a.T, lower=int(not lower))[0].T


def _tri_solve_public(xp: Any, a: Any, r: Any, lower: bool, trans: int, unit: bool) -> Any:
    solve = scipy_linalg(xp).solve_triangular
    if r.ndim == 2:
        return solve(a, r.T, trans=trans, lower=lower, unit_diagonal=unit).T
    n, size, k = r.shape
    wide = xp.moveaxis(r, 0, 1).reshape(size, n * k)
    return xp.moveaxis(solve(a, wide, trans=trans, lower=lower, unit_diagonal=unit).reshape(size, n, k), 1, 0)


def tri_apply(xp: Any, da: Any, x: Any, lower: bool, trans: int = 0, unit: bool = False) -> Any:
    """op(triangle of da) @ x for lanes da ``(N, n, n)`` and one x ``(n,)`` or ``(n, k)``; the diagonal is 0 if unit."""
    if x.ndim == 1 and x.size and host_char(xp, da, x) is not None:
        matrix, low = (da.swapaxes(1, 2), not lower) if trans else (da, lower)
        return KERNELS["tri_apply"](matrix, x, low, unit)
    part = tri_part(xp, da, lower, unit)
    if trans:
        part = xp.swapaxes(part, -1, -2)
    return xp.matmul(conj(xp, part) if trans == 2 else part, x)


def tri_inverse(xp: Any, a: Any, lower: bool = True) -> Any:
    """The inverse of a triangular matrix (or a stack of them)."""
    char = host_char(xp, a)
    if char is not None and a.ndim == 2 and a.size:
        return _substitute(xp, a, xp.eye(a.shape[0], dtype=a.dtype), lower, False, char)
    if char is None and a.ndim == 2 and a.size and is_raw(xp, a) and xp.__name__ != "numpy":
        return _tri_solve_public(xp, a, xp.eye(a.shape[0], dtype=a.dtype)[None], lower, 0, False)[0]
    return xp.linalg.inv(tri_part(xp, a, lower))
