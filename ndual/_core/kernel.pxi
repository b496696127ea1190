# The short way to a kernel: contiguous operands of one shape and dtype. All others take the long one in launch.pxi.

cdef inline bint same_dims(NDualArray x, NDualArray y) noexcept:
    cdef int i
    if x.ndim_ != y.ndim_:
        return False
    for i in range(x.ndim_):
        if x.shape_[i] != y.shape_[i]:
            return False
    return True


cdef inline bint quick(Row row, NDualArray x) noexcept:
    """One contiguous host array of a type that the kernels know."""
    return (x.flags_ & NCONTIGUOUS and x.ndim_ > 0 and x.device_v is None and not x.buf.uniform
            and (x.typenum == cnp.NPY_DOUBLE or x.typenum == cnp.NPY_FLOAT) and not nd_tls.debug
            and row.usable[kernel_dtype(x.typenum)])


cdef inline int run_kernel(Row row, int typenum, int nin, nd_in* ins, nd_out* out, int ndim, const Py_ssize_t* shape,
                           Py_ssize_t lanes) except -1:
    cdef int dtype = kernel_dtype(typenum)
    cdef int failed = nd_map(isa, row.index, dtype, row.loops[dtype], nin, ins, out, ndim, shape, lanes, nd_tls.exact)
    if failed != 0:
        if failed > 0:
            raise NoRuleError(
                f"{row.name} has no derivative with respect to operand {failed - 1}{where()}. Make it a constant with "
                "ndual.stop_gradient(x)"
            )
        raise SystemError(f"the kernel of {row.name} refused its arguments")
    return raised()


cdef inline void unite(Py_ssize_t* lo, Py_ssize_t* hi, Py_ssize_t other_lo, Py_ssize_t other_hi) noexcept:
    """Widen a window so that it holds another one."""
    if other_lo >= other_hi:
        return
    if lo[0] >= hi[0]:
        lo[0] = other_lo
        hi[0] = other_hi
    else:
        lo[0] = min(lo[0], other_lo)
        hi[0] = max(hi[0], other_hi)


cdef Py_ssize_t NOWHERE[64]          # the strides of what is the same number everywhere
memset(NOWHERE, 0, sizeof(NOWHERE))


cdef inline void aim(nd_in* operand, NDualArray x, Py_ssize_t first) noexcept:
    """Point an operand at the lanes of its window, counted from the output's first lane."""
    operand.t = NULL
    if operand.lo < operand.hi:
        if x.buf.uniform:
            operand.lane = x.itemsize_
            operand.t = x.buf.t + (operand.lo - x.buf.lo) * x.itemsize_
            operand.ts = NOWHERE
        else:
            operand.lane = x.lane
            operand.t = lane_ptr(x, operand.lo)
        operand.lo -= first
        operand.hi -= first


cdef object quick_map(Row row, NDualArray x, NDualArray y, const void* constant, bint constant_first,
                      object a, object b):
    """Contiguous operands of one shape: dual, dual∘dual, dual∘constant, constant∘dual."""
    cdef nd_in ins[2]
    cdef nd_out out
    cdef Py_ssize_t stride = x.itemsize_, zero = 0, size = x.size_
    cdef Py_ssize_t lo, hi
    cdef NDualArray r
    cdef int at = 0, nin = 1
    check_array(x)
    if nd_tls.tape != NULL and row.slope and x.buf.traced and x.size_:
        return map_slope(row, x)
    window(x, &ins[0].lo, &ins[0].hi)
    lo = ins[0].lo
    hi = ins[0].hi
    if y is not None:
        check_array(y)
        window(y, &ins[1].lo, &ins[1].hi)
        unite(&lo, &hi, ins[1].lo, ins[1].hi)
    elif constant_first:
        ins[1].lo = lo
        ins[1].hi = hi
    if row.flat:
        lo = hi = 0
        nd_tls.compared = 1
    if y is None and may_wait(x, lo, hi):
        r = waiting(row, x, constant, constant_first, lo, hi)
        if r is not None:
            return r
    dense(x)
    if y is not None:
        dense(y)
    if constant != NULL:
        at = 1 if constant_first else 0
        ins[1 - at].v = <const char*>constant
        ins[1 - at].vs = ins[1 - at].ts = &zero
        ins[1 - at].t = NULL
        ins[1 - at].lane = 0
        nin = 2
    ins[at].v = vptr(x)
    ins[at].vs = ins[at].ts = &stride
    if not row.flat:
        aim(&ins[at], x, lo)
    if y is not None:
        ins[1].v = vptr(y)
        ins[1].vs = ins[1].ts = &stride
        if not row.flat:
            aim(&ins[1], y, lo)
        nin = 2
    if x.size_ >= AHEAD_CELLS and sums_next(row, x, y, constant_first, hi - lo):
        return map_and_sum(row, nin, ins, x, a, b, lo, hi - lo)
    r = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, lo, hi)
    out.v = r.buf.v
    out.t = r.buf.t
    out.vs = out.ts = &stride
    out.lane = r.lane
    run_kernel(row, x.typenum, nin, ins, &out, 1, &size, hi - lo)
    if nd_tls.tape != NULL and not row.flat:
        recorder().mapped(recorder().operands(row, (a,) if row.nin == 1 else (a, b)), r)
    return r


cdef object unary(Row row, object a):
    cdef NDualArray r
    if type(a) is NDualArray and quick(row, <NDualArray>a):
        return quick_map(row, <NDualArray>a, None, NULL, False, a, None)
    if recorded_below(a):
        r = recorded_map(row, 1, a, None)
        if r is not None:
            return finish(r)
    r = direct(row, 1, a, None, None)
    return general(row, (a,), None, None, None) if r is None else finish(r)


cdef object binary(Row row, object a, object b):
    cdef double c
    cdef float f
    cdef NDualArray r
    if type(a) is NDualArray and quick(row, <NDualArray>a):
        if type(b) is NDualArray:
            if (quick(row, <NDualArray>b) and (<NDualArray>a).typenum == (<NDualArray>b).typenum
                    and same_dims(<NDualArray>a, <NDualArray>b)):
                return quick_map(row, <NDualArray>a, <NDualArray>b, NULL, False, a, b)
        elif PyFloat_CheckExact(b) and row.weak[kernel_dtype((<NDualArray>a).typenum)]:
            c = PyFloat_AS_DOUBLE(b)
            if (<NDualArray>a).typenum == cnp.NPY_DOUBLE:
                return quick_map(row, <NDualArray>a, None, &c, False, a, b)
            f = <float>c
            return quick_map(row, <NDualArray>a, None, &f, False, a, b)
    elif type(b) is NDualArray and PyFloat_CheckExact(a) and quick(row, <NDualArray>b) \
            and row.weak[kernel_dtype((<NDualArray>b).typenum)]:
        c = PyFloat_AS_DOUBLE(a)
        if (<NDualArray>b).typenum == cnp.NPY_DOUBLE:
            return quick_map(row, <NDualArray>b, None, &c, True, a, b)
        f = <float>c
        return quick_map(row, <NDualArray>b, None, &f, True, a, b)
    if recorded_below(a) or recorded_below(b):
        r = recorded_map(row, 2, a, b)
        if r is not None:
            return finish(r)
    r = direct(row, 2, a, b, None)
    if r is not None:
        return finish(r)
    if not (understood(a) and understood(b)):
        return NotImplemented
    return general(row, (a, b), None, None, None)
