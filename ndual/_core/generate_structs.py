"""The part of the generator that writes the public structs: one C header and its declarations for Cython.

The header is macros over widths, because a function per row, width and dtype would be tens of thousands of lines. Only
rows whose value has a C form can be in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

HEAD = r"""/* {note}.
 *
 * NDual<W> (double) and NDual<W>f (float): a value and W partial derivatives. nd<W>_<row>(a, b) applies a row of the
 * rule table; nd<W>_<row>_dc takes a number for b, nd<W>_<row>_cd one for a. Zero times anything is zero in a
 * derivative: the products are formed plainly, and again with zeros masked only if a NaN came out.
 *
 * Compile with -O3 and the vectors of your processor (-march=x86-64-v3 or native): widths of 4 and more are arithmetic
 * on short arrays, which become vector instructions then. Add -ffp-contract=off to get the bits of ndual itself. Under
 * -ffast-math, or -ffinite-math-only, the strong zero is lost.
 */
#ifndef NDUAL_STRUCTS_H
#define NDUAL_STRUCTS_H

#include <math.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

/* A step is one chunk of partials, K its kind (letter of the type, and length) and o its offset. gcc takes loops over 4
 * to 16 partials apart into scalars and then does not find the vectors again, so the chunks are spelled out. A struct
 * stays in registers while only these functions touch it: set it with _const and _seed and read it with _partial, since
 * reading s.p[i] in the same function makes gcc keep s in memory (3 times slower). ND_NAN: whether any number of a
 * chunk is NaN. */
#ifdef __GNUC__
#define ND_INLINE static inline __attribute__((always_inline, unused))
#define ND_CALL static __attribute__((noinline, unused))
#define ND_RARE static __attribute__((noinline, cold, unused))
#define ND_UNLIKELY(x) __builtin_expect(!!(x), 0)
typedef double nd_D1;
typedef double nd_D2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef double nd_D4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef float nd_F1;
typedef float nd_F4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float nd_F8 __attribute__((vector_size(32), aligned(4), may_alias));
#define ND_NAN_D1(x) (x != x)
#define ND_NAN_F1(x) (x != x)
#ifdef __SSE2__
#define ND_NAN_D2(x) _mm_movemask_pd(_mm_cmpunord_pd((__m128d)x, (__m128d)x))
#define ND_NAN_F4(x) _mm_movemask_ps(_mm_cmpunord_ps((__m128)x, (__m128)x))
#else
/* A sum is NaN if any number is; if it is for another reason (inf - inf), the redone result is the same. */
#define ND_NAN_D2(x) ND_NAN_D1((x[0] + x[1]))
#define ND_NAN_F4(x) ND_NAN_F1(((x[0] + x[1]) + (x[2] + x[3])))
#endif
#ifdef __AVX__
#define ND_NAN_D4(x) _mm256_movemask_pd(_mm256_cmp_pd((__m256d)x, (__m256d)x, _CMP_UNORD_Q))
#define ND_NAN_F8(x) _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q))
#endif
#define ND_AT(K, p, o) (*(nd_##K *)((p) + (o)))
#define ND_ZERO(K, o) ND_AT(K, r.p, o) = (nd_##K){0};
#define ND_STEP1(K, o) { nd_##K x = d * ND_AT(K, a.p, o); ND_AT(K, r.p, o) = x; nan |= ND_NAN_##K(x); }
#define ND_STEP2(K, o)                                                                                                 \
    { nd_##K x = d * ND_AT(K, a.p, o) + e * ND_AT(K, b.p, o); ND_AT(K, r.p, o) = x; nan |= ND_NAN_##K(x); }
#else
#define ND_INLINE static __inline
#define ND_CALL static
#define ND_RARE static
#define ND_UNLIKELY(x) (x)
#define ND_ZERO(K, o) for (int i = (o); i < (o) + nd_##K; i++) r.p[i] = 0;
enum { nd_D1 = 1, nd_D2 = 2, nd_F1 = 1, nd_F4 = 4 };
#define ND_STEP1(K, o) for (int i = (o); i < (o) + nd_##K; i++) { r.p[i] = d * a.p[i]; nan |= r.p[i] != r.p[i]; }
#define ND_STEP2(K, o)                                                                                                 \
    for (int i = (o); i < (o) + nd_##K; i++) { r.p[i] = d * a.p[i] + e * b.p[i]; nan |= r.p[i] != r.p[i]; }
#endif
#define ND_D1(STEP, o) STEP(D1, o)
#define ND_D2(STEP, o) STEP(D2, o)
#define ND_F1(STEP, o) STEP(F1, o)
#define ND_F4(STEP, o) STEP(F4, o)
#ifdef __AVX__
#define ND_D4(STEP, o) STEP(D4, o)
#define ND_F8(STEP, o) STEP(F8, o)
#else
#define ND_D4(STEP, o) STEP(D2, o) STEP(D2, o + 2)
#define ND_F8(STEP, o) STEP(F4, o) STEP(F4, o + 4)
#endif
"""

# One width and dtype: S the struct, P the prefix of its functions, R that of the row functions, T the number.
TYPE = r"""
#define ND_DEFINE_TYPE(S, P, T, W, CHUNKS)                                                                             \
    typedef struct { T v; T p[W]; } S;                                                                                 \
    ND_INLINE S P##_const(T v) {                                                                                       \
        S r;                                                                                                           \
        r.v = v;                                                                                                       \
        CHUNKS(ND_ZERO)                                                                                                \
        return r;                                                                                                      \
    }                                                                                                                  \
    ND_CALL S P##_seed(T v, int lane) {                                                                                \
        S r = P##_const(v);                                                                                            \
        r.p[lane] = 1;                                                                                                 \
        return r;                                                                                                      \
    }                                                                                                                  \
    ND_CALL T P##_partial(S a, int lane) { return a.p[lane]; }                                                         \
    ND_RARE S P##_redo1(T v, T d, const S *a) {                                                                        \
        S r;                                                                                                           \
        r.v = v;                                                                                                       \
        for (int i = 0; i < W; i++) r.p[i] = d == 0 || a->p[i] == 0 ? 0 : d * a->p[i];                                 \
        return r;                                                                                                      \
    }                                                                                                                  \
    ND_RARE S P##_redo2(T v, T d, const S *a, T e, const S *b) {                                                       \
        S r;                                                                                                           \
        r.v = v;                                                                                                       \
        for (int i = 0; i < W; i++)                                                                                    \
            r.p[i] = (d == 0 || a->p[i] == 0 ? 0 : d * a->p[i]) + (e == 0 || b->p[i] == 0 ? 0 : e * b->p[i]);          \
        return r;                                                                                                      \
    }                                                                                                                  \
    ND_INLINE S P##_chain1(T v, T d, S a, int safe) {                                                                  \
        S r;                                                                                                           \
        int nan = 0;                                                                                                   \
        r.v = v;                                                                                                       \
        CHUNKS(ND_STEP1)                                                                                               \
        if (ND_UNLIKELY(!safe && nan)) {                                                                               \
            S ca = a;                                                                                                  \
            return P##_redo1(v, d, &ca);                                                                               \
        }                                                                                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    ND_INLINE S P##_chain2(T v, T d, S a, T e, S b, int safe) {                                                        \
        S r;                                                                                                           \
        int nan = 0;                                                                                                   \
        r.v = v;                                                                                                       \
        CHUNKS(ND_STEP2)                                                                                               \
        if (ND_UNLIKELY(!safe && nan)) {                                                                               \
            S ca = a, cb = b;                                                                                          \
            return P##_redo2(v, d, &ca, e, &cb);                                                                       \
        }                                                                                                              \
        return r;                                                                                                      \
    }                                                                                                                  \
    ND_INLINE S P##_scale(S a, T c) { return P##_chain1(a.v * c, c, a, 0); }

#define ND_DEFINE_UNARY(row, safe, S, P, R, T)                                                                         \
    ND_INLINE S P##_##row(S a) {                                                                                       \
        T d;                                                                                                           \
        T y = R##_##row(a.v, &d);                                                                                      \
        return P##_chain1(y, d, a, safe);                                                                              \
    }
#define ND_DEFINE_BINARY(row, safe, S, P, R, T)                                                                        \
    ND_INLINE S P##_##row(S a, S b) {                                                                                  \
        T d, e;                                                                                                        \
        T y = R##_##row(a.v, b.v, &d, &e);                                                                             \
        return P##_chain2(y, d, a, e, b, safe);                                                                        \
    }                                                                                                                  \
    ND_INLINE S P##_##row##_dc(S a, T b) {                                                                             \
        T d, e;                                                                                                        \
        T y = R##_##row(a.v, b, &d, &e);                                                                               \
        return P##_chain1(y, d, a, safe);                                                                              \
    }                                                                                                                  \
    ND_INLINE S P##_##row##_cd(T a, S b) {                                                                             \
        T d, e;                                                                                                        \
        T y = R##_##row(a, b.v, &d, &e);                                                                               \
        return P##_chain1(y, e, b, safe);                                                                              \
    }
"""


def in_structs(row: Any) -> bool:
    """Whether a row can be a function on structs: its value in C, one or two operands, each with a derivative."""
    return row.nin <= 2 and None not in row.partials and row.c(row.value, "double") is not None


def row_function(row: Any, ctype: str, prefix: str) -> str:
    """Value and partials of a row at one point."""
    names = [f"x{i}" for i in range(row.nin)]
    outputs = [f"{ctype} *d{i}" for i in range(row.nin)]
    lines = [f"ND_INLINE {ctype} {prefix}_{row.name}({', '.join([f'{ctype} {x}' for x in names] + outputs)}) {{"]
    lines.append(f"    {ctype} y = {row.c(row.value, ctype)};")
    lines += [f"    *d{i} = {row.c(partial, ctype)};" for i, partial in enumerate(row.partials)]
    return "\n".join([*lines, *(f"    (void){x};" for x in names), "    return y;", "}"])


def kinds(widths: Iterable[int], float32_widths: Iterable[int]) -> list[tuple[str, str, str, str, int]]:
    """Struct, prefix, prefix of row functions, C type and width of each type."""
    double = [(f"NDual{w}", f"nd{w}", "nd_f64", "double", w) for w in widths]
    return double + [(f"NDual{w}f", f"nd{w}f", "nd_f32", "float", w) for w in float32_widths]


def chunks(width: int, ctype: str) -> str:
    """The steps that cover `width` partials: the longest vectors first."""
    letter, lengths = ("D", (4, 2, 1)) if ctype == "double" else ("F", (8, 4, 1))
    steps, offset = [], 0
    while offset < width:
        length = next(n for n in lengths if n <= width - offset)
        steps.append(f"ND_{letter}{length}(STEP, {offset})")
        offset += length
    return " ".join(steps)


def header(rows: list[Any], widths: Iterable[int], float32_widths: Iterable[int], note: str) -> str:
    """The C header."""
    rows = [row for row in rows if in_structs(row)]
    parts = [HEAD.replace("{note}", note)]
    for ctype, prefix in (("double", "nd_f64"), ("float", "nd_f32")):
        parts += [row_function(row, ctype, prefix) for row in rows]
    parts.append(TYPE)
    parts.append("#define ND_DEFINE_ROWS(S, P, R, T) \\")
    for row in rows:
        safe = int(all(row.coefficient(i) in ("ONE", "NEG", "ZERO") for i in range(row.nin)))
        macro = "ND_DEFINE_UNARY" if row.nin == 1 else "ND_DEFINE_BINARY"
        parts.append(f"    {macro}({row.name}, {safe}, S, P, R, T) \\")
    parts.append("")
    for struct, prefix, functions, ctype, width in kinds(widths, float32_widths):
        parts.append(f"#define ND_CHUNKS_{struct}(STEP) {chunks(width, ctype)}")
        parts.append(f"ND_DEFINE_TYPE({struct}, {prefix}, {ctype}, {width}, ND_CHUNKS_{struct})")
        parts.append(f"ND_DEFINE_ROWS({struct}, {prefix}, {functions}, {ctype})")
    return "\n".join([*parts, "#endif", ""])


def declarations(
    rows: list[Any], widths: Iterable[int], float32_widths: Iterable[int], note: str, short: dict[str, str]
) -> str:
    """What Cython must know of the header."""
    lines = [f"# {note}.", "", 'cdef extern from "ndual_structs.h" nogil:']
    for struct, prefix, _, ctype, width in kinds(widths, float32_widths):
        lines += [f"    ctypedef struct {struct}:", f"        {ctype} v", f"        {ctype} p[{width}]"]
        lines += [f"    {struct} {prefix}_const({ctype} v) noexcept"]
        lines += [f"    {struct} {prefix}_seed({ctype} v, int lane) noexcept"]
        lines += [f"    {ctype} {prefix}_partial({struct} a, int lane) noexcept"]
        lines += [f"    {struct} {prefix}_scale({struct} a, {ctype} c) noexcept"]
        for row in filter(in_structs, rows):
            for name in dict.fromkeys((row.name, short.get(row.name, row.name))):
                lines += signatures(row, struct, prefix, ctype, name)
    return "\n".join([*lines, ""])


def signatures(row: Any, struct: str, prefix: str, ctype: str, name: str) -> list[str]:
    """The declarations of one row for one type, under its own name or a short one."""
    variants = [("", [struct] * row.nin)]
    if row.nin == 2:
        variants += [("_dc", [struct, ctype]), ("_cd", [ctype, struct])]
    lines = []
    for suffix, types in variants:
        real = "" if name == row.name else f' "{prefix}_{row.name}{suffix}"'
        arguments = ", ".join(f"{kind} {letter}" for kind, letter in zip(types, "ab", strict=False))
        lines.append(f"    {struct} {prefix}_{name}{suffix}{real}({arguments}) noexcept")
    return lines
