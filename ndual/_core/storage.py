"""The storage protocol: what the core asks of a memory that holds the values and lanes of duals.

Host memory and every device implement these few calls; nothing above them touches a pointer. A storage that has no
kernels of its own inherits `launch`, which evaluates a row's NumPy form over the storage's array namespace.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ndual.errors import NoRuleError
from ndual.rules.language import to_numpy


def width_of(dtype: Any) -> int:
    """The bytes of a real number in which a result of this dtype is computed: float16 is computed in float32."""
    if dtype == np.float16:
        return 4
    return int(dtype.itemsize) // (2 if dtype.kind == "c" else 1)


def chosen(where: Any) -> Any:
    """np.where, of a condition that is Python's own too, which not every library takes."""
    return lambda cond, a, b: (a if cond else b) if type(cond) is bool else where(cond, a, b)


class Storage:
    """Arrays of one kind of memory: their namespace and how rows, reductions and gathers run on them.

    Parameters
    ----------
    xp : module
        The array namespace, such as ``numpy`` or ``cupy``.
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._forms: dict[tuple[str, str, int], Any] = {}

    def owns(self, array: Any) -> bool:
        """Whether `array` lives here."""
        return isinstance(array, self.xp.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Fresh memory."""
        return self.xp.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Fresh memory holding zeros."""
        return self.xp.zeros(shape, dtype)

    def admit(self, array: Any, name: str) -> None:
        """Raise where an argument of a derivative cannot be worked with."""

    def full(self, shape: tuple[int, ...], number: Any, dtype: Any, beside: Any) -> Any:
        """Fresh memory holding one number, where the array `beside` lies."""
        return self.xp.full(shape, number, dtype)

    def copy(self, array: Any) -> Any:
        """An array of its own memory, in C order."""
        return array.copy()

    def one(self, dtype: Any) -> Any:
        """A cell that holds one, to be read."""
        return self.full((), 1, dtype, None)

    def spread(self, cell: Any, shape: tuple[int, ...]) -> Any:
        """The number of a cell everywhere in a shape, to be read."""
        return self.xp.broadcast_to(cell, shape)

    def take(self, obj: Any) -> Any:
        """A number or an array of any memory as an array here."""
        return self.xp.asarray(obj)

    def host(self, array: Any) -> Any:
        """An array of this memory as one of the host's."""
        raise NotImplementedError

    def place(self, array: Any) -> str:
        """Where an array lies, in words."""
        return "on a device"

    def address(self, array: Any) -> int:
        """Where its first cell lies: views of one memory are told by it."""
        raise NotImplementedError

    def mirror(
        self, cells: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any
    ) -> Any:  # fmt: skip
        """The view of a row of cells that starts `offset` bytes behind its first one."""
        raise NotImplementedError

    def add_at(self, array: Any, index: Any, values: Any) -> None:
        """Add to cells, several times to one that `index` names several times."""
        self.xp.add.at(array, index, values)

    def function(self, dotted: str) -> Any:
        """The function of this storage that a public name ("numpy.sin", "scipy.special.digamma") stands for."""
        module, _, name = dotted.rpartition(".")
        if module == "numpy":
            return getattr(self.xp, name)
        return getattr(importlib.import_module(module), name)

    def stand_in(self, function: Any) -> Any:
        """What stands here for a function of SciPy that is written in Python."""
        parts = [part for part in function.__module__.split(".") if not part.startswith("_")]
        return self.function(".".join([*parts, function.__name__]))

    def form(self, row: Any, kind: str, i: int) -> Any:
        """The compiled NumPy form of a partial ("real", "complex") or of a real-linear tangent ("jvp")."""
        key = row.name, kind, i
        if key not in self._forms:
            if kind == "value":
                expr = row.value_expr
            elif kind == "jvp":
                expr = row.jvp_expr
            elif kind == "second":
                expr = row.second_expr(*divmod(i, row.nin))
            else:
                exprs = row.complex_exprs if kind == "complex" else row.partial_exprs
                expr = None if exprs is None else exprs[i]
            self._forms[key] = None if expr is None else to_numpy(expr, self.function)
        return self._forms[key]

    def launch(
        self, row: Any, ufunc: Any, values: list[Any], lanes: list[Any], width: int, dtype: Any
    ) -> tuple[Any, Any]:
        """Apply a row of the table: its value, and its lanes from its partial derivatives.

        `lanes` has one entry per operand, ``(N, *shape)`` or None for a constant. Zero times anything is zero.
        """
        function = self._value_function(row, ufunc)
        value = self.value(row, ufunc, values, dtype)
        x, y = self._widened(function, values, value)
        tangent = None
        # The arithmetic of partials meets infinities on purpose; warnings belong to the value alone.
        with np.errstate(all="ignore"):
            for i, t in enumerate(lanes):
                if t is None:
                    continue
                t = t.reshape(t.shape[:1] + (1,) * (value.ndim + 1 - t.ndim) + t.shape[1:])
                if t.dtype.kind == "f" and t.dtype.itemsize < width_of(value.dtype):
                    t = t.astype(f"f{width_of(value.dtype)}")  # a partial that is a number would be rounded to it
                term = self._term(row, i, x, y, t)
                if term is not None:
                    tangent = term if tangent is None else tangent + term
        if tangent is None:
            return value, self.zeros((width, *value.shape), value.dtype)
        if tangent.shape != (width, *value.shape):
            tangent = self.xp.broadcast_to(tangent, (width, *value.shape)).copy()
        return value, self._own(tangent) if tangent.dtype == value.dtype else tangent.astype(value.dtype)

    def value(self, row: Any, ufunc: Any, values: list[Any], dtype: Any) -> Any:
        """The value of a row alone."""
        function = self._value_function(row, ufunc)
        return self._own(function(*values, **({} if dtype is None else {"dtype": dtype})))

    def sum(self, value: Any, lanes: Any, width: int) -> tuple[Any, Any]:
        """The sum of all cells, and those of the lanes, None where there are none."""
        return value.sum(), None if lanes is None else lanes.reshape(width, -1).sum(1)

    def ahead(self, row: Any, values: list[Any], lanes: list[Any], width: int, active: list[bool]) -> Any:
        """What sums the result of a row and its lanes without them, where the code that runs does just that next.

        Its shape, its dtype, and a function that gives the sum, those of the lanes (None for width 0, where a tape
        records), and the result if the pullback of the `active` operands reads it; None where it is computed as ever.
        """
        return None

    def pull_all(self, row: Any, ufunc: Any, values: list[Any], value: Any, wanted: list[bool], w: Any) -> list[Any]:
        """The cotangents of the `wanted` operands; None for others, and where a partial is identically zero.

        The value is None where it was never computed: what reads it computes it.
        """
        if value is None:
            value = self.value(row, ufunc, values, None)
        with np.errstate(all="ignore"):
            return [self.pull(row, ufunc, values, value, i, w) if on else None for i, on in enumerate(wanted)]

    def pull(self, row: Any, ufunc: Any, values: list[Any], value: Any, i: int, w: Any) -> Any:
        """The cotangent of operand `i` from that of the result, in the shape of the result.

        The transpose of an elementwise map is the map itself: along t = w for real numbers, and for complex ones its
        real-linear map L has the cotangent Re(conj(w) L(1)) + i Re(conj(w) L(i)).
        """
        x, y = self._widened(self._value_function(row, ufunc), values, value)
        kinds = x[i].dtype.kind if hasattr(x[i], "dtype") else "f", value.dtype.kind
        if "c" not in kinds:
            same = t = w[None]
            if t.dtype.kind == "f" and t.dtype.itemsize < width_of(value.dtype):
                t = t.astype(f"f{width_of(value.dtype)}")
            term = self._term(row, i, x, y, t)
            if term is same:  # not its view: who asks knows that w belongs to others too
                return w
            return None if term is None else term[0]
        conj_w = self.xp.conj(w)
        found = None
        for unit in (1.0, 1j) if kinds[0] == "c" else (1.0,):
            ones = self.full((1, *value.shape), unit, f"{kinds[0]}{x[i].dtype.itemsize}", value)
            term = self._term(row, i, x, y, ones)
            if term is None:
                return None
            share = unit * self.strong_product(term[0], conj_w).real
            found = share if found is None else found + share
        return found

    def turned(
        self, row: Any, i: int, values: list[Any], lanes: list[Any], value: Any, w: Any, tw: Any, width: int
    ) -> Any:  # fmt: skip
        """The partial by operand `i` times `w`, and its lanes from those of the operands and of `w`, of real numbers.

        This is what a nested derivative needs of a row. None where there is no kernel for it: then the formula of the
        partial is differentiated operation by operation.
        """
        return None

    def push(self, row: Any, ufunc: Any, values: list[Any], value: Any, tangents: list[Any]) -> Any:
        """The tangent of the result from those of the operands, None for zero; None if all are."""
        x, y = self._widened(self._value_function(row, ufunc), values, value)
        found = None
        for i, tangent in enumerate(tangents):
            if tangent is None:
                continue
            t = tangent[None]
            if t.dtype.kind == "f" and t.dtype.itemsize < width_of(value.dtype):
                t = t.astype(f"f{width_of(value.dtype)}")
            t = t.reshape(t.shape[:1] + (1,) * (value.ndim + 1 - t.ndim) + t.shape[1:])
            term = self._term(row, i, x, y, t)
            if term is not None:
                found = term if found is None else found + term
        return None if found is None else found[0]

    def _own(self, result: Any) -> Any:
        """An array of its own memory: the result of a row is never a view of an operand."""
        if not hasattr(result, "dtype"):
            return self.xp.asarray(result)
        return result if getattr(result, "base", None) is None else result.copy()

    def _widened(self, function: Any, values: list[Any], value: Any) -> tuple[tuple[Any, ...], Any]:
        """Operands and value for the partials: at least as wide as the result, and float16 as float32.

        So float16 rounds once an operation, and a derivative is as precise as the value it stands beside.
        """
        half, width = value.dtype == np.float16, width_of(value.dtype)
        wide = np.dtype(f"f{width}")
        narrow = [hasattr(v, "dtype") and v.dtype.kind == "f" and v.dtype.itemsize < width for v in values]
        if not any(narrow):
            return tuple(values), value
        x = tuple(v.astype(wide) if is_narrow else v for v, is_narrow in zip(values, narrow, strict=True))
        with np.errstate(all="ignore"):
            return x, function(*x) if half else value

    def _value_function(self, row: Any, ufunc: Any) -> Any:
        if ufunc is not None and self.xp is np:
            return ufunc
        for dotted in row.serves:
            if dotted.startswith("numpy.") and hasattr(self.xp, dotted[6:]):
                return getattr(self.xp, dotted[6:])
        form = self.form(row, "value", 0)
        return lambda *x: form(x)

    def _term(self, row: Any, i: int, x: tuple[Any, ...], y: Any, t: Any) -> Any:
        """The share of one operand in the tangent, or None where its partial is identically zero."""
        complex_operand = any(getattr(v, "dtype", None) is not None and v.dtype.kind == "c" for v in x)
        if complex_operand and row.kind == "real_linear":
            return self.form(row, "jvp", i)(x, y, (t,))
        form = self.form(row, "complex" if complex_operand else "real", i)
        if form is None:
            raise NoRuleError(
                f"{row.name} has no derivative with respect to operand {i}"
                f"{' for complex operands' if complex_operand else ''}. Make it a constant with ndual.stop_gradient(x)"
            )
        factor = self.factor(row, form, i, x, y)
        if type(factor) in (int, float):
            if factor == 1:
                return t
            if factor == 0:
                return None
        return self.strong_product(factor, t)

    def factor(self, row: Any, form: Any, i: int, x: tuple[Any, ...], y: Any) -> Any:
        """The partial by operand `i`, whose compiled expression is `form`."""
        return form(x, y)

    def strong_product(self, factor: Any, tangent: Any) -> Any:
        """Factor * tangent in which a zero on either side annihilates infinities and NaN."""
        product = factor * tangent
        if bool(self.xp.isfinite(product).all()):
            return product
        return self.xp.where((factor == 0) | (tangent == 0), product.dtype.type(0), product)


HOST = Storage(np)
