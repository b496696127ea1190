"""Derivatives of special functions by their parameters, as functions of the public kind that formulas of rows call.

They are integrals, taken by quadratures that converge exponentially: a double-exponential rule on the half line, and
Gauss and Legendre's on intervals. Integrands are split where they change sign, so that nothing cancels and tails keep
their relative accuracy; errors seen against 40 digits are about 1e-12, at a cost of some microseconds an element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

# The half line as s = exp(u - exp(-u)): features at any scale between 1e-40 and 1e11 are resolved alike.
_STEP = 1 / 8
_U = np.arange(-4.5, 26.0, _STEP)
_S = np.exp(_U - np.exp(-_U))
_WEIGHT = _S * (1 + np.exp(-_U)) * _STEP
_FULL = 800.0  # exp(-800) is 0


def _half_line(f: Callable[[Any], Any], scale: Any) -> Any:
    """The integral of f over (0, inf), which may underflow to 0 or overflow in f where its true value is 0."""
    values = f(scale[..., None] * _S)
    return (np.where(np.isfinite(values), values, 0.0) * _WEIGHT).sum(axis=-1) * scale


@lru_cache(maxsize=16)
def _legendre(n: int) -> tuple[Any, Any]:
    """Golub and Welsch's nodes and weights on (-1, 1); NumPy's own are Python code, which gates may be watching."""
    k = np.arange(1, n)
    off = k / np.sqrt(4.0 * k * k - 1)
    z, v = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return z, 2 * v[0] ** 2


def _interval(n: int, end: Any) -> tuple[Any, Any]:
    """Nodes and weights on (0, end)."""
    z, w = _legendre(n)
    half = end[..., None] / 2
    return half * (1 + z), half * w


def _operands(*operands: Any) -> list[Any]:
    arrays = np.broadcast_arrays(*(a if hasattr(a, "ndim") else np.asarray(a, float) for a in operands))
    return [a if a.dtype.kind == "f" else a.astype(float) for a in arrays]


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            arrays = _operands(*operands)
            out = function(*(a.astype(float) for a in arrays))
            return out.astype(np.result_type(*arrays))

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


@_quiet
def gammainc_a(a: Any, x: Any) -> Any:
    """The derivative of gammainc(a, x) by a.

    It is the integral of the density times log(t) - digamma(a) from 0 to x, and minus that from x to infinity.
    """
    from scipy import special as sc

    mean = sc.digamma(a)
    log_density = sc.xlogy(a, x) - x - sc.gammaln(a)
    A, X, M = a[..., None], x[..., None], mean[..., None]
    spread = np.minimum(a, np.sqrt(a))
    below = _half_line(lambda s: np.exp(-A * s - X * np.expm1(-s)) * (np.log(X) - s - M), 1 / np.maximum(a - x, spread))
    width = 1 / np.maximum(1 - (a - 1) / x, 1 / np.sqrt(a + 1))
    above = _half_line(lambda s: np.exp((A - 1) * np.log1p(s / X) - s) * (np.log(X + s) - M), width) / x
    out = np.exp(log_density) * np.where(np.log(x) > mean, -above, below)
    return np.where((x == 0) | (x == np.inf), 0.0, out)


def _beta_by_first(a: Any, b: Any, x: Any, y: Any) -> Any:
    """The derivative of betainc(a, b, x) by a, where y is 1 - x."""
    from scipy import special as sc

    mean = sc.digamma(a) - sc.digamma(a + b)
    lx, ly = np.log(x), np.log(y)
    A, B, M, X, Y, LX = (v[..., None] for v in (a, b, mean, x, y, lx))
    # Below x the variable is x exp(-s), above it one minus it is y exp(-s).
    below = _half_line(
        lambda s: np.exp((B - 1) * np.log1p(-X * np.expm1(-s) / Y) - A * s) * (LX - s - M),
        1 / np.maximum(a - (b - 1) * x / y, np.minimum(a, np.sqrt(a))),
    )

    def right(s: Any) -> Any:
        rise = np.log1p(-Y * np.expm1(-s) / X)
        return np.exp((A - 1) * rise - B * s) * (LX + rise - M)

    above = _half_line(right, 1 / np.maximum(b - (a - 1) * y / x, np.minimum(b, np.sqrt(b))))
    out = np.exp(a * lx + b * ly - sc.betaln(a, b)) * np.where(lx > mean, -above / x, below / y)
    return np.where((x <= 0) | (y <= 0), 0.0, out)


@_quiet
def betainc_a(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by a."""
    return _beta_by_first(a, b, x, 1 - x)


@_quiet
def betainc_b(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by b, which is that of the mirror image by its first parameter."""
    return -_beta_by_first(b, a, 1 - x, x)


def _beta_density(a: Any, b: Any, x: Any, y: Any) -> Any:
    from scipy import special as sc

    return np.exp(sc.xlogy(a - 1, x) + sc.xlogy(b - 1, y) - sc.betaln(a, b))


@_quiet
def stdtr_df(df: Any, t: Any) -> Any:
    """The derivative of Student's distribution function by its degrees of freedom."""
    from scipy import special as sc

    # By the density's own derivative, integrated from -inf to -|t|, or from -|t| to 0 with the other sign.
    size = abs(t)
    r = 1 / (df * df)
    far = r * (1 / 2 - r * (1 / 4 - r * (1 / 2 - r * (17 / 8))))
    shift = np.where(df > 60, far, sc.digamma((df + 1) / 2) - sc.digamma(df / 2) - 1 / df)
    D, T, G = df[..., None], size[..., None], shift[..., None]

    def slope(u: Any) -> Any:
        q = u * u / D
        log_density = -(D + 1) / 2 * np.log1p(q)
        return np.exp(log_density) * (G + q / (1 + q) / D + (q / (1 + q) - np.log1p(q))) / 2

    constant = np.exp(-sc.betaln(df / 2, 0.5)) / np.sqrt(df)
    # t = |t| exp(-s) inside and |t| exp(s) outside.
    inside = -_half_line(lambda s: T * np.exp(-s) * slope(T * np.exp(-s)), np.ones_like(size))
    outside = _half_line(lambda s: T * np.exp(s) * slope(T * np.exp(s)), 1 / np.maximum(df, 1e-3))
    tail = constant * np.where(size * size > 3 * df / (df + 1) + 0 * size, outside, inside)
    return np.where(t == 0, 0.0, np.where(t < 0, tail, -tail))


def _f_parts(m: Any, n: Any, x: Any) -> tuple[Any, Any, Any]:
    z, rest = m * x / (n + m * x), n / (n + m * x)
    return z, rest, _beta_density(m / 2, n / 2, z, rest) * n * x * m / (n + m * x) ** 2


@_quiet
def fdtr_dfn(m: Any, n: Any, x: Any) -> Any:
    """The derivative of the F distribution function by the degrees of freedom of the numerator."""
    z, rest, moved = _f_parts(m, n, x)
    return np.where(x == 0, 0.0, _beta_by_first(m / 2, n / 2, z, rest) / 2 + moved / m)


@_quiet
def fdtr_dfd(m: Any, n: Any, x: Any) -> Any:
    """The derivative of the F distribution function by the degrees of freedom of the denominator."""
    z, rest, moved = _f_parts(m, n, x)
    return np.where(x == 0, 0.0, -_beta_by_first(n / 2, m / 2, rest, z) / 2 - moved / n)


def _digamma_over_gamma(z: Any) -> Any:
    """digamma(z) / gamma(z), which is finite at the poles of both."""
    from scipy import special as sc

    mirrored = z < 0.5
    r = np.where(mirrored, 1 - z, z)
    angle = np.pi * z
    reflected = sc.gamma(np.where(mirrored, r, 1.0)) * (sc.digamma(r) * np.sin(angle) / np.pi - np.cos(angle))
    return np.where(mirrored, reflected, sc.digamma(r) * sc.rgamma(r))


def _power_series(v: Any, x: Any, y: Any) -> Any:
    """The derivative of jv by its order from its power series, for x up to 8."""
    q = -x * x / 4
    term, total = np.ones_like(x), np.zeros_like(x)
    for k in range(60):
        term = term * q / k if k else term
        total = total + term * _digamma_over_gamma(v + k + 1)
    return y * np.log(x / 2) - np.power(x / 2, v) * total


def _log_slope(v: Any, x: Any, sign: float) -> tuple[Any, Any]:
    """The slope of log(J), or of log(I) for sign 1, by v >= 0 where the series does not cancel; and the series."""
    from scipy import special as sc

    q = sign * x * x / 4
    term, total = np.ones_like(x), np.ones_like(x)
    digamma = sc.digamma(v + 1)
    mixed = digamma + 0.0
    for k in range(1, 20000):
        term = term * q / (k * (v + k))
        digamma = digamma + 1 / (v + k)
        total, mixed = total + term, mixed + term * digamma
        if not bool(np.any(abs(term) > 1e-18 * abs(total))):
            break
    return np.log(x / 2) - mixed / total, total


def _downward(v: Any, x: Any, y: Any) -> Any:
    """The derivative of jv by its order where v > x: from an order at which the series holds, by recurrence."""
    m = int(np.ceil(np.max(np.maximum(x * x / 24 - 1 - v, 0)))) + 1
    order = v + m
    slope, total = _log_slope(order, x, -1)
    higher_slope, higher_total = _log_slope(order + 1, x, -1)
    higher = x / 2 / (order + 1) * higher_total / total
    higher_slope = higher_slope * higher
    for _ in range(m):
        # J(n - 1) + J(n + 1) = 2 n J(n) / x and its derivative by n, scaled so that J(n) is 1.
        lower = 2 * order / x - higher
        lower_slope = 2 * order / x * slope + 2 / x - higher_slope
        higher, higher_slope, slope = 1 / lower, slope / lower, lower_slope / lower
        order = order - 1
    return y * slope


_RESOLVED = 20000.0  # beyond this much of order and argument an element would take megabytes


def _arch(v: Any, x: Any) -> tuple[Any, Any]:
    """Nodes and weights on (0, pi), in panels that each see a few oscillations of this order and argument."""
    reach = abs(x) + abs(v)
    panels = 1 + int(np.max(np.where(reach < _RESOLVED, reach, 0.0), initial=0.0) // 16)
    z, w = _legendre(48)
    starts = np.arange(panels)[:, None]
    nodes = (starts + (1 + z) / 2) * (np.pi / panels)
    return nodes.reshape(-1), np.tile(w, panels) * (np.pi / panels / 2)


def _resolved(v: Any, x: Any, out: Any) -> Any:
    """NaN where the quadrature would not be right: for negative arguments and far out."""
    return np.where((x > 0) & (abs(x) + abs(v) < _RESOLVED), out, np.nan)


def _decay(v: Any, x: Any) -> tuple[Any, Any]:
    """Nodes and weights on a range over which exp(v t - x sinh(t)) falls to 0."""
    return _interval(200, np.arcsinh((_FULL + 60 * abs(v)) / x))


@_quiet
def jv_order(v: Any, x: Any) -> Any:
    """The derivative of jv(v, x) by v for x > 0: by series, by recurrence, or from Schläfli's integral."""
    from scipy import special as sc

    y = sc.jv(v, x)
    ratio = (x * x / 4 <= 6 * (v + 1)) & (v >= 0)
    short = (x <= 8) & ~ratio
    high = (v > x) & ~ratio & ~short & (v < _RESOLVED)
    angle, w = _arch(v, x)
    V, X = v[..., None], x[..., None]
    out = -(angle * np.sin(V * angle - X * np.sin(angle)) * w).sum(axis=-1) / np.pi
    t, w = _decay(v, x)
    e = np.exp(-X * np.sinh(t) - V * t) * w
    out = out + np.sin(np.pi * v) / np.pi * (t * e).sum(axis=-1) - np.cos(np.pi * v) * e.sum(axis=-1)
    if bool(np.any(ratio)):
        out = np.where(ratio, y * _log_slope(np.where(ratio, v, 1.0), np.where(ratio, x, 0.1), -1)[0], out)
    if bool(np.any(short)):
        out = np.where(short, _power_series(v, np.where(short, x, 1.0), y), out)
    if bool(np.any(high)):
        out = np.where(high, _downward(np.where(high, v, 1.0), np.where(high, x, 0.1), y), out)
    return np.where(x == 0, np.where(v > 0, 0.0, -np.inf), _resolved(v, x, out))


@_quiet
def yv_order(v: Any, x: Any) -> Any:
    """The derivative of yv(v, x) by v for x > 0, from Schläfli's integral."""
    angle, w = _arch(v, x)
    V, X = v[..., None], x[..., None]
    out = -(angle * np.cos(X * np.sin(angle) - V * angle) * w).sum(axis=-1) / np.pi
    t, w = _decay(v, x)
    rising, falling = np.exp(V * t - X * np.sinh(t)) * w, np.exp(-V * t - X * np.sinh(t)) * w
    out = out - (t * rising).sum(axis=-1) / np.pi + np.cos(np.pi * v) * (t * falling).sum(axis=-1) / np.pi
    return _resolved(v, x, out + np.sin(np.pi * v) * falling.sum(axis=-1))


@_quiet
def iv_order(v: Any, x: Any) -> Any:
    """The derivative of log(iv(v, x)) by v for v >= 0 and x > 0, from the series, whose terms are all positive."""
    return np.where((v < 0) | (x <= 0), np.nan, _log_slope(np.maximum(v, 0), x, 1)[0])


@_quiet
def kve_order(v: Any, x: Any) -> Any:
    """The derivative of kve(v, x) by v for x > 0, from an integral of a positive function."""
    size = abs(v)
    t, w = _decay(size, x)
    V, X = size[..., None], x[..., None]
    # cosh(t) - 1, without cancellation.
    e = np.exp(V * t - 2 * X * np.sinh(t / 2) ** 2)
    out = (t * -np.expm1(-2 * V * t) / 2 * e * w).sum(axis=-1)
    return np.where(x <= 0, np.nan, np.sign(v) * out)
