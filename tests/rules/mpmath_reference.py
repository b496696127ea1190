"""The functions of the table in mpmath, and the comparison of a row with their derivatives.

The error allowed is that of a backward stable formula: a few roundings, plus what one rounding of an operand would do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from ndual.rules import registry
from ndual.rules.elementwise import TWINS
from ndual.rules.language import to_numpy

EPS = np.finfo(float).eps
SQRT2 = mp.sqrt(2)


def _ndtr(x):
    return mp.erfc(-x / SQRT2) / 2


def _root(f, low, high):
    return mp.findroot(f, (low, high), solver="anderson", tol=mp.mpf(10) ** (-mp.mp.dps))


def _stdtr(v, t):
    tail = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / 2
    return 1 - tail if t > 0 else tail


def _exprel(x):
    return mp.expm1(x) / x if x else mp.mpf(1)


def _boxcox(log, lam):
    return mp.expm1(lam * log) / lam if lam else log


def _owens(h, a):
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def _ive(v, x):
    return mp.besseli(v, x) * mp.exp(-abs(x))


def _voigt(z):
    return mp.re(mp.exp(-z * z) * mp.erfc(-1j * z))


def _huber(d, r):
    return r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2)


def _slope(f, x, order):
    return mp.diff(f, x, int(order))


KELVIN = ("ber", "bei", "ker", "kei")

# What mpmath calls by another name, or not at all. A missing row is looked up in mpmath under its own name.
REFERENCE: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negative": lambda x: -x,
    "positive": lambda x: +x,
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "exp2": lambda x: mp.mpf(2) ** x,
    "exp10": lambda x: mp.mpf(10) ** x,
    "log2": lambda x: mp.log(x, 2),
    "logaddexp": lambda a, b: mp.log(mp.exp(a) + mp.exp(b)),
    "logaddexp2": lambda a, b: mp.log(mp.mpf(2) ** a + mp.mpf(2) ** b, 2),
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arctan2": mp.atan2,
    "arcsinh": lambda x: mp.sign(x) * mp.asinh(abs(x)) if isinstance(x, mp.mpf) else mp.asinh(x),
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "deg2rad": lambda x: x * mp.pi / 180,
    "rad2deg": lambda x: x * 180 / mp.pi,
    "absolute": abs,
    "fabs": abs,
    "real": lambda x: +x,
    "imag": lambda x: 0 * x,
    "conjugate": lambda x: +x,
    "angle": lambda x: mp.mpf(0) if x >= 0 else mp.pi,
    "maximum": max,
    "minimum": min,
    "fmax": max,
    "fmin": min,
    "clip": lambda x, low, high: min(max(x, low), high),
    "where": lambda c, a, b: a if c != 0 else b,
    "heaviside": lambda x, h: mp.mpf(x > 0),
    "trunc": lambda x: mp.floor(x) if x > 0 else mp.ceil(x),
    "rint": mp.nint,
    "spacing": lambda x: mp.mpf(2) ** (mp.floor(mp.log(abs(x), 2)) - 52) * mp.sign(x),
    "nextafter": lambda x, to: x,
    "floor_divide": lambda a, b: mp.floor(a / b),
    "remainder": lambda a, b: a - b * mp.floor(a / b),
    "fmod": lambda a, b: a - b * (mp.floor(a / b) if a / b > 0 else mp.ceil(a / b)),
    "math_remainder": lambda a, b: a - b * mp.nint(a / b),
    "copysign": lambda a, b: abs(a) * mp.sign(b),
    "ldexp": lambda x, n: x * mp.mpf(2) ** n,
    "sinc": lambda x: mp.sincpi(x),
    "expit": lambda x: 1 / (1 + mp.exp(-x)),
    "logit": lambda x: mp.log(x / (1 - x)),
    "log_expit": lambda x: -mp.log1p(mp.exp(-x)),
    "exprel": _exprel,
    "cosm1": lambda x: mp.cos(x) - 1,
    "powm1": lambda x, p: x**p - 1,
    "xlogy": lambda x, y: x * mp.log(y),
    "xlog1py": lambda x, y: x * mp.log1p(y),
    "entr": lambda x: -x * mp.log(x),
    "rel_entr": lambda x, y: x * mp.log(x / y),
    "kl_div": lambda x, y: x * mp.log(x / y) - x + y,
    "boxcox": lambda x, lam: _boxcox(mp.log(x), lam),
    "boxcox1p": lambda x, lam: _boxcox(mp.log1p(x), lam),
    "inv_boxcox": lambda y, lam: (1 + lam * y) ** (1 / lam),
    "inv_boxcox1p": lambda y, lam: (1 + lam * y) ** (1 / lam) - 1,
    "huber": _huber,
    "pseudo_huber": lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1),
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
    "erfcinv": lambda x: mp.erfinv(1 - x),
    "ndtr": _ndtr,
    "ndtri": lambda p: SQRT2 * mp.erfinv(2 * p - 1),
    "log_ndtr": lambda x: mp.log(_ndtr(x)),
    "owens_t": _owens,
    "gammaln": lambda x: mp.log(mp.gamma(x)),
    "polygamma": lambda n, x: mp.polygamma(int(n), x),
    "betaln": lambda a, b: mp.log(mp.beta(a, b)),
    "binom": mp.binomial,
    "poch": mp.rf,
    "gammainc": lambda a, x: mp.gammainc(a, 0, x, regularized=True),
    "gammaincc": lambda a, x: mp.gammainc(a, x, regularized=True),
    "betainc": lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
    "betaincc": lambda a, b, x: mp.betainc(a, b, x, 1, regularized=True),
    "stdtr": _stdtr,
    "chdtr": lambda v, x: mp.gammainc(v / 2, 0, x / 2, regularized=True),
    "chdtrc": lambda v, x: mp.gammainc(v / 2, x / 2, regularized=True),
    "pdtr": lambda k, m: mp.gammainc(k + 1, m, regularized=True),
    "pdtrc": lambda k, m: mp.gammainc(k + 1, 0, m, regularized=True),
    "fdtr": lambda m, n, x: mp.betainc(m / 2, n / 2, 0, m * x / (n + m * x), regularized=True),
    "fdtrc": lambda m, n, x: mp.betainc(n / 2, m / 2, 0, n / (n + m * x), regularized=True),
    "gdtr": lambda a, b, x: mp.gammainc(b, 0, a * x, regularized=True),
    "gdtrc": lambda a, b, x: mp.gammainc(b, a * x, regularized=True),
    **{f"{f}{n}": functools.partial(getattr(mp, f"bessel{f}"), n) for f in "jyik" for n in (0, 1)},
    "i0e": lambda x: _ive(0, x),
    "i1e": lambda x: _ive(1, x),
    "k0e": lambda x: mp.besselk(0, x) * mp.exp(x),
    "k1e": lambda x: mp.besselk(1, x) * mp.exp(x),
    "jv": mp.besselj,
    "yv": mp.bessely,
    "iv": mp.besseli,
    "kv": mp.besselk,
    "jve": mp.besselj,
    "yve": mp.bessely,
    "ive": _ive,
    "kve": lambda v, x: mp.besselk(v, x) * mp.exp(x),
    "struve": mp.struveh,
    "modstruve": mp.struvel,
    **{name: functools.partial(getattr(mp, name), 0) for name in KELVIN},
    **{f"{name}p": functools.partial(mp.diff, functools.partial(getattr(mp, name), 0)) for name in KELVIN},
    "exp1": mp.e1,
    "expi": mp.ei,
    "expn": mp.expint,
    "spence": lambda x: mp.polylog(2, 1 - x),
    "wrightomega": lambda x: mp.lambertw(mp.exp(x)),
    "ellipkm1": lambda p: mp.ellipk(1 - p),
    "ellipkinc": mp.ellipf,
    "ellipeinc": mp.ellipe,
    "voigt_profile": lambda x, s, g: _voigt((x + 1j * g) / (s * SQRT2)) / (s * mp.sqrt(2 * mp.pi)),
    "spherical_jn": lambda n, x: mp.sqrt(mp.pi / 2 / x) * mp.besselj(n + 0.5, x),
    "spherical_yn": lambda n, x: mp.sqrt(mp.pi / 2 / x) * mp.bessely(n + 0.5, x),
    "spherical_in": lambda n, x: mp.sqrt(mp.pi / 2 / x) * mp.besseli(n + 0.5, x),
    "spherical_kn": lambda n, x: mp.sqrt(mp.pi / 2 / x) * mp.besselk(n + 0.5, x),
    "bdtr": lambda k, n, p: mp.betainc(n - k, k + 1, 0, 1 - p, regularized=True),
    "bdtrc": lambda k, n, p: mp.betainc(k + 1, n - k, 0, p, regularized=True),
    "nbdtr": lambda k, n, p: mp.betainc(n, k + 1, 0, p, regularized=True),
    "nbdtrc": lambda k, n, p: mp.betainc(k + 1, n, 0, 1 - p, regularized=True),
    "beta_pdf": lambda x, a, b: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b),
    "beta_ppf": lambda q, a, b: _root(
        lambda x: mp.betainc(a, b, 0, x, regularized=True) - q, mp.mpf("1e-30"), 1 - mp.mpf("1e-30")
    ),
    "binom_pmf": lambda k, n, p: mp.binomial(n, k) * p**k * (1 - p) ** (n - k),
    "binom_cdf": lambda k, n, p: mp.betainc(n - k, k + 1, 0, 1 - p, regularized=True),
    "binom_sf": lambda k, n, p: mp.betainc(k + 1, n - k, 0, p, regularized=True),
    "nbinom_pmf": lambda k, n, p: mp.gamma(k + n) / mp.gamma(n) / mp.factorial(k) * p**n * (1 - p) ** k,
    "nbinom_cdf": lambda k, n, p: mp.betainc(n, k + 1, 0, p, regularized=True),
    "nbinom_sf": lambda k, n, p: mp.betainc(k + 1, n, 0, 1 - p, regularized=True),
    "cauchy_ppf": lambda q, loc, scale: loc - scale * mp.cot(mp.pi * q),
    "cauchy_isf": lambda q, loc, scale: loc + scale * mp.cot(mp.pi * q),
    "elliprf": mp.elliprf,
    "eval_legendre": mp.legendre,
    "eval_chebyt": mp.chebyt,
    "eval_chebyu": mp.chebyu,
    "eval_gegenbauer": mp.gegenbauer,
    "eval_jacobi": mp.jacobi,
    "eval_hermite": mp.hermite,
    "eval_hermitenorm": lambda n, x: mp.hermite(n, x / SQRT2) / SQRT2**n,
    "eval_laguerre": lambda n, x: mp.laguerre(n, 0, x),
    "eval_genlaguerre": mp.laguerre,
    "eval_chebyc": lambda n, x: 2 * mp.chebyt(n, x / 2),
    "eval_chebys": lambda n, x: mp.chebyu(n, x / 2),
    "eval_sh_legendre": lambda n, x: mp.legendre(n, 2 * x - 1),
    "eval_sh_chebyt": lambda n, x: mp.chebyt(n, 2 * x - 1),
    "eval_sh_chebyu": lambda n, x: mp.chebyu(n, 2 * x - 1),
    "lpmv": lambda m, v, x: (-1) ** int(m) * (1 - x * x) ** (m / 2) * _slope(lambda t: mp.legendre(v, t), x, m),
    "elliprc": mp.elliprc,
    "itstruve0": lambda x: mp.quad(lambda t: mp.struveh(0, t), [0, x]),
    "it2struve0": lambda x: mp.pi / 2 - mp.quad(lambda t: mp.struveh(0, t) / t if t else 2 / mp.pi, [0, x]),
    "itmodstruve0": lambda x: mp.quad(lambda t: mp.struvel(0, t), [0, x]),
    "sindg": lambda x: mp.sinpi(x / 180),
    "cosdg": lambda x: mp.cospi(x / 180),
    "tandg": lambda x: mp.tan(x * mp.pi / 180),
    "cotdg": lambda x: mp.cot(x * mp.pi / 180),
    "radian": lambda d, m, s: (d + m / 60 + s / 3600) * mp.pi / 180,
    "wright_bessel": lambda a, b, x: sum(x**k / mp.factorial(k) * mp.rgamma(a * k + b) for k in range(50)),
    "cosine_cdf": lambda x: (mp.pi + x + mp.sin(x)) / (2 * mp.pi),
    "cosine_invcdf": lambda p: _root(lambda x: (mp.pi + x + mp.sin(x)) / (2 * mp.pi) - p, -mp.pi, +mp.pi),
    "log1mexp": lambda x: mp.log(-mp.expm1(x)),
    "log1pmx": lambda x: mp.log1p(x) - x,
    "lgam1p": lambda x: mp.log(mp.gamma(1 + x)),
    "scaled_exp1": lambda x: x * mp.exp(x) * mp.e1(x),
    "kolmogorov": lambda x: 2 * mp.nsum(lambda k: (-1) ** int(k - 1) * mp.exp(-2 * k * k * x * x), [1, 40]),
    "smirnov": lambda n, x: (
        x
        * sum(
            mp.binomial(n, j) * (x + j / n) ** (j - 1) * (1 - x - j / n) ** (n - j)
            for j in range(int(mp.floor(n * (1 - x))) + 1)
        )
    ),
}


def reference(name: str) -> Callable:
    """The row's function in mpmath."""
    twin = {twin: of for twin, of, *_ in TWINS}.get(name, name)
    return REFERENCE[twin] if twin in REFERENCE else getattr(mp, twin)


def public(dotted: str) -> Callable:
    """The function behind a dotted name."""
    found = registry.lookup(dotted)
    assert found is not None, dotted
    return found


def evaluate(expr, row, x: tuple[float, ...]) -> float:
    """An expression of the row at a point in float64, with the output of the public function for ``y``."""
    operands = tuple(np.float64(v) if not d.integer else int(v) for v, d in zip(x, row.domain, strict=True))
    with np.errstate(all="ignore"):
        y = np.float64(public(row.serves[0])(*operands))
        return float(to_numpy(expr, public)(operands, y))


def derivative(f: Callable, x: tuple[float, ...], *order: int) -> mp.mpf:
    """A derivative by the operands in `order`, with steps relative to the point, at the precision in force."""
    at = [mp.mpf(v) for v in x]
    scale = [v if v else mp.mpf(1) for v in at]
    times = [order.count(i) for i in range(len(at))]
    active = [i for i, n in enumerate(times) if n]

    def moved(*steps):
        point = list(at)
        for i, t in zip(active, steps, strict=True):
            point[i] = at[i] + scale[i] * t
        return mp.re(f(*point))

    if len(active) == 1:
        d = mp.diff(moved, 0, times[active[0]])
    else:
        d = mp.diff(moved, (0,) * len(active), tuple(times[i] for i in active))
    for i in active:
        d /= scale[i] ** times[i]
    return d


def assert_close(got: float, want: mp.mpf, allowed: mp.mpf, where: str) -> None:
    """Equal up to the allowed error; overflow and underflow as rounding of the true value gives them."""
    if not math.isfinite(float(want)) or abs(want) < 1e-307:
        assert got == pytest.approx(float(want), abs=1e-307), where
    else:
        assert abs(got - want) <= allowed, f"{where}: got {got!r}, expected {mp.nstr(want, 20)}"


def check_partials(row, x: tuple[float, ...], f: Callable, slack: float = 1.0) -> None:
    """Each partial of the row at a point against the derivative of `f`."""
    for i, expr in enumerate(row.partial_exprs):
        if expr is None or row.domain[i].integer:
            continue
        want = derivative(f, x, i)
        seconds = (abs(mp.mpf(x[j]) * derivative(f, x, i, j)) for j in range(row.nin) if not row.domain[j].integer)
        allowed = slack * 32 * EPS * (abs(want) + sum(seconds) + mp.mpf(1e-300))
        assert_close(evaluate(expr, row, x), want, allowed, f"{row.name}, operand {i}, at {x}")
