# cython: language_level=3, boundscheck=False, wraparound=False, binding=False
"""Gates: they stand in for functions while a derivative is taken, and cost little when nothing is to be done.

Where they are put, and when, is decided in intercept.py.
"""
import copyreg
import dis
import sys

cimport cython

from ndual._core._dual cimport differentiating, straight

from cpython.object cimport Py_EQ, Py_NE, PyObject, PyTypeObject

cdef extern from "Python.h":
    PyObject* PyEval_GetGlobals()
    PyObject* PyDict_GetItem(object, object)
    object PyObject_Vectorcall(object, PyObject* const*, size_t, PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)

# How a gate tells Python code from compiled code that calls it: the interpreter passes arguments on its own stack,
# which is not that of C. map, partial and the like do pass them on the C stack, but call from the interpreter's image.
cdef extern from *:
    """
    #include <stddef.h>
    typedef PyObject *(*nd_gate_body)(PyObject *, PyObject *const *, size_t, PyObject *, int);
    static nd_gate_body nd_body;
    static const char *nd_image_start, *nd_image_end;

    #if defined(__linux__)
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <link.h>
    static int nd_image_of(struct dl_phdr_info *info, size_t size, void *where) {
        (void)size;
        for (int i = 0; i < info->dlpi_phnum; i++) {
            const char *start = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
            const char *end = start + info->dlpi_phdr[i].p_memsz;
            if (info->dlpi_phdr[i].p_type == PT_LOAD && start <= (const char *)where && (const char *)where < end) {
                nd_image_start = start;
                nd_image_end = end;
                return 1;
            }
        }
        return 0;
    }
    static void nd_find_image(void) { dl_iterate_phdr(nd_image_of, (void *)(size_t)&PyObject_Call); }
    #else
    static void nd_find_image(void) {}
    #endif

    #ifdef __GNUC__
    #define ND_CALLER ((const char *)__builtin_return_address(0))
    __attribute__((noinline))
    #else
    #define ND_CALLER ((const char *)0)
    #endif
    static PyObject *nd_gate_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
        char here;
        ptrdiff_t above = (const char *)args - &here;
        int python = above < 0 || above > 16384
            || (names == NULL && nd_image_start <= ND_CALLER && ND_CALLER < nd_image_end);
        return nd_body(self, args, nargsf, names, python);
    }

    static void nd_vectorcall(PyTypeObject *type, Py_ssize_t offset, nd_gate_body body) {
        nd_body = body;
        nd_find_image();
        type->tp_vectorcall_offset = offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified(type);
    }
    """
    ctypedef object (*nd_gate_body)(PyObject*, PyObject* const*, size_t, PyObject*, bint)
    void nd_vectorcall(PyTypeObject*, Py_ssize_t, nd_gate_body)
    void* nd_gate_call

from ndual import _core
from ndual._core._dual import short_cut

LIBRARIES = frozenset({"numpy", "scipy", "cupy", "cupyx", "ndual"})
# Parts of this library whose calls are the user's: that run their functions elsewhere, and that call their operators.
cdef tuple USERS = ("ndual.job", "ndual.frontend.operators")
cdef tuple RULES = ("ndual.rules", "ndual.frontend", "ndual._core.forward", "ndual._core.storage")
cdef object activity = _core.activity
cdef object call_plain = _core.call_plain
cdef object current_level = _core.current_level
cdef object is_dual = _core.is_dual


# Parts of the libraries that are Python code over NumPy and nothing else: their calls count as those of their callers.
OPEN = frozenset("""
numpy.lib._index_tricks_impl
numpy.polynomial._polybase numpy.polynomial.chebyshev numpy.polynomial.hermite numpy.polynomial.hermite_e
numpy.polynomial.laguerre numpy.polynomial.legendre numpy.polynomial.polynomial numpy.polynomial.polyutils
scipy._lib.array_api_extra._lib._at scipy._lib.array_api_extra._lib._funcs scipy._lib.array_api_compat.numpy._aliases
scipy._lib.array_api_compat._internal scipy._lib.array_api_compat.common._aliases
scipy.optimize._optimize scipy.sparse.linalg._interface
scipy.stats._continuous_distns scipy.stats._discrete_distns scipy.stats._distn_infrastructure
scipy.stats._covariance scipy.stats._multivariate scipy.special._basic scipy.special._spherical_bessel
""".split())
# SciPy 1.18 moved what it takes from other projects.
OPEN |= {name.replace("scipy._lib.array", "scipy._external.array") for name in OPEN}


cpdef bint is_library(str module):
    """Whether a module belongs to the libraries whose own calls are left alone."""
    return module.partition(".")[0] in LIBRARIES and module not in OPEN and not module.startswith(USERS)


cdef bint from_library():
    cdef PyObject* scope = PyEval_GetGlobals()
    if scope == NULL:
        return False
    name = (<dict>scope).get("__name__")
    if type(name) is not str:
        return False
    return opened_by_library() if name in OPEN else is_library(<str>name)


cdef bint opened_by_library():
    """Whether the first caller that is in no open module belongs to a library; from ndual, its rules do."""
    frame = sys._getframe()
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name not in OPEN:
            if type(name) is not str or not is_library(<str>name):
                return False
            return (<str>name).startswith(RULES) or not (<str>name).startswith("ndual.")
        frame = frame.f_back
    return False


cdef bint importing() except -1:
    """Whether the caller is the body of a module: what it makes outlives the call."""
    cdef PyObject* scope = PyEval_GetGlobals()
    spec = None if scope == NULL else (<dict>scope).get("__spec__")
    return spec is not None and getattr(spec, "_initializing", False)


def resolve(str module, str name):
    """What a pickled gate becomes again."""
    import importlib
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.original if type(found) in (Gate, TypeGate) else found


cdef class Gate:
    # A stand-in for a function: on duals, from user code, the rule; otherwise the function itself. `makes` marks a
    # function that makes arrays: those without duals are lazy buffers. `iterates` marks one that takes iterators, which
    # only the rule may use up; `everywhere` one whose callers in libraries count too; `lists` one that NumPy's
    # protocols hand over unless the duals come in a list or under a keyword: `short` says how to go without them.

    cdef readonly object original
    cdef object dispatch
    cdef void* vectorcall
    cdef bint makes, iterates
    cdef readonly bint everywhere, lists
    cdef readonly object short
    cdef dict __dict__
    cdef object __weakref__      # numba looks functions up by weak references to them

    def __init__(self, original, dispatch, makes=False, iterates=False, everywhere=False, lists=False):
        self.original = original
        self.dispatch = dispatch
        self.makes = makes
        self.iterates = iterates
        self.everywhere = everywhere
        self.lists = lists
        self.short = short_cut(original) if lists else None
        self.vectorcall = <void*>nd_gate_call

    def __call__(self, *args, **kwargs):
        # Python code comes this way with f(*args) alone; keywords and positions are a vectorcall.
        return through(self, args, kwargs, current_level() is not None and spread())

    def __getattr__(self, name):
        return getattr(self.original, name)

    @property
    def __doc__(self):
        return self.original.__doc__

    @property
    def __wrapped__(self):
        return self.original

    def __richcmp__(self, other, int op):
        if op == Py_EQ or op == Py_NE:
            same = self.original == (other.original if type(other) is Gate else other)
            return same if op == Py_EQ else not same
        return NotImplemented

    def __hash__(self):
        return hash(self.original)

    def __repr__(self):
        return repr(self.original)

    def __reduce__(self):
        return resolve, (self.original.__module__, self.original.__qualname__)

    def __copy__(self):
        return self.original

    def __deepcopy__(self, memo):
        return self.original


@cython.final
cdef class Stand:
    """The attribute of a module while calls are intercepted: for user code the gate, as long as what the module has is
    the original."""

    cdef str name
    cdef readonly object gate
    cdef object original
    cdef dict scope

    def __init__(self, dict scope, str name, original, gate):
        self.scope = scope
        self.name = name
        self.original = original
        self.gate = gate

    def __get__(self, module, kind):
        cdef PyObject* found = PyDict_GetItem(self.scope, self.name)
        if found == <PyObject*>self.original:
            # A compiler of another library that is called by a rule looks for NumPy's own functions here.
            return self.gate if differentiating() and not from_library() else self.original
        if found == NULL:
            raise AttributeError(f"module has no attribute {self.name!r}")
        return <object>found

    def __set__(self, module, value):
        self.scope[self.name] = value

    def __delete__(self, module):
        del self.scope[self.name]


class TypeGate(type):
    """The metaclass of the stand-ins for NumPy's number types: what a call of one does with a dual is the dispatcher's.

    A stand-in is a subclass, so that it works as a dtype and as a base; for ``isinstance`` and ``==`` it is the type.
    """

    def __call__(cls, *args, **kwargs):
        if current_level() is not None and activity(args) != 0 and not from_library():
            return cls.dispatch(cls.original, args, kwargs)
        return cls.original(*args, **kwargs)

    def __instancecheck__(cls, obj):
        return isinstance(obj, cls.original)

    def __subclasscheck__(cls, other):
        return issubclass(getattr(other, "original", other), cls.original)

    def __eq__(cls, other):
        return other is cls or other is cls.original

    def __hash__(cls):
        return hash(cls.original)

    def __repr__(cls):
        return repr(cls.original)


# Classes are pickled by their names, whatever their metaclass says of it.
copyreg.pickle(TypeGate, lambda cls: (resolve, (cls.original.__module__, cls.original.__qualname__)))


cdef object through(Gate gate, tuple args, dict kwargs, bint python):
    """A call while a derivative is taken on this thread, from Python code or from compiled code."""
    cdef int found
    if gate.lists:
        if activity(args, kwargs) == 2 and not from_library():
            return gate.dispatch(gate.original, args, kwargs)
        return gate.original(*args, **kwargs)
    if python or not gate.makes:
        if gate.iterates:
            return gate.dispatch(gate.original, args, kwargs)
        found = activity(args, kwargs) if kwargs else activity(args)
        if found == 2:
            return gate.dispatch(gate.original, args, kwargs)
        if found == 1 or (gate.makes and not importing()):
            return call_plain(gate.original, args, kwargs, found == 1)
    return gate.original(*args, **kwargs)


cdef object called(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names, bint python):
    cdef Gate gate = <Gate><object>self
    cdef Py_ssize_t count, i
    cdef dict kwargs
    if gate.lists:
        count = PyVectorcall_NARGS(nargsf)
        if names == NULL and count and gate.short is not None:
            result = straight(gate.original, gate.short, args, count)
            if result is not NotImplemented:
                return result
        for i in range(count):
            if type(<object>args[i]) is list or type(<object>args[i]) is tuple:
                break
        else:
            if names == NULL:
                return PyObject_Vectorcall(gate.original, args, nargsf, names)
    if current_level() is None or (not gate.everywhere and from_library()):
        return PyObject_Vectorcall(gate.original, args, nargsf, names)
    count = PyVectorcall_NARGS(nargsf)
    kwargs = {}
    if names != NULL:
        for i, name in enumerate(<tuple><object>names):
            kwargs[name] = <object>args[count + i]
    return through(gate, tuple([<object>args[i] for i in range(count)]), kwargs, python)


cdef frozenset SPREAD = frozenset({dis.opmap["CALL_FUNCTION_EX"]})


cdef bint spread():
    """Whether the caller is user code that is calling with ``*args`` at this moment."""
    frame = sys._getframe()
    return not from_library() and frame.f_code.co_code[frame.f_lasti] in SPREAD


cdef Gate _sample = Gate(None, None)
nd_vectorcall(<PyTypeObject*>Gate, <char*>&_sample.vectorcall - <char*><PyObject*>_sample, called)


def type_gate(original, dispatch):
    """The stand-in for a number type."""
    body = {"__slots__": (), "__module__": original.__module__, "__doc__": original.__doc__}
    made = TypeGate(original.__name__, (original,), body)
    made.original = original
    made.dispatch = staticmethod(dispatch)
    return made


# ---- what lifted code asks ---------------------------------------------------------------------------------------

cdef object stand_in = None


def set_stand_in(function):
    """Fill the slot: what to take in place of a function or an array while a derivative is taken."""
    global stand_in
    stand_in = function


def callee(function):
    """What lifted code calls where its source calls `function`."""
    return function if current_level() is None else stand_in(function)


cdef class Default:
    """What lifted code does to an argument whose default is an array, which is older than the derivative."""

    cdef object array

    def __init__(self, array):
        self.array = array

    def __call__(self, value):
        return stand_in(value) if value is self.array and current_level() is not None else value

    def __reduce__(self):
        return Default, (self.array,)
