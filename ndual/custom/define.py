"""Rules for functions of others, and functions without derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ndual import _core
from ndual.checks import check_function
from ndual.custom.call import Call, Opaque, apply, settled
from ndual.custom.rules import by_position, made, name_of
from ndual.frontend import defined

Function = Callable[..., Any]


def defrule(
    function: Function, *, jvp: Function | None = None, vjp: Function | None = None, augmented: Function | None = None,
    reverse: Function | None = None, overwritten: Sequence[str | int] = (),
) -> None:  # fmt: skip
    """Give a derivative to a function of somebody else, wherever it is called from.

    While a derivative is taken, calls of the function by a name in any module find the rule: ``library.f``, names taken
    by ``from library import f``, in your code and in that of other packages. Outside of derivatives nothing changes.

    Parameters
    ----------
    function : callable
        A function, compiled or not, or a ufunc without a row in the table.
    jvp, vjp, augmented, reverse, overwritten
        As in :func:`custom_rule`.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        `function` is none that can be found by name, or has a row in the table; or the rule does not fit together.

    See Also
    --------
    custom_rule : The same for a function of your own.

    Examples
    --------
    >>> import colorsys, numpy as np, ndual
    >>> ndual.defrule(colorsys.rgb_to_yiq, jvp=lambda y, p, t: (0.3 * t[0], 0.599 * t[0], 0.213 * t[0]))
    >>> ndual.grad(lambda r: colorsys.rgb_to_yiq(r, 0.5, 0.5)[0])(0.2).round(2).item()
    0.3
    """
    check_function(function, "defrule")
    rule = made(function, "defrule", jvp, vjp, augmented, reverse, overwritten)
    defined.define(function, lambda args, kwargs: apply(rule, *by_position(function, args, kwargs)), "defrule")


def nondiff(f: Function) -> Function:
    """A function whose result is a constant, whatever it is called with.

    Parameters
    ----------
    f : callable
        A function that has no derivative, or of which none is wanted. It sees values only, and may call anything.

    Returns
    -------
    callable
        With the signature of `f`.

    See Also
    --------
    stop_gradient : The same for a value.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> @ndual.nondiff
    ... def digits(x):
    ...     return len(f"{float(x):g}")
    >>> ndual.grad(lambda x: x * digits(x))(2.5).item()
    3.0
    """
    check_function(f, "nondiff")
    constant = Opaque()
    constant.name = name_of(f)

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _core.current_level() is None:
            return f(*args, **kwargs)
        given = Call(constant, args, kwargs)
        values = [_core.compared(value) if _core.is_dual(value) else value for value in given.values]
        args, kwargs = given.arguments(values), given.named(values)
        with _core.Pause(), given.unchanged(values, constant.name):
            out = f(*args, **kwargs)
        return settled(out)

    return call
