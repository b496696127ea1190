"""Ufuncs of scipy.special that are no rows of the table: several outputs, or a complex one of a real operand.

Each output's derivative is given in the operand and the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import refuse, spread, strong_multiply, unbroadcast

Arrays = tuple[Any, ...]
Slopes = Callable[[Any, Any, Any], Any]


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


def _slopes(xp: Any, slopes: Slopes, x: Any, y: Any) -> Any:
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


# (2k + 1)!!, for the series of the derivative in 1 / (2 z**2).
ODD_FACTORIALS = tuple(float(math.prod(range(1, 2 * k + 2, 2))) for k in range(20))


def _wofz(xp: Any, z: Any, y: Any) -> Any:
    """2i / sqrt(pi) - 2 z w(z); far out, where its terms cancel, the asymptotic series of that."""
    direct = 2j / math.sqrt(math.pi) - 2 * z * y
    far = xp.abs(z) > 8
    safe = xp.where(far, z, 8.0)
    t = 0.5 / (safe * safe)
    series = ODD_FACTORIALS[-1] * t
    for c in ODD_FACTORIALS[-2:0:-1]:
        series = (series + c) * t
    series = -1j / math.sqrt(math.pi) * (series + 1) / (safe * safe)
    # Below the real axis 2 exp(-z**2) comes on top of the series; on it half of that, which is the whole real part.
    below, on = (far & (z.imag < 0), far & (z.imag == 0))
    series = series + xp.where(below, -4 * z * xp.exp(-xp.where(below, z * z, 0)), xp.where(on, direct.real, 0))
    return xp.where(far, series, direct)


def _wofz_vjp(xp: Any, w: Any, y: Any, x: Arrays) -> Arrays:
    g = strong_multiply(xp, xp.conj(_slopes(xp, _wofz, x[0], y)), w)
    return (g if x[0].dtype.kind == "c" else g.real,)


@structured("scipy.special.wofz", "x", _wofz_vjp)
def wofz(xp: Any, y: Any, x: Arrays, dx: Arrays) -> Any:
    """The Faddeeva function is complex even on the real axis."""
    return strong_multiply(xp, _slopes(xp, _wofz, x[0], y), dx[0])


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
