# Arrays of nested lists of duals, numbers and arrays.

@cython.internal
cdef class Built:
    """What is known of a nested list before the array is made: NumPy's discovery of shape and type."""

    cdef Py_ssize_t shape[64]
    cdef int ndim
    cdef Py_ssize_t lo, hi
    cdef bint floats           # a Python float or a float64 dual among the leaves
    cdef set kinds             # the dtypes of all others


cdef int ragged() except -1:
    raise ValueError(
        "setting an array element with a sequence. The requested array has an inhomogeneous shape: "
        "expected rows of one length"
    )


cdef int measure(Built b, object obj, int depth, bint first) except -1:
    """Note the shape, the type and the lanes of a part, which lies `depth` axes down; `first` sets the shape."""
    cdef NDualArray x
    cdef Py_ssize_t lo, hi, n
    cdef int i, ndim
    if is_scalar(obj):
        check_scalar(obj)
        if nd_tls.tape == NULL:
            b.lo = 0
            b.hi = running().width
    if is_scalar(obj) or PyFloat_CheckExact(obj):
        b.floats = True
        if first:
            b.ndim = depth
        elif b.ndim != depth:
            ragged()
        return 0
    if type(obj) is list or type(obj) is tuple:
        n = len(obj)
        if depth >= 64:
            ragged()
        if first:
            b.shape[depth] = n
            b.ndim = depth + 1
        elif depth >= b.ndim or b.shape[depth] != n:
            ragged()
        for item in obj:
            measure(b, item, depth + 1, first)
            first = False
        return 0
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        check_array(x)
        window(x, &lo, &hi)
        unite(&b.lo, &b.hi, lo, hi)
        ndim = x.ndim_
        b.kinds.add(cnp.PyArray_DescrFromType(x.typenum))
    else:
        if PyLong_CheckExact(obj):
            b.kinds.add(INT64)
            ndim = 0
        else:
            if not cnp.PyArray_CheckExact(obj):
                obj = np.asarray(obj)
            ndim = (<cnp.ndarray>obj).ndim
            b.kinds.add((<cnp.ndarray>obj).dtype)
    if first:
        b.ndim = depth + ndim
        if b.ndim > 64:
            ragged()
    elif b.ndim != depth + ndim:
        ragged()
    for i in range(ndim):
        n = x.shape_[i] if type(obj) is NDualArray else cnp.PyArray_DIM(<cnp.ndarray>obj, i)
        if first:
            b.shape[depth + i] = n
        elif b.shape[depth + i] != n:
            ragged()
    return 0


cdef object INT64 = np.dtype(np.int64)


cdef int fill_cells(NDualArray to, object obj, int depth, Py_ssize_t voff) except -1:
    """Write a part of the list into its place in a fresh float64 array, whose lanes lie as its values do."""
    cdef Py_ssize_t k, i, n
    cdef char* t
    cdef NDualArray view
    if depth < to.ndim_ and (type(obj) is list or type(obj) is tuple):
        i = 0
        for item in obj:
            fill_cells(to, item, depth + 1, voff + i * to.vs[depth])
            i += 1
        return 0
    if depth == to.ndim_:
        if is_scalar(obj) and nd_tls.tape != NULL:
            return store(to, voff - to.voff, (<CoDual>obj).v, (<CoDual>obj).node)
        if is_scalar(obj):
            (<double*>(to.buf.v + voff))[0] = (<NDual1>obj).v
            t = to.buf.t + voff
            for k in range(to.buf.lo, to.buf.hi):
                (<double*>t)[0] = (<NDual1>obj).p[k]
                t += to.lane
            return 0
        if PyFloat_CheckExact(obj) or PyLong_CheckExact(obj):
            if nd_tls.tape != NULL:
                return store(to, voff - to.voff, <double>obj, ND_NODE_NONE)
            (<double*>(to.buf.v + voff))[0] = <double>obj
            t = to.buf.t + voff
            for k in range(to.buf.lo, to.buf.hi):
                (<double*>t)[0] = 0
                t += to.lane
            return 0
    view = new_view(to, to.ndim_ - depth)
    view.voff = view.toff = voff
    for k in range(view.ndim_):
        view.shape_[k] = to.shape_[depth + k]
        view.vs[k] = to.vs[depth + k]
        view.ts[k] = to.ts[depth + k]
    update_flags(view)
    setitem(view, Ellipsis, obj)
    return 0


def build(sequence, dtype=None, order="C"):
    """The array of a nested list of numbers, arrays and duals."""
    cdef Built b = Built.__new__(Built)
    cdef NDualArray x
    cdef int axes[64]
    cdef int i
    cdef Level level = meet(sequence)
    storage = memory_in(sequence) if _storages else None
    if level.outer is not None or storage is not None:
        return build_nested(sequence, dtype, order, storage)
    turn(level)
    b.kinds = set()
    b.ndim = -1
    measure(b, sequence, 0, True)
    if b.floats:
        b.kinds.add(FLOAT64)
    kind = np.result_type(*b.kinds) if len(b.kinds) > 1 else b.kinds.pop()
    check_dtype(kind)
    for i in range(b.ndim):
        axes[i] = b.ndim - 1 - i if order == "F" else i
    x = new_ordered(running(), kind.num, b.ndim, b.shape, axes, b.lo, b.hi)
    if kind == FLOAT64:
        fill_cells(x, sequence, 0, 0)
    else:
        memset(x.buf.t, 0, (b.hi - b.lo) * x.lane)
        fill_parts(x, sequence)
    return x if dtype is None else astype(x, dtype, "unsafe", False)


cdef object memory_in(object sequence):
    """The storage of a device on which some of the arrays of a nested list lie; None if there are none."""
    for item in sequence:
        if isinstance(item, (list, tuple)):
            storage = memory_in(item)
        else:
            storage = memory_of(<NDualArray>item) if type(item) is NDualArray else storage_of(item)
        if storage is not None:
            return storage
    return None


cdef object build_nested(object sequence, object dtype, object order, object storage):
    """The array of a list that holds duals of inner levels, or of a device, row by row."""
    parts = [build_nested(item, None, "C", storage) if isinstance(item, (list, tuple)) else item for item in sequence]
    if storage is not None:
        refuse_mixed("array", parts)
        parts = [item if hasattr(item, "dtype") else storage.take(item) for item in parts]
        parts = [moved(item, storage) if is_scalar(item) else item for item in parts]
    if not any([is_dual_object(item) for item in parts]):
        x = np.array(parts) if storage is None else storage.xp.stack(parts)
    else:
        x = dispatch(np.stack, (parts,), {})
    if dtype is not None:
        x = x.astype(dtype)
    return x.copy("F") if order == "F" else x


cdef int fill_parts(NDualArray to, object obj) except -1:
    if type(obj) is list or type(obj) is tuple:
        for i, item in enumerate(obj):
            part = getitem(to, (i, Ellipsis))
            fill_parts(part, item)
    else:
        setitem(to, Ellipsis, obj)
    return 0
