"""Objects with fields: dataclasses, attrs classes, plain objects, with a ``__dict__`` or with slots.

Fields are read and set as they are stored; no method, property or ``__init__`` of the user's runs here.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, defaultdict, deque
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ndual import _core
from ndual.errors import ArgumentTypeError

# Modules of Python's own whose objects stand in fields and hold no parameters: loggers, locks, dates, files, patterns.
INERT_MODULES = frozenset({
    "_asyncio", "_contextvars", "_io", "_random", "_thread", "asyncio", "concurrent", "contextvars", "datetime",
    "functools", "inspect", "io", "ipaddress", "logging", "multiprocessing", "operator", "pathlib", "random", "re",
    "select", "socket", "ssl", "subprocess", "threading", "time", "uuid", "weakref", "zoneinfo",
})  # fmt: skip
OPAQUE = INERT_MODULES | {"builtins", "numpy", "scipy", "cupy", "cupyx", "ndual"}
# What code makes for a class that says what its fields are: it calls nothing of the user's.
MADE_IN = ("<string>", "<attrs generated", dataclasses.__file__)
_quiet: WeakKeyDictionary[type, bool] = WeakKeyDictionary()
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
    elif kind.__module__.partition(".")[0] not in OPAQUE and not issubclass(kind, enum.Enum | np.ndarray):
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


def is_inert(kind: type) -> bool:
    """Whether objects of a class are constants, whatever is in them."""
    return kind.__module__.partition(".")[0] in INERT_MODULES


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


def quiet(kind: type) -> bool:
    """Whether the objects of a class run no code of the user's, whatever is done with them: they are fields alone."""
    try:
        return _quiet[kind]
    except KeyError:
        pass
    found = slots_of(kind) is not None and all(
        _is_quiet(name, member) for base in kind.__mro__[:-1] for name, member in vars(base).items()
    )
    _quiet[kind] = found
    return found


def _is_quiet(name: str, member: Any) -> bool:
    if type(member) is FunctionType:
        return member.__code__.co_filename.startswith(MADE_IN) and name != "__post_init__"
    if name == "__dataclass_fields__":
        return all(not callable(f.default_factory) or f.default_factory in (list, dict) for f in member.values())
    if name.startswith("__") and not callable(member):
        return not isinstance(member, property | classmethod | staticmethod)
    return isinstance(member, MemberDescriptorType | int | float | complex | str | bytes | type(None))


SELF = object()
"""Stands for a container that is its own ``__dict__``, so that its keys are its attributes."""

ITEMS = (list, dict, tuple, deque)


def attributes_of(value: Any) -> str:
    """What a container has beside its items, in words, so that it is not a structure; empty for a plain one."""
    kind = type(value)
    if kind in ITEMS or kind is OrderedDict or kind is defaultdict:
        return ""
    if hasattr(kind, "n_fields"):
        return "made in C"
    held = getattr(value, "__dict__", None)
    if not held or held is value or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return ""
    return f"with the attributes {', '.join(held)}"


def holds_items(value: Any, name: str) -> bool:
    """Whether a value is a list, dict, tuple or deque, or of a class of these that adds nothing but methods."""
    if not isinstance(value, ITEMS):
        return False
    other = attributes_of(value)
    if other:
        base = base_of(type(value)).__name__
        raise ArgumentTypeError(
            f"{name}: expected a {base} that holds its items alone; got {type(value).__name__} {other}. "
            f"Keep them in items, or in an object that holds the {base}"
        )
    return True


def base_of(kind: type) -> type:
    """The class of Python's that a container is built on."""
    return next(base for base in kind.__mro__ if base in ITEMS)


def extra_of(value: Any) -> Any:
    """What a container has beside its items: the default of a defaultdict, the longest length of a deque."""
    if getattr(value, "__dict__", None) is value:
        return SELF
    if isinstance(value, defaultdict):
        return value.default_factory
    return value.maxlen if isinstance(value, deque) else None


def setter_of(kind: type) -> Any:
    """What puts an item into a kind of dict, whatever its class does with one."""
    return OrderedDict.__setitem__ if issubclass(kind, OrderedDict) else dict.__setitem__


def empty(kind: type, extra: Any) -> Any:
    """A container of a class without its items; no ``__init__`` of the user's runs."""
    if kind is list or kind is dict:
        return kind()
    if issubclass(kind, deque):
        queue: Any = deque.__new__(kind)
        deque.__init__(queue, (), extra)
        return queue
    native: Any = next(base for base in kind.__mro__ if base in (OrderedDict, defaultdict, dict, list))
    made: Any = native.__new__(kind)
    if extra is SELF:
        made.__dict__ = made
    elif native is defaultdict:
        made.default_factory = extra
    return made


def plain_data(value: Any, met: set[int] | None = None) -> bool:
    """Whether a value is numbers, strings and arrays all through, so that it can run no code of the user's."""
    kind = type(value)
    if kind in (float, int, complex, bool, str, bytes, type(None), range, slice):
        return True
    if kind is np.ndarray:
        return bool(value.dtype.kind != "O")
    if isinstance(value, np.generic) or _core.is_dual(value):
        return True
    if kind in (tuple, list, deque):
        parts = value
    elif kind in (dict, OrderedDict):
        parts = value.values()
    elif quiet(kind):
        parts = (fields_of(value) or {}).values()
    else:
        return False
    met = set() if met is None else met
    if id(value) in met:
        return True
    met.add(id(value))
    return all(plain_data(part, met) for part in parts)


def has_sequences(value: Any) -> bool:
    """Whether there are lists or tuples in a structure."""
    met: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, list | tuple | deque):
            return True
        if isinstance(one, np.ndarray | np.generic | float | int | complex | str) or one is None or _core.is_dual(one):
            continue
        if id(one) not in met:
            met.add(id(one))
            left.extend((one if isinstance(one, dict) else fields_of(one) or {}).values())
    return False
