"""Reverse mode: how each kind of rule is recorded, and what its pullback is.

A rule sees plain arrays and the cotangents of its results; what it means is decided in :mod:`ndual.rules`, as for
forward mode. Only what a pullback reads is kept: of an operand that enters linearly, its shape and type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual._core.nested import call
from ndual.reverse._tape import Tape, shape_alone
from ndual.rules import registry
from ndual.rules.registry import Bilinear, Linear, Rule, Structured
from ndual.rules.support import array_of, sum_of_products

Result = Any
OBJECT = np.dtype(object)


def like(x: Any) -> Any:
    """An array of the shape and type of x that takes no memory."""
    return shape_alone(np.shape(_core.bottom(x)), x.dtype)


def nothing(x: Any) -> Any:
    """Zeros of the shape and type of x, where it lies, that take no memory."""
    storage = _core.storage_for(_core.bottom(x))
    return like(x) if storage is None else storage.xp.broadcast_to(storage.zeros((), x.dtype), x.shape)


def _finish(
    rule: Rule, y: Any, level: Any, pull: Callable[..., Any], push: Callable[..., Any], targets: list[Any],
    saved: list[Any],
) -> Result:  # fmt: skip
    """Results as duals of the level, with an entry that takes their cotangents to the targets, and tangents back.

    ``pull(w, *saved)`` gets the cotangent of the result, a list of them where there are several; ``push(ts, *saved)``
    gets those tangents of the targets, one lane each, that are not zero, and returns that of the result in one lane.
    """
    several = isinstance(y, tuple | list)
    parts = [np.asarray(part)[()] if type(part) in (float, complex) else part for part in (y if several else (y,))]
    floats = [getattr(part, "dtype", OBJECT).kind in "fc" for part in parts]
    duals = [_core.fresh(part, level) if f else None for part, f in zip(parts, floats, strict=True)]
    if all(dual is None for dual in duals):
        return y
    zeros = [nothing(part) if f else None for part, f in zip(parts, floats, strict=True)] if several else []

    def function(ws: list[Any], *kept: Any) -> Any:
        if not several:
            return pull(ws[0], *kept)
        return pull([zero if w is None else w for w, zero in zip(ws, zeros, strict=True)], *kept)

    def forward(ts: list[Any], *kept: Any) -> list[Any]:
        found = push([None if t is None else t[None] for t in ts], *kept)
        return [None if t is None else t[0] for t in (found if several else [found])]

    # Functions of the user's may keep the arrays that they return, and write to them later.
    lends = registry.RULES.get(rule.name) is rule
    level.recorder.record(rule.name, _home(function, level), duals, targets, saved, _home(forward, level), lends=lends)
    results = [
        part if dual is None else _core.finished(dual, not isinstance(_core.bottom(part), np.ndarray))
        for part, dual in zip(parts, duals, strict=True)
    ]
    if not several:
        return results[0]
    return type(y)(*results) if hasattr(y, "_fields") else type(y)(results)


def _home(function: Callable[..., Any], level: Any) -> Callable[..., Any]:
    """A pullback as one whose own arrays belong to the derivative around this one, if there is one."""
    if level.outer is None:
        return function

    def pull(*args: Any) -> Any:
        former = _core.go_home(level.outer)
        try:
            return function(*args)
        finally:
            _core.go_home(former)

    return pull


def _linear(rule: Linear, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Result:
    x, rest, keywords = rule.bind(args, kwargs)
    if not _core.is_active(x, level) or forward.first_dual(rest, keywords) is not None:
        raise forward._not_active(rule.name, "its array")
    xp = _core.lower_namespace(x)
    array = _core.as_array(x)
    value = _core.lowered_view(array)
    if any(key.startswith("overwrite") for key in keywords):
        value = value.copy()
    y = call(function, (value, *rest), keywords)
    if getattr(y, "dtype", value.dtype).kind not in "fc":
        return y
    view = _core.view_among_lower(array, y)
    if view is not None:
        return view
    transpose = rule.transpose
    if transpose is None:
        _core.compared(x)
        return y
    rest, keywords = forward.copies((rest, keywords))

    def pull(w: Any) -> Any:
        return (transpose(xp, w, value, *rest, **keywords),)  # of the value, it looks at shape, type and layout

    def push(ts: list[Any]) -> Any:
        return rule.lanes(xp, ts[0], value, *rest, **keywords)

    return _finish(rule, y, level, pull, push, [array], [])


def _bilinear(rule: Bilinear, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Result:
    a, b, rest, keywords = rule.bind(args, kwargs)
    active = _core.is_active(a, level), _core.is_active(b, level)
    if not any(active) or forward.first_dual(rest, keywords) is not None:
        raise forward._not_active(rule.name, "its two arrays")
    xp = _core.lower_namespace(a if active[0] else b)
    _core.refuse_mixed(rule.name, (a, b))
    operands = [_core.as_array(o) if is_on else xp.asarray(o) for o, is_on in zip((a, b), active, strict=True)]
    values = [_core.lowered_view(o) if is_on else o for o, is_on in zip(operands, active, strict=True)]
    y = call(function, (*values, *rest), keywords)
    # The cotangent of one factor reads the other one.
    saved = [operands[i] if active[1 - i] else like(values[i]) for i in (0, 1)]
    rest, keywords = forward.copies((rest, keywords))

    def pull(w: Any, a: Any, b: Any) -> Any:
        return [rule.transposes[i](xp, w, a, b, *rest, **keywords) for i in (0, 1) if active[i]]

    def push(ts: list[Any], a: Any, b: Any) -> Any:
        left, right = (ts[0] if active[0] else None, ts[-1] if active[1] else None)

        def terms() -> Any:
            found = None if left is None else rule.lanes(xp, left, b, True, False, *rest, **keywords)
            if right is None:
                return found
            more = rule.lanes(xp, a, right, False, True, *rest, **keywords)
            return more if found is None else found + more

        return sum_of_products(xp, terms)

    targets = [o for o, is_on in zip(operands, active, strict=True) if is_on]
    return _finish(rule, y, level, pull, push, targets, saved)


def _structured(rule: Structured, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Any) -> Result:
    arrays, params = rule.bind(args, kwargs)
    if any(type(a) in (list, tuple) and forward.first_dual(a) is not None for a in arrays):
        xp = _core.namespace(forward.first_dual(arrays))
        arrays = tuple(array_of(xp, a) if type(a) in (list, tuple) else a for a in arrays)
    active = [_core.is_active(a, level) for a in arrays]
    if not any(active) or forward.first_dual(params) is not None:
        raise forward._not_active(rule.name, " and ".join(rule.arrays))
    xp = _core.lower_namespace(arrays[active.index(True)])
    _core.refuse_mixed(rule.name, arrays)
    operands: list[Any] = [
        _core.as_array(a) if is_on else a if a is None else xp.asarray(a)
        for a, is_on in zip(arrays, active, strict=True)
    ]
    given = forward.plain(args, level), forward.plain(kwargs, level)
    if any(value is not False and key.startswith("overwrite") for key, value in params.items()):
        given = forward.copies(given)
    values: list[Any] = []
    if rule.keeping is not None:
        values = [_core.lowered_view(o) if is_on else o for o, is_on in zip(operands, active, strict=True)]
    y = forward.value_of(rule, xp, values, params, function, given)
    several = isinstance(y, tuple | list)
    if not several:
        for k, operand in enumerate(operands):
            view = _core.view_among_lower(operand, y) if active[k] else None
            if view is not None:
                return view
    count = len(y) if several else 1
    params = forward.copies(params)
    wanted = {"active": tuple(active)} if rule.selective else {}

    def pull(w: Any, *kept: Any) -> Any:
        results = kept[:count] if several else kept[0]
        if several:
            results = type(y)(*results) if hasattr(y, "_fields") else type(y)(results)
        found = rule.vjp(xp, w, results, kept[count:], **params, **wanted)
        return [g for g, is_on in zip(found, active, strict=True) if is_on]

    def push(ts: list[Any], *kept: Any) -> Any:
        results = kept[:count] if several else kept[0]
        if several:
            results = type(y)(*results) if hasattr(y, "_fields") else type(y)(results)
        given = iter(ts)
        lanes = tuple(next(given) if is_on else None for is_on in active)
        return rule.jvp(xp, results, kept[count:], lanes, **params)

    targets = [o for o, is_on in zip(operands, active, strict=True) if is_on]
    return _finish(rule, y, level, pull, push, targets, [*(y if several else (y,)), *operands])


RULES: dict[type[Rule], Callable[..., Any]] = {
    **forward._APPLY,
    Linear: _linear,
    Bilinear: _bilinear,
    Structured: _structured,
}


def tape() -> Tape:
    """A fresh tape for one run of a function."""
    return Tape(RULES, registry.RULES["numpy.matmul"])
