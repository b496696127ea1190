"""Functions of one number for ``newton`` and ``root_scalar``; of an array they are taken elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.api import jvp
from ndual.checks import check_mode
from ndual.errors import ArgumentTypeError
from ndual.scipy.vectors import as_args, as_state, check_callable, fresh, refuse_dual

__all__ = ["Scalar", "scalar"]

KINDS = "fiubc"


class Scalar:
    """A function of one number with its first and second derivative; made by :func:`scalar`.

    Examples
    --------
    >>> import ndual.scipy
    >>> s = ndual.scipy.scalar(lambda x: x**3)
    >>> s.fun(2.0), s.fprime(2.0), s.fprime2(2.0)
    (8.0, 12.0, 12.0)
    """

    def __init__(self, f: Callable[..., Any], args: Any, mode: str) -> None:
        check_callable(f, "ndual.scipy.scalar")
        check_mode(mode)
        self._made = f, args, mode
        self._f = f
        self._args = as_args(args)
        self._slope = _along(f)
        self._bend = _along(self._slope)

    def __reduce__(self) -> Any:
        return type(self), self._made

    def fun(self, x: Any, *args: Any) -> Any:
        """The value at x."""
        return fresh(self._f(_point(x), *(args or self._args)), KINDS)

    def fprime(self, x: Any, *args: Any) -> Any:
        """The derivative at x."""
        return self.fun_and_fprime(x, *args)[1]

    def fprime2(self, x: Any, *args: Any) -> Any:
        """The second derivative at x."""
        return self.fun_and_fprimes(x, *args)[2]

    def fun_and_fprime(self, x: Any, *args: Any) -> tuple[Any, Any]:
        """Value and derivative, for ``root_scalar`` with ``fprime=True``."""
        x = _point(x)
        value, slope = self._slope(x, *(args or self._args))
        return _elementwise(x, value, slope)

    def fun_and_fprimes(self, x: Any, *args: Any) -> tuple[Any, Any, Any]:
        """Value, first and second derivative, for ``root_scalar`` with ``fprime=True, fprime2=True``."""
        x = _point(x)
        (value, slope), (_, bend) = self._bend(x, *(args or self._args))
        return (*_elementwise(x, value, slope), fresh(bend, KINDS))

    def __repr__(self) -> str:
        return f"<ndual.scipy scalar of {getattr(self._f, '__qualname__', self._f)!s}>"


def _along(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function that gives (value, derivative), elementwise."""
    return lambda x, *args: jvp(f, (x, *args), (_one(x), *[None] * len(args)))


def _one(x: Any) -> Any:
    return np.ones(np.shape(x)) if np.ndim(x) else 1.0


def _point(x: Any) -> Any:
    """SciPy's x: a float or complex number, or an array of its own."""
    refuse_dual(x, "x")
    if np.ndim(x):
        return as_state(x).copy()
    return complex(x) if np.iscomplexobj(x) else float(x)


def _elementwise(x: Any, value: Any, slope: Any) -> tuple[Any, Any]:
    if np.shape(value) != np.shape(x):
        raise ArgumentTypeError(
            f"expected f to work elementwise, with a result of the shape of x, {np.shape(x)}; got {np.shape(value)}. "
            "Use ndual.scipy.problem for a function of a vector"
        )
    return fresh(value, KINDS), fresh(slope, KINDS)


def scalar(f: Callable[..., Any], args: Any = (), *, mode: str = "auto") -> Scalar:
    """Give a function of one number to ``newton`` or ``root_scalar`` together with its exact derivatives.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` of a number, real or complex. Of an array (``newton`` takes many starts at once) it must work
        elementwise, as SciPy requires it.
    args : tuple
        Further arguments, constants; those that SciPy passes take their place. What is no tuple is one argument.
    mode : {"auto", "forward"}
        How; derivatives in one number are always taken forward.

    Returns
    -------
    Scalar
        With ``fun``, ``fprime``, ``fprime2``, and with ``fun_and_fprime`` and ``fun_and_fprimes`` for
        ``root_scalar(…, fprime=True)`` and ``root_scalar(…, fprime=True, fprime2=True)``.

    Raises
    ------
    ArgumentTypeError
        `f` is no function; of a call: the result has not the shape of x.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> from scipy.optimize import newton, root_scalar
    >>> s = ndual.scipy.scalar(lambda x, a: x**2 - a)
    >>> round(float(newton(s.fun, 1.0, fprime=s.fprime, args=(2.0,))), 6)
    1.414214
    >>> round(float(root_scalar(s.fun_and_fprime, fprime=True, x0=1.0, args=(9.0,)).root), 6)
    3.0
    """
    return Scalar(f, args, mode)
