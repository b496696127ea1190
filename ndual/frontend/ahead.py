"""What code does with the result of an operation next, read from the instruction that is being carried out.

A result may stay uncomputed only if nothing can happen before it is used. That is so where the instruction is the
operation itself, an operator or the call of a function by its name, and the very next one hands its result to a full
sum: ``np.sum(np.cos(x))``, ``(x * y).sum()``, ``np.sum(np.kron(a, b))``, on the host to a mean too. Nothing but the
interpreter then has the result, no name is bound to it, and between the two instructions no line of the thread runs
that could write into an operand. Everything else, a name in between as well, is computed at once.
"""

from __future__ import annotations

import bisect
import dis
import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ndual import _core
from ndual.frontend._gate import Gate
from ndual.rules import registry

__all__ = ["summed_here", "summed_next", "total_here"]

OPERATORS = {"+": ("add",), "-": ("subtract",), "*": ("multiply",), "/": ("divide",), "**": ("power", "square", "sqrt")}
SUMS = (np.sum, np.mean)  # what the core takes from a sum, divided or not
LARGE = 1e300  # a bound of sums below which nothing in them overflows
FILLERS = ("CACHE", "EXTENDED_ARG", "NOP", "PRECALL")
SKIPPED = frozenset(dis.opmap.get(name, 0) for name in FILLERS)
LEADING = frozenset(dis.opmap.get(name, 0) for name in ("CALL", "LOAD_ATTR", "LOAD_METHOD"))


class Step(NamedTuple):
    """An operation whose result is summed: its rows, or the path of what is called; that of the sum, or its method."""

    rows: tuple[str, ...]
    called: tuple[str, ...]
    total: tuple[str, ...]
    method: str = ""


class Code:
    """What is known of a code object, whose instructions are read once, and only if they may lead to a sum."""

    def __init__(self, code: types.CodeType) -> None:
        number = id(code)
        self.code = weakref.ref(code, lambda _: _codes.pop(number, None))
        self.bytes = code.co_code
        self.found: dict[int, Step | None] = {}

    def may_sum(self, at: int) -> bool:
        """Whether the instruction behind one is a call, or looks something up for one."""
        for i in range(at + 2, len(self.bytes), 2):
            if self.bytes[i] not in SKIPPED:
                return self.bytes[i] in LEADING
        return False

    @functools.cached_property
    def steps(self) -> list[dis.Instruction]:
        """Those that do something."""
        code = self.code()
        return [i for i in dis.get_instructions(code) if i.opname not in FILLERS] if code is not None else []

    def place(self, at: int) -> int:
        """The number of the one at an offset; Python 3.11 may do a call at the filler before it."""
        k = bisect.bisect_left(self.steps, at, key=lambda step: step.offset)
        exact = k < len(self.steps) and self.steps[k].offset == at
        return k if exact or self.bytes[at] == dis.opmap.get("PRECALL") else len(self.steps)


_codes: dict[int, Code] = {}


def summed_here(row: Any) -> bool:
    """Whether the code that runs is at a row of the table, on the host, whose result it hands to the sum next."""
    return summed_next(sys._getframe(1), row, registry.lookup, SUMS)


def summed_next(
    frame: types.FrameType, row: Any, ufunc_of: Callable[[str], Any], totals: tuple[Callable[..., Any], ...]
) -> bool:
    """Whether a frame is at a row of the table whose result it hands to the sum of all cells next.

    Parameters
    ----------
    frame : frame
        It runs the code that asked for the operation.
    row : Elementwise
        The row that is being applied.
    ufunc_of : callable
        What a public name of a ufunc of NumPy or SciPy stands for in the array library.
    totals : tuple of callables
        The functions for the sum; where a gate stands in for one, it is one of the array.
    """
    step = _at(frame)
    if step is None:
        return False
    if not _sums(frame, step, totals):  # the most frequent answer comes first: what is called is another function
        return False
    if not step.called:
        return row.name in step.rows
    function = _function(frame, step.called)
    return function is not None and any(function is f for f in _functions(row.serves, ufunc_of))


def total_here(frame: types.FrameType, rule: Any, function: Any, args: tuple[Any, ...]) -> Any:
    """What stands for the result of a function that a frame calls by its name and hands to the sum of all cells next.

    None where the result is computed: also where a cell of it may overflow or is not finite, so that its sum is not
    what `rule` says, and where the value must be NumPy's to the bit.
    """
    step = _at(frame)
    if step is None or not step.called or not _sums(frame, step, SUMS) or len(args) != 2:
        return None
    if _function(frame, step.called) is not function or not _core.left_to_sums():
        return None
    bound, count = 1.0, 1
    for x in map(_core.primal, args):
        if type(x) is not np.ndarray or x.dtype != np.float64 or x.size == 0:
            return None
        bound *= float(np.max(np.abs(x))) * x.size
        count *= x.size
    if not bound < LARGE:
        return None
    args = tuple([x if _core.is_dual(x) else x.copy() for x in args])  # which f may write to, or has in an argument
    return _core.awaited(rule.total(_core.namespace(next(filter(_core.is_dual, args))), *args), count, function, args)


def _at(frame: types.FrameType) -> Step | None:
    """The operation that a frame is at."""
    code, at = frame.f_code, frame.f_lasti
    known = _codes.get(id(code))  # a weak dictionary would compare codes by their contents, which takes microseconds
    if known is None or known.code() is not code:
        known = _codes[id(code)] = Code(code)
    if at not in known.found:
        known.found[at] = _step(known, at)
    return known.found[at]


def _sums(frame: types.FrameType, step: Step, totals: tuple[Callable[..., Any], ...]) -> bool:
    """Whether what the result of an operation is handed to is one of the sums."""
    if step.method:
        return any(step.method == f.__name__ for f in totals)
    found = _found(frame, step.total)
    original = _original(found)
    if found is original and not (found is np.sum or found is np.mean):
        return False  # a function of another library asks no protocol
    return original in [_original(total) for total in totals]


def _function(frame: types.FrameType, path: tuple[str, ...]) -> Any:
    """The function itself that a path of names stands for, or that a gate stands in for."""
    return _original(_found(frame, path))


@functools.cache
def _functions(names: tuple[str, ...], ufunc_of: Callable[[str], Any]) -> tuple[Any, ...]:
    """What stands for public names in NumPy or SciPy, and in the array library."""
    return tuple([_original(find(dotted)) for dotted in names for find in (registry.lookup, ufunc_of)])


def _original(found: Any) -> Any:
    """A function, or the one that a gate stands in for."""
    return found.original if type(found) is Gate else found


def _found(frame: types.FrameType, path: tuple[str, ...]) -> Any:
    """What a path of names stands for: a global name, and attributes of modules."""
    found = frame.f_globals.get(path[0])
    for name in path[1:]:
        if not isinstance(found, types.ModuleType):
            return None
        found = getattr(found, name, None)
    return found


def _step(code: Code, at: int) -> Step | None:
    """The operation at an offset of code; None if it is none, or if its result goes anywhere but into a sum."""
    if not code.may_sum(at):
        return None
    steps, k = code.steps, code.place(at)
    if k + 1 >= len(steps):
        return None
    first = _begin(steps, k)
    rows: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    here, after = steps[k], steps[k + 1]
    if first is None:
        return None
    if here.opname == "BINARY_OP":
        rows = OPERATORS.get(here.argrepr, ())
    elif here.opname == "UNARY_NEGATIVE":
        rows = ("negative",)
    elif here.opname == "CALL" and steps[k - 1].opname != "KW_NAMES":
        path = _path(steps, first)[0]
    if not rows and not path:
        return None
    if after.opname == "CALL":
        outer = _begin(steps, k + 1)
        total, end = _path(steps, outer) if outer is not None else ((), 0)
        return Step(rows, path, total) if total and end == first else None
    called = steps[k + 2] if k + 2 < len(steps) else None
    method = after.argval if after.opname in ("LOAD_ATTR", "LOAD_METHOD") and after.argval in ("sum", "mean") else ""
    plain = called is not None and (called.opname, called.arg) == ("CALL", 0)
    return Step(rows, path, (), method) if method and plain else None


def _begin(steps: list[dis.Instruction], k: int) -> int | None:
    """The first instruction of the expression whose value instruction k leaves; None where code jumps within."""
    depth = 1
    for i in range(k, -1, -1):
        step = steps[i]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return None
        depth -= _effect(step)
        if depth == 0:
            return i
    return None


def _effect(step: dis.Instruction) -> int:
    """What an instruction adds to the stack; in Python 3.11 half of that of a call stands at its filler."""
    effect = dis.stack_effect(step.opcode, step.arg, jump=False)
    if step.opname == "CALL" and "PRECALL" in dis.opmap:
        effect += dis.stack_effect(dis.opmap["PRECALL"], step.arg, jump=False)
    return effect


def _path(steps: list[dis.Instruction], i: int) -> tuple[tuple[str, ...], int]:
    """The names by which a call that begins at an instruction finds what it calls, and the instruction behind them."""
    filled = steps[i].opname == "PUSH_NULL"
    i += filled
    load = steps[i]
    if load.opname != "LOAD_GLOBAL":
        return (), i
    names = [load.argval]
    filled |= "NULL" in load.argrepr
    i += 1
    while steps[i].opname in ("LOAD_ATTR", "LOAD_METHOD"):
        names.append(steps[i].argval)
        filled |= steps[i].opname == "LOAD_METHOD" or "NULL" in steps[i].argrepr
        i += 1
    if not filled and steps[i].opname == "PUSH_NULL":
        i += 1
    return tuple(names), i
