"""Time what ndual does to NumPy while nothing is differentiated: before its import, after it, and after derivatives.

    python asv_bench/idle.py [--processes N] [--rounds N] [--markdown]

Half of the processes never import ndual: they wait at the same two points, and show how far a second and a third look
at the same calls are from the first. Ratios are of minima over many short windows within one process, so that where a
process happens to have its memory is in both; the table has the median over the processes, and the smallest and the
largest.
"""

from __future__ import annotations

from timing import Statement, contest, quiet_process

if __name__ == "__main__":
    quiet_process()

import argparse
import importlib
import json
import math
import statistics
import subprocess
import sys

import numpy as np

# With names of modules, as user code has them: an attribute of a module is what interception changes.
CALLS = ("np.zeros(3)", "np.array([1.0, 2.0])", "math.sin(0.5)", "np.sin(x)", "x + x", "x.dot(x)")
KINDS = ("without ndual", "with ndual")
PHASES = ("imported", "after derivatives")


def written(x):
    """Its places for stand-ins are known."""
    out = np.zeros(3)
    out[0] = math.sin(x[0]) + np.sum(np.array([x[1], 2.0 * x[2]]))
    return out[0]


def take_derivatives() -> None:
    """Of functions that need no interception, that are known to need it in places, and for which all is replaced."""
    ndual = importlib.import_module("ndual")
    x = np.ones(3)
    for f in (lambda x: np.sum(np.sin(x)), written, lambda x: eval("written")(x)):
        ndual.grad(f)(x)
        prepared = ndual.prepare_gradient(f, x)
        for _ in range(100):
            prepared(x)


def measure(kind: str, rounds: int) -> list[dict[str, float]]:
    """The times at three points in the life of one process."""
    own = kind == KINDS[1]
    assert "ndual" not in sys.modules
    x = np.ones(3)
    # The same compiled loops at all points: others would lie elsewhere in memory, which is worth up to 3 per cent.
    calls = {text: Statement(text, unrolled=20, np=np, math=math, x=x) for text in CALLS}
    found = [contest(calls, rounds)]
    if own:
        importlib.import_module("ndual")
    found.append(contest(calls, rounds))
    if own:
        take_derivatives()
    found.append(contest(calls, rounds))
    return found


def collect(processes: int, rounds: int) -> dict[str, list[list[dict[str, float]]]]:
    """What fresh processes of both kinds measure, in turns."""
    found: dict[str, list[list[dict[str, float]]]] = {kind: [] for kind in KINDS}
    for _ in range(processes):
        for kind in KINDS:
            command = [sys.executable, __file__, "--process", kind, "--rounds", str(rounds)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[kind].append(json.loads(out))
    return found


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time NumPy with ndual idle.")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--process", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.process:
        print(json.dumps(measure(args.process, args.rounds)))
        return 0
    found = collect(args.processes, args.rounds)
    rows = []
    for text in CALLS:
        row = [f"`{text}`", f"{min(run[0][text] for kind in KINDS for run in found[kind]) * 1e9:.1f} ns"]
        for kind in reversed(KINDS):
            for phase in (1, 2):
                ratios = [run[phase][text] / run[0][text] for run in found[kind]]
                row.append(f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
        rows.append(row)
    head = ["call", "before", *PHASES, "no ndual: second look", "no ndual: third look"]
    if args.markdown:
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    else:
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
