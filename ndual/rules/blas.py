"""BLAS as scipy.linalg.blas has it: each routine by the products that it adds up.

Coefficients enter as operands do. What a routine does not read (a triangle, a unit diagonal, an operand whose
coefficient is zero) enters nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndual.rules.blas_parts import (
    NUMBER,
    OF_TRANSPOSE,
    TRANSPOSED,
    Factor,
    Product,
    Result,
    column,
    hermitian_triangle,
    scaled,
    triangle,
)
from ndual.rules.blas_terms import (
    names_of,
    of_rank,
    routine,
)
from ndual.rules.registry import passive, structured
from ndual.rules.support import conj, refuse, strong_multiply

_INTO_C = ((0, 4, "overwrite_c"),)
_ALL = "s,d,c,z"
_X: dict[str, Any] = {"offx": 0, "incx": 1}
_XY: dict[str, Any] = {**_X, "offy": 0, "incy": 1}
# Routines that write into their operand without being asked.
_WRITES: dict[str, Any] = {"overwrite": True}


def _blas(pattern: str) -> list[str]:
    return names_of(pattern, "blas")


def _count(n: Any, x: Factor, off: int, inc: int) -> int:
    """How many cells a routine of two vectors takes if it is not told."""
    return int((x.shape[0] - off) // abs(inc) if n is None else n)


def _cells(n: Any, x: Factor, off: int, inc: int) -> int:
    """The same for the routines that also take a last, incomplete step."""
    return int((x.shape[0] - 1 - off) // abs(inc) + 1 if n is None else n)


def _vector(y: Factor | None, products: list[Product], count: int, off: int, inc: int, size: int) -> Result:
    """A vector of which some cells are the sum of products, and the others those of y."""
    return Result(products, column(count, off, inc, size).turned, y and y.outside(count, off, inc), 1)


@routine(_blas(f"{_ALL}:axpy"), "x y (n) a?", "110", ((0, 1, None),), n=None, **_XY, **_WRITES)
def axpy(x: Any, y: Any, a: Any, n: Any, offx: int, incx: int, offy: int, incy: int, **_: Any) -> Any:
    """A x + y."""
    count = _count(n, x, offx, incx)
    products = [Product(a, (x.column(count, offx, incx),)), Product(None, (y.column(count, offy, incy),))]
    return [_vector(y, products, count, offy, incy, y.shape[0])]


def _forward_only(name: str, inc: int) -> None:
    if inc <= 0:
        raise refuse(name, f"incx={inc}", "Whether it then does anything depends on the library; take x[::-1].")


def scal(a: Any, x: Any, n: Any, offx: int, incx: int, **_: Any) -> Any:
    """A x."""
    _forward_only("scal", incx)
    count = _count(n, x, offx, incx)
    return [_vector(x, [Product(a, (x.column(count, offx, incx),))], count, offx, incx, x.shape[0])]


routine(_blas(f"{_ALL}:scal"), "a x", "01", ((0, 1, None),), n=None, **_X, **_WRITES)(scal)
routine(_blas("cs,zd:scal"), "a x", "01", ((0, 1, "overwrite_x"),), n=None, **_X, overwrite_x=0)(scal)


@routine(_blas(f"{_ALL}:copy"), "x y", "11", ((0, 1, None),), n=None, **_XY, **_WRITES)
def copy(x: Any, y: Any, n: Any, offx: int, incx: int, offy: int, incy: int, **_: Any) -> Any:
    """X in the place of y."""
    count = _count(n, x, offx, incx)
    return [_vector(y, [Product(None, (x.column(count, offx, incx),))], count, offy, incy, y.shape[0])]


@routine(_blas(f"{_ALL}:swap"), "x y", "11", ((0, 0, None), (1, 1, None)), n=None, **_XY, **_WRITES)
def swap(x: Any, y: Any, n: Any, offx: int, incx: int, offy: int, incy: int, **_: Any) -> Any:
    """Each in the place of the other."""
    count = _count(n, x, offx, incx)
    left, right = Product(None, (x.column(count, offx, incx),)), Product(None, (y.column(count, offy, incy),))
    return [
        _vector(x, [right], count, offx, incx, x.shape[0]),
        _vector(y, [left], count, offy, incy, y.shape[0]),
    ]


@routine(
    _blas("s,d,cs,zd:rot"), "x y c s", "1100", ((0, 0, "overwrite_x"), (1, 1, "overwrite_y")),
    n=None, **_XY, overwrite_x=0, overwrite_y=0,
)  # fmt: skip
def rot(x: Any, y: Any, c: Any, s: Any, n: Any, offx: int, incx: int, offy: int, incy: int, **_: Any) -> Any:
    """C x + s y and c y - s x."""
    count = _cells(n, x, offx, incx)
    u, v = (x.column(count, offx, incx),), (y.column(count, offy, incy),)
    return [
        _vector(x, [Product(c, u), Product(s, v)], count, offx, incx, x.shape[0]),
        _vector(y, [Product(c, v), Product(s.negative, u)], count, offy, incy, y.shape[0]),
    ]


def _dot(conjugate: bool) -> Callable[..., Any]:
    def dot(x: Any, y: Any, n: Any, offx: int, incx: int, offy: int, incy: int, **_: Any) -> Any:
        """x^T y, or x^H y."""
        count = _count(n, x, offx, incx)
        row = x.column(count, offx, incx).op(2 if conjugate else 1)
        return [Result([Product(None, (row, y.column(count, offy, incy)))], NUMBER, None, 0)]

    return dot


routine(_blas("s,d:dot c,z:dotu"), "x y", "11", n=None, **_XY)(_dot(False))
routine(_blas("c,z:dotc"), "x y", "11", n=None, **_XY)(_dot(True))


def _norm(names: list[str], slope: Callable[..., Any]) -> None:
    """A real number with the slope ``slope(xp, y, x)`` in each cell that it is computed from."""

    def parts(xp: Any, y: Any, x: tuple[Any], n: Any, offx: int, incx: int) -> Any:
        (v,) = (of_rank(v, 1) for v in x)
        _forward_only(names[0], incx)
        count = int((v.shape[0] - offx) // abs(incx) if n is None else n)
        cells = column(count, offx, incx, v.shape[0])
        with xp.errstate(all="ignore"):
            return cells, slope(xp, xp.asarray(y), cells.ahead(xp, v))

    def vjp(xp: Any, w: Any, y: Any, x: tuple[Any], **params: Any) -> Any:
        cells, g = parts(xp, y, x, **params)
        with xp.errstate(all="ignore"):
            return (cells.back(xp, strong_multiply(xp, xp.asarray(w), g)).astype(x[0].dtype).reshape(x[0].shape),)

    def jvp(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], **params: Any) -> Any:
        """The real part of the slope times the tangent, added up."""
        cells, g = parts(xp, y, x, **params)
        with xp.errstate(all="ignore"):
            t = strong_multiply(xp, conj(xp, g), cells.ahead(xp, of_rank(dx[0], 1, 1)))
        return (t.real if t.dtype.kind == "c" else t).sum(axis=(1, 2))

    for name in names:
        structured(name, "x", vjp, n=None, **_X)(jvp)


def _two_norm_slope(xp: Any, y: Any, x: Any) -> Any:
    return xp.where(y == 0, 0, x / xp.where(y == 0, 1, y))


def _sum_slope(xp: Any, y: Any, x: Any) -> Any:
    return xp.sign(x) if x.dtype.kind != "c" else xp.sign(x.real) + 1j * xp.sign(x.imag)


_norm(_blas("s,d,sc,dz:nrm2"), _two_norm_slope)
_norm(_blas("s,d,sc,dz:asum"), _sum_slope)
passive(" ".join(_blas("is,id,ic,iz:amax")))


def _rotg_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any]) -> tuple[Any, Any]:
    (a, b), (c, s) = x, y
    move = ((0 if w[0] is None else w[0] * s) - (0 if w[1] is None else w[1] * c)) / (c * a + s * b)
    return xp.asarray(s * move).reshape(a.shape), xp.asarray(-c * move).reshape(b.shape)


@structured(" ".join(_blas("s,d:rotg")), "a b", _rotg_vjp)
def rotg(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any]) -> Any:
    """With r = c a + s b and the turn u = (s da - c db) / r: s u and -c u."""
    (a, b), (c, s), (da, db) = x, y, dx
    turn: Any = 0
    if da is not None:
        turn = s * da.reshape(-1)
    if db is not None:
        turn = turn - c * db.reshape(-1)
    turn = turn / (c * a.reshape(()) + s * b.reshape(()))
    return s * turn, -c * turn


@routine(
    _blas(f"{_ALL}:gemv"), "alpha a x beta? y?", "02101", ((0, 4, "overwrite_y"),),
    **_XY, trans=0, overwrite_y=0,
)  # fmt: skip
def gemv(
    alpha: Any, a: Any, x: Any, beta: Any, y: Any, offx: int, incx: int, offy: int, incy: int, trans: int,
    shape: Any, **_: Any,
) -> Any:  # fmt: skip
    """Alpha op(A) x + beta y."""
    m, n = a.shape[::-1] if trans else a.shape
    return _multiplied(alpha, a.op(trans), x, beta, y, (m, n), offx, incx, offy, incy, shape)


def _multiplied(
    alpha: Any, matrix: Factor, x: Any, beta: Any, y: Any, size: tuple[int, int], offx: int, incx: int, offy: int,
    incy: int, shape: Any,
) -> Any:  # fmt: skip
    m, n = size
    products = [Product(alpha, (matrix, x.column(n, offx, incx)))]
    if y is not None:
        products += scaled(beta, y.column(m, offy, incy))
    return [_vector(y, products, m, offy, incy, shape[0])]


def _symv(hermitian: bool) -> Callable[..., Any]:
    def symv(
        alpha: Any, a: Any, x: Any, beta: Any, y: Any, offx: int, incx: int, offy: int, incy: int, lower: int,
        shape: Any, **_: Any,
    ) -> Any:  # fmt: skip
        """Alpha A x + beta y."""
        matrix = a.hermitian(lower) if hermitian else a.symmetric(lower)
        return _multiplied(alpha, matrix, x, beta, y, a.shape, offx, incx, offy, incy, shape)

    return symv


_SYMV: dict[str, Any] = {**_XY, "lower": 0, "overwrite_y": 0}
routine(_blas("s,d:symv"), "alpha a x beta? y?", "02101", ((0, 4, "overwrite_y"),), **_SYMV)(_symv(False))
routine(_blas("c,z:hemv"), "alpha a x beta? y?", "02101", ((0, 4, "overwrite_y"),), **_SYMV)(_symv(True))

_TRI: dict[str, Any] = {"lower": 0, "trans": 0, "diag": 0, "overwrite_x": 0}


@routine(_blas(f"{_ALL}:trmv"), "a x", "21", ((0, 1, "overwrite_x"),), **_X, **_TRI)
def trmv(a: Any, x: Any, offx: int, incx: int, lower: int, trans: int, diag: int, **_: Any) -> Any:
    """op(A) x."""
    n = a.shape[0]
    product = Product(None, (a.triangle(lower, diag).op(trans), x.column(n, offx, incx)))
    return [_vector(x, [product], n, offx, incx, x.shape[0])]


@routine(_blas(f"{_ALL}:trsv"), "a x", "21", ((0, 1, "overwrite_x"),), incx=1, offx=0, **_TRI)
def trsv(a: Any, x: Any, incx: int, offx: int, lower: int, trans: int, diag: int, **_: Any) -> Any:
    """op(A)^-1 x."""
    n = a.shape[0]
    product = Product(None, (a.inverse(lower, trans, diag), x.column(n, offx, incx)))
    return [_vector(x, [product], n, offx, incx, x.shape[0])]


def _ger(conjugate: bool) -> Callable[..., Any]:
    def ger(alpha: Any, x: Any, y: Any, a: Any, incx: int, incy: int, **_: Any) -> Any:
        """Alpha x y^T + A, or alpha x y^H + A."""
        left = x.column(_cells(None, x, 0, incx), 0, incx)
        right = y.column(_cells(None, y, 0, incy), 0, incy).op(2 if conjugate else 1)
        return [Result([Product(alpha, (left, right)), *([] if a is None else [Product(None, (a,))])])]

    return ger


_GER: dict[str, Any] = {"incx": 1, "incy": 1, "overwrite_x": 1, "overwrite_y": 1, "overwrite_a": 0}
routine(_blas("s,d:ger c,z:geru"), "alpha x y (incx) (incy) a?", "0112", ((0, 3, "overwrite_a"),), **_GER)(_ger(False))
routine(_blas("c,z:gerc"), "alpha x y (incx) (incy) a?", "0112", ((0, 3, "overwrite_a"),), **_GER)(_ger(True))


def _place(lower: int, hermitian: bool) -> Any:
    return hermitian_triangle(lower) if hermitian else triangle(lower)


def _updated(products: list[Product], lower: int, hermitian: bool, a: Factor | None) -> Any:
    """One triangle of a sum of products, beside the other one of a."""
    return [Result(products, _place(lower, hermitian), None if a is None else a.beside(lower))]


def _syr(hermitian: bool) -> Callable[..., Any]:
    def syr(alpha: Any, x: Any, a: Any, lower: int, incx: int, offx: int, n: Any, **_: Any) -> Any:
        """Alpha x x^T + A, or alpha x x^H + A, in one triangle."""
        u = x.column(_cells(n, x, offx, incx), offx, incx)
        products = [Product(alpha.real if hermitian else alpha, (u, u.op(2 if hermitian else 1)))]
        products += [] if a is None else [Product(None, (a,))]
        return _updated(products, lower, hermitian, a)

    return syr


_SYR: dict[str, Any] = {"lower": 0, "incx": 1, "offx": 0, "n": None, "overwrite_a": 0}
_SYR_ARRAYS = "alpha x (lower) (incx) (offx) (n) a?"
routine(_blas(f"{_ALL}:syr"), _SYR_ARRAYS, "012", ((0, 2, "overwrite_a"),), **_SYR)(_syr(False))
routine(_blas("c,z:her"), _SYR_ARRAYS, "012", ((0, 2, "overwrite_a"),), **_SYR)(_syr(True))


def _syr2(hermitian: bool) -> Callable[..., Any]:
    def syr2(
        alpha: Any, x: Any, y: Any, a: Any, lower: int, incx: int, offx: int, incy: int, offy: int, n: Any, **_: Any
    ) -> Any:
        """Alpha x y^T + alpha y x^T + A (with adjoints, the second alpha is conjugate), in one triangle."""
        count = min(_cells(n, x, offx, incx), _cells(n, y, offy, incy))
        u, v, turn = x.column(count, offx, incx), y.column(count, offy, incy), 2 if hermitian else 1
        products = [
            Product(alpha, (u, v.op(turn))),
            Product(alpha.conj if hermitian else alpha, (v, u.op(turn))),
            *([] if a is None else [Product(None, (a,))]),
        ]
        return _updated(products, lower, hermitian, a)

    return syr2


_SYR2: dict[str, Any] = {"lower": 0, "incx": 1, "offx": 0, "incy": 1, "offy": 0, "n": None, "overwrite_a": 0}
_SYR2_ARRAYS = "alpha x y (lower) (incx) (offx) (incy) (offy) (n) a?"
routine(_blas("s,d:syr2"), _SYR2_ARRAYS, "0112", ((0, 3, "overwrite_a"),), **_SYR2)(_syr2(False))
routine(_blas("c,z:her2"), _SYR2_ARRAYS, "0112", ((0, 3, "overwrite_a"),), **_SYR2)(_syr2(True))


@routine(_blas(f"{_ALL}:gemm"), "alpha a b beta? c?", "02202", _INTO_C, trans_a=0, trans_b=0, overwrite_c=0)
def gemm(alpha: Any, a: Any, b: Any, beta: Any, c: Any, trans_a: int, trans_b: int, **_: Any) -> Any:
    """Alpha op(A) op(B) + beta C."""
    return [Result([Product(alpha, (a.op(trans_a), b.op(trans_b))), *scaled(beta, c)])]


def _symm(hermitian: bool) -> Callable[..., Any]:
    def symm(alpha: Any, a: Any, b: Any, beta: Any, c: Any, side: int, lower: int, **_: Any) -> Any:
        """Alpha A B + beta C, or alpha B A + beta C."""
        whole = a.hermitian(lower) if hermitian else a.symmetric(lower)
        return [Result([Product(alpha, (b, whole) if side else (whole, b)), *scaled(beta, c)])]

    return symm


_SYMM: dict[str, Any] = {"side": 0, "lower": 0, "overwrite_c": 0}
routine(_blas(f"{_ALL}:symm"), "alpha a b beta? c?", "02202", _INTO_C, **_SYMM)(_symm(False))
routine(_blas("c,z:hemm"), "alpha a b beta? c?", "02202", _INTO_C, **_SYMM)(_symm(True))


def _syrk(hermitian: bool) -> Callable[..., Any]:
    def syrk(alpha: Any, a: Any, beta: Any, c: Any, trans: int, lower: int, **_: Any) -> Any:
        """Alpha A A^T + beta C, or alpha A^T A + beta C (with adjoints), in one triangle."""
        other = a.op(2 if hermitian else 1)
        if hermitian:
            alpha, beta = alpha.real, beta and beta.real
        products = [Product(alpha, (other, a) if trans else (a, other)), *scaled(beta, c)]
        return _updated(products, lower, hermitian, c)

    return syrk


_SYRK: dict[str, Any] = {"trans": 0, "lower": 0, "overwrite_c": 0}
routine(_blas(f"{_ALL}:syrk"), "alpha a beta? c?", "0202", ((0, 3, "overwrite_c"),), **_SYRK)(_syrk(False))
routine(_blas("c,z:herk"), "alpha a beta? c?", "0202", ((0, 3, "overwrite_c"),), **_SYRK)(_syrk(True))


def _syr2k(hermitian: bool) -> Callable[..., Any]:
    def syr2k(alpha: Any, a: Any, b: Any, beta: Any, c: Any, trans: int, lower: int, **_: Any) -> Any:
        """Alpha A B^T + alpha B A^T + beta C, or with the transposes on the left, in one triangle."""
        turn = 2 if hermitian else 1
        pairs = ((a.op(turn), b), (b.op(turn), a)) if trans else ((a, b.op(turn)), (b, a.op(turn)))
        second, beta = (alpha.conj, beta and beta.real) if hermitian else (alpha, beta)
        products = [Product(alpha, pairs[0]), Product(second, pairs[1]), *scaled(beta, c)]
        return _updated(products, lower, hermitian, c)

    return syr2k


routine(_blas(f"{_ALL}:syr2k"), "alpha a b beta? c?", "02202", _INTO_C, **_SYRK)(_syr2k(False))
routine(_blas("c,z:her2k"), "alpha a b beta? c?", "02202", _INTO_C, **_SYRK)(_syr2k(True))

_TRMM: dict[str, Any] = {"side": 0, "lower": 0, "trans_a": 0, "diag": 0, "overwrite_b": 0}


@routine(_blas(f"{_ALL}:trmm"), "alpha a b", "022", ((0, 2, "overwrite_b"),), **_TRMM)
def trmm(alpha: Any, a: Any, b: Any, side: int, lower: int, trans_a: int, diag: int, **_: Any) -> Any:
    """Alpha op(A) B, or alpha B op(A)."""
    t = a.triangle(lower, diag).op(trans_a)
    return [Result([Product(alpha, (b, t) if side else (t, b))])]


@routine(_blas(f"{_ALL}:trsm"), "alpha a b", "022", ((0, 2, "overwrite_b"),), **_TRMM)
def trsm(alpha: Any, a: Any, b: Any, side: int, lower: int, trans_a: int, diag: int, **_: Any) -> Any:
    """Alpha op(A)^-1 B, or alpha B op(A)^-1, which is the transpose of op(A)^-T B^T."""
    if side:
        inverse = a.inverse(lower, OF_TRANSPOSE[trans_a], diag)
        return [Result([Product(alpha, (inverse, b.op(1)))], TRANSPOSED)]
    return [Result([Product(alpha, (a.inverse(lower, trans_a, diag), b))])]
