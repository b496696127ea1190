# Shadows of arrays on a device: a row of cells there, laid out as the buffer of the values is, in its `towner`. A
# cotangent that comes first and covers the buffer becomes the shadow as it is; `item` is then 1 if something else may
# hold it, and it is copied before a change.

cdef object device_cells(NDualArray x):
    """The part of the shadow that belongs to an array."""
    cdef object shape = shape_of(x)
    if x.buf.towner.shape == shape and one_to_one(x) and x.flags_ & NCONTIGUOUS:
        return x.buf.towner
    if not x.buf.towner.flags.c_contiguous:
        x.buf.towner = x.storage_.copy(x.buf.towner)
        x.buf.item = 0
    return x.storage_.mirror(x.buf.towner, x.voff, shape, tuple([x.vs[i] for i in range(x.ndim_)]),
                             cnp.PyArray_DescrFromType(x.typenum))


cdef object device_shadow(NDualArray x, Tape tape):
    """The shadow of an array on a device as one that may be written to; of zeros if there was none."""
    cdef Buffer buf = x.buf
    if buf.sweep != tape.sweep or buf.towner is None:
        buf.towner = x.storage_.zeros((-(-buf.vbytes // x.itemsize_),), cnp.PyArray_DescrFromType(x.typenum))
        buf.sweep = tape.sweep
        buf.item = 0
    elif buf.item:
        buf.towner = x.storage_.copy(buf.towner)
        buf.item = 0
    return device_cells(x)


cdef int add_device(NDualArray x, Tape tape, object g, bint alone=False) except -1:
    """As add_array, on a device; `alone` says that nothing else holds `g`."""
    cdef Buffer buf = x.buf
    cdef object t
    cdef object dtype = cnp.PyArray_DescrFromType(x.typenum)
    cdef bint whole = one_to_one(x) and x.flags_ & NCONTIGUOUS
    cdef bint fresh = buf.sweep != tape.sweep or buf.towner is None
    if not hasattr(g, "dtype"):
        g = np.float64(g)
    if not x.storage_.owns(g) and (g.ndim or g.dtype.kind == "c"):
        g = x.storage_.take(g)
    g = fitted(x, g)
    if whole and x.storage_.owns(g) and g.shape == shape_of(x) and g.dtype == dtype:
        if fresh:                    # one that is stretched too
            buf.towner = g
            buf.sweep = tape.sweep
            buf.item = not alone or not g.flags.c_contiguous
            return 0
        if buf.item:
            buf.towner = device_cells(x) + g
            buf.item = 0
            return 0
    if fresh and whole:
        buf.towner = x.storage_.empty((x.size_,), dtype)
        buf.sweep = tape.sweep
        buf.item = 0
        device_cells(x)[...] = g
        return 0
    t = device_shadow(x, tape)
    if overlapping(x):
        add_slices(t, x.storage_.xp.broadcast_to(x.storage_.take(g), shape_of(x)))
    else:
        t += g if g.dtype == dtype or not g.ndim else g.astype(dtype)
    return 0


cdef object add_at(NDualArray x, object t, tuple index, object g):
    """Add to cells of a shadow of x of which an index may name one twice."""
    if x.device_v is not None and type(x.device_v) is not NDualArray:
        x.storage_.add_at(t, index, g)
    else:
        np_add.at(t, index, g)


cdef object tangent_alone(NDualArray x, Tape tape):
    """What a sweep left for an array on a device, as one that nothing else holds."""
    if absent(x, tape):
        return x.storage_.zeros(shape_of(x), cnp.PyArray_DescrFromType(x.typenum))
    if one_to_one(x) and x.flags_ & NCONTIGUOUS and not x.buf.item:
        t = device_cells(x)
        x.buf.towner = None
        return t
    return x.storage_.copy(device_cells(x))
