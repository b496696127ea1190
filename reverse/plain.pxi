# Plain arrays that an entry reads: nothing tells when somebody writes to one. Small ones are copied; others are made
# read-only until the tape lets go of them, so that a write raises instead of changing a derivative.

cdef enum:
    COPIED = 32768           # bytes up to which a copy costs less than watching it
    REMEMBERED = 1024        # bytes up to which another copy costs less than comparing with the last one

cdef str READ_ONLY_NOTE = (
    "The derivative that is being taken reads arrays of more than 32 KiB again when it goes back through f, and has "
    "made them read-only until then. Write into a copy, or copy such arrays as they are read: "
    "ndual.config(copy_constants=True)"
)
cdef dict FROZEN = {}        # every array that a tape made read-only, by its identity, and how many tapes hold it so


cdef bint may_freeze(cnp.ndarray a):
    """Whether all of the memory belongs to NumPy: what other libraries export they write to whatever its flags say."""
    cdef object base = a
    while cnp.PyArray_BASE(<cnp.ndarray>base) != NULL:
        base = <object>cnp.PyArray_BASE(<cnp.ndarray>base)
        if not isinstance(base, np_ndarray):
            return False
    return True


cdef int freeze(cnp.ndarray a, dict held) except -1:
    """Make an array read-only, and those that it is a view of."""
    cdef object base = a
    cdef Py_ssize_t key
    while True:
        key = <Py_ssize_t><PyObject*>base
        if key not in held:
            if key in FROZEN:
                FROZEN[key][1] += 1
                held[key] = base
            elif cnp.PyArray_ISWRITEABLE(<cnp.ndarray>base):
                FROZEN[key] = [base, 1]
                held[key] = base
                cnp.PyArray_CLEARFLAGS(<cnp.ndarray>base, NPY_ARRAY_WRITEABLE)
        if cnp.PyArray_BASE(<cnp.ndarray>base) == NULL:
            return 0
        base = <object>cnp.PyArray_BASE(<cnp.ndarray>base)


cdef int thaw(dict held) except -1:
    """Let arrays be written to again, unless another tape holds them."""
    for key, base in held.items():
        pair = FROZEN[key]
        pair[1] -= 1
        if pair[1] == 0:
            del FROZEN[key]
            cnp.PyArray_ENABLEFLAGS(<cnp.ndarray>base, NPY_ARRAY_WRITEABLE)
    held.clear()
    return 0


cdef bint same_cells(cnp.ndarray a, cnp.ndarray b) noexcept:
    """Whether two arrays that lie in one piece each hold the same bytes in the same order."""
    cdef int i
    if cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(b) or cnp.PyArray_NDIM(a) != cnp.PyArray_NDIM(b):
        return False
    if not (cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_IS_C_CONTIGUOUS(b)) \
            and not (cnp.PyArray_IS_F_CONTIGUOUS(a) and cnp.PyArray_IS_F_CONTIGUOUS(b)):
        return False
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIM(a, i) != cnp.PyArray_DIM(b, i):
            return False
    return memcmp(cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_NBYTES(a)) == 0
