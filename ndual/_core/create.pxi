# Lazy buffers: float arrays that f makes, or is handed as constants, as duals of the running level that have no lane
# yet. They are what NumPy calls them until a dual is written into one: numbers read from them are plain, and functions
# without a rule see plain arrays.

cdef inline bint inert(NDualArray x) noexcept:
    """Whether no cell carries a lane. A buffer that was given one keeps it, whatever is written later."""
    return inert_nested(x) if type(x.device_v) is NDualArray else x.buf.lo >= x.buf.hi and not x.buf.traced


cdef inline int check_array(NDualArray x) except -1:
    """Refuse an array of another level, unless it carries no lanes: code that caches constants keeps those."""
    if x.buf.level.id != nd_tls.id:
        return settle(x)
    return 0


cdef int settle(NDualArray x) except -1:
    cdef Level level = x.buf.level
    if not inert(x) or x.device_v is not None or (level.alive and level.thread == PyThread_get_thread_ident()):
        return check_level(level)
    level = innermost()
    if level is None:
        return 0
    while level.outer is not None:
        level = level.outer
    x.buf.level = level
    return check_level(level)


cdef inline bint carries(int typenum) noexcept:
    return typenum == cnp.NPY_DOUBLE or typenum == cnp.NPY_FLOAT or typenum == cnp.NPY_CDOUBLE \
        or typenum == cnp.NPY_CFLOAT or typenum == NPY_HALF


cdef NDualArray lazy_array(cnp.ndarray v, Level level, bint borrowed):
    """An array without lanes over the memory of v, which the caller still owns if `borrowed`."""
    cdef NDualArray x
    cdef int i
    if v is not owned(v):
        x = lazy_array(v.copy(), level, False)
        if not cnp.PyArray_ISWRITEABLE(v):
            x.flags_ |= NREADONLY
        return x
    if level.outer is not None:
        return plain_at(v, level)
    x = array_object()
    set_dims(x, cnp.PyArray_NDIM(v))
    x.typenum = cnp.PyArray_TYPE(v)
    x.itemsize_ = cnp.PyArray_ITEMSIZE(v)
    for i in range(x.ndim_):
        x.shape_[i] = cnp.PyArray_DIM(v, i)
        x.vs[i] = x.ts[i] = cnp.PyArray_STRIDE(v, i)
    x.buf = empty_buffer(level)
    x.buf.vowner = v
    extent(v, &x.buf.v, &x.buf.vbytes)
    x.voff = x.toff = cnp.PyArray_BYTES(v) - x.buf.v
    x.lane = x.buf.one = x.buf.vbytes
    x.buf.hi = 0
    x.buf.borrowed = borrowed
    update_flags(x)
    return x


cdef object lift_constant(object value, Level level):
    """A constant argument of f: writing a dual into it must work, and the caller must not see it."""
    if cnp.PyArray_CheckExact(value) and carries(cnp.PyArray_TYPE(<cnp.ndarray>value)) \
            and cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>value):
        return lazy_array(<cnp.ndarray>value, level, True)
    if level.outer is not None and type(value) is NDualArray and not (<NDualArray>value).flags_ & NSCALAR:
        return at_level(copy_array(<NDualArray>value, "K"), level)
    return value


def lazy(value):
    """A fresh float array as a dual of the running level without lanes; anything else, or no level, as it is."""
    if nd_tls.level != NULL and cnp.PyArray_CheckExact(value) and carries(cnp.PyArray_TYPE(<cnp.ndarray>value)) \
            and cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>value):
        return lazy_array(<cnp.ndarray>value, home(), False)
    return value


def boxed(obj):
    """A dual as an array that can be written to: a number becomes one of no dimensions."""
    x = as_dual_array(obj)
    if (<NDualArray>x).flags_ & NSCALAR:
        x = copy_array(x, "C")
        (<NDualArray>x).flags_ &= ~NSCALAR
    return x


def is_scalar_dual(obj):
    """Whether obj is a float64 number of the running level, in its scalar class."""
    return is_scalar(obj)


def with_value(obj, value):
    """A fresh dual number with another value of the same size: that of the function which was really called."""
    if PyFloat_CheckExact(value):
        if is_scalar(obj):
            (<NDual1>obj).v = PyFloat_AS_DOUBLE(value)
            return obj
        if PyFloat_Check(obj):        # a pass in which it does not move
            return nd_float64(PyFloat_AS_DOUBLE(value))
    if type(obj) is NDualArray and (<NDualArray>obj).device_v is None and isinstance(value, float | complex):
        values(<NDualArray>obj)[...] = value      # of more lanes than numbers have, or complex
    return obj


def python_function(ufunc):
    """The function that np.frompyfunc made a ufunc of, or None."""
    cdef PyObject* found = (<ufunc_fields*><PyObject*>ufunc).obj
    return None if found == NULL or not callable(<object>found) else <object>found


def apply_number(str name, function, x):
    """A row of one operand, a float64 dual number, with the value and errors of the function that is really called."""
    value = function((<NDual1>x).v)
    return with_value(scalar_unary(<Row>_rows[name], x), value)


def shares(NDualArray x not None, obj):
    """Whether an array has the memory of `obj`."""
    return type(obj) is NDualArray and deepest(<NDualArray>obj).buf is deepest(x).buf


cdef int activity_of(object obj, int depth) except -1:
    cdef int found = 0
    if PyFloat_CheckExact(obj) or PyLong_CheckExact(obj):
        return 0
    if type(obj) is NDualArray:
        # One of nested levels goes to its rule, which makes a view of it a view.
        return 1 if inert(<NDualArray>obj) and (<NDualArray>obj).device_v is None else 2
    if is_scalar(obj):
        return 2
    if depth == 0:
        return 0
    if type(obj) is tuple or type(obj) is list:
        for item in obj:
            found = max(found, activity_of(item, depth - 1))
            if found == 2:
                break
    elif type(obj) is dict:
        for item in (<dict>obj).values():
            found = max(found, activity_of(item, depth - 1))
    return found


def activity(*objs):
    """What nested arguments hold: 0 no dual, 1 only duals without lanes, 2 some that carry lanes."""
    return activity_of(objs, 7)


cdef object inert_value(NDualArray x):
    """The value of an array without lanes, not to be written to where the memory is the caller's."""
    cdef cnp.ndarray value
    if on_device(x):
        return x.device_v
    value = plain_value(x, False)
    if x.buf.borrowed or x.device_v is not None or x.buf.reader >= 0:
        cnp.PyArray_CLEARFLAGS(value, NPY_ARRAY_WRITEABLE)
    return value


cdef int own(NDualArray x) except -1:
    """Have memory that code outside may write to: what the tape reads of it is copied, as is what is the caller's."""
    if x.buf.reader >= 0:
        x.buf.level.recorder.writing(x)
    make_writable(x.buf, x.lane, 0, 0)
    return 0


def own_memory(NDualArray x not None):
    """Before NumPy writes into a dual array without lanes, whatever its flags say: ufunc.at does not ask."""
    check_array(x)
    own(x)


def constants(obj, bint nested=False, bint owned=False):
    """Nested arguments with the value for every dual that carries no lanes; those of inner levels if `nested`.

    With `owned`, they were made fit for being written to.
    """
    cdef list items
    cdef bint changed = False
    if type(obj) is NDualArray:
        if not inert(<NDualArray>obj) or ((<NDualArray>obj).device_v is not None and not nested):
            return obj
        if (<NDualArray>obj).flags_ & NSCALAR or (owned and not (<NDualArray>obj).buf.borrowed):
            return plain_value(obj, False)
        return inert_value(<NDualArray>obj)
    if type(obj) is tuple or type(obj) is list:
        items = []
        for item in obj:
            plain_item = item if PyFloat_CheckExact(item) or PyLong_CheckExact(item) else constants(item, nested, owned)
            changed = changed or plain_item is not item
            items.append(plain_item)
        if changed:
            return items if type(obj) is list else tuple(items)
    elif type(obj) is dict and obj:
        return {key: constants(item, nested, owned) for key, item in (<dict>obj).items()}
    return obj


def call_plain(function, args, kwargs, bint some):
    """Call a function on arguments of which none carries lanes; a fresh float array that it returns is a lazy one.

    `some` says that there are duals among them, of which a result may be a view.
    """
    if not some:
        return settled(function(*args, **kwargs), args, None)
    if any_moved():
        check_originals((args, kwargs))
    try:
        result = function(*constants(args), **constants(kwargs))
    except ValueError as error:
        if not any([word in str(error) for word in _READ_ONLY]) or not own_all((args, kwargs)):
            raise
        result = function(*constants(args, False, True), **constants(kwargs, False, True))
    return settled(result, args, args)


# What NumPy says of an argument that a function would write to; it looks before it writes anything.
cdef tuple _READ_ONLY = ("read-only", "writable", "write flag", "output array is not acceptable")


cdef bint own_all(object obj) except -1:
    """Whether arrays among nested arguments were the caller's memory, or the tape reads them; now they are ours."""
    cdef bint found = False
    if type(obj) is NDualArray:
        if not ((<NDualArray>obj).buf.borrowed or (<NDualArray>obj).buf.reader >= 0) \
                or (<NDualArray>obj).flags_ & NREADONLY or not inert(<NDualArray>obj):
            return False
        own(<NDualArray>obj)
        return True
    if type(obj) is tuple or type(obj) is list or type(obj) is dict:
        for item in (obj.values() if type(obj) is dict else obj):
            found = own_all(item) or found
    return found


cdef object settled_on_device(object result, object storage, object args, object sources):
    """The same of an array on a device."""
    if nd_tls.level == NULL or not carries(result.dtype.num):
        return result
    for item in sources or ():
        if type(item) is NDualArray and on_device(<NDualArray>item) and in_device_memory(<NDualArray>item, result):
            return device_view(<NDualArray>item, result)
    if result.base is not None or any([item is result for item in args]):
        return result
    return at_level(result, home())


cdef object settled(object result, object args, object sources):
    cdef cnp.ndarray v
    cdef object base
    if _storages:
        storage = storage_of(result)
        if storage is not None:
            return settled_on_device(result, storage, args, sources)
    if cnp.PyArray_CheckExact(result):
        v = <cnp.ndarray>result
        if nd_tls.level == NULL or not carries(cnp.PyArray_TYPE(v)) or not cnp.PyArray_ISNOTSWAPPED(v):
            return v
        if sources is not None:
            base = view_among(v, sources, 3)
            if base is not None:
                return base
        for item in args:
            if item is result:
                return v
        if cnp.PyArray_BASE(v) != NULL:
            # Memory of somebody else, unless only this view of a temporary knows it.
            base = <object>cnp.PyArray_BASE(v)
            if not cnp.PyArray_CheckExact(base) or Py_REFCNT(base) > 2:
                return v
        return lazy_array(v, home(), False)
    if type(result) is tuple or type(result) is list:
        return type(result)([settled(item, args, sources) for item in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[settled(item, args, sources) for item in result])
    return result


cdef object view_among(cnp.ndarray v, object sources, int depth):
    """The dual whose view `v` is: another view of its buffer, whose lanes, once there are any, lie as the values do."""
    cdef NDualArray x, y
    cdef int i
    for item in sources.values() if type(sources) is dict else sources:
        if type(item) is NDualArray:
            x = <NDualArray>item
            if x.flags_ & NSCALAR or x.device_v is not None or not inert(x) or not np.may_share_memory(v, values(x)):
                continue
            if x.typenum != cnp.PyArray_TYPE(v) or x.voff != x.toff:
                raise lost("a view of another type", "Copy the array first")
            y = new_view(x, cnp.PyArray_NDIM(v))
            y.voff = y.toff = cnp.PyArray_BYTES(v) - x.buf.v
            for i in range(y.ndim_):
                y.shape_[i] = cnp.PyArray_DIM(v, i)
                y.vs[i] = y.ts[i] = cnp.PyArray_STRIDE(v, i)
                if y.vs[i] == 0 and y.shape_[i] > 1:
                    y.flags_ |= NREADONLY
            if not cnp.PyArray_ISWRITEABLE(v) and not x.buf.borrowed and x.buf.reader < 0:
                y.flags_ |= NREADONLY
            update_flags(y)
            return y
        if depth > 0 and (type(item) is tuple or type(item) is list or type(item) is dict):
            found = view_among(v, item, depth - 1)
            if found is not None:
                return found
    return None


cdef object outside_view(NDualArray x, object dtype, object copy):
    """What code outside sees of an array without lanes: its value, read-only unless it is a copy."""
    cdef cnp.ndarray value
    if on_device(x):
        return x.device_v.__array__()        # which says how to move it
    value = inert_value(x)
    if copy:
        return np.array(value, dtype)
    cnp.PyArray_CLEARFLAGS(value, NPY_ARRAY_WRITEABLE)
    return value if dtype is None else np.asarray(value, dtype, copy=copy)


cdef int give_buffer(NDualArray x, Py_buffer* buffer, int flags) except -1:
    """The buffer protocol, for C code: the values of an array without lanes. Who asks for a writable one may write."""
    cdef cnp.ndarray value
    if not inert(x) or on_device(x) or (x.device_v is not None and flags & PyBUF_WRITABLE == PyBUF_WRITABLE):
        buffer.obj = None
        raise lost("handing the memory of a dual array to other code", "Use a function that has a rule")
    if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
        own(x)
        value = values(x)
    else:
        value = inert_value(x)
        cnp.PyArray_CLEARFLAGS(value, NPY_ARRAY_WRITEABLE)
    return PyObject_GetBuffer(value, buffer, flags)
