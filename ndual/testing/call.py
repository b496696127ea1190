"""All that must hold for one call of a function that is no row: linear, bilinear, structured and composed rules.

The reference are differences of the plain function along two directions; lanes are random combinations of those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual.api import jvp
from ndual.errors import NdualError
from ndual.frontend.dispatch import dispatch
from ndual.rules.registry import Bilinear, Linear, Rule, Structured
from ndual.testing import call_reverse
from ndual.testing.inputs import is_float, layouts, leaves, replace_leaves, same_memory
from ndual.testing.reference import directional

SINGLE = {"f": 2e-3, "F": 2e-3, "e": 3e-2}


class CallCheck:
    """One function with example arguments."""

    def __init__(
        self, function: Callable[..., Any], rule: Rule | None, args: tuple[Any, ...], kwargs: dict[str, Any],
        rtol: float, seed: int,
    ) -> None:  # fmt: skip
        self.function = function
        self.rule = rule
        self.args = args
        self.kwargs = kwargs
        self.rtol = rtol
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.name = rule.name if rule is not None else getattr(function, "__name__", "the function")

    def fail(self, case: str, message: str) -> AssertionError:
        """The error to raise for a broken case."""
        return AssertionError(f"rule {self.name!r}, {case}: {message}")

    def run(self, dtypes: str, widths: tuple[int, ...]) -> None:
        """All cases."""
        spots = [i for i, leaf in enumerate(leaves(self.args)) if is_float(leaf)]
        if not spots:
            raise self.fail("example arguments", "expected a float among them; got none")
        reference = Directions(self, self.args, spots)
        self.compare("all arguments active", self.args, spots, 3, reference)
        for width in widths:
            self.compare(f"width {width}", self.args, spots, width, reference)
        self.rule_lanes()
        if len(spots) > 1:
            for spot in spots:
                self.compare(f"argument {spot} active alone", self.args, [spot], 2, Directions(self, self.args, [spot]))
        for name, args in self.layouts():
            self.compare(f"{name} arguments", args, spots, 2, reference)
        for char in dtypes:
            args = self.cast(char)
            if args is not None:
                self.compare(f"{np.dtype(char)} arguments", args, spots, 2, None, char)
        self._through_jvp(spots, reference)
        self._writes(spots)
        call_reverse.run(self, spots, dtypes)

    def call(self, args: Any) -> Any:
        """The plain call."""
        return self.function(*args, **self.kwargs)

    def dual_call(self, args: Any) -> Any:
        """The call on duals; SciPy's Python functions have rules through interception, which is for user code."""
        if getattr(self.function, "__module__", "").startswith("scipy."):
            return dispatch(self.function, tuple(args), self.kwargs)
        return self.function(*args, **self.kwargs)

    def layouts(self) -> Iterator[tuple[str, Any]]:
        """The arguments in every memory layout."""
        for k, name in enumerate(dict(layouts(np.zeros((1, 1))))):

            def lay(leaf: Any, k: int = k) -> Any:
                if not isinstance(leaf, np.ndarray):
                    return leaf
                kinds = list(layouts(leaf))
                return kinds[min(k, len(kinds) - 1)][1]

            yield name, replace_leaves(self.args, lay)

    def cast(self, char: str) -> Any:
        """The arguments in another dtype, or None if the function does not take them so."""

        def cast(leaf: Any) -> Any:
            return leaf.astype(char) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc" else leaf

        if any(isinstance(leaf, np.ndarray) and leaf.dtype.kind == "c" for leaf in leaves(self.args)) and char in "efd":
            return None
        args = replace_leaves(self.args, cast)
        try:
            y = self.call(args)
        except (TypeError, ValueError):
            return None
        return args if any(is_float(v) for v in leaves(y)) else None

    def compare(
        self, case: str, args: Any, spots: list[int], width: int, reference: Directions | None, char: str = "d"
    ) -> None:
        """Run the rule and compare all there is to compare."""
        want = leaves(self.call(args))
        if reference is None:
            reference = Directions(self, args, spots, char)
        weights = self.rng.uniform(-1.0, 1.0, (width, 2))
        if width > 2:
            weights[1] = 0
        lanes = reference.combine(weights)
        saved = [np.copy(leaf) for leaf in leaves(args)] + [t.copy() for t in lanes]
        try:
            with _core.Level(width) as level:
                duals = lift(args, spots, lanes, level)
                y = self.dual_call(duals)
                found = leaves(y)
                if len(found) != len(want):
                    raise self.fail(case, f"expected {len(want)} results; got {len(found)}")
                self._memory(case, found, want, leaves(duals), leaves(args))
                results = [(_core.primal(v), _core.lanes(v) if _core.is_dual(v) else None) for v in found]
        except NdualError as error:
            raise self.fail(case, f"{type(error).__name__}: {error}") from error
        for k, ((value, got), plain, slopes) in enumerate(zip(results, want, reference.slopes, strict=True)):
            self._result(f"{case}, result {k}", value, got, plain, slopes, weights, char)
        for before, now in zip(saved, [*leaves(args), *lanes], strict=True):
            if before.tobytes() != np.asarray(now).tobytes():
                raise self.fail(case, "an array of the caller was changed")

    def _result(self, case: str, value: Any, got: Any, plain: Any, slopes: Any, weights: Any, char: str) -> None:
        if np.shape(value) != np.shape(plain) or np.asarray(value).dtype != np.asarray(plain).dtype:
            raise self.fail(
                case,
                f"expected {np.asarray(plain).dtype}{np.shape(plain)}; got {np.asarray(value).dtype}{np.shape(value)}",
            )
        if not np.array_equal(value, plain, equal_nan=np.asarray(plain).dtype.kind in "fc"):
            raise self.fail(case, f"expected the value {plain!r}; got {value!r}")
        if not is_float(plain):
            return
        wanted = np.tensordot(weights, np.stack(slopes), 1)
        if got is None:
            got = np.zeros(wanted.shape, np.asarray(plain).dtype)
        if got.shape != wanted.shape or got.dtype != np.asarray(plain).dtype:
            raise self.fail(case, f"expected lanes {np.asarray(plain).dtype}{wanted.shape}; got {got.dtype}{got.shape}")
        size = max(
            float(np.max(np.abs(np.stack(slopes)), initial=0.0)), float(np.max(np.abs(plain), initial=0.0)), 1e-3
        )
        if not np.all(np.abs(got - wanted) <= SINGLE.get(char, self.rtol) * size):
            raise self.fail(case, f"expected lanes {wanted!r}; got {got!r}")
        if weights.shape[0] > 2 and (got[1] != 0).any():
            raise self.fail(case, "a lane of zeros did not stay zero")

    def _memory(self, case: str, found: list[Any], want: list[Any], duals: list[Any], args: list[Any]) -> None:
        for y, plain in zip(found, want, strict=True):
            if not _core.is_dual(y) or not isinstance(plain, np.ndarray):
                continue
            for x, a in zip(duals, args, strict=True):
                if _core.is_dual(x) and isinstance(a, np.ndarray):
                    shared = [same_memory(p, q) for p, q in zip(_core.split(y), _core.split(x), strict=True)]
                    if shared != [same_memory(plain, a)] * 2:
                        raise self.fail(case, f"a view of an argument in NumPy: {same_memory(plain, a)}; "
                                              f"here: its value {shared[0]}, its lanes {shared[1]}")  # fmt: skip

    def rule_lanes(self) -> None:
        """The dtype of what the rule itself returns, before anything widens it, and its transpose."""
        if not isinstance(self.rule, Linear | Bilinear | Structured):
            return
        y = self.call(self.args)
        xs, extra = operands(self.rule, self.args, dict(self.kwargs))
        active = [x is not None and np.asarray(x).dtype.kind in "fc" for x in xs]
        lanes = tuple(_random(self.rng, x, 2) if a else None for x, a in zip(xs, active, strict=True))
        with np.errstate(all="ignore"):
            got = push(self.rule, y, xs, lanes, extra)
        several = isinstance(y, tuple | list)
        outs = list(y) if several else [y]
        got += [None] * (len(outs) - len(got))
        for out, t in zip(outs, got, strict=True):
            if t is not None and np.asarray(out).dtype.kind in "fc" and t.dtype != np.asarray(out).dtype:
                raise self.fail("lanes of the rule", f"expected {np.asarray(out).dtype}, as its value; got {t.dtype}")
        if all(t is None for t in got):
            return
        w = [None if t is None else _random(self.rng, out, None) for out, t in zip(outs, got, strict=True)]
        with np.errstate(all="ignore"):
            back = pull(self.rule, w if several else w[0], y, xs, extra)
        for lane in range(2):
            left = sum(_inner(a, t[lane]) for a, t in zip(w, got, strict=True) if t is not None)
            right = sum(_inner(g, t[lane]) for g, t in zip(back, lanes, strict=True) if g is not None and t is not None)
            if not abs(left - right) <= 1e-9 * (1 + abs(left)):
                raise self.fail("transpose", f"<w, J t> is {left!r} and <Jᵀw, t> is {right!r}")

    def _through_jvp(self, spots: list[int], reference: Directions) -> None:
        """The same through ndual.jvp, as users call it."""
        count = itertools.count()
        lanes = iter(reference.combine(np.array([[1.0, 0.5]])))

        def tangent(leaf: Any) -> Any:
            return next(lanes)[0] if next(count) in spots else None

        def whole(arg: Any) -> Any:
            t = replace_leaves(arg, tangent)
            return None if all(leaf is None for leaf in leaves(t)) else t

        tangents = tuple(whole(arg) for arg in self.args)
        try:
            _, t = jvp(lambda *args: self.dual_call(args), self.args, tangents)
        except NdualError as error:
            raise self.fail("through ndual.jvp", f"{type(error).__name__}: {error}") from error
        for got, slopes, plain in zip(leaves(t), reference.slopes, leaves(self.call(self.args)), strict=True):
            if got is None or not is_float(plain):
                continue
            want = slopes[0] + 0.5 * slopes[1]
            size = max(float(np.max(np.abs(want), initial=0.0)), float(np.max(np.abs(plain), initial=0.0)), 1e-3)
            if not np.all(np.abs(got - want) <= self.rtol * size):
                raise self.fail("through ndual.jvp", f"expected {want!r}; got {got!r}")

    def _writes(self, spots: list[int]) -> None:
        """Writing into a result reaches the arguments exactly if it does in NumPy, and never the caller's arrays."""
        args = replace_leaves(self.args, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)
        plain_args = replace_leaves(args, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)
        floats = [v for v in leaves(self.call(plain_args)) if isinstance(v, np.ndarray) and v.flags.writeable]
        for v in floats:
            if is_float(v):
                v[...] = 7
        lanes = [np.ones((1, *np.shape(leaf)), np.asarray(leaf).dtype)
                 for i, leaf in enumerate(leaves(args)) if i in spots]  # fmt: skip
        with _core.Level(1) as level:
            duals = lift(args, spots, lanes, level)
            for v in leaves(self.dual_call(duals)):
                if _core.is_dual(v) and isinstance(v, np.ndarray) and v.flags.writeable:
                    v[...] = 7
            after = [(_core.primal(v), _core.lanes(v)) if _core.is_dual(v) else (v, None) for v in leaves(duals)]
        for (value, t), want, original, once in zip(
            after, leaves(plain_args), leaves(args), leaves(self.args), strict=True
        ):
            if not isinstance(original, np.ndarray):
                continue
            if original.tobytes() != once.tobytes() or any((t != 1).any() for t in lanes):
                raise self.fail("writing into a result", "an array of the caller was changed")
            if t is not None and (not np.array_equal(value, want) or ((t[0] == 0) != (want != original)).any()):
                raise self.fail(
                    "writing into a result", f"expected the argument {want!r}; got {value!r} with lanes {t!r}"
                )


class Directions:
    """Two random directions for some leaves of the arguments, and the slopes of all results along them."""

    def __init__(self, check: CallCheck, args: Any, spots: list[int], char: str = "d") -> None:
        self.tangents = [[], []]  # type: list[list[Any]]
        self.slopes: list[list[Any]] = [[] for _ in leaves(check.call(args))]
        wide = replace_leaves(args, _widen)
        for k in range(2):
            moves = {i: _random(check.rng, leaf, None) for i, leaf in enumerate(leaves(args)) if i in spots}
            self.tangents[k] = list(moves.values())

            def along(t: float, moves: dict[int, Any] = moves) -> list[Any]:
                count = itertools.count()

                def move(part: Any) -> Any:
                    i = next(count)
                    return part + t * moves[i] if i in moves else part

                return [np.asarray(v) * 1.0 for v in leaves(check.call(replace_leaves(wide, move)))]

            slopes, error = directional(along, 1e-2)
            if error > 1e-8:
                slopes, error = directional(along, 1e-4)
            if error > max(check.rtol, SINGLE.get(char, 0.0)):
                raise check.fail(
                    "reference", f"differences are too rough here (error {error:.1e}); choose other arguments"
                )
            for own, slope in zip(self.slopes, slopes, strict=True):
                own.append(np.asarray(slope))

    def combine(self, weights: Any) -> list[Any]:
        """Lanes that are the given combinations of the two directions."""
        return [
            np.tensordot(weights, np.stack([a, b]), 1).astype(np.asarray(a).dtype)
            for a, b in zip(*self.tangents, strict=True)
        ]


def lift(args: Any, spots: list[int], lanes: list[Any], level: Any) -> Any:
    """The arguments with duals at the given leaves; an object that occurs twice is lifted twice."""
    count, remaining = itertools.count(), iter(lanes)
    return replace_leaves(args, lambda leaf: _core.dual(leaf, next(remaining), level) if next(count) in spots else leaf)


def _widen(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "fc":
        return leaf.astype(np.complex128 if leaf.dtype.kind == "c" else np.float64)
    return leaf


def _random(rng: np.random.Generator, leaf: Any, width: int | None) -> Any:
    shape = np.shape(leaf) if width is None else (width, *np.shape(leaf))
    dtype = np.asarray(leaf).dtype
    t = rng.uniform(-1.0, 1.0, shape)
    if dtype.kind == "c":
        t = t + 1j * rng.uniform(-1.0, 1.0, shape)
    return np.asarray(t).astype(dtype if dtype.kind in "fc" else np.float64)


def _inner(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(a) * b)))


def operands(rule: Linear | Bilinear | Structured, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """The arrays of a call that the rule may differentiate, and what its formulas need besides."""
    if isinstance(rule, Structured):
        xs, params = rule.bind(args, kwargs)
        params.pop("out", None)
        return tuple(None if a is None else np.asarray(a) for a in xs), params
    *arrays, rest, keywords = rule.bind(args, kwargs)
    return tuple(np.asarray(a) for a in arrays), (rest, keywords)


def push(rule: Linear | Bilinear | Structured, y: Any, xs: Any, dxs: Any, extra: Any) -> list[Any]:
    """The lanes of the results, as the rule itself returns them."""
    if isinstance(rule, Structured):
        out = rule.jvp(np, y, xs, dxs, **extra)
    elif isinstance(rule, Linear):
        out = rule.lanes(np, dxs[0], xs[0], *extra[0], **extra[1])
    else:
        parts = [
            rule.lanes(np, *(dxs[i] if i == k else x for i, x in enumerate(xs)), k == 0, k == 1, *extra[0], **extra[1])
            for k in range(2)
            if dxs[k] is not None
        ]
        out = sum(parts[1:], parts[0])
    return list(out) if isinstance(out, tuple | list) else [out]


def pull(rule: Linear | Bilinear | Structured, w: Any, y: Any, xs: Any, extra: Any) -> tuple[Any, ...]:
    """The cotangents of the arrays."""
    if isinstance(rule, Structured):
        return tuple(rule.vjp(np, w, y, xs, **extra))
    if isinstance(rule, Linear):
        assert rule.transpose is not None
        return (rule.transpose(np, w, xs[0], *extra[0], **extra[1]),)
    return tuple(t(np, w, *xs, *extra[0], **extra[1]) for t in rule.transposes)
