"""Time what a prepared gradient adds to the operations themselves, for an object of ten numbers and for an array.

    python asv_bench/structures.py [--rounds N]

The operations are those of the function on what it is given while its derivative is taken: duals of ten lanes forward,
numbers on a tape in reverse. They are timed from inside the function, in turns with whole calls; a line has the
smallest times of both in microseconds, and their difference. That of reverse mode includes the sweep.
"""

from __future__ import annotations

from timing import contest, quiet_process

if __name__ == "__main__":
    quiet_process()

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ndual

WINDOW = 50


@dataclass
class Ten:
    """Ten numbers."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float
    g: float
    h: float
    i: float
    j: float


def of_object(p: Ten) -> Any:
    """A few operations on numbers."""
    return p.a * p.b + p.c * p.d + p.e * p.f + p.g * p.h + p.i * p.j


def of_array(x: np.ndarray) -> Any:
    """A few operations on an array."""
    return np.sum(x * x)


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "dataclass of 10 floats": (of_object, Ten(*map(float, range(1, 11)))),
    "array of 10 floats": (of_array, np.arange(1.0, 11.0)),
}


class Inside:
    """A function that times its own operations."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self.f = f
        self.best = float("inf")

    def __call__(self, x: Any) -> Any:
        f = self.f
        start = time.perf_counter()
        for _ in range(WINDOW):
            f(x)
        self.best = min(self.best, (time.perf_counter() - start) / WINDOW)
        return f(x)


def measure(f: Callable[[Any], Any], x: Any, mode: str, rounds: int) -> tuple[float, float, float]:
    """Seconds of a prepared call, of a plain value_and_grad, and of the operations alone."""
    inside = Inside(f)
    prepared = ndual.prepare_gradient(f, x, mode=mode)
    watched = ndual.prepare_gradient(inside, x, mode=mode)
    plain = ndual.value_and_grad(f, mode=mode)
    best = contest(
        {"prepared": lambda: prepared(x), "plain": lambda: plain(x), "inside": lambda: watched(x)}, rounds
    )  # fmt: skip
    return best["prepared"], best["plain"], inside.best


def main() -> None:
    """Print a line for each case and mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    print(f"{'':40}{'operations':>12}{'prepared':>12}{'over':>8}{'value_and_grad':>16}")
    for name, (f, x) in CASES.items():
        for mode in ("forward", "reverse"):
            prepared, plain, inside = (1e6 * seconds for seconds in measure(f, x, mode, rounds))
            print(f"{name + ', ' + mode:40}{inside:12.2f}{prepared:12.2f}{prepared - inside:8.2f}{plain:16.2f}")


if __name__ == "__main__":
    main()
