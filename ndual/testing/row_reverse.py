"""The cases in which a row of the table is tried in reverse.

Cotangents are held against the row's formulas; forward mode, which is checked before, is the reference where there is a
program around the row (out=, overlaps, writes afterwards), and at singular points.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ndual.errors import NdualError
from ndual.testing.inputs import layouts
from ndual.testing.modes import Program, Recorded, disagreement, forward, random_like, second_orders
from ndual.testing.row import TOLERANCE, RowCheck

SHAPE = (3, 5)


def run(check: RowCheck, supported: Sequence[str], main: str, ends: Callable[[], Sequence[Any]]) -> None:
    """All cases; `ends` gives operands at the ends of the domain, and beyond where the function has a value."""
    if check.function is None:
        compare(check, "0-d", [v[()] for v in _block(check, main, ())], check.active)
        return
    for char in supported:
        _variants(check, char)
        _shapes(check, char)
    _layouts(check, main)
    if main == "d":
        _singular(check, ends())
    _programs(check, main)
    if main in "dD":
        _second_order(check, main)


def _block(check: RowCheck, char: str, shape: tuple[int, ...]) -> list[Any]:
    return [v.reshape(shape) for v in check.points(int(np.prod(shape)), char)]


def _subsets(check: RowCheck) -> Iterator[tuple[int, ...]]:
    for size in range(len(check.active), 0, -1):
        yield from itertools.combinations(check.active, size)


def compare(check: RowCheck, case: str, values: Sequence[Any], active: Sequence[int]) -> None:
    """Sweep one call back, and compare all there is to compare."""
    case = f"{case}, in reverse"
    with np.errstate(all="ignore"):
        want = check.plain(*values)
    w = random_like(check.rng, want)
    saved = [np.copy(v) for v in (*values, w)]
    try:
        with np.errstate(all="ignore"):
            recorded = Recorded(lambda x: check.call(*x), values, active)
            found = recorded.sweep([w])
            again = recorded.sweep([w])
    except NdualError as error:
        raise check.fail(case, f"{type(error).__name__}: {error}") from error
    check.value(case, recorded.values[0], want, values, False)
    for i, got, repeated in zip(active, found, again, strict=True):
        total, size = _by_formula(check, values, i, w)
        if np.shape(got) != np.shape(values[i]) or got.dtype != np.asarray(values[i]).dtype:
            raise check.fail(
                case,
                f"expected a cotangent {np.asarray(values[i]).dtype}{np.shape(values[i])} of operand {i}; "
                f"got {got.dtype}{np.shape(got)}",
            )
        rough = max(np.asarray(want).dtype, got.dtype, key=lambda dtype: TOLERANCE[dtype.char])
        check.close(f"{case}, operand {i}", np.asarray(got), total, size, rough)
        if np.asarray(got).tobytes() != np.asarray(repeated).tobytes():
            raise check.fail(case, "another sweep gave another cotangent")
    for v, before in zip((*values, w), saved, strict=True):
        if np.asarray(v).tobytes() != before.tobytes():
            raise check.fail(case, "an array of the caller, or the cotangent, was changed")


def _by_formula(check: RowCheck, values: Sequence[Any], i: int, w: Any) -> tuple[Any, Any]:
    """The cotangent of operand `i`, and the size of what was summed."""
    shape, own = np.shape(w), np.asarray(values[i])
    wide = [
        np.asarray(v).astype(np.promote_types(np.asarray(v).dtype, np.float32)) if _is_half(v) else v for v in values
    ]
    with np.errstate(all="ignore"):
        y = check.plain(*wide)
        if own.dtype.kind != "c" and y.dtype.kind != "c":
            term = check.term(wide, y, i, w.astype(np.promote_types(w.dtype, np.float32)))
        else:
            term = 0.0
            for unit in (1.0, 1j) if own.dtype.kind == "c" else (1.0,):
                slope = check.term(wide, y, i, np.full(shape, unit, complex if own.dtype.kind == "c" else float))
                term = term + unit * np.where(w == 0, 0, np.real(np.conj(w) * slope))
    term = np.broadcast_to(term, shape)
    return _summed(term, own.shape), _summed(np.abs(term), own.shape)


def _is_half(v: Any) -> bool:
    return getattr(v, "dtype", None) == np.float16


def _summed(term: Any, shape: tuple[int, ...]) -> Any:
    extra = term.ndim - len(shape)
    with np.errstate(all="ignore"):
        total = term.sum(axis=tuple(range(extra))) if extra else term
        axes = tuple(k for k, n in enumerate(shape) if n == 1 and total.shape[k] != 1)
        return total.sum(axis=axes, keepdims=True) if axes else total


def _variants(check: RowCheck, char: str) -> None:
    for active in _subsets(check):
        values = _block(check, char, SHAPE)
        compare(check, f"{np.dtype(char)}, active operands {active}", values, active)
        if len(active) < len(values):
            mixed = [v if i in active else v.flat[0].item() for i, v in enumerate(values)]
            compare(check, f"{np.dtype(char)}, active operands {active} beside Python numbers", mixed, active)


def _shapes(check: RowCheck, char: str) -> None:
    for shape in ((), (0,), (1,), (2, 0, 3), (1101,)):
        compare(check, f"{np.dtype(char)} of shape {shape}", [v[()] for v in _block(check, char, shape)], check.active)
    if check.row.nin == 1:
        return
    shapes: tuple[tuple[int, ...], ...]
    for shapes in (((4, 1), (1, 3)), ((3,), (2, 3)), ((), (5,)), ((2, 1, 3), (4, 1))):
        values = [_block(check, char, shapes[i % 2])[i] for i in range(check.row.nin)]
        for active in _subsets(check):
            compare(check, f"{np.dtype(char)} of shapes {shapes}, active operands {active}", values, active)


def _layouts(check: RowCheck, char: str) -> None:
    kinds = [list(layouts(v)) for v in _block(check, char, SHAPE)]
    for k, (name, _) in enumerate(kinds[0]):
        compare(check, f"{name} operands", [kind[k][1] for kind in kinds], check.active)
        if len(kinds) > 1:
            mixed = [kind[(k + 2 * i) % len(kind)][1] for i, kind in enumerate(kinds)]
            compare(check, f"{name} operands beside others", mixed, check.active)
    stretched = [np.broadcast_to(v[:1], SHAPE) for v in _block(check, char, SHAPE)]
    compare(check, "operands of stride 0", stretched, check.active)


def _singular(check: RowCheck, ends: Sequence[Any]) -> None:
    """Where the domain ends, and at ties: what forward mode says, and nothing where the cotangent is zero."""
    n = len(ends[0])

    def program(x: list[Any]) -> Any:
        return check.call(*x)

    for active in _subsets(check):
        for what, points in (("an array", [list(ends)]), ("numbers", [[v[k] for v in ends] for k in range(n)])):
            for values in points:
                with np.errstate(all="ignore"):
                    recorded = Recorded(program, values, active)
                    nothing = recorded.sweep([np.zeros(np.shape(recorded.values[0]))])
                    found = recorded.sweep([np.ones(np.shape(recorded.values[0]))])
                for i, zero, got in zip(active, nothing, found, strict=True):
                    lanes = [np.ones((1, *np.shape(v))) if k == i else None for k, v in enumerate(values)]
                    with np.errstate(all="ignore"):
                        ((_, t),) = forward(program, values, lanes)
                    want = np.zeros(np.shape(got)) if t is None else t[0]
                    case = f"singular points of {what}, operand {i} of {active}, in reverse"
                    if (np.asarray(zero) != 0).any():
                        raise check.fail(case, f"expected zeros for a cotangent of zeros at {values}; got {zero}")
                    if not np.allclose(got, want, rtol=1e-12, atol=1e-300, equal_nan=True):
                        raise check.fail(case, f"expected {want}, as forward mode gives at {values}; got {got}")


def agree(check: RowCheck, case: str, program: Program, values: Sequence[Any], active: Sequence[int]) -> None:
    """A program with the row in it, in both modes."""
    with np.errstate(all="ignore"):
        said = disagreement(program, values, active, check.rng)
    if said is not None:
        raise check.fail(f"{case}, in reverse", said)


def _programs(check: RowCheck, char: str) -> None:
    """Operands used twice, and written to once they were read."""
    values = _block(check, char, (6,))

    def twice(x: list[Any]) -> Any:
        return check.call(*x), check.call(*x)

    def afterwards(x: list[Any]) -> Any:
        constants = [np.array(v) for v in x if type(v) is np.ndarray]
        given = iter(constants)
        x = [next(given) if type(v) is np.ndarray else v for v in x]
        y = check.call(*x)
        for v in (*constants, *(x[i] for i in active)):
            v[1:4] = 0.25
        return (y, *(x[i] for i in active))

    for active in _subsets(check):
        agree(check, f"active operands {active} used twice", twice, values, active)
        agree(check, f"active operands {active} overwritten after the call", afterwards, values, active)
    if not (check.ufunc and check.own):
        return
    with np.errstate(all="ignore"):
        kind = check.function(*values).dtype
    if kind != values[check.active[0]].dtype:
        return
    for active in _subsets(check):
        _outputs(check, char, active, kind)


def _outputs(check: RowCheck, char: str, active: tuple[int, ...], kind: Any) -> None:
    """``out=``, ``where=``, in place, and outputs that overlap an operand."""
    f = check.function
    values = _block(check, char, (2, 6))
    mask = check.rng.integers(0, 2, (2, 6)).astype(bool)
    for where in (True, mask):

        def into(x: list[Any], where: Any = where) -> Any:
            alias = x[-1][...]
            f(*x[:-1], out=x[-1], where=where)
            return alias, *(x[i] for i in active)

        case = f"active operands {active}, out=, where={'a mask' if where is mask else True}"
        agree(check, case, into, [*values, np.full((2, 6), 0.5, kind)], (*active, len(values)))
    values = _block(check, char, (9,))
    for i in active:
        for name, source, target in (
            ("in place", slice(None), slice(None)),
            ("into cells shifted right", slice(0, 8), slice(1, 9)),
            ("into cells shifted left", slice(1, 9), slice(0, 8)),
            ("into itself reversed", slice(None), slice(None, None, -1)),
        ):

            def over(x: list[Any], i: int = i, source: slice = source, target: slice = target) -> Any:
                f(*(v[source] for v in x), out=x[i][target])
                return [x[k] for k in active]

            agree(check, f"active operands {active}, operand {i} {name}", over, values, active)


def _second_order(check: RowCheck, char: str) -> None:
    """The gradient in reverse is a program, too: in both modes, and as forward over forward has it."""
    values = _block(check, char, (3,))
    for numbers in (False, True):
        given = [v[0] for v in values] if numbers else values
        what = "numbers" if numbers else "arrays"
        with np.errstate(all="ignore"):
            said = second_orders(lambda x: check.call(*x), given, check.active, check.rng)
        if said is not None:
            raise check.fail(f"second order of {what}", said)
