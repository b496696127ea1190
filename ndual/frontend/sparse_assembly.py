"""Sparse matrices of duals that are filled cell by cell, in the formats lil and dok.

SciPy's lil and dok matrices take duals by becoming of a class below, which keeps the cells in a dictionary; whatever
else is asked of them they do as csr. Only matrices made while the derivative is taken do so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend.sparse_matrix import Sparse, dense, is_plain, lifted, placed, refuse

FORMATS = ("lil", "dok")
_MADE = "_made_in"


def mark(matrix: Any) -> Any:
    """Note the derivative in which a matrix was made."""
    level = _core.current_level()
    if level is not None:
        vars(matrix)[_MADE] = level
    return matrix


def _is_fresh(matrix: Any) -> bool:
    made, level = vars(matrix).get(_MADE), _core.current_level()
    while level is not None:
        if level is made:
            return True
        level = level.outer
    return False


def set_item(name: str, original: Callable[..., None]) -> Callable[..., None]:
    """``A[place] = value`` of lil and dok."""

    @functools.wraps(original)
    def method(self: Any, place: Any, value: Any) -> None:
        value = lifted(value)
        if type(value) is not Sparse and _core.activity(value) < 2:
            return original(self, place, _core.constants(value, True))
        if not _is_fresh(self):
            raise refuse(
                "a write into a sparse matrix from outside", "Make it inside, or build coo_array((values, cells))"
            )
        coo = self.tocoo()
        kind: Any = type(self)
        self.__class__ = _assembled(kind)
        self._cells = dict(zip(zip(coo.row.tolist(), coo.col.tolist(), strict=True), coo.data, strict=True))
        self[place] = value
        return None

    return method


def _cell(shape: tuple[int, int], place: Any) -> tuple[int, int] | None:
    """The cell that two numbers name, None for any other index."""
    if type(place) is not tuple or len(place) != 2:
        return None
    found = []
    for k, n in zip(place, shape, strict=True):
        if not isinstance(k, int | np.integer) or isinstance(k, bool):
            return None
        if not -n <= k < n:
            raise IndexError(f"index ({k}) out of range")
        found.append(int(k) + n if k < 0 else int(k))
    return found[0], found[1]


def _places(shape: tuple[int, int], place: Any) -> Any:
    """Rows and columns of the cells that an index names."""
    place = _core.constants(place)
    if is_plain(place) or getattr(place, "ndim", 0) == 2:
        return np.nonzero(place.toarray() if is_plain(place) else place)
    row, column = place if isinstance(place, tuple) else (place, slice(None))
    rows, columns = np.arange(shape[0])[row], np.arange(shape[1])[column]
    if isinstance(row, slice) or isinstance(column, slice):  # an outer product, without the axes of numbers
        rows, columns = rows.reshape(*rows.shape, *(1,) * columns.ndim), columns
    return np.broadcast_arrays(rows, columns)


class Assembled:
    """What a lil or dok matrix becomes that was given a dual."""

    _cells: dict[tuple[int, int], Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: what is one when it is made was made of duals."""

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):
            return object.__getattribute__(self, name)
        try:
            return getattr(self.as_sparse(), name)
        except AttributeError:
            raise refuse(f"{type(self).__name__}.{name}", "Convert it first: A.tocsr()") from None

    def as_sparse(self) -> Any:
        """The cells in the format csr."""
        like = np.zeros(0, self.dtype)
        data = _core.build(list(self._cells.values())) if self._cells else like
        rows, columns = np.array(list(self._cells), int).reshape(-1, 2).T
        kind = _sparse_kind(type(self))
        found = placed(kind(self.shape), (rows, columns), data)
        return found if found.dtype == self.dtype or self.dtype.kind not in "fc" else found.astype(self.dtype)

    def __setitem__(self, place: Any, value: Any) -> None:
        cell = _cell(self.shape, place)
        if cell is not None and np.ndim(value) == 0 and not is_plain(value):
            # An array of one cell may be written to later.
            self._cells[cell] = +value if _core.is_dual(value) else self.dtype.type(value)
            return
        value = lifted(value)
        value = value.toarray() if type(value) is Sparse or is_plain(value) else dense(value)
        rows, columns = _places(self.shape, place)
        values = np.broadcast_to(value, rows.shape).reshape(-1)
        for k, cell in enumerate(zip(rows.reshape(-1).tolist(), columns.reshape(-1).tolist(), strict=True)):
            self._cells[cell] = values[k]

    def __getitem__(self, place: Any) -> Any:
        cell = _cell(self.shape, place)
        return self.as_sparse()[place] if cell is None else self._cells.get(cell, self.dtype.type(0))

    def copy(self) -> Any:
        """A copy of the cells."""
        found = type(self).__mro__[1](self.shape, dtype=self.dtype)
        found.__class__ = type(self)
        found._cells = dict(self._cells)
        return mark(found)

    def tolil(self, copy: bool = False) -> Any:
        """The matrix itself where it is one."""
        return self.copy() if copy else self

    todok = tolil

    def setdiag(self, values: Any, k: int = 0) -> None:
        """Write a diagonal."""
        count = min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0))
        values = dense(values)
        count = min(count, values.size) if values.ndim else count
        rows = np.arange(count) - min(k, 0)
        self[rows, rows + k] = values[:count] if values.ndim else values

    def keys(self) -> Any:
        """The cells of a dok matrix."""
        return self._cells.keys()

    def values(self) -> Any:
        """Their values."""
        return self._cells.values()

    def items(self) -> Any:
        """Both."""
        return self._cells.items()

    def get(self, key: Any, default: Any = 0.0) -> Any:
        """The value of a cell."""
        return self._cells.get(key, default)

    def update(self, cells: Any) -> None:
        """Write several cells."""
        for cell, value in dict(cells).items():
            self[cell] = value

    def __contains__(self, key: Any) -> bool:
        return key in self._cells

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Any:
        return iter(self._cells)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of duals, {len(self._cells)} cells, shape {self.shape}>"


_OWN = frozenset(name for name in vars(Assembled) if not name.startswith("__")) | {
    "shape", "_shape", "dtype", "_dtype", "format", "_format", "ndim", "_cells", _MADE,
}  # fmt: skip
_OPERATORS = """
matmul rmatmul mul rmul add radd sub rsub truediv neg abs pow eq ne lt le gt ge
"""


def _operator(name: str) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        return getattr(self.as_sparse(), name)(*others)

    method.__name__ = name
    return method


for _name in _OPERATORS.split():
    setattr(Assembled, f"__{_name}__", _operator(f"__{_name}__"))


def _sparse_kind(kind: Any) -> Any:
    from scipy import sparse

    return sparse.csr_array if issubclass(kind, sparse.sparray) else sparse.csr_matrix


@functools.cache
def _assembled(kind: Any) -> Any:
    # With one base the memory of both classes is laid out alike, so that an object may change between them.
    space = {name: value for name, value in vars(Assembled).items() if name not in ("__dict__", "__weakref__")}
    return type(kind.__name__, (kind,), space | {"__module__": kind.__module__, "__hash__": None, "__slots__": ()})


def dictionary(matrix: Sparse, kind: Any) -> Any:
    """A matrix of one of these formats with the cells of another."""
    coo = matrix._merged().tocoo()._merged()
    rows, columns, at = coo._form.cells
    data = coo.data if at is None else coo.data[at]
    found = mark(kind(matrix.shape, dtype=matrix.dtype))
    found.__class__ = _assembled(kind)
    cells = zip(rows.tolist(), columns.tolist(), strict=True)
    found._cells = {cell: data[k] for k, cell in enumerate(cells)}
    return found
