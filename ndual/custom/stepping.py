"""Engines that call a function again, at other arguments: complex steps and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndual.custom.records import Function, Leaves, Linear, copies, has_float_dtype, taken
from ndual.errors import ArgumentTypeError, DerivativeLostError, NoRuleError


class Stepping:
    """Engines that call the function again, at other arguments."""

    kind: type[_Stepped]

    def constants(self, leaves: Leaves) -> Leaves:
        """Copies of leaves; None stays."""
        return copies(leaves)

    def call(self, f: Function, leaves: Leaves) -> Any:
        """The value."""
        return f(*leaves)

    def linearize(self, f: Function, leaves: Leaves) -> tuple[Any, Linear]:
        """The value, and its derivative."""
        out = f(*leaves)
        floats, _ = taken(out, has_float_dtype)
        return out, self.kind(f, copies(leaves), [np.array(part) for part in floats])

    def derived(self, f: Function, way: str, count: int, name: str) -> Function:
        """There is none."""
        raise NoRuleError(
            f"expected an engine that differentiates its own derivatives, for a second derivative of {name}; got "
            f'"{self.kind.name}". Take "jax", "torch" or "autograd", or one derivative only'
        )


class _Stepped(Linear):
    """Directional derivatives from calls; the way back is had from one for each number."""

    name = ""

    def __init__(self, f: Function, xs: Leaves, ys: Leaves) -> None:
        self.f, self.xs, self.ys = f, xs, ys
        self.columns: list[list[tuple[Any, Leaves]]] | None = None

    def at(self, *leaves: Any) -> Leaves:
        return copies(taken(self.f(*leaves), has_float_dtype)[0])  # f may return the same array each time

    def pull(self, ws: Leaves) -> Leaves:
        if self.columns is None:
            self.columns = [self._columns(k) for k in range(len(self.xs))]
        found = []
        for x, columns in zip(self.xs, self.columns, strict=True):
            g = np.zeros(np.shape(x), np.result_type(x, np.float64))
            cells = g.reshape(-1)
            for i, (unit, column) in enumerate(columns):
                share = sum(float(np.sum(np.conj(w) * d).real) for w, d in zip(ws, column, strict=True))
                cells[i % cells.size] += unit * share
            found.append(g)
        return found

    def _columns(self, k: int) -> list[tuple[Any, Leaves]]:
        x = self.xs[k]
        columns = []
        for unit in (1.0, 1.0j) if np.iscomplexobj(x) else (1.0,):
            for i in range(np.size(x)):
                ts: Leaves = [np.zeros(np.shape(other)) for other in self.xs]
                t = np.zeros(np.size(x), type(unit))
                t[i] = unit
                ts[k] = t.reshape(np.shape(x))
                columns.append((unit, self.push(ts)))
        return columns


class _ComplexStep(_Stepped):
    """The imaginary part of f(x + i h t) / h, without a difference and so without rounding."""

    name = "complex_step"
    checked = False

    def push(self, ts: Leaves) -> Leaves:
        if any(map(np.iscomplexobj, (*self.xs, *self.ys))):
            raise ArgumentTypeError(
                'expected real arguments and outputs of a function differentiated with "complex_step"; got complex '
                'ones. Take another backend, such as "finite_differences"'
            )
        size = max((float(np.max(np.abs(t), initial=0.0)) for t in ts), default=0.0)
        if size == 0:
            return [np.zeros(np.shape(y)) for y in self.ys]
        h = 1e-20 / size
        parts = self._complex(1j * h, ts)
        found = [np.imag(part) / h for part in parts]
        if not self.checked:
            # A step to both sides at once: what takes absolute values or real parts on the way gives another slope.
            wide = 1e-6 * (1 + 1j) / size
            for start, d, part, y in zip(parts, found, self._complex(wide, ts), self.ys, strict=True):
                slope = (part - np.real(start)) / wide
                allowed = 1e-3 * np.max(np.abs(d), initial=0.0) + 1e-4 * size * np.max(np.abs(y), initial=0.0)
                if np.isfinite(slope).all() and np.max(np.abs(slope - d), initial=0.0) > allowed:
                    raise self._lost(part, y)
            self.checked = True
        return found

    def _complex(self, step: complex, ts: Leaves) -> Leaves:
        found = self.at(*[x + step * np.asarray(t, float) for x, t in zip(self.xs, ts, strict=True)])
        for y, part in zip(self.ys, found, strict=True):
            if not np.iscomplexobj(part) and np.size(part):
                raise self._lost(part, y)
        return found

    @staticmethod
    def _lost(part: Any, y: Any) -> DerivativeLostError:
        return DerivativeLostError(
            'expected a function differentiated with "complex_step" to compute with complex numbers what it computes '
            f"with real ones; got {np.asarray(part).dtype} {part!r} where the value is {y!r}. Leave out abs, max, real "
            'and float(x), or take another backend, such as "finite_differences"'
        )


class _Differences(_Stepped):
    """Central differences for two steps, from which one of the fourth order follows."""

    name = "finite_differences"

    def push(self, ts: Leaves) -> Leaves:
        size = max((float(np.max(np.abs(t), initial=0.0)) for t in ts), default=0.0)
        if size == 0:
            return [np.zeros(np.shape(y)) for y in self.ys]
        rounding = max((np.finfo(np.asarray(v).dtype).eps for v in (*self.xs, *self.ys)), default=2.2e-16)
        moved = [float(np.max(np.abs(np.where(np.asarray(t) != 0, x, 0)), initial=0.0))
                 for x, t in zip(self.xs, ts, strict=True)]  # fmt: skip
        h = float(rounding) ** 0.2 * max(1.0, *moved) / size

        def along(step: float) -> Leaves:
            return self.at(*[x + step * np.asarray(t) for x, t in zip(self.xs, ts, strict=True)])

        steps = [(s, along(s), along(-s)) for s in (h, h / 2)]
        (d, half) = ([(np.asarray(a) - b) / (2 * s) for a, b in zip(up, down, strict=True)] for s, up, down in steps)
        return [(4 * b - a) / 3 for a, b in zip(d, half, strict=True)]


class ComplexStep(Stepping):
    """Complex steps."""

    kind = _ComplexStep


class Differences(Stepping):
    """Finite differences."""

    kind = _Differences
