# Entries: what an operation on arrays leaves on the tape. `pull` takes the cotangent of its result to its operands.

cdef class Keeper(Recorder)


cdef class Recording(Keeper)


cdef class Tape(Recording)


@cython.no_gc
@cython.freelist(128)
cdef class Entry:
    """One operation: its result, what its pullback reads (`s0` to `s3`), and the operands that get cotangents."""

    cdef NDualArray out
    cdef bint fresh            # nothing before it has to do with the shadow of the result
    cdef object s0, s1, s2, s3
    cdef NDualArray t0, t1, t2
    # Fields of some kinds only: those that have no others share the freelist of this class.
    cdef Row row               # whose pullback it is: a product where the partial was kept
    cdef Row called            # what was called
    cdef int nin
    cdef char* slope           # where the partial lies if it is in the memory of the result
    cdef Py_ssize_t node       # that of a result that is a number

    cdef int pull(self, Tape tape) except -1:
        raise NotImplementedError

    cdef str name(self):
        return type(self).__name__

    cdef int replace(self, NDualArray x, NDualArray former) except -1:
        """Hold another array in place of one."""
        self.out = former if self.out is x else self.out
        self.t0 = former if self.t0 is x else self.t0
        self.t1 = former if self.t1 is x else self.t1
        self.t2 = former if self.t2 is x else self.t2
        self.s0 = former if self.s0 is x else self.s0
        self.s1 = former if self.s1 is x else self.s1
        self.s2 = former if self.s2 is x else self.s2
        self.s3 = former if self.s3 is x else self.s3
        return 0

    cdef object take(self, Tape tape):
        """The cotangent of the result as an array one level down, None if there is none; the result has none after."""
        cdef object g
        if self.out is None or absent(self.out, tape):
            return None
        g = cotangent(self.out, tape)
        if not self.fresh:
            g = g.copy()
            clear(self.out, tape)
        return g


cdef int replace_in(list held, NDualArray x, NDualArray former) except -1:
    """Put another array in the places of one."""
    cdef Py_ssize_t i
    if held is not None:
        for i in range(len(held)):
            if held[i] is x:
                held[i] = former
    return 0


cdef int clear(NDualArray x, Tape tape) except -1:
    """Have the cells of an array without cotangent, since they are about to get other values (going backwards)."""
    if absent(x, tape):
        return 0
    writable_shadow(x, tape)[...] = 0.0
    return 0


@cython.final
cdef class FormEntry(Entry):
    """A row in its NumPy form: complex numbers, float16, duals of outer derivatives."""

    cdef object storage
    cdef list operands       # and the value; arrays of this level are watched
    cdef list targets
    cdef bint real           # duals of outer levels over real numbers of one type, and operands only as far as read

    cdef str name(self):
        return self.row.name

    cdef int replace(self, NDualArray x, NDualArray former) except -1:
        replace_in(self.operands, x, former)
        replace_in(self.targets, x, former)
        return Entry.replace(self, x, former)

    cdef int pull(self, Tape tape) except -1:
        cdef object w = self.take(tape)
        cdef Py_ssize_t i
        if w is None:
            return 0
        if self.out.device_v is not None and type(self.out.device_v) is not NDualArray:
            return self.pull_device(tape, w)
        x = [lower_kept(<NDualArray>o, tape) if type(o) is NDualArray else o for o in self.operands]
        y = x.pop()
        if type(w) is NDualArray and self.real:
            w = peeled(<NDualArray>w)
        for i in range(len(self.targets)):
            target = self.targets[i]
            if target is not None:
                if self.real:
                    g = self.share(tape, x, y, i, w)
                else:
                    g = self.form(tape, x, y, i, w)
                if g is not None:
                    add_array(<NDualArray>target, tape, g)
        return 0

    cdef int pull_device(self, Tape tape, object w) except -1:
        """On a device: the cotangents of all operands at once."""
        x = [lower_kept(<NDualArray>o, tape) if type(o) is NDualArray else o for o in self.operands]
        y = kept_value(x.pop())
        wanted = [target is not None for target in self.targets]
        found = self.storage.pull_all(self.row.spec, self.row.ufunc, x, y, wanted, w)
        for target, g in zip(self.targets, found, strict=True):
            if g is not None:
                add_device(<NDualArray>target, tape, g, g is not w)
        return 0

    cdef object form(self, Tape tape, list x, object y, Py_ssize_t i, object w):
        """The cotangent of operand `i` by the row's NumPy form, in the shape of the result."""
        return at_home(tape, self.storage.pull, (self.row.spec, self.row.ufunc, x, y, i, w))

    cdef object share(self, Tape tape, list x, object y, Py_ssize_t i, object w):
        """The cotangent of operand `i`, by the operators of the level below."""
        cdef int coef = self.row.coef[i]
        if coef == ND_COEF_ZERO:
            return None
        if coef == ND_COEF_ONE:
            return w
        if coef == ND_COEF_NEG:
            return unary(NEGATIVE, w) if type(w) is NDualArray else -w
        if type(w) is not np_ndarray and (type(w) is not NDualArray or (<NDualArray>w).device_v is not None):
            found = at_home(tape, self.storage.on_device, (self.row.spec, i, tuple(x), y, w))
            if found is not None:
                return found
        if coef == ND_COEF_X0 or coef == ND_COEF_X1:
            return self.times(x[coef - ND_COEF_X0], w)
        if self.row is SQUARE:
            return self.times(x[0], self.times(2.0, w))
        if coef == ND_COEF_NONE:
            return self.form(tape, x, y, i, w)
        return self.times(at_home(tape, self.storage.partial, (self.row.spec, i, tuple(x), y)), w)

    cdef object times(self, object a, object b):
        """A product in which zero times anything is zero: the kernels' own for arrays of one level."""
        if (type(a) is NDualArray and (<NDualArray>a).device_v is None) \
                or (type(b) is NDualArray and (<NDualArray>b).device_v is None):
            return binary(MULTIPLY, a, b)
        if type(b) is np_ndarray and (type(a) is np_ndarray or type(a) is float):
            product = product_below(a, <cnp.ndarray>b)
            if product is not None:
                return product
        with np.errstate(all="ignore"):
            return self.storage.strong_product(a, b)


cdef object product_below(object a, cnp.ndarray b):
    """The kernel's own product of a number or an array with an array of its shape and type; None for others.

    What it costs beside the other ways: 0.3 µs, where np.errstate alone takes 2.
    """
    cdef int typenum = cnp.PyArray_TYPE(b), i
    cdef double number
    cdef float number32
    cdef const char* x[2]
    cdef const Py_ssize_t* xs[2]
    cdef nd_shadow to[2]
    cdef cnp.ndarray found
    if (typenum != cnp.NPY_DOUBLE and typenum != cnp.NPY_FLOAT) or not cnp.PyArray_ISBEHAVED_RO(b):
        return None
    x[0] = NULL
    xs[0] = NOWHERE
    if type(a) is np_ndarray:
        if cnp.PyArray_TYPE(<cnp.ndarray>a) != typenum or cnp.PyArray_NDIM(<cnp.ndarray>a) != cnp.PyArray_NDIM(b) \
                or not cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>a):
            return None
        for i in range(cnp.PyArray_NDIM(b)):
            if cnp.PyArray_DIM(<cnp.ndarray>a, i) != cnp.PyArray_DIM(b, i):
                return None
        x[1] = cnp.PyArray_BYTES(<cnp.ndarray>a)
        xs[1] = <const Py_ssize_t*>cnp.PyArray_STRIDES(<cnp.ndarray>a)
    else:
        number = a
        number32 = <float>number
        x[1] = <const char*>&number if typenum == cnp.NPY_DOUBLE else <const char*>&number32
        xs[1] = NOWHERE
    found = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(b), cnp.PyArray_DIMS(b), typenum, 0)
    to[0].t = cnp.PyArray_BYTES(found)
    to[0].ts = <const Py_ssize_t*>cnp.PyArray_STRIDES(found)
    to[0].fresh = True
    to[1].t = NULL
    to[1].ts = NULL
    to[1].fresh = False
    run_pull(product_row(), typenum, 2, x, xs, NULL, NULL, cnp.PyArray_BYTES(b),
             <const Py_ssize_t*>cnp.PyArray_STRIDES(b), to, cnp.PyArray_NDIM(b),
             <const Py_ssize_t*>cnp.PyArray_DIMS(b))
    return found


@cython.final
@cython.no_gc
cdef class SumEntry(Entry):
    """The sum of all cells of t0, a number: its node is that of the entry."""

    cdef int pull(self, Tape tape) except -1:
        cdef double w = tape.adjoint[self.node]
        if w != 0:
            add_everywhere(self.t0, tape, w)
        return 0

    cdef str name(self):
        return "sum"


@cython.final
cdef class LowerSumEntry(Entry):
    """The sum of all cells of t0, an array of an inner level."""

    cdef int pull(self, Tape tape) except -1:
        cdef NDualArray t
        cdef object w = self.take(tape)
        if w is None:
            return 0
        if type(self.t0.device_v) is not NDualArray:
            return add_device(self.t0, tape, self.t0.storage_.spread(w, shape_of(self.t0)))
        w = peeled(<NDualArray>w) if type(w) is NDualArray else w
        if overlapping(self.t0):
            return add_array(self.t0, tape, w)
        t = lower_shadow(self.t0, tape)
        if type(w) is NDualArray:
            general(ADD, (t, w), t, None, None)
        else:
            t += w
        return 0

    cdef str name(self):
        return "sum"


@cython.final
cdef class RuleEntry(Entry):
    """A structured rule: `function(ws, *saved)` returns the cotangents of the targets from those of the results."""

    cdef str label
    cdef object function, forward    # the latter as the rule of forward mode: tangents of results from those of targets
    cdef list outputs, saved, targets
    cdef bint always, lends

    cdef str name(self):
        return self.label

    cdef int replace(self, NDualArray x, NDualArray former) except -1:
        replace_in(self.outputs, x, former)
        replace_in(self.saved, x, former)
        replace_in(self.targets, x, former)
        return Entry.replace(self, x, former)

    cdef int pull(self, Tape tape) except -1:
        cdef list ws = []
        cdef bint some = False
        cdef NDualArray y
        for out in self.outputs:
            if out is None or absent(<NDualArray>out, tape):
                ws.append(None)
                continue
            some = True
            y = <NDualArray>out
            w = cotangent(y, tape)
            ws.append(w[()] if w.ndim == 0 else w)
        if not some and not self.always:
            return 0
        x = [lower_kept(<NDualArray>o, tape) if type(o) is NDualArray else o for o in self.saved]
        for target, g in zip(self.targets, self.function(ws, *x), strict=True):
            if g is not None:
                if tape.level.debug:
                    check_cotangent(self.label, <NDualArray>target, g)
                if self.lends and type(g) is np_ndarray and lendable(<NDualArray>target, tape, <cnp.ndarray>g):
                    add_multiple(<NDualArray>target, tape, 1.0, g)
                    continue
                add_array(<NDualArray>target, tape, g if hasattr(g, "dtype") else np.asarray(g))
        return 0


cdef object at_home(Tape tape, function, tuple args):
    """A call whose own arrays belong to the derivative around this one."""
    cdef object former
    if tape.level.outer is None:
        with np.errstate(all="ignore"):
            return function(*args)
    former = _dual.go_home(tape.level.outer)
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    finally:
        _dual.go_home(former)


cdef object lower_kept(NDualArray x, Tape tape):
    return lower(x) if x.buf.level is tape.level else x


cdef object like(NDualArray x):
    return shape_alone(shape_of(x), cnp.PyArray_DescrFromType(x.typenum))


cdef bytes NOTHING = bytes(64)


cpdef object shape_alone(tuple shape, cnp.dtype dtype):
    """Zeros that take no memory, for formulas that read no more than shape and type; np.broadcast_to takes 5 µs."""
    return np.ndarray(shape, dtype, NOTHING, 0, (0,) * len(shape))
