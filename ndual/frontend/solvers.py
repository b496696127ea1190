"""SciPy's integrators, which call the user's function: its duals come in through what that function closes over.

Values are those of SciPy run on plain numbers. Derivatives come from a sum over nodes (quad), or from the sensitivity
equations, integrated beside the solution by the same method. These have lanes; where there are none, or the lanes are
duals themselves, the steps of a Runge-Kutta method are taken again on duals.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ndual import _core
from ndual.errors import NoRuleError
from ndual.frontend.implicit import valued

Handler = Callable[..., Any]
NODES = 21
STEPS = 10_000  # at most, of a replay: a stiff system takes more


@lru_cache
def _gauss(count: int) -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0


class _Plain:
    """A function of the user's as SciPy may call it, remembering whether a dual came out."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function, self.args, self.active = function, args, False

    def __call__(self, *given: Any) -> Any:
        return self._value(self.function(*given, *self.args))

    def _value(self, out: Any) -> Any:
        if isinstance(out, list | tuple):
            return [self._value(part) for part in out]
        if _core.activity(out) == 2:
            self.active = True
            return _core.primal(out)
        return _core.constants(out)


def _refuse(name: str, what: str, instead: str) -> NoRuleError:
    return NoRuleError(
        f"scipy.integrate.{name}: expected none of {what} where a derivative is taken; got one"
        f"{_core.user_location()}. {instead}"
    )


def quad(
    original: Handler, func: Any, a: Any, b: Any, args: Any = (), full_output: Any = 0, *rest: Any, **options: Any
) -> Any:
    """The integral; its tangent is the sum of the integrand's over the nodes of the intervals that QUADPACK chose."""
    args = args if isinstance(args, tuple) else (args,)
    if not callable(func):
        return original(func, a, b, args, full_output, *rest, **options)
    plain = _Plain(func, args)
    low, high = float(_core.primal(a)), float(_core.primal(b))
    ends = (a, b) if low <= high else (b, a)  # QUADPACK is given ends in order, too
    found = original(plain, low, high, (), 1, *rest, **options)
    moving = _core.activity((a, b)) == 2
    result = found if full_output else found[:2]
    if len(found) > 3 and not full_output:
        warnings.warn(found[3], sys.modules["scipy.integrate"].IntegrationWarning, stacklevel=2)
    if not plain.active and not moving:
        return result
    if len(rest) > 4 or options.get("weight") is not None or options.get("complex_func"):
        raise _refuse("quad", "weight= and complex_func=", "Multiply the weight into the integrand")
    info = found[2]
    count = info["last"]
    total = 0.0
    for start, stop in zip(info["alist"][:count], info["blist"][:count], strict=True):
        total = total + _piece(func, args, ends, (min(low, high), max(low, high)), (start, stop))
    if low > high:
        total = -total
    return (_core.with_value(total, found[0]), *result[1:])


def _piece(
    func: Any, args: tuple[Any, ...], ends: tuple[Any, Any], bounds: tuple[float, float], piece: tuple[float, float]
) -> Any:
    """The integral over one interval: on an infinite range QUADPACK's are those of t in x = end ± (1 - t) / t."""
    (a, b), (low, high), (start, stop) = ends, bounds, piece
    nodes, weights = _gauss(NODES)
    t = start + (stop - start) * nodes
    total = 0.0
    for point, weight in zip(t.tolist(), (weights * (stop - start)).tolist(), strict=True):
        if np.isfinite(low) and np.isfinite(high):
            share = (point - low) / (high - low)
            value = func(a + (b - a) * share, *args) * (b - a) / (high - low)
        else:
            distance = (1.0 - point) / point
            if np.isfinite(low):
                value = func(a + distance, *args)
            elif np.isfinite(high):
                value = func(b - distance, *args)
            else:
                value = func(distance, *args) + func(-distance, *args)
            value = value / (point * point)
        total = total + weight * value
    return total


class _Sensitivity:
    """The right side of a system and of its sensitivity equations, as one plain vector: the state, then its lanes."""

    def __init__(self, call: Callable[[Any, Any], Any], level: Any, size: int) -> None:
        self.call, self.level, self.size = call, level, size

    def __call__(self, t: Any, both: Any) -> Any:
        rows = np.array(both, float).reshape(-1, self.size)
        return self.split(self.call(t, _core.wrap(rows[0].copy(), rows[1:].copy(), self.level)))

    def split(self, out: Any) -> Any:
        """A state or a slope as one vector."""
        if isinstance(out, list | tuple):
            out = _core.build(out) if _core.activity(out) == 2 else np.array(_core.constants(out), float)
        if _core.activity(out) < 2:
            value = np.asarray(_core.constants(out), float).reshape(-1)
            return np.concatenate([value, np.zeros(self.level.width * self.size)])
        value, lanes = _core.split(out)
        return np.concatenate([value.reshape(-1), lanes.reshape(-1)])


def _running() -> _core.Level | None:
    """The level whose lanes are to be integrated, None where that must be done on duals."""
    level = _core.current_level()
    assert level is not None  # a dual was seen
    return level if level.recorder is None and level.outer is None else None


def _state(out: Any) -> Any:
    if isinstance(out, list | tuple):
        out = _core.build(out) if _core.activity(out) == 2 else np.array(_core.constants(out), float)
    return out if _core.is_dual(out) else np.asarray(out, float)


def _replay(
    name: str, call: Callable[[Any, Any], Any], y: Any, value: Any, start: float, times: Any, rtol: Any, atol: Any
) -> Any:
    """The states at some times ``(times, size)`` as duals, by the steps that an explicit method takes without them."""
    method, end = sys.modules["scipy.integrate"].DOP853, float(times[-1])
    solver = method(_Plain(call, ()), start, value, end, rtol=min(rtol, 1e-8), atol=np.minimum(atol, 1e-10))
    taken = [start]
    while solver.status == "running" and len(taken) < STEPS:
        solver.step()
        taken.append(float(solver.t))
    if solver.status != "finished" and start != end:
        raise NoRuleError(
            f"scipy.integrate.{name}: expected a system that an explicit method integrates in {STEPS} steps; got a "
            f'stiffer one{_core.user_location()}. Take mode="forward", outside of other derivatives'
        )
    grid = np.union1d(taken, times)
    grid = grid[::-1] if end < start else grid
    y = _state(y).reshape(-1)
    states = {float(grid[0]): y}
    for t, stop in zip(grid[:-1].tolist(), grid[1:].tolist(), strict=True):
        h = stop - t
        slopes: list[Any] = []
        for row, share in zip(method.A, method.C.tolist(), strict=True):
            slopes.append(_state(call(t + share * h, _moved(y, slopes, row, h))).reshape(-1))
        y = states[stop] = _moved(y, slopes, method.B, h)
    return np.stack([states[t] for t in np.asarray(times, float).tolist()])


def _moved(y: Any, slopes: list[Any], weights: Any, h: float) -> Any:
    for weight, slope in zip(weights.tolist(), slopes, strict=False):
        if weight:
            y = y + (weight * h) * slope
    return y


def _start(y0: Any) -> tuple[Any, Any]:
    """The initial state as an array, and its value."""
    if isinstance(y0, list | tuple):
        y0 = _core.build(y0) if _core.activity(y0) == 2 else np.asarray(_core.constants(y0))
    value = np.atleast_1d(np.asarray(_core.primal(y0)))
    if value.dtype.kind == "c" and _core.activity(y0) == 2:
        raise _refuse("odeint", "complex dual states", "Integrate real and imaginary parts side by side")
    return y0, value


def _check_times(name: str, *times: Any) -> None:
    if _core.activity(times) == 2:
        raise _refuse(name, "dual times", "Scale the time: integrate dy/ds = T f(T s, y) from 0 to 1")


def odeint(
    original: Handler, func: Any, y0: Any, t: Any, args: Any = (), Dfun: Any = None, *rest: Any, **options: Any
) -> Any:
    """The solution at the times t, with its sensitivities."""
    args = args if isinstance(args, tuple) else (args,)
    first = bool(options.get("tfirst", False) or (len(rest) > 14 and rest[14]))
    plain = _Plain(func, args)
    y, value = _start(y0)
    _check_times("odeint", t)
    times = _core.constants(t)
    found = original(plain, value, times, (), None if Dfun is None else _Plain(Dfun, args), *rest, **options)
    if not plain.active and _core.activity(y) < 2:
        return found

    def call(now: Any, state: Any) -> Any:
        return func(now, state, *args) if first else func(state, now, *args)

    level = _running()
    solution = found[0] if isinstance(found, tuple) else found
    if level is None:
        rtol, atol = (1.49012e-8 if options.get(key) is None else options[key] for key in ("rtol", "atol"))
        solution = valued(_replay("odeint", call, y, value, float(times[0]), times, rtol, atol), solution)
        return (solution, *found[1:]) if isinstance(found, tuple) else solution
    both = _Sensitivity(call, level, value.size)
    options = {
        key: option for key, option in options.items() if key in ("rtol", "atol", "hmax", "h0", "mxstep", "tcrit")
    }
    options.setdefault("mxstep", 5000)
    rows = original(both, both.split(y), times, tfirst=True, **options)
    rows = rows.reshape(len(rows), level.width + 1, value.size)
    solution = _core.wrap(solution, np.ascontiguousarray(rows[:, 1:].transpose(1, 0, 2)), level)
    return (solution, *found[1:]) if isinstance(found, tuple) else solution


def solve_ivp(
    original: Handler, fun: Any, t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None,
    dense_output: bool = False, events: Any = None, vectorized: bool = False, args: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """The solution with its sensitivities, at the times that SciPy chose without them."""
    args = () if args is None else tuple(args)
    plain = _Plain(fun, args)
    y, value = _start(y0)
    _check_times("solve_ivp", t_span, t_eval)
    span = tuple(float(t) for t in _core.constants(tuple(t_span)))
    jac = options.get("jac")
    plainly = {**options, "jac": _Plain(jac, args)} if callable(jac) else options
    times = None if t_eval is None else np.asarray(_core.constants(t_eval))
    found = original(plain, span, value, method, times, dense_output, events, vectorized, **plainly)
    if not plain.active and _core.activity(y) < 2:
        return found
    if events is not None or dense_output:
        raise _refuse("solve_ivp", "events= and dense_output=", "Pass t_eval=, and find the event from the solution")
    level = _running()
    call = lambda now, state: fun(now, state, *args)  # noqa: E731
    if level is None:
        rtol, atol = options.get("rtol", 1e-3), options.get("atol", 1e-6)
        rows = _replay("solve_ivp", call, y, value, span[0], found.t, rtol, atol)
        found.y = valued(rows.T, found.y)
        return found
    both = _Sensitivity(call, level, value.size)
    tolerances = {key: options[key] for key in ("rtol", "atol", "max_step", "first_step") if key in options}
    if np.ndim(tolerances.get("atol", 0.0)):
        tolerances["atol"] = np.tile(tolerances["atol"], level.width + 1)
    rows = original(both, span, both.split(y), method, found.t, **tolerances).y
    if rows.shape[1] != found.y.shape[1]:
        raise NoRuleError(
            f"scipy.integrate.solve_ivp: the sensitivity equations could not be integrated to the end"
            f"{_core.user_location()}. Loosen rtol and atol, or take a method for stiff systems"
        )
    rows = rows.reshape(level.width + 1, value.size, -1)
    found.y = _core.wrap(found.y, np.ascontiguousarray(rows[1:]), level)
    return found


HANDLERS: dict[str, Handler] = {
    "scipy.integrate.quad": quad,
    "scipy.integrate.odeint": odeint,
    "scipy.integrate.solve_ivp": solve_ivp,
}
