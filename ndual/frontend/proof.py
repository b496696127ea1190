"""A static proof that a function reaches nothing that would have to be intercepted.

What a function can reach are the globals, closure cells, defaults and module attributes that its code names, and what
those functions reach in turn. Whatever is not understood fails the proof; nothing is guessed and nothing is run.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend._gate import Gate, is_library

DATA = (int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, np.generic, np.dtype)
# Types and functions of Python that call nothing but the protocols of their arguments.
SAFE_NAMES = """
ArithmeticError AssertionError Ellipsis Exception False FloatingPointError IndexError KeyError None NotImplemented
NotImplementedError OverflowError RuntimeError True TypeError ValueError ZeroDivisionError
abs all any bool callable complex dict divmod enumerate filter float format frozenset hash id int isinstance issubclass
iter len list map max min next pow print range repr reversed round set slice sorted str sum tuple type zip
"""
SAFE_BUILTINS = frozenset(SAFE_NAMES.split())
FORBIDDEN = frozenset(dis.opmap[name] for name in ("IMPORT_NAME", "LOAD_BUILD_CLASS", "STORE_GLOBAL", "DELETE_GLOBAL"))
PURE_MODULES = frozenset({"math", "cmath", "operator", "itertools", "functools", "builtins"})
DISPATCHED = type(np.sum)
MISSING = object()


class Proof:
    """The outcome: whether it holds, on which facts, which namespaces were seen, whether random numbers are drawn."""

    def __init__(self, function: Any, intercepted: Mapping[int, Any]) -> None:
        self.holds = True
        self.random = False
        self.facts: list[tuple[Any, Any, Any]] = []
        self.namespaces: list[dict[str, Any]] = []
        self._intercepted = intercepted
        self._seen: set[Any] = set()
        if type(function) is types.FunctionType:
            self._function(function)
        else:
            self._value(function, ())
        if not self.holds:
            self.random = True

    def _fail(self) -> None:
        # The walk goes on, for the namespaces.
        self.holds = False

    def _function(self, f: types.FunctionType) -> None:
        if id(f) in self._seen:
            return
        self._seen.add(id(f))
        if not any(f.__globals__ is scope for scope in self.namespaces):
            self.namespaces.append(f.__globals__)
        for cell in f.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                self._fail()
            else:
                self.facts.append((cell, None, content))
                self._value(content, f.__code__.co_names)
        for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self._value(default, f.__code__.co_names)
        self._code(f.__code__, f.__globals__)

    def _code(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        if not FORBIDDEN.isdisjoint(code.co_code[::2]):
            self._fail()
        for name in code.co_names:
            value = scope.get(name, MISSING)
            # None stands for a missing name; a name bound to None is never a reason for a gate.
            self.facts.append((scope, name, None if value is MISSING else value))
            if value is not MISSING:
                self._value(value, code.co_names)
            elif hasattr(builtins, name):
                self.facts.append((vars(builtins), name, getattr(builtins, name)))
                if name not in SAFE_BUILTINS:
                    self._fail()
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, scope)

    def _value(self, value: Any, names: tuple[str, ...]) -> None:
        kind = type(value)
        if id(value) in self._intercepted or kind is Gate:
            self._fail()
        elif isinstance(value, (*DATA, np.ufunc)) or kind is DISPATCHED or _core.is_dual(value):
            return
        elif kind is np.ndarray:
            if value.dtype.kind == "O":
                self._fail()
        elif kind is tuple:
            for item in value:
                self._value(item, names)
        elif kind is types.ModuleType:
            self._module(value, names)
        elif kind is types.FunctionType:
            module = value.__module__ or ""
            if not is_library(module):
                self._function(value)
            elif not module.startswith("numpy."):
                # SciPy's Python code may come to an open module, or to a function with a rule.
                self._fail()
        elif isinstance(value, type):
            if value.__module__ != "numpy" and getattr(builtins, value.__name__, None) is not value:
                self._fail()
        elif kind is functools.partial:
            for item in (value.func, *value.args, *value.keywords.values()):
                self._value(item, names)
        else:
            self._object(value, kind, names)

    def _object(self, value: Any, kind: type, names: tuple[str, ...]) -> None:
        if kind is types.BuiltinFunctionType or kind is types.MethodType:
            owner = value.__self__
            if isinstance(owner, np.random.RandomState):
                self.random = True
            elif isinstance(owner, np.random.Generator):
                return
            elif kind is types.MethodType:
                self._fail()
                self._value(value.__func__, names)
            elif not (owner is None or isinstance(owner, types.ModuleType)) or not known(value.__module__):
                self._fail()
        elif isinstance(value, np.random.Generator):
            return
        else:
            self._fail()
            call = getattr(kind, "__call__", None)  # noqa: B004 (the function is wanted, not the answer)
            if isinstance(call, types.FunctionType):
                self._function(call)

    def _module(self, module: types.ModuleType, names: tuple[str, ...]) -> None:
        key = (id(module), names)
        if key in self._seen:
            return
        self._seen.add(key)
        scope = vars(module)
        name = module.__name__
        if name.startswith("numpy.random"):
            self.random = True
            return
        lazy = "__getattr__" in scope
        for attribute in names:
            value = scope.get(attribute, MISSING)
            if value is MISSING and lazy and name.partition(".")[0] != "numpy":
                # A lazy module (SciPy's top level is one) may produce the attribute when asked for it.
                if name != "scipy" or attribute in dir(module):
                    self._fail()
            elif value is not MISSING:
                self.facts.append((scope, attribute, value))
                self._value(value, names)


def known(module: str | None) -> bool:
    """Whether builtin functions of a module call nothing of the user's but what they are given."""
    return module is not None and (module in PURE_MODULES or is_library(module))
