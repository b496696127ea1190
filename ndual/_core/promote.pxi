# What an operand is to NumPy's promotion, and the dtypes in which a row is computed.

cdef bint understood(object obj):
    """Operands that NumPy itself would take; a foreign class gets its chance through NotImplemented."""
    if type(obj) is np_ndarray or is_dual_object(obj):
        return True
    if isinstance(obj, np_ndarray):
        return type(obj).__array_ufunc__ is np_ndarray.__array_ufunc__
    return (PyFloat_Check(obj) or PyLong_Check(obj) or isinstance(obj, PLAIN_OPERANDS)
            or (_storages and storage_of(obj) is not None)
            or not hasattr(obj, "__array_ufunc__") and not hasattr(obj, "__array_priority__"))


cdef object dtype_of_operand(object obj):
    """What NumPy's promotion sees: a dtype, or the weak Python type."""
    if type(obj) is NDualArray:
        return cnp.PyArray_DescrFromType((<NDualArray>obj).typenum)
    if is_dual_object(obj):
        return FLOAT64
    if type(obj) is float or type(obj) is int or type(obj) is complex:
        return type(obj)
    return obj.dtype


cdef object prepare_operand(object obj):
    """A dual as an NDualArray, data as an ndarray or Python number; unknown objects as NumPy would read them."""
    if is_dual_object(obj):
        return as_dual_array(obj)
    if type(obj) is float or type(obj) is int or type(obj) is complex:
        return obj
    if type(obj) is bool:
        return np.bool_(obj)
    if isinstance(obj, (list, tuple)):
        obj = dispatch_sequence(obj)
        if is_dual_object(obj):
            return obj
    if not isinstance(obj, (np.ndarray, np.generic)) and storage_of(obj) is not None:
        return obj
    if any_moved():
        check_original(obj)
    if isinstance(obj, np.ma.MaskedArray):
        raise lost("a masked array beside a dual",
                   "Take its data and its mask apart: np.where(m.mask, 0.0, x * m.data)")
    obj = np.asarray(obj)
    if obj.dtype.hasobject:
        raise NoRuleError(
            f"expected numbers beside a dual; got an array of dtype object{where()}. "
            "Build arrays of duals with np.stack or np.concatenate"
        )
    return obj


cdef tuple result_types(Row row, list operands, object dtype):
    """The dtypes NumPy computes in: one per operand, then the output's."""
    cdef list kinds = [dtype_of_operand(o) for o in (operands[1:] if row is ROW_WHERE else operands)]
    cdef int typenum = -1
    cdef bint weak = False
    if dtype is None:
        for kind in kinds:
            if kind is float or kind is int:
                weak = True
                continue
            if kind is FLOAT64 and typenum in (-1, cnp.NPY_DOUBLE):
                typenum = cnp.NPY_DOUBLE
            elif kind is FLOAT32 and typenum in (-1, cnp.NPY_FLOAT):
                typenum = cnp.NPY_FLOAT
            else:
                typenum = -2
                break
        if typenum >= 0 and row.usable[kernel_dtype(typenum)] and (not weak or row.weak[kernel_dtype(typenum)]):
            return (cnp.PyArray_DescrFromType(typenum),) * (len(operands) + 1)
    if row.ufunc is None:
        kind = np.result_type(*[0.0 if k is float else 0 if k is int else 0j if k is complex else k for k in kinds])
        return (kind,) * (len(operands) + 1)
    if dtype is None:
        return row.ufunc.resolve_dtypes((*kinds, None))
    return row.ufunc.resolve_dtypes((*kinds, None), signature=(None,) * row.nin + (np.dtype(dtype),))


cdef NDualArray cast(NDualArray x, object dtype):
    cdef Py_ssize_t lo, hi
    if cnp.PyArray_DescrFromType(x.typenum) == dtype:
        return x
    if nd_tls.tape != NULL:
        return derived(x, values(x).astype(dtype))
    window(x, &lo, &hi)
    return adopt_array(values(x).astype(dtype), lane_range(x, lo, hi).astype(dtype), x.buf.level, None, lo)


cdef object truth(object condition):
    """The condition of where: it decides, so that neither its lanes nor its dtype enter the result."""
    if type(condition) is NDualArray:
        condition = plain_value(condition, True)
    return condition != 0
