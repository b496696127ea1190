"""The cases in which a row of the table is tried: dtypes, widths, layouts, constants, outputs, singular points.

Each case is a few operands and a call of :class:`~ndual.testing.row.RowCheck`; what must hold is decided there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import NdualError, NoRuleError
from ndual.testing import row_reverse
from ndual.testing.inputs import layouts, random_lanes
from ndual.testing.row import RowCheck

SHAPE = (3, 5)


def run(check: RowCheck, dtypes: str, widths: tuple[int, ...]) -> None:
    """All cases, the cheap and telling ones first."""
    check.formulas()
    check.complex_formulas()
    check.narrowing()
    supported = [char for char in dtypes if check.supports(char)]
    main = next((char for char in "dfDFe" if char in supported), None)
    if main is None:
        return
    _refusal(check, main)
    if not check.active:
        return
    _forward(check, supported, main, widths)
    row_reverse.run(check, supported, main, lambda: _ends(check))


def _forward(check: RowCheck, supported: list[str], main: str, widths: tuple[int, ...]) -> None:
    if check.function is None:
        for width in widths:
            values = [v[()] for v in _block(check, main, ())]
            check.compare(f"width {width}, 0-d", values, check.active, width)
        return
    for char in supported:
        _variants(check, char)
        _shapes(check, char)
    _widths(check, main, widths)
    _layouts(check, main)
    _exact(check, main)
    _strong_zero(check)
    if check.ufunc and check.own:
        for char in supported:
            _outputs(check, char)
    if len(check.row.partials) > 1:
        _mixed(check)


def _block(check: RowCheck, char: str, shape: tuple[int, ...]) -> list[Any]:
    n = int(np.prod(shape))
    return [v.reshape(shape) for v in check.points(n, char)]


def _subsets(check: RowCheck) -> Iterator[tuple[int, ...]]:
    for size in range(len(check.active), 0, -1):
        yield from itertools.combinations(check.active, size)


def _variants(check: RowCheck, char: str) -> None:
    """Every choice of active operands; constants as arrays and as Python numbers."""
    for active in _subsets(check):
        values = _block(check, char, SHAPE)
        check.compare(f"{np.dtype(char)}, active operands {active}", values, active, 3)
        if len(active) < len(values):
            mixed = [v if i in active else v.flat[0].item() for i, v in enumerate(values)]
            check.compare(f"{np.dtype(char)}, active operands {active} beside Python numbers", mixed, active, 2)
            single = [v if i in active else v.flat[0] for i, v in enumerate(values)]
            check.compare(f"{np.dtype(char)}, active operands {active} beside NumPy scalars", single, active, 2)


def _shapes(check: RowCheck, char: str) -> None:
    """0-d, empty, single and broadcast operands."""
    for shape in ((), (0,), (1,), (2, 0, 3), (7,), (2, 3, 2, 2, 2)):
        values = [v[()] for v in _block(check, char, shape)]
        check.compare(f"{np.dtype(char)} of shape {shape}", values, check.active, 2)
    check.compare(f"long {np.dtype(char)}", _block(check, char, (1101,)), check.active, 2)
    if check.row.nin == 1:
        return
    shapes: tuple[tuple[int, ...], ...]
    for shapes in (((4, 1), (1, 3)), ((3,), (2, 3)), ((), (5,)), ((5,), ()), ((2, 1, 3), (4, 1))):
        values = [_block(check, char, shapes[i % 2])[i] for i in range(check.row.nin)]
        for active in _subsets(check):
            check.compare(f"{np.dtype(char)} of shapes {shapes}, active operands {active}", values, active, 3)


def _widths(check: RowCheck, char: str, widths: tuple[int, ...]) -> None:
    for width in widths:
        check.compare(f"width {width}", _block(check, char, (9,)), check.active, width)
        check.compare(f"width {width}, 0-d", [v[()] for v in _block(check, char, ())], check.active, width)


def _layouts(check: RowCheck, char: str) -> None:
    values = _block(check, char, SHAPE)
    kinds = [list(layouts(v)) for v in values]
    for k, (name, _) in enumerate(kinds[0]):
        check.compare(f"{name} operands", [kind[k][1] for kind in kinds], check.active, 3)
        if len(values) > 1:
            mixed = [kind[(k + 2 * i) % len(kind)][1] for i, kind in enumerate(kinds)]
            check.compare(f"{name} operands beside others", mixed, check.active, 3)
    stretched = [np.broadcast_to(v[:1], SHAPE) for v in values]
    check.compare("operands of stride 0", stretched, check.active, 3)


def _exact(check: RowCheck, char: str) -> None:
    check.compare("exact=True", _block(check, char, (40,)), check.active, 2, exact=True)
    check.compare("exact=True, 0-d", [v[()] for v in _block(check, char, ())], check.active, 2, exact=True)


def _mixed(check: RowCheck) -> None:
    """Operands of different dtypes; the result has NumPy's."""
    for chars in itertools.permutations("fd", 2):
        if all(check.supports(char) for char in chars):
            values = [v.astype(chars[i % 2]) if v.dtype.kind == "f" else v
                      for i, v in enumerate(_block(check, "d", (6,)))]  # fmt: skip
            check.compare(f"{chars} operands", values, check.active, 3)


def _ends(check: RowCheck) -> list[Any]:
    """Operands at the ends of the domains, far out, and at 0, as far as the function has a value there."""
    candidates = []
    for domain in check.row.domain:
        ends = [end for end in (domain.low, domain.high) if np.isfinite(end)]
        found = [0, 1] if domain.integer else [*domain.extremes(), *ends, 0.0, -0.0, np.inf, 1000.0]
        candidates.append(found)
    n = max(map(len, candidates))
    values = [np.resize(np.array(found), n) for found in candidates]
    defined = [k for k in range(n) if _has_value(check, [v[k] for v in values])]
    return [v[defined] for v in values]


def _strong_zero(check: RowCheck) -> None:
    """A lane that is seeded with zero stays zero, whatever the derivative is: at ends, far out, and at 0."""
    if not check.supports("d"):
        return
    values = _ends(check)
    n = len(values[0])
    for active in _subsets(check):
        lanes = [np.stack([np.zeros(n), np.ones(n)]) for _ in values]
        with _core.Level(2) as level, np.errstate(all="ignore"):
            duals = [_core.dual(v, t, level) if i in active else v
                     for i, (v, t) in enumerate(zip(values, lanes, strict=True))]  # fmt: skip
            got = _first_lane(check.call(*duals))
            points = [[_core.dual(v[k], t[:, k], level) if i in active else v[k]
                       for i, (v, t) in enumerate(zip(values, lanes, strict=True))] for k in range(n)]  # fmt: skip
            single = np.array([_first_lane(check.call(*point)) for point in points])
        for what, first in (("an array", got), ("a scalar", single)):
            if not (first == 0).all():
                k = int(np.nonzero(first != 0)[0][0])
                raise check.fail("strong zero", f"expected a lane of zeros to stay zero in {what}; at "
                                                f"{tuple(v[k] for v in values)} got {first[k]}")  # fmt: skip


def _has_value(check: RowCheck, point: list[Any]) -> bool:
    """Whether the function itself takes a point: some raise at the ends of their domain."""
    try:
        with np.errstate(all="ignore"):
            check.plain(*point)
    except ArithmeticError:
        return False
    return True


def _first_lane(y: Any) -> Any:
    return _core.lanes(y)[0] if _core.is_dual(y) else np.zeros(np.shape(y))


def _refusal(check: RowCheck, char: str) -> None:
    """An operand without derivative must not be active."""
    for i, partial in enumerate(check.row.partials):
        if partial is not None:
            continue
        values = [v.astype("d") if v.dtype.kind == "i" else v for v in _block(check, char, (2,))]
        with _core.Level(1) as level:
            duals = [_core.dual(v, np.ones((1, *v.shape)), level) if k == i else v for k, v in enumerate(values)]
            try:
                check.call(*duals)
            except (NdualError, TypeError) as error:
                if isinstance(error, NoRuleError | TypeError):
                    continue
            raise check.fail(f"active operand {i}", "it has no derivative, yet the call went through")


def _outputs(check: RowCheck, char: str) -> None:
    """``out=``, ``where=``, in place, and outputs that overlap an operand."""
    f = check.function
    for active in _subsets(check):
        values = _block(check, char, (2, 6))
        with np.errstate(all="ignore"):
            want = f(*values)
        if want.dtype != values[check.active[0]].dtype:
            return
        mask = check.rng.integers(0, 2, (2, 6)).astype(bool)
        for where in (True, mask):
            base, base_lanes = np.full_like(want, 0.5), np.full((2, *want.shape), 0.25, want.dtype)
            lanes = [random_lanes(check.rng, v, 2) if i in active else None for i, v in enumerate(values)]
            case = f"{want.dtype}, active operands {active}, out=, where={'a mask' if where is mask else True}"
            with _core.Level(2) as level, np.errstate(all="ignore"):
                duals = [v if t is None else _core.dual(v, t, level) for v, t in zip(values, lanes, strict=True)]
                fresh, out = f(*duals), _core.dual(base, base_lanes, level)
                alias = out[...]
                got = f(*duals, out=out, where=where)
                if got is not out:
                    raise check.fail(case, "out= is not what the call returns")
                _agree(check, case, got, fresh, where, base, base_lanes)
                _agree(check, f"{case}, seen through a view", alias, fresh, where, base, base_lanes)
            if (base != 0.5).any() or (base_lanes != 0.25).any():
                raise check.fail(case, "the caller's arrays were changed")
        _overlap(check, char, active)


def _overlap(check: RowCheck, char: str, active: tuple[int, ...]) -> None:
    f = check.function
    values = _block(check, char, (9,))
    lanes = [random_lanes(check.rng, v, 2) for v in values]
    for i in active:
        for name, source, target in (
            ("in place", slice(None), slice(None)),
            ("into cells shifted right", slice(0, 8), slice(1, 9)),
            ("into cells shifted left", slice(1, 9), slice(0, 8)),
            ("into itself reversed", slice(None), slice(None, None, -1)),
        ):
            case = f"{np.dtype(char)}, active operands {active}, operand {i} {name}"
            with _core.Level(2) as level, np.errstate(all="ignore"):
                duals = [_core.dual(v, t, level) if k in active else v
                         for k, (v, t) in enumerate(zip(values, lanes, strict=True))]  # fmt: skip
                whole = duals[i]
                operands = [d[source] for d in duals]
                want = f(*[d.copy() for d in operands])
                want = _core.primal(want), _core.lanes(want)
                before = _core.primal(whole), _core.lanes(whole)
                f(*operands, out=whole[target])
                before[0][target], before[1][:, target] = want
                for got, wanted in zip((_core.primal(whole), _core.lanes(whole)), before, strict=True):
                    if not np.array_equal(got, wanted, equal_nan=True):
                        raise check.fail(case, f"expected {wanted!r}; got {got!r}")


def _agree(check: RowCheck, case: str, got: Any, fresh: Any, where: Any, base: Any, lanes: Any) -> None:
    for found, new, old in (
        (_core.primal(got), _core.primal(fresh), base),
        (_core.lanes(got), _core.lanes(fresh), lanes),
    ):
        if not np.array_equal(found, np.where(where, new, old), equal_nan=True):
            raise check.fail(case, f"expected {np.where(where, new, old)!r}; got {found!r}")
