"""How many directions one forward pass carries, how a sweep is cut into passes, and when reverse mode costs less.

Only this arithmetic lives here: nothing knows arrays or duals.
"""

from __future__ import annotations

from ndual.errors import ArgumentValueError

SCALAR_WIDTH = 16
"""Widest scalar class: beyond it a loop over elements works with arrays, at ten times the price an operation."""

LANE_BYTES = 128 * 1024
"""Lanes of one array of an argument's size in one pass: several such arrays are alive at once and must stay in L2.
A Rosenbrock gradient took, at n = 100, 51 us in one pass and 84 in two; at n = 1000 its best was at 16 lanes."""


REVERSE_FROM = SCALAR_WIDTH + 1
"""Directions from which on a gradient is taken in reverse. Time in reverse over time forward, prepared, at 8, 16,
24, 32, 64 and 256 directions: Rosenbrock's function 1.4, 1.4, 1.2, 1.0, 0.13, 0.03; sum(sin(x) exp(-x*x)) 1.4, 1.2,
1.1, 1.0, 1.2, 0.02; a loop
over numbers 2.0, 0.5, 0.15, 0.4, 0.5, 0.03; a fit to 2000 points 1.7, 0.8, 0.4, 0.3, 0.1, 0.01; a
determinant by Cholesky 1.3, 2.5, 0.3, 0.3, 0.06, 0.01; a layer of tanh 0.5, 1.9, 1.6, 1.4, 1.2, 0.07."""

PASSES_TO_TRY = 4
"""Forward passes of a Jacobian from which on the number of its outputs, which only a run tells, is asked for first."""

OUTPUTS_A_PASS = 4
"""Numbers of the output whose sweeps cost about one forward pass. tanh(W sin(x)) of 256 inputs, 4 passes, took
0.2, 0.5, 0.6, 0.9 and 3.0 times as long in reverse as forward for 1, 4, 16, 32 and 64 outputs; with 1000 inputs, 63
passes, 0.05 at most up to 64 outputs."""


def check_chunk_size(chunk_size: object) -> int | None:
    """Return chunk_size if it is None or a positive int; raise otherwise."""
    if chunk_size is None:
        return None
    if isinstance(chunk_size, bool) or not hasattr(chunk_size, "__index__"):
        raise ArgumentValueError(f"chunk_size expects a positive int or None; got {chunk_size!r}")
    size = int(chunk_size.__index__())
    if size <= 0:
        raise ArgumentValueError(f"chunk_size expects a positive int or None; got {size}")
    return size


def default_width(dof: int, nbytes: int) -> int:
    """The most lanes for `dof` degrees of freedom whose largest argument has `nbytes` bytes."""
    return max(1, min(dof, max(SCALAR_WIDTH, LANE_BYTES // max(nbytes, 1))))


def split(dof: int, limit: int) -> tuple[int, int]:
    """Cut `dof` directions into (passes, width) of at most `limit` each, as even as can be.

    Examples
    --------
    >>> from ndual.chunk import split
    >>> split(10, 4)
    (3, 4)
    >>> split(9, 8)
    (2, 5)
    """
    passes = max(-(-dof // limit), 1)
    return passes, max(-(-dof // passes), 1)
