"""SciPy's interpolants: evaluated at duals, by their own derivatives, or made of dual values, in which they are linear.

A spline of dual values is two splines over the same knots, of the values and of their lanes side by side.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual._core._dual import Site
from ndual.errors import NoRuleError

Handler = Callable[..., Any]


def _refuse(name: str, what: str, instead: str) -> NoRuleError:
    return NoRuleError(
        f"scipy.interpolate.{name}: expected no duals in {what}; got some{_core.user_location()}. {instead}"
    )


def _moved(slope: Any, t: Any) -> Any:
    """Lanes of the points times slopes, which may be of several curves."""
    return t.reshape(t.shape + (1,) * (np.ndim(slope) + 1 - t.ndim)) * slope


def _curve(original: Handler) -> Handler:
    """The evaluation of a curve that knows its derivatives as ``self(x, nu)``."""

    def __call__(self: Any, x: Any, nu: int = 0, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        active = _core.activity(x)
        if active < 2:
            return original(self, _core.constants(x) if active else x, nu, *args, **kwargs)
        if getattr(self, "axis", 0):
            raise _refuse(type(self).__name__, "the points of a curve with axis=", "Put the axis of the knots first")
        x = _core.build(x) if isinstance(x, list | tuple) else x
        value, lanes = _core.split(x)
        slope = self(value, nu + 1, *args, **kwargs)
        return _core.wrap(self(value, nu, *args, **kwargs), _moved(slope, lanes), _core.level_of(x))

    return __call__


def _points(xi: Any) -> Any:
    """The points of a grid as one array, its coordinates last."""
    if isinstance(xi, list | tuple) and len(xi) and any(np.ndim(part) for part in xi):
        return np.stack(np.broadcast_arrays(*xi), -1)
    return _core.build(xi) if isinstance(xi, list | tuple) else xi


def _grid(original: Handler) -> Handler:
    def __call__(self: Any, xi: Any, method: Any = None, *, nu: Any = None) -> Any:  # noqa: N807
        active = _core.activity(xi)
        if active < 2:
            return original(self, _core.constants(xi) if active else xi, method, nu=nu)
        chosen = self.method if method is None else method
        if nu is not None or chosen not in ("linear", "slinear", "cubic", "quintic", "pchip"):
            raise _refuse("RegularGridInterpolator", f"the points with method={chosen!r}", 'Take method="linear"')
        xi = _points(xi)
        value, lanes = _core.split(xi)
        smooth = "slinear" if chosen == "linear" else chosen
        total: Any = 0.0
        for k in range(value.shape[-1]):
            order = [int(i == k) for i in range(value.shape[-1])]
            total = total + _moved(original(self, value, smooth, nu=order), lanes[..., k].reshape(len(lanes), -1))
        found = original(self, value, method)
        return _core.wrap(found, total.reshape(len(lanes), *found.shape), _core.level_of(xi))

    return __call__


EVALUATED: dict[str, Handler] = {
    "PPoly": _curve, "BSpline": _curve, "UnivariateSpline": _curve, "RegularGridInterpolator": _grid,
}  # fmt: skip
_calls: dict[str, Handler] = {}


def evaluated(name: str, *args: Any, **kwargs: Any) -> Any:
    """A call of an interpolant while calls are intercepted."""
    return _calls[name](*args, **kwargs)


def sites() -> list[Site]:
    """Where duals are let into the evaluation of interpolants, if SciPy has them loaded.

    The code of a method is exchanged, not the method: another attribute of a class would empty Python's caches of the
    class and of all below it, which takes 20 times as long.
    """
    library = sys.modules.get("scipy.interpolate")
    found = []
    for name, make in EVALUATED.items():
        kind = getattr(library, name, None)
        method = None if kind is None else next(vars(c)["__call__"] for c in kind.__mro__ if "__call__" in vars(c))
        if type(method) is types.FunctionType and method.__closure__ is None:
            original = types.FunctionType(method.__code__, method.__globals__, "__call__", method.__defaults__)
            original.__kwdefaults__ = method.__kwdefaults__
            _calls[name] = make(original)
            source = (
                "def __call__(*args, **kwargs):\n    from ndual.frontend import interpolants\n"
                f"    return interpolants.evaluated({name!r}, *args, **kwargs)\n"
            )
            scope: dict[str, Any] = {}
            exec(compile(source, __file__, "exec"), scope)
            found.append(Site(method, "__code__", method.__code__, scope["__call__"].__code__))
    return found


class Curve:
    """An interpolant of dual values: that of the values, and that of the lanes, which come last."""

    def __init__(self, value: Any, lanes: Any, level: Any) -> None:
        self._value, self._lanes, self._level = value, lanes, level

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The values at some points."""
        points = _core.primal(x) if _core.activity(x) == 2 else _core.constants(x)
        tangent = np.moveaxis(self._lanes(points, *args, **kwargs), -1, 0)
        out = _core.wrap(self._value(points, *args, **kwargs), np.array(tangent), self._level)
        if _core.activity(x) == 2:
            moving = _grid if hasattr(self._value, "grid") else _curve
            moved = moving(lambda curve, *given, **named: curve(*given, **named))(self._value, x, *args, **kwargs)
            out = out + (moved - _core.primal(moved))
        return out

    def derivative(self, nu: int = 1) -> Curve:
        """The curve of a derivative."""
        return Curve(self._value.derivative(nu), self._lanes.derivative(nu), self._level)

    def antiderivative(self, nu: int = 1) -> Curve:
        """The curve of an antiderivative."""
        return Curve(self._value.antiderivative(nu), self._lanes.antiderivative(nu), self._level)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral between two points."""
        whole = self.antiderivative()
        return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)


def _still(bc_type: Any, width: int) -> Any:
    """The same conditions at the ends for the lanes: what is prescribed there does not move."""
    if _core.activity(bc_type) == 2:
        raise _refuse("CubicSpline", "bc_type", "Prescribe numbers")
    if isinstance(bc_type, list | tuple) and not isinstance(bc_type[0], str):
        return tuple((order, np.zeros((*np.shape(value), width))) for order, value in bc_type)
    return bc_type


def spline(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """CubicSpline or make_interp_spline of dual values."""
    x, y, *rest = args
    if _core.activity((x, rest, kwargs)) == 2:
        raise _refuse(original.__name__, "the knots", "Interpolate over fixed knots")
    x, rest, kwargs = _core.constants((x, rest, kwargs))
    if _core.activity(y) < 2:
        return original(x, _core.constants(y), *rest, **kwargs)
    y = _core.build(y) if isinstance(y, list | tuple) else y
    value, lanes = _core.split(y)
    still = dict(kwargs)
    if "bc_type" in still:
        still["bc_type"] = _still(still["bc_type"], len(lanes))
    made = original(x, value, *rest, **kwargs), original(x, np.moveaxis(lanes, 0, -1), *rest, **still)
    return Curve(*made, _core.level_of(y))


def grid(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """RegularGridInterpolator of dual values."""
    points, values, *rest = args
    if _core.activity((points, rest, kwargs)) == 2:
        raise _refuse("RegularGridInterpolator", "the grid", "Interpolate over a fixed grid")
    points, rest, kwargs = _core.constants((points, rest, kwargs))
    if _core.activity(values) < 2:
        return original(points, _core.constants(values), *rest, **kwargs)
    value, lanes = _core.split(values)
    method = kwargs.get("method", rest[0] if rest else "linear")
    if method == "pchip" or (
        kwargs.get("fill_value", np.nan) not in (None, 0.0) and not kwargs.get("bounds_error", True)
    ):
        raise _refuse("RegularGridInterpolator", f"values with method={method!r} and fill_value=", "Leave those out")
    moving = original(points, np.moveaxis(lanes, 0, -1), *rest, **kwargs)
    return Curve(original(points, value, *rest, **kwargs), moving, _core.level_of(values))


TYPES = {"scipy.interpolate.CubicSpline": spline, "scipy.interpolate.RegularGridInterpolator": grid}
FUNCTIONS = {"scipy.interpolate.make_interp_spline": spline}
