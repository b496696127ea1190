# Shadows: the cotangents of a buffer, in memory that is laid out as its values are. One is made when something is first
# added to it; until then, and once its sweep is over, there is none, and what would read it has nothing to do.

cdef extern from "numpy/ndarraytypes.h":
    object PyArray_NewFromDescr(PyTypeObject*, cnp.dtype, int, const Py_ssize_t*, const Py_ssize_t*, void*, int, object)
    int NPY_ARRAY_WRITEABLE

cdef Py_ssize_t NOWHERE[64]          # the strides of what is the same number everywhere
memset(NOWHERE, 0, sizeof(NOWHERE))


cdef inline NDualArray raw(NDualArray x):
    """The array that stands for the memory of x: itself, or at the bottom of the value of one of an inner level."""
    return deepest(x) if type(x.device_v) is NDualArray else x


cdef inline Buffer book(NDualArray x):
    """Where the tape keeps what it knows of the memory of x: in its buffer, or beside that of an inner level's values,
    which is an ordinary buffer to the levels around."""
    return book_of(x, True) if type(x.device_v) is NDualArray else x.buf


# The shadow of an array of an inner level is an array one level down, in `towner` of its book: a row of cells laid out
# as the buffer of the values is, of which every view has its part. A cotangent that comes first and covers the buffer
# becomes the shadow as it is; `borrowed` then says that something else may hold it, and it is copied before a change.

cdef bint is_row(NDualArray g, Py_ssize_t nbytes, int typenum):
    """Whether an array one level down has memory of its own, of this size and type, cell by cell."""
    if type(g.device_v) is NDualArray:
        return False
    return (g.device_v is None and g.typenum == typenum and g.flags_ & NCONTIGUOUS and not g.flags_ & NSCALAR
            and not g.buf.borrowed and not g.buf.seeded and g.voff == 0 and g.toff == 0 and g.ndim_ > 0
            and g.size_ * g.itemsize_ == nbytes and g.buf.vbytes == nbytes
            and (g.lane == nbytes or g.buf.uniform or g.buf.lo >= g.buf.hi))


cdef NDualArray lower_shadow(NDualArray x, Tape tape):
    """The shadow of an array of an inner level as one that may be written to; zeros if it had none."""
    cdef NDualArray memory = deepest(x)
    cdef Buffer found = book_of(x, True)
    if found.sweep != tape.sweep or found.towner is None:
        found.towner = mirror_base(-(-memory.buf.vbytes // memory.itemsize_), memory.typenum, tape.level.outer,
                                   memory)
        found.sweep = tape.sweep
        found.borrowed = False
    elif found.borrowed:
        found.towner = (<object>found.towner).copy()
        found.borrowed = False
    return mirror(<NDualArray>found.towner, memory)


cdef int add_lower(NDualArray x, Tape tape, object g) except -1:
    """As add_array for an array of an inner level."""
    cdef NDualArray memory = deepest(x), t
    cdef Buffer found = book_of(x, True)
    cdef bint whole = memory.flags_ & NCONTIGUOUS and one_to_one(memory) and memory.voff == 0
    g = fitted(x, g)
    if found.sweep != tape.sweep or found.towner is None:
        if whole and type(g) is NDualArray and is_row(<NDualArray>g, memory.buf.vbytes, memory.typenum):
            found.towner = g
            found.sweep = tape.sweep
            found.borrowed = True
            return 0
        t = lower_shadow(x, tape)
        if overlapping(x):
            add_slices(t, np.broadcast_to(g, shape_of(x)))
        else:
            t[...] = g
        return 0
    if found.borrowed and whole and type(g) is NDualArray:
        t = mirror(<NDualArray>found.towner, memory)
        g = t + g                # a number where there is one cell
        if type(g) is NDualArray and is_row(<NDualArray>g, memory.buf.vbytes, memory.typenum):
            found.towner = g
            found.borrowed = False
        else:
            lower_shadow(x, tape)[...] = g
        return 0
    t = lower_shadow(x, tape)
    if overlapping(x):
        add_slices(t, np.broadcast_to(g, shape_of(x)))
    elif type(g) is NDualArray:
        general(ADD, (t, g), t, None, None)
    else:
        t += g
    return 0


cdef Row ADD = row_named("add")
cdef Row MULTIPLY = row_named("multiply")
cdef Row NEGATIVE = row_named("negative")
cdef Row DIVIDE = row_named("divide")
cdef Row SQUARE = row_named("square")


cdef inline bint one_to_one(NDualArray x) noexcept:
    """Whether an array covers its buffer, cell by cell: a stretched part of it may have as many cells."""
    return x.size_ * x.itemsize_ == x.buf.vbytes and (x.flags_ & NCONTIGUOUS or not overlapping(x))


cdef inline char* cells_of(Buffer buf, Tape tape, bint filled) except NULL:
    """The shadow of a buffer, made if there is none; of zeros then if `filled`."""
    if buf.sweep != tape.sweep:
        have_cells(buf)
        if filled:
            memset(buf.t, 0, buf.vbytes)
        buf.sweep = tape.sweep
        buf.uniform = buf.multiple = False
        buf.towner = None
    elif buf.uniform or buf.multiple:
        spell_out(buf)
    return buf.t


cdef char* shadow(NDualArray x, Tape tape, bint* fresh) except NULL:
    """The first cell of the shadow of a raw array, to add to. With `fresh` it may be unfilled, which is said there."""
    if fresh != NULL:
        fresh[0] = x.buf.sweep != tape.sweep and one_to_one(x)
        return cells_of(x.buf, tape, not fresh[0]) + x.voff
    return cells_of(x.buf, tape, True) + x.voff


cdef void add_everywhere(NDualArray x, Tape tape, double number) except *:
    """Add one number to every cell of the shadow of a raw array."""
    cdef Buffer buf = x.buf
    if one_to_one(x) and buf.sweep != tape.sweep:
        buf.sweep = tape.sweep
        buf.multiple = False
        buf.uniform = True
        buf.item = x.itemsize_
        buf.number = number
    elif one_to_one(x) and buf.uniform and buf.item == x.itemsize_:
        buf.number += number
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
    cdef Buffer found
    if x.device_v is not None:
        found = book_of(x, False) if type(x.device_v) is NDualArray else x.buf
        return found is None or found.sweep != tape.sweep or found.towner is None
    return x.buf.sweep != tape.sweep


cdef object cotangent(NDualArray x, Tape tape):
    """The shadow of an array as an array one level down that a formula may read; it shares the memory."""
    if type(x.device_v) is NDualArray:
        return mirror(<NDualArray>book_of(x, True).towner, deepest(x))
    return device_cells(x) if x.device_v is not None else shadow_array(x, tape)


cdef object writable_shadow(NDualArray x, Tape tape):
    """The shadow of an array as one that may be written to; of zeros if there was none."""
    if x.device_v is None:
        return shadow_array(x, tape)
    return lower_shadow(x, tape) if type(x.device_v) is NDualArray else device_shadow(x, tape)


cdef int add_array(NDualArray x, Tape tape, object g) except -1:
    """Add an array or number one level down to the shadow of an array, summed over axes that x does not have."""
    cdef object t
    cdef bint fresh = False
    if x.device_v is not None:
        return add_lower(x, tape, g) if type(x.device_v) is NDualArray else add_device(x, tape, g)
    g = fitted(x, g if hasattr(g, "dtype") else np.float64(g))
    if not isinstance(g, (np_ndarray, np.generic)):
        g = _dual.to_host(g)         # a number that went to a device
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
    if g.shape == shape or g.ndim == 0:      # a number is one for every cell
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
    cdef Py_ssize_t span, s
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
    return raw(x).vs[axis]


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
