# Arguments into duals and duals into results: the parts of a forward pass that know memory.

cdef enum:
    LEAF_ARRAY = 0
    LEAF_SCALAR = 1
    LEAF_DEVICE = 4
    LEAF_CONSTANT_ARRAY = 2
    LEAF_CONSTANT = 3

cdef inline bint fits(run_leaf* leaf, object value) noexcept:
    """Whether an ndarray is of the type and shape of the leaf, in the byte order of this machine."""
    cdef cnp.ndarray a
    cdef int i
    if not cnp.PyArray_CheckExact(value):
        return False
    a = <cnp.ndarray>value
    if cnp.PyArray_TYPE(a) != leaf.typenum or cnp.PyArray_NDIM(a) != leaf.ndim or not cnp.PyArray_ISNOTSWAPPED(a):
        return False
    for i in range(leaf.ndim):
        if cnp.PyArray_DIM(a, i) != leaf.dims[i]:
            return False
    return True


cdef bint fits_dual(run_leaf* leaf, object value) noexcept:
    """The same for an array of a derivative around this one."""
    cdef NDualArray x
    cdef int i
    if type(value) is not NDualArray:
        return False
    x = <NDualArray>value
    if x.typenum != leaf.typenum or x.ndim_ != leaf.ndim or x.ndim_ == 0 \
            or (deepest(x).device_v is not None) != (leaf.kind == LEAF_DEVICE):
        return False
    for i in range(x.ndim_):
        if x.shape_[i] != leaf.dims[i]:
            return False
    return True


cdef inline bint direct_memory(cnp.ndarray a) noexcept:
    """Whether lanes that lie in C order are laid out as the array is, and every cell is one of its own."""
    if not cnp.PyArray_ISALIGNED(a):
        return False
    if cnp.PyArray_IS_C_CONTIGUOUS(a):
        return True
    return cnp.PyArray_NDIM(a) == 1 and cnp.PyArray_STRIDE(a, 0) > 0


cdef NDualArray lift_lane(cnp.ndarray v, cnp.ndarray t, Level level):
    """A borrowed dual of one lane, which is an array of the shape of the value."""
    cdef NDualArray x = array_object()
    cdef int i
    set_dims(x, cnp.PyArray_NDIM(v))
    x.typenum = cnp.PyArray_TYPE(v)
    x.itemsize_ = cnp.PyArray_ITEMSIZE(v)
    for i in range(cnp.PyArray_NDIM(v)):
        x.shape_[i] = cnp.PyArray_DIM(v, i)
        x.vs[i] = cnp.PyArray_STRIDE(v, i)
        x.ts[i] = cnp.PyArray_STRIDE(t, i)
    x.lane = cnp.PyArray_NBYTES(t)
    x.buf = foreign_buffer(v, t, level, &x.voff, &x.toff)
    x.buf.one = lane_extent(x)
    x.buf.borrowed = True
    update_flags(x)
    return x


cdef object lift_number(double value, const double* lanes):
    """A scalar of the running level, which has a scalar class."""
    cdef NDual1 s = <NDual1>new_scalar()
    s.v = value
    memcpy(s.p, lanes, 8 * running().width)
    return s


def numbers(cnp.ndarray row not None):
    """The entries of a row of doubles as NumPy's numbers, three times as fast as ``list``."""
    cdef Py_ssize_t i
    cdef char* at = cnp.PyArray_BYTES(row)
    if cnp.PyArray_TYPE(row) != cnp.NPY_DOUBLE or cnp.PyArray_NDIM(row) != 1 or not cnp.PyArray_ISBEHAVED_RO(row):
        return list(row)
    return [nd_float64((<double*>(at + i * cnp.PyArray_STRIDE(row, 0)))[0]) for i in range(cnp.PyArray_DIM(row, 0))]


cdef object lane_view(NDualArray x, Py_ssize_t k):
    """Lane k as an ndarray that keeps the buffer alive, or zeros where the buffer has none."""
    cdef object descr = cnp.PyArray_DescrFromType(x.typenum)
    cdef cnp.ndarray view
    if k < x.buf.lo or k >= x.buf.hi:
        return np.zeros(shape_tuple(x), descr)
    dense(x)
    Py_INCREF(descr)
    view = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, x.ndim_, x.shape_, x.ts, lane_ptr(x, k),
                                NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(view, x.buf)
    return view


cdef inline bint values_ours(Buffer buffer) noexcept:
    """Whether values may live on in this memory as a result: it is the pool's, and nobody else writes there."""
    return buffer.memory != NULL or buffer.copy != NULL


cdef inline bint lanes_ours(Buffer buffer) noexcept:
    """The same for lanes. Those of an argument are the seeds of its sweep, whoever holds its values."""
    return buffer.lanes != NULL or (buffer.memory != NULL and buffer.towner is None)


cdef object result_value(object out, bint small):
    """The value of an output as what NumPy returns; `small` says that its buffer holds little else."""
    cdef NDualArray x
    if type(out) is not NDualArray:
        check_scalar(out)
        return nd_float64((<NDual1>out).v)
    x = <NDualArray>out
    check_array(x)
    if x.device_v is not None:
        return lower_result(x.device_v, x.flags_ & NSCALAR) if type(x.device_v) is NDualArray else device_result(x)
    if x.flags_ & NSCALAR:
        return values(x)[()]
    if small and values_ours(x.buf) and x.buf.vbytes <= 2 * x.size_ * x.itemsize_:
        return values(x)
    return values(x).copy()


cdef object result_lanes(object out):
    """The lanes of an output as an array of its own."""
    cdef NDualArray x
    cdef cnp.ndarray view
    cdef cnp.npy_intp n
    if type(out) is not NDualArray:
        n = running().width
        view = cnp.PyArray_EMPTY(1, &n, cnp.NPY_DOUBLE, 0)
        memcpy(cnp.PyArray_DATA(view), (<NDual1>out).p, 8 * n)
        return view
    x = <NDualArray>out
    has_lanes(x)
    if x.device_v is not None:
        return lower_result(x.device_t, False) if type(x.device_t) is NDualArray else device_lanes(x).copy()
    dense(x)
    if lanes_ours(x.buf) and x.flags_ & NCONTIGUOUS and x.lane == x.size_ * x.itemsize_:
        return lanes_of(x)
    return lanes_of(x).copy()
