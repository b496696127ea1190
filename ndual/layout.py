"""Structures of one shape, compiled: loading, rebuilding and checking as straight-line code instead of a walk.

A layout is made from the trees of one call and serves all calls of the same shape. It says no to anything else, which
is then walked, for the message or for what it leaves out: other number types, duals, parts that two arguments share.
"""

from __future__ import annotations

import functools
import keyword
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MemberDescriptorType, SimpleNamespace
from typing import Any

import numpy as np

from ndual.checks import name_of
from ndual.errors import AliasError
from ndual.objects import empty, extra_of, setter_of, shell, slots_of
from ndual.structure import (
    ARRAY,
    Again,
    Branch,
    Constant,
    Leaf,
    Record,
    Tree,
    has_float,
    holds_none,
    is_object,
    rebuild,
)
from ndual.tangents import changed_elsewhere, leaf_count

LARGEST = 400
"""Parts up to which a tree is compiled: that takes 20 to 40 us for each, once."""


def walked(*leaves: Any) -> Any:
    """The user's function with the structures that are walked through, and not compiled."""
    # The trees come with the leaves: their constants are those of this call, which may run beside another one.
    trees, shared, f, kwargs, count = leaves[-1]
    args, k = [], 0
    made: dict[int, dict[int, Any]] = {}
    for i in range(count):
        tree = trees.get(i)
        if tree is None:
            args.append(leaves[k])
            k += 1
        else:
            n = leaf_count(tree)
            made[i] = {}
            args.append(rebuild(tree, leaves[k : k + n], made[i]))
            k += n
    held = shared.hold(made)
    out = f(*args, **(kwargs or {}))
    shared.check(held, [name_of(i) for i in range(count)])
    return out


class Layout:
    """What is known of arguments of one shape.

    ``load(f, args)`` gives the leaves, as a list with what ``call`` needs at its end; None for other arguments.
    ``call(*leaves)`` calls f with the structures rebuilt, and checks that f changed nothing by another name.
    ``gradient(parts)`` gives one structure for each differentiated argument from the gradients of its leaves.
    """

    __slots__ = ("call", "gradient", "load")

    def __init__(
        self, trees: Mapping[int, Tree], leaves: Sequence[Leaf], active: Sequence[int], alone: bool, count: int,
        ) -> None:  # fmt: skip
        writer = _Writer(trees, leaves, count)
        code = "\n".join([*writer.loader(), *writer.caller(), *writer.results(active, alone)])
        space = writer.names | {"__name__": __name__}
        exec(_compiled(code), space)
        self.load: Callable[[Any, tuple[Any, ...]], list[Any] | None] = space["load"]
        self.call: Callable[..., Any] = space["call"]
        self.gradient: Callable[[Sequence[Any]], Any] = space["gradient"]


@functools.lru_cache(256)
def _compiled(code: str) -> Any:
    """Code of the same text, which many functions share, as an object; making that takes most of the time."""
    return compile(code, "<layout of arguments>", "exec")


def layout_of(
    trees: Mapping[int, Tree], leaves: Sequence[Leaf], active: Sequence[int], alone: bool, count: int
) -> Layout | None:
    """The layout of the arguments of a call, or None where a walk has to do."""
    if count > LARGEST or sum(map(_parts, trees.values())) > LARGEST:
        return None
    return Layout(trees, leaves, active, alone, count)


def _parts(tree: Tree) -> int:
    found, stack = 0, [tree]
    while stack:
        node = stack.pop()
        found += 1
        if isinstance(node, Branch):
            stack.extend(node.children)
    return found


def _name(key: object) -> bool:
    """Whether a field can be written as an attribute in code."""
    return type(key) is str and key.isidentifier() and not keyword.iskeyword(key)


def _plainly_set(kind: type, key: str) -> bool:
    """Whether an assignment to an attribute stores it and does nothing else."""
    member = next((vars(base)[key] for base in kind.__mro__ if key in vars(base)), None)
    stored = isinstance(member, MemberDescriptorType) or not hasattr(type(member), "__set__")
    setter: Any = kind.__setattr__
    return _name(key) and setter is object.__setattr__ and stored


class _Writer:
    """The code of a layout. Every part has a variable: v for a leaf, c for a constant, n for anything else."""

    def __init__(self, trees: Mapping[int, Tree], leaves: Sequence[Leaf], count: int) -> None:
        self.trees, self.leaves, self.count = trees, leaves, count
        self.names: dict[str, Any] = {
            "AliasError": AliasError, "changed": _changed, "empty": empty, "extra_of": extra_of, "has_float": has_float,
            "holds_none": holds_none,
            "new": object.__new__, "put": object.__setattr__, "shell": shell, "tuple_of": tuple.__new__,
            "walked": walked,
        }  # fmt: skip
        self.body: list[str] = []
        self.path: dict[
            tuple[int, ...], str
        ] = {}  # the variable of each part: number of the argument, numbers of parts
        self.variables: dict[str, None] = {}  # in order
        self._constants: dict[int, str] = {}
        self.first: dict[int, int] = {}  # the place of an argument's first leaf
        place = 0
        for i in range(count):
            self.first[i] = place
            place += 1 if i not in trees else leaf_count(trees[i])
        self.places = place

    def constant(self, value: Any) -> str:
        """A name for an object that the code refers to."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"K{len(self.names)}"
            self.names[name] = value
        return name

    def no(self, condition: str) -> None:
        """Say no where a condition holds."""
        self.body.append(f" if {condition}: return")

    # ---- loading ----------------------------------------------------------------------------------------------------

    def loader(self) -> list[str]:
        """The function ``load``. What a leaf is, is checked by the run that takes it."""
        found = [f"v{k}" for k in range(self.places)]
        arguments = [
            self._variable(self.trees[i], (i,)) if i in self.trees else f"v{self.first[i]}" for i in range(self.count)
        ]
        self.body.append(f" {', '.join(arguments)}, = args")
        marked = []
        for i, tree in self.trees.items():
            marks: list[str] = []
            arrays: list[str] = []
            self._load(tree, (i,), marks, arrays)
            for names in (marks, arrays):
                if len(names) > 1:
                    self.no(f"len({{{', '.join(f'id({name})' for name in names)}}}) != {len(names)}")
            marked.append(marks)
        if sum(map(bool, marked)) > 1:  # two arguments share nothing
            every = [name for marks in marked for name in marks]
            self.no(f"len({{{', '.join(f'id({name})' for name in every)}}}) != {len(every)}")
        state = "".join(f", {name}" for name in self.variables)
        lines = ["def load(f, args):", " try:", *(f" {line}" for line in self.body)]
        lines += [f"  return [{', '.join(found)}, (None, f{state})]"]
        return [*lines, " except (TypeError, ValueError, AttributeError, KeyError, IndexError): return"]

    def _load(self, tree: Tree, path: tuple[int, ...], marks: list[str], arrays: list[str]) -> None:
        """Code that takes a part of a tree apart, whose variable has been set."""
        name = self.path[path]
        if isinstance(tree, Again):
            self.no(f"{name} is not {self.path[(path[0], -1 - tree.mark)]}")
        elif isinstance(tree, int):
            first = f"v{self.first[path[0]] + tree}"
            if name != first:
                self.no(f"{name} is not {first}")
            elif self.leaves[self.first[path[0]] + tree].kind == ARRAY:
                arrays.append(name)
        elif isinstance(tree, Constant):
            self._check_constant(name, tree.value)
        else:
            self.no(f"type({name}) is not {self.constant(tree.kind)}")
            if tree.mark >= 0:
                self.path[(path[0], -1 - tree.mark)] = name
                marks.append(name)
            parts = [self._variable(child, (*path, k)) for k, child in enumerate(tree.children)]
            self.body += self._contents(tree, name, parts, "return")
            for k, child in enumerate(tree.children):
                self._load(child, (*path, k), marks, arrays)

    def _variable(self, tree: Tree, path: tuple[int, ...]) -> str:
        """The variable for a part of an argument."""
        name = f"v{self.first[path[0]] + tree}" if isinstance(tree, int) else ""
        if not name or name in self.variables:
            name = f"{'c' if isinstance(tree, Constant) else 'n'}{len(self.variables)}"
        self.variables[name] = None
        self.path[path] = name
        return name

    def _check_constant(self, name: str, value: Any) -> None:
        self.no(f"type({name}) is not {self.constant(type(value))}")
        if isinstance(value, np.ndarray):
            self.no(f"{name}.dtype != {self.constant(value.dtype)} or {name}.shape != {value.shape!r}")
        elif isinstance(value, set | frozenset):
            self.no(f"not holds_none({name})")
        elif is_object(value):
            self.no(f"has_float({name})")

    def _contents(self, tree: Branch, name: str, parts: list[str], otherwise: str) -> list[str]:
        """Code that reads what a list, dict or object holds into variables; `otherwise` is for other contents."""
        lines = []
        all_parts = "".join(f"{part}, " for part in parts)
        if isinstance(tree, Record):
            slots = slots_of(tree.kind) or ()
            keys = tree.keys or ()
            stored = [key for key in keys if key not in slots]
            lines += [f" if hasattr({name}, {key!r}): {otherwise}" for key in slots if key not in keys]
            for key, part in zip(keys, parts, strict=True):
                if key in slots:
                    lines.append(f" {part} = " + (f"{name}.{key}" if _name(key) else f"getattr({name}, {key!r})"))
            rest = "".join(f"{part}, " for key, part in zip(keys, parts, strict=True) if key not in slots)
            if stored:
                lines.append(f" if tuple({name}.__dict__) != {self.constant(tuple(stored))}: {otherwise}")
                lines.append(f" {rest}= {name}.__dict__.values()")
            elif not slots or tree.kind.__dictoffset__:
                lines.append(f" if {name}.__dict__: {otherwise}")
        elif tree.keys is not None:
            lines.append(f" if tuple({name}) != {self.constant(tree.keys)}: {otherwise}")
            lines += [f" {all_parts}= {name}.values()"] if parts else []
        else:
            lines.append(f" if len({name}) != {len(parts)}: {otherwise}")
            lines += [f" {all_parts}= {name}"] if parts else []
        if tree.extra is not None:
            lines.append(f" if extra_of({name}) is not {self.constant(tree.extra)}: {otherwise}")
        return lines

    # ---- rebuilding -------------------------------------------------------------------------------------------------

    def _build(
        self, tree: Tree, path: tuple[int, ...], lines: list[str], gradient: bool, made: dict[int, str], leaf: str
    ) -> str:
        """Code that makes a structure; the expression that it is found by."""
        if isinstance(tree, int):
            return f"{leaf}{self.first[path[0]] + tree}"
        if isinstance(tree, Constant):
            return "None" if gradient else self.path[path]
        if isinstance(tree, Again):
            return made[tree.mark]
        name = "m" + self.path[path][1:]
        held = self.constant(tree.kind)
        if tree.mark >= 0:
            made[tree.mark] = name
        if isinstance(tree, Record):
            lines.append(f" {name} = {'shell' if tree.kind is SimpleNamespace else 'new'}({held})")
        elif not issubclass(tree.kind, tuple):
            extra = "None" if tree.extra is None else self.constant(tree.extra)
            lines.append(
                f" {name} = empty({held}, {extra})" if tree.kind not in (list, dict) else f" {name} = {tree.kind()!r}"
            )
        parts = [
            self._build(child, (*path, k), lines, gradient, made, leaf) for k, child in enumerate(tree.children)
        ]  # fmt: skip
        every = "".join(f"{part}, " for part in parts)
        if isinstance(tree, Record):
            self._set_fields(tree, name, parts, lines)
        elif tree.kind is tuple:
            lines.append(f" {name} = ({every})")
        elif issubclass(tree.kind, tuple):
            lines.append(f" {name} = tuple_of({held}, ({every}))")
        elif tree.keys is not None:
            base = "" if tree.kind is dict else self.constant(setter_of(tree.kind))
            for key, part in zip(tree.keys, parts, strict=True):
                word = repr(key) if type(key) in (str, int) else self.constant(key)
                lines.append(f" {name}[{word}] = {part}" if not base else f" {base}({name}, {word}, {part})")
        elif parts:
            base = "list" if issubclass(tree.kind, list) else self.constant(deque)
            lines.append(f" {base}.extend({name}, ({every}))")
        return name

    def _set_fields(self, tree: Record, name: str, parts: list[str], lines: list[str]) -> None:
        slots = slots_of(tree.kind) or ()
        rest = []
        for key, part in zip(tree.keys or (), parts, strict=True):
            if _plainly_set(tree.kind, key):
                lines.append(f" {name}.{key} = {part}")
            elif key in slots:
                lines.append(f" put({name}, {key!r}, {part})")
            else:
                rest.append(f"{key!r}: {part}")
        if rest:
            lines.append(f" {name}.__dict__.update({{{', '.join(rest)}}})")

    def caller(self) -> list[str]:
        """The function ``call``."""
        given = [f"w{k}" for k in range(self.places)]
        lines = [f"def call({', '.join(given)}, state):"]
        lines.append(f" if state[0] is not None: return walked({', '.join(given)}, state)")
        lines.append(f" _, f, {''.join(f'{name}, ' for name in self.variables)} = state")
        arguments = []
        for i in range(self.count):
            tree = self.trees.get(i)
            arguments.append(
                f"w{self.first[i]}" if tree is None else self._build(tree, (i,), lines, False, {}, "w")
            )  # fmt: skip
        lines.append(f" out = f({', '.join(arguments)})")
        checks: list[str] = []
        for i, tree in self.trees.items():
            self._check(tree, (i,), checks)
        if checks:
            lines += [" try:", *(f" {line}" for line in checks)]
            lines.append(" except AliasError: raise")
            lines += [" except (TypeError, ValueError, AttributeError, KeyError, IndexError): raise changed(n, i)"]
        return [*lines, " return out"]

    def _check(self, tree: Tree, path: tuple[int, ...], lines: list[str]) -> None:
        """Code that finds out whether an argument still holds what it held."""
        if not isinstance(tree, Branch):
            return
        for k, child in enumerate(tree.children):
            self._check(child, (*path, k), lines)
        if tree.mark < 0:
            return
        name = self.path[path]
        parts = [f"p{k}" for k in range(len(tree.children))]
        failed = f"raise changed({name}, {path[0]})"
        lines.append(f" n, i = {name}, {path[0]}")
        lines += self._contents(tree, name, parts, failed)
        before = [self.path[(*path, k)] for k in range(len(parts))]
        different = " or ".join(f"{now} is not {then}" for now, then in zip(parts, before, strict=True))
        if parts:
            lines.append(f" if {different}: {failed}")

    def results(self, active: Sequence[int], alone: bool) -> list[str]:
        """The function ``gradient``."""
        lines = ["def gradient(parts):"]
        order = []
        for i in active:
            tree = self.trees.get(i)
            count = 1 if tree is None else leaf_count(tree)
            order += [f"w{self.first[i] + k}" for k in range(count)]
        lines.append(f" {', '.join(order)}, = parts")
        found = []
        for i in active:
            tree = self.trees.get(i)
            found.append(f"w{self.first[i]}" if tree is None else self._build(tree, (i,), lines, True, {}, "w"))
        return [*lines, f" return {found[0]}" if alone else f" return ({', '.join(found)},)"]


def _changed(part: Any, i: int) -> AliasError:
    return changed_elsewhere(name_of(i), part)
