# Duals whose values and lanes are duals of the derivative call around theirs. To the rest of the core they are arrays
# of one more storage: device_v and device_t are NDualArrays one level down, plain until something active is written
# there, so that views alias and memory grows as it does everywhere. Rows and rules call the public functions on them.

cdef object _nested_storage = None
cdef object _nested_namespace = None


def set_nested(storage, namespace):
    """Say how rows run on duals of an outer level, and which class of namespace their rules get."""
    global _nested_storage, _nested_namespace
    _nested_storage = storage
    _nested_namespace = namespace


cdef inline bint of_level(object obj, Level level) noexcept:
    return level_id(obj) == level.id


cdef NDualArray deepest(NDualArray x):
    """The array at the bottom of nested duals, whose values are no duals."""
    while type(x.device_v) is NDualArray:
        x = <NDualArray>x.device_v
    return x


cdef bint same_memory(object a, object b):
    """Whether two arrays of lower levels are views of one buffer."""
    if type(a) is not NDualArray or type(b) is not NDualArray:
        return False
    return deepest(<NDualArray>a).buf is deepest(<NDualArray>b).buf


cdef bint inactive(NDualArray x):
    """Whether no tangent of x can be other than zero."""
    cdef Py_ssize_t lo, hi
    if type(x.device_v) is NDualArray:
        if x.device_t is None:
            return not traced(x)
        if deepest(<NDualArray>x.device_t).buf.blank:
            return True
        return inactive(<NDualArray>x.device_t) and not plain_value(x.device_t, False).any()
    window(x, &lo, &hi)
    return lo >= hi and x.device_v is None and not x.buf.traced


cdef bint inert_nested(NDualArray x) noexcept:
    """Whether no dual of any level has been written into an array that was made without."""
    while type(x.device_v) is NDualArray:
        if traced(x) if x.device_t is None else not deepest(<NDualArray>x.device_t).buf.blank:
            return False
        x = <NDualArray>x.device_v
    return x.device_v is None and x.buf.lo >= x.buf.hi and not x.buf.traced


cdef object peeled(NDualArray x):
    """The array without the levels that are not active in it, as a view: an ndarray if none is."""
    if not inactive(x):
        return x
    return peeled(<NDualArray>x.device_v) if type(x.device_v) is NDualArray else values(x)


cdef object lower(NDualArray x):
    """The value of a dual one level down, as a view; a number where the dual stands for one."""
    if x.device_v is None:
        return values(x)[()] if x.flags_ & NSCALAR else values(x)
    if type(x.device_v) is not NDualArray:
        return x.device_v
    value = peeled(<NDualArray>x.device_v)
    if not x.flags_ & NSCALAR:
        return value
    return unbox(<NDualArray>value) if type(value) is NDualArray else value[()]


cdef object lower_array(NDualArray x):
    """The value one level down, as an array also where the dual stands for a number."""
    return values(x) if x.device_v is None else x.device_v


cdef object lower_result(object array, bint scalar):
    """Values or lanes one level down as an array of their own, or a number."""
    array = peeled(<NDualArray>array)
    if type(array) is NDualArray:
        return unbox(<NDualArray>array) if scalar else copy_array(<NDualArray>array, "K")
    return array[()] if scalar else array.copy()


cdef NDualArray plain_at(cnp.ndarray a, Level level):
    """An array as one of a level that is not active in it: read where it lies, copied before the first write."""
    cdef NDualArray x
    cdef int i
    shape = (<object>a).shape
    if level.outer is not None:
        return nested_array(plain_at(a, level.outer), blank_at(level, shape, a.dtype), level)
    x = adopt_readonly(a, np.empty((0, *shape), a.dtype), level)
    x.buf.lo = x.buf.hi = 0
    x.buf.borrowed = True
    x.toff = x.voff
    for i in range(x.ndim_):
        x.ts[i] = x.vs[i]
    x.buf.one = x.lane = lane_extent(x)
    update_flags(x)
    return x


cdef NDualArray blank_at(Level level, tuple shape, object dtype, object storage=None):
    """Lanes of zeros for an array of `level`, known as such until something is written there; None if it records."""
    cdef NDualArray x
    if level.recorder is not None:
        return None
    if storage is not None:
        x = device_at(storage.zeros((level.width, *shape), dtype), storage, level.outer)
        deepest(x).buf.blank = True
        return x
    x = plain_at(np.zeros((level.width, *shape), dtype), level.outer)
    deepest(x).buf.blank = True
    return x


cdef NDualArray at_level(object obj, Level level):
    """Numbers, arrays and duals of outer levels as an array of this level; one of this level as it is."""
    cdef NDualArray x
    if is_dual_object(obj):
        x = as_dual_array(obj)
        if x.buf.level is level:
            return x
        if level.outer is None or x.buf.level.id > level.id:
            raise_stale(x.buf.level.id, x.buf.level)
        return nested_array(at_level(x, level.outer),
                            blank_at(level, shape_tuple(x), cnp.PyArray_DescrFromType(x.typenum), memory_of(x)),
                            level)
    if not isinstance(obj, (np.ndarray, np.generic)):
        storage = storage_of(obj)
        if storage is not None:
            return device_at(obj, storage, level)
    obj = np.asarray(obj)
    check_dtype(obj.dtype)
    return plain_at(obj if cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>obj) else obj.copy(), level)


cdef NDualArray nested_array(NDualArray value, NDualArray tangent, Level level):
    """A dual over a value and lanes, which are both of the level around `level`; without lanes if `level` records."""
    cdef NDualArray x = array_object()
    cdef int i
    x.buf = empty_buffer(level)
    x.device_v = value
    x.device_t = tangent
    x.storage_ = _nested_storage
    x.typenum = value.typenum
    x.itemsize_ = value.itemsize_
    set_dims(x, value.ndim_)
    for i in range(value.ndim_):
        x.shape_[i] = value.shape_[i]
    x.size_ = value.size_
    x.flags_ = value.flags_ & NREADONLY
    return x


cdef NDualArray adopt_nested(object value, object tangent, Level level, NDualArray like, Py_ssize_t lo):
    """As adopt_array, for a level inside of another one."""
    cdef NDualArray v = at_level(value, level.outer), t
    cdef tuple shape = (level.width, *shape_tuple(v))
    if level.recorder is not None:
        raise SystemError("lanes in a level that records")
    if lo >= 0 and tangent.shape[0] != level.width:
        part = tangent
        tangent = blank_at(level, shape[1:], cnp.PyArray_DescrFromType(v.typenum), memory_of(v))
        if part.shape[0]:
            setitem(<NDualArray>tangent, slice(lo, lo + part.shape[0]), part)
    t = at_level(tangent, level.outer)
    if t.typenum != v.typenum:
        t = astype(t, cnp.PyArray_DescrFromType(v.typenum), "unsafe", True)
    if shape_tuple(t) != shape:
        raise ValueError(
            f"expected lanes of shape {shape} beside a value of shape {shape_tuple(v)}; got {shape_tuple(t)}. "
            "Lanes come first"
        )
    if like is not None and like.flags_ & NSCALAR and same_memory(v, like.device_v):
        # A number does not change under the arrays made of it.
        return nested_array(copy_array(v, "K"), copy_array(t, "K"), level)
    if like is not None and same_memory(v, like.device_v):
        if v.size_ and not same_memory(t, like.device_t):
            raise AliasError(
                "expected the lanes of a view to be the same view; got a copy of them. Copy the array first: x.copy()"
            )
        return nested_array(v, t, level)
    if (like is not None and same_memory(t, like.device_t)) or t.flags_ & NREADONLY:
        t = copy_array(t, "K")
    return nested_array(v, laid_out_as(v, t), level)


cdef NDualArray laid_out_as(NDualArray v, NDualArray t):
    """Lanes in the axis order of the value, so that what is a view of the one is a view of the other."""
    if v.ndim_ < 2 or v.size_ == 0:
        return t
    cells = plain_value(v, False)
    order = sorted(range(v.ndim_), key=lambda i: (-abs(cells.strides[i]), i))
    if not cells.transpose(order).flags.c_contiguous or plain_value(t, False)[0].transpose(order).flags.c_contiguous:
        return t
    axes = [0] + [i + 1 for i in order]
    back = [axes.index(i) for i in range(len(axes))]
    return transpose(copy_array(transpose(t, axes), "C"), back)


cdef NDualArray box_nested(NDual1 s):
    """A scalar of a level inside of another one, which is at hand, as a 0-d array."""
    cdef Level level = running()
    cdef cnp.npy_intp n = level.width
    cdef cnp.ndarray t = cnp.PyArray_EMPTY(1, &n, cnp.NPY_DOUBLE, 0)
    memcpy(cnp.PyArray_DATA(t), s.p, 8 * n)
    return adopt_nested(np.float64(s.v), t, level, None, -1)


cdef object unbox_nested(NDualArray x):
    """A number: of the scalar class of its level where no outer level is active in it."""
    cdef Py_ssize_t k
    cdef object s
    cdef cnp.ndarray t
    if inactive(x):              # a number that this derivative does not move
        value = peeled(x)
        return unbox(<NDualArray>value) if type(value) is NDualArray else value[()]
    check_level(x.buf.level)
    if x.typenum == cnp.NPY_DOUBLE and nd_tls.scalar != NULL and x.device_t is not None:
        value = peeled(<NDualArray>x.device_v)
        lanes_ = peeled(<NDualArray>x.device_t)
        if type(value) is not NDualArray and type(lanes_) is not NDualArray:
            s = new_scalar()
            (<NDual1>s).v = value
            t = lanes_
            for k in range(running().width):
                (<NDual1>s).p[k] = (<double*>cnp.PyArray_GETPTR1(t, k))[0]
            return s
    if x.flags_ & NSCALAR:
        return x
    x = copy_nested(x, "C")
    x.flags_ |= NSCALAR
    return x


cdef NDualArray copy_nested(NDualArray x, object order):
    cdef NDualArray v = <NDualArray>x.device_v, t
    if x.device_t is None:
        return derived(x, copy_array(v, order))
    t = <NDualArray>x.device_t
    if order == "A":
        order = "F" if plain_value(v, False).flags.fnc else "C"
    if order == "F":             # the lanes stay slowest, as everywhere
        axes = [0] + [i for i in range(x.ndim_, 0, -1)]
        return nested_array(copy_array(v, "F"), transpose(copy_array(transpose(t, axes), "C"), axes), x.buf.level)
    return nested_array(copy_array(v, order), copy_array(t, order), x.buf.level)


cdef object like_nested(NDualArray x, bint zeros):
    value = plain_value(x, False)
    value = np.zeros_like(value) if zeros else np.empty_like(value)
    return at_level(value, x.buf.level)


cdef NDualArray copy_laid(NDualArray x):
    """A copy in the order and the direction of the cells of x, which decide what is a view of it."""
    cdef tuple backwards = tuple([slice(None, None, -1 if step < 0 else 1) for step in plain_value(x, False).strides])
    if not x.ndim_:
        return copy_array(x, "K")
    return getitem(copy_array(getitem(x, backwards), "K"), backwards)


cdef object borrow_nested(object value, object tangent, Level level):
    """The caller's arrays, duals of outer levels among them, as a dual array that leaves them as they are."""
    cdef NDualArray v
    cdef object t
    if is_scalar(value) or np.ndim(value) == 0:
        storage = storage_for(tangent)
        if storage is not None:
            t = storage.copy(tangent).astype(value.dtype, copy=False)
            value = value if is_dual_object(value) else storage.copy(storage.take(value))
        else:
            t = tangent if is_dual_object(tangent) else \
                np.array(tangent, value.dtype if hasattr(value, "dtype") else None)
        return unbox(adopt_nested(value, t, level, None, -1))
    if type(value) is NDualArray:
        check_level((<NDualArray>value).buf.level)
        v = at_level(copy_laid(<NDualArray>value), level.outer)
    else:
        v = at_level(read_as_is(value), level.outer)
    if is_dual_object(tangent):
        t = copy_array(as_dual_array(tangent), "K")
    elif memory_of(v) is not None:
        t = memory_of(v).copy(memory_of(v).take(tangent)).astype(cnp.PyArray_DescrFromType(v.typenum), copy=False)
    else:
        t = same_layout(plain_value(v, False), np.asarray(tangent, cnp.PyArray_DescrFromType(v.typenum)))
    return adopt_nested(v, t, level, None, -1)


cdef object lift_nested(run_leaf* leaf, object value, object tangent, Level level):
    """One leaf of a call inside of another one."""
    turn(level)
    if leaf.kind == LEAF_SCALAR and leaf.typenum == cnp.NPY_DOUBLE and nd_tls.scalar != NULL and PyFloat_Check(value) \
            and cnp.PyArray_CheckExact(tangent) and cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray>tangent):
        return lift_number(PyFloat_AS_DOUBLE(value), <double*>cnp.PyArray_DATA(<cnp.ndarray>tangent))
    return borrow_nested(value, tangent, level)


cdef bint sharing(object a, object b) except -1:
    return same_memory(a, b) and np.may_share_memory(plain_value(a, False), plain_value(b, False))


cdef int mark_shared(list inputs, list given) except -1:
    """Have the first write into an argument raise if another one was a view of the same outer or device array."""
    cdef Buffer memory
    cdef Py_ssize_t i, j
    for i in range(len(given)):
        if type(inputs[i]) is not NDualArray or inputs[i] is given[i]:
            continue
        for j in range(len(given)):
            if j != i and (sharing(given[i], given[j]) if type(given[i]) is NDualArray
                           else _storages and device_sharing(given[i], given[j])):
                memory = deepest(<NDualArray>inputs[i]).buf
                memory.borrowed = True
                memory.vowner = SHARED
    return 0


def meet(*objs):
    """The innermost level of all duals in nested arguments."""
    cdef Level level = innermost(), found
    cdef unsigned long long id
    if any_moved():
        check_originals(objs)
    if level is not None and level.outer is None:
        return level
    if level is None:
        raise_stale(highest(objs))
    id = highest(objs)
    found = find_level(id)
    if found is None:
        raise_stale(id)
    return found


cdef unsigned long long highest(object objs):
    cdef unsigned long long id = 0
    for obj in (objs.values() if type(objs) is dict else objs):
        if is_dual_object(obj):
            id = max(id, level_id(obj))
        elif type(obj) is tuple or type(obj) is list or type(obj) is dict:
            id = max(id, highest(obj))
    return id


def is_active(obj, Level level not None):
    """Whether obj is a dual of this level; one of an outer level is a constant to it."""
    if not is_dual_object(obj):
        return False
    if level_id(obj) == level.id and level.alive:
        return True
    if find_level(level_id(obj)) is None:
        raise_stale(level_id(obj), (<NDualArray>obj).buf.level if type(obj) is NDualArray else None)
    return False


def is_own(obj):
    """Whether obj is a dual of the innermost running derivative."""
    if not is_dual_object(obj):
        return False
    as_dual_array(obj)
    return level_id(obj) == innermost().id


def lowered(obj):
    """The value of a dual one level down, as an array or number of its own."""
    return result_value(obj, False)


def bottom(obj):
    """A view of the values of a dual below all levels, without noting that it was looked at; else obj itself."""
    return plain_value(obj, False) if is_dual_object(obj) else obj


def as_array(obj):
    """A dual as a dual array; numbers become 0-d."""
    return as_dual_array(obj)


def holds(*objs):
    """Whether nested arguments hold duals."""
    return highest(objs) != 0


def all_inert(*objs):
    """Whether no dual in nested arguments carries a derivative."""
    for obj in objs:
        if type(obj) is NDualArray:
            if not inert(<NDualArray>obj):
                return False
        elif is_scalar(obj):
            return False
        elif type(obj) is tuple or type(obj) is list or type(obj) is dict:
            if not all_inert(*(obj.values() if type(obj) is dict else obj)):
                return False
    return True


def dispatch_call(function, args, kwargs):
    """Call a function of NumPy or SciPy through the dispatcher."""
    return dispatch(function, args, kwargs)


def compared(obj):
    """The primal of a dual, which decides something; anything else as it is."""
    return plain(obj)


def lazy_at(array, Level level not None):
    """A float array as one of a running level, plain until a dual is written into it."""
    return at_level(array, level)


def lower_namespace(obj):
    """The array namespace of what a dual holds: where the rules of its level compute."""
    cdef NDualArray x
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        if type(x.device_v) is NDualArray:
            return space(x.buf.level.outer) if memory_of(x) is None else _nested_namespace(
                x.buf.level.outer, np, memory_of(x))
        if x.device_v is not None:
            return x.storage_.xp
    elif find_level(level_id(obj)).outer is not None:
        return space(find_level(level_id(obj)).outer)
    return np


cdef object space(Level level):
    if level.space is None:
        level.space = _nested_namespace(level)
    return level.space
