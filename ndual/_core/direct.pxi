# The way between the short one (kernel.pxi) and the long one (launch.pxi): operands of one real type, of any shapes and
# strides, written to a fresh array or in place. Nothing here needs NumPy's promotion, which takes a microsecond.

cdef struct layout_fields:
    int ndim
    const Py_ssize_t* shape
    const Py_ssize_t* vs
    const Py_ssize_t* ts

cdef Py_ssize_t EMPTY_SHAPE[1]


cdef inline bint locate(layout_fields* p, nd_in* operand, object obj, int* typenum, double* number) except -1:
    """Where an operand lies, its lanes but for the pointer, and its type; False if the long way must decide.

    A Python number has no type of its own: `number` takes it, and p.ndim is -1.
    """
    cdef NDualArray x
    cdef cnp.ndarray a
    cdef int kind
    operand.lo = operand.hi = 0
    operand.lane = 0
    operand.t = NULL
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        if x.device_v is not None or x.buf.level.id != nd_tls.id or x.buf.uniform:
            return False
        kind = x.typenum
        p.ndim = x.ndim_
        p.shape = x.shape_
        p.vs = x.vs
        p.ts = x.ts
        window(x, &operand.lo, &operand.hi)
    elif type(obj) is np_ndarray:
        a = <cnp.ndarray>obj
        if not cnp.PyArray_ISBEHAVED_RO(a) or running().moved is not None:
            return False
        kind = cnp.PyArray_TYPE(a)
        p.ndim = cnp.PyArray_NDIM(a)
        p.shape = <const Py_ssize_t*>cnp.PyArray_DIMS(a)
        p.vs = p.ts = <const Py_ssize_t*>cnp.PyArray_STRIDES(a)
        operand.v = cnp.PyArray_BYTES(a)
    elif PyFloat_CheckExact(obj):
        number[0] = PyFloat_AS_DOUBLE(obj)
        p.ndim = -1
        return True
    elif PyLong_CheckExact(obj):
        number[0] = PyLong_AsDouble(obj)
        p.ndim = -1
        return True
    elif nd_tls.scalar != NULL and Py_TYPE(obj) == nd_tls.scalar and (<NDual1>obj).level == nd_tls.id:
        kind = cnp.NPY_DOUBLE
        p.ndim = 0
        p.shape = p.vs = p.ts = EMPTY_SHAPE
        operand.v = <const char*>&(<NDual1>obj).v
        operand.hi = running().width if nd_tls.tape == NULL else 0
        while operand.hi > 0 and (<NDual1>obj).p[operand.hi - 1] == 0:
            operand.hi -= 1
        while operand.lo < operand.hi and (<NDual1>obj).p[operand.lo] == 0:
            operand.lo += 1
        operand.t = <const char*>((<NDual1>obj).p + operand.lo)
        operand.lane = 8
    else:
        return False
    if (kind != cnp.NPY_DOUBLE and kind != cnp.NPY_FLOAT) or (typenum[0] != kind and typenum[0] >= 0):
        return False
    typenum[0] = kind
    return True


cdef bint fit_shapes(int nin, const layout_fields* p, int* ndim, Py_ssize_t* shape) noexcept:
    """The broadcast shape; False where there is none."""
    cdef int k, i, axis
    ndim[0] = 0
    for k in range(nin):
        ndim[0] = max(ndim[0], p[k].ndim)
    for i in range(ndim[0]):
        shape[i] = 1
    for k in range(nin):
        for i in range(p[k].ndim):
            axis = ndim[0] - p[k].ndim + i
            if p[k].shape[i] == shape[axis]:
                continue
            if shape[axis] == 1:
                shape[axis] = p[k].shape[i]
            elif p[k].shape[i] != 1:
                return False
    return True


cdef inline bint covers(NDualArray x, const char* low, Py_ssize_t nbytes) noexcept:
    return low < x.buf.v + x.buf.vbytes and x.buf.v < low + nbytes


cdef bint may_write(NDualArray out, int nin, object a, object b) except -1:
    """Whether writing into `out` block by block disturbs no operand: each is exactly `out`, or other memory."""
    cdef char* low
    cdef Py_ssize_t nbytes
    cdef int k
    if out.flags_ & (NREADONLY | NSCALAR) or out.device_v is not None or out.buf.uniform:
        return False
    for k in range(nin):
        obj = b if k else a
        if type(obj) is NDualArray:
            if (<NDualArray>obj).buf is out.buf and not same_view(<NDualArray>obj, out):
                return False
        elif type(obj) is np_ndarray and not out.buf.borrowed:
            extent(<cnp.ndarray>obj, &low, &nbytes)
            if covers(out, low, nbytes):
                return False
    return True


cdef NDualArray direct(Row row, int nin, object a, object b, NDualArray out):
    """The row of one or two operands, into `out` if given; None where the long way must decide."""
    cdef Operands m
    cdef layout_fields p[2]
    cdef Py_ssize_t shape[64]
    cdef int order[64]
    cdef Py_ssize_t lo = 0, hi = 0, size = 1
    cdef int typenum = -1, ndim, k, i
    cdef bint single = False
    cdef nd_out o
    cdef NDualArray r
    cdef object entry = None
    if row.index < 0 or row.nin != nin or nd_tls.level == NULL or nd_tls.debug:
        return None
    align_living(a, b)
    if running().outer is not None:
        return None
    for k in range(nin):
        if not locate(&p[k], &m.ins[k], b if k else a, &typenum, &m.constants[k]):
            return None
    if typenum < 0 or not row.usable[kernel_dtype(typenum)] or not fit_shapes(nin, p, &ndim, shape) or ndim > 63:
        return None
    for i in range(ndim):
        size *= shape[i]
    for k in range(nin):
        unite(&lo, &hi, m.ins[k].lo, m.ins[k].hi)
        m.ins[k].vs = m.vs[k]
        m.ins[k].ts = m.ts[k]
        if p[k].ndim < 0:
            if not row.weak[kernel_dtype(typenum)]:
                return None
            m.ins[k].v = <const char*>&m.constants[k]
            if typenum == cnp.NPY_FLOAT:
                m.constants32[k] = <float>m.constants[k]
                m.ins[k].v = <const char*>&m.constants32[k]
            for i in range(ndim):
                m.vs[k][i] = 0
            continue
        single = m.ins[k].lo < m.ins[k].hi
        for i in range(p[k].ndim):
            single = single and p[k].shape[i] == 1
        if single and size >= UNIFORM_SIZE:     # the long way keeps one number a lane
            return None
        stretch(ndim, p[k].ndim, p[k].shape, p[k].vs, m.vs[k])
        stretch(ndim, p[k].ndim, p[k].shape, p[k].ts, m.ts[k])
    if out is not None:
        if out.typenum != typenum or out.ndim_ != ndim or not equal_dims(out.shape_, shape, ndim) \
                or out.buf.level.id != nd_tls.id or not may_write(out, nin, a, b):
            return None
        if nd_tls.tape != NULL:
            entry = recorder().operands(row, (a,) if nin == 1 else (a, b))
            recorder().writing(out)
        make_writable(out.buf, out.lane, lo, hi)
        r = out
        lo = out.buf.lo
        hi = out.buf.hi
    else:
        axis_order(ndim, nin, &m, shape, order)
        if hi - lo > 1:
            r = waiting_of_two(row, nin, a, b, &m, typenum, ndim, shape, order)
            if r is not None:
                return r
        r = new_ordered(running(), typenum, ndim, shape, order, lo, hi)
        if nd_tls.tape != NULL:
            entry = recorder().operands(row, (a,) if nin == 1 else (a, b))
    for k in range(nin):
        obj = b if k else a
        if type(obj) is NDualArray:
            dense(<NDualArray>obj)
            m.ins[k].v = vptr(<NDualArray>obj)
            aim(&m.ins[k], <NDualArray>obj, lo)
        else:
            m.ins[k].lo -= lo
            m.ins[k].hi -= lo
            if m.ins[k].lo >= m.ins[k].hi:
                m.ins[k].t = NULL
                m.ins[k].lo = m.ins[k].hi = 0
    o.v = vptr(r)
    o.t = tptr(r)
    o.vs = r.vs
    o.ts = r.ts
    o.lane = r.lane
    run_kernel(row, typenum, nin, m.ins, &o, ndim, shape, hi - lo)
    if nd_tls.tape != NULL:
        recorder().mapped(entry, r)
    return r
