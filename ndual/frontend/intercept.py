"""The scoped interception room: calls that no NumPy protocol hands over reach the rules while a derivative is taken.

Gates are put into module attributes, and into names that user modules took by ``from … import``, at the outermost
derivative call and taken out at its end; which functions need a gate follows from the registry. What a rule means is
none of this module's business.
"""

from __future__ import annotations

import os
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from ndual._core._dual import Facts, forget_swaps
from ndual.config import settings
from ndual.frontend import creation, dispatch, sparse
from ndual.frontend._gate import Gate, TypeGate, is_library, type_gate
from ndual.frontend.proof import DISPATCHED, Proof
from ndual.rules import elementwise, refused, registry

GATES = (Gate, TypeGate)
Site = tuple[dict[str, Any], str, Any, Any]
# A guard keeps the namespace of its function alive, and a function made by exec lives in that: hence a bound.
GUARDS = 1024


class Guard(Facts):
    """What one function needs while it runs: nothing where its proof holds, gates otherwise.

    ``enter()`` is asked when the facts of the proof do not hold.
    """

    def __init__(self, room: Room, function: Any, proof: Proof) -> None:
        super().__init__(proof.holds, proof.facts)
        self._room = room
        # A guard is kept in a cache under its function, which it must not keep alive.
        self._function = weakref.ref(function) if type(function) is types.FunctionType else lambda: function
        self._namespaces = proof.namespaces
        self._sizes: list[tuple[dict[str, Any], int]] | None = None
        self.random = proof.random
        self.plans: dict[Any, Any] = {}

    def enter(self) -> list[Site] | None:
        """The gates to put in place, if they are needed."""
        room = self._room
        if self.proven:
            proof = room.prove(self._function())
            self.state(proof.holds, proof.facts)
            self._namespaces, self._sizes, self.random = proof.namespaces, None, proof.random
            if proof.holds:
                return None
        if not settings.intercept:
            return None
        self._look()
        return room.sites

    def leave(self) -> None:
        """Find the gates that modules took which were first imported inside the function."""
        if len(sys.modules) != self._room.modules:
            self._room.sweep()
        self._look()

    def _look(self) -> None:
        """Find new places for gates, if any module or namespace has changed its size since the last time."""
        if self._sizes is not None and len(sys.modules) == self._room.modules:
            for scope, size in self._sizes:
                if len(scope) != size:
                    break
            else:
                return
        self._room.refresh(self._namespaces)
        self._sizes = [(scope, len(scope)) for scope in self._namespaces]


class Room:
    """All gates, and all places where they go."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self._gates: dict[int, Any] = {}
        self._scanned: dict[int, int] = {}
        self._known: set[tuple[int, str]] = set()
        self._swept: set[int] = set()
        self.modules = 0
        self._plain: weakref.WeakKeyDictionary[types.FunctionType, Guard] = weakref.WeakKeyDictionary()
        self._always: weakref.WeakKeyDictionary[types.FunctionType, Guard] = weakref.WeakKeyDictionary()

    @property
    def intercepted(self) -> dict[int, Any]:
        """The functions that have a gate, by identity."""
        self.refresh(())
        return self._gates

    def prove(self, function: Any) -> Proof:
        """A fresh proof for a function."""
        return Proof(function, self.intercepted)

    def guard(self, function: Any, plain: bool) -> Guard:
        """The guard of a function; `plain` says that its arguments are data, which can call nothing."""
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
        if guard is None:
            if len(cache) >= GUARDS:
                cache.clear()
            proof = self.prove(key)
            if not plain:
                proof.holds, proof.random = False, True
            guard = cache[key] = Guard(self, key, proof)
        return guard

    def cached(self, function: Any) -> Guard | None:
        """The guard that an earlier call with plain arguments left for a function."""
        return self._plain.get(function) if type(function) is types.FunctionType else None

    def refresh(self, namespaces: Iterable[dict[str, Any]]) -> None:
        """Bring gates and sites up to date with the modules that are loaded and with the given namespaces."""
        if len(sys.modules) != self.modules:
            modules = dict(sys.modules)
            self._make_gates()
            sparse.install()
            for name, module in modules.items():
                if isinstance(module, types.ModuleType) and not passed_over(name):
                    self._scan(vars(module))
            self.modules = len(modules)
        for scope in namespaces:
            self._scan(scope)

    def _make_gates(self) -> None:
        rows = (dotted for row in elementwise.TABLE.values() for dotted in names_of(row.serves))
        for dotted in (*registry.RULES, *creation.NAMES, *refused.REFUSED, *rows, *creation.EVERYWHERE):
            function = registry.lookup(dotted)
            if function is None or isinstance(function, np.ufunc | type) or not callable(function):
                continue
            made = dotted in creation.NAMES
            if (type(function) is DISPATCHED and not made) or dotted.startswith("ndual."):
                continue
            if type(function) is not Gate and id(function) not in self._gates:
                iterates = dotted in creation.ITERATES
                self._gates[id(function)] = Gate(
                    function, dispatch.listed if iterates else dispatch.dispatch, made and not iterates, iterates,
                    dotted in creation.EVERYWHERE,
                )  # fmt: skip
            self._named(dotted, function)
        for name in creation.TYPES.split():
            kind = getattr(np, name)
            if type(kind) is not TypeGate:
                if id(kind) not in self._gates:
                    self._gates[id(kind)] = type_gate(kind, dispatch.convert)
                for alias in [key for key, value in vars(np).items() if value is kind]:
                    self._named(f"numpy.{alias}", kind)

    def _named(self, dotted: str, value: Any) -> None:
        path, _, name = dotted.rpartition(".")
        owner = sys.modules.get(path)
        if owner is not None:
            self._site(vars(owner), name, value)

    def _site(self, scope: dict[str, Any], name: str, value: Any) -> None:
        gate = value if type(value) in GATES else self._gates.get(id(value))
        if gate is not None and (id(scope), name) not in self._known:
            self._known.add((id(scope), name))
            self.sites.append((scope, name, gate.original, gate))

    def sweep(self) -> None:
        """Take gates out of libraries that were first imported while gates were in place; user code may keep them."""
        for name, module in dict(sys.modules).items():
            if isinstance(module, types.ModuleType) and passed_over(name) and id(vars(module)) not in self._swept:
                scope = vars(module)
                self._swept.add(id(scope))
                for key, value in list(scope.items()):
                    if type(value) in GATES and (id(scope), key) not in self._known:
                        scope[key] = value.original

    def spare(self, scope: dict[str, Any]) -> None:
        """Let a library's namespace keep the gates that it has."""
        self._swept.add(id(scope))

    def _scan(self, scope: dict[str, Any]) -> None:
        # Only a namespace that grew or shrank since the last time is looked at again. A name rebound to an intercepted
        # function in between is missed, and then a dual reaches that function, which is loud.
        if self._scanned.get(id(scope)) == len(scope):
            return
        for name, value in list(scope.items()):
            if callable(value):
                self._site(scope, name, value)
        self._scanned[id(scope)] = len(scope)


def names_of(serves: Any) -> tuple[str, ...]:
    """Dotted names as a tuple."""
    return tuple(serves.split()) if isinstance(serves, str) else tuple(serves)


def passed_over(module: str) -> bool:
    """Whether a module is no user code: a library with rules, or Python's own."""
    return is_library(module) or (module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names)


room = Room()
guard = room.guard
cached = room.cached
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: forget_swaps(room.sites))
