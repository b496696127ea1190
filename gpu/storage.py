"""CuPy's memory as a storage of the core: the rows of the table run as generated kernels where they can."""

from __future__ import annotations

import contextlib
import math
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import cupy
import cupyx
import numpy as np

from ndual._core.storage import Storage, chosen
from ndual.errors import NdualError, NoRuleError
from ndual.frontend.ahead import summed_next
from ndual.gpu import sums
from ndual.gpu.layout import layout
from ndual.gpu.namespace import NAMESPACE, counterpart
from ndual.gpu.source import forward, has_loop, pullback, reads, real_result, second, shares
from ndual.rules.elementwise import TABLE

__all__ = ["CupyStorage"]

ARRAY = cupy.ndarray
CTYPES = {"d": "double", "f": "float", "e": "half", "D": "complex<double>", "F": "complex<float>"}
GRID = 2**31 - 1
SOURCES = {"forward": forward, "second": second}
NONE = (None,) * 3
ON = (True,)
DEVICE = cupy.cuda.runtime.getDevice
COMPILERS = ThreadPoolExecutor(4, "ndual-compiler")


class Short(NamedTuple):
    """A kernel of a row of one operand over cells side by side, on one device: the short way of most calls.

    `share` is what a block does, `kind` the type of the result; a pullback `reads` operand and value.
    """

    function: Any
    block: tuple[int]
    share: int
    kind: Any
    reads: tuple[bool, ...]


class CupyStorage(Storage):
    """Arrays of CuPy. What has no kernel is evaluated in its NumPy form, by CuPy's own functions."""

    def __init__(self) -> None:
        super().__init__(NAMESPACE)
        self.entry: Any = None  # the code through which CuPy hands calls over: user code is what called it
        self._kernels: dict[Any, Any] = {}
        self._shorts: dict[Any, Short | None] = {}
        self._begun: dict[Any, Future[Short | None]] = {}
        self._ones: dict[tuple[str, int], Any] = {}

    def owns(self, array: Any) -> bool:
        """Whether `array` is CuPy's."""
        return isinstance(array, cupy.ndarray)

    def admit(self, array: Any, name: str) -> None:
        """What a derivative makes lies on the current device, as CuPy has it; so must its arguments."""
        if array.data.device_id != DEVICE():
            raise NdualError(
                f"{name}: expected an array on the current device, {DEVICE()}; got one on device "
                f"{array.data.device_id}. Take the derivative there: with cupy.cuda.Device({array.data.device_id}): …"
            )

    def host(self, array: Any) -> Any:
        """A copy in host memory."""
        return cupy.asnumpy(array)

    def place(self, array: Any) -> str:
        """The number of its device."""
        return f"on device {array.data.device_id}"

    def address(self, array: Any) -> int:
        """The address on its device."""
        return int(array.data.ptr)

    def mirror(
        self, cells: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any
    ) -> Any:  # fmt: skip
        """As :meth:`Storage.mirror`."""
        return cupy.ndarray(shape, dtype, cells.data + offset, strides)

    def one(self, dtype: Any) -> Any:
        """As :meth:`Storage.one`, the same one each time: to fill an array takes 10 µs."""
        key = dtype.char, DEVICE()
        found = self._ones.get(key)
        if found is None:
            found = self._ones[key] = cupy.asarray(np.ones((), dtype))
            cupy.cuda.get_current_stream().synchronize()  # streams other than this one read it too
        return found

    def spread(self, cell: Any, shape: tuple[int, ...]) -> Any:
        """As :meth:`Storage.spread`."""
        return ARRAY(shape, cell.dtype, cell.data, (0,) * len(shape))

    def add_at(self, array: Any, index: Any, values: Any) -> None:
        """As :meth:`Storage.add_at`; CuPy adds no complex numbers so."""
        if array.dtype.kind != "c":
            cupyx.scatter_add(array, index, values)
            return
        parts = [cupy.zeros(array.shape, array.real.dtype) for _ in range(2)]
        cupyx.scatter_add(parts[0], index, values.real)
        cupyx.scatter_add(parts[1], index, values.imag)
        array += parts[0] + 1j * parts[1]

    def function(self, dotted: str) -> Any:
        """CuPy's function for a public name of NumPy or SciPy."""
        if dotted == "numpy.where":
            return chosen(cupy.where)
        module, _, name = dotted.rpartition(".")
        found = getattr(NAMESPACE, name, None) if module == "numpy" else counterpart(dotted)
        if found is None:
            raise NoRuleError(
                f"expected a function that CuPy has; got {dotted}. Move the array to the host: cupy.asnumpy(x)"
            )
        return found

    def launch(
        self, row: Any, ufunc: Any, values: list[Any], lanes: list[Any], width: int, dtype: Any
    ) -> tuple[Any, Any]:
        """As :meth:`Storage.launch`, in one kernel."""
        found = self._forward(row, values, lanes, width) if dtype is None else None
        return super().launch(row, ufunc, values, lanes, width, dtype) if found is None else found

    def value(self, row: Any, ufunc: Any, values: list[Any], dtype: Any) -> Any:
        """As :meth:`Storage.value`, in a kernel that reaches the bandwidth of the device."""
        if len(values) == 1 and dtype is None:
            x = values[0]
            if type(x) is ARRAY and x._c_contiguous and x.size:
                short = self._short("forward", row, x.dtype, "c")
                if short is not None:
                    n, y = x.size, ARRAY(x.shape, short.kind)
                    short.function((min(-(-n // short.share), GRID),), short.block, (x, y, y, n))
                    return y
        found = self._forward(row, values, NONE[: len(values)], 0) if dtype is None else None
        return super().value(row, ufunc, values, dtype) if found is None else found[0]

    def sum(self, value: Any, lanes: Any, width: int) -> tuple[Any, Any]:
        """As :meth:`Storage.sum`, value and lanes in one kernel."""
        facts = common([value])
        found = None if facts is None else self._sums(TABLE["positive"], [value], [lanes], width, facts, False)
        return super().sum(value, lanes, width) if found is None else found()[:2]

    def ahead(self, row: Any, values: list[Any], lanes: list[Any], width: int, active: list[bool]) -> Any:
        """As :meth:`Storage.ahead`, for rows that have a kernel."""
        frame: Any = sys._getframe(1)
        if frame.f_code is self.entry:
            frame = frame.f_back
        if not summed_next(frame, row, counterpart, (np.sum, cupy.sum)):
            return None
        facts = common(values)
        if facts is None:
            return None
        keep = not width and reads(row, tuple(active))[-1]
        found = self._sums(row, values, lanes, width, facts, keep)
        if found is not None and not width and len(values) == 1:
            self._begin(row, facts[0], "u")
        return None if found is None else (facts[1], facts[0], found)

    def _sums(self, row: Any, values: list[Any], lanes: list[Any], width: int, facts: Any, keep: bool) -> Any:
        """What sums a row and its lanes; None if there is no kernel for it, or nothing to sum."""
        kind, shape, strided = facts
        if not shape or 0 in shape:
            return None
        arrays, lanes, letters = laid(values, lanes)
        key = "total", row.name, kind.char, letters, strided, width, keep
        kernel = self._kernel(key, sums.total, row, letters, strided, width, keep)
        if kernel is None:
            return None
        sizes = sums.shares(CTYPES[kind.char], letters, width)
        return partial(self._run_sums, kernel, kind, shape, strided, arrays, lanes, width, keep, sizes)

    def _run_sums(
        self, kernel: Any, kind: Any, shape: tuple[int, ...], strided: bool, arrays: list[Any], lanes: list[Any],
        width: int, keep: bool, sizes: tuple[int, int],
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        """The sum of the value, those of the lanes, and the value if it is kept."""
        n = math.prod(shape)
        block, share = sizes
        blocks = min(-(-n // share), sums.MOST_BLOCKS)
        value, tangent = ARRAY((), kind), ARRAY((width,), kind) if width else None
        found = value, value if tangent is None else tangent
        y = ARRAY(shape, kind) if keep else None
        partial_sums = ARRAY((1 + width, blocks), np.float64) if blocks > 1 else value
        arguments = operands_of(kind, arrays, lanes, width)
        if keep:
            arguments.append(y)
        arguments += (*found, partial_sums)
        if strided:
            arguments.append(layout(shape, arrays))
        kernel((blocks,), (block,), (*arguments, n))
        if blocks > 1:
            finish = self._kernels.get(("finish", kind.char))
            if finish is None:
                text = sums.FINISH.format(ctype=CTYPES[kind.char])
                finish = self._kernels["finish", kind.char] = cupy.RawKernel(text, "ndual_finish")
            finish((1 + width,), (256,), (partial_sums, blocks, *found))
        return value, tangent, y

    def pull_all(self, row: Any, ufunc: Any, values: list[Any], value: Any, wanted: list[bool], w: Any) -> list[Any]:
        """As :meth:`Storage.pull_all`, in one kernel."""
        if len(wanted) == 1 and type(w) is ARRAY and w.size:
            x, kind = values[0], w.dtype
            letter = "a" if w._c_contiguous else "" if any(w.strides) else "u"
            if letter and side_by_side(x, kind):
                short = self._short("pullback", row, kind, letter)
                if short is not None and (not short.reads[1] or side_by_side(value, kind)):
                    n, g = w.size, ARRAY(w.shape, kind)
                    given = (*(x,) * short.reads[0], *(value,) * short.reads[1], w, g, n)
                    short.function((min(-(-n // short.share), GRID),), short.block, given)
                    return [g]
        found = self._pullback(row, values, value, tuple(wanted), w)
        return super().pull_all(row, ufunc, values, value, wanted, w) if found is None else found

    def _short(self, what: str, row: Any, kind: Any, letter: str) -> Short | None:
        """The kernel of a row of one operand over cells side by side, None if it has none."""
        key = what, row.name, kind.char, letter, DEVICE()
        try:
            return self._shorts[key]
        except KeyError:
            if what == "forward":
                self._begin(row, kind, "a")
            begun = self._begun.pop(key, None)
            found = self._shorts[key] = self._made(what, row, kind, letter) if begun is None else begun.result()
            return found

    def _made(self, what: str, row: Any, kind: Any, letter: str) -> Short | None:
        """As :meth:`_short`, the first time; compiled for the current device."""
        if kind.char not in CTYPES:
            return None
        key = what, row.name, kind.char
        read: tuple[bool, ...] = ON
        if what == "forward":
            kernel = self._kernel((*key, letter, False, 0), forward, row, letter, False, 0)
        else:
            read = reads(row, ON, CTYPES[kind.char])
            letters = "".join(["a" if on else "-" for on in read]) + letter
            kernel = self._kernel((*key, letters, ON, False), pullback, row, letters, False, ON)
        block, share = shares(CTYPES[kind.char], 0)
        return None if kernel is None else Short(kernel.kernel, (block,), share, result(row, kind), read)

    def _begin(self, row: Any, kind: Any, letter: str) -> None:
        """Have the pullback of a row that a tape records compiled beside what goes on: the sweep asks for it next."""
        key = "pullback", row.name, kind.char, letter, DEVICE()
        if key in self._shorts or key in self._begun:
            return

        def compiled() -> Short | None:
            with cupy.cuda.Device(key[-1]):
                return self._made("pullback", row, kind, letter)

        with contextlib.suppress(RuntimeError):  # no thread starts while the interpreter ends
            self._begun[key] = COMPILERS.submit(compiled)

    def _forward(
        self, row: Any, values: list[Any], lanes: Any, width: int, what: str = "forward", *options: Any
    ) -> Any:  # fmt: skip
        """Value and lanes by a kernel of the row; None if it has none for these operands."""
        facts = common(values)
        if facts is None:
            return None
        kind, shape, strided = facts
        arrays, lanes, letters = laid(values, lanes)
        active = "d" in letters
        count = width if active else 0
        key = what, row.name, kind.char, letters, strided, count, *options
        kernel = self._kernel(key, SOURCES[what], row, letters, strided, count, *options)
        if kernel is None:
            return None
        of_result = result(row, kind)
        y = ARRAY(shape, of_result)
        dy = ARRAY((width, *shape), of_result) if active else None
        arguments = [*operands_of(kind, arrays, lanes, width), y, y if dy is None else dy]
        self._run(
            kernel, kind, arguments, y.size, layout(shape, arrays) if strided else None, count * letters.count("d")
        )
        if dy is None and width:
            dy = cupy.zeros((width, *shape), of_result)
        return y, dy

    def turned(
        self, row: Any, i: int, values: list[Any], lanes: list[Any], value: Any, w: Any, tw: Any, width: int
    ) -> Any:  # fmt: skip
        """As :meth:`Storage.turned`, in one kernel."""
        if type(w) is not ARRAY:
            return None
        return self._forward(row, [*values, value, w], [*lanes, None, tw], width, "second", i)

    def _pullback(self, row: Any, values: list[Any], value: Any, wanted: tuple[bool, ...], w: Any) -> Any:
        """The cotangents by the kernel of the row; None if it has none for these operands."""
        if type(w) is not ARRAY:
            return None
        kind: Any = values[0].dtype if row.kind == "real_linear" and type(values[0]) is ARRAY else w.dtype
        if kind.char not in CTYPES or w.dtype != (kept := result(row, kind)):
            return None
        names = reads(row, wanted, CTYPES[kind.char])
        if value is None and names[-1]:
            return None
        given: list[Any] = [x if on else None for x, on in zip((*values, value), names, strict=True)]
        facts = common([*given[:-1], *([given[-1], w] if kept == kind else [])], kind)
        if facts is None:
            return None
        _, shape, strided = facts
        if kept != kind:  # of one operand
            shape, strided = w.shape, strided or any(not x._c_contiguous for x in (w, value) if type(x) is ARRAY)
        # The cotangent of a sum is one number everywhere.
        uniform = w.size > 1 and not any(w.strides)
        if uniform:
            strided = any(type(x) is ARRAY and (x.shape != shape or not x._c_contiguous) for x in given)
        letters = "".join(["-" if x is None else "a" if type(x) is ARRAY else "s" for x in given])
        letters += "u" if uniform else "a"
        key = "pullback", row.name, kind.char, letters, wanted, strided
        kernel = self._kernel(key, pullback, row, letters, strided, wanted)
        if kernel is None:
            return None
        found: list[Any] = [ARRAY(w.shape, kind) if on else None for on in wanted]
        operands = [*given, w]
        arguments = [
            x if type(x) is ARRAY else (kind if x is not value else kept).type(x) for x in operands if x is not None
        ]
        arguments += [g for g in found if g is not None]
        self._run(kernel, kind, arguments, w.size, layout(shape, operands) if strided else None)
        return found

    def _kernel(self, key: Any, source: Any, row: Any, *options: Any) -> Any:
        """The compiled kernel, None if the row has none; CuPy keeps what it compiles on disk."""
        try:
            return self._kernels[key]
        except KeyError:
            text = source(row, CTYPES[key[2]], *options) if has_loop(row, key[2]) else None
            # Options of its own would have CuPy ask the compiler for its version once more, for 30 to 70 ms.
            kernel = self._kernels[key] = None if text is None else cupy.RawKernel(text, f"ndual_{key[0]}")
            return kernel

    @staticmethod
    def _run(kernel: Any, kind: Any, arguments: list[Any], n: int, words: Any, loads: int = 0) -> None:
        if n == 0:
            return
        block, share = shares(CTYPES[kind.char], loads)
        if words is not None:
            arguments.append(words)
        arguments.append(n)
        kernel((min(-(-n // share), GRID),), (block,), tuple(arguments))


def side_by_side(x: Any, kind: Any) -> bool:
    """Whether something is an array of this type whose cells lie side by side."""
    return type(x) is ARRAY and x._c_contiguous and x.dtype == kind


def result(row: Any, kind: Any) -> Any:
    """The dtype of the value of a row: a real one for the parts of complex numbers."""
    return np.dtype(kind.char.lower()) if kind.kind == "c" and real_result(row, CTYPES[kind.char]) else kind


def laid(values: list[Any], lanes: Any) -> tuple[list[Any], Any, str]:
    """Operands and lanes that have the same strides, and the letter of each operand in a forward kernel."""
    for i, t in enumerate(lanes):
        if t is not None and t.strides[1:] != values[i].strides:
            values, lanes = list(values), list(lanes)
            values[i], lanes[i] = cupy.ascontiguousarray(values[i]), cupy.ascontiguousarray(t)
    letters = [
        "-" if x is None else "s" if type(x) is not ARRAY else "c" if t is None else "d"
        for x, t in zip(values, lanes, strict=True)
    ]
    return values, lanes, "".join(letters)


def operands_of(kind: Any, values: list[Any], lanes: Any, width: int) -> list[Any]:
    """What a forward kernel takes for its operands."""
    arguments: list[Any] = []
    for x, t in zip(values, lanes, strict=True):
        if x is not None:
            arguments.append(x if type(x) is ARRAY else kind.type(x))
        if t is not None:
            arguments += (t, t.strides[0] // kind.itemsize if width > 1 else 0)
    return arguments


def common(operands: list[Any], kind: Any = None) -> tuple[Any, tuple[int, ...], bool] | None:
    """The dtype of a launch, the shape of its result, and whether cells lie otherwise than side by side.

    None where the operands are of several types, or of one that has no kernels. An operand of None is not read.
    """
    shape: tuple[int, ...] = ()
    device = None
    strided = False
    imaginary = False
    numbers = set()
    for x in operands:
        if type(x) is ARRAY:
            if device is None:
                kind, shape, device = x.dtype if kind is None else kind, x.shape, x.data.device_id
            elif x.data.device_id != device:
                raise NdualError(
                    f"expected operands on one device; got devices {device} and {x.data.device_id}. "
                    "Move one of them: with cupy.cuda.Device(i): y = cupy.asarray(x)"
                )
            if x.dtype != kind:
                return None
            if x.shape != shape:
                strided = True
                shape = np.broadcast_shapes(shape, x.shape)
            strided = strided or not x._c_contiguous
        elif isinstance(x, np.floating | np.complexfloating):
            numbers.add(x.dtype)
        elif type(x) is complex:
            imaginary = True
        elif type(x) is not float and type(x) is not int and x is not None:
            return None
    if kind is None or kind.char not in CTYPES or not numbers <= {kind} or (imaginary and kind.kind != "c"):
        return None
    return kind, shape, strided
