"""LAPACK as scipy.linalg.lapack has it: factors, and what is solved with them.

Solves are described as BLAS routines are. Factorisations take the formulas of the functions that call them.
`info` stays the integer that it is; where it says that a routine failed, there is no derivative, and lanes are NaN.
"""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose, scipy_linalg, triangular_factors
from ndual.rules.blas_parts import (
    Factor,
    Map,
    Product,
    Result,
    hermitian_triangle,
    rows,
    triangle,
)
from ndual.rules.blas_terms import (
    STORED,
    Terms,
    cotangents_of,
    lanes_of,
    names_of,
    of_rank,
    routine,
)
from ndual.rules.registry import structured, undefined
from ndual.rules.support import refuse
from ndual.rules.triangular import literal, tri_part, whole

Arrays = tuple[Any, ...]
_ALL = "s,d,c,z"


def _lapack(pattern: str) -> list[str]:
    return names_of(pattern, "lapack")


def _order(piv: Any) -> list[int]:
    """Row exchanges as an order of the rows."""
    order = list(range(len(piv)))
    for i, k in enumerate(piv.tolist()):
        order[i], order[k] = order[k], order[i]
    return order


def _moved_back(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _lu_solve(lu: Factor, b: Factor, piv: Any, trans: int) -> Result:
    """op(P^T L U)^-1 b."""
    order = _order(piv)
    if trans:
        factors = (lu.inverse(True, trans, True), lu.inverse(False, trans), b)
        return Result([Product(None, factors)], rows(_moved_back(order)))
    return Result([Product(None, (lu.inverse(False), lu.inverse(True, 0, True), b.then(rows(order))))])


@routine(_lapack(f"{_ALL}:getrs"), "lu (piv) b", "22", ((0, 1, "overwrite_b"),), piv=None, trans=0, overwrite_b=0)
def getrs(lu: Any, b: Any, piv: Any, trans: int, **_: Any) -> Any:
    """op(A)^-1 b with the factors that were given."""
    return [_lu_solve(lu, b, piv, trans), None]


@routine(_lapack(f"{_ALL}:getri"), "lu", "2", ((0, 0, "overwrite_lu"),), piv=None, lwork=None, overwrite_lu=0)
def getri(lu: Any, piv: Any, **_: Any) -> Any:
    """U^-1 L^-1 P: a permutation of columns."""
    swap = Map(lambda xp, m: xp.swapaxes(m, -1, -2), lambda xp, g: xp.swapaxes(g, -1, -2))
    place = swap.then(rows(_moved_back(_order(piv)))).then(swap)
    return [Result([Product(None, (lu.inverse(False), lu.inverse(True, 0, True)))], place), None]


def _whole(c: Factor, lower: Any) -> tuple[Factor, Factor]:
    """The inverse of what a Cholesky factor stands for, as two inverses."""
    low = bool(lower)
    return (c.inverse(True, 2), c.inverse(True)) if low else (c.inverse(False), c.inverse(False, 2))


@routine(_lapack(f"{_ALL}:potrs"), "c b", "22", ((0, 1, "overwrite_b"),), lower=0, overwrite_b=0)
def potrs(c: Any, b: Any, lower: int, **_: Any) -> Any:
    """A^-1 b with the Cholesky factor of A."""
    return [Result([Product(None, (*_whole(c, lower), b))]), None]


@routine(_lapack(f"{_ALL}:potri"), "c", "2", ((0, 0, "overwrite_c"),), lower=0, overwrite_c=0)
def potri(c: Any, lower: int, **_: Any) -> Any:
    """One triangle of A^-1 from the Cholesky factor of A; the other stays."""
    return [Result([Product(None, _whole(c, lower))], hermitian_triangle(lower), c.beside(lower)), None]


_TRTRS: dict[str, Any] = {"lower": 0, "trans": 0, "unitdiag": 0, "lda": None, "overwrite_b": 0}


@routine(_lapack(f"{_ALL}:trtrs"), "a b", "22", ((0, 1, "overwrite_b"),), **_TRTRS)
def trtrs(a: Any, b: Any, lower: int, trans: int, unitdiag: int, **_: Any) -> Any:
    """op(A)^-1 b."""
    return [Result([Product(None, (a.inverse(lower, trans, unitdiag), b))]), None]


@routine(_lapack(f"{_ALL}:trtri"), "c", "2", ((0, 0, "overwrite_c"),), lower=0, unitdiag=0, overwrite_c=0)
def trtri(c: Any, lower: int, unitdiag: int, **_: Any) -> Any:
    """The inverse of a triangle, in its place."""
    place = triangle(lower, unitdiag)
    return [Result([Product(None, (c.inverse(lower, 0, unitdiag),))], place, c.beside(lower, unitdiag)), None]


def _failed(name: str, info: Any, t: Any) -> Any:
    """Lanes of a factorisation that may not have come to its end."""
    if info == 0:
        return t
    undefined(f"{name} returned info={info}: it found no factorisation, and there is no derivative")
    return t * float("nan")


def _lu_lanes(xp: Any, lu: Any, piv: Any, t: Any) -> Any:
    """Both triangles in one matrix, as lu_factor has them."""
    return triangular_factors.lu_factor(xp, (lu, piv), (lu,), (t,))[0]


def _lu_cotangent(xp: Any, lu: Any, piv: Any, g: Any) -> Any:
    """The transpose of the same."""
    return triangular_factors._lu_factor_vjp(xp, (g, None), (lu, piv), (lu,))[0]


def _cast(xp: Any, a: Any, like: Any, lanes: int = 0) -> Any:
    """An operand as the routine reads it."""
    if a.dtype.kind == "c" and like.dtype.kind != "c":
        raise refuse("lapack", "complex operands of a real routine", "Call the routine of the letter c or z.")
    a = of_rank(a, 2, lanes)
    return a if a.dtype == like.dtype else a.astype(like.dtype)


def _given(g: Any, a: Any) -> Any:
    """A cotangent in the shape and type of the operand."""
    g = g.real if g.dtype.kind == "c" and a.dtype.kind != "c" else g
    return g.reshape(a.shape).astype(a.dtype)


def _getrf_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, **_: Any) -> Arrays:
    return (_given(_lu_cotangent(xp, y[0], y[1], w[0]), x[0]),)


@structured(" ".join(_lapack(f"{_ALL}:getrf")), "a", _getrf_vjp, overwrite_a=0)
def getrf(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """Both triangles in one matrix; the pivots stay where they are."""
    return _lu_lanes(xp, y[0], y[1], _cast(xp, dx[0], y[0], 1)), None, None


def _cholesky_lanes(xp: Any, c: Any, t: Any, lower: int) -> Any:
    return scipy_linalg.cholesky(xp, tri_part(xp, c, bool(lower)), (None,), (t,), bool(lower))


def _cholesky_cotangent(xp: Any, c: Any, g: Any, lower: int) -> Any:
    low = bool(lower)
    return scipy_linalg._cholesky_vjp(xp, tri_part(xp, g, low), tri_part(xp, c, low), (None,), low)[0]


def _beside(xp: Any, t: Any, lower: int) -> Any:
    return tri_part(xp, t, not lower, True)


def _potrf_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, lower: int, clean: int, **_: Any) -> Arrays:
    g = _failed("potrf", y[1], _cholesky_cotangent(xp, y[0], w[0], lower))
    return (_given(g if clean else g + _beside(xp, w[0], lower), x[0]),)


@structured(" ".join(_lapack(f"{_ALL}:potrf")), "a", _potrf_vjp, lower=0, clean=1, overwrite_a=0)
def potrf(xp: Any, y: Arrays, x: Arrays, dx: Arrays, lower: int, clean: int, **_: Any) -> Arrays:
    """The Cholesky factor of the triangle that was read; the other one is zero, or stays."""
    t = _cast(xp, dx[0], y[0], 1)
    out = _failed("potrf", y[1], _cholesky_lanes(xp, y[0], t, lower))
    return (out if clean else out + _beside(xp, t, lower)), None


def _solved(xp: Any, y: Arrays, x: Arrays, kind: str, lower: int) -> tuple[Terms, list[Result | None], Arrays]:
    """The second half of gesv and posv: a solve with the factor that the first half made."""
    pair = (y[0], x[1])
    terms = Terms(xp, f"{_LETTERS[y[0].dtype.char]}{kind}", pair, "22")
    factor, b = Factor(0, y[0].shape), Factor(1, of_rank(x[1], 2).shape)
    if kind == "gesv":
        return terms, [_lu_solve(factor, b, y[1], 0)], pair
    return terms, [Result([Product(None, (*_whole(factor, lower), b))])], pair


_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def _through(xp: Any, kind: str, y: Arrays, x: Arrays, dx: Arrays, lower: int) -> tuple[Any, Any]:
    """Lanes of the factor and of the solution."""
    moved = None
    if dx[0] is not None:
        t = _cast(xp, dx[0], y[0], 1)
        if kind == "gesv":
            moved = _lu_lanes(xp, y[0], y[1], t)
        else:
            moved = _failed(kind, y[-1], _cholesky_lanes(xp, y[0], t, lower) + _beside(xp, t, lower))
    terms, results, _ = _solved(xp, y, x, kind, lower)
    return moved, lanes_of(terms, results, (moved, dx[1]), y[-2])


def _back_through(xp: Any, kind: str, w: Arrays, y: Arrays, x: Arrays, lower: int) -> Arrays:
    terms, results, pair = _solved(xp, y, x, kind, lower)
    g, gb = cotangents_of(terms, results, w[-2], pair, None)
    g = g + w[0]
    if kind == "gesv":
        ga = _lu_cotangent(xp, y[0], y[1], g)
    else:
        ga = _failed(kind, y[-1], _cholesky_cotangent(xp, y[0], g, lower) + _beside(xp, g, lower))
    return _given(ga, x[0]), gb


def _gesv_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, **_: Any) -> Arrays:
    return _back_through(xp, "gesv", w, y, x, 0)


@structured(" ".join(_lapack(f"{_ALL}:gesv")), "a b", _gesv_vjp, overwrite_a=0, overwrite_b=0)
def gesv(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """A factorisation and a solve with it."""
    lu, solution = _through(xp, "gesv", y, x, dx, 0)
    return lu, None, solution, None


def _posv_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, lower: int, **_: Any) -> Arrays:
    return _back_through(xp, "posv", w, y, x, lower)


@structured(" ".join(_lapack(f"{_ALL}:posv")), "a b", _posv_vjp, lower=0, overwrite_a=0, overwrite_b=0)
def posv(xp: Any, y: Arrays, x: Arrays, dx: Arrays, lower: int, **_: Any) -> Arrays:
    """A Cholesky factorisation and a solve with it."""
    c, solution = _through(xp, "posv", y, x, dx, lower)
    return c, solution, None


def _eigh_parts(xp: Any, y: Arrays, a: Any, compute_v: int, lower: int) -> tuple[Any, Any]:
    if compute_v:
        return y[0], y[1]
    matrix = whole(xp, _cast(xp, a, y[1]), bool(lower))
    return y[0], xp.linalg.eigh(matrix)[1]


def _eigh_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, compute_v: int, lower: int, **_: Any) -> Arrays:
    values, v = _eigh_parts(xp, y, x[0], compute_v, lower)
    g = decompose.eigh_cotangent(xp, values, v, w[0], w[1] if compute_v else None)
    return (_given(literal(xp, g, bool(lower)), x[0]),)


def eigh(xp: Any, y: Arrays, x: Arrays, dx: Arrays, compute_v: int, lower: int, **_: Any) -> Arrays:
    """As numpy.linalg.eigh."""
    values, v = _eigh_parts(xp, y, x[0], compute_v, lower)
    t = whole(xp, _cast(xp, dx[0], y[1], 1), bool(lower))
    dw, dv = decompose.eigh_lanes(xp, values, v, t, None, bool(compute_v))
    return dw, dv, None


_EIGH: dict[str, Any] = {"compute_v": 1, "lower": 0, "lwork": None}
_VARIANTS = {
    "s,d:syev c,z:heev": {**_EIGH, "overwrite_a": 0},
    "s,d:syevd": {**_EIGH, "liwork": None, "overwrite_a": 0},
    "c,z:heevd": {**_EIGH, "liwork": None, "lrwork": None, "overwrite_a": 0},
}
for _pattern, _options in _VARIANTS.items():
    structured(" ".join(_lapack(_pattern)), "a", _eigh_vjp, **_options)(eigh)


def _svd_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays, compute_uv: int, full_matrices: int, **_: Any) -> Arrays:
    a = _cast(xp, x[0], y[0])
    kept = (y[:3], w[:3]) if compute_uv else (y[1], w[1])
    (g,) = decompose.svd_vjp(xp, kept[1], kept[0], (a,), bool(full_matrices), bool(compute_uv), False)
    return (_given(g, x[0]),)


@structured(
    " ".join(_lapack(f"{_ALL}:gesdd {_ALL}:gesvd")), "a", _svd_vjp,
    compute_uv=1, full_matrices=1, lwork=None, overwrite_a=0,
)  # fmt: skip
def svd(xp: Any, y: Arrays, x: Arrays, dx: Arrays, compute_uv: int, full_matrices: int, **_: Any) -> Arrays:
    """As numpy.linalg.svd."""
    a, t = _cast(xp, x[0], y[0]), _cast(xp, dx[0], y[0], 1)
    if compute_uv:
        return (*decompose.svd(xp, y[:3], (a,), (t,), bool(full_matrices), True, False), None)
    return None, decompose.svdvals(xp, y[1], (a,), (t,)), None, None


STORED |= {
    **dict.fromkeys(_lapack(f"{_ALL}:getrf {_ALL}:potrf"), ((0, 0, "overwrite_a"),)),
    **dict.fromkeys(_lapack(f"{_ALL}:gesv"), ((0, 0, "overwrite_a"), (2, 1, "overwrite_b"))),
    **dict.fromkeys(_lapack(f"{_ALL}:posv"), ((0, 0, "overwrite_a"), (1, 1, "overwrite_b"))),
    **dict.fromkeys(_lapack(f"{_ALL}:geqrf {_ALL}:geqp3 s,d:orgqr c,z:ungqr"), ((0, 0, "overwrite_a"),)),
    **dict.fromkeys(_lapack("s,d:ormqr c,z:unmqr"), ((0, 2, "overwrite_c"),)),
    **dict.fromkeys(_lapack("s,d:syev c,z:heev s,d:syevd c,z:heevd"), ((1, 0, "overwrite_a"),)),
}
