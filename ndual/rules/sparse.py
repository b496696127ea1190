"""Products of a sparse matrix of constants with dense arrays, and what solves with one."""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import structured


def product(a: Any, x: Any) -> Any:
    """``a @ x``: what SciPy's matrices do with a dense array, as a function with a rule."""
    return a @ x


def _columns(xp: Any, t: Any, map_columns: Any) -> Any:
    """A map of columns applied to every lane at once: all lanes become columns of one matrix."""
    moved = xp.moveaxis(t, 0, -1)
    out = map_columns(moved.reshape(moved.shape[0], -1))
    return xp.moveaxis(out.reshape(out.shape[0], *moved.shape[1:]), -1, 0)


def _adjoint(a: Any) -> Any:
    return a.conj().T if a.dtype.kind == "c" else a.T


def _real(w: Any, x: Any) -> Any:
    return w.real if w.dtype.kind == "c" and x.dtype.kind != "c" else w


def _product_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], a: Any) -> tuple[Any]:
    return (_real(_adjoint(a) @ w, x[0]),)


@structured("ndual.rules.sparse.product", "(a) x", _product_vjp)
def _product_jvp(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], a: Any) -> Any:
    """A times every lane."""
    return _columns(xp, dx[0], lambda columns: a @ columns)


def _spsolve_vjp(xp: Any, w: Any, y: Any, x: tuple[Any], a: Any, **options: Any) -> tuple[Any]:
    return (_real(_solve(_adjoint(a), w, options), x[0]),)


def _solve(a: Any, b: Any, options: dict[str, Any]) -> Any:
    from scipy.sparse.linalg import spsolve

    return spsolve(a, b, **options)


@structured("scipy.sparse.linalg.spsolve", "(a) b", _spsolve_vjp, permc_spec=None, use_umfpack=True)
def _spsolve_jvp(xp: Any, y: Any, x: tuple[Any], dx: tuple[Any], a: Any, **options: Any) -> Any:
    """All lanes are right-hand sides of one factorisation; a column counts as a vector, as in the value."""
    b = x[0]
    t = dx[0].reshape(len(dx[0]), *y.shape) if b.ndim == 2 and b.shape[1] == 1 else dx[0]
    return _columns(xp, t, lambda columns: _solve(a, columns, options).reshape(columns.shape))
