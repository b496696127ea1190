"""A memory that the host cannot read, with the manners of CuPy: all that is done with it is the storage's."""

from __future__ import annotations

import functools
import importlib
import itertools
import sys

import numpy as np

from ndual import _core
from ndual._core.storage import Storage
from ndual.frontend.ahead import summed_next

__name__ = "cupyx.fake_device"  # a library: what it calls is not the user's


class Device:
    """An array without buffer, interface or __array__: out of reach of the host, but for NumPy's two protocols."""

    __hash__ = None

    def __init__(self, hidden):
        self._hidden = hidden

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if any(map(_core.is_dual, args)):
            return NotImplemented
        return calling(getattr(ufunc, method))(*args, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return calling(function)(*args, **kwargs)

    def __array__(self, *args, **kwargs):
        raise TypeError("device memory was read by the host")

    def __float__(self):
        return float(self._hidden)

    def __complex__(self):
        return complex(self._hidden)

    def __int__(self):
        return int(self._hidden)

    def __bool__(self):
        return bool(self._hidden)

    def __len__(self):
        return len(self._hidden)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._hidden, name)
        return calling(found) if callable(found) else inside(found)

    def __getitem__(self, index):
        found = self._hidden[outside(index)]
        if isinstance(found, np.generic):  # a cell is a view, as CuPy's are
            index = index if isinstance(index, tuple) else (index,)
            found = self._hidden[(*outside(index), ...)]
        return inside(found)

    def __setitem__(self, index, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError("a host array was stored into device memory")
        self._hidden[outside(index)] = outside(value)

    @property
    def device(self):
        return "fake"


def _operator(name):
    def method(self, *others):
        if any(_core.is_dual(other) or (isinstance(other, np.ndarray) and other.ndim) for other in others):
            return NotImplemented
        result = getattr(self._hidden, name)(*map(outside, others))
        if result is NotImplemented:
            return result
        return self if name.startswith("__i") and name != "__invert__" else inside(result)

    return method


OPERATORS = (
    "add sub mul truediv floordiv mod pow matmul radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul iadd isub imul "
    "itruediv neg pos abs invert and or xor rand ror rxor lt le gt ge eq ne"
)
for _name in OPERATORS.split():
    setattr(Device, f"__{_name}__", _operator(f"__{_name}__"))


def inside(obj):
    """Arrays of the host as arrays of the device, in whatever they are nested."""
    if isinstance(obj, np.ndarray | np.generic) and not isinstance(obj, np.bool_):
        return Device(np.asarray(obj))
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*map(inside, obj))
    if isinstance(obj, tuple | list):
        return type(obj)(map(inside, obj))
    return obj


def outside(obj):
    if isinstance(obj, Device) and not _core.is_dual(obj):
        return obj._hidden
    if isinstance(obj, tuple | list):
        return type(obj)(map(outside, obj))
    if isinstance(obj, dict):
        return {key: outside(value) for key, value in obj.items()}
    return obj


def on_host(obj):
    if _core.is_dual(obj):
        return False
    if isinstance(obj, tuple | list):
        return any(map(on_host, obj))
    return isinstance(obj, np.ndarray) and obj.ndim > 0


def calling(function):
    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        if any(map(_core.is_dual, itertools.chain(args, kwargs.values()))):
            return function(*args, **kwargs)
        if any(map(on_host, itertools.chain(args, kwargs.values()))):
            raise TypeError(f"{function} of the device was called on a host array")
        return inside(function(*outside(args), **outside(kwargs)))

    if isinstance(function, np.ufunc):
        for method in ("accumulate", "at", "outer", "reduce"):
            setattr(call, method, calling(getattr(function, method)))
    return call


class Namespace:
    """NumPy for device arrays."""

    ndarray = Device
    __name__ = "fake"

    def __init__(self, module=np):
        self._module = module

    def __getattr__(self, name):
        found = getattr(self._module, name)
        if isinstance(found, type) or not callable(found):
            return Namespace(found) if type(found) is type(np) else found
        return calling(found)

    @staticmethod
    def beside(module):
        return Namespace(module)

    @staticmethod
    def asarray(obj, dtype=None):
        return obj if isinstance(obj, Device) and dtype is None else inside(np.asarray(outside(obj), dtype))


class FakeStorage(Storage):
    """Its own functions for the special ones too, as a device has them; a row before its sum waits for that."""

    waited = 0

    def function(self, dotted):
        return calling(_public(dotted))

    def host(self, array):
        return array._hidden

    def address(self, array):
        return array._hidden.__array_interface__["data"][0]

    def mirror(self, cells, offset, shape, strides, dtype):
        return Device(np.ndarray(shape, dtype, cells._hidden, offset, strides))

    def ahead(self, row, values, lanes, width, active):
        if not summed_next(sys._getframe(1), row, _public, (np.sum,)):
            return None
        probe = self.value(row, None, values, None)

        def total():
            self.waited += 1
            if width:
                value, tangent = self.launch(row, None, values, lanes, width, None)
                return *self.sum(value, tangent, width), None
            value = self.value(row, None, values, None)
            return value.sum(), None, value if self.waited % 2 else None

        return (probe.shape, probe.dtype, total) if probe.shape else None

    def add_at(self, array, index, values):
        np.add.at(array._hidden, outside(index), outside(values))


def _public(dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)
