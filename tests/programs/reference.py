"""Derivatives along directions that owe nothing to ndual: complex steps, or extrapolated differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from program import Program
from wide import Wide

STEP = 1e-30
STRIDE = 2e-4


def directions(program: Program, count: int = 2) -> list[tuple[Any, ...]]:
    """Random tangents of all arguments."""
    rng = np.random.default_rng(program.seed + 1)
    return [tuple(rng.uniform(-1.0, 1.0, a.shape) for a in program.arguments) for _ in range(count)]


def slope(program: Program, direction: tuple[Any, ...]) -> float:
    """The derivative of a program's total along a direction."""
    wide = Wide(np.complex128 if program.family.smooth else np.float64)

    def total(step: complex) -> Any:
        values, constants = program.inputs()
        constants = {name: np.asarray(value).astype(wide.dtype) for name, value in constants.items()}
        f = program.function(constants, wide, wide.math, checked=not program.family.smooth)
        # K order keeps the memory layout, on which it depends what is a view
        moved = []
        for value, tangent in zip(values, direction, strict=True):
            there = like(value, wide.dtype)
            there[...] = np.asarray(value).astype(wide.dtype) + step * tangent
            moved.append(there if isinstance(value, np.ndarray) else there[()])
        return f(*moved)[0]

    if program.family.smooth:
        return float(np.imag(total(1j * STEP)) / STEP)
    centred = [(total(h) - total(-h)) / (2.0 * h) for h in (STRIDE, STRIDE / 2)]
    return float((4.0 * centred[1] - centred[0]) / 3.0)


def like(value: Any, dtype: type) -> Any:
    """An array of the shape and strides of another one, in cells."""
    value = np.asarray(value)
    if value.ndim == 0:
        return np.zeros((), dtype)
    steps = [s // value.itemsize for s in value.strides]
    low = sum(min(0, s * (n - 1)) for s, n in zip(steps, value.shape, strict=True))
    high = sum(max(0, s * (n - 1)) for s, n in zip(steps, value.shape, strict=True))
    memory = np.zeros(high - low + 1, dtype)
    size = memory.itemsize
    return np.lib.stride_tricks.as_strided(memory[-low:], value.shape, [s * size for s in steps])
