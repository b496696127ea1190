/* nd_pull: the pullback of one row, applied to whole arrays. Like nd_map it knows strides and blocks and nothing of
 * calculus: `fill` computes the partial derivatives of a block, `combine` multiplies them by the cotangent, with zeros
 * annihilating.
 *
 * Two ways lead through it. Where every array is contiguous or a single number, all operands are served block by block,
 * with little overhead. Else each operand is taken alone, and the axes are sorted by what varies along them:
 *
 *                              the shadow varies       the shadow does not (the operand was stretched)
 *     cotangent or values vary       kept                              summed
 *     nothing varies                spread           left out: the count of its elements is a factor
 *
 * Blocks of products run over kept and summed axes only; each result is added along the spread ones.
 */
#include "reader.h"

/* Below this the products of one row of cells do not repay a block of their own. */
#define ND_FEW 128

/* Partial sums are kept in levels, each of which hands on after this many. */
#define ND_LEVELS 3
#define ND_RADIX 32

typedef struct {
    const nd_row *row;
    nd_fill fill;
    nd_combine combine;
    const nd_cells *cells;
    ptrdiff_t size; /* of one number */
    const char *from[ND_SOURCES];
    const ptrdiff_t *strides[ND_SOURCES];
    int ndim;
    const ptrdiff_t *shape;
    ptrdiff_t total;
} nd_job;

/* An operand that a cotangent is wanted for. */
typedef struct { int operand, coef, negative, fresh; char *t; const ptrdiff_t *ts; } nd_term;

/* What `fill` gets for values that its results do not depend on. */
static const nd_block nd_nothing;
static const ptrdiff_t nd_no_strides[ND_MAXDIM];

static inline unsigned nd_sources(const nd_job *job, const nd_term *term, int nterms) {
    unsigned sources = 1 << ND_W;
    for (int j = 0; j < nterms; j++) sources |= (unsigned)job->row->needs[term[j].operand] << ND_X;
    return sources;
}

static const void *nd_spread_out(const nd_job *job, const nd_feed *feed, int s, ptrdiff_t n, nd_scratch *b) {
    if (feed[s].p == NULL) return &nd_nothing;
    if (!feed[s].same || n == 1) return feed[s].p;
    if (b->held_of[s] != feed[s].p) {
        nd_spread(job->size, n, feed[s].p, &b->held[s]);
        b->held_of[s] = feed[s].p;
    }
    return &b->held[s];
}

/* The partial derivatives of one block: one number if nothing that they are computed from varies. */
static inline void nd_coefs(const nd_job *job, const nd_term *term, int nterms, const nd_feed *feed, ptrdiff_t n,
                            nd_scratch *b, nd_feed *c) {
    unsigned reads = 0;
    int any = 0;
    void *d[ND_MAXIN] = {NULL, NULL, NULL};
    for (int j = 0; j < nterms; j++) {
        int i = term[j].operand;
        c[j] = term[j].coef == ND_COEF_X0 ? feed[ND_X] : term[j].coef == ND_COEF_X1 ? feed[ND_X + 1] : (nd_feed){NULL, 0};
        if (term[j].coef != ND_COEF_ARRAY) continue;
        any = 1;
        reads |= (unsigned)job->row->needs[i] << ND_X;
        d[i] = &b->d[i];
        c[j].p = (const char *)d[i];
    }
    if (!any) return;
    int same = 1;
    for (int s = ND_X; s < ND_SOURCES; s++)
        if (reads >> s & 1) same &= feed[s].same;
    ptrdiff_t m = same ? 1 : n;
    const void *x[ND_MAXIN];
    for (int i = 0; i < ND_MAXIN; i++) x[i] = nd_spread_out(job, feed, ND_X + i, m, b);
    job->fill(m, x, feed[ND_Y].p == NULL ? (void *)&b->y : (void *)nd_spread_out(job, feed, ND_Y, m, b), d);
    for (int j = 0; j < nterms; j++)
        if (term[j].coef == ND_COEF_ARRAY) c[j].same = same;
}

/* Coefficient times cotangent, in `out` if there is anything to multiply. If one of the two is one number, nd_combine
 * takes that one as the tangent. */
static inline nd_feed nd_product(const nd_job *job, const nd_term *term, nd_feed c, nd_feed w, ptrdiff_t n, void *out) {
    const ptrdiff_t lane = 0;
    const int same = c.same && w.same;
    if (term->coef == ND_COEF_ONE || term->coef == ND_COEF_NEG) return w;
    if (same) c.same = w.same = 0, n = 1;
    const int kind = ND_COEF_ARRAY | (c.same || w.same ? ND_SCALAR_TANGENT : 0);
    const void *coef = c.same ? w.p : c.p;
    const char *t = c.same ? c.p : w.p;
    job->combine(n, 1, 1, &kind, &coef, &t, &lane, out, 0);
    return (nd_feed){out, same};
}

/* The same, assigned or added to contiguous cells. A sum of two terms by nd_combine, into a block and copied, takes a
 * twentieth longer than product and sum by themselves. */
static inline void nd_deposit(const nd_job *job, const nd_term *term, nd_feed c, nd_feed w, ptrdiff_t n, char *to,
                              nd_scratch *b) {
    const int assigned = term->fresh && !(c.same && w.same) && term->coef != ND_COEF_ONE && term->coef != ND_COEF_NEG;
    nd_feed v = nd_product(job, term, c, w, n, assigned ? (void *)to : (void *)&b->product);
    if (!assigned) job->cells->give(n, to, job->size, v.p, 0, v.same, term->negative, term->fresh);
}

/* Takes in the count-th sums of m columns: those of ND_RADIX before are handed on to the next level together. */
static void nd_level(double *levels, ptrdiff_t m, ptrdiff_t count, const double *sums) {
    for (int l = 0;; l++, count /= ND_RADIX) {
        if (l < ND_LEVELS - 1 ? count % ND_RADIX == 0 : count == 0) memcpy(levels, sums, m * sizeof *levels);
        else for (ptrdiff_t j = 0; j < m; j++) levels[j] += sums[j];
        if (l == ND_LEVELS - 1 || count % ND_RADIX != ND_RADIX - 1) return;
        sums = levels;
        levels += m;
    }
}

/* The sum of all levels after `count` sums, times a number. */
static void nd_total(const double *levels, ptrdiff_t m, ptrdiff_t count, double scale, double *out) {
    for (ptrdiff_t j = 0; j < m; j++) out[j] = 0;
    for (int l = 0; l < ND_LEVELS; l++, levels += m, count /= ND_RADIX)
        if (l < ND_LEVELS - 1 ? count % ND_RADIX : count)
            for (ptrdiff_t j = 0; j < m; j++) out[j] += levels[j];
    for (ptrdiff_t j = 0; j < m; j++) out[j] *= scale;
}

/* Contiguous arrays and single numbers: block by block, all operands at once. Returns 0 if there are others; nothing is
 * written then. */
static int nd_pull_flat(const nd_job *job, const nd_term *term, int nterms, nd_scratch *b) {
    const ptrdiff_t size = job->size;
    const unsigned sources = nd_sources(job, term, nterms);
    nd_feed feed[ND_SOURCES], c[ND_MAXIN];
    ptrdiff_t step[ND_MAXIN], block = 0;
    double levels[ND_MAXIN][ND_LEVELS];
    for (int j = 0; j < nterms; j++)
        if ((step[j] = nd_flat(size, job->ndim, job->shape, term[j].ts)) < 0) return 0;
    for (int s = 0; s < ND_SOURCES; s++) {
        feed[s] = (nd_feed){NULL, 0};
        if (!(sources >> s & 1)) continue;
        ptrdiff_t at = nd_flat(size, job->ndim, job->shape, job->strides[s]);
        if (at < 0) return 0;
        feed[s] = (nd_feed){job->from[s], at == 0};
    }
    for (ptrdiff_t done = 0; done < job->total; done += ND_BLOCK, block++) {
        const ptrdiff_t n = job->total - done < ND_BLOCK ? job->total - done : ND_BLOCK;
        nd_coefs(job, term, nterms, feed, n, b, c);
        for (int j = 0; j < nterms; j++) {
            if (step[j]) {
                nd_deposit(job, &term[j], c[j], feed[ND_W], n, term[j].t + done * size, b);
            } else {
                double sum;
                nd_feed v = nd_product(job, &term[j], c[j], feed[ND_W], n, &b->product);
                job->cells->sums(v.p, v.same ? 1 : n, 1, v.same ? (double)n : 1, &sum);
                nd_level(levels[j], 1, block, &sum);
            }
        }
        for (int s = 0; s < ND_SOURCES; s++)
            if (!feed[s].same && feed[s].p) feed[s].p += n * size;
    }
    for (int j = 0; j < nterms; j++) {
        double sum;
        if (step[j]) continue;
        nd_total(levels[j], 1, block, term[j].negative ? -1 : 1, &sum);
        job->cells->give(1, term[j].t, 0, &sum, 1, 0, 0, term[j].fresh);
    }
    return 1;
}

/* The cells of one shadow: along the kept axes, and along those that a result is spread over (`rows`: all but the last of
 * these). Structures of 64 axes are not copied whole: that takes as long as the arithmetic of a small array. */
typedef struct {
    nd_geometry kept, spread, rows;
    const nd_stream *to;
    nd_stream along;
    int fresh, negative, flat;
} nd_target;

static inline void nd_set_out(const nd_geometry *g, nd_position *at) { memset(at->index, 0, g->ndim * sizeof *at->index); }

/* One result, or a run of them `step` bytes apart, added along the spread axes; the inner loop takes the closer cells. */
static void nd_give_along(const nd_job *job, const nd_target *t, char *to, ptrdiff_t step, ptrdiff_t n, const char *v,
                          int wide) {
    const int inner = t->spread.ndim - 1, one = n == 1 || nd_magnitude(t->along.stride[inner]) < nd_magnitude(step);
    const nd_geometry *g = one ? &t->rows : &t->spread;
    const ptrdiff_t width = wide ? (ptrdiff_t)sizeof(double) : job->size;
    for (ptrdiff_t k = 0; k < (one ? n : 1); k++, to += step, v += width) {
        nd_position at;
        nd_set_out(g, &at);
        for (ptrdiff_t q = 0; q < g->size; q++, nd_advance(g, &at, 1)) {
            char *cell = to + nd_offset(g, &t->along, &at);
            if (one) job->cells->give(t->spread.shape[inner], cell, t->along.stride[inner], v, wide, 1, t->negative,
                                      t->fresh);
            else job->cells->give(n, cell, step, v, wide, 0, t->negative, t->fresh);
        }
    }
}

/* Results of n kept positions from `at` on. */
static void nd_give(const nd_job *job, const nd_target *t, const nd_position *from, ptrdiff_t n, const char *v, int wide) {
    const nd_geometry *g = &t->kept;
    const int inner = g->ndim - 1;
    nd_position at;
    memcpy(at.index, from->index, g->ndim * sizeof *at.index);
    const ptrdiff_t step = t->to->stride[inner], width = wide ? (ptrdiff_t)sizeof(double) : job->size;
    while (n > 0) {
        ptrdiff_t run = g->shape[inner] - at.index[inner];
        char *to = t->to->p + nd_offset(g, t->to, &at);
        if (run > n || t->flat) run = n;
        if (t->spread.size == 1) job->cells->give(run, to, step, v, wide, 0, t->negative, t->fresh);
        else nd_give_along(job, t, to, step, run, v, wide);
        nd_advance(g, &at, run);
        v += run * width;
        n -= run;
    }
}


/* Blocks over kept and summed axes, the summed ones innermost; none if nothing is summed. */
static void nd_pull_elements(const nd_job *job, const nd_term *term, const nd_target *t, nd_reader *r, ptrdiff_t summed,
                             ptrdiff_t count, nd_scratch *b) {
    double sums[ND_BLOCK];
    nd_feed feed[ND_SOURCES], c;
    nd_position at;
    const int wide = summed > 1 || count > 1;
    nd_set_out(&t->kept, &at);
    while (r->done < r->g.size) {
        ptrdiff_t n = nd_next(r, summed);
        nd_read(r, job->size, n, feed, b);
        nd_coefs(job, term, 1, feed, n, b, &c);
        if (t->flat && !wide) {
            nd_deposit(job, term, c, feed[ND_W], n, t->to->p + (r->done - n) * job->size, b);
            continue;
        }
        nd_feed v = nd_product(job, term, c, feed[ND_W], n, &b->product);
        n /= summed;
        if (wide) job->cells->sums(v.p, summed, n, t->negative ? -(double)count : (double)count, sums);
        nd_give(job, t, &at, n, wide ? (const char *)sums : v.p, wide);
        nd_advance(&t->kept, &at, n);
    }
}

/* For every kept position, or row of m of them, the sum over the summed axes in blocks of whole rows. */
static void nd_pull_rows(const nd_job *job, const nd_term *term, const nd_target *t, nd_reader *r,
                         const nd_stream *by_kept, ptrdiff_t start, ptrdiff_t extent, ptrdiff_t m, ptrdiff_t count,
                         nd_scratch *b) {
    double levels[ND_LEVELS * ND_BLOCK], sums[ND_BLOCK];
    nd_feed feed[ND_SOURCES], c;
    nd_position at;
    char *base[ND_SOURCES];
    nd_set_out(&t->kept, &at);
    at.index[t->kept.ndim - 1] = start;
    for (int s = 0; s < ND_SOURCES; s++) base[s] = r->s[s].p;
    for (ptrdiff_t row = 0; row < t->kept.size / extent; row++, nd_advance(&t->kept, &at, extent)) {
        ptrdiff_t blocks = 0;
        for (int s = 0; s < ND_SOURCES; s++) r->s[s].p = base[s] + nd_offset(&t->kept, &by_kept[1 + s], &at);
        for (r->done = 0; r->done < r->g.size; blocks++) {
            ptrdiff_t n = nd_next(r, m);
            nd_read(r, job->size, n, feed, b);
            nd_coefs(job, term, 1, feed, n, b, &c);
            nd_feed v = nd_product(job, term, c, feed[ND_W], n, &b->product);
            job->cells->fold(v.p, n / m, m, sums);
            nd_level(levels, m, blocks, sums);
        }
        nd_total(levels, m, blocks, t->negative ? -(double)count : (double)count, sums);
        nd_give(job, t, &at, m, (const char *)sums, 1);
    }
    for (int s = 0; s < ND_SOURCES; s++) r->s[s].p = base[s];
}

/* Any geometry, one operand. */
static void nd_pull_walk(const nd_job *job, const nd_term *term, nd_scratch *b) {
    const unsigned sources = nd_sources(job, term, 1);
    ptrdiff_t kept[ND_MAXDIM], summed[ND_MAXDIM], spread[ND_MAXDIM], distance[ND_MAXDIM], count = 1, near = 0;
    const ptrdiff_t *strides[ND_SOURCES + 1];
    nd_stream by_kept[ND_SOURCES + 1], by_summed[ND_SOURCES + 1];
    nd_geometry over;
    nd_target t;
    nd_reader r;
    kept[0] = summed[0] = spread[0] = distance[0] = 0; /* gcc thinks of no axes, which never come here */
    for (int s = 0; s < ND_SOURCES; s++) {
        const int used = sources >> s & 1;
        by_kept[1 + s].p = used ? (char *)job->from[s] : (char *)&nd_nothing;
        strides[1 + s] = used ? job->strides[s] : nd_no_strides;
    }
    for (int d = 0; d < job->ndim; d++) {
        const ptrdiff_t length = job->shape[d];
        kept[d] = summed[d] = spread[d] = 1;
        distance[d] = 0;
        for (int s = 0; s < ND_SOURCES; s++) distance[d] += nd_magnitude(strides[1 + s][d]);
        if (distance[d]) *(term->ts[d] ? &kept[d] : &summed[d]) = length;
        else if (term->ts[d]) spread[d] = length;
        else count *= length;
    }

    /* Kept and spread axes go in the order of the shadow's memory, summed ones in that of what is read. */
    by_kept[0].p = term->t;
    strides[0] = term->ts;
    nd_coalesce(&t.kept, by_kept, ND_SOURCES + 1, job->ndim, kept, strides);
    t.along.p = by_kept[0].p;
    nd_coalesce(&t.spread, &t.along, 1, job->ndim, spread, strides);
    by_kept[0].p = t.along.p;
    t.to = by_kept;
    t.rows.ndim = t.spread.ndim - 1;
    t.rows.size = t.spread.size / t.spread.shape[t.rows.ndim];
    memcpy(t.rows.shape, t.spread.shape, t.rows.ndim * sizeof *t.rows.shape);
    t.fresh = term->fresh;
    t.negative = term->negative;
    t.flat = t.spread.size == 1 && nd_contiguous(&t.kept, t.to, job->size);
    for (int s = 0; s < ND_SOURCES; s++) by_summed[1 + s].p = by_kept[1 + s].p;
    by_summed[0].p = (char *)&nd_nothing;
    strides[0] = distance;
    nd_coalesce(&over, by_summed, ND_SOURCES + 1, job->ndim, summed, strides);
    r.sources = sources;
    for (int s = 0; s < ND_SOURCES; s++) r.s[s].p = by_summed[1 + s].p;

    /* Whole rows where neighbours in memory belong to different cells, else cell by cell. */
    const int inner = t.kept.ndim - 1;
    const ptrdiff_t width = t.kept.shape[inner];
    for (int s = 0; s < ND_SOURCES; s++) near += nd_magnitude(by_kept[1 + s].stride[inner]);
    const int rows = over.size > 1 && width > 1 && near < by_summed[0].stride[over.ndim - 1]
                     && (t.kept.size == width || (width < ND_BLOCK ? width : ND_BLOCK) * over.size >= ND_FEW);
    if (!rows && over.size <= ND_BLOCK) {
        r.g.ndim = 0;
        r.g.size = 1;
        for (int d = 0; d < t.kept.ndim; d++) nd_append(&r, by_kept, d, t.kept.shape[d]);
        for (int d = 0; d < over.ndim; d++) nd_append(&r, by_summed, d, over.shape[d]);
        nd_prepare(&r, job->size, b);
        nd_pull_elements(job, term, &t, &r, over.size, count, b);
        return;
    }
    const ptrdiff_t extent = rows ? width : 1;
    for (ptrdiff_t start = 0; start < extent; start += ND_BLOCK) {
        const ptrdiff_t m = extent - start < ND_BLOCK ? extent - start : ND_BLOCK;
        r.g.ndim = 0;
        r.g.size = 1;
        for (int d = 0; d < over.ndim; d++) nd_append(&r, by_summed, d, over.shape[d]);
        nd_append(&r, by_kept, inner, m);
        nd_prepare(&r, job->size, b);
        nd_pull_rows(job, term, &t, &r, by_kept, start, extent, m, count, b);
    }
}

int nd_pull(const nd_isa *isa, int row, int dtype, int nin, const nd_in *in, const char *y, const ptrdiff_t *ys,
            const char *w, const ptrdiff_t *ws, const nd_shadow *to, int ndim, const ptrdiff_t *shape) {
    nd_job job;
    nd_term term[ND_MAXIN];
    nd_scratch b;
    int nterms = 0;
    if (row < 0 || row >= isa->nrows || ndim > ND_MAXDIM || nin != isa->rows[row].nin) return -1;
    job.row = &isa->rows[row];
    job.from[ND_W] = w;
    job.strides[ND_W] = ws;
    job.from[ND_Y] = y;
    job.strides[ND_Y] = ys;
    for (int i = 0; i < ND_MAXIN; i++) {
        job.from[ND_X + i] = i < nin ? in[i].v : NULL;
        job.strides[ND_X + i] = i < nin ? in[i].vs : NULL;
        b.held_of[ND_X + i] = NULL;
    }
    b.held_of[ND_W] = b.held_of[ND_Y] = NULL;
    for (int i = 0; i < nin; i++) {
        if (to[i].t == NULL) continue;
        if (job.row->coef[i] == ND_COEF_NONE) return i + 1;
        for (int k = 0; k <= ND_MAXIN; k++)
            if (job.row->needs[i] >> k & 1 && job.from[ND_X + k] == NULL) return -1;
    }
    job.fill = job.row->back[dtype] ? job.row->back[dtype] : job.row->fill[dtype];
    job.combine = isa->combine[dtype];
    job.cells = &isa->cells[dtype];
    job.size = dtype == ND_F64 ? sizeof(double) : sizeof(float);
    job.ndim = ndim;
    job.shape = shape;
    job.total = 1;
    for (int d = 0; d < ndim; d++) job.total *= shape[d];
    if (job.total == 0) return 0;
    for (int i = 0; i < nin; i++) {
        const int coef = job.row->coef[i];
        int fresh = to[i].fresh;
        if (to[i].t == NULL) continue;
        for (int j = 0; j < i; j++) fresh &= to[j].t != to[i].t;
        if (coef != ND_COEF_ZERO) {
            term[nterms++] = (nd_term){i, coef, coef == ND_COEF_NEG, fresh, to[i].t, to[i].ts};
        } else if (fresh) { /* one times zero, everywhere */
            nd_job zero = job;
            nd_term one = {i, ND_COEF_ONE, 0, 1, to[i].t, to[i].ts};
            zero.from[ND_W] = (const char *)&nd_nothing;
            zero.strides[ND_W] = nd_no_strides;
            if (!nd_pull_flat(&zero, &one, 1, &b)) nd_pull_walk(&zero, &one, &b);
        }
    }
    if (nterms == 0 || nd_pull_flat(&job, term, nterms, &b)) return 0;
    for (int j = 0; j < nterms; j++)
        if (nterms == 1 || !nd_pull_flat(&job, &term[j], 1, &b)) nd_pull_walk(&job, &term[j], &b);
    return 0;
}
