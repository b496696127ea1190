# cython: language_level=3, binding=False
"""``plain.dot(dual)``: the method of NumPy's arrays that reads its argument's memory and asks no protocol.

A method of the same name that stands before it in the type hands duals to the rule, and everything else on: that costs
one comparison of types, about a nanosecond. It is put there once, when ndual is imported. Gates come and go with each
derivative, but a change to a type empties the interpreter's caches of its attributes, and from 3.13 on only so many
changes are cached at all.
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


def install(rule):
    """Put the method in place; `rule` is the dispatcher. False where NumPy's method is of another kind."""
    global dispatch
    if dispatch is None and not nd_install(<PyTypeObject*>np.ndarray, other):
        return False
    dispatch = rule
    return True
