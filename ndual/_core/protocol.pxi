# NumPy's protocols (NEP 13 and 18) and the slot through which calls reach the rules.

cdef object array_ufunc(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names):
    """NEP 13: rows go to their kernels, everything else to the dispatcher. args: ufunc, method, inputs …, keywords."""
    cdef PyObject* found = NULL
    cdef Row row
    cdef object method = <object>args[1]
    cdef object a, b
    # NumPy's method string is a fresh object a call; "__call__" is the one of eight letters that starts with "_".
    cdef bint call = PyUnicode_GET_LENGTH(method) == 8 and PyUnicode_READ_CHAR(method, 0) == c'_'
    if call:
        found = PyDict_GetItem(_row_of_ufunc, <object>args[0])
        if found != NULL:
            row = <Row><object>found
            if names == NULL:
                if count == 3:
                    a = <object>args[2]
                    return unary(row, a) if type(a) is NDualArray else scalar_unary(row, a)
                if count == 4 and row.nin == 2:
                    a = <object>args[2]
                    b = <object>args[3]
                    if type(a) is NDualArray or type(b) is NDualArray:
                        return binary(row, a, b)
                    return scalar_binary(row, a, b)
        elif names == NULL and count == 4 and <object>args[0] is np_matmul:
            return product(np_matmul, <object>args[2], <object>args[3])
    inputs, kwargs = collect(args + 2, count - 2, names)
    if call and found != NULL:
        return ufunc_with(row, inputs, kwargs)
    return dispatch(<object>args[0] if call else (<object>args[0], method), inputs, kwargs)


cdef tuple collect(PyObject* const* args, Py_ssize_t count, PyObject* names):
    """The arguments of a vectorcall as a tuple and a dictionary."""
    cdef Py_ssize_t i
    positional = tuple([<object>args[i] for i in range(count)])
    if names == NULL:
        return positional, {}
    return positional, {name: <object>args[count + i] for i, name in enumerate(<object>names)}


cdef tuple BRIEF = (np_sum, np_mean, np_transpose, np_ravel, np_empty_like, np_zeros_like, np_diag, np_diagonal)


def short_cut(function):
    """What `straight` asks for a function of NumPy's: the row of a ufunc, True for others of the kind, else None."""
    if isinstance(function, np.ufunc):
        return _row_of_ufunc.get(function)
    return True if function in BRIEF else None


cdef object straight(object function, object short, PyObject* const* args, Py_ssize_t count):
    """A call with duals that need not go through NumPy's protocols, which take 0.1 to 0.2 µs; else NotImplemented.

    `short` is what ``short_cut`` says of the function.
    """
    cdef object a = <object>args[0], b
    cdef Row row
    if type(short) is not Row:
        return array_function(function, (a,), {}) if count == 1 and type(a) is NDualArray else NotImplemented
    row = <Row>short
    if count != row.nin:
        return NotImplemented
    if count == 1:
        if type(a) is NDualArray:
            return unary(row, a)
        return scalar_unary(row, a) if is_scalar(a) else NotImplemented
    if count != 2:
        return NotImplemented
    b = <object>args[1]
    if not ordinary(a) or not ordinary(b):
        return NotImplemented
    if type(a) is NDualArray or type(b) is NDualArray:
        return binary(row, a, b)
    return scalar_binary(row, a, b) if is_scalar(a) or is_scalar(b) else NotImplemented


cdef inline bint ordinary(object obj):
    """Whether an operand has no say of its own in what a ufunc does."""
    return type(obj) is NDualArray or type(obj) is np_ndarray or PyFloat_Check(obj) or PyLong_CheckExact(obj) \
        or is_scalar(obj)


cdef PyMethodDef _ufunc_methods[18]


cdef int install_methods() except -1:
    cdef int w
    nd_install_method(<PyTypeObject*>NDualArray, &_ufunc_methods[0], "__array_ufunc__", array_ufunc)
    for w in range(WIDEST + 1):
        nd_install_method(_scalar_types[w], &_ufunc_methods[w + 1], "__array_ufunc__", array_ufunc)
        nd_no_sequence(_scalar_types[w])
    return 0


install_methods()


cdef object ufunc_with(Row row, tuple inputs, dict kwargs):
    """A ufunc call with keywords: out, where, dtype; casting, order and subok as far as they change nothing."""
    out = kwargs.get("out")
    mask = kwargs.get("where", True)
    if isinstance(mask, np.bool) and mask:
        mask = True
    dtype = kwargs.get("dtype")
    for name in kwargs:
        if name not in ("out", "where", "dtype", "casting", "order", "subok"):
            raise NdualError(f"{row.name}(…, {name}=) is not supported for duals{where()}. Leave {name}= out")
    if len(inputs) > row.nin:
        out = inputs[row.nin:]
        inputs = inputs[:row.nin]
    if isinstance(out, tuple):
        out = out[0] if len(out) == 1 else out
    if out is not None:
        if type(out) is not NDualArray:
            if row.ufunc is not None and activity(inputs, mask) < 2:    # plain += np.linspace(…)
                return row.ufunc(*constants(inputs), **constants({**kwargs, "out": out}))
            raise lost(f"{row.name}(…, out=) into a plain array",
                       "Let the function return a new array, or make the output with np.empty_like(x)")
        if mask is True and dtype is None and row.nin <= 2 and direct(
                row, row.nin, inputs[0], inputs[row.nin - 1], <NDualArray>out) is not None:
            return out
        check_array(<NDualArray>out)
        inputs = tuple([not_inner((<NDualArray>out).buf.level, operand_) for operand_ in inputs])
        check_out(row, out, inputs)
    return general(row, inputs, out, None if mask is True else as_mask(plain(mask)), dtype)


cdef object as_mask(mask):
    """What where= was given, as NumPy takes it: numbers and lists are true or false, arrays are of booleans."""
    if isinstance(mask, (int, float, list, tuple)):
        return np.asarray(mask, np.bool)
    if mask.dtype != np.bool:
        raise TypeError(f"expected where= as booleans; got an array of {mask.dtype}. Write mask.astype(bool)")
    return mask


cdef object _dispatcher = None


def set_dispatcher(dispatcher):
    """Fill the slot through which calls of NumPy functions reach the rules: ``dispatcher(function, args, kwargs)``."""
    global _dispatcher
    _dispatcher = dispatcher


cdef object dispatch(object function, tuple args, dict kwargs):
    return _dispatcher(function, args, kwargs)


cdef object array_function(object function, tuple args, dict kwargs):
    """NEP 18. The commonest calls are the methods, which need no rule; the dispatcher takes 5 µs for a view."""
    cdef Py_ssize_t count = len(args)
    if function is np_dot and count == 2 and not kwargs:
        return product(np_dot, args[0], args[1])
    if count and not kwargs and type(args[0]) is NDualArray:
        if function is np_sum and count == 1:
            return sum_all(<NDualArray>args[0])
        if function is np_mean and count == 1:
            return mean_all(<NDualArray>args[0])
        if function is np_reshape and count == 2:
            return reshape(<NDualArray>args[0], args[1], "C", None)
        if function is np_transpose and count <= 2:
            return transpose(<NDualArray>args[0], args[1] if count == 2 else None)
        if function is np_ravel and count == 1:
            return ravel(<NDualArray>args[0], "C")
        if (function is np_empty_like or function is np_zeros_like) and count == 1:
            return like(<NDualArray>args[0], function is np_zeros_like)
        if (function is np_diag or function is np_diagonal) and count == 1 and (<NDualArray>args[0]).ndim_ == 2:
            return diagonal(<NDualArray>args[0])
    return _dispatcher(function, args, kwargs)
