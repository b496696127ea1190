# Matrix products of real host arrays with one or two axes, their lanes written straight into the result by the very
# loop that NumPy's matmul runs. The rule in rules/products.py says what a product means: everything that is not plain
# and finite goes there, and tests hold the two against each other.
cdef nd_loop _gemm[2]
bind_loops(_gemm, np.matmul)

cdef enum:
    SCRATCH = 1 << 16        # bytes of a sum's second term at a time: more would push the first out of the cache
    ADD_BLOCK = 2048         # cells added and looked at together
    FEW_ROWS = 64

cdef struct factor:
    char* v                  # values and, where it is active, lane lo
    char* t
    Py_ssize_t lo, hi, lane
    Py_ssize_t rows, columns
    Py_ssize_t vs[2]
    Py_ssize_t ts[2]
    int ndim


cdef object product(object function, object a, object b):
    """np.matmul or np.dot of two operands of which one is a dual."""
    cdef NDualArray r = None
    if not nd_tls.debug:
        align_living(a, b)
        r = host_product(function, a, b)
    return dispatch(function, (a, b), {}) if r is None else finish(r)


cdef bint read_factor(factor* f, object obj, int* typenum, bint first):
    """The geometry of a real array of one or two axes, a single one being a row of the first factor, a column of the
    second; False for anything else."""
    cdef NDualArray x
    cdef cnp.ndarray a
    cdef int kind, axis
    cdef const Py_ssize_t* shape
    f.lo = f.hi = 0
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        if x.device_v is not None or x.buf.level.id != nd_tls.id:
            return False
        kind = x.typenum
        f.ndim = x.ndim_
        shape = x.shape_
    elif type(obj) is np_ndarray:
        a = <cnp.ndarray>obj
        if not cnp.PyArray_ISBEHAVED_RO(a) or any_moved():
            return False
        kind = cnp.PyArray_TYPE(a)
        f.ndim = a.ndim
        shape = <const Py_ssize_t*>cnp.PyArray_DIMS(a)
    else:
        return False
    if (kind != cnp.NPY_DOUBLE and kind != cnp.NPY_FLOAT) or f.ndim < 1 or f.ndim > 2 or typenum[0] not in (-1, kind):
        return False
    typenum[0] = kind
    f.rows = f.columns = 1
    f.vs[0] = f.vs[1] = f.ts[0] = f.ts[1] = 0
    for axis in range(2 - f.ndim if first else 0, 2 if first else f.ndim):
        if axis == 0:
            f.rows = shape[0]
        else:
            f.columns = shape[f.ndim - 1]
        if type(obj) is NDualArray:
            f.vs[axis] = (<NDualArray>obj).vs[axis - (2 - f.ndim if first else 0)]
            f.ts[axis] = (<NDualArray>obj).ts[axis - (2 - f.ndim if first else 0)]
        else:
            f.vs[axis] = cnp.PyArray_STRIDE(<cnp.ndarray>obj, axis - (2 - f.ndim if first else 0))
    return True


cdef int aim_factor(factor* f, object obj) except -1:
    """Point a factor at its memory; where it is a dual, its lanes must be dense by then."""
    if type(obj) is NDualArray:
        f.v = vptr(<NDualArray>obj)
        f.lane = (<NDualArray>obj).lane
        if f.lo < f.hi:
            f.t = lane_ptr(<NDualArray>obj, f.lo)
    else:
        f.v = cnp.PyArray_BYTES(<cnp.ndarray>obj)
    return 0


cdef int window_of(factor* f, object obj, bint may_wait=False) except -1:
    if type(obj) is NDualArray:
        if not (may_wait and (<NDualArray>obj).buf.scaled and covers_factors(<NDualArray>obj)):
            dense(<NDualArray>obj)
        window(<NDualArray>obj, &f.lo, &f.hi)
    return 0


cdef void gemm(nd_loop loop, Py_ssize_t count, Py_ssize_t m, Py_ssize_t k, Py_ssize_t n, char* a, Py_ssize_t alane,
               const Py_ssize_t* as_, char* b, Py_ssize_t blane, const Py_ssize_t* bs, char* c, Py_ssize_t crow,
               Py_ssize_t item) noexcept:
    """`count` products (m, k) @ (k, n) into (count, m, n), whose rows lie `crow` bytes apart."""
    cdef char* args[3]
    cdef intptr_t dims[4]
    cdef intptr_t steps[9]
    args[0], args[1], args[2] = a, b, c
    dims[0], dims[1], dims[2], dims[3] = count, m, k, n
    steps[0], steps[1], steps[2] = alane, blane, m * crow
    steps[3], steps[4], steps[5], steps[6] = as_[0], as_[1], bs[0], bs[1]
    steps[7], steps[8] = crow, item
    loop.fn(args, dims, steps, loop.data)


cdef void lanes_of_a(nd_loop loop, factor* a, factor* b, char* to, Py_ssize_t item) noexcept:
    """da @ b: one product of all lanes' rows where these lie evenly."""
    cdef Py_ssize_t count = a.hi - a.lo, row = b.columns * item
    cdef Py_ssize_t strides[2]
    strides[0] = a.lane if a.rows == 1 else a.ts[0]
    strides[1] = a.ts[1]
    if a.rows == 1 or a.lane == a.rows * a.ts[0]:
        gemm(loop, 1, count * a.rows, a.columns, b.columns, a.t, 0, strides, b.v, 0, b.vs, to, row, item)
    else:
        gemm(loop, count, a.rows, a.columns, b.columns, a.t, a.lane, strides, b.v, 0, b.vs, to, row, item)


cdef void lanes_of_b(nd_loop loop, factor* a, factor* b, Py_ssize_t lo, Py_ssize_t hi, char* to,
                     Py_ssize_t item) noexcept:
    """a @ db for lanes lo..hi: of vectors, one product of the lanes with a's transpose."""
    cdef char* t = b.t + (lo - b.lo) * b.lane
    cdef Py_ssize_t left[2]
    cdef Py_ssize_t right[2]
    if b.columns == 1:
        left[0], left[1] = b.lane, b.ts[0]
        right[0], right[1] = a.vs[1], a.vs[0]
        gemm(loop, 1, hi - lo, b.rows, a.rows, t, 0, left, a.v, 0, right, to, a.rows * item, item)
    else:
        gemm(loop, hi - lo, a.rows, a.columns, b.columns, a.v, 0, a.vs, t, b.lane, b.ts, to,
             b.columns * item, item)


cdef bint seeds_alone(factor* a, factor* b, object right) noexcept:
    """Whether the lanes of b are unit vectors, so that those of a @ b are the columns of a: no product is needed."""
    return (a.lo >= a.hi and type(right) is NDualArray and (<NDualArray>right).buf.seeded and b.ndim == 1
            and b.vs[0] == (<NDualArray>right).itemsize_)


cdef void columns_of_a(factor* a, factor* b, NDualArray right, char* to, Py_ssize_t item) noexcept:
    """The lanes of a @ b where those of b are unit vectors, as they are: infinities and NaN meet no zero."""
    cdef Py_ssize_t first = b.lo - right.buf.seed - right.voff // item      # the cell whose lane is lo
    cdef Py_ssize_t at, shape[2]
    cdef Py_ssize_t left[2]
    cdef Py_ssize_t ours[2]
    left[0], left[1] = a.vs[1], a.vs[0]
    ours[0], ours[1] = a.rows * item, item
    shape[0] = b.hi - b.lo
    for at in range(0, a.rows, FEW_ROWS):       # rows that lie in the first cache together
        shape[1] = min(<Py_ssize_t>FEW_ROWS, a.rows - at)
        nd_copy(item, 2, shape, to + at * item, ours, a.v + first * a.vs[1] + at * a.vs[0], left)


cdef bint add_finite(int typenum, char* to, const char* source, Py_ssize_t n) noexcept:
    """to += source (unless NULL), and whether the outcome is finite."""
    cdef Py_ssize_t item = 8 if typenum == cnp.NPY_DOUBLE else 4, i
    cdef int dtype = kernel_dtype(typenum)
    cdef nd_loop add = ROW_ADD.loops[dtype]
    cdef char* args[3]
    cdef intptr_t steps[3]
    cdef intptr_t count
    cdef bint finite = True
    if source == NULL:
        return isa.finite[dtype](n, to)
    steps[0] = steps[1] = steps[2] = item
    for i in range(0, n, ADD_BLOCK):
        count = min(n - i, <Py_ssize_t>ADD_BLOCK)
        args[0] = args[2] = to + i * item
        args[1] = <char*>source + i * item
        add.fn(args, &count, steps, add.data)
        finite &= isa.finite[dtype](count, to + i * item)
    return finite


cdef bint product_of(int typenum, Py_ssize_t m, Py_ssize_t k, Py_ssize_t n, char* a, const Py_ssize_t* as_, char* b,
                     const Py_ssize_t* bs, char* c, bint more) except? False:
    """c = a @ b or, with `more`, c += a @ b, for a c whose rows lie behind each other; whether the product is finite.

    What is not is not added. It counts as that, too, where NumPy has no loop.
    """
    cdef nd_loop loop = _gemm[kernel_dtype(typenum)]
    cdef Py_ssize_t item = 8 if typenum == cnp.NPY_DOUBLE else 4
    cdef char* to = c
    cdef int size_class
    cdef bint finite
    if loop.fn == NULL or m * k * n == 0:
        return False
    if more:
        to = <char*>pooled(m * n * item, &size_class)
    gemm(loop, 1, m, k, n, a, 0, as_, b, 0, bs, to, n * item, item)
    finite = isa.finite[kernel_dtype(typenum)](m * n, to)
    if more:
        if finite:
            add_finite(typenum, c, to, m * n)
        nd_pool_free(to, size_class)
    return finite


cdef NDualArray host_product(object function, object a, object b):
    """The product, or None where the rule must decide."""
    cdef factor f, g
    cdef int typenum = -1, ndim = 0
    cdef Py_ssize_t shape[2]
    cdef Py_ssize_t lo = 0, hi = 0, item, cells, start, stop, batch
    cdef NDualArray r
    cdef nd_loop loop
    cdef char* scratch
    cdef int size_class
    cdef bint finite, weighted
    if not read_factor(&f, a, &typenum, True) or not read_factor(&g, b, &typenum, False):
        return None
    loop = _gemm[kernel_dtype(typenum)]
    if loop.fn == NULL or f.columns != g.rows or f.rows * f.columns * g.columns == 0:
        return None
    window_of(&f, a)
    window_of(&g, b, g.columns == 1 and f.lo >= f.hi)
    unite(&lo, &hi, f.lo, f.hi)
    unite(&lo, &hi, g.lo, g.hi)
    if f.ndim == 2:
        shape[ndim] = f.rows
        ndim += 1
    if g.ndim == 2:
        shape[ndim] = g.columns
        ndim += 1
    r = new_window(running(), typenum, ndim, shape, lo, hi)
    weighted = type(b) is NDualArray and (<NDualArray>b).buf.scaled and nd_tls.tape == NULL
    if not weighted or as_numpy():
        function(
            values(<NDualArray>a) if type(a) is NDualArray else a,
            values(<NDualArray>b) if type(b) is NDualArray else b,
            values(r),
        )
    if nd_tls.tape != NULL:
        if ndim == 0:
            r.flags_ |= NSCALAR
        recorder().multiplied(a, b, r)
        return r
    aim_factor(&f, a)
    aim_factor(&g, b)
    item = r.itemsize_
    cells = r.size_ * item
    if weighted or seeds_alone(&f, &g, b):
        if not weighted:
            columns_of_a(&f, &g, <NDualArray>b, r.buf.t, item)
        elif not weighted_product(loop, &f, <NDualArray>b, typenum, r):
            return None
        if ndim == 0:
            r.flags_ |= NSCALAR
        return r
    if f.lo < f.hi:
        lanes_of_a(loop, &f, &g, r.buf.t + (f.lo - lo) * cells, item)
    if f.hi <= g.lo or g.hi <= f.lo:
        if g.lo < g.hi:
            lanes_of_b(loop, &f, &g, g.lo, g.hi, r.buf.t + (g.lo - lo) * cells, item)
        if f.lo < f.hi and g.lo < g.hi:      # the lanes between two windows
            start, stop = min(f.hi, g.hi), max(f.lo, g.lo)
            memset(r.buf.t + (start - lo) * cells, 0, (stop - start) * cells)
        finite = add_finite(typenum, r.buf.t, NULL, (hi - lo) * r.size_)
    else:
        if g.lo < f.lo:
            lanes_of_b(loop, &f, &g, g.lo, f.lo, r.buf.t + (g.lo - lo) * cells, item)
        if g.hi > f.hi:
            lanes_of_b(loop, &f, &g, f.hi, g.hi, r.buf.t + (f.hi - lo) * cells, item)
        start, stop = max(f.lo, g.lo), min(f.hi, g.hi)
        batch = max(<Py_ssize_t>1, SCRATCH // cells)
        scratch = <char*>pooled(min(batch, stop - start) * cells, &size_class)
        finite = add_finite(typenum, r.buf.t, NULL, (start - lo) * r.size_) \
            and add_finite(typenum, r.buf.t + (stop - lo) * cells, NULL, (hi - stop) * r.size_)
        while finite and start < stop:
            batch = min(batch, stop - start)
            lanes_of_b(loop, &f, &g, start, start + batch, scratch, item)
            finite = add_finite(typenum, r.buf.t + (start - lo) * cells, scratch, batch * r.size_)
            start += batch
        nd_pool_free(scratch, size_class)
    if not finite:
        return None
    if ndim == 0:
        r.flags_ |= NSCALAR
    return r
