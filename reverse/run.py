"""One function, run once in reverse mode, and as many sweeps as its outputs have numbers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ndual import _core
from ndual.reverse._tape import Tape, TapeRun
from ndual.reverse.apply import tape as new_tape

SPARE = 256 * 1024
"""Bytes of a tape that a function keeps from one call to the next, unless it was prepared for that."""


class ReverseRun(TapeRun):
    """The counterpart of :class:`ndual._core.run.ForwardRun`: one pass of the function, one sweep for each direction.

    Parameters
    ----------
    call, leaves, active, guard, outputs, direct, dof, holomorphic, keep
        As for a forward run.
    spare : int
        The most bytes of a tape to keep for the next call.
    """

    mode = "reverse"

    def __init__(
        self, call: Callable[..., Any], leaves: Sequence[Any], active: Sequence[int], guard: Any, outputs: Any, *,
        direct: bool, dof: int, holomorphic: bool = False, keep: bool = False, spare: int = SPARE,
    ) -> None:  # fmt: skip
        self.dof = dof
        self.width = self.passes = 1
        self.plain_sweep = not holomorphic
        self.holomorphic = holomorphic
        self.keep = keep
        self.spare = spare

    def clone(self, call: Callable[..., Any]) -> ReverseRun:
        """A run for another thread."""
        return ReverseRun(
            call, self.leaves, self.active, self.guard, self.outputs, direct=self.direct, dof=self.dof,
            holomorphic=self.holomorphic, keep=self.keep, spare=self.spare,
        )  # fmt: skip

    def sweep(
        self, primals: Any, progress: Callable[[int], Iterable[int]] = range, call: Callable[..., Any] | None = None
    ) -> tuple[Any, Any, bool, bool]:
        """As the forward run: value, rows ``(dof, *value.shape)``, whether it is one dual, whether it compared."""
        done: tuple[Any, Any, bool, bool] = self.few_sweeps(primals, math.inf, progress, call)
        return done

    def few_sweeps(self, primals: Any, most: float, progress: Any = range, call: Any = None) -> Any:
        """As :meth:`sweep`, but None if the function returns more than `most` numbers."""
        tape, self.tape = self.tape, None
        if tape is None:
            tape = self.fresh()
        before = _core.pool_info()["live"]
        try:
            done = self.record(primals, tape, call)
            self.note_bytes(before, tape)
            if count(done[0], done[2]) > most:
                return None
            return self.several(done, tape, progress)
        finally:
            self.put_back(tape)

    def fresh(self) -> Tape:
        """A tape of its own."""
        return new_tape()

    def several(self, done: Any, tape: Tape, progress: Any = range) -> tuple[Any, Any, bool, bool]:
        """The result of a sweep from that of :meth:`record`, whatever the output is."""
        value, out, single, compared, leaves = done
        self.outputs.check(value, single)
        if single:
            rows = self._rows(tape, out, value, leaves, progress)
            return value, self.in_place([rows])[0] if self.keep else rows, True, compared
        parts = [
            None if dual is None else self._rows(tape, dual, v, leaves, progress)
            for dual, v in zip(value.rows, value.values, strict=True)
        ]
        return value, parts, False, compared

    def trace(self, primals: Any) -> Trace:
        """Run the function, and keep what its run left."""
        tape = self.fresh()
        tape.owns = True
        try:
            value, out, single, _, leaves = self.record(primals, tape)
            self.outputs.check(value, single)
            tape.own()
        except BaseException:
            tape.clear()
            raise
        return Trace(tape, value, [out] if single else value.rows, single, leaves)

    def pull(self, primals: Any, weigh: Callable[[Any, bool], list[Any]]) -> tuple[Any, bool, Any]:
        """Value, whether it is one dual, and the cotangents of all arguments in one row, complex numbers as two.

        `weigh` gives the cotangents of the outputs from the first two.
        """
        tape, self.tape = self.tape, None
        if tape is None:
            tape = self.fresh()
        before = _core.pool_info()["live"]
        try:
            value, out, single, _, leaves = self.record(primals, tape)
            self.note_bytes(before, tape)
            self.outputs.check(value, single)
            pairs = zip([out] if single else value.rows, weigh(value, single), strict=True)
            given = [(dual, w) for dual, w in pairs if dual is not None and w is not None]
            tape.backward([dual for dual, _ in given], [w for _, w in given], True)
            return value, single, tape.check(flat_gradient(tape, leaves, True))
        finally:
            self.put_back(tape)

    def _rows(self, tape: Tape, out: Any, value: Any, leaves: list[Any], progress: Any) -> Any:
        """Every cotangent of one output, swept back: ``(dof, *value.shape)``."""
        cells = _core.bottom(value)
        shape, dtype = np.shape(cells), np.result_type(cells)
        units = (1.0, 1.0j) if dtype.kind == "c" and not self.holomorphic else (1.0,)
        if not shape and len(units) == 1:
            return self._row(tape, out, dtype.type(1), leaves)
        rows: Any = None
        found = []
        for k in progress(math.prod(shape)):
            row: Any = None
            for unit in units:
                w = np.zeros(shape, dtype)
                w.reshape(-1)[k] = unit
                g = self._row(tape, out, w if shape else w[()], leaves)
                row = g if row is None else row + unit * g
            if _core.is_dual(row):
                found.append(row)
                continue
            if rows is None:  # where the arguments lie
                rows = (_core.storage_for(row) or np).empty((math.prod(shape), self.dof), dtype)
            rows[k] = row
        if found:
            rows = np.stack(found)
        elif rows is None:
            rows = (_core.storage_for(cells) or np).empty((0, self.dof), dtype)
        return np.moveaxis(rows.reshape((*shape, self.dof)), -1, 0)

    def _row(self, tape: Tape, out: Any, w: Any, leaves: list[Any]) -> Any:
        tape.backward([out], [w])
        row = tape.check(flat_gradient(tape, leaves, not self.holomorphic))
        return np.conj(row) if self.holomorphic else row


def count(value: Any, single: bool) -> int:
    """How many active numbers an output has."""
    parts = [(value, True)] if single else list(zip(value.values, value.rows, strict=True))
    return sum(math.prod(np.shape(_core.bottom(part))) for part, dual in parts if dual is not None)


def flat_gradient(tape: Tape, leaves: list[Any], pairs: bool) -> Any:
    """The gradient with respect to all leaves in one row; with `pairs` a complex number is two entries."""
    parts = []
    for leaf in leaves:
        g = tape.gradient(leaf)
        storage = _core.storage_for(g)
        g = g.reshape(-1) if np.ndim(_core.bottom(g)) or storage is not None else np.stack([g])
        if g.dtype.kind == "c" and pairs:
            g = np.stack([g.real, g.imag], axis=-1).reshape(-1)
        parts.append(g)
    if len(parts) == 1:
        return parts[0]
    storages = [_core.storage_for(_core.bottom(g)) for g in parts]
    there = next((storage for storage in storages if storage is not None), None)
    if there is not None:  # one row is in one memory
        parts = [
            g if storage or _core.is_dual(g) else there.take(g) for g, storage in zip(parts, storages, strict=True)
        ]
    return np.concatenate(parts)


class Trace:
    """What one run of a function left: its outputs and arguments as duals of a tape, to sweep between.

    `value` is the output where that is one dual (`single`), else its parts; `rows` has the duals of the outputs, None
    for constants. One sweep at a time: others wait.
    """

    def __init__(self, tape: Tape, value: Any, rows: list[Any], single: bool, leaves: list[Any]) -> None:
        self.tape, self.value, self.rows, self.single = tape, value, rows, single
        self._leaves = leaves
        self._lock = threading.Lock()

    def pull(self, ws: list[Any]) -> Any:
        """The cotangents of all arguments in one row, complex numbers as two, from those of the outputs."""
        given = [(dual, w) for dual, w in zip(self.rows, ws, strict=True) if dual is not None and w is not None]
        with self._lock:
            self.tape.backward([dual for dual, _ in given], [w for _, w in given])
            return self.tape.check(flat_gradient(self.tape, self._leaves, True))

    def push(self, ts: list[Any]) -> list[Any]:
        """The tangents of the outputs, None for constants, from those of the arguments (None: zero)."""
        with self._lock:
            self.tape.forward(self._leaves, ts)
            return [None if dual is None else self.tape.check(self.tape.tangent(dual)) for dual in self.rows]

    def __del__(self) -> None:
        # Arrays of a tape are in circles that the collector does not see.
        self.tape.clear()
