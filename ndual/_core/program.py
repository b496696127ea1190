"""From the expressions of a row to the steps of the interpreter in C: common parts once, registers by last use."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from ndual._core.storage import HOST
from ndual.rules.expressions import (
    FUNCTIONS,
    ONE,
    ZERO,
    Binary,
    Call,
    Compare,
    Expr,
    Logic,
    Name,
    Negative,
    Num,
    Where,
    names_of,
    substitute,
)

# As in src/program.h and src/ndual_kernels.h.
AT_Y, AT_PARTIAL, AT_REGISTER, AT_CONSTANT, REGISTERS = 3, 4, 8, 32, 16
OPERATIONS = {
    name: k for k, name in enumerate(("loop", "copy", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "select"))
}
COEF_NONE, COEF_ZERO, COEF_ONE, COEF_NEG, COEF_ARRAY, COEF_X0 = range(6)
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power}
BITS = {"x0": 1, "x1": 2, "x2": 4, "y": 8}

Step = tuple[int, int, int, list[int], Any]
Program = tuple[list[int], list[int], list[Step], list[float]]


class _UnsupportedError(Exception):
    """Raised within `program`."""


def program(row: Any) -> Program | None:
    """The kinds of partials, what each reads, steps and constants; None where a function has no loop of its own."""
    writer = _Writer()
    coefs, needs = [], []
    try:
        writer.root(row.value_expr, AT_Y, 1)
        for i, partial in enumerate(row.partial_exprs):
            kind = _kind(partial)
            coefs.append(kind)
            if kind == COEF_ARRAY:
                needs.append(writer.root(partial, AT_PARTIAL + i, 2 << i))
            else:  # the kernels of products read the other operand
                needs.append(0 if partial is None else sum(BITS[name] for name in names_of(partial)))
        return coefs, needs, writer.steps(), writer.constants
    except _UnsupportedError:
        return None


def _kind(partial: Expr | None) -> int:
    if partial is None:
        return COEF_NONE
    if partial in (ZERO, ONE, Num(-1.0)):
        return {ZERO: COEF_ZERO, ONE: COEF_ONE}.get(partial, COEF_NEG)
    if partial in (Name("x0"), Name("x1")):
        return COEF_X0 + int(partial == Name("x1"))
    return COEF_ARRAY


class _Value:
    """What a step computes; its place is found last."""

    def __init__(self, op: str, sources: list[Any], ufunc: Any = None) -> None:
        self.op, self.sources, self.ufunc = op, sources, ufunc
        self.need = 0
        self.place = -1


class _Writer:
    def __init__(self) -> None:
        self.values: list[_Value] = []
        self.constants: list[float] = []
        self._known: dict[Expr, Any] = {}

    def root(self, expr: Expr, place: int, need: int) -> int:
        """Have an expression computed into the value or a partial; which operands and whether the value it reads."""
        found = self._source(expr)
        if not isinstance(found, _Value) or found.place >= 0 or found.need:
            found = self._add("copy", [found])
        found.place = place
        self._require(found, need)
        if place == AT_Y:  # from here on it is read as the value, which a pullback is given
            self._known[expr] = AT_Y
        return self._read(found)

    def _read(self, source: Any) -> int:
        """The places that a step reads in the end, as bits."""
        if not isinstance(source, _Value):
            return 1 << source if source <= AT_Y else 0
        return functools.reduce(operator.or_, map(self._read, source.sources), 0)

    def _require(self, value: Any, need: int) -> None:
        if isinstance(value, _Value) and value.need & need != need:
            value.need |= need
            for source in value.sources:
                self._require(source, need)

    def steps(self) -> list[Step]:
        """All steps, with registers."""
        last: dict[int, int] = {}
        for k, value in enumerate(self.values):
            for source in value.sources:
                if isinstance(source, _Value):
                    last[id(source)] = k
        free = list(range(AT_REGISTER, AT_REGISTER + REGISTERS))
        found = []
        for k, value in enumerate(self.values):
            if value.place < 0:
                if not free:
                    raise _UnsupportedError
                value.place = free.pop(0)
            sources = [s.place if isinstance(s, _Value) else s for s in value.sources]
            found.append((OPERATIONS[value.op], value.need, value.place, sources, value.ufunc))
            done = {s.place for s in value.sources if isinstance(s, _Value) and last[id(s)] == k}
            free = sorted({p for p in done if p >= AT_REGISTER} | set(free))
        return found

    def _add(self, op: str, sources: list[Any], ufunc: Any = None) -> _Value:
        value = _Value(op, sources, ufunc)
        self.values.append(value)
        return value

    def _source(self, expr: Expr) -> Any:
        """Where an expression is found: the number of a place, or a step."""
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._fresh(expr)
        return known

    def _loop(self, ufunc: Any, *args: Any) -> _Value:
        return self._add("loop", list(args), ufunc)

    def _fresh(self, expr: Expr) -> Any:
        match expr:
            case Num(value):
                if isinstance(value, complex):
                    raise _UnsupportedError
                self.constants.append(value)
                return AT_CONSTANT + len(self.constants) - 1
            case Name(id):
                return AT_Y if id == "y" else int(id[1:])
            case Negative(arg):
                return self._loop(np.negative, self._source(arg))
            case Binary("**", base, Num(2.0 | 3.0 | 4.0 as n)):
                a = self._source(base)
                square = self._loop(np.multiply, a, a)
                return square if n == 2 else self._loop(np.multiply, square, a if n == 3 else square)
            case Binary(op, left, right):
                return self._loop(ARITHMETIC[op], self._source(left), self._source(right))
            case Compare(op, left, right):
                return self._add(op, [self._source(left), self._source(right)])
            case Logic("not", (arg,)):
                return self._add("not", [self._source(arg)])
            case Logic(op, args):
                found = self._source(args[0])
                for arg in args[1:]:
                    found = self._add(op, [found, self._source(arg)])
                return found
            case Where(cond, then, other):
                return self._add("select", [self._source(cond), self._source(then), self._source(other)])
            case Call(fn, args):
                return self._call(fn, args, expr)

    def _call(self, fn: str, args: tuple[Expr, ...], expr: Expr) -> Any:
        function = FUNCTIONS[fn]
        ufunc = HOST.function(function.public)
        if isinstance(ufunc, np.ufunc) and ufunc.nin == len(args) <= 2 and ufunc.nout == 1:
            return self._loop(ufunc, *map(self._source, args))
        inline = function.value() if function.value is not None else expr
        if isinstance(inline, Call) and inline.fn == fn:
            raise _UnsupportedError
        return self._source(substitute(inline, {f"x{i}": arg for i, arg in enumerate(args)}))
