"""Prepared objects: one function and the kind of its arguments, checked and laid out once, called many times.

The work of a call is done by the run of a plan; here are the signatures, the copies and what ``repr`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ndual._core._dual import Pull, Push
from ndual.api import passes_of
from ndual.checks import Argnums, check_argnums, check_forward, check_function, check_mode
from ndual.chunk import check_chunk_size
from ndual.errors import ArgumentTypeError, ArgumentValueError, CacheMismatchError, NdualError
from ndual.outputs import Outputs
from ndual.plan import Plan
from ndual.structure import Leaf, Tree, rebuild
from ndual.tangents import leaf_count
from ndual.wrt import Reach

__all__ = ["prepare_derivative", "prepare_gradient", "prepare_jacobian"]


@dataclass(frozen=True)
class Recipe:
    """How a prepared object was asked for: the function that makes it, and what that was given beside examples."""

    make: Callable[..., Any]
    f: Callable[..., Any]
    options: dict[str, Any]


class Prepared:
    """What the prepared objects share. One call at a time: use :meth:`clone` for other threads."""

    what = ""
    inner = ""  # the mode of the gradient that a Hessian is the derivative of
    pairs = False  # whether a call takes (primals, directions), and not the arguments of f

    def __init__(self, plan: Plan, recipe: Recipe) -> None:
        self._recipe = recipe
        self._progress = recipe.options.get("progress", False)

        self._plan = plan
        # The example arguments served their turn; keeping them would keep their memory. What is no array may stay.
        self._constants = plan.constants()
        plan.values = []
        plan.keep_tapes()

    def clone(self) -> Self:
        """The same, with buffers of its own."""
        other = type(self)(self._plan.clone(), self._recipe)
        other.inner = self.inner
        other._constants = self._constants
        return other

    def examples(self) -> tuple[Any, ...]:
        """Arguments like those that this was made for."""
        plan = self._plan
        return examples(plan.trees, plan.leaves, plan.count, self._constants)

    def __reduce__(self) -> Any:
        plan = self._plan
        shape = plan.trees, plan.leaves, plan.count, self._constants
        return _made_again, (self._recipe.make, self._recipe.f, self._recipe.options, *shape)

    def __repr__(self) -> str:
        run, f = self._plan.run, self._recipe.f
        name = getattr(f, "__qualname__", None) or repr(f)
        inside = f", gradient {self.inner}" if self.inner else ""
        if self._plan.reverse:
            return f"<prepared {self.what} of {name}: mode reverse, passes 1, tape {run.nbytes} bytes>"
        return (
            f"<prepared {self.what} of {name}: mode forward{inside}, chunk {run.width}, "
            f"passes {run.passes}, "
            f"{run.nbytes} bytes>"
        )


def _made_again(
    make: Callable[..., Any], f: Callable[..., Any], options: dict[str, Any], trees: dict[int, Tree],
    leaves: Sequence[Leaf], count: int, constants: dict[int, Any],
) -> Any:  # fmt: skip
    """A prepared object from what is left of another one, in another process perhaps."""
    return make(f, *examples(trees, leaves, count, constants), **options)


def examples(trees: dict[int, Tree], leaves: Sequence[Leaf], count: int, constants: dict[int, Any]) -> tuple[Any, ...]:
    """Arguments of a shape."""
    args: list[Any] = []
    k = 0
    for i in range(count):
        if i in trees:
            n = leaf_count(trees[i])
            args.append(rebuild(trees[i], [leaf.example() for leaf in leaves[k : k + n]]))
        else:
            n = 1
            args.append(constants[k] if k in constants else leaves[k].example())
        k += n
    return tuple(args)


class Renewing(Prepared):
    """A prepared object that prepares itself again for arguments unlike the ones that it knows."""

    def __call__(self, *args: Any) -> Any:
        """A call as that of the class beside this one."""
        call: Any = super().__call__  # type: ignore[misc]
        try:
            return call(*args)
        except (CacheMismatchError, ArgumentValueError):
            primals = tuple(args[0]) if self.pairs else args
            if self._plan.fits(primals):
                raise
        if self._plan.run.busy:
            raise NdualError(
                "expected one call at a time of a prepared object; got one while another was running. "
                "Give each thread, and each recursion, its own .clone()"
            )
        other = self._recipe.make(self._recipe.f, *primals, **self._recipe.options)
        self._plan, self._constants, self.inner = other._plan, other._constants, other.inner
        renew = getattr(self, "renew", None)
        if renew is not None:
            renew(other._plan)
        return call(*args)


_renewing: dict[Any, Any] = {}


def renewing(kind: Any) -> Any:
    """A class of prepared objects that prepare themselves again."""
    if kind not in _renewing:
        _renewing[kind] = type(kind.__name__, (Renewing, kind), {"__doc__": kind.__doc__})
    return _renewing[kind]


def prepared(kind: type[Any], plan: Plan, make: Callable[..., Any], f: Any, options: dict[str, Any]) -> Any:
    """A prepared object of a kind; `options` are those that it was asked for with."""
    chosen: Any = renewing(kind) if options.get("reprepare") else kind
    return chosen(plan, Recipe(make, f, options))


class PreparedDerivative(Prepared, Push):
    """``prepared(primals, tangents)`` returns ``(value, tangent)``; see :func:`prepare_derivative`."""

    what = "derivative"
    pairs = True


class PreparedGradient(Prepared, Pull):
    """``prepared(*args)`` returns ``(value, gradient)``; see :func:`prepare_gradient`."""

    what = "gradient"

    def swept(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """A call of passes, or of structured arguments."""
        plan = self._plan
        bar: Callable[[int], Iterable[int]] = passes_of(self._progress, self.what) if self._progress else range
        return plan.gradient(args if plan.flat else plan.flatten(args), bar)


class PreparedJacobian(Prepared):
    """``prepared(*args)`` returns ``(value, jacobian)``; see :func:`prepare_jacobian`."""

    what = "jacobian"

    def __call__(self, *args: Any) -> tuple[Any, Any]:
        plan = self._plan
        bar: Callable[[int], Iterable[int]] = passes_of(self._progress, self.what) if self._progress else range
        return plan.jacobian(args if plan.flat else plan.flatten(args), bar)


class Reaching:
    """A prepared object with ``wrt=``: its calls take what that names as it is at the time."""

    def __init__(self, inner: Any, reach: Reach, make: Any) -> None:
        self._inner, self._reach, self._make = inner, reach, make

    def __call__(self, *args: Any) -> Any:
        """A call as that of the prepared object inside, with the arguments of f."""
        if self._inner.pairs:
            return self._inner(self._reach.primals(args[0]), *args[1:])
        return self._inner(*self._reach.values(), *args)

    def clone(self) -> Reaching:
        """The same, with buffers of its own."""
        return Reaching(self._inner.clone(), self._reach, self._make)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __reduce__(self) -> Any:
        make, f, wrt, options = self._make
        # What is loaded reaches its own copies, so that only names can be found again.
        if not isinstance(wrt, str | list | tuple):
            raise ArgumentTypeError(
                f"expected a path as wrt in a prepared object that is pickled; got a {type(wrt).__name__}. "
                'Write wrt="model.layers[0]"'
            )
        return _reaching_again, (make, f, wrt, options, self._inner.examples()[self._reach.count :])


def _reaching_again(
    make: Callable[..., Any], f: Callable[..., Any], wrt: Any, options: dict[str, Any], examples: tuple[Any, ...]
) -> Any:
    return reaching(make, f, wrt, examples, options)


def reaching(
    make: Callable[..., Any], f: Callable[..., Any], wrt: Any, args: Sequence[Any], options: dict[str, Any]
) -> Any:
    """A prepared object that differentiates with respect to what a function reaches."""
    reach = Reach(make.__name__, f, wrt, options["argnums"])
    several = options["argnums"] is None and not isinstance(reach.argnums, tuple)
    chosen = (reach.argnums,) if several else reach.argnums
    inner = make(reach.call, *reach.primals(args), **(options | {"argnums": chosen}))
    return Reaching(inner, reach, (make, f, wrt, options))


def plan_of(
    f: Callable[..., Any], args: tuple[Any, ...], argnums: Any, mode: str, outputs: Outputs, chunk_size: Any = None,
    jvp: bool = False, copy: bool = True,
) -> Plan:  # fmt: skip
    """The plan of a prepared object."""
    operator = f"prepare_{outputs.operator}"
    check_function(f, operator)
    if jvp:
        check_forward(mode, operator)
    else:
        check_mode(mode)
    if not args:
        raise ArgumentValueError(f"{operator} expects example arguments after the function; got none")
    chosen: Argnums = tuple(range(len(args))) if argnums is None else check_argnums(argnums)
    return Plan(
        f,
        args,
        chosen,
        outputs,
        chunk_size=check_chunk_size(chunk_size),
        jvp=jvp,
        keep=not copy,
        mode="forward" if jvp else mode,
        again=True,
    )


def prepare_derivative(
    f: Callable[..., Any], *example_args: Any, argnums: int | Sequence[int] | None = None, has_aux: bool = False,
    mode: str = "auto", reprepare: bool = False, wrt: Any = None,
) -> PreparedDerivative:  # fmt: skip
    """Prepare directional derivatives of `f` for arguments like the given ones.

    Parameters
    ----------
    f : callable
        Any function of numbers, arrays and containers of them.
    *example_args
        Arguments of the types, dtypes and shapes that the calls will have; their values do not matter.
    argnums : int or tuple of int, optional
        The arguments that have tangents; all of them unless said otherwise.
    has_aux : bool
        `f` returns ``(output, aux)``; calls return `aux` as a third entry.
    mode : {"auto", "forward"}
        How; a directional derivative is always taken forward.
    reprepare : bool
        A call with arguments of another shape, dtype or structure prepares again, and does not raise.
    wrt : optional
        As in :func:`jvp`.

    Returns
    -------
    callable
        ``prepared(primals, tangents)`` returns ``(value, tangent)``: `primals` are all arguments of `f`, `tangents` one
        for each differentiated argument, both as tuples. The tangent has the structure, shapes and dtypes of the
        output.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`jvp`; no example arguments are given.
    CacheMismatchError
        Of a call: an argument has another shape, dtype or structure than the example.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x = np.array([1.0, 2.0])
    >>> push = ndual.prepare_derivative(lambda x: np.sum(x * x), x)
    >>> value, tangent = push((x,), (np.array([0.0, 1.0]),))
    >>> float(value), float(tangent)
    (5.0, 4.0)
    """
    options = {"argnums": argnums, "has_aux": has_aux, "mode": mode, "reprepare": reprepare}
    if wrt is not None:
        whole: PreparedDerivative = reaching(prepare_derivative, f, wrt, example_args, options)
        return whole
    plan = plan_of(f, example_args, argnums, mode, Outputs("derivative", has_aux), jvp=True)
    found: PreparedDerivative = prepared(PreparedDerivative, plan, prepare_derivative, f, options)
    return found


def prepare_gradient(
    f: Callable[..., Any], *example_args: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    mode: str = "auto", chunk_size: int | None = None, holomorphic: bool = False, copy: bool = True,
    progress: bool = False, reprepare: bool = False, wrt: Any = None,
) -> PreparedGradient:  # fmt: skip
    """Prepare value and gradient of a scalar function for arguments like the given ones.

    Parameters
    ----------
    f : callable
        Returns one real number. It may branch, loop and write into arrays.
    *example_args
        Arguments of the types, dtypes and shapes that the calls will have; their values do not matter.
    argnums, has_aux, mode, chunk_size, holomorphic, progress
        As in :func:`value_and_grad`.
    copy : bool
        False returns views of the memory that the object owns: the next call overwrites them.
    reprepare : bool
        A call with arguments of another shape, dtype or structure prepares again, and does not raise.
    wrt : optional
        As in :func:`grad`; a call takes it as it is then.

    Returns
    -------
    callable
        ``prepared(*args)`` returns ``(value, gradient)``, the gradient with the structure, shapes and dtypes of the
        differentiated arguments. Its ``repr`` says mode, chunk, passes and bytes. One call at a time: ``clone()`` makes
        another for another thread. It can be pickled if `f` can: what is loaded has been prepared again.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`value_and_grad`; no example arguments are given.
    CacheMismatchError
        Of a call: an argument has another shape, dtype or structure than the example.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x = np.array([1.0, 2.0])
    >>> prepared = ndual.prepare_gradient(lambda x: np.sum(x ** 2), x)
    >>> value, gradient = prepared(x)
    >>> float(value), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    options = {
        "argnums": argnums, "has_aux": has_aux, "mode": mode, "chunk_size": chunk_size, "holomorphic": holomorphic,
        "copy": copy, "progress": progress, "reprepare": reprepare,
    }  # fmt: skip
    if wrt is not None:
        whole: PreparedGradient = reaching(prepare_gradient, f, wrt, example_args, options)
        return whole
    outputs = Outputs("gradient", has_aux, True, holomorphic)
    plan = plan_of(f, example_args, argnums, mode, outputs, chunk_size, copy=copy)
    found: PreparedGradient = prepared(PreparedGradient, plan, prepare_gradient, f, options)
    return found


def prepare_jacobian(
    f: Callable[..., Any], *example_args: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    mode: str = "auto", chunk_size: int | None = None, holomorphic: bool = False, copy: bool = True,
    progress: bool = False, reprepare: bool = False, wrt: Any = None,
) -> PreparedJacobian:  # fmt: skip
    """Prepare value and Jacobian of a function for arguments like the given ones.

    Parameters
    ----------
    f : callable
        Returns numbers, arrays, or structures of them.
    *example_args
        Arguments of the types, dtypes and shapes that the calls will have; their values do not matter.
    argnums, has_aux, mode, chunk_size, holomorphic, copy, progress, reprepare, wrt
        As in :func:`prepare_gradient`.

    Returns
    -------
    callable
        ``prepared(*args)`` returns ``(value, jacobian)``, arrays of shape ``(*output.shape, *argument.shape)`` as those
        of :func:`jacobian`.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`jacobian`; no example arguments are given.
    CacheMismatchError
        Of a call: an argument has another shape, dtype or structure than the example.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> x = np.array([1.0, 2.0])
    >>> prepared = ndual.prepare_jacobian(lambda x: x ** 2, x)
    >>> value, jacobian = prepared(x)
    >>> value.tolist(), jacobian.tolist()
    ([1.0, 4.0], [[2.0, 0.0], [0.0, 4.0]])
    """
    options = {
        "argnums": argnums, "has_aux": has_aux, "mode": mode, "chunk_size": chunk_size, "holomorphic": holomorphic,
        "copy": copy, "progress": progress, "reprepare": reprepare,
    }  # fmt: skip
    if wrt is not None:
        whole: PreparedJacobian = reaching(prepare_jacobian, f, wrt, example_args, options)
        return whole
    outputs = Outputs("jacobian", has_aux, False, holomorphic)
    plan = plan_of(f, example_args, argnums, mode, outputs, chunk_size, copy=copy)
    plan.refuse_complex()
    found: PreparedJacobian = prepared(PreparedJacobian, plan, prepare_jacobian, f, options)
    return found
