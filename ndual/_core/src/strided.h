/* Walking several strided streams of one shape at once: coalescing dimensions and copying runs. Shared by driver.c
 * (nd_map) and copy.c (nd_copy); everything is static.
 */
#ifndef NDUAL_STRIDED_H
#define NDUAL_STRIDED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ndual_kernels.h"
#include "portable.h"

#define ND_MAXSTREAM (2 * ND_MAXIN + 2)

typedef struct {
    char *p;                     /* address of the first element */
    ptrdiff_t stride[ND_MAXDIM]; /* bytes, after coalescing */
} nd_stream;

typedef struct {
    int ndim;                   /* after coalescing; at least 1 */
    ptrdiff_t shape[ND_MAXDIM]; /* slowest first */
    ptrdiff_t size;
} nd_geometry;

static inline ptrdiff_t nd_magnitude(ptrdiff_t x) { return x < 0 ? -x : x; }

/* Brings the dimensions into the memory order of stream 0 (usually the output), turns its negative strides round, and
 * merges neighbours that all streams walk as one. */
static void nd_coalesce(nd_geometry *g, nd_stream *s, int ns, int ndim, const ptrdiff_t *shape,
                        const ptrdiff_t *const *strides) {
    int order[ND_MAXDIM], n = 0;
    g->size = 1;
    for (int d = 0; d < ndim; d++) {
        g->size *= shape[d];
        if (shape[d] == 1) continue;
        int at = n++;
        for (; at > 0 && nd_magnitude(strides[0][order[at - 1]]) < nd_magnitude(strides[0][d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    int last = -1;
    for (int i = 0; i < n; i++) {
        int d = order[i];
        if (strides[0][d] < 0)
            for (int j = 0; j < ns; j++) s[j].p += strides[j][d] * (shape[d] - 1);
        ptrdiff_t sign = strides[0][d] < 0 ? -1 : 1;
        int merge = last >= 0;
        for (int j = 0; j < ns && merge; j++) merge = s[j].stride[last] == sign * strides[j][d] * shape[d];
        if (merge) {
            g->shape[last] *= shape[d];
        } else {
            g->shape[++last] = shape[d];
        }
        for (int j = 0; j < ns; j++) s[j].stride[last] = sign * strides[j][d];
    }
    if (last < 0) {
        last = 0;
        g->shape[0] = g->size; /* 1, or 0 from a zero-sized dimension that came first */
        for (int j = 0; j < ns; j++) s[j].stride[0] = 0;
    }
    g->ndim = last + 1;
}

static ND_ALWAYS_INLINE void nd_run(size_t size, ptrdiff_t n, char *d, ptrdiff_t ds, const char *s,
                                                         ptrdiff_t ss) {
    for (ptrdiff_t i = 0; i < n; i++) memcpy(d + i * ds, s + i * ss, size);
}

/* One strided run of items; the common sizes are loops of single moves. */
static inline void nd_copy_run(size_t size, ptrdiff_t n, char *d, ptrdiff_t ds, const char *s, ptrdiff_t ss) {
    if (ds == (ptrdiff_t)size && ss == ds && (n >= 16 || size & (size - 1) || size > 8)) { /* a call is dear for a few */
        memcpy(d, s, n * size);
        return;
    }
    switch (size) {
    case 1: nd_run(1, n, d, ds, s, ss); return;
    case 2: nd_run(2, n, d, ds, s, ss); return;
    case 4: nd_run(4, n, d, ds, s, ss); return;
    case 8:
        if (ds == 8) nd_run(8, n, d, 8, s, ss);
        else if (ss == 8) nd_run(8, n, d, ds, s, 8);
        else nd_run(8, n, d, ds, s, ss);
        return;
    case 16: nd_run(16, n, d, ds, s, ss); return;
    default: nd_run(size, n, d, ds, s, ss);
    }
}

#endif
