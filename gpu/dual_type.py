"""A dual number as a C++ type, for kernels of others: what a number meets there is overloaded, with lanes.

Operators and functions, and how they are differentiated, are printed from the rows of the table. What has no overload
does not compile, and no conversion to a plain number drops lanes: only comparisons and integers look at the value.
"""

from __future__ import annotations

from typing import Any

from ndual.gpu.head import times
from ndual.rules import elementwise
from ndual.rules.expressions import Expr, differentiate
from ndual.rules.language import C_NAMES, parse, to_c

__all__ = ["dual_type"]

# CUDA's names beside those of C: rows of the table, and values that are differentiated as they stand.
ROWS = {"abs": "absolute", "max": "fmax", "min": "fmin"}
VALUES = {
    "cospi": (1, "cos(pi * x0)"),
    "exp10": (1, "power(10, x0)"),
    "fdim": (2, "x0 - x1 if x0 > x1 else 0"),
    "fma": (3, "x0 * x1 + x2"),
    "normcdf": (1, "0.5 * erfc(-x0 * sqrt(0.5))"),
    "rcbrt": (1, "1 / cbrt(x0)"),
    "rsqrt": (1, "1 / sqrt(x0)"),
    "sinpi": (1, "sin(pi * x0)"),
}
OPERATORS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
STEPS = "ceil floor nearbyint rint round trunc"
QUESTIONS = "isfinite isinf isnan signbit"
WHOLE = (
    "bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long, "
    "unsigned long long"
)

TYPE = """\
#ifdef ND_HOST
#define ND_MEMBER inline
#define __device__
#define __forceinline__ inline
#else
#define ND_MEMBER __device__ __forceinline__
#endif
template <bool on, class A> struct nd_if {{}};
template <class A> struct nd_if<true, A> {{ typedef A type; }};
template <class A> struct nd_number {{ enum {{ value = 0, whole = 0 }}; }};
{numbers}
template <class R> struct nd_dual {{
    R v, d[{lanes}];
    ND_MEMBER nd_dual() : v(0) {{ still(); }}
    template <class A, class = typename nd_if<nd_number<A>::value, int>::type> ND_MEMBER nd_dual(A a) : v((R)a) {{
        still();
    }}
    template <class Q> ND_MEMBER nd_dual(const nd_dual<Q> &a) : v((R)a.v) {{
        for (int k = 0; k < {lanes}; k++)
            d[k] = (R)a.d[k];
    }}
    template <class A, class = typename nd_if<nd_number<A>::whole, int>::type> ND_MEMBER explicit operator A() const {{
        return (A)v;
    }}
    template <class A> ND_MEMBER nd_dual &operator+=(const A &a) {{ return *this = *this + a; }}
    template <class A> ND_MEMBER nd_dual &operator-=(const A &a) {{ return *this = *this - a; }}
    template <class A> ND_MEMBER nd_dual &operator*=(const A &a) {{ return *this = *this * a; }}
    template <class A> ND_MEMBER nd_dual &operator/=(const A &a) {{ return *this = *this / a; }}
    ND_MEMBER nd_dual &operator++() {{ return *this += 1; }}
    ND_MEMBER nd_dual &operator--() {{ return *this -= 1; }}
    ND_MEMBER void still() {{
        for (int k = 0; k < {lanes}; k++)
            d[k] = 0;
    }}
}};
template <class A> struct nd_plain {{ typedef A type; enum {{ known = nd_number<A>::value, dual = 0 }}; }};
template <class R> struct nd_plain<nd_dual<R> > {{ typedef R type; enum {{ known = 1, dual = 1 }}; }};
template <bool on, class A, class B> struct nd_joined {{}};
template <class A, class B> struct nd_joined<true, A, B> {{
    typedef nd_dual<decltype(typename nd_plain<A>::type() + typename nd_plain<B>::type())> type;
}};
// What two operands make: a dual of the type that C has for their values, where one of them is a dual.
template <class A, class B> struct nd_both
    : nd_joined<nd_plain<A>::known && nd_plain<B>::known && (nd_plain<A>::dual || nd_plain<B>::dual), A, B> {{}};
template <class R> ND_BODY R nd_value(const nd_dual<R> &a) {{ return a.v; }}
template <class A> ND_BODY typename nd_if<nd_number<A>::value, A>::type nd_value(A a) {{ return a; }}
template <class R> ND_BODY nd_dual<R> operator+(const nd_dual<R> &a) {{ return a; }}
template <class R> ND_BODY nd_dual<R> operator-(const nd_dual<R> &a) {{ return nd_row_negative(a); }}
template <class R> ND_BODY bool operator!(const nd_dual<R> &a) {{ return !a.v; }}
"""

# One for each type, so that no literal is of another one.
FUNCTION = """\
ND_BODY nd_dual<{R}> nd_row_{name}({parameters}) {{
    {loads}
    const {R} y = {value};
    nd_dual<{R}> out;
    out.v = y;
{partials}    for (int k = 0; k < {lanes}; k++)
        out.d[k] = {terms};
    return out;
}}
"""
MIXED = """\
template <class A, class B> ND_BODY typename nd_both<A, B>::type {name}(const A &a, const B &b) {{
    typedef typename nd_both<A, B>::type C;
    return nd_row_{row}(C(a), C(b));
}}
"""
COMPARE = """\
template <class A, class B> ND_BODY typename nd_if<(sizeof(typename nd_both<A, B>::type) > 0), bool>::type
operator{op}(const A &a, const B &b) {{ return nd_value(a) {op} nd_value(b); }}
"""


def dual_type(lanes: int) -> str:
    """The text of the type with so many lanes, and of all that takes it; behind :data:`ndual.gpu.head.BASE`."""
    numbers = [
        f"template <> struct nd_number<{name}> {{ enum {{ value = 1, whole = {whole} }}; }};"
        for names, whole in ((WHOLE, 1), ("float, double", 0))
        for name in names.split(", ")
    ]
    rows = _rows()
    needed = {*rows.values(), *OPERATORS.values(), "negative"}
    parts = [
        *map(times, ("float", "double")),
        "template <class R> struct nd_dual;\n",
        *[_declared(name) for name in ("negative", *OPERATORS.values())],
        TYPE.format(lanes=lanes, numbers="\n".join(numbers)),
    ]
    for name in sorted(needed):
        row = elementwise.TABLE[name]
        parts += _functions(name, row.nin, row.value_expr, row.partial_exprs, lanes)
    for op, name in OPERATORS.items():
        parts.append(MIXED.format(name=f"operator{op}", row=name))
    for op in ("<", "<=", ">", ">=", "==", "!="):
        parts.append(COMPARE.format(op=op))
    for name, row_name in sorted(rows.items()):
        parts += _named(name, row_name, elementwise.TABLE[row_name].nin)
    for name, (nin, text) in VALUES.items():
        value = parse(text, nin)
        partials = tuple(differentiate(value, f"x{i}") for i in range(nin))
        parts += [*_functions(name, nin, value, partials, lanes), *_named(name, name, nin)]
    for kind, f in (("double", ""), ("float", "f")):
        dual = f"const nd_dual<{kind}> &a"
        for name in STEPS.split():
            parts.append(f"ND_BODY nd_dual<{kind}> {name}{f}({dual}) {{ return nd_dual<{kind}>({name}{f}(a.v)); }}\n")
            if f:
                parts.append(f"ND_BODY nd_dual<{kind}> {name}({dual}) {{ return {name}f(a); }}\n")
        parts += [f"ND_BODY bool {name}({dual}) {{ return {name}(a.v); }}\n" for name in QUESTIONS.split()]
        parts.append(
            f"ND_BODY void sincos{f}({dual}, nd_dual<{kind}> *s, nd_dual<{kind}> *c) {{ *s = sin(a), *c = cos(a); }}\n"
        )
    return "".join(parts)


def _rows() -> dict[str, str]:
    """The row behind each of C's names, of those that can be printed."""
    found = dict(ROWS)
    for name, spelled in C_NAMES.items():
        row = elementwise.TABLE.get(name)
        if row is not None and spelled not in STEPS.split() and spelled.isidentifier() and None not in row.partials:
            found.setdefault(spelled, name)
    return {name: row for name, row in found.items() if _printed(elementwise.TABLE[row])}


def _printed(row: Any) -> bool:
    return all(to_c(expr, "double") is not None for expr in (row.value_expr, *row.partial_exprs))


def _parameters(kind: str, nin: int) -> str:
    return ", ".join(f"const nd_dual<{kind}> &a{i}" for i in range(nin))


def _declared(name: str) -> str:
    nin = elementwise.TABLE[name].nin
    return "".join(
        f"ND_BODY nd_dual<{kind}> nd_row_{name}({_parameters(kind, nin)});\n" for kind in ("double", "float")
    )


def _functions(name: str, nin: int, value: Expr, partials: tuple[Expr | None, ...], lanes: int) -> list[str]:
    """A row for the duals of both types."""
    found = []
    for kind in ("double", "float"):
        texts = [to_c(partial, kind) for partial in partials if partial is not None]
        found.append(FUNCTION.format(
            R=kind, name=name, parameters=_parameters(kind, nin), lanes=lanes, value=to_c(value, kind),
            loads=f"const {kind} " + ", ".join(f"x{i} = a{i}.v" for i in range(nin)) + ";",
            partials="".join(f"    const {kind} d{i} = {text};\n" for i, text in enumerate(texts)),
            terms=" + ".join(f"nd_times(d{i}, a{i}.d[k])" for i in range(nin)),
        ))  # fmt: skip
    return found


def _named(name: str, row: str, nin: int) -> list[str]:
    """The overloads by which C++ finds it: with the suffix of single precision too, and of mixed operands."""
    found = []
    for kind, names in (("double", [name]), ("float", [name, f"{name}f"])):
        arguments = ", ".join(f"a{i}" for i in range(nin))
        for spelled in names:
            head = f"ND_BODY nd_dual<{kind}> {spelled}({_parameters(kind, nin)})"
            found.append(f"{head} {{ return nd_row_{row}({arguments}); }}\n")
    return [*found, MIXED.format(name=name, row=row)] if nin == 2 else found
