/* The contract between the C kernels and the Cython core: rows, instruction sets, nd_map, nd_pull and nd_copy.
 *
 * Plain C99 without Python, NumPy or complex numbers, so that it can be compiled and tested alone. Nothing here
 * allocates, and nothing touches an object: every function may run without the GIL.
 */
#ifndef NDUAL_KERNELS_H
#define NDUAL_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ND_F32 = 0, ND_F64 = 1 };

#define ND_MAXIN 3
#define ND_MAXDIM 64

/* Elements per block. 128 to 2048 measure alike; 512 doubles keep all scratch of one call inside 48 KiB of L1. */
#define ND_BLOCK 512

/* How a row's derivative with respect to one operand is had. NONE: there is none, an active operand is an error;
 * ARRAY: `fill` computes it; X0, X1: it is that operand itself. */
enum { ND_COEF_NONE, ND_COEF_ZERO, ND_COEF_ONE, ND_COEF_NEG, ND_COEF_ARRAY, ND_COEF_X0, ND_COEF_X1 };

/* Or-ed to a kind given to nd_combine: the tangent of this term is one number per lane. */
#define ND_SCALAR_TANGENT 16

/* Value and partial derivatives of one contiguous block of any n >= 0. d[i] == NULL: not wanted. If the row takes its
 * value from NumPy's loop, y is filled on entry; else fill writes it. x, y and the wanted d are distinct memory. */
typedef void (*nd_fill)(ptrdiff_t n, const void *const *x, void *y, void *const *d);

typedef struct nd_row {
    const char *name;
    int nin;
    unsigned char value_inside;    /* fill writes y itself (add, multiply, sin ...) */
    unsigned char coef[ND_MAXIN];
    unsigned char needs[ND_MAXIN];  /* what nd_pull reads for an operand: bits 1, 2, 4 for x0, x1, x2, and 8 for y */
    unsigned char scale[ND_MAXIN];  /* what the partial is proportional to, in the same bits */
    nd_fill fill[2], fill_exact[2]; /* by dtype; exact: the value is bit-equal to libm's. NULL: nothing to compute */
    nd_fill back[2]; /* what nd_pull takes instead of `fill` where that would write y: reads y. NULL: `fill` it is */
} nd_row;

/* out[l][i] = sum over k terms of coef[i] * t[l][i], at most ND_BLOCK elements; zero times anything is zero. A kind is
 * ONE, NEG or ARRAY, perhaps with ND_SCALAR_TANGENT. `tlane` and `outlane` are bytes between lanes. A lane of `out` may
 * be the very lane of a t, and `coef` never overlaps `out`. */
typedef void (*nd_combine)(ptrdiff_t n, ptrdiff_t nlanes, int k, const int *kinds, const void *const *coef,
                           const char *const *t, const ptrdiff_t *tlane, char *out, ptrdiff_t outlane);

/* Loops over the cells of a shadow, and sums, which are double for either dtype. */
typedef struct nd_cells {
    /* to[i] += v[i], or = if `fresh`, with the other sign if `negative`; one number for all if `same`. Sums (`wide`) are
     * added before they are rounded, and as they are: `negative` is not looked at. Cells are `step` bytes apart, and v is
     * other memory. */
    void (*give)(ptrdiff_t n, char *to, ptrdiff_t step, const void *v, int wide, int same, int negative, int fresh);
    /* out[k] = scale * the sum of the k-th m numbers. */
    void (*sums)(const void *v, ptrdiff_t m, ptrdiff_t count, double scale, double *out);
    /* out[j] = the sum over rows of m numbers each. */
    void (*fold)(const void *v, ptrdiff_t rows, ptrdiff_t m, double *out);
    /* to[i] = base + f * from[i] + g * beside[i]. `beside`, or both, may be NULL; either may be `to`, but overlap it in no
     * other way. */
    void (*affine)(ptrdiff_t n, void *to, double base, double f, const void *from, double g, const void *beside);
    double (*sum)(const void *v, ptrdiff_t n); /* -0.0 if there is none */
    double (*dot)(const void *a, const void *b, ptrdiff_t n);
} nd_cells;

typedef struct nd_isa {
    const char *name; /* "baseline", "v3" or "v4" */
    const nd_row *rows;
    int nrows;
    nd_combine combine[2];
    int (*finite[2])(ptrdiff_t n, const void *v); /* whether n numbers side by side are all finite */
    nd_cells cells[2];
} nd_isa;

/* The best set for this processor, or the one called `force`; NULL if that is unknown or the processor lacks it. */
const nd_isa *nd_select(const char *force);

/* NumPy's inner loop. */
typedef void (*nd_loop_fn)(char **args, const intptr_t *n, const intptr_t *steps, void *data);
typedef struct { nd_loop_fn fn; void *data; } nd_loop;

/* Strides in bytes, already broadcast (0 where stretched). `lane`: bytes between lanes. t == NULL: a constant.
 * Only lanes lo .. hi - 1 of the output's can be other than zero, and t points at lane lo. */
typedef struct {
    const char *v;
    const ptrdiff_t *vs;
    const char *t;
    const ptrdiff_t *ts;
    ptrdiff_t lane, lo, hi;
} nd_in;
typedef struct { char *v; const ptrdiff_t *vs; char *t; const ptrdiff_t *ts; ptrdiff_t lane; } nd_out;

/* Applies a row to arrays of any shape and strides. `loop.fn` may be NULL where the row writes its value itself; where
 * both exist, the loop gives the value only if `exact`. out->t == NULL: value only. `out` may be the very memory and
 * geometry of an input; any other overlap is the caller's fault.
 * Returns 0; -1 for a bad argument; i + 1 if operand i has a tangent but the row has no derivative for it (nothing
 * has been written then). */
int nd_map(const nd_isa *isa, int row, int dtype, nd_loop loop, int nin, const nd_in *in, const nd_out *out, int ndim,
           const ptrdiff_t *shape, ptrdiff_t nlanes, int exact);

/* Where nd_pull leaves the cotangent of an operand: strides in bytes, 0 where the operand was stretched. t == NULL: not
 * wanted. `fresh`: the cells hold nothing yet and are assigned without being read; each must then belong to one element
 * of the operand. */
typedef struct { char *t; const ptrdiff_t *ts; int fresh; } nd_shadow;

/* The pullback of a row: to[i].t[index] += partial_i[index] * w[index] over the broadcast shape, for each operand i whose
 * shadow is given, so that what an operand's stretched axes received is summed. Zero times anything is zero.
 * Of the operands only v and vs are read, and those of y, and only what `needs` of the wanted operands says; the rest
 * may be NULL. Shadows may be each other's memory (x * x), where the second adds to what the first assigned; they
 * overlap neither w nor the values. An empty shape writes nothing. Returns 0, -1 or i + 1 as nd_map does. */
int nd_pull(const nd_isa *isa, int row, int dtype, int nin, const nd_in *in, const char *y, const ptrdiff_t *ys,
            const char *w, const ptrdiff_t *ws, const nd_shadow *to, int ndim, const ptrdiff_t *shape);

/* dst[...] = src[...] for items of any size, strides in bytes, without overlap (or dst == src, same strides). */
void nd_copy(size_t itemsize, int ndim, const ptrdiff_t *shape, char *dst, const ptrdiff_t *ds, const char *src,
             const ptrdiff_t *ss);

#ifdef __cplusplus
}
#endif
#endif
