"""Ways to lose a derivative, part 1: numbers, text, memory, caches, threads.

Each keeps it, or raises an error of ours that names the line, or warns where the function is a step: none is a silent
constant. Every function is x² in exact arithmetic, summed over the cells, and its default is where it is taken; the
steps have the derivative 0.
"""

from __future__ import annotations

import array
import concurrent.futures
import contextlib
import copy
import ctypes
import decimal
import fractions
import functools
import io
import json
import math
import multiprocessing
import operator
import os
import pickle
import struct
import threading

import numpy as np
import pytest
import scipy.special

X, T = np.array([0.5, 2.0, 3.0]), 0.7
GLOBAL = {}
MYSTERY = scipy.special.zetac

keeps, raises, warns = [], [], []

# ---- conversions to Python's numbers --------------------------------------------------------------------------------


@raises.append
def float_of_a_number(x=T):
    return float(x) ** 2


@raises.append
def float_of_the_cells(x=X):
    return sum(float(v) ** 2 for v in x)


@raises.append
def complex_of_a_number(x=T):
    return (complex(x) ** 2).real


@raises.append
def float_method(x=T):
    return x.__float__() ** 2


@keeps.append
def tolist_of_an_array(x=X):
    return sum(v * v for v in x.tolist())


@raises.append
def decimal_of_a_number(x=T):
    return float(decimal.Decimal(x)) ** 2


@raises.append
def fraction_of_a_number(x=T):
    return float(fractions.Fraction(x)) ** 2


@raises.append
def float_hex(x=T):
    return float.fromhex(x.hex()) ** 2


@raises.append
def as_integer_ratio(x=T):
    p, q = x.as_integer_ratio()
    return (p / q) ** 2


@warns.append
def int_of_a_number(x=T):
    return float(int(x))


@warns.append
def a_step(x=T):
    return 1.0 if x > 0 else 0.0


@warns.append
def argmax_of_an_array(x=X):
    return float(np.argmax(x))


@keeps.append
def floor_beside_the_number(x=T):
    return math.floor(x) + np.floor(x) + x * x


@keeps.append
def float64_of_a_number(x=T):
    return np.float64(x) ** 2


@keeps.append
def item_of_a_number(x=T):
    return np.asarray(x).item() ** 2


# ---- text and bytes -------------------------------------------------------------------------------------------------


@raises.append
def old_formatting(x=T):
    return float("%.17g" % x) ** 2  # noqa: UP031


@raises.append
def f_string(x=T):
    return float(f"{x:.17g}") ** 2


@raises.append
def str_of_a_number(x=T):
    return float(str(x)) ** 2


@raises.append
def repr_of_a_number(x=T):
    return float(repr(x)) ** 2


@raises.append
def format_method(x=T):
    return float("{:e}".format(x)) ** 2  # noqa: UP032


@raises.append
def text_of_an_array(x=X):
    return np.sum(np.fromstring(str(x).strip("[]"), sep=" ") ** 2)


@raises.append
def text_of_the_cells(x=X):
    return np.sum(np.array([str(v) for v in x]).astype(float) ** 2)


@raises.append
def array2string(x=X):
    return sum(float(v) ** 2 for v in np.array2string(x).strip("[]").split())


@raises.append
def format_float_positional(x=T):
    return float(np.format_float_positional(x)) ** 2


@raises.append
def savetxt(x=X):
    file = io.StringIO()
    np.savetxt(file, x)
    file.seek(0)
    return np.sum(np.loadtxt(file) ** 2)


@raises.append
def save(x=X):
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    return np.sum(np.load(file) ** 2)


@raises.append
def tofile(x=X):
    x.tofile(os.devnull)
    return np.sum(x**2)


@raises.append
def json_number(x=T):
    return json.loads(json.dumps(x)) ** 2


@raises.append
def json_list(x=X):
    return sum(v * v for v in json.loads(json.dumps(x.tolist())))


@keeps.append
def pickled_and_back(x=X):
    return np.sum(pickle.loads(pickle.dumps(x)) ** 2)


@keeps.append
def deep_copied(x=X):
    return np.sum(copy.deepcopy({"x": x})["x"] ** 2)


@raises.append
def struct_pack(x=T):
    return struct.unpack("d", struct.pack("d", x))[0] ** 2


@raises.append
def tobytes(x=X):
    return np.sum(np.frombuffer(x.tobytes()) ** 2)


@raises.append
def bytes_of_an_array(x=X):
    return np.sum(np.frombuffer(bytes(x)) ** 2)


@raises.append
def view_as_integers(x=X):
    return np.sum(x.view(np.int64).view(float) ** 2)


# ---- memory ---------------------------------------------------------------------------------------------------------


@raises.append
def memory_view(x=X):
    return sum(v * v for v in memoryview(x))


@raises.append
def python_array(x=X):
    return sum(v * v for v in array.array("d", x))


@raises.append
def ctypes_array(x=X):
    return sum(v * v for v in (ctypes.c_double * 3)(*x))


@raises.append
def ctypes_pointer(x=X):
    pointer = x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    return sum(pointer[i] ** 2 for i in range(3))


@raises.append
def array_interface(x=X):
    return np.sum(np.array(type("Holder", (), {"__array_interface__": x.__array_interface__})()) ** 2)


@raises.append
def dlpack(x=X):
    return np.sum(np.from_dlpack(x) ** 2)


@raises.append
def frombuffer(x=X):
    return np.sum(np.frombuffer(x) ** 2)


@raises.append
def data_attribute(x=X):
    return np.sum(np.frombuffer(x.data) ** 2)


@raises.append
def array_method(x=X):
    return np.sum(x.__array__() ** 2)


@raises.append
def unbound_method(x=X):
    return np.ndarray.sum(x) ** 2


@raises.append
def nditer(x=X):
    return sum(v**2 for v in np.nditer(x))


# ---- keys and caches ------------------------------------------------------------------------------------------------


@raises.append
def key_of_a_dictionary(x=T):
    return {x: x * x}[x]


@raises.append
def member_of_a_set(x=T):
    return sum(v * v for v in {x})


@functools.lru_cache
def cached_square(x):
    return x * x


@raises.append
def lru_cache(x=T):
    return cached_square(x)


@raises.append
def cache_under_a_tuple(x=X):
    return sum(map(operator.mul, GLOBAL.setdefault(tuple(x.tolist()), x), x))


@keeps.append
def cache_under_text(x=T):
    cache = {str(T): T * T}  # of an earlier call, without derivative
    return cache[str(x)] if str(x) in cache else x * x


@keeps.append
def lookup_by_equality(x=T):
    return (x * x, 0.0)[[x, 1.0].index(x)]


# ---- threads, processes and swallowed errors ------------------------------------------------------------------------


@raises.append
def thread_pool(x=T):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: x * x).result()


@raises.append
def thread_that_swallows(x=T):
    found = [0.0]

    def work():
        with contextlib.suppress(Exception):
            found[0] = x * x

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


@raises.append
def process_pool(x=T):
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(operator.mul, (x, x))


@raises.append
def swallowed(x=T):
    try:
        return float(x) ** 2
    except Exception:
        return 1e10


@raises.append
def swallowed_missing_rule(x=X):
    try:
        return np.sum(MYSTERY(x))
    except Exception:
        return 1e10


@raises.append
def suppressed_hash(x=T):
    try:
        return cached_square(x)
    except TypeError:
        return 0.0


@keeps.append
def errstate(x=X):
    with np.errstate(all="raise"):
        return np.sum(x * x)


# ---- what becomes of it --------------------------------------------------------------------------------------------

OUTCOMES = [*(("kept", f) for f in keeps), *(("raised", f) for f in raises), *(("warned", f) for f in warns)]


def test_there_are_many():
    assert len(OUTCOMES) >= 55


@pytest.mark.parametrize(("outcome", "f"), OUTCOMES, ids=[f.__name__ for _, f in OUTCOMES])
def test_the_derivative_is(outcome, f, check_loss):
    check_loss(outcome, f)
