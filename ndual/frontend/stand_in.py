"""What lifted code takes in place of types, functions and arrays that no gate can stand for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend._gate import set_stand_in
from ndual.frontend.intercept import room


def stand_in(value: Any) -> Any:
    """The stand-in for what is called, or for a default buffer; most things stand for themselves."""
    kind = type(value)
    if kind is type and value in TYPES:
        return TYPES[value]
    if kind is np.ndarray:
        return buffer(value)
    if kind is functools.partial:
        inner = stand_in(value.func)
        return value if inner is value.func else functools.partial(inner, *value.args, **value.keywords)
    return room.intercepted.get(id(value), value)


def number(x: Any = 0.0, /) -> Any:
    """``float(x)``, where the number of an active `x` stays active."""
    return _convert(x, float, "__float__")


def complex_number(*args: Any, **kwargs: Any) -> Any:
    """``complex(x)``, where the number of an active `x` stays active."""
    if len(args) == 1 and not kwargs:
        return _convert(args[0], complex, "__complex__")
    if any(map(_core.is_dual, (*args, *kwargs.values()))):
        real, imag = _parts(*args, **kwargs)
        return real + 1j * imag
    return complex(*args, **kwargs)


def _parts(real: Any = 0.0, imag: Any = 0.0) -> tuple[Any, Any]:
    return real, imag


def _convert(x: Any, kind: Any, method: str) -> Any:
    if not _core.is_dual(x):
        # A class of the user's may return a dual, which Python refuses.
        convert = getattr(type(x), method, None)
        if convert is None:
            return kind(x)
        x = convert(x)
        if not _core.is_dual(x):
            return kind(x)
    if kind is float and x.dtype.kind == "c":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    if x.size != 1:
        return kind(_core.primal(x))  # which raises
    return x.astype(kind).item()


def array(
    shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None, order: Any = None
) -> Any:
    """``np.ndarray(shape)``, which active values may be written into."""
    if buffer is not None or strides is not None:
        return np.ndarray(shape, dtype, buffer, offset, strides, order)
    return _core.lazy(np.empty(shape, dtype, order or "C"))


def buffer(default: np.ndarray) -> Any:
    """The buffer of this derivative for an array that is older; it starts from what the array holds.

    In a nested derivative that is what the buffer of the one around it holds.
    """
    level: _core.Level | None = _core.current_level()
    assert level is not None  # lifted code asks only while there is one
    own = level.buffers = {} if level.buffers is None else level.buffers
    while level is not None and id(default) not in (level.buffers or ()):
        level = level.outer
    known = None if level is None else level.buffers[id(default)][1]  # type: ignore[index]
    if id(default) not in own:
        made = _core.lazy(default.copy())
        if known is not None:
            made[...] = known
        # The array itself is kept too, so that its identity is not given to another one.
        own[id(default)] = default, made
    return own[id(default)][1]


TYPES: dict[type, Any] = {float: number, complex: complex_number, np.ndarray: array}
set_stand_in(stand_in)
