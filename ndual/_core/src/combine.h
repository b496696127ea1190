/* Scaling lanes by coefficients: the second half of every elementwise rule. Included by kernels.c once per dtype with
 * T (the number), U (the integer of its size), N(name) and the bit patterns ABSMASK and NANCARRY defined.
 *
 * The strong zero is decided here and nowhere else: multiply plainly, and redo a lane of the block with zeros
 * annihilating only if a NaN came out. Zero times infinity is NaN and NaN survives a sum, so that a result without NaN
 * is the result with strong zeros, and one running sum of the results tells: one operation a vector where a test of the
 * bits takes three of six. (Infinities of both signs raise a false alarm, which costs time only.)
 */

/* The carry into the sign bit marks a NaN; unlike a floating comparison this reduces with SSE2 and AVX2 too. */
#define ISNAN_BITS(u) (((u) & ABSMASK) + NANCARRY)

static inline U N(bits)(T x) {
    U u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static ND_ALWAYS_INLINE T N(term)(int kind, const T *c, const T *t, T ts, ptrdiff_t i) {
    T v = kind & ND_SCALAR_TANGENT ? ts : t[i];
    switch (kind & ~ND_SCALAR_TANGENT) {
    case ND_COEF_ONE: return v;
    case ND_COEF_NEG: return -v;
    default: return c[i] * v;
    }
}

/* One lane again, with zeros annihilating; term by term and without a branch, because data that hold NaN come here for
 * every block. `out` may be a t. */
static ND_NOINLINE void N(redo)(ptrdiff_t n, int k, const int *kinds, const T *const *c,
                                              const T *const *t, T *out) {
    T sum[ND_BLOCK], spread[ND_BLOCK];
    for (ptrdiff_t i = 0; i < n; i++) sum[i] = 0;
    for (int j = 0; j < k; j++) {
        const T *restrict f = c[j], *restrict v = t[j];
        if (kinds[j] & ND_SCALAR_TANGENT) {
            for (ptrdiff_t i = 0; i < n; i++) spread[i] = *v;
            v = spread;
        }
        switch (kinds[j] & ~ND_SCALAR_TANGENT) {
        case ND_COEF_ONE:
            for (ptrdiff_t i = 0; i < n; i++) sum[i] += v[i];
            break;
        case ND_COEF_NEG:
            for (ptrdiff_t i = 0; i < n; i++) sum[i] -= v[i];
            break;
        default:
            for (ptrdiff_t i = 0; i < n; i++) sum[i] += ((v[i] == 0) | (f[i] == 0)) ? 0 : f[i] * v[i];
        }
    }
    memcpy(out, sum, n * sizeof(T));
}

/* Whether n numbers are finite: zero times any other is NaN, which a sum keeps. */
static int N(finite)(ptrdiff_t n, const void *v) {
    const T *x = v;
    T sum[64 / sizeof(T)] = {0}, rest = 0;
    const ptrdiff_t width = (ptrdiff_t)(sizeof sum / sizeof *sum);
    ptrdiff_t i = 0;
    for (; i + width <= n; i += width)
        for (ptrdiff_t k = 0; k < width; k++) sum[k] += x[i + k] * (T)0;
    for (; i < n; i++) rest += x[i] * (T)0;
    for (ptrdiff_t k = 0; k < width; k++) rest += sum[k];
    return rest == 0;
}

#ifdef __GNUC__
/* 64 bytes, in as many registers as the instruction set needs; loads and stores at any address. */
typedef T N(vec) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
#define ND_VECTOR ((ptrdiff_t)(64 / sizeof(T)))

/* Through a pointer: vectors as results belong to no calling convention. */
static ND_ALWAYS_INLINE void N(terms)(N(vec) *v, int kind, const T *c, const T *t, T ts, ptrdiff_t i) {
    if (kind & ND_SCALAR_TANGENT) *v = (N(vec)){0} + ts;
    else *v = *(const N(vec) *)(t + i);
    if ((kind & ~ND_SCALAR_TANGENT) == ND_COEF_NEG) *v = -*v;
    else if ((kind & ~ND_SCALAR_TANGENT) == ND_COEF_ARRAY) *v *= *(const N(vec) *)(c + i);
}

/* One vector of one or two terms, added to a sum if there is a product in it. */
static ND_ALWAYS_INLINE void N(one_vector)(int ka, int kb, const T *ca, const T *cb, const T *a, const T *b, T sa, T sb,
                                           T *o, ptrdiff_t i, N(vec) *sum) {
    N(vec) v, w;
    N(terms)(&v, ka, ca, a, sa, i);
    if (kb != ND_COEF_ZERO) {
        N(terms)(&w, kb, cb, b, sb, i);
        v += w;
    }
    if ((ka & ~ND_SCALAR_TANGENT) == ND_COEF_ARRAY || (kb & ~ND_SCALAR_TANGENT) == ND_COEF_ARRAY) *sum += v;
    *(N(vec) *)(o + i) = v;
}
#endif

/* A sum that holds NaN if one of its vectors did. */
static ND_ALWAYS_INLINE U N(nan_of)(const T *sum, ptrdiff_t n) {
    U nan = 0;
    for (ptrdiff_t i = 0; i < n; i++) nan |= ISNAN_BITS(N(bits)(sum[i]));
    return nan >> (8 * sizeof(U) - 1);
}

/* The lanes of one or two terms (kb == ND_COEF_ZERO: one); the kinds are constants after inlining, so that the loops
 * hold no decision. Sums without a product need no test: what is NaN in them is as it should be. */
static ND_ALWAYS_INLINE void N(lanes)(ptrdiff_t n, ptrdiff_t nlanes, int ka, int kb,
                                                           const T *const *c, const char *const *t,
                                                           const ptrdiff_t *tlane, char *out, ptrdiff_t outlane) {
    const int product = (ka & ~ND_SCALAR_TANGENT) == ND_COEF_ARRAY || (kb & ~ND_SCALAR_TANGENT) == ND_COEF_ARRAY;
    const int two = kb != ND_COEF_ZERO, kinds[2] = {ka, kb};
    const T *ca = c[0], *cb = two ? c[1] : NULL;
    const char *ta = t[0], *tb = two ? t[1] : NULL;
    const int in_place = ta == out || tb == out;
    T spare[ND_BLOCK]; /* in place: keeps the input until the lane is known to be good */
#ifdef __GNUC__
    /* The last vector of a lane overlaps the one before it, and all lanes are tested at once: arrays of ten elements
     * would spend most of the time on the odd two and on the test. Two sums take turns: one alone is a chain of additions
     * that takes longer than the loads, 5 to 15 per cent of a product in the first two caches. */
    if (!in_place && n >= ND_VECTOR) {
        N(vec) sum = {0}, more = {0};
        for (ptrdiff_t l = 0; l < nlanes; l++) {
            const T *a = (const T *)(ta + l * tlane[0]), *b = two ? (const T *)(tb + l * tlane[1]) : NULL;
            const T sa = *a, sb = two ? *b : 0;
            T *restrict o = (T *)(out + l * outlane);
            ptrdiff_t i = 0;
            for (; i <= n - 2 * ND_VECTOR; i += 2 * ND_VECTOR) {
                N(one_vector)(ka, kb, ca, cb, a, b, sa, sb, o, i, &sum);
                N(one_vector)(ka, kb, ca, cb, a, b, sa, sb, o, i + ND_VECTOR, &more);
            }
            if (i <= n - ND_VECTOR) N(one_vector)(ka, kb, ca, cb, a, b, sa, sb, o, i, &sum);
            if (n % ND_VECTOR) N(one_vector)(ka, kb, ca, cb, a, b, sa, sb, o, n - ND_VECTOR, &more);
        }
        sum += more;
        if (!product || !N(nan_of)((const T *)&sum, ND_VECTOR)) return;
        for (ptrdiff_t l = 0; l < nlanes; l++) {
            const T *const lane[2] = {(const T *)(ta + l * tlane[0]), two ? (const T *)(tb + l * tlane[1]) : NULL};
            T *o = (T *)(out + l * outlane);
            if (N(nan_of)(o, n)) N(redo)(n, 1 + two, kinds, c, lane, o);
        }
        return;
    }
#endif
    for (ptrdiff_t l = 0; l < nlanes; l++) {
        const T *a = (const T *)ta, *b = (const T *)tb, sa = *a, sb = two ? *b : 0;
        T *restrict o = in_place ? spare : (T *)out;
        for (ptrdiff_t i = 0; i < n; i++) {
            T v = N(term)(ka, ca, a, sa, i);
            if (two) v += N(term)(kb, cb, b, sb, i);
            o[i] = v;
        }
        if (product && N(nan_of)(o, n)) N(redo)(n, 1 + two, kinds, c, (const T *const[]){a, b}, o);
        if (in_place) memcpy(out, spare, n * sizeof(T));
        ta += tlane[0];
        if (two) tb += tlane[1];
        out += outlane;
    }
}

/* Three active operands are rare (clip with dual bounds): the masked loop serves them all. */
static void N(lanes_of_three)(ptrdiff_t n, ptrdiff_t nlanes, int k, const int *kinds, const T *const *c,
                              const char *const *t, const ptrdiff_t *tlane, char *out, ptrdiff_t outlane) {
    for (ptrdiff_t l = 0; l < nlanes; l++) {
        const T *lane[ND_MAXIN];
        for (int j = 0; j < k; j++) lane[j] = (const T *)(t[j] + l * tlane[j]);
        N(redo)(n, k, kinds, c, lane, (T *)(out + l * outlane));
    }
}

#define ND_RUN(ka, kb)                                                                                             \
    case kb: N(lanes)(n, nlanes, ka, kb, c, t, tlane, out, outlane); return;
#define ND_FIRST(ka)                                                                                               \
    case ka:                                                                                                       \
        switch (k == 1 ? ND_COEF_ZERO : kinds[1]) {                                                                \
        ND_RUN(ka, ND_COEF_ZERO) ND_RUN(ka, ND_COEF_ONE) ND_RUN(ka, ND_COEF_NEG) ND_RUN(ka, ND_COEF_ARRAY)         \
        ND_RUN(ka, ND_COEF_ONE | ND_SCALAR_TANGENT) ND_RUN(ka, ND_COEF_NEG | ND_SCALAR_TANGENT)                    \
        ND_RUN(ka, ND_COEF_ARRAY | ND_SCALAR_TANGENT)                                                              \
        }                                                                                                          \
        return;

static void N(combine)(ptrdiff_t n, ptrdiff_t nlanes, int k, const int *kinds, const void *const *coef,
                       const char *const *t, const ptrdiff_t *tlane, char *out, ptrdiff_t outlane) {
    const T *const *c = (const T *const *)coef;
    if (n <= 0) return;
    if (k > 2) {
        N(lanes_of_three)(n, nlanes, k, kinds, c, t, tlane, out, outlane);
        return;
    }
    switch (kinds[0]) {
        ND_FIRST(ND_COEF_ONE) ND_FIRST(ND_COEF_NEG) ND_FIRST(ND_COEF_ARRAY)
        ND_FIRST(ND_COEF_ONE | ND_SCALAR_TANGENT) ND_FIRST(ND_COEF_NEG | ND_SCALAR_TANGENT)
        ND_FIRST(ND_COEF_ARRAY | ND_SCALAR_TANGENT)
    }
}

#undef ND_VECTOR
#undef ND_RUN
#undef ND_FIRST
