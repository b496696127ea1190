"""Where the cells of the operands of a launch lie if not side by side: the strides that a kernel is told."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ndual.gpu.source import DIMS

__all__ = ["layout"]


def layout(shape: tuple[int, ...], operands: list[Any]) -> np.ndarray:
    """The struct ``nd_layout`` of the kernels for arrays that are broadcast to a shape, whose cells lie side by side.

    It has the axes, their lengths, and the strides of each operand in cells; what has no strides has zeros.
    """
    return struct(shape, [strides_over(shape, x) for x in operands])


def strides_over(shape: tuple[int, ...], x: Any) -> list[int]:
    """The steps in cells along the axes of a shape to which an array is broadcast."""
    if not hasattr(x, "strides"):
        return [0] * len(shape)
    item = x.dtype.itemsize
    own = [0 if n == 1 else stride // item for n, stride in zip(x.shape, x.strides, strict=True)]
    return [0] * (len(shape) - x.ndim) + own


def struct(shape: tuple[int, ...], strides: list[list[int]]) -> np.ndarray:
    """The layout in words, with axes that lie behind each other in every operand made one."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if lengths and all(own[-1] == given[axis] * n for own, given in zip(steps, strides, strict=True)):
            lengths[-1] *= n
            for own, given in zip(steps, strides, strict=True):
                own[-1] = given[axis]
        else:
            lengths.append(n)
            for own, given in zip(steps, strides, strict=True):
                own.append(given[axis])
    if len(lengths) > DIMS:
        raise ValueError(f"expected at most {DIMS} axes that do not lie side by side; got {len(lengths)}")
    kind, words = _kind(len(strides))
    words = words.copy()
    words[0] = len(lengths)
    words[1 : 1 + len(lengths)] = lengths
    for k, own in enumerate(steps):
        at = 1 + DIMS * (k + 1)
        words[at : at + len(own)] = own
    return words.view(kind).reshape(())


@functools.cache
def _kind(operands: int) -> tuple[np.dtype[Any], np.ndarray]:
    """The struct for this many operands, by whose type CuPy passes it as a value, and one of zeros."""
    count = 1 + DIMS * (1 + operands)
    return np.dtype([("words", np.int64, (count,))]), np.zeros(count, np.int64)
