# What the core takes from C: the interpreter, the pool, the kernels.

cdef extern from "Python.h":
    PyObject* PyDict_GetItem(object, object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    Py_UCS4 PyUnicode_READ_CHAR(object, Py_ssize_t)
    PyObject* PyErr_Occurred()
    void PyErr_Clear()
    PyTypeObject* Py_TYPE(object)
    Py_ssize_t Py_REFCNT(object)
    Py_ssize_t Py_REFCNT_POINTER "Py_REFCNT"(PyObject*)
    void Py_DECREF_POINTER "Py_DECREF"(PyObject*)
    unsigned long PyThread_get_thread_ident()
    object PySeqIter_New(object)
    int PyIndex_Check(object)
    Py_ssize_t PyNumber_AsSsize_t(object, object) except? -1
    object PyTuple_GET_ITEM(object, Py_ssize_t)
    int PySlice_Unpack(object, Py_ssize_t*, Py_ssize_t*, Py_ssize_t*) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t*, Py_ssize_t*, Py_ssize_t)

cdef extern from *:
    """
    #include "ndual_pool.h"
    static PyDataMem_Handler nd_memory = {
        "ndual_pool", 1, {NULL, nd_pool_malloc, nd_pool_calloc, nd_pool_realloc, nd_pool_release}
    };
    """
    void* nd_memory_address "(&nd_memory)"

cdef extern from "numpy/arrayobject.h":
    object PyDataMem_SetHandler(object)

cdef extern from "Python.h":
    object PyCapsule_New(void*, const char*, void*)

cdef extern from "ndual_pool.h":
    ctypedef struct nd_pool_t:
        size_t held, live, peak, limit
    nd_pool_t nd_pool
    void* nd_pool_alloc(size_t, int*)
    void nd_pool_free(void*, int) noexcept
    void nd_pool_trim(size_t)

cdef extern from "ndual_objects.h":
    ctypedef struct nd_freelist:
        pass
    PyObject* nd_pop(nd_freelist*)
    object nd_codual_new(PyTypeObject*)
    void nd_codual_dealloc(PyObject*) noexcept
    int nd_push(nd_freelist*, PyObject*)

cdef extern from *:
    """
    static ND_THREAD nd_state nd_tls;
    """
    nd_state nd_tls

cdef extern from "ndual_kernels.h":
    enum: ND_F32, ND_F64, ND_BLOCK
    ctypedef void (*nd_fill)(Py_ssize_t, const void* const*, void*, void* const*) noexcept nogil
    ctypedef struct nd_row:
        const char* name
        int nin
        unsigned char value_inside
        unsigned char coef[3]
        unsigned char needs[3]
        unsigned char scale[3]
        nd_fill fill[2]
        nd_fill fill_exact[2]
        nd_fill back[2]
    ctypedef void (*nd_combine)(Py_ssize_t, Py_ssize_t, int, const int*, const void* const*, const char* const*,
                                const Py_ssize_t*, char*, Py_ssize_t) noexcept nogil
    ctypedef struct nd_isa:
        const char* name
        const nd_row* rows
        int nrows
        nd_combine combine[2]
        bint (*finite[2])(Py_ssize_t, const void*) noexcept nogil
        nd_cells cells[2]
    ctypedef struct nd_in:
        const char* v
        const Py_ssize_t* vs
        const char* t
        const Py_ssize_t* ts
        Py_ssize_t lane, lo, hi
    ctypedef struct nd_out:
        char* v
        const Py_ssize_t* vs
        char* t
        const Py_ssize_t* ts
        Py_ssize_t lane
    const nd_isa* nd_select(const char*)
    int nd_map(const nd_isa*, int, int, nd_loop, int, const nd_in*, const nd_out*, int, const Py_ssize_t*, Py_ssize_t,
               int) noexcept nogil
    int nd_pull(const nd_isa*, int, int, int, const nd_in*, const char*, const Py_ssize_t*, const char*,
                const Py_ssize_t*, const nd_shadow*, int, const Py_ssize_t*) noexcept nogil
    void nd_copy(size_t, int, const Py_ssize_t*, char*, const Py_ssize_t*, const char*,
                 const Py_ssize_t*) noexcept nogil

    enum: ND_COEF_NONE, ND_COEF_ZERO, ND_COEF_ONE, ND_COEF_NEG, ND_COEF_ARRAY, ND_COEF_X0, ND_COEF_X1

cdef extern from "program.h":
    const nd_isa* nd_extended(const nd_isa*)

cdef extern from *:
    """
    #include <math.h>
    /* What np.float64 ** np.float64 calls; NumPy's array loop may be another pow. */
    static void nd_pow_loop(char **args, const intptr_t *n, const intptr_t *steps, void *data) {
        (void)n; (void)steps; (void)data;
        *(double *)args[2] = pow(*(double *)args[0], *(double *)args[1]);
    }
    static nd_loop nd_libm_pow = {nd_pow_loop, NULL};
    """
    nd_loop libm_pow "nd_libm_pow"

cdef extern from *:
    """
    /* A method by the vectorcall convention: Cython's own *inputs, **kwargs builds a tuple and a dict a call, 60 ns. */
    typedef PyObject *(*nd_method)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    static int nd_install_method(PyTypeObject *type, PyMethodDef *def, const char *name, nd_method method) {
        PyObject *descr;
        int failed;
        def->ml_name = name;
        def->ml_meth = (PyCFunction)(void (*)(void))method;
        def->ml_flags = METH_FASTCALL | METH_KEYWORDS;
        descr = PyDescr_NewMethod(type, def);
        if (descr == NULL) return -1;
        failed = PyDict_SetItemString(type->tp_dict, name, descr);
        Py_DECREF(descr);
        PyType_Modified(type);
        return failed;
    }
    /* x[()] must not make a number a sequence: NumPy would report a refused float(x) as one of a wrong length. */
    static void nd_no_sequence(PyTypeObject *type) {
        if (type->tp_as_sequence) type->tp_as_sequence->sq_item = NULL;
    }
    """
    void nd_no_sequence(PyTypeObject*)
    ctypedef object (*nd_method)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)
    ctypedef struct PyMethodDef:
        pass
    int nd_install_method(PyTypeObject*, PyMethodDef*, const char*, nd_method) except -1

cdef extern from "numpy/ufuncobject.h":
    # NumPy's own declarations turn these fields into Python properties in some versions.
    ctypedef struct ufunc_fields "PyUFuncObject":
        int nin, nout, nargs, ntypes
        cnp.PyUFuncGenericFunction* functions
        void** data
        const char* types
        PyObject* obj

cdef extern from "numpy/ndarraytypes.h":
    object PyArray_NewFromDescr(PyTypeObject*, cnp.dtype, int, const Py_ssize_t*, const Py_ssize_t*, void*, int, object)
    int NPY_ARRAY_WRITEABLE
    enum: NPY_HALF
