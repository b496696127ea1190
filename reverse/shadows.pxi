# Shadows: the cotangents of a buffer, in memory that is laid out as its values are. One is made when something is first
# added to it; until then, and once its sweep is over, there is none, and what would read it has nothing to do.

cdef extern from *:
    """
    /* One number into n cells of 8 or 4 bytes. */
    static void nd_fill_cells(char *to, Py_ssize_t nbytes, int item, double number) {
        Py_ssize_t i;
        if (item == 8) for (i = 0; i < nbytes / 8; i++) ((double *)to)[i] = number;
        else for (i = 0; i < nbytes / 4; i++) ((float *)to)[i] = (float)number;
    }
    """
    void nd_fill_cells(char*, Py_ssize_t, int, double) noexcept nogil

cdef extern from "numpy/ndarraytypes.h":
    object PyArray_NewFromDescr(PyTypeObject*, cnp.dtype, int, const Py_ssize_t*, const Py_ssize_t*, void*, int, object)
    int NPY_ARRAY_WRITEABLE

cdef Py_ssize_t NOWHERE[64]          # the strides of what is the same number everywhere
memset(NOWHERE, 0, sizeof(NOWHERE))


cdef inline NDualArray raw(NDualArray x):
    """The array that stands for the memory of x: itself, or at the bottom of the lanes of one of an inner level."""
    return deepest(<NDualArray>x.device_t) if type(x.device_t) is NDualArray else x


cdef Buffer book(NDualArray x, Tape tape):
    """Where the tape keeps what it knows of the memory of x: in its buffer, or beside that of an inner level's lanes,
    which is an ordinary buffer to the tape of the level around."""
    cdef Buffer memory, found
    if type(x.device_t) is not NDualArray:
        return x.buf
    memory = deepest(<NDualArray>x.device_t).buf
    pair = tape.books.get(<Py_ssize_t><PyObject*>memory)
    if pair is None:
        found = empty_buffer(x.buf.level)
        tape.books[<Py_ssize_t><PyObject*>memory] = (memory, found)
        return found
    return <Buffer>(<tuple>pair)[1]


cdef inline bint one_to_one(NDualArray x) noexcept:
    """Whether an array covers its buffer, cell by cell."""
    return x.size_ * x.itemsize_ == x.buf.vbytes


cdef char* shadow(NDualArray x, Tape tape, bint* fresh) except NULL:
    """The first cell of the shadow of a raw array, to add to. With `fresh` it may be unfilled, which is said there."""
    cdef Buffer buf = x.buf
    cdef bint absent = buf.sweep != tape.sweep
    if buf.t == NULL or buf.lanes == NULL:
        buf.lanes = pooled(buf.vbytes + 8, &buf.lanes_class)
        buf.t = <char*>buf.lanes
        absent = True
    if absent:
        buf.sweep = tape.sweep
        buf.uniform = False
        if fresh != NULL and one_to_one(x):
            fresh[0] = True
            return buf.t + x.voff
        memset(buf.t, 0, buf.vbytes)
    elif buf.uniform:
        even(buf)
    if fresh != NULL:
        fresh[0] = False
    return buf.t + x.voff


cdef void even(Buffer buf) noexcept:
    """Give every cell of a shadow that is one number that number."""
    cdef double number = (<double*>(buf.t + buf.vbytes))[0]
    buf.uniform = False
    nd_fill_cells(buf.t, buf.vbytes, buf.item, number)


cdef void add_everywhere(NDualArray x, Tape tape, double number) except *:
    """Add one number to every cell of the shadow of a raw array."""
    cdef Buffer buf = x.buf
    cdef bint fresh = False
    if one_to_one(x) and (buf.sweep != tape.sweep or buf.lanes == NULL) and buf.vbytes % 8 == 0:
        shadow(x, tape, &fresh)
        buf.uniform = True
        buf.item = x.itemsize_
        (<double*>(buf.t + buf.vbytes))[0] = number
    elif one_to_one(x) and buf.uniform and buf.item == x.itemsize_:
        (<double*>(buf.t + buf.vbytes))[0] += number
    else:
        add_array(x, tape, number)


cdef cnp.ndarray shadow_array(NDualArray x, Tape tape):
    """The shadow of a raw array as an ndarray that keeps the buffer alive."""
    cdef object descr = cnp.PyArray_DescrFromType(x.typenum)
    cdef cnp.ndarray view
    cdef char* cells = shadow(x, tape, NULL)
    Py_INCREF(descr)
    view = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, x.ndim_, x.shape_, x.vs, cells,
                                NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(view, x.buf)
    return view


cdef bint absent(NDualArray x, Tape tape) except -1:
    """Whether nothing has been added to the memory of an array in a sweep."""
    if type(x.device_t) is NDualArray:
        return book(x, tape).sweep != tape.sweep
    return x.buf.sweep != tape.sweep or x.buf.lanes == NULL


cdef object cotangent(NDualArray x, Tape tape):
    """The shadow of an array as an array one level down that a formula may read; it shares the memory."""
    if type(x.device_t) is NDualArray:
        return x.device_t[0, ...]
    return shadow_array(x, tape)


cdef int add_array(NDualArray x, Tape tape, object g) except -1:
    """Add an array or number one level down to the shadow of an array, summed over axes that x does not have."""
    cdef object t
    cdef bint fresh = False
    if type(x.device_t) is NDualArray:
        t = x.device_t
        book(x, tape).sweep = tape.sweep
        tape.touched.append(t)
        t = t[0, ...]
        if overlapping(x):
            add_slices(t, np.broadcast_to(fitted(x, g), shape_of(x)))
        else:
            t[...] = t + fitted(x, g)
        return 0
    g = fitted(x, g if hasattr(g, "dtype") else np.float64(g))
    if overlapping(x):
        add_slices(shadow_array(x, tape), np.broadcast_to(g, shape_of(x)))
        return 0
    shadow(x, tape, &fresh)
    t = shadow_array(x, tape)
    if fresh:
        t[...] = g
    else:
        np_add(t, g, out=t, casting="unsafe")
    return 0


cdef tuple shape_of(NDualArray x):
    return tuple([x.shape_[i] for i in range(x.ndim_)])


cdef object fitted(NDualArray x, object g):
    """A cotangent as one of x: real if x is, and of its shape."""
    if x.typenum != cnp.NPY_CDOUBLE and x.typenum != cnp.NPY_CFLOAT and g.dtype.kind == "c":
        g = g.real
    return summed_to(g, shape_of(x))


cdef object summed_to(object g, tuple shape):
    """A cotangent summed to a shape that was broadcast to its own, or had more axes of length one."""
    cdef int extra = g.ndim - len(shape)
    if g.shape == shape:
        return g
    if extra < 0:
        return g.reshape(shape)
    if extra > 0:
        g = g.sum(axis=tuple(range(extra)))
    axes = tuple([i for i in range(len(shape)) if shape[i] == 1 and g.shape[i] != 1])
    return g.sum(axis=axes, keepdims=True) if axes else g


cdef bint overlapping(NDualArray x) noexcept:
    """Whether two cells of an array may be one place in memory: windows, and what broadcasting stretched."""
    cdef Py_ssize_t strides[64]
    cdef Py_ssize_t shape[64]
    cdef Py_ssize_t span, s, n
    cdef int i, j, count = 0
    for i in range(x.ndim_):
        if x.shape_[i] > 1:
            s = abs(raw_stride(x, i))
            j = count
            while j > 0 and strides[j - 1] > s:
                strides[j] = strides[j - 1]
                shape[j] = shape[j - 1]
                j -= 1
            strides[j] = s
            shape[j] = x.shape_[i]
            count += 1
    span = x.itemsize_
    for i in range(count):
        if strides[i] < span:
            return True
        span = strides[i] * (shape[i] - 1) + span
    return False


cdef inline Py_ssize_t raw_stride(NDualArray x, int axis) noexcept:
    cdef NDualArray memory
    if type(x.device_t) is NDualArray:
        memory = deepest(<NDualArray>x.device_t)
        return memory.vs[memory.ndim_ - x.ndim_ + axis]
    return x.vs[axis]


cdef int add_slices(object t, object g) except -1:
    """Add to cells of which several may be one, one slice after the other."""
    cdef Py_ssize_t i
    if t.ndim <= 1:
        for i in range(t.size):
            t[i:i + 1] += g[i:i + 1]
        return 0
    for i in range(t.shape[0]):
        add_slices(t[i], g[i])
    return 0
