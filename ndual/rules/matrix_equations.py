"""Sylvester and Lyapunov equations of scipy.linalg: a lane solves the same equation with another right side."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import add, adjoint, scipy_linalg


def _each(xp: Any, name: str, coefficients: tuple[Any, ...], right: Any) -> Any:
    """The library's solver has no form for several right sides, so the lanes go through it one by one."""
    solve = getattr(scipy_linalg(xp), name)
    return xp.stack([solve(*coefficients, r) for r in right])


def _sylvester_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    a, b, _q = x
    g = _each(xp, "solve_sylvester", (adjoint(xp, a), adjoint(xp, b)), w[None])[0]
    h = adjoint(xp, y)
    return -xp.matmul(g, h), -xp.matmul(h, g), g


@structured("scipy.linalg.solve_sylvester", "a b q", _sylvester_vjp)
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


@structured("scipy.linalg.solve_continuous_lyapunov scipy.linalg.solve_lyapunov", "a q", _continuous_vjp)
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


@structured("scipy.linalg.solve_discrete_lyapunov", "a q", _discrete_vjp, method=None)
def solve_discrete_lyapunov(xp: Any, y: Any, x: tuple[Any, Any], dx: tuple[Any, Any], method: Any) -> Any:
    """A dY A^H - dY = -(dQ + dA Y A^H + A Y dA^H)."""
    (a, _q), (da, dq) = x, dx
    r = None
    if da is not None:
        r = xp.matmul(xp.matmul(da, y), adjoint(xp, a)) + xp.matmul(xp.matmul(a, y), adjoint(xp, da))
    r = dq if r is None else r if dq is None else add(xp, r, dq)
    return _each(xp, "solve_discrete_lyapunov", (a,), r)
