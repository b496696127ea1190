"""SciPy's interpolants: evaluated at duals, by their own derivatives, or made of dual values, in which they are linear.

An interpolant is linear in its values. So one of dual values is a rule of two operands: its derivative by the values is
the interpolant of their tangents, that by the points its own slope.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual._core._dual import Site
from ndual._core.nested import Formula
from ndual.errors import NoRuleError
from ndual.rules.registry import Structured

Handler = Callable[..., Any]


def _refuse(name: str, what: str, instead: str) -> NoRuleError:
    return NoRuleError(
        f"scipy.interpolate.{name}: expected no duals in {what}; got some{_core.user_location()}. {instead}"
    )


def _ruled(name: str, function: Any, jvp: Any, vjp: Any, *operands: Any) -> Any:
    """A function of some arrays with formulas that hold for it alone."""
    return forward.apply(Structured(name, (), ("x...",), jvp, vjp, {}), Formula(function), operands, {})


class _Line:
    """Curves, which know their derivatives as ``curve(x, nu)``: how they change with their points."""

    @staticmethod
    def points(x: Any, count: int) -> Any:
        """The points as one array or number."""
        return _one_array(x) if isinstance(x, list | tuple) else x

    @staticmethod
    def push(curve: Any, x: Any, dx: Any, y: Any, nu: int = 0, *args: Any, **kwargs: Any) -> Any:
        """The lanes of the values at x from those of x."""
        slope = curve(x, nu + 1, *args, **kwargs)
        return dx.reshape(dx.shape + (1,) * (np.ndim(slope) + 1 - dx.ndim)) * slope

    @staticmethod
    def pull(curve: Any, x: Any, w: Any, nu: int = 0, *args: Any, **kwargs: Any) -> Any:
        """The cotangent of x from that of the values."""
        return _over_curves(w * curve(x, nu + 1, *args, **kwargs), np.ndim(x))


class _Mesh:
    """Interpolants over a grid, which take the coordinates of a point on the last axis."""

    @staticmethod
    def points(xi: Any, count: int) -> Any:
        """The points as one array, `count` coordinates each; a tuple has an array for each coordinate."""
        if isinstance(xi, tuple) and len(xi) > 1:
            x = np.stack(np.broadcast_arrays(*xi), -1)
        else:
            x = _one_array(xi[0] if isinstance(xi, tuple) else xi)
        return x.reshape(-1, count) if x.ndim == 1 else x

    @staticmethod
    def _slopes(mesh: Any, x: Any, method: Any, nu: Any) -> list[Any]:
        chosen = mesh.method if method is None else method
        if nu is not None or chosen not in ("linear", "slinear", "cubic", "quintic", "pchip"):
            raise _refuse("RegularGridInterpolator", f"the points with method={chosen!r}", 'Take method="linear"')
        smooth = "slinear" if chosen == "linear" else chosen
        return [mesh(x, smooth, nu=order) for order in np.eye(x.shape[-1], dtype=int).tolist()]

    @staticmethod
    def push(mesh: Any, x: Any, dx: Any, y: Any, method: Any = None, *, nu: Any = None) -> Any:
        """The lanes of the values at x from those of x."""
        total: Any = 0.0
        for k, slope in enumerate(_Mesh._slopes(mesh, x, method, nu)):
            t = dx[..., k]
            total = total + t.reshape(t.shape + (1,) * (np.ndim(slope) + 1 - t.ndim)) * slope
        return total

    @staticmethod
    def pull(mesh: Any, x: Any, w: Any, method: Any = None, *, nu: Any = None) -> Any:
        """The cotangent of x from that of the values."""
        slopes = _Mesh._slopes(mesh, x, method, nu)
        return np.stack([_over_curves(w * slope, x.ndim - 1) for slope in slopes], -1)


def _one_array(obj: Any) -> Any:
    if _core.is_dual(obj):
        return obj
    return _core.build(obj) if isinstance(obj, list | tuple) and _core.activity(obj) == 2 else np.asarray(obj)


def _over_curves(products: Any, ndim: int) -> Any:
    """The sum over the axes of several curves, which come after the `ndim` axes of the points."""
    return products.sum(axis=tuple(range(ndim, np.ndim(products)))) if np.ndim(products) > ndim else products


def _at_duals(original: Handler, kind: Any) -> Handler:
    """The evaluation of an interpolant whose points may be duals."""

    def __call__(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        active = _core.activity(x)
        if active < 2:
            return original(self, _core.constants(x) if active else x, *args, **kwargs)
        if getattr(self, "axis", 0):
            raise _refuse(type(self).__name__, "the points of a curve with axis=", "Put the axis of the knots first")
        return _ruled(
            type(self).__name__,
            lambda x: self(x, *args, **kwargs),
            lambda xp, y, x, dx: kind.push(self, x[0], dx[0], y, *args, **kwargs),
            lambda xp, w, y, x: [kind.pull(self, x[0], w, *args, **kwargs)],
            kind.points(x, len(getattr(self, "grid", ()))),
        )

    return __call__


EVALUATED: dict[str, Any] = {
    "PPoly": _Line, "BSpline": _Line, "UnivariateSpline": _Line, "RegularGridInterpolator": _Mesh,
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
    for name, points in EVALUATED.items():
        kind = getattr(library, name, None)
        method = None if kind is None else next(vars(c)["__call__"] for c in kind.__mro__ if "__call__" in vars(c))
        if type(method) is types.FunctionType and method.__closure__ is None:
            original = types.FunctionType(method.__code__, method.__globals__, "__call__", method.__defaults__)
            original.__kwdefaults__ = method.__kwdefaults__
            _calls[name] = _at_duals(original, points)
            source = (
                "def __call__(*args, **kwargs):\n    from ndual.frontend import interpolants\n"
                f"    return interpolants.evaluated({name!r}, *args, **kwargs)\n"
            )
            scope: dict[str, Any] = {}
            exec(compile(source, __file__, "exec"), scope)
            found.append(Site(method, "__code__", method.__code__, scope["__call__"].__code__))
    return found


class Curve:
    """An interpolant of dual values.

    Parameters
    ----------
    make : callable
        ``make(values, still)`` gives SciPy's own over the same knots; values may have further axes, after all others.
        Where `still`, they are tangents, and what is prescribed at the ends does not move.
    y : NDualArray
        The values, which are copied, as SciPy reads them once.
    counts : tuple of int
        The number of knots along each axis, where `y` has them from axis `first` on.
    """

    points: Any = _Line

    def __init__(self, make: Callable[..., Any], y: Any, counts: tuple[int, ...], first: int = 0) -> None:
        self._make, self._y, self._counts, self._first = make, y.copy(), counts, first
        self._made: dict[bool, tuple[Any, Any]] = {}

    def _of(self, values: Any, still: bool = False) -> Any:
        """That of other values; the last one is kept, since a curve is asked for many points."""
        if _core.is_dual(values):
            return type(self)(functools.partial(self._again, still), values, self._counts, self._first)
        before, made = self._made.get(still, (None, None))
        if before is None or before.shape != values.shape or not (before == values).all():
            made = self._make(values, still)
            self._made[still] = np.array(values), made
        return made

    def _again(self, still: bool, values: Any, once_more: bool, *axis: int) -> Any:
        return self._make(values, still or once_more, *axis)

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The values at some points."""
        active = _core.activity(x)
        if active == 2 and self._first:
            raise _refuse("CubicSpline", "the points of a curve with axis=", "Put the axis of the knots first")
        x = self.points.points(x if active == 2 else _core.constants(x), len(self._counts))

        def push(xp: Any, value: Any, given: Any, tangents: Any) -> Any:
            (y, x), (dy, dx) = given, tangents
            total: Any = 0.0
            if dy is not None:
                total = np.moveaxis(self._of(np.moveaxis(dy, 0, -1), True)(x, *args, **kwargs), -1, 0)
            return total if dx is None else total + self.points.push(self._of(y), x, dx, value, *args, **kwargs)

        def pull(xp: Any, w: Any, value: Any, given: Any) -> Any:
            y, x = given
            back = self._transposed(x, w, y.shape, *args, **kwargs)
            return back, self.points.pull(self._of(y), x, w, *args, **kwargs) if active == 2 else None

        return _ruled("an interpolant", lambda y, x: self._of(y)(x, *args, **kwargs), push, pull, self._y, x)

    def _transposed(self, x: Any, w: Any, shape: tuple[int, ...], *args: Any, **kwargs: Any) -> Any:
        """The cotangent of the values, by the matrix that takes those along a curve to the points."""
        first, ndim = self._first, np.ndim(x)
        matrix = self._made_of_units()(x, *args, **kwargs).reshape(-1, shape[first])
        back = np.moveaxis(w, range(first, first + ndim), range(ndim)).reshape(matrix.shape[0], -1)
        rest = shape[:first] + shape[first + 1 :]
        return np.moveaxis((matrix.T @ back).reshape(shape[first], *rest), 0, first)

    def _made_of_units(self) -> Any:
        """The curves of all values that are one at a knot and zero at the others."""
        n = self._counts[0]
        units = np.eye(n)
        try:
            return self._make(units, True, 0)
        except ValueError:  # a periodic curve, whose first value is its last
            units[0, -1] = units[-1, 0] = units[0, 0] = units[-1, -1] = 0.5
            return self._make(units, True, 0)

    def _of_all(self, name: str, nu: int) -> Curve:
        def make(*args: Any) -> Any:
            return getattr(self._make(*args), name)(nu)

        return Curve(make, self._y, self._counts, self._first)

    def derivative(self, nu: int = 1) -> Curve:
        """The curve of a derivative."""
        return self._of_all("derivative", nu)

    def antiderivative(self, nu: int = 1) -> Curve:
        """The curve of an antiderivative."""
        return self._of_all("antiderivative", nu)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral between two points."""
        whole = self.antiderivative()
        return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)


class Mesh(Curve):
    """An interpolant of dual values over a grid: along each axis a curve, and nothing but products of these."""

    points = _Mesh

    @property
    def method(self) -> Any:
        """How it interpolates where a call does not say."""
        return self._make(np.zeros(self._counts), False).method

    def _transposed(self, x: Any, w: Any, shape: tuple[int, ...], method: Any = None, *, nu: Any = None) -> Any:
        cells = x.reshape(-1, len(self._counts))
        back = w.reshape(len(cells), 1, -1)
        for k in reversed(range(len(self._counts))):
            order = None if nu is None else [nu[k]]
            matrix = self._make(np.eye(self._counts[k]), True, k)(cells[:, k : k + 1], method, nu=order)
            if k:
                back = (matrix[:, :, None] * back.reshape(len(cells), 1, -1)).reshape(len(cells), 1, -1)
            else:
                back = matrix.T @ back.reshape(len(cells), -1)
        return back.reshape(shape)


def _bound(names: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    return dict(zip(names.split(), args, strict=False)) | kwargs


NAMES = {
    "CubicSpline": "x y axis bc_type extrapolate",
    "make_interp_spline": "x y k t bc_type axis check_finite",
    "RegularGridInterpolator": "points values method bounds_error fill_value",
}


def _still(bc_type: Any, shape: tuple[int, ...]) -> Any:
    """The same conditions at the ends for tangents: what is prescribed there does not move."""
    if isinstance(bc_type, list | tuple):
        return tuple(_still_end(end, shape) for end in bc_type)
    return bc_type


def _still_end(end: Any, shape: tuple[int, ...]) -> Any:
    if end is None or isinstance(end, str):
        return end
    if isinstance(end[0], int | np.integer):
        return end[0], np.zeros(shape)
    return [(order, np.zeros(shape)) for order, _ in end]


def spline(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """CubicSpline or make_interp_spline of dual values."""
    given = _bound(NAMES[original.__name__], args, kwargs)
    y = given.pop("y")
    if _core.activity(given) == 2:
        raise _refuse(original.__name__, "the knots or the conditions at the ends", "Interpolate over fixed knots")
    given = _core.constants(given)
    if _core.activity(y) < 2:
        return original(given.pop("x"), _core.constants(y), **given)
    y = _core.build(y) if isinstance(y, list | tuple) else y
    axis = operator.index(given.pop("axis", 0)) % y.ndim
    x = given.pop("x")

    def make(values: Any, still: bool, axis: int = axis) -> Any:
        options = dict(given)
        if still and "bc_type" in options:
            options["bc_type"] = _still(options["bc_type"], values.shape[:axis] + values.shape[axis + 1 :])
        return original(x, values, axis=axis, **options)

    made = Curve(make, y, (y.shape[axis],), axis)
    made._of(_core.bottom(y))
    return made


def grid(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """RegularGridInterpolator of dual values."""
    given = _bound(NAMES["RegularGridInterpolator"], args, kwargs)
    values = given.pop("values")
    if _core.activity(given) == 2:
        raise _refuse("RegularGridInterpolator", "the grid", "Interpolate over a fixed grid")
    given = _core.constants(given)
    if _core.activity(values) < 2:
        return original(given.pop("points"), _core.constants(values), **given)
    method = given.get("method", "linear")
    if method == "pchip" or (
        given.get("fill_value", np.nan) not in (None, 0.0) and not given.get("bounds_error", True)
    ):
        raise _refuse("RegularGridInterpolator", f"values with method={method!r} and fill_value=", "Leave those out")
    points = given.pop("points")

    def make(values: Any, still: bool, axis: int | None = None) -> Any:
        return original(points if axis is None else points[axis : axis + 1], values, **given)

    made = Mesh(make, values, values.shape[: len(points)])
    made._of(_core.bottom(values))
    return made


TYPES = {"scipy.interpolate.CubicSpline": spline, "scipy.interpolate.RegularGridInterpolator": grid}
FUNCTIONS = {"scipy.interpolate.make_interp_spline": spline}
