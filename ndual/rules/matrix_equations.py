"""Sylvester, Lyapunov and Riccati equations of scipy.linalg: a lane solves the same one with another right side."""

from __future__ import annotations

from typing import Any

from ndual.rules.stacks import stacked
from ndual.rules.support import add, adjoint, lane_count, real_as, scipy_linalg


def _each(xp: Any, name: str, coefficients: tuple[Any, ...], right: Any) -> Any:
    """The library's solver has no form for several right sides, so the lanes go through it one by one."""
    solve = getattr(scipy_linalg(xp), name)
    return xp.stack([solve(*coefficients, r) for r in right])


def _sylvester_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    a, b, _q = x
    g = _each(xp, "solve_sylvester", (adjoint(xp, a), adjoint(xp, b)), w[None])[0]
    h = adjoint(xp, y)
    return -xp.matmul(g, h), -xp.matmul(h, g), g


@stacked("scipy.linalg.solve_sylvester", "a b q", "2 2 2", _sylvester_vjp)
def solve_sylvester(xp: Any, y: Any, x: tuple[Any, Any, Any], dx: tuple[Any, Any, Any]) -> Any:
    """A dY + dY B = dQ - dA Y - Y dB."""
    (a, b, _q), (da, db, dq) = x, dx
    r = None if da is None else -xp.matmul(da, y)
    r = r if db is None else add(xp, -xp.matmul(y, db), r)
    r = r if dq is None else dq if r is None else add(xp, r, dq)
    return _each(xp, "solve_sylvester", (a, b), r)


def _continuous_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any]) -> tuple[Any, Any]:
    g = _each(xp, "solve_continuous_lyapunov", (adjoint(xp, x[0]),), w[None])[0]
    return -xp.matmul(g, adjoint(xp, y)) - xp.matmul(adjoint(xp, g), y), g


@stacked("scipy.linalg.solve_continuous_lyapunov scipy.linalg.solve_lyapunov", "a q", "2 2", _continuous_vjp)
def solve_continuous_lyapunov(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any]) -> Any:
    """A dY + dY A^H = dQ - dA Y - Y dA^H."""
    (a, _q), (da, dq) = x, dx
    r = None
    if da is not None:
        r = -xp.matmul(da, y) - xp.matmul(y, adjoint(xp, da))
    r = dq if r is None else r if dq is None else add(xp, r, dq)
    return _each(xp, "solve_continuous_lyapunov", (a,), r)


def _discrete_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any], method: Any) -> tuple[Any, Any]:
    a = x[0]
    g = _each(xp, "solve_discrete_lyapunov", (adjoint(xp, a),), w[None])[0]
    gh, yh = adjoint(xp, g), adjoint(xp, y)
    return xp.matmul(xp.matmul(g, a), yh) + xp.matmul(xp.matmul(gh, a), y), g


@stacked("scipy.linalg.solve_discrete_lyapunov", "a q", "2 2", _discrete_vjp, method=None)
def solve_discrete_lyapunov(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], method: Any) -> Any:
    """A dY A^H - dY = -(dQ + dA Y A^H + A Y dA^H)."""
    (a, _q), (da, dq) = x, dx
    r = None
    if da is not None:
        r = xp.matmul(xp.matmul(da, y), adjoint(xp, a)) + xp.matmul(xp.matmul(a, y), adjoint(xp, da))
    r = dq if r is None else r if dq is None else add(xp, r, dq)
    return _each(xp, "solve_discrete_lyapunov", (a,), r)


def _riccati(name: str, lyapunov: str, discrete: bool) -> None:
    """Register one of the algebraic Riccati equations: at a fixed gain it is a Lyapunov equation of the closed loop.

    With K the gain, C = A - B K and Y = X C (X E if time is continuous), the equation moves by T + T^H + dQ + K^H dR K
    - dS K - K^H dS^H at a fixed X, where T = (dA - dB K)^H Y plus the terms in dE; K is where it does not move X.
    """

    def parts(xp: Any, y: Any, x: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
        a, b, _q, r, e, s = x
        bx = xp.matmul(adjoint(xp, b), y)
        right, weight = (xp.matmul(bx, a), r + xp.matmul(bx, b)) if discrete else (bx if e is None else bx @ e, r)
        gain = xp.linalg.solve(weight, right if s is None else right + adjoint(xp, s))
        closed = a - xp.matmul(b, gain)
        xe = y if e is None else xp.matmul(y, e)
        return gain, closed, xe, xp.matmul(y, closed)

    def solved(xp: Any, loop: Any, right: Any) -> Any:
        return _each(xp, lyapunov, (loop,), right if discrete else -right)

    def over(xp: Any, m: Any, e: Any) -> Any:
        """M E^-1, for a stack."""
        if e is None:
            return m
        return xp.swapaxes(xp.linalg.solve(xp.swapaxes(e, -1, -2), xp.swapaxes(m, -1, -2)), -1, -2)

    def vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], **_: Any) -> tuple[Any, ...]:
        e = x[4]
        gain, closed, xe, xc = parts(xp, y, x)
        g = solved(xp, over(xp, closed, e), w[None])[0]
        if e is not None:
            g = xp.linalg.solve(e, over(xp, g, adjoint(xp, e)))
        both, gh = g + adjoint(xp, g), adjoint(xp, gain)
        ga = xp.matmul(xc if discrete else xe, both)
        gs = -xp.matmul(both, gh)
        ge = -xp.matmul(xe, both) if discrete else xp.matmul(xc, both)
        found = (ga, -xp.matmul(ga, gh), g, xp.matmul(xp.matmul(gain, g), gh), ge, gs)
        return tuple(None if a is None else real_as(a, v) for a, v in zip(x, found, strict=True))

    def jvp(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], **_: Any) -> Any:
        e, (da, db, dq, dr, de, ds) = x[4], dx
        gain, closed, xe, xc = parts(xp, y, x)
        right: Any = xp.zeros((lane_count(dx), *y.shape), y.dtype)
        half: Any = xp.zeros_like(right)
        if da is not None or db is not None:
            moved = da if db is None else add(xp, -xp.matmul(db, gain), da)
            half = half + xp.matmul(adjoint(xp, moved), xc if discrete else xe)
        if de is not None:
            half = half + (-xp.matmul(adjoint(xp, de), xe) if discrete else xp.matmul(adjoint(xp, de), xc))
        if ds is not None:
            half = half - xp.matmul(ds, gain)
        if dq is not None:
            right = right + dq
        if dr is not None:
            right = right + xp.matmul(xp.matmul(adjoint(xp, gain), dr), gain)
        right = right + half + adjoint(xp, half)
        if e is not None:
            right = adjoint(xp, over(xp, adjoint(xp, over(xp, right, e)), e))
        return solved(xp, adjoint(xp, over(xp, closed, e)), right)

    stacked(f"scipy.linalg.{name}", "a b q r e? s?", "2 2 2 2 2 2", vjp, balanced=True)(jvp)
    jvp.__doc__ = f"{name}: a Lyapunov equation of the closed loop."


_riccati("solve_continuous_are", "solve_continuous_lyapunov", False)
_riccati("solve_discrete_are", "solve_discrete_lyapunov", True)
