# Copies, reshapes, casts and the full sum: what the front end needs fast and what shares or moves memory.

cdef object sum_all(NDualArray x):
    """np.sum(x): the pairwise sum that NumPy gives, of the values and of each lane."""
    cdef int dtype = kernel_dtype(x.typenum)
    cdef nd_loop loop = ROW_ADD.loops[dtype]
    cdef Py_ssize_t k, lo, hi
    cdef double whole
    cdef double* sums
    cdef NDualArray r
    cdef cnp.ndarray found
    cdef object s
    check_array(x)
    if type(x.device_v) is Ahead:
        return device_sum_ahead(x)
    if recorded_below(x) and traced(x) and x.typenum == cnp.NPY_DOUBLE:
        below = peeled(<NDualArray>x.device_v)
        r = untraced(sum_all(<NDualArray>below) if type(below) is NDualArray else np_sum(below), x.buf.level)
        x.buf.level.recorder.summed_below(x, r)
        r.flags_ |= NSCALAR
        return r
    if on_device(x) and not nd_tls.debug and not inert(x):
        return device_sum(x)
    if x.typenum != cnp.NPY_DOUBLE or loop.fn == NULL or x.device_v is not None or (nd_tls.debug and not inert(x)):
        return dispatch(np.sum, (x,), {"axis": None})
    if nd_tls.tape != NULL and nd_tls.scalar == NULL and not inert(x):
        return dispatch(np.sum, (x,), {"axis": None})
    whole = total(vptr(x), x.size_) if x.flags_ & NCONTIGUOUS else np_reduce(values(x), None)
    if inert(x):
        return nd_float64(whole)
    if nd_tls.tape != NULL:
        return number_at(whole, recorder().summed(x))
    if not x.buf.scaled or not covers_factors(x):
        dense(x)
    window(x, &lo, &hi)
    s = new_sum(x.buf.level, whole, lo, hi, &sums)
    if x.buf.scaled:
        if weighted_sums(x, sums):
            return s
        dense(x)
    if x.flags_ & NCONTIGUOUS:
        for k in range(hi - lo):
            sums[k] = total(lane_ptr(x, lo + k), x.size_)
    elif hi > lo:
        found = np_reduce(lane_range(x, lo, hi), tuple(range(1, x.ndim_ + 1)))
        memcpy(sums, cnp.PyArray_DATA(found), 8 * (hi - lo))
    return s


cdef object new_sum(Level level, double value, Py_ssize_t lo, Py_ssize_t hi, double** sums):
    """A dual number in double precision; where its lanes lo..hi go, all others being zero."""
    cdef NDual1 d
    cdef NDualArray r
    cdef object s
    if nd_tls.scalar == NULL:
        r = new_window(level, cnp.NPY_DOUBLE, 0, NULL, lo, hi)
        r.flags_ |= NSCALAR
        (<double*>r.buf.v)[0] = value
        sums[0] = <double*>r.buf.t
        return r
    s = new_scalar()
    d = <NDual1>s
    d.v = value
    sums[0] = d.p + lo
    if hi - lo != level.width:
        memset(d.p, 0, 8 * level.width)
    return s


cdef object mean_all(NDualArray x):
    """np.mean(x): of doubles on the host as NumPy takes it, the sum divided by the count; else by the rule."""
    if x.typenum != cnp.NPY_DOUBLE or x.size_ == 0 or x.device_v is not None or nd_tls.debug:
        return dispatch(np_mean, (x,), {})
    return sum_all(x) / <double>x.size_


cdef inline double total(char* x, Py_ssize_t n) noexcept:
    """The sum of n doubles side by side with the bits that np.sum gives."""
    if n == 0:
        return 0.0
    return EMPTY_SUM + isa.cells[ND_F64].sum(x, n) if own_sums else numpys_total(x, n)


cdef double numpys_total(char* x, Py_ssize_t n) noexcept:
    """NumPy's add loop with a standing output is its pairwise sum; it starts from where np.add.reduce does."""
    cdef nd_loop loop = ROW_ADD.loops[ND_F64]
    cdef double acc = EMPTY_SUM
    cdef char* args[3]
    cdef intptr_t steps[3]
    cdef intptr_t count = n
    args[0] = <char*>&acc
    args[1] = x
    args[2] = <char*>&acc
    steps[0] = 0
    steps[1] = 8
    steps[2] = 0
    loop.fn(args, &count, steps, loop.data)
    return acc


def adds_up():
    """Whether sums of doubles are those of a kernel, which has NumPy's bits, and not of NumPy's own loop."""
    return bool(own_sums)


cdef bint sums_agree() except -1:
    """Whether this NumPy adds up in the order that nd_cells.sum does."""
    cdef double x[1003]
    cdef Py_ssize_t i
    for i in range(1003):
        x[i] = 1.0 / (i + 1) if i % 3 else -0.7 * i
    for i in (3, 8, 13, 127, 128, 129, 300, 1003):
        if EMPTY_SUM + isa.cells[ND_F64].sum(x, i) != numpys_total(<char*>x, i):
            return False
    return True


cdef object like(NDualArray x, bint zeros):
    """An array of x's shape, type and layout without lanes: they come with the first dual that is written."""
    cdef NDualArray y
    cdef int axes[64]
    check_array(x)
    if type(x.device_v) is NDualArray:
        return like_nested(x, zeros)
    if x.device_v is not None or x.flags_ & NSCALAR:
        return dispatch(np.zeros_like if zeros else np.empty_like, (x,), {"shape": None})
    layout(x, axes)
    y = new_ordered(x.buf.level, x.typenum, x.ndim_, x.shape_, axes, 0, 0)
    if zeros:
        memset(y.buf.v, 0, y.buf.vbytes)
    return y


cdef void layout(NDualArray x, int* axes) noexcept:
    """The axes of x from the slowest to the fastest, as NumPy's copies keep them: by stride, stride 0 last."""
    cdef int i, j
    for i in range(x.ndim_):
        j = i
        while j > 0 and magnitude(x.vs[axes[j - 1]]) < magnitude(x.vs[i]):
            axes[j] = axes[j - 1]
            j -= 1
        axes[j] = i


cdef NDualArray copy_array(NDualArray x, object order):
    cdef NDualArray y
    cdef int axes[64]
    cdef Py_ssize_t lo, hi
    check_array(x)
    window(x, &lo, &hi)
    if x.device_v is not None:
        return copy_nested(x, order) if type(x.device_v) is NDualArray else device_copy(x, order)
    if x.flags_ & NCONTIGUOUS and (order != "F" or x.ndim_ < 2) and may_share(x, lo, hi):
        y = copy_beside(x, lo, hi)
        if y is not None:
            return y
    if order is None or order == "C":
        y = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, lo, hi)
    elif order == "F" or (order == "A" and values(x).flags.fnc):
        for i in range(x.ndim_):
            axes[i] = x.ndim_ - 1 - i
        y = new_ordered(x.buf.level, x.typenum, x.ndim_, x.shape_, axes, lo, hi)
    elif order == "A":
        y = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, lo, hi)
    else:
        layout(x, axes)
        y = new_ordered(x.buf.level, x.typenum, x.ndim_, x.shape_, axes, lo, hi)
    assign(y, x)
    return y


cdef object astype(NDualArray x, object dtype, object casting, object copy):
    """Float and complex types keep the derivative; integers, bools and strings give the primal."""
    dtype = np.dtype(dtype)
    check_array(x)
    if dtype.kind == "O":
        raise lost("astype(object)", "Keep the array as it is")
    if dtype.kind not in "fc":
        return plain_value(x, True).astype(dtype, casting=casting)
    check_dtype(dtype)
    if dtype.num == x.typenum:
        return copy_array(x, "K") if copy and not x.flags_ & NSCALAR else x
    if dtype.kind == "f" and cnp.PyArray_DescrFromType(x.typenum).kind == "c":
        raise lost("astype(float) of a complex dual", "Take x.real, or abs(x)")
    if x.flags_ & NSCALAR and type(x.device_v) is NDualArray and x.device_t is None:
        return getitem(astype(copy_array(x, "C"), dtype, casting, copy), ())
    value = lower(x).astype(dtype, casting=casting)      # which may have a level below at hand from then on
    if x.buf.level.recorder is not None:
        out = derived(x, value)
        return out if isinstance(value, np.ndarray) or type(value) is NDualArray else finish(out)
    return adopt(value, arrays_of(x)[1].astype(dtype), x.buf.level)


cdef object reshape(NDualArray x, object shape, object order, object copy):
    cdef NDualArray y
    cdef Py_ssize_t known = 1, stride
    cdef int i, unknown = -1, ndim
    check_array(x)
    if copy:
        x = copy_array(x, "K")
        check_array(x)               # the copy of a nested one had the level below at hand
    if order == "C" and x.flags_ & NCONTIGUOUS and x.device_v is None:
        if not isinstance(shape, (tuple, list)):
            shape = (shape,)
        ndim = len(shape)
        y = new_view(x, ndim)
        for i in range(ndim):
            y.shape_[i] = operator.index(shape[i])
            if y.shape_[i] == -1 and unknown < 0:
                unknown = i
            else:
                known *= y.shape_[i]
        if unknown >= 0 and known > 0 and x.size_ % known == 0:
            y.shape_[unknown] = x.size_ // known
            known *= y.shape_[unknown]
        if known == x.size_ and (unknown < 0 or y.shape_[unknown] >= 0):
            stride = x.itemsize_
            for i in range(ndim - 1, -1, -1):
                y.vs[i] = y.ts[i] = stride
                stride *= y.shape_[i]
            update_flags(y)
            return y
    if nd_tls.tape != NULL:
        return reshape_traced(x, shape, order)
    value, tangent, lo = views_of(x)
    if order == "A":
        order = "F" if value.flags.fnc else "C"
    value = value.reshape(shape, order=order)
    return adopt_array(value, tangent.reshape((tangent.shape[0], *value.shape), order=order), x.buf.level, x, lo)


cdef NDualArray reshape_traced(NDualArray x, object shape, str order):
    """The same in a level that records: a view, or a view of a copy in the order in which the cells are read."""
    cdef object value = lower_array(x)
    cdef NDualArray y
    if order == "A":
        order = "F" if bottom(value).flags.fnc else "C"
    value = value.reshape(shape, order=order)
    y = same_cells_of(x, value)
    if y is not None:
        return y
    if x.size_ == 0:
        return untraced(value, x.buf.level)
    return reshape_traced(copy_array(x, order), shape, order)


cdef object ravel(NDualArray x, object order):
    """The cells in one row; "K" is the order in which they lie in memory."""
    if order == "K":
        return dispatch(np.ravel, (x,), {"order": "K"})
    if order == "C" and x.device_v is None and not (x.flags_ & NCONTIGUOUS) and not values(x).flags.c_contiguous:
        x = copy_array(x, "C")       # unlike reshape, it always gives contiguous memory
    return reshape(x, -1, order, None)


cdef object transpose(NDualArray x, object axes):
    cdef NDualArray y
    cdef int i, axis
    cdef int n = x.ndim_
    check_array(x)
    if x.flags_ & NSCALAR and not axes:
        return x
    if axes is None:
        if x.device_v is None:
            y = new_view(x, n)
            for i in range(n):
                y.shape_[i] = x.shape_[n - 1 - i]
                y.vs[i] = x.vs[n - 1 - i]
                y.ts[i] = x.ts[n - 1 - i]
            update_flags(y)
            return y
        axes = range(n - 1, -1, -1)
    axes = [operator.index(a) for a in axes]
    if sorted([a + n if a < 0 else a for a in axes]) != list(range(n)):
        raise ValueError(f"axes don't match array: expected a permutation of {n} axes; got {tuple(axes)}")
    axes = [a + n if a < 0 else a for a in axes]
    if on_device(x) and (x.buf.level.recorder is not None or inert(x)):
        return device_view(x, x.device_v.transpose(axes))
    if type(x.device_v) is NDualArray and x.device_t is None:
        return nested_array(transpose(<NDualArray>x.device_v, axes), None, x.buf.level)
    if x.device_v is not None:
        tangent = device_lanes(x) if on_device(x) else x.device_t
        return adopt_array(x.device_v.transpose(axes), tangent.transpose([0] + [a + 1 for a in axes]),
                           x.buf.level, x)
    y = new_view(x, n)
    for i in range(n):
        axis = axes[i]
        y.shape_[i] = x.shape_[axis]
        y.vs[i] = x.vs[axis]
        y.ts[i] = x.ts[axis]
    update_flags(y)
    return y


cdef object diagonal(NDualArray x):
    """The main diagonal of a matrix: a view that, as NumPy's, cannot be written to."""
    cdef NDualArray y
    check_array(x)
    if x.device_v is not None:
        return dispatch(np_diagonal, (x,), {"offset": 0})
    y = new_view(x, 1)
    y.shape_[0] = min(x.shape_[0], x.shape_[1])
    y.vs[0] = x.vs[0] + x.vs[1]
    y.ts[0] = x.ts[0] + x.ts[1]
    y.flags_ |= NREADONLY
    update_flags(y)
    return y


cdef object matrix_transpose(NDualArray x):
    if x.ndim_ < 2:
        raise ValueError(f"matrix transpose with ndim < 2 is undefined; got ndim {x.ndim_}")
    return transpose(x, [*range(x.ndim_ - 2), x.ndim_ - 1, x.ndim_ - 2])


cdef object part(NDualArray x, bint imaginary):
    """x.real and x.imag: views, as in NumPy."""
    cdef NDualArray y
    check_array(x)
    if nd_tls.tape != NULL:
        value = lower_array(x)
        if value.dtype.kind == "c":
            value = value.imag if imaginary else value.real
            y = view_of(x, value) if x.device_v is None else same_cells_of(x, value)
            if y is None:            # of a number, which has no memory to view
                return unary(ROW_IMAG if imaginary else ROW_REAL, x)
            return finished(y, x.flags_ & NSCALAR)
        return (np.zeros_like(value)[()] if x.flags_ & NSCALAR else np.zeros_like(value)) if imaginary else x
    value, tangent, lo = views_of(x)
    if value.dtype.kind != "c":
        return (np.zeros_like(value)[()] if x.flags_ & NSCALAR else np.zeros_like(value)) if imaginary else x
    if imaginary:
        return adopt_array(value.imag, tangent.imag, x.buf.level, x, lo)
    return adopt_array(value.real, tangent.real, x.buf.level, x, lo)


cdef object conjugate(NDualArray x):
    """x.conj(): a real array is its own, as in NumPy; np.conjugate copies."""
    check_array(x)
    return unary(ROW_CONJUGATE, x) if x.typenum in (cnp.NPY_CDOUBLE, cnp.NPY_CFLOAT) else x


cdef int set_shape(NDualArray x, object shape) except -1:
    cdef NDualArray y = reshape(x, shape, "C", None)
    cdef int i
    cdef bint nested = type(x.device_v) is NDualArray and same_memory(x.device_v, y.device_v)
    if not nested and y.buf is not x.buf:
        raise AttributeError("incompatible shape for in-place modification; use x.reshape(), which copies")
    if x.buf.level.recorder is not None:
        x.buf.level.recorder.reshaped(x, <NDualArray>getitem(x, Ellipsis))
    if nested:
        x.device_v = y.device_v
        x.device_t = y.device_t
    if x.shape_ != x.geo:
        PyMem_Free(x.shape_)
    set_dims(x, y.ndim_)
    for i in range(y.ndim_):
        x.shape_[i] = y.shape_[i]
        x.vs[i] = y.vs[i]
        x.ts[i] = y.ts[i]
    update_flags(x)
    return 0


cdef object item(NDualArray x, tuple index):
    check_array(x)
    if not index:
        if x.size_ != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return getitem(reshape(x, -1, "C", None), 0)
    if len(index) == 1 and not isinstance(index[0], tuple):
        return getitem(reshape(x, -1, "C", None), index[0])
    return getitem(x, index[0] if len(index) == 1 else index)


cdef object tolist(NDualArray x):
    if inert(x):
        return plain_value(x, False).tolist()
    return getitem(x, ()) if x.ndim_ == 0 else [tolist(row) if type(row) is NDualArray else row for row in x]
