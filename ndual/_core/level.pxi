# Levels: one object for each active derivative call. A dual belongs to the level that made it; identity of that level,
# not a depth, decides whether the dual may be used. Levels nest: an operation runs at the highest level among its
# operands, and that level is then the one at hand, which every check compares with first.

cdef unsigned long long _level_counter = 0
cdef PyObject* _alive[256]       # running levels of all threads by their numbers, as far as there is place; borrowed
memset(_alive, 0, sizeof(_alive))


@cython.freelist(8)
cdef class Level:
    """One active derivative call: its width in lanes, and whether it is still running.

    With a recorder, what its duals do is recorded there, and their lanes are cotangents that a sweep fills in.

    Use it as a context manager. Duals of a level can be used only while it is alive, and only in its thread.
    """

    def __cinit__(self, Py_ssize_t width, Recorder recorder=None):
        global _level_counter
        if width < 1:
            raise ValueError(f"a level has at least 1 lane; got {width}")
        _level_counter += 1
        self.id = _level_counter
        self.width = width
        self.recorder = recorder

    def __enter__(self):
        self.enter()
        return self

    def __exit__(self, *unused):
        self.leave()

    cdef int enter(self) except -1:
        global _level_counter
        if self.thread != 0:
            raise NdualError("a level runs once; make a new one")
        self.thread = PyThread_get_thread_ident()
        self.debug = nd_tls.debug
        self.boxed = nd_tls.debug or (self.recorder is not None and self.recorder.traces)
        if nd_tls.top != NULL:
            self.outer = <Level><object>nd_tls.top
            _level_counter += 1          # ids grow from outer to inner levels, in whatever order they were made
            self.id = _level_counter
            turn(self)
        else:
            at_hand(self)
            nd_tls.compared = 0
        self.alive = True
        _alive[self.id & 255] = <PyObject*>self
        nd_tls.top = nd_tls.home = <PyObject*>self
        return 0 if self.recorder is None else self.recorder.begin(self)

    cdef void leave(self) noexcept:
        cdef Level outer
        if self.alive:
            self.alive = False
            if _alive[self.id & 255] == <PyObject*>self:
                _alive[self.id & 255] = NULL
            self.inputs = None
            self.moved = None
            self.buffers = None
            self.space = None
            if nd_tls.level == <PyObject*>self:
                self.seen = nd_tls.compared
            self.compared = self.seen
            if nd_tls.top == <PyObject*>self:
                outer = self.outer
                while outer is not None and not outer.alive:
                    outer = outer.outer
                nd_tls.top = nd_tls.home = NULL if outer is None else <PyObject*>outer
            if nd_tls.top == NULL:
                nd_tls.id = 0
                nd_tls.level = NULL
                nd_tls.scalar = NULL
                nd_tls.tape = NULL
            elif nd_tls.level == <PyObject*>self:
                turn(innermost())
            if self.memory is not None:
                PyDataMem_SetHandler(self.memory)
                self.memory = None

    def __reduce__(self):
        return _level_again, (self.id, os.getpid())

    def __repr__(self):
        return f"<Level {self.id}: width {self.width}, {'alive' if self.alive else 'ended'}>"


def _level_again(id, process):
    """What a pickled level becomes: itself where it still runs."""
    if find_level(id) is None or process != os.getpid():
        raise_stale(id)
    return find_level(id)


def note_undefined(str message):
    """Remember a point without derivative; it is an error if NaN reaches the result."""
    cdef Level level = innermost()
    if nd_tls.swept != NULL:
        (<Level><object>nd_tls.swept).undefined = message + where()
    while level is not None:
        level.undefined = message + where()
        level = level.outer


cdef int check_defined(Level level, object lanes) except -1:
    if level.undefined is not None and not np.isfinite(bottom(lanes)).all():
        raise UndefinedDerivativeError(f"expected a point where the derivative exists; got one where {level.undefined}")
    return 0


cdef int check_kept(Level level, object error=None) except -1:
    """Raise what was said of a lost derivative, though user code swallowed it or NumPy put its own error over it."""
    if level.lost is not None and not isinstance(error, NdualError):
        kind, said = level.lost
        raise kind(said) from error
    return 0


cdef int check_foreign(object error) except -1:
    """Raise an error of Python or a library as ours where it comes of not knowing duals."""
    cdef str said
    if isinstance(error, NdualError):
        return 0
    said = str(error)
    if "NDual" in said or IGNORANT.search(said) or (isinstance(error, TypeError) and met_dual(error)):
        raise DerivativeLostError(
            f"expected code that takes what NumPy takes; got {type(error).__name__}: {said}{where_raised(error)}. "
            "Write the line with NumPy functions, or pass ndual.stop_gradient(x) if no derivative is meant"
        ) from error
    return 0


cdef bint met_dual(error):
    """Whether an exception was raised in Python's own library by code that was handling a dual."""
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    if module_of(frame) not in sys.stdlib_module_names:
        return False
    for value in frame.f_locals.values():
        if is_dual_object(value):
            return True
    return False


def note_lost(error):
    """Remember an error that stands for a lost derivative: code that tries and excepts would hide it."""
    if nd_tls.top != NULL and innermost().lost is None:
        innermost().lost = type(error), str(error)


cdef bint differentiating() noexcept:
    """Whether a derivative call is running on this thread."""
    return nd_tls.top != NULL


def current_level():
    """The innermost derivative call that is running on this thread, or None."""
    return None if nd_tls.top == NULL else <object>nd_tls.top


cdef int raise_stale(unsigned long long id, Level level=None) except -1:
    cdef PyObject* owner = _alive[id & 255]
    if owner != NULL and (<Level><object>owner).id == id:
        level = <Level><object>owner
    if level is not None and level.alive and level.thread != PyThread_get_thread_ident():
        error = StaleDualError(
            "expected a dual of the derivative that runs in this thread; got one that belongs to another thread"
            f"{where()}. Pass plain arrays between threads, and take derivatives inside each"
        )
        if level.lost is None:       # the error may end with the thread
            level.lost = type(error), str(error)
        raise error
    if nd_tls.id == 0:
        raise StaleDualError(
            "expected a dual of a running derivative; got one whose derivative call has ended, or that belongs to "
            f"another thread or process{where()}. Return it from the differentiated function instead of keeping it, "
            "or keep ndual.stop_gradient(x)"
        )
    raise StaleDualError(
        f"expected a dual of the running derivative (level {innermost().id}); got one of level {id}{where()}. "
        "Do not keep duals from one call to the next: keep ndual.stop_gradient(x)"
    )


cdef inline int check_level(Level level) except -1:
    if level.id != nd_tls.id:
        turn_to(level.id, level)
    return 0


cdef inline Level running():
    """The level at hand."""
    return <Level><object>nd_tls.level


cdef inline Level innermost():
    return None if nd_tls.top == NULL else <Level><object>nd_tls.top


cdef inline Level home():
    """The level of fresh arrays: the innermost for what the user's code makes, the one around a rule's for its own."""
    return None if nd_tls.home == NULL else <Level><object>nd_tls.home


def go_home(Level level):
    """Have another level be the one of fresh arrays; returns the former one."""
    former = home()
    nd_tls.home = NULL if level is None else <PyObject*>level
    return former


@cython.final
cdef class Pause:
    """Code that runs as if a derivative had not been begun: the innermost one is that given, None for none at all.

    So a function whose derivative comes by a rule is called on values. Use it as a context manager.
    """

    cdef Level level, top, home, hand
    cdef int compared

    def __init__(self, Level level=None):
        self.level = level

    def __enter__(self):
        self.top = innermost()
        self.home = home()
        self.hand = None if nd_tls.level == NULL else running()
        self.compared = nd_tls.compared
        put_innermost(self.level if self.level is not None and self.level.alive else None)

    def __exit__(self, *unused):
        put_innermost(self.top)
        if self.top is not None:
            nd_tls.home = NULL if self.home is None else <PyObject*>self.home
            if self.hand is not None and self.hand.alive:
                turn(self.hand)
            nd_tls.compared = self.compared


cdef void put_innermost(Level level) noexcept:
    """Have a level as the innermost one and at hand, or none."""
    if level is not None:
        nd_tls.top = nd_tls.home = <PyObject*>level
        turn(level)
        return
    if nd_tls.level != NULL:
        running().seen = nd_tls.compared
    nd_tls.top = nd_tls.home = nd_tls.level = NULL
    nd_tls.id = 0
    nd_tls.scalar = NULL
    nd_tls.tape = NULL


cdef Level find_level(unsigned long long id):
    """The derivative call with that id if it is running on this thread, or None."""
    cdef Level level = innermost()
    while level is not None and level.id != id:
        level = level.outer
    return level if level is not None and level.alive else None


cdef inline bint as_numpy() noexcept:
    """Whether values must be what NumPy computes, to the bit, or the same whatever moves in a pass."""
    return nd_tls.exact or nd_tls.compared_passes


cdef void turn(Level level) noexcept:
    """Have a running level at hand."""
    if nd_tls.level != NULL:
        running().seen = nd_tls.compared
    at_hand(level)
    nd_tls.compared = level.seen


cdef inline void at_hand(Level level) noexcept:
    nd_tls.id = level.id
    nd_tls.level = <PyObject*>level
    if level.recorder is None:
        nd_tls.scalar = scalar_type(level.width) if not level.boxed else NULL
        nd_tls.tape = NULL
    else:                        # cotangents of numbers are plain numbers
        nd_tls.scalar = scalar_type(0) if level.outer is None and not level.boxed else NULL
        nd_tls.tape = &level.recorder.tape


cdef int turn_to(unsigned long long id, Level level=None) except -1:
    """Have the level of a dual at hand, which must be one that runs on this thread."""
    cdef Level found = find_level(id)
    if found is None:
        raise_stale(id, level)
    turn(found)
    return 0


cdef inline unsigned long long level_id(object obj) noexcept:
    """The id of the level of a dual, 0 for anything else."""
    if type(obj) is NDualArray:
        return (<NDualArray>obj).buf.level.id
    return (<NDual1>obj).level if is_scalar(obj) else 0


cdef inline int align(object a, object b) except -1:
    """Have the inner one of the levels of two operands at hand."""
    cdef unsigned long long i = level_id(a), j = level_id(b)
    if j > i:
        i = j
    if i != 0 and i != nd_tls.id:
        turn_to(i)
    return 0


cdef inline int align_living(object a, object b) except -1:
    """The same, for operands among which there may be constants of derivatives that have ended."""
    cdef unsigned long long i = level_id(a), j = level_id(b)
    if j > i:
        i = j
    if i != 0 and i != nd_tls.id and find_level(i) is not None:
        turn_to(i)
    return 0


cdef object not_inner(Level level, object value):
    """A value for memory of a level: one of an inner derivative that carries no lanes is taken out of that.

    Others are refused, since the memory could not keep their lanes.
    """
    if level_id(value) <= level.id or find_level(level_id(value)) is None:
        return value
    if type(value) is NDualArray:
        value = peeled(<NDualArray>value)
        if level_id(value) <= level.id:
            turn(level)
            return value
    raise lost("storing a dual of an inner derivative in an array of an outer one",
               "Return it from the inner function, or make the array inside of that")
