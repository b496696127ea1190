"""What the tape of a gradient takes: ``python tape_memory.py checkpoint|stencil [cells steps]``.

The last number printed is the kilobytes of ru_maxrss that value and gradient took above the plain function, which runs
first and in a process of its own. ``checkpoint``: n steps of ``u += h * np.sin(u)`` in about sqrt(n) blocks, of
1,000 on 1e6 cells. ``stencil``: 10,000 linear steps in place on 1e5 cells.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys

import numpy as np

import ndual

SIZES = {"checkpoint": (1_000_000, 1000), "stencil": (100_000, 10_000)}


@ndual.checkpoint
def few(u: np.ndarray, h: float, count: int) -> None:
    """Some steps of a block."""
    for _ in range(count):
        u += h * np.sin(u)


@ndual.checkpoint
def block(u: np.ndarray, h: float, count: int) -> None:
    """A block, which is cut again: of its steps not even the arguments are kept all at once."""
    size = math.isqrt(count - 1) + 1
    for done in range(0, count, size):
        few(u, h, min(size, count - done))


def checkpointed(u: np.ndarray, count: int) -> np.float64:
    """The sum after `count` steps."""
    u = u.copy()
    size = math.isqrt(count - 1) + 1
    for done in range(0, count, size):
        block(u, 1e-3, min(size, count - done))
    return np.sum(u)


def stencil(u: np.ndarray, count: int) -> np.float64:
    """The sum of squares after `count` steps of diffusion."""
    u = u.copy()
    for _ in range(count):
        u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def peak(kind: str, cells: int, count: int, gradient: bool) -> int:
    """Kilobytes at the end of one run."""
    u = np.linspace(0.1, 1.0, cells)
    f = checkpointed if kind == "checkpoint" else stencil
    if gradient:
        ndual.value_and_grad(f, mode="reverse")(u, count)
    else:
        f(u, count)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Run both in processes of their own, or one of them here."""
    kind = sys.argv[1]
    cells, count = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else SIZES[kind]
    if len(sys.argv) > 4:
        print(peak(kind, cells, count, sys.argv[4] == "gradient"))
        return
    taken = [
        int(
            subprocess.run(
                [sys.executable, __file__, kind, str(cells), str(count), what],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for what in ("plain", "gradient")
    ]  # fmt: skip
    states = (taken[1] - taken[0]) * 1024 / (cells * 8)
    print(
        f"{kind}: {cells} cells, {count} steps: plain {taken[0]} kB, gradient {taken[1]} kB, {states:.1f} states more:"
    )
    print(taken[1] - taken[0])


if __name__ == "__main__":
    main()
