"""Functions that make arrays, as user code calls them while a derivative is taken.

What they make of plain numbers is a lazy buffer (see create.pxi in the core), which needs no rule. Here is what they
make of duals; most of it is an array of a nested list, a copy or a cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import NoRuleError

Handler = Callable[..., Any]

# Their result is fresh memory, or an argument as it is, whatever they are called with.
_NAMES = """
zeros empty ones full eye identity tri zeros_like ones_like empty_like full_like array asarray asanyarray
ascontiguousarray asfortranarray asarray_chkfinite require copy fromiter fromfunction fromstring loadtxt genfromtxt
arange linspace logspace geomspace
"""
NAMES = tuple(f"numpy.{name}" for name in _NAMES.split())
ITERATES = ("numpy.fromiter", "math.fsum", "math.prod", "math.sumprod", "math.dist")
# bool is not among them: np.select compares types with it by identity.
TYPES = (
    "float64 float32 float16 longdouble complex128 complex64 clongdouble int8 int16 int32 int64 intc intp longlong "
    "uint8 uint16 uint32 uint64 uintc uintp ulonglong"
)
# Library code that hands its arguments on; it must let duals through.
_WRITEABLE = "array_api_compat.common._helpers.is_writeable_array"
_WRITEABLES = (f"scipy._lib.{_WRITEABLE}", f"scipy._external.{_WRITEABLE}")  # the second from SciPy 1.18 on
EVERYWHERE = ("scipy._lib._array_api._asarray", *_WRITEABLES)
HANDLERS: dict[str, Handler] = {}


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def decorate(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name if "." in name else f"numpy.{name}"] = handler
        return handler

    return decorate


def as_dual(obj: Any, dtype: Any = None, order: str | None = "K") -> Any:
    """A dual array over the memory of `obj` where it is one of this type and order already, else a fresh one."""
    if isinstance(obj, list | tuple):
        return _core.build(obj, dtype, "F" if order == "F" else "C")
    if not _core.is_dual(obj):
        # Some other sequence that holds duals.
        return _core.build(list(obj), dtype, "F" if order == "F" else "C")
    x = obj.astype(dtype, copy=False) if dtype is not None else obj
    if not _core.is_dual(x):  # an integer or bool type
        return np.asarray(x)
    x = _core.boxed(x)
    if (order == "C" and not x.flags.c_contiguous) or (order == "F" and not x.flags.f_contiguous):
        return x.copy(order)
    return x


@_handles("array")
def _array(
    object: Any,  # noqa: A002 (NumPy's name for it)
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Any:
    x = as_dual(object, dtype, order)
    # NumPy's _CopyMode has no truth; its values are those of None, True and False.
    if getattr(copy, "value", copy) in (True, 1) and _core.is_dual(object) and _core.shares(x, object):
        x = x.copy("K" if order is None else order)
    if x.ndim < ndmin:
        x = x.reshape((1,) * (ndmin - x.ndim) + x.shape)
    return x


@_handles("asarray", "asanyarray")
def _asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, device: Any = None, copy: bool | None = None,
    like: Any = None,
) -> Any:  # fmt: skip
    return _array(a, dtype, copy=copy, order=order)


@_handles("asarray_chkfinite")
def _asarray_chkfinite(a: Any, dtype: Any = None, order: str | None = None) -> Any:
    x = as_dual(a, dtype, order)
    np.asarray_chkfinite(_core.primal(x))
    return x


@_handles("ascontiguousarray")
def _ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return _array(a, dtype, copy=None, order="C", ndmin=1)


@_handles("asfortranarray")
def _asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return _array(a, dtype, copy=None, order="F", ndmin=1)


@_handles("require")
def _require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    wanted = {str(r).upper()[0] for r in ([requirements] if isinstance(requirements, str) else requirements or ())}
    x = as_dual(a, dtype, "F" if "F" in wanted else "C" if "C" in wanted else None)
    return x.copy("K") if "W" in wanted and not x.flags.writeable else x


@_handles("fromiter")
def _fromiter(
    iter: Iterable[Any],  # noqa: A002 (NumPy's name for it)
    dtype: Any,
    count: int = -1,
    *,
    like: Any = None,
) -> Any:
    items = list(iter)
    if len(items) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
    return as_dual(items if count < 0 else items[:count], dtype)


@_handles("full")
def _full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    fill = as_dual(fill_value)
    kind = fill.dtype if dtype is None else dtype
    out = _core.lazy(np.empty(shape, kind, "F" if order == "F" else "C"))
    if not _core.is_dual(out):
        out[...] = _core.primal(fill)
        return out
    out[...] = fill
    return out


@_handles("arange")
def _arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None, **named: Any) -> Any:
    start, stop, step = _ends(*args, **named)
    count = len(np.arange(*(_core.primal(v) for v in (start, stop, step))))
    out = start + step * np.arange(count)
    return out if dtype is None else out.astype(dtype)


def _ends(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> tuple[Any, Any, Any]:
    if dtype is not None:
        raise NoRuleError("numpy.arange takes dtype= by keyword when it is differentiated; got it by position")
    return (0, start, step) if stop is None else (start, stop, 1 if step is None else step)


@_handles("scipy._lib._array_api._asarray")
def _scipy_asarray(
    array: Any, dtype: Any = None, order: str | None = None, copy: bool | None = None, *, xp: Any = None,
    check_finite: bool = False, subok: bool = False,
) -> Any:  # fmt: skip
    x = _array(array, dtype, copy=copy, order=order)
    if check_finite:
        np.asarray_chkfinite(_core.primal(x))
    return x


@_handles(*_WRITEABLES)
def _is_writeable_array(x: Any) -> bool:
    # It asks for the type itself, and for a dual array that is not NumPy's.
    return bool(x.flags.writeable)
