# Python's operators beyond the plain binary ones: in place, power, comparison.

cdef object inplace(Row row, NDualArray x, object b):
    """x ∘= b: NumPy's casting rule ("same_kind"), written into x's memory; a scalar result is rebound instead."""
    check_array(x)
    if x.flags_ & NSCALAR:
        return binary(row, x, b)
    if direct(row, 2, x, b, x) is not None:
        return x
    if not understood(b):
        return NotImplemented
    b = not_inner(x.buf.level, b)
    check_out(row, x, (x, b))
    return general(row, (x, b), x, None, None)


cdef int check_out(Row row, NDualArray out, tuple args) except -1:
    """NumPy refuses an output that would need an unsafe cast or a larger shape; so do we, before writing anything."""
    kinds = [dtype_of_operand(prepare_operand(a)) for a in args]
    if row.ufunc is not None:
        row.ufunc.resolve_dtypes((*kinds, cnp.PyArray_DescrFromType(out.typenum)))
    shape = np.broadcast_shapes(*[np.shape(plain_value(a, False)) if is_dual_object(a) else np.shape(a) for a in args])
    own = shape_tuple(out)
    if np.broadcast_shapes(shape, own) != own:
        raise ValueError(
            f"non-broadcastable output operand with shape {own} doesn't match the broadcast shape "
            f"{np.broadcast_shapes(shape, own)}"
        )
    return 0


cdef Row scalar_power_row(object base, object exponent):
    """NumPy's operator ** takes these exponents to cheaper ufuncs, for arrays only."""
    if type(exponent) is float or type(exponent) is int:
        if exponent == 2:
            return ROW_SQUARE
        if exponent == 0.5:
            return ROW_SQRT
        if exponent == -1:
            return ROW_RECIPROCAL
        if exponent == 1:
            return ROW_POSITIVE
    return None


cdef object power(object a, object b):
    cdef Row row
    cdef object result
    cdef double x[2]
    cdef double* p[2]
    if type(a) is NDualArray and not ((<NDualArray>a).flags_ & NSCALAR):
        row = scalar_power_row(a, b)
        if row is not None:
            return unary(row, a)
    else:
        align(a, b)
        if nd_tls.scalar != NULL and ROW_POWER.index >= 0 and operand(a, &x[0], &p[0]) and operand(b, &x[1], &p[1]):
            return scalar_apply(ROW_POWER, 2, x, p, libm_pow)
    result = binary(ROW_POWER, a, b)
    if result is not NotImplemented and a_number(a) and a_number(b):
        # NumPy's power of two numbers is libm's, its loop for arrays is another one: single numbers, many lanes.
        if is_scalar(result):
            (<NDual1>result).v = number_of(a) ** number_of(b)
        elif type(result) is not NDualArray:
            return number_of(a) ** number_of(b)
        elif (<NDualArray>result).device_v is None:
            values(<NDualArray>result)[...] = number_of(a) ** number_of(b)
    return result


cdef bint a_number(object x):
    if type(x) is NDualArray:
        return (<NDualArray>x).flags_ & NSCALAR and (<NDualArray>x).device_v is None
    return is_scalar(x) or not (is_dual_object(x) or isinstance(x, np.ndarray))


cdef object number_of(object x):
    if type(x) is NDualArray:
        return values(<NDualArray>x)[()]
    return nd_float64((<NDual1>x).v) if is_scalar(x) else x


cdef object inplace_power(NDualArray x, object b):
    cdef Row row
    if not (x.flags_ & NSCALAR):
        row = scalar_power_row(x, b)
        if row is not None:
            check_array(x)
            return general(row, (x,), x, None, None)
    return inplace(ROW_POWER, x, b)


cdef object inplace_matmul(NDualArray x, object b):
    setitem(x, Ellipsis, product(np_matmul, x, b))
    return x


cdef object compare(object a, object b, int op):
    a = plain(a)
    b = plain(b)
    if op == Py_LT:
        return a < b
    if op == Py_LE:
        return a <= b
    if op == Py_GT:
        return a > b
    if op == Py_GE:
        return a >= b
    if op == Py_EQ:
        return a == b
    return a != b
