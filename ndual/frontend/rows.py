"""Functions that are rows of the table made at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndual import _core
from ndual._core._dual import lazy_at
from ndual.errors import ArgumentTypeError


def _float(x: Any) -> Any:
    """An operand as NumPy's functions of floats take it."""
    if type(x) is int:
        return float(x)
    array = np.asarray(x)
    return array if array.dtype.kind in "fc" else array.astype(np.result_type(array, np.float16))


class RowFunction:
    """An elementwise function; see :func:`ndual.elementwise`."""

    def __init__(self, row: Any, bound: Any, made: tuple[Any, Any]) -> None:
        self._again = made
        self._row = row
        self._bound = bound
        self.__name__ = self.__qualname__ = row.name
        self.__doc__ = f"{row.name}: {row.value}"

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """Apply it to numbers and arrays, broadcast against each other."""
        if len(operands) != self._row.nin:
            raise ArgumentTypeError(f"{self.__name__} expects {self._row.nin} operand(s); got {len(operands)}")
        if out is None or _core.is_dual(out) or _core.activity(operands) == 2:
            found = _core.apply_made(self._bound, operands, out)
            if found is not NotImplemented:
                return found
        return self._plain(_core.constants(operands), out)

    def _plain(self, operands: tuple[Any, ...], out: Any) -> Any:
        """Plain operands, by the kernel that gives the values of duals."""
        arrays = [x if type(x) is float else _float(x) for x in operands]
        if self._row.kind == "real" and any(map(np.iscomplexobj, arrays)):
            raise ArgumentTypeError(
                f"{self.__name__} expects real operands; got complex ones. Define it with holomorphic=True if it is"
            )
        first = next((i for i, x in enumerate(arrays) if type(x) is not float), 0)
        with _core.Pause(), _core.Level(1) as level:
            arrays[first] = lazy_at(np.asarray(arrays[first]), level)
            value = _core.primal(_core.apply_row(self.__name__, *arrays))
        if out is None:
            return _core.call_plain(lambda: value if np.ndim(value) else np.asarray(value)[()], (), {}, False)
        if (
            not isinstance(out, np.ndarray)
            or out.shape != np.shape(value)
            or not np.can_cast(np.result_type(value), out.dtype, "same_kind")
        ):
            got = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise ArgumentTypeError(
                f"{self.__name__} expects an array of {np.result_type(value)} and shape {np.shape(value)} as out; got "
                f"{got}. Leave out= away, or make one with np.empty"
            )
        out[...] = value
        return out

    def __reduce__(self) -> tuple[Any, Any]:
        return self._again

    def __repr__(self) -> str:
        return f"<elementwise {self.__name__}: {self._row.value}>"
