"""Everything that a function reaches without being given it: closures, globals, partials, the objects of methods.

A graph is found without running anything of the user's; what is in it, and what is passed over, is said in its parts.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from ndual.frontend._gate import is_library
from ndual.objects import ITEMS, attributes_of, fields_of

# Methods that run where an object is made or shown, and not where it is used.
MAKERS = frozenset({"__init__", "__post_init__", "__new__", "__repr__", "__str__", "__init_subclass__", "__set_name__"})
LOAD_GLOBAL, EXTENDED = dis.opmap["LOAD_GLOBAL"], dis.opmap["EXTENDED_ARG"]
METHOD = "method"
"""The key of the functions of an object's class."""


class Graph:
    """The parts by their identity, and what each part refers to, by a key."""

    def __init__(self, root: Any) -> None:
        self.parts: dict[int, Any] = {}
        self.links: dict[int, list[tuple[Any, Any]]] = {}
        self.arrays: list[np.ndarray] = []
        self._globals: set[tuple[int, str]] = set()  # that are named by code
        self._objects: list[Any] = []
        self._names: set[str] = set()
        self._visit([root])
        seen = 0
        # Methods that code somewhere in here may call. These name others in turn.
        while seen != len(self.parts):
            seen = len(self.parts)
            for part in list(self._objects):
                self._visit(self._methods(part))

    def _visit(self, stack: list[Any]) -> None:
        while stack:
            part = stack.pop()
            if id(part) in self.parts:
                continue
            self.parts[id(part)] = part
            links = self.links[id(part)] = list(self._links(part))
            stack.extend(child for _, child in links if has_parts(child))

    def has(self, owner: Any, key: Any) -> bool:
        """Whether a part, or the globals of one, refers to something by a key."""
        if type(key) is str and (id(owner), key) in self._globals:
            return True
        return any(type(key) is type(other) and key == other for other, _ in self.links.get(id(owner), ()))

    def _links(self, part: Any) -> Iterator[tuple[Any, Any]]:
        kind = type(part)
        if isinstance(part, np.ndarray):
            self.arrays.append(part)
        elif kind is types.FunctionType:
            yield from ((("cell", i), cell) for i, cell in enumerate(part.__closure__ or ()))
            yield from ((("default", i), value) for i, value in enumerate(part.__defaults__ or ()))
            yield from ((("keyword", key), value) for key, value in (part.__kwdefaults__ or {}).items())
            used, called = names_of(part.__code__)
            self._names |= called
            scope = part.__globals__
            self._globals |= {(id(scope), name) for name in used}
            yield from ((("global", name), scope[name]) for name in used if name in scope)
        elif kind is types.CellType:
            yield from () if is_empty(part) else ((0, part.cell_contents),)
        elif kind is types.MethodType:
            yield "self", part.__self__
            yield "function", part.__func__
        elif kind is functools.partial:
            yield "function", part.func
            yield from (((i,), value) for i, value in enumerate(part.args))
            yield from part.keywords.items()
        elif isinstance(part, dict):
            yield from part.items()
        elif isinstance(part, ITEMS):
            yield from enumerate(part)
        else:
            self._objects.append(part)
            yield from (fields_of(part) or {}).items()

    def _methods(self, part: Any) -> list[Any]:
        """Functions of the class of an object that may be called, linked to it now."""
        links = self.links[id(part)]
        known = {id(child) for key, child in links if key == METHOD}
        fresh = []
        for base in type(part).__mro__:
            for name, member in vars(base).items():
                special = name.startswith("__") and name not in MAKERS
                for function in functions_of(member):
                    if (special or name in self._names) and id(function) not in known and is_of_user(function):
                        links.append((METHOD, function))
                        fresh.append(function)
        return fresh


def functions_of(member: Any) -> list[types.FunctionType]:
    """The functions that an attribute of a class runs."""
    if isinstance(member, property):
        found = [member.fget]
    elif isinstance(member, functools.cached_property):
        found = [member.func]
    else:
        found = [member.__func__ if isinstance(member, staticmethod | classmethod) else member]
    return [function for function in found if type(function) is types.FunctionType]


def is_empty(cell: types.CellType) -> bool:
    """Whether a variable of a closure has no value yet."""
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def is_of_user(function: types.FunctionType) -> bool:
    """Whether a function is neither of a library with rules nor of Python's own."""
    module = function.__module__ or ""
    return not is_library(module) and (module == "__main__" or module.partition(".")[0] not in sys.stdlib_module_names)


def has_parts(value: Any) -> bool:
    """Whether a value is looked into."""
    kind = type(value)
    if kind is types.FunctionType:
        return is_of_user(value)
    if kind in (types.CellType, types.MethodType, functools.partial, types.SimpleNamespace):
        return True
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, ITEMS):
        return not attributes_of(value)
    root = kind.__module__.partition(".")[0]
    return (root == "__main__" or root not in sys.stdlib_module_names) and fields_of(value) is not None


@functools.lru_cache(1024)
def names_of(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals that code reads, and the names of all that it may call."""
    used, called, extended = set(), set(code.co_names), 0
    for step, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = extended | arg
        extended = number << 8 if step == EXTENDED else 0
        if step == LOAD_GLOBAL:  # the lowest bit says that it is called
            used.add(code.co_names[number >> 1])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_of(constant)
            used |= inner[0]
            called |= inner[1]
    return frozenset(used), frozenset(called)
