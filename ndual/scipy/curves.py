"""Models for ``curve_fit``: functions of data and separate parameters."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ndual.checks import check_mode
from ndual.chunk import check_chunk_size
from ndual.scipy.engines import Memo
from ndual.scipy.vectors import as_vector, check_callable

__all__ = ["Curve", "curve"]


class Curve:
    """A model ``f(xdata, *params)`` with its derivative in the parameters; made by :func:`curve`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> c = ndual.scipy.curve(lambda t, a, b: a * t + b)
    >>> c.jac(np.array([0.0, 2.0]), 3.0, 1.0).tolist()
    [[0.0, 1.0], [2.0, 1.0]]
    """

    def __init__(self, f: Callable[..., Any], chunk_size: int | None, mode: str) -> None:
        check_callable(f, "ndual.scipy.curve")
        check_mode(mode)
        self._made = f, check_chunk_size(chunk_size), mode
        self._f = f
        self._memo = Memo(lambda xdata, params: f(xdata, *params), 1, chunk_size, mode)
        with contextlib.suppress(TypeError, ValueError):
            # From it curve_fit knows how many parameters there are.
            self.__signature__ = inspect.signature(f)

    def __reduce__(self) -> Any:
        return type(self), self._made

    def __call__(self, xdata: Any, *params: Any) -> Any:
        """The model at the data points, a float64 array of its own."""
        return self._memo.value(as_vector(params), (xdata,))

    @property
    def fun(self) -> Self:
        """The model as a function, with the signature of the one it was made from."""
        return self

    def jac(self, xdata: Any, *params: Any) -> np.ndarray:
        """The derivative ``(m, k)`` of the model in its parameters."""
        return self._memo.derivative(as_vector(params), (xdata,))

    def __repr__(self) -> str:
        return f"<ndual.scipy curve of {getattr(self._f, '__qualname__', self._f)!s}>"


def curve(f: Callable[..., Any], *, chunk_size: int | None = None, mode: str = "auto") -> Curve:
    """Give the model `f` to ``scipy.optimize.curve_fit`` together with its exact derivative.

    Parameters
    ----------
    f : callable
        ``f(xdata, *params)``.
    chunk_size, mode
        As in :func:`problem`.

    Returns
    -------
    Curve
        With ``fun(xdata, *params)`` of shape ``(m,)`` and ``jac(xdata, *params)`` of shape ``(m, k)`` for k parameters,
        fresh float64 arrays in C order. ``fun`` has the signature of `f`, so that ``curve_fit`` needs no `p0`.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> from scipy.optimize import curve_fit
    >>> t = np.linspace(0.0, 1.0, 20)
    >>> def model(t, a, b): return a * np.exp(b * t)
    >>> c = ndual.scipy.curve(model)
    >>> fitted, _ = curve_fit(c.fun, t, model(t, 2.0, -1.0), jac=c.jac)
    >>> fitted.round(6).tolist()
    [2.0, -1.0]
    """
    return Curve(f, chunk_size, mode)
