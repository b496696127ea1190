"""Methods of sparse matrices of duals beyond their algebra: writes, extremes, counts, and NumPy's functions of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend.detached import detached
from ndual.frontend.sparse_assembly import dictionary
from ndual.frontend.sparse_matrix import Sparse, dense, from_numbers, is_plain, lifted, refuse


def _numbered_writes(self: Sparse, write: Callable[[Any, Any], None], value: Any) -> None:
    """Have SciPy write numbers beyond those of the values that are there, and take the values that they stand for."""
    matrix = self._merged()
    pattern = matrix._form.pattern.copy()
    value = lifted(value)
    value = value.toarray() if type(value) is Sparse or is_plain(value) else dense(value)
    first = matrix.data.size + 1
    numbers = np.arange(first, first + value.size, dtype=float).reshape(value.shape)
    write(pattern, numbers if numbers.ndim else float(numbers))
    values = np.reshape(value, -1).astype(matrix.dtype, copy=False)
    found = from_numbers(pattern, np.concatenate([matrix.data.reshape(-1), values]))
    self._form, self.data = found._form, found.data


def _set_item(self: Sparse, place: Any, value: Any) -> None:
    if self.format not in ("csr", "csc"):
        raise TypeError(f"{type(self._form.pattern).__name__!r} object does not support item assignment")
    _numbered_writes(self, lambda pattern, numbers: pattern.__setitem__(_core.constants(place), numbers), value)


def _set_diagonal(self: Sparse, values: Any, k: int = 0) -> None:
    """Write a diagonal."""
    _numbered_writes(self, lambda pattern, numbers: pattern.setdiag(numbers, k), values)


def _arranged(name: str) -> Callable[..., None]:
    def method(self: Sparse) -> None:
        """Put the cells in order; cells that are zero stay, since they may move."""
        matrix = self._merged()
        pattern = matrix._form.pattern.copy()
        getattr(pattern, name)()
        found = from_numbers(pattern, matrix.data)
        self._form, self.data = found._form, found.data

    method.__name__ = name
    return method


def _extreme(name: str) -> Callable[..., Any]:
    def method(self: Sparse, axis: Any = None, out: Any = None) -> Any:
        """The largest or the smallest of all cells, the empty ones among them."""
        if out is not None or axis is not None:
            raise refuse(f"{name} along an axis, or out=", f"Take A.toarray().{name}(axis=)")
        matrix = self._merged()
        cells = matrix._form.cells[2]
        values = matrix.data.reshape(-1) if cells is None else matrix.data.reshape(-1)[cells]
        if values.size < self.shape[0] * self.shape[1]:
            values = np.concatenate([values, np.zeros(1, values.dtype)])
        return getattr(np, name)(values)

    method.__name__ = name
    return method


def _mean(self: Sparse, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The mean of all cells, or of those of rows or columns."""
    return self.sum(axis, dtype, out) / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis])


def _count(name: str) -> Callable[..., Any]:
    def method(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        """A place or a number of cells, which is a constant."""
        return getattr(detached(self, {}), name)(*args, **kwargs)

    method.__name__ = name
    return method


def _lil(self: Sparse, copy: bool = False) -> Any:
    """The cells in a dictionary."""
    from scipy import sparse

    kind = sparse.lil_matrix if self._is_matrix else sparse.lil_array
    return dictionary(self, kind)


def _dok(self: Sparse, copy: bool = False) -> Any:
    """The cells in a dictionary."""
    from scipy import sparse

    return dictionary(self, sparse.dok_matrix if self._is_matrix else sparse.dok_array)


_UNARY = """
abs sqrt sign floor ceil trunc rint sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p deg2rad rad2deg
conjugate negative
"""
_NAMES = {"absolute": "__abs__", "negative": "__neg__"}
_BINARY = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.matmul: ("__matmul__", "__rmatmul__"),
    np.true_divide: ("__truediv__", "__rtruediv__"),
    np.equal: ("__eq__", "__eq__"),
    np.not_equal: ("__ne__", "__ne__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
}
_OF_ZERO = {getattr(np, name): _NAMES.get(getattr(np, name).__name__, name) for name in _UNARY.split()}


def _ufunc(self: Sparse, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Operators of arrays with a matrix on their right, and functions that take zero to zero."""
    if method == "__call__" and kwargs.keys() <= {"out"}:  # of ``array += A``, which is a new array as with SciPy
        name = _OF_ZERO.get(ufunc) if len(inputs) == 1 and not kwargs else None
        if ufunc in _BINARY:
            name = _BINARY[ufunc][type(inputs[0]) is not Sparse]
        if name is not None and hasattr(type(self), name):
            others = inputs[1:] if type(inputs[0]) is Sparse else inputs[:1]
            return getattr(self, name)(*others)
    raise refuse(f"numpy.{ufunc.__name__}", "Compute with A.data, A @ x, A.toarray()")


_METHODS: dict[str, Callable[..., Any]] = {
    "__array_ufunc__": _ufunc,
    "__setitem__": _set_item,
    "setdiag": _set_diagonal,
    "mean": _mean,
    "tolil": _lil,
    "todok": _dok,
    **{name: _extreme(name) for name in ("max", "min")},
    **{name: _count(name) for name in ("count_nonzero", "argmax", "argmin")},
    **{name: _arranged(name) for name in ("sum_duplicates", "sort_indices", "eliminate_zeros")},
}


def attach() -> None:
    """Give the matrices these methods."""
    for name, method in _METHODS.items():
        setattr(Sparse, name, method)
