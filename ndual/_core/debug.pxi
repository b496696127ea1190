# What config(debug=True) looks at: every operation and rule, once its result is known. Numbers are arrays then,
# and no operation takes a short way, so that each of them comes through here.

# Rows that pick an operand: what they do not pick has no part in the derivative, infinite or not.
cdef frozenset PICKING = frozenset({"where", "maximum", "minimum", "fmax", "fmin", "clip", "copysign"})


cdef class Cells:
    """What an operand or result holds: its values, its lanes if they can be other than zero, those of outer levels."""

    cdef object value, lanes
    cdef list deeper

    def __cinit__(self, obj):
        self.value = np.asarray(to_host(plain_value(obj, False) if is_dual_object(obj) else obj))
        self.deeper = []
        if type(obj) is NDualArray:
            self.take(<NDualArray>obj, True)

    cdef int take(self, NDualArray x, bint first) except -1:
        cdef object t = None
        if x.buf.level.recorder is None and not inert(x):
            if x.device_v is None:
                t = lanes_of(x)
            elif on_device(x):
                t = x.storage_.host(device_lanes(x))
            elif type(x.device_t) is NDualArray:
                t = to_host(plain_value(x.device_t, False))
                self.take(<NDualArray>x.device_t, False)
        if type(x.device_v) is NDualArray:
            self.take(<NDualArray>x.device_v, False)
        if first:
            self.lanes = t
        elif t is not None:
            self.deeper.append(t)
        return 0

    cdef bint undefined(self, bint lanes):
        """Whether there is a NaN among the values, or among the lanes."""
        if not lanes:
            return has_nan(self.value)
        return has_nan(self.lanes) or any([has_nan(t) for t in self.deeper])


cdef bint has_nan(object cells):
    return cells is not None and cells.dtype.kind in "fc" and bool(np.isnan(cells).any())


cdef object made_nan(str name, str what, object found, list operands):
    """The error for the first NaN, with the operands at its cell where they are as many cells."""
    cdef list said = []
    cdef Cells cells
    at = tuple([int(i) for i in np.argwhere(np.isnan(found))[0]])
    for number, cells in enumerate(operands):
        value = cells.value
        if value.dtype.kind in "fciub" and (value.size == 1 or value.shape == found.shape):
            said.append(f"operand {number} = {np.broadcast_to(value, found.shape)[at]}")
    place = f" at index {at}" if at else ""
    return NotANumberError(
        f"expected numbers; got NaN in the {what} of {name}{place}{where()}"
        f"{', with ' + ', '.join(said) if said else ''}. Keep its operands where it is defined and differentiable"
    )


cdef object watched(Row row, tuple args, object out, object mask, object dtype):
    """A row of the table, and a look at what it made."""
    cdef Cells cells
    cdef list operands = [Cells(a) for a in args], hot = []
    cdef bint value_known = any_undefined(operands, False), lanes_known = any_undefined(operands, True)
    for cells in operands:
        if cells.lanes is not None and not np.isfinite(cells.lanes).all():
            hot.append(~np.isfinite(cells.lanes))
        if out is not None:          # which may be an operand
            cells.value = cells.value.copy()
    nd_tls.debug = 0
    try:
        result = run_row(row, args, out, mask, dtype)
    finally:
        nd_tls.debug = 1
    look(row.name, result, operands, value_known, lanes_known)
    if hot and row.name not in PICKING:
        warn_strong_zero(row.name, Cells(result), hot)
    return result


cdef bint any_undefined(list operands, bint lanes):
    cdef Cells cells
    for cells in operands:
        if cells.undefined(lanes):
            return True
    return False


cdef int look(str name, object result, list operands, bint value_known, bint lanes_known) except -1:
    cdef Cells made = Cells(result)
    if value_known:
        return 0
    if has_nan(made.value):
        raise made_nan(name, "value", made.value, operands)
    if lanes_known:
        return 0
    for what, lanes_ in [("tangent", made.lanes), *[("second derivative", t) for t in made.deeper]]:
        if has_nan(lanes_):
            at = tuple(np.argwhere(np.isnan(lanes_))[0][:lanes_.ndim - made.value.ndim])
            raise made_nan(name, what, lanes_[at], operands)
    return 0


cdef int warn_strong_zero(str name, Cells made, list hot) except -1:
    """Say that a tangent which is not finite met a derivative of zero."""
    cdef int ndim = made.value.ndim
    for cells in hot:
        cells = cells.reshape(cells.shape[:1] + (1,) * (ndim + 1 - cells.ndim) + cells.shape[1:])
        if (cells & (True if made.lanes is None else np.isfinite(made.lanes))).any():
            say_strong_zero(name, "a tangent", place_here())
            return 0
    return 0


cdef int say_strong_zero(str name, str what, tuple place) except -1:
    warnings.warn(StrongZeroWarning(
        f"{what} that is not finite met a derivative of zero in {name}{in_words(place)}; their product was taken as 0. "
        "Where the limit is another number, write the function so that it does not pass this point"
    ))
    return 0


cdef list duals_among(object obj):
    """The dual arrays in nested arguments or results."""
    cdef list found = []
    if type(obj) is NDualArray:
        found.append(obj)
    elif isinstance(obj, (tuple, list)):
        for item in obj:
            found += duals_among(item)
    elif type(obj) is dict:
        for item in obj.values():
            found += duals_among(item)
    return found


def undefined(obj):
    """Whether there is a NaN in what obj holds: its values, or lanes of any level."""
    cells = Cells(obj)
    return (<Cells>cells).undefined(False) or (<Cells>cells).undefined(True)


def debugging():
    """Whether operations of this thread are looked at."""
    return bool(nd_tls.debug)


def watched_rule(str name, run, tuple given, args, kwargs):
    """A rule, and a look at its results: NaN, and whether derivatives share memory where values do and nowhere else."""
    cdef list duals = duals_among((args, kwargs))
    cdef list operands = [Cells(x) for x in duals]
    cdef bint value_known = any_undefined(operands, False), lanes_known = any_undefined(operands, True)
    nd_tls.debug = 0
    try:
        result = run(*given)
    finally:
        nd_tls.debug = 1
    value_known = value_known or name == "numpy.empty_like"    # which holds what was there before
    for y in duals_among(result):
        look(name, y, operands, value_known, lanes_known)
        for x in duals:
            if x is not y:
                check_alias(name, <NDualArray>x, <NDualArray>y)
    return result


cdef bint shares_cells(object a, object b) except -1:
    try:
        return np.shares_memory(a, b, max_work=100000)
    except np.exceptions.TooHardError:
        return np.may_share_memory(a, b)


cdef int check_alias(str name, NDualArray x, NDualArray y) except -1:
    cdef bint values_shared, lanes_shared
    if (x.flags_ | y.flags_) & NSCALAR or x.buf.level is not y.buf.level or x.size_ == 0 or y.size_ == 0:
        return 0
    if x.device_v is not None and type(x.device_v) is not NDualArray:
        return 0
    values_shared = shares_cells(plain_value(x, False), plain_value(y, False))
    if x.buf.level.recorder is not None:         # a shadow lies as the memory of the values does
        lanes_shared = values_shared and (same_memory(x, y) if x.device_v is not None else x.buf is y.buf)
    elif inert(x) or inert(y):
        return 0
    elif x.device_v is not None:
        lanes_shared = shares_cells(plain_value(x.device_t, False), plain_value(y.device_t, False))
    else:
        lanes_shared = shares_cells(lane_range(x, x.buf.lo, x.buf.hi), lane_range(y, y.buf.lo, y.buf.hi))
    if values_shared != lanes_shared:
        raise AliasError(
            f"expected the derivative of {name} to share memory with that of its argument where the value does; got "
            f"{'a value' if values_shared else 'a derivative'} that is a view beside "
            f"{'a derivative' if values_shared else 'a value'} that is none{where()}. Have the rule return alike views"
        )
    return 0
