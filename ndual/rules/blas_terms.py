"""From the description of a BLAS or LAPACK routine to its rule: tangents and cotangents of sums of products.

The value is what the routine itself returned. Second derivatives follow, since the formulas run on duals too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ndual.rules.blas_parts import OF_ADJOINT, Factor, Product, Result
from ndual.rules.products import gemm, matmul
from ndual.rules.registry import structured
from ndual.rules.support import adjoint, conj, is_raw, lane_count, refuse, strong, strong_multiply, sum_of_products
from ndual.rules.triangular import _blas, tri_part, tri_solve

# The type that NumPy calls by the letter of a routine, and that of its real numbers.
TYPES = {"s": "f", "d": "d", "c": "F", "z": "D"}
REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}


def of_rank(v: Any, rank: int, lanes: int = 0) -> Any:
    """An array as a number, vector or matrix, as SciPy's wrappers take those of another rank."""
    if v.ndim == rank + lanes:
        return v
    tail = () if not rank else (-1,) if rank == 1 else (*v.shape[lanes:], 1)
    return v.reshape(v.shape[:lanes] + tail)


class Terms:
    """One call of a routine: its operands as the routine reads them, and the products of them."""

    def __init__(self, xp: Any, name: str, x: tuple[Any, ...], ranks: str) -> None:
        self.xp = xp
        self._type = TYPES[name.rpartition(".")[2][0]]
        self._ranks = ranks
        self.x = tuple(None if v is None else self._read(name, k, v) for k, v in enumerate(x))
        self._known: dict[Any, Any] = {}

    def _read(self, name: str, k: int, v: Any) -> Any:
        if v.dtype.kind == "c" and self._type in "fd":
            raise refuse(name, "complex operands of a real routine", "Call the routine of the letter c or z.")
        return self._shaped(k, v, 0)

    def _shaped(self, k: int, v: Any, lanes: int) -> Any:
        rank = int(self._ranks[k])
        wanted = self._type if rank or v.dtype.kind == "c" else REAL[self._type]
        return of_rank(v if v.dtype.char == wanted else v.astype(wanted), rank, lanes)

    def forget(self) -> None:
        """Compute products again, since the former ones may have been formed without a look at infinities."""
        self._known.clear()

    def lanes(self, dx: tuple[Any, ...]) -> tuple[Any, ...]:
        """Tangents in the shapes and types of the operands."""
        return tuple(None if t is None else self._shaped(k, t, 1) for k, t in enumerate(dx))

    def _value(self, f: Factor) -> Any:
        found = self._known.get(f)
        if found is None:
            found = f.map.ahead(self.xp, self.x[f.slot])
            if f.unit:
                found = found + self.xp.eye(found.shape[-1], dtype=found.dtype)
            self._known[f] = found
        return found

    def _scale(self, p: Product) -> Any:
        return None if p.scale is None else p.scale.map.ahead(self.xp, self.x[p.scale.slot])

    def _dead(self, scale: Any) -> bool:
        """Whether a number is zero and stays it, so that what it multiplies is not looked at."""
        return scale is not None and is_raw(self.xp, self.xp.asarray(scale)) and bool(scale == 0)

    def _times(self, a: Any, b: Any) -> Any:
        # BLAS takes twice as long for a column times a row as a loop does.
        return strong(self.xp, operator.mul if a.shape[-1] == 1 else partial(gemm, self.xp), a, b)

    def _left(self, f: Factor, r: Any, adjoint_of: bool = False) -> Any:
        """The factor (or its adjoint) times a matrix."""
        if f.solved is None:
            return self._times(adjoint(self.xp, self._value(f)) if adjoint_of else self._value(f), r)
        return self._left_lanes(f, r[None], adjoint_of)[0]

    def _left_lanes(self, f: Factor, t: Any, adjoint_of: bool = False) -> Any:
        if f.solved is None:
            return matmul(self.xp, self._value(f), t, False, True)
        lower, trans = f.solved
        return solve(self.xp, self.x[f.slot], t, lower, OF_ADJOINT[trans] if adjoint_of else trans, f.unit)

    def _suffix(self, p: Product, k: int) -> Any:
        """The product of the factors from number k on, None for none."""
        if k == len(p.factors):
            return None
        found = self._known.get((p.factors, k))
        if found is None:
            f, rest = p.factors[k], self._suffix(p, k + 1)
            if rest is None and f.solved is not None:
                rest = self.xp.eye(f.shape[0], dtype=self._type)
            found = self._known[p.factors, k] = self._value(f) if rest is None else self._left(f, rest)
        return found

    def tangent(self, p: Product, dx: tuple[Any, ...]) -> Any:
        """The lanes of a product, None where nothing of it moves."""
        xp, scale, total = self.xp, self._scale(p), None
        if not self._dead(scale):
            for k in reversed(range(len(p.factors))):
                f = p.factors[k]
                t = None if dx[f.slot] is None else f.map.ahead(xp, dx[f.slot])
                if f.solved is not None:
                    if t is not None:
                        r = -matmul(xp, t, self._suffix(p, k), True, False)
                        total = r if total is None else total + r
                    total = None if total is None else self._left_lanes(f, total)
                    continue
                total = None if total is None else self._left_lanes(f, total)
                if t is not None:
                    rest = self._suffix(p, k + 1)
                    here = t if rest is None else matmul(xp, t, rest, True, False)
                    total = here if total is None else total + here
            if total is not None and scale is not None:
                total = strong_multiply(xp, scale, total)
        if p.scale is not None and dx[p.scale.slot] is not None:
            move = p.scale.map.ahead(xp, dx[p.scale.slot])
            if not is_raw(xp, move) or bool(move.any()):
                here = strong_multiply(xp, move[:, None, None], self._suffix(p, 0))
                total = here if total is None else total + here
        return total

    def cotangents(self, p: Product, w: Any, active: Iterable[bool], into: dict[int, Any]) -> None:
        """Add the cotangents of the operands of a product to those that are there."""
        xp, scale, on = self.xp, self._scale(p), list(active)

        def put(f: Factor, g: Any) -> None:
            g = f.map.back(xp, g)
            into[f.slot] = into[f.slot] + g if f.slot in into else g

        if p.scale is not None and on[p.scale.slot]:
            put(p.scale, xp.asarray(strong_multiply(xp, conj(xp, self._suffix(p, 0)), w).sum()))
        if self._dead(scale):
            return
        if scale is not None:
            w = strong_multiply(xp, conj(xp, xp.asarray(scale)), w)
        for k, f in enumerate(p.factors):
            if not any(on[g.slot] for g in p.factors[k:]):
                return
            if f.solved is not None:
                w = self._left(f, w, True)
                if on[f.slot]:
                    put(f, -self._times(w, adjoint(xp, self._suffix(p, k))))
                continue
            if on[f.slot]:
                rest = self._suffix(p, k + 1)
                put(f, w if rest is None else self._times(w, adjoint(xp, rest)))
            if k + 1 < len(p.factors):
                w = self._left(f, w, True)


def solve(xp: Any, a: Any, r: Any, lower: bool, trans: int, unit: bool) -> Any:
    """Solve op(A) x = r for lanes of matrices; nothing outside the triangle of A is looked at."""
    if trans == 3:
        a, trans = conj(xp, a), 0
    if xp.__name__ == "numpy" and is_raw(xp, a, r):
        if a.dtype.kind == "c" and r.size:
            n, size, k = r.shape
            wide = xp.moveaxis(r, 0, 1).reshape(size, n * k)
            trsm = _blas("trsm", "c" if a.dtype.char == "F" else "z")
            x = trsm(1.0, a, wide, lower=int(lower), trans_a=trans, diag=int(unit))
            return xp.moveaxis(x.reshape(size, n, k), 1, 0)
    else:
        a = tri_part(xp, a, lower, unit)
    if r.shape[-1] == 1:
        return tri_solve(xp, a, r[..., 0], lower, trans, unit)[..., None]
    return tri_solve(xp, a, r, lower, trans, unit)


def lanes_of(terms: Terms, results: list[Result | None], dx: tuple[Any, ...], y: Any) -> Any:
    """The lanes of all results: None for those without derivative."""
    xp, given, n = terms.xp, terms.lanes(dx), lane_count(dx)

    def one(result: Result, value: Any) -> Any:
        def total() -> Any:
            terms.forget()
            out = None
            for p in result.products:
                t = terms.tangent(p, given)
                out = t if out is None else out if t is None else out + t
            out = None if out is None else result.place.ahead(xp, out)
            kept = result.kept
            if kept is not None and given[kept.slot] is not None:
                t = kept.map.ahead(xp, given[kept.slot])
                out = t if out is None else out + t
            return xp.zeros((n, *xp.shape(value)), xp.asarray(value).dtype) if out is None else out

        return sum_of_products(xp, total).reshape(n, *xp.shape(value))

    if not isinstance(y, tuple | list):
        assert results[0] is not None
        return one(results[0], y)
    return tuple(None if r is None else one(r, value) for r, value in zip(results, y, strict=True))


def cotangents_of(
    terms: Terms, results: list[Result | None], w: Any, x: tuple[Any, ...], active: tuple[bool, ...] | None
) -> tuple[Any, ...]:
    """The cotangents of all operands that are active."""
    xp = terms.xp
    on = tuple(v is not None for v in x) if active is None else active
    into: dict[int, Any] = {}
    for result, g in zip(results, w if isinstance(w, tuple | list) else [w], strict=True):
        if result is None or g is None:
            continue
        kept = result.kept
        if kept is not None and on[kept.slot]:
            part = kept.map.back(xp, of_rank(xp.asarray(g), result.rank))
            into[kept.slot] = into[kept.slot] + part if kept.slot in into else part
        inner = result.place.back(xp, of_rank(xp.asarray(g), result.rank))
        with xp.errstate(all="ignore"):
            for p in result.products:
                terms.cotangents(p, inner, on, into)
    return tuple(None if k not in into or not on[k] else _as_given(xp, into[k], v) for k, v in enumerate(x))


def _as_given(xp: Any, g: Any, v: Any) -> Any:
    """A cotangent in the shape and type of the operand as it was given."""
    if g.dtype.kind == "c" and v.dtype.kind != "c":
        g = g.real
    g = g.reshape(v.shape)
    return g if g.dtype == v.dtype else g.astype(v.dtype)


Describe = Callable[..., list[Result | None]]

# What a routine writes its results into, under its dotted name: number of the result, number of the operand, and the
# flag that allows it, None where the routine always does.
STORED: dict[str, tuple[tuple[int, int, str | None], ...]] = {}


def names_of(pattern: str, module: str) -> list[str]:
    """The dotted names behind "sd:gemm cz:gemm"."""
    found = []
    for part in pattern.split():
        letters, _, name = part.partition(":")
        found += [f"scipy.linalg.{module}.{letter}{name}" for letter in letters.split(",")]
    return found


def routine(
    names: list[str], arrays: str, ranks: str, stored: tuple[tuple[int, int, str | None], ...] = (), **defaults: Any
) -> Callable[[Describe], Describe]:
    """Register a description for routines: it gets the operands as factors (None for those left out), and parameters.

    `arrays` and `defaults` are those of a structured rule, `ranks` the number of axes of each operand. The description
    returns a result for each output, None for one without derivative.
    """

    def decorate(describe: Describe) -> Describe:
        for name in names:
            STORED[name] = stored
            _register(name, describe, arrays, ranks, defaults)
        return describe

    return decorate


def _register(name: str, describe: Describe, arrays: str, ranks: str, defaults: dict[str, Any]) -> None:
    # A description depends on shapes and flags alone; to make it takes as long as a small product.
    made: dict[Any, list[Result | None]] = {}

    def described(terms: Terms, y: Any, params: dict[str, Any]) -> list[Result | None]:
        slots = tuple(None if v is None else v.shape for v in terms.x)
        shape = _shape(y)
        key = (slots, shape, *params.values())
        try:
            found = made.get(key)
        except TypeError:  # pivots
            return describe(*_factors(slots), shape=shape, **params)
        if found is None:
            if len(made) >= 256:
                made.clear()
            found = made[key] = describe(*_factors(slots), shape=shape, **params)
        return found

    def vjp(
        xp: Any, w: Any, y: Any, x: tuple[Any, ...], active: tuple[bool, ...] | None = None, **params: Any
    ) -> tuple[Any, ...]:
        terms = Terms(xp, name, x, ranks)
        return cotangents_of(terms, described(terms, y, params), w, x, active)

    def jvp(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], **params: Any) -> Any:
        terms = Terms(xp, name, x, ranks)
        return lanes_of(terms, described(terms, y, params), dx, y)

    jvp.__doc__ = describe.__doc__
    structured(name, arrays, vjp, selective=True, **defaults)(jvp)


def _factors(shapes: tuple[Any, ...]) -> list[Factor | None]:
    return [None if shape is None else Factor(k, shape) for k, shape in enumerate(shapes)]


def _shape(y: Any) -> tuple[int, ...]:
    """The shape of the first result, of which some operands that were left out are not known otherwise."""
    first = y[0] if isinstance(y, tuple | list) else y
    return getattr(first, "shape", ())
