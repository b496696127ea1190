"""Norms: one local gradient for every order of vector and matrix norms, and the condition number.

At a norm of 0 the gradient is 0; where several entries or rows attain a maximum they share it equally.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, structured
from ndual.rules.support import axis_tuple, local_gradient, one_axis, shape_product


def _direction(xp: Any, x: Any) -> Any:
    """The sign of each element, x/|x| if it is complex, 0 at 0."""
    if x.dtype.kind != "c":
        return xp.sign(x)
    size = xp.abs(x)
    return xp.where(size == 0, 0, x / xp.where(size == 0, 1, size))


def _shared(xp: Any, size: Any, axis: Any, largest: bool) -> Any:
    """Equal shares of those that attain an extreme.

    It is found anew: NumPy's |z| of complex numbers differs in its last digit with the layout in memory.
    """
    hit = size == (size.max(axis=axis, keepdims=True) if largest else size.min(axis=axis, keepdims=True))
    return hit / xp.maximum(hit.sum(axis=axis, keepdims=True), 1)


def _safe(xp: Any, y: Any, value: Any) -> Any:
    """`value`, computed for y != 0, and 0 elsewhere."""
    return xp.where(y == 0, 0, value)


def _vector(xp: Any, y: Any, x: Any, order: Any, axis: tuple[int, ...]) -> Any:
    size = xp.abs(x)
    if order == 0:
        return xp.zeros_like(x)
    if order is None or order == 2:
        return _safe(xp, y, x / xp.where(y == 0, 1, y))
    if order == 1:
        return _direction(xp, x)
    if order in (float("inf"), -float("inf")):
        return _shared(xp, size, axis, order > 0) * _direction(xp, x)
    ratio = size / xp.where(y == 0, 1, y)
    powers = xp.where(size == 0, 0, xp.where(size == 0, 1, ratio) ** (order - 1))
    return _safe(xp, y, _direction(xp, x) * powers)


def _matrix(xp: Any, y: Any, x: Any, order: Any, axis: tuple[int, int]) -> Any:
    if order is None or order in ("fro", "f"):
        return _safe(xp, y, x / xp.where(y == 0, 1, y))
    rows, columns = axis
    if order in (1, -1, float("inf"), -float("inf")):
        along, other = (rows, columns) if abs(order) == 1 else (columns, rows)
        sums = xp.abs(x).sum(axis=along, keepdims=True)
        return _shared(xp, sums, (other,), order > 0) * _direction(xp, x)
    m = xp.moveaxis(x, axis, (-2, -1))
    u, s, vh = xp.linalg.svd(m, full_matrices=False)
    if order == "nuc":
        weight = xp.where(s == 0, 0, xp.ones_like(s))
    else:
        extreme = s[..., :1] if order == 2 else s[..., -1:]
        weight = _shared(xp, s, (-1,), order == 2) * (extreme != 0)
    return xp.moveaxis(xp.matmul(u * weight[..., None, :], vh), (-2, -1), axis)


@local_gradient("numpy.linalg.norm", "x", ord=None, axis=None, keepdims=False)
@local_gradient("scipy.linalg.norm", ord=None, axis=None, keepdims=False, check_finite=True)
def _norm_gradient(xp: Any, y: Any, x: Any, axis: Any, **params: Any) -> Any:
    """The gradient of numpy.linalg.norm and scipy.linalg.norm, by order and by the number of axes."""
    axes, order = axis_tuple(axis, x.ndim), params["ord"]
    if axis is None and (order is None or (order in ("f", "fro") and x.ndim == 2) or (order == 2 and x.ndim == 1)):
        return _vector(xp, y, x, 2, axes)
    if len(axes) == 2:
        return _matrix(xp, y, x, order, (axes[0], axes[1]))
    return _vector(xp, y, x, order, axes)


@local_gradient("numpy.linalg.vector_norm", "x", axis=None, keepdims=False, ord=2)
def _vector_norm_gradient(xp: Any, y: Any, x: Any, axis: Any, **params: Any) -> Any:
    """The gradient of numpy.linalg.vector_norm, over any number of axes."""
    return _vector(xp, y, x, params["ord"], axis_tuple(axis, x.ndim))


def _matrix_reduced(keepdims: Any = False, **_: Any) -> tuple[Any, Any]:
    return (-2, -1), keepdims


@local_gradient("numpy.linalg.matrix_norm", "x", _matrix_reduced, keepdims=False, ord="fro")
def _matrix_norm_gradient(xp: Any, y: Any, x: Any, **params: Any) -> Any:
    """The gradient of numpy.linalg.matrix_norm."""
    return _matrix(xp, y, x, params["ord"], (x.ndim - 2, x.ndim - 1))


@composition("numpy.linalg.cond")
def cond(xp: Any, x: Any, p: Any = None) -> Any:
    """The quotient of the extreme singular values, or the product of the norms of matrix and inverse."""
    if p is None or p in (2, -2):
        s = xp.linalg.svd(x, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    # NumPy inverts in double precision.
    wide = xp.complex128 if x.dtype.kind == "c" else xp.float64
    out = xp.linalg.norm(x, p, (-2, -1)) * xp.linalg.norm(xp.linalg.inv(x.astype(wide)), p, (-2, -1))
    return out.astype(x.real.dtype)


def _chain(xp: Any, x: tuple[Any, ...]) -> tuple[list[Any], list[Any], list[Any]]:
    """The factors as matrices, with the products before and after each."""
    mats = [a.reshape(1, -1) if a.ndim == 1 and i == 0 else a for i, a in enumerate(x)]
    mats[-1] = mats[-1].reshape(-1, 1) if mats[-1].ndim == 1 else mats[-1]
    before, after = [None], [None]
    for m in mats[:-1]:
        before.append(m if before[-1] is None else xp.matmul(before[-1], m))
    for m in mats[:0:-1]:
        after.append(m if after[-1] is None else xp.matmul(m, after[-1]))
    return mats, before, after[::-1]


def _multi_dot_vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...]) -> tuple[Any, ...]:
    mats, before, after = _chain(xp, x)
    w = xp.asarray(w).reshape(mats[0].shape[0], mats[-1].shape[1])
    out = []
    for a, left, right in zip(x, before, after, strict=True):
        g = w if left is None else xp.matmul(xp.conj(left).T, w)
        g = g if right is None else xp.matmul(g, xp.conj(right).T)
        out.append(g.reshape(a.shape))
    return tuple(out)


@structured("numpy.linalg.multi_dot", "*arrays", _multi_dot_vjp, out=None)
def multi_dot(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...]) -> Any:
    """For each factor the product of those before it, its lanes and the product of those after it."""
    mats, before, after = _chain(xp, x)
    total = None
    for m, t, left, right in zip(mats, dx, before, after, strict=True):
        if t is not None:
            part = t.reshape(t.shape[0], *m.shape)
            part = part if left is None else xp.matmul(left, part)
            part = part if right is None else xp.matmul(part, right)
            total = part if total is None else total + part
    assert total is not None
    return total.reshape(total.shape[0], *xp.shape(y))


@composition("numpy.linalg.matrix_power")
def matrix_power(xp: Any, a: Any, n: int) -> Any:
    """Repeated squaring, as NumPy does it; a negative power inverts first."""
    if n == 0:
        return xp.broadcast_to(xp.eye(xp.shape(a)[-1], dtype=a.dtype), xp.shape(a)).copy()
    if n < 0:
        a, n = xp.linalg.inv(a), -n
    if n == 1:
        return a
    if n <= 3:
        square = xp.matmul(a, a)
        return square if n == 2 else xp.matmul(square, a)
    out = power = None
    while n > 0:
        power = a if power is None else xp.matmul(power, power)
        n, bit = divmod(n, 2)
        if bit:
            out = power if out is None else xp.matmul(out, power)
    return out


@composition("numpy.linalg.tensorinv")
def tensorinv(xp: Any, a: Any, ind: int = 2) -> Any:
    """The inverse of the matrix that maps the last axes to the first ones."""
    shape = xp.shape(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    rows, columns = shape[:ind], shape[ind:]
    return xp.reshape(xp.linalg.inv(xp.reshape(a, (-1, shape_product(columns)))), columns + rows)


@composition("numpy.linalg.tensorsolve")
def tensorsolve(xp: Any, a: Any, b: Any, axes: Any = None) -> Any:
    """The solution of the matrix equation over several axes at once."""
    if axes is not None:
        ndim = xp.ndim(a)
        moved = [one_axis(k, ndim) for k in axes]
        a = xp.transpose(a, [k for k in range(ndim) if k not in moved] + moved)
    shape = xp.shape(a)[xp.ndim(b) - xp.ndim(a) :] if xp.ndim(b) != xp.ndim(a) else ()
    return xp.reshape(xp.linalg.solve(xp.reshape(a, (-1, shape_product(shape))), xp.ravel(b)), shape)
