"""np.vectorize and np.frompyfunc: functions of numbers, called cell by cell on numbers and duals alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core


def _cells(array: Any, shape: tuple[int, ...]) -> list[Any]:
    """The cells of an array broadcast to a shape, in C order: duals, or what NumPy hands to a Python function."""
    if not _core.is_dual(array):
        return np.broadcast_to(np.asarray(array, object), shape).ravel().tolist()
    return list(np.broadcast_to(array, shape).reshape(-1))


def _gathered(results: list[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    flat = np.array(results, dtype) if _core.activity(results) < 2 else _core.build(results, dtype)
    return _core.lazy(flat.reshape(shape + flat.shape[1:]))


def cell_by_cell(function: Callable[..., Any], arrays: tuple[Any, ...], otypes: str | None = None) -> Any:
    """What a function of numbers gives for each cell of broadcast arrays: one array, or one for each of its results."""
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
    results = [function(*cells) for cells in zip(*(_cells(a, shape) for a in arrays), strict=True)]
    if not results:
        if not otypes:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        made = tuple(_core.lazy(np.empty(shape, t)) for t in otypes)
        return made if len(made) > 1 else made[0]
    if isinstance(results[0], tuple):
        types = otypes or (None,) * len(results[0])
        return tuple(_gathered(list(part), shape, t) for part, t in zip(zip(*results, strict=True), types, strict=True))
    return _gathered(results, shape, otypes[0] if otypes else None)


def _core_dimensions(signature: str) -> list[int]:
    """How many axes each operand of a generalised function keeps to itself: of "(n),(m,n)->(m)", 1 and 2."""
    operands = signature.partition("->")[0].strip()[1:-1].split("),(")
    return [len([name for name in operand.split(",") if name.strip()]) for operand in operands]


def vector_by_vector(function: Callable[..., Any], arrays: tuple[Any, ...], signature: str) -> Any:
    """As `cell_by_cell`, for a function of vectors and matrices."""
    counts = _core_dimensions(signature.replace(" ", ""))
    arrays = tuple(a if _core.is_dual(a) else np.asarray(a) for a in arrays)
    outer = [a.shape[: a.ndim - k] for a, k in zip(arrays, counts, strict=True)]
    shape = np.broadcast_shapes(*outer)
    wide = [np.broadcast_to(a, shape + a.shape[a.ndim - k :]) for a, k in zip(arrays, counts, strict=True)]
    results = [function(*(a[index] for a in wide)) for index in np.ndindex(*shape)]
    if isinstance(results[0], tuple):
        return tuple(_gathered(list(part), shape, None) for part in zip(*results, strict=True))
    return _gathered(results, shape, None)


def vectorized(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of an instance of np.vectorize."""
    excluded = self.excluded
    where = [i for i in range(len(args)) if i not in excluded]
    names = [name for name in kwargs if name not in excluded]

    def function(*cells: Any) -> Any:
        whole, named = list(args), dict(kwargs)
        for i, cell in zip(where, cells, strict=False):
            whole[i] = cell
        named.update(zip(names, cells[len(where) :], strict=True))
        return self.pyfunc(*whole, **named)

    arrays = (*(args[i] for i in where), *(kwargs[name] for name in names))
    if self.signature is not None:
        return vector_by_vector(function, arrays, self.signature)
    return cell_by_cell(function, arrays, self.otypes) if arrays else _gathered([function()], (), None)


class Vectorize(np.vectorize):
    """Stands in for np.vectorize while calls are intercepted; what it makes works as ever when they are not."""

    original = np.vectorize

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function cell by cell."""
        if _core.current_level() is None or not callable(self.pyfunc):
            return super().__call__(*args, **kwargs)
        return vectorized(self, args, kwargs)
