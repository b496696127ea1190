"""``wrt=``: what a function reaches without being given it as what is differentiated.

A part that is named is made an argument: the function is called as a copy in which the part, and whatever refers to it,
is replaced by what is differentiated. The original is not touched, so that other threads may call it meanwhile.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndual.errors import AliasError, ArgumentTypeError, ArgumentValueError
from ndual.objects import ITEMS, empty, extra_of, fields_of, set_fields, setter_of, shell
from ndual.places import Place
from ndual.reached import METHOD, Graph, is_empty, names_of
from ndual.structure import has_float

ABSENT = object()
STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
EXTENDED = dis.opmap["EXTENDED_ARG"]


class Reach:
    """A function with parts of what it reaches as its first arguments."""

    def __init__(self, operator: str, f: Callable[..., Any], wrt: Any, argnums: Any = 0) -> None:
        if not callable(f):
            raise ArgumentTypeError(f"{operator} expects a function; got {type(f).__name__}")
        if argnums not in (0, None):
            raise ArgumentValueError(
                f"{operator} expects wrt or argnums; got both. For both, make what wrt names an argument of f"
            )
        # A list or tuple of paths stands for each of them, anything else for itself.
        several = isinstance(wrt, list | tuple) and bool(wrt) and all(isinstance(path, str) for path in wrt)
        self._f = f
        self._places = [Place(f, given) for given in (wrt if several else [wrt])]
        self.count = count = len(self._places)
        self.argnums: int | tuple[int, ...] = tuple(range(count)) if several else 0
        self._found(Graph(f))
        bound = self._bound

        @functools.wraps(f, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            # `f` is named here for the proof of what is to be intercepted, which goes by closures.
            copy = bound(f, args[:count])
            try:
                return copy.function(*args[count:], **kwargs)
            finally:
                copy.finish()

        del call.__wrapped__  # it has other arguments
        self.call: Callable[..., Any] = call

    def values(self) -> list[Any]:
        """What is differentiated, as it is now."""
        return [place.find()[0] for place in self._places]

    def before(self, derivative: Callable[..., Any]) -> Callable[..., Any]:
        """A derivative of `call` as a function of the arguments of `f`."""

        @functools.wraps(self._f, updated=())
        def evaluate(*args: Any, **kwargs: Any) -> Any:
            return derivative(*self.values(), *args, **kwargs)

        return evaluate

    def primals(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of `call` from those of `f`."""
        return (*self.values(), *given)

    def _found(self, graph: Graph) -> list[tuple[Any, Any, Any]]:
        """What each place is now, all of it parts of a graph."""
        found = [place.find() for place in self._places]
        for place, (value, owner, key) in zip(self._places, found, strict=True):
            if id(value) not in graph.parts if owner is None else not graph.has(owner, key):
                raise ArgumentValueError(
                    f"wrt: expected what f reaches by its closure, its globals, its partial or its object; got "
                    f"{place.name}, which is no part of these. Make it an argument of f, and use argnums"
                )
        return found

    def _bound(self, f: Callable[..., Any], args: Sequence[Any]) -> Copy:
        """The function with arguments in their places."""
        graph = Graph(f)
        made: dict[int, Any] = {}
        edges: dict[tuple[int, Any], Any] = {}
        found = self._found(graph)
        for place, (value, owner, key), given in zip(self._places, found, args, strict=True):
            mine: dict[int, Any] = {}
            if owner is None:
                _pair(value, given, mine)
            elif (id(owner), key) in edges:
                raise _twice(place)
            else:
                edges[id(owner), key] = given
            if any(part in made and has_float(graph.parts[part]) for part in mine):
                raise _twice(place)
            made |= mine
        for place, (_, owner, _) in zip(self._places, found, strict=True):
            if id(owner) in made:
                raise _twice(place)
        active = [a for a in graph.arrays if id(a) in made]
        for a in graph.arrays:
            if id(a) not in made and any(np.may_share_memory(a, other) for other in active):
                raise AliasError(
                    "wrt: expected arrays that share no memory with what is differentiated, or are the same; got a "
                    f"view of it, of shape {a.shape}, among what f reaches. Take the view inside f"
                )
        return Copy(graph, made, edges, f)


def _twice(place: Place) -> AliasError:
    return AliasError(
        f"wrt: expected parts of which none is named twice or lies in another one; got {place.name}, which another one "
        "reaches too. Leave it out: its gradient is a part of that of the other"
    )


def _pair(value: Any, given: Any, made: dict[int, Any]) -> None:
    """Note what stands for each part of a structure."""
    if value is given or id(value) in made:
        return
    items = isinstance(value, ITEMS)
    fields = None if items or isinstance(value, np.ndarray) else fields_of(value)
    if not items and fields is None and not isinstance(value, np.ndarray):
        return
    made[id(value)] = given
    if isinstance(value, dict):
        for key, part in value.items():
            _pair(part, given[key], made)
    elif items:
        for part, other in zip(value, given, strict=True):
            _pair(part, other, made)
    elif fields is not None:
        others = fields_of(given) or {}
        for key, part in fields.items():
            _pair(part, others[key], made)


class Copy:
    """A function with a copy of all that refers to given parts; the rest it shares with the original."""

    def __init__(self, graph: Graph, made: dict[int, Any], edges: dict[tuple[int, Any], Any], f: Any) -> None:
        self._graph, self._made, self._edges = graph, made, edges
        self._spaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}  # globals and their copies
        self._cells: list[tuple[types.CellType, Any]] = []
        self._stored: set[str] = set()
        self._touched = self._find()
        self.function: Callable[..., Any] = self._part(f)

    def _find(self) -> set[int]:
        """The parts that refer to something that is replaced."""
        back: dict[int, list[int]] = {}
        fresh = []
        for owner, links in self._graph.links.items():
            if owner in self._made:
                continue
            part = self._graph.parts[owner]
            scope = id(part.__globals__) if type(part) is types.FunctionType else 0
            for key, child in links:
                back.setdefault(id(child), []).append(owner)
                of_globals = scope and key[0] == "global" and (scope, key[1]) in self._edges
                if id(child) in self._made or (owner, key) in self._edges or of_globals:
                    fresh.append(owner)
        found = set(fresh)
        while fresh:
            for owner in back.get(fresh.pop(), ()):
                if owner not in found:
                    found.add(owner)
                    fresh.append(owner)
        return found

    def finish(self) -> None:
        """After the call: let assignments to globals be seen by others."""
        for cell, content in self._cells:
            if is_empty(cell) or cell.cell_contents is not content:
                raise AliasError(
                    "wrt: expected f to change parts of what is differentiated; got an assignment to the variable of a "
                    "closure that leads to it. Change its parts, or make it an argument"
                )
        for scope, copy in self._spaces.values():
            for name in self._stored & set(copy):
                before = scope.get(name, ABSENT)
                replaced = id(before) in self._made or id(before) in self._touched
                if replaced and copy[name] is not self._child(id(scope), name, before):
                    raise AliasError(
                        "wrt: expected f to change parts of what is differentiated; got an assignment to the global "
                        f"{name}, which leads to it. Change its parts, or make it an argument"
                    )
                if not replaced and (id(scope), name) not in self._edges and copy[name] is not before:
                    scope[name] = copy[name]

    def _child(self, owner: int, key: Any, value: Any) -> Any:
        found = self._edges.get((owner, key), ABSENT)
        return self._part(value) if found is ABSENT else found

    def _replaces(self, scope: dict[str, Any], name: str) -> bool:
        value = id(scope[name])
        return value in self._made or value in self._touched or (id(scope), name) in self._edges

    def _part(self, part: Any) -> Any:
        key, kind = id(part), type(part)
        if key in self._made:
            return self._made[key]
        if key not in self._touched:
            return part
        if kind is types.FunctionType:
            return self._function(part)
        if kind is types.MethodType:
            owner = self._child(key, "self", part.__self__)
            return self._made.setdefault(key, types.MethodType(self._part(part.__func__), owner))
        if kind is functools.partial:
            args = [self._child(key, (i,), value) for i, value in enumerate(part.args)]
            keywords = {name: self._child(key, name, value) for name, value in part.keywords.items()}
            return self._made.setdefault(key, functools.partial(self._part(part.func), *args, **keywords))
        if isinstance(part, tuple):
            items = [self._child(key, i, value) for i, value in enumerate(part)]
            return self._made.setdefault(key, tuple.__new__(kind, items))
        if isinstance(part, ITEMS):
            found = self._made[key] = empty(kind, extra_of(part))
            if isinstance(part, dict):
                put = setter_of(kind)
                for name, value in part.items():
                    put(found, name, self._child(key, name, value))
            else:
                found.extend([self._child(key, i, value) for i, value in enumerate(part)])
            return found
        return self._object(part)

    def _object(self, part: Any) -> Any:
        key, kind = id(part), type(part)
        for name, child in self._graph.links[key]:
            if name == METHOD and id(child) in self._touched:
                raise ArgumentTypeError(
                    f"wrt: expected what the objects that f uses have in their fields; got {child.__qualname__}, a "
                    "method that reaches it by a global or a closure. Make it a field, or an argument of f"
                )
        fields = fields_of(part) or {}
        found = self._made[key] = shell(kind)
        set_fields(found, tuple(fields), [self._child(key, name, value) for name, value in fields.items()])
        return found

    def _function(self, f: types.FunctionType) -> types.FunctionType:
        key = id(f)
        fresh = []
        # Empty cells first: a function may be in its own closure.
        for cell in f.__closure__ or ():
            if id(cell) in self._touched and id(cell) not in self._made:
                self._made[id(cell)] = types.CellType()
                fresh.append(cell)
        cells = tuple([self._made.get(id(cell), cell) for cell in f.__closure__ or ()])
        scope = f.__globals__
        names = [name for name in names_of(f.__code__)[0] if name in scope and self._replaces(scope, name)]
        if names:
            scope = self._spaces.setdefault(id(scope), (scope, dict(scope)))[1]
        made = self._made[key] = types.FunctionType(f.__code__, scope, f.__name__, None, cells)
        made.__qualname__ = f.__qualname__
        self._stored.update(stored(f.__code__))
        for cell in fresh:
            content = self._child(id(cell), 0, cell.cell_contents)
            self._made[id(cell)].cell_contents = content
            self._cells.append((self._made[id(cell)], content))
        if f.__defaults__:
            values = [self._child(key, ("default", i), value) for i, value in enumerate(f.__defaults__)]
            made.__defaults__ = tuple(values)
        for name, value in (f.__kwdefaults__ or {}).items():
            made.__kwdefaults__ = {
                **(made.__kwdefaults__ or {}), name: self._child(key, ("keyword", name), value)
            }  # fmt: skip
        made.__dict__.update(f.__dict__)
        for name in names:
            scope[name] = self._child(id(f.__globals__), name, f.__globals__[name])
        return made


@functools.lru_cache(1024)
def stored(code: types.CodeType) -> set[str]:
    """The globals that code assigns to."""
    found, extended = set(), 0
    for step, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = extended | arg
        extended = number << 8 if step == EXTENDED else 0
        if step == STORE_GLOBAL:
            found.add(code.co_names[number])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= stored(constant)
    return found
