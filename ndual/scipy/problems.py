"""Objectives, residuals, systems of equations and constraints: functions of one vector of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.checks import check_mode
from ndual.chunk import check_chunk_size
from ndual.errors import ArgumentValueError
from ndual.scipy.engines import Memo
from ndual.scipy.parameters import Parameters
from ndual.scipy.vectors import as_args, as_vector, check_callable, fresh
from ndual.second import hessian, hvp

__all__ = ["Problem", "problem"]


class Problem:
    """A function of a vector with its derivatives; made by :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> p = ndual.scipy.problem(lambda x: x**2)
    >>> value, jac = p.fun_and_jac(np.array([1.0, 2.0]))
    >>> value.tolist(), jac.tolist()
    ([1.0, 4.0], [[2.0, 0.0], [0.0, 4.0]])
    """

    def __init__(self, f: Callable[..., Any], args: Any, x0: Any, chunk_size: int | None, mode: str) -> None:
        check_callable(f, "ndual.scipy.problem")
        check_mode(mode)
        chunk_size = check_chunk_size(chunk_size)
        self._made = f, args, x0, chunk_size, mode
        self._f = f
        self._args = as_args(args)
        self._parameters = None if x0 is None else Parameters(x0)
        self._call = f if self._parameters is None else _of_vector(f, self._parameters.restore)
        self._memo = Memo(self._call, 0, chunk_size, mode, gradient=True)
        self._number = _number(self._call)
        self._hessian = hessian(self._number, chunk_size=chunk_size)
        self._weighted = hessian(_weighted(self._call), chunk_size=chunk_size)

    def __reduce__(self) -> Any:
        return type(self), self._made

    def fun(self, x: Any, *args: Any) -> Any:
        """The value at x: a float, or a float64 array of its own."""
        return self._memo.value(as_vector(x), args or self._args)

    def jac(self, x: Any, *args: Any) -> np.ndarray:
        """The derivative at x: the gradient ``(n,)`` of one number, the Jacobian ``(m, n)`` of several."""
        return self._memo.derivative(as_vector(x), args or self._args)

    def jac_transposed(self, x: Any, *args: Any) -> np.ndarray:
        """The Jacobian as ``(n, m)``, for solvers with ``col_deriv=True``."""
        return np.ascontiguousarray(self.jac(x, *args).T)

    def fun_and_jac(self, x: Any, *args: Any) -> tuple[Any, np.ndarray]:
        """Both, for solvers that take ``jac=True``."""
        return self._memo.both(as_vector(x), args or self._args)

    def hess(self, x: Any, *args: Any) -> np.ndarray:
        """The Hessian ``(n, n)`` of a scalar f."""
        found: np.ndarray = fresh(self._hessian(as_vector(x), *(args or self._args)))
        return found

    def hessp(self, x: Any, p: Any, *args: Any) -> np.ndarray:
        """The Hessian of a scalar f times the vector p, without the Hessian."""
        given = args or self._args
        x = as_vector(x)
        found: np.ndarray = fresh(hvp(self._number, (x, *given), (as_vector(p), *[None] * len(given)))[2])
        return found

    def weighted_hess(self, x: Any, v: Any, *args: Any) -> np.ndarray:
        """The sum of the Hessians ``(n, n)`` of all outputs of f, each times its entry of v."""
        found: np.ndarray = fresh(self._weighted(as_vector(x), as_vector(v), *(args or self._args)))
        return found

    def nonlinear_constraint(self, lb: Any, ub: Any, keep_feasible: Any = False) -> Any:
        """The constraint ``lb <= f(x) <= ub`` with Jacobian and Hessian.

        Parameters
        ----------
        lb, ub : float or array_like
            The bounds; equal ones are an equation, infinite ones are none.
        keep_feasible : bool or array_like of bool
            Whether the solver is to stay within them on its way.

        Returns
        -------
        scipy.optimize.NonlinearConstraint

        Examples
        --------
        >>> import numpy as np, ndual.scipy
        >>> from scipy.optimize import minimize
        >>> p = ndual.scipy.problem(lambda x: x[0] + x[1])
        >>> disc = ndual.scipy.problem(lambda x: x @ x).nonlinear_constraint(-np.inf, 2.0)
        >>> minimize(p.fun, [1.0, 0.0], jac=p.jac, method="SLSQP", constraints=[disc]).x.round(4).tolist()
        [-1.0, -1.0]
        """
        from scipy.optimize import NonlinearConstraint

        return NonlinearConstraint(self.fun, lb, ub, jac=self.jac, hess=self.weighted_hess, keep_feasible=keep_feasible)

    def constraint(self, type: str = "ineq") -> dict[str, Any]:  # noqa: A002 (SciPy's own name)
        """The constraint ``f(x) >= 0`` or ``f(x) == 0`` as a dictionary, for SLSQP, COBYLA and trust-constr.

        Parameters
        ----------
        type : {"ineq", "eq"}
            Which of the two.

        Returns
        -------
        dict
            With ``type``, ``fun`` and ``jac``.

        Examples
        --------
        >>> import numpy as np, ndual.scipy
        >>> from scipy.optimize import minimize
        >>> p = ndual.scipy.problem(lambda x: x @ x)
        >>> line = ndual.scipy.problem(lambda x: x[0] + x[1] - 2.0).constraint("eq")
        >>> minimize(p.fun, [2.0, 0.0], jac=p.jac, method="SLSQP", constraints=line).x.round(6).tolist()
        [1.0, 1.0]
        """
        if type not in ("ineq", "eq"):
            raise ArgumentValueError(f'type expects "ineq" (f(x) >= 0) or "eq" (f(x) == 0); got {type!r}')
        return {"type": type, "fun": self.fun, "jac": self.jac}

    @property
    def x0(self) -> np.ndarray:
        """The start that the problem was given, as a vector of its own."""
        return self._layout().start

    def restore(self, x: Any) -> Any:
        """A vector of SciPy's, such as ``result.x``, as parameters in the structure of `x0`.

        Examples
        --------
        >>> import numpy as np, ndual.scipy
        >>> p = ndual.scipy.problem(lambda p: p["a"] + p["b"].sum(), x0={"a": 1.0, "b": np.zeros(2)})
        >>> p.x0.tolist(), p.restore(np.array([3.0, 4.0, 5.0]))
        ([1.0, 0.0, 0.0], {'a': 3.0, 'b': array([4., 5.])})
        """
        return self._layout().restore(as_vector(x).copy())

    def flatten(self, parameters: Any) -> np.ndarray:
        """Parameters in the structure of `x0` as a vector: another start, or bounds.

        Examples
        --------
        >>> import ndual.scipy
        >>> p = ndual.scipy.problem(lambda p: p["a"] * p["b"], x0={"a": 1.0, "b": 2.0})
        >>> p.flatten({"a": 0.0, "b": 5.0}).tolist()
        [0.0, 5.0]
        """
        return self._layout().flatten(parameters)

    def _layout(self) -> Parameters:
        if self._parameters is None:
            raise ArgumentValueError(
                "expected a problem that knows its start; got one without. Write problem(f, x0=...) with parameters "
                "like those that f takes"
            )
        return self._parameters

    def __repr__(self) -> str:
        return f"<ndual.scipy problem of {getattr(self._f, '__qualname__', self._f)!s}>"


def _of_vector(f: Callable[..., Any], restore: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, *args: f(restore(x), *args)


def _number(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its one number out of the array that SciPy lets it come in."""

    def number(x: Any, *args: Any) -> Any:
        out = call(x, *args)
        return out[0] if np.shape(out) == (1,) else out

    return number


def _weighted(call: Callable[..., Any]) -> Callable[..., Any]:
    def weighted(x: Any, v: Any, *args: Any) -> Any:
        out = call(x, *args)
        if isinstance(out, list | tuple):
            out = np.stack(out)
        return np.sum(v * np.reshape(out, (-1,)))

    return weighted


def problem(
    f: Callable[..., Any], args: Any = (), *, x0: Any = None, chunk_size: int | None = None, mode: str = "auto"
) -> Problem:
    """Give `f` to a SciPy solver together with its exact derivatives.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` of a vector: a scalar objective for ``minimize``, residuals for ``least_squares``, equations for
        ``root``, a constraint.
    args : tuple
        Further arguments, constants; those that SciPy passes take their place. What is no tuple is one argument.
    x0 : optional
        The start, where `f` takes something else than a vector: a number, an array of any shape, or a tuple, list or
        dict of them, nested or not. `f` then gets parameters of that structure, in float64. Floats are parameters and
        anything else stays as it is; integers are refused, as they could be either. A list of nothing but numbers is
        taken as an array, as SciPy does.
    chunk_size : int, optional
        The most directions of one forward pass.
    mode : {"auto", "forward", "reverse"}
        How the derivative is taken, as in :func:`ndual.grad`.

    Returns
    -------
    Problem
        With ``fun(x)``, ``jac(x)``, ``fun_and_jac(x)``, ``hess(x)`` and ``hessp(x, p)`` for a vector `x` of shape
        ``(n,)``. A derivative has shape ``(n,)`` where `f` returns one number, as a number or in an array of shape
        ``(1,)``, and ``(m, n)`` where it returns ``(m,)``.
        ``constraint`` and ``nonlinear_constraint`` make constraints of `f`, and with `x0` there are ``x0`` as a vector,
        ``restore(x)`` and ``flatten(parameters)``. Results are always fresh float64 arrays in C order. The work that
        one of ``fun`` and ``jac`` did is kept for the other, in each thread by itself.

    Raises
    ------
    ArgumentTypeError
        `f` is no function, or `x0` holds integers beside floats or no float at all; of a call: it returns complex
        numbers.
    ArgumentValueError
        `mode` or `chunk_size` has no meaning here; of a call: `x` has not as many entries as `x0`.
    UnsupportedDtype
        Of a call: `x` is complex or does not fit float64.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> from scipy.optimize import minimize
    >>> p = ndual.scipy.problem(lambda x: np.sum((x - 3.0) ** 2))
    >>> minimize(p.fun, np.zeros(2), jac=p.jac).x.round(6).tolist()
    [3.0, 3.0]
    """
    return Problem(f, args, x0, chunk_size, mode)
