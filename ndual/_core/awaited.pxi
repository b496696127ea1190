# Results on the host that are left to the sum behind them: large ones are added up a block at a time, as they are
# computed, while each block is in the first cache. What stands for the array has the sum, and forms it for other uses.

cdef enum:
    AHEAD_CELLS = 1 << 14    # from which on a pass over memory costs more than to look at the code that runs
    AHEAD_BLOCK = 1 << 11    # cells, which with those of one lane fill half of the first cache

cdef extern from "Python.h":
    object PyObject_RichCompare(object, object, int)

cdef object _summed_next = None


def set_summed_next(function):
    """Fill the slot for what says of a row of the table whether the code that runs sums its result next."""
    global _summed_next
    _summed_next = function


def left_to_sums():
    """Whether a result may be left to a sum: values may be rounded in another way, and arguments are as given."""
    return not as_numpy() and not nd_tls.debug and not any_moved()


def set_compared_passes(compared):
    """Say whether values of one pass are compared with those of others; returns what was said before."""
    before = bool(nd_tls.compared_passes)
    nd_tls.compared_passes = bool(compared)
    return before


cdef object formed(object obj):
    """An operand as it is; formed, if it was left to a sum."""
    if type(obj) is Awaited:
        return (<Awaited>obj).form()
    if type(obj) is list:
        return [formed(part) for part in obj]
    return tuple([formed(part) for part in obj]) if type(obj) is tuple else obj


@cython.internal
@cython.final
cdef class Awaited:
    """Stands for an array that its code sums next.

    In arrays of objects one instruction has several results, of which the next one sees none: other uses get the array,
    unless its operands were written to since.
    """

    cdef object found, make, array
    cdef Py_ssize_t count
    cdef tuple operands
    cdef list names

    cdef object form(self):
        if self.array is None:
            for operand, name in zip(self.operands, self.names, strict=True):
                if type(operand) is NDualArray and (<NDualArray>operand).buf.name != name:
                    raise NdualError(
                        f"expected a sum right behind the operation; got another use of its result{where()}, after an "
                        "operand was written to. Give the result a name first: y = …; y.sum()"
                    )
            if type(self.make) is not Row:
                self.array = self.make(*self.operands)
            elif len(self.operands) == 1:
                self.array = unary(<Row>self.make, self.operands[0])
            else:
                self.array = binary(<Row>self.make, self.operands[0], self.operands[1])
        return self.array

    def sum(self, *args, **kwargs):
        return self.form().sum(*args, **kwargs) if args or kwargs else self.found

    def mean(self, *args, **kwargs):
        return self.form().mean(*args, **kwargs) if args or kwargs else self.found / <double>self.count

    def __array_function__(self, function, types, args, kwargs):
        if len(args) == 1 and not kwargs and (function is np_sum or function is np_mean):
            return self.sum() if function is np_sum else self.mean()
        return function(*formed(args), **{key: formed(value) for key, value in kwargs.items()})

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return getattr(ufunc, method)(*formed(inputs), **{key: formed(value) for key, value in kwargs.items()})

    def __getattr__(self, name): return getattr(self.form(), name)
    def __array__(self, *args, **kwargs): return self.form().__array__(*args, **kwargs)
    def __add__(a, b): return formed(a) + formed(b)
    def __sub__(a, b): return formed(a) - formed(b)
    def __mul__(a, b): return formed(a) * formed(b)
    def __truediv__(a, b): return formed(a) / formed(b)
    def __floordiv__(a, b): return formed(a) // formed(b)
    def __mod__(a, b): return formed(a) % formed(b)
    def __divmod__(a, b): return divmod(formed(a), formed(b))
    def __pow__(a, b, modulus): return formed(a) ** formed(b)
    def __matmul__(a, b): return formed(a) @ formed(b)
    def __neg__(self): return -self.form()
    def __pos__(self): return +self.form()
    def __abs__(self): return abs(self.form())
    def __richcmp__(a, b, int op): return PyObject_RichCompare(formed(a), formed(b), op)
    def __hash__(self): raise unhashed()
    def __bool__(self): return bool(self.form())
    def __len__(self): return len(self.form())
    def __iter__(self): return iter(self.form())
    def __contains__(self, value): return value in self.form()
    def __getitem__(self, index): return self.form()[index]
    def __setitem__(self, index, value): self.form()[index] = value
    def __float__(self): return float(self.form())
    def __complex__(self): return complex(self.form())
    def __int__(self): return int(self.form())
    def __index__(self): return operator.index(self.form())
    def __repr__(self): return repr(self.form())
    def __format__(self, spec): return format(self.form(), spec)
    def __reduce__(self): return self.form().__reduce__()
    def __copy__(self): return self.form().__copy__()
    def __deepcopy__(self, memo): return self.form().__deepcopy__(memo)

    @property
    def __class__(self): return np_ndarray


def awaited(found, Py_ssize_t count, make, operands):
    """What stands for ``make(*operands)``, or a row of them, in code that takes the sum or mean of its cells next.

    There are `count` cells, and `found` is their sum.
    """
    cdef Awaited a = Awaited.__new__(Awaited)
    a.found = found
    a.count = count
    a.make = make
    a.operands = operands
    a.names = [name_of((<NDualArray>x).buf) if type(x) is NDualArray else 0 for x in operands]
    return a


cdef bint sums_next(Row row, NDualArray x, NDualArray y, int at, Py_ssize_t lanes):
    """Whether the result of a row with x as operand `at` need not be there, since its code hands it to the sum next and
    the tape does not read it."""
    if x.typenum != cnp.NPY_DOUBLE or lanes > 1 or row.flat or as_numpy() or nd_tls.scalar == NULL \
            or ROW_ADD.loops[ND_F64].fn == NULL or not on_top(x.buf.level):
        return False
    if nd_tls.tape == NULL:
        if lanes == 0:
            return False
    elif not (x.buf.traced or (y is not None and y.buf.traced)) or (x.buf.traced and row.needs[at] & 8) \
            or (y is not None and y.buf.traced and row.needs[1] & 8):
        return False
    return _summed_next(row.spec)


cdef object map_and_sum(Row row, int nin, nd_in* ins, NDualArray x, object a, object b, Py_ssize_t lo,
                        Py_ssize_t lanes):
    """What stands for a row over x, and over another contiguous array or a number: added up in blocks."""
    cdef nd_out out
    cdef Py_ssize_t stride = 8, size = x.size_, at, n, k, i, j = 0
    cdef Py_ssize_t blocks = (size + AHEAD_BLOCK - 1) // AHEAD_BLOCK
    cdef int size_class
    cdef char* room = <char*>pooled(8 * (1 + lanes) * (AHEAD_BLOCK + blocks), &size_class)
    cdef double* parts = <double*>room + (1 + lanes) * AHEAD_BLOCK
    cdef double* sums
    cdef double whole, slope = 0
    cdef NDualArray r
    cdef object found
    cdef tuple operands = (a,) if row.nin == 1 else (a, b)
    out.v = room
    out.lane = 8 * AHEAD_BLOCK
    out.t = room + out.lane
    out.vs = out.ts = &stride
    try:
        for at in range(0, size, AHEAD_BLOCK):
            n = min(size - at, <Py_ssize_t>AHEAD_BLOCK)
            run_kernel(row, x.typenum, nin, ins, &out, 1, &n, lanes)
            for k in range(lanes + 1):
                parts[k * blocks + j] = total(room + k * out.lane, n)
            j += 1
            for i in range(nin):
                ins[i].v += ins[i].vs[0] * n
                if ins[i].t != NULL:
                    ins[i].t += ins[i].ts[0] * n
        whole = total(<char*>parts, blocks)
        if lanes:
            slope = total(<char*>(parts + blocks), blocks)
    finally:
        nd_pool_free(room, size_class)
    if nd_tls.tape != NULL:
        r = new_window(x.buf.level, x.typenum, x.ndim_, x.shape_, 0, 0)     # its shadow alone is used
        recorder().mapped(recorder().operands(row, operands), r)
        found = number_at(whole, recorder().summed(r))
    else:
        found = new_sum(x.buf.level, whole, lo, lo + lanes, &sums)
        if lanes:
            sums[0] = slope
    return awaited(found, size, row, operands)
