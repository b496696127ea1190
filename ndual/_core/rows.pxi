# Rows of the table bound to this process: their kernels for this processor, and NumPy's loops for their values.

cdef const nd_isa* isa = NULL
cdef bytes _force = os.environ.get("NDUAL_ISA", "").encode()
if _force:
    isa = nd_extended(nd_select(_force))
else:
    isa = nd_extended(nd_select(NULL))
if isa == NULL:
    raise ImportError(f"NDUAL_ISA expects baseline, v3 or v4, as far as this processor has it; got {_force.decode()}")


cdef class Row:
    """A row of the table bound to this process: its kernel, NumPy's loops, and the row itself for the NumPy form."""
    def __repr__(self):
        return f"<Row {self.name}>"


cdef dict _rows = {}                 # name -> Row
cdef dict _row_of_ufunc = {}         # ufunc -> Row
cdef dict _kernel_index = {}
for _k in range(isa.nrows):
    if isa.rows[_k].name == NULL:    # the slots for rows made at run time
        break
    _kernel_index[isa.rows[_k].name.decode()] = _k


cdef bint own_sums = False           # whether a kernel adds up with NumPy's bits


cdef Row declare(str name):
    cdef Row row = Row.__new__(Row)
    row.name = name
    row.index = -1
    _rows[name] = row
    return row


cdef Row ROW_ADD = declare("add")
cdef Row ROW_SUBTRACT = declare("subtract")
cdef Row ROW_MULTIPLY = declare("multiply")
cdef Row ROW_DIVIDE = declare("divide")
cdef Row ROW_FLOOR_DIVIDE = declare("floor_divide")
cdef Row ROW_REMAINDER = declare("remainder")
cdef Row ROW_NEGATIVE = declare("negative")
cdef Row ROW_POSITIVE = declare("positive")
cdef Row ROW_ABSOLUTE = declare("absolute")
cdef Row ROW_CONJUGATE = declare("conjugate")
cdef Row ROW_REAL = declare("real")
cdef Row ROW_IMAG = declare("imag")
cdef Row ROW_POWER = declare("power")
cdef Row ROW_SQUARE = declare("square")
cdef Row ROW_SQRT = declare("sqrt")
cdef Row ROW_RECIPROCAL = declare("reciprocal")
cdef Row ROW_WHERE = declare("where")

# The neighbours of a float16 are not those of the float32 it is computed in.
cdef frozenset NATIVE_HALF = frozenset({"spacing", "nextafter"})


def register_row(spec, ufunc):
    """Bind a row of the table, and the ufunc that gives its value (None where a kernel or the NumPy form does)."""
    global own_sums
    cdef Row row = _rows[spec.name] if spec.name in _rows else declare(spec.name)
    cdef int dtype, k
    row.spec = spec
    row.nin = len(spec.partials)
    row.index = _kernel_index.get(spec.name, -1)
    if ufunc is not None:
        row.ufunc = ufunc
        _row_of_ufunc[ufunc] = row
        if ufunc.nout == 1 and ufunc.nin == row.nin:
            bind_loops(row.loops, ufunc)
            if row is ROW_ADD:
                own_sums = row.loops[ND_F64].fn != NULL and sums_agree()
    if row.index >= 0:
        for dtype in range(2):
            row.usable[dtype] = row.loops[dtype].fn != NULL or isa.rows[row.index].value_inside
        row.slope = row.nin == 1 and isa.rows[row.index].value_inside and row.coef[0] == ND_COEF_ARRAY
        row.flat = all([isa.rows[row.index].coef[k] == ND_COEF_ZERO for k in range(row.nin)])
        for k in range(row.nin):
            row.coef[k] = isa.rows[row.index].coef[k]
            row.needs[k] = isa.rows[row.index].needs[k]
            row.scale[k] = isa.rows[row.index].scale[k]
    for dtype in range(2):
        row.weak[dtype] = ufunc is None or stays_narrow(ufunc, FLOAT64 if dtype == ND_F64 else FLOAT32)
    return row


cdef bint stays_narrow(ufunc, kind):
    for first in (True, False):
        operands = [kind if (k == 0) == first else float for k in range(ufunc.nin)]
        try:
            types = ufunc.resolve_dtypes((*operands, *[None] * ufunc.nout))
        except TypeError:
            return False
        if kind in operands and types[ufunc.nin] != kind:
            return False
    return True


cdef void bind_loops(nd_loop* loops, object numpy_ufunc):
    """NumPy's own inner loops for float32 and float64: values come from the very code that NumPy runs."""
    cdef ufunc_fields* ufunc = <ufunc_fields*><PyObject*>numpy_ufunc
    cdef int i, k, dtype
    cdef char kind
    if ufunc.functions == NULL:
        return
    for dtype in range(2):
        kind = cnp.NPY_DOUBLE if dtype == ND_F64 else cnp.NPY_FLOAT
        for i in range(ufunc.ntypes):
            for k in range(ufunc.nargs):
                if ufunc.types[i * ufunc.nargs + k] != kind:
                    break
            else:
                loops[dtype].fn = <nd_loop_fn><void*>ufunc.functions[i]
                loops[dtype].data = NULL if ufunc.data == NULL else ufunc.data[i]
                break


cdef inline int raised() except -1:
    """Hand on what a loop raised: NumPy's cannot, some of SciPy's do."""
    return -1 if PyErr_Occurred() != NULL else 0


cdef inline int kernel_dtype(int typenum) noexcept:
    return ND_F64 if typenum == cnp.NPY_DOUBLE else ND_F32
