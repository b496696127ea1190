# Matrix products of real host arrays with one or two axes: the cotangents of the factors by the loop that NumPy's
# matmul runs, written straight into their shadows. The rule in rules/products.py says what a product means: what is
# not finite goes there, and what does not lie in one piece.

cdef struct matrix:
    char* at
    Py_ssize_t rows, columns
    Py_ssize_t strides[2]


cdef void read_matrix(matrix* m, int ndim, const Py_ssize_t* shape, const Py_ssize_t* strides, char* at,
                      bint column) noexcept:
    """Two axes: a single one is a row, or a column; a number has one of each."""
    m.at = at
    m.rows = m.columns = 1
    m.strides[0] = m.strides[1] = 0
    if ndim == 2 or (ndim == 1 and column):
        m.rows = shape[0]
        m.strides[0] = strides[0]
    if ndim == 2 or (ndim == 1 and not column):
        m.columns = shape[ndim - 1]
        m.strides[1] = strides[ndim - 1]


cdef void read_factor(matrix* m, object factor, bint column) noexcept:
    cdef NDualArray x
    cdef cnp.ndarray a
    if type(factor) is NDualArray:
        x = <NDualArray>factor
        read_matrix(m, x.ndim_, x.shape_, x.vs, x.buf.v + x.voff, column)
    else:
        a = <cnp.ndarray>factor
        read_matrix(m, cnp.PyArray_NDIM(a), <Py_ssize_t*>cnp.PyArray_DIMS(a), <Py_ssize_t*>cnp.PyArray_STRIDES(a),
                    cnp.PyArray_BYTES(a), column)


cdef void transpose(matrix* m) noexcept:
    m.rows, m.columns = m.columns, m.rows
    m.strides[0], m.strides[1] = m.strides[1], m.strides[0]


@cython.final
@cython.no_gc
cdef class ProductEntry(Entry):
    """np.matmul: s0 and s1 are the factors as far as they are read."""

    cdef str name(self):
        return "matmul"

    cdef int pull(self, Tape tape) except -1:
        cdef NDualArray out = self.out
        cdef object w
        cdef matrix m, factor
        if out is None or absent(out, tape):
            return 0
        w = self.take(tape)
        if self.t0 is not None:
            self.matrix_of(&m, w)
            read_factor(&factor, self.s1, True)
            transpose(&factor)
            if not self.add(tape, self.t0, False, &m, &factor):
                self.by_rule(tape, self.t0, 0, w)
        if self.t1 is not None:
            self.matrix_of(&m, w)
            read_factor(&factor, self.s0, False)
            transpose(&factor)
            if not self.add(tape, self.t1, True, &factor, &m):
                self.by_rule(tape, self.t1, 1, w)
        return 0

    cdef inline void matrix_of(self, matrix* m, object w) noexcept:
        """The cotangent of the result; of a single axis it has that of the first factor's rows, if there are some."""
        read_factor(m, w, axes_of(self.t0 if self.t0 is not None else self.s0) == 2)

    cdef bint add(self, Tape tape, NDualArray to, bint column, matrix* a, matrix* b) except -1:
        """Add a @ b to a shadow, straight into it if it is the first; False where that is left to the rule."""
        cdef matrix t
        cdef char* cells
        cdef bint first = False, finite
        read_matrix(&t, to.ndim_, to.shape_, to.vs, NULL, column)
        if not in_rows(&t, to.itemsize_):
            transpose(&t)
            transpose(a)
            transpose(b)
            a, b = b, a
            if not in_rows(&t, to.itemsize_):
                return False
        cells = shadow(to, tape, &first)
        finite = product_of(to.typenum, a.rows, a.columns, b.columns, a.at, a.strides, b.at, b.strides, cells,
                            not first)
        if first and not finite:
            memset(cells, 0, to.size_ * to.itemsize_)
        return finite

    cdef int by_rule(self, Tape tape, NDualArray to, int place, object w) except -1:
        """The same in NumPy's words, with zeros annihilating."""
        cdef object a = like(to) if place == 0 else plain_factor(self.s0)
        cdef object b = like(to) if place == 1 else plain_factor(self.s1)
        with np.errstate(all="ignore"):      # warnings belong to the value alone
            g = tape.product.transposes[place](np, w, a, b)
        return add_array(to, tape, g)


cdef inline int axes_of(object factor) noexcept:
    return (<NDualArray>factor).ndim_ if type(factor) is NDualArray else cnp.PyArray_NDIM(<cnp.ndarray>factor)


cdef inline bint in_rows(matrix* m, Py_ssize_t item) noexcept:
    """Whether the cells lie side by side, row after row."""
    return (m.columns == 1 or m.strides[1] == item) and (m.rows == 1 or m.strides[0] == m.columns * item)


cdef inline object plain_factor(object factor):
    return values(<NDualArray>factor) if type(factor) is NDualArray else factor
