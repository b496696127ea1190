# What a derivative call takes for granted about the namespaces that its function reads, and the stand-ins that it puts
# into them while it runs. Which names matter, and what stands in for what, is decided by whoever makes the lists.

cdef extern from *:
    """
    /* Replace entry `from` by entry `to` in the namespace of every site, where it is still there: 30 ns a site. */
    static int nd_swap(PyObject *sites, int from, int to) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sites); i++) {
            PyObject *site = PyList_GET_ITEM(sites, i);
            PyObject *scope = PyTuple_GET_ITEM(site, 0), *name = PyTuple_GET_ITEM(site, 1);
            if (PyDict_GetItemWithError(scope, name) == PyTuple_GET_ITEM(site, from)
                && PyDict_SetItem(scope, name, PyTuple_GET_ITEM(site, to)) < 0)
                return -1;
        }
        return 0;
    }
    """
    int nd_swap(list, int, int) except -1

cdef extern from "Python.h":
    PyObject* PyCell_GET(object)
    PyObject* PyDict_GetItem(object, object)

cdef Py_ssize_t swapped = 0


cdef int swap_in(list sites) except -1:
    """Have the stand-ins of all sites, (dict, key, object, stand-in) each, in place until as many calls of swap_out.

    No Python code runs in here or between this and the `try` that follows it, so that no signal gets between.
    """
    global swapped
    swapped += 1
    return nd_swap(sites, 2, 3)


cdef int swap_out(list sites) except -1:
    global swapped
    if swapped > 0:
        swapped -= 1
        if swapped == 0:
            return nd_swap(sites, 3, 2)
    return 0


def swaps():
    """How many calls have their stand-ins in place at this moment."""
    return swapped


def forget_swaps(list sites):
    """Put everything back, whoever swapped it: for the child of a fork."""
    global swapped
    swapped = 0
    nd_swap(sites, 3, 2)


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
        cdef tuple fact
        cdef PyObject* found
        if not self.proven:
            return False
        for fact in self.facts:
            if fact[1] is None:
                found = PyCell_GET(fact[0])
            else:
                found = PyDict_GetItem(fact[0], fact[1])
            if found != <PyObject*>fact[2] and not (found == NULL and fact[2] is None):
                return False
        return True

    def holds(self):
        """Whether everything is as it was."""
        return self.hold()
