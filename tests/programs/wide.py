"""What NumPy is to a program whose floats are all complex128 or float64: the reference runs on it.

Array makers give the wide dtype, so that a complex number can be stored where the program made room for a float.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np


class Mathematics:
    """The functions of ``math`` for complex numbers, with results that can be compared."""

    def __getattr__(self, name: str) -> Any:
        return lambda x: np.complex128(getattr(cmath, name)(x))


class Wide:
    """NumPy with one float dtype."""

    def __init__(self, dtype: type) -> None:
        self.dtype = dtype
        self.float64 = self.float32 = dtype
        self.math = Mathematics() if dtype is np.complex128 else math

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def widened(self, made: Any) -> Any:
        return made.astype(self.dtype, copy=False) if made.dtype.kind == "f" else made

    def zeros(self, shape: Any, dtype: Any = None, order: Any = "C") -> Any:
        return np.zeros(shape, dtype if dtype is int else self.dtype, order)

    empty = zeros

    def ones(self, shape: Any, dtype: Any = None, order: Any = "C") -> Any:
        return np.ones(shape, self.dtype, order)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Any:
        return np.full(shape, value, None if isinstance(value, int) else self.dtype)

    def eye(self, n: int, m: int | None = None, k: int = 0) -> Any:
        return np.eye(n, m, k, self.dtype)

    def linspace(self, *args: Any) -> Any:
        return self.widened(np.linspace(*args))

    def array(self, value: Any, dtype: Any = None, **options: Any) -> Any:
        return self.widened(np.array(value, **options))

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        return self.widened(np.asarray(value))
