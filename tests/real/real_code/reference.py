"""Gradients by central differences of fourth order, with the step chosen by a study. Nothing here knows ndual.

For each coordinate the differences D(h) are taken at falling steps, from wide (truncation) to narrow (rounding).
Two neighbours give an extrapolated value; it is taken where three of them agree best. Their disagreement says how far
the value can be trusted, and a point where it is large is not used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Not a whole ratio: a staircase looks straight to steps that all hit its edges.
WIDEST, RATIO, STEPS = 0.04, 1.9, 11
# The uncertainty allowed to a reference, relative to the largest entry of the derivative.
TRUSTED = 2e-8


def differences(f: Callable[[float], Any], h: float) -> np.ndarray:
    """The fourth-order central difference of ``f(t)`` at 0."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def slope(f: Callable[[float], Any], size: float) -> tuple[np.ndarray, np.ndarray]:
    """The derivative of ``f(t)`` at 0 and its uncertainty, entry by entry; `size` is the scale of steps in t.

    The uncertainty takes in the rounding of f itself, so that a constant with noise is not trusted by accident.
    """

    def at(t: float) -> Any:
        return np.asarray(f(t), dtype=np.float64)

    noise = 4 * np.finfo(np.float64).eps * np.abs(at(0.0))
    steps = [WIDEST * size / RATIO**k for k in range(STEPS)]
    found = [differences(at, h) for h in steps]
    gaps = []
    for k in range(1, len(steps)):
        gap = np.abs(found[k] - found[k - 1])
        gaps.append(np.where(np.isfinite(gap), gap, np.inf) + noise / steps[k])
    best, error = found[0], np.full(np.shape(found[0]), np.inf)
    for k in range(2, len(steps)):
        # Two differences may agree by accident where three do not.
        worst = np.maximum(gaps[k - 2], gaps[k - 1])
        best = np.where(worst < error, (RATIO**4 * found[k] - found[k - 1]) / (RATIO**4 - 1), best)
        error = np.minimum(worst, error)
    return best, error


def jacobian(f: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int]) -> tuple[list[np.ndarray], float]:
    """The derivatives of a real `f`, each of shape ``(*output.shape, *argument.shape)``, and their uncertainty."""
    found = []
    errors = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i in argnums:
            point = np.asarray(args[i], dtype=np.float64)
            columns = []
            for cell in np.ndindex(point.shape):

                def moved(t: float, i: int = i, point: Any = point, cell: Any = cell) -> Any:
                    there = point.copy()
                    there[cell] += t
                    given = list(args)
                    given[i] = there if isinstance(args[i], np.ndarray) else float(there)
                    return f(*given)

                value, error = slope(moved, max(1e-3, min(1.0, abs(float(point[cell])))))
                columns.append(value)
                errors.append(float(np.max(error)))
            shape = np.shape(columns[0]) + point.shape
            found.append(np.moveaxis(np.asarray(columns), 0, -1).reshape(shape))
    return found, max(errors)


def size_of(derivatives: Sequence[np.ndarray]) -> float:
    """The largest entry."""
    return max(float(np.max(np.abs(d), initial=0.0)) for d in derivatives)


def certain(derivatives: Sequence[np.ndarray], uncertainty: float) -> bool:
    """Whether a reference may be compared with."""
    return uncertainty <= TRUSTED * size_of(derivatives)


def flat(derivatives: Sequence[np.ndarray]) -> bool:
    """Whether the function does not move at all, to the last bit, at any step."""
    return size_of(derivatives) == 0.0
