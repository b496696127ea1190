# What a derivative call takes for granted about the namespaces that its function reads, and the stand-ins that it puts
# into them while it runs. Which names matter, and what stands in for what, is decided by whoever makes the lists.

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030B0000
    #define ND_NEW_CODE(f) ((f)->func_version = 0)   /* no call that was specialised for the old code is taken for it */
    #else
    #define ND_NEW_CODE(f)
    #endif

    /* A number that a dict has as long as it holds what it holds, and no other has; 0: there is none. After a stand-in
       was put in and taken out, and nothing else happened in between, the dict holds what it held. */
    #if PY_VERSION_HEX < 0x030C0000
    static unsigned long long nd_version(PyObject *d) {
        return PyDict_Check(d) ? ((PyDictObject *)d)->ma_version_tag : 0;
    }
    static void nd_set_version(PyObject *d, unsigned long long version) {
        ((PyDictObject *)d)->ma_version_tag = version;
    }
    #else
    static unsigned long long nd_version(PyObject *d) { (void)d; return 0; }
    static void nd_set_version(PyObject *d, unsigned long long version) { (void)d; (void)version; }
    #endif

    static ND_THREAD int nd_interception_off;        /* config(intercept=False) on this thread */
    static ND_THREAD int nd_variables_set;           /* see set_variables */

    /* Put `to` where `from` is still there: in a namespace (25 ns), in a closure cell, as the class of a module (5 ns,
       for any number of attributes; CPython allows this assignment), as the code of a function, or in another attribute
       of one. An assignment to __code__ takes 50 ns more, for its auditing; from Python 3.13 on code is found by its
       version, which only the assignment keeps right. No Python code runs in here. Returns whether it was there. */
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
        #if PY_VERSION_HEX < 0x030D0000
        } else if (PyFunction_Check(scope) && PyCode_Check(to)) {
            PyFunctionObject *f = (PyFunctionObject *)scope;
            if (f->func_code == from) {
                Py_INCREF(to);
                f->func_code = to;
                ND_NEW_CODE(f);
                Py_DECREF(from);
                return 1;
            }
        #endif
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
    unsigned long long nd_version(object) noexcept
    void nd_set_version(object, unsigned long long) noexcept
    bint nd_interception_off
    bint nd_variables_set

cdef extern from "numpy/arrayobject.h":
    object PyDataMem_GetHandler()

cdef extern from "Python.h":
    int PyContextVar_Get(object, object, PyObject**) except -1
    PyObject* PyCell_GET(object)
    PyObject* PyDict_GetItemWithError(object, object) except? NULL
    Py_ssize_t PyDict_Size(object) except -1

cdef Py_ssize_t swapped = 0


def set_interception(bint on):
    """Whether calls on this thread put their stand-ins in place."""
    global nd_interception_off
    nd_interception_off = not on


@cython.final
cdef class Site:
    """A place for a stand-in, and how many calls want it there."""

    cdef readonly object scope, name, original, gate
    cdef Py_ssize_t count
    cdef bint there           # whether the stand-in was put in
    cdef unsigned long long before, during

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
            site.before = nd_version(site.scope)
            site.there = nd_swap(site.scope, site.name, site.original, site.gate)
            site.during = nd_version(site.scope)
    return 0


cdef int swap_out(tuple sites) except -1:
    global swapped
    cdef Site site
    cdef Py_ssize_t i
    cdef bint alone
    if swapped > 0:
        swapped -= 1
        for i in range(len(sites) - 1, -1, -1):
            site = <Site>sites[i]
            if site.count > 0:
                site.count -= 1
                if site.count == 0 and site.there:
                    alone = site.during != 0 and nd_version(site.scope) == site.during
                    nd_swap(site.scope, site.name, site.gate, site.original)
                    if alone:
                        nd_set_version(site.scope, site.before)
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
# How many modules there were when places for stand-ins were last looked for, and the number of that look.
cdef dict modules = sys.modules
cdef Py_ssize_t modules_seen = -1
cdef Py_ssize_t looks = 0


def looked(Py_ssize_t count):
    """Note that new places have been looked for among so many modules."""
    global modules_seen, looks
    modules_seen = count
    looks += 1


# NumPy keeps its error state and its allocator in context variables. On a thread that never set any there is no context
# to search. From the first one on, be it of np.errstate, of np.random or of a derivative, a look-up of a variable that
# is not set takes 7 ns: 8 per cent of np.zeros(3), 6 of np.sin(x), which makes two. What is set is cached, so that both
# are set, to what they are.
cdef object error_state = getattr(np._core.umath, "_extobj_contextvar", None)


def set_variables():
    """Have NumPy's context variables set on this thread, for it finds them faster where some other one is set."""
    global nd_variables_set
    cdef PyObject* found = NULL
    if error_state is not None:
        PyContextVar_Get(error_state, MISSING, &found)
        Py_DECREF_POINTER(found)
        if found != <PyObject*>MISSING:
            return            # for good, or by a np.errstate that takes it away: asked again
        np.seterr()
    PyDataMem_SetHandler(PyDataMem_GetHandler())
    nd_variables_set = True


cdef inline bint is_still(PyObject* found, object value) except -1:
    """Whether something found is what it was, None standing for nothing, or a stand-in for that."""
    if found == <PyObject*>value or (found == NULL and value is None):
        return True
    return found != NULL and getattr(<object>found, "original", MISSING) is value


cdef class Facts:
    """What was true when something was proved: (dict or cell, key or None, object) each, None for "nothing there".

    `proven`: nothing needs a stand-in as long as the facts are true; `shorts` are the sites of those that spare time.
    `known`: the places for them are known, as long as the facts are true; otherwise they are known as long as no module
    is imported and no scope grows.
    A subclass knows what to do when that has changed: ``look()`` gives the sites for a call, or None, and calls
    ``state`` and ``settle``; ``left()`` follows a call in which modules were imported or scopes grew.
    """

    def __init__(self, bint proven, facts, bint writes=True, bint known=False):
        self.state(proven, facts, writes, known)

    def state(self, bint proven, facts, bint writes=True, bint known=False):
        """Replace what is held to be true."""
        self.proven = proven
        self.writes = writes
        self.known = known
        self.facts = tuple(facts)
        grouped = {}
        for scope, key, value in self.facts:
            if key is not None:
                grouped.setdefault(id(scope), [scope]).extend((key, value))
        self.dicts = tuple([tuple(group) for group in grouped.values()])
        self.cells = tuple([fact for fact in self.facts if fact[1] is None])
        memset(self.versions, 0, sizeof(self.versions))
        self.settle((), ())
        self.look_number = -1

    def settle(self, sites, scopes):
        """The places for stand-ins, as found in scopes that have their present sizes."""
        self.sites = tuple(sites)
        self.scopes = tuple([(scope, len(scope)) for scope in scopes])
        self.look_number = looks

    cdef tuple places(self):
        """The sites to swap in for a call, or None."""
        if self.hold():
            return None if nd_interception_off else self.shorts
        return self.enter()

    cdef bint hold(self) except -1:
        if not nd_variables_set:
            set_variables()
        return self.proven and self.true()

    cdef tuple enter(self):
        """The same where stand-ins are needed. Python code runs in here only where something has changed."""
        if not self.proven and (self.true() if self.known else self.same()):
            return None if nd_interception_off else self.sites
        return self.look()

    cdef int leave(self) except -1:
        """Called before they are put back."""
        if PyDict_Size(modules) != modules_seen or not (self.known or self.same()):
            self.left()
        return 0

    cdef bint same(self) except -1:
        """Whether places that were found are all there are."""
        cdef tuple scope
        if self.look_number != looks or PyDict_Size(modules) != modules_seen:
            return False
        for scope in self.scopes:
            if PyDict_Size(scope[0]) != <Py_ssize_t>scope[1]:
                return False
        return True

    cdef bint true(self) except -1:
        """Whether everything is as it was, whether or not that proves anything."""
        cdef tuple facts
        cdef Py_ssize_t i, k
        cdef unsigned long long version
        for facts in self.cells:
            if not is_still(PyCell_GET(facts[0]), facts[2]):
                return False
        for i in range(len(self.dicts)):
            facts = <tuple>self.dicts[i]
            version = nd_version(facts[0])
            if i < 8 and version != 0 and version == self.versions[i]:
                continue
            for k in range(1, len(facts), 2):
                if not is_still(PyDict_GetItemWithError(facts[0], facts[k]), facts[k + 1]):
                    return False
            if i < 8:
                self.versions[i] = version
        return True

    def holds(self):
        """Whether everything is as it was, and nothing needs interception then."""
        return self.hold()
