"""What the CUDA text of a kernel begins with: its number types, and functions that every kernel of a type may call.

The same text compiles as host C++ with ``-DND_HOST``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["BASE", "DIMS", "KINDS", "Kind", "head", "layout_text", "times"]

DIMS = 8
"""The most axes of a strided launch, once those that lie side by side have become one."""


@dataclass(frozen=True)
class Kind:
    """A number type of arrays.

    Attributes
    ----------
    ctype : str
        What is computed in, as :func:`ndual.rules.language.to_c` calls it.
    stored : str
        What cells hold.
    real : str
        The type of real results.
    unroll : int
        Elements of one thread, a block apart: 16 bytes in flight without any alignment, so that lanes of any length
        reach the bandwidth of the device (4.2 TB/s on an H200, where one element a thread reaches 1.7 in float32 and
        3.3 in float64).
    """

    ctype: str
    stored: str
    real: str
    unroll: int

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return self.ctype != self.real


KINDS = {
    "double": Kind("double", "double", "double", 2),
    "float": Kind("float", "float", "float", 4),
    "half": Kind("float", "nd_half", "float", 8),
    "complex<double>": Kind("complex<double>", "complex<double>", "double", 1),
    "complex<float>": Kind("complex<float>", "complex<float>", "float", 2),
}

BASE = """\
// generated from ndual/rules by ndual/gpu/source.py; do not edit
#ifdef ND_HOST
#include <cmath>
#include <cstddef>
#include <cstring>
using namespace std;
#define ND_BODY static inline
#define ND_APART static
#else
#define ND_BODY static __device__ __forceinline__
#define ND_APART static __device__ __noinline__
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#endif
typedef long long nd_int;
"""

HALF = """\
#ifdef ND_HOST
typedef _Float16 nd_half;
#else
#include <cuda_fp16.h>
typedef __half nd_half;
#endif
"""

COMPLEX = """\
#ifdef ND_HOST
#include <complex>
#else
#include <cupy/complex.cuh>
#endif
"""

# T is what is computed in and S what cells hold; of results these are Y and P.
TYPES = """\
typedef {ctype} T;
typedef {stored} S;
typedef {result} Y;
typedef {kept} P;
"""

LAYOUT = """\
struct nd_layout {{ nd_int ndim, shape[{dims}], at[{operands}][{dims}]; }};
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

TIMES = """\
// Zero times anything is zero.
ND_BODY T nd_times(T factor, T t) {
    const T product = factor * t;
    return isfinite(product) || (factor != 0 && t != 0) ? product : (T)0;
}
"""

COMPLEX_TIMES = """\
// Zero times anything is zero.
ND_BODY T nd_times(T factor, T t) {
    const T product = factor * t;
    const bool finite = isfinite(product.real()) && isfinite(product.imag());
    return finite || (factor != T(0) && t != T(0)) ? product : T(0);
}
ND_BODY T nd_raised(T base, int n) {
    T product = base;
    for (int k = 1; k < n; k++)
        product = product * base;
    return product;
}
"""

DOUBLE_SINCOS = """\
#ifdef ND_HOST
ND_BODY void nd_sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }
#else
#define nd_sincos sincos
#endif
"""

# CUDA's sinf and cosf reduce large arguments in place, by a loop over local memory that keeps a thread from loading
# ahead; here that is a call, which arguments below 1e5 do not make. pi/2 in three parts (Cody and Waite), whose first
# product is exact for k < 2**17; they are below it, so that a product of -0 by each leaves -0. k is rounded by a number
# whose last digit is one, with the quadrant in its bits: conversions take a sixteenth of the rate of a product (sum of
# 1e8 cosines: 1.34 of the time that reading takes with them, 1.15 without). The polynomials are minimax on
# [0, (pi/4)**2], by Remez exchange with the coefficients rounded one after another. Below 2 ulp everywhere.
FLOAT_SINCOS = """\
struct nd_pair { float s, c; };
ND_APART nd_pair nd_far(float x) {
    nd_pair both;
#ifdef ND_HOST
    both.s = sinf(x), both.c = cosf(x);
#else
    sincosf(x, &both.s, &both.c);
#endif
    return both;
}
ND_BODY int nd_bits(float x) {
#ifdef ND_HOST
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
#else
    return __float_as_int(x);
#endif
}
ND_BODY float nd_turned(float x, int quadrant) { return quadrant & 2 ? -x : x; }
ND_BODY void nd_sincosf(float x, float *s, float *c) {
    const float turns = fmaf(x, 0x1.45f306p-1f, 0x1.8p+23f), k = turns - 0x1.8p+23f;
    const int quadrant = nd_bits(turns);
    float r = fmaf(-k, 0x1.921fb4p+0f, x);
    r = fmaf(-k, 0x1.4442d0p-24f, r);
    r = fmaf(-k, 0x1.846988p-48f, r);
    const float z = r * r;
    const float sine = r * fmaf(z, fmaf(z, fmaf(z, -0x1.995af6p-13f, 0x1.11076cp-7f), -0x1.555544p-3f), 1.0f);
    const float quarter = fmaf(z, fmaf(z, 0x1.99fc16p-16f, -0x1.6c0c60p-10f), 0x1.55554ap-5f);
    const float cosine = fmaf(z, fmaf(z, quarter, -0.5f), 1.0f);
    *s = nd_turned(quadrant & 1 ? cosine : sine, quadrant);
    *c = nd_turned(quadrant & 1 ? sine : cosine, quadrant + 1);
    if (!(fabsf(x) < 1e5f)) {
        const nd_pair both = nd_far(x);
        *s = both.s, *c = both.c;
    }
}
"""


def times(ctype: str) -> str:
    """The product of the chain rule, between numbers of a type."""
    return re.sub(r"\bT\b", ctype, TIMES)


def layout_text(operands: int) -> str:
    """Where cells at strides of their own lie, for so many operands."""
    return LAYOUT.format(dims=DIMS, operands=operands)


def head(ctype: str, operands: int, real_result: bool) -> str:
    """The text that the kernels of a number type begin with, for so many operands."""
    kind = KINDS[ctype]
    before = HALF if ctype == "half" else COMPLEX if kind.is_complex else ""
    types = TYPES.format(
        ctype=kind.ctype, stored=kind.stored, result=kind.real if real_result else kind.ctype,
        kept=kind.real if real_result else kind.stored,
    )  # fmt: skip
    sincos = {"double": DOUBLE_SINCOS, "float": FLOAT_SINCOS}.get(kind.ctype, "")
    return BASE + before + types + layout_text(operands) + (COMPLEX_TIMES if kind.is_complex else TIMES) + sincos
