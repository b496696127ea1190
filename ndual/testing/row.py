"""All that must hold for one row of the elementwise table: formulas, values, lanes, layouts, outputs, memory.

Formulas are compared with differences of the public function (or a reference in mpmath); what the core computes is then
compared with the formulas, which allows every width, dtype and layout to be tried.
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ndual import _core
from ndual.config import config
from ndual.errors import NdualError
from ndual.rules.elementwise import TABLE
from ndual.rules.language import NoDerivative, to_numpy
from ndual.rules.row import Elementwise
from ndual.testing.inputs import random_lanes, same_memory
from ndual.testing.reference import directional, partial, widest

TOLERANCE = {"e": 4e-3, "f": 2e-3, "d": 1e-11, "F": 2e-3, "D": 1e-11}
COMPLEX = ("F", "D")


class RowCheck:
    """One row under test. Each method is one property; an AssertionError says which case broke it."""

    def __init__(self, row: Elementwise, reference: Callable[..., Any] | None, seed: int) -> None:
        self.row = row
        self.reference = reference
        self.rng = np.random.default_rng(seed)
        self.random = random.Random(seed)
        self.function = _public(row)
        self.own = TABLE.get(row.name) is row
        self.name = row.name if self.own else f"{row.name} under test"
        if not self.own:
            _core.register_row(replace(row, name=self.name), None)
        self.active = tuple(i for i, partial_ in enumerate(row.partials) if partial_ is not None)
        self.ufunc = isinstance(self.function, np.ufunc)
        # SciPy's Python functions and those of math reach their rows through interception.
        self.protocol = self.ufunc or hasattr(self.function, "_implementation")

    def fail(self, case: str, message: str) -> AssertionError:
        """The error to raise for a broken case."""
        return AssertionError(f"row {self.row.name!r}, {case}: {message}")

    def plain(self, *operands: Any, **keywords: Any) -> Any:
        """The public function on plain data."""
        if self.function is not None:
            return self.function(*operands, **keywords)
        scalar = _lookup(self.row.serves[0])
        return np.vectorize(scalar, otypes=[np.float64])(*operands)[()]

    def call(self, *operands: Any, **keywords: Any) -> Any:
        """The same on duals."""
        if self.own and self.protocol:
            return self.function(*operands, **keywords)
        return _core.apply_row(self.name, *operands, **keywords)

    def form(self, expr: Any, x: Sequence[Any], y: Any, d: tuple[Any, ...] = ()) -> Any:
        """An expression of the row in NumPy."""
        with np.errstate(all="ignore"):
            return to_numpy(expr, _lookup)(tuple(x), y, d)

    def points(self, n: int, char: str) -> list[Any]:
        """Operands of `n` cells from the row's domains."""
        found = []
        for domain in self.row.domain:
            v = np.array(domain.sample(self.random, n))
            if domain.integer:
                v = v.astype(int)
            elif char in COMPLEX:
                v = (v + 1j * self.rng.uniform(-1.0, 1.0, n)).astype(char)
            else:
                v = v.astype(char)
            found.append(v)
        return found

    def supports(self, char: str) -> bool:
        """Whether the public function takes operands of this dtype, and the row claims it."""
        if char in COMPLEX and self.row.kind == "real":
            return False
        try:
            with np.errstate(all="ignore"):
                y = self.plain(*self.points(2, char))
        except TypeError:
            return False
        return y.dtype.kind in "fc"

    # Formulas against what is independent of them.

    def formulas(self) -> None:
        """First and second derivatives at random points of the domain."""
        for i in self.active:
            self._order(f"first derivative by operand {i}", (i,), self.row.partial_exprs[i])
        for i, j in itertools.combinations_with_replacement(self.active, 2):
            try:
                second = self.row.second_expr(i, j)
            except NoDerivative:
                continue
            if second is not None:
                self._order(f"second derivative by operands {i} and {j}", (i, j), second)

    def _order(self, case: str, order: tuple[int, ...], expr: Any) -> None:
        conclusive = 0
        for _ in range(8):
            x = [float(v[0]) if v.dtype.kind == "f" else int(v[0]) for v in self.points(1, "d")]
            y = self.plain(*(np.float64(v) if isinstance(v, float) else v for v in x))
            got = float(self.form(expr, [np.float64(v) if isinstance(v, float) else v for v in x], y))
            found = self._mpmath(x, order) if self.reference else self._differences(x, order, y)
            if found is None:
                continue
            conclusive += 1
            want, allowed = found
            if not abs(got - want) <= allowed:
                raise self.fail(case, f"at {tuple(x)} the formula gives {got!r}, the reference {want!r}")
            if conclusive == 4:
                return
        if conclusive == 0:
            raise self.fail(case, "differences are too rough to decide; pass reference=, a function of mpmath numbers")

    def _mpmath(self, x: list[Any], order: tuple[int, ...]) -> tuple[float, float] | None:
        import mpmath

        assert self.reference is not None
        times = [order.count(i) for i in range(len(x))]
        with mpmath.workdps(30):
            point = [mpmath.mpf(v) for v in x]
            value = abs(mpmath.re(self.reference(*point)))
            varied = [i for i, n in enumerate(times) if n]

            def along(*moved: Any) -> Any:
                full = list(point)
                for i, v in zip(varied, moved, strict=True):
                    full[i] = v
                return mpmath.re(self.reference(*full))  # type: ignore[misc]

            at = tuple(point[i] for i in varied)
            if len(varied) == 1:
                want = mpmath.diff(along, at[0], times[varied[0]])
            else:
                want = mpmath.diff(along, at, tuple(times[i] for i in varied))
            return float(want), float(1e-9 * (abs(want) + value + mpmath.mpf(10) ** -12))

    def _differences(self, x: list[Any], order: tuple[int, ...], y: Any) -> tuple[float, float] | None:
        wide = widest(self.plain, x)
        first = self.row.partial_exprs[order[0]]

        def function(*point: Any) -> Any:
            point = tuple(wide(v) if isinstance(v, float | np.floating) else v for v in point)
            value = self.plain(*point)
            return value if len(order) == 1 else self.form(first, point, value)

        try:
            function(*x)
        except TypeError:
            wide = np.float64

        i = order[-1]
        domain = self.row.domain[i]
        if domain.integer:
            return None
        low, high = domain.drawn
        room = min(abs(x[i] - end) for end in (domain.low, domain.high, low - 1.0, high + 1.0) if math.isfinite(end))
        point = [wide(v) if isinstance(v, float) else v for v in x]
        for shrink in (8, 64, 1024):
            want, error = partial(function, point, i, min(room, high - low) / shrink)
            if error < 1e-6:
                with np.errstate(all="ignore"):
                    size = abs(float(function(*point)))
                return want, (1e-8 + 100 * error) * (abs(want) + size) + 1e-12
        return None

    def complex_formulas(self) -> None:
        """Derivatives along both axes of the complex plane."""
        if self.row.kind == "real" or not self.supports("D"):
            return
        for _ in range(4):
            x = [complex(v[0]) if v.dtype.kind == "c" else int(v[0]) for v in self.points(1, "D")]
            y = self.plain(*(np.complex128(v) if isinstance(v, complex) else v for v in x))
            for i, direction in itertools.product(self.active, (1.0, 1j)):

                def along(t: float, i: int = i, direction: complex = direction, x: list[Any] = x) -> list[Any]:
                    return [self.plain(*(np.complex128(v + t * direction) if k == i else v for k, v in enumerate(x)))]

                with np.errstate(all="ignore"):
                    (want,), error = directional(along, 1e-2)
                if error > 1e-6:
                    continue
                got = complex(self.term(x, y, i, np.complex128(direction)))
                if not abs(got - complex(want)) <= 1e-6 * (abs(want) + abs(y)):
                    raise self.fail(
                        f"complex derivative by operand {i} along {direction}",
                        f"at {tuple(x)} the formula gives {got!r}, differences {complex(want)!r}",
                    )

    def term(self, x: Sequence[Any], y: Any, i: int, t: Any) -> Any:
        """The share of operand `i` in the tangent by the formulas, with strong zeros."""
        is_complex = any(np.asarray(v).dtype.kind == "c" for v in x)
        if is_complex and self.row.kind == "real_linear":
            return self.form(self.row.jvp_expr, x, y, (t,))
        exprs = self.row.complex_exprs if is_complex else self.row.partial_exprs
        assert exprs is not None
        factor = self.form(exprs[i], x, y)
        with np.errstate(all="ignore"):
            return np.where((np.asarray(factor) == 0) | (np.asarray(t) == 0), 0, factor * t)

    def narrowing(self) -> None:
        """The formulas keep the dtype of their operands."""
        for char in "fd":
            if not self.supports(char):
                continue
            x = self.points(3, char)
            y = self.plain(*x)
            x = [v.astype(y.dtype) if v.dtype.kind == "f" else v for v in x]
            for i in self.active:
                d = self.form(self.row.partial_exprs[i], x, y)
                if isinstance(d, np.ndarray) and d.dtype.kind == "f" and d.dtype.itemsize < y.dtype.itemsize:
                    raise self.fail(f"partial {i} of {x[0].dtype}", f"is {d.dtype}, which is narrower than {y.dtype}")

    # What the core makes of the row.

    def expected(self, values: Sequence[Any], lanes: Sequence[Any], y: Any) -> tuple[Any, Any]:
        """Lanes by the formulas, and the size of what was summed."""
        width = next(len(t) for t in lanes if t is not None)
        dtype = np.asarray(y).dtype
        if dtype.kind == "f":
            wide = np.promote_types(dtype, np.float32)
            floats = [isinstance(v, np.ndarray | np.generic) and v.dtype.kind == "f" for v in values]
            values = [v.astype(wide) if narrow else v for v, narrow in zip(values, floats, strict=True)]
            lanes = [None if t is None else t.astype(np.promote_types(t.dtype, wide)) for t in lanes]
            y = self.plain(*values)
        total = np.zeros((width, *np.shape(y)), complex if np.asarray(y).dtype.kind == "c" else float)
        size = np.zeros(total.shape)
        for lane in range(width):
            for i, t in enumerate(lanes):
                if t is None:
                    continue
                term = np.broadcast_to(self.term(values, y, i, t[lane]), np.shape(y))
                with np.errstate(all="ignore"):
                    total[lane] += term
                    size[lane] += np.abs(term)
        return total, size

    def compare(self, case: str, values: Sequence[Any], active: Sequence[int], width: int, exact: bool = False) -> None:
        """Run the row on duals of the given values and compare all there is to compare."""
        with np.errstate(all="ignore"):
            want = self.plain(*values)
        lanes = [random_lanes(self.rng, v, width) if i in active else None for i, v in enumerate(values)]
        saved = [(np.copy(v), None if t is None else t.copy()) for v, t in zip(values, lanes, strict=True)]
        total, size = self.expected(values, lanes, want)
        try:
            with config(exact=exact), _core.Level(width) as level, np.errstate(all="ignore"):
                duals = [v if t is None else _core.dual(v, t, level) for v, t in zip(values, lanes, strict=True)]
                y = self.call(*duals)
                value, got = _core.primal(y), _core.lanes(y) if _core.is_dual(y) else None
                if got is not None:
                    self._memory(case, y, want, duals, values)
                elif total.any():
                    raise self.fail(case, f"the derivative was lost: got {type(y).__name__}")
                for other, before in zip(duals, saved, strict=True):
                    if _core.is_dual(other) and not _same(_core.lanes(other), before[1]):
                        raise self.fail(case, "the lanes of an operand were changed")
        except NdualError as error:
            raise self.fail(case, f"{type(error).__name__}: {error}") from error
        self.value(case, value, want, values, exact)
        if got is not None:
            self.lanes(case, got, total, size, want)
        for v, t, before in zip(values, lanes, saved, strict=True):
            if not _same(np.asarray(v), before[0]) or (t is not None and not _same(t, before[1])):
                raise self.fail(case, "an array of the caller was changed")

    def value(self, case: str, got: Any, want: Any, values: Sequence[Any], exact: bool) -> None:
        """Dtype, shape and value as from the plain call.

        Some loops of NumPy give another last bit for reversed memory than for contiguous; either is NumPy's answer.
        """
        if got.dtype != want.dtype or np.shape(got) != np.shape(want):
            raise self.fail(case, f"expected {want.dtype}{np.shape(want)}; got {got.dtype}{np.shape(got)}")
        sines = self.row.kernel == "sincos" and not exact
        with np.errstate(all="ignore"):
            close = np.abs(got - want) <= np.spacing(np.abs(want)) if sines and want.dtype.kind == "f" else False
            straight = self.plain(*(np.ascontiguousarray(v) if np.ndim(v) else v for v in values))
        if not np.all(close | _bits_equal(got, want) | _bits_equal(got, straight)):
            raise self.fail(case, f"expected the value {want!r}; got {got!r}")

    def lanes(self, case: str, got: Any, total: Any, size: Any, want: Any) -> None:
        """Lanes as by the formulas."""
        if got.shape != total.shape or got.dtype != want.dtype:
            raise self.fail(case, f"expected lanes {want.dtype}{total.shape}; got {got.dtype}{got.shape}")
        self.close(case, got, total, size, want.dtype)

    def close(self, case: str, got: Any, total: Any, size: Any, dtype: Any) -> None:
        """Derivatives as by the formulas, to the precision of a dtype; `size` is that of what was summed."""
        info = np.finfo(dtype)
        with np.errstate(all="ignore"):
            good = np.abs(got - total) <= TOLERANCE[dtype.char] * size + 64 * float(info.smallest_normal)
            good |= (got == total) | (np.isnan(got) & np.isnan(total)) | (np.abs(total) > float(info.max) / 2)
        if not good.all():
            at = tuple(int(k[0]) for k in np.nonzero(~np.atleast_1d(good)))[: np.ndim(got)]
            raise self.fail(case, f"expected {np.asarray(total)[at]!r} at {at}; got {got[at]!r}")

    def _memory(self, case: str, y: Any, want: Any, duals: Sequence[Any], values: Sequence[Any]) -> None:
        if not isinstance(want, np.ndarray):
            return
        out = _core.split(y)
        for dual, v in zip(duals, values, strict=True):
            if not _core.is_dual(dual) or not isinstance(v, np.ndarray):
                continue
            operand = _core.split(dual)
            shared = [same_memory(a, b) for a, b in zip(out, operand, strict=True)]
            if shared != [same_memory(want, v)] * 2:
                raise self.fail(case, f"a view of an operand in NumPy: {same_memory(want, v)}; "
                                      f"here: its value {shared[0]}, its lanes {shared[1]}")  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


def _bits_equal(a: Any, b: Any) -> Any:
    return (a == b) & (np.signbit(np.real(a)) == np.signbit(np.real(b))) | (np.isnan(a) & np.isnan(b))


def _lookup(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _public(row: Elementwise) -> Any:
    """The function of NumPy or SciPy that the row serves; None if it serves plain numbers only."""
    for dotted in row.serves:
        if dotted.startswith(("numpy.", "scipy.")):
            return _lookup(dotted)
    return None
