# One forward pass over a flat tuple of leaves: what a derivative call pays every time. The slow parts (messages, casts,
# sweeps of several passes) are those of the subclass in run.py.

cdef extern from *:
    """
    #include <numpy/arrayscalars.h>
    static inline PyObject *nd_float64(double value) {   /* PyArray_Scalar takes twice as long */
        PyObject *scalar = PyArrayScalar_New(Double);
        if (scalar != NULL)
            PyArrayScalar_ASSIGN(scalar, Double, value);
        return scalar;
    }
    """
    object nd_float64(double)

cdef class Run:
    """The state of a run; see :class:`ndual._core.run.ForwardRun`."""

    def __cinit__(self, call, leaves, active, guard, outputs, *args, bint direct, **kwargs):
        cdef Py_ssize_t i, k, total = 0
        self.call = call
        self.leaves = tuple(leaves)
        self.active = tuple(active)
        self.guard = guard
        self.outputs = outputs
        self.direct = direct
        self.count = len(self.leaves)
        self.chosen = len(self.active)
        for leaf in self.leaves:
            total += len(leaf.shape)
        self.specs = <run_leaf*>PyMem_Malloc((self.count + 1) * sizeof(run_leaf))
        self.dims = <Py_ssize_t*>PyMem_Malloc((total + 1) * sizeof(Py_ssize_t))
        self.places = <Py_ssize_t*>PyMem_Malloc((self.chosen + 1) * sizeof(Py_ssize_t))
        if self.specs == NULL or self.dims == NULL or self.places == NULL:
            raise MemoryError()
        for i in range(self.chosen):
            self.places[i] = self.active[i]
            self.arrays = self.arrays or self.leaves[self.places[i]].kind == LEAF_ARRAY
        total = 0
        for i in range(self.count):
            leaf = self.leaves[i]
            self.specs[i].kind = leaf.kind if leaf.kind != 2 else 2 if leaf.dtype is not None else 3
            if leaf.kind == 0 and leaf.storage is not None:
                self.specs[i].kind = LEAF_DEVICE
            self.constant_arrays = self.constant_arrays or self.specs[i].kind == LEAF_CONSTANT_ARRAY
            self.specs[i].typenum = -1 if leaf.dtype is None else leaf.dtype.num
            self.specs[i].ndim = len(leaf.shape)
            self.specs[i].dims = self.dims + total
            for k in range(len(leaf.shape)):
                self.dims[total] = leaf.shape[k]
                total += 1

    def __dealloc__(self):
        PyMem_Free(self.specs)
        PyMem_Free(self.dims)
        PyMem_Free(self.places)

    cdef int claim(self) except -1:
        if self.promised:
            self.promised = False
            return 0
        if self.busy:
            raise NdualError(
                "expected one call at a time of a prepared object; got one while another was running. "
                "Give each thread, and each recursion, its own .clone()"
            )
        self.busy = True
        return 0

    cdef list admit(self, object primals):
        """The primals as a list, each checked against its leaf."""
        cdef list inputs = list(primals)
        cdef Py_ssize_t i
        cdef int kind
        if len(inputs) != self.count:
            raise ArgumentValueError(f"expected {self.count} arguments; got {len(inputs)}. Pass them all")
        for i in range(self.count):
            value = inputs[i]
            kind = self.specs[i].kind
            if kind == LEAF_ARRAY or kind == LEAF_CONSTANT_ARRAY:
                if fits(&self.specs[i], value):
                    continue
            elif kind == LEAF_SCALAR:
                if self.specs[i].typenum == cnp.NPY_DOUBLE and PyFloat_Check(value):
                    continue
            elif kind == LEAF_DEVICE:
                leaf = self.leaves[i]
                if type(value) is leaf.type and value.shape == leaf.shape and value.dtype == leaf.dtype:
                    continue
            elif type(value) is self.leaves[i].type:
                continue
            inputs[i] = self.leaves[i].admit(value)
        return inputs

    def suits(self, primals, bint plain_tangents=False, tangents=()):
        """Whether a call can start at once: nothing is running, and every argument is of its leaf's own type.

        It then belongs to the caller, who must start it: another thread is told False from now on.
        """
        cdef Py_ssize_t i
        if self.busy or len(primals) != self.count or len(tangents) != (self.chosen if plain_tangents else 0):
            return False
        for tangent in tangents:
            if tangent is None:
                return False
        for i in range(self.count):
            value = primals[i]
            if self.specs[i].kind == LEAF_ARRAY or self.specs[i].kind == LEAF_CONSTANT_ARRAY:
                if not fits(&self.specs[i], value) and not fits_dual(&self.specs[i], value):
                    return False
            elif self.specs[i].kind == LEAF_DEVICE and fits_dual(&self.specs[i], value) \
                    and deepest(<NDualArray>value).storage_ is self.leaves[i].storage:
                continue
            elif type(value) is not self.leaves[i].type:
                return False
            elif self.specs[i].kind == LEAF_DEVICE \
                    and (value.shape != self.leaves[i].shape or value.dtype != self.leaves[i].dtype):
                return False
        self.busy = self.promised = True
        return True

    cdef int leave(self, tuple sites) except -1:
        try:
            self.guard.leave()
        finally:
            swap_out(sites)
        return 0

    cdef int lift_constants(self, list inputs, Level level) except -1:
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.specs[i].kind == LEAF_CONSTANT_ARRAY:
                inputs[i] = lift_constant(inputs[i], level)
        return 0

    cdef list own_names(self, list inputs):
        """The arrays that f gets duals for, with those that they are all of, as far as they can be written to.

        Read-only while f runs, they cannot be changed by the caller's own names for them, which would change values
        and no derivative. This costs 30 ns.
        """
        cdef list held = None
        cdef Py_ssize_t i
        cdef cnp.ndarray a
        for i in range(self.chosen):
            value = inputs[self.places[i]]
            while cnp.PyArray_CheckExact(value):
                a = <cnp.ndarray>value
                if cnp.PyArray_ISWRITEABLE(a):
                    held = [] if held is None else held
                    held.append(a)
                if cnp.PyArray_BASE(a) == NULL:
                    break
                value = <object>cnp.PyArray_BASE(a)
                if not cnp.PyArray_CheckExact(value) or cnp.PyArray_NBYTES(<cnp.ndarray>value) != cnp.PyArray_NBYTES(a):
                    break
        return held

    cdef int explain(self, object error, list held) except -1:
        """Raise what an error means that comes of a write to memory that f must not change."""
        if held is None or not isinstance(error, ValueError) or isinstance(error, NdualError) \
                or not any([word in str(error) for word in _READ_ONLY]):
            return 0
        names = ", ".join([self.leaves[i].name for i in self.active if self.specs[<Py_ssize_t>i].kind == LEAF_ARRAY])
        raise AliasError(
            f"{names}: expected f to change what it is given; got a write to an array of the caller's by another name, "
            f"where it has no derivative (NumPy: {error}). Write into the argument, or pass a copy"
        ) from error

    cdef object apply(self, object call, list inputs, Level level):
        try:
            if self.count == 1:
                return call(inputs[0])
            if self.count == 2:
                return call(inputs[0], inputs[1])
            return call(*inputs)
        except Exception as error:
            check_kept(level, error)
            check_foreign(error)
            raise

    def run(self, primals, tangents, call=None):
        """(value, tangent) along one direction, which has one tangent for each differentiated leaf.

        `call` stands in for the function that the run was made for.
        """
        return self.push(primals, tangents, call)

    cdef object push(self, primals, tangents, call):
        cdef Level level
        cdef list inputs, given
        cdef bint single
        cdef Py_ssize_t k
        cdef tuple directions
        cdef tuple sites = None
        cdef list held
        self.claim()
        try:
            inputs = self.admit(primals)
            directions = tangents if type(tangents) is tuple else tuple(tangents)
            if len(directions) != self.chosen:
                raise ArgumentValueError(
                    f"expected {self.chosen} tangents, one for each differentiated argument; got {len(directions)}"
                )
            level = Level.__new__(Level, 1)
            sites = self.guard.places()
            if sites is not None:
                swap_in(sites)
            try:
                level.enter()
                try:
                    given = inputs if level.outer is None else inputs[:]
                    held = self.own_names(inputs) if self.arrays else None
                    for k in range(self.chosen):
                        inputs[self.places[k]] = self.lift(self.places[k], inputs[self.places[k]], directions[k], level)
                    if self.constant_arrays and self.guard.writes:
                        self.lift_constants(inputs, level)
                    level.inputs = inputs
                    if level.outer is not None or _storages:
                        mark_shared(inputs, given)
                    shut(held)
                    try:
                        out = self.apply(self.call if call is None else call, inputs, level)
                    except ValueError as error:
                        self.explain(error, held)
                        raise
                    finally:
                        open_again(held)
                    single = self.direct and of_level(out, level) and not self.stepped(out, level)
                    if single:
                        value, tangent = self.pair(out)
                    else:
                        value = self.outputs.split(out)
                finally:
                    level.leave()
            finally:
                if sites is not None:
                    self.leave(sites)
        finally:
            self.busy = False
        check_kept(level)
        if level.undefined is not None:
            for part in (tangent,) if single else value.rows:
                if part is not None:
                    check_defined(level, part)
        return (value, tangent) if single else self.outputs.join(value, level.compared)

    cdef bint stepped(self, object out, Level level) noexcept:
        """Whether an output is known to be constant though active values were compared, which calls for a warning."""
        if nd_tls.id != level.id:
            turn(level)
        return nd_tls.compared and type(out) is NDualArray and inert(<NDualArray>out)

    cdef tuple pair(self, object out):
        value = result_value(out, True)
        if type(out) is not NDualArray:
            return value, nd_float64((<NDual1>out).p[0])
        x = <NDualArray>out
        if (<NDualArray>out).device_v is None and lanes_ours((<NDualArray>out).buf) and isinstance(value, cnp.ndarray):
            return value, lane_view(out, 0)
        return value, result_lanes(out)[0]

    cdef object lift(self, Py_ssize_t i, object value, object tangent, Level level):
        """One leaf with the tangent of the only lane."""
        cdef double t
        cdef run_leaf* leaf = &self.specs[i]
        if level.outer is not None:
            return lift_nested(leaf, value, self.lane_of(i, tangent), level)
        if leaf.kind == LEAF_ARRAY:
            if leaf.ndim and fits(leaf, tangent) and direct_memory(<cnp.ndarray>value) \
                    and direct_memory(<cnp.ndarray>tangent):
                return lift_lane(<cnp.ndarray>value, <cnp.ndarray>tangent, level)
        elif leaf.kind == LEAF_SCALAR and leaf.typenum == cnp.NPY_DOUBLE and PyFloat_Check(tangent) \
                and nd_tls.scalar != NULL:
            t = PyFloat_AS_DOUBLE(tangent)
            return lift_number(PyFloat_AS_DOUBLE(value), &t)
        return borrow(value, self.lane_of(i, tangent), level)

    cdef object lift_seeds(self, Py_ssize_t i, object value, object seeds, object start, Level level):
        """One leaf with the tangents of all lanes, which lie in C order."""
        cdef NDualArray x
        cdef run_leaf* leaf = &self.specs[i]
        if level.outer is not None:
            return lift_nested(leaf, value, seeds, level)
        if leaf.kind == LEAF_ARRAY:
            if leaf.ndim and direct_memory(<cnp.ndarray>value):
                x = adopt_readonly(<cnp.ndarray>value, <cnp.ndarray>seeds, level)
                x.buf.borrowed = True
                if start is not None and cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray>value):
                    x.buf.seeded = True
                    x.buf.seed = start
                    align_values(x.buf)
                return x
        elif leaf.kind == LEAF_SCALAR and leaf.typenum == cnp.NPY_DOUBLE and nd_tls.scalar != NULL:
            return lift_number(PyFloat_AS_DOUBLE(value), <double*>cnp.PyArray_DATA(<cnp.ndarray>seeds))
        return borrow(value, seeds, level)

    cdef tuple forward(self, object call, list inputs, tuple seeds, Py_ssize_t width):
        cdef Level level = Level.__new__(Level, width)
        cdef Py_ssize_t i
        cdef bint single
        cdef list given, held
        cdef tuple sites = None
        sites = self.guard.places()
        if sites is not None:
            swap_in(sites)
        try:
            level.enter()
            try:
                given = inputs
                held = self.own_names(inputs) if self.arrays else None
                inputs = inputs[:]
                for i, tangent, start in zip(self.active, seeds, self.starts):
                    inputs[i] = self.lift_seeds(i, inputs[i], tangent, start, level)
                if self.constant_arrays and self.guard.writes:
                    self.lift_constants(inputs, level)
                level.inputs = inputs
                if level.outer is not None or _storages:
                    mark_shared(inputs, given)
                shut(held)
                try:
                    out = self.apply(self.call if call is None else call, inputs, level)
                except ValueError as error:
                    self.explain(error, held)
                    raise
                finally:
                    open_again(held)
                single = self.direct and of_level(out, level) and not self.stepped(out, level)
                if single:
                    value = result_value(out, False)
                    rows = result_lanes(out)
                else:
                    value = self.outputs.split(out)
                    rows = None
            finally:
                level.leave()
        finally:
            if sites is not None:
                self.leave(sites)
        check_kept(level)
        if level.undefined is not None:
            for part in (rows,) if single else value.rows:
                if part is not None:
                    check_defined(level, part)
        return value, rows, single, level.compared

    def record(self, primals, Recorder recorder not None, call=None):
        """Run f on a level that records: (value, dual, True, compared, leaves) where its output is one dual.

        Other outputs give (parts, None, False, compared, leaves). The leaves are those that are differentiated, lifted.
        """
        return self.recorded(primals, recorder, call)

    cdef tuple recorded(self, primals, Recorder recorder, call):
        cdef Level level = Level.__new__(Level, 1, recorder)
        cdef Py_ssize_t i
        cdef bint single
        cdef list inputs, given, held = None, lifted = [None] * self.chosen
        cdef tuple sites = None
        self.claim()
        recorder.writes = self.guard.writes
        recorder.leaves = lifted
        try:
            inputs = self.admit(primals)
            given = inputs if nd_tls.top == NULL and not _storages else inputs[:]
            held = self.own_names(inputs) if self.arrays else None
            sites = self.guard.places()
            if sites is not None:
                swap_in(sites)
            try:
                level.enter()
                try:
                    for i in range(self.chosen):
                        leaf = lift_traced(inputs[self.places[i]], level, self.guard.writes)
                        inputs[self.places[i]] = leaf
                        lifted[i] = leaf
                    if self.constant_arrays and self.guard.writes:
                        self.lift_constants(inputs, level)
                    level.inputs = inputs
                    if level.outer is not None or _storages:
                        mark_shared(inputs, given)
                    shut(held)
                    try:
                        out = self.apply(self.call if call is None else call, inputs, level)
                    finally:
                        open_again(held)
                    single = self.direct and of_level(out, level) and not self.stepped(out, level)
                    if single:
                        value = result_value(out, False)
                        if type(out) is NDualArray and (<NDualArray>out).flags_ & NSCALAR == 0:
                            out = getitem(<NDualArray>out, Ellipsis)    # its own view, whatever the caller does with it
                    else:
                        value = self.outputs.split(out)
                        out = None
                finally:
                    level.leave()
            finally:
                if sites is not None:
                    self.leave(sites)
            check_kept(level)
        except BaseException as error:
            if not recorder.failed(error):
                self.explain(error, held)
            raise
        finally:
            self.busy = False
        return value, out, single, level.compared, lifted

    cdef tuple pulled(self, primals, call):
        """Of a run that records: as ``sweep``, for one real number with a list of the leaves' gradients."""
        raise NotImplementedError

    def sweep(self, primals, progress=range, call=None):
        """Every direction: (value, rows, True, compared) for one dual, its rows being ``(dof, *value.shape)``.

        Other outputs give (parts, list of rows, False, compared).
        """
        cdef list inputs
        cdef tuple result
        self.claim()
        try:
            inputs = self.admit(primals)
            if self.plain_sweep and self.seeds is not None:
                result = self.forward(call, inputs, self.seeds, len(self.seeds[0]))
                # One float64 suits every operator; anything else is looked at.
                if result[2] and type(result[0]) is np.float64:
                    return result
                return self.one_sweep(result)
            return self.sweep_all(inputs, progress, call)
        finally:
            self.busy = False

    def one_pass(self, list inputs, tuple seeds, Py_ssize_t width, call):
        """(value, lanes, True, compared) of one dual, else (parts, None, False, compared)."""
        return self.forward(call, inputs, seeds, width)


cdef int shut(list held) except -1:
    """Make arrays read-only until ``open_again``."""
    if held is not None:
        for a in held:
            cnp.PyArray_CLEARFLAGS(<cnp.ndarray>a, NPY_ARRAY_WRITEABLE)
    return 0


cdef int open_again(list held) except -1:
    if held is not None:
        for a in held:
            cnp.PyArray_ENABLEFLAGS(<cnp.ndarray>a, NPY_ARRAY_WRITEABLE)
    return 0
