# cython: language_level=3, cdivision=True
"""A user's own Cython code made differentiable: the logistic map, on doubles and on the structs of ndual.

The loop is the same three operations; only the types and the spelling of the operations differ.
"""
from ndual._core cimport (
    NDual1, NDual8, nd1_const, nd1_mul, nd1_mul_dc, nd1_partial, nd1_seed, nd1_sub_cd,
    nd8_mul, nd8_partial, nd8_seed, nd8_sub_cd,
)


def plain(double a, double y, long steps):
    """The value after some steps."""
    cdef long _
    with nogil:
        for _ in range(steps):
            y = a * y * (1.0 - y)
    return y


def by_parameter(double a, double y, long steps):
    """The value and its derivative by `a`."""
    cdef NDual1 p = nd1_seed(a, 0)
    cdef NDual1 s = nd1_const(y)
    cdef long _
    with nogil:
        for _ in range(steps):
            s = nd1_mul(nd1_mul(p, s), nd1_sub_cd(1.0, s))
    return s.v, nd1_partial(s, 0)


def by_both(double a, double y, long steps):
    """The value and its derivatives by `a` and by the start, in lanes 0 and 1 of eight."""
    cdef NDual8 p = nd8_seed(a, 0)
    cdef NDual8 s = nd8_seed(y, 1)
    cdef long _
    with nogil:
        for _ in range(steps):
            s = nd8_mul(nd8_mul(p, s), nd8_sub_cd(1.0, s))
    return s.v, nd8_partial(s, 0), nd8_partial(s, 1)


def zero_seed(double a, double y):
    """One product with a number, in a lane where nothing was seeded."""
    cdef NDual1 s = nd1_mul_dc(nd1_const(y), a)
    return s.v, nd1_partial(s, 0)
