# Results on a device that are left to the sum behind them: neither computed nor written, but as far as a tape reads
# them. What computes both is the storage's.

@cython.internal
@cython.final
cdef class Ahead:
    """Stands for the values of an array that its code sums next: what gives the sum, and nothing else.

    Whatever else would be done with it fails. See :mod:`ndual.frontend.ahead` for when there are such.
    """

    cdef object total

    def __getattr__(self, name):
        raise NdualError(
            f"expected the sum that the code asks for next; got a use of what is summed ({name}). "
            "Give it a name first: y = …; y.sum()"
        )


cdef inline bint on_top(Level level) noexcept:
    """Whether the code that runs is the user's, on duals of the only derivative that is being taken."""
    return nd_tls.top == <PyObject*>level and level.outer is None and not level.boxed and not nd_tls.debug


cdef NDualArray device_ahead(Row row, list operands, list values_, list lanes_, Level level, object storage):
    """The result of a row that is not computed, since its code hands it to a sum and to nothing else; None if not."""
    cdef NDualArray x
    cdef Ahead ahead
    cdef Py_ssize_t step
    cdef int i
    if not on_top(level):
        return None
    if level.recorder is None:
        active = [lanes is not None for lanes in lanes_]
    else:
        active = [type(o) is NDualArray and traced(<NDualArray>o) for o in operands]
    if not any(active):
        return None
    found = storage.ahead(row.spec, values_, lanes_, 0 if level.recorder is not None else level.width, active)
    if found is None:
        return None
    ahead = Ahead.__new__(Ahead)
    shape, dtype, ahead.total = found
    x = array_object()
    x.buf = empty_buffer(level)
    x.device_v = x.device_t = ahead
    x.storage_ = storage
    x.typenum = dtype.num
    x.itemsize_ = dtype.itemsize
    set_dims(x, len(shape))
    step = x.itemsize_
    for i in range(x.ndim_ - 1, -1, -1):
        x.shape_[i] = shape[i]
        x.vs[i] = x.ts[i] = step
        step *= x.shape_[i]
    x.voff = x.toff = 0
    x.buf.vbytes = step
    update_flags(x)
    if level.recorder is not None:
        x.device_t = None
        level.recorder.formed(row, storage, operands, None, x)
    return x


cdef NDualArray device_sum_ahead(NDualArray x):
    """The sum of such an array, whose values are there after it if the sweep reads them."""
    cdef Ahead ahead = <Ahead>x.device_v
    cdef NDualArray y
    value, tangent, kept = ahead.total()
    ahead.total = None
    if kept is not None:
        x.device_v = x.buf.vowner = kept
        x.buf.v = <char*><Py_ssize_t>x.storage_.address(kept)
    if x.buf.level.recorder is None:
        return device_adopt(value, tangent, x.storage_, x.buf.level, None, -1)
    y = device_untraced(value, x.storage_, x.buf.level)
    x.buf.level.recorder.summed_below(x, y)
    return y


cdef object kept_value(object value):
    """What is kept of a result: its values, or None."""
    return None if type(value) is Ahead else value
