# Operands in several memories, which only their user can bring together: what is said of them.

cdef str place_of(object obj):
    """Where an array lies, in words."""
    cdef object storage
    obj = plain_value(obj, False) if is_dual_object(obj) else obj
    storage = storage_of(obj)
    return "in host memory" if storage is None else storage.place(obj)


cdef object mixed_storage(str name, object which, object got, object beside):
    """Of an operand that lies elsewhere than another one: its number, or what it is called."""
    cdef str called = which if type(which) is str else f"argument {which}"
    return NdualError(
        f"{name}: expected operands in one memory; got {called}, an array of {got.dtype} of shape {got.shape} "
        f"{place_of(got)}, beside one {place_of(beside)}{where()}. Move one of them explicitly"
    )


def refuse_mixed(str name, arrays):
    """Raise where some of the arrays of a call lie on a device and others in host memory; numbers may lie anywhere."""
    cdef object beside = None
    cdef Py_ssize_t i
    if not _storages:
        return
    arrays = [plain_value(a, False) if is_dual_object(a) else a for a in arrays]
    for a in arrays:
        if storage_of(a) is not None:
            beside = a
    if beside is None:
        return
    for i, a in enumerate(arrays):
        if type(a) is np_ndarray and (<cnp.ndarray>a).ndim:
            raise mixed_storage(name, i, a, beside)
