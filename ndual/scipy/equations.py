"""Right-hand sides of differential equations: initial values (``solve_ivp``, ``odeint``) and boundary values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.checks import check_mode
from ndual.chunk import check_chunk_size
from ndual.scipy.engines import Engine
from ndual.scipy.vectors import as_args, as_state, check_callable, fresh, fresh_jacobian, refuse_dual

__all__ = ["BoundaryValue", "Ode", "bvp", "ode"]

KINDS = "fiubc"


class _Blocks:
    """The Jacobians of one function in its first `count` arguments, real or complex.

    Equations with complex states are holomorphic for SciPy, and so they are here.
    """

    def __init__(self, call: Callable[..., Any], count: int, chunk_size: int | None, mode: str) -> None:
        places = 0 if count == 1 else tuple(range(count))
        self._engines = [Engine(call, places, chunk_size, mode, holomorphic) for holomorphic in (False, True)]

    def __call__(self, args: tuple[Any, ...], sizes: tuple[int, ...]) -> list[np.ndarray]:
        value, jac = self._engines[args[0].dtype.kind == "c"](args)
        if len(sizes) == 1:
            return [fresh_jacobian(jac, value, sizes[0], KINDS)]
        parts: list[Any] = [None] * len(sizes)
        if isinstance(value, list | tuple):
            # One entry for each equation: equations outside, arguments inside.
            parts = [[None if row is None else row[k] for row in jac] for k in range(len(sizes))]
        elif jac is not None:
            parts = list(jac)
        return [fresh_jacobian(part, value, n, KINDS) for part, n in zip(parts, sizes, strict=True)]


class Ode:
    """The right-hand side of ``y' = f(t, y)`` with its Jacobian; made by :func:`ode`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> o = ndual.scipy.ode(lambda t, y: np.stack([y[1], -t * y[0]]))
    >>> o.jac(2.0, np.array([1.0, 0.0])).tolist()
    [[0.0, 1.0], [-2.0, 0.0]]
    """

    def __init__(self, f: Callable[..., Any], args: Any, tfirst: bool, chunk_size: int | None, mode: str) -> None:
        check_callable(f, "ndual.scipy.ode")
        check_mode(mode)
        self._made = f, args, tfirst, chunk_size, mode
        self._f = f
        self._args = as_args(args)
        self._place = 1 if tfirst else 0
        self._call: Callable[..., Any] = (lambda y, t, *args: f(t, y, *args)) if tfirst else f
        self._blocks = _Blocks(self._call, 1, check_chunk_size(chunk_size), mode)

    def __reduce__(self) -> Any:
        return type(self), self._made

    def _given(self, first: Any, second: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        t, y = (first, second) if self._place else (second, first)
        refuse_dual(t, "t")
        return (as_state(y), float(t), *(args or self._args))

    def fun(self, t: Any, y: Any, *args: Any) -> np.ndarray:
        """The right-hand side, an array of its own; with ``tfirst=False`` it takes ``(y, t)``, and so does ``jac``."""
        y, *rest = self._given(t, y, args)
        found: np.ndarray = fresh(self._call(y.copy(), *rest), KINDS)
        return found

    def jac(self, t: Any, y: Any, *args: Any) -> np.ndarray:
        """The Jacobian ``(n, n)`` in y, a C-contiguous array of its own."""
        given = self._given(t, y, args)
        return self._blocks(given, (given[0].size,))[0]

    def jac_transposed(self, t: Any, y: Any, *args: Any) -> np.ndarray:
        """The transposed Jacobian, for ``odeint`` with ``col_deriv=True``."""
        return np.ascontiguousarray(self.jac(t, y, *args).T)

    def __repr__(self) -> str:
        return f"<ndual.scipy ode of {getattr(self._f, '__qualname__', self._f)!s}>"


def ode(
    f: Callable[..., Any], args: Any = (), *, tfirst: bool = True, chunk_size: int | None = None, mode: str = "auto"
) -> Ode:
    """Give the right-hand side `f` to ``solve_ivp`` or ``odeint`` together with its exact Jacobian.

    Parameters
    ----------
    f : callable
        ``f(t, y, *args)``; ``f(y, t, *args)`` with ``tfirst=False``, the default order of ``odeint``. It returns an
        array or a list of numbers.
    args : tuple
        Further arguments, constants; those that SciPy passes take their place. What is no tuple is one argument.
    tfirst : bool
        Whether t comes first, in `f` and in what is handed out.
    chunk_size, mode
        As in :func:`problem`.

    Returns
    -------
    Ode
        With ``fun(t, y)``, ``jac(t, y)`` of shape ``(n, n)`` and ``jac_transposed(t, y)``. A complex y has a complex
        Jacobian, for which `f` must be holomorphic, as SciPy requires it.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> from scipy.integrate import solve_ivp
    >>> o = ndual.scipy.ode(lambda t, y: -50.0 * (y - np.cos(t)))
    >>> found = solve_ivp(o.fun, (0.0, 1.5), [0.0], method="BDF", jac=o.jac, rtol=1e-6, atol=1e-9)
    >>> found.y[0, -1].round(4).tolist()
    0.0907
    """
    return Ode(f, args, tfirst, chunk_size, mode)


class BoundaryValue:
    """A boundary value problem with its Jacobians; made by :func:`bvp`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> b = ndual.scipy.bvp(lambda x, y: np.stack([y[1], -(y[0] ** 2)]), lambda ya, yb: np.stack([ya[0], yb[0]]))
    >>> b.fun_jac(np.array([0.0, 1.0]), np.array([[2.0, 3.0], [0.0, 0.0]]))[1, 0].tolist()
    [-4.0, -6.0]
    >>> [j.tolist() for j in b.bc_jac(np.zeros(2), np.zeros(2))]
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]
    """

    def __init__(self, fun: Callable[..., Any], bc: Callable[..., Any], chunk_size: int | None, mode: str) -> None:
        check_callable(fun, "ndual.scipy.bvp")
        check_callable(bc, "ndual.scipy.bvp")
        check_mode(mode)
        chunk_size = check_chunk_size(chunk_size)
        self._made = fun, bc, chunk_size, mode
        self._fun, self._bc = fun, bc
        # The columns of y do not meet, so that one direction moves a component at all mesh points at once.
        self._moved = {
            1: _Blocks(lambda s, x, y: fun(x, y + s[:, None]), 1, chunk_size, mode),
            2: _Blocks(lambda s, p, x, y: fun(x, y + s[:, None], p), 2, chunk_size, mode),
        }
        self._ends = {count: _Blocks(bc, count, chunk_size, mode) for count in (2, 3)}

    def __reduce__(self) -> Any:
        return type(self), self._made

    def fun(self, x: Any, y: Any, *p: Any) -> np.ndarray:
        """The right-hand side ``(n, m)`` at the m points of the mesh, an array of its own."""
        found: np.ndarray = fresh(self._fun(np.array(x), as_state(y).copy(), *map(np.array, p)), KINDS)
        return found

    def bc(self, ya: Any, yb: Any, *p: Any) -> np.ndarray:
        """The residuals of the boundary conditions, an array of its own."""
        found: np.ndarray = fresh(self._bc(*(as_state(part).copy() for part in (ya, yb, *p))), KINDS)
        return found

    def fun_jac(self, x: Any, y: Any, *p: Any) -> Any:
        """The derivative ``(n, n, m)`` in y; with unknown parameters also that in p, ``(n, k, m)``."""
        y = as_state(y)
        n = y.shape[0]
        given = [as_state(part) for part in p]
        blocks = self._moved[1 + len(given)](
            (np.zeros(n, y.dtype), *given, as_state(x), y), (n, *(part.size for part in given))
        )
        found = [np.ascontiguousarray(block.transpose(0, 2, 1)) for block in blocks]
        return tuple(found) if given else found[0]

    def bc_jac(self, ya: Any, yb: Any, *p: Any) -> tuple[np.ndarray, ...]:
        """The derivatives in ya and yb, ``(n, n)`` each; with unknown parameters also that in p."""
        given = tuple(as_state(part) for part in (ya, yb, *p))
        return tuple(self._ends[len(given)](given, tuple(part.size for part in given)))

    def __repr__(self) -> str:
        return f"<ndual.scipy bvp of {getattr(self._fun, '__qualname__', self._fun)!s}>"


def bvp(
    fun: Callable[..., Any], bc: Callable[..., Any], *, chunk_size: int | None = None, mode: str = "auto"
) -> BoundaryValue:
    """Give a boundary value problem to ``solve_bvp`` together with its exact Jacobians.

    Parameters
    ----------
    fun : callable
        ``fun(x, y)``, or ``fun(x, y, p)`` with unknown parameters; for m points at once, as ``solve_bvp`` requires it:
        x of shape ``(m,)``, y and the result of shape ``(n, m)``, no column depending on another one.
    bc : callable
        ``bc(ya, yb)`` or ``bc(ya, yb, p)``, the residuals at both ends.
    chunk_size, mode
        As in :func:`problem`.

    Returns
    -------
    BoundaryValue
        With ``fun``, ``bc``, ``fun_jac`` and ``bc_jac`` in the signatures that ``solve_bvp`` takes.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, UnsupportedDtype
        As :func:`problem`.

    Examples
    --------
    >>> import numpy as np, ndual.scipy
    >>> from scipy.integrate import solve_bvp
    >>> def fun(x, y): return np.stack([y[1], -np.exp(y[0])])
    >>> def bc(ya, yb): return np.stack([ya[0], yb[0]])
    >>> b = ndual.scipy.bvp(fun, bc)
    >>> x = np.linspace(0.0, 1.0, 5)
    >>> found = solve_bvp(b.fun, b.bc, x, np.zeros((2, 5)), fun_jac=b.fun_jac, bc_jac=b.bc_jac)
    >>> found.sol(0.5)[0].round(4).tolist()
    0.1405
    """
    return BoundaryValue(fun, bc, chunk_size, mode)
