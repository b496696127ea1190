# Reading and writing by index. Basic indices are views of values and lanes alike; what NumPy calls advanced is done by
# NumPy, on the values and on the lanes.

cdef inline Py_ssize_t in_range(Py_ssize_t i, Py_ssize_t n, int axis) except -1:
    if i < 0:
        i += n
    if i < 0 or i >= n:
        raise IndexError(f"index {i - n if i < 0 else i} is out of bounds for axis {axis} with size {n}")
    return i


cdef inline object read_cell(NDualArray x, Py_ssize_t voff, Py_ssize_t toff):
    """One cell of a float64 array as a scalar of the running width; of an array without lanes, as the plain number."""
    cdef object s
    cdef NDual1 d
    cdef char* t
    cdef Py_ssize_t k, step
    if inert(x):
        return nd_float64((<double*>(vptr(x) + voff))[0])
    if nd_tls.tape != NULL:
        return load(x, voff)
    if x.buf.scaled:
        dense(x)
    t = x.buf.t if x.buf.uniform else x.buf.t + x.toff + toff
    step = 8 if x.buf.uniform else x.lane
    s = new_scalar()
    d = <NDual1>s
    d.v = (<double*>(vptr(x) + voff))[0]
    if x.buf.hi - x.buf.lo != x.buf.level.width:
        memset(d.p, 0, 8 * x.buf.level.width)
    for k in range(x.buf.lo, x.buf.hi):
        d.p[k] = (<double*>t)[0]
        t += step
    return s


cdef object getitem(NDualArray x, object index):
    cdef Py_ssize_t i
    cdef NDualArray view
    check_array(x)
    if PyLong_CheckExact(index) and x.ndim_ == 1 and x.typenum == cnp.NPY_DOUBLE and nd_tls.scalar != NULL \
            and x.device_v is None:
        i = in_range(<Py_ssize_t>index, x.shape_[0], 0)
        return read_cell(x, i * x.vs[0], i * x.ts[0])
    if x.device_v is not None:
        return device_getitem(x, index)
    if type(index) is not tuple:
        index = (index,)
    view = basic_view(x, <tuple>index)
    if view is None:
        return advanced_get(x, tuple([plain(entry) for entry in index]))
    return view if view.ndim_ or Ellipsis in index else unbox(view)


cdef NDualArray basic_view(NDualArray x, tuple index):
    """The view of integers, slices, None and Ellipsis; None if anything else is among them."""
    cdef int used = 0, fresh = 0, axis = 0, to = 0, i, rest
    cdef bint ellipsis = False
    cdef Py_ssize_t start, stop, step, n, at
    cdef NDualArray y
    for item in index:
        if item is None:
            fresh += 1
        elif item is Ellipsis:
            if ellipsis:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = True
        elif type(item) is slice:
            used += 1
            fresh += 1
        elif PyLong_CheckExact(item) or isinstance(item, np.integer):
            used += 1
        else:
            return None
    if used > x.ndim_:
        raise IndexError(
            f"too many indices for array: array is {x.ndim_}-dimensional, but {used} were indexed"
        )
    rest = x.ndim_ - used
    y = new_view(x, fresh + rest)
    if not ellipsis:
        index = index + (Ellipsis,)
    for item in index:
        if item is None:
            y.shape_[to] = 1
            y.vs[to] = y.ts[to] = 0
            to += 1
        elif item is Ellipsis:
            for i in range(rest):
                y.shape_[to] = x.shape_[axis]
                y.vs[to] = x.vs[axis]
                y.ts[to] = x.ts[axis]
                to += 1
                axis += 1
        elif type(item) is slice:
            PySlice_Unpack(item, &start, &stop, &step)
            n = PySlice_AdjustIndices(x.shape_[axis], &start, &stop, step)
            y.voff += start * x.vs[axis]
            y.toff += start * x.ts[axis]
            y.shape_[to] = n
            y.vs[to] = x.vs[axis] * step
            y.ts[to] = x.ts[axis] * step
            to += 1
            axis += 1
        else:
            at = in_range(<Py_ssize_t>item, x.shape_[axis], axis)
            y.voff += at * x.vs[axis]
            y.toff += at * x.ts[axis]
            axis += 1
    update_flags(y)
    return y


cdef bint is_advanced(object item):
    return not (item is None or item is Ellipsis or type(item) is slice)


cdef tuple separated(tuple index):
    """Whether NumPy puts the broadcast axes of these indices first, and how many axes those are."""
    cdef list where_ = [i for i, item in enumerate(index) if is_advanced(item)]
    apart = any([not is_advanced(item) for item in index[where_[0]:where_[len(where_) - 1]]])
    count = 0
    for i in where_:
        array = index[i] if hasattr(index[i], "ndim") else np.asarray(index[i])
        count = max(count, 1 if array.dtype == bool else array.ndim)
    return apart, count


cdef object advanced_get(NDualArray x, tuple index):
    cdef Py_ssize_t lo = x.buf.lo, hi = x.buf.hi
    cdef NDualArray y
    value = values(x)[index]
    if nd_tls.tape != NULL:
        y = untraced(value, x.buf.level)
        if traced(x):
            recorder().gathered(x, index, y)
        return y if isinstance(value, np.ndarray) else finish(y)
    tangent = lane_range(x, lo, hi)[(slice(None), *index)]
    apart, count = separated(index)
    if apart:
        tangent = np.moveaxis(tangent, count, 0)
    return adopt(value, tangent, x.buf.level, None, lo)


cdef int setitem(NDualArray x, object index, object value) except -1:
    cdef NDualArray view, source
    cdef Py_ssize_t i, k
    cdef char* t
    check_array(x)
    if x.flags_ & NREADONLY:
        raise ValueError("assignment destination is read-only")
    if x.flags_ & NSCALAR:
        raise TypeError(f"'{cnp_scalar_class(x.typenum).__name__}' object does not support item assignment")
    if x.device_v is not None:
        return device_setitem(x, index, value)
    if PyLong_CheckExact(index) and x.ndim_ == 1 and x.typenum == cnp.NPY_DOUBLE:
        if Py_TYPE(value) == nd_tls.scalar and (<NDual1>value).level == nd_tls.id:
            if nd_tls.tape != NULL:
                i = in_range(<Py_ssize_t>index, x.shape_[0], 0)
                return store(x, i * x.vs[0], (<CoDual>value).v, (<CoDual>value).node)
            writable(x)
            i = in_range(<Py_ssize_t>index, x.shape_[0], 0)
            (<double*>(vptr(x) + i * x.vs[0]))[0] = (<NDual1>value).v
            t = tptr(x) + i * x.ts[0]
            for k in range(x.buf.level.width):
                (<double*>(t + k * x.lane))[0] = (<NDual1>value).p[k]
            return 0
        if PyFloat_CheckExact(value) and (nd_tls.tape == NULL or nd_tls.scalar != NULL):
            if nd_tls.tape != NULL:
                i = in_range(<Py_ssize_t>index, x.shape_[0], 0)
                return store(x, i * x.vs[0], PyFloat_AS_DOUBLE(value), ND_NODE_NONE)
            make_writable(x.buf, x.lane, 0, 0)
            i = in_range(<Py_ssize_t>index, x.shape_[0], 0)
            (<double*>(vptr(x) + i * x.vs[0]))[0] = PyFloat_AS_DOUBLE(value)
            t = tptr(x) + i * x.ts[0]
            for k in range(x.buf.hi - x.buf.lo):
                (<double*>(t + k * x.lane))[0] = 0
            return 0
    if isinstance(value, (list, tuple)):
        value = dispatch_sequence(value)
    elif type(value) is np_ndarray and any_moved():
        check_original(value)
    value = not_inner(x.buf.level, value)
    if type(index) is not tuple:
        index = (index,)
    if type(value) is np.ndarray and (<cnp.ndarray>value).dtype.hasobject:
        value = dispatch(np.stack, (list(value),), {})
    view = basic_view(x, <tuple>index)
    if view is not None:
        if is_dual_object(value):
            source = as_dual_array(value)
            if source.device_v is not None:
                raise mixed_storage("assignment", "the value", source, x)
            if source.buf is x.buf and same_view(source, view):
                return 0
            if view.ndim_ == 0 and source.ndim_ > 0 and Ellipsis not in <tuple>index:
                raise ValueError("setting an array element with a sequence.")
            assign(view, source)
        else:
            if nd_tls.tape != NULL:
                recorder().writing(view)
            make_writable(x.buf, x.lane, 0, 0)
            values(view)[...] = value
            if nd_tls.tape != NULL:
                return recorder().assigned(view, None)
            lane_range(view, x.buf.lo, x.buf.hi)[...] = 0
        return 0
    index = tuple([plain(entry) for entry in index])
    if is_dual_object(value):
        advanced_set(x, index, as_dual_array(value))
    else:
        if nd_tls.tape != NULL:
            recorder().writing_at(x, index)
        make_writable(x.buf, x.lane, 0, 0)
        values(x)[index] = value
        if nd_tls.tape != NULL:
            return recorder().scattered(x, index, None)
        lane_range(x, x.buf.lo, x.buf.hi)[(slice(None), *index)] = 0
    return 0


cdef int assign(NDualArray to, NDualArray source) except -1:
    """to[...] = source, values and lanes."""
    cdef Py_ssize_t shape[65]
    cdef Py_ssize_t ds[65]
    cdef Py_ssize_t ss[65]
    cdef int i, shift
    cdef Py_ssize_t lo, hi
    while source.ndim_ > to.ndim_:
        if source.shape_[0] != 1:
            raise ValueError(
                f"could not broadcast input array from shape {shape_tuple(source)} into shape {shape_tuple(to)}"
            )
        source = basic_view(source, (0,))
    if nd_tls.tape != NULL:
        recorder().writing(to)
    if to.typenum != source.typenum or source.buf is to.buf:
        assign_by_numpy(to, source)
        return 0
    shift = to.ndim_ - source.ndim_
    for i in range(source.ndim_):
        if source.shape_[i] != 1 and source.shape_[i] != to.shape_[i + shift]:
            raise ValueError(
                f"could not broadcast input array from shape {shape_tuple(source)} into shape {shape_tuple(to)}"
            )
    dense(source)
    window(source, &lo, &hi)
    make_writable(to.buf, to.lane, lo, hi)
    stretch(to.ndim_, source.ndim_, source.shape_, source.vs, ss)
    nd_copy(to.itemsize_, to.ndim_, to.shape_, vptr(to), to.vs, vptr(source), ss)
    if nd_tls.tape != NULL:
        return recorder().assigned(to, source)
    for i in range(2):      # lanes of the target that the source does not have
        shape[0] = (lo if lo < hi else to.buf.hi) - to.buf.lo if i == 0 else to.buf.hi - hi if lo < hi else 0
        if shape[0] > 0:
            lane_range(to, to.buf.lo if i == 0 else hi, to.buf.lo + shape[0] if i == 0 else to.buf.hi)[...] = 0
    if lo >= hi:
        return 0
    shape[0] = hi - lo
    ds[0] = to.lane
    ss[0] = source.lane
    for i in range(to.ndim_):
        shape[i + 1] = to.shape_[i]
        ds[i + 1] = to.ts[i]
    stretch(to.ndim_, source.ndim_, source.shape_, source.ts, ss + 1)
    nd_copy(to.itemsize_, to.ndim_ + 1, shape, lane_ptr(to, lo), ds, lane_ptr(source, lo), ss)
    return 0


cdef int assign_by_numpy(NDualArray to, NDualArray source) except -1:
    """Another dtype, or memory that may overlap: NumPy's own assignment, for the values and for each lane."""
    cdef object tangent, target
    if nd_tls.tape != NULL:
        make_writable(to.buf, to.lane, 0, 0)
        values(to)[...] = values(source)
        return recorder().assigned(to, source)
    writable(to)
    tangent = lanes_of(source)
    target = lanes_of(to)
    values(to)[...] = values(source)
    for k in range(to.buf.level.width):
        target[k, ...] = tangent[k]
    return 0


cdef int advanced_set(NDualArray x, tuple index, NDualArray source) except -1:
    cdef object target, tangent, value
    cdef int extra
    if nd_tls.tape != NULL:
        recorder().writing_at(x, index)
        make_writable(x.buf, x.lane, 0, 0)
        values(x)[index] = values(source)
        return recorder().scattered(x, index, source)
    writable(x)
    target = lanes_of(x)
    tangent = lanes_of(source)
    value = values(x)
    apart, _ = separated(index)
    if apart or source.buf is x.buf:
        value[index] = values(source)
        for k in range(x.buf.level.width):
            target[k, ...][index] = tangent[k]
        return 0
    value[index] = values(source)      # first of all, since NumPy knows which error comes first
    extra = value[index].ndim - source.ndim_
    if extra > 0:
        tangent = tangent.reshape(tangent.shape[:1] + (1,) * extra + tangent.shape[1:])
    elif extra < 0:
        tangent = tangent.reshape(tangent.shape[:1] + tangent.shape[1 - extra:])
    target[(slice(None), *index)] = tangent
    return 0


cdef object dispatch_sequence(object sequence):
    """A list of numbers as an array; a list that holds duals as a dual array."""
    if holds_dual(sequence):
        parts = [dispatch_sequence(s) if isinstance(s, (list, tuple)) else s for s in sequence]
        return dispatch(np.stack, (parts,), {})
    return np.asarray(sequence)


cdef bint holds_dual(object sequence):
    for item in sequence:
        if is_dual_object(item) or (isinstance(item, (list, tuple)) and holds_dual(item)):
            return True
    return False


@cython.final
cdef class FlatIterator:
    """x.flat: the cells in C order, for reading and writing."""

    cdef NDualArray x

    def __init__(self, NDualArray x):
        self.x = x

    def _cells(self, index):
        cells = np.arange(self.x.size_)[index]
        return np.unravel_index(cells, shape_tuple(self.x))

    def __len__(self): return self.x.size_
    def __getitem__(self, index):
        if self.x.ndim_ == 0:
            return getitem(reshape(self.x, -1, "C", True), index)
        return getitem(self.x, self._cells(index))
    def __setitem__(self, index, value):
        if self.x.ndim_ == 0:
            setitem(reshape(self.x, -1, "C", None), index, value)
        else:
            setitem(self.x, self._cells(index), value)
    def __iter__(self): return iter(reshape(self.x, -1, "C", None))
