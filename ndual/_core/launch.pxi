# The long way to a kernel: any operands, broadcasting, out= and where=. What has no kernel (complex numbers, other
# storages, rows that C cannot spell) is evaluated from the row's NumPy form instead.

cdef object general(Row row, tuple args, object out, object mask, object dtype):
    """Any operands."""
    return watched(row, args, out, mask, dtype) if nd_tls.debug else run_row(row, args, out, mask, dtype)


cdef object run_row(Row row, tuple args, object out, object mask, object dtype):
    """The row itself. The kernels do float32 and float64 (float16 through float32); the NumPy form does the rest."""
    cdef list operands = [prepare_operand(a) for a in args]
    cdef NDualArray x
    cdef Level level = None
    cdef object storage = None, beside = None
    for o in operands:
        if type(o) is NDualArray:
            if level is None or (<NDualArray>o).buf.level.id > level.id:
                level = (<NDualArray>o).buf.level
            if (<NDualArray>o).device_v is not None:
                storage = (<NDualArray>o).storage_
                beside = o
        elif _storages and storage is None:
            storage = storage_of(o)
            beside = o
    if level is None:
        if out is None:
            raise TypeError(f"expected a dual among the operands of {row.name}; got none")
        level = (<NDualArray>out).buf.level
        if (<NDualArray>out).device_v is not None:
            storage = (<NDualArray>out).storage_
            beside = out
    if out is not None and (<NDualArray>out).flags_ & NREADONLY:
        raise ValueError("output array is read-only")
    if row is ROW_WHERE:
        operands[0] = truth(operands[0])
    if storage is not None and level.outer is None:
        for i, o in enumerate(operands):
            if type(o) is NDualArray and (<NDualArray>o).device_v is None:
                operands[i] = joined_device(<NDualArray>o, storage, row.name, i, beside)
            elif isinstance(o, np.ndarray):
                if o.ndim:
                    raise mixed_storage(row.name, i, o, beside)
                operands[i] = o[()]
        plainly = out is None and mask is None and dtype is None
        return finish_out(row, launch_form(row, operands, level, storage, dtype, plainly), out, mask)
    types = result_types(row, operands, dtype)
    target = types[len(types) - 1]
    if target.kind not in "fc":
        raise NoRuleError(
            f"{row.name} of these operands gives {target}, which carries no derivative{where()}. "
            "Use ndual.stop_gradient(x) if that is intended"
        )
    check_dtype(target)
    if level.outer is not None:
        return finish_out(row, launch_nested(row, operands, level, dtype), out, mask)
    if row.index >= 0 and target.kind == "f":
        half = target.itemsize == 2 and row.name not in NATIVE_HALF
        work = FLOAT32 if half else target
        if (half or target.itemsize > 2) and row.usable[kernel_dtype(work.num)] and all([t.kind != "c" for t in types]):
            x = map_host(row, operands, level, work, out if (mask is None and not half) else None)
            if half:
                x = cast(x, target)
            return finish_out(row, x, out, mask)
    return finish_out(row, launch_form(row, operands, level, host_storage(), dtype), out, mask)


cdef object finish_out(Row row, object result, object out, object mask):
    if out is None:
        if mask is not None and mask is not True:
            raise NdualError(f"where= needs out= for a dual, since the cells left out hold nothing{where()}. Pass out=")
        # np.where is no ufunc: of numbers it makes a 0-d array.
        return finish(<NDualArray>result) if type(result) is NDualArray and row is not ROW_WHERE else result
    if result is not out:
        if mask is None or mask is True:
            setitem(out, Ellipsis, result)
        else:
            mask = np.broadcast_to(mask, out.shape)
            setitem(out, mask, dispatch(np.broadcast_to, (result, out.shape), {})[mask])
    return out


cdef object launch_form(Row row, list operands, Level level, object storage, object dtype, bint plainly=False):
    """The row's NumPy form over a storage's array namespace; one called `plainly` may be left to the sum behind it."""
    cdef list values_ = [], lanes_ = []
    for o in operands:
        if type(o) is NDualArray:
            values_.append(plain_value(o, False))
            if level.recorder is not None:
                lanes_.append(None)
            elif (<NDualArray>o).device_v is not None:
                lanes_.append(None if inert(<NDualArray>o) else device_lanes(<NDualArray>o))
            else:                          # without lanes it is a constant, by which a row may have no partial
                lanes_.append(None if inert(<NDualArray>o) else lanes_of(o))
        else:
            values_.append(o)
            lanes_.append(None)
    if plainly:
        ahead = device_ahead(row, operands, values_, lanes_, level, storage)
        if ahead is not None:
            return ahead
    if level.recorder is not None:
        x = untraced(storage.value(row.spec, row.ufunc, values_, dtype), level)
        level.recorder.formed(row, storage, operands, dtype, x)
        return x
    value, tangent = storage.launch(row.spec, row.ufunc, values_, lanes_, level.width, dtype)
    return adopt_array(value, tangent, level)


cdef enum:
    UNIFORM_SIZE = 64        # cells from which on one number a lane pays: below, the bookkeeping costs as much

cdef struct Operands:
    nd_in ins[3]
    Py_ssize_t vs[3][64]
    Py_ssize_t ts[3][64]
    double constants[3]
    float constants32[3]


cdef NDualArray map_host(Row row, list operands, Level level, object dtype, object out):
    """Broadcast the operands over host memory and run the kernel, straight into `out` where that is safe."""
    cdef Operands m
    cdef Py_ssize_t shape[64]
    cdef int order[64]
    cdef int nin = len(operands), ndim = 0, i, k, typenum = dtype.num
    cdef Py_ssize_t lo = 0, hi = 0
    cdef nd_out o
    cdef NDualArray x, r
    cdef cnp.ndarray a
    cdef list keep = []
    cdef object entry = None
    for k in range(nin):
        obj = operands[k]
        if type(obj) is NDualArray:
            x = cast(<NDualArray>obj, dtype)
            keep.append(x)
            merge_shape(&ndim, shape, x.ndim_, x.shape_, operands)
        elif isinstance(obj, np.ndarray):
            a = np.asarray(obj, dtype=dtype)
            if not cnp.PyArray_ISBEHAVED_RO(a):
                a = a.copy()
            keep.append(a)
            merge_shape(&ndim, shape, a.ndim, <Py_ssize_t*>cnp.PyArray_DIMS(a), operands)
        else:
            keep.append(obj)
    for k in range(nin):
        obj = keep[k]
        m.ins[k].vs = m.vs[k]
        m.ins[k].ts = m.ts[k]
        m.ins[k].t = NULL
        m.ins[k].lane = 0
        if type(obj) is NDualArray:
            x = <NDualArray>obj
            if x.buf.scaled:
                dense(x)
            window(x, &m.ins[k].lo, &m.ins[k].hi)
            if row.flat:
                m.ins[k].lo = m.ins[k].hi = 0
                nd_tls.compared = 1
            unite(&lo, &hi, m.ins[k].lo, m.ins[k].hi)
            stretch(ndim, x.ndim_, x.shape_, x.vs, m.vs[k])
            stretch(ndim, x.ndim_, x.shape_, x.ts, m.ts[k])
        elif isinstance(obj, np.ndarray):
            a = obj
            m.ins[k].v = cnp.PyArray_BYTES(a)
            stretch(ndim, a.ndim, <Py_ssize_t*>cnp.PyArray_DIMS(a), <Py_ssize_t*>cnp.PyArray_STRIDES(a), m.vs[k])
        else:
            if typenum == cnp.NPY_DOUBLE:
                m.constants[k] = <double>obj
                m.ins[k].v = <const char*>&m.constants[k]
            else:
                m.constants32[k] = <float><double>obj
                m.ins[k].v = <const char*>&m.constants32[k]
            for i in range(ndim):
                m.vs[k][i] = 0
    r = None
    if out is not None and type(out) is NDualArray:
        x = <NDualArray>out
        if x.typenum == typenum and x.ndim_ == ndim and x.device_v is None and equal_dims(x.shape_, shape, ndim):
            if safe_target(x, keep):
                if level.recorder is not None:
                    entry = level.recorder.operands(row, tuple(keep))
                    level.recorder.writing(x)
                make_writable(x.buf, x.lane, lo, hi)
                r = x
                lo = x.buf.lo
                hi = x.buf.hi
    if r is None:
        axis_order(ndim, nin, &m, shape, order)
        if lo < hi and stays_uniform(row, keep, ndim, shape):
            return map_uniform(row, keep, level, typenum, &m, ndim, shape, order, lo, hi)
        r = new_ordered(level, typenum, ndim, shape, order, lo, hi)
        if level.recorder is not None:
            entry = level.recorder.operands(row, tuple(keep))
    for k in range(nin):       # after make_writable, which may have moved a borrowed operand
        if type(keep[k]) is NDualArray:
            m.ins[k].v = vptr(<NDualArray>keep[k])
            aim(&m.ins[k], <NDualArray>keep[k], lo)
    o.v = vptr(r)
    o.t = tptr(r)
    o.vs = r.vs
    o.ts = r.ts
    o.lane = r.lane
    run_kernel(row, typenum, nin, m.ins, &o, ndim, shape, hi - lo)
    if level.recorder is not None:
        level.recorder.mapped(entry, r)
    return r


cdef bint stays_uniform(Row row, list operands, int ndim, const Py_ssize_t* shape):
    """Whether every tangent is one number a lane, and comes through as it is or with its sign changed."""
    cdef NDualArray x
    cdef int k, coef
    cdef Py_ssize_t size = 1
    for k in range(ndim):
        size *= shape[k]
    if size < UNIFORM_SIZE:
        return False
    for k in range(len(operands)):
        if type(operands[k]) is NDualArray:
            x = <NDualArray>operands[k]
            coef = isa.rows[row.index].coef[k]
            if (coef != ND_COEF_ONE and coef != ND_COEF_NEG) or not (x.buf.uniform or x.size_ == 1):
                return False
    return True


cdef NDualArray map_uniform(Row row, list operands, Level level, int typenum, Operands* m, int ndim,
                            const Py_ssize_t* shape, const int* order, Py_ssize_t lo, Py_ssize_t hi):
    """The values by the kernel, and a sum of one number a lane."""
    cdef NDualArray x, r = new_uniform(level, typenum, ndim, shape, order, lo, hi)
    cdef nd_out o
    cdef Py_ssize_t i, k
    cdef char* t
    cdef double sign
    o.v = vptr(r)
    o.vs = r.vs
    o.t = NULL
    o.ts = r.ts
    memset(r.buf.t, 0, (hi - lo) * r.itemsize_)
    for k in range(len(operands)):
        if type(operands[k]) is NDualArray:
            x = <NDualArray>operands[k]
            m.ins[k].v = vptr(x)
            sign = -1 if isa.rows[row.index].coef[k] == ND_COEF_NEG else 1
            for i in range(m.ins[k].lo, m.ins[k].hi):
                t = x.buf.t + (i - x.buf.lo) * x.itemsize_ if x.buf.uniform else lane_ptr(x, i)
                if typenum == cnp.NPY_DOUBLE:
                    (<double*>r.buf.t)[i - lo] += sign * (<double*>t)[0]
                else:
                    (<float*>r.buf.t)[i - lo] += <float>(sign * (<float*>t)[0])
            m.ins[k].t = NULL
    run_kernel(row, typenum, len(operands), m.ins, &o, ndim, shape, 0)
    return r


cdef bint equal_dims(const Py_ssize_t* a, const Py_ssize_t* b, int ndim) noexcept:
    cdef int i
    for i in range(ndim):
        if a[i] != b[i]:
            return False
    return True


cdef int merge_shape(int* ndim, Py_ssize_t* shape, int more, const Py_ssize_t* dims, list operands) except -1:
    cdef int i, shift
    if more > ndim[0]:
        shift = more - ndim[0]
        for i in range(ndim[0] - 1, -1, -1):
            shape[i + shift] = shape[i]
        for i in range(shift):
            shape[i] = 1
        ndim[0] = more
    shift = ndim[0] - more
    for i in range(more):
        if dims[i] == shape[i + shift]:
            continue
        if shape[i + shift] == 1:
            shape[i + shift] = dims[i]
        elif dims[i] != 1:
            shapes = " ".join([str(np.shape(plain_value(o, False) if is_dual_object(o) else o)) for o in operands])
            raise ValueError(f"operands could not be broadcast together with shapes {shapes}")
    return 0


cdef inline void stretch(int ndim, int own, const Py_ssize_t* dims, const Py_ssize_t* strides, Py_ssize_t* to) noexcept:
    cdef int i, shift = ndim - own
    for i in range(shift):
        to[i] = 0
    for i in range(own):
        to[i + shift] = 0 if dims[i] == 1 else strides[i]


cdef inline Py_ssize_t magnitude(Py_ssize_t stride) noexcept:
    return stride if stride > 0 else -stride


cdef void axis_order(int ndim, int nin, Operands* m, const Py_ssize_t* shape, int* order) noexcept:
    """NumPy's K order, slowest axis first: by the strides of the operands; where they disagree C order wins.

    What is a view of the result later on depends on it, so that this follows NumPy's iterator step by step: axes are
    inserted from the fastest to the slowest, and a pair that no operand orders does not end the search for a place.
    """
    cdef int axes[64]  # fastest first
    cdef int i, j, k, axis, place
    cdef Py_ssize_t a, b
    cdef bint decided, faster
    for i in range(ndim):
        axes[i] = ndim - 1 - i
    for i in range(1, ndim):
        axis = axes[i]
        place = i
        for j in range(i - 1, -1, -1):
            decided = faster = False
            for k in range(nin):
                a = m.vs[k][axis]
                b = m.vs[k][axes[j]]
                if a == 0 or b == 0:
                    continue
                if magnitude(a) >= magnitude(b):
                    faster = False
                elif not decided:
                    faster = True
                decided = True
            if decided and not faster:
                break
            if decided:
                place = j
        for j in range(i, place, -1):
            axes[j] = axes[j - 1]
        axes[place] = axis
    for i in range(ndim):
        order[i] = axes[ndim - 1 - i]


cdef bint safe_target(NDualArray out, list operands):
    """Whether out overlaps no operand, or is exactly one."""
    cdef NDualArray x
    for obj in operands:
        if type(obj) is NDualArray:
            x = <NDualArray>obj
            if x.buf is out.buf and not same_view(x, out):
                return False
        elif isinstance(obj, np.ndarray) and np.may_share_memory(obj, values(out)):
            return False
    return True


cdef bint same_view(NDualArray x, NDualArray y) noexcept:
    cdef int i
    if x.voff != y.voff or x.toff != y.toff or x.ndim_ != y.ndim_ or x.typenum != y.typenum:
        return False
    for i in range(x.ndim_):
        if x.shape_[i] != y.shape_[i] or x.vs[i] != y.vs[i] or x.ts[i] != y.ts[i]:
            return False
    return True
