"""CuPy's functions, as user code calls them while a derivative is taken: each by the rule of its namesake.

CuPy asks every operand of its ufuncs and kernels for ``__cupy_override_elementwise_kernel__``; all other functions are
found by name, as those of SciPy are.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import cupy
import cupyx
import numpy as np

from ndual import _core
from ndual.errors import DerivativeLostError, NoRuleError
from ndual.frontend import _methods, creation, devices, dispatch
from ndual.gpu.elementwise import call as elementwise_kernel
from ndual.gpu.namespace import counterpart
from ndual.gpu.storage import CupyStorage
from ndual.rules import elementwise, registry

__all__ = ["install", "update"]

STORAGE: Any = None
SUM = cupy.sum
_rows: dict[int, str] = {}  # by the identity of a ufunc of CuPy
_passive: set[int] = set()
_offered: set[Any] = set()
_parts_done: set[str] = set()
PARTS = {"numpy": "cupy", "scipy.special": "cupyx.scipy.special", "scipy.linalg": "cupyx.scipy.linalg"}


def install() -> None:
    """Register CuPy's memory, its functions and its ufuncs; once."""
    global STORAGE
    STORAGE = CupyStorage()
    STORAGE.entry = override.__code__
    devices.UFUNCS.update((cupy.ufunc, cupy.ElementwiseKernel, cupy.ReductionKernel))
    _core.register_storage(STORAGE)
    _methods.open_matmul(cupy.ndarray, _core.NDualArray)
    _core.set_methods(
        {
            "__cupy_override_elementwise_kernel__": override,
            "__cupy_override_reduction_kernel__": override,
            "get": _get,
            "scatter_add": _scatter_add,
        }
    )


def update() -> None:
    """Offer the functions of the parts of CuPy that have been imported since the last time."""
    for part, module in PARTS.items():
        if part not in _parts_done and module in sys.modules:
            _parts_done.add(part)
            _offer_part(part)


def _offer_part(part: str) -> None:
    names = [dotted for dotted in (*_served(), *registry.RULES) if dotted.startswith(f"{part}.")]
    for dotted in names:
        function = counterpart(dotted)
        if isinstance(function, cupy.ufunc):
            if dotted in elementwise.PASSIVE:
                _passive.add(id(function))
            elif dotted in _served():
                _rows.setdefault(id(function), _served()[dotted])
        elif callable(function) and not isinstance(function, type):
            _offer(dotted, function)
    for dotted in creation.NAMES if part == "numpy" else ():
        function = counterpart(dotted)
        if callable(function):
            makes = dotted.rpartition(".")[2] not in TAKES
            devices.offer(_here(dotted), function, MAKERS.get(dotted, _made), makes)
    if part == "numpy":
        devices.offer("cupy.asnumpy", cupy.asnumpy, _asnumpy)
        devices.offer("cupyx.scatter_add", cupyx.scatter_add, _scatter)


@functools.cache
def _served() -> dict[str, str]:
    """The row of every public name that has one; of those that carry no derivative, none."""
    served = {dotted: row.name for row in elementwise.TABLE.values() for dotted in row.serves}
    return served | dict.fromkeys(elementwise.PASSIVE, "")


def _here(dotted: str) -> str:
    """What a public name of NumPy or SciPy is called in CuPy."""
    root, _, rest = dotted.partition(".")
    return f"{'cupy' if root == 'numpy' else 'cupyx.scipy'}.{rest}"


def _offer(dotted: str, function: Any) -> None:
    original = registry.lookup(dotted)
    if original is not None and function not in _offered and dispatch.bind(function, original):
        _offered.add(function)
        devices.offer(_here(dotted), function, call)


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of CuPy on duals, by the rule of its namesake in NumPy or SciPy."""
    if len(args) == 1 and not kwargs and function is SUM and _core.is_dual(args[0]):
        return args[0].sum()
    refuse_mixed(function, args, kwargs)
    return dispatch.dispatch(function, args, kwargs)


def refuse_mixed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise where an array of the host is among the operands of a call on a device."""
    name = getattr(function, "__name__", str(function))
    for where, array in operands(args, kwargs):
        if isinstance(array, np.ndarray) and array.ndim and not STORAGE.owns(_core.bottom(array)):
            raise TypeError(
                f"{name}: expected operands on one device; got {where}, a {array.dtype} array of shape {array.shape} "
                "in host memory. Move it: cupy.asarray(x)"
            )


def operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call is given, with its place in words; lists and tuples are looked into."""
    for i, arg in enumerate(args):
        yield from _parts(f"argument {i}", arg)
    for key, arg in kwargs.items():
        yield from _parts(f"argument {key}", arg)


def _parts(where: str, obj: Any) -> Any:
    if isinstance(obj, list | tuple):
        for i, part in enumerate(obj):
            yield from _parts(f"{where}[{i}]", part)
    else:
        yield where, obj


def override(self: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """A ufunc, ElementwiseKernel or ReductionKernel of CuPy that was called with a dual among its operands."""
    if len(args) == 1 and not kwargs and id(kernel) in _rows:
        return _core.apply_row(_rows[id(kernel)], self)
    if id(kernel) in _passive:
        return kernel(*map(_core.compared, args), **kwargs)
    name = _rows.get(id(kernel))
    if name is None and isinstance(kernel, cupy.ElementwiseKernel):
        refuse_mixed(kernel, args, kwargs)
        return elementwise_kernel(kernel, args, kwargs)
    if name is None:
        raise NoRuleError(
            f"expected a kernel that ndual can differentiate; got {getattr(kernel, 'name', kernel)}, which has no rule"
            f"{_core.user_location()}. Write it with CuPy's functions, or pass ndual.stop_gradient(x)"
        )
    refuse_mixed(kernel, args, kwargs)
    nin = elementwise.TABLE[name].nin
    out = args[nin] if len(args) > nin else kwargs.get("out")
    known = {key: kwargs[key] for key in ("where", "dtype") if kwargs.get(key) is not None}
    return _core.apply_row(name, *args[:nin], out=out, **known)


def _get(self: Any, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
    """``x.get()``: in host memory, with its derivative."""
    if out is not None:
        raise DerivativeLostError(
            f"x.get(out=…) would drop the derivative{_core.user_location()}. Take what x.get() returns, "
            "or ndual.stop_gradient(x) if that is intended"
        )
    return _core.moved(self, None)


def _asnumpy(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found = devices.plainly(function, args, kwargs)
    return _core.moved(args[0], None) if found is NotImplemented else found


def _scatter_add(self: Any, index: Any, value: Any) -> None:
    """``x.scatter_add(index, value)``: several times to a cell that is named several times."""
    dispatch.dispatch((np.add, "at"), (self, index, value), {})


def _scatter(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function of that name."""
    refuse_mixed(function, args, kwargs)
    return dispatch.dispatch((np.add, "at"), args, kwargs)


def _made(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that makes arrays, called on duals."""
    refuse_mixed(function, args, kwargs)
    return dispatch.dispatch(getattr(np, function.__name__), args, kwargs)


def _array(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``cupy.array`` and ``cupy.asarray`` of duals, and of lists that hold some."""
    obj, *rest = args
    dtype = rest[0] if rest else kwargs.get("dtype")
    if isinstance(obj, list | tuple):
        obj = dispatch.dispatch(np.stack, ([_array(function, (part,), {}) for part in obj],), {})
    elif not _core.is_dual(obj):
        return function(obj, dtype)
    elif _core.storage_for(_core.bottom(obj)) is None:
        obj = _core.moved(obj, STORAGE)
    elif function.__name__ == "array" and kwargs.get("copy", True):
        obj = obj.copy()
    return obj if dtype is None else obj.astype(dtype)


TAKES = frozenset({"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy"})
MAKERS = {"numpy.array": _array, "numpy.asarray": _array, "numpy.asanyarray": _array}
