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
    for storage in _storages:
        if storage.owns(array):
            return storage
    return None


cdef object mixed_storage():
    return NdualError(
        f"expected operands in one memory; got a dual on a device beside one in host memory{where()}. "
        "Move one of them explicitly"
    )


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
    tangent = x.device_t[(slice(None), *index)]
    if any([is_advanced(i) and not isinstance(i, (int, np.integer)) for i in index]):
        apart, count = separated(index)
        if apart:
            tangent = x.storage_.xp.moveaxis(tangent, count, 0)
    number = x.flags_ & NSCALAR and type(x.device_v) is NDualArray
    return adopt(x.device_v[index], tangent, x.buf.level, x if number else None)


cdef object gather_nested(NDualArray x, tuple index):
    """x[index] for an index that copies, in a level that records."""
    cdef object value = x.device_v[index]
    cdef NDualArray y = untraced(value, x.buf.level)
    if traced(x):
        x.buf.level.recorder.gathered(x, index, y)
    return y


cdef int device_setitem(NDualArray x, object index, object value) except -1:
    if type(index) is not tuple:
        index = (index,)
    index = tuple([plain(entry) for entry in index])
    if type(x.device_v) is NDualArray:
        return nested_setitem(x, index, value)
    if not is_dual_object(value):
        x.device_v[index] = value
        x.device_t[(slice(None), *index)] = 0
        return 0
    source = as_dual_array(value)
    if (<NDualArray>source).device_v is None:
        raise mixed_storage()
    x.device_v[index] = (<NDualArray>source).device_v
    for k in range(x.buf.level.width):
        x.device_t[k][index] = (<NDualArray>source).device_t[k]
    return 0
