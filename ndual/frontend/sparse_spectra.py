"""Eigenvalues, singular values and their vectors of sparse matrices with duals, a few at a time.

The routine finds each pair, and the equation that it solves, with the pair's length and phase, says how it moves: one
factorisation a pair, of the matrix with a row and a column more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend.detached import detached
from ndual.frontend.implicit import settled, still, valued
from ndual.frontend.operators import Operand, adjoint_of
from ndual.frontend.sparse_iterative import backed, given_to, is_quiet
from ndual.frontend.sparse_matrix import lifted, refuse
from ndual.rules import registry

EIGEN = "eigsh eigs lobpcg"
# Values closer to each other than this part of the largest are one value, whose vectors have no derivative.
_SAME = 1e-9


class _Repeated:
    """What there is instead of a factorisation where values coincide."""

    def solve(self, b: Any, trans: str) -> Any:
        """No solution but that of zeros."""
        registry.undefined("eigenvalues or singular values that coincide: their vectors may turn, and jump")
        return np.where(b == 0, b, np.nan)


def _bordered(blocks: list[list[Any]], repeated: bool) -> Any:
    """The factorisation of a matrix of blocks."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    if not repeated:
        rows = [[sparse.csc_array(np.atleast_2d(b) if isinstance(b, np.ndarray) else b) for b in row] for row in blocks]
        try:
            lu = splu(sparse.block_array(rows, format="csc"))
        except RuntimeError:  # exactly singular
            return _Repeated()
        pivots = abs(lu.U.diagonal())
        if pivots.min() > _SAME * pivots.max():
            return lu
    return _Repeated()


def _length(v: Any, first: Any, times: Callable[[Any], Any]) -> Any:
    """What stays zero as a vector moves: the change of its length, and of its phase against the first one."""
    image = times(v)
    gone = (np.sum(np.real(np.conj(v) * image)) - 1.0) / 2
    if first.dtype.kind != "c":
        return gone
    return gone + 1j * np.imag(np.sum(np.conj(first) * image))


def _one(obj: Any) -> Any:
    return obj.reshape(1)


def _is_repeated(values: Any, k: int) -> bool:
    others = np.delete(values, k)
    return bool((abs(others - values[k]) <= _SAME * abs(values).max()).any())


def _matrices(a: Operand, metric: Operand | None, name: str) -> None:
    if any(m is not None and hasattr(m.matrix, "matvec") for m in (a, metric)):
        raise refuse(f"{name} of a linear operator with duals", "Pass a sparse or a dense matrix")


def eigen(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Values and vectors of A v = w M v."""
    given = given_to(original, args, kwargs, defaults=False)
    name = original.__name__
    key = "B" if name == "lobpcg" else "M"
    if is_quiet(*(given.get(k) for k in ("A", "B", "M", "X", "Y", "v0", "sigma", "Minv", "OPinv"))):
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    a, metric = Operand(given["A"]), None if given.get(key) is None else Operand(given[key])
    moves = a.active or (metric is not None and metric.active)
    if moves and any(given.get(k) for k in ("retLambdaHistory", "retResidualNormsHistory")):
        raise refuse(f"{name} with a history", "Leave it out")
    if moves and given.get("Y") is not None:
        raise refuse(f"{name} with constraints, Y=", "Project the matrix")
    plain = {k: v if k in ("A", key) else detached(lifted(v), {}) for k, v in given.items() if k != "A"}
    if metric is not None:
        plain[key] = metric.plain
    found = original(a.plain, **plain)
    if not a.active and not (metric is not None and metric.active):
        return found
    _matrices(a, metric, name)
    values_only = given.get("return_eigenvectors") is False
    values, vectors = original(a.plain, **plain | {"return_eigenvectors": True}) if values_only else found[:2]
    if values_only:  # which SciPy sorts otherwise
        order = abs(found[:, None] - values).argmin(axis=1)
        values, vectors = found, vectors[:, order]
    pairs = [_pair(a, metric, values, vectors, k, name != "eigs") for k in range(values.size)]
    moved = valued(np.concatenate([_one(w) for _, w in pairs]), values)
    return moved if values_only else (moved, valued(np.stack([v for v, _ in pairs], -1), vectors))


def _pair(a: Operand, metric: Operand | None, values: Any, vectors: Any, k: int, hermitian: bool) -> tuple[Any, Any]:
    w, v = values[k], np.ascontiguousarray(vectors[:, k])

    def times(x: Any) -> Any:
        return x if metric is None else metric.times(x)

    from scipy import sparse

    m = sparse.eye_array(v.size) if metric is None else sparse.csc_array(metric.plain)
    image = m @ v
    slope = _bordered(
        [[sparse.csc_array(a.plain) - w * m, -image[:, None]], [np.conj(image), np.zeros((1, 1))]],
        _is_repeated(values, k),
    )

    def improve(x: Any, value: Any) -> tuple[Any, ...]:
        residual = value * times(x) - a.times(x)
        step = backed(still(np.concatenate([residual, _one(-_length(x, v, times))])), slope)
        last = step[-1:]
        return x + step[:-1], value + (np.real(last) if hermitian else last)

    moved = settled((v, np.array([w])), improve)
    return moved[0], moved[1]


def singular(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Singular values and vectors: A v = s u, A^H u = s v."""
    given = given_to(original, args, kwargs, defaults=False)
    if is_quiet(given["A"], given.get("v0")):
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    a = Operand(given["A"])
    plain = {k: detached(lifted(v), {}) for k, v in given.items() if k != "A"}
    wanted = plain.get("return_singular_vectors", True)
    found = original(a.plain, **plain)
    if not a.active:
        return found
    _matrices(a, None, "svds")
    values = found if wanted is False else found[1]
    u, s, vh = found if wanted is True else original(a.plain, **plain | {"return_singular_vectors": True})
    order = abs(values[:, None] - s).argmin(axis=1)
    u, vh = u[:, order], vh[order]
    if wanted == "u" and found[0] is not None:
        u = found[0]
    if wanted == "vh" and found[2] is not None:
        vh = found[2]
    triples = [_triple(a, values, u, vh, k) for k in range(values.size)]
    moved = valued(np.concatenate([_one(t[2]) for t in triples]), values)
    if wanted is False:
        return moved
    left = valued(np.stack([t[0] for t in triples], -1), u)
    right = valued(np.stack([np.conj(t[1]) for t in triples]), vh)
    return None if found[0] is None else left, moved, None if found[2] is None else right


def _triple(a: Operand, values: Any, lefts: Any, rights: Any, k: int) -> tuple[Any, ...]:
    from scipy import sparse

    s, u, v = values[k], np.ascontiguousarray(lefts[:, k]), np.conj(rights[k])
    m, n = a.plain.shape
    matrix = sparse.csc_array(a.plain)
    slope = _bordered(
        [
            [-s * sparse.eye_array(m), matrix, -u[:, None]],
            [adjoint_of(matrix), -s * sparse.eye_array(n), -v[:, None]],
            [np.zeros((1, m)), np.conj(v), np.zeros((1, 1))],
        ],
        _is_repeated(values, k) or s <= _SAME * values.max(),
    )

    def improve(x: Any, y: Any, value: Any) -> tuple[Any, ...]:
        parts = [value * x - a.times(y), value * y - a.adjoint_times(x), _one(-_length(y, v, lambda t: t))]
        step = backed(still(np.concatenate(parts)), slope)
        return x + step[:m], y + step[m:-1], value + np.real(step[-1:])

    return settled((u, v, np.array([s])), improve)


HANDLERS: dict[str, Callable[..., Any]] = {
    **{f"scipy.sparse.linalg.{name}": eigen for name in EIGEN.split()},
    "scipy.sparse.linalg.svds": singular,
}
