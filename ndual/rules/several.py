"""Elementwise functions that a row cannot describe: several outputs, optional parameters, sequences of numbers.

Nothing here mixes elements of one array, apart from the functions of ``math`` that take a sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndual.rules.elementwise import PASSIVE
from ndual.rules.registry import composition, linear, passive, structured
from ndual.rules.support import add, conj, spread, strong_multiply, unbroadcast

Arrays = tuple[Any, ...]

passive(" ".join(sorted(PASSIVE)))


@linear("numpy.round numpy.around numpy.fix", None)
def round_(xp: Any, t: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """None: a rounding is constant almost everywhere."""
    return None


@composition("numpy.clip")
def clip(xp: Any, a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    """The three-operand row; an absent bound is an infinite one, which as a Python number never widens a dtype."""
    low = kwargs.pop("min", a_min)
    high = kwargs.pop("max", a_max)
    infinity = float("inf")
    return _clip_ufunc(xp)(a, -infinity if low is None else low, infinity if high is None else high, **kwargs)


def _clip_ufunc(xp: Any) -> Any:
    # numpy.clip is a function around this ufunc; in CuPy the public name is the ufunc itself.
    core = getattr(xp, "_core", None)
    umath = getattr(core, "umath", None)
    return xp.clip if umath is None else umath.clip


@composition("numpy.nan_to_num")
def nan_to_num(xp: Any, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """The numbers as they are, the others replaced: both parts of complex numbers."""
    if x.dtype.kind == "c":
        parts = (nan_to_num(xp, part(x), True, nan, posinf, neginf) for part in (xp.real, xp.imag))
        real, imag = parts
        out = real + 1j * imag
    else:
        limits = xp.finfo(x.dtype)
        top = float(limits.max) if posinf is None else posinf
        bottom = float(limits.min) if neginf is None else neginf
        infinity = float("inf")
        out = xp.where(xp.isnan(x), nan, xp.where(x == infinity, top, xp.where(x == -infinity, bottom, x)))
    if copy:
        return out
    x[...] = out
    return x


def _angle_vjp(xp: Any, w: Any, y: Any, x: Arrays, deg: bool) -> Arrays:
    (z,) = x
    if z.dtype.kind != "c":
        return (None,)
    return (strong_multiply(xp, w * _degrees(deg), 1j / conj(xp, z)),)


@structured("numpy.angle", "z", _angle_vjp, deg=False)
def angle(xp: Any, y: Any, x: Arrays, dx: Arrays, deg: bool) -> Any:
    """The imaginary part of dz / z; 0 for real numbers."""
    (z,), (dz,) = x, dx
    if z.dtype.kind != "c":
        return xp.zeros_like(dz)
    return strong_multiply(xp, dz, 1 / z).imag * _degrees(deg)


def _degrees(deg: bool) -> float:
    return 57.29577951308232 if deg else 1.0


def _modf_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays) -> Arrays:
    return (w[0],)


@structured("numpy.modf math.modf", "x", _modf_vjp)
def modf(xp: Any, y: Arrays, x: Arrays, dx: Arrays) -> Arrays:
    """The fractional part moves with x, the integral part not at all."""
    return dx[0], xp.zeros_like(dx[0])


def _frexp_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays) -> Arrays:
    return (xp.ldexp(w[0], -y[1]),)


@structured("numpy.frexp math.frexp", "x", _frexp_vjp)
def frexp(xp: Any, y: Arrays, x: Arrays, dx: Arrays) -> Arrays:
    """The mantissa is x over a power of two; the exponent is an integer."""
    return xp.ldexp(dx[0], -y[1]), None


def _divmod_vjp(xp: Any, w: Arrays, y: Arrays, x: Arrays) -> Arrays:
    return unbroadcast(w[1], x[0].shape), unbroadcast(-strong_multiply(xp, y[0], w[1]), x[1].shape)


@structured("numpy.divmod", "x1 x2", _divmod_vjp)
def divmod_(xp: Any, y: Arrays, x: Arrays, dx: Arrays) -> Arrays:
    """The remainder is x1 - q x2 with a quotient q that does not move."""
    d1, d2 = (None if d is None else spread(d, y[0].ndim) for d in dx)
    total: Any = d1 if d2 is None else add(xp, -strong_multiply(xp, y[0], d2), d1)
    total = xp.broadcast_to(total, total.shape[:1] + y[0].shape)
    return xp.zeros_like(total), total + 0


@composition("math.hypot")
def hypot(xp: Any, *coordinates: Any) -> Any:
    """The Euclidean norm of any number of numbers."""
    out = xp.abs(coordinates[0])
    for x in coordinates[1:]:
        out = xp.hypot(out, x)
    return out


@composition("math.dist")
def dist(xp: Any, p: Sequence[Any], q: Sequence[Any]) -> Any:
    """The Euclidean distance of two points."""
    return hypot(xp, 0.0, *(a - b for a, b in zip(p, q, strict=True)))


def _fsum_vjp(xp: Any, w: Any, y: Any, x: Arrays) -> Arrays:
    return (w,) * len(x)


@structured("math.fsum", "*seq", _fsum_vjp)
def fsum(xp: Any, y: Any, x: Arrays, dx: Arrays) -> Any:
    """The sum of the tangents."""
    return sum(d for d in dx if d is not None)


@composition("math.prod")
def prod(xp: Any, iterable: Any, *, start: Any = 1) -> Any:
    """The product, factor by factor."""
    for x in iterable:
        start = start * x
    return start


@composition("math.sumprod")
def sumprod(xp: Any, p: Sequence[Any], q: Sequence[Any]) -> Any:
    """The sum of products."""
    return sum(a * b for a, b in zip(p, q, strict=True))


@composition("math.fma")
def fma(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """The product and the sum, here with a rounding each."""
    return x * y + z


@composition("cmath.polar")
def polar(xp: Any, z: Any) -> Arrays:
    """Modulus and angle."""
    return xp.abs(z), xp.angle(z)


@composition("cmath.rect")
def rect(xp: Any, r: Any, phi: Any) -> Any:
    """The complex number of a modulus and an angle."""
    return r * xp.cos(phi) + 1j * (r * xp.sin(phi))
