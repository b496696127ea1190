"""What a row of the elementwise table is: its formulas, its domain, and what follows from them.

The rows themselves live in ``elementwise`` and beside it; no formula of a particular function belongs here.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

from ndual.rules import expressions as ex
from ndual.rules.language import FUNCTIONS, Expr, Function, Num, differentiate, names_of, parse, substitute

Kind = Literal["holomorphic", "real", "real_linear"]


@dataclass(frozen=True)
class Interval:
    """Where an operand may lie. `sample` draws points at which a derivative can be checked by any reference.

    `low` and `high` bound the domain, `closed` says which of its ends belong to it ("", "[", "]", "[]"). `draw` bounds
    the moderate part from which samples come, and `integer` an operand that has no derivative.

    Examples
    --------
    >>> import random
    >>> Interval(0.0, math.inf).contains(0.0), Interval(0.0, math.inf, "[").contains(0.0)
    (False, True)
    >>> all(0 < x < 4 for x in Interval(0.0, math.inf).sample(random.Random(1), 100))
    True
    """

    low: float = -math.inf
    high: float = math.inf
    closed: str = ""
    draw: tuple[float, float] | None = None
    integer: bool = False

    def contains(self, x: float) -> bool:
        """Whether `x` belongs to the domain."""
        above = x > self.low or ("[" in self.closed and x == self.low)
        below = x < self.high or ("]" in self.closed and x == self.high)
        return above and below

    @property
    def drawn(self) -> tuple[float, float]:
        """The bounds of samples: `draw`, or the domain cut to a width of four where it is infinite."""
        if self.draw is not None:
            return self.draw
        low, high = self.low, self.high
        if math.isinf(low) and math.isinf(high):
            return -4.0, 4.0
        if math.isinf(high):
            return low, low + 4.0
        return (high - 4.0, high) if math.isinf(low) else (low, high)

    def sample(self, rng: random.Random, n: int) -> list[float]:
        """Draw `n` points of the domain, 2 per cent of its drawn width away from open ends."""
        low, high = self.drawn
        if self.integer:
            return [float(rng.randint(math.ceil(low), math.floor(high))) for _ in range(n)]
        margin = 0.02 * (high - low)
        return [rng.uniform(low + margin, high - margin) for _ in range(n)]

    def extremes(self) -> list[float]:
        """Points of the domain far out and close to its ends, where only an analytic reference will do."""
        if self.integer:
            return []
        found = [s * m for m in (1e-300, 1e-30, 1e-8, 1e-3, 30.0, 300.0, 1e8, 1e30, 1e300) for s in (1.0, -1.0)]
        for end in (self.low, self.high):
            if math.isfinite(end):
                step = max(abs(end), 1.0)
                found += [end + s * step * m for m in (1e-15, 1e-9, 1e-4) for s in (1.0, -1.0)]
        return sorted(x for x in found if self.contains(x))


REAL = Interval()
POSITIVE = Interval(0.0)
NONNEGATIVE = Interval(0.0, math.inf, "[")
UNIT = Interval(0.0, 1.0)
NONZERO = Interval(draw=(0.5, 4.0))


@dataclass(frozen=True, eq=False)
class Elementwise:
    """One elementwise primitive.

    Attributes
    ----------
    name : str
        The name by which expressions call it.
    value : str
        Its value in the language; a call of itself where the language has no other form. Modes take values from the
        public function that was called; this is the reference, and the C form.
    partials : tuple of (str or None)
        The derivative by each operand in ``x0`` … and the output ``y``; None where the operand has none and must not
        be active.
    domain : tuple of Interval
        One per operand.
    serves : tuple of str
        The dotted public names; the first one is what expressions call.
    at : dict
        Points and the partials there, where the expressions give NaN: one number per operand, then optionally one per
        pair of operands for the second order.
    kernel : str or None
        A hand-written kernel that replaces the generated one.
    kind : str
        "holomorphic" rows take complex operands too, "real" rows refuse them, and "real_linear" rows take them through
        `jvp` and `vjp`.
    complex_partials : tuple of (str or None), optional
        Partials for complex operands of a holomorphic row, where `partials` compare or would cross a branch cut; None
        where there is one for real operands only.
    jvp, vjp : str or None
        For complex operands of a real-linear row: the tangent in ``x0``, ``y``, ``dx0``, and the cotangent of x0 in
        ``x0``, ``y``, ``w``, under the pairing ``Re(conj(u) v)``.
    second : dict
        Second derivatives by pairs of operands (i <= j) where the symbolic one is inaccurate; ``d0`` and ``d1`` are
        the partials.

    Examples
    --------
    >>> from ndual.rules.elementwise import TABLE
    >>> TABLE["sqrt"].partials, TABLE["sqrt"].serves
    (('0.5 / y',), ('numpy.sqrt', 'math.sqrt', 'cmath.sqrt'))
    """

    name: str
    value: str
    partials: tuple[str | None, ...]
    domain: tuple[Interval, ...]
    serves: tuple[str, ...]
    at: Mapping[tuple[float, ...], tuple[float, ...]] = field(default_factory=dict)
    kernel: str | None = None
    kind: Kind = "real"
    complex_partials: tuple[str | None, ...] | None = None
    jvp: str | None = None
    vjp: str | None = None
    second: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @property
    def nin(self) -> int:
        """The number of operands."""
        return len(self.partials)

    @cached_property
    def value_expr(self) -> Expr:
        """The parsed value."""
        return self._parse(self.value)

    @cached_property
    def formulas(self) -> tuple[Expr | None, ...]:
        """The parsed partials without the points of `at`."""
        return tuple(None if text is None else self._parse(text) for text in self.partials)

    @cached_property
    def partial_exprs(self) -> tuple[Expr | None, ...]:
        """The parsed partials, right at the points of `at` too: this is what a mode uses on real operands."""
        return tuple(None if formula is None else self._pinned(formula, i) for i, formula in enumerate(self.formulas))

    @cached_property
    def complex_exprs(self) -> tuple[Expr | None, ...] | None:
        """The partials for complex operands, or None if the row is not holomorphic."""
        if self.kind != "holomorphic":
            return None
        if self.complex_partials is None:
            return self.partial_exprs
        return tuple(None if text is None else self._parse(text) for text in self.complex_partials)

    @cached_property
    def jvp_expr(self) -> Expr | None:
        """The parsed `jvp`."""
        return None if self.jvp is None else self._parse(self.jvp, ("dx0",))

    @cached_property
    def vjp_expr(self) -> Expr | None:
        """The parsed `vjp`."""
        return None if self.vjp is None else self._parse(self.vjp, ("w",))

    def second_expr(self, i: int, j: int) -> Expr | None:
        """The second derivative by operands `i` and `j`, in the operands and ``y``; None where there is none.

        Examples
        --------
        >>> from ndual.rules.elementwise import TABLE
        >>> from ndual.rules.language import to_text
        >>> to_text(TABLE["exp"].second_expr(0, 0))
        'y'
        """
        i, j = min(i, j), max(i, j)
        first, other = self.formulas[i], self.formulas[j]
        if first is None or other is None:
            return None
        if (i, j) in self.second:
            partials = {f"d{k}": p for k, p in enumerate(self.partial_exprs) if p is not None}
            formula = substitute(self._parse(self.second[i, j], tuple(partials)), partials)
        else:
            through_y = ex.multiply(differentiate(first, "y"), other)
            formula = ex.add(differentiate(first, f"x{j}"), through_y)
        return self._pinned(formula, self.nin + i * self.nin + j)

    def reads(self, i: int) -> frozenset[str]:
        """The names that the partial by operand `i` needs, so that a tape keeps nothing else."""
        partial = self.partial_exprs[i]
        return frozenset() if partial is None else names_of(partial)

    def _pinned(self, formula: Expr, k: int) -> Expr:
        for point, values in self.at.items():
            if k < len(values):
                tests = tuple(ex.Compare("==", ex.Name(f"x{i}"), Num(float(x))) for i, x in enumerate(point))
                cond = tests[0] if len(tests) == 1 else ex.Logic("and", tests)
                formula = ex.where(cond, Num(float(values[k])), formula)
        return formula

    def _parse(self, text: str, extra: tuple[str, ...] = ()) -> Expr:
        try:
            return parse(text, self.nin, extra)
        except ValueError as error:
            raise ValueError(f"row {self.name!r}: {error}") from None

    def check(self) -> None:
        """Parse everything and compare the lengths; a ValueError names the row and what is wrong."""
        if len(self.domain) != self.nin:
            raise ValueError(f"row {self.name!r}: {self.nin} partials, but domains for {len(self.domain)} operands")
        if (self.kind == "real_linear") != (self.jvp is not None and self.vjp is not None):
            raise ValueError(f"row {self.name!r}: a real-linear row, and no other, has both jvp and vjp")
        for point, values in self.at.items():
            if len(point) != self.nin or len(values) not in (self.nin, self.nin * (self.nin + 1)):
                raise ValueError(f"row {self.name!r}: at={{{point}: {values}}} does not fit {self.nin} operands")
        for pair in self.second:
            if not 0 <= pair[0] <= pair[1] < self.nin:
                raise ValueError(f"row {self.name!r}: second={{{pair}: …}}; a pair is (i, j) with i <= j < {self.nin}")
            self.second_expr(*pair)
        _ = self.value_expr, self.partial_exprs, self.complex_exprs, self.jvp_expr, self.vjp_expr


def row(
    name: str,
    value: str,
    partials: Iterable[str | None],
    domain: Interval | tuple[Interval, ...],
    serves: str,
    **rest: object,
) -> Elementwise:
    """A row in its short spelling: one domain for all operands, names separated by blanks."""
    partials = tuple(partials)
    domains = (domain,) * len(partials) if isinstance(domain, Interval) else domain
    return Elementwise(name, value, partials, domains, tuple(serves.split()), **rest)  # type: ignore[arg-type]


def build(*groups: Iterable[Elementwise]) -> dict[str, Elementwise]:
    """Declare the rows to the language, then check each; rows may refer to each other in any order.

    A row that is malformed, or named twice, is refused here, and so at import; then none of them stays declared.
    """
    table: dict[str, Elementwise] = {}
    try:
        for entry in itertools.chain(*groups):
            if entry.name in FUNCTIONS:
                raise ValueError(f"row {entry.name!r} is in the table twice")
            if not entry.serves:
                raise ValueError(f"row {entry.name!r} serves no public function")
            table[entry.name] = entry
            FUNCTIONS[entry.name] = Function(
                entry.nin,
                entry.serves[0],
                partial(getattr, entry, "value_expr"),
                partial(getattr, entry, "partial_exprs"),
            )
        for entry in table.values():
            entry.check()
    except ValueError:
        for name in table:
            del FUNCTIONS[name]
        raise
    return table
