"""scipy.integrate: its functions of samples, as compositions in SciPy's order of operations, and quad by its bounds."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, structured
from ndual.rules.support import one_axis, refuse


def _cut(axis: int, start: Any, stop: Any, step: Any = None) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(start, stop, step))


def _spacing(xp: Any, y: Any, x: Any, axis: int) -> Any:
    """The differences of the coordinates, shaped like differences of y."""
    if xp.ndim(x) != 1:
        return xp.diff(x, axis=axis)
    return xp.reshape(xp.diff(x), tuple(-1 if i == axis else 1 for i in range(xp.ndim(y))))


@composition("scipy.integrate.cumulative_trapezoid")
def cumulative_trapezoid(xp: Any, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """The running sum of spacing times the mean of neighbours."""
    axis = one_axis(axis, xp.ndim(y))
    d = dx if x is None else _spacing(xp, y, x, axis)
    out = xp.cumsum(d * (y[_cut(axis, 1, None)] + y[_cut(axis, None, -1)]) / 2.0, axis)
    if initial is None:
        return out
    shape = xp.shape(out)
    return xp.concatenate((xp.full((*shape[:axis], 1, *shape[axis + 1 :]), float(initial)), out), axis)


def _parabolas(xp: Any, y: Any, stop: int, h: Any, dx: Any, axis: int) -> Any:
    """Simpson's rule over pairs of intervals."""
    y0, y1, y2 = (y[_cut(axis, k, stop + k, 2)] for k in range(3))
    if h is None:
        return xp.sum(y0 + 4.0 * y1 + y2, axis) * (dx / 3.0)
    h0, h1 = h[_cut(axis, 0, stop, 2)], h[_cut(axis, 1, stop + 1, 2)]
    total, ratio = h0 + h1, h0 / h1
    weighted = y0 * (2.0 - 1.0 / ratio) + y1 * (total * (total / (h0 * h1))) + y2 * (2.0 - ratio)
    return xp.sum(total / 6.0 * weighted, axis)


@composition("scipy.integrate.simpson")
def simpson(xp: Any, y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Parabolas over pairs of intervals; an odd last interval by Cartwright's correction."""
    axis = one_axis(axis, xp.ndim(y))
    n = xp.shape(y)[axis]
    h = None if x is None else _spacing(xp, y, x, axis)
    if n % 2:
        return _parabolas(xp, y, n - 2, h, dx, axis)

    def at(a: Any, k: int) -> Any:
        return a[(slice(None),) * axis + (k,)]

    if n == 2:
        return 0.5 * (dx if h is None else at(h, -1)) * (at(y, -1) + at(y, -2))
    h0, h1 = (dx, dx) if h is None else (at(h, -2), at(h, -1))
    alpha = (2 * h1**2 + 3 * h0 * h1) / (6 * (h1 + h0))
    beta = (h1**2 + 3.0 * h0 * h1) / (6 * h0)
    eta = h1**3 / (6 * h0 * (h0 + h1))
    return _parabolas(xp, y, n - 3, h, dx, axis) + (alpha * at(y, -1) + beta * at(y, -2) - eta * at(y, -3))


def _at_bounds(x: tuple[Any, Any], func: Any, args: Any, weight: Any) -> tuple[Any, Any]:
    """The integrand at both ends; at infinity it is zero, or there would be no integral."""
    if weight is not None:
        raise refuse("scipy.integrate.quad", "weight=", "Multiply the integrand by it.")
    args = args if isinstance(args, tuple) else (args,)
    low, high = (func(float(end), *args) if abs(end) < float("inf") else 0.0 for end in x)
    return -low, high


def _quad_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, Any], func: Any, args: Any, weight: Any, **_: Any
) -> tuple[Any, Any]:
    low, high = _at_bounds(x, func, args, weight)
    return w[0] * low, w[0] * high


@structured(
    "scipy.integrate.quad", "(func) a b", _quad_vjp, args=(), full_output=0, epsabs=1.49e-8, epsrel=1.49e-8, limit=50,
    points=None, weight=None, wvar=None, wopts=None, maxp1=50, limlst=50, complex_func=False,
)  # fmt: skip
def quad(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], func: Any, args: Any, weight: Any, **_: Any) -> Any:
    """The integrand at an end, times what the end moves. By what the integrand holds there is no rule."""
    ends = zip(_at_bounds(x, func, args, weight), dx, strict=True)
    moved = [value * t for value, t in ends if t is not None]
    return (sum(moved[1:], moved[0]), *(None,) * (len(y) - 1))
