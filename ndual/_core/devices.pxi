# Storages other than host memory: which one an array belongs to, and indexing there.

cdef object _storages = []           # storages other than host memory, asked in order
cdef object _host_storage = None


def register_storage(storage, host=False):
    """Make a storage known: host memory first, then devices (see :mod:`ndual._core.storage`)."""
    global _host_storage
    if host:
        _host_storage = storage
    else:
        _storages.append(storage)


def unregister_storage(storage):
    """Forget a storage."""
    _storages.remove(storage)


cdef object host_storage():
    return _host_storage


cdef object storage_of(object array):
    if type(array) is NDualArray:        # which answers for its class as the values would
        return None
    for storage in _storages:
        if storage.owns(array):
            return storage
    return None


def storage_for(obj):
    """The storage of an array that lies on a device, None for anything else."""
    return storage_of(obj) if _storages else None


def resident(function, args):
    """What stands for a function of SciPy's own where its first array lies: SciPy reads host memory."""
    cdef object storage
    if not _storages or not (getattr(function, "__module__", None) or "").startswith("scipy."):
        return function
    for obj in args:
        storage = storage_of(obj)
        if storage is not None:
            return storage.stand_in(function)
    return function


def to_host(obj):
    """An array of a device as one in host memory; anything else as it is."""
    storage = storage_for(obj)
    return obj if storage is None else storage.host(obj)


cdef inline bint on_device(NDualArray x) noexcept:
    """Whether the values are an array of another storage, and not of a derivative around this one."""
    return x.device_v is not None and type(x.device_v) is not NDualArray


cdef NDualArray device_geometry(object value, object storage, Buffer buf):
    """An array on a device of a buffer that is not filled in yet: `voff` is the address of its first cell."""
    cdef NDualArray x = array_object()
    cdef tuple shape = value.shape, strides = value.strides
    cdef object dtype = value.dtype
    cdef int i, ndim = len(shape)
    x.buf = buf
    x.device_v = value
    x.storage_ = storage
    x.typenum = dtype.num
    x.itemsize_ = dtype.itemsize
    set_dims(x, ndim)
    for i in range(ndim):
        x.shape_[i] = shape[i]
        x.vs[i] = x.ts[i] = strides[i]
    update_flags(x)
    x.voff = x.toff = storage.address(value)
    return x


cdef void device_extent(NDualArray x, Py_ssize_t* low, Py_ssize_t* nbytes) noexcept:
    """The lowest address of such an array, and the bytes from there to the end of its highest cell."""
    cdef Py_ssize_t span = x.itemsize_, step
    cdef int i
    low[0] = x.voff
    for i in range(x.ndim_):
        step = x.vs[i] * (x.shape_[i] - 1)
        if x.shape_[i] == 0:
            span = 0
            break
        if step < 0:
            low[0] += step
            span -= step
        else:
            span += step
    nbytes[0] = span


cdef NDualArray device_object(object value, object storage, Buffer buf):
    """An array over memory of a device, without lanes; addresses there are compared, never read."""
    cdef NDualArray x = device_geometry(value, storage, buf)
    if stretched_cells(x):
        x.flags_ |= NREADONLY
    x.voff = x.toff = x.voff - <Py_ssize_t>buf.v if buf.vbytes else 0
    return x


cdef bint stretched_cells(NDualArray x) noexcept:
    cdef int i
    if x.size_ == 0:
        return False
    for i in range(x.ndim_):
        if x.vs[i] == 0 and x.shape_[i] > 1:
            return True
    return False


cdef NDualArray device_untraced(object value, object storage, Level level):
    """As untraced, of a value on a device; cells that share memory get one each."""
    cdef NDualArray x = device_geometry(value, storage, empty_buffer(level))
    cdef Py_ssize_t low
    if not carries(x.typenum):
        check_dtype(value.dtype)
    if stretched_cells(x):
        return device_untraced(storage.copy(value), storage, level)
    device_extent(x, &low, &x.buf.vbytes)
    x.buf.v = <char*>low
    x.buf.vowner = value
    x.voff = x.toff = x.voff - low
    return x


class Addresses:
    """The cells of an array on a device as NumPy compares those of its own; they are never read."""

    def __init__(self, value, storage):
        self.__array_interface__ = {
            "version": 3, "typestr": value.dtype.str, "shape": value.shape, "strides": value.strides,
            "data": (storage.address(value), True),
        }


cdef bint device_sharing(object a, object b) except -1:
    """Whether two arrays lie on a device and have a cell in common."""
    cdef object storage = storage_of(a)
    if storage is None or not storage.owns(b):
        return False
    if a is b:
        return True
    return a.size > 0 and b.size > 0 and np.may_share_memory(
        np.asarray(Addresses(a, storage)), np.asarray(Addresses(b, storage)), max_work=10000)


cdef bint in_device_memory(NDualArray x, object value) except -1:
    """Whether an array is a view of the memory of x on its device."""
    cdef Py_ssize_t at
    if type(value) is NDualArray or not x.storage_.owns(value) or value.size == 0:
        return False
    at = x.storage_.address(value)
    return <Py_ssize_t>x.buf.v <= at < <Py_ssize_t>x.buf.v + x.buf.vbytes


cdef NDualArray device_view(NDualArray x, object value):
    """The dual of a level that records whose value this view of that of x is."""
    cdef NDualArray y = device_object(value, x.storage_, x.buf)
    if stretched_cells(x):           # as a shadow may be, which is written to a slice at a time
        y.flags_ &= ~NREADONLY
    y.flags_ |= x.flags_ & NREADONLY
    return y


cdef NDualArray device_lazy(object value, object storage, Level level):
    """A fresh array of a device as a dual without lanes: they come with the first dual that is written."""
    cdef NDualArray x = device_untraced(value, storage, level)
    x.buf.hi = 0
    return x


cdef object device_lanes(NDualArray x):
    """The lanes of an array on a device; of zeros where there are none yet, for all views of its memory."""
    cdef Buffer buf = x.buf
    cdef object dtype
    if x.device_t is None:
        has_lanes(x)
        dtype = cnp.PyArray_DescrFromType(x.typenum)
        if buf.hi == 0:
            buf.towner = x.storage_.zeros((buf.level.width, -(-buf.vbytes // x.itemsize_)), dtype)
            buf.hi = buf.level.width
            buf.t = <char*><Py_ssize_t>x.storage_.address(buf.towner)
            buf.one = buf.towner.nbytes
        x.device_t = x.storage_.mirror(
            buf.towner, x.voff, (buf.level.width, *shape_of(x)),
            (buf.towner.strides[0], *[x.vs[i] for i in range(x.ndim_)]), dtype,
        )
    return x.device_t


cdef tuple shape_of(NDualArray x):
    return tuple([x.shape_[i] for i in range(x.ndim_)])


cdef NDualArray device_adopt(object value, object tangent, object storage, Level level, NDualArray like,
                             Py_ssize_t lo):
    """As adopt_array, of a value and lanes on a device."""
    cdef NDualArray x, t
    cdef object wide
    cdef Py_ssize_t low
    check_dtype(value.dtype)
    tangent = storage.take(tangent)
    if tangent.dtype != value.dtype:
        tangent = tangent.astype(value.dtype)
    if tangent.shape[0] != level.width and lo >= 0:
        wide = storage.zeros((level.width, *value.shape), value.dtype)
        wide[lo:lo + tangent.shape[0]] = tangent
        tangent = wide
    if tangent.shape != (level.width, *value.shape):
        raise ValueError(
            f"expected lanes of shape {(level.width, *value.shape)} beside a value of shape {value.shape}; "
            f"got {tangent.shape}. Lanes come first"
        )
    if like is not None and on_device(like) and in_device_memory(like, value):
        low = storage.address(tangent)
        if tangent.size and not <Py_ssize_t>like.buf.t <= low < <Py_ssize_t>like.buf.t + like.buf.one:
            raise AliasError(
                "expected the lanes of a view to be the same view; got a copy of them. Copy the array first: x.copy()"
            )
        x = device_object(value, storage, like.buf)
    else:
        # What is a view of the values must be one of the lanes.
        value, tangent = [a if a.flags.c_contiguous else storage.copy(a) for a in (value, tangent)]
        x = device_untraced(value, storage, level)
        t = device_geometry(tangent, storage, x.buf)
        device_extent(t, &low, &x.buf.one)
        x.buf.t = <char*>low
        x.buf.towner = tangent
    x.device_t = tangent
    return x


cdef NDualArray device_copy(NDualArray x, object order):
    cdef object value = x.storage_.copy(x.device_v)
    cdef NDualArray y
    if x.buf.level.recorder is None:
        if inert(x):
            return device_lazy(value, x.storage_, x.buf.level)
        return device_adopt(value, x.storage_.copy(device_lanes(x)), x.storage_, x.buf.level, None, -1)
    y = device_untraced(value, x.storage_, x.buf.level)
    if traced(x):
        x.buf.level.recorder.assigned(y, x)
    return y


cdef NDualArray device_sum(NDualArray x):
    """The sum of all cells."""
    cdef NDualArray y
    cdef Level level = x.buf.level
    if level.recorder is None:
        value, tangent = x.storage_.sum(x.device_v, device_lanes(x), level.width)
        return device_adopt(value, tangent, x.storage_, level, None, -1)
    y = device_untraced(x.storage_.sum(x.device_v, None, 0)[0], x.storage_, level)
    x.buf.level.recorder.summed_below(x, y)
    return y


cdef inline object memory_of(NDualArray x):
    """The storage of the values at the bottom of an array, None for the host's."""
    x = deepest(x)
    return None if x.device_v is None else x.storage_


cdef NDualArray device_at(object value, object storage, Level level):
    """As plain_at, of an array on a device."""
    if level.outer is None:
        return device_untraced(value, storage, level) if level.recorder is not None \
            else device_lazy(value, storage, level)
    return nested_array(device_at(value, storage, level.outer), blank_at(level, value.shape, value.dtype, storage),
                        level)


cdef object read_as_is(object value):
    """An array of the caller as one to be read where it lies; a copy where that cannot be, and on a device."""
    if not isinstance(value, (np.ndarray, np.generic)):
        storage = storage_of(value)
        if storage is not None:
            return storage.copy(value)
    value = np.asarray(value)
    if value is not owned(value) and value.flags.writeable:
        return owned(value)
    if not cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>value) or 0 in value.strides:
        return value.copy()
    return value


cdef NDualArray joined_device(NDualArray x, object storage, str name, object which, object beside):
    """A number in host memory beside arrays of a device: the same there."""
    if x.ndim_ or x.device_v is not None:
        raise mixed_storage(name, which, x, beside)
    return to_memory(x, storage)


cdef NDualArray to_memory(NDualArray x, object storage):
    """An array of a level that is in no other one in the memory of a device, or of the host (None)."""
    cdef NDualArray y
    cdef Level level = x.buf.level
    cdef bint here = x.device_v is None
    value = values(x) if here else x.device_v
    value = storage.take(value) if storage is not None else x.storage_.host(value)
    if inert(x):
        return at_level(value, level) if storage is None else device_lazy(value, storage, level)
    if level.recorder is None:
        tangent = lanes_of(x) if here else device_lanes(x)
        return adopt_array(value, tangent if storage is not None else x.storage_.host(tangent), level)
    y = untraced(value, level)
    if traced(x):
        level.recorder.assigned(y, x)
    return y


cdef object device_result(NDualArray x):
    """The value of an output: a copy, unless nothing else can have that number."""
    cdef Recorder recorder = x.buf.level.recorder
    if x.size_ == 1 and x.buf.vowner is x.device_v and not x.buf.borrowed and (recorder is None or not recorder.owns):
        return x.device_v
    return x.storage_.copy(x.device_v)


def moved(obj, storage):
    """A dual in another memory: that of a storage, None for the host's."""
    cdef NDualArray x = as_dual_array(obj)
    if x.buf.level.outer is not None:
        raise NdualError(
            f"expected arrays that stay in one memory in nested derivatives; got one that is moved{where()}. "
            "Move it outside of the inner derivative"
        )
    if x.storage_ is storage:
        return obj
    return to_memory(x, storage)


cdef object device_getitem(NDualArray x, object index):
    cdef NDualArray view
    if type(index) is not tuple:
        index = (index,)
    index = tuple([plain(entry) for entry in index])
    if type(x.device_v) is NDualArray and x.device_t is None:
        if any([is_advanced(i) and not isinstance(i, (int, np.integer)) for i in index]):
            return gather_nested(x, index)
        view = nested_view(x, index)
        if not same_memory(view.device_v, x.device_v):      # a number has no memory to view; the copy is recorded
            view = nested_view(copy_array(x, "C"), index)
        # A number is a value of its own, whatever is written to its cell later.
        return unbox(copy_array(view, "C")) if view.ndim_ == 0 and Ellipsis not in index else view
    if x.device_t is None and (x.buf.level.recorder is not None or inert(x)):
        if any([is_advanced(i) and not isinstance(i, (int, np.integer)) for i in index]):
            return gather_nested(x, index) if x.buf.level.recorder is not None else x.device_v[index]
        return device_view(x, x.device_v[index])
    tangent = (device_lanes(x) if on_device(x) else x.device_t)[(slice(None), *index)]
    if any([is_advanced(i) and not isinstance(i, (int, np.integer)) for i in index]):
        apart, count = separated(index)
        if apart:
            tangent = x.storage_.xp.moveaxis(tangent, count, 0)
    number = x.flags_ & NSCALAR and type(x.device_v) is NDualArray
    return adopt(x.device_v[index], tangent, x.buf.level, x if number or on_device(x) else None)


cdef object gather_nested(NDualArray x, tuple index):
    """x[index] for an index that copies, in a level that records."""
    cdef object value = x.device_v[index]
    cdef NDualArray y = untraced(value, x.buf.level)
    if traced(x):
        x.buf.level.recorder.gathered(x, index, y)
    return y


cdef int device_setitem(NDualArray x, object index, object value) except -1:
    cdef NDualArray source = None, view
    cdef Recorder recorder
    cdef bint advanced
    if type(index) is not tuple:
        index = (index,)
    index = tuple([plain(entry) for entry in index])
    if type(x.device_v) is NDualArray:
        return nested_setitem(x, index, value)
    if x.buf.vowner is SHARED:
        raise shared_arguments()
    if x.buf.borrowed:
        raise NdualError(
            f"expected no write into an argument on a device; got one that was not foreseen{where()}. "
            "Write into a copy, x = x.copy()"
        )
    if isinstance(value, (list, tuple)):
        value = dispatch_sequence(value)
    value = not_inner(x.buf.level, value)
    advanced = any([is_advanced(i) and not isinstance(i, (int, np.integer)) for i in index])
    if is_dual_object(value):
        source = as_dual_array(value)
        if source.device_v is None:
            source = joined_device(source, x.storage_, "assignment", "the value", x)
        value = source.device_v
        if source.buf is x.buf:      # devices write in no order
            source = device_copy(source, "C")
            value = source.device_v
    elif isinstance(value, np_ndarray) and value.ndim:
        raise mixed_storage("assignment", "the value", value, x)
    x.buf.blank = False
    if x.buf.level.recorder is None:
        x.device_v[index] = value
        if source is None or inert(source):
            if not inert(x):
                device_lanes(x)[(slice(None), *index)] = 0
            return 0
        tangent = device_lanes(x)
        for k in range(x.buf.level.width):
            tangent[k][index] = device_lanes(source)[k]
        return 0
    recorder = x.buf.level.recorder
    if advanced:
        recorder.writing_at(x, index)
        x.device_v[index] = value
        return recorder.scattered(x, index, source)
    view = device_view(x, x.device_v[index] if Ellipsis in index else x.device_v[(*index, Ellipsis)])
    recorder.writing(view)
    view.device_v[...] = value
    return recorder.assigned(view, source)
