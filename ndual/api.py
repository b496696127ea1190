"""What users call: derivatives of ordinary functions of NumPy arrays.

Each operator is a few lines over a plan; checks of what the user passed are made before the user's function runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ndual.checks import Argnums, check_argnums, check_forward, check_function, check_mode
from ndual.chunk import check_chunk_size
from ndual.errors import ArgumentTypeError, ArgumentValueError, NdualError
from ndual.frontend.intercept import cached
from ndual.outputs import Outputs, lower
from ndual.plan import Plan
from ndual.wrt import Reach

__all__ = ["grad", "jvp", "stop_gradient", "value_and_grad"]


def passes_of(progress: bool, what: str) -> Callable[[int], Iterable[int]]:
    """``range``, or one that shows a bar."""
    if not progress:
        return range
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise NdualError("progress=True needs the package tqdm. Install it, or leave progress out") from error
    return lambda count: tqdm(range(count), desc=what, unit="pass")


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False,
    mode: str = "auto", wrt: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Value and directional derivative of a function, from one forward pass.

    Parameters
    ----------
    f : callable
        Any function of numbers, arrays and containers of them.
    primals : tuple
        The arguments of `f`. Floats and complex numbers are differentiated, in arrays of float16, float32, float64,
        complex64 or complex128, and in structures of them.
    tangents : tuple
        The direction, one entry for each argument and of its shape, cast to its dtype; None for an argument that stays
        constant.
    has_aux : bool
        `f` returns ``(output, aux)``; `aux` is handed back as it is.
    mode : {"auto", "forward"}
        How; a directional derivative is always taken forward. :func:`vjp` has cotangents.
    wrt : optional
        As in :func:`grad`. The tangents are then those of what it names, one entry for each.

    Returns
    -------
    value, tangent
        Both with the structure, shapes and dtypes of the output; None as the tangent of what is not float. With
        ``has_aux=True``, `aux` is a third entry.

    Raises
    ------
    ArgumentTypeError
        `primals` or `tangents` is no tuple, or an argument with a tangent holds no float.
    ArgumentValueError
        A tangent is missing, or has another shape than its argument.
    UnsupportedDtype
        An argument with a tangent has a dtype that carries no derivative.
    NoRuleError, DerivativeLostError, UndefinedDerivativeError
        `f` does what has no derivative; the message names its line.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> value, tangent = ndual.jvp(lambda x: np.sum(x * x), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    >>> float(value), float(tangent)
    (5.0, 2.0)
    """
    if mode not in ("auto", "forward"):
        check_forward(mode, "jvp")
    if wrt is not None:
        reach = Reach("jvp", f, wrt)
        constant = (None,) * len(primals)
        return jvp(reach.call, reach.primals(primals), (*tangents, *constant), has_aux=has_aux)
    guard = cached(f)
    if guard is not None and not has_aux and type(primals) is tuple and type(tangents) is tuple:
        plans: dict[Any, Plan] = guard.plans
        known = plans.get("jvp")
        if known is not None and known.layout is None and known.run.suits(primals, True, tangents):
            return known.run.run(primals, tangents, f)
        found = None if known is None or known.layout is None else known.along(f, primals, tangents)
        if found is not None:
            return found
        chosen = tuple([i for i, tangent in enumerate(tangents) if tangent is not None])
        known = plans.get(("jvp", chosen))
        if known is not None and len(primals) == len(tangents):
            found = known.along(f, primals, tuple([tangents[i] for i in chosen]))
            if found is not None:
                return found
    check_function(f, "jvp")
    for name, entries in (("primals", primals), ("tangents", tangents)):
        if not isinstance(entries, tuple | list):
            raise ArgumentTypeError(
                f"jvp expects {name} as a tuple, one entry for each argument; got {type(entries).__name__}. "
                f"Write jvp(f, (x,), (dx,))"
            )
    if len(primals) != len(tangents):
        raise ArgumentValueError(f"jvp expects a tangent for each of the {len(primals)} primals; got {len(tangents)}")
    argnums = tuple(i for i, tangent in enumerate(tangents) if tangent is not None)
    if not argnums:
        raise ArgumentValueError("jvp expects a tangent for at least one argument; got none. Call f itself")
    plan = Plan(f, tuple(primals), argnums, Outputs("jvp", has_aux), jvp=True)
    if not has_aux:
        plan.remember("jvp" if len(argnums) == len(primals) else ("jvp", argnums))
    return plan.run.run(plan.values, plan.tangents(tuple(tangents[i] for i in argnums)))


def checked(
    f: Callable[..., Any], argnums: Any, mode: str, chunk_size: Any, operator: str
) -> tuple[Argnums, int | None]:
    """What operators check before they do anything: argnums and the size of a chunk as they are used."""
    check_function(f, operator)
    check_mode(mode)
    return check_argnums(argnums), check_chunk_size(chunk_size)


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, mode: str = "auto",
    chunk_size: int | None = None, holomorphic: bool = False, progress: bool = False, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the value and the gradient of a scalar function.

    Parameters
    ----------
    f : callable
        Returns one real number. It may branch, loop and write into arrays.
    argnums : int or tuple of int
        The positions of the arguments to differentiate; a tuple gives a tuple of gradients. They hold floats or complex
        numbers: in arrays of float16, float32, float64, complex64 or complex128, and in structures of them.
    has_aux : bool
        `f` returns ``(output, aux)``; the value is then ``(output, aux)`` too.
    mode : {"auto", "forward", "reverse"}
        Forward carries several directions in one pass of `f`. Reverse runs `f` once, records what it does, and takes
        the cotangent of the output back. "auto" is reverse from 17 numbers on, where it costs less, and forward if
        `chunk_size` is given, where the record finds no room, or where a function has a rule for forward mode alone.
    chunk_size : int, optional
        The most directions of one forward pass; the default depends on the size of the arguments.
    holomorphic : bool
        `f` is a holomorphic function of complex arguments, and the result is its complex derivative.
        Otherwise the gradient for a complex argument is that for its real plus i times that for its imaginary part.
    progress : bool
        Show a bar over the passes.
    wrt : optional
        What to differentiate with respect to instead of arguments: an object, list, dict or array that `f` reaches by
        its closure, its globals, its partial or its object, or a path to it such as ``"model.layers[0].w"``, or a list
        of paths. The gradient has its structure, or is a tuple for a list; it is looked for at every call.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns ``(value, gradient)``. Gradients have the structure, shapes and dtypes of
        the arguments, with None for what is not float.

    Raises
    ------
    ArgumentTypeError
        `f` is no function, an argument to differentiate holds no float, or the output is no real number.
    ArgumentValueError
        `argnums`, `mode` or `chunk_size` has no meaning here.
    UnsupportedDtype
        An argument to differentiate has a dtype that carries no derivative.
    NoRuleError, DerivativeLostError, UndefinedDerivativeError
        `f` does what has no derivative; the message names its line.

    Warns
    -----
    ConstantOutputWarning
        The output does not depend on the arguments, though they were compared on the way.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> value, gradient = ndual.value_and_grad(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist()
    (9.0, [3.0, 12.0])
    """
    return _value_and_grad(f, argnums, has_aux, mode, chunk_size, holomorphic, progress, "value_and_grad", wrt)


def _value_and_grad(
    f: Callable[..., Any], argnums: Any, has_aux: bool, mode: str, chunk_size: Any, holomorphic: bool, progress: bool,
    operator: str, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    if wrt is not None:
        reach = Reach(operator, f, wrt, argnums)
        return reach.before(
            _value_and_grad(reach.call, reach.argnums, has_aux, mode, chunk_size, holomorphic, progress, operator)
        )
    chosen, chunk_size = checked(f, argnums, mode, chunk_size, operator)
    outputs = Outputs(operator, has_aux, True, holomorphic)
    key = (operator, chosen, chunk_size, has_aux, holomorphic, mode)

    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        bar = passes_of(progress, operator) if progress else range
        guard = None if kwargs else cached(f)
        known = None if guard is None else guard.plans.get(key)
        given = None if known is None else known.given(f, args)
        if known is not None and given is not None:
            return known.gradient(given, bar, f)
        plan = Plan(f, args, chosen, outputs, kwargs=kwargs, chunk_size=chunk_size, mode=mode)
        plan.remember(key)
        return plan.gradient(plan.values, bar)

    return evaluate


def grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, mode: str = "auto",
    chunk_size: int | None = None, holomorphic: bool = False, progress: bool = False, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the gradient of a scalar function.

    Parameters
    ----------
    f : callable
        Returns one real number. It may branch, loop and write into arrays.
    argnums, has_aux, mode, chunk_size, holomorphic, progress, wrt
        As in :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns the gradient, with the structure, shapes and dtypes of the arguments and
        None for what is not float; ``(gradient, aux)`` with ``has_aux=True``.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`value_and_grad`.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> def f(x):
    ...     y = x.copy()
    ...     y[1:] *= y[:-1]
    ...     return np.sum(y)
    >>> ndual.grad(f)(np.array([2.0, 3.0])).tolist()
    [4.0, 2.0]
    """
    evaluate = _value_and_grad(f, argnums, has_aux, mode, chunk_size, holomorphic, progress, "grad", wrt)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = evaluate(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def stop_gradient(x: Any) -> Any:
    """The value of `x` without its derivative: a constant from here on.

    Parameters
    ----------
    x : any
        A number, an array, or a structure of them: tuples, lists, dicts, objects.

    Returns
    -------
    any
        The value with its shape and dtype; containers are copied with the values of what they hold. What carries no
        derivative is returned as it is.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> ndual.grad(lambda x: x * ndual.stop_gradient(x))(3.0).item()
    3.0
    """
    return lower(x)
