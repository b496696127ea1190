"""Checks one structured rule on plain arrays: its lanes against extrapolated differences, its transpose against them.

No dual takes part in that, so that a wrong formula is told apart from a wrong core. Compositions have no formula of
their own: their value is checked against the public function here, their derivative through ndual elsewhere.
At last the public call is run in both modes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import ndual
from ndual.frontend.dispatch import dispatch
from ndual.rules import registry
from ndual.rules.registry import Bilinear, Composition, Linear, Structured
from ndual.testing.inputs import is_float, leaves, replace_leaves
from ndual.testing.modes import disagreement


def rule_of(dotted: str) -> tuple[Any, Any]:
    """The public function behind a dotted name, and its rule."""
    function = registry.lookup(dotted)
    assert function is not None, dotted
    return function, registry.RULES[dotted]


def outputs(y: Any) -> list[Any]:
    """The results of a call as a flat list."""
    return list(y) if isinstance(y, tuple | list) else [y]


def operands(rule: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """The arrays of a call that the rule may differentiate, and what its formulas need besides."""
    if isinstance(rule, Linear):
        x, rest, keywords = rule.bind(args, kwargs)
        return (x,), (rest, keywords)
    if isinstance(rule, Bilinear):
        a, b, rest, keywords = rule.bind(args, kwargs)
        return (a, b), (rest, keywords)
    xs, params = rule.bind(args, kwargs)
    params.pop("out", None)
    return tuple(None if a is None else np.asarray(a) for a in xs), params


def push(rule: Any, y: Any, xs: tuple[Any, ...], dxs: tuple[Any, ...], extra: Any, xp: Any = np) -> list[Any]:
    """The lanes of the outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(rule, Linear):
            rest, keywords = extra
            return outputs(rule.lanes(xp, dxs[0], xs[0], *rest, **keywords))
        if isinstance(rule, Bilinear):
            (a, b), (da, db), (rest, keywords) = xs, dxs, extra
            parts = []
            if da is not None:
                parts.append(rule.lanes(xp, da, b, True, False, *rest, **keywords))
            if db is not None:
                parts.append(rule.lanes(xp, a, db, False, True, *rest, **keywords))
            return [sum(parts[1:], parts[0])]
        return outputs(rule.jvp(xp, y, xs, dxs, **extra))


def pull(rule: Any, w: list[Any], y: Any, xs: tuple[Any, ...], extra: Any, xp: Any = np) -> tuple[Any, ...]:
    """The cotangents of the operands."""
    several = isinstance(y, tuple | list)
    cotangent = w if several else w[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(rule, Linear):
            rest, keywords = extra
            assert rule.transpose is not None
            return (rule.transpose(xp, cotangent, xs[0], *rest, **keywords),)
        if isinstance(rule, Bilinear):
            rest, keywords = extra
            return tuple(t(xp, cotangent, *xs, *rest, **keywords) for t in rule.transposes)
        return tuple(rule.vjp(xp, cotangent, y, xs, **extra))


def differences(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], replace: Any, h: float) -> list[Any]:
    """Central differences at h, h/2, h/4 and h/8, extrapolated: exact to about 1e-10 for smooth functions."""

    def at(step: float) -> list[Any]:
        new_args, new_kwargs = replace(step)
        return [np.asarray(o) for o in outputs(function(*new_args, **new_kwargs))]

    table = []
    for level in range(4):
        s = h / 2**level
        table.append([(p - m) / (2 * s) for p, m in zip(at(s), at(-s), strict=True) if p.dtype.kind in "fc"])
    for order in range(1, 4):
        factor = 4.0**order
        table = [
            [(factor * fine - coarse) / (factor - 1) for coarse, fine in zip(table[i], table[i + 1], strict=True)]
            for i in range(len(table) - 1)
        ]
    return table[0]


def random_like(rng: np.random.Generator, a: Any, lanes: int | None = None) -> Any:
    """Random numbers of the shape and dtype of `a`, with `lanes` in front."""
    shape = np.shape(a) if lanes is None else (lanes, *np.shape(a))
    out = rng.standard_normal(shape)
    dtype = np.asarray(a).dtype
    if dtype.kind == "c":
        out = out + 1j * rng.standard_normal(shape)
    return np.asarray(out).astype(dtype)


def inner(a: Any, b: Any) -> float:
    """The real inner product that cotangents pair by."""
    return float(np.real(np.sum(np.conj(a) * b)))


def check(
    dotted: str, *args: Any, passive: tuple[int, ...] = (), tol: float = 1e-7, h: float = 1e-2, **kwargs: Any
) -> None:
    """Check one call: value parity for a composition, else lanes and transpose for N in {1, 2, 3}.

    All float arrays that the rule differentiates are active except the operands whose number is in `passive`.
    """
    function, rule = rule_of(dotted)
    y = function(*args, **kwargs)
    if isinstance(rule, Composition):
        got = rule.body(np, *args, **kwargs)
        for a, b in zip(outputs(got), outputs(y), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=dotted)
            assert np.shape(a) == np.shape(b)
        check_modes(function, args, kwargs, [a for a in leaves((args, kwargs)) if is_float(a)])
        return
    assert isinstance(rule, Linear | Bilinear | Structured), rule
    xs, extra = operands(rule, args, kwargs)
    active = [i for i, a in enumerate(xs) if a is not None and np.asarray(a).dtype.kind in "fc" and i not in passive]
    assert active, "no active operand"
    rng = np.random.default_rng(len(dotted))
    for n in (1, 2, 3):
        dxs = tuple(random_like(rng, a, n) if i in active else None for i, a in enumerate(xs))
        got = push(rule, y, xs, dxs, extra)
        flat = [np.asarray(o) for o in outputs(y)]
        got = [g for g, o in zip(got, flat, strict=False) if o.dtype.kind in "fc"]
        smooth = [o for o in flat if o.dtype.kind in "fc"]
        for g, o in zip(got, smooth, strict=False):
            if g is not None:
                assert g.shape == (n, *o.shape), (dotted, n, g.shape, o.shape)
        for lane in range(n):
            want = _reference(function, args, kwargs, xs, dxs, lane, h)
            for g, r in zip(got, want, strict=False):
                if g is None:
                    np.testing.assert_allclose(r, 0, atol=tol, err_msg=dotted)
                else:
                    np.testing.assert_allclose(g[lane], r, rtol=tol, atol=tol, err_msg=f"{dotted} lane {lane} of {n}")
        if n == 1:
            _check_transpose(dotted, rule, rng, y, flat, xs, dxs, extra, tol)
    check_modes(function, args, kwargs, [xs[i] for i in active])


def check_modes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], active: list[Any]) -> None:
    """The public call in reverse, beside forward mode: a call that this refuses is none of ours."""
    flat = leaves((args, kwargs))
    spots = [i for i, leaf in enumerate(flat) if isinstance(leaf, np.ndarray) and any(leaf is a for a in active)]
    rng = np.random.default_rng(1)

    def program(x: list[Any]) -> Any:
        given = iter(x)
        args_, kwargs_ = replace_leaves((args, kwargs), lambda leaf: next(given))
        return dispatch(function, args_, kwargs_)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            said = disagreement(program, flat, spots, rng)
        except (ndual.NoRuleError, StopIteration):
            return
    assert said is None, said


def _reference(
    function: Any, args: Any, kwargs: Any, xs: tuple[Any, ...], dxs: tuple[Any, ...], lane: int, h: float
) -> list[Any]:
    def replace(step: float) -> tuple[Any, Any]:
        def moved(a: Any) -> Any:
            for x, t in zip(xs, dxs, strict=True):
                if t is not None and (x is a or (isinstance(a, np.generic | float) and x.shape == () and x == a)):
                    out = np.empty_like(x)
                    out[...] = x + step * t[lane]
                    return out
            if isinstance(a, list | tuple):
                return type(a)(moved(v) for v in a)
            return a

        return tuple(moved(a) for a in args), {k: moved(v) for k, v in kwargs.items()}

    return differences(function, args, kwargs, replace, h)


def _check_transpose(
    dotted: str, rule: Any, rng: Any, y: Any, flat: list[Any], xs: Any, dxs: Any, extra: Any, tol: float
) -> None:
    got = push(rule, y, xs, dxs, extra)
    got += [None] * (len(flat) - len(got))
    w = [None if g is None else random_like(rng, o) for g, o in zip(got, flat, strict=True)]
    back = pull(rule, w, y, xs, extra)
    left = sum(inner(a, g[0]) for a, g in zip(w, got, strict=True) if a is not None)
    right = 0.0
    for x, t, g in zip(xs, dxs, back, strict=True):
        if t is not None and g is not None:
            assert np.shape(g) == x.shape, (dotted, np.shape(g), x.shape)
            right += inner(g, t[0])
    np.testing.assert_allclose(right, left, rtol=max(tol, 1e-9), atol=max(tol, 1e-9), err_msg=f"{dotted} transpose")
