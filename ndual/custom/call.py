"""One call of a function that brings its own derivative: arguments of any structure as operands of a structured rule.

Forward lanes, the tape, nested derivatives and what reverse mode keeps are those of every other rule. What the function
and its rule compute is code outside of the derivative: it runs as if that had not been begun.
"""

from __future__ import annotations

import contextlib
import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual._core.nested import Formula
from ndual.custom.snapshot import snapshot
from ndual.errors import (
    AliasError,
    ArgumentTypeError,
    ArgumentValueError,
    DerivativeLostError,
    RuleError,
    StaleDualError,
    UnsupportedDtype,
)
from ndual.objects import ITEMS, fields_of
from ndual.pullback import leaf_parts, one_lane
from ndual.rules.registry import Structured
from ndual.structure import ARRAY, Branch, Constant, Flat, Leaf, Record, Tree, leaf_of, rebuild, rebuild_gradient


class Opaque:
    """A function with a derivative that ndual does not look into. Subclasses say what it is.

    All three methods see values (which may be duals of an outer derivative), and leaves flat and in order.
    """

    name = "function"
    overwritten: frozenset[int] = frozenset()

    def transparent(self, level: Any) -> bool:
        """Whether a derivative passes through the function as it stands."""
        return False

    def run(self, call: Call, args: tuple[Any, ...]) -> Any:
        """The value; what the derivative needs besides may be left in ``call.state``."""
        raise NotImplementedError

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function on arguments of which none is active."""
        raise NotImplementedError

    def push(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], lanes: list[list[Any]]) -> list[list[Any]]:
        """The tangents of the leaves of the output, for each of several lanes (None: zero)."""
        raise NotImplementedError

    def pull(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], ws: list[Any]) -> list[Any]:
        """The cotangents of the leaves of the arguments (None: zero)."""
        raise NotImplementedError


class Call:
    """The leaves of one call, and the rule that it is."""

    def __init__(self, opaque: Opaque, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.opaque = opaque
        self.name = opaque.name
        self.kwargs = kwargs
        self.state: Any = None
        self.leaves: list[Leaf] = []
        self.values: list[Any] = []
        self._known: dict[int, int] = {}
        self.trees = [self._take(arg, f"argument {i} of {self.name}") for i, arg in enumerate(args)]
        hidden = self._take(kwargs, f"keywords of {self.name}") if kwargs else Constant(None)
        self.keywords: Tree = hidden
        # Keywords are no operands, which would be kept as they are now.
        self.kwargs = self.named([_kept(value) for value in self.values])
        self.active = [_core.is_dual(value) for value in self.values]
        self.given: list[Any] = []
        self.written, self.originals = self._overwritten(args)
        self.own_leaves = 0
        self.out_tree: Tree = Constant(None)
        self.out_leaves: list[Leaf] = []
        self.level: Any = _core.meet(self.values) if any(self.active) else None

    def _take(self, value: Any, name: str) -> Tree:
        """Add the leaves of an argument; its tree, with numbers of leaves among those of all arguments."""
        if type(value) is int:
            return Constant(value)
        try:
            tree, leaves, values = flattened(value, name)
        except (ArgumentTypeError, UnsupportedDtype):
            if _core.is_dual(value):
                raise
            return Constant(value)
        if tree != 0 and not any(map(_core.is_dual, values)) and _has_record(tree) and not _made_inside(value, set()):
            return Constant(value)
        numbers = []
        for leaf, part in zip(leaves, values, strict=True):
            key = id(value) if tree == 0 and leaf.kind == ARRAY and self.opaque.overwritten else -1
            number = self._known.get(key, len(self.leaves))
            if number == len(self.leaves):
                self.leaves.append(leaf)
                self.values.append(part)
                if key >= 0:
                    self._known[key] = number
            numbers.append(number)
        return _shifted(tree, numbers)

    def _overwritten(self, args: tuple[Any, ...]) -> tuple[list[int], list[Any]]:
        """The leaves that the function writes into, and the arrays that the caller has for them."""
        found: dict[int, Any] = {}
        for i in sorted(self.opaque.overwritten):
            tree = self.trees[i] if i < len(args) else Constant(None)
            if isinstance(tree, int) and self.leaves[tree].kind == ARRAY:
                found[tree] = args[i]
            elif not isinstance(tree, Constant):
                raise ArgumentTypeError(
                    f"argument {i} of {self.name}: expected an array, since the function overwrites it; got "
                    f"{type(args[i]).__name__}{_core.user_location()}. Pass its arrays as arguments of their own"
                )
        for k in found:
            for other, value in enumerate(self.values):
                cells = _core.bottom(value)
                if (
                    other != k
                    and isinstance(cells, np.ndarray)
                    and np.may_share_memory(cells, _core.bottom(self.values[k]))
                ):
                    raise AliasError(
                        f"{self.leaves[k].name}: expected memory of its own, since the function overwrites it; got "
                        f"memory that another argument is a view of{_core.user_location()}. Pass a copy, x.copy()"
                    )
        return list(found), list(found.values())

    # ---- structures ----------------------------------------------------------------------------------------------

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with these values of the leaves."""
        return tuple(rebuild(tree, values) for tree in self.trees)

    def originals_of(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as they were given, and copies of objects that hold arrays which a derivative had made."""
        return tuple(
            rebuild(tree, self.values) if _has_record(tree) else arg for tree, arg in zip(self.trees, args, strict=True)
        )

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """The keywords with these values of the leaves."""
        return self.kwargs and dict(rebuild(self.keywords, values))

    def tangents(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """What belongs to the arguments, in their structure; None for one of which no leaf has any."""
        filled = [self.zero(leaf) if part is None else part for leaf, part in zip(self.leaves, parts, strict=True)]
        return tuple(
            rebuild_gradient(tree, filled) if any(parts[k] is not None for k in _numbers(tree)) else None
            for tree in self.trees
        )

    def each(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """As :meth:`tangents`, with None for every leaf that has none."""
        return tuple(
            rebuild_gradient(tree, parts) if any(parts[k] is not None for k in _numbers(tree)) else None
            for tree in self.trees
        )

    def output(self, values: Sequence[Any]) -> Any:
        """The output with these values of its leaves."""
        return rebuild(self.out_tree, values)

    def cotangent(self, ws: Sequence[Any]) -> Any:
        """What belongs to the output, in its structure."""
        return rebuild_gradient(self.out_tree, ws)

    def output_parts(self, given: Any, what: str) -> list[Any]:
        """The leaves of a tangent of the output that a rule returned, checked."""
        own = self.out_leaves[: self.own_leaves]
        return self._checked(self.out_tree, own, given, f"{what} of {self.name}", "as the output is")

    def argument_parts(self, given: Any, what: str) -> list[Any]:
        """The leaves of the cotangents of all arguments that a rule returned, checked."""
        label = f"{what} of {self.name}"
        if not isinstance(given, tuple | list) or len(given) != len(self.trees):
            got = f"{len(given)} entries" if isinstance(given, tuple | list) else type(given).__name__
            raise RuleError(
                f"{label}: expected a tuple with a cotangent for each of the {len(self.trees)} arguments, None where "
                f"there is none; got {got}. Return (…,) even for one argument"
            )
        found: list[Any] = [None] * len(self.leaves)
        for tree, part in zip(self.trees, given, strict=True):
            if part is None or isinstance(tree, Constant):
                continue
            if isinstance(tree, int):
                (found[tree],) = self._checked(0, [self.leaves[tree]], part, label, "as the argument is")
                continue
            numbers = _numbers(tree)
            leaves = [self.leaves[k] for k in numbers]
            local = _shifted(tree, {k: i for i, k in enumerate(numbers)})
            for k, value in zip(numbers, self._checked(local, leaves, part, label, "as the argument is"), strict=True):
                found[k] = value
        return found

    def _checked(self, tree: Tree, leaves: list[Leaf], given: Any, label: str, model: str) -> list[Any]:
        given = _core.constants(given)
        if tree == 0 and type(given) is np.ndarray:
            leaf = leaves[0]
            if leaf.kind == ARRAY and given.dtype == leaf.dtype and given.shape == leaf.shape:
                return [given]
        try:
            parts = leaf_parts(tree, given, label, model)
            return [
                None if part is None else one_lane(leaf, _core.constants(part), "derivative")
                for leaf, part in zip(leaves, parts, strict=True)
            ]
        except (ArgumentTypeError, ArgumentValueError) as error:
            raise RuleError(f"{label}: {error}. Return one of the shape and dtype that is expected") from error

    @staticmethod
    def zero(leaf: Leaf) -> Any:
        """A tangent that is zero."""
        return np.zeros(leaf.shape, leaf.dtype) if leaf.kind == ARRAY else leaf.dtype.type(0)  # type: ignore[union-attr]

    def number(self, leaf: Leaf, value: Any) -> Any:
        """A number where the leaf is one, and not an array without axes."""
        return value[()] if leaf.kind != ARRAY and getattr(value, "ndim", None) == 0 else value

    # ---- the rule ------------------------------------------------------------------------------------------------

    def outside(self) -> Any:
        """Code of the function and its rule belongs to what is around the derivative."""
        return _core.Pause(self.level.outer) if self.level.alive else contextlib.nullcontext()

    def rule(self) -> Structured:
        """The call as a structured rule over its leaves."""
        return Structured(
            self.name, (self.name,), ("leaves...",), self._lanes, self._cotangents, {}, lambda args, kwargs: (args, {})
        )

    def value(self, *leaves: Any) -> tuple[Any, ...]:
        """The function on values; the leaves of its output."""
        self.given = [leaf.copy("K") if k in self.written else leaf for k, leaf in enumerate(leaves)]
        try:
            with self.outside(), self.unchanged(self.given):
                out = self.opaque.run(self, self.arguments(self.given))
        except StaleDualError as error:
            raise closure(self.name) from error
        if self.level.recorder is not None:  # the way back comes later
            made: dict[int, Any] = {}
            self.trees = [
                Constant(snapshot(tree.value, made)) if isinstance(tree, Constant) else tree for tree in self.trees
            ]
            self.kwargs = {key: snapshot(value, made) for key, value in self.kwargs.items()}
        found = self.taken(out)
        self.own_leaves = len(found)
        self.out_leaves = self.out_leaves + [self.leaves[k] for k in self.written]
        written = [self.given[k] for k in self.written]
        self.given = []
        return (*found, *written)

    def taken(self, out: Any) -> tuple[Any, ...]:
        """The leaves of an output, as arrays of their own."""
        if type(out) is int:
            self.out_tree, self.out_leaves = Constant(out), []
            return ()
        self.out_tree, self.out_leaves, values = flattened(out, f"the output of {self.name}")
        return tuple([self.own(value) for value in values])

    def own(self, value: Any) -> Any:
        """A part of the output in memory that nobody else has: no argument, tape, or workspace of the function."""
        if self.level is not None and _core.is_active(value, self.level):
            raise closure(self.name)
        if type(value) in (float, complex):
            return np.asarray(value)[()]
        return value.copy() if isinstance(_core.bottom(value), np.ndarray) else value

    @contextlib.contextmanager
    def unchanged(self, values: Sequence[Any], what: str = "") -> Iterator[None]:
        """See that code leaves arguments as they are, the memory of the caller; what it changed is restored."""
        cells = [(k, _core.bottom(value)) for k, value in enumerate(values) if k not in self.written]
        before = [(k, part, _content(part)) for k, part in cells if isinstance(part, np.ndarray)]
        yield
        for k, part, content in before:
            now = _core.bottom(values[k])  # a dual may have moved to other memory as it was written to
            if _content(now) == content:
                continue
            if part is now and part.flags.writeable and isinstance(content, bytes):
                part[...] = np.frombuffer(content, part.dtype).reshape(part.shape)
            raise AliasError(
                f"{self.leaves[k].name}: expected {what or self.name} to leave it as it is; got another content"
                f"{_core.user_location()}. Write into a copy, x.copy()"
                f"{'' if what else ', or name the argument in overwritten='}"
            )

    def _values(self, x: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([self.number(leaf, value) for leaf, value in zip(self.leaves, x, strict=True)])

    def _outputs(self, y: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([self.number(leaf, value) for leaf, value in zip(self.out_leaves, y, strict=True)])

    def _lanes(self, xp: Any, y: Any, x: Any, dx: Any) -> tuple[Any, ...]:
        if not self.out_leaves:
            return ()
        width = next(len(t) for t in dx if t is not None)
        lanes = [
            [None if t is None else self.number(leaf, t[n].copy()) for leaf, t in zip(self.leaves, dx, strict=True)]
            for n in range(width)
        ]
        with self.outside(), self.unchanged(x, f"the rule of {self.name}"):
            found = self.opaque.push(self, self._values(x), self._outputs(y), lanes)
        return tuple(
            xp.stack([self.zero(leaf) if row[k] is None else row[k] for row in found])
            for k, leaf in enumerate(self.out_leaves)
        )

    def _cotangents(self, xp: Any, w: Any, y: Any, x: Any) -> list[Any]:
        ws = [self.number(leaf, part.copy()) for leaf, part in zip(self.out_leaves, w, strict=True)]
        with self.outside(), self.unchanged(x, f"the rule of {self.name}"):
            return self.opaque.pull(self, self._values(x), self._outputs(y), ws)


def apply(opaque: Opaque, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with a derivative of its own while derivatives are taken."""
    call = Call(opaque, args, kwargs)
    if call.level is None:
        return opaque.plain(call.originals_of(args), call.kwargs)
    if _core.activity([_core.constants(call.values[k], True) for k in _numbers(call.keywords)]) == 2:
        raise ArgumentTypeError(
            f"expected {call.name} to get what is differentiated by position; got it by keyword"
            f"{_core.user_location()}. Pass it by position"
        )
    if opaque.transparent(call.level):
        return opaque.plain(args, kwargs)
    found = forward.apply(call.rule(), Formula(call.value), tuple(call.values), {})
    for array, value in zip(call.originals, found[call.own_leaves :], strict=True):
        array[...] = value
    if not call.out_leaves:  # a step, as any other function that returns integers or text
        for value in call.values:
            _core.compared(value)
    call.values = call.originals = []
    return call.output(found)


def closure(name: str) -> DerivativeLostError:
    """What to raise where a function with a rule used what it was not given."""
    return DerivativeLostError(
        f"expected {name}, which has a rule of its own, to use nothing active but its arguments; got an active value "
        f"of the function around it{_core.user_location()}. Pass it as an argument, or ndual.stop_gradient(x) of it"
    )


def settled(out: Any) -> Any:
    """A result that holds no derivative, as arrays into which active values may be written."""
    return _core.call_plain(lambda: out, (), {}, False)


def flattened(value: Any, name: str) -> tuple[Tree, list[Leaf], list[Any]]:
    """A structure, its leaves and their values; one leaf alone without more ado."""
    if type(value) not in (tuple, list, dict):
        found = leaf_of(value, name, promote=False)
        if found is not None:
            return 0, [found[0]], [found[1]]
    flat = Flat(value, name, needed=False)
    return flat.tree, flat.leaves, flat.values


def _numbers(tree: Tree) -> list[int]:
    """The different leaves of a tree, in order."""
    found: dict[int, None] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, int):
            found[node] = None
        else:
            stack.extend(reversed(getattr(node, "children", ())))
    return list(found)


def _shifted(tree: Tree, numbers: Any) -> Tree:
    """A tree with other numbers of its leaves."""
    if isinstance(tree, int):
        return int(numbers[tree])
    if not isinstance(tree, Branch):
        return tree
    return dataclasses.replace(tree, children=tuple([_shifted(child, numbers) for child in tree.children]))


def _content(array: Any) -> bytes | int:
    """What an array holds; of a large one a checksum, at 3 GB/s and without memory."""
    if array.nbytes <= 65536:
        return bytes(array.tobytes())
    whole = array if array.flags.c_contiguous else array.T if array.flags.f_contiguous else np.ascontiguousarray(array)
    cells: Any = whole.reshape(-1).view(np.uint8)
    return zlib.crc32(cells)


def _kept(value: Any) -> Any:
    value = _core.constants(value, True)
    return value.copy() if isinstance(value, np.ndarray) and not _core.is_dual(value) else value


def _made_inside(value: Any, met: set[int]) -> bool:
    """Whether a structure without active parts holds arrays that were made where a derivative is taken."""
    if _core.is_dual(value):
        return True
    if isinstance(value, ITEMS):
        parts = value.values() if isinstance(value, dict) else value
    else:
        parts = (fields_of(value) or {}).values()
    if not parts or id(value) in met:
        return False
    met.add(id(value))
    return any(_made_inside(part, met) for part in parts)


def _has_record(tree: Tree) -> bool:
    return isinstance(tree, Record) or any(_has_record(child) for child in getattr(tree, "children", ()))
