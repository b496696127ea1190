"""The two modes side by side: a program run on duals with lanes, and again on a level that records and is swept back.

A program takes the leaves of its arguments as a list and returns a nest of results. This is the one place in the checks
that knows how a mode is run; what must hold of it is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import NdualError, NoRuleError
from ndual.testing.inputs import leaves

Program = Callable[[list[Any]], Any]
ROUNDING = {"e": 2e-2, "f": 1e-3, "d": 1e-9, "F": 1e-3, "D": 1e-9}


def forward(program: Program, values: Sequence[Any], lanes: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The results of a program as (value, lanes), the latter None where a result is no dual; lanes None: a constant."""
    width = next(len(t) for t in lanes if t is not None)
    with _core.Level(width) as level:
        duals = [v if t is None else _core.dual(v, t, level) for v, t in zip(values, lanes, strict=True)]
        return [
            (_core.lowered(y), _core.lanes(y)) if _core.is_dual(y) and _core.level_of(y) is level else (y, None)
            for y in leaves(program(duals))
        ]


class Recorded:
    """One run of a program in reverse mode, which may be swept back as often as one likes."""

    def __init__(self, program: Program, values: Sequence[Any], spots: Sequence[int]) -> None:
        from ndual import reverse

        self.tape = reverse.tape()
        with _core.Level(1, self.tape) as level:
            self.leaves = [_core.lift_traced(v, level) if i in spots else v for i, v in enumerate(values)]
            given = [dual for i, dual in enumerate(self.leaves) if i in spots]
            self.results = [_core.carried(y) if self._own(y, level) else y for y in leaves(program(list(self.leaves)))]
            self.active = [self._own(y, level) for y in self.results]
            self.values = [_core.lowered(y) if own else y for y, own in zip(self.results, self.active, strict=True)]
        self.given = given

    @staticmethod
    def _own(obj: Any, level: Any) -> bool:
        return bool(_core.is_dual(obj) and _core.level_of(obj) is level)

    def sweep(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the active leaves, from those of the results (of constants they are not looked at)."""
        pairs = [(y, w) for y, w, own in zip(self.results, cotangents, self.active, strict=True) if own]
        self.tape.backward([y for y, _ in pairs], [w for _, w in pairs])
        return [self.tape.gradient(x) for x in self.given]


def inner(a: Any, b: Any) -> Any:
    """The real inner product."""
    return np.real(np.sum(np.conj(a) * b))


def random_like(rng: np.random.Generator, value: Any, width: int | None = None) -> Any:
    """Tangents or cotangents of moderate size in the dtype of a value."""
    value = np.asarray(value)
    shape = value.shape if width is None else (width, *value.shape)
    t = rng.uniform(-1.0, 1.0, shape)
    if value.dtype.kind == "c":
        t = t + 1j * rng.uniform(-1.0, 1.0, shape)
    t = np.asarray(t).astype(value.dtype if value.dtype.kind in "fc" else np.float64)
    return t if t.ndim else t[()]


def disagreement(
    program: Program, values: Sequence[Any], active: Sequence[int], rng: np.random.Generator
) -> str | None:
    """What is wrong with a program in reverse, judged by forward mode: ``<w, J t> = <Jᵀ w, t>``; None if nothing is."""
    lanes = [random_like(rng, v, 2) if i in active else None for i, v in enumerate(values)]
    saved = [np.copy(v) for v in values]
    pushed = forward(program, values, lanes)
    try:
        recorded = Recorded(program, values, active)
        w = [random_like(rng, v) if _is_number(v) else None for v in recorded.values]
        kept = [np.array(v) for v in w]
        found = recorded.sweep(w)
    except NdualError as error:
        return f"{type(error).__name__}: {error}"
    for k, ((value, _), other) in enumerate(zip(pushed, recorded.values, strict=True)):
        if not _same(value, other):
            return f"expected the value of result {k} as in forward mode, {value!r}; got {other!r}"
    for before, now in zip((*saved, *kept), (*values, *w), strict=True):
        if before.tobytes() != np.asarray(now).tobytes():
            return "an array of the caller, or the cotangent, was changed"
    tangents = [t for t in lanes if t is not None]
    for t, g, v in zip(tangents, found, (values[i] for i in active), strict=True):
        if np.shape(g) != t.shape[1:] or g.dtype != np.asarray(v).dtype:
            return f"expected a cotangent {np.asarray(v).dtype}{np.shape(v)}; got {g.dtype}{np.shape(g)}"
    char = max((np.asarray(_core.bottom(v)).dtype.char for v in (*values, *recorded.values)), key=_roughness)
    for lane in range(2):
        left = [(a, t[lane]) for a, (_, t) in zip(w, pushed, strict=True) if t is not None and a is not None]
        right = [(g, t[lane]) for g, t in zip(found, tangents, strict=True)]
        total, size = sum(inner(*pair) for pair in left), sum(np.sum(np.abs(a) * np.abs(t)) for a, t in left + right)
        back = sum(inner(*pair) for pair in right)
        if not abs(total - back) <= ROUNDING[char] * size + 1e-300 and not (np.isnan(total) and np.isnan(back)):
            return f"<w, J t> is {total!r} in forward mode and <Jᵀw, t> is {back!r}"
    return None


def _is_number(v: Any) -> bool:
    return np.asarray(_core.bottom(v)).dtype.kind in "fc"


def _roughness(char: str) -> float:
    return ROUNDING.get(char, 0.0)


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=4e-16 if a.dtype.itemsize > 4 else 2e-7, atol=0, equal_nan=True))


def second_orders(
    program: Program, values: Sequence[Any], active: Sequence[int], rng: np.random.Generator
) -> str | None:
    """What is wrong with second derivatives: of ``<w, f>``, forward and reverse over reverse, beside forward twice."""
    w = [random_like(rng, v) if _is_number(v) else None for v in Recorded(program, values, active).values]

    def gradient(x: list[Any]) -> Any:
        return Recorded(program, x, active).sweep(w)

    once = [random_like(rng, v, 2) if i in active else None for i, v in enumerate(values)]
    again = [random_like(rng, v, 2) if i in active else None for i, v in enumerate(values)]

    def tangents(x: list[Any]) -> Any:
        return [t for _, t in forward(program, x, once)]

    try:
        twice = forward(tangents, values, again)
    except NoRuleError:  # no second derivative
        return None
    try:
        over = forward(gradient, values, again)
    except NdualError as error:
        return f"{type(error).__name__}: {error}"
    for i in range(2):
        for k in range(2):
            left = [(a, t[k][i]) for a, (_, t) in zip(w, twice, strict=True) if t is not None and a is not None]
            right = [
                (t[k], d[i])
                for (_, t), d in zip(over, (d for d in once if d is not None), strict=True)
                if t is not None
            ]
            one, two = sum(inner(*pair) for pair in left), sum(inner(*pair) for pair in right)
            size = sum(np.sum(np.abs(a) * np.abs(t)) for a, t in left + right)
            if not abs(one - two) <= 1e-8 * size + 1e-12 and not (np.isnan(one) and np.isnan(two)):
                return f"forward over forward gives {one!r}, forward over reverse {two!r}"
    said = disagreement(gradient, values, active, rng)
    return None if said is None else f"reverse over reverse beside forward over reverse: {said}"
