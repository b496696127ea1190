"""Time ndual and the other libraries side by side, in one run on one core.

    python asv_bench/compare.py [--only NAME ...] [--no-peers] [--rounds N] [--markdown] [--list]

Peers that are not installed are shown as missing: ``pip install 'ndual[bench]'``. Names marked * run a rewritten
function. Ratios are minima over many short windows that take turns (see ``timing``).
"""

from __future__ import annotations

from timing import ROUNDS, contest, quiet_process

if __name__ == "__main__":
    quiet_process()

import argparse
import fnmatch
from collections.abc import Callable
from typing import Any

import numpy as np
import peers
import suite
from rows import ROWS, Row

import ndual
from ndual import NdualError

NAMES = [*peers.AS_IT_STANDS, *peers.REWRITTEN]


def _prepared(case: suite.Case) -> Callable[[], tuple[Any, Any]]:
    """The forward derivative on a prepared object, all array arguments active."""
    active, passive, direction = case.inputs()
    derivative = ndual.prepare_derivative(case.function, *active, *passive, argnums=tuple(range(len(active))))
    primals = (*active, *passive)
    return lambda: derivative(primals, direction)


def _value_check(case: suite.Case, value: Any) -> str:
    """How the value compares with NumPy's: to the bit, or by its relative difference, then to the bit with exact."""
    active, passive, _ = case.inputs()
    plain = case.function(*active, *passive)
    with ndual.config(exact=True):
        exact, _ = _prepared(case)()
    shown = "equal" if value == plain else f"{abs(value / plain - 1.0):.0e}"
    return shown if exact == plain else f"{shown} exact DIFFERS"


def own_row(case: suite.Case, rounds: int) -> tuple[list[str], float, bool]:
    """The cells of one row of the suite, the ratio in it, and whether the derivative is right."""
    active, passive, _ = case.inputs()
    call = _prepared(case)
    value, slope = call()
    _, want = case.reference()
    error = abs(float(slope) - want) / abs(want)
    best = contest({"numpy": lambda: case.function(*active, *passive), "ndual": call}, rounds)
    times = [f"{best[name] * 1e6:.1f}" for name in ("numpy", "ndual")]
    ratio = best["ndual"] / best["numpy"]
    return [case.name, _value_check(case, value), f"{error:.0e}", *times, f"{ratio:.2f}"], ratio, error < 1e-10


def peer_row(case: suite.Case, own: float, rounds: int) -> list[str]:
    """The ratios of the peers beside the own one, and whether that is below all that take the code as it stands."""
    active, passive, _ = case.inputs()
    good, reasons = peers.calls(case)
    best = contest({"numpy": lambda: case.function(*active, *passive), **good}, rounds)
    ratios = {name: best[name] / best["numpy"] for name in good}
    rivals = [ratios[name] for name in peers.AS_IT_STANDS if name in ratios]
    cells = [f"{ratios[name]:.2f}" if name in ratios else reasons[name] for name in NAMES]
    return [case.name, f"{own:.2f}", *cells, "yes" if all(own < ratio for ratio in rivals) else "no"]


def other_row(row: Row, with_peers: bool, rounds: int) -> str:
    """One line for a row beside the suite."""
    with row.contestants(with_peers) as contestants:
        best = contest(contestants, rounds)
    base, *others = best
    parts = [f"{base} {_time(best[base])}"]
    parts += [f"{name} {_time(best[name])} = {best[name] / best[base]:.2f}" for name in others]
    if row.name.startswith("unprepared"):
        parts.append(f"adds {_time(best['ndual.jvp'] - best['prepared'])}")
    return f"{row.name:27s} {' | '.join(parts)}   ({row.remark})"


def _time(seconds: float) -> str:
    return f"{seconds * 1e9:.1f} ns" if abs(seconds) < 1e-6 else f"{seconds * 1e6:.1f} us"


def _wanted(name: str, only: list[str]) -> bool:
    return not only or any(fnmatch.fnmatch(name, pattern) or pattern == name.split()[0] for pattern in only)


def main() -> int:
    """Print the tables; 1 if a derivative is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="rows to run (patterns are fine)")
    parser.add_argument("--no-peers", action="store_true", help="time ndual and NumPy only")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"windows per contestant (default {ROUNDS})")
    parser.add_argument("--markdown", action="store_true", help="print the suite as a table for the documentation")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    options = parser.parse_args()
    cases = [case for name, case in suite.CASES.items() if _wanted(name, options.only)]
    others = [row for row in ROWS if _wanted(row.name, options.only)]
    if options.list:
        print("\n".join([case.name for case in cases] + [row.name for row in others]))
        return 0
    right = True
    ratios = {}
    if cases:
        print("Forward derivative in one direction, prepared, all array arguments active.")
        _head(["function", "value", "jvp error", "numpy us", "ndual us", "ratio"], options.markdown)
    for case in cases:
        try:
            cells, ratios[case.name], good = own_row(case, options.rounds)
        except NdualError as error:
            cells, good = [case.name, f"{type(error).__name__}: {error}"], False
        right = right and good
        print(_line(cells, options.markdown) + ("" if good else "   WRONG"), flush=True)
    for row in others:
        try:
            line = other_row(row, not options.no_peers, options.rounds)
        except NdualError as error:
            line, right = f"{row.name:27s}   {type(error).__name__}: {error}", False
        print(line, flush=True)
    if ratios and not options.no_peers:
        # After all own rows: libraries that make a million objects leave the allocator in another state.
        print("Time of each library / NumPy's for the value; * the function was rewritten for it.")
        _head(["function", "ndual", *NAMES, "fastest as is"], options.markdown)
        for name, ratio in ratios.items():
            print(_line(peer_row(suite.CASES[name], ratio, options.rounds), options.markdown), flush=True)
    print(f"numpy {np.__version__}, ndual {ndual.__version__}")
    return 0 if right else 1


def _head(cells: list[str], markdown: bool) -> None:
    print(_line(cells, markdown), flush=True)
    if markdown:
        print("|---" * len(cells) + "|")


def _line(cells: list[str], markdown: bool) -> str:
    if markdown:
        return f"| {' | '.join(cells)} |"
    return f"{cells[0]:27s}" + "".join(f"{cell:>15s}" for cell in cells[1:])


if __name__ == "__main__":
    raise SystemExit(main())
