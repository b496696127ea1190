/* What a pullback reads, in blocks: the cotangent, the operands and the value. Included by pull.c alone; everything is
 * static.
 */
#ifndef NDUAL_READER_H
#define NDUAL_READER_H

#include "gather.h"

/* Below this a run's own overhead outweighs gathering. */
#define ND_SHORT_RUN 32

/* The arrays that are read: the cotangent, the operands and the value, the last two in the order of the bits of `needs`. */
enum { ND_W, ND_X, ND_Y = ND_X + ND_MAXIN, ND_SOURCES };

/* Numbers of one block: as many as it has, or one for all. No address: not needed. */
typedef struct { const char *p; int same; } nd_feed;

typedef struct {
    nd_block d[ND_MAXIN], y, product;
    nd_block held[ND_SOURCES];         /* what was gathered, or one number, repeated */
    /* The address of that number, or of a row that was gathered over and over; it serves all blocks of a walk, whose first
     * is the longest. */
    const char *held_of[ND_SOURCES];
} nd_scratch;

/* The sources of one operand, walked in blocks over some axes. */
typedef struct {
    nd_geometry g;
    nd_stream s[ND_SOURCES];
    unsigned sources;
    unsigned char contiguous[ND_SOURCES], constant[ND_SOURCES], row[ND_SOURCES]; /* row: only the last axis counts */
    int flat, runs; /* no source needs gathering; blocks end where runs do */
    nd_position at;
    ptrdiff_t done;
} nd_reader;

/* Appends an axis of some streams: `from[1 + s]` belongs to source s. */
static void nd_append(nd_reader *r, const nd_stream *from, int axis, ptrdiff_t length) {
    const int d = r->g.ndim;
    if (length == 1) return;
    r->g.shape[d] = length;
    r->g.size *= length;
    r->g.ndim++;
    for (int s = 0; s < ND_SOURCES; s++) r->s[s].stride[d] = from[1 + s].stride[axis];
}

static void nd_prepare(nd_reader *r, ptrdiff_t size, nd_scratch *b) {
    r->flat = 1;
    for (int s = 0; s < ND_SOURCES; s++) {
        b->held_of[s] = NULL;
        r->row[s] = 1;
        if (!(r->sources >> s & 1)) continue;
        if (r->g.ndim == 0) r->s[s].stride[0] = 0;
        for (int d = 0; d < r->g.ndim - 1; d++) r->row[s] &= r->s[s].stride[d] == 0;
        r->constant[s] = r->row[s] && r->s[s].stride[r->g.ndim ? r->g.ndim - 1 : 0] == 0;
        r->contiguous[s] = nd_contiguous(&r->g, &r->s[s], size);
        r->flat &= r->constant[s] | r->contiguous[s];
    }
    if (r->g.ndim == 0) r->g.shape[r->g.ndim++] = 1;
    r->runs = !r->flat && r->g.shape[r->g.ndim - 1] >= ND_SHORT_RUN;
    memset(&r->at, 0, r->g.ndim * sizeof *r->at.index);
    r->done = 0;
}

/* How many elements the next block takes: a multiple of m, or what is left. */
static ptrdiff_t nd_next(const nd_reader *r, ptrdiff_t m) {
    const int inner = r->g.ndim - 1;
    ptrdiff_t left = r->g.size - r->done, n = ND_BLOCK / m * m;
    if (!r->runs && !r->flat && m == 1) n = ND_BLOCK / r->g.shape[inner] * r->g.shape[inner]; /* whole rows */
    if (r->runs && m == 1) left = r->g.shape[inner] - r->at.index[inner];
    else if (r->runs && m == r->g.shape[inner]) n = m;
    return left < n ? left : n;
}

/* The next n elements of every source. */
static void nd_read(nd_reader *r, ptrdiff_t size, ptrdiff_t n, nd_feed *feed, nd_scratch *b) {
    const int inner = r->g.ndim - 1, one_run = r->at.index[inner] + n <= r->g.shape[inner];
    for (int s = 0; s < ND_SOURCES; s++) {
        feed[s] = (nd_feed){NULL, 0};
        if (!(r->sources >> s & 1)) continue;
        const nd_stream *from = &r->s[s];
        if (r->constant[s]) {
            feed[s] = (nd_feed){from->p, 1};
        } else if (r->contiguous[s]) {
            feed[s].p = from->p + r->done * size;
        } else {
            const ptrdiff_t step = from->stride[inner];
            feed[s].p = (char *)&b->held[s];
            if (!one_run) {
                if (r->row[s] && b->held_of[s] == from->p) continue; /* such blocks start where a row does */
                nd_transfer(0, size, &r->g, from, r->at, n, from->p, (char *)&b->held[s]);
                b->held_of[s] = r->row[s] ? from->p : NULL;
                continue;
            }
            char *p = from->p + nd_offset(&r->g, from, &r->at);
            if (step == 0 || step == size) {
                feed[s] = (nd_feed){p, step == 0};
            } else {
                nd_copy_run(size, n, (char *)&b->held[s], size, p, step);
                b->held_of[s] = NULL;
            }
        }
    }
    r->done += n;
    if (!r->flat) nd_advance(&r->g, &r->at, n);
}

#endif
