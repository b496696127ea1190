# The part of a reverse run that is paid every time: one run of the function and one sweep for one real number.

cdef object np_float64 = np.float64


cdef class TapeRun(Run):
    """The state of a run; see :class:`ndual.reverse.run.ReverseRun`."""

    cdef public Tape tape            # that of the last run, to be used again
    cdef readonly Py_ssize_t memory  # its bytes

    def gradients(self, primals, call=None):
        """As ``sweep``, but for one real number the rows are a list: the gradients of the leaves."""
        cdef Tape tape = self.tape
        cdef tuple done
        if tape is None:
            tape = self.fresh()
        self.tape = None
        try:
            done = self.recorded(primals, tape, call)
            if done[2] and self.plain_sweep and type(done[0]) is np_float64:
                return done[0], tape.gradients(done[1], <list>done[4]), True, done[3]
            return self.several(done, tape)
        finally:
            self.put_back(tape)

    cpdef put_back(self, Tape tape):
        """Drop what a run left, and keep the tape for the next one."""
        self.memory = tape.bytes_()
        tape.clear()
        self.tape = tape
