# What a level that records (reverse mode) does instead of computing lanes. The list of numbers is written right here;
# what becomes of arrays is up to the recorder, which the add-on brings.

cdef class Recorder:
    """What the core tells of the operations of a level, each after its value is known.

    `operands` is asked before the value is written, since that may overwrite an operand, and returns what `mapped`
    gets, None if no operand is active. `writing` comes before any write to memory that exists already. `failed`
    tells of an error that ends the run, and says whether it explained it. `reshaped` comes before the user sets the
    shape of an array: what is kept of it is another object from then on.
    """

    def __cinit__(self, *args):
        self.books = {}
        self.writes = True

    def __dealloc__(self):
        free(self.tape.node)

    cdef int begin(self, Level level) except -1: raise NotImplementedError
    cdef object operands(self, Row row, tuple operands): raise NotImplementedError
    cdef int sloped(self, Row row, NDualArray x, NDualArray slope, char* at, NDualArray out) except -1:
        raise NotImplementedError
    cdef int mapped(self, object entry, NDualArray out) except -1: raise NotImplementedError
    cdef int formed(self, Row row, object storage, list operands, object dtype, NDualArray out) except -1:
        raise NotImplementedError
    cdef int writing(self, NDualArray target) except -1: raise NotImplementedError
    cdef int writing_at(self, NDualArray x, tuple index) except -1: raise NotImplementedError
    cdef int number(self, Buffer buffer) except -1: raise NotImplementedError
    cdef int assigned(self, NDualArray to, NDualArray source) except -1: raise NotImplementedError
    cdef int gathered(self, NDualArray x, tuple index, NDualArray out) except -1: raise NotImplementedError
    cdef int scattered(self, NDualArray x, tuple index, NDualArray source) except -1: raise NotImplementedError
    cdef Py_ssize_t summed(self, NDualArray x) except -1: raise NotImplementedError
    cdef int summed_below(self, NDualArray x, NDualArray out) except -1: raise NotImplementedError
    cdef int multiplied(self, object a, object b, NDualArray out) except -1: raise NotImplementedError
    cdef int reshaped(self, NDualArray x, NDualArray former) except -1:
        raise NotImplementedError

    cdef int failed(self, object error) except -1: raise NotImplementedError


cdef inline Recorder recorder():
    """That of the level at hand, which records."""
    return running().recorder


cdef inline nd_tape_node* new_node() except NULL:
    if not nd_tape_room(nd_tls.tape):
        raise MemoryError("expected room for one more operation on the tape; got none. Use checkpoint, or arrays")
    nd_tls.tape.count += 1
    return nd_tls.tape.node + nd_tls.tape.count - 1


cdef object number_at(double value, Py_ssize_t node):
    """A number whose node is on the tape already."""
    cdef CoDual s = nd_codual_new(<PyTypeObject*>CoDual)
    s.level = nd_tls.id
    s.v = value
    s.node = node
    return s


cdef object load(NDualArray x, Py_ssize_t voff):
    """A cell of a float64 array, `voff` bytes from its first one, as a number."""
    cdef nd_tape_node* node
    if x.buf.slot < 0:
        recorder().number(x.buf)
    node = new_node()
    node.a = ND_NODE_LOAD
    node.b = <int32_t>x.buf.slot
    node.at = x.voff + voff
    return number_at((<double*>(vptr(x) + voff))[0], nd_tls.tape.count - 1)


cdef int store(NDualArray x, Py_ssize_t voff, double value, Py_ssize_t source) except -1:
    """Write a number into a cell of a float64 array; `source` is its node, ND_NODE_NONE for a constant."""
    cdef nd_tape_node* node
    cdef Py_ssize_t at
    make_writable(x.buf, x.lane, 0, 0)
    at = x.voff + voff
    if x.buf.reader >= 0 and x.buf.low < at + 8 and at < x.buf.high:
        recorder().writing(cell_view(x, voff))
    (<double*>(vptr(x) + voff))[0] = value
    if source == ND_NODE_NONE and not x.buf.traced:
        return 0
    if x.buf.slot < 0:
        recorder().number(x.buf)
    x.buf.traced = True
    node = new_node()
    node.a = ND_NODE_STORE
    node.b = <int32_t>x.buf.slot
    node.at = at
    node.from_ = source
    return 0


cdef double ONE64 = 1
cdef float ONE32 = 1


cdef Row product_row():
    return ROW_MULTIPLY


cdef NDualArray map_slope(Row row, NDualArray x):
    """A row of one contiguous operand whose partial comes with the value, which the entry keeps instead of the operand.

    The sine and cosine of a block are one computation, and a pullback would do it again.
    """
    cdef nd_in operand
    cdef nd_out out
    cdef Py_ssize_t stride = x.itemsize_, size = x.size_
    cdef bint small = stride * size < HELD          # the partial in one block with the value
    cdef NDualArray r = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, 0, small)
    cdef NDualArray slope = None
    if small:
        out.t = r.buf.t
        r.buf.hi = 0
        r.buf.t = NULL
    else:
        slope = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, 0, 0)
        out.t = slope.buf.v
    operand.v = vptr(x)
    operand.vs = &stride
    operand.t = <const char*>&ONE64 if x.itemsize_ == 8 else <const char*>&ONE32
    operand.ts = NOWHERE
    operand.lane = operand.lo = 0
    operand.hi = 1
    out.v = r.buf.v
    out.vs = out.ts = &stride
    out.lane = 0
    run_kernel(row, x.typenum, 1, &operand, &out, 1, &size, 1)
    recorder().sloped(row, x, slope, out.t if small else NULL, r)
    return r


cdef NDualArray cell_view(NDualArray x, Py_ssize_t voff):
    cdef NDualArray y = new_view(x, 0)
    y.voff = y.toff = x.voff + voff
    update_flags(y)
    return y


cdef bint traced(NDualArray x) noexcept:
    """Whether something active was written to the memory of an array of a level that records."""
    cdef Buffer book
    if type(x.device_v) is not NDualArray:
        return x.buf.traced
    book = book_of(x, False)
    return book is not None and book.traced


cdef void trace(NDualArray x) noexcept:
    """Have the memory of an array known as active."""
    if type(x.device_v) is NDualArray:
        book_of(x, True).traced = True
    else:
        x.buf.traced = True


cdef Buffer book_of(NDualArray x, bint make):
    """What the tape of an inner level keeps of the memory of an array, which is that of a value one level down.

    Its `towner` is the shadow; None if nothing is known and `make` does not say otherwise.
    """
    cdef Buffer memory, found
    cdef dict books
    cdef object key, pair
    if x.buf.vowner is not None:     # the array itself has no memory, and remembers where it found this
        return <Buffer>x.buf.vowner
    memory = deepest(x).buf
    books = x.buf.level.recorder.books
    key = <Py_ssize_t><PyObject*>memory
    pair = books.get(key)
    if pair is None and not make:
        return None
    if pair is None:
        found = empty_buffer(x.buf.level)
        books[key] = (memory, found)     # the memory stays, so that its address names no other
    else:
        found = <Buffer>(<tuple>pair)[1]
    x.buf.vowner = found
    return found


cdef NDualArray mirror_base(Py_ssize_t cells, int typenum, Level level, NDualArray like):
    """A row of zeros as an array of a level, whose lanes come with the first dual that is written; where `like` is."""
    cdef NDualArray x
    if like.device_v is not None:
        return device_at(like.storage_.zeros((cells,), cnp.PyArray_DescrFromType(typenum)), like.storage_, level)
    if level.outer is not None:
        return nested_array(mirror_base(cells, typenum, level.outer, like), None if level.recorder is not None
                            else blank_at(level, (cells,), cnp.PyArray_DescrFromType(typenum)), level)
    x = new_window(level, typenum, 1, &cells, 0, 0)
    memset(x.buf.v, 0, x.buf.vbytes)
    return x


cdef NDualArray mirror(NDualArray base, NDualArray x):
    """The part of a base that lies in it as a raw array lies in its buffer."""
    return mirrored(base, x.ndim_, x.shape_, x.vs, x.voff, x.typenum, x.itemsize_)


cdef NDualArray mirrored(NDualArray base, int ndim, const Py_ssize_t* shape, const Py_ssize_t* strides,
                         Py_ssize_t offset, int typenum, int item):
    cdef NDualArray y, t = None
    cdef Py_ssize_t lane_shape[64]
    cdef Py_ssize_t lane_strides[64]
    cdef int i
    if type(base.device_v) is NDualArray:
        if type(base.device_t) is NDualArray:
            lane_shape[0] = base.buf.level.width
            lane_strides[0] = base.size_ * base.itemsize_
            for i in range(ndim):
                lane_shape[i + 1] = shape[i]
                lane_strides[i + 1] = strides[i]
            t = mirrored(<NDualArray>base.device_t, ndim + 1, lane_shape, lane_strides, offset, typenum, item)
        return nested_array(mirrored(<NDualArray>base.device_v, ndim, shape, strides, offset, typenum, item), t,
                            base.buf.level)
    if base.device_v is not None:
        y = device_object(base.storage_.mirror(
            base.device_v, offset, tuple([shape[i] for i in range(ndim)]), tuple([strides[i] for i in range(ndim)]),
            cnp.PyArray_DescrFromType(typenum)), base.storage_, base.buf)
        y.flags_ &= ~NREADONLY
        return y
    y = new_view(base, ndim)
    y.voff = base.voff + offset
    y.toff = base.toff + offset
    y.typenum = typenum
    y.itemsize_ = item
    y.flags_ = 0
    for i in range(ndim):
        y.shape_[i] = shape[i]
        y.vs[i] = y.ts[i] = strides[i]
    update_flags(y)
    return y


cdef Row row_named(str name):
    return <Row>_rows[name]


cdef bint stretched(NDualArray x) noexcept:
    """Whether several cells are one place in memory, as broadcasting makes them."""
    cdef NDualArray memory = deepest(x)
    cdef int i
    for i in range(memory.ndim_ if memory.device_v is None else 0):
        if memory.vs[i] == 0 and memory.shape_[i] > 1:
            return True
    return False


cdef NDualArray view_of(NDualArray x, cnp.ndarray v):
    """The dual whose value `v` is: another view of the memory of x, a raw array of a level that records."""
    cdef NDualArray y = new_view(x, cnp.PyArray_NDIM(v))
    cdef int i
    y.voff = y.toff = cnp.PyArray_BYTES(v) - x.buf.v
    y.typenum = cnp.PyArray_TYPE(v)
    y.itemsize_ = cnp.PyArray_ITEMSIZE(v)
    for i in range(y.ndim_):
        y.shape_[i] = cnp.PyArray_DIM(v, i)
        y.vs[i] = y.ts[i] = cnp.PyArray_STRIDE(v, i)
        if y.vs[i] == 0 and y.shape_[i] > 1:
            y.flags_ |= NREADONLY
    if not cnp.PyArray_ISWRITEABLE(v):
        y.flags_ |= NREADONLY
    update_flags(y)
    return y


cdef NDualArray same_cells_of(NDualArray x, object value):
    """The array whose value is a view of that of x, None if it is none: x records, and a number has no memory."""
    if x.flags_ & NSCALAR:
        return None
    if x.device_v is None:
        if isinstance(value, np_ndarray) and np.may_share_memory(value, values(x)):
            return view_of(x, <cnp.ndarray>value)
    elif type(x.device_v) is not NDualArray:
        return device_view(x, value) if in_device_memory(x, value) else None
    elif same_memory(value, x.device_v):
        return nested_array(value, None, x.buf.level)
    return None


cdef NDualArray derived(NDualArray x, object value):
    """The array whose value NumPy made of that of x without computing: a view, or a copy in another type or order."""
    cdef NDualArray y = same_cells_of(x, value) if type(x.device_v) is not NDualArray else None
    if y is not None:
        return y
    y = untraced(value, x.buf.level)
    if traced(x):
        x.buf.level.recorder.assigned(y, x)
    return y


def lift_traced(value, Level level not None, bint writes=True):
    """An argument of a call as a dual that records: read where it lies, copied before the first write.

    On a device it is copied at once if f `writes` into what it is handed.
    """
    cdef NDualArray x
    if level.outer is not None:
        if is_dual_object(value):
            value = copy_laid(as_dual_array(value))
        else:
            value = read_as_is(value)
        x = untraced(value, level)
        trace(x)
        if x.ndim_ == 0:
            x.flags_ |= NSCALAR
        return x
    turn(level)
    if PyFloat_Check(value) and nd_tls.scalar != NULL:
        return noted(PyFloat_AS_DOUBLE(value), ND_NODE_NONE, 0, ND_NODE_NONE, 0)
    if cnp.PyArray_CheckExact(value) and cnp.PyArray_ISCARRAY(<cnp.ndarray>value) \
            and cnp.PyArray_NDIM(<cnp.ndarray>value) \
            and carries(cnp.PyArray_TYPE(<cnp.ndarray>value)):
        x = lazy_array(<cnp.ndarray>value, level, True)
        x.buf.traced = True
        return x
    if not isinstance(value, (np.ndarray, np.generic, float, int, complex)):
        storage = storage_of(value)
        if storage is not None:
            x = device_untraced(storage.copy(value) if writes or level.recorder.owns else value, storage, level)
            x.buf.borrowed = not writes
            x.buf.traced = True
            return x
    value = np.asarray(value)
    check_dtype(value.dtype)
    if value.ndim == 0:
        x = untraced(value.copy(), level)
        trace(x)
        if x.typenum == cnp.NPY_DOUBLE and nd_tls.scalar != NULL:
            return unbox(x)
        x.flags_ |= NSCALAR
        return x
    x = plain_at(read_as_is(value), level)
    x.buf.traced = True
    return x


cdef nd_state* state() noexcept:
    """What this thread knows of its levels."""
    return &nd_tls


cdef void give_back(void* memory, int size_class) noexcept:
    nd_pool_free(memory, size_class)


cdef NDualArray snapshot(NDualArray x):
    """A copy of the values of an array, in its layout, that nothing overwrites."""
    cdef NDualArray y
    if x.device_v is not None:
        if type(x.device_v) is not NDualArray:
            return device_untraced(x.storage_.copy(x.device_v), x.storage_, x.buf.level)
        return untraced(copy_array(<NDualArray>x.device_v, "K"), x.buf.level)
    y = like(x, False)
    nd_copy(x.itemsize_, x.ndim_, x.shape_, vptr(y), y.vs, vptr(x), x.vs)
    return y


cdef NDualArray twin(NDualArray x):
    """Another view of the shadow alone: where only such are left, the values of the buffer are given back."""
    cdef NDualArray y = array_object()
    cdef int i
    set_dims(y, x.ndim_)
    for i in range(x.ndim_):
        y.shape_[i] = x.shape_[i]
        y.vs[i] = y.ts[i] = x.vs[i]
    y.buf = x.buf
    y.voff = y.toff = x.voff
    y.lane = x.lane
    y.size_ = x.size_
    y.typenum = x.typenum
    y.itemsize_ = x.itemsize_
    y.flags_ = x.flags_ | NTWIN
    y.buf.held += 1
    return y


cdef const nd_cells* cell_loops(int itemsize) noexcept:
    """The loops over real cells of that size for this processor."""
    return &isa.cells[ND_F64 if itemsize == 8 else ND_F32]


cdef int run_pull(Row row, int typenum, int nin, const char** x, const Py_ssize_t** xs, const char* y,
                  const Py_ssize_t* ys, const char* w, const Py_ssize_t* ws, const nd_shadow* to, int ndim,
                  const Py_ssize_t* shape) except -1:
    """The pullback of a row; see nd_pull."""
    cdef nd_in ins[3]
    cdef int i
    for i in range(nin):
        ins[i].v = x[i]
        ins[i].vs = ins[i].ts = xs[i]
        ins[i].t = NULL
        ins[i].lane = ins[i].lo = ins[i].hi = 0
    if nd_pull(isa, row.index, kernel_dtype(typenum), nin, ins, y, ys, w, ws, to, ndim, shape) != 0:
        raise SystemError(f"the pullback of {row.name} refused its arguments")
    return raised()


def fresh(value, Level level not None):
    """A value one level down as an array of a level that records, of which nothing is known yet."""
    return untraced(value if hasattr(value, "dtype") else np.asarray(value), level)


def finished(NDualArray x not None, bint number):
    """A result as the user gets it: a number where NumPy gives one."""
    if number and x.ndim_ == 0:
        if x.buf.level.outer is not None:
            x.flags_ |= NSCALAR
            return x
        return unbox(x)
    return x


def lowered_view(NDualArray x not None):
    """The value of an array one level down, in the same memory; of a number a copy, which does not change under it."""
    value = lower_array(x)
    return value.copy() if x.flags_ & NSCALAR else value


def view_among_lower(NDualArray x not None, value):
    """The array whose value is a view of that of x, None if it is none; of several arrays some may be empty."""
    if isinstance(value, (tuple, list)):
        parts = [view_among_lower(x, part) if part.size else untraced(part, x.buf.level) for part in value]
        return None if any([part is None for part in parts]) else type(value)(parts)
    return same_cells_of(x, value)


def carried(obj):
    """What a run takes from an output: its lanes, or in a level that records the dual itself."""
    cdef NDualArray x = as_dual_array(obj) if type(obj) is NDualArray else None
    if x is None:
        check_scalar(obj)
        return result_lanes(obj) if nd_tls.tape == NULL else obj
    if x.buf.level.recorder is None:
        return result_lanes(x)
    return obj if x.flags_ & NSCALAR else getitem(x, Ellipsis)
