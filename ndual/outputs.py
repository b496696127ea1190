"""What a differentiated function returned, taken apart while its duals live and put together as results.

Only outputs are handled here: a dual, a constant, or containers of them, with or without auxiliary data beside them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import ArgumentTypeError, ConstantOutputWarning
from ndual.objects import (
    ITEMS,
    attributes_of,
    empty,
    extra_of,
    fields_of,
    holds_items,
    set_fields,
    setter_of,
    shell,
)
from ndual.structure import (
    Again,
    Branch,
    Constant,
    Leaf,
    Record,
    Tree,
    foreign,
    is_object,
    rebuild,
    rebuild_gradient,
    type_name,
    with_article,
)

DEPTH = 20
"""How deep objects are looked into for duals."""


class Parts:
    """One output taken apart: its tree, and for each leaf a value and lanes (None for a constant)."""

    __slots__ = ("aux", "rows", "tree", "values")

    def __init__(self) -> None:
        self.tree: Tree = 0
        self.values: list[Any] = []
        self.rows: list[np.ndarray | None] = []
        self.aux: Any = None


class Outputs:
    """What one operator ("grad", "jvp" …) makes of the outputs of a function.

    Parameters
    ----------
    operator : str
        The name that messages use.
    has_aux : bool
        The function returns ``(output, aux)``.
    scalar : bool
        The output must be one real number (a complex one if `holomorphic`).
    """

    __slots__ = ("has_aux", "holomorphic", "operator", "scalar")

    def __init__(self, operator: str, has_aux: bool = False, scalar: bool = False, holomorphic: bool = False) -> None:
        self.operator = operator
        self.has_aux = has_aux
        self.scalar = scalar
        self.holomorphic = holomorphic

    def split(self, out: Any) -> Parts:
        """Take an output apart, while the level is alive."""
        parts = Parts()
        if self.has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise ArgumentTypeError(
                    f"{self.operator} with has_aux=True expects f to return (output, aux); got {describe(out)}"
                )
            out, aux = out
            parts.aux = lower(aux, _core.is_own, _core.lowered)
        if self.scalar and type(out) is int:
            out = float(out)
        parts.tree = _Taken(parts).grow(out)
        return parts

    def check(self, value: Any, single: bool) -> None:
        """Refuse an output that the operator cannot differentiate: a value, or parts where it is not one dual."""
        if single:
            self._check_leaf(value)
            return
        if self.scalar and value.tree != 0:
            got = rebuild(value.tree, value.values)
            remedy = "Return a float" if isinstance(value.tree, Constant) else "Use jacobian, or return one number"
            raise ArgumentTypeError(f"{self.operator} expects f(x) to be a real scalar; got {describe(got)}. {remedy}")
        for leaf in value.values:
            self._check_leaf(leaf)

    def _check_leaf(self, value: Any) -> None:
        iscomplex = np.iscomplexobj(value)
        if self.scalar and np.ndim(value) != 0:
            raise ArgumentTypeError(
                f"{self.operator} expects f(x) to be a real scalar; got shape {np.shape(value)}. "
                "Use jacobian, or sum the output"
            )
        if self.scalar and iscomplex and not self.holomorphic:
            raise ArgumentTypeError(
                f"{self.operator} expects f(x) to be a real scalar; got a complex one. "
                "Take .real, .imag or abs() of it, or pass holomorphic=True if f is"
            )
        if self.holomorphic and not iscomplex:
            raise ArgumentTypeError(
                f"{self.operator} with holomorphic=True expects a complex output; got {np.result_type(value)}. "
                "Leave holomorphic out"
            )

    def join(self, parts: Parts, compared: bool) -> tuple[Any, ...]:
        """The output and its tangent in one direction, and the auxiliary data if there is any."""
        self.warn(parts.rows, compared)
        tangents = [zeros_of(v) if r is None else r[0] for v, r in zip(parts.values, parts.rows, strict=True)]
        result = rebuild(parts.tree, parts.values), rebuild_gradient(parts.tree, tangents)
        return (*result, parts.aux) if self.has_aux else result

    def warn(self, rows: list[np.ndarray | None], compared: bool) -> None:
        """Warn if nothing of the output carries a derivative although active values were compared."""
        if compared and all(part is None for part in rows):
            warnings.warn(
                f"{self.operator}: expected an output that depends on the differentiated arguments; got a constant, "
                "though they were compared on the way. The derivative is 0 wherever the comparison does not change; "
                "if f is a step, use a smooth form of it",
                ConstantOutputWarning,
                stacklevel=_depth_of_user(),
            )


def _depth_of_user() -> int:
    """The stack level of the first frame outside of ndual, seen from the caller of warn."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ndual":
        depth, frame = depth + 1, frame.f_back
    return depth


class _Taken:
    """One output as it is taken apart; `met` has the mark of each list, dict and object by its identity."""

    def __init__(self, parts: Parts) -> None:
        self.values, self.rows = parts.values, parts.rows
        self.met: dict[int, int] = {}

    def leaf(self, value: Any, lanes: Any) -> int:
        """Add a leaf."""
        self.values.append(value)
        self.rows.append(lanes)
        return len(self.values) - 1

    def grow(self, out: Any) -> Tree:
        """The tree of a part."""
        if _core.is_own(out):
            return self.leaf(_core.lowered(out), None if _core.is_constant(out) else _core.carried(out))
        # A dual of an outer derivative is a constant here.
        if _core.is_dual(out) or isinstance(out, float | complex | np.inexact):
            return self.leaf(out, None)
        if (type(out) is np.ndarray or _core.storage_for(out) is not None) and out.dtype.kind in "fc":
            return self.leaf(out, None)
        if id(out) in self.met:
            return Again(self.met[id(out)])
        remedy = foreign(out)
        if remedy is not None:
            raise ArgumentTypeError(
                f"expected a number, an array, or tuples, lists, dicts and objects of them from f; got "
                f"{type_name(out)}. Return {remedy}"
            )
        if holds_items(out, "the output"):
            mark = -1 if isinstance(out, tuple) else self._mark(out)
            keys = tuple(out) if isinstance(out, dict) else None
            held = out.values() if isinstance(out, dict) else out
            return Branch(type(out), keys, tuple([self.grow(part) for part in held]), mark, extra_of(out))
        if holds_dual(out):
            fields = fields_of(out) if is_object(out) else None
            if fields is not None:
                mark = self._mark(out)
                return Record(type(out), tuple(fields), tuple([self.grow(part) for part in fields.values()]), mark)
            raise ArgumentTypeError(
                "expected a number, an array, or tuples, lists, dicts and objects of them from f; "
                f"got {describe(out)}, whose parts carry derivatives. Return np.stack(parts), or a tuple of them"
            )
        return Constant(out)

    def _mark(self, out: Any) -> int:
        return self.met.setdefault(id(out), len(self.met))


def holds_dual(out: Any, met: set[int] | None = None, depth: int = DEPTH) -> bool:
    """Whether an object has duals in it, or may yield some."""
    if _core.is_dual(out) or isinstance(out, Iterator | Coroutine):
        return True
    met = set() if met is None else met
    if depth == 0 or isinstance(out, str | bytes | type | ModuleType) or id(out) in met:
        return False
    met.add(id(out))
    parts: list[Any] = []
    if isinstance(out, np.ndarray):
        parts = list(out.flat) if out.dtype.kind == "O" else []
    elif isinstance(out, Mapping):
        parts = list(out.values())
    elif isinstance(out, Sequence | Set):
        parts = list(out)
    elif hasattr(out, "__dict__"):
        parts = list(vars(out).values())
    for kind in type(out).__mro__:
        names = vars(kind).get("__slots__", ())
        parts += [getattr(out, name, None) for name in ((names,) if isinstance(names, str) else names)]
    return any(holds_dual(part, met, depth - 1) for part in parts)


def lower(
    value: Any, chosen: Callable[[Any], bool] = _core.is_dual, primal: Callable[[Any], Any] = _core.primal,
    made: dict[int, Any] | None = None,
) -> Any:  # fmt: skip
    """Structures with their duals, or the `chosen` ones of them, replaced by primals; anything else as it is."""
    if chosen(value):
        return primal(value)
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, ITEMS) and not attributes_of(value):
        if isinstance(value, tuple):
            return tuple.__new__(type(value), [lower(part, chosen, primal, made) for part in value])
        found = made[id(value)] = empty(type(value), extra_of(value))
        if isinstance(value, dict):
            put = setter_of(type(value))
            for key, part in value.items():
                put(found, key, lower(part, chosen, primal, made))
        else:
            found.extend([lower(part, chosen, primal, made) for part in value])
        return found
    fields = fields_of(value) if is_object(value) and holds_dual(value) else None
    if fields is None:
        return value
    found = made[id(value)] = shell(type(value))
    set_fields(found, tuple(fields), [lower(part, chosen, primal, made) for part in fields.values()])
    return found


def zeros_of(value: Any) -> Any:
    """The tangent of a constant output."""
    if _core.is_dual(value):
        value = _core.primal(value)
    if isinstance(value, np.ndarray) or _core.storage_for(value) is not None:
        return np.zeros_like(value)
    return value.dtype.type(0) if isinstance(value, np.generic) else type(value)(0)


def describe(value: Any) -> str:
    """How messages call a value."""
    if _core.is_dual(value):
        value = _core.primal(value)
    if isinstance(value, np.ndarray):
        return with_article(f"{value.dtype} array of shape {value.shape}")
    if isinstance(value, tuple | list):
        return with_article(f"{type(value).__name__} of {len(value)}")
    return "None" if value is None else f"{type(value).__name__} {value!r}"[:80]


def leaf_gradient(leaf: Leaf, flat: np.ndarray, holomorphic: bool) -> Any:
    """The gradient of one leaf from its entries in the flat gradient; the convention for complex is re + i im."""
    flat = leaf.moved(flat)
    if leaf.complex and not holomorphic:
        if _core.is_dual(flat) or leaf.storage is not None:
            flat = flat[::2] + 1j * flat[1::2]
        else:
            flat = np.ascontiguousarray(flat).view(np.complex64 if flat.dtype == np.float32 else np.complex128)
    if flat.dtype != leaf.dtype:
        flat = flat.astype(leaf.dtype)
    return flat.reshape(leaf.shape) if leaf.kind == 0 else flat[0]


def leaf_jacobian(leaf: Leaf, rows: np.ndarray) -> Any:
    """``(*out.shape, *leaf.shape)`` from rows ``(leaf.size, *out.shape)``, as a view."""
    rows = leaf.moved(rows)
    block = rows.reshape(leaf.shape + rows.shape[1:])
    depth = len(leaf.shape)
    return block.transpose(*range(depth, block.ndim), *range(depth)) if block.ndim else block[()]
