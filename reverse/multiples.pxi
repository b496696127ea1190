# Shadows that are not spelt out: one number for all cells, a number times the values of an array, or times what the
# cells hold. An operation whose partial derivative is the same number for every cell hands such a shadow on to its
# operand by a product of two numbers, and a product of arrays makes the values of one factor the shadow of the other.
# Cells are computed when something reads them, which of long chains of large arrays saves most passes over memory.

cdef const nd_cells* CELLS64 = cell_loops(8)
cdef const nd_cells* CELLS32 = cell_loops(4)

cdef enum:
    HANDED = 1024            # bytes of a shadow from which on to move it costs less than to write another


cdef double FAINT = 1e-280       # sums below it may be of products that were rounded to nothing


cdef inline char* cells_below(object source) noexcept:
    """Where the values of an array lie that a shadow is a multiple of."""
    if type(source) is NDualArray:
        return (<NDualArray>source).buf.v + (<NDualArray>source).voff
    return cnp.PyArray_BYTES(<cnp.ndarray>source)


cdef inline char* cells_behind(Buffer buf) noexcept:
    """The cells that a shadow is a multiple of, or its own."""
    return cells_below(buf.towner) if buf.multiple and buf.towner is not None else buf.t


cdef inline int have_cells(Buffer buf) except -1:
    if buf.lanes == NULL:
        buf.lanes = pooled(buf.vbytes, &buf.lanes_class)
        buf.t = <char*>buf.lanes
    return 0


cdef inline void write_affine(Buffer buf, double base, double f, const char* source, double g,
                              const char* beside) noexcept:
    """The cells of a shadow as a number and multiples of arrays; see nd_cells."""
    (CELLS64 if buf.item == 8 else CELLS32).affine(buf.vbytes // buf.item, buf.t, base, f, source, g, beside)


cdef int spell_out(Buffer buf) except -1:
    """Give the cells of a shadow their numbers."""
    have_cells(buf)
    if buf.uniform:
        write_affine(buf, buf.number, 0, NULL, 0, NULL)
    else:
        write_affine(buf, -0.0, buf.number, cells_behind(buf), 0, NULL)
    buf.uniform = buf.multiple = False
    buf.towner = None
    return 0


cdef inline void let_go(Buffer buf) noexcept:
    """A shadow that nothing reads any more in this sweep."""
    buf.sweep = 0
    buf.towner = None


cdef bint alike(int ndim, int typenum, const Py_ssize_t* shape, NDualArray out) noexcept:
    """Whether an array of this type and shape that lies in one piece has its cells as `out` has, if that does."""
    cdef int i
    if ndim != out.ndim_ or typenum != out.typenum:
        return False
    for i in range(ndim):
        if shape[i] != out.shape_[i]:
            return False
    return True


cdef inline bint like_cells(NDualArray x, NDualArray out) noexcept:
    """Whether two arrays have a buffer each, of the same cells in the same order."""
    return (x.buf is not out.buf and x.buf.vbytes == out.buf.vbytes and x.size_ * x.itemsize_ == x.buf.vbytes
            and x.flags_ & out.flags_ & NCONTIGUOUS and x.device_v is None
            and alike(x.ndim_, x.typenum, x.shape_, out))


cdef bint values_like(object obj, NDualArray out) noexcept:
    """Whether an array that an entry keeps has its values cell by cell as the shadow of `out` has its."""
    cdef NDualArray x
    cdef cnp.ndarray a
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        return (x.flags_ & NCONTIGUOUS and x.device_v is None
                and alike(x.ndim_, x.typenum, x.shape_, out))
    if type(obj) is not np_ndarray:
        return False
    a = <cnp.ndarray>obj
    return cnp.PyArray_IS_C_CONTIGUOUS(a) and alike(
        cnp.PyArray_NDIM(a), cnp.PyArray_TYPE(a), <const Py_ssize_t*>cnp.PyArray_DIMS(a), out)


cdef bint handy(double number, int item) noexcept:
    """Whether a factor may wait: far from where it, or a product with it, would over- or underflow before its time."""
    return 1e-20 < abs(number) < 1e20 if item == 8 else 1e-12 < abs(number) < 1e12


cdef int name_multiple(NDualArray x, NDualArray out, double ratio) except -1:
    """Note that the values of an array are a number times those of another, as long as neither is written to."""
    if x.buf.root:
        ratio *= x.buf.ratio
    if like_cells(x, out) and handy(ratio, out.itemsize_):
        out.buf.root = x.buf.root if x.buf.root else name_of(x.buf)
        out.buf.ratio = ratio
    return 0


cdef bint one_root(object a, object b, double* ratio_a, double* ratio_b) noexcept:
    """Whether the values of two arrays of one shape are known to be numbers times the same."""
    cdef Buffer s, t
    ratio_a[0] = ratio_b[0] = 1
    if a is b:
        return True
    if type(a) is not NDualArray or type(b) is not NDualArray or (<NDualArray>a).voff != (<NDualArray>b).voff:
        return False
    s, t = (<NDualArray>a).buf, (<NDualArray>b).buf
    if s.root:
        ratio_a[0] = s.ratio
    if t.root:
        ratio_b[0] = t.ratio
    return s is t or (s.root + t.root > 0 and (s.root if s.root else s.name) == (t.root if t.root else t.name))


cdef int add_multiple(NDualArray x, Tape tape, double number, object source) except -1:
    """Add a number times the values of an array, which has its cells as x has, to the shadow of x.

    The shadow of an argument is spelt out at once, as it is in the end: an array may be a multiple of its own values,
    or two of each other's, and only an entry that made an array is sure to let go of what its shadow holds.
    """
    cdef Buffer buf = x.buf
    cdef char* below = cells_below(source)
    cdef double mine = 1, theirs = 1, both = 0
    if buf.sweep == tape.sweep and buf.multiple and buf.towner is not None \
            and one_root(buf.towner, source, &mine, &theirs):
        both = (buf.number * mine + number * theirs) / (1 if theirs == 1 else mine)
    if buf.sweep != tape.sweep:
        buf.sweep = tape.sweep
        buf.uniform = False
        buf.multiple = buf.made
        buf.towner = source if buf.made else None
        buf.number = number
        buf.item = x.itemsize_
        if not buf.made:
            have_cells(buf)
            write_affine(buf, -0.0, number, below, 0, NULL)
    elif handy(both, x.itemsize_):
        buf.number = both
        if theirs == 1:
            buf.towner = source
    else:
        have_cells(buf)
        if buf.uniform:
            write_affine(buf, buf.number, number, below, 0, NULL)
        elif buf.multiple:
            write_affine(buf, -0.0, buf.number, cells_behind(buf), number, below)
        else:
            buf.item = x.itemsize_
            write_affine(buf, -0.0, 1.0, buf.t, number, below)
        buf.uniform = buf.multiple = False
        buf.towner = None
    return 0


cdef bint lendable(NDualArray x, Tape tape, cnp.ndarray g) noexcept:
    """Whether an array that is its own memory may serve as the shadow of x, which has none yet."""
    return (x.device_v is None and (x.typenum == cnp.NPY_DOUBLE or x.typenum == cnp.NPY_FLOAT) and x.buf.made
            and x.buf.sweep != tape.sweep and x.buf.vbytes >= HANDED and one_to_one(x) and x.flags_ & NCONTIGUOUS
            and cnp.PyArray_CHKFLAGS(g, cnp.NPY_ARRAY_OWNDATA) and values_like(g, x))


cdef void move_shadow(Buffer buf, Buffer to, double number, int item) noexcept:
    """The cells of one shadow, times a number, as another that has none; the first one has none then."""
    to.lanes, buf.lanes = buf.lanes, to.lanes
    to.lanes_class, buf.lanes_class = buf.lanes_class, to.lanes_class
    to.t, buf.t = buf.t, to.t
    to.sweep = buf.sweep
    to.uniform = False
    to.towner = None
    to.multiple = number != 1
    to.number = number
    to.item = item
