# cython: language_level=3, binding=False
"""Methods that no protocol hands over: ``plain.dot(dual)``, and ``shuffle`` of NumPy's random generators.

``dot`` reads its argument's memory. A method of the same name that stands before it in the type hands duals to the
rule, and everything else on: that costs one comparison of types, about a nanosecond. It is put there once, when ndual
is imported. Gates come and go with each derivative, but a change to a type empties the interpreter's caches of its
attributes, and from 3.13 on only so many changes are cached at all.

``shuffle`` swaps rows through views, which loses one of them in anything but an ndarray. The functions stay what they
are; the pointer by which the interpreter calls them is ours.
"""
import numpy as np

from cpython.object cimport PyObject, PyTypeObject

from ndual import _core

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
    typedef PyObject *(*nd_shuffle_body)(PyObject *, PyObject *const *, size_t, PyObject *);
    static PyObject *nd_shuffles[2];
    static vectorcallfunc nd_shuffle_plain[2];
    static nd_shuffle_body nd_shuffle_dual;
    static PyTypeObject *nd_dual_type;

    static PyObject *nd_shuffle(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
        Py_ssize_t all = PyVectorcall_NARGS(nargsf) + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
        for (Py_ssize_t i = 0; i < all; i++)
            if (Py_TYPE(args[i]) == nd_dual_type) return nd_shuffle_dual(self, args, nargsf, names);
        return nd_shuffle_plain[self == nd_shuffles[1]](self, args, nargsf, names);
    }

    static void nd_open_shuffle(PyObject *function, int which, PyTypeObject *dual, nd_shuffle_body body) {
        if (!PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_HAVE_VECTORCALL) || ND_CALL(function) == NULL) return;
        nd_dual_type = dual;
        nd_shuffle_dual = body;
        nd_shuffles[which] = Py_NewRef(function);
        nd_shuffle_plain[which] = ND_CALL(function);
        ND_CALL(function) = nd_shuffle;
    }
    """
    ctypedef object (*nd_shuffle_body)(PyObject*, PyObject* const*, size_t, PyObject*)
    void nd_open_shuffle(object, int, PyTypeObject*, nd_shuffle_body)
    Py_ssize_t PyVectorcall_NARGS(size_t)

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


cdef object shuffled(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names):
    """A shuffle of a dual array."""
    cdef Py_ssize_t i, count = PyVectorcall_NARGS(nargsf)
    cdef dict kwargs = {}
    if names != NULL:
        for i, name in enumerate(<tuple><object>names):
            kwargs[name] = <object>args[count + i]
    return reorder(<object>self, *[<object>args[i] for i in range(count)], **kwargs)


def install(rule):
    """Put the method in place; `rule` is the dispatcher. False where NumPy's method is of another kind."""
    global dispatch
    if dispatch is None and not nd_install(<PyTypeObject*>np.ndarray, other):
        return False
    if dispatch is None:
        for which, kind in enumerate((np.random.Generator, np.random.RandomState)):
            nd_open_shuffle(kind.shuffle, which, <PyTypeObject*>_core.NDualArray, shuffled)
    dispatch = rule
    return True
