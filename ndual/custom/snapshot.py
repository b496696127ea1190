"""Objects as they are now: what a rule sees on the way back, whatever happens to them until then."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ndual.objects import fields_of, set_fields, shell

_copies: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def snapshot(value: Any, made: dict[int, Any] | None = None) -> Any:
    """A copy of objects, lists, dicts, tuples and arrays; anything else is shared."""
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    kind = type(value)
    if kind is np.ndarray:
        return _copied(value)
    if kind is tuple:
        return tuple([snapshot(part, made) for part in value])
    if kind is list:
        made[id(value)] = parts = []
        parts.extend([snapshot(part, made) for part in value])
        return parts
    if kind is dict:
        made[id(value)] = items = {}
        items.update({key: snapshot(part, made) for key, part in value.items()})
        return items
    fields = fields_of(value)
    if not fields:
        return value
    made[id(value)] = out = shell(kind)
    set_fields(out, tuple(fields), [snapshot(part, made) for part in fields.values()])
    return out


def _copied(array: Any) -> Any:
    """A copy of an array, the one of an earlier call where nothing changed: many steps share one mesh."""
    known = _copies.get(id(array))
    if known is None or known.dtype != array.dtype or known.shape != array.shape or known.tobytes() != array.tobytes():
        known = _copies[id(array)] = array.copy()
    return known
