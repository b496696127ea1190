"""Rules for scipy.linalg.eigh: generalised problems of each type, and parts of the spectrum.

With C = B^-1, the types 2 (A B v = w v) and 3 (B A v = w v) are A u = w C u with u = B v, and with u = v.
"""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose
from ndual.rules.stacks import stacked
from ndual.rules.support import adjoint, scipy_linalg, truth
from ndual.rules.triangular import literal, whole

_EIGH: dict[str, Any] = {
    "lower": True,
    "eigvals_only": False,
    "overwrite_a": False,
    "overwrite_b": False,
    "type": 1,
    "check_finite": True,
    "subset_by_index": None,
    "subset_by_value": None,
    "driver": None,
}
Pair = tuple[Any, Any]


class _Problem:
    """What tangents and cotangents of one call have in common."""

    def __init__(self, xp: Any, y: Any, x: Pair, low: bool, values_only: bool, params: dict[str, Any]) -> None:
        self.xp, self.low = xp, low
        self.kind = 1 if x[1] is None else params["type"]
        part = {key: params[key] for key in ("subset_by_index", "subset_by_value") if params[key] is not None}
        self.values = y if values_only else y[0]
        self.vectors = self._solved(x, part)[1] if values_only else y[1]
        self.b = None if x[1] is None else whole(xp, x[1], low)
        self.inverse = None if self.kind == 1 else xp.linalg.inv(self.b)
        self.u = xp.matmul(self.b, self.vectors) if self.kind == 2 else self.vectors
        self.among: Any = None
        if part and not values_only:
            values, vectors = self._solved(x, {})
            start = self._start(values, params)
            stop = start + self.values.shape[0]
            all_u = xp.matmul(self.b, vectors) if self.kind == 2 else vectors
            # The vectors of the part in their own sign or phase.
            self.among = values, xp.concatenate((all_u[:, :start], self.u, all_u[:, stop:]), -1), start

    def _solved(self, x: Pair, part: dict[str, Any]) -> Any:
        options = {"lower": self.low, **part}
        library = scipy_linalg(self.xp)
        return library.eigh(x[0], **options) if x[1] is None else library.eigh(*x, type=self.kind, **options)

    def _start(self, values: Any, params: dict[str, Any]) -> int:
        """The number of the first value of the part."""
        if params["subset_by_index"] is not None:
            return int(params["subset_by_index"][0])
        return 0 if not self.values.shape[0] else int(abs(values - self.values[0]).argmin())

    def metric(self, db: Any) -> Any:
        """Lanes of what stands in the place of B."""
        if db is None or self.kind == 1:
            return db
        return -self.xp.matmul(self.xp.matmul(self.inverse, db), self.inverse)


def _of_all(x: Pair, params: dict[str, Any]) -> bool:
    """Whether the whole spectrum is asked for, and no operand is broadcast: such stacks are taken at once."""
    whole_spectrum = params["subset_by_index"] is None and params["subset_by_value"] is None
    return whole_spectrum and (x[1] is None or x[0].shape == x[1].shape)


def _problem(xp: Any, y: Any, x: Pair, lower: Any, eigvals_only: Any, params: dict[str, Any]) -> _Problem:
    return _Problem(xp, y, x, truth(lower), truth(eigvals_only), params)


def _eigh_vjp(xp: Any, w: Any, y: Any, x: Pair, lower: Any, eigvals_only: Any, **params: Any) -> Pair:
    p = _problem(xp, y, x, lower, eigvals_only, params)
    gw, gv = (w, None) if truth(eigvals_only) else w
    gu = xp.matmul(p.inverse, gv) if p.kind == 2 and gv is not None else gv
    ga = literal(xp, decompose.eigh_cotangent(xp, p.values, p.u, gw, gu, p.among), p.low)
    if x[1] is None:
        return ga, None
    g = decompose.eigh_metric_cotangent(xp, p.values, p.u, gw, gu, p.among)
    if p.kind == 2 and gv is not None:
        g = g + xp.matmul(gv, adjoint(xp, p.u))
    if p.kind != 1:
        g = -xp.matmul(xp.matmul(p.inverse, g), p.inverse)
    return ga, literal(xp, g, p.low)


@stacked("scipy.linalg.eigh", "a b?", "2 2", _eigh_vjp, native=_of_all, **_EIGH)
def eigh(xp: Any, y: Any, x: Pair, dx: Pair, lower: Any, eigvals_only: Any, **params: Any) -> Any:
    """With M = V^H (dA - w dB) V: dw = diag(M), dV = V (M / gaps), less half of V^H dB V on the diagonal."""
    p = _problem(xp, y, x, lower, eigvals_only, params)
    da, db = (None if t is None else whole(xp, t, p.low) for t in dx)
    dw, du = decompose.eigh_lanes(xp, p.values, p.u, da, p.metric(db), not truth(eigvals_only), p.among)
    if truth(eigvals_only):
        return dw
    if p.kind == 2:
        du = xp.matmul(p.inverse, du if db is None else du - xp.matmul(db, p.vectors))
    return dw, du


def _eigvalsh_vjp(xp: Any, w: Any, y: Any, x: Pair, **params: Any) -> Pair:
    return _eigh_vjp(xp, w, y, x, eigvals_only=True, **params)


@stacked(
    "scipy.linalg.eigvalsh", "a b?", "2 2", _eigvalsh_vjp,
    native=_of_all, **{k: v for k, v in _EIGH.items() if k != "eigvals_only"},
)  # fmt: skip
def eigvalsh(xp: Any, y: Any, x: Pair, dx: Pair, **params: Any) -> Any:
    """diag(V^H (dA - w dB) V)."""
    return eigh(xp, y, x, dx, eigvals_only=True, **params)
