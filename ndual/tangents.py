"""Structures beside the one that is differentiated: tangents of its shape, and parts that arguments share."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ndual.errors import AliasError, ArgumentValueError
from ndual.objects import fields_of
from ndual.structure import Again, Branch, Constant, Flat, Record, Tree, parts_of, with_article


class Held:
    """A list, dict or object and what it holds now."""

    __slots__ = ("_parts", "value")

    def __init__(self, value: Any) -> None:
        self.value, self._parts = value, parts_of(value)

    def changed(self) -> str | None:
        """Its class, if it holds something else by now."""
        now = parts_of(self.value)
        if len(now) == len(self._parts) and all(a is b for a, b in zip(now, self._parts, strict=True)):
            return None
        return with_article(type(self.value).__name__)


class Shared:
    """The lists, dicts and objects of one call that f must not change: originals, and what two arguments share."""

    __slots__ = ("_marks", "_originals")

    def __init__(self, flats: dict[int, Flat]) -> None:
        self._marks = shared_marks({i: flat.marks for i, flat in flats.items()})
        self._originals = [(i, Held(part)) for i, flat in flats.items() for part in flat.originals.values()]

    def hold(self, made: dict[int, dict[int, Any]]) -> list[tuple[int, Held]]:
        """What two arguments share, in the copies that f gets."""
        return [(i, Held(made[i][mark])) for i, mark in self._marks]

    def check(self, held: list[tuple[int, Held]], names: Sequence[str]) -> None:
        """Raise AliasError if f changed any of it."""
        for i, part in held:
            if what := part.changed():
                raise AliasError(
                    f"{names[i]}: expected arguments that share nothing that f changes; got {what} that is part of "
                    "another argument too. Pass a copy, or both in one tuple"
                )
        for i, part in self._originals:
            if part.changed():
                raise changed_elsewhere(names[i], part.value)


def changed_elsewhere(name: str, part: Any) -> AliasError:
    """The error for a part of an argument that f changed by another name."""
    return AliasError(
        f"{name}: expected f to change what it is given; got {with_article(type(part).__name__)} of the argument "
        "changed by another name, in a closure or a constant argument, where it has no derivative. "
        "Use the argument instead of that name, or pass a copy"
    )


def shared_marks(marks: dict[int, dict[int, int]]) -> list[tuple[int, int]]:
    """Places and marks of the lists, dicts and objects that are part of several arguments."""
    if len(marks) < 2:
        return []
    return [
        (i, mark)
        for i, own in marks.items()
        for key, mark in own.items()
        if any(key in other for j, other in marks.items() if j != i)
    ]


def leaf_count(tree: Tree) -> int:
    """How many different leaves a tree has."""
    highest = -1
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Branch):
            stack.extend(node.children)
        elif isinstance(node, int):
            highest = max(highest, node)
    return highest + 1


def match(tree: Tree, tangent: Any, name: str, found: dict[int, Any], model: str = "as the argument is") -> None:
    """Collect the parts of a tangent or cotangent that belong to the leaves of a tree, of the same structure."""
    if isinstance(tree, Constant | Again):
        return
    if isinstance(tree, int):
        found[tree] = tangent
        return
    parts: Any = tangent
    if isinstance(tree, Record):
        held = tangent if isinstance(tangent, dict) else fields_of(tangent)
        if held is None or any(key not in held for key in tree.keys or ()):
            raise ArgumentValueError(
                f"{name}: expected {with_article(tree.kind.__name__)} with the fields "
                f"{', '.join(tree.keys or ())}, {model}; got {type(tangent).__name__}"
            )
        parts = [held[key] for key in tree.keys or ()]
    elif isinstance(tangent, dict) and tree.keys is not None and set(tangent) == set(tree.keys):
        parts = [tangent[key] for key in tree.keys]
    elif tree.keys is not None or not isinstance(tangent, tuple | list | deque) or len(tangent) != len(tree.children):
        keys = f" with the keys {', '.join(map(repr, tree.keys))}" if tree.keys is not None else ""
        raise ArgumentValueError(
            f"{name}: expected a {tree.kind.__name__} of {len(tree.children)}{keys}, {model}; "
            f"got {type(tangent).__name__}"
        )
    for key, child, part in zip(tree.keys or range(len(parts)), tree.children, parts, strict=True):
        match(child, part, f"{name}{tree.step(key)}", found, model)
