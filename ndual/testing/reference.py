"""Derivatives by differences, extrapolated until their own error estimate is small. Nothing here knows duals or rules.

What the checks compare with must not come from the code under test, so these functions see plain functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LEVELS = 6


def directional(f: Callable[[Any], Sequence[Any]], step: float) -> tuple[list[Any], float]:
    """The derivative of ``f(t)``, a list of arrays, at ``t = 0``, and an estimate of its relative error.

    Central differences with steps falling by two are extrapolated (Ridders), and the entry of the table that agrees
    best with its neighbours is taken, for each output as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> (slope,), error = directional(lambda t: [np.sin(1.0 + t)], 0.1)
    >>> bool(abs(slope - np.cos(1.0)) < 1e-11), error < 1e-9
    (True, True)
    """
    columns: list[list[Any]] = []
    best: list[Any] = []
    errors: list[float] = []
    scale = [np.asarray(v) for v in f(0 * step)]
    for level in range(LEVELS):
        h = step / 2**level
        row = [(np.asarray(p) - np.asarray(m)) / (2 * h) for p, m in zip(f(h), f(-h), strict=True)]
        current = [row]
        for order in range(1, level + 1):
            factor = 4.0**order
            current.append(
                [
                    (factor * fine - coarse) / (factor - 1)
                    for fine, coarse in zip(current[-1], columns[-1][order - 1], strict=True)
                ]
            )
        if level == 0:
            best, errors = row, [np.inf] * len(row)
        else:
            for order in range(1, level + 1):
                for k, value in enumerate(current[order]):
                    error = max(_distance(value, current[order - 1][k]), _distance(value, columns[-1][order - 1][k]))
                    if error < errors[k]:
                        errors[k], best[k] = error, value
        columns.append(current)
    relative = [
        error / (_size(value) + _size(at) + 1e-300) for error, value, at in zip(errors, best, scale, strict=True)
    ]
    return best, max(relative, default=0.0)


def _distance(a: Any, b: Any) -> float:
    with np.errstate(invalid="ignore"):
        difference = np.abs(np.asarray(a) - np.asarray(b))
    if difference.size == 0:
        return 0.0
    return float(np.max(difference)) if bool(np.all(np.isfinite(difference))) else np.inf


def _size(a: Any) -> float:
    a = np.abs(np.asarray(a))
    return float(np.max(a)) if a.size else 0.0


def widest(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The widest dtype that `function` computes these operands in: ``longdouble`` where NumPy has a loop for it.

    Examples
    --------
    >>> import numpy as np
    >>> widest(np.sin, [1.0]) == np.longdouble
    True
    """
    try:
        y = function(*[np.longdouble(x) for x in operands])
    except TypeError:
        return np.float64
    return np.longdouble if getattr(y, "dtype", None) == np.longdouble else np.float64


def partial(f: Callable[..., Any], x: Sequence[Any], i: int, step: float) -> tuple[float, float]:
    """The derivative of a scalar function by operand `i`, and the estimate of its error relative to ``|f| + |f'|``.

    Examples
    --------
    >>> value, error = partial(lambda a, b: a * b * b, [2.0, 3.0], 1, 0.1)
    >>> abs(value - 12.0) < 1e-9
    True
    """

    def along(t: Any) -> list[Any]:
        point = list(x)
        point[i] = point[i] + t
        return [f(*point)]

    with np.errstate(all="ignore"):
        (value,), error = directional(along, step)
    return float(value), error
