/* nd_map: one row applied to whole arrays. It knows strides and blocks and nothing of calculus; the kernels know rows
 * and nothing of strides.
 *
 * Three ways lead through it. Contiguous operands (or single numbers) go straight to the kernels, block by block: this
 * path has to cost little, because most arrays in a program are small. Operands whose inner runs are contiguous or
 * constant go run by run. Everything else is gathered into blocks and scattered back.
 */
#include "gather.h"
#include "strided.h"
#include "windows.h"

/* Below this a run's own overhead (two indirect calls, about 20 ns) outweighs gathering. */
#define ND_SHORT_RUN 24

typedef struct {
    const nd_row *row;
    nd_windows windows;
    nd_fill fill;
    nd_combine combine;
    nd_loop loop;
    size_t size; /* of one number */
    int nin, nterms, loop_first, loop_last, in_place, single;
    int operand[ND_MAXIN], kind[ND_MAXIN]; /* of the terms */
    unsigned char wanted[ND_MAXIN], repeat[ND_MAXIN];
} nd_plan;

/* What one block works on. x is contiguous (a repeated number is spread out); the loop of NumPy gets the number itself
 * with stride 0, since some loops (power) treat that case apart. */
typedef struct {
    const void *x[ND_MAXIN];
    char *args[ND_MAXIN + 1];
    intptr_t steps[ND_MAXIN + 1];
    char *y;
    const char *t[ND_MAXIN];
    ptrdiff_t tlane[ND_MAXIN];
    int kinds[ND_MAXIN];
    char *out;
    ptrdiff_t outlane;
} nd_work;

/* NumPy calls its loops so for one element, and clip then takes its branch for constant bounds. */
static const intptr_t nd_still[ND_MAXIN + 1] = {0};

/* The loop gets addresses of its own: those of SciPy advance them. */
static inline void nd_run_loop(const nd_plan *p, const nd_work *w, intptr_t count) {
    char *args[ND_MAXIN + 1];
    for (int i = 0; i <= p->nin; i++) args[i] = w->args[i];
    p->loop.fn(args, &count, p->single ? nd_still : w->steps, p->loop.data);
}

/* Values and coefficients of one block; c[] receives the coefficient of every term. */
static inline void nd_values(const nd_plan *p, nd_work *w, ptrdiff_t n, nd_block *d, char *y, const void **c) {
    void *dp[ND_MAXIN];
    w->args[p->nin] = y;
    w->steps[p->nin] = p->size;
    if (p->loop_first) nd_run_loop(p, w, n);
    if (p->fill) {
        for (int i = 0; i < ND_MAXIN; i++) dp[i] = p->wanted[i] ? (void *)&d[i] : NULL;
        p->fill(n, w->x, y, dp);
    }
    if (p->loop_last) nd_run_loop(p, w, n);
    for (int j = 0; j < p->nterms; j++) {
        int coef = p->row->coef[p->operand[j]];
        c[j] = coef == ND_COEF_X0 ? w->x[0] : coef == ND_COEF_X1 ? w->x[1] : (const void *)&d[p->operand[j]];
    }
}

/* In place, y waits until the lanes are done: they may still need x. */
static inline void nd_one_block(const nd_plan *p, nd_work *w, ptrdiff_t n) {
    nd_block d[ND_MAXIN], kept;
    const void *c[ND_MAXIN];
    char *y = p->in_place ? (char *)&kept : w->y;
    nd_values(p, w, n, d, y, c);
    if (w->out) nd_lanes(&p->windows, p->combine, p->size, n, w->kinds, c, w->t, w->tlane, w->out, w->outlane);
    if (p->in_place) memcpy(w->y, y, n * p->size);
}

/* Moves every stream on by n elements. */
static void nd_shift(const nd_plan *p, nd_work *w, ptrdiff_t n) {
    ptrdiff_t bytes = n * (ptrdiff_t)p->size;
    for (int i = 0; i < p->nin; i++)
        if (!p->repeat[i]) {
            w->args[i] += bytes;
            w->x[i] = w->args[i];
        }
    for (int j = 0; j < p->nterms; j++)
        if (!(w->kinds[j] & ND_SCALAR_TANGENT)) w->t[j] += bytes;
    w->y += bytes;
    if (w->out) w->out += bytes;
}

/* A run of n elements in which each stream is contiguous or constant. */
static void nd_one_run(const nd_plan *p, nd_work *w, ptrdiff_t n, nd_block *spread) {
    for (int i = 0; i < p->nin; i++)
        if (p->repeat[i]) {
            nd_spread(p->size, n < ND_BLOCK ? n : ND_BLOCK, w->args[i], &spread[i]);
            w->x[i] = &spread[i];
        } else {
            w->x[i] = w->args[i];
        }
    if (!p->windows.back) {
        for (;;) {
            ptrdiff_t m = n < ND_BLOCK ? n : ND_BLOCK;
            nd_one_block(p, w, m);
            if ((n -= m) == 0) return;
            nd_shift(p, w, m);
        }
    }
    /* Backwards, from the block that is not full; afterwards the pointers stand where they stood. */
    ptrdiff_t at = (n - 1) / ND_BLOCK * ND_BLOCK, m = n - at;
    nd_shift(p, w, at);
    for (;;) {
        nd_one_block(p, w, m);
        if (at == 0) return;
        at -= m = ND_BLOCK;
        nd_shift(p, w, -ND_BLOCK);
    }
}

static int nd_flat_all(nd_plan *p, nd_work *w, const nd_in *in, const nd_out *out, int ndim, const ptrdiff_t *shape) {
    ptrdiff_t size = p->size, step;
    if (nd_flat(size, ndim, shape, out->vs) != size) return 0;
    if (out->t && out->ts != out->vs && nd_flat(size, ndim, shape, out->ts) != size) return 0;
    for (int i = 0; i < p->nin; i++) {
        if ((step = nd_flat(size, ndim, shape, in[i].vs)) < 0) return 0;
        p->repeat[i] = step == 0;
        w->args[i] = (char *)in[i].v;
        w->steps[i] = step;
    }
    for (int j = 0; j < p->nterms; j++) {
        const nd_in *operand = &in[p->operand[j]];
        step = operand->ts == operand->vs ? w->steps[p->operand[j]] : nd_flat(size, ndim, shape, operand->ts);
        if (step < 0) return 0;
        w->kinds[j] = p->kind[j] | (step == 0 ? ND_SCALAR_TANGENT : 0);
        w->t[j] = operand->t;
    }
    return 1;
}

/* The streams of a call, output first: it decides the order of the walk. */
typedef struct { nd_stream *y, *out, *x[ND_MAXIN], *t[ND_MAXIN]; } nd_streams;

static void nd_gather_all(const nd_plan *p, nd_work *w, const nd_geometry *g, const nd_streams *s);

/* Whether a call is for the value alone of a sum, product or the like, so that NumPy's loop on each run is the shortest
 * way: it takes a repeated number as it is, which saves the half of short runs (np.kron). */
static int nd_plain(const nd_plan *p) {
    if (p->nterms || p->single || !p->loop.fn || !p->row->value_inside || p->nin != 2) return 0;
    for (int i = 0; i < p->nin; i++)
        if (p->row->coef[i] == ND_COEF_ARRAY || p->row->coef[i] == ND_COEF_NONE) return 0;
    return 1;
}

static void nd_walk(nd_plan *p, nd_work *w, const nd_in *in, const nd_out *out, int ndim, const ptrdiff_t *shape) {
    nd_stream stream[ND_MAXSTREAM];
    const ptrdiff_t *strides[ND_MAXSTREAM];
    nd_streams s = {0};
    nd_geometry g;
    int ns = 0;
#define ADD(slot, address, steps) (stream[ns].p = (char *)(address), strides[ns] = (steps), (slot) = &stream[ns], ns++)
    ADD(s.y, out->v, out->vs);
    if (out->t) ADD(s.out, out->t, out->ts);
    for (int i = 0; i < p->nin; i++) ADD(s.x[i], in[i].v, in[i].vs);
    for (int j = 0; j < p->nterms; j++) ADD(s.t[j], in[p->operand[j]].t, in[p->operand[j]].ts);
#undef ADD
    nd_coalesce(&g, stream, ns, ndim, shape, strides);

    int inner = g.ndim - 1, direct = g.ndim == 1 || g.shape[inner] >= ND_SHORT_RUN;
    for (int i = 0; i < ns && direct; i++)
        direct = stream[i].stride[inner] == (ptrdiff_t)p->size
                 || (stream[i].stride[inner] == 0 && stream[i].p != (char *)out->v && stream[i].p != out->t);
    if (!direct) {
        nd_gather_all(p, w, &g, &s);
        return;
    }
    for (int i = 0; i < p->nin; i++) {
        w->steps[i] = s.x[i]->stride[inner];
        p->repeat[i] = w->steps[i] == 0;
    }
    for (int j = 0; j < p->nterms; j++)
        w->kinds[j] = p->kind[j] | (s.t[j]->stride[inner] == 0 ? ND_SCALAR_TANGENT : 0);
    nd_block spread[ND_MAXIN];
    ptrdiff_t index[ND_MAXDIM] = {0};
    int plain = nd_plain(p) && !(s.out && p->windows.count); /* lanes of an output without terms become zero */
    w->steps[p->nin] = p->size;
    intptr_t count = g.shape[inner];
    for (;;) {
        for (int i = 0; i < p->nin; i++) w->args[i] = s.x[i]->p;
        if (plain) {
            char *args[ND_MAXIN + 1];
            for (int i = 0; i < p->nin; i++) args[i] = s.x[i]->p;
            args[p->nin] = s.y->p;
            p->loop.fn(args, &count, w->steps, p->loop.data);
            goto next;
        }
        for (int j = 0; j < p->nterms; j++) w->t[j] = s.t[j]->p;
        w->y = s.y->p;
        w->out = s.out ? s.out->p : NULL;
        nd_one_run(p, w, g.shape[inner], spread);
    next:;
        int d = inner - 1;
        for (; d >= 0; d--) {
            for (int i = 0; i < ns; i++) stream[i].p += stream[i].stride[d];
            if (++index[d] < g.shape[d]) break;
            for (int i = 0; i < ns; i++) stream[i].p -= stream[i].stride[d] * g.shape[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

static void nd_gather_all(const nd_plan *p, nd_work *w, const nd_geometry *g, const nd_streams *s) {
    nd_block x[ND_MAXIN], d[ND_MAXIN], t[ND_MAXIN], kept, result;
    const void *c[ND_MAXIN];
    const ptrdiff_t none[ND_MAXIN] = {0};
    nd_position at = {{0}};
    int flat_x[ND_MAXIN], flat_t[ND_MAXIN], flat_y = nd_contiguous(g, s->y, p->size) && !p->in_place;
    int flat_out = s->out && nd_contiguous(g, s->out, p->size);
    for (int i = 0; i < p->nin; i++) {
        flat_x[i] = nd_contiguous(g, s->x[i], p->size);
        w->steps[i] = p->size;
    }
    for (int j = 0; j < p->nterms; j++) flat_t[j] = nd_contiguous(g, s->t[j], p->size);

    for (ptrdiff_t done = 0; done < g->size; done += ND_BLOCK) {
        ptrdiff_t n = g->size - done < ND_BLOCK ? g->size - done : ND_BLOCK, byte = done * (ptrdiff_t)p->size;
        for (int i = 0; i < p->nin; i++) {
            w->args[i] = flat_x[i] ? s->x[i]->p + byte : (char *)&x[i];
            w->x[i] = w->args[i];
            if (!flat_x[i]) nd_transfer(0, p->size, g, s->x[i], at, n, s->x[i]->p, (char *)&x[i]);
        }
        char *y = flat_y ? s->y->p + byte : (char *)&kept;
        nd_values(p, w, n, d, y, c);
        for (int q = 0; s->out && q < p->windows.count; q++) {
            const nd_segment *seg = &p->windows.s[q];
            int kind[ND_MAXIN];
            const void *coef[ND_MAXIN];
            for (int i = 0; i < seg->k; i++) {
                kind[i] = p->kind[seg->term[i]];
                coef[i] = c[seg->term[i]];
            }
            for (ptrdiff_t l = seg->first; l < seg->first + seg->count; l++) {
                char *lane = s->out->p + l * w->outlane, *o = flat_out ? lane + byte : (char *)&result;
                for (int i = 0; i < seg->k; i++) {
                    int j = seg->term[i];
                    char *from = s->t[j]->p + (l - p->windows.lo[j]) * w->tlane[j];
                    w->t[i] = flat_t[j] ? from + byte : (char *)&t[j];
                    if (!flat_t[j]) nd_transfer(0, p->size, g, s->t[j], at, n, from, (char *)&t[j]);
                }
                if (seg->k) p->combine(n, 1, seg->k, kind, coef, w->t, none, o, 0);
                else memset(o, 0, n * p->size);
                if (!flat_out) nd_transfer(1, p->size, g, s->out, at, n, lane, o);
            }
        }
        if (!flat_y) nd_transfer(1, p->size, g, s->y, at, n, s->y->p, y);
        nd_advance(g, &at, n);
    }
}

/* Moves an operand on; a number that is spread out stays. */
static inline void nd_on(const void **x, char **arg, ptrdiff_t bytes) {
    if (bytes) *arg += bytes, *x = *arg;
}

/* NumPy's loop over one block. Some loops, SciPy's among them, count in the very pointers that they are given. */
static inline void nd_quick_values(const nd_loop *loop, char *const *args, int nin, char *y, ptrdiff_t n,
                             const intptr_t *steps) {
    char *given[ND_MAXIN + 1];
    intptr_t count = n;
    for (int i = 0; i < nin; i++) given[i] = args[i];
    given[nin] = y;
    loop->fn(given, &count, n == 1 ? nd_still : steps, loop->data);
}

/* Cells of an output, lanes and all, from which on every other call walks backwards. */
#define ND_TURNING 1024

/* Contiguous operands (or constant numbers), done with the least bookkeeping: 18 ns where the general path takes 27, which
 * arrays of ten elements feel, and 8 per cent of a product of a thousand in four lanes. Returns 0 if the call is not of
 * this kind; nothing is written then. */
static int nd_quick(const nd_isa *isa, const nd_row *row, int dtype, const nd_loop *loop, const nd_in *in,
                    const nd_out *out, ptrdiff_t n, ptrdiff_t nlanes) {
    const ptrdiff_t size = dtype == ND_F64 ? sizeof(double) : sizeof(float);
    nd_block d[ND_MAXIN], spread[ND_MAXIN];
    const void *x[ND_MAXIN], *c[ND_MAXIN];
    const char *t[ND_MAXIN];
    char *args[ND_MAXIN];
    void *wanted[ND_MAXIN] = {NULL, NULL, NULL};
    ptrdiff_t lane[ND_MAXIN];
    intptr_t steps[ND_MAXIN + 1];
    int kinds[ND_MAXIN], other[ND_MAXIN], any = row->value_inside, k = 0, nin = row->nin;
    const nd_in *term[ND_MAXIN];
    int whole = 1;
    if (out->vs[0] != size || out->ts[0] != size) return 0;
    for (int i = 0; i < nin; i++) {
        if (in[i].v == out->v) return 0;
        x[i] = args[i] = (char *)in[i].v;
        steps[i] = in[i].vs[0];
        if (steps[i] != size) {
            if (steps[i] != 0 || in[i].t) return 0;
            nd_spread(size, n < ND_BLOCK ? n : ND_BLOCK, in[i].v, &spread[i]);
            x[i] = &spread[i];
        }
        if (in[i].t == NULL) continue;
        if (in[i].ts[0] != size) return 0;
        int coef = row->coef[i];
        kinds[k] = coef == ND_COEF_ONE || coef == ND_COEF_NEG ? coef : ND_COEF_ARRAY;
        if (coef == ND_COEF_NONE || coef == ND_COEF_ZERO) return 0;
        if (coef == ND_COEF_ARRAY) c[k] = wanted[i] = &d[i], any = 1;
        other[k] = coef - ND_COEF_X0;
        t[k] = in[i].t;
        term[k] = &in[i];
        whole &= in[i].lo == 0 && in[i].hi == nlanes;
        lane[k++] = in[i].lane;
    }
    if (k == 0 || (n > ND_BLOCK && !whole)) return 0;
    const int back = n * nlanes > ND_TURNING && (nd_turn++ & 1);
    char *y = out->v, *to = out->t;
    ptrdiff_t outlane = out->lane;
    intptr_t count = n < ND_BLOCK ? n : ND_BLOCK;
    if (back) { /* from the last lane of the last block, which is not full */
        const ptrdiff_t at = (n - 1) / ND_BLOCK * ND_BLOCK;
        count = n - at;
        for (int i = 0; i < nin; i++) nd_on(&x[i], &args[i], at * steps[i]);
        y += at * size;
        to += at * size;
        for (int j = 0; j < k; j++) t[j] += at * size;
        if (whole) {
            for (int j = 0; j < k; j++) t[j] += (nlanes - 1) * lane[j], lane[j] = -lane[j];
            to += (nlanes - 1) * outlane;
            outlane = -outlane;
        }
    }
    steps[nin] = size;
    for (;;) {
        for (int j = 0; j < k; j++)
            if (other[j] >= 0) c[j] = x[other[j]];
        if (!row->value_inside) nd_quick_values(loop, args, nin, y, count, steps);
        if (any) row->fill[dtype](count, x, y, wanted);
        if (whole) {
            isa->combine[dtype](count, nlanes, k, kinds, c, t, lane, to, outlane);
        } else {
            nd_windows windows;
            nd_cut(&windows, k, term, nlanes);
            windows.back = back;
            nd_lanes(&windows, isa->combine[dtype], size, n, kinds, c, t, lane, to, outlane);
        }
        if ((n -= count) == 0) return 1;
        const ptrdiff_t bytes = (back ? -ND_BLOCK : count) * size;
        for (int i = 0; i < nin; i++) nd_on(&x[i], &args[i], steps[i] ? bytes : 0);
        y += bytes;
        to += bytes;
        for (int j = 0; j < k; j++) t[j] += bytes;
        count = n < ND_BLOCK ? n : ND_BLOCK;
    }
}

int nd_map(const nd_isa *isa, int row, int dtype, nd_loop loop, int nin, const nd_in *in, const nd_out *out, int ndim,
           const ptrdiff_t *shape, ptrdiff_t nlanes, int exact) {
    nd_plan p;
    nd_work w;
    const nd_in *term[ND_MAXIN];
    ptrdiff_t total = 1;
    int any = 0;
    if (row < 0 || row >= isa->nrows || ndim > ND_MAXDIM) return -1;
    p.row = &isa->rows[row];
    if (nin != p.row->nin || (loop.fn == NULL && !p.row->value_inside)) return -1;
    exact = exact && p.row->fill_exact[dtype];
    if (ndim == 1 && shape[0] > 0 && !exact && out->t
        && nd_quick(isa, p.row, dtype, &loop, in, out, shape[0], nlanes))
        return 0;
    p.nin = nin;
    p.nterms = p.in_place = 0;
    p.size = dtype == ND_F64 ? sizeof(double) : sizeof(float);
    for (int i = 0; i < nin; i++) {
        int coef = p.row->coef[i];
        p.wanted[i] = 0;
        if (in[i].v == out->v) p.in_place = 1;
        if (in[i].t == NULL || out->t == NULL || coef == ND_COEF_ZERO) continue;
        if (coef == ND_COEF_NONE) return i + 1;
        any |= p.wanted[i] = coef == ND_COEF_ARRAY;
        p.kind[p.nterms] = coef == ND_COEF_ONE || coef == ND_COEF_NEG ? coef : ND_COEF_ARRAY;
        w.tlane[p.nterms] = in[i].lane;
        term[p.nterms] = &in[i];
        p.operand[p.nterms++] = i;
    }
    for (int i = nin; i < ND_MAXIN; i++) p.wanted[i] = 0;
    for (int d = 0; d < ndim; d++) total *= shape[d];
    if (total == 0) return 0;
    p.single = total == 1;
    p.fill = p.row->value_inside || any ? exact ? p.row->fill_exact[dtype] : p.row->fill[dtype] : NULL;
    p.loop = loop;
    p.loop_first = !p.row->value_inside;
    p.loop_last = p.row->value_inside && exact && loop.fn;
    p.combine = isa->combine[dtype];
    if (out->t) nd_cut(&p.windows, p.nterms, term, nlanes);
    p.windows.back = nd_turn++ & 1;
    w.y = out->v;
    w.out = out->t;
    w.outlane = out->lane;
    if (nd_flat_all(&p, &w, in, out, ndim, shape)) {
        nd_block spread[ND_MAXIN];
        nd_one_run(&p, &w, total, spread);
    } else {
        nd_walk(&p, &w, in, out, ndim, shape);
    }
    return 0;
}
