"""Rules for the Python functions of scipy.special that reduce: logsumexp, softmax and log_softmax."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import kept, lane_axes, quiet, spread, strong_multiply, truth, unbroadcast


def _softmax(xp: Any, a: Any, y: Any) -> Any:
    """exp(a - y), where an element that is +inf counts as one, and -inf as nothing, even if there is nothing else."""
    difference = xp.where((a == y) & (y == xp.inf), 0, a - y)
    return xp.exp(xp.where(y == -xp.inf, -xp.inf, difference))


def _weights(
    xp: Any, y: Any, x: tuple[Any, ...], axis: Any, keepdims: Any, return_sign: Any
) -> tuple[Any, Any, tuple[int, ...]]:
    """The derivatives with respect to a and b before the sum, and the shape that is reduced."""
    a, b = x
    value, sign = y if truth(return_sign) else (y, None)
    shape = a.shape if b is None else xp.broadcast_shapes(a.shape, b.shape)
    soft = _softmax(xp, xp.broadcast_to(a, shape), kept(xp.asarray(value), axis, keepdims, shape))
    if sign is not None:
        soft = soft * kept(xp.asarray(sign), axis, keepdims, shape)
    return (soft if b is None else soft * b), soft, shape


@quiet
def _logsumexp_vjp(
    xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: Any, keepdims: Any, return_sign: Any
) -> tuple[Any, ...]:
    a, b = x
    of_a, of_b, shape = _weights(xp, y, x, axis, keepdims, return_sign)
    w = kept(xp.asarray(w[0] if truth(return_sign) else w), axis, keepdims, shape)
    return (
        unbroadcast(strong_multiply(xp, of_a, w), a.shape),
        None if b is None else unbroadcast(strong_multiply(xp, of_b, w), b.shape),
    )


@structured("scipy.special.logsumexp", "a (axis) b?", _logsumexp_vjp, axis=None, keepdims=False, return_sign=False)
@quiet
def logsumexp(
    xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: Any, keepdims: Any, return_sign: Any
) -> Any:
    """The softmax-weighted sum of the lanes; active weights b add exp(a - y) db."""
    of_a, of_b, shape = _weights(xp, y, x, axis, keepdims, return_sign)
    out = None
    for t, weight in zip(dx, (of_a, of_b), strict=True):
        if t is not None:
            part = strong_multiply(xp, weight, spread(t, len(shape)))
            part = part.sum(axis=lane_axes(axis, len(shape)), keepdims=truth(keepdims))
            out = part if out is None else out + part
    return (out, None) if truth(return_sign) else out


def _softmax_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any) -> tuple[Any]:
    g = w * y
    axes = tuple(a - 1 for a in lane_axes(axis, y.ndim))
    return (g - y * g.sum(axis=axes, keepdims=True),)


@structured("scipy.special.softmax", "x", _softmax_vjp, axis=None)
def softmax(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any) -> Any:
    """Gives y (dx - sum(y dx))."""
    return y * (dx[0] - (y * dx[0]).sum(axis=lane_axes(axis, x[0].ndim), keepdims=True))


def _log_softmax_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], axis: Any) -> tuple[Any]:
    axes = tuple(a - 1 for a in lane_axes(axis, x[0].ndim))
    return (w - xp.exp(y) * w.sum(axis=axes, keepdims=True),)


@structured("scipy.special.log_softmax", "x", _log_softmax_vjp, axis=None)
def log_softmax(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], axis: Any) -> Any:
    """Dx - sum(exp(y) dx)."""
    return dx[0] - (xp.exp(y) * dx[0]).sum(axis=lane_axes(axis, x[0].ndim), keepdims=True)
