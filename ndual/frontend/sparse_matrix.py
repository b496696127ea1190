"""Sparse matrices that hold duals: what SciPy's do, as far as it moves, scales, adds or multiplies values.

Where cells go is SciPy's business: it is asked with a matrix of the same format that holds the number of each value,
and the values follow. So every change of place is a selection of values, and has both derivatives.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import NoRuleError
from ndual.frontend import dispatch
from ndual.rules.sparse import Form, product, weighted


def refuse(what: str, instead: str) -> NoRuleError:
    """The error for what is not reached."""
    return NoRuleError(
        f"expected an operation that sparse matrices of duals have; got {what}{_core.user_location()}. {instead}; "
        "or pass ndual.stop_gradient(A.data) if no derivative is meant"
    )


def taken(data: Any, numbers: Any) -> Any:
    """The values with these numbers, from 1 on; zeros where the number is zero."""
    flat = data.reshape(-1)
    places = np.asarray(numbers).astype(np.intp) - 1
    if places.size == flat.size and (places.reshape(-1) == np.arange(flat.size)).all():
        return data.reshape(places.shape)
    if places.size and places.min() >= 0:
        return flat[places]
    if not flat.size:
        return np.zeros(places.shape, flat.dtype)
    return np.where(places < 0, flat.dtype.type(0), flat[np.maximum(places, 0)])


def numbered(matrix: Any, first: int = 1) -> Any:
    """One of SciPy's matrices with numbers in place of its values."""
    return Form(matrix).filled(np.arange(first, first + matrix.data.size, dtype=float))


def from_numbers(pattern: Any, data: Any) -> Sparse:
    """A matrix of the values with the numbers that stand in one of SciPy's."""
    return Sparse(Form(numbered(pattern)), taken(data, pattern.data))


def placed(like: Any, cells: tuple[Any, Any], data: Any) -> Sparse:
    """A matrix with these values in these cells, of the kind, the shape and the format of one of SciPy's."""
    from scipy import sparse

    kind = sparse.coo_array if isinstance(like, sparse.sparray) else sparse.coo_matrix
    numbers = np.arange(1.0, cells[0].size + 1)
    return from_numbers(kind((numbers, cells), shape=like.shape).asformat(like.format), data)


def is_plain(obj: Any) -> bool:
    """Whether something is a sparse matrix of SciPy's."""
    return hasattr(obj, "tocoo") and type(obj) is not Sparse


def lifted(obj: Any) -> Any:
    """A matrix of SciPy's as one of these, if it was given duals to hold; anything else as it is."""
    if not is_plain(obj):
        return obj
    written = getattr(type(obj), "as_sparse", None)
    if written is not None:
        return written(obj)
    return of(obj) if _core.is_dual(getattr(obj, "data", None)) else obj


def of(matrix: Any) -> Sparse:
    """A matrix of SciPy's, as one of these."""
    if type(matrix) is Sparse:
        return matrix
    if hasattr(type(matrix), "as_sparse"):
        return of(matrix.as_sparse())
    matrix = matrix.tocsr() if matrix.format in ("lil", "dok") else matrix
    if len(matrix.shape) != 2:
        raise refuse(f"a sparse array of shape {matrix.shape}", "Use two-dimensional ones")
    return Sparse(Form(numbered(matrix)), matrix.data)


def dense(obj: Any) -> Any:
    """A dense operand as an array or a dual."""
    if _core.is_dual(obj):
        return obj
    return _core.build(obj) if isinstance(obj, list | tuple) and _core.activity(obj) == 2 else np.asarray(obj)


def _structural(name: str) -> Callable[..., Any]:
    """A method that puts values elsewhere, or leaves some out."""

    def method(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        matrix = self if name == "transpose" and self.format in ("csr", "csc", "coo") else self._merged()
        return matrix._result(getattr(matrix._form.pattern, name)(*args, **kwargs), name)

    method.__name__ = name
    return method


def _elementwise(name: str) -> Callable[..., Any]:
    """A function that takes zero to zero, of each value."""

    def method(self: Sparse) -> Sparse:
        matrix = self._merged()
        return Sparse(matrix._form, getattr(np, name)(matrix.data))

    method.__name__ = name
    return method


class Sparse:
    """A sparse matrix whose values are duals.

    Parameters
    ----------
    form : Form
        Where its cells are.
    data : NDualArray or numpy.ndarray
        Their values, in the shape that SciPy's format gives them.
    """

    __slots__ = ("_form", "data")
    __array_priority__ = 11.0
    __hash__ = None  # type: ignore[assignment]
    ndim = 2

    def __init__(self, form: Form, data: Any) -> None:
        self._form, self.data = form, data

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """SciPy's class, for code that asks ``isinstance(A, sparray)``."""
        return type(self._form.pattern)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        found: tuple[int, int] = self._form.pattern.shape
        return found

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return self.data.dtype

    @property
    def format(self) -> str:
        """SciPy's name of the format."""
        return self._form.format

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose."""
        return self.transpose()

    @property
    def H(self) -> Any:  # noqa: N802
        """The adjoint."""
        return self.conj().T

    def __repr__(self) -> str:
        return f"<{type(self._form.pattern).__name__} of duals, {self.nnz} cells, shape {self.shape}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("indices", "indptr", "row", "col", "coords", "offsets", "blocksize", "nnz", "has_sorted_indices"):
            return getattr(self._form.pattern, name)
        if name.startswith("__") or not hasattr(self._form.pattern, name):
            raise AttributeError(f"{type(self._form.pattern).__name__} has no attribute {name!r}")
        raise refuse(f"{type(self._form.pattern).__name__}.{name}", "Compute with A.data, A @ x, A.toarray()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse("a function that has no rule for them", "Pass A.toarray(), or copy a matrix with A.copy()")

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array with more than one element is ambiguous.")

    def __imul__(self, other: Any) -> Any:
        if not _is_number(other):
            return self * other
        self.data[...] = self.data * other  # as SciPy does, so that other names of the matrix see it
        return self

    def __itruediv__(self, other: Any) -> Any:
        if not _is_number(other):
            return self / other
        self.data[...] = self.data * (1.0 / other)
        return self

    def _merged(self) -> Sparse:
        """The same matrix with one value a cell."""
        pattern = self._form.pattern
        if self.format in ("dia", "bsr") or (self.format != "coo" and pattern.has_canonical_format):
            return self
        rows, columns, at = self._form.cells
        width = self.shape[1]
        kept, number = np.unique(rows.astype(np.int64) * width + columns, return_inverse=True)
        if kept.size == rows.size:
            return self
        from scipy.sparse import csr_array

        places = np.arange(rows.size) if at is None else at
        ones = np.ones(rows.size, self.data.real.dtype)
        adding = csr_array((ones, (number, places)), shape=(kept.size, self.data.size))
        data = dispatch.dispatch(product, (adding, self.data.reshape(-1)), {})
        return placed(pattern, (kept // width, kept % width), data)

    def _result(self, found: Any, what: str) -> Any:
        """The values for numbers that SciPy returned in some form."""
        if is_plain(found):
            if len(found.shape) != 2:
                raise refuse(f"{what} with a result of one dimension", "Slice with two indices, A[i:i+1, :]")
            return from_numbers(found, self.data)
        if isinstance(found, np.matrix):
            raise refuse(f"{what} with a numpy.matrix as its result", "Take a sparse array (csr_array), or A.toarray()")
        values = taken(self.data, found)
        return values if np.ndim(values) else values[()]

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """The dense array."""
        if out is not None:
            raise refuse("toarray(out=)", "Write out[...] = A.toarray()")
        matrix = self._merged()
        found = matrix._result(matrix._form.pattern.toarray(), "toarray")
        return np.asfortranarray(found) if order == "F" else found

    def todense(self) -> Any:
        """The same, where SciPy returns no numpy.matrix."""
        if self._is_matrix:
            raise refuse("todense, a numpy.matrix", "Take A.toarray()")
        return self.toarray()

    @property
    def _is_matrix(self) -> bool:
        from scipy.sparse import spmatrix

        return isinstance(self._form.pattern, spmatrix)

    def copy(self) -> Sparse:
        """A copy of the values."""
        return Sparse(self._form, self.data.copy())

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Sparse:
        """The values in another type."""
        return Sparse(self._form, self.data.astype(dtype))

    def conj(self, copy: bool = True) -> Sparse:
        """Conjugate values."""
        return Sparse(self._form, np.conj(self.data)) if self.dtype.kind == "c" else self

    conjugate = conj

    def power(self, n: Any) -> Sparse:
        """Each value to a power."""
        matrix = self._merged()
        return Sparse(matrix._form, matrix.data**n)

    def __pow__(self, n: Any) -> Any:
        if self._is_matrix:
            raise refuse("a power of a sparse matrix", "Multiply with @")
        return self.power(n)

    def __abs__(self) -> Sparse:
        matrix = self._merged()
        return Sparse(matrix._form, abs(matrix.data))

    def __neg__(self) -> Sparse:
        return Sparse(self._form, -self.data)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """The sum of all values, or of rows or columns."""
        if out is not None or (axis is not None and self._is_matrix):
            raise refuse("sum(axis=) of a sparse matrix, or sum(out=)", "Multiply by a vector of ones")
        matrix = self if dtype is None else self.astype(dtype)
        if axis is None:
            at = self._form.cells[2]
            flat = matrix.data.reshape(-1)
            return (flat if at is None else flat[at]).sum()
        matrix = matrix if axis % 2 else matrix.T
        return matrix @ np.ones(matrix.shape[1], self.dtype)

    def trace(self, offset: int = 0) -> Any:
        """The sum along a diagonal."""
        return self.diagonal(offset).sum()

    # ---- products -------------------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        other = lifted(other)
        if type(other) is Sparse or is_plain(other):
            return _sparse_product(self, of(other))
        if np.ndim(other) == 0:
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return dispatch.dispatch(weighted, (self.data, dense(other), self._form), {})

    def __rmatmul__(self, other: Any) -> Any:
        other = lifted(other)
        if is_plain(other):
            return _sparse_product(of(other), self)
        if np.ndim(other) == 0:
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return (self.T @ dense(other).T).T

    def dot(self, other: Any) -> Any:
        """The product, or the matrix times a number."""
        return self.scaled(other) if _is_number(other) else self @ other

    def scaled(self, number: Any) -> Sparse:
        """All values times a number."""
        return Sparse(self._form, self.data * number)

    def __mul__(self, other: Any) -> Any:
        if _is_number(other):
            return self.scaled(other)
        return self @ other if self._is_matrix else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if _is_number(other):
            return self.scaled(other)
        return other @ self if self._is_matrix else self.multiply(other)

    def __truediv__(self, other: Any) -> Any:
        if _is_number(other):  # SciPy multiplies by the reciprocal, real values in double precision
            wide = np.can_cast(self.dtype, np.float64) and self.dtype != np.float64
            return Sparse(self._form, (self.data.astype(np.float64) if wide else self.data) * (1.0 / other))
        other = lifted(other)
        if type(other) is Sparse or is_plain(other):
            raise refuse("a quotient of sparse matrices", "Divide values that stand in the same cells: A.data / B.data")
        return self.multiply(1.0 / dense(other))

    def multiply(self, other: Any) -> Any:
        """Each cell times that of another matrix, sparse or dense and broadcast."""
        if _is_number(other):
            return self.scaled(other)
        other, matrix = lifted(other), self._merged()
        pattern = matrix._form.pattern
        if type(other) is Sparse or is_plain(other):
            right = of(other)._merged()
            mine = pattern.multiply(_ones(right._form.pattern)).tocsr()
            its = _ones(pattern).multiply(right._form.pattern).tocsr()
            mine.sort_indices()
            its.sort_indices()
            return Sparse(Form(numbered(mine)), taken(matrix.data, mine.data) * taken(right.data, its.data))
        factor = dense(other)
        found = pattern.multiply(np.ones(factor.shape))
        if not is_plain(found) or found.shape != self.shape:
            raise refuse("multiply with an operand that changes the shape", "Take one of the matrix's shape")
        cells = found.tocoo()
        values = taken(matrix.data, cells.data) * np.broadcast_to(factor, self.shape)[cells.row, cells.col]
        return placed(found, (cells.row, cells.col), values)

    # ---- sums -----------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        other = lifted(other)
        if _is_number(other):
            if not _core.is_dual(other) and other == 0:
                return self.copy()
            raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
        if type(other) is Sparse or is_plain(other):
            return _sparse_sum(self._merged(), of(other)._merged())
        if self._is_matrix:
            raise refuse("a dense sum of a sparse matrix, a numpy.matrix", "Add A.toarray()")
        return self.toarray() + dense(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -lifted(other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other


def _compared(obj: Any) -> Any:
    """What comparisons look at: the values, whose truth is a constant."""
    obj = lifted(obj)
    if type(obj) is Sparse:
        return obj._merged()._form.filled(_core.compared(obj._merged().data))
    return _core.compared(obj) if _core.is_dual(obj) else obj


def _comparison(name: str) -> Callable[..., Any]:
    def method(self: Sparse, other: Any) -> Any:
        return getattr(operator, name)(_compared(self), _compared(other))

    method.__name__ = f"__{name}__"
    return method


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Sparse, f"__{_name}__", _comparison(_name))

_MOVING = "tocsr tocsc tocoo todia tobsr asformat transpose reshape getrow getcol diagonal __getitem__"
_FROM_ZERO = """
sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p sqrt rint sign floor ceil trunc deg2rad rad2deg
"""
for _name in _MOVING.split():
    setattr(Sparse, _name, _structural(_name))
for _name in _FROM_ZERO.split():
    setattr(Sparse, _name, _elementwise(_name))


def _is_number(obj: Any) -> bool:
    return not is_plain(obj) and type(obj) is not Sparse and np.ndim(obj) == 0


def _ones(pattern: Any) -> Any:
    return Form(pattern).filled((pattern.data != 0).astype(float))


def _numbers_at(pattern: Any, rows: Any, columns: Any) -> Any:
    """The numbers that a pattern holds in some cells, 0 where it has none."""
    return np.asarray(pattern.tocsr()[rows, columns]).reshape(-1) if rows.size else np.zeros(0)


def _sparse_sum(a: Sparse, b: Sparse) -> Sparse:
    if a.shape != b.shape:
        raise ValueError("inconsistent shapes")
    union = _ones(a._form.pattern) + _ones(b._form.pattern)
    cells = union.tocoo().row, union.tocoo().col
    left = taken(a.data, _numbers_at(a._form.pattern, *cells))
    return placed(union, cells, left + taken(b.data, _numbers_at(b._form.pattern, *cells)))


def _sparse_product(a: Sparse, b: Sparse) -> Any:
    """A @ B: each value of A times those in the row of B that its column says, added up cell by cell."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: dimension mismatch with signature (n,k),(k,m): {a.shape} and {b.shape}")
    from scipy import sparse

    rows, columns, at = a._form.cells
    places, others, starts = b._form.by_rows
    counts = (starts[1:] - starts[:-1])[columns]
    mine = np.repeat(np.arange(rows.size), counts)
    ends = np.cumsum(counts)
    its = np.arange(mine.size) - np.repeat(ends - counts, counts) + np.repeat(starts[columns], counts)
    where = others[its], its if places is None else places[its]
    data = a.data.reshape(-1)[mine if at is None else at[mine]] * b.data.reshape(-1)[where[1]]
    kind = sparse.coo_matrix if a._is_matrix and b._is_matrix else sparse.coo_array
    numbers = np.arange(1.0, data.size + 1)
    pattern = kind((numbers, (rows[mine], where[0])), shape=(a.shape[0], b.shape[1]))
    made = Sparse(Form(pattern), data)._merged()
    return made.asformat("csc" if a.format == "csc" else "csr")
