"""Rules for scipy.signal: a digital filter by its input and by its coefficients."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import one_axis, refuse

_NAME = "scipy.signal.lfilter"


def _lfilter(b: Any, a: Any, x: Any, axis: int) -> Any:
    from scipy.signal import lfilter

    return lfilter(b, a, x, axis)


def _setup(x: tuple[Any, ...], axis: Any) -> tuple[Any, Any, Any, int]:
    b, a, signal, start = x
    if start is not None:
        raise refuse(_NAME, "initial conditions zi", "Filter a signal that begins with zeros instead.")
    if b.ndim != 1 or a.ndim != 1:
        raise refuse(_NAME, "coefficients that are no vectors", "Pass 1-D arrays b and a.")
    return b, a, signal, one_axis(axis, signal.ndim)


def _flipped(b: Any, a: Any, x: Any, axis: int) -> Any:
    """The filter that runs backwards: the transpose of the filter."""
    back = (slice(None),) * axis + (slice(None, None, -1),)
    return _lfilter(b, a, x[back], axis)[back]


def _vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], axis: Any) -> tuple[Any, ...]:
    b, a, signal, axis = _setup(x, axis)
    one = xp.ones(1, b.dtype)
    u = _flipped(one, xp.conj(a), w, axis)
    n = signal.shape[axis]

    def lagged(of: Any, count: int) -> Any:
        """The products of u with a series at each lag."""
        parts = []
        for k in range(count):
            late = (slice(None),) * axis + (slice(k, None),)
            early = (slice(None),) * axis + (slice(0, max(n - k, 0)),)
            parts.append((u[late] * xp.conj(of[early])).sum())
        return xp.stack(parts)

    found = (lagged(signal, len(b)), -lagged(y, len(a)), _flipped(xp.conj(b), one, u, axis))
    real = [g.real if g.dtype.kind == "c" and v.dtype.kind != "c" else g for g, v in zip(found, x, strict=False)]
    return (*real, None)


@structured(_NAME, "b a x (axis) zi?", _vjp, axis=-1)
def lfilter(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], axis: Any) -> Any:
    """From a(L) y = b(L) x: dy is db(L) x + b(L) dx - da(L) y, through the filter 1 / a(L)."""
    b, a, signal, axis = _setup(x, axis)
    db, da, ds, _ = dx
    one = xp.ones(1, b.dtype)
    total = None if ds is None else _lfilter(b, one, ds, axis + 1)
    for t, series, sign in ((db, signal, 1), (da, y, -1)):
        if t is not None:
            part = xp.stack([sign * _lfilter(lane, one, series, axis) for lane in t])
            total = part if total is None else total + part
    return _lfilter(one, a, total, axis + 1)
