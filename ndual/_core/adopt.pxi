# How arrays become the memory of duals: adopted (fresh from a rule) or borrowed (the caller's).

cdef tuple arrays_of(NDualArray x):
    has_lanes(x)
    if x.device_v is not None:
        return x.device_v, device_lanes(x) if on_device(x) else x.device_t
    return values(x), lanes_of(x)


cdef tuple views_of(NDualArray x):
    """The value, the lanes that are in memory (at least one), and the number of the first, as views."""
    has_lanes(x)
    if x.device_v is not None:
        return x.device_v, device_lanes(x) if on_device(x) else x.device_t, 0
    if x.buf.lo >= x.buf.hi:
        make_writable(x.buf, x.lane, 0, 1)
    return values(x), lane_range(x, x.buf.lo, x.buf.hi), x.buf.lo


cdef NDualArray adopt_array(object value, object tangent, Level level, NDualArray like=None, Py_ssize_t lo=-1):
    """A value and its lanes as a dual array without copying; a view of like's memory stays a view of its buffer.

    With `lo`, tangent holds only the lanes from that number on.
    """
    cdef NDualArray x
    cdef cnp.ndarray v, t
    cdef bint shared, fixed
    if level.outer is not None:
        return adopt_nested(value, tangent, level, like, lo)
    if not isinstance(value, np.ndarray):
        storage = storage_of(value)
        if storage is not None:
            return device_adopt(value, tangent, storage, level, like, lo)
        value = np.asarray(value)
        fixed = False
    else:
        fixed = not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>value)
    check_dtype(value.dtype)
    tangent = np.asarray(tangent)
    if tangent.dtype != value.dtype:
        tangent = tangent.astype(value.dtype)
    rows = level.width if lo < 0 else tangent.shape[0]
    lo = max(lo, 0)
    if tangent.shape != (rows, *value.shape):
        raise ValueError(
            f"expected lanes of shape {(level.width, *value.shape)} beside a value of shape {value.shape}; "
            f"got {tangent.shape}. Lanes come first"
        )
    shared = like is not None and like.device_v is None and np.may_share_memory(value, values(like))
    if shared and like.flags_ & NSCALAR:       # a number does not change under the arrays made of it
        value = value.copy()
        tangent = tangent.copy()
        shared = False
    if shared and tangent.size and not np.may_share_memory(tangent, lane_range(like, like.buf.lo, like.buf.hi)):
        raise AliasError(
            "expected the lanes of a view to be the same view; got a copy of them. "
            "Copy the array first: x.copy()"
        )
    if not shared:
        value = owned(value)
        tangent = owned(tangent if like is None else apart(tangent, like))
        tangent = same_layout(value, tangent)
        if rows < level.width and not lane_major(tangent):
            tangent = np.ascontiguousarray(tangent)
    v = value
    t = tangent
    x = array_object()
    set_dims(x, v.ndim)
    x.typenum = value.dtype.num
    x.itemsize_ = value.dtype.itemsize
    for i in range(v.ndim):
        x.shape_[i] = cnp.PyArray_DIM(v, i)
        x.vs[i] = cnp.PyArray_STRIDE(v, i)
        x.ts[i] = cnp.PyArray_STRIDE(t, i + 1)
    x.lane = cnp.PyArray_STRIDE(t, 0)
    if shared:
        x.buf = like.buf
        x.voff = cnp.PyArray_BYTES(v) - like.buf.v
        x.lane = like.lane
        x.toff = cnp.PyArray_BYTES(t) - like.buf.t - (lo - like.buf.lo) * x.lane
    else:
        x.buf = foreign_buffer(v, t, level, &x.voff, &x.toff)
        x.buf.lo = lo
        x.buf.hi = lo + rows
        if rows == 0:            # NumPy gives no strides to what has no cells, and a write will want lanes
            x.toff = x.voff
            for i in range(v.ndim):
                x.ts[i] = x.vs[i]
        x.buf.one = lane_extent(x)
        if rows < 2:
            x.lane = x.buf.one
    if fixed:
        x.flags_ |= NREADONLY
    update_flags(x)
    return x


cdef NDualArray untraced(object value, Level level):
    """A fresh value as an array of a level that records, of which nothing is known yet."""
    cdef NDualArray v, x
    cdef cnp.ndarray a
    cdef int i
    if level.outer is not None:
        v = at_level(value, level.outer)
        if not stretched(v):
            return nested_array(v, None, level)
        x = nested_array(copy_array(v, "K"), None, level)      # each cell has a cotangent of its own
        x.flags_ |= v.flags_ & NREADONLY
        return x
    if not isinstance(value, (np.ndarray, np.generic)):
        storage = storage_of(value)
        if storage is not None:
            return device_untraced(value, storage, level)
    value = np.asarray(value)
    check_dtype(value.dtype)
    a = owned(value)
    x = array_object()
    x.buf = empty_buffer(level)
    x.buf.vowner = a
    extent(a, &x.buf.v, &x.buf.vbytes)
    x.voff = x.toff = cnp.PyArray_BYTES(a) - x.buf.v
    x.typenum = cnp.PyArray_TYPE(a)
    x.itemsize_ = cnp.PyArray_ITEMSIZE(a)
    set_dims(x, cnp.PyArray_NDIM(a))
    for i in range(x.ndim_):
        x.shape_[i] = cnp.PyArray_DIM(a, i)
        x.vs[i] = x.ts[i] = cnp.PyArray_STRIDE(a, i)
    x.lane = x.buf.one = lane_extent(x)
    if not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>value):
        x.flags_ |= NREADONLY
    update_flags(x)
    return x


cdef object apart(object tangent, NDualArray x):
    """Lanes that are no view of those of x: NumPy copied the value, and a write must not reach x."""
    cdef char* low
    cdef char* own
    cdef Py_ssize_t nbytes, owned_bytes
    if x.device_v is None and isinstance(tangent, np.ndarray) and x.buf.hi > x.buf.lo:
        extent(tangent, &low, &nbytes)
        extent(lane_range(x, x.buf.lo, x.buf.hi), &own, &owned_bytes)
        if low < own + owned_bytes and own < low + nbytes:
            return tangent.copy()
    return tangent


cdef object owned(object array):
    """An array that may be written to cell by cell: copied if it is read-only, misaligned or has shared cells."""
    if cnp.PyArray_ISCARRAY(<cnp.ndarray>array):
        return array
    if not cnp.PyArray_ISBEHAVED(<cnp.ndarray>array):
        return array.copy()
    for n, stride in zip(array.shape, array.strides):
        if stride == 0 and n > 1:
            return array.copy()
    return array


cdef Py_ssize_t lane_extent(NDualArray x) noexcept:
    """The bytes from the lowest to the end of the highest cell of one lane."""
    cdef Py_ssize_t span = x.itemsize_
    cdef int i
    for i in range(x.ndim_):
        if x.shape_[i] == 0:
            return 0
        span += abs(x.ts[i]) * (x.shape_[i] - 1)
    return span


cdef Buffer foreign_buffer(cnp.ndarray v, cnp.ndarray t, Level level, Py_ssize_t* voff, Py_ssize_t* toff):
    cdef Buffer buffer = empty_buffer(level)
    buffer.vowner = v
    buffer.towner = t
    extent(v, &buffer.v, &buffer.vbytes)
    extent(t, &buffer.t, &buffer.one)
    voff[0] = cnp.PyArray_BYTES(v) - buffer.v
    toff[0] = cnp.PyArray_BYTES(t) - buffer.t
    return buffer


cdef void extent(cnp.ndarray a, char** low, Py_ssize_t* nbytes) noexcept:
    """The lowest address that the array touches, and the bytes from there to the end of its highest cell."""
    cdef char* start = cnp.PyArray_BYTES(a)
    cdef Py_ssize_t span = cnp.PyArray_ITEMSIZE(a), step
    cdef int i
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIM(a, i) == 0:
            low[0] = start
            nbytes[0] = 0
            return
        step = cnp.PyArray_STRIDE(a, i) * (cnp.PyArray_DIM(a, i) - 1)
        if step < 0:
            start += step
            span -= step
        else:
            span += step
    low[0] = start
    nbytes[0] = span


cdef bint lane_major(cnp.ndarray t) noexcept:
    """Whether each lane ends before the next one starts, so that lanes can be added at both ends."""
    cdef char* low
    cdef Py_ssize_t nbytes
    cdef Py_ssize_t rows = cnp.PyArray_DIM(t, 0)
    if rows < 2:
        return True
    extent(t, &low, &nbytes)
    return cnp.PyArray_STRIDE(t, 0) >= nbytes - cnp.PyArray_STRIDE(t, 0) * (rows - 1)


cdef object adopt(object value, object tangent, Level level, NDualArray like=None, Py_ssize_t lo=-1):
    """As adopt_array, but a scalar becomes a scalar; NumPy's 0-d arrays (np.where, np.squeeze) stay arrays."""
    x = adopt_array(value, tangent, level, like, lo)
    return x if isinstance(value, np.ndarray) else finish(x)


cdef object borrow(object value, object tangent, Level level):
    """The caller's arrays as a dual array: read where they lie, copied before the first write."""
    cdef NDualArray x
    if level.outer is not None:
        return borrow_nested(value, tangent, level)
    if not isinstance(value, (np.ndarray, np.generic, float, int, complex)):
        storage = storage_of(value)
        if storage is not None:
            return device_adopt(storage.copy(value), storage.copy(storage.take(tangent)), storage, level, None, -1)
    value = np.asarray(value)
    check_dtype(value.dtype)
    if value.ndim == 0:
        return unbox(adopt_array(value.copy(), np.array(tangent, value.dtype), level))
    if value is not owned(value) and value.flags.writeable:
        value = owned(value)
    elif not cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>value) or 0 in value.strides:
        value = value.copy()
    tangent = same_layout(value, np.asarray(tangent, value.dtype))
    x = adopt_readonly(value, tangent, level)
    x.buf.borrowed = True
    return x


cdef object same_layout(object value, object tangent):
    """Lanes in the axis order and direction of the value: whatever is a view of the value must be one of the lanes."""
    if cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray>value) and cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray>tangent):
        return tangent
    backwards = tuple([slice(None, None, -1 if stride < 0 else 1) for stride in value.strides])
    if value.strides == tangent.strides[1:] or (value.ndim == 1 and value.strides[0] >= 0 and tangent.strides[1] >= 0):
        return owned(tangent)
    order = sorted(range(value.ndim), key=lambda i: (-abs(value.strides[i]), i))
    room = np.empty((tangent.shape[0], *[value.shape[i] for i in order]), value.dtype)
    room = room.transpose([0] + [order.index(i) + 1 for i in range(value.ndim)])[(slice(None), *backwards)]
    room[...] = tangent
    return room


cdef NDualArray adopt_readonly(cnp.ndarray v, cnp.ndarray t, Level level):
    cdef NDualArray x = array_object()
    cdef int i
    set_dims(x, v.ndim)
    x.typenum = cnp.PyArray_TYPE(v)
    x.itemsize_ = cnp.PyArray_ITEMSIZE(v)
    for i in range(v.ndim):
        x.shape_[i] = cnp.PyArray_DIM(v, i)
        x.vs[i] = cnp.PyArray_STRIDE(v, i)
        x.ts[i] = cnp.PyArray_STRIDE(t, i + 1)
    x.lane = cnp.PyArray_STRIDE(t, 0)
    x.buf = foreign_buffer(v, t, level, &x.voff, &x.toff)
    x.buf.one = lane_extent(x)
    if level.width == 1:
        x.lane = x.buf.one
    update_flags(x)
    return x
