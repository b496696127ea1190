# NDualArray: a geometry over a buffer. Values and lanes have their own strides, so that a broadcast tangent costs
# nothing; on other storages than host memory the two arrays of that storage stand in for the pointers.


@cython.no_gc
cdef class NDualArray:
    """An array of dual numbers: values of ``shape`` and lanes of ``(N, *shape)``.

    It is not an ndarray subclass (those lose derivatives silently), but answers ``np.ndarray`` when asked for its
    class, so that ``isinstance`` checks in user code pass. Duals are made by the functions of :mod:`ndual.api`.
    """

    def __hash__(self):
        if self.flags_ & NSCALAR and not inert(self):
            raise unhashed()
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __init__(self, *unused, **kwargs): raise TypeError(NOT_MADE)

    # Slots; what they mean is decided in operators.pxi, indexing.pxi and interface.pxi.
    def __add__(a, b): return binary(ROW_ADD, a, b)
    def __sub__(a, b): return binary(ROW_SUBTRACT, a, b)
    def __mul__(a, b): return binary(ROW_MULTIPLY, a, b)
    def __truediv__(a, b): return binary(ROW_DIVIDE, a, b)
    def __floordiv__(a, b): return binary(ROW_FLOOR_DIVIDE, a, b)
    def __mod__(a, b): return binary(ROW_REMAINDER, a, b)
    def __divmod__(a, b): return binary(ROW_FLOOR_DIVIDE, a, b), binary(ROW_REMAINDER, a, b)
    def __pow__(a, b, modulus): return power(a, b) if modulus is None else NotImplemented
    def __matmul__(a, b): return product(np_matmul, a, b) if understood(a) and understood(b) else NotImplemented
    def __neg__(self): return unary(ROW_NEGATIVE, self)
    def __pos__(self): return unary(ROW_POSITIVE, self)
    def __abs__(self): return unary(ROW_ABSOLUTE, self)
    def __iadd__(self, b): return inplace(ROW_ADD, self, b)
    def __isub__(self, b): return inplace(ROW_SUBTRACT, self, b)
    def __imul__(self, b): return inplace(ROW_MULTIPLY, self, b)
    def __itruediv__(self, b): return inplace(ROW_DIVIDE, self, b)
    def __ifloordiv__(self, b): return inplace(ROW_FLOOR_DIVIDE, self, b)
    def __imod__(self, b): return inplace(ROW_REMAINDER, self, b)
    def __ipow__(self, b): return inplace_power(self, b)
    def __imatmul__(self, b): return inplace_matmul(self, b)
    def __richcmp__(a, b, int op): return compare(a, b, op)
    def __bool__(self): return bool(plain_value(self, True))
    def __int__(self): return int(plain_value(self, True))
    def __index__(self): raise TypeError("only integer scalar arrays can be converted to a scalar index")
    def __float__(self):
        if inert(self):
            return float(inert_value(self))
        raise no_float("Remove float(), or use x[()] for a size-one array")
    def __complex__(self):
        if inert(self):
            return complex(inert_value(self))
        raise lost("complex(x)", "Remove complex(), or write x + 0j")
    def __len__(self):
        if self.ndim_ == 0:
            raise TypeError("len() of unsized object")
        return self.shape_[0]
    def __iter__(self):
        if self.ndim_ == 0:
            raise TypeError("iteration over a 0-d array")
        return PySeqIter_New(self)
    def __contains__(self, item): return bool((plain_value(self, True) == plain(item)).any())
    def __getitem__(self, index): return getitem(self, index)
    def __setitem__(self, index, value): setitem(self, index, value)
    def __array_function__(self, function, types, args, kwargs):
        return array_function(function, args, kwargs)
    def __array__(self, dtype=None, *, copy=None):
        if inert(self):
            return outside_view(self, dtype, copy)
        raise lost("converting a dual array to a plain array",
                   "Keep it as it is (np.asarray is not needed), call np.stack for a list of duals, make arrays that "
                   "are written into inside of f, and give a function that has no rule one (ndual.defrule)")
    def __getattr__(self, name): return method_of(self, name)
    def __repr__(self): return repr_dual(self)
    def __str__(self): return marked_array(self, str(plain_value(self, False)))
    def __format__(self, spec): return marked_array(self, format(plain_value(self, False), spec))
    def __reduce__(self): return reduce_dual(self)
    def __reduce_ex__(self, protocol): return reduce_dual(self)
    def __copy__(self): return self if self.flags_ & NSCALAR else copy_array(self, "K")
    def __deepcopy__(self, memo): return self.__copy__()

    @property
    def shape(self): return shape_tuple(self)
    @shape.setter
    def shape(self, shape): set_shape(self, shape)
    @property
    def ndim(self): return self.ndim_
    @property
    def size(self): return self.size_
    @property
    def dtype(self): return cnp.PyArray_DescrFromType(self.typenum)
    @property
    def itemsize(self): return self.itemsize_
    @property
    def nbytes(self): return self.size_ * self.itemsize_
    @property
    def strides(self): return plain_value(self, False).strides
    @property
    def flags(self): return plain_value(self, False).flags
    @property
    def T(self): return transpose(self, None)
    @property
    def mT(self): return matrix_transpose(self)
    @property
    def real(self): return part(self, False)
    @real.setter
    def real(self, value): setitem(part(self, False), Ellipsis, value)
    @property
    def imag(self): return part(self, True)
    @imag.setter
    def imag(self, value): setitem(part(self, True), Ellipsis, value)
    @property
    def flat(self): return FlatIterator(self)
    @flat.setter
    def flat(self, value): FlatIterator(self)[:] = value
    @property
    def device(self): return "cpu" if self.device_v is None else self.device_v.device

    def sum(self, *args, **kwargs):
        if not args and not kwargs:
            return sum_all(self)
        return dispatch(np.sum, (self, *args), kwargs)
    def mean(self, *args, **kwargs):
        return dispatch(np_mean, (self, *args), kwargs) if args or kwargs else mean_all(self)
    def copy(self, order="C"): return self if self.flags_ & NSCALAR else copy_array(self, order)
    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        return astype(self, dtype, casting, copy)
    def reshape(self, *shape, order="C", copy=None):
        return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy)
    def ravel(self, order="C"): return ravel(self, order)
    def flatten(self, order="C"): return copy_array(ravel(self, order), "C")
    def transpose(self, *axes):
        whole = len(axes) == 1 and (type(axes[0]) is np_ndarray or not PyIndex_Check(axes[0]))
        return transpose(self, axes[0] if whole else axes or None)
    def item(self, *index): return item(self, index)
    def tolist(self): return tolist(self)
    def fill(self, value): setitem(self, Ellipsis, value)
    def conj(self): return conjugate(self)
    def conjugate(self): return conjugate(self)
    def dot(self, other, out=None):
        return product(np_dot, self, other) if out is None else dispatch(np_dot, (self, other), {"out": out})
    def sort(self, axis=-1, kind=None, order=None, **kwargs):
        setitem(self, Ellipsis, dispatch(np.sort, (self, axis, kind, order), kwargs))
    def view(self, *args, **kwargs):
        if args or kwargs:
            if inert(self):      # of an array that the tape may read, one that nothing is written through
                return outside_view(self, None, None).view(*args, **kwargs) if nd_tls.tape != NULL else \
                    inert_value(self).view(*args, **kwargs)
            raise lost("x.view(dtype)", "Views of another type have no derivative; use x.astype(dtype)")
        return getitem(self, Ellipsis)
    def tobytes(self, *args):
        if inert(self):
            return plain_value(self, False).tobytes(*args)
        raise lost("x.tobytes()", "Take bytes of ndual.stop_gradient(x)")
    def __bytes__(self):
        if inert(self):
            return bytes(plain_value(self, False))
        raise lost("bytes(x)", "Take bytes of ndual.stop_gradient(x)")
    def __getbuffer__(self, Py_buffer* buffer, int flags): give_buffer(self, buffer, flags)
    def __releasebuffer__(self, Py_buffer* buffer): pass

    @property
    def __class__(self):
        if self.device_v is not None:
            memory = deepest(self).device_v
            if memory is not None:
                return type(memory)
        if self.flags_ & NSCALAR:
            return cnp_scalar_class(self.typenum)
        return np.ndarray
