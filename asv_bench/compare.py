"""Time ndual and the other libraries side by side, in one run on one core.

    python asv_bench/compare.py [--mode forward|reverse|both] [--only NAME ...] [--no-peers] [--rounds N] [--markdown]
    python asv_bench/compare.py --list

The plain function, the prepared object and the call that is not prepared take turns in one run (see ``timing``); ratios
and differences are of minima. Peers that are not installed are shown as missing: ``pip install 'ndual[bench]'``.
Names marked * run a rewritten function, on arrays that are theirs already and with results left there.
"""

from __future__ import annotations

from timing import ROUNDS, contest, quiet_process

if __name__ == "__main__":
    quiet_process()

import argparse
import fnmatch
from typing import Any

import numpy as np
import peers
import suite
from modes import MODES, Mode
from rows import ROWS, Row

import ndual
from ndual import NdualError


def _value_check(mode: Mode, case: suite.Case, value: Any) -> str:
    """How the value compares with NumPy's: to the bit, or by its relative difference, then to the bit with exact."""
    active, passive, _ = case.inputs()
    plain = case.function(*active, *passive)
    with ndual.config(exact=True):
        exact, _ = mode.prepared(case)()
    shown = "equal" if value == plain else f"{abs(value / plain - 1.0):.0e}"
    return shown if exact == plain else f"{shown} exact DIFFERS"


def own_row(mode: Mode, case: suite.Case, rounds: int) -> tuple[list[str], float, bool]:
    """The cells of one row of the suite, the ratio in it, and whether the derivative is right."""
    active, passive, _ = case.inputs()
    call, unprepared = mode.prepared(case), mode.unprepared(case)
    value, derivative = call()
    error = max(mode.error(case, derivative), mode.error(case, unprepared()[1]))
    plain = {"numpy": lambda: case.function(*active, *passive)}
    best = contest({**plain, "ndual": call, "unprepared": unprepared}, rounds)
    times = [f"{best[name] * 1e6:.1f}" for name in ("numpy", "ndual")]
    ratio = best["ndual"] / best["numpy"]
    added = f"{(best['unprepared'] - best['ndual']) * 1e6:.1f}"
    cells = [case.name, _value_check(mode, case, value), f"{error:.0e}", *times, added, f"{ratio:.2f}"]
    target = mode.target(case)
    return cells if target is None else [*cells, f"{target:.1f}", _said(ratio <= target)], ratio, error < 1e-10


def peer_row(mode: Mode, case: suite.Case, own: float, rounds: int) -> list[str]:
    """The ratios of the peers beside the own one, and whether that is below all that take the code as it stands."""
    active, passive, _ = case.inputs()
    good, reasons = peers.calls(case, mode.peers, mode.want(case))
    best = contest({"numpy": lambda: case.function(*active, *passive), **good}, rounds)
    ratios = {name: best[name] / best["numpy"] for name in good}
    cells = [f"{ratios[name]:.2f}" if name in ratios else reasons[name] for name in mode.peers]
    as_is = [ratio for name, ratio in ratios.items() if not peers.is_rewritten(name)]
    ahead = [all(own < ratio for ratio in rivals) for rivals in (as_is, ratios.values())]
    return [case.name, f"{own:.2f}", *cells, *map(_said, ahead)]


def other_row(row: Row, with_peers: bool, rounds: int) -> str:
    """One line for a row beside the suite."""
    with row.contestants(with_peers) as contestants:
        best = contest(contestants, rounds)
    base, *others = best
    parts = [f"{base} {_time(best[base])}"]
    parts += [f"{name} {_time(best[name])} = {best[name] / best[base]:.2f}" for name in others]
    if row.name.startswith("unprepared"):
        parts.append(f"adds {_time(best['ndual.jvp'] - best['prepared'])}")
    for name, other, limit in row.targets:
        if name in best and other in best:
            ratio = best[name] / best[other]
            parts.append(f"{name} / {other} {ratio:.2f}, target {limit}: {_said(ratio <= limit)}")
    return f"{row.name:27s} {' | '.join(parts)}   ({row.remark})"


def tables(mode: Mode, options: argparse.Namespace) -> bool:
    """Print what is asked of one mode; False if a derivative is wrong."""
    cases, others = _chosen(mode, options.only)
    right = True
    ratios = {}
    if cases:
        print(mode.title)
        targets = ["target", "met"] if mode.target(cases[0]) else []
        head = ["function", "value", "error", "numpy us", "ndual us", "unprepared +us", "ratio", *targets]
        _head(head, options.markdown)
    for case in cases:
        try:
            cells, ratios[case.name], good = own_row(mode, case, options.rounds)
        except NdualError as error:
            cells, good = [case.name, f"{type(error).__name__}: {error}"], False
        right = right and good
        print(_line(cells, options.markdown) + ("" if good else "   WRONG"), flush=True)
    for row in others:
        try:
            line = other_row(row, not options.no_peers, options.rounds)
        except (NdualError, AssertionError) as error:
            line, right = f"{row.name:27s}   {type(error).__name__}: {error}", False
        print(line, flush=True)
    if ratios and not options.no_peers:
        # After all own rows: libraries that make a million objects leave the allocator in another state.
        print("Time of each library / NumPy's for the value; * the function was rewritten for it.")
        _head(["function", "ndual", *mode.peers, "fastest as is", "fastest"], options.markdown)
        for name, ratio in ratios.items():
            print(_line(peer_row(mode, suite.CASES[name], ratio, options.rounds), options.markdown), flush=True)
    return right


def _chosen(mode: Mode, only: list[str]) -> tuple[list[suite.Case], list[Row]]:
    cases = [case for name, case in suite.CASES.items() if _wanted(name, only)]
    return cases, [row for row in ROWS if row.mode == mode.name and _wanted(row.name, only)]


def _said(good: bool) -> str:
    return "yes" if good else "no"


def _time(seconds: float) -> str:
    return f"{seconds * 1e9:.1f} ns" if abs(seconds) < 1e-6 else f"{seconds * 1e6:.1f} us"


def _wanted(name: str, only: list[str]) -> bool:
    return not only or any(fnmatch.fnmatch(name, pattern) or pattern == name.split()[0] for pattern in only)


def main() -> int:
    """Print the tables; 1 if a derivative is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=[*MODES, "both"], default="both", help="the tables to print")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="rows to run (patterns are fine)")
    parser.add_argument("--no-peers", action="store_true", help="time ndual and NumPy only")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"windows per contestant (default {ROUNDS})")
    parser.add_argument("--markdown", action="store_true", help="print the suite as a table for the documentation")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    options = parser.parse_args()
    modes = [mode for name, mode in MODES.items() if options.mode in (name, "both")]
    if options.list:
        for mode in modes:
            cases, others = _chosen(mode, options.only)
            print("\n".join([f"{mode.name}:"] + [f"  {one.name}" for one in (*cases, *others)]))
        return 0
    right = True
    for mode in modes:
        right = tables(mode, options) and right
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
