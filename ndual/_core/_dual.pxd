# What the core shares with the reverse add-on: the layout of its classes, and the functions that the sweep needs.

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, intptr_t

cdef extern from "ndual_kernels.h":
    ctypedef void (*nd_loop_fn)(char**, const intptr_t*, const intptr_t*, void*) noexcept nogil
    ctypedef struct nd_loop:
        nd_loop_fn fn
        void* data
    ctypedef struct nd_shadow:
        char* t
        const Py_ssize_t* ts
        int fresh
    ctypedef struct nd_cells:
        void (*affine)(Py_ssize_t, void*, double, double, const void*, double, const void*) noexcept nogil
        double (*sum)(const void*, Py_ssize_t) noexcept nogil
        double (*dot)(const void*, const void*, Py_ssize_t) noexcept nogil

cdef extern from "ndual_tape.h":
    enum: ND_NODE_NONE, ND_NODE_LOAD, ND_NODE_STORE, ND_NODE_ENTRY
    ctypedef struct nd_tape_node:
        int32_t a, b
        double da, db
        Py_ssize_t at
        Py_ssize_t from_ "from"
    ctypedef struct nd_tape:
        nd_tape_node* node
        Py_ssize_t count, room
    int nd_tape_room(nd_tape*) noexcept nogil

cdef extern from "ndual_state.h":
    ctypedef struct nd_state:
        unsigned long long id
        PyObject* level
        PyObject* top
        PyObject* home
        PyObject* swept
        PyTypeObject* scalar
        nd_tape* tape
        int exact, compared_passes, debug, copy_constants, compared

cdef enum:
    INLINE_DIMS = 4
    NSCALAR = 1              # a 0-d result that stands for a NumPy scalar: immutable
    NCONTIGUOUS = 2          # values and lanes both C-contiguous
    NREADONLY = 4            # a view that NumPy returns read-only, such as that of broadcast_to
    HELD = 4096              # bytes from which on the values of what an entry names may be given back early
    NTWIN = 8                # knows the shadow only


cdef class Recorder:
    cdef nd_tape tape
    cdef dict books          # of an inner level: what is known of the memory of its values, by their buffer
    cdef public bint owns      # it reads nothing after the run that others may write to
    cdef bint writes           # f may write into what it did not make, so that what entries read there is copied
    cdef bint traces           # every operation is an entry, with the line of the user that it stands in
    cdef list leaves           # the arguments that are differentiated, lifted
    cdef int begin(self, Level level) except -1
    cdef object operands(self, Row row, tuple operands)
    cdef int sloped(self, Row row, NDualArray x, NDualArray slope, char* at, NDualArray out) except -1
    cdef int mapped(self, object entry, NDualArray out) except -1
    cdef int formed(self, Row row, object storage, list operands, object dtype, NDualArray out) except -1
    cdef int writing(self, NDualArray target) except -1
    cdef int writing_at(self, NDualArray x, tuple index) except -1
    cdef int number(self, Buffer buffer) except -1
    cdef int assigned(self, NDualArray to, NDualArray source) except -1
    cdef int gathered(self, NDualArray x, tuple index, NDualArray out) except -1
    cdef int scattered(self, NDualArray x, tuple index, NDualArray source) except -1
    cdef Py_ssize_t summed(self, NDualArray x) except -1
    cdef int summed_below(self, NDualArray x, NDualArray out) except -1
    cdef int multiplied(self, object a, object b, NDualArray out) except -1
    cdef int reshaped(self, NDualArray x, NDualArray former) except -1
    cdef int failed(self, object error) except -1


cdef class Level:
    cdef readonly unsigned long long id
    cdef readonly Py_ssize_t width
    cdef readonly bint alive
    cdef readonly bint compared
    cdef readonly unsigned long thread
    cdef readonly str undefined   # what a rule said of a point without derivative
    cdef readonly Level outer     # the derivative call in which this one runs, or None
    cdef readonly Recorder recorder   # where operations go in reverse mode; None: duals carry lanes
    cdef readonly bint debug  # whether it started with config(debug=True)
    cdef bint boxed           # numbers are arrays, so that every operation is one of arrays
    cdef object place         # the user's line whose operation is taken back, while a sweep runs inside of this level
    cdef bint seen            # what `compared` will be, while another level is at hand
    cdef object space         # the array namespace over duals of this level, once a rule has asked for it
    cdef tuple lost           # the class and the text of the first error that stood for a lost derivative
    cdef public dict buffers  # what stands in for arrays that are older than the level, by their identity
    cdef list inputs          # the arguments of the call, lifted where they are differentiated
    cdef list moved           # those whose memory was copied since f writes into them, as the caller has them
    cdef object memory        # NumPy's own allocator, while the pool stands in for it
    cdef int enter(self) except -1
    cdef void leave(self) noexcept


@cython.final
@cython.no_gc
cdef class Buffer:
    cdef char* v           # lowest address of the values; the freelist runs through this field
    cdef char* t           # lowest address of the lanes
    cdef Level level
    cdef Py_ssize_t vbytes, one    # bytes that the values, and one lane, extend over
    cdef Py_ssize_t lo, hi  # the lanes in memory; all others are zero
    cdef Py_ssize_t seed   # of a seeded buffer: the lane of its first cell
    cdef bint uniform      # one number a lane stands for all of its cells, side by side at t: x - mu for a number mu
    cdef int item          # bytes of that number
    cdef double number     # of a shadow that is uniform or a multiple: one number for all cells, or times others
    cdef bint made         # by an entry of the tape, which is the last one in a sweep to read the shadow
    cdef bint multiple     # the cells of a shadow are `number` times those that `towner` holds, or times themselves
    cdef Py_ssize_t name, root   # of these values until a write, or 0: on a tape they are `ratio` times those of `root`
    cdef double ratio
    cdef bint scaled       # lanes are those at t, `step` bytes apart and held by `towner`, times `factor` cell by cell
    cdef bint lent         # others wait for these lanes (`scaled`): a write copies them
    cdef char* factor
    cdef Py_ssize_t step
    cdef bint seeded       # unit tangents, one lane a cell, as the sweep placed them: nobody has written yet
    cdef void* memory      # pooled block, or NULL
    cdef void* copy        # pooled block that replaced borrowed values, or NULL
    cdef void* lanes       # pooled block that replaced the lanes, or NULL
    cdef int memory_class, copy_class, lanes_class
    cdef object vowner, towner   # foreign arrays that own what is borrowed or adopted
    cdef bint blank        # of lanes as an array one level down: zeros that nobody has written to
    cdef bint borrowed     # a write must copy first: the memory belongs to the caller
    cdef bint traced       # in a level that records: something active was written here, and t is the shadow
    cdef Py_ssize_t slot   # its number among the buffers of the tape, or -1
    cdef Py_ssize_t sweep  # the sweep that its shadow belongs to
    cdef Py_ssize_t held   # how many arrays know the shadow only; without others the values are given back
    cdef Py_ssize_t reader   # the last note on the tape of an entry that reads values from here, or -1
    cdef Py_ssize_t low, high   # the bytes that such entries read


@cython.final
@cython.no_gc
cdef class NDualArray:
    cdef Py_ssize_t lane       # bytes from one lane to the next; the freelist runs through this field
    cdef Buffer buf
    cdef Py_ssize_t voff, toff
    cdef Py_ssize_t size_
    cdef Py_ssize_t* shape_
    cdef Py_ssize_t* vs
    cdef Py_ssize_t* ts
    cdef Py_ssize_t geo[12]    # 3 * INLINE_DIMS
    cdef int ndim_, typenum, itemsize_
    cdef int flags_
    cdef object device_v, device_t   # arrays of another storage, or None
    cdef object storage_


@cython.final
cdef class Row:
    cdef readonly str name
    cdef readonly int nin
    cdef readonly int index          # of the kernel, -1 if there is none
    cdef readonly object spec, ufunc
    cdef nd_loop loops[2]
    cdef bint usable[2]              # a kernel that can give the value in this dtype
    cdef bint weak[2]                # a Python number beside this dtype leaves it the result; SciPy's loops may widen
    cdef bint flat                   # floor, sign …: no derivative with respect to any operand
    cdef unsigned char coef[3]       # how its partials are had
    cdef bint slope                  # of one operand, its partial comes with the value and costs little more
    cdef unsigned char needs[3]      # what a pullback reads: bits 1, 2, 4 for the operands, 8 for the value
    cdef unsigned char scale[3]      # what the partial is proportional to, in the same bits


@cython.final
cdef class CoDual:
    cdef unsigned long long level
    cdef double v
    cdef Py_ssize_t node


ctypedef struct run_leaf:
    int kind, typenum, ndim
    Py_ssize_t* dims


cdef class Facts:
    cdef readonly bint proven, known
    cdef readonly bint writes      # whether f may write into an array that it is handed
    cdef readonly tuple facts
    cdef tuple sites, scopes
    cdef public tuple shorts
    cdef Py_ssize_t look_number
    # The facts of each dict, one after another: names and objects. A dict whose number has not changed since they were
    # true is not asked.
    cdef tuple dicts, cells
    cdef unsigned long long versions[8]
    cdef object __weakref__
    cdef tuple places(self)
    cdef bint hold(self) except -1
    cdef tuple enter(self)
    cdef int leave(self) except -1
    cdef bint same(self) except -1
    cdef bint true(self) except -1


cdef class Run:
    cdef readonly object call, outputs
    cdef readonly Facts guard
    cdef readonly tuple leaves, active
    cdef readonly bint direct, busy
    cdef bint promised               # claimed by `suits` for the call that follows it
    cdef public bint plain_sweep     # one pass, real, rows handed on: a scalar output needs no more than the pass
    cdef public tuple seeds
    cdef public tuple starts         # the lane of each leaf's first cell, None where a cell has two lanes
    cdef Py_ssize_t count, chosen
    cdef bint constant_arrays, arrays
    cdef run_leaf* specs
    cdef Py_ssize_t* places
    cdef Py_ssize_t* dims
    cdef object __weakref__
    cdef int claim(self) except -1
    cdef list admit(self, object primals)
    cdef int leave(self, tuple sites) except -1
    cdef int lift_constants(self, list inputs, Level level) except -1
    cdef list own_names(self, list inputs)
    cdef int explain(self, object error, list held) except -1
    cdef object apply(self, object call, list inputs, Level level)
    cdef object push(self, primals, tangents, call)
    cdef bint stepped(self, object out, Level level) noexcept
    cdef tuple pair(self, object out)
    cdef object lift(self, Py_ssize_t i, object value, object tangent, Level level)
    cdef object lift_seeds(self, Py_ssize_t i, object value, object seeds, object start, Level level)
    cdef tuple recorded(self, primals, Recorder recorder, call)
    cdef tuple pulled(self, primals, call)
    cdef tuple forward(self, object call, list inputs, tuple seeds, Py_ssize_t width)


cdef nd_state* state() noexcept
cdef Buffer empty_buffer(Level level)
cdef int own_values(Buffer buffer) except -1
cdef Py_ssize_t name_of(Buffer buffer) noexcept
cdef Py_ssize_t live() noexcept
cdef void* pooled(Py_ssize_t nbytes, int* size_class) except NULL
cdef void give_back(void* memory, int size_class) noexcept
cdef cnp.ndarray values(NDualArray x)
cdef bint traced(NDualArray x) noexcept
cdef void trace(NDualArray x) noexcept
cdef NDualArray deepest(NDualArray x)
cdef NDualArray untraced(object value, Level level)
cdef Buffer book_of(NDualArray x, bint make)
cdef NDualArray mirror_base(Py_ssize_t cells, int typenum, Level level, NDualArray like)
cdef NDualArray mirror(NDualArray base, NDualArray x)
cdef object unary(Row row, object a)
cdef object binary(Row row, object a, object b)
cdef object general(Row row, tuple args, object out, object mask, object dtype)
cdef Row row_named(str name)
cdef NDualArray box(object obj)
cdef NDualArray snapshot(NDualArray x)
cdef Row product_row()
cdef NDualArray twin(NDualArray x)
cdef object lower(NDualArray x)
cdef bint differentiating() noexcept
cdef object straight(object function, object short, PyObject* const* args, Py_ssize_t count)
cdef object peeled(NDualArray x)
cdef object kept_value(object value)
cdef object lower_array(NDualArray x)
cdef bint same_view(NDualArray x, NDualArray y) noexcept
cdef str where()
cdef tuple place_here()
cdef str in_words(tuple place)
cdef int say_strong_zero(str name, str what, tuple place) except -1
cdef bint product_of(int typenum, Py_ssize_t m, Py_ssize_t k, Py_ssize_t n, char* a, const Py_ssize_t* as_, char* b,
                     const Py_ssize_t* bs, char* c, bint more) except? False
cdef const nd_cells* cell_loops(int itemsize) noexcept
cdef int run_pull(Row row, int typenum, int nin, const char** x, const Py_ssize_t** xs, const char* y,
                  const Py_ssize_t* ys, const char* w, const Py_ssize_t* ws, const nd_shadow* to, int ndim,
                  const Py_ssize_t* shape) except -1
