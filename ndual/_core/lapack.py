"""NumPy's own LAPACK, by the library that its linear algebra is linked with: a solution that keeps its factors.

``numpy.linalg.solve`` throws its factors away. The routine that it calls gives the same solution to the last bit, and
the factors, so that one factorisation serves value, tangents and cotangents. Where NumPy is built with another library
than the one of its wheels, or another naming, there is none, and everything is solved by the public function.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_LETTERS = {"d": "d", "D": "z"}  # NumPy solves single precision in double, too
SMALLEST = 32  # below this order, NumPy's own call twice takes less than what is spent here before LAPACK
_routines: dict[str, tuple[Any, Any]] = {}


def _find() -> None:
    """Look the routines up in the library, by the names that say how wide its integers are."""
    try:
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)
        for char, letter in _LETTERS.items():
            gesv, getrs = (getattr(library, f"scipy_{letter}{name}_64_") for name in ("gesv", "getrs"))
            gesv.restype = getrs.restype = None
            _routines[char] = gesv, getrs
    except (AttributeError, OSError):
        _routines.clear()


_find()


class Solved:
    """The factors of one matrix.

    Parameters
    ----------
    lu : numpy.ndarray
        Both triangles, column by column: the transpose in C order.
    pivots : numpy.ndarray
    """

    __slots__ = ("lu", "pivots")

    def __init__(self, lu: np.ndarray, pivots: np.ndarray) -> None:
        self.lu, self.pivots = lu, pivots

    def solve(self, rows: np.ndarray, op: bytes) -> bool:
        """Overwrite rows, right-hand sides of the factors' type in C order, by solutions; op is N, T or C."""
        n = ctypes.c_int64(self.lu.shape[0])
        info = ctypes.c_int64(0)
        _routines[self.lu.dtype.char][1](
            op, ctypes.byref(n), ctypes.byref(ctypes.c_int64(rows.size // n.value)),
            ctypes.c_void_p(self.lu.ctypes.data), ctypes.byref(n), ctypes.c_void_p(self.pivots.ctypes.data),
            ctypes.c_void_p(rows.ctypes.data), ctypes.byref(n), ctypes.byref(info), ctypes.c_size_t(1),
        )  # fmt: skip
        return info.value == 0


def solve_and_keep(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Solved] | None:
    """The solution for one matrix with its factors, None where the public function must be asked."""
    char = a.dtype.char
    if char not in _routines or b.dtype != a.dtype or a.ndim != 2 or a.shape[0] != a.shape[1]:
        return None
    if a.shape[0] < SMALLEST:
        return None
    if b.ndim not in (1, 2) or b.shape[0] != a.shape[0] or not b.size:
        return None
    lu = np.array(a.T, order="C")
    rows = np.array(b.T, order="C")
    pivots = np.empty(a.shape[0], np.int64)
    n, info = ctypes.c_int64(a.shape[0]), ctypes.c_int64(0)
    _routines[char][0](
        ctypes.byref(n), ctypes.byref(ctypes.c_int64(rows.size // n.value)), ctypes.c_void_p(lu.ctypes.data),
        ctypes.byref(n), ctypes.c_void_p(pivots.ctypes.data), ctypes.c_void_p(rows.ctypes.data), ctypes.byref(n),
        ctypes.byref(info),
    )  # fmt: skip
    if info.value:
        return None  # a singular matrix, of which the public function says so
    return np.ascontiguousarray(rows.T), Solved(lu, pivots)
