"""Objects with fields: dataclasses, attrs classes, plain objects, with a ``__dict__`` or with slots.

Fields are read and set as they are stored; no method, property or ``__init__`` of the user's runs here.
"""

from __future__ import annotations

import enum
from types import MemberDescriptorType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

LIBRARIES = frozenset({"builtins", "numpy", "scipy", "cupy", "cupyx", "ndual"})
_slots: WeakKeyDictionary[type, tuple[str, ...] | None] = WeakKeyDictionary()


def slots_of(kind: type) -> tuple[str, ...] | None:
    """The slots of a class; None for a class whose instances are not fields alone."""
    try:
        return _slots[kind]
    except KeyError:
        pass
    found: tuple[str, ...] | None = None
    if kind is SimpleNamespace:
        found = ()
    elif kind.__module__.partition(".")[0] not in LIBRARIES and not issubclass(kind, enum.Enum | np.ndarray):
        try:
            object.__new__(kind)
            found = tuple(
                name
                for base in reversed(kind.__mro__)
                for name, member in vars(base).items()
                if type(member) is MemberDescriptorType
            )
        except TypeError:  # made in C, with state that is no field
            pass
    _slots[kind] = found
    return found


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of an object, in order; None for what is no object of fields."""
    slots = slots_of(type(value))
    if slots is None:
        return None
    if not slots:
        return dict(value.__dict__) if hasattr(value, "__dict__") else {}
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    found.update(getattr(value, "__dict__", ()))
    return found


def shell(kind: type) -> Any:
    """An object of a class without its fields."""
    return SimpleNamespace() if kind is SimpleNamespace else object.__new__(kind)


def set_fields(value: Any, names: tuple[str, ...], contents: list[Any]) -> None:
    """Set fields, of a frozen class too."""
    slots = slots_of(type(value))
    if not slots:
        value.__dict__.update(zip(names, contents, strict=True))
        return
    for name, content in zip(names, contents, strict=True):
        if name in slots:
            object.__setattr__(value, name, content)
        else:
            value.__dict__[name] = content
