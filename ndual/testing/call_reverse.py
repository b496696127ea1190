"""One call of a function that is no row in reverse, judged by forward mode, which is checked by differences before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndual.errors import DerivativeLostError, NdualError
from ndual.testing.inputs import is_float, leaves, replace_leaves
from ndual.testing.modes import Program, Recorded, disagreement, forward, second_orders

if TYPE_CHECKING:
    from ndual.testing.call import CallCheck

CELLS = 40  # of arguments or results, up to which whole Jacobians are compared


def run(check: CallCheck, spots: list[int], dtypes: str) -> None:
    """All cases."""
    case = _Cases(check, spots)
    case.agree("all arguments active", check.args, case.plainly)
    case.jacobian()
    for spot in spots if len(spots) > 1 else ():
        case.agree(f"argument {spot} active alone", check.args, case.plainly, [spot])
    for name, args in check.layouts():
        case.agree(f"{name} arguments", args, case.plainly)
    for char in dtypes:
        args = check.cast(char)
        if args is not None:
            case.agree(f"{np.dtype(char)} arguments", args, case.plainly)
    case.agree("arguments used twice", check.args, lambda call, x: (call(x), call(x)))
    case.agree("results overwritten", check.args, _results_overwritten)
    case.agree("arguments overwritten after the call", check.args, _arguments_overwritten)
    case.second_order()


def _results_overwritten(call: Callable[[list[Any]], Any], x: list[Any]) -> Any:
    found = leaves(call(x))
    for v in found:
        if isinstance(v, np.ndarray) and v.flags.writeable and is_float(v):
            v[...] = v * 0.5
            v[...] = 7
    return found, x


def _arguments_overwritten(call: Callable[[list[Any]], Any], x: list[Any]) -> Any:
    constants = [np.array(v) if type(v) is np.ndarray else v for v in x]
    found = call(constants)
    for v in constants:
        if isinstance(v, np.ndarray) and is_float(v):
            v[...] = 7
    return found, constants


class _Cases:
    def __init__(self, check: CallCheck, spots: list[int]) -> None:
        self.check, self.spots = check, spots

    def program(self, args: Any, around: Callable[..., Any]) -> Program:
        """A program of the leaves of the arguments, in which the call is made."""

        def call(x: list[Any]) -> Any:
            given = iter(x)
            return self.check.dual_call(replace_leaves(args, lambda leaf: next(given)))

        return lambda x: around(call, x)

    @staticmethod
    def plainly(call: Callable[[list[Any]], Any], x: list[Any]) -> Any:
        """The call alone."""
        return call(x)

    def agree(self, case: str, args: Any, around: Callable[..., Any], spots: list[int] | None = None) -> None:
        """Both modes, by the dot-product identity."""
        spots = self.spots if spots is None else spots
        with np.errstate(all="ignore"):
            said = disagreement(self.program(args, around), leaves(args), spots, self.check.rng)
        if said is not None:
            raise self.check.fail(f"{case}, in reverse", said)

    def jacobian(self) -> None:
        """Every entry of the Jacobian in both modes, where they are few; complex numbers have two directions."""
        values = leaves(self.check.args)
        cells = [np.size(values[i]) for i in self.spots]
        program = self.program(self.check.args, self.plainly)
        total = sum(cells)
        if total > CELLS or any(np.asarray(values[i]).dtype.kind == "c" for i in self.spots):
            return
        lanes: list[Any] = [None] * len(values)
        start = 0
        for i, n in zip(self.spots, cells, strict=True):
            lanes[i] = np.zeros((total, n), np.asarray(values[i]).dtype)
            lanes[i][start : start + n] = np.eye(n)
            lanes[i] = lanes[i].reshape(total, *np.shape(values[i]))
            start += n
        pushed = forward(program, values, lanes)
        try:
            recorded = Recorded(program, values, self.spots)
            for k, (value, t) in enumerate(pushed):
                if t is None or np.size(value) > CELLS or np.asarray(value).dtype.kind == "c":
                    continue
                for cell in np.ndindex(np.shape(value)):
                    w = [np.zeros(np.shape(v), np.asarray(v).dtype) for v in recorded.values]
                    w[k][cell] = 1
                    row = np.concatenate([np.reshape(g, -1) for g in recorded.sweep(w)])
                    size = np.max(np.abs(t), initial=0.0)
                    if not np.all(np.abs(row - t[(slice(None), *cell)]) <= 1e-10 * size):
                        raise self.check.fail(
                            f"result {k}, cell {cell}, in reverse", f"expected {t[(slice(None), *cell)]}; got {row}"
                        )
        except NdualError as error:
            raise self.check.fail("Jacobian in reverse", f"{type(error).__name__}: {error}") from error

    def second_order(self) -> None:
        """Second derivatives by all modes, where there are any."""
        # A rule that a user wrote may call compiled code: it has no second derivative then, and says so in use.
        compiled = (DerivativeLostError,) if hasattr(self.check.function, "__ndual_rule__") else ()
        with np.errstate(all="ignore"), contextlib.suppress(*compiled):
            said = second_orders(
                self.program(self.check.args, self.plainly), leaves(self.check.args), self.spots, self.check.rng
            )
            if said is not None:
                raise self.check.fail("second order", said)
