/* Moving blocks of consecutive elements out of strided streams and back, from any position of the index space.
 */
#ifndef NDUAL_GATHER_H
#define NDUAL_GATHER_H

#include "strided.h"

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
