# Where duals enter and leave: arrays of a storage adopted as duals, arguments borrowed, attributes that lead to rules.

def dual(value, tangent, Level level not None):
    """Lift `value` with lanes `tangent` of shape ``(N, *value.shape)`` to a dual of a running level.

    The arrays are borrowed: they are read in place and never changed; the first write copies them.
    """
    if find_level(level.id) is not level:
        raise StaleDualError("expected the level that runs in this thread; enter it first: with level: …")
    if level.recorder is not None:
        raise laneless()
    turn(level)
    if np.shape(tangent) != (level.width, *np.shape(value)):
        raise ValueError(
            f"expected lanes of shape {(level.width, *np.shape(value))}; got {np.shape(tangent)}. Lanes come first"
        )
    return borrow(value, tangent, level)


def wrap(value, tangent, Level level not None, like=None, Py_ssize_t lo=-1):
    """Adopt fresh arrays as a dual; where `value` is a view of one of the duals `like`, the result shares its buffer.

    With `lo`, `tangent` holds only the lanes from that number on, and all others are zero.
    """
    cdef NDualArray x
    if level.recorder is not None:
        raise laneless()
    for candidate in like or ():
        if type(candidate) is NDualArray:
            x = <NDualArray>candidate
            if level.outer is not None:
                if x.buf.level is level and (same_memory(value, x.device_v) or same_memory(tangent, x.device_t)):
                    return adopt(value, tangent, level, x, lo)
                continue
            if x.device_v is None and isinstance(value, np.ndarray) and np.may_share_memory(value, values(x)):
                return adopt(value, tangent, level, x, lo)
            tangent = apart(tangent, x)
    return adopt(value, tangent, level, None, lo)


def split(obj):
    """The value and the lanes of a dual as arrays that share its memory: for rules, which do not write."""
    cdef NDualArray x = as_dual_array(obj)
    return arrays_of(x)


def split_window(obj):
    """As split, with only the lanes that can be other than zero (at least one), and the number of the first."""
    cdef NDualArray x = as_dual_array(obj)
    cdef Py_ssize_t lo, hi
    if x.device_v is None:
        window(x, &lo, &hi)
        if lo < hi:
            return values(x), lane_range(x, lo, hi), lo
    return views_of(x)


def level_of(obj):
    """The level of a dual, which is then at hand."""
    return as_dual_array(obj).buf.level


def mark_text(str text):
    """A text made of a dual, such that it cannot be read as numbers again."""
    return marked(text)


def is_constant(obj):
    """Whether a dual is known to have no derivative: a buffer that no active value was written to."""
    return type(obj) is NDualArray and inert(<NDualArray>obj)


def apply_row(str name, *operands, out=None, where=None, dtype=None):
    """Apply a row of the table to operands, duals among them."""
    if out is not None and type(out) is not NDualArray:
        raise lost(f"{name}(…, out=) into a plain array", "Let the function return a new array")
    return general(_rows[name], operands, out, where, dtype)


def assign_to(target, index, value):
    """target[index] = value for a dual target: for out= and for the functions that write."""
    if type(target) is not NDualArray:
        raise lost("writing duals into a plain array",
                   "Make the array with np.empty_like(x) or np.zeros_like(x), or let the function return a new one")
    setitem(target, index, value)


def set_flags(exact=None, debug=None, copy_constants=None):
    """Set switches of this thread; returns the former `exact` and `debug`."""
    before = bool(nd_tls.exact), bool(nd_tls.debug)
    if exact is not None:
        nd_tls.exact = bool(exact)
    if debug is not None:
        nd_tls.debug = bool(debug)
    if copy_constants is not None:
        nd_tls.copy_constants = bool(copy_constants)
    return before


cdef dict _methods = {}


def set_methods(methods):
    """Fill in the methods of duals that are NumPy functions: name -> function taking the array first."""
    _methods.update(methods)


cdef object method_of(object self, str name):
    function = _methods.get(name)
    if function is not None:
        return functools.partial(function, self)
    if type(self) is not NDualArray:
        if name in SCALAR_ITSELF:
            return self
        if name in SCALAR_RETURNS:
            return lambda *args, **kwargs: self
        if name in SCALAR_PLAIN:
            return getattr(plain_value(self, True), name)
        if not name.startswith("__") and hasattr(NDualArray, name):
            return getattr(box(self), name)
    if not name.startswith("__") and hasattr(np.ndarray, name):
        if type(self) is NDualArray and inert(<NDualArray>self):
            return getattr(inert_value(<NDualArray>self), name)
        raise NoRuleError(
            f"x.{name} is not supported for duals{where()}. Write it with NumPy functions, or use "
            f"ndual.stop_gradient(x).{name} for its value"
        )
    raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


cdef frozenset SCALAR_ITSELF = frozenset({"T", "real", "base"})
cdef frozenset SCALAR_RETURNS = frozenset({"copy", "conj", "conjugate", "item"})
cdef frozenset SCALAR_PLAIN = frozenset({"is_integer", "nbytes", "itemsize"})


def namespace(obj):
    """The array namespace for functions of duals such as this one: what is made there lies where it does."""
    cdef object storage
    if type(obj) is NDualArray:
        storage = memory_of(<NDualArray>obj)
        if storage is not None:
            return _nested_namespace((<NDualArray>obj).buf.level, np, storage)
    return np
