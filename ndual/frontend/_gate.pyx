# cython: language_level=3, boundscheck=False, wraparound=False, binding=False
"""Gates: they stand in for functions while a derivative is taken, and cost little when nothing is to be done.

Where they are put, and when, is decided in intercept.py.
"""
from cpython.object cimport Py_EQ, Py_NE, PyObject

cdef extern from "Python.h":
    PyObject* PyEval_GetGlobals()

from ndual import _core

LIBRARIES = frozenset({"numpy", "scipy", "cupy", "cupyx", "ndual"})
cdef object is_dual = _core.is_dual
cdef object current_level = _core.current_level


cpdef bint is_library(str module):
    """Whether a module belongs to the libraries whose own calls are left alone."""
    return module.partition(".")[0] in LIBRARIES and not module.startswith("ndual.job")


cdef bint from_library():
    cdef PyObject* scope = PyEval_GetGlobals()
    if scope == NULL:
        return False
    name = (<dict>scope).get("__name__")
    return type(name) is str and is_library(<str>name)


cdef bint holds_dual(object obj, int depth):
    if is_dual(obj):
        return True
    if depth < 4:
        if type(obj) is tuple or type(obj) is list:
            for item in obj:
                if holds_dual(item, depth + 1):
                    return True
        elif type(obj) is dict:
            for item in (<dict>obj).values():
                if holds_dual(item, depth + 1):
                    return True
    return False


def resolve(str module, str name):
    """What a pickled gate becomes again."""
    import importlib
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.original if type(found) is Gate else found


cdef class Gate:
    """A stand-in for a function: on duals, from user code, the rule; otherwise the function itself."""

    cdef readonly object original
    cdef object dispatch
    cdef dict __dict__

    def __init__(self, original, dispatch):
        self.original = original
        self.dispatch = dispatch

    def __call__(self, *args, **kwargs):
        if current_level() is not None and (holds_dual(args, 0) or (kwargs and holds_dual(kwargs, 0))):
            if not from_library():
                return self.dispatch(self.original, args, kwargs)
        return self.original(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.original, name)

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
