# Rows of the table on real host arrays, the most frequent entries.

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
        cdef NDualArray out = self.out
        cdef row_reads r
        cdef const char* w
        cdef const Py_ssize_t* ws
        cdef object kept, t
        cdef double single, factor
        cdef float single32
        cdef int wanted, same = -1
        if out is None or out.buf.sweep != tape.sweep or out.size_ == 0:
            return 0
        self.reads(&r)
        wanted = (self.t0 is not None) | (self.t1 is not None) << 1 | (self.t2 is not None) << 2
        if self.fresh and (out.buf.uniform or out.buf.multiple or out.buf.vbytes >= HANDED):
            wanted = self.hand_on(tape, &r, wanted)
        if not self.fresh:
            same = self.in_place(wanted, &r)
            if same < 0:
                kept = shadow_array(out, tape).copy()
                clear(out, tape)
                return self.pull_cells(tape, &r, wanted, cnp.PyArray_BYTES(<cnp.ndarray>kept),
                                       <const Py_ssize_t*>cnp.PyArray_STRIDES(<cnp.ndarray>kept))
            wanted &= ~(1 << same)
        if wanted == 0 and same < 0:
            let_go(out.buf)
            return 0
        if out.buf.uniform and (self.fresh or one_to_one(out)):
            single = out.buf.number
            single32 = <float>single
            w = <const char*>&single if out.itemsize_ == 8 else <const char*>&single32
            ws = NOWHERE
        else:
            w = shadow(out, tape, NULL)
            ws = out.vs
        if wanted:
            self.pull_cells(tape, &r, wanted, w, ws)
        if same >= 0:
            factor = self.partial(same, &r, 1.0)
            if factor != 1:
                t = shadow_array(out, tape)
                with np.errstate(all="ignore"):
                    np_multiply(t, factor, t)
        elif self.fresh:
            let_go(out.buf)
        return 0

    cdef int name_multiple(self) except -1:
        """Have a product with a number be known as a multiple of the other operand."""
        cdef NDualArray out = self.out
        cdef row_reads r
        cdef int i = 0 if self.t1 is None else 1
        if out.buf.vbytes < HANDED or self.t2 is not None or (i and self.t0 is not None) or (
                self.row is not MULTIPLY and self.row is not NEGATIVE and (self.row is not DIVIDE or i)):
            return 0
        if self.row.nin == 2 and not isinstance(self.s0 if i else self.s1, (float, int)):
            return 0
        self.reads(&r)
        return name_multiple(self.target(i), out, self.partial(i, &r, 1.0))

    cdef int in_place(self, int wanted, row_reads* r) except -2:
        """The operand that the result was written over, if its cotangent is that of the result times a number; -1 if
        there is none."""
        cdef NDualArray out = self.out, t
        cdef int i, same = -1
        for i in range(self.nin):
            if wanted >> i & 1:
                t = self.target(i)
                if t.buf is not out.buf:
                    continue
                if same >= 0 or not same_view(t, out) or not self.steady(i, r) or overlapping(out) \
                        or not handy(self.partial(i, r, 1.0), out.itemsize_):
                    return -1
                same = i
        return same

    cdef int pull_cells(self, Tape tape, row_reads* r, int wanted, const char* w, const Py_ssize_t* ws) except -1:
        """Add to the shadows of the wanted operands what cells of a cotangent, or one number, give them."""
        cdef NDualArray out = self.out, t
        cdef Py_ssize_t ts[3][64]
        cdef nd_shadow to[3]
        cdef bint fresh
        cdef int i
        for i in range(self.nin):
            to[i].t = NULL
            to[i].fresh = False
            if wanted >> i & 1:
                t = self.target(i)
                fresh = False
                to[i].t = shadow(t, tape, &fresh)
                widen(out.ndim_, t.ndim_, t.shape_, t.vs, ts[i])
                to[i].ts = ts[i]
                to[i].fresh = fresh
        return run_pull(self.row, out.typenum, self.nin, r.x, r.xs, r.y, r.ys, w, ws, to, out.ndim_, out.shape_)

    cdef inline NDualArray target(self, int i):
        return self.t0 if i == 0 else self.t1 if i == 1 else self.t2

    cdef int hand_on(self, Tape tape, row_reads* r, int wanted) except -1:
        """Serve operands without a pass over cells, as far as that is possible; what is left of `wanted`."""
        cdef NDualArray out = self.out, t
        cdef Buffer buf = out.buf
        cdef double number = buf.number if buf.uniform or buf.multiple else 1.0, found
        cdef int i, place, moving = -1
        for i in range(self.nin):
            if not wanted >> i & 1:
                continue
            t = self.target(i)
            if not like_cells(t, out):
                if buf.uniform and t.size_ == 1 and out.typenum == cnp.NPY_DOUBLE:
                    found = self.total(i, r, NULL, number)
                    if found - found == 0:
                        (<double*>shadow(t, tape, NULL))[0] += found
                        wanted &= ~(1 << i)
                continue
            if self.steady(i, r):
                found = self.partial(i, r, number)
                if buf.uniform:
                    add_everywhere(t, tape, found)
                elif not handy(found, out.itemsize_):
                    continue
                elif buf.towner is not None:
                    add_multiple(t, tape, found, buf.towner)
                else:
                    if absent(t, tape):
                        moving = i
                    continue
                wanted &= ~(1 << i)
            elif buf.uniform:
                place = self.proportional(i, r)
                if place >= 0:
                    found = self.scale(i, place, r, number)
                    if handy(found, out.itemsize_):
                        add_multiple(t, tape, found, self.kept(place))
                        wanted &= ~(1 << i)
        if wanted and not buf.uniform:
            return self.hand_cells(tape, r, wanted, moving)
        return wanted

    cdef int hand_cells(self, Tape tape, row_reads* r, int wanted, int moving) except -1:
        """The same where cells have to be read: one operand may get them as they are once the others have read them."""
        cdef NDualArray out = self.out, t
        cdef Buffer buf = out.buf
        cdef const char* w
        cdef double found, number = buf.number if buf.multiple else 1.0
        cdef int i, others = wanted if moving < 0 else wanted & ~(1 << moving)
        w = cells_behind(buf) + out.voff
        for i in range(self.nin):
            t = self.target(i) if others >> i & 1 else None
            if t is None or t.size_ != 1 or out.typenum != cnp.NPY_DOUBLE:
                continue
            found = self.total(i, r, w, number)
            if found - found == 0:
                (<double*>shadow(t, tape, NULL))[0] += found
                others &= ~(1 << i)
        if moving < 0:
            return others
        if others:
            self.pull_cells(tape, r, others, shadow(out, tape, NULL), out.vs)
        t = self.target(moving)
        if not absent(t, tape):      # another operand is the same array
            return 1 << moving
        found = self.partial(moving, r, buf.number if buf.multiple else 1.0)
        if not handy(found, out.itemsize_):      # without the factor that was spelt out
            return 1 << moving
        move_shadow(buf, t.buf, found, out.itemsize_)
        return 0

    cdef inline bint steady(self, int i, row_reads* r) noexcept:
        """Whether the partial derivative with respect to an operand is one number for all cells."""
        return self.fixed(self.row.needs[i], r)

    cdef bint fixed(self, int needs, row_reads* r) noexcept:
        """Whether what some bits of `needs` say is the same for all cells."""
        cdef int k, axis
        if needs & 8:
            return False
        for k in range(self.nin):
            if needs >> k & 1:
                for axis in range(self.out.ndim_):
                    if r.xs[k][axis] != 0 and self.out.shape_[axis] > 1:
                        return False
        return True

    cdef double partial(self, int i, row_reads* r, double number) except? -1:
        """That number, times another one."""
        cdef float number32 = <float>number, found32 = 0
        cdef double found = 0
        cdef int coef = self.row.coef[i]
        if coef == ND_COEF_ONE:
            return number
        if coef == ND_COEF_NEG:
            return -number
        if self.out.itemsize_ == 8:
            self.pull_one(i, r, <const char*>&number, NOWHERE, 0, <char*>&found)
            return found
        self.pull_one(i, r, <const char*>&number32, NOWHERE, 0, <char*>&found32)
        return found32

    cdef int proportional(self, int i, row_reads* r) noexcept:
        """The place of an array, laid out as the result is, that a partial derivative is a number times; -1 if none."""
        cdef int place, needs = self.row.needs[i], bits = self.row.scale[i]
        if bits == 0 or self.slope != NULL:
            return -1
        for place in range(4):
            if bits >> place & 1 and self.fixed(needs & ~(1 << place), r) and values_like(self.kept(place), self.out):
                return place
        return -1

    cdef inline object kept(self, int place):
        return self.s0 if place == 0 else self.s1 if place == 1 else self.s2 if place == 2 else self.s3

    cdef double scale(self, int i, int place, row_reads* r, double number) except? -1:
        """The number of that, times another one: the partial derivative where the array is one."""
        cdef double one = 1
        cdef float one32 = 1
        cdef const char* at = <const char*>&one if self.out.itemsize_ == 8 else <const char*>&one32
        cdef const char* former = r.y if place == 3 else r.x[place]
        cdef double found
        if place == 3:
            r.y = at
        else:
            r.x[place] = at
        found = self.partial(i, r, number)
        if place == 3:
            r.y = former
        else:
            r.x[place] = former
        return found

    cdef double total(self, int i, row_reads* r, const char* w, double number) except? -1:
        """What cells of a cotangent times a number give an operand that is a number itself, the number alone without
        cells; NaN where zeros decide or what is summed may have vanished without the number, and where the kernel does
        it as well."""
        cdef NDualArray out = self.out
        cdef double found = 0
        cdef char* cells
        cdef int place
        if w == NULL and self.steady(i, r):
            return self.partial(i, r, number) * out.size_
        place = self.proportional(i, r) if out.flags_ & NCONTIGUOUS else -1
        if place >= 0:
            found = self.scale(i, place, r, number)
            if not handy(found, 8):
                return NAN
            number = found
            cells = cells_below(self.kept(place))
            found = CELLS64.sum(cells, out.size_) if w == NULL else CELLS64.dot(cells, w, out.size_)
        elif w == NULL or number == 1:
            return NAN
        else:
            self.pull_one(i, r, w, out.vs, out.ndim_, <char*>&found)
        return number * found if abs(found) > FAINT else NAN

    cdef int pull_one(self, int i, row_reads* r, const char* w, const Py_ssize_t* ws, int ndim, char* found) except -1:
        """The kernel for one operand whose cotangent is one number."""
        cdef nd_shadow to[3]
        cdef int k
        for k in range(self.nin):
            to[k].t = NULL
            to[k].fresh = False
        to[i].t = found
        to[i].ts = NOWHERE
        to[i].fresh = True
        return run_pull(self.row, self.out.typenum, self.nin, r.x, r.xs, r.y, r.ys, w, ws, to, ndim, self.out.shape_)

    cdef int reads(self, row_reads* r) except -1:
        """Where the values lie that the partials read."""
        cdef NDualArray x
        cdef cnp.ndarray a
        cdef int i, ndim = self.out.ndim_
        for i in range(self.nin):
            r.xs[i] = r.strides[i]
            r.x[i] = NULL
            obj = self.kept(i)
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
