"""Parts of operands of BLAS and LAPACK routines: linear maps with their transposes, and the factors of products.

A routine is described by the products that it adds up, in factors that are parts of its operands: a triangle, a
transpose, every second cell, the inverse of a triangle. What follows from a description is in ``blas_terms.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from ndual.rules.support import adjoint, conj
from ndual.rules.triangular import literal, tri_part, whole


class Map(NamedTuple):
    """A real-linear map of the last axes of an array, and its transpose."""

    ahead: Callable[[Any, Any], Any]
    back: Callable[[Any, Any], Any]

    def then(self, other: Map) -> Map:
        """Another map after this one."""
        if self is SAME:
            return other
        return Map(
            lambda xp, m: other.ahead(xp, self.ahead(xp, m)), lambda xp, g: self.back(xp, other.back(xp, g))
        )  # fmt: skip

    @property
    def turned(self) -> Map:
        """The transpose as the map."""
        return Map(self.back, self.ahead)


def _itself(xp: Any, m: Any) -> Any:
    return m


def _swap(xp: Any, m: Any) -> Any:
    return xp.swapaxes(m, -1, -2)


def _symmetric_back(xp: Any, g: Any, lower: bool) -> Any:
    return tri_part(xp, g, lower) + tri_part(xp, _swap(xp, g), lower, True)


def _real(xp: Any, m: Any) -> Any:
    return m.real if m.dtype.kind == "c" else m


def _half(xp: Any, m: Any, lower: bool) -> Any:
    """One triangle, of its diagonal the real part."""
    part = tri_part(xp, m, lower, True)
    diagonal = tri_part(xp, m, lower) - part
    return part + _real(xp, diagonal)


def _negative(xp: Any, m: Any) -> Any:
    return -m


SAME = Map(_itself, _itself)
TRANSPOSED = Map(_swap, _swap)
CONJUGATE = Map(conj, conj)
OPERATIONS = (SAME, TRANSPOSED, Map(adjoint, adjoint), CONJUGATE)
# What transposes op(A), as a number of the same list, and what transposes and conjugates it.
OF_TRANSPOSE = (1, 0, 3, 2)
OF_ADJOINT = (2, 3, 0, 1)
NUMBER = Map(lambda xp, m: m[..., 0, 0], lambda xp, g: g[..., None, None])


def triangle(lower: Any, unit: Any = False) -> Map:
    """One triangle, without the diagonal if it is a unit one."""
    part = partial(tri_part, lower=bool(lower), unit=bool(unit))
    return Map(part, part)


def hermitian_triangle(lower: Any) -> Map:
    """One triangle of a Hermitian matrix, whose diagonal is real."""
    part = partial(_half, lower=bool(lower))
    return Map(part, part)


def rows(order: Any) -> Map:
    """The rows in another order."""
    back = [0] * len(order)
    for i, k in enumerate(order):
        back[k] = i
    return Map(lambda xp, m: m[..., list(order), :], lambda xp, g: g[..., back, :])


def column(count: int, offset: int, step: int, size: int) -> Map:
    """Every `step`-th cell of a vector of this size as one column, from the last one on if the step is negative."""
    if count == size and step in (1, -1) and not offset:
        return Map(
            lambda xp, m: m[..., ::step, None],
            lambda xp, g: g[..., ::step, 0],
        )
    span = slice(offset, offset + max((count - 1) * abs(step) + 1, 0), abs(step))
    turn = slice(None, None, 1 if step > 0 else -1)

    def back(xp: Any, g: Any) -> Any:
        out = xp.zeros((*g.shape[:-2], size), g.dtype)
        out[..., span] = g[..., turn, 0]
        return out

    return Map(lambda xp, m: m[..., span][..., turn, None], back)


def _outside(count: int, offset: int, step: int, size: int) -> Map | None:
    """The cells of a vector that such a column leaves out."""
    if count == size:
        return None
    left = [True] * size
    left[offset : offset + max((count - 1) * abs(step) + 1, 0) : abs(step)] = [False] * count

    def part(xp: Any, m: Any) -> Any:
        return xp.where(xp.asarray(left), m, m.dtype.type(0))

    return Map(part, part)


@dataclass(frozen=True, eq=False)
class Factor:
    """A part of an operand, or the inverse of a triangle of it.

    `unit` adds the identity; `solved` is what a triangular solve needs to know: which triangle, and which operation.
    """

    slot: int
    shape: tuple[int, ...]
    map: Map = SAME
    unit: bool = False
    solved: tuple[bool, int] | None = None

    def then(self, other: Map) -> Factor:
        """The same, taken through another map."""
        return replace(self, map=self.map.then(other))

    def op(self, trans: Any) -> Factor:
        """Itself, the transpose or the adjoint."""
        return self.then(OPERATIONS[int(trans)]) if trans else self

    def triangle(self, lower: Any, unit: Any = False) -> Factor:
        """One triangle."""
        return replace(self.then(triangle(lower, unit)), unit=bool(unit))

    def beside(self, lower: Any, unit: Any = False) -> Factor:
        """What such a triangle leaves out."""
        return self.then(triangle(not lower, not unit))

    def symmetric(self, lower: Any) -> Factor:
        """The symmetric matrix that one triangle stands for."""
        low = bool(lower)
        return self.then(
            Map(
                lambda xp, m: tri_part(xp, m, low) + _swap(xp, tri_part(xp, m, low, True)),
                partial(_symmetric_back, lower=low),
            )
        )

    def hermitian(self, lower: Any) -> Factor:
        """The Hermitian matrix that one triangle stands for."""
        low = bool(lower)
        return self.then(
            Map(partial(whole, lower=low), partial(literal, lower=low))
        )  # fmt: skip

    def inverse(self, lower: Any, trans: Any = 0, unit: Any = False) -> Factor:
        """The inverse of op of one triangle."""
        of = self.then(triangle(lower, unit)).op(trans)
        return replace(of, unit=bool(unit), solved=(bool(lower), int(trans)))

    def column(self, count: int, offset: int, step: int) -> Factor:
        """Cells of a vector as a column."""
        return self.then(column(count, offset, step, self.shape[0]))

    def outside(self, count: int, offset: int, step: int) -> Factor | None:
        """The cells that such a column leaves out, None if there are none."""
        others = _outside(count, offset, step, self.shape[0])
        return None if others is None else self.then(others)

    @property
    def conj(self) -> Factor:
        """The conjugate."""
        return self.then(CONJUGATE)

    @property
    def real(self) -> Factor:
        """The real part of a number."""
        return self.then(Map(_real, _real))

    @property
    def negative(self) -> Factor:
        """The number with the other sign."""
        return self.then(Map(_negative, _negative))


class Product(NamedTuple):
    """A number (None for one) times a product of matrices."""

    scale: Factor | None
    factors: tuple[Factor, ...]


class Result(NamedTuple):
    """A sum of products, taken to its place in the output, and what the output keeps of an operand.

    `rank` is the number of axes that the place has.
    """

    products: list[Product]
    place: Map = SAME
    kept: Factor | None = None
    rank: int = 2


def scaled(scale: Factor | None, factor: Factor | None) -> list[Product]:
    """A number times an operand; nothing if either was left out."""
    return [] if scale is None or factor is None else [Product(scale, (factor,))]
