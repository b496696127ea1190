# Where arrays lie in their buffers, what of them meets, and what entries hold of them.


cdef void extent_of(NDualArray x, Py_ssize_t* low, Py_ssize_t* high) noexcept:
    """The bytes of its buffer that a raw array lies in."""
    cdef int i
    cdef Py_ssize_t step
    low[0] = high[0] = x.voff
    for i in range(x.ndim_):
        step = x.vs[i] * (x.shape_[i] - 1)
        if step < 0:
            low[0] += step
        else:
            high[0] += step
    high[0] += x.itemsize_


cdef bint meets(NDualArray a, NDualArray b) except -1:
    """Whether two raw arrays of one buffer have a cell in common."""
    cdef Py_ssize_t low, high, low_b, high_b
    extent_of(a, &low, &high)
    extent_of(b, &low_b, &high_b)
    if high <= low_b or high_b <= low or a.size_ == 0 or b.size_ == 0:
        return False
    if a.flags_ & NCONTIGUOUS and b.flags_ & NCONTIGUOUS:
        return True
    try:
        return np.shares_memory(values(a), values(b), max_work=10000)
    except np.exceptions.TooHardError:
        return True


cdef object marked_cells(NDualArray x, tuple index):
    """Which cells of its buffer a write to x[index] reaches; None if it is not known."""
    if x.buf.vbytes % x.itemsize_ or x.voff % x.itemsize_ or x.device_v is not None:
        return None
    marks = np.zeros(x.buf.vbytes // x.itemsize_, bool)
    marks_of(marks, x)[index] = True
    return marks


cdef object marks_of(object marks, NDualArray x):
    """The marks of the cells of an array over those of its buffer."""
    return np.ndarray(shape_of(x), bool, marks, x.voff // x.itemsize_,
                      tuple([x.vs[i] // x.itemsize_ for i in range(x.ndim_)]))


cdef bint marks_any(object marks, NDualArray x, int itemsize) except -1:
    """Whether a cell of an array is marked; true where that is not known."""
    if x.itemsize_ != itemsize or x.voff % itemsize:
        return True
    return x.size_ > 0 and marks_of(marks, x).any()    # an empty view may lie behind the last cell


cdef NDualArray saved(Entry entry, int place):
    cdef object obj
    if type(entry) is RuleEntry:
        obj = (<RuleEntry>entry).saved[place] if (<RuleEntry>entry).saved is not None else None
    elif type(entry) is FormEntry:
        obj = (<FormEntry>entry).operands[place]
    else:
        obj = entry.s0 if place == 0 else entry.s1 if place == 1 else entry.s2 if place == 2 else entry.s3
    return <NDualArray>obj if type(obj) is NDualArray else None


cdef int save(Entry entry, int place, object value) except -1:
    if type(entry) is RuleEntry:
        (<RuleEntry>entry).saved[place] = value
    elif type(entry) is FormEntry:
        (<FormEntry>entry).operands[place] = value
    elif place == 0:
        entry.s0 = value
    elif place == 1:
        entry.s1 = value
    elif place == 2:
        entry.s2 = value
    else:
        entry.s3 = value
    return 0


cdef object copied_index(tuple index):
    """An index that later writes do not change."""
    return tuple([item.copy() if hasattr(item, "strides") else np.array(item) if isinstance(item, (list, tuple))
                  else item for item in index])


cdef object copied_cells(NDualArray to, NDualArray source):
    """The cells that NumPy's own copy takes from overlapping memory, where these are not simply those of the source."""
    cdef object numbers, target, plain
    if source.itemsize_ != to.itemsize_ or source.buf.vbytes % source.itemsize_ or same_view(to, source):
        return None
    numbers = cell_numbers(source)
    plain = np.broadcast_to(numbers, shape_of(to)).copy()
    target = numbers_beside(numbers, to)
    target[...] = numbers
    return None if np.array_equal(target, plain) else target.copy()
