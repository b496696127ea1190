# What an operand is: a dual array, a dual scalar, a weak Python number or plain data; and how a dual leaves the core.

cdef dict _scalar_class_of = {
    cnp.NPY_DOUBLE: np.float64, cnp.NPY_FLOAT: np.float32, NPY_HALF: np.float16,
    cnp.NPY_CDOUBLE: np.complex128, cnp.NPY_CFLOAT: np.complex64,
}


cdef object cnp_scalar_class(int typenum):
    return _scalar_class_of[typenum]


cdef inline bint is_scalar(object obj) noexcept:
    return Py_TYPE(obj) == nd_tls.scalar or scalar_width(Py_TYPE(obj)) >= 0


cdef inline bint is_dual_object(object obj) noexcept:
    return type(obj) is NDualArray or is_scalar(obj)


cdef int check_scalar(object obj) except -1:
    """Have the level of a scalar at hand."""
    if (<NDual1>obj).level != nd_tls.id:
        turn_to((<NDual1>obj).level)
    return 0


cdef NDualArray box(object obj):
    """A dual scalar as a 0-d dual array of its own memory."""
    cdef NDualArray x
    cdef NDual1 s = <NDual1>obj
    cdef Py_ssize_t lo = 0, hi
    check_scalar(obj)
    if nd_tls.tape != NULL:
        x = new_window(running(), cnp.NPY_DOUBLE, 0, NULL, 0, 0)
        store(x, 0, (<CoDual>obj).v, (<CoDual>obj).node)
        x.flags_ |= NSCALAR
        return x
    hi = running().width
    # Only the lanes between the first and the last that are not zero: a parameter of a model has one.
    while hi > 0 and s.p[hi - 1] == 0:
        hi -= 1
    while lo < hi and s.p[lo] == 0:
        lo += 1
    if running().outer is not None:
        x = box_nested(s)
    else:
        x = new_window(running(), cnp.NPY_DOUBLE, 0, NULL, lo, hi)
        memcpy(x.buf.v, &s.v, 8)
        memcpy(x.buf.t, s.p + lo, 8 * (hi - lo))
    x.flags_ |= NSCALAR
    return x


cdef object unbox(NDualArray x):
    """A 0-d result as NumPy would return it: the scalar class of the width, else a 0-d array marked immutable."""
    cdef object s
    cdef NDual1 d
    cdef Py_ssize_t k
    cdef char* t
    if x.device_v is not None:
        return unbox_nested(x) if type(x.device_v) is NDualArray else x
    if inert(x):
        return values(x)[()]
    check_level(x.buf.level)
    if x.typenum == cnp.NPY_DOUBLE and nd_tls.scalar != NULL:
        if nd_tls.tape != NULL:
            return load(x, 0)
        s = new_scalar()
        d = <NDual1>s
        d.v = (<double*>vptr(x))[0]
        memset(d.p, 0, 8 * x.buf.level.width)
        dense(x)
        t = tptr(x)
        for k in range(x.buf.lo, x.buf.hi):
            d.p[k] = (<double*>t)[0]
            t += x.lane
        return s
    if x.flags_ & NSCALAR:
        return x
    x = copy_array(x, "C")
    x.flags_ |= NSCALAR
    return x


cdef inline object finish(NDualArray x):
    return unbox(x) if x.ndim_ == 0 else x


cdef NDualArray as_dual_array(object obj):
    """Any dual as an NDualArray of its level, which is then at hand."""
    if type(obj) is NDualArray:
        check_array(<NDualArray>obj)
        return <NDualArray>obj
    return box(obj)


cdef object plain_value(object obj, bint compared):
    """The primal of a dual as an ndarray view (read-only in spirit), or as a NumPy scalar."""
    cdef NDualArray x
    if type(obj) is NDualArray:
        x = <NDualArray>obj
        if compared:
            check_array(x)
            nd_tls.compared = 1
        if x.device_v is not None:
            if type(x.device_v) is not NDualArray:
                return x.device_v
            value = plain_value(x.device_v, compared)
            return value[()] if x.flags_ & NSCALAR else value
        return values(x)[()] if x.flags_ & NSCALAR else values(x)
    if compared:
        check_scalar(obj)
        nd_tls.compared = 1
    return np.float64((<NDual1>obj).v)


cdef object plain(object obj):
    """The primal of a dual operand; anything else as it is."""
    return plain_value(obj, True) if is_dual_object(obj) else obj


cdef object lost(str what, str remedy):
    """The error to raise."""
    cdef str place = where(), numba = ""
    library = place.rpartition(", within ")[2].rstrip(")")
    if library in ARRAY_OF:
        remedy = f"{library} keeps no derivatives: take its array first, {ARRAY_OF[library]}"
    elif "numba" in sys.modules:
        numba = (". What numba has compiled is called by its Python function, f.py_func, or as "
                 'ndual.differentiate_with(f, "finite_differences")')
    return DerivativeLostError(
        f"{what} would drop the derivative{place}. {remedy}, or ndual.stop_gradient(x) if that is intended{numba}"
    )


cdef int STORE_SUBSCR = opcode.opmap["STORE_SUBSCR"]


cdef object no_float(str remedy):
    """The error of float(x), which NumPy calls too where code writes x into an array of floats."""
    frame = sys._getframe()
    if frame.f_code.co_code[frame.f_lasti] == STORE_SUBSCR:
        return lost("writing a dual into an array from outside", "Make the array inside, or pass it as an argument")
    return lost("float(x)", remedy)


cdef object unhashed():
    """The error for a number as a key: what is found under its value belongs to other derivatives."""
    return lost("hash(x), as for the key of a dictionary, a set or a cache,",
                "Use a key that is not differentiated, or call the function behind the cache (f.__wrapped__)")


cdef str marked(str text):
    """What is printed of a dual: Python and NumPy refuse to read it as a number again, which would be a constant."""
    nd_tls.compared = 1
    return TEXT_MARK + text


cdef str marked_array(NDualArray x, str text):
    return text if inert(x) else marked(text)


# Frames of the operators: what lies outside of them is not the differentiated function.
cdef frozenset OPERATORS = frozenset({
    "ndual.api", "ndual.jacobians", "ndual.layout", "ndual.plan", "ndual.prepare", "ndual.scipy", "ndual._core.run",
})


cdef str where():
    """The user's file and line: the innermost frame outside of this package and of the libraries it serves."""
    return in_words(place_here())


cdef tuple place_here():
    """That as (file, line, function, library it was called within); the line of the forward run while a sweep runs."""
    cdef list frames = []
    cdef Level level = innermost()
    if level is not None and level.place is not None:
        return <tuple>level.place
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") not in OPERATORS:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return first_of_user(frames)


cdef str where_raised(error):
    """The user's file and line that an exception came through last."""
    cdef list frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.insert(0, (traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return in_words(first_of_user(frames))


cdef str module_of(frame):
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


cdef tuple first_of_user(list frames):
    """The first frame that is the user's own: not Python's library, and not an installed package if there is another.

    Frames come innermost first.
    """
    chosen = through = None
    for frame, line in frames:
        module = module_of(frame)
        if module in LIBRARIES or module in sys.stdlib_module_names:
            continue
        if chosen is None:
            chosen = frame, line
        if "site-packages" not in frame.f_code.co_filename:
            through = module_of(chosen[0]) if chosen[0] is not frame else None
            chosen = frame, line
            break
    if chosen is None:
        return None
    return chosen[0].f_code.co_filename, chosen[1], chosen[0].f_code.co_name, through


cdef str in_words(tuple place):
    if place is None:
        return ""
    file, line, function, through = place
    via = "" if through is None else f", within {through}"
    return f" ({file}:{line}, in {function}{via})"


def primal(obj):
    """The value of a dual as a fresh ndarray or NumPy scalar; anything else is returned as it is."""
    if not is_dual_object(obj):
        return obj
    value = plain_value(obj, False)
    return value.copy() if hasattr(value, "copy") and type(obj) is NDualArray else value


def lanes(obj):
    """The tangents of a dual as a fresh array of shape ``(N, *shape)``."""
    cdef NDualArray x
    if not is_dual_object(obj):
        raise TypeError(f"expected a dual array or scalar; got {type(obj).__name__}")
    x = as_dual_array(obj)
    return result_lanes(x)


def is_dual(obj):
    """Whether obj is a dual array or a dual scalar of this library."""
    return is_dual_object(obj)


cdef dict _type_of = {
    np.dtype(c): np.dtype(c).num for c in (np.float16, np.float32, np.float64, np.complex64, np.complex128)
}


def check_dtype(dtype):
    """Refuse a dtype that cannot carry a derivative; return it otherwise."""
    dtype = np.dtype(dtype)
    if dtype in _type_of:
        return dtype
    remedy = "Use float64" if dtype.kind in "iubf" else "Use complex128" if dtype.kind == "c" else "Use a float dtype"
    raise UnsupportedDtype(
        f"expected float16, float32, float64, complex64 or complex128; got {dtype}. {remedy}"
    )


def user_location():
    """`` (file:line, in function)`` of the innermost frame of the user's own code, for messages."""
    return where()


def scalar_classes():
    """The dual scalar classes by width."""
    return {w: <object>_scalar_types[w] for w in range(1, WIDEST + 1)}
