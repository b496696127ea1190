# The part of a reverse run that is paid every time: one run of the function and one sweep for one real number.

cdef object np_float64 = np.float64


cdef class TapeRun(Run):
    """The state of a run; see :class:`ndual.reverse.run.ReverseRun`."""

    cdef public Tape tape            # that of the last run, to be used again
    cdef readonly Py_ssize_t nbytes  # what the last run kept for its sweep: the tape, and the pool's arrays
    cdef public bint keep            # every call writes its results into the same memory
    cdef list kept
    cdef public Py_ssize_t spare     # the most bytes of it to keep for the next run

    def gradients(self, primals, call=None):
        """As ``sweep``, but for one real number the rows are a list: the gradients of the leaves."""
        return self.pulled(primals, call)

    cdef tuple pulled(self, primals, call):
        cdef Tape tape = self.tape
        cdef tuple done
        cdef Py_ssize_t before = live()
        if tape is None:
            tape = self.fresh()
        self.tape = None
        tape.lasting = True
        try:
            done = self.recorded(primals, tape, call)
            self.measure(before, tape)
            if done[2] and self.plain_sweep and (type(done[0]) is np_float64 or is_number(done[1])):
                found = tape.gradients(done[1], <list>done[4])
                if tape.level.undefined is not None:
                    for g in found:
                        tape.check(g)
                return done[0], self.in_place(found) if self.keep else found, True, done[3]
            return self.several(done, tape)
        finally:
            self.finish(tape)

    cpdef list in_place(self, list found):
        """Results in the memory of those of the first call."""
        cdef Py_ssize_t i
        if self.kept is None or len(self.kept) != len(found):
            self.kept = found
            return found
        for i in range(len(found)):
            old = self.kept[i]
            if type(old) is np_ndarray and type(found[i]) is np_ndarray and old.shape == found[i].shape:
                old[...] = found[i]
            else:
                self.kept[i] = found[i]
        return list(self.kept)

    def note_bytes(self, Py_ssize_t before, Tape tape not None):
        """Remember what a run has kept, which started with that many bytes of the pool in use."""
        self.measure(before, tape)

    cdef void measure(self, Py_ssize_t before, Tape tape) noexcept:
        self.nbytes = tape.bytes_() + max(0, live() - before)

    def put_back(self, Tape tape not None):
        """Drop what a run left, and keep the tape for the next one."""
        self.finish(tape)

    cdef int finish(self, Tape tape) except -1:
        tape.clear()
        if tape.bytes_() > self.spare:
            tape.trim()
        self.tape = tape
        return 0


cdef bint is_number(object out) noexcept:
    """Whether an output is one real number whose value belongs to a derivative around this one."""
    cdef NDualArray x
    if type(out) is not NDualArray:
        return False
    x = <NDualArray>out
    if x.device_v is not None and type(x.device_v) is not NDualArray and x.ndim_ == 0:
        return x.typenum == cnp.NPY_DOUBLE or x.typenum == cnp.NPY_FLOAT
    return x.device_v is not None and x.ndim_ == 0 and x.typenum == cnp.NPY_DOUBLE
