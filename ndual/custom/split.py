"""Functions that write into their arguments: a split rule of a run that keeps a tape, and a way back.

What was written is an output like any other; the arrays that stand among the arguments get it when the entry is on the
record, so that what they held before, and who reads it, is treated as in every other write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndual import _core
from ndual.custom.call import Call, Opaque
from ndual.custom.snapshot import snapshot
from ndual.custom.transpose import transposed
from ndual.errors import RuleError
from ndual.pullback import vjp
from ndual.structure import ARRAY

Function = Callable[..., Any]


class Kept:
    """On a tape, the place of an argument that is found there again as it was."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Split(Opaque):
    """``augmented`` and ``reverse``, and perhaps ``jvp``."""

    def __init__(
        self, f: Function, augmented: Function, reverse: Function, overwritten: frozenset[int], jvp: Function | None
    ) -> None:
        self.f = f
        self.name = getattr(f, "__qualname__", None) or repr(f)
        self.augmented = augmented
        self.reverse = reverse
        self.overwritten = overwritten
        self.jvp = jvp

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself; what it writes into may be memory of this derivative."""
        return _core.call_plain(self.f, args, kwargs, True)

    def run(self, call: Call, args: tuple[Any, ...]) -> Any:
        """The augmented run."""
        found = self.augmented(*args, **call.kwargs)
        if not isinstance(found, tuple) or len(found) != 2:
            got = f"a tuple of {len(found)}" if isinstance(found, tuple) else type(found).__name__
            raise RuleError(
                f"the augmented run of {self.name}: expected (output, tape); got {got}. "
                "Return (None, tape) where there is no output"
            )
        call.state = held(found[1], call.given, call.written)
        return found[0]

    def push(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], lanes: list[list[Any]]) -> list[list[Any]]:
        """By jvp, or by the reverse run transposed."""
        if self.jvp is not None:
            return [self._forth(self.jvp, call, x, y, ts) for ts in lanes]
        return pull_transposed(self, call, x, y, lanes)

    def _forth(self, jvp: Function, call: Call, x: Any, y: Any, ts: list[Any]) -> list[Any]:
        written = {k: _own(call.zero(call.leaves[k]) if ts[k] is None else ts[k]) for k in call.written}
        whole = [written.get(k, t) for k, t in enumerate(ts)]
        out = jvp(call.output(y), call.arguments(x), call.tangents(whole), **call.kwargs)
        parts = call.output_parts(out, "the jvp") if call.own_leaves else []
        return parts + [_core.constants(written[k]) for k in call.written]

    def pull(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], ws: list[Any]) -> list[Any]:
        """By the reverse run, on cotangents of its own."""
        shadows: list[Any] = [None] * len(call.leaves)
        for k, leaf in enumerate(call.leaves):
            if k in call.written:
                shadows[k] = _own(ws[call.own_leaves + call.written.index(k)])
            elif leaf.kind == ARRAY and call.active[k]:
                shadows[k] = _lazy(call.zero(leaf))
        given = call.each(shadows)
        if call.own_leaves:
            given = (call.cotangent(ws), *given)
        returned = self.reverse(found_again(call.state, x), *given)
        found = [None if s is None else _core.constants(s) for s in shadows]
        if returned is None:
            for k, leaf in enumerate(call.leaves):
                if shadows[k] is None and call.active[k]:
                    raise RuleError(
                        f"the reverse run of {self.name}: expected the cotangent of {leaf.name}, a number, to be "
                        "returned; got None for all arguments. Return a tuple with one entry for each, None for arrays"
                    )
            return found
        for k, part in enumerate(call.argument_parts(returned, "the reverse run")):
            if part is None:
                continue
            if shadows[k] is not None:
                raise RuleError(
                    f"the reverse run of {self.name}: expected cotangents of arrays to be added to in place; got one "
                    "returned. Write dx += … and return None for it"
                )
            found[k] = part
        return found


class Delegated(Opaque):
    """A function that writes into its arguments, differentiated by ndual: forward as it is, reverse on its own tape."""

    def __init__(self, f: Function, overwritten: frozenset[int]) -> None:
        self.f = f
        self.name = getattr(f, "__qualname__", None) or repr(f)
        self.overwritten = overwritten

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function as it stands."""
        return self.f(*args, **kwargs)

    def transparent(self, level: Any) -> bool:
        """Whether there is nothing to do but to call the function."""
        return level.recorder is None

    def run(self, call: Call, args: tuple[Any, ...]) -> Any:
        """A run with a tape, of what is active and what is overwritten."""
        chosen = [k for k in range(len(call.leaves)) if call.active[k] or k in call.written]
        f, leaves, written = self.f, call.given, call.written

        def functional(*values: Any) -> Any:
            whole = list(leaves)
            for k, value in zip(chosen, values, strict=True):
                whole[k] = value
            with call.unchanged(whole):  # besides what is named, whose cotangents would be those after the write
                out = f(*call.arguments(whole), **call.kwargs)
            return out, tuple(whole[k] for k in written)

        (out, arrays), pullback = vjp(functional, *(leaves[k] for k in chosen))
        for k, array in zip(written, arrays, strict=True):
            leaves[k][...] = array
        call.state = chosen, pullback
        return out

    def pull(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], ws: list[Any]) -> list[Any]:
        """Through that tape."""
        chosen, pullback = call.state
        found: list[Any] = [None] * len(call.leaves)
        for k, part in zip(chosen, pullback((call.cotangent(ws), tuple(ws[call.own_leaves :]))), strict=True):
            found[k] = part
        return found

    def push(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], lanes: list[list[Any]]) -> list[list[Any]]:
        """The transpose of that."""
        return pull_transposed(self, call, x, y, lanes)


def pull_transposed(rule: Opaque, call: Call, x: Any, y: Any, lanes: list[list[Any]]) -> list[list[Any]]:
    """The tangents of the output by the transpose of a rule's way back."""
    active = [k for k, t in enumerate(lanes[0]) if t is not None]

    def back(*ws: Any) -> list[Any]:
        found = rule.pull(call, x, y, list(ws))
        return [call.zero(call.leaves[k]) if found[k] is None else found[k] for k in active]

    forth = transposed(back, [call.zero(leaf) for leaf in call.out_leaves], rule.name, "reverse", "jvp")
    return [forth([ts[k] for k in active]) for ts in lanes]


def held(tape: Any, given: Sequence[Any], written: Sequence[int]) -> Any:
    """A tape with places for the arguments on it, and copies of views, and of what was written."""
    if type(tape) in (tuple, list):
        return type(tape)(held(part, given, written) for part in tape)
    if isinstance(tape, tuple) and hasattr(tape, "_fields"):
        return type(tape)(*(held(part, given, written) for part in tape))
    if type(tape) is dict:
        return {key: held(part, given, written) for key, part in tape.items()}
    if not isinstance(tape, np.ndarray):
        return snapshot(tape)
    for k, leaf in enumerate(given):
        if tape is leaf:
            return tape.copy() if k in written else Kept(k)
    cells = _core.bottom(tape)
    if any(np.may_share_memory(cells, _core.bottom(leaf)) for leaf in given if isinstance(leaf, np.ndarray)):
        return tape.copy()
    return tape


def found_again(tape: Any, x: Sequence[Any]) -> Any:
    """The tape with the arguments as they were."""
    if type(tape) in (tuple, list):
        return type(tape)(found_again(part, x) for part in tape)
    if isinstance(tape, tuple) and hasattr(tape, "_fields"):
        return type(tape)(*(found_again(part, x) for part in tape))
    if type(tape) is dict:
        return {key: found_again(part, x) for key, part in tape.items()}
    return x[tape.number] if type(tape) is Kept else tape


def _own(array: Any) -> Any:
    return array.copy() if _core.is_dual(array) else _lazy(np.array(array))


def _lazy(array: Any) -> Any:
    """An array that takes active values, where a derivative is taken around."""
    return array if _core.current_level() is None else _core.lazy(array)
