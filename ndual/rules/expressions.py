"""Expression trees of the rule language, their algebra and their symbolic derivative.

The trees are immutable and know no formula: rows declare the functions. No text is read or printed here, see
``language``; everything is standard library so that the build can use it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Num:
    """A number; complex only in rows that have no C form."""

    value: float | complex


@dataclass(frozen=True, slots=True)
class Name:
    """An operand ``x0`` … ``x3``, the output ``y``, or one of the extra names of a formula."""

    id: str


@dataclass(frozen=True, slots=True)
class Negative:
    """Minus its argument."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """One of ``+ - * / **``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two numbers."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logic:
    """``and``, ``or`` of conditions, or ``not`` of one."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Where:
    """``then if cond else other``; every printed form may evaluate both sides."""

    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the table applied to expressions."""

    fn: str
    args: tuple[Expr, ...]


Expr = Num | Name | Negative | Binary | Compare | Logic | Where | Call
ZERO, ONE = Num(0.0), Num(1.0)


@dataclass(frozen=True, eq=False)
class Function:
    """What the language must know of a function: `public` is its dotted name, `row` the row that differentiates it.

    `value` is an expression to be printed where the function has no C name; `partials` are asked for late, since
    rows refer to each other (sin and cos).
    """

    nin: int
    public: str
    value: Callable[[], Expr] | None = None
    partials: Callable[[], tuple[Expr | None, ...]] | None = None


FUNCTIONS: dict[str, Function] = {}


class NoDerivative(ValueError):  # noqa: N818 - named as what it says, like the errors of ndual.errors
    """An expression was differentiated through an operand that has no derivative."""


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}


def fold(op: str, left: Expr, right: Expr) -> Expr:
    """A binary node, computed at once where both sides are numbers.

    Left to NumPy, ``sqrt(pi)`` would be a float64 scalar and would widen float32 operands.
    """
    if isinstance(left, Num) and isinstance(right, Num):
        if op == "/" and right.value == 0:
            raise ValueError("a constant is divided by zero; write inf or nan")
        return Num(_ARITHMETIC[op](left.value, right.value))
    return Binary(op, left, right)


def add(a: Expr, b: Expr) -> Expr:
    """``a + b`` without zeros."""
    if a == ZERO:
        return b
    if b == ZERO:
        return a
    if isinstance(b, Negative):
        return subtract(a, b.arg)
    return fold("+", a, b)


def subtract(a: Expr, b: Expr) -> Expr:
    """``a - b`` without zeros."""
    if b == ZERO:
        return a
    if a == ZERO:
        return negative(b)
    if isinstance(b, Negative):
        return add(a, b.arg)
    return fold("-", a, b)


def negative(a: Expr) -> Expr:
    """``-a`` without double signs."""
    if isinstance(a, Num):
        return Num(-a.value) if a.value != 0 else a
    return a.arg if isinstance(a, Negative) else Negative(a)


def multiply(a: Expr, b: Expr) -> Expr:
    """``a * b`` where a constant zero wins over everything (the strong zero) and ones vanish."""
    if ZERO in (a, b):
        return ZERO
    if a == ONE:
        return b
    if b == ONE:
        return a
    if a == Num(-1.0) or isinstance(a, Negative):
        return negative(multiply(a.arg, b) if isinstance(a, Negative) else b)
    if b == Num(-1.0) or isinstance(b, Negative):
        return negative(multiply(a, b.arg) if isinstance(b, Negative) else a)
    return fold("*", a, b)


def divide(a: Expr, b: Expr) -> Expr:
    """``a / b`` where a constant zero wins and ones vanish."""
    if a == ZERO:
        return ZERO
    if b == ONE:
        return a
    if isinstance(a, Negative):
        return negative(divide(a.arg, b))
    return fold("/", a, b)


def where(cond: Expr, then: Expr, other: Expr) -> Expr:
    """``then if cond else other``, collapsed where both sides are the same."""
    return then if then == other else Where(cond, then, other)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace names by expressions.

    Examples
    --------
    >>> from ndual.rules import elementwise, language
    >>> square = language.parse("x0 * x0", 1)
    >>> language.to_text(language.substitute(square, {"x0": language.parse("sin(x0)", 1)}))
    '(sin(x0) * sin(x0))'
    """
    match expr:
        case Num():
            return expr
        case Name(id):
            return values.get(id, expr)
        case Negative(arg):
            return Negative(substitute(arg, values))
        case Binary(op, left, right):
            return Binary(op, substitute(left, values), substitute(right, values))
        case Compare(op, left, right):
            return Compare(op, substitute(left, values), substitute(right, values))
        case Logic(op, args):
            return Logic(op, tuple(substitute(arg, values) for arg in args))
        case Where(cond, then, other):
            return Where(substitute(cond, values), substitute(then, values), substitute(other, values))
        case Call(fn, args):
            return Call(fn, tuple(substitute(arg, values) for arg in args))


def names_of(expr: Expr) -> frozenset[str]:
    """The operands that an expression reads; a tape keeps only those."""
    match expr:
        case Name(id):
            return frozenset((id,))
        case Negative(arg):
            return names_of(arg)
        case Binary(_, left, right) | Compare(_, left, right):
            return names_of(left) | names_of(right)
        case Where(cond, then, other):
            return names_of(cond) | names_of(then) | names_of(other)
        case Logic(_, args) | Call(_, args):
            return frozenset().union(*(names_of(arg) for arg in args))
    return frozenset()


def proportional_to(expr: Expr) -> frozenset[str]:
    """The names of which an expression is a multiple: a name times or over something that does not hold it."""
    match expr:
        case Name(name):
            return frozenset({name})
        case Negative(arg):
            return proportional_to(arg)
        case Binary("*", left, right):
            return (proportional_to(left) - names_of(right)) | (proportional_to(right) - names_of(left))
        case Binary("/", left, right):
            return proportional_to(left) - names_of(right)
    return frozenset()


def differentiate(expr: Expr, name: str) -> Expr:
    """The derivative with respect to one name, all other names held fixed (``y`` too: the caller adds its share).

    Examples
    --------
    >>> from ndual.rules import elementwise, language
    >>> language.to_text(language.differentiate(language.parse("x0 * sin(x0)", 1), "x0"))
    '(sin(x0) + (x0 * cos(x0)))'
    """
    if name not in names_of(expr):
        return ZERO
    match expr:
        case Name():
            return ONE
        case Negative(arg):
            return negative(differentiate(arg, name))
        case Binary("**", base, Num(n)):
            power = Num(n - 1) if n != 2 else ONE
            lowered = base if power == ONE else Binary("**", base, power)
            return multiply(multiply(Num(n), lowered), differentiate(base, name))
        case Binary("**", base, exponent):
            return differentiate(Call("power", (base, exponent)), name)
        case Binary(op, left, right):
            return _product_rule(op, left, right, differentiate(left, name), differentiate(right, name), expr)
        case Where(cond, then, other):
            return where(cond, differentiate(then, name), differentiate(other, name))
        case Call("real" | "imag" as fn, (arg,)):
            # Linear, though not holomorphic; operands are real where a row takes parts of something complex.
            return Call(fn, (differentiate(arg, name),))
        case Call(fn, args):
            total: Expr = ZERO
            inner = {f"x{i}": arg for i, arg in enumerate(args)} | {"y": expr}
            partials = FUNCTIONS[fn].partials
            for i, arg in enumerate(args):
                step = differentiate(arg, name)
                if step == ZERO:
                    continue
                partial = partials()[i] if partials is not None else None
                if partial is None:
                    raise NoDerivative(f"{fn} has no derivative by its operand {i}")
                total = add(total, multiply(substitute(partial, inner), step))
            return total
    return ZERO


def _product_rule(op: str, left: Expr, right: Expr, dleft: Expr, dright: Expr, whole: Expr) -> Expr:
    if op == "+":
        return add(dleft, dright)
    if op == "-":
        return subtract(dleft, dright)
    if op == "*":
        return add(multiply(dleft, right), multiply(left, dright))
    return divide(subtract(dleft, multiply(whole, dright)), right)
