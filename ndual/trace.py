"""A listing of what one reverse run does: for finding out where the time and the memory of a gradient go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ndual import _core
from ndual.checks import check_argnums, check_function
from ndual.outputs import Outputs
from ndual.plan import Plan

__all__ = ["TraceRow", "TraceTable", "trace_table"]
SHOWN = 60
"""Rows that are printed of a longer table."""
NUMERIC = (0, 5, 6, 7)
"""Its columns that are aligned to the right."""


@dataclass(frozen=True)
class TraceRow:
    """One operation of a reverse run."""

    operation: str
    file: str
    line: int
    function: str
    operands: tuple[tuple[int, ...], ...]
    """Shapes of the operands, as far as the tape knows them: not of constants that it does not keep."""
    results: tuple[tuple[int, ...], ...]
    dtype: np.dtype
    forward: float
    """Seconds from the operation before it to this one, the interpreter's included."""
    backward: float
    """Seconds of its pullback."""
    nbytes: int
    """Bytes that the tape keeps for its pullback, and did not keep for an earlier operation."""


@dataclass(frozen=True)
class TraceTable:
    """The operations of one reverse run, in order; ``print`` shows them as a table."""

    rows: tuple[TraceRow, ...]
    seconds: float
    """The whole run, its sweep included. Noting every operation takes part of it."""
    snapshots: int
    """Arrays that were copied because something overwrote what a pullback still reads."""
    copied: int
    """Bytes of these copies, and of copies of constant arrays."""

    @property
    def nbytes(self) -> int:
        """Bytes that the tape keeps for the pullbacks."""
        return sum(row.nbytes for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = [("", "operation", "line", "shapes", "dtype", "forward", "backward", "kept")]
        shown = self.rows if len(self.rows) <= SHOWN else (*self.rows[: SHOWN // 2], *self.rows[-SHOWN // 2 :])
        for number, row in enumerate(shown):
            at = number if number < SHOWN // 2 or shown is self.rows else number + len(self.rows) - len(shown)
            shapes = f"{' '.join(map(_shape, row.operands))} -> {' '.join(map(_shape, row.results))}".strip()
            place = f"{row.file.rpartition('/')[2]}:{row.line}"
            lines.append(
                (str(at), row.operation, place, shapes, str(row.dtype), _time(row.forward), _time(row.backward),
                 _bytes(row.nbytes))
            )  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = []
        for line in lines:
            cells = [
                cell.rjust(width) if k in NUMERIC else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            text.append("  ".join(cells).rstrip())
        if shown is not self.rows:
            text.insert(SHOWN // 2 + 1, f"… {len(self.rows) - len(shown)} more, in .rows")
        forward, backward = (sum(getattr(row, key) for row in self.rows) for key in ("forward", "backward"))
        text.append(
            f"{len(self.rows)} operations: forward {_time(forward)}, backward {_time(backward)}, all "
            f"{_time(self.seconds)}; {_bytes(self.nbytes)} kept, "
            f"{_bytes(self.copied)} copied, {self.snapshots} snapshots"
        )
        return "\n".join(text)

    __repr__ = __str__


def _shape(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape)) or "number"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _bytes(n: int) -> str:
    return f"{n} B" if n < 10_000 else f"{n / 1e3:.0f} kB" if n < 10_000_000 else f"{n / 1e6:.0f} MB"


def trace_table(f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] = 0) -> TraceTable:
    """The operations of one reverse run of a function, and what each of them costs.

    Parameters
    ----------
    f : callable
        What :func:`ndual.grad` takes; its output may be an array, whose cotangent is then one everywhere.
    *args
        Its arguments.
    argnums : int or tuple of int
        Which of them are differentiated.

    Returns
    -------
    TraceTable
        ``rows`` has an entry for each operation: name, line, shapes, dtype, seconds forward and backward, bytes kept by
        the tape. It prints as a table with the totals below. Every operation is noted as one of arrays: a loop over
        numbers takes more time and memory here than in a gradient.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        `f` or `argnums` has no meaning here.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> table = ndual.trace_table(lambda x: np.sum(np.sin(x) * x), np.ones(1000))
    >>> [row.operation for row in table.rows][:2]
    ['sin', 'multiply']
    >>> table.rows[0].results, table.snapshots
    (((1000,),), 0)
    """
    check_function(f, "trace_table")
    plan = Plan(f, args, check_argnums(argnums), Outputs("trace_table"), mode="reverse")
    run: Any = plan.run
    tape = run.fresh()
    tape.trace()
    start = perf_counter()
    value, out, single, _, _ = run.record(plan.values, tape)
    outputs = [out] if single else [row for row in value.rows if row is not None]
    try:
        tape.backward(outputs, [np.ones(np.shape(_core.bottom(o)), o.dtype)[()] for o in outputs])
        seconds = perf_counter() - start
        rows = []
        for name, place, operands, results, dtype, forward, backward, nbytes in tape.rows():
            file, line, function = place[:3] if place else ("", 0, "")
            rows.append(
                TraceRow(name, file, line, function, tuple(operands), tuple(results), dtype, forward, backward, nbytes)
            )
        return TraceTable(tuple(rows), seconds, tape.snapshots, tape.copied)
    finally:
        tape.clear()
