"""One function, run forward over a flat tuple of leaves: the part of a derivative call that is paid every time.

A leaf says what is expected at its place, a guard what must be intercepted while the function runs, an outputs object
what to make of a result that is not one dual; all three come from the layers above. Nothing here knows containers.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ndual._core._dual import (
    Facts,
    Run,
    as_array,
    bottom,
    is_dual,
    pooled_zeros,
    set_compared_passes,
    storage_for,
    to_host,
)
from ndual.errors import ArgumentTypeError, ArgumentValueError, NdualError

# Units in the last place of the largest number by which values of two passes may differ; what f draws or counts differs
# by more.
ROUNDING = 1000


class Seeds:
    """The unit tangents of one differentiated leaf: ``(width, *shape)``, zero but for the ones of the pass at hand."""

    __slots__ = ("array", "count", "flat", "offset")

    def __init__(self, leaf: Any, width: int, offset: int, holomorphic: bool) -> None:
        self.array = leaf.zeros((width,))
        flat = self.array.reshape(-1)
        # Real and imaginary part are two directions, and lie side by side.
        self.flat = flat if holomorphic or not leaf.complex else flat.view(flat.real.dtype)
        self.count: int = leaf.dof(holomorphic)
        self.offset = offset

    def start(self, low: int) -> int | None:
        """The lane of the first cell in a pass that begins at direction `low`; None if a cell has two lanes."""
        return self.offset - low if self.flat.size == self.array.size else None

    def put(self, low: int, high: int, value: float) -> None:
        """Write `value` where directions low..high of the sweep meet this leaf."""
        first, last = max(low, self.offset), min(high, self.offset + self.count)
        if first < last:
            start = (first - low) * self.count + first - self.offset
            step = self.count + 1
            self.flat[start : start + (last - first - 1) * step + 1 : step] = value


class ForwardRun(Run):
    """Forward passes of one function over leaves that are checked against the ones it was made for.

    Parameters
    ----------
    call : callable
        Takes the flat leaves; the user's function itself where its arguments are flat.
    leaves : sequence of Leaf
        What is expected at each place.
    active : sequence of int
        The places that are differentiated.
    guard : Facts
        Where its facts do not hold, ``enter()`` says whether ``leave()`` must follow the call.
    outputs : Outputs
        ``split(out)`` takes what is not one dual apart; ``check(value, single)`` is asked once a sweep.
    direct : bool
        Whether one dual is taken as it is, without asking `outputs`.
    width, passes : int
        Lanes of one pass of a sweep, and how many passes.
    keep : bool
        Every sweep writes the rows of one dual into the same memory.
    swept : bool
        Whether its passes have unit tangents; those along given directions do not.
    """

    def __init__(
        self, call: Callable[..., Any], leaves: Sequence[Any], active: Sequence[int], guard: Facts, outputs: Any, *,
        direct: bool, width: int, passes: int, dof: int, holomorphic: bool = False, keep: bool = False,
        swept: bool = True,
    ) -> None:  # fmt: skip
        self.swept = swept
        self.width, self.passes, self.dof = width, passes, dof
        self.holomorphic = holomorphic
        self.keep = keep
        self._kept: np.ndarray | None = None
        self._units: list[Seeds] | None = None
        self.plain_sweep = passes == 1 and not keep and not holomorphic

    @property
    def nbytes(self) -> int:
        """Bytes of the seeds, and of the rows if they are kept; a run along given directions has no seeds."""
        if not self.swept:
            return 0
        seeds: int = self.width * sum(self.leaves[i].size * self.leaves[i].dtype.itemsize for i in self.active)
        return seeds + (0 if self._kept is None else self._kept.nbytes)

    def clone(self, call: Callable[..., Any]) -> ForwardRun:
        """A run of its own buffers, for another thread."""
        return ForwardRun(
            call, self.leaves, self.active, self.guard, self.outputs, direct=self.direct, width=self.width,
            passes=self.passes, dof=self.dof, holomorphic=self.holomorphic, keep=self.keep, swept=self.swept,
        )  # fmt: skip

    def lane_of(self, i: int, tangent: Any) -> Any:
        """A tangent of leaf i as its one lane, checked and cast."""
        return as_lane(self.leaves[i], tangent)

    def _make_units(self) -> list[Seeds]:
        units, offset = [], 0
        for i in self.active:
            units.append(Seeds(self.leaves[i], self.width, offset, self.holomorphic))
            offset += units[-1].count
        if self.passes == 1:
            for unit in units:
                unit.put(0, self.dof, 1.0)
        self.seeds = tuple(unit.array for unit in units)
        self.starts = tuple(unit.start(0) for unit in units)
        return units

    def one_sweep(self, done: tuple[Any, Any, bool, bool]) -> tuple[Any, Any, bool, bool]:
        """The result of a sweep from that of its only pass."""
        value, chunk, single, compared = done
        self.outputs.check(value, single)
        return value, chunk if single else value.rows, single, compared

    def sweep_all(
        self, inputs: list[Any], progress: Callable[[int], Iterable[int]], call: Callable[..., Any] | None
    ) -> tuple[Any, Any, bool, bool]:
        """Every pass over checked inputs."""
        former = set_compared_passes(self.passes > 1)
        try:
            return self._sweep_all(inputs, progress, call)
        finally:
            set_compared_passes(former)

    def _sweep_all(
        self, inputs: list[Any], progress: Callable[[int], Iterable[int]], call: Callable[..., Any] | None
    ) -> tuple[Any, Any, bool, bool]:
        if self._units is None:
            self._units = self._make_units()
        units, dof, width = self._units, self.dof, self.width
        several = self.passes > 1
        chance = GlobalRandom() if several and self.guard.random else None
        first: Any = None
        rows: Any = None
        first_single = compared = False
        for number in progress(self.passes):
            low, high = number * width, min(number * width + width, dof)
            if chance is not None and number:
                chance.restore()
            if several:
                for unit in units:
                    unit.put(low, high, 1.0)
                self.starts = tuple(unit.start(low) for unit in units)
            try:
                value, chunk, single, seen = self.one_pass(inputs, self.seeds, width, call)
            finally:
                if several:
                    for unit in units:
                        unit.put(low, high, 0.0)
            compared |= seen
            if number == 0:
                first, first_single = value, single
                self.outputs.check(value, single)
                rows = None if single else [None] * len(value.rows)
            else:
                if first_single and not single and value.tree == 0:
                    # A plain number: what it depends on does not move in this pass.
                    value, chunk, single = value.values[0], None, True
                elif single and not first_single and first.tree == 0:
                    first, rows, first_single = first.values[0], rows[0], True
                self._compare(first, first_single, value, single, number)
            if single:
                rows = self._store(rows, chunk, low, high)
            else:
                rows = [self._store(r, c, low, high) for r, c in zip(rows, value.rows, strict=True)]
        if single:
            rows = self._filled(rows)
        elif rows is not None:
            rows = [self._filled(r) for r in rows]
        if self.keep and first_single:
            self._kept = rows
        return first, rows, first_single, compared

    def _filled(self, rows: Any) -> Any:
        """Rows that are duals, with zeros for the last passes if nothing moved in them."""
        return _joined(rows, rows[:0], self.dof) if is_dual(rows) and len(rows) < self.dof else rows

    def _store(self, rows: Any, chunk: Any, low: int, high: int) -> Any:
        """Rows low..high taken from a chunk; a sweep of one pass hands the chunk on as it is."""
        if chunk is None:
            return rows
        if is_dual(chunk) or is_dual(rows):
            # Rows that are duals of an outer derivative are a result like any other, and few.
            return _joined(rows, chunk[: high - low], low)
        if rows is None:
            shape = (self.dof, *chunk.shape[1:])
            kept = self._kept
            if kept is not None and kept.shape == shape and kept.dtype == chunk.dtype:
                rows = kept
            elif self.passes == 1:
                return chunk[: self.dof]
            else:
                storage = storage_for(chunk)
                rows = (pooled_zeros if storage is None else storage.zeros)(shape, chunk.dtype)
        rows[low:high] = chunk[: high - low]
        return rows

    def _compare(self, first: Any, first_single: bool, value: Any, single: bool, number: int) -> None:
        one, two = ([first], [value]) if single else (getattr(first, "values", []), value.values)
        if first_single != single or len(one) != len(two) or not all(map(same_value, one, two)):
            raise NdualError(
                f"expected the same value of f in every pass; got another one in pass {number + 1} of {self.passes}: "
                "f draws random numbers of its own or keeps state from call to call. "
                f'Run it once, with chunk_size={self.dof} or mode="reverse"'
            )


def _same_normal(a: Any, b: Any) -> bool:
    return (a.get("has_gauss"), a.get("gauss")) == (b.get("has_gauss"), b.get("gauss"))


def _joined(rows: Any, chunk: Any, low: int) -> Any:
    """Rows up to number `low`, zeros for those of passes in which nothing moved, and a chunk after them."""
    parts = [] if rows is None else [rows[:low]]
    missing = low - (0 if rows is None else min(len(rows), low))
    if missing:
        parts.append(np.zeros((missing, *chunk.shape[1:]), chunk.dtype))
    parts += [chunk] if len(chunk) or not parts else []
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def same_bits(a: Any, b: Any) -> bool:
    """Whether two numbers or arrays agree to the last bit."""
    a, b = np.asarray(to_host(bottom(a))), np.asarray(to_host(bottom(b)))
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())


def same_value(a: Any, b: Any) -> bool:
    """Whether they agree but for rounding: the last bits of a gradient depend on what moves in a pass."""
    if same_bits(a, b):
        return True
    a, b = np.asarray(to_host(bottom(a))), np.asarray(to_host(bottom(b)))
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "fc":
        return False
    with np.errstate(all="ignore"):
        size = np.abs(a)
        bound = ROUNDING * np.finfo(a.dtype).eps * np.max(size, where=np.isfinite(size), initial=0.0)
        return bool(np.all((np.abs(a - b) <= bound) | (a == b) | (np.isnan(a) & np.isnan(b))))


def as_lane(leaf: Any, tangent: Any, what: str = "tangent") -> Any:
    """A tangent (or what else it is) of a leaf as its one lane, cast to the dtype of the leaf."""
    if type(tangent) is np.ndarray and tangent.dtype == leaf.dtype and tangent.shape == leaf.shape:
        return tangent[None]
    array: Any
    if is_dual(tangent):
        array = as_array(tangent)
    elif leaf.storage is not None:
        array = leaf.storage.take(tangent)
    else:
        array = np.asarray(tangent)
    if array.dtype.kind not in "biufc" or (array.dtype.kind == "c" and not leaf.complex):
        raise ArgumentTypeError(f"{what} of {leaf.name}: expected {leaf}; got {_what(tangent, array)}")
    if array.shape != leaf.shape:
        owner = "argument" if what == "tangent" else "output"
        raise ArgumentValueError(
            f"{what} of {leaf.name}: expected the shape of the {owner}, {leaf.shape}; got {array.shape}"
        )
    return array.astype(leaf.dtype)[None]


def _what(tangent: Any, array: np.ndarray) -> str:
    return f"{array.dtype} of shape {array.shape}" if array.dtype.kind == "c" else type(tangent).__name__


class GlobalRandom:
    """The global random states, to be put back between the passes of one sweep."""

    def __init__(self) -> None:
        self._numpy = np.random.get_state(legacy=False)
        self._python = random.getstate()
        self._bits = self._peek()

    @staticmethod
    def _peek() -> bytes | None:
        # get_state and set_state take 30 us each; the words of the Mersenne twister are compared in 0.3.
        generator = np.random.mtrand._rand._bit_generator
        if type(generator).__name__ != "MT19937":
            return None
        return ctypes.string_at(generator.ctypes.state_address, 2500)

    def restore(self) -> None:
        """Put the states back where they have moved."""
        bits = self._peek()
        # A normal number that was drawn in advance is no part of the words.
        if bits is None or bits != self._bits or not _same_normal(np.random.get_state(legacy=False), self._numpy):
            np.random.set_state(self._numpy)
        if random.getstate() != self._python:
            random.setstate(self._python)
