"""The expression language of the rule table: read, checked, and printed as text, as C and as NumPy.

An expression is a small subset of Python's, read with ``ast`` into the trees of ``expressions``. Nothing here knows
a formula: rows declare the functions. Everything is standard library so that the build can use it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection
from typing import Any

from ndual.rules.expressions import (
    FUNCTIONS,
    Binary,
    Call,
    Compare,
    Expr,
    Function,
    Logic,
    Name,
    Negative,
    NoDerivative,
    Num,
    Where,
    differentiate,
    fold,
    names_of,
    substitute,
)

__all__ = [
    "FUNCTIONS",
    "Call",
    "Expr",
    "Function",
    "Name",
    "NoDerivative",
    "Num",
    "Where",
    "differentiate",
    "is_complex",
    "names_of",
    "parse",
    "substitute",
    "to_c",
    "to_numpy",
    "to_text",
]

CONSTANTS = {
    "pi": math.pi,
    "e": math.e,
    "ln2": math.log(2.0),
    "ln10": math.log(10.0),
    "log2e": 1.4426950408889634,
    "log10e": 0.4342944819032518,
    "euler": 0.5772156649015329,
    "inf": math.inf,
    "nan": math.nan,
}

_SAME_IN_C = (
    "cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 floor fmax fmin fmod hypot "
    "log log10 log1p log2 nextafter rint sin sinh sqrt tan tanh trunc"
)
# The C99 spelling of functions whose name in NumPy or SciPy differs, or a template where a cast is needed.
C_NAMES = {
    "absolute": "fabs",
    "fabs": "fabs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "power": "pow",
    "gamma": "tgamma",
    "gammaln": "lgamma",
    "ldexp": "ldexp{f}({0}, (int)({1}))",
    "math_remainder": "remainder",
} | {name: name for name in _SAME_IN_C.split()}
_COMPLEX_IN_C = "arccos arccosh arcsin arcsinh arctan arctanh cos cosh exp imag log log10 real sin sinh sqrt tan tanh"
# The spelling of C++ over complex numbers, of the functions for which all libraries agree.
COMPLEX_NAMES = {
    "absolute": "abs",
    "angle": "arg",
    "conjugate": "conj",
} | {name: C_NAMES.get(name, name) for name in _COMPLEX_IN_C.split()}
_REAL_PARTS = ("absolute", "angle", "real", "imag")

ALIASES = {"abs": "absolute", "conj": "conjugate"}

_FOLDED: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def parse(text: str, nin: int, extra: Collection[str] = ()) -> Expr:
    """Read an expression in ``x0`` … ``x{nin-1}``, ``y`` and the names in `extra`; a ValueError says what is wrong.

    Examples
    --------
    >>> from ndual.rules import elementwise, language
    >>> language.to_c(language.parse("0.5 / y", 1), "double")
    '(0.5 / y)'
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not an expression: {error.msg}") from None
    names = {f"x{i}" for i in range(nin)} | {"y"} | set(extra)
    try:
        expr = _convert(tree, names)
        _number(expr)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return expr


def _convert(node: ast.expr, names: Collection[str]) -> Expr:
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("True and False are not numbers here; write a comparison")
        case ast.Constant(value=int() | float() as value):
            return Num(float(value))
        case ast.Constant(value=complex() as value):
            return Num(value)
        case ast.Name(id=id):
            if id in names:
                return Name(id)
            if id in CONSTANTS:
                return Num(CONSTANTS[id])
            known = ", ".join(sorted(names))
            raise ValueError(f"expected one of {known} or a named constant; got {id!r}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            arg = _number(_convert(operand, names))
            return Num(-arg.value) if isinstance(arg, Num) else Negative(arg)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Logic("not", (_condition(_convert(operand, names)),))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return fold(_BINARY[type(op)], _number(_convert(left, names)), _number(_convert(right, names)))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            terms = [_number(_convert(term, names)) for term in (left, *comparators)]
            parts: list[Expr] = []
            for op_node, a, b in zip(ops, terms, terms[1:], strict=False):
                if type(op_node) not in _COMPARE:
                    raise ValueError(f"expected one of {' '.join(_COMPARE.values())}; got {type(op_node).__name__}")
                parts.append(Compare(_COMPARE[type(op_node)], a, b))
            return parts[0] if len(parts) == 1 else Logic("and", tuple(parts))
        case ast.BoolOp(op=op, values=values):
            word = "and" if isinstance(op, ast.And) else "or"
            return Logic(word, tuple(_condition(_convert(value, names)) for value in values))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            cond = _condition(_convert(test, names))
            return Where(cond, _number(_convert(body, names)), _number(_convert(orelse, names)))
        case ast.Call(func=ast.Name(id=fn), args=arguments, keywords=[]):
            fn = ALIASES.get(fn, fn)
            if fn not in FUNCTIONS:
                raise ValueError(f"the function {fn!r} has no row in the table")
            if len(arguments) != FUNCTIONS[fn].nin:
                raise ValueError(f"{fn} takes {FUNCTIONS[fn].nin} arguments; got {len(arguments)}")
            args = tuple(_number(_convert(argument, names)) for argument in arguments)
            if all(isinstance(arg, Num) for arg in args):
                return _constant_call(fn, args)
            return Call(fn, args)
    raise ValueError(f"{ast.unparse(node)!r} ({type(node).__name__}) is not in the language")


def _number(expr: Expr) -> Expr:
    if isinstance(expr, Compare | Logic):
        raise ValueError("a condition stands where a number is expected; write `1 if … else 0`")
    return expr


def _condition(expr: Expr) -> Expr:
    if not isinstance(expr, Compare | Logic):
        raise ValueError("a number stands where a condition is expected; compare it, e.g. `x0 != 0`")
    return expr


def _constant_call(fn: str, args: tuple[Expr, ...]) -> Num:
    value = args[0].value if isinstance(args[0], Num) else 0.0
    if fn not in _FOLDED or isinstance(value, complex):
        raise ValueError(f"{fn} of a constant; of constants only {', '.join(_FOLDED)} are computed, write the number")
    return Num(_FOLDED[fn](value))


def to_text(expr: Expr) -> str:
    """The expression as one would write it in a row.

    Examples
    --------
    >>> from ndual.rules import elementwise, language
    >>> language.to_text(language.parse("1 if x0>0 else -x0", 1))
    '(1 if x0 > 0 else -x0)'
    """
    match expr:
        case Num(value):
            return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else repr(value)
        case Name(id):
            return id
        case Negative(arg):
            return f"-{to_text(arg)}"
        case Binary(op, left, right):
            signed = op == "**" and isinstance(left, Negative | Num)
            return f"({f'({to_text(left)})' if signed else to_text(left)} {op} {to_text(right)})"
        case Compare(op, left, right):
            return f"{to_text(left)} {op} {to_text(right)}"
        case Logic("not", (arg,)):
            return f"(not ({to_text(arg)}))"
        case Logic(op, args):
            return "(" + f" {op} ".join(to_text(arg) for arg in args) + ")"
        case Where(cond, then, other):
            return f"({to_text(then)} if {to_text(cond)} else {to_text(other)})"
        case Call(fn, args):
            return f"{fn}({', '.join(to_text(arg) for arg in args)})"


def to_c(expr: Expr, ctype: str, real: Collection[str] = ()) -> str | None:
    """The expression in C99 for ``"double"`` or ``"float"``; None if one of its functions has no C form.

    For ``"complex<double>"`` and ``"complex<float>"`` it is C++, where the names in `real` are real numbers.

    Operands keep their names. Conditions use ``&`` and ``|``, so that nothing branches; a compiler turns the whole
    into vector blends under ``-fno-math-errno -fno-trapping-math``, which change no result.

    Examples
    --------
    >>> from ndual.rules import elementwise, language
    >>> language.to_c(language.parse("1 if x0 > 0 else sqrt(x0)", 1), "float")
    '((x0 > 0.0f) ? 1.0f : sqrtf(x0))'
    """
    if ctype not in _FORMS:
        raise ValueError(f"expected one of {', '.join(map(repr, _FORMS))}; got {ctype!r}")
    try:
        return _FORMS[ctype](expr, frozenset(real))
    except _NoCFormError:
        return None


class _NoCFormError(Exception):
    """Raised within `to_c`."""


def is_complex(expr: Expr, real: Collection[str] = ()) -> bool:
    """Whether the expression is a complex number where all names but those in `real` are.

    Examples
    --------
    >>> from ndual.rules import elementwise, language
    >>> language.is_complex(language.parse("x0 * abs(x0)", 1)), language.is_complex(language.parse("abs(x0)", 1))
    (True, False)
    """
    match expr:
        case Num(value):
            return isinstance(value, complex)
        case Name(id):
            return id not in real
        case Call(fn, args):
            return fn not in _REAL_PARTS and any(is_complex(arg, real) for arg in args)
        case Negative(arg):
            return is_complex(arg, real)
        case Binary(_, left, right):
            return is_complex(left, real) or is_complex(right, real)
        case Where(_, then, other):
            return is_complex(then, real) or is_complex(other, real)
    return False


class _C:
    """How a number type is printed: the suffix of literals and functions, and the type itself if it is complex."""

    def __init__(self, suffix: str, kind: str = "") -> None:
        self.suffix, self.kind = suffix, kind

    def __call__(self, expr: Expr, real: frozenset[str]) -> str:
        def inner(part: Expr) -> str:
            return self(part, real)

        match expr:
            case Num(value):
                return self._number(value)
            case Name(id):
                return id
            case Negative(arg):
                return f"(-{inner(arg)})"
            case Binary("**", Name() as base, Num(2.0 | 3.0 | 4.0 as n)):
                return "(" + " * ".join([inner(base)] * int(n.real)) + ")"
            case Binary("**", base, exponent):
                return self._power(expr, inner(base), inner(exponent))
            case Compare(op, left, right):
                if self.kind and op not in ("==", "!=") and (is_complex(left, real) or is_complex(right, real)):
                    raise _NoCFormError
                return f"({inner(left)} {op} {inner(right)})"
            case Binary(op, left, right):
                return f"({inner(left)} {op} {inner(right)})"
            case Logic("not", (arg,)):
                return f"(!{inner(arg)})"
            case Logic(op, args):
                return "(" + (" & " if op == "and" else " | ").join(inner(arg) for arg in args) + ")"
            case Where(cond, then, other):
                return f"({inner(cond)} ? {inner(then)} : {inner(other)})"
            case Call(fn, args):
                name = self._name(expr, real)
                if name is not None:
                    texts = [inner(arg) for arg in args]
                    return name.format(*texts, f=self.suffix) if "{" in name else f"{name}({', '.join(texts)})"
                given = FUNCTIONS[fn].value
                inline = given() if given is not None else expr
                if isinstance(inline, Call) and inline.fn == fn:
                    raise _NoCFormError
                return inner(substitute(inline, {f"x{i}": arg for i, arg in enumerate(args)}))

    def _number(self, value: float | complex) -> str:
        if isinstance(value, complex):
            if not self.kind:
                raise _NoCFormError
            return f"{self.kind}({value.real!r}{self.suffix}, {value.imag!r}{self.suffix})"
        cast = f"({self.kind[8:-1]})" if self.kind else ""
        if value != value:
            return f"{cast}NAN"
        return f"{'-' if value < 0 else ''}{cast}INFINITY" if abs(value) == math.inf else f"{value!r}{self.suffix}"

    def _power(self, expr: Binary, base: str, exponent: str) -> str:
        if not self.kind:
            return f"pow{self.suffix}({base}, {exponent})"
        # Libraries disagree about complex powers at zero; small whole ones are products.
        if not (isinstance(expr.right, Num) and expr.right.value in (2.0, 3.0, 4.0)):
            raise _NoCFormError
        return f"nd_raised({base}, {int(expr.right.value.real)})"

    def _name(self, expr: Call, real: frozenset[str]) -> str | None:
        if not self.kind:
            name = C_NAMES.get(expr.fn)
            return name if name is None or "{" in name else name + self.suffix
        if expr.fn in ("real", "conjugate") and not is_complex(expr.args[0], real):
            return "{0}"
        return COMPLEX_NAMES.get(expr.fn)


_FORMS = {
    "double": _C(""),
    "float": _C("f"),
    "complex<double>": _C("", "complex<double>"),
    "complex<float>": _C("f", "complex<float>"),
}


def to_numpy(expr: Expr, lookup: Callable[[str], Any]) -> Callable[..., Any]:
    """Compile the expression for any array library: ``function(x, y=None, d=())``.

    `x` is the tuple of operands, `y` the output, `d` the tuple behind ``dx0``, ``dx1``, … and ``w`` (its first).
    `lookup` maps a dotted public name ("numpy.sin", "scipy.special.digamma") to the function to be called, and is
    asked once, here. A result without operands is a Python number; the caller broadcasts and casts.

    Examples
    --------
    >>> import math
    >>> from ndual.rules import elementwise, language
    >>> cosine = language.to_numpy(language.parse("cos(2 * x0)", 1), lambda dotted: getattr(math, dotted.split(".")[1]))
    >>> cosine((0.0,))
    1.0
    """
    # What the form calls is called by the rules, not by the user.
    scope: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "__name__": __name__}
    text = _python(expr, scope, lookup)
    form: Callable[..., Any] = eval(f"lambda x, y=None, d=(): {text}", scope)
    return form


def _python(expr: Expr, scope: dict[str, Any], lookup: Callable[[str], Any]) -> str:
    def inner(part: Expr) -> str:
        return _python(part, scope, lookup)

    match expr:
        case Num(float() as value) if value.is_integer() and abs(value) < 128:
            return f"({int(value)})"  # an int keeps the integer order of a Bessel function an integer
        case Num(value):
            return f"({value!r})"
        case Name("w"):
            return "d[0]"
        case Name(id):
            return f"d[{id[2:]}]" if id.startswith("dx") else f"x[{id[1:]}]" if id.startswith("x") else id
        case Negative(arg):
            return f"(-{inner(arg)})"
        case Binary("**", base, Num(float() as n)) if n.is_integer():
            return f"({inner(base)} ** {int(n)})"
        case Binary(op, left, right) | Compare(op, left, right):
            return f"({inner(left)} {op} {inner(right)})"
        case Logic("not", (arg,)):
            return f"({inner(arg)} == False)"
        case Logic(op, args):
            return "(" + (" & " if op == "and" else " | ").join(inner(arg) for arg in args) + ")"
        case Where(cond, then, other):
            scope["where"] = lookup("numpy.where")
            return f"where({inner(cond)}, {inner(then)}, {inner(other)})"
        case Call(fn, args):
            scope[f"f_{fn}"] = lookup(FUNCTIONS[fn].public)
            return f"f_{fn}({', '.join(inner(arg) for arg in args)})"
