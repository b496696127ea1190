"""The scoped interception room: calls that no NumPy protocol hands over reach the rules while a derivative is taken.

Gates are put into module attributes, and into names that user modules took by ``from … import``, at the outermost
derivative call and taken out at its end; which functions need a gate follows from the registry. What a rule means is
none of this module's business.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from ndual._core._dual import Facts, Site, forget_swaps, looked
from ndual.config import settings
from ndual.frontend import creation, devices, dispatch, foreign, interpolants, routines, solvers, sparse
from ndual.frontend._gate import OPEN, Gate, Stand, TypeGate, is_library, type_gate
from ndual.frontend.proof import DISPATCHED, Proof
from ndual.rules import elementwise, refused, registry

GATES = (Gate, TypeGate)
# A guard keeps the namespace of its function alive, and a function made by exec lives in that: hence a bound.
GUARDS = 1024


class Guard(Facts):
    """What one function needs while it runs: nothing where its proof holds, gates otherwise.

    They are put where the function is known to reach, or everywhere if that is not known. As long as nothing changes,
    the base class answers.
    """

    def __init__(self, room: Room, function: Any, proof: Proof, lists: bool = False) -> None:
        self._room = room
        self.lists = lists
        # A guard is kept in a cache under its function, which it must not keep alive.
        self._function = weakref.ref(function) if type(function) is types.FunctionType else lambda: function
        self.plans: dict[Any, Any] = {}
        super().__init__(proof.holds, proof.facts, proof.writes, proof.known)
        self._take(proof)
        room.guards.add(self)

    def _take(self, proof: Proof) -> None:
        self.state(proof.holds, proof.facts, proof.writes, proof.known)
        self.random = proof.random
        self._sites = (*proof.sites, *proof.shorts)
        self.shorts = tuple(proof.shorts) or None
        self._namespaces = proof.namespaces
        if self.known:
            self.settle(self._sites, ())

    def look(self) -> tuple[Site, ...] | None:
        """The gates to put in place, if they are needed; called when anything has changed since the last time."""
        room = self._room
        if self.known:
            self._take(room.prove(self._function(), self.lists))
        if self.proven:
            return None
        sites = self._sites
        if not self.known:
            room.refresh(self._namespaces)
            sites = (*room.sites, *sites)
            self.settle(sites, self._namespaces)
        return sites if settings.intercept else None

    def renew(self) -> None:
        """Ask again what the function needs, since there is a gate that its proof did not know of."""
        function = self._function()
        if function is None:
            return
        proof = self._room.prove(function, self.lists)
        if not (self.known or self.proven):  # nor is it from now on
            proof.holds, proof.known, proof.random, proof.writes = False, False, True, True
        self._take(proof)

    def left(self) -> None:
        """Find the gates that modules took which were first imported inside the function."""
        if len(sys.modules) != self._room.modules:
            self._room.sweep()
            self._room.refresh(())
        if not self.known:
            self._room.refresh(self._namespaces)


class Room:
    """All gates, and all places where they go."""

    def __init__(self) -> None:
        self.sites: tuple[Site, ...] = ()
        self.modules = 0
        self._gates: dict[int, Any] = {}
        self._lists: dict[int, Gate] = {}
        self._routed: list[str] = []
        self._refused: set[int] = set()
        self._scanned: dict[int, int] = {}
        self._places: dict[tuple[int, str | None], Site] = {}
        self._listed: set[tuple[int, str]] = set()
        self._fresh: list[Site] = []
        self._staying: set[tuple[int, str]] = set()
        self._swept: set[int] = set()
        self._classes: dict[str, type] = {}
        self._evaluated: list[Site] = []
        self._defined: list[Any] = []
        self.guards: weakref.WeakSet[Guard] = weakref.WeakSet()
        self._plain: weakref.WeakKeyDictionary[types.FunctionType, Guard] = weakref.WeakKeyDictionary()
        self._always: weakref.WeakKeyDictionary[types.FunctionType, Guard] = weakref.WeakKeyDictionary()

    @property
    def intercepted(self) -> dict[int, Any]:
        """The functions that have a gate, by identity."""
        self.refresh(())
        return self._gates

    def gate_of(self, value: Any) -> Any:
        """The gate of a function or type, or None."""
        gate = self._gates.get(id(value))
        if gate is not None:
            return gate if gate.original is value else None
        if type(value) in GATES or value is foreign.Vectorize:
            return value
        if type(value) is np.vectorize:
            gate = self._gates[id(value)] = Gate(value, dispatch.called, iterates=True)
            return gate
        return None

    def lists_of(self, value: Any) -> Any:
        """The gate of a function that NumPy's protocols hand over, for calls with lists."""
        return self._lists.get(id(value))

    def prove(self, function: Any, lists: bool = False) -> Proof:
        """A fresh proof for a function, whose arguments may be `lists`."""
        self.refresh(())
        proof = Proof(function, self.gate_of, self.lists_of, self.place, lists)
        if not proof.known and "scipy" in sys.modules:
            registry.load_parts(sys.modules["scipy"])
        if len(sys.modules) != self.modules:  # parts of SciPy that the function names, or might
            self.refresh(())
            proof = Proof(function, self.gate_of, self.lists_of, self.place, lists)
        return proof

    def place(self, scope: Any, name: str | None, original: Any, gate: Any) -> Site | None:
        """The site at a place, the same object for all who ask for it; None where a gate stays."""
        if (id(scope), name) in self._staying:
            return None
        original = gate.original if type(original) in GATES else original
        if type(scope) is not dict:  # a cell or a function, which must not be kept alive
            return Site(scope, name, original, gate)
        key = (id(scope), name)
        site = self._places.get(key)
        if site is None or site.scope is not scope or site.original is not original:
            site = self._places[key] = Site(scope, name, original, gate)
        return site

    @property
    def everything(self) -> list[Site]:
        """Every site that any call may have used."""
        return list({id(site): site for site in (*self._places.values(), *self.sites)}.values())

    def guard(self, function: Any, plain: bool, lists: bool = False) -> Guard:
        """The guard of a function; `plain` says that its arguments are data, which can call nothing.

        `lists` says that lists or tuples are among them, which NumPy's protocols do not look into. A guard that expects
        them serves every call.
        """
        kind = type(function)
        key = function
        if kind is not types.FunctionType:
            # A method or a callable object brings state that a proof does not look into.
            key = function.__func__ if kind is types.MethodType else getattr(kind, "__call__", None)  # noqa: B004
            if type(key) is not types.FunctionType:
                return Guard(self, function, self.prove(function))
            plain = False
        cache = self._plain if plain else self._always
        guard = cache.get(key)
        if guard is None or (lists and not guard.lists):
            if len(cache) >= GUARDS:
                cache.clear()
            proof = self.prove(key, lists)
            if not plain:
                proof.holds, proof.known, proof.random, proof.writes = False, False, True, True
            guard = cache[key] = Guard(self, key, proof, lists)
        return guard

    def cached(self, function: Any) -> Guard | None:
        """The guard that an earlier call with plain arguments left for a function."""
        return self._plain.get(function) if type(function) is types.FunctionType else None

    def refresh(self, namespaces: Iterable[dict[str, Any]]) -> None:
        """Bring gates and sites up to date with the modules that are loaded and with the given namespaces."""
        if len(sys.modules) != self.modules:
            modules = dict(sys.modules)
            devices.load()
            self._make_gates()
            sparse.install()
            for name, module in modules.items():
                if isinstance(module, types.ModuleType) and not asleep(name, module):
                    self._swept.add(id(vars(module)))
                    if not passed_over(name) and not passed_over(module.__name__):  # some have aliases
                        self._scan(vars(module))
                    elif self._defined:
                        self._scan_library(vars(module))
            self.modules = len(modules)
            looked(self.modules)
        for scope in namespaces:
            self._scan(scope)
        if self._fresh:
            self.sites += tuple(self._fresh)
            self._fresh = []
            looked(self.modules)

    def define(self, function: Any, handler: Any) -> None:
        """A gate for a function that no table names, wherever modules have it: callers in libraries count too."""
        if id(function) not in self._gates:
            self._gates[id(function)] = Gate(function, handler, iterates=True, everywhere=True)
            self._defined.append(function)
        # What was found out so far did not know of it.
        self._scanned.clear()
        self.modules = -1
        looked(-1)
        for guard in list(self.guards):
            guard.renew()

    def _scan_library(self, scope: dict[str, Any]) -> None:
        for function in self._defined:
            for name in [key for key, value in list(scope.items()) if value is function]:
                self._site(scope, name, function)

    def _make_routine_gates(self) -> None:
        """Gates for BLAS and LAPACK, and for the functions that find their routines."""
        loaded = [path for path in routines.MODULES if path in sys.modules]
        if loaded == self._routed:
            return
        self._routed = loaded
        found = [(dotted, f, routines.call) for dotted, f in routines.routines()]
        getter = routines.getter(self.gate_of)
        found += [(dotted, registry.lookup(dotted), getter) for dotted in routines.GETTERS]
        for dotted, function, handler in found:
            if function is not None and id(function) not in self._gates:
                self._gates[id(function)] = Gate(function, handler, iterates=True)
            self._named(dotted, function)

    def _make_device_gates(self) -> None:
        """Gates for the functions of array libraries on devices."""
        for dotted, function, handler, makes in devices.functions():
            if id(function) not in self._gates:
                self._gates[id(function)] = Gate(function, handler, makes)
            self._named(dotted, function)

    def _make_gates(self) -> None:
        self._make_routine_gates()
        self._make_device_gates()
        rows = (dotted for row in elementwise.TABLE.values() for dotted in names_of(row.serves))
        others = (*refused.REFUSED, *creation.EVERYWHERE, *interpolants.FUNCTIONS)
        for dotted in (*registry.RULES, *creation.NAMES, *rows, *others):
            function = registry.lookup(dotted)
            if dotted in solvers.HANDLERS or dotted.startswith(routines.MODULES):
                continue
            if function is None or isinstance(function, np.ufunc | type) or not callable(function):
                continue
            made = dotted in creation.NAMES
            if dotted in refused.REFUSED:
                self._refused.add(id(function))
            if (type(function) is DISPATCHED and not made) or dotted.startswith("ndual."):
                continue
            if type(function) is not Gate and id(function) not in self._gates:
                iterates = dotted in creation.ITERATES
                self._gates[id(function)] = Gate(
                    function, dispatch.listed if iterates else dispatch.dispatch, made and not iterates, iterates,
                    dotted in creation.EVERYWHERE,
                )  # fmt: skip
            if dotted in creation.EVERYWHERE:  # its callers are functions of the same module
                path, _, name = dotted.rpartition(".")
                self._site(vars(sys.modules[path]), name, function)
            else:
                self._named(dotted, function)
        for name in creation.TYPES.split():
            kind = getattr(np, name)
            if type(kind) is not TypeGate:
                if id(kind) not in self._gates:
                    self._gates[id(kind)] = type_gate(kind, dispatch.convert)
                for alias in [key for key, value in vars(np).items() if value is kind]:
                    self._named(f"numpy.{alias}", kind)

        for dotted in (*solvers.HANDLERS, *sparse.HANDLERS, *dispatch.CALLERS):
            function = registry.lookup(dotted)
            if function is not None:
                if type(function) is not Gate and id(function) not in self._gates:
                    by = sparse.handled if dotted in sparse.HANDLERS else dispatch.handled
                    by = dispatch.calling if dotted in dispatch.CALLERS else by
                    self._gates[id(function)] = Gate(function, by, iterates=True)
                self._named(dotted, function)
        for dotted, handler in interpolants.TYPES.items():
            kind = registry.lookup(dotted)
            if kind is not None:
                if type(kind) is not TypeGate and id(kind) not in self._gates:
                    self._gates[id(kind)] = type_gate(kind, handler)
                self._named(dotted, kind)
        if "scipy.interpolate" in sys.modules and not self._evaluated:
            self._evaluated = interpolants.sites()
            self._fresh += self._evaluated
        for module in (np, np.linalg):
            for name, value in list(vars(module).items()):
                if isinstance(value, np.ufunc) or (type(value) is DISPATCHED and id(value) not in self._gates):
                    gate = self._lists.get(id(value)) or Gate(value, dispatch.with_lists, lists=True)
                    self._lists[id(value)] = gate
                    self._stand(module.__name__, name, gate)
        self._gates[id(np.vectorize)] = foreign.Vectorize
        self._named("numpy.vectorize", np.vectorize)

    def _named(self, dotted: str, value: Any) -> None:
        """Let an attribute of a module be a gate, by a class that the module has while calls are intercepted."""
        path, _, name = dotted.rpartition(".")
        gate = self.gate_of(value)
        if gate is not None:
            self._stand(path, name, gate)

    def _stand(self, path: str, name: str, gate: Any) -> None:
        owner = sys.modules.get(path)
        if owner is None or (id(owner), name) in self._listed:
            return
        self._listed.add((id(owner), name))
        stand = Stand(vars(owner), name, gate.original, gate)
        known = self._classes.get(path)
        if known is None:
            known = self._classes[path] = type("module", (types.ModuleType,), {"__slots__": ()})
            self._fresh.append(Site(owner, None, types.ModuleType, known))
        setattr(known, name, stand)

    def _site(self, scope: dict[str, Any], name: str, value: Any) -> None:
        gate = self.gate_of(value)
        if gate is None or (id(scope), name) in self._listed:
            return
        self._listed.add((id(scope), name))
        # The modules that count as user code import names for themselves; nobody looks at what these are bound to, and
        # a gate costs a few nanoseconds there. Put in and taken out, each would cost every call 50 ns.
        module = scope.get("__name__")
        if module in OPEN and type(gate) is Gate and getattr(gate.original, "__module__", None) != module:
            self._staying.add((id(scope), name))
            scope[name] = gate
            return
        site = self.place(scope, name, gate.original, gate)
        if site is not None:
            self._fresh.append(site)

    def sweep(self) -> None:
        """Put the originals back into modules that were first imported while gates were in place, libraries too."""
        for library, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType) or asleep(library, module):
                continue
            if id(vars(module)) not in self._swept:
                scope = vars(module)
                self._swept.add(id(scope))
                for name, value in list(scope.items()):
                    if (type(value) in GATES or value is foreign.Vectorize) and (id(scope), name) not in self._places:
                        scope[name] = value.original

    def spare(self, scope: dict[str, Any]) -> None:
        """Let a library's namespace keep the gates that it has."""
        self._swept.add(id(scope))

    def _scan(self, scope: dict[str, Any]) -> None:
        # Only a namespace that grew or shrank since the last time is looked at again. A name rebound to an intercepted
        # function in between is missed, and then a dual reaches that function, which is loud.
        if self._scanned.get(id(scope)) == len(scope):
            return
        # A gate that says why a function is refused is for user code; SciPy's own modules, of which some count as such,
        # are full of those functions, and where one is defined a gate cannot stay: 50 ns a call.
        passed = self._refused if scope.get("__name__") in OPEN else ()
        for name, value in list(scope.items()):
            if callable(value) and id(value) not in passed:
                self._site(scope, name, value)
        self._scanned[id(scope)] = len(scope)


def names_of(serves: Any) -> tuple[str, ...]:
    """Dotted names as a tuple."""
    return tuple(serves.split()) if isinstance(serves, str) else tuple(serves)


def passed_over(module: str) -> bool:
    """Whether a module is no user code: a library with rules, or Python's own."""
    return is_library(module) or (module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names)


def asleep(name: str, module: types.ModuleType) -> bool:
    """Whether a module is a library's that loads when it is first looked at, which is not to be now.

    CuPy has one of its tests; it imports pytest, which took 0.17 s of the first derivative.
    """
    lazy = importlib.util._LazyModule  # type: ignore[attr-defined]
    return type(module) is lazy and passed_over(name)


room = Room()
guard = room.guard
cached = room.cached
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: forget_swaps(room.everything))
