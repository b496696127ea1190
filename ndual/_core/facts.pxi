# What a derivative call takes for granted about the namespaces that its function reads, and the stand-ins that it puts
# into them while it runs. Which names matter, and what stands in for what, is decided by whoever makes the lists.

cdef extern from *:
    """
    /* Put `to` where `from` is still there: in a namespace (30 ns), in a closure cell, as the class of a module (5 ns,
       for any number of attributes; CPython allows this assignment), or in an attribute of a function.
       No Python code runs in here. Returns whether it was. */
    static int nd_swap(PyObject *scope, PyObject *name, PyObject *from, PyObject *to) {
        if (PyDict_Check(scope)) {
            if (PyDict_GetItemWithError(scope, name) == from)
                return PyDict_SetItem(scope, name, to) < 0 ? -1 : 1;
        } else if (PyCell_Check(scope)) {
            if (PyCell_GET(scope) == from)
                return PyCell_Set(scope, to) < 0 ? -1 : 1;
        } else if (PyModule_Check(scope)) {
            if ((PyObject *)Py_TYPE(scope) == from) {
                Py_INCREF(to);
                Py_SET_TYPE(scope, (PyTypeObject *)to);
                Py_DECREF(from);
                return 1;
            }
        } else {
            PyObject *found = PyObject_GetAttr(scope, name);
            int same = found == from;
            Py_XDECREF(found);
            if (same)
                return PyObject_SetAttr(scope, name, to) < 0 ? -1 : 1;
        }
        return PyErr_Occurred() ? -1 : 0;
    }
    """
    int nd_swap(object, object, object, object) except -1

cdef extern from "Python.h":
    PyObject* PyCell_GET(object)
    PyObject* PyDict_GetItem(object, object)

cdef Py_ssize_t swapped = 0


@cython.final
cdef class Site:
    """A place for a stand-in, and how many calls want it there."""

    cdef readonly object scope, name, original, gate
    cdef Py_ssize_t count
    cdef bint there           # whether the stand-in was put in

    def __init__(self, scope, name, original, gate):
        self.scope = scope
        self.name = name
        self.original = original
        self.gate = gate


cdef int swap_in(tuple sites) except -1:
    """Have the stand-ins of all sites in place until as many calls of swap_out.

    No Python code runs in here or between this and the `try` that follows it, so that no signal gets between.
    """
    global swapped
    cdef Site site
    cdef Py_ssize_t i
    swapped += 1
    for i in range(len(sites)):
        site = <Site>sites[i]
        site.count += 1
        if site.count == 1:
            site.there = nd_swap(site.scope, site.name, site.original, site.gate)
    return 0


cdef int swap_out(tuple sites) except -1:
    global swapped
    cdef Site site
    cdef Py_ssize_t i
    if swapped > 0:
        swapped -= 1
        for i in range(len(sites)):
            site = <Site>sites[i]
            if site.count > 0:
                site.count -= 1
                if site.count == 0 and site.there:
                    nd_swap(site.scope, site.name, site.gate, site.original)
    return 0


def swaps():
    """How many calls have their stand-ins in place at this moment."""
    return swapped


def forget_swaps(sites):
    """Put everything back, whoever swapped it: for the child of a fork."""
    global swapped
    cdef Site site
    swapped = 0
    for site in sites:
        site.count = 0
        nd_swap(site.scope, site.name, site.gate, site.original)


cdef object MISSING = object()


cdef class Facts:
    """What was true when something was proved: (dict or cell, key or None, object) each, None for "nothing there".

    A subclass knows what to do when they no longer hold: ``enter()`` gives the sites to swap, or None; ``leave()`` is
    called before they are put back.
    """

    cdef readonly bint proven
    cdef readonly bint writes      # whether f may write into an array that it is handed
    cdef readonly tuple facts
    cdef object __weakref__

    def __init__(self, bint proven, facts, bint writes=True):
        self.state(proven, facts, writes)

    def state(self, bint proven, facts, bint writes=True):
        """Replace what is held to be true."""
        self.proven = proven
        self.writes = writes
        self.facts = tuple(facts)

    cdef bint hold(self):
        return self.proven and self.true()

    cpdef bint true(self):
        """Whether everything is as it was, whether or not that proves anything."""
        cdef tuple fact
        cdef PyObject* found
        for fact in self.facts:
            if fact[1] is None:
                found = PyCell_GET(fact[0])
            else:
                found = PyDict_GetItem(fact[0], fact[1])
            if found == <PyObject*>fact[2] or (found == NULL and fact[2] is None):
                continue
            # A stand-in is as good as what it stands in for.
            if found == NULL or getattr(<object>found, "original", MISSING) is not fact[2]:
                return False
        return True

    def holds(self):
        """Whether everything is as it was, and nothing needs interception then."""
        return self.hold()
