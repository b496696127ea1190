"""check_gradient: a user's own function against differences, in the operators that users call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndual.api import jvp
from ndual.errors import ArgumentTypeError
from ndual.jacobians import jacobian
from ndual.testing.inputs import is_float, leaves, replace_leaves
from ndual.testing.reference import directional


def check_gradient(
    f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] | None = None, rtol: float = 1e-6,
    directions: int = 3, step: float = 1e-2, seed: int = 0,
) -> None:  # fmt: skip
    """Compare the derivatives of `f` at `args` with extrapolated differences; an AssertionError shows both.

    Parameters
    ----------
    f : callable
        The function; it is called several times and must not depend on anything but its arguments.
    *args : any
        Where to differentiate.
    argnums : int or sequence of int, optional
        The arguments to differentiate; the default are all that hold a float.
    rtol : float
        Error allowed, relative to the largest entry of the output and of the derivative.
    directions : int
        How many random directions to compare along.
    step : float
        The first step of the differences, which are taken along directions of unit-sized entries.
    seed : int
        Of the directions.

    Raises
    ------
    AssertionError
        Derivative and differences disagree.
    ArgumentTypeError
        No argument holds a float.

    Examples
    --------
    >>> import numpy as np
    >>> from ndual.testing import check_gradient
    >>> check_gradient(lambda x: np.sum(np.exp(-x * x)), np.linspace(-1, 1, 5))
    """
    if argnums is None:
        chosen = tuple(i for i, arg in enumerate(args) if any(map(is_float, leaves(arg))))
    else:
        chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not chosen:
        raise ArgumentTypeError("check_gradient expects an argument that holds a float; got none")
    rng = np.random.default_rng(seed)
    for k in range(directions):
        tangents = tuple(_direction(rng, arg) if i in chosen else None for i, arg in enumerate(args))

        def along(t: float, tangents: tuple[Any, ...] = tangents) -> list[Any]:
            moved = (arg if d is None else _moved(arg, d, t) for arg, d in zip(args, tangents, strict=True))
            return [np.asarray(v) * 1.0 for v in leaves(f(*moved))]

        want, error = directional(along, step)
        value, tangent = jvp(f, _copies(args), tangents)
        allowed = max(rtol, 10 * error)
        for n, (got, expected, at) in enumerate(zip(leaves(tangent), want, leaves(value), strict=True)):
            if not is_float(at):
                continue
            size = max(_size(expected), _size(at), 1e-300)
            if got is None or not np.all(np.abs(got - expected) <= allowed * size):
                raise AssertionError(
                    f"output {n}, direction {k}: expected the derivative {expected!r} by differences (relative error "
                    f"{error:.1e}); got {got!r}"
                )
    _agree(f, args, chosen, tangents, tangent, rtol)


def _agree(f: Any, args: Any, chosen: tuple[int, ...], tangents: Any, tangent: Any, rtol: float) -> None:
    """The Jacobian times the last direction is the directional derivative."""
    simple = all(isinstance(args[i], np.ndarray | float) and np.asarray(args[i]).dtype.kind == "f" for i in chosen)
    if not simple or not isinstance(tangent, np.ndarray | np.generic | float):
        return
    parts = jacobian(f, argnums=chosen)(*_copies(args))
    got: Any = sum(np.tensordot(part, tangents[i], np.ndim(tangents[i])) for part, i in zip(parts, chosen, strict=True))
    if not np.all(np.abs(got - tangent) <= 1e-3 * rtol * max(_size(tangent), 1e-300) + 1e-12 * _size(parts[0])):
        raise AssertionError(f"expected the Jacobian times a direction to be {tangent!r}; got {got!r}")


def _direction(rng: np.random.Generator, arg: Any) -> Any:
    def draw(leaf: Any) -> Any:
        if not is_float(leaf):
            return None
        dtype = np.asarray(leaf).dtype
        t = rng.uniform(-1.0, 1.0, np.shape(leaf))
        if dtype.kind == "c":
            t = t + 1j * rng.uniform(-1.0, 1.0, np.shape(leaf))
        return np.asarray(t).astype(dtype)[()]

    return replace_leaves(arg, draw)


def _moved(arg: Any, direction: Any, t: float) -> Any:
    steps = iter(leaves(direction))

    def move(leaf: Any) -> Any:
        d = next(steps)
        return _copy(leaf) if d is None else leaf + t * d

    return replace_leaves(arg, move)


def _copies(args: Any) -> Any:
    return replace_leaves(args, _copy)


def _copy(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _size(a: Any) -> float:
    return float(np.max(np.abs(a), initial=0.0))
