"""What factorisations and solves cost beside their value: eight lanes through the function alone, and in reverse.

    python asv_bench/linear_algebra.py

The functions are those of `benchmarks/linalg.py`. A matrix that eight parameters move is formed before the clock
starts, so that its lanes lie in memory; it stops before the result is summed. Minima, in one process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ndual

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))
from linalg import FUNCTIONS, LANES, definite

ROUNDS = 6


def fastest(call: Callable[[], Any], count: int) -> float:
    """Seconds of the fastest of some calls."""
    best = np.inf
    for _ in range(count):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def row(function: Callable[..., Any], n: int, count: int) -> tuple[float, float, float]:
    """Seconds for the value, for a pass of eight lanes, and for value and gradient of the sum in reverse."""
    a = definite(n)
    directions = np.random.default_rng(1).standard_normal((LANES, n, n))
    directions = (directions + directions.transpose(0, 2, 1)) / 2
    best = {"value": np.inf, "lanes": np.inf, "reverse": np.inf}

    def moved(p: np.ndarray) -> np.float64:
        matrix = a + np.tensordot(p, directions, 1)
        start = time.perf_counter()
        found = function(matrix)
        best["lanes"] = min(best["lanes"], time.perf_counter() - start)
        return np.sum(found)

    forward = ndual.prepare_gradient(moved, np.zeros(LANES), mode="forward")
    reverse = ndual.prepare_gradient(lambda a: np.sum(function(a)), a, mode="reverse")
    for _ in range(ROUNDS):
        best["value"] = min(best["value"], fastest(lambda: function(a), count))
        fastest(lambda: forward(np.zeros(LANES)), count // 4)
        best["reverse"] = min(best["reverse"], fastest(lambda: reverse(a), count // 2))
    return best["value"], best["lanes"], best["reverse"]


def main() -> None:
    """Print the table."""
    print("| function | n | value, us | 8 lanes | reverse |\n|---|---|---|---|---|")
    for name, function in FUNCTIONS.items():
        for n, count in ((64, 150), (256, 40)):
            if name != "expm" or n == 64:  # it takes seconds
                value, lanes, reverse = row(function, n, count)
                print(f"| {name} | {n} | {value * 1e6:.0f} | {lanes / value:.1f} | {reverse / value:.1f} |", flush=True)


if __name__ == "__main__":
    main()
