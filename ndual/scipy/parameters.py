"""Between parameters in containers and the one vector that SciPy works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.scipy.vectors import as_vector
from ndual.structure import ARRAY, Branch, Constant, Flat, Leaf, Tree, check_same, rebuild

NUMBERS = (np.float64, np.complex128)
NUMBER = int | float | np.integer | np.floating


class Parameters:
    """The layout of parameters like `example`: float leaves one after the other, a complex one as re, im pairs."""

    def __init__(self, example: Any) -> None:
        flat = _flatten(example)
        self._tree, self._leaves = flat.tree, flat.leaves
        self._start = _vector(flat)
        self.restore = restorer(flat.tree, flat.leaves)

    def flatten(self, parameters: Any) -> np.ndarray:
        """Parameters of the same structure as a vector."""
        flat = _flatten(parameters)
        check_same(self._tree, flat.tree, "parameters")
        for leaf, other in zip(self._leaves, flat.leaves, strict=True):
            if (leaf.shape, leaf.complex) != (other.shape, other.complex):
                raise ArgumentValueError(f"{other.name}: expected {leaf}, as in x0; got {other}. Pass the same shapes")
        return _vector(flat)

    @property
    def start(self) -> np.ndarray:
        """The example as a vector."""
        return self._start.copy()


def _vector(flat: Flat) -> np.ndarray:
    parts = []
    for leaf, value in zip(flat.leaves, flat.values, strict=True):
        part = np.ascontiguousarray(value, np.complex128 if leaf.complex else np.float64)
        parts.append(part.reshape(-1).view(np.float64))
    return np.concatenate(parts)


def _flatten(value: Any) -> Flat:
    if type(value) is list and _numbers(value):
        # SciPy makes an array of these.
        value = np.array(value)
    if isinstance(value, NUMBER) and not isinstance(value, bool):
        value = float(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        value = as_vector(value)
    flat = Flat(value, "x0")
    _refuse_integers(flat.tree, flat.name)
    return flat


def _numbers(value: Any) -> bool:
    """Whether a list holds nothing but numbers, in lists or not."""
    return all(_numbers(v) if type(v) is list else isinstance(v, NUMBER) and not isinstance(v, bool) for v in value)


def _refuse_integers(tree: Tree, name: str) -> None:
    """An integer among floats could be meant as a parameter or as a setting; held constant unseen it would be lost."""
    if isinstance(tree, Branch):
        for key, child in zip(tree.keys or range(len(tree.children)), tree.children, strict=True):
            _refuse_integers(child, f"{name}{tree.step(key)}")
    elif isinstance(tree, Constant):
        value = tree.value
        kind = value.dtype.kind if isinstance(value, np.ndarray | np.generic) else "i" if type(value) is int else ""
        if kind and kind in "iu":
            raise ArgumentTypeError(
                f"{name}: expected float parameters; got integers ({value!r:.40}). "
                "Write them as floats if they are to be found, or hand them over with args= if they are settings"
            )


def restorer(tree: Tree, leaves: list[Leaf]) -> Callable[[Any], Any]:
    """The function from a vector, plain or dual, to the structure of a tree."""
    places = []
    low = 0
    for leaf in leaves:
        high = low + leaf.dof(False)
        places.append((low, high, leaf.shape, leaf.kind == ARRAY, leaf.complex))
        low = high
    total = low

    def restore(x: Any) -> Any:
        if len(x) != total:
            raise ArgumentValueError(f"expected a vector of {total} parameters, as x0 has; got {len(x)}")
        parts = []
        for low, high, shape, array, pairs in places:
            part = x[low:high:2] + 1j * x[low + 1 : high : 2] if pairs else x[low:high]
            part = part.reshape(shape) if array else part[0]
            parts.append(part.item() if type(part) in NUMBERS else part)
        return rebuild(tree, parts)

    return restore
