"""Rules for scipy.linalg: bases of ranges and null spaces, angles between them, and Schur's triangular form."""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose
from ndual.rules.decompose import _over
from ndual.rules.stacks import stacked
from ndual.rules.support import adjoint, conj, dense_vjp, quiet, real_as, refuse, scipy_linalg
from ndual.rules.triangular import tri_part

Arrays = tuple[Any, ...]


def _angles_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays) -> Any:
    """With cos(t) = u^H P^H Q v for bases P and Q, and w what completes Q v to P u: - Re(u^H dP^H w), and so for Q.

    A basis moves out of its subspace by (1 - P P^H) dA A^+ P; how it moves within does not count.
    """
    bases, moves = [], []
    for a, t in zip(x, dx, strict=True):
        p = xp.linalg.svd(a, full_matrices=False)[0]
        bases.append(p)
        if t is not None:
            t = xp.matmul(t, xp.matmul(xp.linalg.pinv(a), p))
            t = t - xp.matmul(p, xp.matmul(adjoint(xp, p), t))
        moves.append(t)
    u, cosine, vh = xp.linalg.svd(xp.matmul(adjoint(xp, bases[0]), bases[1]), full_matrices=False)
    sides = xp.matmul(bases[0], u), xp.matmul(bases[1], adjoint(xp, vh))
    turns = u, adjoint(xp, vh)
    out: Any = None
    with xp.errstate(all="ignore"):
        for k, t in enumerate(moves):
            if t is None:
                continue
            beyond = (sides[1 - k] - sides[k] * cosine) / xp.sin(y)[::-1]
            here = -(conj(xp, xp.matmul(t, turns[k])) * beyond).real.sum(axis=-2)
            out = here if out is None else out + here
    return out[..., ::-1]  # the largest angle first


@stacked("scipy.linalg.subspace_angles", "A B", "2 2", dense_vjp(_angles_jvp))
def subspace_angles(xp: Any, y: Any, x: Arrays, dx: Arrays) -> Any:
    """The angles between the columns' spans, where these have full rank."""
    return _angles_jvp(xp, y, x, dx)


def _null_space_vjp(xp: Any, w: Any, y: Any, x: Arrays, **_: Any) -> Arrays:
    p = adjoint(xp, xp.linalg.pinv(x[0]))
    return (real_as(x[0], -xp.matmul(xp.matmul(p, w), adjoint(xp, y))),)


@stacked(
    "scipy.linalg.null_space", "A", "2", _null_space_vjp,
    rcond=None, overwrite_a=False, check_finite=True, lapack_driver="gesdd",
)  # fmt: skip
def null_space(xp: Any, y: Any, x: Arrays, dx: Arrays, **_: Any) -> Any:
    """-A^+ dA N, at constant rank: a basis that does not turn within the space."""
    return -xp.matmul(xp.linalg.pinv(x[0]), xp.matmul(dx[0], y))


def _orth_vjp(xp: Any, w: Any, y: Any, x: Arrays, rcond: Any) -> Arrays:
    u, s, vh = scipy_linalg(xp).svd(x[0], full_matrices=False)
    rest = xp.zeros((u.shape[0], u.shape[1] - y.shape[1]), u.dtype)
    w = xp.concatenate((w, rest), 1)
    return decompose.svd_vjp(xp, (w, None, None), (u, s, vh), x, False, True, False)


@stacked("scipy.linalg.orth", "A", "2", _orth_vjp, rcond=None)
def orth(xp: Any, y: Any, x: Arrays, dx: Arrays, rcond: Any) -> Any:
    """The left singular vectors that belong to the range, at constant rank."""
    found = scipy_linalg(xp).svd(x[0], full_matrices=False)
    return decompose.svd_lanes(xp, *found, dx[0])[0][..., : y.shape[-1]]


def _turn(xp: Any, t: Any, m: Any) -> Any:
    """The part below the diagonal of Z^H dZ, from the lower left corner on, all lanes at once."""
    n = t.shape[-1]
    low = xp.zeros(m.shape, m.dtype)
    for j in range(n):
        for i in range(n - 1, j, -1):
            r = -m[:, i, j]
            if i + 1 < n:
                r = r - xp.matmul(low[:, i + 1 :, j], t[i, i + 1 :])
            if j:
                r = r + xp.matmul(low[:, i, :j], t[:j, j])
            low[:, i, j] = _over(xp, t[i, i] - t[j, j], r)
    return low


@quiet
def _schur_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Any:
    t, z = y[:2]
    if bool((xp.diagonal(t, -1) != 0).any()):
        raise refuse("scipy.linalg.schur", "pairs of complex values in real form", "Use output='complex'.")
    m = xp.matmul(xp.matmul(adjoint(xp, z), dx[0]), z)
    low = _turn(xp, t, m.astype(t.dtype))
    k = low - adjoint(xp, low)
    dt = tri_part(xp, m - xp.matmul(k, t) + xp.matmul(t, k), False)
    return (dt, xp.matmul(z, k), None)[: len(y)]


@stacked(
    "scipy.linalg.schur", "a", "2", dense_vjp(_schur_jvp),
    output="real", lwork=None, overwrite_a=False, sort=None, check_finite=True,
)  # fmt: skip
def schur(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """With M = Z^H dA Z and K = Z^H dZ: K T - T K is M below the diagonal, and what is left of M moves T.

    Vectors keep their phase.
    """
    return _schur_jvp(xp, y, x, dx, **options)
