# The tape itself: what the core tells it while f runs, and the sweep.

ctypedef struct note:            # one value that an entry reads from a buffer, in a list that runs through the buffer
    int32_t entry, place
    Py_ssize_t next, low, high   # the bytes it lies in


@cython.final
cdef class Tape(Recorder):
    """The record of one run of a function in reverse mode.

    It belongs to a level, ``Level(1, tape)``; after the run, :meth:`backward` takes the cotangents of the results to the
    arguments, as often as it is asked.
    """

    cdef list entries
    cdef list buffers        # those that numbers were read from or written to
    cdef dict frozen         # plain arrays that entries read, read-only until the tape is dropped
    cdef dict marks          # the user's lines and times of entries, by their numbers; None unless they are asked for
    cdef double clock        # when the last entry was made
    cdef dict copies         # the last copy of each plain array that entries read, by its identity
    cdef readonly Py_ssize_t snapshots    # values that were copied since something overwrote them
    cdef readonly Py_ssize_t copied       # their bytes, and those of copies of plain arrays
    cdef list twins          # those made last
    cdef note* notes
    cdef Py_ssize_t noted_, notes_room
    cdef Py_ssize_t sweep
    cdef double* adjoint
    cdef Py_ssize_t adjoint_room
    cdef readonly Level level
    cdef readonly dict rules     # how each kind of rule is applied
    cdef tuple transposes        # of a matrix product
    cdef public bint owns        # it reads nothing after the run that others may write to
    cdef object __weakref__

    def __cinit__(self, dict rules, tuple transposes):
        self.rules = rules
        self.transposes = transposes
        self.entries = []
        self.buffers = []
        self.frozen = {}
        self.copies = {}
        self.twins = [None] * 64

    def __del__(self):
        thaw(self.frozen)

    def __dealloc__(self):
        free(self.notes)
        free(self.adjoint)

    # While f runs.

    cdef int begin(self, Level level) except -1:
        self.level = level
        self.snapshots = self.copied = 0
        self.marks = None
        if level.boxed:
            self.marks = {}
            self.clock = clock()
        return 0

    cdef object operands(self, Row row, tuple operands):
        cdef MapEntry entry
        cdef NDualArray x
        cdef int i, needs = 0
        cdef bint moves = False, active[3]
        cdef list boxed = None
        for i in range(row.nin):
            obj = operands[i]
            if type(obj) is NDualArray:
                active[i] = (<NDualArray>obj).buf.traced
            elif type(obj) is CoDual:
                if boxed is None:
                    boxed = list(operands)
                boxed[i] = box(obj)
                active[i] = True
            else:
                active[i] = False
            if active[i]:
                if row.coef[i] == ND_COEF_NONE:
                    raise NoRuleError(
                        f"{row.name} has no derivative with respect to operand {i}{where()}. Make it a constant with "
                        "ndual.stop_gradient(x)"
                    )
                if row.coef[i] == ND_COEF_ZERO:
                    active[i] = False
                    state().compared = 1
                else:
                    moves = True
                    needs |= row.needs[i]
        if not moves:
            return None
        if self.level.debug:         # slopes() reads everything
            needs = 15
        if boxed is not None:
            operands = tuple(boxed)
        entry = MapEntry.__new__(MapEntry)
        entry.row = entry.called = row
        entry.nin = row.nin
        for i in range(row.nin):
            obj = operands[i]
            if active[i]:
                if i == 0:
                    entry.t0 = self.held(<NDualArray>obj)
                elif i == 1:
                    entry.t1 = self.held(<NDualArray>obj)
                else:
                    entry.t2 = self.held(<NDualArray>obj)
            if needs & (1 << i):
                obj = self.keep(obj, i)
                if i == 0:
                    entry.s0 = obj
                elif i == 1:
                    entry.s1 = obj
                else:
                    entry.s2 = obj
        self.entries.append(entry)
        if needs & 8:
            entry.s3 = True          # the value, once it is known
        return entry

    cdef int sloped(self, Row row, NDualArray x, NDualArray slope, char* at, NDualArray out) except -1:
        cdef MapEntry entry = MapEntry.__new__(MapEntry)
        entry.slope = at
        entry.called = row
        entry.row = product_row()
        entry.nin = 2
        entry.t0 = self.held(x)
        entry.s1 = slope
        return self.add(entry, out)

    cdef int mapped(self, object entry, NDualArray out) except -1:
        cdef MapEntry e
        if entry is None:
            if out.buf.traced:
                self.assigned(out, None)
            return 0
        e = <MapEntry>entry
        e.out = self.held(out)
        e.fresh = not out.buf.traced
        out.buf.traced = True
        if e.s3 is not None:
            e.s3 = out
            self.watch(out, len(self.entries) - 1, 3)
        return self.note_entry()

    cdef NDualArray held(self, NDualArray x):
        """An operand or result as an entry keeps it, which needs the shadow only: large values can be given back."""
        cdef NDualArray y
        cdef size_t place
        if x.device_v is not None or x.buf.vbytes < HELD:
            return x
        # A loop takes the same views again and again.
        place = ((<size_t><PyObject*>x.buf >> 4) ^ <size_t>(x.voff >> 3) ^ <size_t>x.size_) & 63
        if type(self.twins[place]) is NDualArray:
            y = <NDualArray>self.twins[place]
            if y.buf is x.buf and same_view(y, x) and y.flags_ == x.flags_ | NTWIN:
                return y
        y = twin(x)
        self.twins[place] = y
        return y

    cdef int note_entry(self) except -1:
        """A node for the last entry."""
        cdef nd_tape_node* node
        if not nd_tape_room(&self.tape):
            raise MemoryError("expected room for one more operation on the tape; got none. Use checkpoint")
        node = self.tape.node + self.tape.count
        self.tape.count += 1
        node.a = ND_NODE_ENTRY
        node.b = <int32_t>(len(self.entries) - 1)
        if self.marks is not None:
            self.mark(<Entry>self.entries[len(self.entries) - 1])
        return 0

    cdef int mark(self, Entry entry) except -1:
        """Note the user's line of an entry, and the time since the last one."""
        cdef Mark mark = Mark.__new__(Mark)
        mark.forward = clock() - self.clock
        mark.place = place_here()
        self.marks[len(self.entries) - 1] = mark
        self.clock = clock()
        return 0

    cdef int add(self, Entry entry, NDualArray out) except -1:
        """Append an entry whose result is known."""
        entry.out = self.held(out)
        entry.fresh = not traced(out)
        trace(out)
        self.entries.append(entry)
        return self.note_entry()

    cdef object keep(self, object obj, int place):
        """An operand as the next entry may hold it: dual arrays are watched, plain ones copied or made read-only."""
        if type(obj) is NDualArray:
            self.watch(<NDualArray>obj, len(self.entries), place)
            return obj
        if type(obj) is np_ndarray:
            return self.keep_plain(<cnp.ndarray>obj)
        return obj

    cdef object keep_plain(self, cnp.ndarray a):
        """A plain array as an entry reads it in the sweep: a copy, or where that costs too much the array made read-only.

        An array that an entry has read before, and that holds what it held then, is the same copy.
        """
        cdef cnp.ndarray copy
        cdef object known
        if not self.owns and not cnp.PyArray_ISWRITEABLE(a) and cnp.PyArray_BASE(a) == NULL:
            return a
        if cnp.PyArray_NBYTES(a) > COPIED and not self.owns and not state().copy_constants and may_freeze(a):
            freeze(a, self.frozen)
            return a
        if cnp.PyArray_NBYTES(a) > REMEMBERED:
            known = self.copies.get(<Py_ssize_t><PyObject*>a)
            if known is not None and (<tuple>known)[0]() is a:
                copy = <cnp.ndarray>(<tuple>known)[1]
                if same_cells(a, copy):
                    return copy
        copy = cnp.PyArray_NewCopy(a, cnp.NPY_KEEPORDER)
        self.copied += cnp.PyArray_NBYTES(copy)
        if cnp.PyArray_NBYTES(a) > REMEMBERED:
            self.copies[<Py_ssize_t><PyObject*>a] = (weak(a), copy)
        return copy

    cdef int watch(self, NDualArray obj, Py_ssize_t entry, int place) except -1:
        """Note that an entry reads these cells, so that a write there first copies them for it."""
        cdef NDualArray x = raw(obj)
        cdef Buffer buf = book(obj)
        cdef Py_ssize_t low, high
        cdef note* room
        if obj.flags_ & NSCALAR:
            return 0
        if self.noted_ == self.notes_room:
            self.notes_room = 2 * self.notes_room + 256
            room = <note*>realloc(self.notes, self.notes_room * sizeof(note))
            if room == NULL:
                raise MemoryError()
            self.notes = room
        extent_of(x, &low, &high)
        if buf.reader < 0:
            buf.low = low
            buf.high = high
        else:
            buf.low = min(buf.low, low)
            buf.high = max(buf.high, high)
        room = &self.notes[self.noted_]
        room.entry = <int32_t>entry
        room.place = place
        room.next = buf.reader
        room.low = low
        room.high = high
        buf.reader = self.noted_
        self.noted_ += 1
        return 0

    cdef int writing(self, NDualArray target) except -1:
        cdef Buffer buf = book(target)
        return 0 if buf.reader < 0 else self.overwriting(buf, target, None)

    cdef int writing_at(self, NDualArray x, tuple index) except -1:
        cdef Buffer buf = book(x)
        return 0 if buf.reader < 0 else self.overwriting(buf, x, index)

    cdef int overwriting(self, Buffer buf, NDualArray target, tuple index) except -1:
        """Copy what entries read of the memory that is about to be written: all of an array, or its cells at an index."""
        cdef NDualArray held, x = raw(target)
        cdef Py_ssize_t low, high, at, following
        cdef note* n
        cdef object cells = None
        cdef list done = []
        cdef bint hit
        extent_of(x, &low, &high)
        if high <= buf.low or buf.high <= low:
            return 0
        at = buf.reader
        buf.reader = -1
        buf.low = PY_SSIZE_T_MAX
        buf.high = 0
        while at >= 0:
            n = &self.notes[at]
            following = n.next
            hit = False
            if n.low < high and low < n.high:
                entry = self.entries[n.entry]
                held = None if entry is None else saved(entry, n.place)
                if held is None or raw(held).buf is not x.buf:
                    at = following
                    continue
                if index is None:
                    hit = meets(raw(held), x)
                else:
                    if cells is None:
                        cells = marked_cells(x, index)
                    hit = cells is None or marks_any(cells, raw(held), x.itemsize_)
                if hit:
                    save(entry, n.place, self.snapshot_of(held, done))
            if not hit:
                n.next = buf.reader
                buf.reader = at
                buf.low = min(buf.low, n.low)
                buf.high = max(buf.high, n.high)
            at = following
        return 0

    cdef NDualArray snapshot_of(self, NDualArray held, list done):
        """The copy of a view that one write makes, whichever entries read it."""
        cdef NDualArray copy
        for former, copy in done:
            if former is held or (held.device_v is None and same_view(<NDualArray>former, held)):
                return copy
        copy = snapshot(held)
        done.append((held, copy))
        self.snapshots += 1
        self.copied += copy.size_ * copy.itemsize_
        return copy

    cdef int number(self, Buffer buffer) except -1:
        buffer.slot = len(self.buffers)
        self.buffers.append(buffer)
        return 0

    cdef int formed(self, Row row, object storage, list operands, object dtype, NDualArray out) except -1:
        cdef FormEntry entry
        cdef list targets = []
        cdef list kept = []
        cdef bint moves = False, real = row.index >= 0 and dtype is None and out.device_v is not None
        cdef int needs = 0, coef
        cdef Py_ssize_t i
        for i in range(len(operands)):
            obj = operands[i]
            active = type(obj) is NDualArray and (<NDualArray>obj).buf.level is self.level and traced(<NDualArray>obj)
            targets.append(self.held(<NDualArray>obj) if active else None)
            moves = moves or active
            if type(obj) is NDualArray:
                real = real and (<NDualArray>obj).typenum == out.typenum
            elif type(obj) is np_ndarray:
                real = real and cnp.PyArray_TYPE(<cnp.ndarray>obj) == out.typenum
            else:
                real = real and type(obj) is float
            if active:
                coef = row.coef[i]
                needs |= 2 if coef == ND_COEF_X1 else 1 if coef == ND_COEF_X0 else \
                    0 if coef == ND_COEF_ONE or coef == ND_COEF_NEG else 15
        if not moves:
            return 0
        real = real and (out.typenum == cnp.NPY_DOUBLE or out.typenum == cnp.NPY_FLOAT)
        entry = FormEntry.__new__(FormEntry)
        for i in range(len(operands)):
            kept.append(self.keep_foreign(operands[i], i) if not real or needs & (1 << i) else None)
        entry.row = row
        entry.storage = storage
        entry.real = real
        if not real or needs & 8:
            self.watch(out, len(self.entries), len(kept))
            kept.append(out)
        else:
            kept.append(None)
        entry.operands = kept
        entry.targets = targets
        return self.add(entry, out)

    cdef object keep_foreign(self, object obj, int place):
        """As keep, for operands that may be duals of outer levels, whose later writes are not seen here."""
        if type(obj) is NDualArray and (<NDualArray>obj).buf.level is not self.level:
            return obj if (<NDualArray>obj).flags_ & NSCALAR else (<object>obj).copy()
        return self.keep(obj, place)

    cdef int assigned(self, NDualArray to, NDualArray source) except -1:
        cdef CopyEntry entry
        cdef bint active = source is not None and traced(source)
        if not active and not traced(to):
            return 0
        entry = CopyEntry.__new__(CopyEntry)
        if active:
            entry.t0 = self.held(source)
            if source.device_v is None and source.buf is to.buf and source.size_ and to.size_:
                entry.s0 = copied_cells(to, source)
        return self.add(entry, to)

    cdef int gathered(self, NDualArray x, tuple index, NDualArray out) except -1:
        cdef GatherEntry entry = GatherEntry.__new__(GatherEntry)
        entry.t0 = self.held(x)
        entry.s0 = copied_index(index)
        return self.add(entry, out)

    cdef int scattered(self, NDualArray x, tuple index, NDualArray source) except -1:
        cdef ScatterEntry entry
        cdef bint active = source is not None and traced(source)
        if not active and not traced(x):
            return 0
        entry = ScatterEntry.__new__(ScatterEntry)
        entry.s0 = copied_index(index)
        if active:
            entry.t0 = self.held(source)
            if source.device_v is None and source.buf is x.buf and source.size_:
                numbers = cell_numbers(source)
                beside = numbers_beside(numbers, x)
                beside[index] = numbers
                entry.s1 = beside[index].copy()
        return self.add(entry, x)

    cdef int summed_below(self, NDualArray x, NDualArray out) except -1:
        cdef LowerSumEntry entry = LowerSumEntry.__new__(LowerSumEntry)
        entry.t0 = self.held(x)
        return self.add(entry, out)

    cdef Py_ssize_t summed(self, NDualArray x) except -1:
        cdef SumEntry entry = SumEntry.__new__(SumEntry)
        entry.t0 = self.held(x)
        entry.node = self.tape.count
        self.entries.append(entry)
        self.note_entry()
        return entry.node

    cdef int multiplied(self, object a, object b, NDualArray out) except -1:
        cdef ProductEntry entry = ProductEntry.__new__(ProductEntry)
        cdef bint left = type(a) is NDualArray and (<NDualArray>a).buf.traced
        cdef bint right = type(b) is NDualArray and (<NDualArray>b).buf.traced
        if not left and not right:
            return 0
        if left:
            entry.t0 = self.held(<NDualArray>a)
            entry.s1 = self.keep(b, 1)
        if right:
            entry.t1 = self.held(<NDualArray>b)
            entry.s0 = self.keep(a, 0)
        return self.add(entry, out)

    def record(self, str label, function, list outputs, list targets, list saved, forward=None, bint always=False):
        """Append a structured rule: ``function(ws, *saved)`` returns a cotangent, or None, for every target.

        Saved arrays of this level are watched, and given to the function one level down. With `always` it is called
        also where no result has a cotangent.
        """
        cdef RuleEntry entry = RuleEntry.__new__(RuleEntry)
        entry.label = label
        entry.always = always
        entry.function = function
        entry.forward = forward
        entry.targets = [self.held(<NDualArray>target) for target in targets]
        entry.outputs = [None if out is None else self.held(<NDualArray>out) for out in outputs]
        entry.saved = [self.keep_foreign(obj, i) for i, obj in enumerate(saved)]
        for out in outputs:
            if out is not None:
                trace(<NDualArray>out)
        self.entries.append(entry)
        self.note_entry()

    def wrote(self, x):
        """Whether an argument, as lifted for the run, was written to."""
        return type(x) is NDualArray and (<NDualArray>x).device_v is None and not (<NDualArray>x).buf.borrowed

    # The sweeps.

    def forward(self, list leaves, list tangents):
        """One sweep from tangents of the arguments, None for zero; :meth:`tangent` then has those of the results."""
        cdef PyObject* former = state().swept
        state().swept = <PyObject*>self.level
        try:
            push_all(self, leaves, tangents)
        finally:
            state().swept = former

    def tangent(self, x):
        """The tangent of a result after a sweep, as an array or number of its own one level down."""
        cdef NDualArray a
        if type(x) is CoDual:
            return np.float64(self.adjoint[(<CoDual>x).node])
        a = <NDualArray>x
        if absent(a, self):
            value = np.zeros(shape_of(a), cnp.PyArray_DescrFromType(a.typenum))
        else:
            value = cotangent(a, self).copy()
        return value[()] if a.flags_ & NSCALAR else value


    def backward(self, outputs, cotangents, bint once=False):
        """One sweep from the cotangents of some results; :meth:`gradient` then has those of the arguments.

        With `once` it is the last one, and gives back what it has done with.
        """
        self.sweep += 1
        self.claim()
        for out, g in zip(outputs, cotangents, strict=True):
            if type(out) is CoDual:
                self.adjoint[(<CoDual>out).node] += g
            elif type(out) is NDualArray:
                add_array(<NDualArray>out, self, g if hasattr(g, "dtype") else np.asarray(g))
        self.walk(once)

    cdef int walk(self, bint once) except -1:
        """All nodes from the last to the first; `once` gives back what an entry held as soon as it is done."""
        cdef PyObject* former = state().swept
        cdef PyObject* at = state().level
        cdef Level outer = self.level.outer
        cdef bint compared = state().compared, seen = outer is not None and outer.seen
        state().swept = <PyObject*>self.level
        try:
            return self.pull_all(once)
        finally:
            state().swept = former
            if outer is not None:        # what formulas look at is no comparison of the user's
                outer.seen = seen
                if state().level == <PyObject*>outer:
                    state().compared = compared if at == <PyObject*>outer else seen

    cdef int pull_all(self, bint once) except -1:
        cdef Py_ssize_t i
        cdef nd_tape_node* node
        cdef double w
        cdef double* adjoint = self.adjoint
        cdef Buffer buf
        cdef double* cell
        self.twins = [None] * 64     # shadows go with the last entry that names them
        for i in range(self.tape.count - 1, -1, -1):
            node = &self.tape.node[i]
            if node.a >= -1:
                w = adjoint[i]
                if w != 0:
                    if node.a >= 0 and node.da != 0:
                        adjoint[node.a] += w * node.da
                    if node.b >= 0 and node.db != 0:
                        adjoint[node.b] += w * node.db
            elif node.a == ND_NODE_LOAD:
                w = adjoint[i]
                if w != 0:
                    buf = <Buffer>self.buffers[node.b]
                    (<double*>(cells_of(buf, self) + node.at))[0] += w
            elif node.a == ND_NODE_STORE:
                buf = <Buffer>self.buffers[node.b]
                if buf.sweep == self.sweep and buf.lanes != NULL:
                    cell = <double*>(cells_of(buf, self) + node.at)
                    w = cell[0]
                    cell[0] = 0
                    if node.from_ >= 0:
                        adjoint[node.from_] += w
            else:
                if self.marks is None:
                    (<Entry>self.entries[node.b]).pull(self)
                else:
                    pull_marked(self, <Entry>self.entries[node.b], self.marks.get(node.b))
                if once:
                    self.entries[node.b] = None
        return 0

    cdef list gradients(self, object out, list leaves):
        """The cotangents of the leaves of one real number, each as an array or number of its own, in the only sweep."""
        self.sweep += 1
        self.claim()
        if type(out) is CoDual:
            self.adjoint[(<CoDual>out).node] = 1
        else:
            add_array(<NDualArray>out, self, np.float64(1.0))
        self.walk(True)
        return [self.gradient(leaf) for leaf in leaves]

    cdef int claim(self) except -1:
        """Have cotangents of zero for every number."""
        cdef double* room
        if self.adjoint_room < self.tape.count:
            room = <double*>realloc(self.adjoint, self.tape.count * sizeof(double))
            if room == NULL:
                raise MemoryError()
            self.adjoint = room
            self.adjoint_room = self.tape.count
        if self.tape.count:
            memset(self.adjoint, 0, self.tape.count * sizeof(double))
        return 0

    cpdef gradient(self, x):
        """The cotangent of an argument after a sweep, as an array or number of its own one level down."""
        cdef NDualArray a
        if type(x) is CoDual:
            return np.float64(self.adjoint[(<CoDual>x).node])
        a = <NDualArray>x
        if a.device_v is None and a.buf.sweep == self.sweep and a.buf.lanes != NULL and own_memory(a):
            return taken(a)
        if absent(a, self):
            value = np.zeros(shape_of(a), cnp.PyArray_DescrFromType(a.typenum))
        else:
            value = cotangent(a, self)
            value = value.copy() if type(value) is NDualArray or not own_memory(a) else value
        return value[()] if a.flags_ & NSCALAR else value

    cpdef check(self, found):
        """A derivative, unless it hangs on a point that has none."""
        if self.level.undefined is not None and not np.isfinite(_dual.bottom(found)).all():
            raise UndefinedDerivativeError(
                f"expected a point where the derivative exists; got one where {self.level.undefined}"
            )
        return found

    cpdef clear(self):
        """Drop everything that the run left, and let plain arrays be written to again; the memory serves the next run."""
        thaw(self.frozen)
        self.copies.clear()
        self.entries.clear()
        self.buffers.clear()
        self.twins = [None] * 64
        self.books.clear()
        self.tape.count = 0
        self.noted_ = 0
        self.level = None        # which holds this tape, and whose arrays the collector does not see

    def own(self):
        """Copy what pullbacks read from memory that is not the tape's, which others may write to after the run."""
        cdef Entry entry
        for entry in self.entries:
            if type(entry) is RuleEntry:
                objs = (<RuleEntry>entry).saved
            elif type(entry) is FormEntry:
                objs = (<FormEntry>entry).operands
            else:
                objs = (entry.s0, entry.s1, entry.s2, entry.s3)
            for obj in objs:
                if type(obj) is NDualArray:
                    own_values(deepest(<NDualArray>obj).buf)

    cdef int trim(self) except -1:
        """Give the memory of a cleared tape back."""
        free(self.tape.node)
        free(self.notes)
        free(self.adjoint)
        self.tape.node = NULL
        self.notes = NULL
        self.adjoint = NULL
        self.tape.room = self.notes_room = self.adjoint_room = 0
        return 0

    @property
    def nbytes(self):
        """Bytes of the nodes of numbers, and of what their sweep needs."""
        return self.bytes_()

    cdef Py_ssize_t bytes_(self) noexcept:
        return self.tape.room * sizeof(nd_tape_node) + self.adjoint_room * sizeof(double) + \
            self.notes_room * sizeof(note)

    def __len__(self):
        return self.tape.count

    def trace(self):
        """Have the next run note every operation, for :meth:`rows`."""
        self.traces = True

    def rows(self):
        """What a traced run and its sweep did, one tuple for each operation: see :class:`ndual.trace.TraceRow`."""
        held = set()
        return [row_of(entry, self.marks.get(i), held) for i, entry in enumerate(self.entries)]

    cdef int failed(self, object error) except -1:
        """The run ends with an error: say what made an array read-only if that is what it is about, and let go."""
        if self.frozen and isinstance(error, ValueError) and not isinstance(error, NdualError) \
                and any([word in str(error) for word in ("read-only", "writable", "write flag")]):
            error.add_note(READ_ONLY_NOTE)
        self.clear()
        return 0

    cdef object row_cotangent(self, storage, row, ufunc, values, value, i, w):
        """The cotangent of operand `i` of a row in its NumPy form, in the shape of the result."""
        if self.level.outer is None:
            with np.errstate(all="ignore"):
                return storage.pull(row, ufunc, values, value, i, w)
        former = _dual.go_home(self.level.outer)
        try:
            with np.errstate(all="ignore"):
                return storage.pull(row, ufunc, values, value, i, w)
        finally:
            _dual.go_home(former)


cdef inline char* cells_of(Buffer buf, Tape tape) except NULL:
    if buf.sweep != tape.sweep or buf.lanes == NULL:
        if buf.lanes == NULL:
            buf.lanes = pooled(buf.vbytes + 8, &buf.lanes_class)
            buf.t = <char*>buf.lanes
        memset(buf.t, 0, buf.vbytes)
        buf.sweep = tape.sweep
        buf.uniform = False
    elif buf.uniform:
        even(buf)
    return buf.t


cdef object taken(NDualArray x):
    """The shadow of a raw array that covers its buffer, as an array that owns the memory."""
    cdef object descr = cnp.PyArray_DescrFromType(x.typenum)
    cdef Buffer owner
    cdef cnp.ndarray view
    if x.buf.uniform:
        even(x.buf)
    owner = empty_buffer(x.buf.level)
    owner.memory = x.buf.lanes
    owner.memory_class = x.buf.lanes_class
    x.buf.lanes = NULL
    x.buf.t = NULL
    Py_INCREF(descr)
    view = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, x.ndim_, x.shape_, x.vs, <char*>owner.memory + x.voff,
                                NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(view, owner)
    return view[()] if x.flags_ & NSCALAR else view


cdef bint own_memory(NDualArray x) noexcept:
    """Whether the shadow may leave as a result: it is an array of its own."""
    return one_to_one(x) and bool(x.flags_ & NCONTIGUOUS)
