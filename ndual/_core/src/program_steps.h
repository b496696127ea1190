/* The steps of a program on one block. Included by program.c once per dtype with T and N(name) defined.
 *
 * Repeated numbers have stride 0; the loops are written out for either case, so that they become vectors.
 */
#define ND_EACH(expression)                                                                                           \
    if (sa && sb) for (ptrdiff_t i = 0; i < n; i++) { const T u = a[i], v = b[i]; to[i] = (expression); }              \
    else if (sa) { const T v = *b; for (ptrdiff_t i = 0; i < n; i++) { const T u = a[i]; to[i] = (expression); } }     \
    else if (sb) { const T u = *a; for (ptrdiff_t i = 0; i < n; i++) { const T v = b[i]; to[i] = (expression); } }     \
    else { const T u = *a, v = *b; for (ptrdiff_t i = 0; i < n; i++) to[i] = (expression); }

static void N(select)(ptrdiff_t n, const T *restrict c, int sc, const T *restrict a, int sa, const T *restrict b, int sb,
                      T *restrict to) {
    if (!sc) {
        const T *from = *c != 0 ? a : b;
        const int step = *c != 0 ? sa : sb;
        for (ptrdiff_t i = 0; i < n; i++) to[i] = from[step ? i : 0];
        return;
    }
    ND_EACH(c[i] != 0 ? u : v)
}

static void N(compare)(int op, ptrdiff_t n, const T *restrict a, int sa, const T *restrict b, int sb, T *restrict to) {
    switch (op) {
    case ND_LT: ND_EACH(u < v ? (T)1 : (T)0) break;
    case ND_LE: ND_EACH(u <= v ? (T)1 : (T)0) break;
    case ND_GT: ND_EACH(u > v ? (T)1 : (T)0) break;
    case ND_GE: ND_EACH(u >= v ? (T)1 : (T)0) break;
    case ND_EQ: ND_EACH(u == v ? (T)1 : (T)0) break;
    case ND_NE: ND_EACH(u != v ? (T)1 : (T)0) break;
    case ND_AND: ND_EACH(u * v) break;
    case ND_OR: ND_EACH(u > v ? u : v) break;
    default: break;
    }
}

static void N(block)(const nd_program *p, intptr_t n, const void *const *x, void *y, void *const *d, int wanted) {
    T registers[ND_REGISTERS][ND_BLOCK];
    for (int k = 0; k < p->count; k++) {
        const nd_step *s = &p->steps[k];
        if (!(s->need & wanted)) continue;
        char *args[4] = {NULL};
        intptr_t steps[4];
        const int place = s->to;
        for (int i = 0; i < s->count; i++) {
            const int at = s->from[i];
            steps[i] = sizeof(T);
            if (at >= ND_AT_CONSTANT) {
                args[i] = (char *)((T *)p->constants + (at - ND_AT_CONSTANT));
                steps[i] = 0;
            } else if (at >= ND_AT_REGISTER) {
                args[i] = (char *)registers[at - ND_AT_REGISTER];
            } else {
                args[i] = at == ND_AT_Y ? (char *)y : (char *)x[at];
            }
        }
        T *to = place >= ND_AT_REGISTER ? registers[place - ND_AT_REGISTER]
                : place == ND_AT_Y      ? (T *)y
                                        : (T *)d[place - ND_AT_PARTIAL];
        const T *a = (const T *)args[0], *b = s->count > 1 ? (const T *)args[1] : NULL;
        switch (s->op) {
        case ND_LOOP:
            args[s->count] = (char *)to;
            steps[s->count] = sizeof(T);
            s->loop.fn(args, &n, steps, s->loop.data);
            break;
        case ND_COPY:
            for (ptrdiff_t i = 0; i < n; i++) to[i] = a[steps[0] ? i : 0];
            break;
        case ND_NOT:
            for (ptrdiff_t i = 0; i < n; i++) to[i] = 1 - a[steps[0] ? i : 0];
            break;
        case ND_SELECT:
            N(select)(n, a, steps[0] != 0, b, steps[1] != 0, (const T *)args[2], steps[2] != 0, to);
            break;
        default:
            N(compare)(s->op, n, a, steps[0] != 0, b, steps[1] != 0, to);
        }
    }
}

static void N(fill)(const nd_program *p, ptrdiff_t n, const void *const *x, void *y, void *const *d, int nin, int wanted) {
    const void *xs[ND_MAXIN] = {NULL};
    void *ds[ND_MAXIN] = {NULL};
    for (int i = 0; i < nin; i++)
        if (d[i]) wanted |= 2 << i;
    for (ptrdiff_t done = 0; done < n; done += ND_BLOCK) {
        for (int i = 0; i < nin; i++) {
            xs[i] = x[i] ? (const T *)x[i] + done : NULL;
            ds[i] = d[i] ? (T *)d[i] + done : NULL;
        }
        N(block)(p, n - done < ND_BLOCK ? n - done : ND_BLOCK, xs, y ? (T *)y + done : NULL, ds, wanted);
    }
}
#undef ND_EACH
