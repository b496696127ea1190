# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, always_allow_keywords=True
"""The tape: what a level that records keeps of its operations, and the sweep that takes cotangents back through them.

A dual array of such a level is a view of a buffer whose lanes are its shadow, the memory of its cotangent: a view of
the value is the same view of the shadow. Numbers are nodes of a list; arrays are entries beside it, in one order with
them.
"""
cdef extern from "ndual_kernels.h":
    enum: ND_COEF_NONE, ND_COEF_ZERO, ND_COEF_ONE, ND_COEF_NEG, ND_COEF_X0, ND_COEF_X1

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport NAN
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memset

from ndual._core._dual cimport (
    ND_NODE_ENTRY,
    ND_NODE_LOAD,
    HELD,
    ND_NODE_STORE,
    NCONTIGUOUS,
    NSCALAR,
    NTWIN,
    Buffer,
    CoDual,
    Level,
    NDualArray,
    Recorder,
    Row,
    Run,
    box,
    binary,
    book_of,
    cell_loops,
    deepest,
    empty_buffer,
    general,
    in_words,
    kept_value,
    live,
    lower,
    mirror,
    mirror_base,
    name_of,
    peeled,
    nd_cells,
    nd_shadow,
    nd_tape_node,
    nd_tape_room,
    own_values,
    place_here,
    pooled,
    product_of,
    product_row,
    row_named,
    run_pull,
    same_view,
    say_strong_zero,
    snapshot,
    state,
    trace,
    traced,
    unary,
    twin,
    values,
    where,
)

import math
import time
import weakref

import numpy as np

from ndual._core import HOST, _dual
from ndual.errors import NdualError, NoRuleError, NotANumberError, RuleError, UndefinedDerivativeError

cnp.import_array()

cdef object np_ndarray = np.ndarray
cdef object np_add = np.add
cdef object np_multiply = np.multiply
cdef object weak = weakref.ref
cdef object clock = time.perf_counter

include "multiples.pxi"
include "shadows.pxi"
include "device.pxi"
include "plain.pxi"
include "entries.pxi"
include "maps.pxi"
include "products.pxi"
include "memory.pxi"
include "writes.pxi"
include "marks.pxi"
include "keeper.pxi"
include "recording.pxi"
include "tape.pxi"
include "push.pxi"
include "run.pxi"
