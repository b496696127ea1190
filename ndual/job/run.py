"""The order of the job: solve everything under one progress bar, print the table, draw the picture.

No numbers are made here.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ndual.job import report, solve

PICTURE = Path("out") / "ndual.png"
EXPLANATION = """
Exact derivatives (ndual) beside SciPy's 2-point differences; solver and settings are the same in both columns.
NIST: least_squares(method="trf", ftol=xtol=gtol=1e-15); digits that agree with the certified parameters (11 given).
Rosenbrock: L-BFGS-B; digits that agree with the minimum at ones. Kalman: one gradient by 3n parameters; digits that
agree with the complex step. An evaluation is one call of f; a pass that carries a chunk of a Jacobian counts as one.
"""


def _bar(total: int) -> Any:
    """Return a tqdm bar, or None where tqdm is not installed."""
    if importlib.util.find_spec("tqdm") is None:
        return None
    from tqdm import tqdm

    return tqdm(total=total, desc="solving", unit="problem")


def _picture(groups: list[list[solve.Comparison]], path: Path) -> str:
    """Draw if matplotlib is there; return the sentence that says where the picture is, or why there is none."""
    if importlib.util.find_spec("matplotlib") is None:
        return "No picture: matplotlib is not installed (pip install 'ndual[plot]')."
    from ndual.job import picture

    picture.draw(path, *groups)
    return f"Picture: {path.resolve()}"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the whole job as the command line says and return the exit status, 0 unless something raised."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m ndual", description=EXPLANATION, formatter_class=raw)
    parser.add_argument(
        "--picture", type=Path, default=PICTURE, metavar="FILE", help="where the picture is saved (%(default)s)"
    )
    picture = parser.parse_args(arguments).picture
    if picture.suffix not in (".png", ".svg", ".pdf"):
        parser.error(f"--picture expects the name of a .png, .svg or .pdf; got {picture}")
    begin = time.perf_counter()
    bar = _bar(solve.total())
    groups: list[list[solve.Comparison]] = []
    sources: tuple[Callable[[], Iterator[solve.Comparison]], ...] = (solve.fits, solve.valleys, solve.filters)
    for source in sources:
        group = []
        for comparison in source():
            group.append(comparison)
            if bar is not None:
                bar.update()
        groups.append(group)
    if bar is not None:
        bar.close()
    print(EXPLANATION)
    print(report.table(comparison for group in groups for comparison in group))
    print(f"\n{_picture(groups, picture)}\nTotal {time.perf_counter() - begin:.1f} s.")
    return 0
