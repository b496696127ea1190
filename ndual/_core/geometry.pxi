# Making dual arrays and reading their geometry: shapes, strides, windows of lanes, ndarray views.

cdef nd_freelist _arrays
cdef destructor _free_array = (<PyTypeObject*>NDualArray).tp_dealloc


cdef inline NDualArray array_object():
    """An NDualArray without buffer and geometry."""
    cdef PyObject* o = nd_pop(&_arrays)
    cdef NDualArray x
    if o == NULL:
        x = NDualArray.__new__(NDualArray)
    else:
        x = <NDualArray>o
        Py_DECREF_POINTER(o)
    x.voff = 0
    x.toff = 0
    x.flags_ = 0
    x.shape_ = NULL
    return x


cdef void dealloc_array(PyObject* o) noexcept:
    # As in dealloc_buffer, casts of o must stay borrowed.
    if (<NDualArray>o).shape_ != NULL and (<NDualArray>o).shape_ != (<NDualArray>o).geo:
        PyMem_Free((<NDualArray>o).shape_)
    cdef PyObject* buf = <PyObject*>(<NDualArray>o).buf
    if (<Buffer>buf).held > 0:
        if (<NDualArray>o).flags_ & NTWIN:
            (<Buffer>buf).held -= 1
        elif Py_REFCNT_POINTER(buf) == (<Buffer>buf).held + 1:
            give_back_values(buf)
    (<NDualArray>o).buf = None
    (<NDualArray>o).device_v = None
    (<NDualArray>o).device_t = None
    (<NDualArray>o).storage_ = None
    if not nd_push(&_arrays, o):
        _free_array(o)


(<PyTypeObject*>NDualArray).tp_dealloc = dealloc_array


cdef int set_dims(NDualArray x, int ndim) except -1:
    cdef Py_ssize_t* room
    x.ndim_ = ndim
    if ndim <= INLINE_DIMS:
        x.shape_ = x.geo
        x.vs = x.geo + INLINE_DIMS
        x.ts = x.geo + 2 * INLINE_DIMS
    else:
        room = <Py_ssize_t*>PyMem_Malloc(3 * ndim * sizeof(Py_ssize_t))
        if room == NULL:
            raise MemoryError()
        x.shape_ = room
        x.vs = room + ndim
        x.ts = room + 2 * ndim
    return 0


cdef inline int size_of(int typenum) noexcept:
    if typenum == cnp.NPY_DOUBLE:
        return 8
    if typenum == cnp.NPY_FLOAT:
        return 4
    if typenum == cnp.NPY_CDOUBLE:
        return 16
    if typenum == cnp.NPY_CFLOAT:
        return 8
    return 2


cdef NDualArray new_window(Level level, int typenum, int ndim, const Py_ssize_t* shape, Py_ssize_t lo, Py_ssize_t hi):
    """A fresh C-contiguous array with memory for lanes lo..hi, holding nothing yet."""
    cdef NDualArray x = array_object()
    cdef Py_ssize_t stride = size_of(typenum)
    cdef double room = <double>stride * (hi - lo + 1)
    cdef int i
    set_dims(x, ndim)
    x.typenum = typenum
    x.itemsize_ = stride
    for i in range(ndim - 1, -1, -1):
        x.shape_[i] = shape[i]
        x.vs[i] = stride
        x.ts[i] = stride
        stride *= shape[i]
        room *= shape[i]
    if room > 4e18:           # the product above may have wrapped
        raise MemoryError(f"expected room for {room:.2g} bytes of values and lanes; got none. Use smaller arrays")
    x.lane = stride
    x.size_ = stride // x.itemsize_
    x.flags_ = NCONTIGUOUS
    x.buf = new_buffer(level, stride, lo, hi)
    return x


cdef NDualArray new_uniform(Level level, int typenum, int ndim, const Py_ssize_t* shape, const int* order,
                            Py_ssize_t lo, Py_ssize_t hi):
    """As new_ordered, with room for one number a lane, for all of its cells."""
    cdef NDualArray x = new_ordered(level, typenum, ndim, shape, order, 0, 0)
    x.buf.lanes = pooled((hi - lo) * x.itemsize_, &x.buf.lanes_class)
    x.buf.t = <char*>x.buf.lanes
    x.buf.item = x.itemsize_
    x.buf.uniform = True
    x.buf.lo = lo
    x.buf.hi = hi
    return x


cdef NDualArray new_ordered(Level level, int typenum, int ndim, const Py_ssize_t* shape, const int* order,
                            Py_ssize_t lo, Py_ssize_t hi):
    """As new_window, with memory laid out so that axis order[0] varies slowest."""
    cdef NDualArray x = new_window(level, typenum, ndim, shape, lo, hi)
    cdef Py_ssize_t stride = x.itemsize_
    cdef int i, axis
    for i in range(ndim - 1, -1, -1):
        axis = order[i]
        x.vs[axis] = stride
        x.ts[axis] = stride
        stride *= shape[axis]
    update_flags(x)
    return x


cdef void update_flags(NDualArray x) noexcept:
    """Recompute size and contiguity after a change of geometry."""
    cdef Py_ssize_t expected = x.itemsize_, size = 1
    cdef int i
    cdef bint contiguous = True
    for i in range(x.ndim_ - 1, -1, -1):
        size *= x.shape_[i]
        if x.shape_[i] != 1:
            if x.vs[i] != expected or x.ts[i] != expected:
                contiguous = False
            expected *= x.shape_[i]
    x.size_ = size
    x.flags_ = (x.flags_ & (NSCALAR | NREADONLY)) | (NCONTIGUOUS if contiguous else 0)


cdef NDualArray new_view(NDualArray x, int ndim):
    """Another view of x's buffer, whose geometry the caller fills in before calling update_flags."""
    cdef NDualArray y = array_object()
    if x.flags_ & NSCALAR:       # a number does not change under the arrays made of it
        x = copy_array(x, "C")
    set_dims(y, ndim)
    y.buf = x.buf
    y.voff = x.voff
    y.toff = x.toff
    y.lane = x.lane
    y.typenum = x.typenum
    y.itemsize_ = x.itemsize_
    y.flags_ = x.flags_ & NREADONLY
    return y


cdef inline char* vptr(NDualArray x) noexcept:
    return x.buf.v + x.voff


cdef inline char* tptr(NDualArray x) noexcept:
    return x.buf.t + x.toff


cdef cnp.ndarray values(NDualArray x):
    """The values as an ndarray view that keeps the buffer alive."""
    cdef object descr = cnp.PyArray_DescrFromType(x.typenum)
    cdef cnp.ndarray view
    Py_INCREF(descr)
    view = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, x.ndim_, x.shape_, x.vs, vptr(x),
                                0 if x.flags_ & NREADONLY else NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(view, x.buf)
    return view


cdef inline void window(NDualArray x, Py_ssize_t* lo, Py_ssize_t* hi) noexcept:
    """The lanes that can be other than zero. A view of seeds knows its own: cell k has its unit in lane seed + k."""
    cdef Py_ssize_t low, high, step
    cdef int i
    lo[0] = x.buf.lo
    hi[0] = x.buf.hi
    if x.buf.seeded:
        low = high = x.voff
        for i in range(x.ndim_):
            step = x.vs[i] * (x.shape_[i] - 1)
            if step < 0:
                low += step
            else:
                high += step
        lo[0] = max(lo[0], low // x.itemsize_ + x.buf.seed)
        hi[0] = min(hi[0], high // x.itemsize_ + x.buf.seed + 1)
    if lo[0] >= hi[0] or x.size_ == 0:
        lo[0] = hi[0] = 0


cdef inline char* lane_ptr(NDualArray x, Py_ssize_t lo) noexcept:
    """The first cell of lane lo, which is in the buffer's window and dense."""
    return tptr(x) + (lo - x.buf.lo) * x.lane


cdef inline int dense(NDualArray x) except -1:
    """Have lanes of one number a cell: what everything but the kernels works on."""
    if x.buf.uniform or x.buf.scaled:
        spread(x.buf, x.lane)
    return 0


cdef inline int has_lanes(NDualArray x) except -1:
    """Refuse what needs lanes in a level that records, where those of an array are no tangents."""
    if x.buf.level.recorder is not None:
        raise laneless()
    return 0


cdef object laneless():
    return NoRuleError(
        f"expected an operation that reverse mode has a pullback for; got one that forward mode alone has{where()}. "
        'Take mode="forward", or make it a constant with ndual.stop_gradient(x)'
    )


cdef cnp.ndarray lane_range(NDualArray x, Py_ssize_t lo, Py_ssize_t hi):
    """Lanes lo..hi ``(hi - lo, *shape)``, in the buffer's window, as an ndarray view that keeps the buffer alive."""
    cdef object descr = cnp.PyArray_DescrFromType(x.typenum)
    cdef Py_ssize_t shape[65]
    cdef Py_ssize_t strides[65]
    cdef cnp.ndarray view
    cdef int i
    has_lanes(x)
    dense(x)
    if x.ndim_ >= 64:
        raise NdualError(f"expected at most 63 dimensions, since the lanes take one; got {x.ndim_}")
    shape[0] = hi - lo
    strides[0] = x.lane
    for i in range(x.ndim_):
        shape[i + 1] = x.shape_[i]
        strides[i + 1] = x.ts[i]
    Py_INCREF(descr)
    view = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, x.ndim_ + 1, shape, strides, lane_ptr(x, lo),
                                NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(view, x.buf)
    return view


cdef cnp.ndarray lanes_of(NDualArray x):
    """The lanes ``(N, *shape)``: a view where the buffer keeps all of them, else a copy."""
    cdef object full
    cdef Py_ssize_t width = x.buf.level.width
    has_lanes(x)
    if x.buf.lo == 0 and x.buf.hi == width:
        return lane_range(x, 0, width)
    full = np.zeros((width, *shape_tuple(x)), cnp.PyArray_DescrFromType(x.typenum))
    full[x.buf.lo:x.buf.hi] = lane_range(x, x.buf.lo, x.buf.hi)
    return full


cdef int writable(NDualArray x) except -1:
    """Make room for writing any lane."""
    return make_writable(x.buf, x.lane, 0, x.buf.level.width)


cdef object shape_tuple(NDualArray x):
    cdef int i
    if x.device_v is not None:
        return x.device_v.shape
    return tuple([x.shape_[i] for i in range(x.ndim_)])
