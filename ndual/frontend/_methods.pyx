# cython: language_level=3, binding=False
"""Methods that no protocol hands over: ``plain.dot(dual)``, and those of NumPy's random generators that write.

``dot`` reads its argument's memory. A method of the same name that stands before it in the type hands duals to the
rule, and everything else on: that costs one comparison of types, about a nanosecond. It is put there once, when ndual
is imported. Gates come and go with each derivative, but a change to a type empties the interpreter's caches of its
attributes, and from 3.13 on only so many changes are cached at all.

``shuffle`` swaps rows through views, which loses one of them in anything but an ndarray, and what fills its ``out=``
with random numbers takes anything for an ndarray. The functions stay what they are; the pointer by which the
interpreter calls them is ours. So it is with ``solve`` of SciPy's sparse factorisations, whose type is closed, and with
``@`` of CuPy's arrays, which asks nobody.
"""
import numpy as np

from cpython.object cimport PyObject, PyTypeObject

from ndual import _core
from ndual._core import _dual
from ndual.errors import NoRuleError

cdef extern from *:
    """
    typedef PyObject *(*nd_fast)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    typedef PyObject *(*nd_dot_body)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    static PyMethodDef nd_dot_here;
    static PyTypeObject *nd_array_type;
    static nd_fast nd_dot_plain;
    static nd_dot_body nd_dot_other;

    static PyObject *nd_dot(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
        Py_ssize_t all = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
        for (Py_ssize_t i = 0; i < all; i++)
            if (Py_TYPE(args[i]) != nd_array_type) return nd_dot_other(self, args, count, names);
        return nd_dot_plain(self, args, count, names);
    }

    /* 0 where the method is not of the kind that is expected: then a dual is refused as before. */
    static int nd_install(PyTypeObject *type, nd_dot_body other) {
        PyObject *method = type->tp_dict == NULL ? NULL : PyDict_GetItemString(type->tp_dict, "dot");
        if (method == NULL || !Py_IS_TYPE(method, &PyMethodDescr_Type)) return 0;
        PyMethodDef *plain = ((PyMethodDescrObject *)method)->d_method;
        if (plain->ml_flags != (METH_FASTCALL | METH_KEYWORDS)) return 0;
        nd_dot_here = *plain;
        nd_dot_here.ml_meth = (PyCFunction)(void (*)(void))nd_dot;
        nd_dot_plain = (nd_fast)(void (*)(void))plain->ml_meth;
        nd_dot_other = other;
        nd_array_type = type;
        Py_INCREF(method);   /* whoever took it from the type keeps using it */
        PyObject *made = PyDescr_NewMethod(type, &nd_dot_here);
        if (made == NULL || PyDict_SetItemString(type->tp_dict, "dot", made) < 0) return -1;
        Py_DECREF(made);
        PyType_Modified(type);
        return 1;
    }
    """
    ctypedef object (*nd_fast)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)
    ctypedef object (*nd_dot_body)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)
    nd_fast nd_dot_plain
    int nd_install(PyTypeObject*, nd_dot_body) except -1

cdef extern from *:
    """
    #define ND_CALL(f) (*(vectorcallfunc *)((char *)(f) + Py_TYPE(f)->tp_vectorcall_offset))
    #define ND_OPENED 8
    typedef PyObject *(*nd_opened_body)(PyObject *, PyObject *const *, size_t, PyObject *);
    static struct {
        PyObject *function;
        vectorcallfunc plain;
        nd_opened_body dual;
    } nd_opened[ND_OPENED];
    static int nd_opened_count;
    static PyTypeObject *nd_dual_type;

    static PyObject *nd_opened_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
        Py_ssize_t all = PyVectorcall_NARGS(nargsf) + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
        int which = 0;
        while (nd_opened[which].function != self) which++;
        for (Py_ssize_t i = 0; i < all; i++)
            if (Py_TYPE(args[i]) == nd_dual_type) return nd_opened[which].dual(self, args, nargsf, names);
        return nd_opened[which].plain(self, args, nargsf, names);
    }

    static void nd_open(PyObject *function, PyTypeObject *dual, nd_opened_body body) {
        if (!PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_HAVE_VECTORCALL) || ND_CALL(function) == NULL) return;
        if (nd_opened_count == ND_OPENED) return;
        nd_dual_type = dual;
        nd_opened[nd_opened_count].function = Py_NewRef(function);
        nd_opened[nd_opened_count].plain = ND_CALL(function);
        nd_opened[nd_opened_count++].dual = body;
        ND_CALL(function) = nd_opened_call;
    }
    """
    ctypedef object (*nd_opened_body)(PyObject*, PyObject* const*, size_t, PyObject*)
    void nd_open(object, PyTypeObject*, nd_opened_body)
    Py_ssize_t PyVectorcall_NARGS(size_t)

cdef extern from *:
    """
    static PyCFunctionWithKeywords nd_superlu_plain;
    static PyObject *nd_superlu_dual;
    static PyTypeObject *nd_superlu_type;

    static PyObject *nd_superlu_solve(PyObject *self, PyObject *args, PyObject *kwargs) {
        PyObject *rhs = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0)
                      : kwargs ? PyDict_GetItemString(kwargs, "rhs") : NULL;
        if (rhs == NULL || Py_TYPE(rhs) != nd_superlu_type) return nd_superlu_plain(self, args, kwargs);
        PyObject *all = PyTuple_New(PyTuple_GET_SIZE(args) + 1);
        if (all == NULL) return NULL;
        PyTuple_SET_ITEM(all, 0, Py_NewRef(self));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++)
            PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
        PyObject *out = PyObject_Call(nd_superlu_dual, all, kwargs);
        Py_DECREF(all);
        return out;
    }

    /* The function behind the method, also behind bound ones; nothing where it is of another kind. */
    static void nd_open_superlu(PyTypeObject *type, PyTypeObject *dual, PyObject *body) {
        PyObject *method = PyObject_GetAttrString((PyObject *)type, "solve");
        if (method == NULL) { PyErr_Clear(); return; }
        if (Py_IS_TYPE(method, &PyMethodDescr_Type)) {
            PyMethodDef *plain = ((PyMethodDescrObject *)method)->d_method;
            if (plain->ml_flags == (METH_VARARGS | METH_KEYWORDS)) {
                nd_superlu_plain = (PyCFunctionWithKeywords)(void (*)(void))plain->ml_meth;
                nd_superlu_dual = Py_NewRef(body);
                nd_superlu_type = dual;
                plain->ml_meth = (PyCFunction)(void (*)(void))nd_superlu_solve;
            }
        }
        Py_DECREF(method);
    }
    """
    void nd_open_superlu(PyTypeObject*, PyTypeObject*, object)

cdef extern from *:
    """
    static binaryfunc nd_matmul_plain;
    static PyTypeObject *nd_matmul_dual;

    static PyObject *nd_matmul(PyObject *a, PyObject *b) {
        if (Py_TYPE(b) == nd_matmul_dual) return nd_matmul_dual->tp_as_number->nb_matrix_multiply(a, b);
        return nd_matmul_plain(a, b);
    }

    static void nd_open_matmul(PyTypeObject *type, PyTypeObject *dual) {
        PyNumberMethods *methods = type->tp_as_number;
        PyTypeObject *base = type;
        if (methods == NULL || methods->nb_matrix_multiply == NULL || methods->nb_matrix_multiply == nd_matmul) return;
        /* What a class of Python inherits looks whether it stands in the type itself, where it would no more. */
        while (base->tp_base != NULL && base->tp_base->tp_as_number != NULL
               && base->tp_base->tp_as_number->nb_matrix_multiply != NULL)
            base = base->tp_base;
        nd_matmul_plain = base->tp_as_number->nb_matrix_multiply;
        nd_matmul_dual = dual;
        methods->nb_matrix_multiply = nd_matmul;
    }
    """
    void nd_open_matmul(PyTypeObject*, PyTypeObject*)


def open_matmul(kind, dual):
    """Let ``array @ dual`` of another library's arrays reach the dual."""
    nd_open_matmul(<PyTypeObject*>kind, <PyTypeObject*>dual)


cdef bint superlu_open = False


def open_superlu(kind, dual, body):
    """Let ``lu.solve(dual)`` of SciPy's factorisation reach `body`, once."""
    global superlu_open
    if not superlu_open:
        superlu_open = True
        nd_open_superlu(<PyTypeObject*>kind, <PyTypeObject*>dual, body)


cdef object activity = _core.activity
cdef object call_plain = _core.call_plain
cdef object dispatch = None


cdef object other(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names):
    """A call with something that is no ndarray."""
    cdef Py_ssize_t i, keywords = 0 if names == NULL else len(<tuple><object>names)
    cdef tuple operands = tuple([<object>args[i] for i in range(count)])
    cdef dict kwargs = {(<tuple><object>names)[i]: <object>args[count + i] for i in range(keywords)}
    cdef int found = activity(operands, kwargs) if kwargs else activity(operands)
    if found == 0:
        return nd_dot_plain(self, args, count, names)
    operands = (<object>self, *operands)
    return dispatch(np.dot, operands, kwargs) if found == 2 else call_plain(np.dot, operands, kwargs, True)


def reorder(shuffle, generator, x, axis=0):
    """Put the parts of a dual array into the order that a generator gives to their numbers."""
    order = np.arange(x.shape[axis])
    shuffle(generator, order)
    x[...] = np.take(x, order, axis)


# Where what they write to stands among the arguments of the methods that fill an array.
FILLERS = {"random": 3, "standard_normal": 3, "standard_exponential": 4, "standard_gamma": 4, "permuted": 3}


def fill(function, *args, **kwargs):
    """Fill a dual array with random numbers, which have no derivative."""
    at = FILLERS[function.__name__]
    given = list(args)
    out = given[at] if len(given) > at else kwargs.get("out")
    if not _core.is_dual(out) or _dual.holds([a for a in (*given, *kwargs.values()) if a is not out]):
        raise NoRuleError(
            f"expected constants for the generator's {function.__name__}; got a dual{_core.user_location()}. "
            "Draw standard numbers and compute with them, or use ndual.stop_gradient(x)"
        )
    drawn = np.empty(out.shape, out.dtype)
    if len(given) > at:
        given[at] = drawn
    else:
        kwargs["out"] = drawn
    function(*given, **kwargs)
    out[...] = drawn
    return out


cdef tuple arguments(PyObject* const* args, size_t nargsf, PyObject* names):
    cdef Py_ssize_t i, count = PyVectorcall_NARGS(nargsf)
    cdef dict kwargs = {}
    if names != NULL:
        for i, name in enumerate(<tuple><object>names):
            kwargs[name] = <object>args[count + i]
    return [<object>args[i] for i in range(count)], kwargs


cdef object shuffled(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names):
    """A shuffle of a dual array."""
    given, kwargs = arguments(args, nargsf, names)
    return reorder(<object>self, *given, **kwargs)


cdef object filled(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names):
    given, kwargs = arguments(args, nargsf, names)
    return fill(<object>self, *given, **kwargs)


def install(rule):
    """Put the method in place; `rule` is the dispatcher. False where NumPy's method is of another kind."""
    global dispatch
    if dispatch is None and not nd_install(<PyTypeObject*>np.ndarray, other):
        return False
    if dispatch is None:
        for kind in (np.random.Generator, np.random.RandomState):
            nd_open(kind.shuffle, <PyTypeObject*>_core.NDualArray, shuffled)
        for name in FILLERS:
            nd_open(getattr(np.random.Generator, name), <PyTypeObject*>_core.NDualArray, filled)
    dispatch = rule
    return True
