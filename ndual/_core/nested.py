"""Duals of an outer derivative as a storage: how rows and rules of an inner derivative run on them.

A row is evaluated in its NumPy form, by the very functions that the user calls; a rule gets an array namespace whose
functions take duals, and whose fresh arrays may be written to by duals. So there is one set of formulas for all levels.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual._core import _dual
from ndual._core.storage import Storage, chosen
from ndual.errors import NoRuleError
from ndual.rules.expressions import Name, NoDerivative
from ndual.rules.language import Num


class Formula:
    """A function of this library, which takes duals."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self.function(*args)


# Functions that hand duals to their rules themselves; all others are asked through the dispatcher.
DISPATCHED = (np.ufunc, type(np.sum), types.BuiltinMethodType, Formula)
MADE = frozenset({"arange", "linspace", "tri", "indices", "tril_indices", "triu_indices", "diag_indices"})
FRESH = frozenset({"empty", "empty_like", "eye", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"})


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a public function of a library on arguments that may hold duals of outer levels."""
    if isinstance(function, DISPATCHED):
        return function(*args, **kwargs)
    if not _dual.holds(args, kwargs):
        return _dual.resident(function, args)(*args, **kwargs)
    return _dual.dispatch_call(function, args, kwargs)


class NestedStorage(Storage):
    """Duals of the level below."""

    def owns(self, array: Any) -> bool:
        """Duals are told by their own class, never by what they answer for it."""
        return False

    def launch(
        self, row: Any, ufunc: Any, values: list[Any], lanes: list[Any], width: int, dtype: Any
    ) -> tuple[Any, Any]:
        """As :meth:`Storage.launch`, on values and lanes that may be duals themselves."""
        function = self._value_function(row, ufunc)
        value = function(*values, **({} if dtype is None else {"dtype": dtype}))
        if not hasattr(value, "dtype"):
            value = np.asarray(value)
        x, y = self._widened(function, values, value)
        tangent = None
        fresh = False
        ndim, shape = np.ndim(_dual.bottom(value)), np.shape(_dual.bottom(value))
        with np.errstate(all="ignore"):
            for i, t in enumerate(lanes):
                if t is None:
                    continue
                if t.ndim != ndim + 1:
                    t = t.reshape(t.shape[:1] + (1,) * (ndim + 1 - t.ndim) + t.shape[1:])
                term = self._term(row, i, x, y, t)
                if term is not None:
                    fresh = tangent is not None or term is not t
                    tangent = term if tangent is None else tangent + term
        if tangent is None:
            return value, _zeros((width, *shape), value)
        if tangent.shape != (width, *shape):
            tangent, fresh = np.broadcast_to(tangent, (width, *shape)), False
        if tangent.dtype != value.dtype:
            tangent, fresh = tangent.astype(value.dtype), True
        return value, tangent if fresh else tangent.copy()

    def _term(self, row: Any, i: int, x: tuple[Any, ...], y: Any, t: Any) -> Any:
        """As :meth:`Storage._term`, by one kernel where the memory below has one."""
        found = None
        if type(_dual.bottom(t)) is not np.ndarray and row.partial_exprs[i] not in (Num(0.0), Num(1.0)):
            found = self.on_device(row, i, x, y, t)
        return super()._term(row, i, x, y, t) if found is None else found

    def on_device(self, row: Any, i: int, x: tuple[Any, ...], y: Any, t: Any) -> Any:
        """A partial of a real row times `t` by one kernel, where duals of one level lie on a device that has it."""
        storage = _dual.storage_for(_dual.bottom(t))
        levels = {_dual.level_of(v) for v in (*x, t) if _dual.is_dual(v)}
        if storage is None or len(levels) != 1:
            return None
        level = levels.pop()
        if level.outer is not None or level.recorder is not None:
            return None
        *parts, (w, tw) = [_dual.split(v) if _dual.is_dual(v) else (v, None) for v in (*x, t)]
        values, lanes = [value for value, _ in parts], [lane for _, lane in parts]
        y = _dual.bottom(y)
        if any(getattr(value, "dtype", w.dtype).kind == "c" for value in (*values, y, w)):
            return None
        found = storage.turned(row, i, values, lanes, y, w, tw, level.width)
        return None if found is None else _dual.wrap(found[0], found[1], level)

    def function(self, dotted: str) -> Any:
        """As :meth:`Storage.function`; what NumPy's protocols do not hand over is asked through the dispatcher."""
        found = super().function(dotted)
        if found is np.where:
            return chosen(found)
        if dotted.startswith("scipy."):  # which does not hand over arrays of other libraries
            return lambda *args: call(_there(args, dotted, found), args, {})
        return found if isinstance(found, DISPATCHED) else lambda *args: call(found, args, {})

    def full(self, shape: tuple[int, ...], number: Any, dtype: Any, beside: Any) -> Any:
        """As :meth:`Storage.full`; below all levels may be a device."""
        storage = _dual.storage_for(_dual.bottom(beside))
        return (np if storage is None else storage.xp).full(shape, number, dtype)

    def partial(self, row: Any, i: int, x: tuple[Any, ...], y: Any) -> Any:
        """The partial of a real row by operand `i` as a dual of the level below."""
        return self.factor(row, self.form(row, "real", i), i, x, y)

    def factor(self, row: Any, form: Any, i: int, x: tuple[Any, ...], y: Any) -> Any:
        """A partial as a dual of the level below, from the second derivatives that the row itself gives.

        They are as accurate as the table says, which the derivative of a formula need not be, and cost less. Complex
        operands, and those that are duals twice over, take the derivative of the formula.
        """
        if type(row.partial_exprs[i]) in (Name, Num):  # of a product, a sum
            return form(x, y)
        places = [j for j, v in enumerate(x) if _dual.is_dual(v)]
        levels = {_dual.level_of(x[j]) for j in places}
        if len(levels) != 1 or (level := levels.pop()).outer is not None:
            return form(x, y)
        if any(getattr(v, "dtype", None) is not None and v.dtype.kind == "c" for v in x):
            return form(x, y)
        x0, y0 = tuple(map(_dual.bottom, x)), _dual.bottom(y)
        value = _dual.bottom(form(x0, y0))
        tangent: Any = None
        recorded: list[tuple[Any, Any]] = []
        moving: list[tuple[Any, Any]] = []
        for j in places:
            try:
                second = self.form(row, "second", i * row.nin + j)
            except NoDerivative as error:
                raise NoRuleError(
                    f"{row.name} has no second derivative, since {error}{_dual.user_location()}. "
                    "Make it a constant with ndual.stop_gradient(x) in one of the two derivatives"
                ) from None
            if second is None:
                return form(x, y)
            share = _dual.bottom(second(x0, y0))
            if type(share) in (int, float) and share == 0:
                continue
            if level.recorder is not None:
                recorded.append((x[j], share))
                continue
            moving.append((share, x[j]))
        if moving and (found := self._moved(value, moving)) is not None:
            return found
        for share, dual in moving:
            t = _dual.split(dual)[1]
            ndim = max(np.ndim(value), np.ndim(share), t.ndim - 1)
            t = t.reshape(t.shape[:1] + (1,) * (ndim + 1 - t.ndim) + t.shape[1:])
            term = Storage.strong_product(self, share, t)
            tangent = term if tangent is None else tangent + term
        if recorded:
            return self._recorded(row.name, value, recorded, level)
        if tangent is None:
            return value
        if np.shape(value) != tangent.shape[1:]:
            value = np.broadcast_to(value, np.broadcast_shapes(np.shape(value), tangent.shape[1:])).copy()
            tangent = np.broadcast_to(tangent, tangent.shape[:1] + value.shape).copy()
        return _dual.wrap(value, tangent, level)

    @staticmethod
    def _moved(value: Any, shares: list[tuple[Any, Any]]) -> Any:
        """A value with the lanes of a sum of products, by the kernels of products; None where these have none."""
        total: Any = None
        for share, dual in shares:
            term = share * dual
            total = term if total is None else total + term
        cells = _dual.bottom(total)
        if type(cells) is not np.ndarray or not isinstance(value, np.ndarray):
            return None
        if cells.shape != value.shape or cells.dtype != value.dtype or not cells.ndim:
            return None
        cells[...] = value
        return total

    def _recorded(self, name: str, value: Any, shares: list[tuple[Any, Any]], level: Any) -> Any:
        """A partial as a dual of an outer level that records: its value, and its derivatives by some duals."""
        value = np.broadcast_arrays(value, *[share for _, share in shares])[0].copy()
        factors = [share for _, share in shares]

        def pull(ws: list[Any]) -> list[Any]:
            return [Storage.strong_product(self, share, ws[0]) for share in factors]

        def push(ts: list[Any]) -> list[Any]:
            parts = [
                Storage.strong_product(self, share, t) for share, t in zip(factors, ts, strict=True) if t is not None
            ]
            return [sum(parts[1:], parts[0])]

        dual = _dual.fresh(value, level)
        level.recorder.record(name, pull, [dual], [_dual.as_array(x) for x, _ in shares], [], push)
        return _dual.finished(dual, value.ndim == 0)

    def strong_product(self, factor: Any, tangent: Any) -> Any:
        """Factor * tangent with strong zeros, decided by the values at the bottom."""
        product = factor * tangent
        if np.isfinite(_dual.bottom(product)).all():
            return product
        zero = (_dual.bottom(factor) == 0) | (_dual.bottom(tangent) == 0)
        return np.where(zero, product.dtype.type(0), product)


def _there(args: tuple[Any, ...], dotted: str, function: Any) -> Any:
    """The function behind a public name where plain operands lie on a device."""
    storages = [_dual.storage_for(arg) for arg in args]
    storage = next((found for found in storages if found is not None), None)
    return function if storage is None else storage.function(dotted)


def _zeros(shape: tuple[int, ...], beside: Any) -> Any:
    """Zeros of the type of a value, where that lies."""
    storage = _dual.storage_for(_dual.bottom(beside))
    return np.zeros(shape, beside.dtype) if storage is None else storage.zeros(shape, beside.dtype)


class Namespace:
    """NumPy (or one of its parts) for rules that compute with duals of a level, on a device where it has a storage."""

    def __init__(self, level: Any, module: Any = np, storage: Any = None) -> None:
        self._level = level
        self._module = module
        self._storage = storage
        self.__name__ = module.__name__
        self.ndarray = np.ndarray

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        found = getattr(found, "original", found)  # for which a stand-in may be there
        result: Any = found
        if isinstance(found, types.ModuleType):
            result = Namespace(self._level, found, self._storage)
        elif name in FRESH and self._module is np:
            result = self._fresh(found if self._storage is None else getattr(self._storage.xp, name))
        elif name in MADE and self._module is np and self._storage is not None:
            result = getattr(self._storage.xp, name)
        elif callable(found) and not isinstance(found, (type, *DISPATCHED)):
            result = lambda *args, **kwargs: call(found, args, kwargs)  # noqa: E731
        self.__dict__[name] = result
        return result

    def beside(self, module: Any) -> Namespace:
        """Another library's functions in the same way."""
        return Namespace(self._level, module, self._storage)

    def _fresh(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            array = function(*args, **kwargs)
            if (type(array) is np.ndarray or self._storage is not None) and array.dtype.kind in "fc":
                return _dual.lazy_at(array, self._level)
            return array

        return make

    def asarray(self, obj: Any, dtype: Any = None) -> Any:
        """As NumPy's, for duals and lists of them too."""
        if isinstance(obj, list | tuple) and _dual.holds((obj,), {}):
            obj = np.stack(obj)
        if not _dual.is_dual(obj):
            return (np if self._storage is None else self._storage.xp).asarray(obj, dtype)
        if dtype is not None and obj.dtype != dtype:
            return obj.astype(dtype)
        return _dual.as_array(obj)

    def array(self, obj: Any, dtype: Any = None) -> Any:
        """As :meth:`asarray`, but always a copy."""
        return self.asarray(obj, dtype).copy()

    def ascontiguousarray(self, obj: Any) -> Any:
        """As NumPy's."""
        array = self.asarray(obj)
        if _dual.is_dual(array):
            return array.copy()
        return (np if self._storage is None else self._storage.xp).ascontiguousarray(array)


NESTED = NestedStorage(np)
