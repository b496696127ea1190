"""What a function can reach, found out without running it: whether anything there would have to be intercepted.

That is the globals, closure cells, defaults and module attributes that its code names, and what those functions reach
in turn. Whatever is not understood fails the proof; nothing is guessed.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual._core._dual import Site
from ndual.frontend import devices
from ndual.frontend._gate import Gate, TypeGate, is_library
from ndual.frontend.routines import is_routine
from ndual.frontend.rows import RowFunction

DATA = (int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, np.generic, np.dtype, RowFunction)
# Types and functions of Python that call nothing but the protocols of their arguments.
SAFE_NAMES = """
ArithmeticError AssertionError Ellipsis Exception False FloatingPointError IndexError KeyError None NotImplemented
NotImplementedError OverflowError RuntimeError True TypeError ValueError ZeroDivisionError
abs all any bool callable complex dict divmod enumerate filter float format frozenset hash id int isinstance issubclass
iter len list map max min next pow print range repr reversed round set slice sorted str sum tuple type zip
"""
SAFE_BUILTINS = frozenset(SAFE_NAMES.split())
FORBIDDEN = frozenset(dis.opmap[name] for name in ("IMPORT_NAME", "LOAD_BUILD_CLASS", "STORE_GLOBAL", "DELETE_GLOBAL"))
# Instructions, names and keywords by which code writes into an array. Python 3.11 has one instruction for all binary
# operators; those in place have the numbers from 13 on.
IN_PLACE = ("STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR")
WRITING = frozenset(code for name, code in dis.opmap.items() if name.startswith("INPLACE_") or name in IN_PLACE)
BINARY_OP = dis.opmap.get("BINARY_OP", -1)
# Instructions that load by name. The lowest bit of the argument of LOAD_GLOBAL says that what this and the LOAD_ATTR
# right behind it give is called; from Python 3.12 on LOAD_ATTR has a bit of its own.
LOAD_GLOBAL, LOAD_ATTR, LOAD_NAME = (dis.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_NAME"))
ATTRIBUTES = frozenset(code for name, code in dis.opmap.items() if name in ("LOAD_ATTR", "LOAD_METHOD"))
ATTR_MARKED = sys.version_info >= (3, 12)
EXTENDED = dis.opmap["EXTENDED_ARG"]
PASSED = (EXTENDED, dis.opmap.get("CACHE", 0))
# What makes lists and tuples, which NumPy's protocols do not look into.
MAKERS = ("BUILD_LIST", "LIST_APPEND", "LIST_EXTEND", "UNPACK_EX")
BUILDING = frozenset(code for name, code in dis.opmap.items() if name in MAKERS)
# Functions and methods that hand out lists or tuples of what they are given.
MAKER_NAMES = """
batched combinations enumerate items list pairwise permutations product sorted tuple zip zip_longest
"""
SEQUENCES = frozenset(MAKER_NAMES.split())
RETURN = dis.opmap["RETURN_VALUE"]
TUPLES = frozenset(code for name, code in dis.opmap.items() if name in ("BUILD_TUPLE", "LIST_TO_TUPLE"))
INDEXING = frozenset(
    code for name, code in dis.opmap.items() if name in ("BINARY_SUBSCR", "STORE_SUBSCR", "RETURN_VALUE", "BUILD_MAP")
)
# They take shapes: what they make matters only where something is written into it.
SHAPED = (np.zeros, np.ones, np.empty, np.eye, np.identity, np.tri)
# They take arrays, and NumPy hands over those that are duals, as all are that come from the arguments.
LIKE = (np.zeros_like, np.ones_like, np.empty_like, np.copy)
WRITER_NAMES = """
__iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __ior__ __ipow__ __irshift__ __isub__
__itruediv__ __ixor__ __setitem__ at copyto fill fill_diagonal itemset nan_to_num out overwrite_a overwrite_b
overwrite_c overwrite_x
overwrite_y partition permuted place put put_along_axis putmask resize setfield setflags setitem shuffle sort
"""
WRITERS = frozenset(WRITER_NAMES.split())
# Keywords of NumPy's functions that its protocols do not look at.
HIDDEN = frozenset({"initial", "left", "right", "default"})
PURE_MODULES = frozenset({"math", "cmath", "operator", "itertools", "functools", "builtins"})
DISPATCHED = type(np.sum)
MISSING = object()

GateOf = Callable[[Any], Any]
SiteAt = Callable[[Any, str | None, Any, Any], Site | None]


class Proof:
    """The outcome.

    `holds`: nothing needs interception, as long as `facts` do. `known`: everything was understood, so that gates are
    needed at `sites` alone. `shorts`: where gates spare NumPy's protocols. `random`: random numbers may be drawn.
    `writes`: an array that is handed over may be written into. `namespaces`: the globals that were seen.
    """

    def __init__(self, function: Any, gate_of: GateOf, lists_of: GateOf, site: SiteAt, lists: bool = False) -> None:
        self.holds = self.known = True
        self.random = self.writes = False
        self.facts: list[tuple[Any, Any, Any]] = []
        self.sites: list[Site] = []
        self.shorts: list[Site] = []
        self.namespaces: list[dict[str, Any]] = []
        self._gate_of = gate_of
        self._lists_of = lists_of
        self._lists = lists
        self._outermost = getattr(function, "__code__", None)
        self._shaped: list[tuple[Any, Any, Any]] = []
        self._like: list[tuple[Any, Any, Any]] = []
        self._older = False  # whether there are arrays that do not come from the arguments
        self._open: list[tuple[Any, Any]] = []
        self._values: set[str] = set()  # names that are not called on the spot
        self._site = site
        self._seen: set[Any] = set()
        self._names: set[str] = set()
        self._handed: list[types.ModuleType] = []  # modules that are more than the owners of an attribute
        if type(function) is types.FunctionType:
            self._function(function)
        else:
            self._value(function, (), None)
        for module in self._handed:  # whoever got it may take any of the names from it
            self._module(module, tuple(sorted(self._names)))
        if not self.known:
            self.random = self.writes = True
        if self.writes:
            for needed in (*self._shaped, *(self._like if self._older or self.random or not self.known else ())):
                self._needs(*needed)
        if self._lists:
            for place, value in self._open:
                gate = lists_of(value)
                if gate is not None:
                    self._needs(place, value, gate)
        elif self.known:
            self._spare()

    def _spare(self) -> None:
        """Gates for functions that are called and nothing else: what asks for their type, or keeps them, sees them."""
        for (scope, name), value in self._open:
            gate = self._lists_of(value)
            if gate is None or gate.short is None or name in self._values:
                continue
            site = self._site(scope, name, value, gate)
            if site is not None and site not in self.shorts:
                self.shorts.append(site)

    def _fail(self) -> None:
        # The walk goes on, for the namespaces.
        self.holds = self.known = False

    def _needs(self, place: tuple[Any, str | None] | None, value: Any, gate: Any) -> None:
        """A gate must stand in for a value while the function runs."""
        if place is None:
            self.holds = self.known = False
            return
        site = self._site(*place, value, gate)
        if site is not None:  # it is not there for good
            self.holds = False
            self.sites.append(site)

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
                self.facts.append((cell, None, _original(content)))
                self._value(content, f.__code__.co_names, (cell, None))
                if isinstance(content, types.ModuleType):
                    self._handed.append(content)
        for key, default in (f.__kwdefaults__ or {}).items():
            self._value(default, f.__code__.co_names, (f.__kwdefaults__, key))
        defaults = f.__defaults__ or ()
        gates = tuple(self._gate_of(default) for default in defaults)
        for default, gate in zip(defaults, gates, strict=True):
            if gate is None:
                self._value(default, f.__code__.co_names, None)
        if any(gate is not None for gate in gates):
            fresh = tuple(d if g is None else g for d, g in zip(defaults, gates, strict=True))
            self._needs((f, "__defaults__"), defaults, fresh)
        self._code(f.__code__, f.__globals__)

    def _code(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        steps = code.co_code
        self._names.update(code.co_names)
        self._values |= _values(code)
        if not FORBIDDEN.isdisjoint(steps[::2]):
            self._fail()
        if not is_library(scope.get("__name__") or ""):
            self._lists |= _builds_lists(code, code is not self._outermost)
        if not self.writes:
            self.writes = not WRITING.isdisjoint(steps[::2]) or not WRITERS.isdisjoint(code.co_names)
            self.writes |= any(
                step == BINARY_OP and arg >= 13 for step, arg in zip(steps[::2], steps[1::2], strict=True)
            )
        loose = _alone(code)
        for name in code.co_names:
            value = scope.get(name, MISSING)
            if name in loose and isinstance(value, types.ModuleType):
                self._handed.append(value)
            # None stands for a missing name; a name bound to None is never a reason for a gate.
            self.facts.append((scope, name, None if value is MISSING else _original(value)))
            if value is not MISSING:
                self._value(value, code.co_names, (scope, name))
            elif hasattr(builtins, name):
                self.facts.append((vars(builtins), name, getattr(builtins, name)))
                if name not in SAFE_BUILTINS:
                    self._fail()
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, scope)
            elif type(constant) is tuple and constant and type(constant[0]) is str:  # the names of keywords
                self.writes |= not WRITERS.isdisjoint(constant)
                self._lists |= not HIDDEN.isdisjoint(constant)

    def _value(self, value: Any, names: tuple[str, ...], place: tuple[Any, str | None] | None) -> None:
        kind = type(value)
        gate = self._gate_of(value)
        if gate is not None:
            if gate.original in SHAPED:
                self._shaped.append((place, value, gate))
            elif gate.original in LIKE:
                self._like.append((place, value, gate))
            else:
                self._needs(place, value, gate)
                self.writes |= is_routine(gate.original)
            if kind is np.vectorize:
                self._value(value.pyfunc, names, None)
            elif kind is types.FunctionType and not is_library(value.__module__ or ""):
                self._function(value)  # which runs where its rule is not asked for
            elif (getattr(gate.original, "__module__", None) or "").startswith("scipy.interpolate"):
                self._fail()  # the call of what it makes is in no namespace
        elif kind is Gate or kind is TypeGate:
            self._fail()
        elif kind in devices.UFUNCS:
            return
        elif isinstance(value, np.ufunc) or kind is DISPATCHED:
            if place is not None:
                self._open.append((place, value))
        elif isinstance(value, DATA) or _core.is_dual(value):
            return
        elif kind is np.ndarray:
            self._older = True
            if value.dtype.kind == "O":
                self._fail()
        elif kind is tuple:
            for item in value:
                self._value(item, names, None)
        elif isinstance(value, types.ModuleType):
            self._module(value, names)
        elif kind is types.FunctionType:
            module = value.__module__ or ""
            if not is_library(module):
                self._function(value)
            elif not module.startswith("numpy."):
                # SciPy's Python code may come to an open module, or to a function with a rule.
                self._fail()
        elif value is np.frompyfunc:
            self._fail()
        elif isinstance(value, type):
            if value.__module__ != "numpy" and getattr(builtins, value.__name__, None) is not value:
                self._fail()
        elif kind is functools.partial:
            for item in (value.func, *value.args, *value.keywords.values()):
                self._value(item, names, None)
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
                self._value(value.__func__, names, None)
            elif not (owner is None or isinstance(owner, types.ModuleType)) or not known(value.__module__):
                self._fail()
        elif isinstance(value, np.random.Generator):
            return
        else:
            self._fail()
            call = getattr(kind, "__call__", None)  # noqa: B004 (the function is wanted, not the answer)
            if isinstance(call, types.FunctionType) and not is_library(call.__module__ or ""):
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
                    part = getattr(module, attribute, None) if name == "scipy" else None
                    if isinstance(part, types.ModuleType):
                        self._module(part, names)
                    else:
                        self._fail()
            elif value is not MISSING:
                self.facts.append((scope, attribute, _original(value)))
                self._value(value, names, (scope, attribute))


def _steps(code: types.CodeType) -> Iterator[tuple[int, int]]:
    """The instructions of code that do something, with their arguments."""
    extended = 0
    for step, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = extended | arg
        extended = number << 8 if step == EXTENDED else 0
        if step not in PASSED:
            yield step, number


def _values(code: types.CodeType) -> set[str]:
    """The names whose objects code takes for more than a call: ``f(np.sin)``, ``np.add.reduce``."""
    found = set()
    call = 0
    last = None  # the name that was loaded just before
    for step, number in _steps(code):
        if last is not None and (step == LOAD_ATTR or not call):
            found.add(last)
        if step == LOAD_GLOBAL or (step == LOAD_ATTR and ATTR_MARKED):
            last, call = code.co_names[number >> 1], number & 1
        elif step == LOAD_ATTR:
            call &= last is not None
            last = code.co_names[number]
        elif step == LOAD_NAME:
            last, call = code.co_names[number], 0
        else:
            last = None
    return found


def _alone(code: types.CodeType) -> set[str]:
    """The global names whose objects code takes for more than their attributes: ``f(np, x)``, ``xp = np``."""
    found = set()
    last = None
    for step, number in _steps(code):
        if last is not None and step not in ATTRIBUTES:
            found.add(last)
        last = None
        if step == LOAD_GLOBAL:
            last = code.co_names[number >> 1]
        elif step == LOAD_NAME:
            last = code.co_names[number]
    return found


def _builds_lists(code: types.CodeType, handed: bool) -> bool:
    """Whether code makes lists, or tuples for anything but indices; what it returns is `handed` to other code."""
    codes = [step for step in code.co_code[::2] if step]  # 3.11 has cache entries between the instructions, all zero
    if not BUILDING.isdisjoint(codes) or not SEQUENCES.isdisjoint(code.co_names) or code.co_flags & inspect.CO_VARARGS:
        return True
    harmless = INDEXING - {RETURN} if handed else INDEXING
    return any(step in TUPLES and after not in harmless for step, after in itertools.pairwise(codes))


def _original(value: Any) -> Any:
    """What a stand-in that is in place at the moment stands in for."""
    return value.original if type(value) is Gate or type(value) is TypeGate else value


def known(module: str | None) -> bool:
    """Whether builtin functions of a module call nothing of the user's but what they are given."""
    return module is not None and (module in PURE_MODULES or is_library(module))
