"""Functions that users gave a rule to, or chose another engine for: how their calls are found."""

from __future__ import annotations

import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ndual._core import forward
from ndual._core._dual import short_cut
from ndual.errors import ArgumentTypeError
from ndual.frontend import dispatch
from ndual.frontend.intercept import room
from ndual.rules import registry

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]
DISPATCHED = type(np.sum)

_handlers: dict[int, Handler] = {}
_known: dict[int, Any] = {}  # what is watched, which keeps it alive: its id is its name here
_chosen: ContextVar[dict[int, Handler]] = ContextVar("ndual_chosen", default={})  # noqa: B039 (never changed in place)


def define(function: Any, handler: Handler, who: str) -> None:
    """Have calls of a function with active arguments handled, wherever they come from."""
    watch(function, who)
    _handlers[id(function)] = handler


def choose(handlers: dict[int, Handler]) -> Any:
    """Have calls handled in this context, until the token that is returned is given to :func:`restore`."""
    return _chosen.set({**_chosen.get(), **handlers})


def restore(token: Any) -> None:
    """Undo :func:`choose`."""
    _chosen.reset(token)


def watch(function: Any, who: str) -> None:
    """Have calls of a function asked for here."""
    if id(function) in _known:
        return
    owner = getattr(function, "__self__", None)
    bound = owner is not None and not isinstance(owner, types.ModuleType)
    if bound or isinstance(function, type) or not callable(function):
        raise ArgumentTypeError(
            f"{who} expects a function that modules have by name; got {type(function).__name__} {function!r}. "
            "Wrap what you call in a function"
        )
    if isinstance(function, np.ufunc) and short_cut(function) is not None:
        raise ArgumentTypeError(
            f"{who} expects a function without a rule in the table; got {function!r}, which is elementwise and has "
            "one. Call it in a function of your own, and give that the rule"
        )
    former = dispatch.rule_of(function)
    handed = isinstance(function, np.ufunc) or type(function) is DISPATCHED  # over by NumPy's protocols

    def ruled(*args: Any, **kwargs: Any) -> Any:
        handler = _handler(function)
        if handler is not None:
            return handler(args, kwargs)
        if isinstance(former, registry.Rule):
            return forward.apply(former, function, args, kwargs)
        if former is not None:
            return former(*args, **kwargs)
        return dispatch.without_rule(function, args, kwargs) if handed else function(*args, **kwargs)

    dispatch.set_rule(function, ruled)
    if not handed:
        room.define(function, called)
    _known[id(function)] = function


def called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of such a function while a derivative is taken."""
    handler = _handler(function)
    return function(*args, **kwargs) if handler is None else handler(args, kwargs)


def _handler(function: Any) -> Handler | None:
    return _chosen.get().get(id(function)) or _handlers.get(id(function))
