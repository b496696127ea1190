"""One function at given arguments, flattened: what every operator of the API and every prepared object starts from.

Operators say what to differentiate and how to read the result; a plan finds the leaves, cuts the passes and runs them.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ndual import _core, chunk
from ndual._core._dual import numbers
from ndual._core.run import ForwardRun, GlobalRandom
from ndual.checks import Argnums, name_of, places
from ndual.errors import ArgumentTypeError, ArgumentValueError, NdualError, NoRuleError
from ndual.frontend import devices, dispatch, intercept
from ndual.layout import Layout, layout_of, walked
from ndual.objects import has_sequences, plain_data
from ndual.outputs import Outputs, leaf_gradient, leaf_jacobian
from ndual.structure import (
    ARRAY,
    CONSTANT,
    FLOAT64,
    SCALAR,
    Flat,
    Leaf,
    Tree,
    check_same,
    constant_leaf,
    leaf_of,
    rebuild,
    rebuild_gradient,
    without_values,
)
from ndual.tangents import Shared, leaf_count, match

NUMBERS_AND_TEXT = frozenset({int, float, complex, bool, str, type(None)})
# What a function that is differentiated again and again may keep until it is dropped itself.
REMEMBERED_BYTES = 256 * 1024


def _absent(*args: Any) -> Any:
    raise NdualError("expected the function to be given with the call; got none")


class Plan:
    """The leaves of a call and the run that differentiates them.

    Where every differentiated argument is one leaf the arguments go to the run as they are, and the run calls `f`
    itself; otherwise arguments are flattened first and `f` gets them rebuilt, by code that is made for them if the
    plan is used `again` and again.
    """

    __slots__ = (
        "active", "argnums", "auto", "count", "cuts", "entry", "f", "flat", "holomorphic", "kwargs", "layout", "leaves",
        "numbers", "outputs", "reverse", "run", "single", "sizes", "slots", "spare", "trees", "values",
    )  # fmt: skip

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], argnums: Argnums, outputs: Outputs, *,
        kwargs: dict[str, Any] | None = None, chunk_size: int | None = None, jvp: bool = False, keep: bool = False,
        mode: str = "auto", again: bool = False,
    ) -> None:  # fmt: skip
        devices.load()
        self.f = f
        self.entry = dispatch.entry(f)
        self.argnums = argnums
        self.kwargs = kwargs or None
        self.outputs = outputs
        self.holomorphic = outputs.holomorphic
        self.active = places(argnums, len(args))
        self.leaves: list[Leaf] = []
        self.values: list[Any] = []
        self.trees: dict[int, Tree] = {}
        self.count = len(args)
        self.flat = not kwargs
        plain = self.flat or plain_data(kwargs)
        found: dict[int, range] = {}
        flats: dict[int, Flat] = {}
        for i, value in enumerate(args):
            start = len(self.leaves)
            plain = self._take(i, value, flats) and plain
            found[i] = range(start, len(self.leaves))
        # In the order of argnums, which is that of tangents and results.
        self.slots = [k for i in self.active for k in found[i]]
        self.layout: Layout | None = None
        if not self.flat:
            self.values.append((self.trees, Shared(flats), self.entry, self.kwargs, self.count))
            self.leaves.append(constant_leaf(self.values[-1], "args")[0])
        self._check_complex()
        lists = not self.flat and any(has_sequences(args[i]) for i in self.active)
        guard = intercept.guard(f, plain, lists)
        if again and not self.flat:
            self.layout = self._layout()
        call = self.entry if self.flat else walked if self.layout is None else self.layout.call
        chosen = [self.leaves[k] for k in self.slots]
        first = chosen[0]
        self.single = isinstance(argnums, int) and not self.trees and first.kind == ARRAY and first.dtype == FLOAT64
        # Whether every gradient is one number of double precision.
        self.numbers = all(leaf.kind == SCALAR and leaf.dtype == FLOAT64 for leaf in chosen)
        self.sizes = [leaf.dof(self.holomorphic) for leaf in chosen]
        # Where each gradient lies in a row, if all are of double precision, and its shape; None for a number.
        self.cuts: list[tuple[int, int, tuple[int, ...] | None]] | None = None
        if all(leaf.dtype == FLOAT64 and leaf.storage is None for leaf in chosen):
            ends = list(itertools.accumulate(self.sizes, initial=0))
            shapes = [leaf.shape if leaf.kind == ARRAY else None for leaf in chosen]
            self.cuts = list(zip(ends, ends[1:], shapes, strict=False))
        # A chunk size is a wish about forward passes.
        self.auto = mode == "auto" and chunk_size is None and not jvp
        self.spare: int | None = None
        self.reverse = mode == "reverse" or (self.auto and outputs.scalar and sum(self.sizes) >= chunk.REVERSE_FROM)
        self.run: ForwardRun = (
            self._back(call, guard, keep) if self.reverse else self._forth(call, guard, keep, chunk_size, jvp)
        )

    def _forth(self, call: Any, guard: Any, keep: bool, chunk_size: int | None = None, jvp: bool = False) -> ForwardRun:
        """A run in forward mode."""
        dof = sum(self.sizes)
        passes, width = 1, 1
        if not jvp:
            chosen = [self.leaves[k] for k in self.slots]
            limit = chunk_size or chunk.default_width(
                dof,
                max(leaf.size * leaf.dtype.itemsize for leaf in chosen),  # type: ignore[union-attr]
            )
            passes, width = chunk.split(dof, limit)
        return ForwardRun(
            call, self.leaves, self.slots, guard, self.outputs, direct=not self.outputs.has_aux, width=width,
            passes=passes, dof=dof, holomorphic=self.holomorphic, keep=keep, swept=not jvp,
        )  # fmt: skip

    def _back(self, call: Any, guard: Any, keep: bool) -> Any:
        """A run in reverse mode."""
        kind: Any = importlib.import_module("ndual.reverse.run").ReverseRun
        run = kind(
            call, self.leaves, self.slots, guard, self.outputs, direct=not self.outputs.has_aux, dof=sum(self.sizes),
            holomorphic=self.holomorphic, keep=keep,
        )  # fmt: skip
        if self.spare is not None:
            run.spare = self.spare
        return run

    def keep_tapes(self) -> None:
        """Keep the memory of a tape from one call to the next, however large."""
        self.spare = sys.maxsize
        if self.reverse:
            run: Any = self.run
            run.spare = self.spare

    def _take(self, i: int, value: Any, flats: dict[int, Flat]) -> bool:
        """Add an argument; whether it is plain data."""
        if i not in self.active:
            leaf, value = constant_leaf(value, name_of(i))
            self.leaves.append(leaf)
            self.values.append(value)
            return plain_data(value)
        found = leaf_of(value, name_of(i))
        if found is not None:
            self.leaves.append(found[0])
            self.values.append(found[1])
            return True
        flat = Flat(value, name_of(i))
        self.flat = False
        self.trees[i] = flat.tree
        flats[i] = flat
        self.leaves.extend(flat.leaves)
        self.values.extend(flat.values)
        return plain_data(value)

    def _check_complex(self) -> None:
        for leaf in (self.leaves[k] for k in self.slots):
            if self.holomorphic and not leaf.complex:
                raise ArgumentTypeError(
                    f"{leaf.name}: expected a complex argument with holomorphic=True; got {leaf}. Leave holomorphic out"
                )

    def refuse_complex(self) -> None:
        """For operators whose result has no place for two derivatives of a complex number."""
        for leaf in (self.leaves[k] for k in self.slots):
            if leaf.complex and not self.holomorphic:
                raise ArgumentTypeError(
                    f"{self.outputs.operator}: expected real arguments; got {leaf.name}, {leaf}. "
                    "Pass holomorphic=True if f is, or pass real and imaginary part as two arguments"
                )

    def flatten(self, args: tuple[Any, ...]) -> tuple[Any, ...] | list[Any]:
        """The leaf values of new arguments, checked to have the structure of the first ones."""
        if self.flat:
            return args
        if self.layout is not None:
            found = self.layout.load(self.entry, args)
            if found is not None:
                return found
        if len(args) != self.count:
            raise ArgumentValueError(f"expected {self.count} arguments, as in the prepared call; got {len(args)}")
        values: list[Any] = []
        trees = {}
        flats: dict[int, Flat] = {}
        for i, value in enumerate(args):
            tree = self.trees.get(i)
            if tree is None:
                values.append(value)
            else:
                flat = Flat(value, name_of(i))
                check_same(tree, flat.tree, flat.name)
                trees[i] = flat.tree
                flats[i] = flat
                values.extend(flat.values)
        values.append((trees, Shared(flats), self.entry, None, self.count))
        return values

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Whether arguments are of the shapes, dtypes and structures that this was made for."""
        try:
            values = self.flatten(args)
            for leaf, value in zip(self.leaves, values, strict=True):
                leaf.admit(value)
        except ValueError:  # a mismatch, or another number of them
            return False
        return True

    def constants(self) -> dict[int, Any]:
        """The values of constant arguments that are no arrays, by their places."""
        places = self.leaves if self.flat else self.leaves[:-1]
        return {k: self.values[k] for k, leaf in enumerate(places) if self.values and leaf.of_type}

    def clone(self) -> Plan:
        """A plan with buffers of its own, for another thread."""
        other = copy.copy(self)
        other.run = self.run.clone(self.run.call)
        return other

    def remember(self, key: Any) -> None:
        """Keep what is known about the arguments beside the guard of the function, without function and arguments."""
        guard = intercept.cached(self.f)
        if guard is None or guard is not self.run.guard or self.entry is not self.f:
            return
        if not self.reusable or self.run.nbytes > REMEMBERED_BYTES:
            return
        other = copy.copy(self)
        other.f = other.entry = _absent
        other.values = []
        if not self.flat:
            # Code is made at the second call: many functions are called once.
            if guard.plans.setdefault((key, "met"), self.run) is self.run:
                guard.plans[key, "met"] = None
                return
            other.trees = {i: without_values(tree) for i, tree in self.trees.items()}
            other.layout = self._layout()
            if other.layout is None:
                return
        other.run = self.run.clone(_absent if other.layout is None else other.layout.call)
        guard.plans[key] = other

    def _layout(self) -> Layout | None:
        return layout_of(self.trees, self.leaves, self.active, isinstance(self.argnums, int), self.count)

    def tangents(self, tangents: tuple[Any, ...]) -> list[Any]:
        """The leaf tangents of structured tangents, one for each differentiated argument."""
        if len(tangents) != len(self.active):
            raise ArgumentValueError(
                f"expected {len(self.active)} tangents, one for each differentiated argument; got {len(tangents)}"
            )
        found: list[Any] = []
        for i, tangent in zip(self.active, tangents, strict=True):
            tree = self.trees.get(i)
            if tree is None:
                found.append(tangent)
            else:
                part: dict[int, Any] = {}
                match(tree, tangent, f"tangent of {name_of(i)}", part)
                found.extend(part[k] for k in range(len(part)))
        return found

    def split(self, build: Callable[[Leaf, Any], Any], rows: Any) -> Any:
        """One result for each differentiated argument, in its structure; `rows` has the directions first."""
        parts, low = [], 0
        for k, size in zip(self.slots, self.sizes, strict=True):
            parts.append(build(self.leaves[k], rows[low : low + size]))
            low += size
        return self._assembled(parts)

    def pulled(self, row: Any, count: int) -> tuple[Any, ...]:
        """What a pullback gives: one cotangent for each of `count` arguments, None for one without floats."""
        found = self.split(lambda leaf, part: leaf_gradient(leaf, part, False), row)
        result: list[Any] = [None] * count
        for i, g in zip(self.active, found, strict=True):
            result[i] = g
        return tuple(result)

    def _assembled(self, parts: list[Any]) -> Any:
        """One result for each differentiated argument from those of the leaves."""
        if self.layout is not None:
            return self.layout.gradient(parts)
        if self.flat and not isinstance(self.argnums, int):
            return tuple(parts)
        results, k = [], 0
        for i in self.active:
            tree = self.trees.get(i)
            if tree is None:
                results.append(parts[k])
                k += 1
            else:
                n = leaf_count(tree)
                results.append(rebuild_gradient(tree, parts[k : k + n]))
                k += n
        return results[0] if isinstance(self.argnums, int) else tuple(results)

    def gradient(
        self, values: Any, progress: Callable[[int], Iterable[int]] = range, call: Callable[..., Any] | None = None
    ) -> tuple[Any, Any]:
        """(value, gradient) at flat values; the value is (value, aux) where there is aux.

        `call` stands in for the function of a plan that was remembered without one.
        """
        if self.layout is not None:
            call = None  # the function comes with the values
        if self.reverse:
            run: Any = self.run
            try:
                done = run.gradients(values, call)
            except (NoRuleError, MemoryError):
                if not self.auto:
                    raise
                # What reverse mode cannot do, or has no room for, forward mode may.
                self.auto = self.reverse = False
                self.run = self._forth(self.run.call, self.run.guard, self.run.keep)
                return self.gradient(values, progress, call)
            return self.gradient_of(done)
        return self.gradient_of(self.run.sweep(values, progress, call))

    def gradient_of(self, done: tuple[Any, Any, bool, bool]) -> tuple[Any, Any]:
        """(value, gradient) from what the run made."""
        value, rows, single, compared = done
        if single:
            if type(rows) is list:
                return value, rows[0] if self.single else self._assembled(rows)
            if self.single and rows.dtype == FLOAT64 and _core.storage_for(rows) is None:
                return value, rows.reshape(self.leaves[self.slots[0]].shape)
            if self.cuts is not None and type(rows) is np.ndarray and rows.dtype == FLOAT64:
                return value, self._assembled(
                    numbers(rows)
                    if self.numbers
                    else [rows[i] if shape is None else rows[i:k].reshape(shape) for i, k, shape in self.cuts]
                )
        else:
            parts = value
            self.outputs.warn(rows, compared)
            value = (parts.values[0], parts.aux) if self.outputs.has_aux else parts.values[0]
            rows = rows[0]
            if rows is None:
                rows = np.zeros(self.run.dof, np.complex128 if self.holomorphic else np.float64)
        return value, self.split(lambda leaf, part: leaf_gradient(leaf, part, self.holomorphic), rows)

    def jacobian(
        self, values: Any, progress: Callable[[int], Iterable[int]] = range, call: Callable[..., Any] | None = None
    ) -> tuple[Any, Any]:
        """(value, jacobian) at flat values: outputs outside, arguments inside, ``(*out.shape, *argument.shape)``.

        The value is (value, aux) where there is aux.
        """
        if self.layout is not None:
            call = None
        found = self._in_few_sweeps(values, progress, call) if self.auto else None
        value, rows, single, compared = found or self.run.sweep(values, progress, call)
        if single:
            if self.single and rows.ndim <= 2 and len(self.leaves[self.slots[0]].shape) == 1:
                return value, rows.T
            return value, self.split(leaf_jacobian, rows)
        self.outputs.warn(rows, compared)
        blocks = [
            self.split(leaf_jacobian, np.zeros_like(v, shape=(self.run.dof, *np.shape(v))) if r is None else r)
            for v, r in zip(value.values, rows, strict=True)
        ]
        whole = rebuild(value.tree, value.values)
        return (whole, value.aux) if self.outputs.has_aux else whole, rebuild_gradient(value.tree, blocks)

    def _in_few_sweeps(self, values: Any, progress: Any, call: Any) -> Any:
        """A sweep in reverse mode if the outputs turn out to be few, and so from then on; else None."""
        self.auto = False
        run = self.run
        if run.passes < chunk.PASSES_TO_TRY:
            return None
        back = self._back(run.call, run.guard, run.keep)
        chance = GlobalRandom() if run.guard.random else None
        try:
            found = back.few_sweeps(values, chunk.OUTPUTS_A_PASS * run.passes, progress, call)
        except (NoRuleError, MemoryError):
            found = None
        if found is not None:
            self.run, self.reverse = back, True
        elif chance is not None:
            chance.restore()
        return found

    @property
    def reusable(self) -> bool:
        """Whether other arguments of the same types may take the place of these without a look into them.

        Structures that are differentiated are looked into by a layout.
        """
        return self.kwargs is None and all(
            leaf.kind != CONSTANT or leaf.dtype is not None or leaf.type in NUMBERS_AND_TEXT
            for leaf in (self.leaves if self.flat else self.leaves[:-1])
        )

    def along(self, f: Callable[..., Any], args: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What a remembered plan of a directional derivative gives, or None if it does not suit these arguments."""
        if self.layout is None:
            return self.run.run(args, tangents, f) if self.run.suits(args, True, tangents) else None
        found = self.layout.load(f, args)
        if found is None or len(tangents) != len(self.active) or any(t is None for t in tangents):
            return None
        parts = self.tangents(tangents)
        return self.run.run(found, parts) if self.run.suits(found, True, parts) else None

    def given(self, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What a remembered plan is to be run with, or None if it does not suit these arguments."""
        found = args if self.layout is None else self.layout.load(f, args)
        return found if found is not None and self.run.suits(found) else None

    @property
    def scalars(self) -> bool:
        """Whether every differentiated leaf is one number."""
        return all(leaf.kind == SCALAR or leaf.shape == () for leaf in (self.leaves[k] for k in self.slots))
