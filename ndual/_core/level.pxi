# Levels: one object for each active derivative call. A dual belongs to the level that made it; identity of that level,
# not a depth, decides whether the dual may be used.

cdef unsigned long long _level_counter = 0


cdef class Level:
    """One active derivative call: its width in lanes, and whether it is still running.

    Use it as a context manager. Duals of a level can be used only while it is alive, and only in its thread.
    """

    cdef readonly unsigned long long id
    cdef readonly Py_ssize_t width
    cdef readonly bint alive
    cdef readonly bint compared
    cdef readonly unsigned long thread
    cdef readonly str undefined   # what a rule said of a point without derivative
    cdef str lost             # what was said of a derivative that would have been lost
    cdef list inputs          # the arguments of the call, lifted where they are differentiated
    cdef object memory        # NumPy's own allocator, while the pool stands in for it

    def __cinit__(self, Py_ssize_t width):
        global _level_counter
        if width < 1:
            raise ValueError(f"a level has at least 1 lane; got {width}")
        _level_counter += 1
        self.id = _level_counter
        self.width = width

    def __enter__(self):
        self.enter()
        return self

    def __exit__(self, *unused):
        self.leave()

    cdef int enter(self) except -1:
        if nd_tls.id != 0:
            raise NdualError(
                "a derivative is already being taken on this thread; nested derivatives are not supported yet. "
                "Take the inner derivative outside, or write it by hand"
            )
        if self.thread != 0:
            raise NdualError("a level runs once; make a new one")
        self.thread = PyThread_get_thread_ident()
        self.alive = True
        nd_tls.id = self.id
        nd_tls.level = <PyObject*>self
        nd_tls.scalar = scalar_type(self.width)
        nd_tls.compared = 0
        return 0

    cdef void leave(self) noexcept:
        if self.alive:
            self.compared = nd_tls.compared
            self.alive = False
            self.inputs = None
            nd_tls.id = 0
            nd_tls.level = NULL
            nd_tls.scalar = NULL
            if self.memory is not None:
                PyDataMem_SetHandler(self.memory)
                self.memory = None

    def __repr__(self):
        return f"<Level {self.id}: width {self.width}, {'alive' if self.alive else 'ended'}>"


def note_undefined(str message):
    """Remember a point without derivative; it is an error if NaN reaches the result."""
    if nd_tls.level != NULL:
        running().undefined = message + where()


cdef int check_defined(Level level, object lanes) except -1:
    if level.undefined is not None and not np.isfinite(lanes).all():
        raise UndefinedDerivativeError(f"expected a point where the derivative exists; got one where {level.undefined}")
    return 0


cdef int check_kept(Level level, object error=None) except -1:
    """Raise what was said of a lost derivative, though user code swallowed it or NumPy put its own error over it."""
    if level.lost is not None and not isinstance(error, NdualError):
        raise DerivativeLostError(level.lost) from error
    return 0


def current_level():
    """The derivative call that is running on this thread, or None."""
    return None if nd_tls.level == NULL else <object>nd_tls.level


cdef int raise_stale(unsigned long long id, Level level=None) except -1:
    if level is not None and level.alive and level.thread != PyThread_get_thread_ident():
        raise StaleDualError(
            "expected a dual of the derivative that runs in this thread; got one that belongs to another thread. "
            "Pass plain arrays between threads, and take derivatives inside each"
        )
    if nd_tls.id == 0:
        raise StaleDualError(
            "expected a dual of a running derivative; got one whose derivative call has ended, or that belongs to "
            "another thread. Return it from the differentiated function instead of keeping it, "
            "or keep ndual.stop_gradient(x)"
        )
    raise StaleDualError(
        f"expected a dual of the running derivative (level {nd_tls.id}); got one of level {id}. "
        "Do not keep duals from one call to the next: keep ndual.stop_gradient(x)"
    )


cdef inline int check_level(Level level) except -1:
    if level.id != nd_tls.id:
        raise_stale(level.id, level)
    return 0


cdef inline Level running():
    return <Level><object>nd_tls.level
