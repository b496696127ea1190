# Plain arrays that a pullback reads, read-only until no tape needs them any more.

cdef dict frozen_by = {}         # how many tapes read an array that is writeable but for them, by its identity


cdef bint freeze(cnp.ndarray a) except -1:
    """Make an array read-only, which `thaw` undoes; False for one that is so already, and not for a tape."""
    cdef object key = <Py_ssize_t><PyObject*>a
    cdef object count = frozen_by.get(key)
    if count is None:
        if not cnp.PyArray_ISWRITEABLE(a):
            return False
        cnp.PyArray_CLEARFLAGS(a, NPY_ARRAY_WRITEABLE)
        count = 0
    frozen_by[key] = count + 1
    return True


cdef int thaw(cnp.ndarray a) except -1:
    cdef object key = <Py_ssize_t><PyObject*>a
    cdef object count = frozen_by[key] - 1
    if count:
        frozen_by[key] = count
        return 0
    del frozen_by[key]
    cnp.PyArray_ENABLEFLAGS(a, NPY_ARRAY_WRITEABLE)      # its own flag, whatever other tapes did to its base
    return 0
