"""Linear rules that only move elements: reshape, transpose, flip, roll, tile, diagonals and their like.

A function whose value is a view of its input has lanes that are the same view. Joining and cutting lives in
``join.py``, taking by index in ``index.py``.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, linear, passive
from ndual.rules.support import (
    axis_tuple,
    index_map,
    inverse_permutation,
    one_axis,
    scattered,
    shape_product,
    unbroadcast,
)

passive(
    "numpy.shape numpy.ndim numpy.size numpy.result_type numpy.can_cast numpy.min_scalar_type numpy.common_type "
    "numpy.iscomplexobj numpy.isrealobj numpy.isscalar numpy.broadcast_shapes numpy.shares_memory "
    "numpy.may_share_memory numpy.isfortran numpy.iterable numpy.promote_types numpy.issubdtype numpy.typename "
    "numpy.tril_indices_from numpy.triu_indices_from numpy.diag_indices_from",
    looks=False,
)
passive("numpy.array_repr numpy.array_str numpy.array2string numpy.ix_")


def _resolved(x: Any, shape: Any) -> tuple[int, ...]:
    new = tuple(int(n) for n in shape) if hasattr(shape, "__len__") else (int(shape),)
    if -1 not in new:
        return new
    known = -shape_product(new)
    return tuple(x.size // known if n == -1 else n for n in new)


def _fortran(x: Any, order: str) -> bool:
    return order == "F" or (order == "A" and x.flags.f_contiguous and not x.flags.c_contiguous)


def _memory_order(x: Any) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost."""
    return tuple(sorted(range(x.ndim), key=lambda i: -abs(x.strides[i])))


def _reverse_tail(t: Any) -> Any:
    return t.transpose((0, *range(t.ndim - 1, 0, -1)))


def _reshape_t(xp: Any, w: Any, x: Any, shape: Any = None, order: str = "C", copy: Any = None) -> Any:
    return w.reshape(x.shape, order="F" if _fortran(x, order) else "C")


@linear("numpy.reshape", _reshape_t)
def reshape(xp: Any, t: Any, x: Any, shape: Any = None, order: str = "C", copy: Any = None) -> Any:
    """The lanes are reshaped below the lane axis; Fortran order reverses the axes, reshapes and reverses again."""
    new = _resolved(x, shape)
    if _fortran(x, order):
        return _reverse_tail(_reverse_tail(t).reshape((t.shape[0], *new[::-1])))
    out = t.reshape((t.shape[0], *new))
    return out.copy() if copy else out


def _ravel_t(xp: Any, w: Any, x: Any, order: str = "C") -> Any:
    if order == "K":
        axes = _memory_order(x)
        return w.reshape(tuple(x.shape[i] for i in axes)).transpose(inverse_permutation(axes))
    return _reshape_t(xp, w, x, None, order)


@linear("numpy.ravel", _ravel_t)
def ravel(xp: Any, t: Any, x: Any, order: str = "C") -> Any:
    """The lanes are flattened below the lane axis in the order in which the value is read."""
    if order == "K":
        t = t.transpose((0, *(a + 1 for a in _memory_order(x))))
        return t.reshape((t.shape[0], x.size))
    return reshape(xp, t, x, (x.size,), order)


def _permutation(ndim: int, axes: Any) -> tuple[int, ...]:
    return tuple(range(ndim))[::-1] if axes is None else axis_tuple(axes, ndim)


def _transpose_t(xp: Any, w: Any, x: Any, axes: Any = None) -> Any:
    return w.transpose(inverse_permutation(_permutation(x.ndim, axes)))


@linear("numpy.transpose", _transpose_t)
def transpose(xp: Any, t: Any, x: Any, axes: Any = None) -> Any:
    """The lane axis stays first; the transpose is the inverse permutation."""
    return t.transpose((0, *(a + 1 for a in _permutation(x.ndim, axes))))


def _matrix_transpose_t(xp: Any, w: Any, x: Any) -> Any:
    return xp.swapaxes(w, -1, -2)


@linear("numpy.matrix_transpose numpy.linalg.matrix_transpose", _matrix_transpose_t)
def matrix_transpose(xp: Any, t: Any, x: Any) -> Any:
    """Swaps the last two axes of value and lanes alike."""
    return xp.swapaxes(t, -1, -2)


def _swapaxes_t(xp: Any, w: Any, x: Any, axis1: int, axis2: int) -> Any:
    return xp.swapaxes(w, axis1, axis2)


@linear("numpy.swapaxes", _swapaxes_t)
def swapaxes(xp: Any, t: Any, x: Any, axis1: int, axis2: int) -> Any:
    """Its own transpose."""
    return xp.swapaxes(t, one_axis(axis1, x.ndim) + 1, one_axis(axis2, x.ndim) + 1)


def _moveaxis_t(xp: Any, w: Any, x: Any, source: Any, destination: Any) -> Any:
    return xp.moveaxis(w, destination, source)


@linear("numpy.moveaxis", _moveaxis_t)
def moveaxis(xp: Any, t: Any, x: Any, source: Any, destination: Any) -> Any:
    """The transpose moves the axes back."""
    source, destination = axis_tuple(source, x.ndim), axis_tuple(destination, x.ndim)
    return xp.moveaxis(t, [a + 1 for a in source], [a + 1 for a in destination])


def _rolled(x: Any, axis: int, start: int) -> tuple[int, int]:
    axis = one_axis(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    return axis, start - 1 if start > axis else start


def _rollaxis_t(xp: Any, w: Any, x: Any, axis: int, start: int = 0) -> Any:
    axis, target = _rolled(x, axis, start)
    return xp.moveaxis(w, target, axis)


@linear("numpy.rollaxis", _rollaxis_t)
def rollaxis(xp: Any, t: Any, x: Any, axis: int, start: int = 0) -> Any:
    """Moveaxis with rollaxis' count of positions."""
    axis, target = _rolled(x, axis, start)
    return xp.moveaxis(t, axis + 1, target + 1)


def _as_input(xp: Any, w: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return w.reshape(x.shape)


@linear("numpy.squeeze", _as_input)
def squeeze(xp: Any, t: Any, x: Any, axis: Any = None) -> Any:
    """Drops axes of length one below the lane axis."""
    drop = {i for i, n in enumerate(x.shape) if n == 1} if axis is None else set(axis_tuple(axis, x.ndim))
    return t.reshape(t.shape[:1] + tuple(n for i, n in enumerate(x.shape) if i not in drop))


@linear("numpy.expand_dims", _as_input)
def expand_dims(xp: Any, t: Any, x: Any, axis: Any) -> Any:
    """Adds axes of length one below the lane axis."""
    count = x.ndim + (len(axis) if isinstance(axis, tuple | list) else 1)
    return xp.expand_dims(t, tuple(a + 1 for a in axis_tuple(axis, count)))


def _broadcast_t(xp: Any, w: Any, x: Any, shape: Any, subok: bool = False) -> Any:
    return unbroadcast(w, x.shape)


@linear("numpy.broadcast_to", _broadcast_t)
def broadcast_to(xp: Any, t: Any, x: Any, shape: Any, subok: bool = False) -> Any:
    """The transpose sums over the broadcast axes."""
    new = tuple(shape) if hasattr(shape, "__len__") else (shape,)
    t = t.reshape(t.shape[:1] + (1,) * (len(new) - x.ndim) + x.shape)
    return xp.broadcast_to(t, t.shape[:1] + new)


def _flip_t(xp: Any, w: Any, x: Any, axis: Any = None) -> Any:
    return xp.flip(w, axis)


@linear("numpy.flip", _flip_t)
def flip(xp: Any, t: Any, x: Any, axis: Any = None) -> Any:
    """Its own transpose."""
    return xp.flip(t, tuple(a + 1 for a in axis_tuple(axis, x.ndim)))


def _fliplr_t(xp: Any, w: Any, x: Any) -> Any:
    return w[:, ::-1]


@linear("numpy.fliplr", _fliplr_t)
def fliplr(xp: Any, t: Any, x: Any) -> Any:
    """Reverses axis 1, which is axis 2 of the lanes."""
    return t[:, :, ::-1]


def _flipud_t(xp: Any, w: Any, x: Any) -> Any:
    return w[::-1]


@linear("numpy.flipud", _flipud_t)
def flipud(xp: Any, t: Any, x: Any) -> Any:
    """Reverses axis 0, which is axis 1 of the lanes."""
    return t[:, ::-1]


def _rot90_t(xp: Any, w: Any, x: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return xp.rot90(w, -k, axes)


@linear("numpy.rot90", _rot90_t)
def rot90(xp: Any, t: Any, x: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """The transpose turns back."""
    return xp.rot90(t, k, tuple(a + 1 for a in axis_tuple(tuple(axes), x.ndim)))


def _roll_t(xp: Any, w: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    back = tuple(-s for s in shift) if isinstance(shift, tuple | list) else -shift
    return xp.roll(w, back, axis)


@linear("numpy.roll", _roll_t)
def roll(xp: Any, t: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    """The transpose rolls back; without an axis the flattened value is rolled."""
    if axis is None:
        return xp.roll(t.reshape(t.shape[0], x.size), shift, 1).reshape(t.shape)
    axes = tuple(a + 1 for a in axis_tuple(axis, x.ndim))
    return xp.roll(t, shift, axes if isinstance(axis, tuple | list) else axes[0])


@linear("numpy.tile", scattered("tile"))
def tile(xp: Any, t: Any, A: Any, reps: Any) -> Any:
    """The lanes are tiled below the lane axis; the transpose adds the copies."""
    reps = tuple(reps) if hasattr(reps, "__len__") else (reps,)
    rank = max(len(reps), A.ndim)
    t = t.reshape(t.shape[:1] + (1,) * (rank - A.ndim) + A.shape)
    return xp.tile(t, (1, *(1,) * (rank - len(reps)), *reps))


@linear("numpy.repeat", scattered("repeat"))
def repeat(xp: Any, t: Any, a: Any, repeats: Any, axis: Any = None) -> Any:
    """Repeats along the axis; the transpose adds the copies."""
    if axis is None:
        return xp.repeat(t.reshape(t.shape[0], a.size), repeats, 1)
    return xp.repeat(t, repeats, one_axis(axis, a.ndim) + 1)


@linear("numpy.resize", scattered("resize"))
def resize(xp: Any, t: Any, a: Any, new_shape: Any) -> Any:
    """Repeats the flattened value until the new shape is full."""
    return t.reshape(t.shape[0], a.size)[:, index_map(xp, "resize", a, new_shape)]


def _copy_t(xp: Any, w: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return w


@linear("numpy.copy numpy.ascontiguousarray numpy.asfortranarray numpy.asanyarray", _copy_t)
def copy(xp: Any, t: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
    """The identity, on fresh memory."""
    return t.copy()


def _diagonal_t(xp: Any, w: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return scatter_diagonal(xp, w, x, offset, axis1, axis2)


def scatter_diagonal(xp: Any, w: Any, x: Any, offset: int, axis1: int, axis2: int) -> Any:
    """Zeros of the shape of x with `w` on the given diagonals."""
    rows, columns = x.shape[axis1], x.shape[axis2]
    first, second = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first, columns - second), 0)
    out = xp.zeros_like(w, shape=x.shape)
    i = xp.arange(count)
    xp.moveaxis(out, (axis1, axis2), (0, 1))[i + first, i + second] = xp.moveaxis(w, -1, 0)
    return out


@linear("numpy.diagonal", _diagonal_t)
def diagonal(xp: Any, t: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A view in value and lanes; the transpose fills the diagonal of zeros."""
    return xp.diagonal(t, offset, one_axis(axis1, x.ndim) + 1, one_axis(axis2, x.ndim) + 1)


def _linalg_diagonal_t(xp: Any, w: Any, x: Any, *, offset: int = 0) -> Any:
    return scatter_diagonal(xp, w, x, offset, -2, -1)


@linear("numpy.linalg.diagonal", _linalg_diagonal_t)
def linalg_diagonal(xp: Any, t: Any, x: Any, *, offset: int = 0) -> Any:
    """The diagonal of the last two axes."""
    return xp.diagonal(t, offset, -2, -1)


def _diag_t(xp: Any, w: Any, x: Any, k: int = 0) -> Any:
    return xp.diagonal(w, k) if x.ndim == 1 else scatter_diagonal(xp, w, x, k, 0, 1)


@linear("numpy.diag", _diag_t)
def diag(xp: Any, t: Any, v: Any, k: int = 0) -> Any:
    """A vector onto the diagonal of zeros, or the diagonal of a matrix; each is the other's transpose."""
    if v.ndim == 2:
        return xp.diagonal(t, k, 1, 2)
    n = v.shape[0] + abs(k)
    out = xp.zeros_like(t, shape=(t.shape[0], n, n))
    i = xp.arange(v.shape[0])
    out[:, i + max(-k, 0), i + max(k, 0)] = t
    return out


def _diagflat_t(xp: Any, w: Any, x: Any, k: int = 0) -> Any:
    return xp.diagonal(w, k).reshape(x.shape)


@linear("numpy.diagflat", _diagflat_t)
def diagflat(xp: Any, t: Any, v: Any, k: int = 0) -> Any:
    """The flattened value on a diagonal of zeros."""
    return diag(xp, t.reshape(t.shape[0], v.size), v.reshape(-1), k)


def _tril_t(xp: Any, w: Any, x: Any, k: int = 0) -> Any:
    return unbroadcast(xp.tril(w, k), x.shape)


def _triu_t(xp: Any, w: Any, x: Any, k: int = 0) -> Any:
    return unbroadcast(xp.triu(w, k), x.shape)


def _rows(xp: Any, t: Any, m: Any) -> Any:
    return xp.broadcast_to(t[:, None, :], t.shape[:1] + m.shape * 2) if m.ndim == 1 else t


@linear("numpy.tril", _tril_t)
def tril(xp: Any, t: Any, m: Any, k: int = 0) -> Any:
    """The same mask on every lane; a vector counts as the matrix of its copies, as in NumPy."""
    return xp.tril(_rows(xp, t, m), k)


@linear("numpy.triu", _triu_t)
def triu(xp: Any, t: Any, m: Any, k: int = 0) -> Any:
    """The same mask on every lane; a vector counts as the matrix of its copies, as in NumPy."""
    return xp.triu(_rows(xp, t, m), k)


def _trace_t(xp: Any, w: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    axis1, axis2 = one_axis(axis1, x.ndim), one_axis(axis2, x.ndim)
    count = max(min(x.shape[axis1] - max(-offset, 0), x.shape[axis2] - max(offset, 0)), 0)
    w = xp.asarray(w)
    return scatter_diagonal(xp, xp.broadcast_to(w[..., None], (*w.shape, count)), x, offset, axis1, axis2)


@linear("numpy.trace", _trace_t)
def trace(xp: Any, t: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum of the diagonal."""
    return xp.trace(t, offset, one_axis(axis1, x.ndim) + 1, one_axis(axis2, x.ndim) + 1, dtype)


def _linalg_trace_t(xp: Any, w: Any, x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    return _trace_t(xp, w, x, offset, -2, -1)


@linear("numpy.linalg.trace", _linalg_trace_t)
def linalg_trace(xp: Any, t: Any, x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of the diagonal of the last two axes."""
    return xp.trace(t, offset, -2, -1, dtype)


@composition("numpy.broadcast_arrays")
def broadcast_arrays(xp: Any, *args: Any, subok: bool = False) -> Any:
    """broadcast_to, one by one."""
    shape = xp.broadcast_shapes(*(xp.shape(a) for a in args))
    return tuple(xp.broadcast_to(a, shape) for a in args)
