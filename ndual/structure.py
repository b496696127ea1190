"""Nested arguments and outputs as a flat list of leaves, and back again.

A leaf is one float or complex number or array: what a derivative can be taken of. Only shapes, types and paths are
handled here; nothing runs a function, and the only thing known of a dual is how to read it.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import (
    ARRAY_OF,
    ArgumentTypeError,
    CacheMismatchError,
    UnsupportedDtype,
)
from ndual.objects import empty, extra_of, fields_of, holds_items, is_inert, set_fields, setter_of, shell

ARRAY, SCALAR, CONSTANT = 0, 1, 2
FLOAT_NUMS = frozenset(np.dtype(c).num for c in "efdFD")
LONG_NUMS = frozenset(np.dtype(c).num for c in "gG")
NUMBERS = (int, float, complex, np.number)
FLOAT64 = np.dtype(np.float64)
COMPLEX128 = np.dtype(np.complex128)
# Types that hold no float and that nobody expects a derivative of; anything else that is not understood is refused.
INERT = (
    int, str, bytes, type(None), np.generic, np.dtype, type, slice, range, type(Ellipsis), enum.Enum,
    np.random.Generator, np.random.RandomState,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """What is expected at one place: an array or a number of a dtype, or something constant."""

    name: str
    kind: int
    type: type
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    size: int
    promotes: bool = True  # whether an integer is taken for a float
    storage: Any = None  # of an array on a device

    @property
    def complex(self) -> bool:
        """Whether the leaf has an imaginary part."""
        return self.dtype is not None and self.dtype.kind == "c"

    @property
    def of_type(self) -> bool:
        """Whether nothing is expected but a type."""
        return self.dtype is None

    def example(self) -> Any:
        """Some value like those that are expected."""
        assert self.dtype is not None, "what has no dtype has no example"
        zeros = (self.storage or np).zeros(self.shape, self.dtype)
        array = self.kind == ARRAY or self.type is np.ndarray
        return zeros if array else self.type(0) if self.type in (float, complex) else zeros[()]

    def dof(self, holomorphic: bool) -> int:
        """Directions that the leaf has: two for a complex number unless the function is holomorphic."""
        return self.size * (2 if self.complex and not holomorphic else 1)

    def __str__(self) -> str:
        if self.kind == SCALAR:
            return with_article(f"{self.dtype} number")
        if self.dtype is not None:
            kind = "array" if self.storage is None else f"{self.type.__module__.partition('.')[0]} array"
            return with_article(f"{self.dtype} {kind} of shape {self.shape}")
        return with_article(self.type.__name__)

    def same(self, other: Leaf) -> bool:
        """Whether values for one leaf fit the other."""
        if self.kind == CONSTANT and self.dtype is None:
            return self.type is other.type or (issubclass(self.type, NUMBERS) and issubclass(other.type, NUMBERS))
        where = self.kind == other.kind and self.storage is other.storage
        return where and self.dtype == other.dtype and self.shape == other.shape

    def zeros(self, lead: tuple[int, ...]) -> Any:
        """Arrays of zeros of this shape and type, where the leaf lies."""
        if self.storage is not None:
            return self.storage.zeros((*lead, *self.shape), self.dtype)
        return _core.pooled_zeros((*lead, *self.shape), np.dtype(self.dtype))

    def moved(self, array: Any) -> Any:
        """A result in the memory of the leaf."""
        there = self.storage is None or _core.is_dual(array) or self.storage.owns(array)
        return self.storage.take(array) if not there else _core.to_host(array) if self.storage is None else array

    def admit(self, value: Any) -> Any:
        """The value as this leaf takes it; raises where it does not fit."""
        found = leaf_of(value, self.name, self.promotes) if self.kind != CONSTANT else constant_leaf(value, self.name)
        if found is None or not self.same(found[0]):
            got = constant_leaf(value, self.name)[0] if found is None else found[0]
            raise CacheMismatchError(
                f"{self.name}: expected {self}, as in the prepared call; got {got}. "
                "Convert it, or prepare again with arguments like it"
            )
        return found[1]


@dataclass(frozen=True, slots=True)
class Constant:
    """Something in a container that carries no derivative."""

    value: Any


@dataclass(frozen=True, slots=True)
class Branch:
    """A container: its class, the keys of a dict (None otherwise), and what it holds."""

    kind: type
    keys: tuple[Any, ...] | None
    children: tuple[Any, ...]
    mark: int = -1
    extra: Any = None  # the default of a defaultdict, the longest length of a deque

    def step(self, key: Any) -> str:
        """How names go on from here."""
        return f"[{key!r}]"


@dataclass(frozen=True, slots=True)
class Record(Branch):
    """An object: its class, the names of its fields, and what they hold."""

    def step(self, key: Any) -> str:
        """How names go on from here."""
        return f".{key}"


@dataclass(frozen=True, slots=True)
class Again:
    """A list, dict or object that has occurred before, as the one with this mark."""

    mark: int


Tree = int | Constant | Branch | Again


def with_article(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def constant_leaf(value: Any, name: str) -> tuple[Leaf, Any]:
    """The leaf of a value that stays constant."""
    if isinstance(value, np.ndarray) and (type(value) is np.ndarray or _core.is_dual(value)):
        return Leaf(name, CONSTANT, np.ndarray, value.dtype, value.shape, value.size), value
    return Leaf(name, CONSTANT, type(value), None, (), 0), value


def leaf_of(value: Any, name: str, promote: bool = True) -> tuple[Leaf, Any] | None:
    """The leaf and value of a float number or array; None for anything else. `promote` makes a Python int a float."""
    kind = type(value)
    if kind is float:
        return Leaf(name, SCALAR, float, FLOAT64, (), 1, promote), value
    if kind is int and promote:
        return Leaf(name, SCALAR, float, FLOAT64, (), 1, promote), float(value)
    if kind is complex:
        return Leaf(name, SCALAR, complex, COMPLEX128, (), 1, promote), value
    if type(value) is _core.NDualArray:
        value = _core.constants(value)
    if _core.is_dual(value):
        # Of an outer derivative: its values are differentiated here, and are duals themselves.
        _core.level_of(value)
        storage = _core.storage_for(cells := _core.bottom(value))
        if storage is not None or isinstance(value, np.ndarray):
            kind = np.ndarray if storage is None else type(cells)
            return Leaf(name, ARRAY, kind, value.dtype, value.shape, value.size, promote, storage), value
        return Leaf(name, SCALAR, type(value), value.dtype, (), 1, promote), value
    if isinstance(value, np.ndarray | np.inexact):
        dtype = value.dtype
        if dtype.num not in FLOAT_NUMS:
            if dtype.num in LONG_NUMS:
                plain = "complex128" if dtype.kind == "c" else "float64"
                raise UnsupportedDtype(
                    f"{name}: expected float16, float32, float64, complex64 or complex128; got {dtype}. "
                    f"Convert it with x.astype(np.{plain})"
                )
            if dtype.kind == "O":
                raise ArgumentTypeError(
                    f"{name}: expected a float array; got an object array. Convert it with x.astype(float)"
                )
            return None
        if not dtype.isnative:
            raise UnsupportedDtype(
                f"{name}: expected the byte order of this machine; got {dtype.str}. "
                f"Convert it with x.astype(np.{dtype.newbyteorder('=').name})"
            )
        if not isinstance(value, np.ndarray):
            return Leaf(name, SCALAR, kind, dtype, (), 1, promote), value
        if kind is not np.ndarray:
            if isinstance(value, np.ma.MaskedArray | np.matrix):
                raise ArgumentTypeError(
                    f"{name}: expected an ndarray; got {kind.__name__}, whose operations have no rules. "
                    "Pass x.data and apply the mask inside, or np.asarray(x) for a matrix"
                )
            value = value.view(np.ndarray)
        return Leaf(name, ARRAY, np.ndarray, dtype, value.shape, value.size, promote), value
    storage = _core.storage_for(value)
    if storage is not None and value.dtype.num in FLOAT_NUMS:
        storage.admit(value, name)
        return Leaf(name, ARRAY, kind, value.dtype, value.shape, value.size, promote, storage), value
    return None


def foreign(value: Any) -> str | None:
    """How to take the array out of an object that another library made to hold one; None for anything else."""
    kind = type(value)
    return ARRAY_OF.get(kind.__module__.partition(".")[0]) if hasattr(kind, "__array__") else None


def type_name(value: Any) -> str:
    """A type as messages call it: with its library, where it is one that holds arrays."""
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}" if foreign(value) else kind.__name__


def is_object(value: Any) -> bool:
    """Whether a value is looked into for its fields."""
    return not foreign(value) and not isinstance(value, (*INERT, np.ndarray)) and fields_of(value) is not None


def holds_none(value: Any) -> bool:
    """Whether a value of Python's own types has no place for a float: locks and dates, and sets without one."""
    if isinstance(value, set | frozenset):
        return all(isinstance(part, INERT) and not isinstance(part, np.inexact) for part in value)
    return is_inert(type(value))


def has_float(value: Any) -> bool:
    """Whether there is a float in a structure."""
    return bool(Flat(value, "", False).leaves)


class Flat:
    """One argument, flattened: its tree, its leaves and their values.

    An array that occurs twice is one leaf, so that it is one object again inside the function and in the gradient.
    So is a list, dict or object, which may contain itself; `marks` has the number of each by its identity.
    With `needed`, an argument without leaves is an error.
    """

    __slots__ = ("_index", "_next", "_open", "_reached", "leaves", "marks", "name", "originals", "tree", "values")

    def __init__(self, value: Any, name: str, needed: bool = True) -> None:
        self.name = name
        self.leaves: list[Leaf] = []
        self.values: list[Any] = []
        self._index: dict[int, int] = {}
        self.marks: dict[int, int] = {}
        self.originals: dict[int, Any] = {}  # by mark
        self._next = 0
        self._open: set[int] = set()  # containers that are being looked into
        self._reached = 0  # leaves and marks that were met, again or not
        found = leaf_of(value, name)
        try:
            self.tree: Tree = self._add(*found) if found else self._grow(value, name)
        except RecursionError:
            raise ArgumentTypeError(
                f"{name}: expected a structure that is less deep than calls of Python may be "
                f"({sys.getrecursionlimit()}); got {with_article(type_name(value))} that is deeper. "
                "Keep long chains in a list"
            ) from None
        if needed and not self.leaves:
            raise ArgumentTypeError(_no_float(value, name))

    def _add(self, leaf: Leaf, value: Any) -> int:
        self._reached += 1
        if leaf.kind == ARRAY:
            known = self._index.setdefault(id(value), len(self.leaves))
            if known < len(self.leaves):
                return known
        self.leaves.append(leaf)
        self.values.append(value)
        return len(self.leaves) - 1

    def _grow(self, value: Any, name: str) -> Tree:
        found = leaf_of(value, name, promote=False)
        if found is not None:
            return self._add(*found)
        if id(value) in self.marks:
            self._reached += 1
            return Again(self.marks[id(value)])
        if isinstance(value, np.ndarray | np.void) and value.dtype.names is not None:
            raise ArgumentTypeError(
                f"{name}: expected a float array; got fields {', '.join(value.dtype.names)} in one. "
                "Pass a dict of the fields, {n: x[n] for n in x.dtype.names}"
            )
        if not holds_items(value, name):
            remedy = foreign(value)
            if remedy is None and (isinstance(value, (*INERT, np.ndarray)) or holds_none(value)):
                return Constant(value)
            fields = None if remedy else fields_of(value)
            if fields is not None:
                return self._object(value, fields, name)
            if remedy is None and callable(value):
                return Constant(value)
            raise ArgumentTypeError(
                f"{name}: expected numbers, arrays, or tuples, lists, dicts and objects of them; "
                f"got {type_name(value)}. "
                + (f"Pass {remedy}, and wrap it again inside" if remedy else "Pass the arrays that it holds")
            )
        if isinstance(value, tuple) and id(value) in self._open:
            raise ArgumentTypeError(
                f"{name}: expected a structure that can be built again; got {with_article(type(value).__name__)} that "
                "contains itself. Make it a list or an object"
            )
        mark = -1 if isinstance(value, tuple) else self._mark(value)
        self._open.add(id(value))
        if isinstance(value, dict):
            keys: tuple[Any, ...] | None = tuple(value)
            children = tuple(self._grow(v, f"{name}[{k!r}]") for k, v in value.items())
        else:
            keys = None
            names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
            children = tuple(
                self._grow(v, f"{name}.{names[i]}" if names else f"{name}[{i}]") for i, v in enumerate(value)
            )
        self._open.discard(id(value))
        return Branch(type(value), keys, children, mark, extra_of(value))

    def _mark(self, value: Any) -> int:
        mark = self.marks[id(value)] = self._next
        self.originals[mark] = value
        self._next += 1
        return mark

    def _object(self, value: Any, fields: dict[str, Any], name: str) -> Tree:
        mark, reached = self._mark(value), self._reached
        children = tuple([self._grow(v, f"{name}.{key}") for key, v in fields.items()])
        if self._reached == reached:
            # Without a float it is no part of what is differentiated, and stays the object that it is.
            self.marks = {key: other for key, other in self.marks.items() if other < mark}
            self.originals = {other: part for other, part in self.originals.items() if other < mark}
            return Constant(value)
        return Record(type(value), tuple(fields), children, mark)


def _no_float(value: Any, name: str) -> str:
    if isinstance(value, np.ndarray | np.generic):
        what = f"{value.dtype} {'array' if isinstance(value, np.ndarray) else 'number'}"
        return (
            f"{name}: expected a float number or array; got {with_article(what)}, which has no derivative. "
            "Pass x.astype(float), or leave it out of argnums"
        )
    return (
        f"{name}: expected at least one float number or float array; got {type(value).__name__} without any. "
        "Pass floats (1.0, not 1), or leave it out of argnums"
    )


def rebuild(tree: Tree, values: Any, made: dict[int, Any] | None = None) -> Any:
    """The structure of a tree with the given leaf values; constants are those of the tree. `made` takes its parts."""
    return _build(tree, values, {} if made is None else made, False)


def rebuild_gradient(tree: Tree, values: Any) -> Any:
    """As :func:`rebuild`, with None where a constant was."""
    return _build(tree, values, {}, True)


def _build(tree: Tree, values: Any, made: dict[int, Any], gradient: bool) -> Any:
    if isinstance(tree, int):
        return values[tree]
    if isinstance(tree, Constant):
        return None if gradient else tree.value
    if isinstance(tree, Again):
        return made[tree.mark]
    # What may contain itself is there before its parts.
    if isinstance(tree, Record):
        found = made[tree.mark] = shell(tree.kind)
        set_fields(found, tree.keys or (), [_build(child, values, made, gradient) for child in tree.children])
    elif issubclass(tree.kind, tuple):
        parts = tuple([_build(child, values, made, gradient) for child in tree.children])
        found = parts if tree.kind is tuple else tuple.__new__(tree.kind, parts)
    else:
        found = made[tree.mark] = empty(tree.kind, tree.extra)
        parts = tuple([_build(child, values, made, gradient) for child in tree.children])
        if tree.keys is None:
            found.extend(parts)
        else:
            put = setter_of(tree.kind)
            for key, part in zip(tree.keys, parts, strict=True):
                put(found, key, part)
    return found


def without_values(tree: Tree) -> Tree:
    """A tree that keeps none of the constants alive."""
    if isinstance(tree, Constant):
        return Constant(None)
    if isinstance(tree, Branch):
        return replace(tree, children=tuple(map(without_values, tree.children)))
    return tree


def parts_of(value: Any) -> list[Any]:
    """What a list, dict or object holds."""
    if isinstance(value, list | deque):
        return list(value)
    held = value if isinstance(value, dict) else fields_of(value) or {}
    return [part for item in held.items() for part in item]


def check_same(expected: Tree, got: Tree, name: str) -> None:
    """Raise CacheMismatchError, naming the path, where two trees differ in anything but their leaves."""
    if isinstance(expected, Branch) and isinstance(got, Branch):
        if expected.kind is not got.kind or expected.keys != got.keys or len(expected.children) != len(got.children):
            raise CacheMismatchError(
                f"{name}: expected {_describe(expected)}, as in the prepared call; got {_describe(got)}. "
                "Pass the same structure, or prepare again"
            )
        keys = expected.keys or range(len(expected.children))
        for key, a, b in zip(keys, expected.children, got.children, strict=True):
            check_same(a, b, f"{name}{expected.step(key)}")
    elif isinstance(expected, Constant) and isinstance(got, Constant):
        a, b = constant_leaf(expected.value, name)[0], constant_leaf(got.value, name)[0]
        if not a.same(b):
            raise CacheMismatchError(
                f"{name}: expected {a}, as in the prepared call; got {b}. Convert it, or prepare again"
            )
    elif expected != got:
        raise CacheMismatchError(
            f"{name}: expected {_describe(expected)}, as in the prepared call; got {_describe(got)}. "
            "Pass the same structure, or prepare again"
        )


def _describe(tree: Tree) -> str:
    if isinstance(tree, Again):
        return "an object that has occurred before"
    if isinstance(tree, Branch):
        if tree.keys is not None:
            what = "fields" if isinstance(tree, Record) else "keys"
            return f"{with_article(tree.kind.__name__)} with the {what} {', '.join(map(repr, tree.keys))}"
        return f"{with_article(tree.kind.__name__)} of {len(tree.children)}"
    return with_article(type(tree.value).__name__) if isinstance(tree, Constant) else "a float or an array"
