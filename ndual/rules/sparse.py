"""Sparse matrices of SciPy: products and solves, by the dense operand and by the values that a matrix holds.

A matrix with derivatives is a :class:`Form`, which says where its cells are, and an array of their values.
"""

from __future__ import annotations

import copy
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.rules.registry import bilinear, linear, structured
from ndual.rules.support import conj, real_as

# The operation whose inverse takes the cotangent of a solution to that of the right-hand side.
_BACK = {"N": "H", "T": "C", "H": "N", "C": "T"}


class Form:
    """Where the cells of a sparse matrix are, and in which order their values stand.

    Parameters
    ----------
    pattern : sparse matrix or array
        One of SciPy's that holds for each value its number, from 1 on; zeros where it has room for no cell.
    """

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        self._tall: tuple[int, Form] | None = None

    @property
    def format(self) -> str:
        """SciPy's name of the format."""
        return str(self.pattern.format)

    def filled(self, data: Any) -> Any:
        """The matrix of SciPy's with these values."""
        out = copy.copy(self.pattern)
        out.data = data.reshape(self.pattern.data.shape)
        return out

    @functools.cached_property
    def cells(self) -> tuple[Any, Any, Any]:
        """Rows, columns and places among the values of all cells; places of None stand for all in order."""
        if self.format in ("csr", "csc"):
            starts, indices = self.pattern.indptr, self.pattern.indices
            along = np.repeat(np.arange(starts.size - 1, dtype=indices.dtype), np.diff(starts))
            return (along, indices, None) if self.format == "csr" else (indices, along, None)
        coo = self.pattern.tocoo()
        at = coo.data.astype(np.intp) - 1
        in_order = at.size == self.pattern.data.size and bool((at == np.arange(at.size)).all())
        return coo.row, coo.col, None if in_order else at

    @functools.cached_property
    def by_rows(self) -> tuple[Any, Any, Any]:
        """Places among the values row by row, the columns there, and where each row starts."""
        if self.format == "csr":
            return None, self.pattern.indices, self.pattern.indptr
        rows, columns, at = self.cells
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.pattern.shape[0]))])
        order = np.argsort(rows, kind="stable")
        return order if at is None else at[order], columns[order], starts

    def tall(self, lanes: int) -> Form:
        """The form of so many matrices below each other, whose values stand row by row."""
        if self._tall is None or self._tall[0] != lanes:
            from scipy.sparse import csr_array

            _, columns, starts = self.by_rows
            below = (starts[1:] + (starts[-1] * np.arange(lanes))[:, None]).reshape(-1)
            numbers = np.ones(lanes * columns.size, np.int8)  # nobody asks for the cells of this form
            given = (numbers, np.tile(columns, lanes), np.concatenate([[0], below]))
            shape = (lanes * self.pattern.shape[0], self.pattern.shape[1])
            self._tall = lanes, Form(csr_array(given, shape=shape))
        return self._tall[1]

    @functools.cached_property
    def turned(self) -> tuple[Form, Any]:
        """The form of the transpose, and the places of its values among these; None for all in order."""
        pattern = self.pattern.T
        if self.format in ("csr", "csc", "coo"):
            return Form(pattern), None
        rows, columns, at = self.cells
        numbers = (np.arange(rows.size) if at is None else at) + 1.0
        from scipy.sparse import coo_array

        return Form(coo_array((np.arange(1.0, rows.size + 1), (columns, rows)), shape=pattern.shape)), (
            numbers.astype(np.intp) - 1
        )


def _own(xp: Any) -> Any:
    """The functions of this module beside an array namespace."""
    here = sys.modules[__name__]
    return xp.beside(here) if hasattr(xp, "beside") else here


def product(a: Any, x: Any) -> Any:
    """``a @ x``: what SciPy's matrices do with a dense array, as a function with a rule."""
    return a @ x


def _columns(xp: Any, t: Any, map_columns: Any) -> Any:
    """A map of columns applied to every lane at once: all lanes become columns of one matrix."""
    moved = xp.moveaxis(t, 0, -1)
    out = map_columns(moved.reshape(moved.shape[0], -1))
    return xp.moveaxis(out.reshape(out.shape[0], *moved.shape[1:]), -1, 0)


def _adjoint(a: Any) -> Any:
    return a.conj().T if a.dtype.kind == "c" else a.T


def _product_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], a: Any) -> tuple[Any]:
    return (real_as(x[0], _adjoint(a) @ w),)


@structured("ndual.rules.sparse.product", "(a) x", _product_vjp)
def _product_jvp(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], a: Any) -> Any:
    """A times every lane."""
    return _columns(xp, dx[0], lambda columns: a @ columns)


def weighted(data: Any, x: Any, form: Form) -> Any:
    """The product of the sparse matrix that holds `data` with a dense vector or matrix."""
    return form.filled(data) @ x


def _turned(data: Any, form: Form) -> tuple[Any, Form]:
    """The values of the transpose, lanes of them if there are, and its form."""
    other, places = form.turned
    if places is None:
        return data, other
    lanes = data.shape[: data.ndim - form.pattern.data.ndim]
    return data.reshape(*lanes, -1)[..., places], other


def _in_cells(xp: Any, left: Any, right: Any, form: Form, like: Any) -> Any:
    """The cells of left right^T where the matrix has some, as a cotangent of its values."""
    rows, columns, at = form.cells
    g = left[rows] * right[columns]
    g = g.sum(axis=-1) if g.ndim > 1 else g
    if at is not None:
        spread = xp.zeros(like.size, g.dtype)
        spread[at] = g
        g = spread
    return real_as(like, g.reshape(like.shape))


def _weighted_by_data(xp: Any, w: Any, data: Any, x: Any, form: Form) -> Any:
    return _in_cells(xp, w, conj(xp, x), form, data)


def _weighted_by_x(xp: Any, w: Any, data: Any, x: Any, form: Form) -> Any:
    values, other = _turned(conj(xp, data), form)
    return real_as(x, _own(xp).weighted(values, w, other))


@bilinear("ndual.rules.sparse.weighted", (_weighted_by_data, _weighted_by_x))
def _weighted_lanes(xp: Any, data: Any, x: Any, lane_a: bool, lane_b: bool, form: Form) -> Any:
    """All lanes of the values are one matrix of so many times the rows; those of x are columns."""
    own = _own(xp)
    if not lane_a:
        return _columns(xp, x, lambda columns: own.weighted(data, columns, form))
    n, places = len(data), form.by_rows[0]
    flat = data.reshape(n, -1)
    flat = flat if places is None else flat[:, places]
    y = own.weighted(flat.reshape(-1), x, form.tall(n))
    return y.reshape(n, form.pattern.shape[0], *y.shape[1:])


class Factors:
    """A factorisation of the matrix of a form, kept for the values of which it was made.

    Parameters
    ----------
    form : Form
    make : callable
        Factorises one of SciPy's matrices; what it returns has ``solve(b, trans)``.
    """

    def __init__(self, form: Form, make: Callable[[Any], Any]) -> None:
        self.form, self._make = form, make
        self._data: Any = None
        self._made: Any = None

    def of(self, data: Any) -> Any:
        """The factorisation for some values."""
        if self._data is None or self._data.dtype != data.dtype or not (self._data == data).all():
            self._made, self._data = self._make(self.form.filled(data)), data.copy()
        return self._made


def _conjugated(solve: Callable[[Any, str], Any], b: Any, trans: str) -> Any:
    return np.conj(solve(np.conj(b), "N")) if trans == "C" else solve(b, trans)


def solved(data: Any, b: Any, factors: Factors, trans: str = "N") -> Any:
    """The solution of op(A) y = b, where A holds `data`; trans="C" is the conjugate matrix."""
    return _conjugated(factors.of(data).solve, b, trans)


def _solved_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any], factors: Factors, trans: str) -> tuple[Any, Any]:
    data, b = x
    gb = _own(xp).solved(data, w, factors, _BACK[trans])
    left, right = (gb, conj(xp, y)) if trans in "NT" else (conj(xp, gb), y)
    left, right = (right, left) if trans in "TH" else (left, right)
    return -_in_cells(xp, left, right, factors.form, data), real_as(b, gb)


@structured("ndual.rules.sparse.solved", "data b (factors) (trans)", _solved_vjp, trans="N")
def _solved_jvp(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], factors: Factors, trans: str) -> Any:
    """All lanes are right-hand sides of one factorisation: op(A) dy = db - op(dA) y."""
    (data, _), (move, r) = x, dx
    if move is not None:
        form = factors.form
        move = conj(xp, move) if trans in "HC" else move
        if trans in "TH":
            move, form = _turned(move, form)
        t = _weighted_lanes(xp, move, y, True, False, form)
        r = -t if r is None else r - t
    return _columns(xp, r, lambda columns: _own(xp).solved(data, columns, factors, trans))


def superlu_solve(b: Any, lu: Any, trans: str = "N") -> Any:
    """The solution by a factorisation of constants."""
    return _conjugated(lu.solve, b, trans)


def _superlu_transpose(xp: Any, w: Any, b: Any, lu: Any, trans: str = "N") -> Any:
    return real_as(b, _own(xp).superlu_solve(w, lu, _BACK[trans]))


@linear("ndual.rules.sparse.superlu_solve", _superlu_transpose)
def _superlu_lanes(xp: Any, t: Any, b: Any, lu: Any, trans: str = "N") -> Any:
    """All lanes are right-hand sides."""
    return _columns(xp, t, lambda columns: _own(xp).superlu_solve(columns, lu, trans))


class _Singular:
    """What there is instead of a factorisation where spsolve warns and returns NaN."""

    def solve(self, b: Any, trans: str) -> Any:
        """No solution."""
        return np.full_like(b, np.nan)


class _Turned:
    """A factorisation of the transpose."""

    def __init__(self, lu: Any) -> None:
        self.lu = lu

    def solve(self, b: Any, trans: str) -> Any:
        """With the other of both operations."""
        if trans == "H":
            return _conjugated(self.lu.solve, b, "C")
        return self.lu.solve(b, "N" if trans == "T" else "T")


def factors_of_spsolve(matrix: Any, permc_spec: Any) -> Any:
    """The factorisation that spsolve makes: that of the transpose, where a matrix is kept by rows."""
    from scipy.sparse.linalg import MatrixRankWarning, splu

    turned = matrix.format == "csr"
    matrix.sum_duplicates()
    try:
        lu = splu(matrix.T if turned else matrix, permc_spec)
    except RuntimeError:
        warnings.warn("Matrix is exactly singular", MatrixRankWarning, stacklevel=2)
        return _Singular()
    return _Turned(lu) if turned else lu
