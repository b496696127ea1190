"""Forward mode: how each kind of rule is applied to dual arrays.

A rule sees plain arrays and lane-major tangents; this module takes duals apart for it and puts the result together.
What a rule means is decided in :mod:`ndual.rules`, which functions have one in :mod:`ndual.frontend`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual._core.nested import call
from ndual.errors import NoRuleError
from ndual.rules.registry import Bilinear, Composition, Linear, Passive, Rule, Structured
from ndual.rules.support import array_of, sum_of_products


def apply(rule: Rule, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `function`, whose rule this is, on arguments that hold duals."""
    _core.pool_numpy()
    if _core.debugging():
        return _core.watched_rule(rule.name, _apply, (rule, function, args, kwargs), args, kwargs)
    return _apply(rule, function, args, kwargs)


def _apply(rule: Rule, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if type(rule) is Composition:
        return _composition(rule, function, args, kwargs)
    args, kwargs = _core.constants(args), _core.constants(kwargs)
    level = _core.meet(args, kwargs)
    applied = _APPLY if level.recorder is None else level.recorder.rules
    if level.outer is None:
        return applied[type(rule)](rule, function, args, kwargs, level)
    former = _core.go_home(level.outer)
    try:
        return applied[type(rule)](rule, function, args, kwargs, level)
    finally:
        _core.go_home(former)


def _composition(rule: Composition, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return rule.body(_core.namespace(first_dual(args, kwargs)), *args, **kwargs)


def _passive(rule: Passive, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Any:
    result = function(*primals(args, rule.looks), **primals(kwargs, rule.looks))
    return _core.mark_text(result) if type(result) is str else result


def _linear(rule: Linear, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Any:
    x, rest, keywords = rule.bind(args, kwargs)
    if not _core.is_active(x, level) or first_dual(rest, keywords) is not None:
        raise _not_active(rule.name, "its array")
    xp = _core.lower_namespace(x)
    value, lanes, low = _core.split_window(x)
    if any(key.startswith("overwrite") for key in keywords):
        value = value.copy()  # which may be the caller's memory, read again in the next pass
    y = call(function, (value, *rest), keywords)
    if getattr(y, "dtype", value.dtype).kind not in "fc":
        return y
    dy = rule.lanes(xp, lanes, value, *rest, **keywords)
    if dy is None:
        _core.compared(x)
        return _core.wrap(y, xp.empty((0, *y.shape), y.dtype), level, None, 0) if y.ndim else y
    if isinstance(y, tuple | list):
        return type(y)(_core.wrap(v, t, level, (x,), low) for v, t in zip(y, dy, strict=True))
    return _core.wrap(y, dy, level, (x,), low)


def _bilinear(rule: Bilinear, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Any:
    a, b, rest, keywords = rule.bind(args, kwargs)
    (a0, a1, alow), (b0, b1, blow) = parts(a, level), parts(b, level)
    if (a1 is None and b1 is None) or first_dual(rest, keywords) is not None:
        raise _not_active(rule.name, "its two arrays")
    some = a if a1 is not None else b
    xp = _core.lower_namespace(some)
    _core.refuse_mixed(rule.name, (a, b))
    a0, b0 = xp.asarray(a0), xp.asarray(b0)
    low = blow if a1 is None else alow if b1 is None else min(alow, blow)

    def terms() -> Any:
        if a1 is None:
            return rule.lanes(xp, a0, b1, False, True, *rest, **keywords)
        lanes = rule.lanes(xp, a1, b0, True, False, *rest, **keywords)
        if b1 is None:
            return lanes
        return add(xp, lanes, alow, rule.lanes(xp, a0, b1, False, True, *rest, **keywords), blow)

    y = call(function, (a0, b0, *rest), keywords)
    return _core.wrap(y, sum_of_products(xp, terms), level, None, low)


def _structured(rule: Structured, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Any:
    arrays, params = rule.bind(args, kwargs)
    if any(type(a) in (list, tuple) and first_dual(a) is not None for a in arrays):
        xp = _core.namespace(first_dual(arrays))
        arrays = tuple(array_of(xp, a) if type(a) in (list, tuple) else a for a in arrays)
    split, some, low, high = [], None, 0, 0
    for a in arrays:
        part = parts(a, level)
        split.append(part)
        if part[1] is not None:
            low = part[2] if some is None else min(low, part[2])
            high = max(high, part[2] + len(part[1]))
            some = a if some is None else some
    if some is None or (params and first_dual(params) is not None):
        raise _not_active(rule.name, " and ".join(rule.arrays))
    xp = _core.lower_namespace(some)
    _core.refuse_mixed(rule.name, arrays)
    values = tuple([value if value is None else xp.asarray(value) for value, _, _ in split])
    lanes = tuple([t if t is None else widen(xp, t, first, low, high) for _, t, first in split])
    given = plain(args, level), plain(kwargs, level) if kwargs else kwargs
    if params and any(value is not False and key.startswith("overwrite") for key, value in params.items()):
        given = copies(given)  # the rule reads what the function would overwrite
    y = value_of(rule, xp, values, params, function, given)
    dy = rule.jvp(xp, y, values, lanes, **params)
    if isinstance(y, tuple | list):
        if any(t is None for t in dy):
            _core.compared(some)
        results = [v if t is None else _core.wrap(v, t, level, arrays, low) for v, t in zip(y, dy, strict=True)]
        return type(y)(*results) if hasattr(y, "_fields") else type(y)(results)
    return _core.wrap(y, dy, level, arrays, low)


def value_of(rule: Structured, xp: Any, x: Any, params: dict[str, Any], function: Any, given: Any) -> Any:
    """The value of a call; the parameters get what the rule keeps of it."""
    if rule.keeping is None:
        return call(function, *given)
    y, params["kept"] = rule.keeping(xp, x, **params) or (None, None)
    return call(function, *given) if y is None else y


def widen(xp: Any, t: Any, first: int, low: int, high: int) -> Any:
    """Lanes that start with number `first` as lanes low..high, zeros around them."""
    if first == low and len(t) == high - low:
        return t
    wide = xp.zeros((high - low, *t.shape[1:]), t.dtype)
    wide[first - low : first - low + len(t)] = t
    return wide


def add(xp: Any, a: Any, alow: int, b: Any, blow: int) -> Any:
    """The sum of two windows of lanes, which start at lane alow and blow, from the lower of these on."""
    if len(a) < len(b):
        a, alow, b, blow = b, blow, a, alow
    low, high = min(alow, blow), max(alow + len(a), blow + len(b))
    if high - low >= len(a) + len(b) and a.shape[1:] == b.shape[1:]:
        # No lane in common: parameters of their own on either side, and nothing to add.
        out = xp.empty((high - low, *a.shape[1:]), xp.result_type(a, b))
        out[alow - low : alow - low + len(a)] = a
        out[blow - low : blow - low + len(b)] = b
        out[min(alow + len(a), blow + len(b)) - low : max(alow, blow) - low] = 0
        return out
    a = widen(xp, a, alow, low, high)
    fits = a.dtype == b.dtype or a.dtype == xp.result_type(a, b)
    if fits and getattr(a.flags, "writeable", True) and a.shape[1:] == b.shape[1:]:
        part = a if len(b) == high - low else a[blow - low : blow - low + len(b)]
        part += b
        return a
    return a + widen(xp, b, blow, low, high)


def parts(obj: Any, level: Any) -> tuple[Any, Any, int]:
    """The value of an operand, the lanes that can be other than zero, and the number of the first; None if constant."""
    return _core.split_window(obj) if _core.is_active(obj, level) else (obj, None, 0)


def primals(obj: Any, looks: bool) -> Any:
    """Arguments with every dual replaced by its primal, which decides something if the function `looks`."""
    if type(obj) in (tuple, list):
        return type(obj)(primals(item, looks) for item in obj)
    if type(obj) is dict:
        return {key: primals(item, looks) for key, item in obj.items()}
    return _core.compared(obj) if looks else _core.bottom(obj)


def plain(obj: Any, level: Any) -> Any:
    """Arguments with every dual of a level replaced by its value one level down."""
    if _core.is_active(obj, level):
        value = _core.lowered_view(_core.as_array(obj))
        return value if value.ndim else value[()]
    if type(obj) in (tuple, list):
        return type(obj)(plain(item, level) for item in obj)
    if type(obj) is dict:
        return {key: plain(item, level) for key, item in obj.items()}
    return obj


def copies(obj: Any) -> Any:
    """Arguments with every array replaced by a copy of the same layout."""
    if type(obj) in (tuple, list):
        return type(obj)(copies(item) for item in obj)
    if type(obj) is dict:
        return {key: copies(item) for key, item in obj.items()}
    return obj.copy("K") if isinstance(obj, np.ndarray) else obj


def first_dual(*objs: Any) -> Any:
    """The first dual in nested arguments, or None."""
    for obj in objs:
        if _core.is_dual(obj):
            return obj
        if type(obj) in (tuple, list, dict):
            found = first_dual(*(obj.values() if type(obj) is dict else obj))
            if found is not None:
                return found
    return None


def _not_active(name: str, where: str) -> NoRuleError:
    return NoRuleError(
        f"{name} has a derivative with respect to {where} only; got a dual in another argument"
        f"{_core.user_location()}. Make that one a constant with ndual.stop_gradient(x)"
    )


_APPLY: dict[type, Callable[..., Any]] = {
    Passive: _passive,
    Linear: _linear,
    Bilinear: _bilinear,
    Structured: _structured,
}
