/* Loops over cotangents: adding to the cells of a shadow, and sums. Included by kernels.c once per dtype with T (the
 * number) and N(name) defined. Sums are double for either dtype.
 */

static ND_ALWAYS_INLINE T N(cell)(const void *v, ptrdiff_t i, int wide) {
    return wide ? (T)((const double *)v)[i] : ((const T *)v)[i];
}

/* The kinds are constants after inlining, so that the loops hold no decision. A double is added before it is rounded. */
static ND_ALWAYS_INLINE void N(give_row)(ptrdiff_t n, T *restrict to, const void *restrict v, int wide, int same,
                                         T sign, int fresh) {
    if (fresh) {
        for (ptrdiff_t i = 0; i < n; i++) to[i] = sign * N(cell)(v, same ? 0 : i, wide);
    } else if (wide) {
        for (ptrdiff_t i = 0; i < n; i++) to[i] = (T)(to[i] + ((const double *)v)[same ? 0 : i]);
    } else {
        for (ptrdiff_t i = 0; i < n; i++) to[i] += sign * N(cell)(v, same ? 0 : i, 0);
    }
}

/* to[i] += sign * v[i], or = if `fresh`; one number for all if `same`; sums (`wide`) come with their sign. Cells that
 * lie apart may be one cell again (a window that slides): they are done one by one. */
static void N(give)(ptrdiff_t n, char *to, ptrdiff_t step, const void *v, int wide, int same, int negative, int fresh) {
    const T sign = negative ? -1 : 1;
    if (step == sizeof(T) && n > 1) {
        switch (4 * !!wide + 2 * !!same + !!fresh) {
        case 0: N(give_row)(n, (T *)to, v, 0, 0, sign, 0); return;
        case 1: N(give_row)(n, (T *)to, v, 0, 0, sign, 1); return;
        case 2: N(give_row)(n, (T *)to, v, 0, 1, sign, 0); return;
        case 3: N(give_row)(n, (T *)to, v, 0, 1, sign, 1); return;
        case 4: N(give_row)(n, (T *)to, v, 1, 0, 1, 0); return;
        case 5: N(give_row)(n, (T *)to, v, 1, 0, 1, 1); return;
        case 6: N(give_row)(n, (T *)to, v, 1, 1, 1, 0); return;
        default: N(give_row)(n, (T *)to, v, 1, 1, 1, 1); return;
        }
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        T *cell = (T *)(to + i * step);
        ptrdiff_t k = same ? 0 : i;
        if (fresh) *cell = wide ? N(cell)(v, k, 1) : sign * N(cell)(v, k, 0);
        else if (wide) *cell = (T)(*cell + ((const double *)v)[k]);
        else *cell += sign * N(cell)(v, k, 0);
    }
}

/* Pairwise as NumPy adds up, so that doubles give the same bits: halves down to 128 numbers, and eight running sums. */
static double N(sum)(const void *v, ptrdiff_t n) {
    const T *x = v;
    if (n < 8) {
        double sum = -0.0;
        for (ptrdiff_t i = 0; i < n; i++) sum += x[i];
        return sum;
    }
    if (n <= 128) {
        double s[8], sum;
        ptrdiff_t i = 8;
        for (int k = 0; k < 8; k++) s[k] = x[k];
        for (; i + 8 <= n; i += 8)
            for (int k = 0; k < 8; k++) s[k] += x[i + k];
        sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
        for (; i < n; i++) sum += x[i];
        return sum;
    }
    const ptrdiff_t half = n / 16 * 8;
    return N(sum)(x, half) + N(sum)(x + half, n - half);
}

/* Halves, quarters, ... of the sum of products; sixteen running sums of the rest. */
static double N(dot)(const void *v, const void *w, ptrdiff_t n) {
    const T *a = v, *b = w;
    const ptrdiff_t half = n / 32 * 16;
    double s[16] = {0}, rest = 0;
    ptrdiff_t i = 0;
    if (n > 2048) return N(dot)(a, b, half) + N(dot)(a + half, b + half, n - half);
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) s[k] += (double)a[i + k] * b[i + k];
    for (; i < n; i++) rest += (double)a[i] * b[i];
    for (int width = 8; width; width /= 2)
        for (int k = 0; k < width; k++) s[k] += s[k + width];
    return s[0] + rest;
}

static void N(affine)(ptrdiff_t n, void *to, double base, double f, const void *from, double g, const void *beside) {
    T *out = to;
    const T *a = from, *b = beside;
    const T start = (T)base, by = (T)f, also = (T)g;
    if (a == NULL) {
        for (ptrdiff_t i = 0; i < n; i++) out[i] = start;
    } else if (b == NULL) {
        ND_EACH_ALONE
        for (ptrdiff_t i = 0; i < n; i++) out[i] = start + by * a[i];
    } else {
        ND_EACH_ALONE
        for (ptrdiff_t i = 0; i < n; i++) out[i] = start + (by * a[i] + also * b[i]);
    }
}

/* out[k] = scale * (the sum of the k-th m numbers). */
static void N(sums)(const void *v, ptrdiff_t m, ptrdiff_t count, double scale, double *out) {
    const T *from = v;
    if (m < 8) {
        for (ptrdiff_t k = 0; k < count; k++, from += m) {
            double sum = from[0];
            for (ptrdiff_t i = 1; i < m; i++) sum += from[i];
            out[k] = scale * sum;
        }
    } else {
        for (ptrdiff_t k = 0; k < count; k++) out[k] = scale * N(sum)(from + k * m, m);
    }
}

/* out[j] = the sum over rows of m numbers each; halving, so that narrow rows are added as long vectors too. */
static void N(fold)(const void *v, ptrdiff_t rows, ptrdiff_t m, double *restrict out) {
    const T *restrict from = v;
    if (m == 1) {
        *out = N(sum)(from, rows);
        return;
    }
    ptrdiff_t half = (rows + 1) / 2 * m, odd = (rows & 1) * m;
    for (ptrdiff_t i = 0; i < half - odd; i++) out[i] = (double)from[i] + from[i + half];
    for (ptrdiff_t i = half - odd; i < half; i++) out[i] = from[i];
    for (rows = (rows + 1) / 2; rows > 1; rows = (rows + 1) / 2) {
        const double *upper = out + (rows + 1) / 2 * m;
        for (ptrdiff_t i = 0; i < rows / 2 * m; i++) out[i] += upper[i];
    }
}
