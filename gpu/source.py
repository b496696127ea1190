"""CUDA from the rule table: the kernels of one row, forward, value alone and pullback.

No formula lives here: expressions are printed by :mod:`ndual.rules.language`. The same text compiles as host C++ with
``-DND_HOST``, where a launch is a loop, so that every kernel runs on machines without a device too.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.expressions import names_of
from ndual.rules.language import to_c

__all__ = ["DIMS", "forward", "pullback", "reads", "shares"]

DIMS = 8
"""The most axes of a strided launch, once those that lie side by side have become one."""

# Elements of one thread, a block apart: 16 bytes in flight without any alignment, so that lanes of any length reach the
# bandwidth of the device (4.2 TB/s on an H200, where one element a thread reaches 1.7 in float32 and 3.3 in float64).
UNROLL = {"float": 4, "double": 2}
BLOCK = {"float": 128, "double": 128}
# Arrays of lanes that a thread loads for one element from which on it takes half as many elements: eight lanes of two
# operands in float32 fall to half the bandwidth otherwise, for want of registers.
HEAVY = 12

HEAD = """\
// generated from ndual/rules by ndual/gpu/source.py; do not edit
#ifdef ND_HOST
#include <cmath>
#include <cstddef>
using namespace std;
#define ND_BODY static inline
ND_BODY void nd_sincos(double x, double *s, double *c) {{ *s = sin(x), *c = cos(x); }}
ND_BODY void nd_sincosf(float x, float *s, float *c) {{ *s = sinf(x), *c = cosf(x); }}
#else
#define nd_sincos sincos
#define nd_sincosf sincosf
#define ND_BODY static __device__ __forceinline__
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#endif
typedef long long nd_int;
typedef {ctype} T;
struct nd_layout {{ nd_int ndim, shape[{dims}], at[{operands}][{dims}]; }};
// Zero times anything is zero.
ND_BODY T nd_times(T factor, T t) {{
    const T product = factor * t;
    return isfinite(product) || (factor != 0 && t != 0) ? product : (T)0;
}}
ND_BODY void nd_places(const nd_layout &layout, int operands, nd_int i, nd_int *places) {{
    for (int k = 0; k < operands; k++)
        places[k] = 0;
    for (int axis = (int)layout.ndim - 1; axis >= 0; axis--) {{
        const nd_int n = layout.shape[axis], rest = i / n, at = i - rest * n;
        for (int k = 0; k < operands; k++)
            places[k] += at * layout.at[k][axis];
        i = rest;
    }}
}}
"""

# Every thread takes its elements a block apart, and goes on behind the grid.
LOOP = """\
#ifdef ND_HOST
extern "C" void {name}({parameters}) {{
    for (nd_int i = 0; i < n; i++)
        {body}({arguments}, i);
}}
#else
extern "C" __global__ void __launch_bounds__({block}) {name}({parameters}) {{
    const nd_int step = (nd_int)gridDim.x * {block} * {unroll};
    for (nd_int first = (nd_int)blockIdx.x * {block} * {unroll} + threadIdx.x; first < n; first += step) {{
        if (first + {last} < n) {{
            #pragma unroll
            for (int u = 0; u < {unroll}; u++)
                {body}({arguments}, first + u * {block});
        }} else
            for (nd_int i = first; i < n && i < first + {block} * {unroll}; i += {block})
                {body}({arguments}, i);
    }}
}}
#endif
"""


def _cell(name: str, kind: str, place: int, strided: bool) -> str:
    """An operand in the body of a kernel."""
    return name if kind == "s" else f"{name}[0]" if kind == "u" else f"{name}[at[{place}]]" if strided else f"{name}[i]"


_texts: dict[tuple[str, str], tuple[str | None, tuple[str | None, ...]]] = {}
_reads: dict[tuple[str, tuple[bool, ...]], tuple[bool, ...]] = {}


def texts(row: Any, ctype: str) -> tuple[str | None, tuple[str | None, ...]]:
    """The value and the partials of a row in C, None for what has no such form."""
    found = _texts.get((row.name, ctype))
    if found is None:
        value = None if row.value_expr is None else to_c(row.value_expr, ctype)
        found = value, tuple([None if p is None else to_c(p, ctype) for p in row.partial_exprs])
        _texts[row.name, ctype] = found
    return found


def reads(row: Any, wanted: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which of the operands, and whether the value, the wanted partials read."""
    found = _reads.get((row.name, wanted))
    if found is None:
        names: set[str] = set()
        for partial, on in zip(row.partial_exprs, wanted, strict=True):
            names |= names_of(partial) if on and partial is not None else set()
        found = *(f"x{i}" in names for i in range(row.nin)), "y" in names
        _reads[row.name, wanted] = found
    return found


def _together(lines: list[str], ctype: str) -> list[str]:
    """Sine and cosine of one operand as one computation."""
    f = "f" if ctype == "float" else ""
    text = "\n".join(lines)
    if f"sin{f}(x0)" not in text or f"cos{f}(x0)" not in text:
        return lines
    at = next(i for i, line in enumerate(lines) if line.startswith("const T x0")) + 1
    lines = [line.replace(f"sin{f}(x0)", "sine").replace(f"cos{f}(x0)", "cosine") for line in lines]
    return [*lines[:at], "T sine, cosine;", f"nd_sincos{f}(x0, &sine, &cosine);", *lines[at:]]


def shares(ctype: str, loads: int) -> tuple[int, int]:
    """Threads of a block, and elements of one, for a kernel that loads so many lanes for an element."""
    return BLOCK[ctype], BLOCK[ctype] * max(1, UNROLL[ctype] // (2 if loads >= HEAVY else 1))


def _loop(name: str, body: str, parameters: list[str], arguments: list[str], ctype: str, loads: int = 0) -> str:
    block, share = shares(ctype, loads)
    unroll = share // block
    return LOOP.format(
        name=name, body=body, parameters=", ".join(parameters), arguments=", ".join(arguments), block=block,
        unroll=unroll, last=block * (unroll - 1),
    )  # fmt: skip


def forward(row: Any, ctype: str, kinds: str, strided: bool, lanes: int) -> str | None:
    """A kernel that writes the value and every lane of a row; None if a formula has no form in C.

    Parameters
    ----------
    row : Elementwise
        A row of the table.
    ctype : {"double", "float"}
        What it computes in.
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
    nin = len(kinds)
    active = [i for i in range(nin) if kinds[i] == "d"]
    if value is None or any(partials[i] is None for i in active):
        return None
    parameters, arguments = [], []
    for i, kind in enumerate(kinds):
        if kind == "s":
            parameters.append(f"T v{i}")
            arguments.append(f"v{i}")
        else:
            parameters.append(f"const T *__restrict__ v{i}")
            arguments.append(f"v{i}")
        if kind == "d":
            parameters += [f"const T *__restrict__ t{i}", f"nd_int p{i}"]
            arguments += [f"t{i}", f"p{i}"]
    parameters += ["T *__restrict__ out", "T *__restrict__ dout"]
    arguments += ["out", "dout"]
    if strided:
        parameters.append("nd_layout layout")
        arguments.append("layout")
    body_parameters = [p.replace("nd_layout layout", "const nd_layout &layout") for p in parameters]
    lines = []
    if strided:
        lines += [f"nd_int at[{nin}];", f"nd_places(layout, {nin}, i, at);"]
    for i, kind in enumerate(kinds):
        lines.append(f"const T x{i} = {_cell(f'v{i}', kind, i, strided)};")
    lines += [f"const T y = {value};", "out[i] = y;"]
    for i in active:
        if partials[i] not in ("1.0", "1.0f", "0.0", "0.0f"):
            lines.append(f"const T d{i} = {partials[i]};")
    terms = []
    for i in active:
        place = f"at[{i}]" if strided else "i"
        tangent = f"t{i}[k * p{i} + {place}]"
        if partials[i] in ("1.0", "1.0f"):
            terms.append(tangent)
        elif partials[i] not in ("0.0", "0.0f"):
            terms.append(f"nd_times(d{i}, {tangent})")
    if active:
        lines += [
            "#ifndef ND_HOST", "#pragma unroll", "#endif", f"for (int k = 0; k < {lanes}; k++)",
            f"    dout[k * n + i] = {' + '.join(terms) or '(T)0'};",
        ]  # fmt: skip
    body = f"ND_BODY void element({', '.join(body_parameters)}, nd_int n, nd_int i) {{\n    "
    body += "\n    ".join(_together(lines, ctype)) + "\n}\n"
    head = HEAD.format(ctype=ctype, dims=DIMS, operands=nin)
    loads = lanes * len(active)
    return head + body + _loop("ndual_forward", "element", [*parameters, "nd_int n"], [*arguments, "n"], ctype, loads)


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
    The kernel takes ``x0, …, y, w, g0, …[, layout], n``, without what is not read or not wanted.
    """
    partials = texts(row, ctype)[1]
    nin = len(wanted)
    if any(on and partials[i] is None for i, on in enumerate(wanted)):
        return None
    parameters, arguments, lines = [], [], []
    if strided:
        lines += [f"nd_int at[{nin + 2}];", f"nd_places(layout, {nin + 2}, i, at);"]
    for i, (kind, name) in enumerate(zip(kinds, [*(f"x{i}" for i in range(nin)), "y", "w"], strict=True)):
        if kind == "-":
            continue
        parameters.append(f"T v{i}" if kind == "s" else f"const T *__restrict__ v{i}")
        arguments.append(f"v{i}")
        lines.append(f"const T {name} = {_cell(f'v{i}', kind, i, strided)};")
    for i, on in enumerate(wanted):
        if on:
            parameters.append(f"T *__restrict__ g{i}")
            arguments.append(f"g{i}")
            lines.append(f"g{i}[i] = nd_times({partials[i]}, w);")
    if strided:
        parameters.append("nd_layout layout")
        arguments.append("layout")
    body_parameters = [p.replace("nd_layout layout", "const nd_layout &layout") for p in parameters]
    body = f"ND_BODY void element({', '.join(body_parameters)}, nd_int n, nd_int i) {{\n    "
    body += "\n    ".join(lines) + "\n}\n"
    head = HEAD.format(ctype=ctype, dims=DIMS, operands=nin + 2)
    return head + body + _loop("ndual_pullback", "element", [*parameters, "nd_int n"], [*arguments, "n"], ctype)
