/* Moving blocks of consecutive elements out of strided streams and back, from any position of the index space. Shared
 * by driver.c (nd_map) and pull.c (nd_pull); everything is static.
 */
#ifndef NDUAL_GATHER_H
#define NDUAL_GATHER_H

#include "strided.h"

/* Longer than it holds: blocks a whole page apart would hinder each other in the processor's tables of pending stores. */
typedef union { double f64[ND_BLOCK + 24]; float f32[ND_BLOCK]; } nd_block;

/* One number, n times. */
static inline void nd_spread(size_t size, ptrdiff_t n, const char *number, void *block) {
    if (size == 8) {
        uint64_t v, *b = block;
        memcpy(&v, number, 8);
        for (ptrdiff_t i = 0; i < n; i++) b[i] = v;
    } else {
        uint32_t v, *b = block;
        memcpy(&v, number, 4);
        for (ptrdiff_t i = 0; i < n; i++) b[i] = v;
    }
}

/* Sizes up one stream for a fast path: its element stride if the array can be walked as one run, else -1. */
static inline ptrdiff_t nd_flat(size_t size, int ndim, const ptrdiff_t *shape, const ptrdiff_t *strides) {
    if (ndim == 0 || (ndim == 1 && shape[0] == 1)) return size;
    if (ndim == 1) return strides[0] == (ptrdiff_t)size || strides[0] == 0 ? strides[0] : -1;
    ptrdiff_t next = size;
    int all_zero = 1, contiguous = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        if (strides[d] != next) contiguous = 0;
        if (strides[d] != 0) all_zero = 0;
        next *= shape[d];
    }
    return contiguous ? (ptrdiff_t)size : all_zero ? 0 : -1;
}

/* Whether a stream is one contiguous run, so that a block of it needs no gathering. */
static inline int nd_contiguous(const nd_geometry *g, const nd_stream *s, size_t size) {
    ptrdiff_t next = size;
    for (int d = g->ndim - 1; d >= 0; d--) {
        if (s->stride[d] != next) return 0;
        next *= g->shape[d];
    }
    return 1;
}

typedef struct { ptrdiff_t index[ND_MAXDIM]; } nd_position;

static inline ptrdiff_t nd_offset(const nd_geometry *g, const nd_stream *s, const nd_position *at) {
    ptrdiff_t offset = 0;
    for (int d = 0; d < g->ndim; d++) offset += at->index[d] * s->stride[d];
    return offset;
}

/* Moves on by n elements. */
static inline void nd_advance(const nd_geometry *g, nd_position *at, ptrdiff_t n) {
    for (int d = g->ndim - 1; d >= 0 && n > 0; d--) {
        n += at->index[d];
        if (n < g->shape[d]) {
            at->index[d] = n;
            return;
        }
        at->index[d] = n % g->shape[d];
        n /= g->shape[d];
    }
}

/* Copies n elements between a contiguous block and the stream from a position on. */
static void nd_transfer(int scatter, size_t size, const nd_geometry *g, const nd_stream *s, nd_position at, ptrdiff_t n,
                        char *stream, char *block) {
    int inner = g->ndim - 1;
    ptrdiff_t stride = s->stride[inner];
    stream += nd_offset(g, s, &at);
    while (n > 0) {
        ptrdiff_t run = g->shape[inner] - at.index[inner];
        if (run > n) run = n;
        if (scatter) nd_copy_run(size, run, stream, stride, block, size);
        else nd_copy_run(size, run, block, size, stream, stride);
        block += run * size;
        n -= run;
        if (n == 0) return;
        /* The run ended at its dimension's end: step the slower ones. */
        stream -= at.index[inner] * stride;
        at.index[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            stream += s->stride[d];
            if (++at.index[d] < g->shape[d]) break;
            stream -= s->stride[d] * g->shape[d];
            at.index[d] = 0;
        }
    }
}

#endif
