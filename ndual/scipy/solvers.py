"""SciPy's solvers over structures: parameters go in and come back as the function takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.errors import ArgumentValueError
from ndual.scipy.problems import Problem, problem

__all__ = ["least_squares", "minimize", "root"]

# What the methods of SciPy's minimize do with derivatives; others take none.
GRADIENTS = "cg bfgs l-bfgs-b tnc slsqp newton-cg dogleg trust-ncg trust-krylov trust-exact trust-constr"
WITH_GRADIENT = frozenset(GRADIENTS.split())
WITH_PRODUCT = frozenset({"newton-cg", "trust-ncg", "trust-krylov"})
WITH_HESSIAN = frozenset({"dogleg", "trust-exact", "trust-constr"})
WITH_JACOBIAN = frozenset({"hybr", "lm"})


def minimize(
    f: Callable[..., Any], x0: Any, args: Any = (), *, method: str | None = None, bounds: Any = None,
    mode: str = "auto", chunk_size: int | None = None, **options: Any,
) -> Any:  # fmt: skip
    """``scipy.optimize.minimize`` with exact derivatives, over parameters of any structure.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns one real number.
    x0 : number, array, or tuple, list, dict or object of them
        The start. `f` gets parameters of its structure, in float64.
    args : tuple
        Further arguments, constants.
    method : str, optional
        As SciPy's. Gradients, Hessians and products with them go to the methods that take them.
    bounds : optional
        A pair of lower and upper bounds, each in the structure of `x0`; for a vector as SciPy's.
    mode, chunk_size
        As in :func:`ndual.grad`.
    **options
        SciPy's own: ``tol``, ``constraints``, ``callback``, ``options``. What they take and give is vectors.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x`` in the structure of `x0`; ``vector`` is the solution as SciPy has it, as are the other entries.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> def f(p):
    ...     return (p["a"] - 1.0) ** 2 + np.sum((p["b"] - p["a"]) ** 2)
    >>> found = ndual.scipy.minimize(f, {"a": 0.0, "b": np.zeros(2)})
    >>> round(found.x["a"], 4), found.x["b"].round(4).tolist()
    (1.0, [1.0, 1.0])
    """
    from scipy.optimize import Bounds
    from scipy.optimize import minimize as solve

    p = problem(f, args, x0=x0, chunk_size=chunk_size, mode=mode)
    name = "bfgs" if method is None else str(method).lower()
    if name in WITH_GRADIENT and "jac" not in options:
        options["jac"] = p.jac
    if name in WITH_HESSIAN and "hess" not in options:
        options["hess"] = p.hess
    if name in WITH_PRODUCT and not {"hess", "hessp"} & set(options):
        options["hessp"] = p.hessp
    if bounds is not None:
        pair = _bounds(p, x0, bounds)
        bounds = bounds if pair is None else Bounds(*pair)
    return _restored(p, solve(p.fun, p.x0, method=method, bounds=bounds, **options))


def least_squares(
    f: Callable[..., Any], x0: Any, args: Any = (), *, bounds: Any = None, mode: str = "auto",
    chunk_size: int | None = None, **options: Any,
) -> Any:  # fmt: skip
    """``scipy.optimize.least_squares`` with the exact Jacobian, over parameters of any structure.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a vector of residuals.
    x0, args, bounds, mode, chunk_size
        As in :func:`minimize`.
    **options
        SciPy's own: ``method``, ``loss``, ``ftol`` and so on.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x`` in the structure of `x0`; ``vector`` is the solution as SciPy has it, as are the other entries.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> t = np.array([0.0, 1.0, 2.0])
    >>> found = ndual.scipy.least_squares(lambda p: p["a"] + p["b"] * t - 3.0 * t, {"a": 1.0, "b": 1.0})
    >>> round(found.x["b"], 4)
    3.0
    """
    from scipy.optimize import least_squares as solve

    p = problem(f, args, x0=x0, chunk_size=chunk_size, mode=mode)
    if bounds is not None:
        pair = _bounds(p, x0, bounds)
        options["bounds"] = bounds if pair is None else pair
    return _restored(p, solve(p.fun, p.x0, jac=p.jac, **options))


def root(
    f: Callable[..., Any], x0: Any, args: Any = (), *, method: str = "hybr", mode: str = "auto",
    chunk_size: int | None = None, **options: Any,
) -> Any:  # fmt: skip
    """``scipy.optimize.root`` with the exact Jacobian, over unknowns of any structure.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a vector of as many numbers as there are unknowns.
    x0, args, mode, chunk_size
        As in :func:`minimize`.
    method : str
        As SciPy's. The Jacobian goes to those that take it.
    **options
        SciPy's own: ``tol``, ``callback``, ``options``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x`` in the structure of `x0`; ``vector`` is the solution as SciPy has it, as are the other entries.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> def f(p):
    ...     return np.stack([p["a"] * p["b"] - 6.0, p["a"] - p["b"] - 1.0])
    >>> found = ndual.scipy.root(f, {"a": 2.0, "b": 1.0})
    >>> round(found.x["a"], 6), round(found.x["b"], 6)
    (3.0, 2.0)
    """
    from scipy.optimize import root as solve

    p = problem(f, args, x0=x0, chunk_size=chunk_size, mode=mode)
    if method.lower() in WITH_JACOBIAN:
        options["jac"] = p.jac
    return _restored(p, solve(p.fun, p.x0, method=method, **options))


def _bounds(p: Problem, x0: Any, bounds: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Lower and upper bounds as vectors; None for those that SciPy takes as they are."""
    if isinstance(x0, np.ndarray | list) and np.ndim(x0) == 1:
        return None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ArgumentValueError(
            f"bounds: expected a pair of lower and upper bounds in the structure of x0; got {type(bounds).__name__}"
        )
    lower, upper = bounds
    return p.flatten(lower), p.flatten(upper)


def _restored(p: Problem, result: Any) -> Any:
    result.vector = result.x
    result.x = p.restore(result.x)
    return result
