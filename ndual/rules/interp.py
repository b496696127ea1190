"""Piecewise linear interpolation, with every argument active: the points, the nodes, the values and the ends."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured
from ndual.rules.support import conj, lane_count, scatter_add, zeros_lanes


def _interval(xp: Any, x: Any, nodes: Any) -> tuple[Any, Any, Any]:
    """The number of the interval of each x, and whether it lies left or right of all nodes."""
    last = nodes.shape[0] - 1
    i = xp.clip(xp.searchsorted(nodes, x, "right") - 1, 0, max(last - 1, 0))
    return i, x < nodes[0], x > nodes[last]


class _Interp:
    """The slope and the weights of a piecewise linear interpolation, period and all, shared by both modes."""

    def __init__(self, xp: Any, arrays: tuple[Any, ...], period: Any) -> None:
        x, nodes, values, _, _ = arrays
        self.order = None
        if period is not None:
            period = abs(period)
            x, nodes = xp.mod(x, period), xp.mod(nodes, period)
            self.order = xp.argsort(nodes)
            self.order = xp.concatenate((self.order[-1:], self.order, self.order[:1]))
            nodes, values = nodes[self.order], values[self.order]
            shift = xp.zeros(nodes.shape)
            shift[0], shift[-1] = -period, period
            nodes = nodes + shift
        self.i, self.left, self.right = _interval(xp, x, nodes)
        self.last = nodes.shape[0] - 1
        self.j = xp.minimum(self.i + 1, self.last)
        width = nodes[self.j] - nodes[self.i]
        width = xp.where(width == 0, 1, width)
        inside = ~(self.left | self.right)
        self.slope = xp.where(inside, (values[self.j] - values[self.i]) / width, 0)
        self.weight = xp.where(inside, (x - nodes[self.i]) / width, 0)
        self.inside = inside


def _interp_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], period: Any) -> tuple[Any, ...]:
    s = _Interp(xp, x, period)
    _, nodes, values, left, right = x
    w = xp.asarray(w)
    start, stop = xp.where(s.inside, w * (1 - s.weight), 0), w * s.weight
    low = xp.where(s.left & (left is None), w, 0)
    high = xp.where(s.right & (right is None), w, 0)

    def gather(lower: Any, upper: Any, first: Any, final: Any) -> Any:
        parts = [(s.i, lower), (s.j, upper), (xp.zeros_like(s.i), first), (xp.full_like(s.i, s.last), final)]
        total = None
        for at, part in parts:
            at = at if s.order is None else s.order[at]
            g = scatter_add(xp, at, xp.broadcast_to(part, at.shape), values.shape)
            total = g if total is None else total + g
        return total

    real = conj(xp, s.slope)
    gx = w * real
    g_nodes = gather(-real * start, -real * stop, xp.zeros_like(low), xp.zeros_like(high))
    return (
        gx,
        g_nodes.real.astype(nodes.dtype) if nodes.dtype.kind == "f" else None,
        gather(start, stop, low, high),
        None if left is None else xp.where(s.left, w, 0).sum(),
        None if right is None else xp.where(s.right, w, 0).sum(),
    )


@structured("numpy.interp", "x xp fp left? right?", _interp_vjp, period=None)
def interp(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], period: Any) -> Any:
    """Slope (dx - dnode) plus the weighted tangents of the values; at a node the slope is the right-hand one."""
    s = _Interp(xp, x, period)
    dq, d_nodes, d_values, d_left, d_right = dx
    out = zeros_lanes(xp, lane_count(dx), xp.asarray(y), y.dtype)
    if dq is not None:
        out = out + s.slope * dq
    for t, scale in ((d_nodes, -s.slope), (d_values, 1)):
        if t is not None:
            t = t if s.order is None else t[:, s.order]
            inside = t[:, s.i] * (1 - s.weight) + t[:, s.j] * s.weight
            out = out + xp.where(s.inside, scale * inside, 0)
    if d_values is not None:
        first, final = (0, s.last) if s.order is None else (s.order[0], s.order[-1])
        tail = (slice(None), *(None,) * s.i.ndim)
        out = out + xp.where(s.left & (x[3] is None), d_values[:, first][tail], 0)
        out = out + xp.where(s.right & (x[4] is None), d_values[:, final][tail], 0)
    for t, where in ((d_left, s.left), (d_right, s.right)):
        if t is not None:
            out = out + xp.where(where, t.reshape(-1, *(1,) * s.i.ndim), 0)
    return out
