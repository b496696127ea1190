# What the scalar classes share: every operation beyond the four inlined ones, for any width.

cdef enum:
    WIDEST = 16

cdef inline PyTypeObject* scalar_type(Py_ssize_t width) noexcept:
    return _scalar_types[width] if width <= WIDEST else NULL


cdef int scalar_width(PyTypeObject* kind) noexcept:
    """The width of a scalar class, 0 for that of levels that record, -1 for any other type."""
    cdef int w
    for w in range(WIDEST + 1):
        if _scalar_types[w] == kind:
            return w
    return -1


cdef inline object new_scalar():
    """A scalar of the running level whose numbers the caller fills in; only where nd_tls.scalar is not NULL."""
    cdef object s = nd_scalar_new(<int>running().width, nd_tls.scalar)
    (<NDual1>s).level = nd_tls.id
    return s


cdef inline int operand(object obj, double* value, double** partials) except -1:
    """Read a scalar operand; 0 if it is none that a float64 scalar operation understands."""
    if Py_TYPE(obj) == nd_tls.scalar and (<NDual1>obj).level == nd_tls.id:
        value[0] = (<NDual1>obj).v
        partials[0] = (<NDual1>obj).p
        return 1
    partials[0] = NULL
    if PyFloat_Check(obj):
        value[0] = PyFloat_AS_DOUBLE(obj)
        return 1
    if PyLong_Check(obj):
        value[0] = PyLong_AsDouble(obj)
        if value[0] == -1.0 and PyErr_Occurred() != NULL:
            PyErr_Clear()
            raise OverflowError("int too large to convert to float")
        return 1
    if not is_dual_object(obj) and isinstance(obj, (np.integer, np.bool_, np.float32, np.float16)):
        value[0] = <double>float(obj)
        return 1
    return 0


cdef object scalar_apply(Row row, int nin, const double* x, double** p, nd_loop loop):
    """A row at one point: the block kernels with n = 1, then the lanes."""
    cdef double y = 0
    cdef double d[3]
    cdef double c, t, s, plain
    cdef const void* xs[3]
    cdef void* ds[3]
    cdef const void* cs[3]
    cdef char* args[4]
    cdef intptr_t one = 1
    cdef intptr_t steps[4]
    cdef int i, active = 0
    cdef int kinds[3]
    cdef const char* ts[3]
    cdef Py_ssize_t tlane[3]
    cdef const nd_row* kernel = &isa.rows[row.index]
    cdef bint exact = nd_tls.exact and kernel.fill_exact[ND_F64] != NULL
    cdef nd_fill fill = kernel.fill_exact[ND_F64] if exact else kernel.fill[ND_F64]
    cdef object result
    for i in range(nin):
        xs[i] = &x[i]
        ds[i] = NULL
        if p[i] == NULL:
            continue
        if kernel.coef[i] == ND_COEF_NONE:
            raise NoRuleError(
                f"{row.name} has no derivative with respect to operand {i}{where()}. Make it a constant with "
                "ndual.stop_gradient(x)"
            )
        if kernel.coef[i] == ND_COEF_ZERO:
            continue
        kinds[active] = kernel.coef[i]
        if kernel.coef[i] == ND_COEF_ARRAY:
            ds[i] = &d[i]
            cs[active] = &d[i]
        elif kernel.coef[i] >= ND_COEF_X0:
            cs[active] = &x[kernel.coef[i] - ND_COEF_X0]
            kinds[active] = ND_COEF_ARRAY
        ts[active] = <const char*>p[i]
        tlane[active] = 8
        active += 1
    # As nd_map: an inside value first comes with the derivatives, and exact=True then takes the loop's.
    if fill != NULL and kernel.value_inside:
        fill(1, xs, &y, ds)
    if loop.fn != NULL and (exact or not kernel.value_inside):
        for i in range(nin):
            args[i] = <char*>xs[i]
            steps[i] = 0       # as NumPy calls its loops for one number; clip minds
        args[nin] = <char*>&y
        steps[nin] = 0
        loop.fn(args, &one, steps, loop.data)
        raised()
    if fill != NULL and active and not kernel.value_inside:
        fill(1, xs, &y, ds)
    if not active:       # floor, sign …
        nd_tls.compared = 1
        return nd_float64(y)
    if nd_tls.tape != NULL:
        return note_row(y, active, kinds, cs, ts)
    result = new_scalar()
    (<NDual1>result).v = y
    isa.combine[ND_F64](1, running().width, active, kinds, cs, ts, tlane, <char*>(<NDual1>result).p, 8)
    return result


cdef object note_row(double y, int active, const int* kinds, const void** cs, const char** ts):
    """The value of a row as a number on the tape; the places of the lanes hold the nodes of the operands."""
    cdef double d[3]
    cdef Py_ssize_t node[3]
    cdef int i
    for i in range(3):
        d[i] = 0
        node[i] = ND_NODE_NONE
    for i in range(active):
        d[i] = 1 if kinds[i] == ND_COEF_ONE else -1 if kinds[i] == ND_COEF_NEG else (<const double*>cs[i])[0]
        node[i] = (<const Py_ssize_t*>ts[i])[0]
    if active == 3:              # the first two as a number of their own, then the third
        first = noted(y, node[0], d[0], node[1], d[1])
        return noted(y, (<CoDual>first).node, 1, node[2], d[2])
    return noted(y, node[0], d[0], node[1], d[1])


cdef object scalar_binary(Row row, object a, object b):
    cdef double x[2]
    cdef double* p[2]
    align(a, b)
    if not row.usable[ND_F64] or nd_tls.scalar == NULL or not operand(a, &x[0], &p[0]) or not operand(b, &x[1], &p[1]):
        return binary(row, a, b)
    return scalar_apply(row, 2, x, p, row.loops[ND_F64])


cdef object scalar_unary(Row row, object a):
    cdef double x[1]
    cdef double* p[1]
    align(a, a)
    if not row.usable[ND_F64] or nd_tls.scalar == NULL or not operand(a, &x[0], &p[0]):
        return unary(row, a)
    return scalar_apply(row, 1, x, p, row.loops[ND_F64])


cdef object round_scalar(object s, object digits):
    """As np.float64: an int without digits, else a number; the derivative of both is 0."""
    value = plain_value(s, True)
    return round(value) if digits is None else round(value, digits)


cdef object repr_dual(object obj):
    cdef NDualArray x
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        if inert(x):
            return repr(plain_value(obj, False))
        return f"NDualArray({plain_value(obj, False)!r}, lanes={x.buf.level.width})"
    if Py_TYPE(obj) == _scalar_types[0]:
        return f"CoDual({(<NDual1>obj).v!r})"
    partials = [(<NDual1>obj).p[k] for k in range(scalar_width(Py_TYPE(obj)))]
    return f"NDual({(<NDual1>obj).v!r}, {partials})"


def _rebuild(value, tangent, level):
    return adopt(value, tangent, level)


cdef object reduce_dual(object obj):
    """Copies and pickles keep the partials; the level travels along, so that a stale copy is known as stale."""
    if type(obj) is NDualArray and inert(<NDualArray>obj):
        return plain_value(obj, False).__reduce__()
    x = as_dual_array(obj)
    return _rebuild, (primal(obj), lanes(obj), (<NDualArray>x).buf.level)
