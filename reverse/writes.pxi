# Entries of copies and writes. A pullback of an overwrite takes the cotangent of the cells, clears it, and only then
# adds to the sources, which may be the same memory.

@cython.final
@cython.no_gc
cdef class CopyEntry(Entry):
    """out[...] = t0, which is None for a constant; s0 names the cells of t0 where NumPy's copy met its own source."""

    cdef str name(self):
        return "clear" if self.t0 is None else "copy"

    cdef int pull(self, Tape tape) except -1:
        cdef object g
        if self.t0 is None:
            return clear(self.out, tape)
        g = self.take(tape)
        if g is None:
            return 0
        if self.s0 is not None:
            add_cells(self.t0, tape, self.s0, g)
        else:
            add_array(self.t0, tape, g)
        return 0


cdef cnp.ndarray flat_shadow(NDualArray x, Tape tape):
    """The shadow of the buffer of x, cell after cell."""
    cdef object descr
    cdef cnp.ndarray flat
    cdef Py_ssize_t n = x.buf.vbytes // x.itemsize_
    cdef Py_ssize_t step = x.itemsize_
    shadow(x, tape, NULL)
    descr = cnp.PyArray_DescrFromType(x.typenum)
    Py_INCREF(descr)
    flat = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, 1, &n, &step, x.buf.t, NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(flat, x.buf)
    return flat


cdef int add_cells(NDualArray x, Tape tape, object cells, object g) except -1:
    """Add to the shadow of the buffer of x at numbered places."""
    cdef cnp.ndarray flat = flat_shadow(x, tape)
    g = np.asarray(g)
    if g.dtype.kind == "c" and flat.dtype.kind != "c":
        g = g.real
    np_add.at(flat, cells, g)
    return 0


cdef object cell_numbers(NDualArray x):
    """The number in its buffer of every cell of a raw array, as an array that can be written to as x can."""
    cdef Py_ssize_t n = x.buf.vbytes // x.itemsize_
    cdef object base = np.arange(n)
    strides = tuple([x.vs[i] // x.itemsize_ * 8 for i in range(x.ndim_)])
    return np.ndarray(shape_of(x), np.int64, base, x.voff // x.itemsize_ * 8, strides)


cdef object numbers_beside(object numbers, NDualArray x):
    """The array for x over the memory of cell_numbers of another view of the buffer."""
    base = numbers
    while base.base is not None:
        base = base.base
    strides = tuple([x.vs[i] // x.itemsize_ * 8 for i in range(x.ndim_)])
    return np.ndarray(shape_of(x), np.int64, base, x.voff // x.itemsize_ * 8, strides)


@cython.final
cdef class GatherEntry(Entry):
    """out = t0[s0] for an index that copies."""

    cdef str name(self):
        return "gather"

    cdef int pull(self, Tape tape) except -1:
        cdef object g = self.take(tape)
        cdef object t
        if g is None:
            return 0
        if overlapping(self.t0):     # cells that share their memory have it added one after the other
            t = np.zeros(shape_of(self.t0), g.dtype)
            if tape.level.outer is not None:
                t = _dual.lazy_at(t, tape.level.outer)
            np_add.at(t, self.s0, g)
            return add_array(self.t0, tape, t)
        t = writable_shadow(self.t0, tape)
        if masks_only(self.s0):
            t[self.s0] += g
        else:
            add_at(self.t0, t, self.s0, g)
        return 0


cdef bint masks_only(tuple index):
    """Whether an index cannot name a cell twice."""
    for item in index:
        if item is None or item is Ellipsis or type(item) is slice or isinstance(item, (int, np.integer)):
            continue
        if not hasattr(item, "dtype") or item.dtype != bool:
            return False
    return True


@cython.final
cdef class ScatterEntry(Entry):
    """out[s0] = t0, which is None for a constant; of several writes to one cell the last one counts.

    s1 names the cells of t0 where NumPy's copy met its own source.
    """

    cdef str name(self):
        return "scatter"

    cdef int pull(self, Tape tape) except -1:
        cdef object t, g, order
        if absent(self.out, tape):
            return 0
        t = writable_shadow(self.out, tape)
        g = t[self.s0]
        if self.t0 is not None and not masks_only(self.s0):
            xp = np if deepest(self.out).device_v is None else deepest(self.out).storage_.xp
            shape = np.shape(_dual.bottom(g))
            order = xp.full(shape_of(self.out), -1)
            number = xp.arange(math.prod(shape)).reshape(shape)
            order[self.s0] = number
            g = np.where(order[self.s0] == number, g, 0)
        elif self.t0 is not None:
            g = g.copy()
        t[self.s0] = 0
        if self.t0 is None:
            return 0
        if self.s1 is not None:
            add_cells(self.t0, tape, self.s1, g)
        else:
            add_array(self.t0, tape, summed_to(g, shape_of(self.t0)))
        return 0
