"""Rules for scipy.linalg: eigenvalues and vectors of banded and tridiagonal symmetric matrices, whole or in part.

The lanes of the bands become those of a matrix, of which the formulas are those of ``decompose``.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.decompose import eigh_cotangent, eigh_lanes
from ndual.rules.special_matrices import _half_band, _whole_band
from ndual.rules.stacks import stacked
from ndual.rules.support import real_as, scipy_linalg, truth

Arrays = tuple[Any, ...]
_ALL = ("a", "all", 0)


def _spread(xp: Any, bands: Any) -> Any:
    """Lanes of all bands of a matrix as the matrix."""
    count, n = bands.shape[-2:]
    width = count // 2
    index = xp.arange(n)[:, None] - xp.arange(n)
    inside = abs(index) <= width
    column = xp.broadcast_to(xp.arange(n), (n, n))
    return xp.where(inside, bands[:, xp.where(inside, index + width, 0), column], 0)


def _gathered(xp: Any, g: Any, width: int) -> Any:
    """The bands of a matrix, zeros where they have no cell: the transpose."""
    n = g.shape[-1]
    row = xp.arange(n) + xp.arange(-width, width + 1)[:, None]
    inside = (row >= 0) & (row < n)
    return xp.where(inside, g[xp.where(inside, row, 0), xp.arange(n)], 0)


def _spectrum(solve: Any, y: Any, values_only: bool, part: bool) -> Arrays:
    """Values, vectors, and where they are a part of the spectrum, all of it and where the part starts."""
    values, vectors = solve(True) if values_only else y
    if not part or values_only:
        return values, vectors, None
    every, whole = solve(False)
    start = 0 if not values.shape[0] else int(abs(every - values[0]).argmin())
    stop = start + values.shape[0]
    own = whole.copy()
    own[:, start:stop] = vectors  # in their own sign or phase
    return values, vectors, (every, own, start)


def _banded(
    xp: Any, y: Any, a: Any, lower: Any, eigvals_only: Any, select: Any, select_range: Any, max_ev: int = 0
) -> Arrays:
    def solve(part: bool) -> Any:
        options = {"select": select, "select_range": select_range, "max_ev": max_ev} if part else {}
        return scipy_linalg(xp).eig_banded(a, lower=truth(lower), **options)

    return _spectrum(solve, y, truth(eigvals_only), select not in _ALL)


def _eig_banded_vjp(xp: Any, w: Any, y: Any, x: Arrays, lower: Any, eigvals_only: Any, **rest: Any) -> Arrays:
    options = {key: rest[key] for key in ("select", "select_range", "max_ev") if key in rest}
    values, vectors, among = _banded(xp, y, x[0], lower, eigvals_only, **options)
    gw, gv = (w, None) if truth(eigvals_only) else w
    g = eigh_cotangent(xp, values, vectors, gw, gv, among)
    return (real_as(x[0], _half_band(xp, _gathered(xp, g, x[0].shape[0] - 1), truth(lower))),)


@stacked(
    "scipy.linalg.eig_banded", "a_band", "2", _eig_banded_vjp,
    lower=False, eigvals_only=False, overwrite_a_band=False, select="a", select_range=None, max_ev=0, check_finite=True,
)  # fmt: skip
def eig_banded(xp: Any, y: Any, x: Arrays, dx: Arrays, lower: Any, eigvals_only: Any, **rest: Any) -> Any:
    """As numpy.linalg.eigh of the matrix that the bands stand for."""
    options = {key: rest[key] for key in ("select", "select_range", "max_ev") if key in rest}
    values, vectors, among = _banded(xp, y, x[0], lower, eigvals_only, **options)
    move = _spread(xp, _whole_band(xp, dx[0], truth(lower)))
    dw, dv = eigh_lanes(xp, values, vectors, move, vectors=not truth(eigvals_only), among=among)
    return dw if truth(eigvals_only) else (dw, dv)


def _eigvals_banded_vjp(xp: Any, w: Any, y: Any, x: Arrays, **options: Any) -> Arrays:
    return _eig_banded_vjp(xp, w, y, x, eigvals_only=True, **options)


@stacked(
    "scipy.linalg.eigvals_banded", "a_band", "2", _eigvals_banded_vjp,
    lower=False, overwrite_a_band=False, select="a", select_range=None, check_finite=True,
)  # fmt: skip
def eigvals_banded(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """The values alone."""
    return eig_banded(xp, y, x, dx, eigvals_only=True, **options)


def _tridiagonal(xp: Any, y: Any, x: Arrays, eigvals_only: Any, select: Any, select_range: Any) -> Arrays:
    def solve(part: bool) -> Any:
        options = {"select": select, "select_range": select_range} if part else {}
        return scipy_linalg(xp).eigh_tridiagonal(*x, **options)

    return _spectrum(solve, y, truth(eigvals_only), select not in _ALL)


def _tridiagonal_vjp(
    xp: Any, w: Any, y: Any, x: Arrays, eigvals_only: Any, select: Any, select_range: Any, **_: Any
) -> Arrays:
    values, vectors, among = _tridiagonal(xp, y, x, eigvals_only, select, select_range)
    gw, gv = (w, None) if truth(eigvals_only) else w
    g = eigh_cotangent(xp, values, vectors, gw, gv, among)
    return xp.diagonal(g), xp.diagonal(g, 1) + xp.diagonal(g, -1)


_TRIDIAGONAL: dict[str, Any] = {
    "select": "a",
    "select_range": None,
    "check_finite": True,
    "tol": 0.0,
    "lapack_driver": "auto",
}


@stacked("scipy.linalg.eigh_tridiagonal", "d e", "1 1", _tridiagonal_vjp, eigvals_only=False, **_TRIDIAGONAL)
def eigh_tridiagonal(
    xp: Any, y: Any, x: Arrays, dx: Arrays, eigvals_only: Any, select: Any, select_range: Any, **_: Any
) -> Any:
    """As numpy.linalg.eigh of the matrix that both diagonals stand for."""
    values, vectors, among = _tridiagonal(xp, y, x, eigvals_only, select, select_range)
    n, lanes = x[0].shape[0], next(len(t) for t in dx if t is not None)
    zeros = xp.zeros((lanes, n), x[0].dtype)
    main = zeros if dx[0] is None else dx[0]
    below = zeros if dx[1] is None else xp.concatenate((dx[1], zeros[:, :1]), 1)
    move = _spread(xp, _whole_band(xp, xp.stack((main, below), 1), True))
    dw, dv = eigh_lanes(xp, values, vectors, move, vectors=not truth(eigvals_only), among=among)
    return dw if truth(eigvals_only) else (dw, dv)


def _tridiagonal_values_vjp(xp: Any, w: Any, y: Any, x: Arrays, **options: Any) -> Arrays:
    return _tridiagonal_vjp(xp, w, y, x, eigvals_only=True, **options)


@stacked("scipy.linalg.eigvalsh_tridiagonal", "d e", "1 1", _tridiagonal_values_vjp, **_TRIDIAGONAL)
def eigvalsh_tridiagonal(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """The values alone."""
    return eigh_tridiagonal(xp, y, x, dx, eigvals_only=True, **options)
