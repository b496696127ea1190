"""BLAS as CuPy calls it: products with coefficients that are operands like any other.

A coefficient that is a plain 0 has its matrices unread; one that moves enters by the product it stands before.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition


def _op(xp: Any, trans: Any, a: Any) -> Any:
    """The matrix that a letter, or one of cuBLAS's numbers for it, makes of a."""
    which = trans if isinstance(trans, str) else "NTH"[int(trans)]
    return a if which == "N" else a.T if which == "T" else xp.conj(a.T)


def _nothing(coefficient: Any) -> bool:
    return type(coefficient) in (int, float, complex) and coefficient == 0


def _scaled(coefficient: Any, product: Any) -> Any:
    return product if type(coefficient) in (int, float) and coefficient == 1 else coefficient * product


def _sum(xp: Any, alpha: Any, beta: Any, product: Any, c: Any, like: Any) -> Any:
    """The sum alpha * product() + beta * c, without what a plain 0 stands before."""
    terms = [] if _nothing(alpha) else [_scaled(alpha, product())]
    terms += [] if c is None or _nothing(beta) else [_scaled(beta, c)]
    if not terms:
        return xp.zeros(*like)
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


@composition("cupy.cublas.gemm", reads_out=True)
def gemm(
    xp: Any, transa: Any, transb: Any, a: Any, b: Any, out: Any = None, alpha: Any = 1.0, beta: Any = 0.0
) -> Any:  # fmt: skip
    """The sum alpha op(a) @ op(b) + beta out, written into `out` if there is one."""
    left, right = _op(xp, transa, a), _op(xp, transb, b)
    like = (left.shape[0], right.shape[1]), a.dtype
    found = _sum(xp, alpha, beta, lambda: left @ right, out, like)
    if out is None:
        return found
    out[...] = found
    return out


@composition("cupy.cublas.gemv")
def gemv(xp: Any, transa: Any, alpha: Any, a: Any, x: Any, beta: Any, y: Any) -> None:
    """In place, y = alpha op(a) @ x + beta y."""
    left = _op(xp, transa, a)
    y[...] = _sum(xp, alpha, beta, lambda: left @ x, y, ((left.shape[0],), a.dtype))


@composition("cupy.cublas.geam")
def geam(
    xp: Any, transa: Any, transb: Any, alpha: Any, a: Any, beta: Any, b: Any
) -> Any:  # fmt: skip
    """The sum alpha op(a) + beta op(b)."""
    left, right = _op(xp, transa, a), _op(xp, transb, b)
    return _sum(xp, alpha, beta, lambda: left, right, (left.shape, a.dtype))


@composition("cupy.cublas.ger")
def ger(xp: Any, alpha: Any, x: Any, y: Any, a: Any) -> None:
    """In place, a += alpha x yᵀ."""
    if not _nothing(alpha):
        a[...] = a + _scaled(alpha, xp.outer(x, y))


@composition("cupy.cublas.axpy")
def axpy(xp: Any, a: Any, x: Any, y: Any) -> None:
    """In place, y += a x."""
    if not _nothing(a):
        y[...] = y + _scaled(a, x)


@composition("cupy.cublas.scal")
def scal(xp: Any, a: Any, x: Any) -> None:
    """In place, x *= a."""
    x[...] = a * x


@composition("cupy.cublas.dot cupy.cublas.dotu")
def dot(xp: Any, x: Any, y: Any) -> Any:
    """The sum of products."""
    return xp.sum(x * y)


@composition("cupy.cublas.dotc")
def dotc(xp: Any, x: Any, y: Any) -> Any:
    """The sum of products with the conjugate of the first."""
    return xp.sum(xp.conj(x) * y)


@composition("cupy.cublas.nrm2")
def nrm2(xp: Any, x: Any) -> Any:
    """The length of a vector."""
    return xp.linalg.norm(x)


@composition("cupy.cublas.asum")
def asum(xp: Any, x: Any) -> Any:
    """The sum of magnitudes; of complex numbers, of those of both parts."""
    size = xp.abs(x) if x.dtype.kind == "f" else xp.abs(x.real) + xp.abs(x.imag)
    return xp.sum(size)
