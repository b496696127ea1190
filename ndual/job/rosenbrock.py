"""Rosenbrock's valley in any number of variables, as plain NumPy, with the start that everyone uses.

The model only: its minimum is at ones, which is what a minimiser's answer is compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def rosenbrock(x: Any) -> Any:
    """Sum 100 (x[i+1] - x[i]²)² + (1 - x[i])²; zero at ones.

    Examples
    --------
    >>> float(rosenbrock(np.ones(5)))
    0.0
    """
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def start(n: int) -> np.ndarray:
    """Return the usual start, -1.2 and 1 in turn.

    Examples
    --------
    >>> start(3).tolist()
    [-1.2, 1.0, -1.2]
    """
    x = np.ones(n)
    x[::2] = -1.2
    return x
