"""One function, run once in reverse mode, and as many sweeps as its outputs have numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from ndual.reverse._tape import Tape, TapeRun

from ndual import _core
from ndual.reverse.apply import RULES, TRANSPOSES


class ReverseRun(TapeRun):
    """The counterpart of :class:`ndual._core.run.ForwardRun`: one pass of the function, one sweep for each direction.

    Parameters
    ----------
    call, leaves, active, guard, outputs, direct, holomorphic
        As for a forward run.
    """

    mode = "reverse"

    def __init__(
        self, call: Callable[..., Any], leaves: Sequence[Any], active: Sequence[int], guard: Any, outputs: Any, *,
        direct: bool, dof: int, holomorphic: bool = False, keep: bool = False,
    ) -> None:  # fmt: skip
        self.dof = dof
        self.width = self.passes = 1
        self.plain_sweep = not holomorphic
        self.holomorphic = holomorphic
        self.keep = keep

    @property
    def nbytes(self) -> int:
        """Bytes that the tape of the last run took."""
        return self.memory

    def clone(self, call: Callable[..., Any]) -> ReverseRun:
        """A run for another thread."""
        return ReverseRun(
            call, self.leaves, self.active, self.guard, self.outputs, direct=self.direct, dof=self.dof,
            holomorphic=self.holomorphic, keep=self.keep,
        )  # fmt: skip

    def sweep(
        self, primals: Any, progress: Callable[[int], Iterable[int]] = range, call: Callable[..., Any] | None = None
    ) -> tuple[Any, Any, bool, bool]:
        """As the forward run: value, rows ``(dof, *value.shape)``, whether it is one dual, whether it compared values."""
        tape, self.tape = self.tape or self.fresh(), None
        try:
            return self.several(self.record(primals, tape, call), tape, progress)
        finally:
            self.put_back(tape)

    def fresh(self) -> Tape:
        """A tape of its own."""
        return Tape(RULES, TRANSPOSES)

    def several(self, done: Any, tape: Tape, progress: Any = range) -> tuple[Any, Any, bool, bool]:
        """The result of a sweep from that of :meth:`record`, whatever the output is."""
        value, out, single, compared, leaves = done
        self.outputs.check(value, single)
        if single:
            return value, self._rows(tape, out, value, leaves, progress), True, compared
        rows = [
            None if dual is None else self._rows(tape, dual, v, leaves, progress)
            for dual, v in zip(value.rows, value.values, strict=True)
        ]
        return value, rows, False, compared

    def _rows(self, tape: Tape, out: Any, value: Any, leaves: list[Any], progress: Any) -> Any:
        """Every cotangent of one output, swept back: ``(dof, *value.shape)``."""
        shape = np.shape(_core.bottom(value))
        dtype = np.asarray(_core.bottom(value)).dtype
        units = (1.0, 1.0j) if dtype.kind == "c" and not self.holomorphic else (1.0,)
        columns = []
        for k in progress(int(np.prod(shape))):
            column = None
            for unit in units:
                w = np.zeros(shape, dtype)
                w.reshape(-1)[k] = unit
                tape.backward([out], [w if shape else w[()]])
                g = self._flat(tape, leaves)
                column = g if column is None else column + unit * g
            columns.append(column)
        if not shape:
            return columns[0]
        if not columns:
            return np.zeros((self.dof, *shape), dtype)
        return np.stack(columns, axis=-1).reshape((self.dof, *shape))

    def _flat(self, tape: Tape, leaves: list[Any]) -> Any:
        """The gradient with respect to all leaves in one row; a complex number is two entries unless holomorphic."""
        parts = []
        for leaf in leaves:
            g = tape.gradient(leaf)
            g = g.reshape(-1) if np.ndim(_core.bottom(g)) else np.stack([g])
            if g.dtype.kind == "c":
                g = np.conj(g) if self.holomorphic else np.stack([g.real, g.imag], axis=-1).reshape(-1)
            parts.append(g)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
