"""Arrays made like a dual: their derivative is zero, and they are dual themselves, since duals will be written to them.

A constant map is the zero map as far as lanes go, so these are linear rules; a fill value may be
active itself.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, linear


def _zero(xp: Any, w: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return xp.zeros_like(x)


@linear("numpy.zeros_like", _zero)
@linear("numpy.ones_like", _zero)
@linear("numpy.empty_like", _zero)
def zero_lanes(xp: Any, t: Any, x: Any, *args: Any, shape: Any = None, **kwargs: Any) -> Any:
    """Lanes of zeros for an array like `x`."""
    if shape is None:
        return xp.zeros_like(t)
    return xp.zeros((t.shape[0], *((shape,) if isinstance(shape, int) else shape)), t.dtype)


@composition("numpy.full_like")
def full_like(
    xp: Any,
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    device: Any = None,
) -> Any:
    """An array like `a` that is then filled; like a constant one, copies of the active fill value."""
    if type(a) is xp.ndarray:
        out = xp.copy(xp.broadcast_to(fill_value, a.shape if shape is None else shape))
        return out.astype(a.dtype if dtype is None else dtype)
    out = xp.empty_like(a, dtype, order, subok, shape)
    out[...] = fill_value
    return out
