/* Rows whose kernels are written by hand because the plain expression would be slow or inexact: sine, cosine, power.
 * The table names them (`kernel="sincos"`, `kernel="pow"`) and keeps the expression as their reference. Included by
 * kernels.c once per dtype, like combine.h.
 */

/* Both at once; s and c must not be x. */
static void N(sincos)(ptrdiff_t n, const T *x, T *restrict s, T *restrict c) {
    uint64_t large = 0;
    if (n > 1 && n % 8) { /* the last few as a full vector: one at a time takes 10 ns each */
        T rest[8] = {0}, tail_s[8], tail_c[8];
        ptrdiff_t from = n - n % 8;
        for (ptrdiff_t i = from; i < n; i++) rest[i - from] = x[i];
        N(sincos)(8, rest, tail_s, tail_c);
        if (from) N(sincos)(from, x, s, c);
        for (ptrdiff_t i = from; i < n; i++) s[i] = tail_s[i - from], c[i] = tail_c[i - from];
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        double a, b, v = x[i];
        large |= nd_is_large(v);
        nd_sincos1(v, &a, &b);
        s[i] = (T)a;
        c[i] = (T)b;
    }
    if (large >> 63) {
        for (ptrdiff_t i = 0; i < n; i++)
            if (nd_is_large(x[i]) >> 63) {
                s[i] = M(sin)(x[i]);
                c[i] = M(cos)(x[i]);
            }
    }
}

static void N(fill_sin)(ptrdiff_t n, const void *const *x, void *y, void *const *d) {
    T unused[ND_BLOCK];
    ptrdiff_t step = d[0] ? n : ND_BLOCK;
    for (ptrdiff_t i = 0; i < n; i += step)
        N(sincos)(step < n - i ? step : n - i, (const T *)x[0] + i, (T *)y + i, d[0] ? (T *)d[0] + i : unused);
}

static void N(fill_cos)(ptrdiff_t n, const void *const *x, void *y, void *const *d) {
    T unused[ND_BLOCK], *sine = d[0];
    ptrdiff_t step = sine ? n : ND_BLOCK;
    for (ptrdiff_t i = 0; i < n; i += step)
        N(sincos)(step < n - i ? step : n - i, (const T *)x[0] + i, sine ? sine + i : unused, (T *)y + i);
    if (sine)
        for (ptrdiff_t i = 0; i < n; i++) sine[i] = -sine[i];
}

/* The exact variants differ in the value alone; the derivative keeps the fast pair. */
static void N(fill_sin_exact)(ptrdiff_t n, const void *const *x, void *y, void *const *d) {
    if (d[0]) N(fill_sin)(n, x, y, d);
    for (ptrdiff_t i = 0; i < n; i++) ((T *)y)[i] = M(sin)(((const T *)x[0])[i]);
}

static void N(fill_cos_exact)(ptrdiff_t n, const void *const *x, void *y, void *const *d) {
    if (d[0]) N(fill_cos)(n, x, y, d);
    for (ptrdiff_t i = 0; i < n; i++) ((T *)y)[i] = M(cos)(((const T *)x[0])[i]);
}

/* dx of x**p, given y. p*y/x saves the second power; where y has overflowed or lost bits it would be wrong. */
static T N(pow_dx)(T x, T p, T y) {
    T a = M(fabs)(y);
    if (p == 0) return 0;
    if (a >= SMALLEST_NORMAL && a <= LARGEST && x != 0) return p * y / x;
    return p * M(pow)(x, p - 1);
}

static T N(pow_dp)(T x, T p, T y) {
    if (x == 0) return p > 0 ? 0 : (T)NAN;
    return y * M(log)(x);
}

static void N(fill_pow)(ptrdiff_t n, const void *const *xs, void *y_, void *const *d) {
    const T *x = xs[0], *p = xs[1], *y = y_;
    T *dx = d[0], *dp = d[1];
    if (dx) {
        U differ = 0;
        for (ptrdiff_t i = 0; i < n; i++) differ |= N(bits)(p[i]) ^ N(bits)(p[0]);
        if (!differ && n > 0 && p[0] == 2) {
            for (ptrdiff_t i = 0; i < n; i++) dx[i] = 2 * x[i];
        } else {
            /* A vector pass, then the few elements that need care. */
            U care = 0;
            for (ptrdiff_t i = 0; i < n; i++) {
                T a = M(fabs)(y[i]);
                care |= (U)!(a >= SMALLEST_NORMAL && a <= LARGEST) | (U)(x[i] == 0) | (U)(p[i] == 0);
                dx[i] = p[i] * y[i] / x[i];
            }
            if (care)
                for (ptrdiff_t i = 0; i < n; i++) dx[i] = N(pow_dx)(x[i], p[i], y[i]);
        }
    }
    if (dp)
        for (ptrdiff_t i = 0; i < n; i++) dp[i] = N(pow_dp)(x[i], p[i], y[i]);
}
