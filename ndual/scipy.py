"""Derivatives in the shapes that SciPy's solvers ask for.

The adapters hold no solver and know none: they hand out functions of a float64 vector. SciPy overwrites the vectors
that it passes and keeps the arrays that it gets, so what is remembered is keyed on bytes and every result is fresh.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndual.chunk import check_chunk_size
from ndual.errors import ArgumentTypeError, UnsupportedDtype
from ndual.outputs import Outputs
from ndual.plan import Plan, check_function, check_mode

__all__ = ["Curve", "Problem", "curve", "problem"]

EAGER_AFTER = 2


class _Memory(threading.local):
    """What one thread remembers between ``fun`` and ``jac``.

    Work done for one of them is kept for the other, once: a second question to the same one is computed anew, so that
    data that f reads from elsewhere may change between calls. ``fun`` starts to compute the derivative as well when it
    was asked for at the same point several times running, and stops when one was not used.
    """

    plan: Plan | None = None
    key: Any = None
    value: Any = None
    jac: Any = None
    streak: int = 0


def as_vector(x: Any) -> np.ndarray:
    """SciPy's vector as float64 in C order; it may pass float32 or int8."""
    x = np.asarray(x)
    if x.dtype.kind not in "fiub" or x.dtype.num == np.dtype(np.longdouble).num:
        raise UnsupportedDtype(f"x: expected real numbers that fit float64; got {x.dtype}. Convert them to float64")
    return np.ascontiguousarray(x, np.float64).reshape(x.shape)


def _key(x: np.ndarray, args: tuple[Any, ...]) -> Any:
    return (x.shape, x.tobytes(), *(_fingerprint(a) for a in args))


def _fingerprint(arg: Any) -> Any:
    if type(arg) is np.ndarray and arg.dtype.kind != "O":
        return arg.dtype.str, arg.shape, arg.tobytes()
    # The object is kept in the key, so that its identity cannot go to another one.
    return _Same(arg)


class _Same:
    """Equal only for the same object."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    __hash__ = None  # type: ignore[assignment]


class _Adapter:
    """The memo and the plan behind an adapter.

    `call` takes the vector in position `place` among its arguments.
    """

    def __init__(
        self, f: Callable[..., Any], call: Callable[..., Any], place: int, chunk_size: int | None, mode: str
    ) -> None:
        check_function(f, "ndual.scipy")
        check_mode(mode)
        self._f = f
        self._call = call
        self._place = place
        self._chunk_size = check_chunk_size(chunk_size)
        self._memory = _Memory()

    def _whole(self, x: np.ndarray, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*args[: self._place], x, *args[self._place :])

    def _both(self, x: np.ndarray, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Value and derivative, fresh."""
        memory = self._memory
        whole = self._whole(x, args)
        plan = memory.plan
        if plan is None or not plan.run.suits(whole):
            # A recursive call finds the remembered plan at work and makes its own.
            made = Plan(self._call, whole, self._place, Outputs("ndual.scipy"), chunk_size=self._chunk_size)
            if made.reusable and (plan is None or not plan.run.busy):
                memory.plan = made
                made.values = []
            plan = made
        value, jac = plan.jacobian(whole)
        return fresh(value), fresh(jac)

    def _fun(self, x: np.ndarray, args: tuple[Any, ...]) -> Any:
        memory = self._memory
        key = _key(x, args)
        if memory.value is not None and memory.key == key:
            value, memory.value = memory.value, None
            return value
        if memory.jac is not None:
            memory.streak = 0
        if memory.streak >= EAGER_AFTER:
            value, memory.jac = self._both(x, args)
        else:
            value, memory.jac = fresh(self._call(*self._whole(x.copy(), args))), None
        memory.key, memory.value = key, None
        return value

    def _jac(self, x: np.ndarray, args: tuple[Any, ...]) -> Any:
        memory = self._memory
        key = _key(x, args)
        same = memory.key == key
        if memory.jac is not None and same:
            jac, memory.jac = memory.jac, None
            return jac
        memory.streak = memory.streak + 1 if same else 0
        memory.value, jac = self._both(x, args)
        memory.key, memory.jac = key, None
        if same:
            memory.value = None
        return jac


def fresh(result: Any) -> Any:
    """A result as float64: a float for a number, a C-contiguous array of its own otherwise."""
    array = np.asarray(result)
    if array.dtype.kind not in "fiub":
        raise ArgumentTypeError(f"expected f to return real numbers; got {array.dtype}. Return floats")
    if array.ndim == 0:
        return float(array)
    return np.array(array, np.float64, order="C")


class Problem(_Adapter):
    """A function of a vector with its derivative; made by :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> p = ndual.scipy.Problem(lambda x: x**2, (), None, "auto")
    >>> value, jac = p.fun_and_jac(np.array([1.0, 2.0]))
    >>> value.tolist(), jac.tolist()
    ([1.0, 4.0], [[2.0, 0.0], [0.0, 4.0]])
    """

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], chunk_size: int | None, mode: str) -> None:
        super().__init__(f, f, 0, chunk_size, mode)
        self._args = tuple(args) if isinstance(args, tuple | list) else (args,)

    def _given(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args or self._args

    def fun(self, x: Any, *args: Any) -> Any:
        """The value at x: a float, or a float64 array of its own."""
        return self._fun(as_vector(x), self._given(args))

    def jac(self, x: Any, *args: Any) -> np.ndarray:
        """The derivative at x: the gradient ``(n,)`` of a scalar f, the Jacobian ``(m, n)`` of a vector one."""
        found: np.ndarray = self._jac(as_vector(x), self._given(args))
        return found

    def fun_and_jac(self, x: Any, *args: Any) -> tuple[Any, np.ndarray]:
        """Both, for solvers that take ``jac=True``."""
        return self._both(as_vector(x), self._given(args))

    def __repr__(self) -> str:
        return f"<ndual.scipy problem of {getattr(self._f, '__qualname__', self._f)!s}>"


class Curve(_Adapter):
    """A model ``f(xdata, *params)`` with its derivative in the parameters; made by :func:`curve`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> c = ndual.scipy.Curve(lambda t, a, b: a * t + b, None, "auto")
    >>> c.jac(np.array([0.0, 2.0]), 3.0, 1.0).tolist()
    [[0.0, 1.0], [2.0, 1.0]]
    """

    def __init__(self, f: Callable[..., Any], chunk_size: int | None, mode: str) -> None:
        super().__init__(f, lambda xdata, params: f(xdata, *params), 1, chunk_size, mode)

    def fun(self, xdata: Any, *params: Any) -> Any:
        """The model at the data points, a float64 array of its own."""
        return self._fun(as_vector(params), (xdata,))

    def jac(self, xdata: Any, *params: Any) -> np.ndarray:
        """The derivative ``(m, k)`` of the model in its parameters."""
        found: np.ndarray = self._jac(as_vector(params), (xdata,))
        return found

    def __repr__(self) -> str:
        return f"<ndual.scipy curve of {getattr(self._f, '__qualname__', self._f)!s}>"


def problem(
    f: Callable[..., Any], args: Sequence[Any] = (), *, chunk_size: int | None = None, mode: str = "auto"
) -> Problem:
    """Give `f` to a SciPy solver together with its exact derivative.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` of a vector: a scalar objective for ``minimize``, residuals for ``least_squares``, equations for
        ``root``.
    args : tuple
        Further arguments, constants; those that SciPy passes take their place.
    chunk_size : int, optional
        The most directions of one forward pass.
    mode : {"auto", "forward", "reverse"}
        Forward carries several directions in one pass. Reverse is not available yet.

    Returns
    -------
    Problem
        With ``fun(x)``, ``jac(x)`` and ``fun_and_jac(x)`` for a vector `x` of shape ``(n,)``. A derivative has shape
        ``(n,)`` where `f` returns a number, ``(m, n)`` where it returns ``(m,)``. Results are always fresh float64
        arrays in C order. The work that one of ``fun`` and ``jac`` did is kept for the other, in each thread by itself.

    Raises
    ------
    ArgumentTypeError
        `f` is no function; of a call: it returns complex numbers.
    ArgumentValueError
        `mode` or `chunk_size` has no meaning here.
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
    return Problem(f, args, chunk_size, mode)


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
        fresh float64 arrays in C order.

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
    >>> fitted, _ = curve_fit(c.fun, t, model(t, 2.0, -1.0), p0=(1.0, 0.0), jac=c.jac)
    >>> fitted.round(6).tolist()
    [2.0, -1.0]
    """
    return Curve(f, chunk_size, mode)
