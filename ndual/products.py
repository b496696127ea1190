"""Prepared products: of a Jacobian with a cotangent, of a Hessian with a tangent, for arguments of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndual.checks import check_argnums, check_function
from ndual.errors import ArgumentValueError
from ndual.outputs import Outputs
from ndual.plan import Plan
from ndual.prepare import Prepared, PreparedDerivative, plan_of, prepared, reaching
from ndual.pullback import ABSENT, cotangents, outcome, with_floats
from ndual.second import gradient_inside
from ndual.structure import rebuild

__all__ = ["prepare_hvp", "prepare_vjp"]


class PreparedVjp(Prepared):
    """``prepared(primals, cotangent)`` returns ``(value, gradients)``; see :func:`prepare_vjp`."""

    what = "vjp"
    pairs = True

    def __call__(self, primals: Sequence[Any], cotangent: Any = ABSENT) -> tuple[Any, ...]:
        plan = self._plan
        run: Any = plan.run

        def weigh(value: Any, single: bool) -> list[Any]:
            return cotangents(*outcome(value, single), cotangent, "a prepared vjp")

        value, single, row = run.pull(plan.flatten(tuple(primals)), weigh)
        found = plan.pulled(row, plan.count)
        if self._recipe.options["argnums"] is not None:
            found = tuple([found[i] for i in plan.active])
        result = found[0] if isinstance(self._recipe.options["argnums"], int) else found
        if single:
            return value, result
        whole = rebuild(value.tree, value.values)
        return (whole, result, value.aux) if plan.outputs.has_aux else (whole, result)


class PreparedHvp(PreparedDerivative):
    """``prepared(primals, tangents)`` returns ``(value, gradient, product)``; see :func:`prepare_hvp`."""

    what = "hvp"

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any, Any]:
        (gradient, value), (product, _) = super().__call__(primals, tangents)
        return value, gradient, product


def prepare_vjp(
    f: Callable[..., Any], *example_args: Any, argnums: int | Sequence[int] | None = None, has_aux: bool = False,
    reprepare: bool = False, wrt: Any = None,
) -> PreparedVjp:  # fmt: skip
    """Prepare products of cotangents with the Jacobian, for arguments like the given ones.

    Parameters
    ----------
    f : callable
        Any function of numbers, arrays and structures of them.
    *example_args
        Arguments of the types, dtypes and shapes that the calls will have; their values do not matter.
    argnums : int or tuple of int, optional
        The arguments that get a cotangent; all of them that hold floats unless said otherwise.
    has_aux : bool
        `f` returns ``(output, aux)``; calls return `aux` as a third entry.
    reprepare : bool
        A call with arguments of another shape, dtype or structure prepares again, and does not raise.
    wrt : optional
        As in :func:`grad`.

    Returns
    -------
    callable
        ``prepared(primals, cotangent)`` returns ``(value, gradients)``: `primals` are all arguments of `f` as a tuple,
        the cotangent has the structure and shapes of the output and may be left out for one real number. `gradients`
        has an entry for each argument, None for one without floats; with `argnums`, one for each of these.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`vjp`; no example arguments are given.
    CacheMismatchError
        Of a call: an argument has another shape, dtype or structure than the example.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x = np.array([1.0, 2.0])
    >>> pull = ndual.prepare_vjp(lambda x: x ** 2, x)
    >>> value, (gradient,) = pull((x,), np.array([1.0, 10.0]))
    >>> value.tolist(), gradient.tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    options = {"argnums": argnums, "has_aux": has_aux, "reprepare": reprepare}
    if wrt is not None:
        whole: PreparedVjp = reaching(prepare_vjp, f, wrt, example_args, options)
        return whole
    check_function(f, "prepare_vjp")
    if not example_args:
        raise ArgumentValueError("prepare_vjp expects example arguments after the function; got none")
    chosen = with_floats(example_args, "prepare_vjp") if argnums is None else check_argnums(argnums)
    # One entry for each argument, wherever argnums is one number.
    places = (chosen,) if isinstance(chosen, int) else chosen
    plan = Plan(f, example_args, places, Outputs("vjp", has_aux), mode="reverse", again=True)
    found: PreparedVjp = prepared(PreparedVjp, plan, prepare_vjp, f, options)
    return found


def prepare_hvp(
    f: Callable[..., Any], *example_args: Any, argnums: int | Sequence[int] = 0, mode: str = "auto",
    reprepare: bool = False, wrt: Any = None,
) -> PreparedHvp:  # fmt: skip
    """Prepare value, gradient and products of the Hessian with vectors, for arguments like the given ones.

    Parameters
    ----------
    f : callable
        Returns one real number.
    *example_args
        Arguments of the types, dtypes and shapes that the calls will have; their values do not matter.
    argnums : int or tuple of int
        The arguments to differentiate, which hold real floats.
    mode : {"auto", "forward", "reverse"}
        How the gradient is taken, as in :func:`hessian`.
    reprepare : bool
        A call with arguments of another shape, dtype or structure prepares again, and does not raise.
    wrt : optional
        As in :func:`grad`.

    Returns
    -------
    callable
        ``prepared(primals, tangents)`` returns ``(value, gradient, product)``: `primals` are all arguments of `f`,
        `tangents` one for each differentiated argument, both as tuples.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`hvp`; no example arguments are given.
    CacheMismatchError
        Of a call: an argument has another shape, dtype or structure than the example.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x = np.array([1.0, 2.0])
    >>> product = ndual.prepare_hvp(lambda x: np.sum(x ** 3), x)
    >>> value, gradient, found = product((x,), (np.array([1.0, 10.0]),))
    >>> float(value), gradient.tolist(), found.tolist()
    (9.0, [3.0, 12.0], [6.0, 120.0])
    """
    options = {"argnums": argnums, "mode": mode, "reprepare": reprepare}
    if wrt is not None:
        whole: PreparedHvp = reaching(prepare_hvp, f, wrt, example_args, options)
        return whole
    check_function(f, "prepare_hvp")
    if not example_args:
        raise ArgumentValueError("prepare_hvp expects example arguments after the function; got none")
    chosen = check_argnums(argnums)
    inner, gradient = gradient_inside(f, chosen, mode, example_args)
    plan = plan_of(gradient, example_args, argnums, "forward", Outputs("hvp"), jvp=True)
    found: PreparedHvp = prepared(PreparedHvp, plan, prepare_hvp, f, options)
    found.inner = inner
    return found
