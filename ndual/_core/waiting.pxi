# Lanes that wait. A copy shares the lanes of the original until one of the two is written to. A row of one active
# operand scales each lane by the same factors; where the lanes are many, only the factors are computed, and the lanes
# stay those of the operand until somebody reads them. A chain of such rows is then one pass over the lanes, its sum a
# product of a matrix with a vector, and what is never asked for costs nothing.

cdef enum:
    WAITING_LANES = 4
    WORKED_BYTES = 1 << 18       # of lanes worked out for a product at a time, which then takes them from the cache
    WAITING_BYTES = 1 << 15      # of all lanes: below, a pass over them costs no more than the bookkeeping

cdef extern from *:
    """
    /* Whether a factor that was no zero, or what became of it, is far from one: beyond 2^+-166, in float 2^+-20. The
     * signs of integers say so without a comparison, which vectorizes everywhere. */
    static int nd_far_f64(const char *before, const char *after, Py_ssize_t n) {
        const uint64_t low = (uint64_t)(1023 - 166) << 52, high = (uint64_t)(1023 + 166) << 52;
        const uint64_t all = ~(uint64_t)0 >> 1;
        uint64_t far = 0, a, b;
        for (Py_ssize_t i = 0; i < n; i++) {
            memcpy(&a, before + 8 * i, 8);
            memcpy(&b, after + 8 * i, 8);
            a &= all;
            b &= all;
            far |= (a | (0 - a)) & ((a - low) | (high - a) | (b - low) | (high - b));
        }
        return far >> 63;
    }
    static int nd_far_f32(const char *before, const char *after, Py_ssize_t n) {
        const uint32_t low = (uint32_t)(127 - 20) << 23, high = (uint32_t)(127 + 20) << 23, all = ~(uint32_t)0 >> 1;
        uint32_t far = 0, a, b;
        for (Py_ssize_t i = 0; i < n; i++) {
            memcpy(&a, before + 4 * i, 4);
            memcpy(&b, after + 4 * i, 4);
            a &= all;
            b &= all;
            far |= (a | (0 - a)) & ((a - low) | (high - a) | (b - low) | (high - b));
        }
        return far >> 31;
    }
    """
    bint nd_far_f64(const char*, const char*, Py_ssize_t) noexcept
    bint nd_far_f32(const char*, const char*, Py_ssize_t) noexcept


cdef inline bint covers_factors(NDualArray x) noexcept:
    """Whether an array with factors is all of its buffer, cell by cell."""
    return bool(x.flags_ & NCONTIGUOUS) and x.voff == 0 and x.size_ * x.itemsize_ == x.buf.one


cdef inline bint may_wait(NDualArray x, Py_ssize_t lo, Py_ssize_t hi) noexcept:
    """Whether the lanes lo..hi of a contiguous array are worth it.

    Of a part of a buffer they never are: the whole of it would be lent, and copied by a write to any other part.
    """
    return (hi - lo >= WAITING_LANES and (hi - lo) * x.size_ * x.itemsize_ >= WAITING_BYTES and nd_tls.tape == NULL
            and not nd_tls.debug and covers_factors(x))


cdef inline bint may_share(NDualArray x, Py_ssize_t lo, Py_ssize_t hi) noexcept:
    """The same for a copy: what knows that it is seeds makes products of matrices copies."""
    return may_wait(x, lo, hi) or (x.buf.seeded and hi - lo >= WAITING_LANES and nd_tls.tape == NULL
                                   and not nd_tls.debug and covers_factors(x))


cdef object lend(Buffer buffer):
    """What keeps the lanes of a buffer as they are for others: the buffer itself copies them before a write."""
    cdef Buffer owner
    if buffer.scaled:
        return buffer.towner
    if lanes_ours(buffer):
        owner = empty_buffer(buffer.level)
        if buffer.lanes != NULL:
            owner.lanes = buffer.lanes
            owner.lanes_class = buffer.lanes_class
            buffer.lanes = NULL
        else:
            owner.memory = buffer.memory
            owner.memory_class = buffer.memory_class
            buffer.memory = NULL
        owner.towner = buffer.towner         # which may hold the values
        buffer.towner = owner
    buffer.lent = True
    return buffer.towner


cdef void take_back(Buffer buffer) noexcept:
    """A buffer has copied the lanes that it had lent, and keeps of their owner no more than where its values may be."""
    cdef Buffer owner
    buffer.lent = False
    if type(buffer.towner) is Buffer:
        owner = <Buffer>buffer.towner
        if owner.memory == NULL:
            buffer.towner = owner.towner


cdef void work_out_part(Buffer buffer, Py_ssize_t start, Py_ssize_t stop, char* to, Py_ssize_t lane) noexcept:
    """The lanes of some cells, `lane` bytes apart."""
    cdef Py_ssize_t at
    cdef int kind = ND_COEF_ARRAY, dtype = ND_F64 if buffer.item == 8 else ND_F32
    cdef const void* factor
    cdef const char* lanes
    for at in range(start, stop, ND_BLOCK):
        factor = buffer.factor + at * buffer.item
        lanes = buffer.t + at * buffer.item
        isa.combine[dtype](min(<Py_ssize_t>ND_BLOCK, stop - at), buffer.hi - buffer.lo, 1, &kind, &factor, &lanes,
                           &buffer.step, to + (at - start) * buffer.item, lane)


cdef int work_out(Buffer buffer) except -1:
    """The lanes themselves."""
    cdef int size_class
    cdef char* room = <char*>pooled(buffer.one * (buffer.hi - buffer.lo), &size_class)
    work_out_part(buffer, 0, buffer.one // buffer.item, room, buffer.one)
    buffer.scaled = False
    buffer.towner = None
    buffer.lanes = room
    buffer.lanes_class = size_class
    buffer.t = room
    return 0


cdef NDualArray waiting(Row row, NDualArray x, const void* constant, bint constant_first, Py_ssize_t lo, Py_ssize_t hi):
    """The row of a contiguous array, perhaps with a number, with lanes that wait; None where they must not."""
    cdef nd_in ins[2]
    cdef Py_ssize_t stride = x.itemsize_, zero = 0, size = x.size_
    cdef int at = 1 if constant_first else 0
    cdef NDualArray r = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, 0, 1)
    if constant != NULL:
        ins[1 - at].v = <const char*>constant
        ins[1 - at].vs = ins[1 - at].ts = &zero
        ins[1 - at].t = NULL
        ins[1 - at].lane = ins[1 - at].lo = ins[1 - at].hi = 0
    ins[at].v = vptr(x)
    ins[at].vs = &stride
    return r if put_off(row, 1 if constant == NULL else 2, ins, at, x, r, lo, hi, 1, &size, &stride) else None


cdef NDualArray waiting_of_two(Row row, int nin, object a, object b, Operands* m, int typenum, int ndim,
                               const Py_ssize_t* shape, const int* order):
    """The same for operands of which one has lanes and the shape of the result."""
    cdef int at = 1 if nin == 2 and m.ins[1].lo < m.ins[1].hi else 0, k
    cdef NDualArray x, r
    cdef Py_ssize_t lo = m.ins[at].lo, hi = m.ins[at].hi
    if (nin == 2 and m.ins[1 - at].lo < m.ins[1 - at].hi) or type(b if at else a) is not NDualArray or row.flat:
        return None
    x = <NDualArray>(b if at else a)
    if not x.flags_ & NCONTIGUOUS or x.ndim_ != ndim or not equal_dims(x.shape_, shape, ndim) \
            or not may_wait(x, lo, hi):
        return None
    r = new_ordered(x.buf.level, typenum, ndim, shape, order, 0, 1)
    if not r.flags_ & NCONTIGUOUS:
        return None
    for k in range(nin):
        if type(b if k else a) is NDualArray:
            m.ins[k].v = vptr(<NDualArray>(b if k else a))
        m.ins[k].t = NULL
    if put_off(row, nin, m.ins, at, x, r, lo, hi, ndim, shape, r.vs):
        return r
    m.ins[at].lo = lo            # as they were, for those who do it now
    m.ins[at].hi = hi
    m.ins[at].ts = m.ts[at]
    return None


cdef bint put_off(Row row, int nin, nd_in* ins, int at, NDualArray x, NDualArray r, Py_ssize_t lo, Py_ssize_t hi,
                  int ndim, const Py_ssize_t* shape, const Py_ssize_t* strides) except -1:
    """The values of r, and the factors of its lanes in the room of one; False where the factors would lose digits."""
    cdef nd_out out
    cdef Buffer buffer = r.buf
    cdef object owner
    cdef int dtype = kernel_dtype(x.typenum)
    if isa.rows[row.index].coef[at] == ND_COEF_NONE:
        return False
    owner = lend(x.buf)
    if owner is None:
        return False
    out.v = buffer.v
    out.t = buffer.t
    out.vs = out.ts = strides
    out.lane = 0
    ins[at].lane = ins[at].lo = 0
    ins[at].hi = 1
    if x.buf.scaled:
        ins[at].t = x.buf.factor
        ins[at].ts = ins[at].vs
    else:
        ins[at].t = <const char*>&ONE64 if dtype == ND_F64 else <const char*>&ONE32
        ins[at].ts = NOWHERE
    run_kernel(row, x.typenum, nin, ins, &out, ndim, shape, 1)
    if x.buf.scaled and not exact_enough(x.buf.factor, buffer.t, x.size_, dtype):
        return False
    buffer.factor = buffer.t
    buffer.t = x.buf.t if x.buf.scaled else lane_ptr(x, lo)
    buffer.step = x.buf.step if x.buf.scaled else x.lane
    buffer.item = x.itemsize_
    buffer.towner = owner
    buffer.lo = lo
    buffer.hi = hi
    buffer.scaled = True
    return True


cdef bint exact_enough(const char* before, const char* after, Py_ssize_t cells, int dtype) noexcept:
    """Whether products of factors stayed far from what is too large or too small, where another order of the
    multiplications gives another derivative."""
    if dtype == ND_F64:
        return not nd_far_f64(before, after, cells)
    return not nd_far_f32(before, after, cells)


cdef bint weighted_sums(NDualArray x, double* sums) except -1:
    """The sums of lanes that wait, as one product with their factors; False where zeros meet infinities."""
    cdef nd_loop loop = _gemm[ND_F64]
    cdef Py_ssize_t rows = x.buf.hi - x.buf.lo, k
    cdef Py_ssize_t left[2]
    cdef Py_ssize_t right[2]
    cdef double sum = 0
    if loop.fn == NULL:
        return False
    left[0], left[1] = x.buf.step, 8
    right[0] = right[1] = 8
    gemm(loop, 1, rows, x.size_, 1, x.buf.t, 0, left, x.buf.factor, 0, right, <char*>sums, 8, 8)
    for k in range(rows):
        sum += sums[k]
    return sum - sum == 0


cdef bint weighted_product(nd_loop loop, factor* a, NDualArray x, int typenum, NDualArray r) except -1:
    """r = a @ x for lanes that wait, of one column x: a part of the cells at a time, which nobody keeps; False if it is
    not finite.

    Unless rounding is to be NumPy's, the values are one more row of each part: a large matrix is read once for both.
    """
    cdef Py_ssize_t lanes = x.buf.hi - x.buf.lo, rows = lanes + (not as_numpy()), item = x.itemsize_
    cdef Py_ssize_t at, stop, step, nbytes = rows * a.rows * item, room
    cdef Py_ssize_t left[2]
    cdef Py_ssize_t right[2]
    cdef int size_class
    cdef bint finite
    cdef char* part
    cdef char* sums
    cdef char* found
    step = min(x.size_, max(<Py_ssize_t>1, WORKED_BYTES // (lanes * item * ND_BLOCK)) * ND_BLOCK)
    room = rows * step * item
    part = <char*>pooled(room + nbytes * ((rows > lanes) + (step < x.size_)), &size_class)
    sums = part + room + (nbytes if step < x.size_ else 0) if rows > lanes else r.buf.t
    left[0], left[1] = step * item, item
    right[0], right[1] = a.vs[1], a.vs[0]
    for at in range(0, x.size_, step):
        stop = min(x.size_, at + step)
        work_out_part(x.buf, at, stop, part, left[0])
        if rows > lanes:
            memcpy(part + lanes * left[0], vptr(x) + at * item, (stop - at) * item)
        found = part + room if at else sums
        gemm(loop, 1, rows, stop - at, a.rows, part, 0, left, a.v + at * a.vs[1], 0, right, found, a.rows * item, item)
        if at:
            add_finite(typenum, sums, found, rows * a.rows)
    finite = add_finite(typenum, sums, NULL, rows * a.rows)
    if rows > lanes:
        memcpy(r.buf.t, sums, lanes * a.rows * item)
        memcpy(r.buf.v, sums + lanes * a.rows * item, a.rows * item)
    nd_pool_free(part, size_class)
    return finite


cdef NDualArray copy_beside(NDualArray x, Py_ssize_t lo, Py_ssize_t hi):
    """A copy of a contiguous array whose lanes are those of x until either is written to; seeds stay known as such."""
    cdef NDualArray y
    cdef object owner
    dense(x)
    owner = lend(x.buf)
    if owner is None:
        return None
    y = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, 0, 0)
    memcpy(y.buf.v, vptr(x), y.buf.vbytes)
    y.buf.t = lane_ptr(x, lo)
    y.lane = x.lane
    y.buf.towner = owner
    y.buf.lo = lo
    y.buf.hi = hi
    y.buf.lent = True
    if x.buf.seeded:
        y.buf.seeded = True
        y.buf.seed = x.buf.seed + x.voff // x.itemsize_
    return y
