"""CUDA from the rule table: the kernels of one row, forward, value alone and pullback.

No formula lives here: expressions are printed by :mod:`ndual.rules.language`. The same text compiles as host C++ with
``-DND_HOST``, where a launch is a loop, so that every kernel runs on machines without a device too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndual.rules import registry
from ndual.rules.expressions import names_of
from ndual.rules.language import to_c

__all__ = ["DIMS", "forward", "has_loop", "pullback", "reads", "shares"]

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


def has_loop(row: Any, char: str) -> bool:
    """Whether the function of a row gives this type for it: NumPy's float_power gives float64 for float32."""
    function = registry.lookup(row.serves[0])
    return not isinstance(function, np.ufunc) or f"{char * row.nin}->{char}" in function.types


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


def _kernel(
    name: str, operands: int, parameters: list[str], lines: list[str], ctype: str, strided: bool, loads: int = 0
) -> str:  # fmt: skip
    """A kernel whose body is these lines, for one element `i`, over the places `at` of this many operands."""
    if strided:
        parameters = [*parameters, "nd_layout layout"]
        lines = [f"nd_int at[{operands}];", f"nd_places(layout, {operands}, i, at);", *lines]
    parameters = [*parameters, "nd_int n"]
    of_body = ", ".join([*parameters, "nd_int i"]).replace("nd_layout layout", "const nd_layout &layout")
    body = "\n    ".join([f"ND_BODY void element({of_body}) {{", *_together(lines, ctype)]) + "\n}\n"
    block, share = shares(ctype, loads)
    loop = LOOP.format(
        name=name, body="element", parameters=", ".join(parameters),
        arguments=", ".join([p.rpartition(" ")[2] for p in parameters]), block=block, unroll=share // block,
        last=share - block,
    )  # fmt: skip
    return HEAD.format(ctype=ctype, dims=DIMS, operands=operands) + body + loop


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
    parameters, lines = [], []
    for i, kind in enumerate(kinds):
        parameters.append(f"T v{i}" if kind == "s" else f"const T *__restrict__ v{i}")
        if kind == "d":
            parameters += [f"const T *__restrict__ t{i}", f"nd_int p{i}"]
        lines.append(f"const T x{i} = {_cell(f'v{i}', kind, i, strided)};")
    parameters += ["T *__restrict__ out", "T *__restrict__ dout"]
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
    return _kernel("ndual_forward", nin, parameters, lines, ctype, strided, lanes * len(active))


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
    parameters, lines = [], []
    for i, (kind, name) in enumerate(zip(kinds, [*(f"x{i}" for i in range(nin)), "y", "w"], strict=True)):
        if kind == "-":
            continue
        parameters.append(f"T v{i}" if kind == "s" else f"const T *__restrict__ v{i}")
        lines.append(f"const T {name} = {_cell(f'v{i}', kind, i, strided)};")
    for i, on in enumerate(wanted):
        if on:
            parameters.append(f"T *__restrict__ g{i}")
            lines.append(f"g{i}[i] = nd_times({partials[i]}, w);")
    return _kernel("ndual_pullback", nin + 2, parameters, lines, ctype, strided)
