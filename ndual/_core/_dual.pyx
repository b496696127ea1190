# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: c_api_binop_methods=True, binding=False, always_allow_keywords=True
"""The forward core: levels, pooled buffers, dual scalars and dual arrays.

One extension module, so that types and helpers inline into each other; its parts lie beside it. What a function of
NumPy means for a dual is not decided here: rows come from the table, everything else through the dispatcher slot.
"""
cimport cython
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, PyObject, PyTypeObject, destructor
from cpython.buffer cimport PyBUF_WRITABLE, PyObject_GetBuffer
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_Check, PyLong_CheckExact
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, intptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import functools
import opcode
import operator
import os
import re
import sys
import warnings

import numpy as np

from ndual.errors import (
    ARRAY_OF,
    AliasError,
    ArgumentValueError,
    DerivativeLostError,
    NdualError,
    NoRuleError,
    NotANumberError,
    StaleDualError,
    StrongZeroWarning,
    UndefinedDerivativeError,
    UnsupportedDtype,
    on_loss,
)

cnp.import_array()

cdef object FLOAT64 = np.dtype(np.float64)
cdef object FLOAT32 = np.dtype(np.float32)
cdef object np_ndarray = np.ndarray
cdef object np_matmul = np.matmul
cdef object np_dot = np.dot
cdef object np_sum = np.sum
cdef object np_mean = np.mean
cdef object np_reduce = np.add.reduce
cdef object np_reshape = np.reshape
cdef object np_transpose = np.transpose
cdef object np_ravel = np.ravel
cdef object np_diag = np.diag
cdef object np_diagonal = np.diagonal
cdef object np_empty_like = np.empty_like
cdef object np_zeros_like = np.zeros_like
cdef double EMPTY_SUM = np.add.reduce(np.array([-0.0]))   # NumPy starts a sum from 0.0 or -0.0, by version
cdef str NOT_MADE = (
    "expected duals to come from a derivative call; got a call of their class, as in type(x)(value). "
    "Write np.float64(value) or np.array(value)"
)
cdef tuple PLAIN_OPERANDS = (np.ndarray, np.generic, complex, list, tuple)
cdef str TEXT_MARK = "~"
cdef object IGNORANT = re.compile(rf"['\"\[]{TEXT_MARK}[-\[.0-9in]|string or file could not be read|can't unbox")
cdef frozenset LIBRARIES = frozenset({"ndual", "numpy", "scipy", "cupy", "cupyx"})

include "declarations.pxi"
include "level.pxi"
include "buffer.pxi"
include "array.pxi"
include "geometry.pxi"
include "generated/scalar_class.pxi"
include "scalar.pxi"
include "recorder.pxi"
include "convert.pxi"
include "rows.pxi"
include "kernel.pxi"
include "promote.pxi"
include "launch.pxi"
include "direct.pxi"
include "products.pxi"
include "waiting.pxi"
include "factor.pxi"
include "debug.pxi"
include "operators.pxi"
include "protocol.pxi"
include "indexing.pxi"
include "reduce.pxi"
include "devices.pxi"
include "mixed.pxi"
include "ahead.pxi"
include "awaited.pxi"
include "adopt.pxi"
include "interface.pxi"
include "create.pxi"
include "build.pxi"
include "facts.pxi"
include "lift.pxi"
include "nested.pxi"
include "nested_ops.pxi"
include "run.pxi"
include "programs.pxi"
include "prepared.pxi"

on_loss(note_lost)
