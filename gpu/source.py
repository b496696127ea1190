"""CUDA from the rule table: the kernels of one row, forward, value alone, pullback, and those of second order.

No formula lives here: expressions are printed by :mod:`ndual.rules.language`. The same text compiles as host C++ with
``-DND_HOST``, where a launch is a loop, so that every kernel runs on machines without a device too.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ndual.gpu.head import DIMS, KINDS, head
from ndual.rules import registry
from ndual.rules.expressions import Call, Name, NoDerivative, names_of
from ndual.rules.language import is_complex, to_c

__all__ = [
    "BLOCK",
    "DIMS",
    "forward",
    "has_loop",
    "loop",
    "pullback",
    "reads",
    "real_result",
    "second",
    "shares",
    "texts",
    "together",
]

BLOCK = 128
# Arrays of lanes that a thread loads for one element from which on it takes half as many elements: eight lanes of two
# operands in float32 fall to half the bandwidth otherwise, for want of registers.
HEAVY = 12
# Up to so many of them are loaded before anything is computed, as the operands are: a function that branches keeps the
# compiler from loading what comes behind it (sine with one lane in float32: 4.2 TB/s, 3.8 without).
EARLY = 2
ONES, ZEROS = ("1.0", "1.0f"), ("0.0", "0.0f")

# Every thread takes its elements a block apart, and goes on behind the grid.
LOOP = """\
#ifdef ND_HOST
extern "C" void {name}({parameters}) {{
    for (nd_int i = 0; i < n; i++)
        element({arguments}, load({arguments}, i), i);
}}
#else
extern "C" __global__ void __launch_bounds__({block}) {name}({parameters}) {{
    const nd_int step = (nd_int)gridDim.x * {block} * {unroll};
    for (nd_int first = (nd_int)blockIdx.x * {block} * {unroll} + threadIdx.x; first < n; first += step) {{
        if (first + {last} < n) {{
{whole}
        }} else
            for (nd_int i = first; i < n && i < first + {block} * {unroll}; i += {block})
                element({arguments}, load({arguments}, i), i);
    }}
}}
#endif
"""
AHEAD = """\
            nd_in in[{unroll}];
            #pragma unroll
            for (int u = 0; u < {unroll}; u++)
                in[u] = load({arguments}, first + u * {block});
            #pragma unroll
            for (int u = 0; u < {unroll}; u++)
                element({arguments}, in[u], first + u * {block});"""
ONE_BY_ONE = """\
            #pragma unroll
            for (int u = 0; u < {unroll}; u++)
                element({arguments}, load({arguments}, first + u * {block}), first + u * {block});"""

_texts: dict[tuple[str, str], tuple[str | None, tuple[str | None, ...]]] = {}
_reads: dict[tuple[str, tuple[bool, ...], str], tuple[bool, ...]] = {}


def real_result(row: Any, ctype: str) -> bool:
    """Whether a row of complex operands has a real value (absolute, angle …)."""
    return KINDS[ctype].is_complex and row.kind == "real_linear" and not is_complex(_own_call(row))


def _own_call(row: Any) -> Call:
    return Call(row.name, tuple(Name(f"x{i}") for i in range(row.nin)))


def texts(row: Any, ctype: str) -> tuple[str | None, tuple[str | None, ...]]:
    """The value and the partials of a row in C, None for what has no such form.

    Those of a real-linear row of complex operands are its tangent along ``dx0``.
    """
    found = _texts.get((row.name, ctype))
    if found is None:
        printed = KINDS[ctype].ctype
        if not KINDS[ctype].is_complex:
            value, partials = row.value_expr, row.partial_exprs
        elif row.kind == "real_linear":
            value, partials = _own_call(row), (row.jvp_expr,)
        else:
            value, partials = row.value_expr, row.complex_exprs or (None,) * row.nin
        real = ("y",) if real_result(row, ctype) else ()
        found = (
            None if value is None or (KINDS[ctype].is_complex and row.kind == "real") else to_c(value, printed),
            tuple([None if p is None else to_c(p, printed, real) for p in partials]),
        )
        _texts[row.name, ctype] = found
    return found


def has_loop(row: Any, char: str) -> bool:
    """Whether the function of a row gives this type for it: NumPy's float_power gives float64 for float32."""
    function = registry.lookup(row.serves[0])
    if not isinstance(function, np.ufunc):
        return char != "e"
    loops = function.types
    return f"{char * row.nin}->{char}" in loops or (row.kind == "real_linear" and f"{char}->{char.lower()}" in loops)


def reads(row: Any, wanted: tuple[bool, ...], ctype: str = "double") -> tuple[bool, ...]:
    """Which of the operands, and whether the value, the pullback to the wanted operands reads.

    The value in float16 is a rounded one, so that it is computed again.
    """
    found = _reads.get((row.name, wanted, ctype))
    if found is None:
        names: set[str] = set()
        partials = row.partial_exprs
        if KINDS[ctype].is_complex:
            partials = (row.vjp_expr,) if row.kind == "real_linear" else row.complex_exprs or partials
        for partial, on in zip(partials, wanted, strict=True):
            names |= names_of(partial) if on and partial is not None else set()
        if ctype == "half" and "y" in names:
            names = names - {"y"} | names_of(row.value_expr)
        found = *(f"x{i}" in names for i in range(row.nin)), "y" in names
        _reads[row.name, wanted, ctype] = found
    return found


def together(lines: list[str], ctype: str) -> list[str]:
    """Sine and cosine of one operand as one computation; in float32 each of them alone too."""
    f = {"double": "", "float": "f"}.get(KINDS[ctype].ctype)
    text = "\n".join(lines)
    found = [re.search(rf"\b{name}{f}\(x0\)", text) for name in ("sin", "cos")]
    if f is None or not any(found) or not (all(found) or f):
        return lines
    for name, both in (("sin", "sine"), ("cos", "cosine")):
        lines = [re.sub(rf"\b{name}{f}\(x0\)", both, line) for line in lines]
    at = next((i + 1 for i, line in enumerate(lines) if line.startswith("const T x0")), 0)
    return [*lines[:at], "T sine, cosine;", f"nd_sincos{f}(x0, &sine, &cosine);", *lines[at:]]


def shares(ctype: str, loads: int) -> tuple[int, int]:
    """Threads of a block, and elements of one, for a kernel that loads so many lanes for an element."""
    return BLOCK, BLOCK * max(1, KINDS[ctype].unroll // (2 if loads >= HEAVY else 1))


class _Kernel:
    """The text of a kernel while it is put together: its parameters, what an element loads, and what it then does."""

    def __init__(self, ctype: str, operands: int, strided: bool, row: Any) -> None:
        self.ctype, self.operands, self.strided = ctype, operands, strided
        self.real = real_result(row, ctype)
        self.parameters: list[str] = []
        self.loads: list[tuple[str, str, str]] = []
        self.lines: list[str] = []

    def place(self, i: int) -> str:
        """Where the cell of an operand lies, while an element is computed."""
        return f"in.at[{i}]" if self.strided else "i"

    def operand(self, i: int, name: str, kind: str, result: bool = False) -> None:
        """A parameter, loaded as `name`: "s" is a number, "u" an array whose cells are all one."""
        stored, computed = ("P", "Y") if result else ("S", "T")
        if kind == "s":
            self.parameters.append(f"{stored} v{i}")
        else:
            self.parameters.append(f"const {stored} *__restrict__ v{i}")
        cell = f"v{i}" if kind == "s" else f"v{i}[0]" if kind == "u" else f"v{i}[{self.place(i)}]"
        self.loads.append((computed, name, f"({computed}){cell}"))

    def lanes(self, i: int) -> None:
        """The parameters for the lanes of an operand."""
        self.parameters += [f"const S *__restrict__ t{i}", f"nd_int p{i}"]

    def lane(self, i: int, k: str) -> str:
        """A lane of an operand at this element."""
        return f"(T)t{i}[{k} * p{i} + {self.place(i)}]"

    def recompute(self, row: Any) -> bool:
        """Compute the value from operands that are loaded, where it would come rounded; whether it has a form."""
        value = texts(row, self.ctype)[0]
        loaded = {name for _, name, _ in self.loads}
        if value is not None and names_of(row.value_expr) <= loaded:
            self.lines.append(f"const Y y = (Y){value};")
        return value is not None

    def over(self, lanes: int, active: list[int], term: Any) -> None:
        """Write every lane of the result: ``term(lane)`` of a function that gives the lane of each operand."""
        if lanes * len(active) <= EARLY:
            for k in range(lanes):
                for i in active:
                    self.loads.append(("T", f"l{i}_{k}", self.lane(i, str(k))))
                self.lines.append(f"dout[{k} * n + i] = (P)({term(lambda i, k=k: f'l{i}_{k}')});")
            return
        self.lines += [
            "#ifndef ND_HOST", "#pragma unroll", "#endif", f"for (int k = 0; k < {lanes}; k++)",
            f"    dout[k * n + i] = (P)({term(lambda i: self.lane(i, 'k'))});",
        ]  # fmt: skip

    def text(self, name: str, loads: int = 0) -> str:
        """All of it."""
        parameters = [*self.parameters, *(["nd_layout layout"] if self.strided else []), "nd_int n"]
        given = ", ".join(parameters).replace("nd_layout layout", "const nd_layout &layout")
        places = [f"nd_int at[{self.operands}];"] if self.strided else []
        found = [f"nd_places(layout, {self.operands}, i, in.at);"] if self.strided else []
        unpacked = [f"const {kind} {name} = in.{name};" for kind, name, _ in self.loads]
        parts = [
            head(self.ctype, self.operands, self.real),
            "struct nd_in { ", *places, *[f"{kind} {name}; " for kind, name, _ in self.loads], "};\n",
            f"ND_BODY nd_in load({given}, nd_int i) {{\n    nd_in in;\n",
            *[f"    {line}\n" for line in (*found, *(f"in.{name} = {cell};" for _, name, cell in self.loads))],
            "    return in;\n}\n",
            f"ND_BODY void element({given}, const nd_in &in, nd_int i) {{\n",
            *[f"    {line}\n" for line in (*unpacked, *together(self.lines, self.ctype))], "}\n",
        ]  # fmt: skip
        return "".join([*parts, loop(name, parameters, shares(self.ctype, loads)[1], not self.strided)])


def loop(name: str, parameters: list[str], share: int, ahead: bool) -> str:
    """The kernel over ``load`` and ``element``, `share` elements a block, which are loaded first if `ahead`."""
    facts: dict[str, Any] = {
        "arguments": ", ".join([p.rpartition(" ")[2].lstrip("*") for p in parameters]),
        "block": BLOCK,
        "unroll": share // BLOCK,
    }
    whole = (AHEAD if ahead else ONE_BY_ONE).format(**facts)
    return LOOP.format(name=name, parameters=", ".join(parameters), last=share - BLOCK, whole=whole, **facts)


def forward(row: Any, ctype: str, kinds: str, strided: bool, lanes: int) -> str | None:
    """A kernel that writes the value and every lane of a row; None if a formula has no form in C.

    Parameters
    ----------
    row : Elementwise
        A row of the table.
    ctype : {"double", "float", "half", "complex<double>", "complex<float>"}
        The type of the operands; "half" is computed in "float" and rounded once.
    kinds : str
        A letter for each operand: "d" a dual array, "c" a constant one, "s" a number that comes with the launch.
    strided : bool
        Operands have strides of their own, 0 along what is broadcast; else all cells lie side by side. Those of results
        do always.
    lanes : int
        How many: what is loaded is known then, and comes first.

    Notes
    -----
    The kernel takes ``x0, t0, p0, …, y, dy[, layout], n``: pointers to operands, to their lanes, and the cells from one
    of these to the next; of a number only ``x0``.
    """
    value, partials = texts(row, ctype)
    active = [i for i, kind in enumerate(kinds) if kind == "d"]
    if value is None or any(partials[i] is None for i in active):
        return None
    kernel = _Kernel(ctype, len(kinds), strided, row)
    for i, kind in enumerate(kinds):
        kernel.operand(i, f"x{i}", kind)
        if kind == "d":
            kernel.lanes(i)
    kernel.parameters += ["P *__restrict__ out", "P *__restrict__ dout"]
    kernel.lines += [f"const Y y = (Y){value};", "out[i] = (P)y;"]
    moving = [i for i in active if partials[i] not in ZEROS]
    if KINDS[ctype].is_complex and row.kind == "real_linear":
        if active:
            _along(kernel, partials[0], lanes)
        return kernel.text("ndual_forward", lanes)
    kernel.lines += [f"const T d{i} = {partials[i]};" for i in moving if partials[i] not in ONES]

    def term(lane: Any) -> str:
        products = [lane(i) if partials[i] in ONES else f"nd_times(d{i}, {lane(i)})" for i in moving]
        return " + ".join(products) or "(T)0"

    if active:
        kernel.over(lanes, moving, term)
    return kernel.text("ndual_forward", lanes * len(active))


def _along(kernel: _Kernel, tangent: str | None, lanes: int) -> None:
    """The lanes of a real-linear row of complex operands."""
    kernel.lines += [
        f"for (int k = 0; k < {lanes}; k++) {{", f"    const T dx0 = {kernel.lane(0, 'k')};",
        f"    dout[k * n + i] = (P)({tangent});", "}",
    ]  # fmt: skip


def pullback(row: Any, ctype: str, kinds: str, strided: bool, wanted: tuple[bool, ...]) -> str | None:
    """A kernel that writes the cotangents of the wanted operands, each in the shape of the result; None as above.

    Parameters
    ----------
    row, ctype, strided
        As in :func:`forward`.
    kinds : str
        A letter for each operand, for the value and for the cotangent: "a" an array, "s" a number, "u" an array whose
        cells are all one, "-" what is not read.
    wanted : tuple of bool
        For each operand whether its cotangent is asked for.

    Notes
    -----
    The kernel takes ``x0, …, y, w, g0, …[, layout], n``, without what is not read or not wanted. That of a holomorphic
    row is the cotangent times the conjugate of its derivative.
    """
    partials = texts(row, ctype)[1]
    nin = len(wanted)
    along = KINDS[ctype].is_complex and row.kind == "real_linear"
    if along:
        real = ("y", "w") if real_result(row, ctype) else ()
        partials = (to_c(row.vjp_expr, KINDS[ctype].ctype, real),)
    if any(on and partials[i] is None for i, on in enumerate(wanted)):
        return None
    kernel = _Kernel(ctype, nin + 2, strided, row)
    for i, (kind, name) in enumerate(zip(kinds, [*(f"x{i}" for i in range(nin)), "y", "w"], strict=True)):
        if kind != "-":
            kernel.operand(i, name, kind, i >= nin)
    if ctype == "half" and not kernel.recompute(row):
        return None
    for i, on in enumerate(wanted):
        if on:
            kernel.parameters.append(f"S *__restrict__ g{i}")
            factor = f"conj((T){partials[i]})" if KINDS[ctype].is_complex else partials[i]
            kernel.lines.append(f"g{i}[i] = (S)({f'(T){partials[i]}' if along else f'nd_times({factor}, w)'});")
    return kernel.text("ndual_pullback")


def second(row: Any, ctype: str, kinds: str, strided: bool, lanes: int, i: int) -> str | None:
    """A kernel that writes the partial by operand `i` times a factor, with lanes through both; None as above.

    It is the pullback of a row whose operands, or whose cotangent, are duals of an outer derivative, and the tangent
    along a dual too. The second derivatives are those of the row.

    Parameters
    ----------
    row, strided, lanes
        As in :func:`forward`.
    ctype : {"double", "float"}
        For any other there is none: float16 is widened before, and complex partials are differentiated piece by piece.
    kinds : str
        A letter for each operand, for the value, which is no dual, and for the factor: as in :func:`forward`, or "-"
        for what is not read.

    Notes
    -----
    The kernel takes ``x0, t0, p0, …, y, w, tw, pw, g, dg[, layout], n``.
    """
    partial = texts(row, ctype)[1][i]
    if partial is None or ctype not in ("double", "float"):
        return None
    nin = row.nin
    seconds = {}
    for j in range(nin):
        if kinds[j] == "d":
            try:
                formula = row.second_expr(i, j)
            except NoDerivative:
                return None
            text = None if formula is None else to_c(formula, KINDS[ctype].ctype)
            if text is None:
                return None
            if text not in ZEROS:
                seconds[j] = text
    kernel = _Kernel(ctype, nin + 2, strided, row)
    for j, (kind, name) in enumerate(zip(kinds, [*(f"x{j}" for j in range(nin)), "y", "w"], strict=True)):
        if kind != "-":
            kernel.operand(j, name, kind)
        if kind == "d":
            kernel.lanes(j)
    kernel.parameters += ["P *__restrict__ out", "P *__restrict__ dout"]
    kernel.lines += [f"const T p = {partial};", "out[i] = (P)nd_times(p, w);"]
    kernel.lines += [f"const T s{j} = {text};" for j, text in seconds.items()]
    moving = [*seconds, *([nin + 1] if kinds[-1] == "d" else [])]

    def term(lane: Any) -> str:
        turned = " + ".join([f"nd_times(s{j}, {lane(j)})" for j in seconds])
        found = [f"nd_times({turned}, w)"] if turned else []
        return " + ".join([*found, *([f"nd_times(p, {lane(nin + 1)})"] if kinds[-1] == "d" else [])]) or "(T)0"

    kernel.over(lanes, moving, term)
    return kernel.text("ndual_second", lanes * kinds.count("d"))
