"""Ufuncs of scipy.special that are no rows of the table: several outputs, or a complex one of a real operand.

Each output's derivative is given in the operand and the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ndual.rules.registry import composition, structured
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


def _complex_of_order(name: str, factor: complex, sign: int = 1) -> None:
    """A Hankel function, complex even of real arguments: its neighbours in the order, and what scaling adds."""

    def slope(v: Any, z: Any, y: Any) -> Any:
        from scipy import special

        function = getattr(special, name)
        return 0.5 * (function(v - 1, z) - function(v + 1, z)) + factor * y

    def vjp(xp: Any, w: Any, y: Any, x: Arrays) -> Arrays:
        g = strong_multiply(xp, xp.conj(slope(x[0], x[1], y)), w)
        return None, unbroadcast(g if x[1].dtype.kind == "c" else g.real, x[1].shape)

    @structured(f"scipy.special.{name}", "v z", vjp)
    def jvp(xp: Any, y: Any, x: Arrays, dx: Arrays) -> Any:
        if dx[0] is not None:
            raise refuse(f"scipy.special.{name}", "the order", "Write jv(v, z) + 1j * yv(v, z), which has one.")
        return strong_multiply(xp, slope(x[0], x[1], y), spread(dx[1], y.ndim))

    jvp.__doc__ = f"{name} by its argument."


_complex_of_order("hankel1", 0)
_complex_of_order("hankel2", 0)
_complex_of_order("hankel1e", -1j)
_complex_of_order("hankel2e", 1j)


def _lambert_slope(xp: Any, y: Any) -> Any:
    """exp(-W) / (1 + W), which has no quotient of 0 by 0 at the origin."""
    with xp.errstate(all="ignore"):
        return xp.exp(-y) / (1 + y)


def _lambertw_vjp(xp: Any, w: Any, y: Any, x: Arrays, **_: Any) -> Arrays:
    g = strong_multiply(xp, xp.conj(_lambert_slope(xp, y)), w)
    return (unbroadcast(g if x[0].dtype.kind == "c" else g.real, x[0].shape),)


@structured("scipy.special._ufuncs._lambertw", "z", _lambertw_vjp, k=0, tol=1e-8)
def lambertw(xp: Any, y: Any, x: Arrays, dx: Arrays, **_: Any) -> Any:
    """Lambert's function, on any branch; the public function calls this ufunc."""
    return strong_multiply(xp, _lambert_slope(xp, y), spread(dx[0], y.ndim))


def _integrals(name: str, slopes: Callable[[Any, Any], Arrays]) -> None:
    """Integrals whose integrands are functions of scipy.special, which is there when one of them is called."""

    def of(xp: Any, x: Any, y: Any) -> Arrays:
        from scipy import special

        return slopes(special, x)

    _unary(f"scipy.special.{name}", of)


_integrals("iti0k0", lambda sc, x: (sc.i0(x), sc.k0(x)))
_integrals("itj0y0", lambda sc, x: (sc.j0(x), sc.y0(x)))
_integrals("it2i0k0", lambda sc, x: ((sc.i0(x) - 1) / x, -sc.k0(x) / x))
_integrals("it2j0y0", lambda sc, x: ((1 - sc.j0(x)) / x, -sc.y0(x) / x))
_integrals("itairy", lambda sc, x: (*sc.airy(x)[::2], *sc.airy(-x)[::2]))


def _harmonic(name: str, arguments: int, of: int) -> None:
    """A function that gives its own derivatives by the last arguments when asked with diff_n=1."""
    names = " ".join(f"x{i}" for i in range(arguments))

    def slopes(xp: Any, x: Arrays, options: dict[str, Any]) -> list[Any]:
        from scipy import special

        found = getattr(special, name)(*x, **{**options, "diff_n": 1})
        if of == 1:
            return [found[1]]
        # The gradient in theta and phi comes behind the axis of the order of differentiation.
        return [found[1][..., k] for k in range(of)]

    def check(options: dict[str, Any]) -> None:
        if options["diff_n"]:
            raise refuse(f"scipy.special.{name}", "diff_n=", "Differentiate the function itself.")

    def vjp(xp: Any, w: Any, y: Any, x: Arrays, **options: Any) -> Arrays:
        check(options)
        first = arguments - of
        out: list[Any] = [None] * arguments
        for k, g in enumerate(slopes(xp, x, options)):
            share = strong_multiply(xp, xp.conj(g), w)
            out[first + k] = unbroadcast(share if x[first + k].dtype.kind == "c" else share.real, x[first + k].shape)
        return tuple(out)

    @structured(f"scipy.special.{name}", names, vjp, **HARMONIC_OPTIONS[name], diff_n=0)
    def jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
        check(options)
        first, total = arguments - of, None
        if any(t is not None for t in dx[:first]):
            raise refuse(f"scipy.special.{name}", "its degree or order", "They are integers.")
        for t, g in zip(dx[first:], slopes(xp, x, options), strict=True):
            if t is not None:
                part = strong_multiply(xp, g, spread(t, y.ndim))
                total = part if total is None else total + part
        return total

    jvp.__doc__ = f"{name} by its arguments, with SciPy's own derivatives."


HARMONIC_OPTIONS: dict[str, dict[str, Any]] = {
    "legendre_p": {},
    "assoc_legendre_p": {"branch_cut": 2, "norm": False},
    "sph_legendre_p": {},
    "sph_harm_y": {},
}
_harmonic("legendre_p", 2, 1)
_harmonic("assoc_legendre_p", 3, 1)
_harmonic("sph_legendre_p", 3, 1)
_harmonic("sph_harm_y", 4, 2)


@composition("scipy.special.multigammaln")
def multigammaln(xp: Any, a: Any, d: int) -> Any:
    """A sum of log-gamma functions at steps of one half."""
    from scipy import special

    terms = [special.gammaln(a - (j - 1.0) / 2) for j in range(1, int(d) + 1)]
    return d * (d - 1) * 0.25 * math.log(math.pi) + xp.sum(xp.stack(terms), axis=0)
