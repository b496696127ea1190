# The tape: its sweeps, and what is left after them.

@cython.final
cdef class Tape(Recording):
    """The record of one run of a function in reverse mode.

    It belongs to a level, ``Level(1, tape)``; after the run, :meth:`backward` takes the cotangents of the results to
    the arguments, as often as it is asked.
    """

    def forward(self, list leaves, list tangents):
        """One sweep from tangents of the arguments, None for zero; :meth:`tangent` then has those of the results."""
        cdef PyObject* former = state().swept
        state().swept = <PyObject*>self.level
        try:
            push_all(self, leaves, tangents)
        finally:
            state().swept = former

    cpdef tangent(self, x):
        """What a sweep left for an argument or result, as an array or number of its own one level down."""
        cdef NDualArray a
        if type(x) is CoDual:
            return np.float64(self.adjoint[(<CoDual>x).node])
        a = <NDualArray>x
        if a.device_v is not None and type(a.device_v) is not NDualArray:
            return tangent_alone(a, self)
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
        except BaseException:
            self.drop_shadows()
            raise
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
        self.drop_twins()
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
                    (<double*>(cells_of(buf, self, True) + node.at))[0] += w
            elif node.a == ND_NODE_STORE:
                buf = <Buffer>self.buffers[node.b]
                if buf.sweep == self.sweep:
                    cell = <double*>(cells_of(buf, self, True) + node.at)
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

    cdef int drop_shadows(self) except -1:
        """A sweep has ended early: nobody will let go of what shadows hold."""
        for entry in self.entries:
            for x in results_of(<Entry>entry) if entry is not None else ():
                if x is not None and (<NDualArray>x).device_v is None:
                    let_go((<NDualArray>x).buf)
        return 0

    cdef int reshaped(self, NDualArray x, NDualArray former) except -1:
        cdef Py_ssize_t i
        cdef bint made
        for i in range(len(self.entries) - 1, -1, -1):
            made = (<Entry>self.entries[i]).out is x     # nothing before it can hold x
            (<Entry>self.entries[i]).replace(x, former)
            if made:
                return 0
        return replace_in(self.leaves, x, former)

    cdef list gradients(self, object out, list leaves):
        """The cotangents of the leaves of one real number, each as an array or number of its own, in the only sweep.

        They take the place of the leaves in the list, which spares another one 20 ns.
        """
        self.sweep += 1
        self.claim()
        cdef NDualArray a
        cdef Py_ssize_t i
        if type(out) is CoDual:
            self.adjoint[(<CoDual>out).node] = 1
        else:
            a = <NDualArray>out
            if a.device_v is not None and type(a.device_v) is not NDualArray:
                add_device(a, self, a.storage_.one(cnp.PyArray_DescrFromType(a.typenum)))
            else:
                add_array(a, self, np.float64(1.0))
        self.walk(True)
        for i in range(len(leaves)):
            leaves[i] = self.gradient(leaves[i])
        return leaves

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
        if type(x) is NDualArray and (<NDualArray>x).device_v is None and not absent(<NDualArray>x, self) \
                and own_memory(<NDualArray>x):
            return taken(<NDualArray>x)
        return self.tangent(x)

    cpdef check(self, found):
        """A derivative, unless it hangs on a point that has none."""
        if self.level.undefined is not None and not np.isfinite(_dual.bottom(found)).all():
            raise UndefinedDerivativeError(
                f"expected a point where the derivative exists; got one where {self.level.undefined}"
            )
        return found

    cpdef clear(self):
        """Drop everything that the run left, and let plain arrays be written to; the memory serves the next run."""
        thaw(self.frozen)
        self.copies.clear()
        self.entries.clear()
        self.buffers.clear()
        self.drop_twins()
        self.books.clear()
        self.tape.count = 0
        self.noted_ = 0
        self.lasting = False
        self.leaves = None
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
                if type(obj) is NDualArray and deepest(<NDualArray>obj).device_v is None:
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
            return 1
        self.clear()
        return 0


cdef object taken(NDualArray x):
    """The shadow of a raw array that covers its buffer, as an array that owns the memory."""
    cdef object descr = cnp.PyArray_DescrFromType(x.typenum)
    cdef Buffer owner
    cdef cnp.ndarray view
    if x.buf.uniform or x.buf.multiple:
        spell_out(x.buf)
    owner = empty_buffer(x.buf.level)
    owner.memory = x.buf.lanes
    owner.memory_class = x.buf.lanes_class
    x.buf.lanes = NULL
    x.buf.t = NULL
    x.buf.sweep = 0
    Py_INCREF(descr)
    view = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, descr, x.ndim_, x.shape_, x.vs,
                                <char*>owner.memory + x.voff, NPY_ARRAY_WRITEABLE, None)
    cnp.set_array_base(view, owner)
    return view[()] if x.flags_ & NSCALAR else view


cdef bint own_memory(NDualArray x) noexcept:
    """Whether the shadow may leave as a result: it is an array of its own."""
    return one_to_one(x) and bool(x.flags_ & NCONTIGUOUS)
