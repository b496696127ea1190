"""Ufuncs of scipy.special with several outputs: each output's derivative in the operand and the outputs.

Ufuncs with one output are rows of the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import refuse, spread, strong_multiply, unbroadcast

Arrays = tuple[Any, ...]
Slopes = Callable[[Any, Any, Arrays], Arrays]


def _sici(xp: Any, x: Any, y: Arrays) -> Arrays:
    return xp.sinc(x * (1 / math.pi)), xp.cos(x) / x


def _shichi(xp: Any, x: Any, y: Arrays) -> Arrays:
    return xp.where(x == 0, 1.0, xp.sinh(x) / x), xp.cosh(x) / x


def _fresnel(xp: Any, x: Any, y: Arrays) -> Arrays:
    angle = x * x * (math.pi / 2)
    return xp.sin(angle), xp.cos(angle)


def _airy(xp: Any, x: Any, y: Arrays) -> Arrays:
    return y[1], x * y[0], y[3], x * y[2]


def _ellipj(xp: Any, m: Any, y: Arrays) -> Arrays:
    sn, cn, dn, _ = y
    return cn * dn, -sn * dn, -m * sn * cn, dn


def _slopes(xp: Any, slopes: Slopes, x: Any, y: Arrays) -> Arrays:
    # cos(x) / x at 0 is an infinity on purpose.
    with xp.errstate(all="ignore"):
        return slopes(xp, x, y)


def _unary(serves: str, slopes: Slopes) -> None:
    def vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays) -> Arrays:
        terms = zip(_slopes(xp, slopes, x[0], y), w, strict=True)
        return (sum(strong_multiply(xp, d, v) for d, v in terms),)

    def jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays) -> Arrays:
        return tuple(strong_multiply(xp, d, dx[0]) for d in _slopes(xp, slopes, x[0], y))

    structured(serves, "x", vjp)(jvp)


_unary("scipy.special.sici", _sici)
_unary("scipy.special.shichi", _shichi)
_unary("scipy.special.fresnel", _fresnel)
_unary("scipy.special.airy", _airy)


def _ellipj_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays) -> Arrays:
    terms = zip(_ellipj(xp, x[1], y), w, strict=True)
    return unbroadcast(sum(strong_multiply(xp, d, v) for d, v in terms), x[0].shape), None


@structured("scipy.special.ellipj", "u m", _ellipj_vjp)
def ellipj(xp: Any, y: Arrays, x: Arrays, dx: Arrays) -> Arrays:
    """Jacobi's functions move with their argument; by the parameter they have no rule."""
    if dx[1] is not None:
        raise refuse("scipy.special.ellipj", "the parameter m", "Make it a constant with ndual.stop_gradient(m).")
    t = spread(dx[0], y[0].ndim)
    return tuple(strong_multiply(xp, d, t) for d in _ellipj(xp, x[1], y))
