"""Rules for polynomials by their coefficients, highest power first: vander, polyval, polyfit, roots and their like.

The functions of numpy.polynomial are Python code over the public functions of NumPy and need no rules of their own.
"""

from __future__ import annotations

import warnings
from typing import Any

from ndual.rules.registry import composition, structured
from ndual.rules.support import array_of, conj, truth


def _shifted_powers(xp: Any, v: Any, increasing: Any) -> Any:
    """The column k x^(k-1) for every column x^k of a Vandermonde matrix."""
    n = v.shape[-1]
    rising = v if truth(increasing) else v[..., ::-1]
    k = xp.arange(n)
    out = xp.concatenate((xp.zeros_like(rising[..., :1]), k[1:] * rising[..., :-1]), -1)
    return out if truth(increasing) else out[..., ::-1]


def _vander_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], N: Any, increasing: Any) -> tuple[Any]:
    return ((conj(xp, _shifted_powers(xp, y, increasing)) * w).sum(axis=-1),)


@structured("numpy.vander", "x", _vander_vjp, N=None, increasing=False)
def vander(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], N: Any, increasing: Any) -> Any:
    """The lane k x^(k-1) dx in the column of x^k."""
    return dx[0][..., None] * _shifted_powers(xp, y, increasing)


@composition("numpy.polyval")
def polyval(xp: Any, p: Any, x: Any) -> Any:
    """Horner's scheme."""
    p = array_of(xp, p)
    y: Any = xp.zeros_like(x) if xp.ndim(x) else 0.0
    for k in range(xp.shape(p)[0]):
        y = y * x + p[k]
    return y


@composition("numpy.polyfit")
def polyfit(
    xp: Any, x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Least squares on the scaled Vandermonde matrix, as NumPy does it."""
    x, y = array_of(xp, x) + 0.0, array_of(xp, y) + 0.0
    order = int(deg) + 1
    if rcond is None:
        rcond = xp.shape(x)[0] * xp.finfo(x.dtype).eps
    left = xp.vander(x, order)
    right = y
    if w is not None:
        w = array_of(xp, w) + 0.0
        left = left * w[:, None]
        right = right * (w[:, None] if xp.ndim(y) == 2 else w)
    scale = xp.sqrt(xp.sum(left * left, 0))
    left = left / scale
    c, residuals, rank, s = xp.linalg.lstsq(left, right, rcond)
    c = xp.transpose(xp.transpose(c) / scale)
    if full:
        return c, residuals, rank, s, rcond
    if rank != order:
        warnings.warn("Polyfit may be poorly conditioned", xp.exceptions.RankWarning, stacklevel=2)
    if not cov:
        return c
    base = xp.linalg.inv(xp.dot(left.T, left)) / xp.outer(scale, scale)
    if isinstance(cov, str) and cov == "unscaled":
        factor: Any = 1
    elif xp.shape(x)[0] <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    else:
        factor = residuals / (xp.shape(x)[0] - order)
    return c, (base if xp.ndim(y) == 1 else base[:, :, None]) * factor


def _vector(xp: Any, p: Any) -> Any:
    return xp.atleast_1d(array_of(xp, p))


@composition("numpy.polyadd")
def polyadd(xp: Any, a1: Any, a2: Any) -> Any:
    """The sum, the shorter one filled with zeros in front."""
    a, b = _vector(xp, a1), _vector(xp, a2)
    missing = xp.shape(b)[0] - xp.shape(a)[0]
    if missing > 0:
        a = xp.concatenate((xp.zeros(missing, a.dtype), a))
    elif missing < 0:
        b = xp.concatenate((xp.zeros(-missing, b.dtype), b))
    return a + b


@composition("numpy.polysub")
def polysub(xp: Any, a1: Any, a2: Any) -> Any:
    """The difference, the shorter one filled with zeros in front."""
    return polyadd(xp, a1, -_vector(xp, a2))


def _trimmed(xp: Any, p: Any) -> Any:
    """Without leading zeros, as the class poly1d keeps its coefficients."""
    p = _vector(xp, p)
    at = xp.flatnonzero(p != 0)
    return p[int(at[0]) :] if at.size else xp.zeros(1, p.dtype)


@composition("numpy.polymul")
def polymul(xp: Any, a1: Any, a2: Any) -> Any:
    """The convolution of the coefficients without leading zeros."""
    return xp.convolve(_trimmed(xp, a1), _trimmed(xp, a2))


@composition("numpy.polydiv")
def polydiv(xp: Any, u: Any, v: Any) -> Any:
    """Long division, step by step."""
    u, v = _vector(xp, u) + 0.0, _vector(xp, v) + 0.0
    rest = u.astype(xp.result_type(u.dtype, v.dtype))
    n = xp.shape(v)[0]
    scale = 1.0 / v[0]
    quotient = []
    for k in range(xp.shape(u)[0] - n + 1):
        d = scale * rest[k]
        quotient.append(d)
        rest = xp.concatenate((rest[:k], rest[k : k + n] - d * v, rest[k + n :]))
    q = xp.stack(quotient) if quotient else xp.zeros(1, rest.dtype)
    while xp.shape(rest)[0] > 1 and xp.allclose(rest[0], 0, rtol=1e-14):
        rest = rest[1:]
    return q, rest


@composition("numpy.polyder")
def polyder(xp: Any, p: Any, m: int = 1) -> Any:
    """Each coefficient times its power, m times."""
    if int(m) < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    p = array_of(xp, p)
    for _ in range(int(m)):
        p = p[:-1] * xp.arange(xp.shape(p)[0] - 1, 0, -1)
    return p


@composition("numpy.polyint")
def polyint(xp: Any, p: Any, m: int = 1, k: Any = None) -> Any:
    """Each coefficient over its new power, m times; the constants of integration may be active."""
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    p = array_of(xp, p)
    k = xp.zeros(max(m, 1)) if k is None else _vector(xp, k)
    if xp.shape(k)[0] == 1 and m > 1:
        k = k * xp.ones(m)
    if xp.shape(k)[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        p = xp.concatenate((p / xp.arange(xp.shape(p)[0], 0, -1), k[i : i + 1]))
    return p


@composition("numpy.roots")
def roots(xp: Any, p: Any) -> Any:
    """The eigenvalues of the companion matrix, and a zero for every trailing coefficient that is zero."""
    p = _vector(xp, p)
    at = xp.flatnonzero(p != 0)
    if at.size == 0:
        return xp.zeros(0)
    trailing = xp.shape(p)[0] - int(at[-1]) - 1
    p = p[int(at[0]) : int(at[-1]) + 1]
    n = xp.shape(p)[0]
    if n == 1:
        return xp.zeros(trailing)
    first = xp.reshape(-p[1:] / p[0], (1, n - 1))
    found = xp.linalg.eigvals(xp.concatenate((first, xp.eye(n - 2, n - 1, dtype=p.dtype)), 0))
    return xp.concatenate((found, xp.zeros(trailing, found.dtype)))


@composition("numpy.poly")
def poly(xp: Any, seq_of_zeros: Any) -> Any:
    """The product of linear factors; a square matrix stands for its eigenvalues."""
    zeros = _vector(xp, seq_of_zeros)
    shape = xp.shape(zeros)
    if len(shape) == 2 and shape[0] == shape[1] != 0:
        zeros = xp.linalg.eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if xp.shape(zeros)[0] == 0:
        return 1.0
    out = xp.ones(1, zeros.dtype)
    for k in range(xp.shape(zeros)[0]):
        out = xp.convolve(out, xp.concatenate((xp.ones(1, zeros.dtype), -zeros[k : k + 1])))
    if out.dtype.kind == "c" and bool(xp.all(xp.sort(zeros) == xp.sort(conj(xp, zeros)))):
        return xp.copy(out.real)
    return out
