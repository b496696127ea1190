"""Checkpoints: parts of a function of which reverse mode keeps the arguments, and which it runs again in the sweep."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual._core.run import GlobalRandom, same_bits
from ndual.checks import check_function
from ndual.errors import AliasError, NdualError
from ndual.outputs import Outputs
from ndual.plan import Plan

__all__ = ["checkpoint"]


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does what `f` does, and of which reverse mode stores the arguments only.

    While the function around it runs, `f` computes plain values and leaves nothing on the tape; when the sweep comes to
    it, `f` is run once more, this time with a tape. So n steps in blocks of m need memory for the n / m arguments of
    the blocks and for the m steps of one. Forward mode just calls `f`.

    Parameters
    ----------
    f : callable
        Takes and returns numbers, arrays, and tuples, lists and dicts of them. It may write into its arguments, draw
        from NumPy's and Python's global random state, which the second run finds as the first one did, and contain
        checkpoints itself. Everything active that it reads or writes must be among its arguments.

    Returns
    -------
    callable
        With the signature of `f`. Arrays that `f` returns are arrays of their own, or its arguments themselves.

    Raises
    ------
    NdualError
        Of a call: `f` used an active value of the function around it that is not an argument.
    AliasError
        Of a call: `f` returned a view of an argument, or wrote into one of two arguments in the same memory.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> @ndual.checkpoint
    ... def block(u):
    ...     for _ in range(10):
    ...         u = u + 0.1 * np.sin(u)
    ...     return u
    >>> def f(u):
    ...     for _ in range(10):
    ...         u = block(u)
    ...     return np.sum(u)
    >>> ndual.grad(f, mode="reverse")(np.zeros(2)).round(6).tolist()
    [13780.61234, 13780.61234]
    """
    check_function(f, "checkpoint")

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _core.holds(args, kwargs):
            return f(*args, **kwargs)
        level = _core.meet(args, kwargs)
        return f(*args, **kwargs) if level.recorder is None else _Call(f, level, args, kwargs).run()

    return call


class _Call:
    """One call of a checkpoint at a level that records."""

    def __init__(self, f: Callable[..., Any], level: Any, args: Any, kwargs: Any) -> None:
        self.f = f
        self.level = level
        self.leaves: list[Any] = []
        self.places: dict[int, int] = {}
        self.tree = self._take((args, kwargs))

    def _take(self, obj: Any) -> Any:
        """The structure of the arguments with the number of a leaf in the place of each array and dual."""
        if type(obj) in (tuple, list) or hasattr(obj, "_fields"):
            parts = [self._take(part) for part in obj]
            return _Node(lambda values: _as(obj, [_fill(part, values) for part in parts]))
        if type(obj) is dict:
            entries = {key: self._take(part) for key, part in obj.items()}
            return _Node(lambda values: {key: _fill(part, values) for key, part in entries.items()})
        if not _core.is_dual(obj) and type(obj) is not np.ndarray:
            return _Node(lambda values: obj)
        number = self.places.setdefault(id(obj), len(self.leaves))
        if number == len(self.leaves):
            self.leaves.append(obj)
        return _Node(lambda values: values[number])

    def run(self) -> Any:
        """Call the function on plain values, and have its results as duals whose pullback calls it again."""
        level = self.level
        self.active = [_core.is_active(leaf, level) for leaf in self.leaves]
        arrays = [on and type(leaf) is _core.NDualArray for leaf, on in zip(self.leaves, self.active, strict=True)]
        values = [self._value(leaf, on) for leaf, on in zip(self.leaves, self.active, strict=True)]
        self.chance = GlobalRandom()
        before = len(level.recorder)
        former = _core.go_home(level.outer) if level.outer is not None else None
        try:
            args, kwargs = _fill(self.tree, values)
            result = self.f(*args, **kwargs)
        finally:
            if former is not None:
                _core.go_home(former)
        if len(level.recorder) != before:
            raise _closure()
        given = {id(v): leaf for v, leaf, is_array in zip(values, self.leaves, arrays, strict=True) if is_array}
        found: list[Any] = []
        tree = self._results(result, given, [v for v, on in zip(values, arrays, strict=True) if on], found)
        # What f wrote into its arguments is a result too. Below an outer derivative equal values may differ in that.
        self.written = [
            i for i, is_array in enumerate(arrays)
            if is_array and np.ndim(values[i])
            and (level.outer is not None or not same_bits(values[i], self.leaves[i]))
        ]  # fmt: skip
        self.arrays = [i for i, is_array in enumerate(arrays) if is_array]
        self.unchanged = [i for i in self.arrays if i not in self.written]
        duals = [_core.fresh(v, level) for v in (*found, *(values[i] for i in self.written))]
        targets = [_core.as_array(leaf) for leaf, on in zip(self.leaves, self.active, strict=True) if on]
        saved = [_core.as_array(leaf) if on else leaf for leaf, on in zip(self.leaves, self.active, strict=True)]
        level.recorder.record("checkpoint", self._pull, duals, targets, saved, always=True)
        del values
        outputs = [_core.finished(d, not np.ndim(_core.bottom(v))) for d, v in zip(duals, found, strict=False)]
        for i, dual in zip(self.written, duals[len(found) :], strict=True):
            if np.shape(dual) != np.shape(self.leaves[i]):
                raise NdualError(
                    f"expected a checkpoint to leave the shapes of its arguments; got {np.shape(self.leaves[i])} set "
                    f"to {np.shape(dual)} in place. Work on u.reshape(…), or on a copy"
                )
            self.leaves[i][...] = dual
        self.leaves = []  # the tape has what the sweep reads; the arrays themselves may go
        return _fill(tree, outputs)

    def _value(self, leaf: Any, active: bool) -> Any:
        """A leaf as the first run sees it: of active arrays a copy, and of others what cannot be written to."""
        if active:
            return _core.lowered(leaf)
        if type(leaf) is np.ndarray:
            leaf = leaf.view()
            leaf.flags.writeable = False
        return leaf

    def _results(self, obj: Any, given: dict[int, Any], arrays: list[Any], found: list[Any]) -> Any:
        """The structure of the results, whose floats are appended to `found`."""
        if type(obj) in (tuple, list) or hasattr(obj, "_fields"):
            parts = [self._results(part, given, arrays, found) for part in obj]
            return _Node(lambda values: _as(obj, [_fill(part, values) for part in parts]))
        if type(obj) is dict:
            entries = {key: self._results(part, given, arrays, found) for key, part in obj.items()}
            return _Node(lambda values: {key: _fill(part, values) for key, part in entries.items()})
        if id(obj) in given:
            leaf = given[id(obj)]
            return _Node(lambda values: leaf)
        if _core.is_active(obj, self.level):
            if not _core.is_constant(obj):
                raise _closure()
            obj = _core.lowered(obj)
        if type(obj) is not float and getattr(getattr(obj, "dtype", None), "kind", "") not in ("f", "c"):
            return _Node(lambda values: obj)
        if any(np.may_share_memory(_core.bottom(obj), _core.bottom(a)) for a in arrays):
            raise AliasError(
                "expected a checkpoint to return its arguments or arrays of their own; got a view of an argument. "
                "Return a copy, x.copy()"
            )
        number = len(found)
        found.append(np.float64(obj) if type(obj) is float else obj)
        return _Node(lambda values: values[number])

    def _pull(self, ws: list[Any], *kept: Any) -> list[Any]:
        """The cotangents of the active leaves, from a run with a tape of its own."""
        run = importlib.import_module("ndual.reverse.run")
        again = _Again(self, kept, run.new_tape())
        places = tuple(range(len(again.actives)))
        plan = Plan(again, tuple(kept[i] for i in again.actives), places, Outputs("jacobian"), mode="reverse")
        present = GlobalRandom()
        self.chance.restore()
        try:
            parts, _, _, _, lifted = plan.run.record(plan.values, again.tape)
            if again.wrote:
                raise NdualError(
                    "expected a checkpoint that returns what it computes, or changes the arguments that it writes to; "
                    "got one that wrote the very values that an argument had. Let it return a new array"
                )
            pairs = [(row, w) for row, w in zip(parts.rows, ws, strict=True) if row is not None and w is not None]
            again.tape.backward([row for row, _ in pairs], [w for _, w in pairs], True)
            return [again.tape.gradient(leaf) for leaf in lifted]
        finally:
            present.restore()
            again.tape.clear()


class _Again:
    """The function as one of its active leaves: an object, of which nothing is remembered from call to call."""

    def __init__(self, call: _Call, kept: tuple[Any, ...], tape: Any) -> None:
        self.call = call
        self.kept = kept
        self.tape = tape
        self.actives = [i for i, on in enumerate(call.active) if on]
        self.wrote = False

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        call = self.call
        values = list(self.kept)
        for i, leaf in zip(self.actives, leaves, strict=True):
            values[i] = leaf
        args, kwargs = _fill(call.tree, values)
        found: list[Any] = []
        _results_of(call.f(*args, **kwargs), {id(values[i]) for i in call.arrays}, found)
        self.wrote = call.level.outer is None and any(self.tape.wrote(values[i]) for i in call.unchanged)
        return tuple(found) + tuple(values[i] for i in call.written)


class _Node:
    """A place in a structure: what stands there, given the values of the leaves."""

    __slots__ = ("fill",)

    def __init__(self, fill: Callable[[list[Any]], Any]) -> None:
        self.fill = fill


def _fill(node: _Node, values: list[Any]) -> Any:
    return node.fill(values)


def _as(obj: Any, parts: list[Any]) -> Any:
    return type(obj)(*parts) if hasattr(obj, "_fields") else type(obj)(parts)


def _results_of(obj: Any, given: set[int], found: list[Any]) -> None:
    """The floats among the results of the second run, in the order of the first."""
    if type(obj) in (tuple, list) or hasattr(obj, "_fields"):
        for part in obj:
            _results_of(part, given, found)
    elif type(obj) is dict:
        for part in obj.values():
            _results_of(part, given, found)
    elif id(obj) not in given and (
        type(obj) is float or _core.is_dual(obj) or getattr(getattr(obj, "dtype", None), "kind", "") in ("f", "c")
    ):
        found.append(obj)


def _closure() -> NdualError:
    return NdualError(
        "expected a checkpoint to use only its arguments; got one that reads or writes an active value of the function "
        f"around it{_core.user_location()}. Pass it as an argument, or ndual.stop_gradient(x) of it"
    )
