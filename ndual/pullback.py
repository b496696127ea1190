"""A function run once, with its tape kept: cotangents taken back through it, and tangents forth, as often as asked.

What runs and sweeps is the add-on of reverse mode, which is imported here on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual._core.nested import Formula
from ndual._core.run import as_lane
from ndual.checks import check_function, name_of
from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.outputs import Outputs, describe, leaf_gradient
from ndual.plan import Plan
from ndual.rules.registry import Structured
from ndual.structure import ARRAY, Branch, Flat, Leaf, Tree, leaf_of, rebuild, rebuild_gradient
from ndual.tangents import leaf_count, match
from ndual.wrt import Reach

__all__ = ["linearize", "vjp"]

ABSENT: Any = object()


class Linear:
    """The derivative of a function at one point, as its tape."""

    what = ""

    def __init__(self, plan: Plan, trace: Any, count: int) -> None:
        self._plan = plan
        self._trace = trace
        self._count = count
        self._around = _core.current_level()
        self._tree, self._outputs = outcome(trace.value, trace.single)

    def __repr__(self) -> str:
        f, tape = self._plan.f, self._trace.tape
        return f"<{self.what} of {getattr(f, '__qualname__', None) or repr(f)}: a tape of {len(tape)} operations>"


class Push(Linear):
    """``push(*tangents)`` returns the tangent of the output; see :func:`linearize`."""

    what = "push"

    def __call__(self, *tangents: Any) -> Any:
        plan = self._plan
        if len(tangents) != self._count:
            raise ArgumentValueError(
                f"push expects a tangent for each of the {self._count} primals; got {len(tangents)}. "
                "Pass None for an argument that stays constant"
            )
        for i, tangent in enumerate(tangents):
            if i not in plan.active and tangent is not None:
                raise ArgumentTypeError(
                    f"push expects None for {name_of(i)}, which holds no float; got {describe(tangent)}"
                )
        given: list[Any] = []
        for i in plan.active:
            tree, name = plan.trees.get(i, 0), f"tangent of {name_of(i)}"
            given += leaf_parts(tree, tangents[i], name, "as the argument is")
        leaves = [plan.leaves[k] for k in plan.slots]
        found = self._trace.push(
            [None if t is None else one_lane(leaf, t, "tangent") for leaf, t in zip(leaves, given, strict=True)]
        )
        zeros = zip(found, self._outputs, strict=True)
        return rebuild_gradient(self._tree, [zero_of(leaf) if t is None else t for t, leaf in zeros])


class Pullback(Linear):
    """``pullback(cotangent)`` returns one cotangent for each primal; see :func:`vjp`."""

    what = "pullback"

    def __call__(self, cotangent: Any = ABSENT) -> tuple[Any, ...]:
        row = self._row(cotangents(self._tree, self._outputs, cotangent, self.what))
        return self._plan.pulled(row, self._count)

    def _row(self, ws: list[Any]) -> Any:
        """The cotangents of all arguments in one row; of active cotangents by a rule, for all this is linear."""
        ws = [_core.constants(w) for w in ws]
        # The tape holds values of the level around it; duals of a later one are nothing that it knows.
        around = 0 if self._around is None else self._around.id
        active = [k for k, w in enumerate(ws) if _core.is_dual(w) and _core.level_of(w).id > around]
        if not active:
            return self._trace.pull(ws)

        def pull(*given: Any, others: bool) -> Any:
            whole = list(ws) if others else [None] * len(ws)
            for k, w in zip(active, given, strict=True):
                whole[k] = w
            return self._row(whole)

        def lanes(xp: Any, y: Any, x: Any, dx: Any) -> Any:
            width = next(len(t) for t in dx if t is not None)
            return xp.stack([pull(*(None if t is None else t[n] for t in dx), others=False) for n in range(width)])

        def transpose(xp: Any, w: Any, y: Any, x: Any) -> list[Any]:
            plan, low, ts = self._plan, 0, []
            for k, size in zip(plan.slots, plan.sizes, strict=True):
                ts.append(leaf_gradient(plan.leaves[k], w[low : low + size], False))
                low += size
            found = self._trace.push(ts)
            return [found[k] for k in active]

        rule = Structured("pullback", ("pullback",), ("ws...",), lanes, transpose, {}, lambda args, kw: (args, {}))
        return forward.apply(rule, Formula(lambda *given: pull(*given, others=True)), tuple(ws[k] for k in active), {})


def outcome(value: Any, single: bool) -> tuple[Tree, list[Leaf]]:
    """The tree and the leaves of an output, from its value where that is one dual, else from its parts."""
    tree: Tree = 0 if single else value.tree
    values = [value] if single else value.values
    return tree, [output_leaf(v, name) for v, name in zip(values, paths(tree, "the output"), strict=True)]


def cotangents(tree: Tree, leaves: list[Leaf], given: Any, what: str) -> list[Any]:
    """The cotangents of the leaves of an output, from a structure like it; ABSENT stands for 1, for one real number."""
    if given is ABSENT:
        given = _one(tree, leaves, what)
    parts = leaf_parts(tree, given, "cotangent of the output", "as f returned it")
    return [None if w is None else one_lane(leaf, w, "cotangent") for leaf, w in zip(leaves, parts, strict=True)]


def _one(tree: Tree, leaves: list[Leaf], what: str) -> Any:
    if tree == 0 and leaves[0].shape == () and not leaves[0].complex:
        return leaves[0].dtype.type(1)  # type: ignore[union-attr]
    if tree == 0:
        raise ArgumentTypeError(
            f"{what} expects a cotangent of the output, {leaves[0]}; got none. "
            "Only one real number has a cotangent that goes without saying: pass one of the shape of the output"
        )
    raise ArgumentTypeError(
        f"{what} expects a cotangent of the output, in the structure that f returned; got none. "
        "Pass one, with None for what has no cotangent"
    )


def output_leaf(value: Any, name: str) -> Leaf:
    """What is expected of a cotangent of an output."""
    found = leaf_of(value, name)
    assert found is not None, "outputs are taken apart into floats"
    return found[0]


def zero_of(leaf: Leaf) -> Any:
    """The tangent of a constant output."""
    return np.zeros(leaf.shape, leaf.dtype) if leaf.kind == ARRAY else leaf.dtype.type(0)  # type: ignore[union-attr]


def one_lane(leaf: Leaf, t: Any, what: str) -> Any:
    """A tangent or cotangent of a leaf, checked and cast; a number where the leaf is one."""
    lane = as_lane(leaf, t, what)[0]
    return lane[()] if leaf.kind != ARRAY and leaf.shape == () and not _core.is_dual(lane) else lane


def leaf_parts(tree: Tree, given: Any, name: str, model: str) -> list[Any]:
    """The parts of a tangent or cotangent for the leaves of a tree; None stands for none at all."""
    if given is None:
        return [None] * leaf_count(tree)
    parts: dict[int, Any] = {}
    match(tree, given, name, parts, model)
    return [parts[k] for k in range(len(parts))]


def paths(tree: Tree, name: str) -> Iterator[str]:
    """The names of the leaves of an output, in order."""
    if isinstance(tree, int):
        yield name
    elif isinstance(tree, Branch):
        for key, child in zip(tree.keys or range(len(tree.children)), tree.children, strict=True):
            yield from paths(child, f"{name}{tree.step(key)}")


def with_floats(primals: tuple[Any, ...], operator: str) -> tuple[int, ...]:
    """The positions of the arguments that hold floats."""
    active = tuple(i for i, x in enumerate(primals) if leaf_of(x, name_of(i)) or Flat(x, name_of(i), False).leaves)
    if not active:
        got = ", ".join(map(describe, primals))
        raise ArgumentTypeError(
            f"{operator} expects at least one float number or float array among the arguments; got {got}. "
            "Pass floats (1.0, not 1)"
        )
    return active


def traced(
    f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, operator: str, wrt: Any = None
) -> tuple[Plan, Any, int]:
    """A plan over the primals that hold floats, the trace of its run, and how many arguments have directions."""
    check_function(f, operator)
    if wrt is not None:
        reach = Reach(operator, f, wrt)
        f, primals, count = reach.call, reach.primals(primals), reach.count
        active = tuple(range(count))
    else:
        if not primals:
            raise ArgumentValueError(f"{operator} expects the arguments of the function after it; got none")
        active, count = with_floats(primals, operator), len(primals)
    plan = Plan(f, primals, active, Outputs(operator, has_aux), mode="reverse")
    run: Any = plan.run
    trace = run.trace(plan.values)
    plan.values = []
    return plan, trace, count


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, wrt: Any = None) -> tuple[Any, ...]:
    """Value of a function, and the map that takes a cotangent of its output back to its arguments.

    Parameters
    ----------
    f : callable
        Any function of numbers, arrays and containers of them. It runs once.
    *primals
        The arguments of `f`. Those that hold floats or complex numbers are differentiated.
    has_aux : bool
        `f` returns ``(output, aux)``; `aux` is handed back as it is.
    wrt : optional
        As in :func:`grad`. There is one entry for each part that it names then, and none for the primals.

    Returns
    -------
    value, pullback
        The output, and a callable: ``pullback(cotangent)`` takes a cotangent with the structure and shapes of the
        output (None for a part that has none; a single real number needs no cotangent) and returns a tuple with that of
        each primal, in its structure, shapes and dtypes, and None for what is not float. It may be called as often as
        needed. It keeps copies of all that it needs, so that later writes to the arguments do not change it, and
        frees them when it is dropped. With ``has_aux=True``, `aux` is a third entry.

        A complex cotangent is that of the real part plus i times that of the imaginary part, on either side:
        ``pullback(1.0)`` is the gradient as :func:`grad` gives it, and for holomorphic `f` the product with the
        conjugate of its derivative.

    Raises
    ------
    ArgumentTypeError
        `f` is no function, no primal holds a float, or a cotangent is needed and not given.
    ArgumentValueError
        No primals are given; of the pullback: a cotangent has another shape or structure than the output.
    UnsupportedDtype
        A primal has a dtype that carries no derivative.
    NoRuleError, DerivativeLostError, UndefinedDerivativeError
        `f` does what has no derivative; the message names its line.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> A, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0])
    >>> value, pullback = ndual.vjp(lambda A, x: A @ x, A, x)
    >>> value.tolist()
    [-1.0, -1.0]
    >>> to_A, to_x = pullback(np.array([1.0, 2.0]))
    >>> to_A.tolist(), to_x.tolist()
    ([[1.0, -1.0], [2.0, -2.0]], [7.0, 10.0])
    """
    plan, trace, count = traced(f, primals, has_aux, "vjp", wrt)
    value = trace.value if trace.single else rebuild(trace.value.tree, trace.value.values)
    pullback = Pullback(plan, trace, count)
    return (value, pullback, trace.value.aux) if has_aux else (value, pullback)


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False, wrt: Any = None) -> tuple[Any, ...]:
    """Value of a function, and the map that takes tangents of its arguments to the tangent of its output.

    Parameters
    ----------
    f : callable
        Any function of numbers, arrays and containers of them. It runs once.
    *primals
        The arguments of `f`. Those that hold floats or complex numbers are differentiated.
    has_aux : bool
        `f` returns ``(output, aux)``; `aux` is handed back as it is.
    wrt : optional
        As in :func:`grad`. There is one entry for each part that it names then, and none for the primals.

    Returns
    -------
    value, push
        The output, and a callable: ``push(*tangents)`` takes one tangent for each primal, of its structure and shapes,
        None for one that stays constant or holds no float, and returns that of the output. It may be called as often as
        needed, at the price of the operations on tangents alone, and keeps copies of all that it needs. For one or
        a few directions, :func:`jvp` costs less. With ``has_aux=True``, `aux` is a third entry.

    Raises
    ------
    ArgumentTypeError
        `f` is no function, or no primal holds a float.
    ArgumentValueError
        No primals are given; of the push: a tangent is missing, or has another shape or structure than its argument.
    UnsupportedDtype
        A primal has a dtype that carries no derivative.
    NoRuleError, DerivativeLostError, UndefinedDerivativeError
        `f` does what has no derivative; the message names its line.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> value, push = ndual.linearize(lambda x: x * x, np.array([1.0, 3.0]))
    >>> value.tolist(), push(np.array([1.0, 0.0])).tolist(), push(np.array([0.0, 1.0])).tolist()
    ([1.0, 9.0], [2.0, 0.0], [0.0, 6.0])
    """
    plan, trace, count = traced(f, primals, has_aux, "linearize", wrt)
    value = trace.value if trace.single else rebuild(trace.value.tree, trace.value.values)
    push = Push(plan, trace, count)
    return (value, push, trace.value.aux) if has_aux else (value, push)
