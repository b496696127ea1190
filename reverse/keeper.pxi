# What entries keep: operands that are watched, plain arrays, shadows without values.

ctypedef struct note:            # one value that an entry reads from a buffer, in a list that runs through the buffer
    int32_t entry, place
    Py_ssize_t next, low, high   # the bytes it lies in


cdef class Keeper(Recorder):
    """The entries of a tape and what they read, which a write copies for them before it is done."""

    cdef list entries
    cdef list buffers        # those that numbers were read from or written to
    cdef dict frozen         # plain arrays that entries read, read-only until the tape is dropped
    cdef dict marks          # the user's lines and times of entries, by their numbers; None unless they are asked for
    cdef double clock        # when the last entry was made
    cdef dict copies         # the last copy of each plain array that entries read, by its identity
    cdef readonly Py_ssize_t snapshots    # values that were copied since something overwrote them
    cdef readonly Py_ssize_t copied       # their bytes, and those of copies of plain arrays
    cdef PyObject* twins[64]     # those made last, each in its place; a bit of `taken_places` says that there is one
    cdef uint64_t taken_places
    cdef note* notes
    cdef Py_ssize_t noted_, notes_room
    cdef Py_ssize_t sweep
    cdef double* adjoint
    cdef Py_ssize_t adjoint_room
    cdef readonly Level level
    cdef bint lasting            # the caller of this run holds the arguments until the sweep is over
    cdef readonly dict rules     # how each kind of rule is applied
    cdef object product          # the rule of matrix products
    cdef object __weakref__

    def __cinit__(self, dict rules, product):
        self.rules = rules
        self.product = product
        self.entries = []
        self.buffers = []
        self.frozen = {}
        self.copies = {}

    def __del__(self):
        thaw(self.frozen)

    def __dealloc__(self):
        self.drop_twins()
        free(self.notes)
        free(self.adjoint)

    cdef int begin(self, Level level) except -1:
        self.level = level
        self.snapshots = self.copied = 0
        self.marks = None
        if level.boxed:
            self.marks = {}
            self.clock = clock()
        return 0

    cdef NDualArray held(self, NDualArray x):
        """An operand or result as an entry keeps it, which needs the shadow only: large values can be given back."""
        cdef NDualArray y
        cdef size_t place
        if x.device_v is not None or x.buf.vbytes < HELD:
            return x
        if self.lasting and x.buf.borrowed and x.size_ * x.itemsize_ == x.buf.vbytes:
            return x             # nothing to give back: a twin would cost 30 ns
        # A loop takes the same views again and again.
        place = ((<size_t><PyObject*>x.buf >> 4) ^ <size_t>(x.voff >> 3) ^ <size_t>x.size_) & 63
        if self.taken_places >> place & 1:
            y = <NDualArray>self.twins[place]
            if y.buf is x.buf and same_view(y, x) and y.flags_ == x.flags_ | NTWIN:
                return y
        y = twin(x)
        Py_INCREF(y)
        if self.taken_places >> place & 1:
            Py_DECREF(<object>self.twins[place])
        self.twins[place] = <PyObject*>y
        self.taken_places |= <uint64_t>1 << place
        return y

    cdef void drop_twins(self) noexcept:
        """Shadows go with the last entry that names them."""
        cdef int place
        cdef uint64_t left = self.taken_places
        self.taken_places = 0
        for place in range(64):
            if left == 0:
                break
            if left & 1:
                Py_DECREF(<object>self.twins[place])
            left >>= 1

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
        if entry.fresh and out.device_v is None:
            out.buf.made = True
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
        if hasattr(obj, "strides") and (self.owns or self.writes):
            storage = _dual.storage_for(obj)      # nothing tells of a write to an array of a device
            return obj if storage is None else storage.copy(obj)
        return obj

    cdef object keep_plain(self, cnp.ndarray a):
        """A plain array as an entry reads it in the sweep: a copy, or where that costs much the array made read-only.

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
        """Copy what entries read of memory that is about to be written: all of an array, or its cells at an index."""
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

    cdef object keep_foreign(self, object obj, int place):
        """As keep, for operands that may be duals of outer levels, whose later writes are not seen here."""
        if type(obj) is NDualArray and (<NDualArray>obj).buf.level is not self.level:
            return obj if (<NDualArray>obj).flags_ & NSCALAR else (<object>obj).copy()
        return self.keep(obj, place)

    def wrote(self, x):
        """Whether an argument, as lifted for the run, was written to."""
        return type(x) is NDualArray and (<NDualArray>x).device_v is None and not (<NDualArray>x).buf.borrowed
