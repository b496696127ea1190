"""Names for parts of what a function reaches: the object itself, or a path such as ``model.layers[0].w``."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.objects import ITEMS, fields_of
from ndual.reached import is_empty

Found = tuple[Any, Any, Any]


class Place:
    """One thing that is differentiated: an object wherever it occurs, or what a path leads to."""

    def __init__(self, f: Callable[..., Any], given: Any) -> None:
        self._f = f
        self._path = given if isinstance(given, str) else None
        self._object = given
        if self._path is not None:
            self.name = f"{self._path!r}"
            self._first, self._steps = parsed(self._path)
            return
        self.name = f"an object of class {type(given).__name__}"
        if not is_structure(given):
            raise ArgumentTypeError(
                "wrt expects an object, list, dict or array that f reaches, or a path to something as text; got "
                f'{type(given).__name__}. A number has a path, as a string: wrt="model.rate", or the name of a variable'
            )

    def find(self) -> Found:
        """What it is now; for a number also the part that refers to it, and by which key."""
        if self._path is None:
            return self._object, None, None
        found = look(self._f, self._first)
        if found is None:
            raise ArgumentValueError(
                f"wrt={self._path!r}: expected a name from the closure, the globals, the partial or the object of f; "
                f"got {self._first!r}, which is none. Arguments of f have argnums"
            )
        owner, key, value = found
        done = self._first
        for kind, step in self._steps:
            owner, key = value, step
            written = f".{step}" if kind == "." else f"[{step!r}]"
            try:
                value = getattr(value, step) if kind == "." else value[step]
            except (AttributeError, LookupError, TypeError):
                raise ArgumentValueError(
                    f"wrt={self._path!r}: expected {done} to have {written}; got {type(owner).__name__} without it"
                ) from None
            if kind == "[" and isinstance(step, int) and step < 0 and not isinstance(owner, dict):
                key = len(owner) + step
            done += written
        if isinstance(owner, np.ndarray):
            raise ArgumentTypeError(
                f"wrt={self._path!r}: expected a whole array; got a part of one. Name the array, and take the part of "
                "its gradient"
            )
        if is_structure(value):
            return value, None, None
        if not isinstance(value, float | complex | np.inexact) and not _core.is_dual(value):
            raise ArgumentTypeError(
                f"wrt={self._path!r}: expected floats; got {type(value).__name__} {value!r:.40}. "
                "Name a float, an array of floats, or a structure with some"
            )
        return value, owner, key


def is_structure(value: Any) -> bool:
    """Whether a value is found by its identity."""
    return isinstance(value, (np.ndarray, *ITEMS)) or fields_of(value) is not None


def parsed(path: str) -> tuple[str, list[tuple[str, Any]]]:
    """The first name of a path, and the steps from there: attributes and items."""
    steps: list[tuple[str, Any]] = []
    try:
        node: Any = ast.parse(path.strip(), mode="eval").body
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                steps.insert(0, (".", node.attr))
            else:
                steps.insert(0, ("[", ast.literal_eval(node.slice)))
            node = node.value
    except (SyntaxError, AttributeError, ValueError):
        raise ArgumentValueError(
            f'wrt expects a path such as "model.layers[0].w" from a name that f uses; got {path!r}'
        ) from None
    return node.id, steps


def look(f: Any, name: str) -> Found | None:
    """The part of a function that has a name, by which key, and what it stands for."""
    if type(f) is functools.partial:
        if name in f.keywords:
            return f, name, f.keywords[name]
        try:
            names = list(inspect.signature(f.func).parameters)[: len(f.args)]
        except (TypeError, ValueError):
            names = []
        if name in names:
            i = names.index(name)
            return f, (i,), f.args[i]
        return look(f.func, name)
    if type(f) is types.MethodType:
        function = f.__func__
        if type(function) is types.FunctionType and function.__code__.co_varnames[:1] == (name,):
            return f, "self", f.__self__
        return look(function, name) or field(f.__self__, name)
    if type(f) is types.FunctionType:
        return look_in(f, name)
    call: Any = getattr(type(f), "__call__", None)  # noqa: B004 (the function is wanted, not the answer)
    if type(call) is not types.FunctionType:
        return None
    if call.__code__.co_varnames[:1] == (name,):
        return f, "", f
    return field(f, name) or look_in(call, name)


def look_in(f: types.FunctionType, name: str) -> Found | None:
    """The same for a function of Python."""
    code = f.__code__
    for variable, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        if variable == name and not is_empty(cell):
            return cell, 0, cell.cell_contents
    defaults = f.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    if name in names:
        return f, ("default", names.index(name)), defaults[names.index(name)]
    keywords = f.__kwdefaults__ or {}
    if name in keywords:
        return f, ("keyword", name), keywords[name]
    if name in f.__globals__:  # used by f or by a function that it calls: the graph knows
        return f.__globals__, name, f.__globals__[name]
    for cell in f.__closure__ or ():  # of a decorator, with the function that it stands around
        if not is_empty(cell) and type(cell.cell_contents) is types.FunctionType and cell.cell_contents is not f:
            found = look_in(cell.cell_contents, name)
            if found is not None:
                return found
    return None


def field(owner: Any, name: str) -> Found | None:
    """The same for the fields of an object."""
    fields = fields_of(owner) or {}
    return (owner, name, fields[name]) if name in fields else None
