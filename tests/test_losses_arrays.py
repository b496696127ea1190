"""Ways to lose a derivative, part 2: arrays and buffers, private references, libraries.

Each keeps it, or raises an error of ours that names the line, or warns where the function is a step: none is a silent
constant. Every function is x² in exact arithmetic, summed over the cells, and its default is where it is taken; the
steps have the derivative 0.
"""

from __future__ import annotations

import cmath
import functools
import math
import operator
import random
import statistics
from math import sqrt

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.sparse
import scipy.special

X, T = np.array([0.5, 2.0, 3.0]), 0.7
OUTER = np.zeros(3)
HELD = {
    "zeros": np.zeros,
    "sqrt": math.sqrt,
    "partial": functools.partial(math.sqrt),
    "buffer": np.zeros(3),
    "square": np.zeros((3, 3)),
}
MYSTERY = scipy.special.zetac

keeps, raises, warns = [], [], []

# ---- buffers from outside -------------------------------------------------------------------------------------------


@raises.append
def write_into_a_global(x=X):
    for i in range(3):
        OUTER[i] = x[i] ** 2
    return np.sum(OUTER)


@raises.append
def write_a_slice_of_a_global(x=X):
    OUTER[:] = x**2
    return np.sum(OUTER)


@raises.append
def add_to_a_cell_of_a_global(x=X):
    OUTER[0] += x[0] ** 2
    return np.sum(OUTER)


@raises.append
def out_of_a_ufunc(x=X):
    np.multiply(x, x, out=OUTER)
    return np.sum(OUTER)


@raises.append
def out_of_a_reduction(x=X):
    total = HELD["buffer"]
    np.sum(x * x, out=total[:1].reshape(()))
    return total[0]


@raises.append
def copyto(x=X):
    np.copyto(OUTER, x * x)
    return np.sum(OUTER)


@raises.append
def ufunc_at(x=X):
    np.add.at(OUTER, [0, 1, 2], x * x)
    return np.sum(OUTER)


@raises.append
def put(x=X):
    np.put(OUTER, [0, 1, 2], x * x)
    return np.sum(OUTER)


@raises.append
def place(x=X):
    np.place(OUTER, [True, True, True], x * x)
    return np.sum(OUTER)


@raises.append
def putmask(x=X):
    np.putmask(OUTER, [True, True, True], x * x)
    return np.sum(OUTER)


@raises.append
def put_along_axis(x=X):
    np.put_along_axis(OUTER, np.arange(3), x * x, 0)
    return np.sum(OUTER)


@raises.append
def fill_diagonal(x=X):
    square = HELD["square"]
    np.fill_diagonal(square, x[0] ** 2)
    return np.sum(square)


@raises.append
def fill_method(x=X):
    OUTER.fill(x[0] ** 2)
    return np.sum(OUTER)


@raises.append
def flat_of_a_global(x=X):
    OUTER.flat = x * x
    return np.sum(OUTER)


@raises.append
def itemset_by_setitem(x=X):
    operator.setitem(OUTER, 0, x[0] ** 2)
    return np.sum(OUTER)


@raises.append
def structured_array(x=X):
    record = np.zeros(1, dtype=[("a", float), ("b", float)])
    record["a"] = x[0] ** 2
    return np.sum(record["a"])


@raises.append
def integer_buffer(x=X):
    out = np.zeros(3, dtype=int)
    out[:] = x * x
    return np.sum(out)


@warns.append
def cells_of_an_integer_buffer(x=X):
    out = np.zeros(3, dtype=int)
    for i in range(3):
        out[i] = x[i] * x[i]  # cuts off what is behind the point: a step
    return 1.0 * out.sum()


@raises.append
def swallowed_write(x=X):
    for i in range(3):
        try:
            OUTER[i] = x[i] ** 2
        except (TypeError, ValueError):
            OUTER[i] = 0.0
    return np.sum(OUTER) + np.sum(x)


def buffer_in_a_closure():
    buffer = np.zeros(3)

    def buffer_of_a_closure(x=X):
        buffer[:] = x * x
        return np.sum(buffer)

    return buffer_of_a_closure


class Model:
    def __init__(self):
        self.buffer = np.zeros(3)

    def buffer_of_self(self, x=X):
        self.buffer[:] = x * x
        return np.sum(self.buffer)


raises.append(buffer_in_a_closure())
raises.append(Model().buffer_of_self)


@keeps.append
def outer_array_rebound(x=X):
    total = np.zeros(3)
    total = total + x * x
    return np.sum(total)


@keeps.append
def in_place_on_a_list(x=X):
    cells = [0.0] * 3
    for i in range(3):
        cells[i] += x[i] ** 2
    return sum(cells)


@raises.append
def in_place_on_a_global(x=X):
    global OUTER
    OUTER += x * x
    return np.sum(OUTER)


# ---- arrays made of duals -------------------------------------------------------------------------------------------


@keeps.append
def astype_float(x=X):
    return np.sum(x.astype(float) ** 2)


@warns.append
def astype_int(x=X):
    return 1.0 * np.sum(x.astype(int) ** 2)


@raises.append
def object_array(x=X):
    cells = np.empty(3, dtype=object)
    cells[:] = list(x)
    return float(np.sum(cells.astype(float) ** 2))


@raises.append
def asarray_of_objects(x=X):
    return np.sum(np.asarray(x, dtype=object).astype(float) ** 2)


@keeps.append
def frompyfunc(x=X):
    return np.sum(np.frompyfunc(lambda v: v * v, 1, 1)(x).astype(float))


@keeps.append
def fromfunction(x=X):
    return np.sum(np.fromfunction(lambda i: x[i] ** 2, (3,), dtype=int))


@keeps.append
def piecewise(x=X):
    return np.sum(np.piecewise(x, [x < 1, x >= 1], [lambda v: v * v, lambda v: v * v]))


@keeps.append
def sparse_matrix(x=X):
    return scipy.sparse.csr_matrix(np.diag(x * x)).sum()


@keeps.append
def sparse_from_coordinates(x=X):
    return scipy.sparse.coo_array((x * x, ([0, 1, 2], [0, 1, 2])), shape=(3, 3)).sum()


@keeps.append
def buffer_made_inside(x=X):
    out = np.zeros(3)
    out += x * x
    return np.sum(out)


@keeps.append
def array_of_duals(x=X):
    return np.sum(np.array([v * v for v in x]))


@keeps.append
def array_of_duals_with_a_dtype(x=X):
    return np.sum(np.array([v * v for v in x], dtype=float))


@keeps.append
def asarray_with_a_dtype(x=X):
    return np.sum(np.asarray(x, dtype=np.float64) ** 2)


@keeps.append
def fromiter(x=X):
    return np.sum(np.fromiter((v * v for v in x), float))


# ---- private references and libraries -------------------------------------------------------------------------------


@keeps.append
def default_argument(x=T, f=sqrt):
    return f(x) ** 4


@raises.append
def function_from_a_container(x=T):
    return HELD["sqrt"](x) ** 4


@raises.append
def partial_of_a_function(x=T):
    return HELD["partial"](x) ** 4


@raises.append
def creation_from_a_container(x=X):
    out = HELD["zeros"](3)
    out[:] = x * x
    return np.sum(out)


@keeps.append
def statistics_module(x=T):
    return statistics.fmean([x * x, x * x])


@keeps.append
def drawn_around_a_number(x=T):
    return random.gauss(x, 0.0) ** 2


@raises.append
def drawn_by_numpy(x=X):
    return np.sum(np.random.normal(x, 0.0) ** 2)


@raises.append
def drawn_by_a_generator(x=X):
    return np.sum(np.random.default_rng(0).normal(x, 0.0) ** 2)


@keeps.append
def quad(x=T):
    return scipy.integrate.quad(lambda t: 2 * x * x * t, 0.0, 1.0)[0]


@keeps.append
def lapack(x=X):
    return scipy.linalg.lapack.dgesv(np.diag(x), x**3)[2].sum()


@raises.append
def lapack_without_a_rule(x=X):
    return scipy.linalg.lapack.dgeev(np.diag(x) ** 2)[0].sum()


@raises.append
def a_function_without_rule(x=X):
    return np.sum(MYSTERY(x))


@keeps.append
def name_imported_from_math(x=T):
    return sqrt(x) ** 4


@keeps.append
def attribute_of_math(x=T):
    return math.sqrt(x) ** 4


@keeps.append
def attribute_of_cmath(x=T):
    return (cmath.sqrt(x) ** 4).real


@keeps.append
def math_fsum(x=T):
    return math.fsum([x * x, 0.0])


# ---- what becomes of it --------------------------------------------------------------------------------------------

OUTCOMES = [*(("kept", f) for f in keeps), *(("raised", f) for f in raises), *(("warned", f) for f in warns)]


def test_there_are_many():
    assert len(OUTCOMES) >= 50


@pytest.mark.parametrize(("outcome", "f"), OUTCOMES, ids=[f.__name__ for _, f in OUTCOMES])
def test_the_derivative_is(outcome, f, check_loss):
    check_loss(outcome, f)
