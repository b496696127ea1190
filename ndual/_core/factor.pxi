# Lanes of a Cholesky factor and of triangle times vector, for real host arrays, in blocks over the loop of NumPy's
# matmul. rules/linalg.py and rules/triangular.py state the formulas and call these where they can: thirty NumPy calls
# for a matrix of order 128 take as long as the work itself.

ctypedef fused real:
    float
    double

cdef enum:
    FACTOR_BLOCK = 32


cdef void invert_lower(const real* a, Py_ssize_t row, real* x, Py_ssize_t n) noexcept:
    """The inverse of a lower triangle, whose rows lie `row` numbers apart, as a full n by n matrix."""
    cdef Py_ssize_t i, j, k
    cdef real c
    for i in range(n):
        for k in range(n):
            x[i * n + k] = 0
        x[i * n + i] = 1
        for j in range(i):
            c = a[i * row + j]
            for k in range(j + 1):
                x[i * n + k] -= c * x[j * n + k]
        c = 1 / a[i * row + i]
        for k in range(i + 1):
            x[i * n + k] *= c


cdef void halve(real* m, Py_ssize_t n) noexcept:
    """The lower triangle with half the diagonal, in place."""
    cdef Py_ssize_t i, j
    for i in range(n):
        m[i * n + i] /= 2
        for j in range(i + 1, n):
            m[i * n + j] = 0


cdef void mirror_halved(const real* m, real* to, Py_ssize_t n) noexcept:
    """The lower triangle of m + m.T with half the diagonal."""
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(i):
            to[i * n + j] = m[i * n + j] + m[j * n + i]
        to[i * n + i] = m[i * n + i]
        for j in range(i + 1, n):
            to[i * n + j] = 0


cdef void take_away(real* p, const real* q, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i
    for i in range(n):
        p[i] -= q[i]


cdef void cholesky_column(nd_loop loop, const real* lf, real* out, const char* da, Py_ssize_t dr, Py_ssize_t dc,
                          Py_ssize_t n, Py_ssize_t s, Py_ssize_t w, const real* inverse, real* room) noexcept:
    """One block column, s..s + w, of one lane; those before it are done."""
    cdef Py_ssize_t item = sizeof(real), rows = n - s, i, j
    cdef Py_ssize_t row = n * item
    cdef Py_ssize_t plain[2]
    cdef Py_ssize_t turned[2]
    cdef Py_ssize_t small[2]
    cdef Py_ssize_t small_turned[2]
    cdef real* p = room                  # rows × w
    cdef real* q = room + n * w          # rows × w
    plain[0], plain[1] = row, item
    turned[0], turned[1] = item, row
    small[0], small[1] = w * item, item
    small_turned[0], small_turned[1] = item, w * item
    for i in range(rows):
        for j in range(w):
            p[i * w + j] = (<const real*>(da + (s + i) * dr + (s + j) * dc))[0]
    if s > 0:
        gemm(loop, 1, rows, s, w, <char*>(out + s * n), 0, plain, <char*>(lf + s * n), 0, turned, <char*>q,
             w * item, item)
        take_away(p, q, rows * w)
        gemm(loop, 1, rows, s, w, <char*>(lf + s * n), 0, plain, <char*>(out + s * n), 0, turned, <char*>q,
             w * item, item)
        take_away(p, q, rows * w)
    # The diagonal block: D Phi(M + M.T) with M = D^-1 (halved lower triangle) D^-T.
    halve(p, w)
    gemm(loop, 1, w, w, w, <char*>inverse, 0, small, <char*>p, 0, small, <char*>q, w * item, item)
    gemm(loop, 1, w, w, w, <char*>q, 0, small, <char*>inverse, 0, small_turned, <char*>p, w * item, item)
    mirror_halved(p, q, w)
    gemm(loop, 1, w, w, w, <char*>(lf + s * n + s), 0, plain, <char*>q, 0, small, <char*>(out + s * n + s), row, item)
    if rows > w:
        p += w * w
        gemm(loop, 1, rows - w, w, w, <char*>(lf + (s + w) * n + s), 0, plain, <char*>(out + s * n + s), 0, turned,
             <char*>q, w * item, item)
        take_away(p, q, (rows - w) * w)
        gemm(loop, 1, rows - w, w, w, <char*>p, 0, small, <char*>inverse, 0, small_turned,
             <char*>(out + (s + w) * n + s), row, item)


cdef int cholesky_fill(nd_loop loop, cnp.ndarray factor, cnp.ndarray da, cnp.ndarray out, real unused) except -1:
    cdef Py_ssize_t n = cnp.PyArray_DIM(factor, 0), s, w, k
    cdef int size_class
    cdef real* lf = <real*>cnp.PyArray_DATA(factor)
    cdef real* room = <real*>pooled((2 * n + FACTOR_BLOCK) * FACTOR_BLOCK * sizeof(real), &size_class)
    cdef real* inverse = room + 2 * n * FACTOR_BLOCK
    for s in range(0, n, FACTOR_BLOCK):
        w = min(n - s, <Py_ssize_t>FACTOR_BLOCK)
        invert_lower(lf + s * n + s, n, inverse, w)
        for k in range(cnp.PyArray_DIM(da, 0)):
            cholesky_column(
                loop, lf, <real*>cnp.PyArray_DATA(out) + k * n * n,
                cnp.PyArray_BYTES(da) + k * cnp.PyArray_STRIDE(da, 0), cnp.PyArray_STRIDE(da, 1),
                cnp.PyArray_STRIDE(da, 2), n, s, w, inverse, room,
            )
    nd_pool_free(room, size_class)
    return 0


def cholesky_lanes(cnp.ndarray factor, cnp.ndarray da):
    """Tangents of the lower Cholesky factor `factor`, of which lanes ``da (N, n, n)`` give the lower triangle."""
    cdef object out = np.zeros_like(da, order="C")
    factor = np.ascontiguousarray(factor)
    if not cnp.PyArray_ISBEHAVED_RO(da):
        da = da.copy()
    if factor.dtype == FLOAT64:
        cholesky_fill[double](_gemm[ND_F64], factor, da, out, 0)
    else:
        cholesky_fill[float](_gemm[ND_F32], factor, da, out, 0)
    return out


cdef int cholesky_back(nd_loop loop, cnp.ndarray factor, cnp.ndarray cotangent, cnp.ndarray out, real unused) except -1:
    """S + S.T with half the diagonal, S = L^-T P L^-1 and P the halved lower triangle of L.T W, in blocks of rows."""
    cdef Py_ssize_t n = cnp.PyArray_DIM(factor, 0), item = sizeof(real), row = n * item, s, e, w, i
    cdef int size_class
    cdef const real* lf = <const real*>cnp.PyArray_DATA(factor)
    cdef const real* wf = <const real*>cnp.PyArray_DATA(cotangent)
    cdef real* room = <real*>pooled((3 * n + 2 * FACTOR_BLOCK) * n * item, &size_class)
    cdef real* inverse = room
    cdef real* p = room + n * n
    cdef real* m = room + 2 * n * n
    cdef real* block = room + 3 * n * n
    cdef real* q = block + FACTOR_BLOCK * FACTOR_BLOCK
    cdef Py_ssize_t plain[2]
    cdef Py_ssize_t turned[2]
    cdef Py_ssize_t small[2]
    plain[0], plain[1] = row, item
    turned[0], turned[1] = item, row
    memset(room, 0, 3 * n * n * item)
    for s in range(0, n, FACTOR_BLOCK):
        w = min(n - s, <Py_ssize_t>FACTOR_BLOCK)
        small[0], small[1] = w * item, item
        invert_lower(lf + s * n + s, n, block, w)
        for i in range(w):
            memcpy(inverse + (s + i) * n + s, block + i * w, w * item)
        if s > 0:                # -D^-1 (L's row of blocks) (the inverse above)
            gemm(loop, 1, w, s, s, <char*>(lf + s * n), 0, plain, <char*>inverse, 0, plain, <char*>q, s * item, item)
            for i in range(w * w):
                block[i] = -block[i]
            plain[0] = s * item
            gemm(loop, 1, w, w, s, <char*>block, 0, small, <char*>q, 0, plain, <char*>(inverse + s * n), row, item)
            plain[0] = row
    for s in range(0, n, FACTOR_BLOCK):
        w = min(n - s, <Py_ssize_t>FACTOR_BLOCK)
        e = s + w
        gemm(loop, 1, w, n - s, e, <char*>(lf + s * n + s), 0, turned, <char*>(wf + s * n), 0, plain,
             <char*>(p + s * n), row, item)
        for i in range(w):
            p[(s + i) * n + s + i] /= 2
            memset(p + (s + i) * n + s + i + 1, 0, (w - i - 1) * item)
        gemm(loop, 1, w, e, e, <char*>(p + s * n), 0, plain, <char*>inverse, 0, plain, <char*>(m + s * n), row, item)
    for s in range(0, n, FACTOR_BLOCK):
        w = min(n - s, <Py_ssize_t>FACTOR_BLOCK)
        gemm(loop, 1, w, n - s, n, <char*>(inverse + s * n + s), 0, turned, <char*>(m + s * n), 0, plain,
             <char*>(p + s * n), row, item)
    mirror_halved(p, <real*>cnp.PyArray_DATA(out), n)
    nd_pool_free(room, size_class)
    return 0


def cholesky_cotangent(cnp.ndarray factor, cnp.ndarray cotangent):
    """The cotangent of the lower triangle that a Cholesky factor was made of, zeros above."""
    cdef object out = np.empty_like(factor, order="C")
    factor = np.ascontiguousarray(factor)
    cotangent = np.ascontiguousarray(cotangent)
    if factor.dtype == FLOAT64:
        cholesky_back[double](_gemm[ND_F64], factor, cotangent, out, 0)
    else:
        cholesky_back[float](_gemm[ND_F32], factor, cotangent, out, 0)
    return out


cdef int triangle_fill(nd_loop loop, cnp.ndarray da, cnp.ndarray x, cnp.ndarray out, bint lower, bint unit,
                       real unused) except -1:
    cdef Py_ssize_t n = cnp.PyArray_DIM(x, 0), s, w, k, i, j, first, last
    cdef Py_ssize_t steps[2]
    cdef Py_ssize_t one[2]
    cdef char* a
    cdef const real* v = <const real*>cnp.PyArray_DATA(x)
    cdef real* y
    cdef real total
    steps[0], steps[1] = cnp.PyArray_STRIDE(da, 1), cnp.PyArray_STRIDE(da, 2)
    one[0], one[1] = sizeof(real), sizeof(real)
    for k in range(cnp.PyArray_DIM(da, 0)):
        a = cnp.PyArray_BYTES(da) + k * cnp.PyArray_STRIDE(da, 0)
        y = <real*>cnp.PyArray_DATA(out) + k * n
        for s in range(0, n, FACTOR_BLOCK):
            w = min(n - s, <Py_ssize_t>FACTOR_BLOCK)
            first = 0 if lower else s + w
            last = s if lower else n
            if first < last:
                gemm(loop, 1, w, last - first, 1, a + s * steps[0] + first * steps[1], 0, steps, <char*>(v + first),
                     0, one, <char*>(y + s), sizeof(real), sizeof(real))
            else:
                memset(y + s, 0, w * sizeof(real))
            for i in range(s, s + w):
                total = 0
                for j in range(s if lower else i + unit, i + 1 - unit if lower else s + w):
                    total += (<const real*>(a + i * steps[0] + j * steps[1]))[0] * v[j]
                y[i] += total
    return 0


def triangle_times_vector(cnp.ndarray da, cnp.ndarray x, bint lower, bint unit):
    """The triangles of lanes ``da (N, n, n)`` times ``x (n,)``; the diagonal counts as zero if `unit`."""
    cdef object out = np.empty_like(da[:, :, 0], order="C")
    x = np.ascontiguousarray(x)
    if not cnp.PyArray_ISBEHAVED_RO(da):
        da = da.copy()
    if x.dtype == FLOAT64:
        triangle_fill[double](_gemm[ND_F64], da, x, out, lower, unit, 0)
    else:
        triangle_fill[float](_gemm[ND_F32], da, x, out, lower, unit, 0)
    return out


cdef void outer_fill(cnp.ndarray left, cnp.ndarray right, cnp.ndarray out, bint lower, bint unit, real unused) noexcept:
    cdef Py_ssize_t n = cnp.PyArray_DIM(left, 0), i, j, first, last
    cdef const real* v = <const real*>cnp.PyArray_DATA(right)
    cdef real* row = <real*>cnp.PyArray_DATA(out)
    cdef real x
    for i in range(n):
        x = -(<const real*>cnp.PyArray_DATA(left))[i]
        first = 0 if lower else i + unit
        last = i + 1 - unit if lower else n
        memset(row, 0, first * sizeof(real))
        for j in range(first, last):
            row[j] = x * v[j]
        memset(row + last, 0, (n - last) * sizeof(real))
        row += n


def outer_triangle(cnp.ndarray left, cnp.ndarray right, bint lower, bint unit):
    """A triangle of ``-left[:, None] * right``, zeros elsewhere and, if `unit`, on the diagonal."""
    cdef object out = np.empty((left.shape[0], right.shape[0]), left.dtype)
    left = np.ascontiguousarray(left)
    right = np.ascontiguousarray(right)
    if left.dtype == FLOAT64:
        outer_fill[double](left, right, out, lower, unit, 0)
    else:
        outer_fill[float](left, right, out, lower, unit, 0)
    return out
