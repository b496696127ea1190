"""Jacobians in both modes, and derivatives of functions of one number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ndual.api import checked, passes_of
from ndual.checks import name_of
from ndual.errors import ArgumentTypeError
from ndual.frontend.intercept import cached
from ndual.outputs import Outputs, describe
from ndual.plan import Plan
from ndual.wrt import Reach

__all__ = ["derivative", "jacfwd", "jacobian", "jacrev"]


def jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, mode: str = "auto",
    chunk_size: int | None = None, holomorphic: bool = False, progress: bool = False,
    wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the Jacobian of a function of any output.

    Parameters
    ----------
    f : callable
        Returns numbers, arrays, or structures of them. It may branch, loop and write into arrays.
    argnums, has_aux, mode, chunk_size, holomorphic, progress, wrt
        As in :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``(*output.shape, *argument.shape)`` for each output
        and argument: the structure of the output outside, that of the arguments inside. Its dtype is that of the
        output; its memory order is not promised. With ``has_aux=True`` the result is ``(jacobian, aux)``.

    Notes
    -----
    In reverse mode `f` runs once, and there is a sweep for each number of the output. ``mode="auto"`` is forward for up
    to three passes. Beyond, it runs `f` in reverse mode first, which tells how many numbers it returns, and goes
    forward if there are more than four for each pass; a prepared object asks once.

    Raises
    ------
    ArgumentTypeError
        As :func:`value_and_grad`, or a complex argument without ``holomorphic=True``.
    ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`value_and_grad`.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> ndual.jacobian(lambda x: np.array([1.0, 10.0]) * x[::-1])(np.array([3.0, 4.0])).tolist()
    [[0.0, 1.0], [10.0, 0.0]]
    """
    return _jacobian(f, argnums, has_aux, mode, chunk_size, holomorphic, progress, "jacobian", wrt=wrt)


def _jacobian(
    f: Callable[..., Any], argnums: Any, has_aux: bool, mode: str, chunk_size: Any, holomorphic: bool, progress: bool,
    operator: str, scalars: bool = False, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    if wrt is not None:
        reach = Reach(operator, f, wrt, argnums)
        return reach.before(
            _jacobian(reach.call, reach.argnums, has_aux, mode, chunk_size, holomorphic, progress, operator, scalars)
        )
    chosen, chunk_size = checked(f, argnums, mode, chunk_size, operator)
    outputs = Outputs(operator, has_aux, False, holomorphic)
    key = (operator, chosen, chunk_size, has_aux, holomorphic, mode)

    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        bar = passes_of(progress, operator) if progress else range
        guard = None if kwargs else cached(f)
        known = None if guard is None else guard.plans.get(key)
        given = None if known is None else known.given(f, args)
        if known is not None and given is not None:
            value, found = known.jacobian(given, bar, f)
            return (found, value[1]) if has_aux else found
        plan = Plan(f, args, chosen, outputs, kwargs=kwargs, chunk_size=chunk_size, mode=mode)
        plan.refuse_complex()
        if scalars and not plan.scalars:
            place = plan.active[0]
            raise ArgumentTypeError(
                f"derivative expects one number as {name_of(place)}; got {describe(args[place])}. "
                "Use grad for a scalar function of many numbers, jacobian otherwise"
            )
        plan.remember(key)
        value, found = plan.jacobian(plan.values, bar)
        return (found, value[1]) if has_aux else found

    return evaluate


def jacfwd(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, holomorphic: bool = False, progress: bool = False,
    wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Jacobian in forward mode: :func:`jacobian` with ``mode="forward"``.

    Parameters
    ----------
    f, argnums, has_aux, chunk_size, holomorphic, progress, wrt
        As in :func:`jacobian`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns arrays of shape ``(*output.shape, *argument.shape)``.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`jacobian`.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> ndual.jacfwd(np.sin)(np.array([0.0])).tolist()
    [[1.0]]
    """
    return _jacobian(f, argnums, has_aux, "forward", chunk_size, holomorphic, progress, "jacfwd", wrt=wrt)


def jacrev(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, holomorphic: bool = False,
    progress: bool = False, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Jacobian in reverse mode: :func:`jacobian` with ``mode="reverse"``.

    Parameters
    ----------
    f, argnums, has_aux, holomorphic, progress, wrt
        As in :func:`jacobian`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns arrays of shape ``(*output.shape, *argument.shape)``. `f` runs once.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`jacobian`.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> ndual.jacrev(lambda x: np.stack([x @ x, x[0]]))(np.array([3.0, 4.0])).tolist()
    [[6.0, 8.0], [1.0, 0.0]]
    """
    return _jacobian(f, argnums, has_aux, "reverse", None, holomorphic, progress, "jacrev", wrt=wrt)


def derivative(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, mode: str = "auto",
    holomorphic: bool = False, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the derivative of a function of one number.

    Parameters
    ----------
    f : callable
        Takes one number in each differentiated place; returns a number, an array or a container of them.
    argnums, has_aux, mode, holomorphic, wrt
        As in :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns the derivative, with the structure, shapes and dtypes of the output;
        ``(derivative, aux)`` with ``has_aux=True``.

    Raises
    ------
    ArgumentTypeError
        A differentiated argument is more than one number.
    ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`value_and_grad`.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> float(ndual.derivative(lambda t: t * t)(3.0))
    6.0
    >>> ndual.derivative(lambda t: t * np.array([1.0, 2.0]))(0.5).tolist()
    [1.0, 2.0]
    """
    return _jacobian(f, argnums, has_aux, mode, None, holomorphic, False, "derivative", wrt=wrt, scalars=True)
