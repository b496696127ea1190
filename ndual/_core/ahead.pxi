# Results that are left to the sum behind them: not written, but as far as a tape reads them. On a device the storage
# computes both in one kernel; on the host a large result is summed a block at a time, while it is in the first cache.

cdef enum:
    AHEAD_CELLS = 1 << 14    # from which on a pass over memory costs more than to look at the code that runs
    AHEAD_BLOCK = 1 << 11    # cells, which with those of one lane fill half of the first cache


@cython.internal
@cython.final
cdef class Ahead:
    """Stands for the values of an array that its code sums next: what gives the sum, and nothing else.

    Whatever else would be done with it fails. See :mod:`ndual.frontend.ahead` for when there are such.
    """

    cdef object total        # a function that gives the sum, or None: it is `found`
    cdef object found

    def __getattr__(self, name):
        raise NdualError(
            f"expected the sum that the code asks for next; got a use of what is summed ({name}). "
            "Give it a name first: y = …; y.sum()"
        )


cdef inline bint on_top(Level level) noexcept:
    """Whether the code that runs is the user's, on duals of the only derivative that is being taken."""
    return nd_tls.top == <PyObject*>level and level.outer is None and not level.boxed and not nd_tls.debug


cdef NDualArray device_ahead(Row row, list operands, list values_, list lanes_, Level level, object storage):
    """The result of a row that is not computed, since its code hands it to a sum and to nothing else; None if not."""
    cdef NDualArray x
    cdef Ahead ahead
    if not on_top(level):
        return None
    if level.recorder is None:
        active = [lanes is not None for lanes in lanes_]
    else:
        active = [type(o) is NDualArray and traced(<NDualArray>o) for o in operands]
    if not any(active):
        return None
    found = storage.ahead(row.spec, values_, lanes_, 0 if level.recorder is not None else level.width, active)
    if found is None:
        return None
    ahead = Ahead.__new__(Ahead)
    shape, dtype, ahead.total = found
    x = standing_for(ahead, shape, dtype, storage, level)
    if level.recorder is not None:
        x.device_t = None
        level.recorder.formed(row, storage, operands, None, x)
    return x


cdef NDualArray standing_for(Ahead ahead, tuple shape, cnp.dtype dtype, object storage, Level level):
    """An array whose cells are nowhere."""
    cdef NDualArray x = array_object()
    cdef Py_ssize_t step
    cdef int i
    x.buf = empty_buffer(level)
    x.device_v = x.device_t = ahead
    x.storage_ = storage
    x.typenum = dtype.num
    x.itemsize_ = dtype.itemsize
    set_dims(x, len(shape))
    step = x.itemsize_
    for i in range(x.ndim_ - 1, -1, -1):
        x.shape_[i] = shape[i]
        x.vs[i] = x.ts[i] = step
        step *= x.shape_[i]
    x.voff = x.toff = 0
    x.buf.vbytes = step
    update_flags(x)
    return x


cdef object sum_ahead(NDualArray x):
    """The sum of such an array, whose values are there after it if the sweep reads them."""
    cdef Ahead ahead = <Ahead>x.device_v
    cdef NDualArray y
    if ahead.total is None:
        return ahead.found
    value, tangent, kept = ahead.total()
    ahead.total = None
    if kept is not None:
        x.device_v = x.buf.vowner = kept
        x.buf.v = <char*><Py_ssize_t>x.storage_.address(kept)
    if x.buf.level.recorder is None:
        return device_adopt(value, tangent, x.storage_, x.buf.level, None, -1)
    y = device_untraced(value, x.storage_, x.buf.level)
    x.buf.level.recorder.summed_below(x, y)
    return y


cdef object kept_value(object value):
    """What is kept of a result: its values, or None."""
    return None if type(value) is Ahead else value


cdef object _summed_next = None


def set_summed_next(function):
    """Fill the slot for what says of a row of the table whether the code that runs sums its result next."""
    global _summed_next
    _summed_next = function


cpdef object sum_found(object found):
    """An array of which nothing is known but its sum, for code that asks for that next."""
    cdef Ahead ahead = Ahead.__new__(Ahead)
    ahead.found = found
    return standing_for(ahead, (), cnp.PyArray_DescrFromType(cnp.NPY_DOUBLE), host_storage(), running())


cdef bint sums_next(Row row, NDualArray x, NDualArray y, int at, Py_ssize_t lanes):
    """Whether the result of a row with x as operand `at` need not be there, since its code hands it to the sum next and
    the tape does not read it."""
    if x.typenum != cnp.NPY_DOUBLE or lanes > 1 or row.flat or nd_tls.exact or nd_tls.scalar == NULL \
            or ROW_ADD.loops[ND_F64].fn == NULL or not on_top(x.buf.level):
        return False
    if nd_tls.tape == NULL:
        if lanes == 0:
            return False
    elif not (x.buf.traced or (y is not None and y.buf.traced)) or (x.buf.traced and row.needs[at] & 8) \
            or (y is not None and y.buf.traced and row.needs[1] & 8):
        return False
    return _summed_next(row.spec)


cdef NDualArray map_and_sum(Row row, int nin, nd_in* ins, NDualArray r, object a, object b):
    """The sum of a row over contiguous operands and numbers, in blocks: r has memory that stays as it is."""
    cdef nd_loop loop = ROW_ADD.loops[ND_F64]
    cdef nd_out out
    cdef Py_ssize_t stride = 8, size = r.size_, lanes = r.buf.hi - r.buf.lo, at, n, k, i, j = 0
    cdef Py_ssize_t blocks = (size + AHEAD_BLOCK - 1) // AHEAD_BLOCK
    cdef int size_class
    cdef char* room = <char*>pooled(8 * (1 + lanes) * (AHEAD_BLOCK + blocks), &size_class)
    cdef double* parts = <double*>room + (1 + lanes) * AHEAD_BLOCK
    cdef double* sums
    cdef object found
    out.v = room
    out.lane = 8 * AHEAD_BLOCK
    out.t = room + out.lane
    out.vs = out.ts = &stride
    try:
        for at in range(0, size, AHEAD_BLOCK):
            n = min(size - at, <Py_ssize_t>AHEAD_BLOCK)
            run_kernel(row, r.typenum, nin, ins, &out, 1, &n, lanes)
            for k in range(lanes + 1):
                parts[k * blocks + j] = total(loop, room + k * out.lane, n)
            j += 1
            for i in range(nin):
                ins[i].v += ins[i].vs[0] * n
                if ins[i].t != NULL:
                    ins[i].t += ins[i].ts[0] * n
        for k in range(lanes + 1):
            parts[k] = total(loop, <char*>(parts + k * blocks), blocks)
        if nd_tls.tape != NULL:
            recorder().mapped(recorder().operands(row, (a,) if row.nin == 1 else (a, b)), r)
            found = number_at(parts[0], recorder().summed(r))
        else:
            found = new_sum(r.buf.level, parts[0], r.buf.lo, r.buf.hi, &sums)
            if lanes:
                sums[0] = parts[1]
    finally:
        nd_pool_free(room, size_class)
    return sum_found(found)
