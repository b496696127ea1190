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


cdef int clear(NDualArray x, Tape tape) except -1:
    """Have the cells of an array without cotangent, since they are about to get other values (going backwards)."""
    if absent(x, tape):
        return 0
    writable_shadow(x, tape)[...] = 0.0
    return 0


cdef struct row_reads:
    const char* x[3]
    const Py_ssize_t* xs[3]
    Py_ssize_t strides[3][64]
    double numbers[3]
    float numbers32[3]
    const char* y
    Py_ssize_t ys[64]


@cython.final
@cython.no_gc
cdef class MapEntry(Entry):
    """A row of the table on real host arrays: operands s0 to s2, value s3."""

    cdef str name(self):
        return self.called.name

    cdef int pull(self, Tape tape) except -1:
        cdef NDualArray out = self.out, t
        cdef row_reads r
        cdef Py_ssize_t ts[3][64]
        cdef nd_shadow to[3]
        cdef const char* w
        cdef const Py_ssize_t* ws
        cdef object kept = None
        cdef bint fresh
        cdef double single
        cdef float single32
        cdef int i, ndim
        if out is None or out.buf.sweep != tape.sweep or out.buf.lanes == NULL or out.size_ == 0:
            return 0
        ndim = out.ndim_
        if out.buf.uniform and self.fresh:
            single = (<double*>(out.buf.t + out.buf.vbytes))[0]
            single32 = <float>single
            w = <const char*>&single if out.itemsize_ == 8 else <const char*>&single32
            ws = NOWHERE
        elif self.fresh:
            w = shadow(out, tape, NULL)
            ws = out.vs
        else:
            kept = shadow_array(out, tape).copy()
            clear(out, tape)
            w = cnp.PyArray_BYTES(<cnp.ndarray>kept)
            ws = <const Py_ssize_t*>cnp.PyArray_STRIDES(<cnp.ndarray>kept)
        self.reads(&r)
        for i in range(self.nin):
            t = self.t0 if i == 0 else self.t1 if i == 1 else self.t2
            to[i].t = NULL
            to[i].fresh = False
            if t is not None:
                fresh = False
                to[i].t = shadow(t, tape, &fresh)
                widen(ndim, t.ndim_, t.shape_, t.vs, ts[i])
                to[i].ts = ts[i]
                to[i].fresh = fresh
        run_pull(self.row, out.typenum, self.nin, r.x, r.xs, r.y, r.ys, w, ws, to, ndim, out.shape_)
        return 0

    cdef int reads(self, row_reads* r) except -1:
        """Where the values lie that the partials read."""
        cdef NDualArray x
        cdef cnp.ndarray a
        cdef int i, ndim = self.out.ndim_
        for i in range(self.nin):
            r.xs[i] = r.strides[i]
            r.x[i] = NULL
            obj = self.s0 if i == 0 else self.s1 if i == 1 else self.s2
            if type(obj) is NDualArray:
                x = <NDualArray>obj
                r.x[i] = x.buf.v + x.voff
                widen(ndim, x.ndim_, x.shape_, x.vs, r.strides[i])
            elif type(obj) is np_ndarray:
                a = <cnp.ndarray>obj
                r.x[i] = cnp.PyArray_BYTES(a)
                widen(ndim, cnp.PyArray_NDIM(a), <Py_ssize_t*>cnp.PyArray_DIMS(a),
                      <Py_ssize_t*>cnp.PyArray_STRIDES(a), r.strides[i])
            elif obj is not None:
                r.numbers[i] = obj
                r.numbers32[i] = <float>r.numbers[i]
                r.x[i] = <const char*>&r.numbers[i] if self.out.itemsize_ == 8 else <const char*>&r.numbers32[i]
                r.xs[i] = NOWHERE
        r.y = NULL
        if self.s3 is not None:
            x = <NDualArray>self.s3
            r.y = x.buf.v + x.voff
            for i in range(ndim):
                r.ys[i] = x.vs[i]
        if self.slope != NULL:
            r.x[1] = self.slope
            r.xs[1] = self.out.vs
        return 0


cdef void widen(int ndim, int own, const Py_ssize_t* dims, const Py_ssize_t* strides, Py_ssize_t* to) noexcept:
    """The strides of an operand over the shape of the result."""
    cdef int i, shift = ndim - own
    for i in range(shift):
        to[i] = 0
    for i in range(own):
        to[i + shift] = 0 if dims[i] == 1 else strides[i]


@cython.final
cdef class FormEntry(Entry):
    """A row in its NumPy form: complex numbers, float16, duals of outer derivatives."""

    cdef object storage
    cdef list operands       # and the value; arrays of this level are watched
    cdef list targets
    cdef bint real           # duals of outer levels over real numbers of one type, and operands only as far as read

    cdef str name(self):
        return self.row.name

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
        y = x.pop()
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
        if type(a) is not NDualArray and type(b) is not NDualArray:
            with np.errstate(all="ignore"):
                product = np_multiply(a, b)
            total = np_add.reduce(product, None)
            if total - total == 0:
                return product
        with np.errstate(all="ignore"):
            return self.storage.strong_product(a, b)


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
            return add_device(self.t0, tape, self.t0.storage_.xp.broadcast_to(w, shape_of(self.t0)))
        w = peeled(<NDualArray>w) if type(w) is NDualArray else w
        t = lower_shadow(self.t0, tape)
        if type(w) is NDualArray:
            general(ADD, (t, w), t, None, None)
        else:
            t += w
        return 0

    cdef str name(self):
        return "sum"


@cython.final
@cython.no_gc
cdef class ProductEntry(Entry):
    """np.matmul of real host arrays of one or two axes: s0 and s1 are the factors as far as they are read."""

    cdef str name(self):
        return "matmul"

    cdef int pull(self, Tape tape) except -1:
        cdef object w = self.take(tape)
        if w is not None:
            pull_product(tape, self.s0, self.s1, self.t0, self.t1, w)
        return 0


@cython.final
cdef class RuleEntry(Entry):
    """A structured rule: `function(ws, *saved)` returns the cotangents of the targets from those of the results."""

    cdef str label
    cdef object function, forward    # the latter as the rule of forward mode: tangents of results from those of targets
    cdef list outputs, saved, targets
    cdef bint always

    cdef str name(self):
        return self.label

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


cdef int pull_product(Tape tape, object a, object b, NDualArray ta, NDualArray tb, object w) except -1:
    """The cotangents of two factors of one or two axes; a and b are what is read of them."""
    if ta is not None:
        b = plain_factor(b)
        if ta.ndim_ == 2 and b.ndim == 2:
            add_product(tape, ta, w, b.T, 0, b)
        else:
            add_array(ta, tape, tape.product.transposes[0](np, w, like(ta), b))
    if tb is not None:
        a = plain_factor(a)
        if tb.ndim_ == 2 and a.ndim == 2:
            add_product(tape, tb, a.T, w, 1, a)
        else:
            add_array(tb, tape, tape.product.transposes[1](np, w, a, like(tb)))
    return 0


cdef inline object plain_factor(object factor):
    return values(<NDualArray>factor) if type(factor) is NDualArray else factor


cdef object like(NDualArray x):
    return shape_alone(shape_of(x), cnp.PyArray_DescrFromType(x.typenum))


cdef bytes NOTHING = bytes(64)


cpdef object shape_alone(tuple shape, cnp.dtype dtype):
    """Zeros that take no memory, for formulas that read no more than shape and type; np.broadcast_to takes 5 µs."""
    return np.ndarray(shape, dtype, NOTHING, 0, (0,) * len(shape))


cdef int add_product(Tape tape, NDualArray to, object left, object right, int place, object other) except -1:
    """Add left @ right to a shadow, written straight into it if it is the first; zero times anything is zero."""
    cdef bint first = False
    cdef object t, total
    cdef bint apart = not overlapping(to)
    if apart:
        shadow(to, tape, &first)
        t = shadow_array(to, tape)
    with np.errstate(all="ignore"):  # warnings belong to the value alone
        g = np_matmul(left, right, t) if first else np_matmul(left, right)
        total = np_add.reduce(g, None)
    if not total - total == 0:       # the rule decides
        w = right if place else left
        g = tape.product.transposes[place](np, w, other if place else like(to), like(to) if place else other)
        if first:
            t[...] = g
    if not apart:
        add_array(to, tape, g)
    elif not first:
        np_add(t, g, t)
    return 0
