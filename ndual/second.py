"""Second derivatives: Hessians and their products with vectors, as derivatives of gradients.

The outer derivative is always forward: it carries as many columns of the Hessian as a pass has lanes. The gradient
inside is either one reverse sweep, whose values and cotangents are duals of the outer derivative, or forward again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ndual.api import _value_and_grad, checked, jvp
from ndual.checks import Argnums, check_function, check_mode, places
from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.outputs import Outputs
from ndual.plan import Plan
from ndual.prepare import Prepared, prepared, reaching
from ndual.wrt import Reach

__all__ = ["hessian", "hvp", "prepare_hessian"]

FEW_INPUTS = 1
"""Up to so many directions the gradient inside is taken forward. From two on reverse was the faster one by every
measurement: of Rosenbrock in slices 74 us to 298 at 2 and 78 to 348 at 16, of the same in a loop 181 to 358 and 5108 to
10657; of a product with one vector 209 to 476 and 217 to 480."""


def _inner(mode: str, few: int, args: Sequence[Any], argnums: Argnums) -> str:
    """The mode of the gradient inside of a second derivative."""
    if mode != "auto":
        return mode
    count = 0
    for i in places(argnums, len(args)):
        if type(args[i]) is np.ndarray:
            count += args[i].size
        elif type(args[i]) in (float, np.float64):
            count += 1
        else:
            return "reverse" if Plan(len, tuple(args), argnums, Outputs("hessian")).run.dof > few else "forward"
    return "reverse" if count > few else "forward"


def _gradient(f: Callable[..., Any], argnums: Any, has_aux: bool, mode: str, chunk_size: Any) -> Callable[..., Any]:
    """(gradient, value) of `f`, the value being (value, aux) where there is aux."""
    evaluate = _value_and_grad(f, argnums, has_aux, mode, chunk_size, False, False, "hessian")

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, found = evaluate(*args, **kwargs)
        return found, value

    return gradient


def hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, mode: str = "auto", chunk_size: int | None = None,
    has_aux: bool = False, wrt: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the Hessian of a scalar function.

    Parameters
    ----------
    f : callable
        Returns one real number. It may branch, loop and write into arrays.
    argnums : int or tuple of int
        The positions of the arguments to differentiate, which hold real floats.
    mode : {"auto", "forward", "reverse"}
        How the gradient is taken that the columns of the Hessian are derivatives of: in a reverse sweep, or forward.
        Automatic is forward for one input, and else in reverse.
    chunk_size : int, optional
        The most directions of one pass, on both sides where both are forward; the default depends on the size of the
        arguments.
    has_aux : bool
        `f` returns ``(output, aux)``; the result is then ``(hessian, aux)``.
    wrt : optional
        As in :func:`grad`.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``x.shape + x.shape``; for several arguments and for
        containers, the structure of the gradient with that of the arguments in each place.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`value_and_grad`, and for complex arguments.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> ndual.hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0])).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    """
    if wrt is not None:
        reach = Reach("hessian", f, wrt, argnums)
        return reach.before(hessian(reach.call, reach.argnums, mode=mode, chunk_size=chunk_size, has_aux=has_aux))
    chosen, chunk_size = checked(f, argnums, mode, chunk_size, "hessian")
    gradients: dict[str, Callable[..., Any]] = {}
    outputs = Outputs("hessian", has_aux)

    def gradient(inner: str) -> Callable[..., Any]:
        both = _gradient(f, chosen, has_aux, inner, chunk_size)
        if has_aux:
            return functools.wraps(f)(lambda *args, **kwargs: _with_aux(*both(*args, **kwargs)))
        return functools.wraps(f)(lambda *args, **kwargs: both(*args, **kwargs)[0])

    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        inner = _inner(mode, FEW_INPUTS, args, chosen)
        if inner not in gradients:
            gradients[inner] = gradient(inner)
        plan = Plan(gradients[inner], args, chosen, outputs, kwargs=kwargs, chunk_size=chunk_size)
        plan.refuse_complex()
        value, found = plan.jacobian(plan.values)
        return (found, value[1]) if has_aux else found

    return evaluate


def gradient_inside(
    f: Callable[..., Any], argnums: Argnums, mode: str, args: Sequence[Any]
) -> tuple[str, Callable[..., Any]]:
    """The mode of the gradient that a second derivative is the derivative of, and (gradient, value) as a function."""
    inner = _inner(check_mode(mode), FEW_INPUTS, args, argnums)
    return inner, _gradient(f, argnums, False, inner, None)


def _with_aux(gradient: Any, value: tuple[Any, Any]) -> tuple[Any, Any]:
    return gradient, value[1]


def hvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, mode: str = "auto", wrt: Any = None
) -> tuple[Any, Any, Any]:
    """Value, gradient and the product of the Hessian with a vector, without forming the Hessian.

    Parameters
    ----------
    f : callable
        Returns one real number.
    primals : tuple
        The arguments of `f`.
    tangents : tuple
        The vector: one entry for each argument and of its shape; None for an argument that stays constant.
    mode : {"auto", "forward", "reverse"}
        As in :func:`hessian`.
    wrt : optional
        As in :func:`grad`. The tangents are then those of what it names, one entry for each.

    Returns
    -------
    value, gradient, product
        Gradient and product have the structure, shapes and dtypes of the argument that has a tangent; where several
        have one, they are tuples with an entry for each of these.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype, NoRuleError, DerivativeLostError
        As :func:`jvp` and :func:`grad`.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 10.0])
    >>> value, gradient, product = ndual.hvp(lambda x: np.sum(x ** 3), (x,), (v,))
    >>> float(value), gradient.tolist(), product.tolist()
    (9.0, [3.0, 12.0], [6.0, 120.0])
    """
    check_function(f, "hvp")
    if wrt is not None:
        reach = Reach("hvp", f, wrt)
        return hvp(reach.call, reach.primals(primals), (*tangents, *[None] * len(primals)), mode=mode)
    for name, entries in (("primals", primals), ("tangents", tangents)):
        if not isinstance(entries, tuple | list):
            raise ArgumentTypeError(
                f"hvp expects {name} as a tuple, one entry for each argument; got {type(entries).__name__}. "
                f"Write hvp(f, (x,), (v,))"
            )
    chosen = tuple(i for i, tangent in enumerate(tangents) if tangent is not None)
    if not chosen:
        raise ArgumentValueError("hvp expects a tangent for at least one argument; got none. Call grad(f) itself")
    argnums = chosen[0] if len(chosen) == 1 else chosen
    _, gradient = gradient_inside(f, argnums, mode, primals)
    (found, value), (product, _) = jvp(gradient, primals, tangents)
    return value, found, product


class PreparedHessian(Prepared):
    """``prepared(*args)`` returns ``(value, gradient, hessian)``; see :func:`prepare_hessian`."""

    what = "hessian"

    def __call__(self, *args: Any) -> tuple[Any, Any, Any]:
        plan = self._plan
        bar: Callable[[int], Iterable[int]] = range
        (gradient, value), (found, _) = plan.jacobian(args if plan.flat else plan.flatten(args), bar)
        return value, gradient, found


def prepare_hessian(
    f: Callable[..., Any], *example_args: Any, argnums: int | Sequence[int] = 0, mode: str = "auto",
    chunk_size: int | None = None, reprepare: bool = False, wrt: Any = None,
) -> PreparedHessian:  # fmt: skip
    """Prepare value, gradient and Hessian of a scalar function for arguments like the given ones.

    Parameters
    ----------
    f : callable
        Returns one real number. It may branch, loop and write into arrays.
    *example_args
        Arguments of the types, dtypes and shapes that the calls will have; their values do not matter.
    argnums, mode, chunk_size
        As in :func:`hessian`.
    reprepare, wrt
        As in :func:`prepare_gradient`.

    Returns
    -------
    callable
        ``prepared(*args)`` returns ``(value, gradient, hessian)``, all from the passes of one sweep. One call at a
        time: ``clone()`` makes another for another thread.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`hessian`; no example arguments are given.
    CacheMismatchError
        Of a call: an argument has another shape, dtype or structure than the example.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x = np.array([3.0, 5.0])
    >>> prepared = ndual.prepare_hessian(lambda x: x[0] ** 2 * x[1], x)
    >>> value, gradient, hessian = prepared(x)
    >>> float(value), gradient.tolist(), hessian.tolist()
    (45.0, [30.0, 9.0], [[10.0, 6.0], [6.0, 0.0]])
    """
    options = {"argnums": argnums, "mode": mode, "chunk_size": chunk_size, "reprepare": reprepare}
    if wrt is not None:
        whole: PreparedHessian = reaching(prepare_hessian, f, wrt, example_args, options)
        return whole
    chosen, chunk_size = checked(f, argnums, mode, chunk_size, "prepare_hessian")
    if not example_args:
        raise ArgumentValueError("prepare_hessian expects example arguments after the function; got none")
    inner = _inner(mode, FEW_INPUTS, example_args, chosen)
    gradient = _gradient(f, chosen, False, inner, chunk_size)
    plan = Plan(gradient, example_args, chosen, Outputs("hessian"), chunk_size=chunk_size, again=True)
    plan.refuse_complex()
    found: PreparedHessian = prepared(PreparedHessian, plan, prepare_hessian, f, options)
    found.inner = inner
    return found
