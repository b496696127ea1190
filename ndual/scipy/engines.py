"""Value and Jacobian of one function, with a plan of its own in each thread, and the memo that adapters share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import chunk
from ndual._core import is_dual
from ndual.checks import Argnums
from ndual.outputs import Outputs
from ndual.plan import Plan
from ndual.scipy.vectors import fresh, fresh_jacobian

EAGER_AFTER = 2


class _Plans(threading.local):
    """The plan of one thread."""

    plan: Plan | None = None


class Engine:
    """Value and Jacobian of ``call`` in the arguments `argnums`.

    Arguments of other shapes or types get a plan of their own; the last one is kept for those that follow.
    """

    def __init__(
        self, call: Callable[..., Any], argnums: Argnums, chunk_size: int | None, mode: str, holomorphic: bool = False
    ) -> None:
        self._call = call
        self._argnums = argnums
        self._chunk_size = chunk_size
        self._mode = mode
        self._outputs = Outputs("ndual.scipy", holomorphic=holomorphic)
        self._local = _Plans()

    @property
    def plan(self) -> Plan | None:
        """The plan that this thread made last."""
        return self._local.plan

    def __call__(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """(value, Jacobian) as the plan gives them."""
        plan = self._local.plan
        if plan is None or not plan.run.suits(args):
            # A recursive call finds the remembered plan at work and makes its own.
            made = Plan(
                self._call, args, self._argnums, self._outputs, chunk_size=self._chunk_size, mode=self._mode
            )  # fmt: skip
            values = made.values
            if made.reusable and (plan is None or not plan.run.busy):
                self._local.plan = made
                # Keeping the arguments would keep their memory.
                made.values = []
            found = made.jacobian(values)
            if self._mode == "auto" and self._chunk_size is None and self._turns(made, found[0]):
                self._mode, self._local.plan = "reverse", None
            return found
        return plan.jacobian(args)

    @staticmethod
    def _turns(plan: Plan, value: Any) -> bool:
        """Whether what a plan differentiates is one number of so many that reverse mode takes less, as in `grad`."""
        return not plan.reverse and np.size(value) == 1 and sum(plan.sizes) >= chunk.REVERSE_FROM


class State:
    """What a thread knows of the last point: its key, and the value or the derivative that nobody asked for yet."""

    __slots__ = ("jac", "key", "streak", "value")

    def __init__(self) -> None:
        self.key: Any = None
        self.value: Any = None
        self.jac: Any = None
        self.streak = 0


class _States(threading.local):
    def __init__(self) -> None:
        self.state = State()


def key_of(x: np.ndarray, args: tuple[Any, ...]) -> Any:
    """What a point and the other arguments are recognised by: their bytes, or for other objects their identity."""
    if x.ndim == 1 and not args:
        return x.tobytes()
    return (x.shape, x.tobytes(), *map(_fingerprint, args))


def _fingerprint(arg: Any) -> Any:
    if type(arg) is np.ndarray and arg.dtype.kind != "O":
        return arg.dtype.str, arg.shape, arg.tobytes()
    if is_dual(arg):
        return object()  # of a derivative around this one: like no other, since it may be written into
    # The object is kept in the key, so that its identity cannot go to another one.
    return _Same(arg)


class _Same:
    """Equal only for the same object."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    __hash__ = None  # type: ignore[assignment]


class Memo:
    """Value and derivative of a function of one vector, each kept for the other.

    Work done for one of them is kept for the other, once: a second question to the same one is computed anew, so that
    data that f reads from elsewhere may change between calls. ``value`` starts to compute the derivative as well when
    it was asked for at the same point several times running, and stops when one was not used.

    `call` takes the vector in position `place` among its arguments. `gradient` says that one output in an array has a
    gradient ``(n,)`` and not a Jacobian ``(1, n)``.
    """

    def __init__(
        self, call: Callable[..., Any], place: int, chunk_size: int | None, mode: str, *, gradient: bool = False
    ) -> None:
        self._call = call
        self._place = place
        self._gradient = gradient
        self.engine = Engine(call, place, chunk_size, mode)
        self._local = _States()

    def _whole(self, x: np.ndarray, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*args[: self._place], x, *args[self._place :]) if args else (x,)

    def both(self, x: np.ndarray, args: tuple[Any, ...]) -> tuple[Any, np.ndarray]:
        """Value and derivative, fresh."""
        value, jac = self.engine(self._whole(x, args))
        found = fresh_jacobian(jac, value, x.size)
        if self._gradient and found.ndim == 2 and found.shape[0] == 1:
            found = found[0]
        return fresh(value), found

    def value(self, x: np.ndarray, args: tuple[Any, ...]) -> Any:
        """The value, fresh."""
        state = self._local.state
        key = key_of(x, args)
        if state.value is not None and state.key == key:
            value, state.value = state.value, None
            return value
        if state.jac is not None:
            state.streak = 0
        if state.streak >= EAGER_AFTER:
            value, state.jac = self.both(x, args)
        else:
            value, state.jac = fresh(self._call(*self._whole(x.copy(), args))), None
        state.key, state.value = key, None
        return value

    def derivative(self, x: np.ndarray, args: tuple[Any, ...]) -> np.ndarray:
        """The derivative, fresh."""
        state = self._local.state
        key = key_of(x, args)
        same = state.key == key
        if same and state.jac is not None:
            jac: np.ndarray = state.jac
            state.jac = None
            return jac
        state.streak = state.streak + 1 if same else 0
        value, jac = self.both(x, args)
        state.value, state.key, state.jac = None if same else value, key, None
        return jac
