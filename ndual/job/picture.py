"""The picture of the job: the NIST fits, and time against size. Drawing only; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ndual.job import nist
from ndual.job.solve import Comparison

_EXACT, _DIFFERENCES, _PLAIN = "#0b6e99", "#c8553d", "#7a7a7a"


def _fit(axes: Any, data: nist.Dataset, comparisons: list[Comparison]) -> None:
    b = comparisons[-1].exact.answer
    dense = np.linspace(data.x.min(), data.x.max(), 400)
    axes.plot(dense, data.model(b, dense), color=_EXACT, lw=2, label="fit, exact Jacobian")
    axes.plot(data.x, data.y, "o", ms=4, mfc="white", color="black", label="NIST data")
    worst = min(one.exact.digits for one in comparisons), min(one.differences.digits for one in comparisons)
    axes.set_title(f"{data.name}: {worst[0]:.1f} certified digits\n(2-point differences: {worst[1]:.1f})", fontsize=10)
    axes.set_xlabel("x")
    axes.set_ylabel("y")
    axes.legend(fontsize=8, frameon=False)


def _growth(axes: Any, comparisons: list[Comparison], title: str, xlabel: str, one_call: bool = False) -> None:
    sizes = [one.size for one in comparisons]
    differences = [one.differences.seconds for one in comparisons]
    axes.loglog(sizes, differences, "s-", color=_DIFFERENCES, label="2-point differences")
    axes.loglog(sizes, [one.exact.seconds for one in comparisons], "o-", color=_EXACT, label="exact")
    if one_call:
        axes.loglog(sizes, [one.call for one in comparisons], ":", color=_PLAIN, label="one plain call of f")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(xlabel)
    axes.set_ylabel("seconds")
    axes.grid(True, alpha=0.25)
    axes.legend(fontsize=8, frameon=False)


def draw(path: Path, fits: list[Comparison], valleys: list[Comparison], filters: list[Comparison]) -> None:
    """Save the picture at `path`, making its folder."""
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    grid = figure.add_gridspec(2, 6)
    for place, data in enumerate(nist.DATASETS):
        mine = [one for one in fits if one.problem.startswith(data.name)]
        _fit(figure.add_subplot(grid[0, 2 * place : 2 * place + 2]), data, mine)
    _growth(figure.add_subplot(grid[1, :3]), valleys, "Rosenbrock minimised with L-BFGS-B", "variables")
    _growth(figure.add_subplot(grid[1, 3:]), filters, "Gradient of a Kalman likelihood, 3n parameters", "state size n",
            one_call=True)  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
