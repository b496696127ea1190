# Buffers: the memory of a level's values and lanes. A view is a buffer plus a geometry, so copying a borrowed buffer
# before its first write moves every view of it at once. A buffer keeps only a window of lanes: outside of it every
# tangent is zero. A model of ten parameters has intermediates that know one of them each, and does a tenth of the work.

@cython.no_gc
cdef class Buffer:
    pass


cdef nd_freelist _buffers
cdef destructor _free_buffer = (<PyTypeObject*>Buffer).tp_dealloc


cdef Buffer empty_buffer(Level level):
    """A buffer of no memory yet."""
    cdef PyObject* o = nd_pop(&_buffers)
    cdef Buffer buffer
    if o == NULL:
        buffer = Buffer.__new__(Buffer)
    else:
        buffer = <Buffer>o
        Py_DECREF_POINTER(o)
    buffer.level = level
    buffer.memory = NULL
    buffer.copy = NULL
    buffer.lanes = NULL
    buffer.borrowed = False
    buffer.blank = False
    buffer.seeded = False
    buffer.uniform = False
    buffer.multiple = False
    buffer.made = False
    buffer.name = buffer.root = 0
    buffer.scaled = False
    buffer.lent = False
    buffer.traced = False
    buffer.slot = -1
    buffer.sweep = 0
    buffer.reader = -1
    buffer.held = 0
    buffer.lo = 0
    buffer.hi = level.width if level.recorder is None else 0
    return buffer


cdef void dealloc_buffer(PyObject* o) noexcept:
    # Casts of o must stay borrowed: it is dead, and one more reference taken and dropped would end it again.
    if (<Buffer>o).memory != NULL:
        nd_pool_free((<Buffer>o).memory, (<Buffer>o).memory_class)
    if (<Buffer>o).copy != NULL:
        nd_pool_free((<Buffer>o).copy, (<Buffer>o).copy_class)
    if (<Buffer>o).lanes != NULL:
        nd_pool_free((<Buffer>o).lanes, (<Buffer>o).lanes_class)
    (<Buffer>o).level = None
    (<Buffer>o).vowner = None
    (<Buffer>o).towner = None
    if not nd_push(&_buffers, o):
        _free_buffer(o)


(<PyTypeObject*>Buffer).tp_dealloc = dealloc_buffer


cdef void* pooled(Py_ssize_t nbytes, int* size_class) except NULL:
    cdef void* memory = nd_pool_alloc(nbytes, size_class)
    if memory == NULL:
        raise MemoryError(
            f"expected room for {nbytes} bytes of values and lanes; got none. Use a smaller chunk_size"
        )
    return memory


cdef Buffer new_buffer(Level level, Py_ssize_t nbytes, Py_ssize_t lo, Py_ssize_t hi):
    """Pooled memory for values and lanes lo..hi of `nbytes` each in one allocation, the lanes on a cache line."""
    cdef Buffer buffer = empty_buffer(level)
    cdef Py_ssize_t start = (nbytes + 63) & ~63
    buffer.memory = pooled(start + nbytes * (hi - lo), &buffer.memory_class)
    buffer.v = <char*>buffer.memory
    buffer.t = buffer.v + start
    buffer.vbytes = nbytes
    buffer.one = nbytes
    buffer.lo = lo
    buffer.hi = hi
    return buffer


cdef void give_back_values(PyObject* o) noexcept:
    """Free the values of a buffer, which nobody can read any more; the shadow stays."""
    if (<Buffer>o).memory != NULL:
        nd_pool_free((<Buffer>o).memory, (<Buffer>o).memory_class)
        (<Buffer>o).memory = NULL
    if (<Buffer>o).copy != NULL:
        nd_pool_free((<Buffer>o).copy, (<Buffer>o).copy_class)
        (<Buffer>o).copy = NULL
    (<Buffer>o).vowner = None


cdef int spread(Buffer buffer, Py_ssize_t lane) except -1:
    """Give every cell of uniform lanes its number, `lane` bytes from one lane to the next."""
    cdef Py_ssize_t rows = buffer.hi - buffer.lo, k, i
    cdef int size_class
    cdef char* room
    cdef char* cell
    if buffer.scaled:
        return work_out(buffer)
    buffer.uniform = False
    if rows == 0:
        return 0
    room = <char*>pooled(lane * (rows - 1) + buffer.one, &size_class)
    for k in range(rows):
        cell = room + k * lane
        if buffer.item == 8:
            for i in range(buffer.one // 8):
                (<double*>cell)[i] = (<double*>buffer.t)[k]
        else:
            for i in range(buffer.one // 4):
                (<float*>cell)[i] = (<float*>buffer.t)[k]
    if buffer.lanes != NULL:
        nd_pool_free(buffer.lanes, buffer.lanes_class)
    buffer.lanes = room
    buffer.lanes_class = size_class
    buffer.t = room
    return 0


cdef int check_unshared(Buffer buffer) except -1:
    """Refuse the first write into an argument if another one lies in the same memory: it would not see the write."""
    cdef Level level = innermost(), mine = None
    cdef Buffer memory
    if buffer.vowner is None:
        return 0
    if buffer.vowner is SHARED:
        raise shared_arguments()
    while level is not None:
        for other in level.inputs or ():
            if type(other) is NDualArray:
                memory = deepest(<NDualArray>other).buf
                if memory is buffer:
                    mine = level
                    continue
                other = memory.vowner
            if isinstance(other, np.ndarray) and np.may_share_memory(other, buffer.vowner, max_work=10000):
                raise shared_arguments()
        level = level.outer
    if mine is not None:
        if mine.moved is None:
            mine.moved = []
        mine.moved.append(buffer.vowner)
    return 0


cdef int check_original(object obj) except -1:
    """Refuse an array of the caller that is an argument into which f has written: it does not have what was written."""
    cdef Level level = innermost()
    if not isinstance(obj, np_ndarray):
        return 0
    while level is not None:
        for other in level.moved or ():
            if np.may_share_memory(obj, other, max_work=10000):
                raise AliasError(
                    "expected arguments that f writes into to be read through the argument only; got the caller's own "
                    f"array of the same memory, which the write does not reach{where()}. Use the argument instead, "
                    "or write into a copy, x.copy()"
                )
        level = level.outer
    return 0


cdef int check_originals(object objs) except -1:
    """The same for nested arguments."""
    for obj in (objs.values() if type(objs) is dict else objs):
        if type(obj) is tuple or type(obj) is list or type(obj) is dict:
            check_originals(obj)
        elif type(obj) is np_ndarray:
            check_original(obj)
    return 0


cdef inline bint any_moved() noexcept:
    """Whether f has written into an argument of the innermost derivative or of one around it."""
    cdef Level level = innermost()
    while level is not None:
        if level.moved is not None:
            return True
        level = level.outer
    return False


cdef object SHARED = object()        # owns the copy of an argument that shares memory with another argument


cdef object shared_arguments():
    return AliasError(
        f"expected arguments that share no memory, since f writes into one of them; got two that do{where()}. "
        "Pass a copy of one, x.copy()"
    )


cdef Py_ssize_t _names = 0


cdef Py_ssize_t name_of(Buffer buffer) noexcept:
    """The name of the values that a buffer has until the next write."""
    global _names
    if buffer.name == 0:
        _names += 1
        buffer.name = _names
    return buffer.name


cdef int make_writable(Buffer buffer, Py_ssize_t lane, Py_ssize_t lo, Py_ssize_t hi) except -1:
    """Own what is borrowed, and have memory for lanes lo..hi, `lane` bytes apart.

    Offsets and strides of all views stay valid: extents are copied as they lie.
    """
    cdef void* room
    cdef int size_class
    cdef Py_ssize_t old = buffer.hi - buffer.lo, step
    buffer.blank = False
    buffer.name = buffer.root = 0
    if buffer.uniform or buffer.scaled:
        spread(buffer, lane)
    if lo >= hi:
        lo = buffer.lo
        hi = buffer.hi
    elif old > 0:
        lo = min(lo, buffer.lo)
        hi = max(hi, buffer.hi)
    if buffer.borrowed:
        check_unshared(buffer)
        own_copy(buffer)
    elif lo == buffer.lo and hi == buffer.hi and not buffer.lent:
        return 0
    if hi > lo:
        # Only a buffer of all lanes can have them in another order than one after the other (lane < 0 too).
        step = lane if lane >= 0 else -lane
        room = pooled(step * (hi - lo - 1) + buffer.one, &size_class)
        if hi - lo != old:
            memset(room, 0, step * (hi - lo - 1) + buffer.one)
        if old > 0:
            memcpy(<char*>room + (buffer.lo - lo) * step, buffer.t, step * (old - 1) + buffer.one)
        if buffer.lanes != NULL:
            nd_pool_free(buffer.lanes, buffer.lanes_class)
        buffer.lanes = room
        buffer.lanes_class = size_class
        buffer.t = <char*>room
    buffer.lo = lo
    buffer.hi = hi
    buffer.borrowed = False
    buffer.seeded = False
    if buffer.lent:
        take_back(buffer)
    return 0


cdef int align_values(Buffer buffer) except -1:
    """Move borrowed values to a cache line of their own.

    NumPy's memory starts anywhere at 16 bytes, and every vector load that crosses a line costs two: 30 per cent of a
    product of four lanes, where the copy costs two.
    """
    buffer.memory = pooled(buffer.vbytes, &buffer.memory_class)
    memcpy(buffer.memory, buffer.v, buffer.vbytes)
    buffer.v = <char*>buffer.memory
    return 0


cdef int own_values(Buffer buffer) except -1:
    """Have values that nobody else writes to; the level of the buffer has ended."""
    if buffer.borrowed:
        own_copy(buffer)
        buffer.borrowed = False
    return 0


cdef Py_ssize_t live() noexcept:
    """Bytes of the pool that are in use."""
    return nd_pool.live


cdef int own_copy(Buffer buffer) except -1:
    buffer.copy = pooled(buffer.vbytes, &buffer.copy_class)
    memcpy(buffer.copy, buffer.v, buffer.vbytes)
    buffer.v = <char*>buffer.copy
    return 0


cdef object _numpy_memory = PyCapsule_New(nd_memory_address, "mem_handler", NULL)


def pool_numpy():
    """Let NumPy take its arrays from the pool until the running level ends.

    Rules ask for it, not the level: it costs 0.2 µs, which is a fifth of the cheapest derivative.
    """
    cdef Level level = innermost()
    if level is not None and level.memory is None:
        level.memory = PyDataMem_SetHandler(_numpy_memory)


def pooled_zeros(shape, dtype):
    """An array of zeros in pooled memory, on a cache line of its own."""
    former = PyDataMem_SetHandler(_numpy_memory)
    try:
        return np.zeros(shape, dtype)
    finally:
        PyDataMem_SetHandler(former)


def pool_info():
    """Bytes that the memory pool holds free, has in use, had in use at most, and may hold."""
    return {"held": nd_pool.held, "live": nd_pool.live, "peak": nd_pool.peak, "limit": nd_pool.limit}


def set_pool_limit(Py_ssize_t limit):
    """Cap the bytes that the pool keeps for reuse; what is over the cap goes back to the system."""
    if limit < 0:
        raise ValueError(f"pool_limit expects a number of bytes >= 0; got {limit}")
    nd_pool.limit = limit
    nd_pool_trim(limit)
