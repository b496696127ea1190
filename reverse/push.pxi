# The sweep from the first node to the last: tangents of the arguments on their way to the results. A shadow is then the
# tangent of its buffer, and every entry has done to it what the operation did to the values.

cdef int push_all(Tape tape, list leaves, list tangents) except -1:
    """Tangents of everything on the tape, from those of the leaves."""
    cdef Py_ssize_t i
    cdef nd_tape_node* node
    cdef double* t
    cdef double w
    cdef Buffer buf
    tape.sweep += 1
    tape.claim()
    t = tape.adjoint
    for leaf, tangent in zip(leaves, tangents, strict=True):
        if tangent is None:
            continue
        if type(leaf) is CoDual:
            t[(<CoDual>leaf).node] = tangent
        else:
            put(<NDualArray>leaf, tape, tangent)
    for i in range(tape.tape.count):
        node = &tape.tape.node[i]
        if node.a >= -1:
            w = 0
            if node.a >= 0 and node.da != 0 and t[node.a] != 0:
                w += node.da * t[node.a]
            if node.b >= 0 and node.db != 0 and t[node.b] != 0:
                w += node.db * t[node.b]
            if node.a >= 0 or node.b >= 0:
                t[i] = w
        elif node.a == ND_NODE_LOAD:
            buf = <Buffer>tape.buffers[node.b]
            t[i] = 0
            if buf.sweep == tape.sweep:
                t[i] = (<double*>(cells_of(buf, tape, True) + node.at))[0]
        elif node.a == ND_NODE_STORE:
            buf = <Buffer>tape.buffers[node.b]
            w = t[node.from_] if node.from_ >= 0 else 0
            if w != 0 or buf.sweep == tape.sweep:
                (<double*>(cells_of(buf, tape, True) + node.at))[0] = w
        else:
            push(<Entry>tape.entries[node.b], tape)
    return 0


cdef object tangent_of(NDualArray x, Tape tape):
    """The tangent of an array as one that a formula may read; None where it is zero."""
    return None if x is None or absent(x, tape) else cotangent(x, tape)


cdef int put(NDualArray x, Tape tape, object t) except -1:
    """Have a tangent, None for zero."""
    if t is None:
        return clear(x, tape)
    writable_shadow(x, tape)[...] = t
    return 0


cdef object same_type(NDualArray x, object t):
    """A tangent of an array, real if the array is."""
    return t.real if t.dtype.kind == "c" and x.typenum != cnp.NPY_CDOUBLE and x.typenum != cnp.NPY_CFLOAT else t


cdef int push(Entry entry, Tape tape) except -1:
    cdef object t
    if type(entry) is MapEntry:
        return push_row(<MapEntry>entry, tape)
    if type(entry) is FormEntry:
        return push_form(<FormEntry>entry, tape)
    if type(entry) is RuleEntry:
        return push_rule(<RuleEntry>entry, tape)
    if type(entry) is ScatterEntry:
        return push_scatter(entry, tape)
    if type(entry) is ProductEntry:
        return push_product(entry, tape)
    t = tangent_of(entry.t0, tape)
    if type(entry) is SumEntry:
        tape.adjoint[(<SumEntry>entry).node] = 0 if t is None else t.sum()
        return 0
    if t is None:
        return clear(entry.out, tape)
    if type(entry) is LowerSumEntry:
        t = t.sum()
    elif type(entry) is GatherEntry:
        t = t[entry.s0]
    elif type(entry) is CopyEntry:
        t = t.copy() if entry.s0 is None else flat_shadow(entry.t0, tape)[entry.s0]
    else:
        raise NdualError(f"expected operations that linearize knows; got {entry.name()}. Use jvp")
    return put(entry.out, tape, t)


cdef int push_row(MapEntry entry, Tape tape) except -1:
    """A row: the map along one operand is its own transpose, so the kernel of the pullback serves."""
    cdef NDualArray out = entry.out, t
    cdef cnp.ndarray found = None
    cdef row_reads r
    cdef Py_ssize_t ws[64]
    cdef nd_shadow to[3]
    cdef int i, k, ndim = out.ndim_
    entry.reads(&r)
    for i in range(entry.nin):
        t = entry.target(i)
        if t is None or absent(t, tape) or out.size_ == 0:
            continue
        if found is None:
            found = np.zeros(shape_of(out), cnp.PyArray_DescrFromType(out.typenum))
        for k in range(entry.nin):
            to[k].t = NULL
            to[k].fresh = False
        to[i].t = cnp.PyArray_BYTES(found)
        to[i].ts = <const Py_ssize_t*>cnp.PyArray_STRIDES(found)
        widen(ndim, t.ndim_, t.shape_, t.vs, ws)
        run_pull(entry.row, out.typenum, entry.nin, r.x, r.xs, r.y, r.ys, shadow(t, tape, NULL), ws, to, ndim,
                 out.shape_)
    return put(out, tape, found)


cdef int push_form(FormEntry entry, Tape tape) except -1:
    cdef object found = None, t
    cdef Py_ssize_t i
    ts = [tangent_of(<NDualArray>t, tape) if t is not None else None for t in entry.targets]
    if any([t is not None for t in ts]):
        x = [lower_kept(<NDualArray>o, tape) if type(o) is NDualArray else o for o in entry.operands]
        y = kept_value(x.pop())
        if y is None and not entry.real:
            y = entry.storage.value(entry.row.spec, entry.row.ufunc, x, None)
        if entry.real:
            for i in range(len(ts)):
                if ts[i] is not None:
                    t = entry.share(tape, x, y, i, ts[i])
                    found = t if found is None else found if t is None else found + t
            return put(entry.out, tape, found)
        found = at_home(tape, entry.storage.push, (entry.row.spec, entry.row.ufunc, x, y, ts))
    return put(entry.out, tape, None if found is None else same_type(entry.out, found))


cdef int push_rule(RuleEntry entry, Tape tape) except -1:
    cdef list found = [None] * len(entry.outputs)
    ts = [tangent_of(<NDualArray>t, tape) for t in entry.targets]
    if any([t is not None for t in ts]):
        if entry.forward is None:
            raise NdualError(f"expected operations that linearize knows; got {entry.label}. Use jvp")
        x = [lower_kept(<NDualArray>o, tape) if type(o) is NDualArray else o for o in entry.saved]
        found = list(entry.forward(ts, *x))
    for out, t in zip(entry.outputs, found, strict=True):
        if out is not None:
            put(<NDualArray>out, tape, None if t is None else same_type(<NDualArray>out, t))
    return 0


cdef int push_scatter(Entry entry, Tape tape) except -1:
    cdef object t = tangent_of(entry.t0, tape)
    cdef NDualArray out = entry.out
    if t is None:
        if not absent(out, tape):
            writable_shadow(out, tape)[entry.s0] = 0
        return 0
    t = t.copy() if entry.s1 is None else flat_shadow(entry.t0, tape)[entry.s1]
    writable_shadow(out, tape)[entry.s0] = t
    return 0


cdef int push_product(Entry entry, Tape tape) except -1:
    cdef object a = tangent_of(entry.t0, tape), b = tangent_of(entry.t1, tape), found = None
    if a is not None:
        found = tape.product.lanes(np, a[None], plain_factor(entry.s1), True, False)[0]
    if b is not None:
        t = tape.product.lanes(np, plain_factor(entry.s0), b[None], False, True)[0]
        found = t if found is None else found + t
    return put(entry.out, tape, found)
