"""Derivatives by other engines: ``differentiate_with`` for one function, ``using`` for one deep in a call stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ndual import _core
from ndual.custom.backends import BACKENDS
from ndual.custom.call import Call, Opaque, apply, settled
from ndual.custom.records import Linear
from ndual.custom.rules import by_position, name_of, ruled
from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.frontend import defined

Function = Callable[..., Any]


def differentiate_with(f: Function, backend: str) -> Function:
    """A function whose derivatives are taken by another engine, inside of what ndual differentiates.

    Parameters
    ----------
    f : callable
        A function of numbers, arrays, and containers and objects of them, in the terms of the engine: it gets JAX's or
        PyTorch's arrays for floats ("jax", "torch"), those of ``autograd.numpy`` ("autograd"), complex ones
        ("complex_step"), or just numbers and arrays ("finite_differences"), and may be compiled.
    backend : {"jax", "torch", "autograd", "complex_step", "finite_differences"}
        "jax", "torch" and "autograd" run `f` once and keep their record for all directions, forward and reverse; they
        give second derivatives as well. The other two run it once for the value, and for each direction (in reverse for
        each number among the arguments) once with a complex step, which is exact for analytic code, or four times.

    Returns
    -------
    callable
        Takes and returns NumPy's arrays. Outside of derivatives too, `f` runs in the terms of the engine.

    Raises
    ------
    ImportError
        The engine is not installed; the message says what to install.
    ArgumentTypeError, ArgumentValueError
        `f` is no function, or `backend` is unknown.
    NoRuleError
        Of a derivative: a second one, by "complex_step" or "finite_differences".

    See Also
    --------
    using : The same choice for a function that is called by code that you do not want to edit.

    Examples
    --------
    >>> import math, numpy as np, ndual
    >>> f = ndual.differentiate_with(lambda x: np.exp(x) * x, "complex_step")
    >>> ndual.grad(lambda x: np.sum(np.sin(f(x))))(np.array([0.0, 1.0])).round(6).tolist()
    [1.0, -4.956699]
    """
    return ruled(_outside(rule := Engine(f, backend, "differentiate_with")), rule)


def _outside(rule: Engine) -> Function:
    """The function where no derivative is taken."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return rule.plain(*by_position(rule.f, args, kwargs))

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(rule.f, name):
            setattr(call, name, getattr(rule.f, name))
    call.__wrapped__ = rule.f  # type: ignore[attr-defined]
    return call


@contextmanager
def using(choice: Mapping[Function, str]) -> Iterator[None]:
    """Have derivatives of some functions taken by other engines, wherever they are called from.

    Parameters
    ----------
    choice : mapping of callable to str
        Functions, as modules have them by name, and the engines for them, as in :func:`differentiate_with`.

    Raises
    ------
    ImportError, ArgumentTypeError, ArgumentValueError
        As :func:`differentiate_with`; or a function cannot be found by name.

    Notes
    -----
    The choice holds in the ``with`` statement, for its thread and for functions called by name: global names,
    attributes of modules, variables of an enclosing function. Outside of derivatives nothing changes.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> def inner(x):
    ...     return np.exp(x) * x
    >>> def outer(x):
    ...     return np.sum(np.sin(inner(x)))
    >>> with ndual.using({inner: "finite_differences"}):
    ...     ndual.grad(outer)(np.array([0.0, 1.0])).round(6).tolist()
    [1.0, -4.956699]
    """
    if not isinstance(choice, Mapping):
        raise ArgumentTypeError(
            f"using expects a mapping of functions to backends; got {type(choice).__name__}. "
            'Write using({f: "complex_step"})'
        )
    handlers = {id(f): _handler(Engine(f, backend, "using")) for f, backend in choice.items()}
    for f in choice:
        defined.watch(f, "using")
    token = defined.choose(handlers)
    try:
        yield
    finally:
        defined.restore(token)


def _handler(rule: Engine) -> defined.Handler:
    return lambda args, kwargs: apply(rule, *by_position(rule.f, args, kwargs))


class Engine(Opaque):
    """A function with the derivative of another engine."""

    def __init__(self, f: Function, backend: str, who: str) -> None:
        if not callable(f):
            raise ArgumentTypeError(f"{who} expects a function; got {type(f).__name__}. Write {who}(f, …), not f(x)")
        if not isinstance(backend, str) or backend not in BACKENDS:
            known = ", ".join(map(repr, BACKENDS))
            raise ArgumentValueError(f"{who} expects one of {known} as backend; got {backend!r}")
        self.f = f
        self.name = name_of(f)
        self.backend = BACKENDS[backend]()

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function on values."""
        with _core.Pause():
            call = Call(self, _core.constants(args), _core.constants(kwargs))
            out = self.backend.call(lambda *leaves: self.f(*call.arguments(leaves), **call.named(leaves)), call.values)
        return settled(out)

    def run(self, call: Call, args: tuple[Any, ...]) -> Any:
        """The value, with the engine's own record of the active leaves."""
        if any(map(_core.is_dual, call.given)):
            return apply(self, args, call.kwargs)
        with _core.Pause():
            out, call.state = self.backend.linearize(self._flat(call, call.given), self._active(call, call.given))
        return out

    def _flat(self, call: Call, leaves: Any) -> Function:
        """The function of the active leaves alone."""
        places = [k for k, on in enumerate(call.active) if on]
        # Copies, for the record may be asked again when the caller has written to these.
        constants = self.backend.constants([None if on else leaf for leaf, on in zip(leaves, call.active, strict=True)])

        def f(*active: Any) -> Any:
            whole = list(constants)
            for k, value in zip(places, active, strict=True):
                whole[k] = value
            return self.f(*call.arguments(whole), **call.named(whole))

        return f

    @staticmethod
    def _active(call: Call, leaves: Any) -> list[Any]:
        return [leaf for leaf, on in zip(leaves, call.active, strict=True) if on]

    def push(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], lanes: list[list[Any]]) -> list[list[Any]]:
        """By the engine's record, or by its derivative of a derivative."""
        given = [[call.zero(leaf) if t is None else t for leaf, t, on in zip(call.leaves, ts, call.active, strict=True)
                  if on] for ts in lanes]  # fmt: skip
        if _core.holds((x, given)):
            return [self._again(call, x, "push", ts) for ts in given]
        with _core.Pause():
            found = [self._record(call, x).push(ts) for ts in given]
        return [[_cast(leaf, t) for leaf, t in zip(call.out_leaves, ts, strict=True)] for ts in found]

    def pull(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], ws: list[Any]) -> list[Any]:
        """By the engine's record, or by its derivative of a derivative."""
        places = [k for k, on in enumerate(call.active) if on]
        if _core.holds((x, ws)):
            parts = self._again(call, x, "pull", ws)
        else:
            with _core.Pause():
                parts = self._record(call, x).pull(list(ws))
        found: list[Any] = [None] * len(call.leaves)
        for k, part in zip(places, parts, strict=True):
            found[k] = _cast(call.leaves[k], part)
        return found

    def _record(self, call: Call, x: Any) -> Linear:
        if call.state is None:  # the value came by an outer derivative
            _, call.state = self.backend.linearize(self._flat(call, x), self._active(call, x))
        state: Linear = call.state
        return state

    def _again(self, call: Call, x: Any, way: str, parts: list[Any]) -> list[Any]:
        """A derivative at duals of an outer level: the engine's derivative as a function that it differentiates."""
        inner = self.backend.derived(self._flat(call, x), way, len(self._active(call, x)), self.name)
        rule = Engine.__new__(Engine)
        rule.f, rule.name, rule.backend = inner, f"the derivative of {self.name}", self.backend
        return list(apply(rule, (*self._active(call, x), *parts), {}))


def _cast(leaf: Any, part: Any) -> Any:
    """What an engine gave, in the dtype of its leaf; the imaginary part of what belongs to a real number is dropped."""
    if part is None:
        return None
    part = np.asarray(part) if not _core.is_dual(part) else part
    if part.dtype.kind == "c" and not leaf.complex:
        part = part.real
    part = part if part.dtype == leaf.dtype else part.astype(leaf.dtype)
    return part[()] if np.ndim(_core.bottom(part)) == 0 and leaf.kind else part
