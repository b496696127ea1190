"""The comparisons of the job as a text table. Formatting only: it measures nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ndual.job.solve import Comparison

_HEAD = ("problem", "size", "digits", "", "evaluations", "", "time", "", "faster")
_SUB = ("", "", "exact", "2-point", "exact", "2-point", "exact", "2-point", "")


def duration(seconds: float) -> str:
    """Write a time with a unit that suits it.

    Examples
    --------
    >>> duration(0.00123), duration(2.5)
    ('1.23 ms', '2.5 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def row(one: Comparison) -> tuple[str, ...]:
    """Return the cells of one comparison."""
    exact, differences = one.exact, one.differences
    return (
        one.problem,
        str(one.size),
        f"{exact.digits:.1f}",
        f"{differences.digits:.1f}",
        str(exact.evaluations),
        str(differences.evaluations),
        duration(exact.seconds),
        duration(differences.seconds),
        f"{differences.seconds / exact.seconds:.1f}x",
    )


def table(comparisons: Iterable[Comparison]) -> str:
    """Put all comparisons under one head, columns aligned."""
    rows = [_HEAD, _SUB, *map(row, comparisons)]
    widths = [max(len(cells[k]) for cells in rows) for k in range(len(_HEAD))]
    lines = []
    for number, cells in enumerate(rows):
        numbers = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        lines.append("  ".join([cells[0].ljust(widths[0]), *numbers]))
        if number == 1:
            lines.append("-" * len(lines[-1]))
    return "\n".join(line.rstrip() for line in lines)
