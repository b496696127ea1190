# What a tape notes of its entries for trace_table and config(debug=True): the user's lines, times, bytes, what is NaN.

cdef class Mark:
    """Where and when an entry was made, and how long its pullback took."""

    cdef tuple place             # file, line, function, library
    cdef double forward, backward


cdef list targets_of(Entry entry):
    """The arrays that an entry has cotangents for, None for its other operands."""
    if type(entry) is RuleEntry:
        return (<RuleEntry>entry).targets
    if type(entry) is FormEntry:
        return (<FormEntry>entry).targets
    return [entry.t0, entry.t1, entry.t2]


cdef list results_of(Entry entry):
    return [x for x in (<RuleEntry>entry).outputs if x is not None] if type(entry) is RuleEntry else [entry.out]


cdef list saved_by(Entry entry):
    """What the pullback of an entry reads."""
    if type(entry) is RuleEntry:
        return list((<RuleEntry>entry).saved)
    if type(entry) is FormEntry:
        return list((<FormEntry>entry).operands)
    return [entry.s0, entry.s1, entry.s2, entry.s3]


cdef bint undefined_shadow(object x, Tape tape) except -1:
    if x is None or (<NDualArray>x).size_ == 0 or absent(<NDualArray>x, tape):
        return False
    return _dual.undefined(cotangent(<NDualArray>x, tape))


cdef int pull_marked(Tape tape, Entry entry, Mark mark) except -1:
    """The pullback of an entry with the clock running, and in debug mode a look at what it made."""
    cdef Level outer = tape.level.outer
    cdef int debug = state().debug
    cdef bint known = True
    cdef list before
    cdef object zero = None
    cdef double start
    if mark is None:
        return entry.pull(tape)
    if tape.level.debug:
        before = [undefined_shadow(x, tape) for x in targets_of(entry)]
        known = any([undefined_shadow(x, tape) for x in results_of(entry)]) \
            or any([_dual.undefined(x) for x in saved_by(entry) if type(x) is NDualArray or type(x) is np_ndarray])
        if type(entry) is MapEntry and outer is None and not absent(entry.out, tape):
            zero = cotangent(entry.out, tape) == 0
    if outer is not None:
        outer.place = mark.place
    state().debug = 0                # what a pullback computes on its way may be NaN, and masked
    start = clock()
    try:
        entry.pull(tape)
    finally:
        mark.backward += clock() - start
        state().debug = debug
        if outer is not None:
            outer.place = None
    if not known:
        for number, x in enumerate(targets_of(entry)):
            if not before[number] and undefined_shadow(x, tape):
                raise NotANumberError(
                    f"expected numbers; got NaN in the cotangent that {entry.name()} gives its operand {number}"
                    f"{in_words(mark.place)}. Keep its operands where it is defined and differentiable"
                )
    if zero is not None and zero.any():
        for x in slopes(<MapEntry>entry):
            if (zero & ~np.isfinite(x)).any():
                say_strong_zero(entry.name(), "a derivative", mark.place)
                break
    return 0


cdef list slopes(MapEntry entry):
    """The partial derivatives of a row, in the shape of its result."""
    cdef NDualArray out = entry.out
    cdef list found = []
    cdef object value
    cdef list x = [values(<NDualArray>o) if type(o) is NDualArray else o for o in (entry.s0, entry.s1, entry.s2)]
    cdef list t = [entry.t0, entry.t1, entry.t2]
    ones = np.ones(shape_of(out), cnp.PyArray_DescrFromType(out.typenum))
    value = values(<NDualArray>entry.s3) if type(entry.s3) is NDualArray else None
    with np.errstate(all="ignore"):
        for i in range(entry.nin):
            if t[i] is not None:
                g = HOST.pull(entry.row.spec, entry.row.ufunc, x[:entry.nin], value, i, ones)
                if g is not None:
                    found.append(np.broadcast_to(g, ones.shape))
    return found


cdef int check_cotangent(str name, NDualArray target, object g) except -1:
    """In debug mode: what a rule returns for an operand has its shape and type."""
    cdef object shape = np.shape(_dual.bottom(g)), dtype = getattr(g, "dtype", np.dtype(type(g)))
    cdef object wanted = cnp.PyArray_DescrFromType(target.typenum)
    if shape != shape_of(target):
        raise RuleError(
            f"expected from the vjp of {name} a cotangent of the shape of its operand, {shape_of(target)}; got {shape}"
        )
    if dtype != wanted and not (dtype.kind == "c" and wanted.kind == "f" and dtype.itemsize == 2 * wanted.itemsize):
        raise RuleError(f"expected from the vjp of {name} a cotangent of its operand's type, {wanted}; got {dtype}")
    return 0


cdef tuple row_of(Entry entry, Mark mark, set held):
    """One row of a table: operation, place, shapes of operands and results, dtype, seconds, bytes kept by it alone."""
    cdef Py_ssize_t nbytes = 0
    cdef NDualArray out
    cdef list operands = [], results = []
    for x in results_of(entry):
        if x is not None:
            results.append(shape_of(<NDualArray>x))
    kept = saved_by(entry)
    for i, x in enumerate(targets_of(entry)):
        if type(entry) is MapEntry and i == (<MapEntry>entry).called.nin:
            break                # what follows is a partial that was kept
        if type(x) is not NDualArray and type(entry) is not RuleEntry and i < len(kept):
            x = kept[i]
        if type(x) is NDualArray:
            operands.append(shape_of(<NDualArray>x))
        elif type(x) is np_ndarray:
            operands.append((<object>x).shape)
    for x in kept:
        nbytes += bytes_held(x, held)
    out = <NDualArray>results_of(entry)[0]
    place = None if mark is None else mark.place
    return (entry.name(), place, operands, results, cnp.PyArray_DescrFromType(out.typenum),
            0.0 if mark is None else mark.forward, 0.0 if mark is None else mark.backward, nbytes)


cdef Py_ssize_t bytes_held(object x, set held) except -1:
    """The bytes of the memory behind what an entry keeps, unless an earlier one keeps it too."""
    cdef object owner
    if type(x) is tuple:
        return sum([bytes_held(item, held) for item in x])
    if type(x) is NDualArray:
        owner = deepest(<NDualArray>x).buf
        if <Py_ssize_t><PyObject*>owner in held:
            return 0
        held.add(<Py_ssize_t><PyObject*>owner)
        return (<Buffer>owner).vbytes
    if type(x) is np_ndarray and id(x) not in held:
        held.add(id(x))
        return (<object>x).nbytes
    return 0
