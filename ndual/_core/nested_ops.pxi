# What is done with arrays of inner levels: writes by index, and rows.

cdef int nested_setitem(NDualArray x, tuple index, object value) except -1:
    """x[index] = value, where an outer value is a constant to the level of x."""
    cdef NDualArray source, v = <NDualArray>x.device_v, t
    cdef Py_ssize_t k, extra
    cdef tuple everywhere = (slice(None), *index)
    if isinstance(value, (list, tuple)):
        value = dispatch_sequence(value)
    if type(value) is np.ndarray and (<cnp.ndarray>value).dtype.hasobject:
        value = dispatch(np.stack, (list(value),), {})
    value = not_inner(x.buf.level, value)
    if x.buf.level.recorder is not None:
        return record_nested_write(x, index, value)
    t = <NDualArray>x.device_t
    if not of_level(value, x.buf.level):
        setitem(v, index, value)
        if not deepest(t).buf.blank:
            setitem(t, everywhere, 0.0)
        return 0
    source = as_dual_array(value)
    extra = plain_value(v, False)[index].ndim - source.ndim_
    setitem(v, index, source.device_v)
    if any([is_advanced(item) and not isinstance(item, (int, np.integer)) for item in index]):
        for k in range(x.buf.level.width):
            setitem(getitem(t, (k, Ellipsis)), index, getitem(source.device_t, (k, Ellipsis)))
        return 0
    tangent = source.device_t
    if extra:
        shape = shape_tuple(<NDualArray>tangent)
        shape = shape[:1] + ((1,) * extra + shape[1:] if extra > 0 else shape[1 - extra:])
        tangent = reshape(<NDualArray>tangent, shape, "C", None)
    setitem(t, everywhere, tangent)
    return 0


cdef int record_nested_write(NDualArray x, tuple index, object value) except -1:
    """x[index] = value in a level that records: the value below, and what it means for the shadow."""
    cdef NDualArray view = x
    cdef NDualArray source = as_dual_array(value) if of_level(value, x.buf.level) else None
    cdef bint advanced = any([is_advanced(item) and not isinstance(item, (int, np.integer)) for item in index])
    if advanced:
        x.buf.level.recorder.writing_at(x, index)
    else:
        view = nested_view(x, index)
        x.buf.level.recorder.writing(view)
    setitem(<NDualArray>x.device_v, index, value if source is None else source.device_v)
    if advanced:
        return x.buf.level.recorder.scattered(x, index, source)
    return x.buf.level.recorder.assigned(view, source)


cdef NDualArray nested_view(NDualArray x, tuple index):
    """The view of x at a basic index, an array also where it is one cell."""
    if not any([item is Ellipsis for item in index]):
        index += (Ellipsis,)
    return nested_array(getitem(<NDualArray>x.device_v, index), None, x.buf.level)


cdef object launch_nested(Row row, list operands, Level level, object dtype):
    """A row of which an operand has duals inside: its NumPy form over these."""
    cdef list values_ = [], lanes_ = []
    cdef NDualArray x
    for o in operands:
        if type(o) is not NDualArray:
            values_.append(o)
            lanes_.append(None)
            continue
        x = <NDualArray>o
        if x.buf.level is level:
            values_.append(lower(x))
            if level.recorder is not None:
                lanes_.append(None)
            else:
                lanes_.append(lanes_of(x) if x.device_v is None else peeled(<NDualArray>x.device_t))
        else:
            values_.append(unbox(x) if x.flags_ & NSCALAR else x)
            lanes_.append(None)
    if level.recorder is not None:
        x = untraced(lower_value(row, values_, level, dtype), level)
        level.recorder.formed(row, _nested_storage, operands, dtype, x)
        if x.ndim_ == 0 and row is not ROW_WHERE:
            x.flags_ |= NSCALAR
        return x
    former = go_home(level.outer)
    try:
        value, tangent = _nested_storage.launch(row.spec, row.ufunc, values_, lanes_, level.width, dtype)
    finally:
        go_home(former)
    return adopt_nested(value, tangent, level, None, -1)


cdef object lower_value(Row row, list operands, Level level, object dtype):
    """The value of a row over what its operands are one level down."""
    for o in operands:
        if type(o) is NDualArray or is_scalar(o):
            if dtype is None and row.nin < 3:
                return unary(row, operands[0]) if row.nin == 1 else binary(row, operands[0], operands[1])
            return finish_out(row, general(row, tuple(operands), None, None, dtype), None, None)
    former = go_home(level.outer)
    try:
        value = _nested_storage.launch(row.spec, row.ufunc, operands, [None] * len(operands), level.width, dtype)[0]
    finally:
        go_home(former)
    return value


cdef inline bint recorded_below(object obj) noexcept:
    """Whether this is an array of an inner level that records."""
    return type(obj) is NDualArray and type((<NDualArray>obj).device_v) is NDualArray \
        and (<NDualArray>obj).device_t is None


cdef NDualArray recorded_map(Row row, int nin, object a, object b):
    """A row of one type of real numbers over arrays of an inner level that records: the short way, which is computed by
    the same operator one level down. None where the long way must decide."""
    cdef NDualArray x = <NDualArray>(a if recorded_below(a) else b), y
    cdef Level level = x.buf.level
    cdef int typenum = x.typenum, k
    cdef bint below = False
    cdef list operands = [a] if nin == 1 else [a, b]
    cdef list given = []
    if row.index < 0 or row.nin != nin or (typenum != cnp.NPY_DOUBLE and typenum != cnp.NPY_FLOAT):
        return None
    check_array(x)
    for k in range(nin):
        obj = operands[k]
        if type(obj) is NDualArray:
            y = <NDualArray>obj
            if y.buf.level is not level or y.typenum != typenum:
                return None
            obj = lower(y)
            below = below or is_dual_object(obj)
        elif type(obj) is np_ndarray:
            if cnp.PyArray_TYPE(<cnp.ndarray>obj) != typenum or not cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>obj):
                return None
        elif not row.weak[kernel_dtype(typenum)]:
            return None
        elif PyLong_CheckExact(obj) and -1000000 < <object>obj < 1000000:
            obj = float(obj)
            operands[k] = obj
        elif not PyFloat_CheckExact(obj):
            return None
        given.append(obj)
    if not below:
        return None
    value = unary(row, given[0]) if nin == 1 else binary(row, given[0], given[1])
    y = untraced(value, level)
    level.recorder.formed(row, _nested_storage, operands, None, y)
    if y.ndim_ == 0:
        y.flags_ |= NSCALAR
    return y
