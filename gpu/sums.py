"""The sum of all cells of what a row gives, and of each of its lanes, in one kernel that writes neither.

Every thread adds up its cells, a block those of its threads, and a second kernel those of the blocks where there are
several, in an order that hangs on the shape alone: the same operands give the same sum, bit by bit. Up to four cells of
a thread are added in the type of the array, all else in float64. The text compiles as host C++ as those of
:mod:`ndual.gpu.source` do.
"""

from __future__ import annotations

import functools
from typing import Any

from ndual.gpu.head import head
from ndual.gpu.source import texts, together

__all__ = ["FINISH", "MOST_BLOCKS", "shares", "total"]

# Threads of a block, and bytes that each has on their way at least, without lanes and with some. Of what was tried (128
# to 512 threads, 16 to 128 bytes, 2112 to 65536 blocks) the sum of cosines of 1e8 cells in float32 takes least so on an
# H200: 1.13 of the time that reading them takes at 4.3 TB/s. With lanes, for which there are fewer registers, half the
# threads take up to 1.08 times as long.
ALONE, BESIDE = (128, 128), (256, 64)
MOST_BLOCKS = 8192
GROUP = 4
"""Cells that are added in their own type: a conversion of each takes 1.29 instead of 1.21 in float32."""

# The partial sums of one kernel are (sums, blocks); a block of this one adds up those of one sum.
FINISH = """\
extern "C" __global__ void __launch_bounds__(256) ndual_finish(
    const double *__restrict__ partial, long long blocks, {ctype} *__restrict__ value, {ctype} *__restrict__ lanes) {{
    __shared__ double warps[8];
    double s = 0;
    for (long long i = threadIdx.x; i < blocks; i += 256)
        s += partial[blockIdx.x * blocks + i];
    for (int half = 16; half > 0; half /= 2)
        s += __shfl_down_sync(0xffffffff, s, half);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < 8; i++)
        s += warps[i];
    *(blockIdx.x ? lanes + blockIdx.x - 1 : value) = ({ctype})s;
}}
"""

BODY = """\
#ifdef ND_HOST
#define ND_UNROLL
#else
#define ND_UNROLL _Pragma("unroll")
#endif
struct nd_cell {{ T x[{nin}], t[{active}][{lanes}]; }};
ND_BODY void take({of_body}, nd_cell &cell) {{
    {take}
}}
template <typename A> ND_BODY void add({of_body}, const nd_cell &cell, A *sums) {{
    {add}
}}
#ifdef ND_HOST
extern "C" void ndual_total({parameters}) {{
    double sums[{sums}] = {{}};
    for (nd_int i = 0; i < n; i++) {{
        nd_cell cell;
        take({arguments}, i, cell);
        add({arguments}, i, cell, sums);
    }}
    for (int k = 0; k < {sums}; k++)
        *(k ? lanes + k - 1 : value) = (T)sums[k];
}}
#else
extern "C" __global__ void __launch_bounds__({block}) ndual_total({parameters}) {{
    const nd_int step = (nd_int)gridDim.x * {share};
    double sums[{sums}] = {{}};
    for (nd_int first = (nd_int)blockIdx.x * {share} + threadIdx.x; first < n; first += step) {{
        if (first + {last} < n) {{
            nd_cell cells[{unroll}];
            ND_UNROLL
            for (int u = 0; u < {unroll}; u++)
                take({arguments}, first + u * {block}, cells[u]);
            ND_UNROLL
            for (int g = 0; g < {unroll}; g += {group}) {{
                T near[{sums}] = {{}};
                ND_UNROLL
                for (int u = g; u < g + {group}; u++)
                    add({arguments}, first + u * {block}, cells[u], near);
                ND_UNROLL
                for (int k = 0; k < {sums}; k++)
                    sums[k] += near[k];
            }}
        }} else
            for (nd_int i = first; i < n && i < first + {share}; i += {block}) {{
                nd_cell cell;
                take({arguments}, i, cell);
                add({arguments}, i, cell, sums);
            }}
    }}
    __shared__ double warps[{sums}][{block} / 32];
    ND_UNROLL
    for (int k = 0; k < {sums}; k++) {{
        double s = sums[k];
        for (int half = 16; half > 0; half /= 2)
            s += __shfl_down_sync(0xffffffff, s, half);
        if (threadIdx.x % 32 == 0)
            warps[k][threadIdx.x / 32] = s;
    }}
    __syncthreads();
    #pragma unroll 1  // it is one turn mostly, and takes 40 ms to compile otherwise
    for (int k = threadIdx.x; k < {sums}; k += {block}) {{
        double s = 0;
        for (int i = 0; i < {block} / 32; i++)
            s += warps[k][i];
        if (gridDim.x > 1)
            partial[(nd_int)k * gridDim.x + blockIdx.x] = s;
        else
            *(k ? lanes + k - 1 : value) = (T)s;
    }}
}}
#endif
"""


@functools.cache
def shares(ctype: str, kinds: str, lanes: int) -> tuple[int, int]:
    """Threads of a block of :func:`total`, and cells that it takes at once: a power of two of a thread."""
    block, flight = BESIDE if lanes else ALONE
    loads = len(kinds) - kinds.count("s") + lanes * kinds.count("d")
    each = max(1, flight // (loads * (8 if ctype == "double" else 4)))
    return block, block << (each.bit_length() - 1)


def total(row: Any, ctype: str, kinds: str, strided: bool, lanes: int, keep: bool) -> str | None:
    """A kernel that sums the value and every lane of a row; None if a formula has no form in C, or for other types.

    Parameters
    ----------
    row, ctype, kinds, strided, lanes
        As in :func:`ndual.gpu.source.forward`.
    keep : bool
        It writes the value too, cells side by side.

    Notes
    -----
    The kernel takes ``x0, t0, p0, …[, y], value, lanes, partial[, layout], n``. One block writes the sums to `value`
    and `lanes`; several write those of each to `partial`, that of the value first, for :data:`FINISH`.
    """
    if ctype not in ("double", "float"):
        return None
    value, partials = texts(row, ctype)
    active = [i for i, kind in enumerate(kinds) if kind == "d"]
    if value is None or any(partials[i] is None for i in active):
        return None
    nin = len(kinds)
    parameters: list[str] = []
    take, add, terms = [], [], []
    if strided:
        take += [f"nd_int at[{nin}];", f"nd_places(layout, {nin}, i, at);"]
    for i, kind in enumerate(kinds):
        parameters.append(f"T v{i}" if kind == "s" else f"const T *__restrict__ v{i}")
        if kind == "d":
            parameters += [f"const T *__restrict__ t{i}", f"nd_int p{i}"]
            place = f"at[{i}]" if strided else "i"
            lane = f"cell.t[{active.index(i)}][k]"
            take += ["ND_UNROLL", f"for (int k = 0; k < {lanes}; k++)", f"    {lane} = t{i}[k * p{i} + {place}];"]
            terms.append(lane if partials[i] in ("1.0", "1.0f") else f"nd_times(d{i}, {lane})")
        cell = f"v{i}" if kind == "s" else f"v{i}[at[{i}]]" if strided else f"v{i}[i]"
        take.append(f"cell.x[{i}] = {cell};")
        add.append(f"const T x{i} = cell.x[{i}];")
    add.append(f"const T y = {value};")
    if keep:
        parameters.append("T *__restrict__ out")
        add.append("out[i] = y;")
    add.append("sums[0] += y;")
    add += [f"const T d{i} = {partials[i]};" for i in active if partials[i] not in ("1.0", "1.0f")]
    if active:
        add += ["ND_UNROLL", f"for (int k = 0; k < {lanes}; k++)", f"    sums[1 + k] += {' + '.join(terms)};"]
    parameters += ["T *value", "T *lanes", "double *__restrict__ partial"]
    parameters += [*(["nd_layout layout"] if strided else []), "nd_int n"]
    block, cells = shares(ctype, kinds, lanes)
    return head(ctype, nin, False) + BODY.format(
        nin=nin, active=max(1, len(active)), lanes=max(1, lanes), sums=1 + (lanes if active else 0),
        of_body=", ".join([*parameters, "nd_int i"]).replace("nd_layout layout", "const nd_layout &layout"),
        parameters=", ".join(parameters), arguments=", ".join([p.rpartition(" ")[2].lstrip("*") for p in parameters]),
        take="\n    ".join(take), add="\n    ".join(together(add, ctype)), block=block, share=cells,
        last=cells - block, unroll=cells // block, group=min(GROUP, cells // block),
    )  # fmt: skip
