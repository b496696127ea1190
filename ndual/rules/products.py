"""Bilinear rules: dot, matmul, tensordot, convolve and their like. Each product of lanes is one batched call.

Zero times anything is zero in all of them (``strong``). einsum has ``einsum.py``; products that are plain broadcast
multiplications (outer, kron, cross) are compositions, so that the fused elementwise kernel does them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ndual.rules.registry import bilinear, composition
from ndual.rules.support import (
    adjoint,
    axis_tuple,
    conj,
    inverse_permutation,
    is_raw,
    one_axis,
    shape_product,
    strong,
    strong_multiply,
    unbroadcast,
)

# Cells of a product up to which dot is the faster spelling: it reaches BLAS 0.2 µs sooner, but zeroes its output first,
# which takes a fifth of the product at 256 by 70.
SMALL = 4096


def gemm(xp: Any, a: Any, b: Any) -> Any:
    """Multiply a by b, by the spelling that is the faster one."""
    if a.ndim <= 2 and b.ndim <= 2 and (a.ndim < 2 or b.ndim < 2 or len(a) * b.shape[1] <= SMALL):
        return xp.dot(a, b)
    return xp.matmul(a, b)


def _matmul_a(xp: Any, t: Any, a: Any, b: Any) -> Any:
    if b.ndim == 1 or (a.ndim == 1 and b.ndim == 2):
        return gemm(xp, t, b)
    if a.ndim == 1:
        return gemm(xp, t.reshape(t.shape[0], *(1,) * (b.ndim - 1), t.shape[1]), b)[..., 0, :]
    if b.ndim == 2:
        if is_raw(xp, t) and t.flags.c_contiguous:
            rows = t.reshape(shape_product(t.shape[:-1]), t.shape[-1])
            return gemm(xp, rows, b).reshape(*t.shape[:-1], b.shape[1])
        return gemm(xp, t, b)
    return gemm(xp, t.reshape(t.shape[0], *(1,) * (b.ndim - a.ndim), *a.shape), b)


def _matmul_b(xp: Any, a: Any, t: Any, b: Any) -> Any:
    if t.shape[0] == 1 and a.ndim <= 2 and b.ndim <= 2:
        return gemm(xp, a, t[0])[None]
    if a.ndim == 1:
        return gemm(xp, t, a) if b.ndim == 1 else gemm(xp, a, t)
    if b.ndim == 1:
        if a.ndim == 2:
            return gemm(xp, t, a.T)
        return xp.moveaxis(gemm(xp, a, t.T), -1, 0)
    return gemm(xp, a, t.reshape(t.shape[0], *(1,) * (a.ndim - b.ndim), *b.shape))


def _matmul_transpose_a(xp: Any, w: Any, a: Any, b: Any) -> Any:
    if b.ndim == 1:
        if a.ndim == 1:
            return w * conj(xp, b)
        return w[..., None] * conj(xp, b)
    if a.ndim == 1:
        g = strong(xp, lambda u, v: gemm(xp, u, v[..., None])[..., 0], conj(xp, b), w)
        return unbroadcast(g, a.shape)
    return unbroadcast(strong(xp, partial(gemm, xp), w, adjoint(xp, b)), a.shape)


def _matmul_transpose_b(xp: Any, w: Any, a: Any, b: Any) -> Any:
    if a.ndim == 1:
        return w * conj(xp, a) if b.ndim == 1 else unbroadcast(conj(xp, a)[:, None] * w[..., None, :], b.shape)
    if b.ndim == 1:
        g = strong(xp, lambda u, v: gemm(xp, u, v[..., None])[..., 0], adjoint(xp, a), w)
        return unbroadcast(g, b.shape)
    return unbroadcast(strong(xp, partial(gemm, xp), adjoint(xp, a), w), b.shape)


@bilinear("numpy.matmul numpy.linalg.matmul", (_matmul_transpose_a, _matmul_transpose_b))
def matmul(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool) -> Any:
    """The product a @ b; lanes of a are extra rows of one gemm, lanes of b are batched or extra columns."""
    if lane_a:
        return strong(xp, lambda t, c: _matmul_a(xp, t, _Like(t.shape[1:]), c), a, b)
    return strong(xp, lambda c, t: _matmul_b(xp, c, t, _Like(t.shape[1:])), a, b)


class _Like:
    """The shape of an operand of which only the lanes are at hand."""

    __slots__ = ("ndim", "shape")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim = shape, len(shape)


def _dot_transpose_a(xp: Any, w: Any, a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        g = w * conj(xp, b)
        return g.sum() if a.ndim == 0 else g
    if b.ndim <= 1 or a.ndim == b.ndim == 2:
        return _matmul_transpose_a(xp, w, a, b)
    free = [i for i in range(b.ndim) if i != b.ndim - 2]
    product = lambda u, v: xp.tensordot(u, v, (list(range(a.ndim - 1, u.ndim)), free))  # noqa: E731
    return strong(xp, product, w, conj(xp, b))


def _dot_transpose_b(xp: Any, w: Any, a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        g = w * conj(xp, a)
        return g.sum() if b.ndim == 0 else g
    if b.ndim <= 1 or a.ndim == b.ndim == 2:
        return _matmul_transpose_b(xp, w, a, b)
    rows = list(range(a.ndim - 1))
    product = lambda u, v: xp.tensordot(u, v, (rows, rows))  # noqa: E731
    return xp.moveaxis(strong(xp, product, conj(xp, a), w), 0, b.ndim - 2)


@bilinear("numpy.dot", (_dot_transpose_a, _dot_transpose_b))
def dot(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool) -> Any:
    """The last axis of a against the last but one of b."""
    if lane_a:
        if a.ndim == 1:
            return strong_multiply(xp, a.reshape(-1, *(1,) * b.ndim), b)
        if a.ndim > 2 and b.ndim == 2:
            return strong(xp, lambda t, c: _matmul_a(xp, t, _Like(t.shape[1:]), c), a, b)
        if b.ndim > 2:
            return strong(xp, lambda t, c: xp.tensordot(t, c, ((-1,), (c.ndim - 2,))), a, b)
        return strong(xp, xp.dot, a, b)
    if a.ndim == 0 or b.ndim == 1:
        return strong_multiply(xp, b.reshape(b.shape[0], *(1,) * a.ndim, *b.shape[1:]), a)
    if a.ndim <= 2 and b.ndim <= 3:
        return strong(xp, lambda c, t: _matmul_b(xp, c, t, _Like(t.shape[1:])), a, b)
    second = max(b.ndim - 2, 1)
    product = lambda c, t: xp.moveaxis(xp.tensordot(c, t, ((-1,), (second,))), c.ndim - 1, 0)  # noqa: E731
    return strong(xp, product, a, b)


def _inner_transpose_a(xp: Any, w: Any, a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        return _dot_transpose_a(xp, w, a, b)
    free = list(range(b.ndim - 1))
    product = lambda u, v: xp.tensordot(u, v, (list(range(a.ndim - 1, u.ndim)), free))  # noqa: E731
    return strong(xp, product, w, conj(xp, b))


def _inner_transpose_b(xp: Any, w: Any, a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        return _dot_transpose_b(xp, w, a, b)
    free = list(range(a.ndim - 1))
    return strong(xp, lambda u, v: xp.tensordot(u, v, (free, free)), w, conj(xp, a))


@bilinear("numpy.inner", (_inner_transpose_a, _inner_transpose_b))
def inner(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool) -> Any:
    """The last axes against each other."""
    if a.ndim - lane_a == 0 or b.ndim - lane_b == 0:
        return dot(xp, a, b, lane_a, lane_b)
    product = lambda u, v: xp.tensordot(u, v, ((-1,), (-1,)))  # noqa: E731
    out = strong(xp, product, a, b)
    return out if lane_a else xp.moveaxis(out, a.ndim - 1, 0)


def _vdot_transpose_a(xp: Any, w: Any, a: Any, b: Any) -> Any:
    return (conj(xp, xp.asarray(w)) * b).reshape(a.shape)


def _vdot_transpose_b(xp: Any, w: Any, a: Any, b: Any) -> Any:
    return (w * a).reshape(b.shape)


@bilinear("numpy.vdot", (_vdot_transpose_a, _vdot_transpose_b))
def vdot(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool) -> Any:
    """conj(a) and b, flattened; antilinear in a."""
    a = conj(xp, a)
    if lane_a:
        return strong(xp, partial(gemm, xp), a.reshape(a.shape[0], -1), b.reshape(-1))
    return strong(xp, partial(gemm, xp), b.reshape(b.shape[0], -1), a.reshape(-1))


def _vecdot_transpose_a(xp: Any, w: Any, a: Any, b: Any, axis: int = -1) -> Any:
    return unbroadcast(conj(xp, xp.expand_dims(w, axis)) * b, a.shape)


def _vecdot_transpose_b(xp: Any, w: Any, a: Any, b: Any, axis: int = -1) -> Any:
    return unbroadcast(xp.expand_dims(w, axis) * a, b.shape)


@bilinear("numpy.vecdot numpy.linalg.vecdot", (_vecdot_transpose_a, _vecdot_transpose_b))
def vecdot(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool, axis: int = -1) -> Any:
    """conj(a) times b, summed over the last axis (or the named one)."""
    u = xp.moveaxis(conj(xp, a), one_axis(axis, a.ndim - lane_a) + lane_a, -1)
    v = xp.moveaxis(b, one_axis(axis, b.ndim - lane_b) + lane_b, -1)
    rank = max(u.ndim - lane_a, v.ndim - lane_b)
    if lane_a:
        u = u.reshape(u.shape[0], *(1,) * (rank + 1 - u.ndim), *u.shape[1:])
    else:
        v = v.reshape(v.shape[0], *(1,) * (rank + 1 - v.ndim), *v.shape[1:])
    product = lambda p, q: gemm(xp, p[..., None, :], q[..., :, None])[..., 0, 0]  # noqa: E731
    return strong(xp, product, u, v)


def _matvec_transpose_a(xp: Any, w: Any, a: Any, b: Any) -> Any:
    return unbroadcast(w[..., :, None] * conj(xp, b)[..., None, :], a.shape)


def _matvec_transpose_b(xp: Any, w: Any, a: Any, b: Any) -> Any:
    return unbroadcast(strong(xp, partial(gemm, xp), adjoint(xp, a), w[..., None])[..., 0], b.shape)


@bilinear("numpy.matvec", (_matvec_transpose_a, _matvec_transpose_b))
def matvec(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool) -> Any:
    """Stacks of matrices times stacks of vectors."""
    return matmul(xp, a, b[..., None], lane_a, lane_b)[..., 0]


def _vecmat_transpose_a(xp: Any, w: Any, a: Any, b: Any) -> Any:
    g = strong(xp, partial(gemm, xp), w[..., None, :], adjoint(xp, b))[..., 0, :]
    return unbroadcast(conj(xp, g), a.shape)


def _vecmat_transpose_b(xp: Any, w: Any, a: Any, b: Any) -> Any:
    return unbroadcast(a[..., :, None] * w[..., None, :], b.shape)


@bilinear("numpy.vecmat", (_vecmat_transpose_a, _vecmat_transpose_b))
def vecmat(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool) -> Any:
    """The conjugates of stacks of vectors times stacks of matrices."""
    return matmul(xp, conj(xp, a)[..., None, :], b, lane_a, lane_b)[..., 0, :]


def _contracted(ndim_a: int, ndim_b: int, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if hasattr(axes, "__len__"):
        return axis_tuple(_listed(axes[0]), ndim_a), axis_tuple(_listed(axes[1]), ndim_b)
    return tuple(range(ndim_a - axes, ndim_a)), tuple(range(axes))


def _listed(axes: Any) -> tuple[int, ...]:
    return tuple(axes) if hasattr(axes, "__len__") else (axes,)


def _free(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in range(ndim) if i not in axes)


def _tensordot_transpose_a(xp: Any, w: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    of_a, of_b = _contracted(a.ndim, b.ndim, axes)
    free_a, free_b = _free(a.ndim, of_a), _free(b.ndim, of_b)
    product = lambda u, v: xp.tensordot(u, v, (tuple(range(len(free_a), u.ndim)), free_b))  # noqa: E731
    g = strong(xp, product, w, conj(xp, b))
    order = free_a + tuple(of_a[of_b.index(i)] for i in sorted(of_b))
    return g.transpose(inverse_permutation(order))


def _tensordot_transpose_b(xp: Any, w: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    of_a, of_b = _contracted(a.ndim, b.ndim, axes)
    free_a, free_b = _free(a.ndim, of_a), _free(b.ndim, of_b)
    product = lambda u, v: xp.tensordot(u, v, (free_a, tuple(range(len(free_a)))))  # noqa: E731
    g = strong(xp, product, conj(xp, a), w)
    order = tuple(of_b[of_a.index(i)] for i in sorted(of_a)) + free_b
    return g.transpose(inverse_permutation(order))


@bilinear("numpy.tensordot numpy.linalg.tensordot", (_tensordot_transpose_a, _tensordot_transpose_b))
def tensordot(xp: Any, a: Any, b: Any, lane_a: bool, lane_b: bool, axes: Any = 2) -> Any:
    """Sums over pairs of axes; the lanes are one more free axis of the same gemm."""
    of_a, of_b = _contracted(a.ndim - lane_a, b.ndim - lane_b, axes)
    pairs = (tuple(i + lane_a for i in of_a), tuple(i + lane_b for i in of_b))
    out = strong(xp, lambda u, v: xp.tensordot(u, v, pairs), a, b)
    return out if lane_a else xp.moveaxis(out, a.ndim - len(of_a), 0)


def _same_offset(n: int, m: int, mode: Any) -> tuple[int, int]:
    """Where NumPy's convolution of lengths n >= m starts in the full one, and its length."""
    if mode in ("full", 2):
        return 0, n + m - 1
    if mode in ("same", 1):
        return (m - 1) // 2, n
    return m - 1, n - m + 1


def _full_lanes(xp: Any, t: Any, v: Any) -> Any:
    """The full convolutions of all lanes with one vector: windows of the padded lanes times the reversed vector."""
    m = v.shape[0]
    padded = xp.pad(t, ((0, 0), (m - 1, m - 1)))
    windows = xp.lib.stride_tricks.sliding_window_view(padded, m, axis=1)
    return strong(xp, partial(gemm, xp), windows, v[::-1])


def _embedded(xp: Any, w: Any, n: int, m: int, mode: Any) -> Any:
    start, length = _same_offset(max(n, m), min(n, m), mode)
    return xp.pad(w, (start, n + m - 1 - start - length))


def _convolve_transpose_a(xp: Any, w: Any, a: Any, v: Any, mode: Any = "full") -> Any:
    return xp.correlate(_embedded(xp, w, a.shape[0], v.shape[0], mode), v, "valid")


def _convolve_transpose_v(xp: Any, w: Any, a: Any, v: Any, mode: Any = "full") -> Any:
    return xp.correlate(_embedded(xp, w, a.shape[0], v.shape[0], mode), a, "valid")


@bilinear("numpy.convolve", (_convolve_transpose_a, _convolve_transpose_v))
def convolve(xp: Any, a: Any, v: Any, lane_a: bool, lane_b: bool, mode: Any = "full") -> Any:
    """A part of the full convolution, which is symmetric in its operands."""
    a = a.reshape(-1) if not lane_a and a.ndim == 0 else a
    v = v.reshape(-1) if not lane_b and v.ndim == 0 else v
    lanes, constant = (a, v) if lane_a else (v, a)
    n, m = lanes.shape[1], constant.shape[0]
    start, length = _same_offset(max(n, m), min(n, m), mode)
    return _full_lanes(xp, lanes, constant)[:, start : start + length]


def _correlate_part(n: int, m: int, mode: Any) -> tuple[int, int]:
    start, length = _same_offset(max(n, m), min(n, m), mode)
    return (n // 2 if mode in ("same", 1) and n < m else start), length


def _correlate_embedded(xp: Any, w: Any, n: int, m: int, mode: Any) -> Any:
    start, length = _correlate_part(n, m, mode)
    return xp.pad(w, (start, n + m - 1 - start - length))


def _correlate_transpose_a(xp: Any, w: Any, a: Any, v: Any, mode: Any = "valid") -> Any:
    return xp.convolve(_correlate_embedded(xp, w, a.shape[0], v.shape[0], mode), v, "valid")


def _correlate_transpose_v(xp: Any, w: Any, a: Any, v: Any, mode: Any = "valid") -> Any:
    g = xp.correlate(_correlate_embedded(xp, w, a.shape[0], v.shape[0], mode), a, "valid")
    return conj(xp, g)[::-1]


@bilinear("numpy.correlate", (_correlate_transpose_a, _correlate_transpose_v))
def correlate(xp: Any, a: Any, v: Any, lane_a: bool, lane_b: bool, mode: Any = "valid") -> Any:
    """A part of the full convolution of a with the reversed conjugate of v."""
    n, m = a.shape[-1], v.shape[-1]
    v = conj(xp, v)[..., ::-1]
    start, length = _correlate_part(n, m, mode)
    full = _full_lanes(xp, a, v) if lane_a else _full_lanes(xp, v, a)
    return full[:, start : start + length]


def _product_of_sums(xp: Any, a: Any, b: Any) -> Any:
    """The sum of the products of every cell of a with every cell of b."""
    return xp.multiply(xp.sum(a), xp.sum(b))


@composition("numpy.outer numpy.linalg.outer", total=_product_of_sums)
def outer(xp: Any, a: Any, b: Any) -> Any:
    """One broadcast multiplication."""
    return xp.multiply(xp.reshape(a, (-1, 1)), xp.reshape(b, (1, -1)))


@composition("numpy.kron", total=_product_of_sums)
def kron(xp: Any, a: Any, b: Any) -> Any:
    """One broadcast multiplication between reshapes."""
    sa, sb = xp.shape(a), xp.shape(b)
    ndim = max(len(sa), len(sb))
    sa, sb = (1,) * (ndim - len(sa)) + sa, (1,) * (ndim - len(sb)) + sb
    wide_a = xp.reshape(a, tuple(n for pair in zip(sa, (1,) * ndim, strict=True) for n in pair))
    wide_b = xp.reshape(b, tuple(n for pair in zip((1,) * ndim, sb, strict=True) for n in pair))
    return xp.reshape(xp.multiply(wide_a, wide_b), tuple(p * q for p, q in zip(sa, sb, strict=True)))


@composition("numpy.cross numpy.linalg.cross")
def cross(xp: Any, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    """The three components, each a difference of two products; a missing third component is zero."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = xp.moveaxis(a, axisa, 0), xp.moveaxis(b, axisb, 0)
    planar = xp.shape(a)[0] == 2 and xp.shape(b)[0] == 2
    a3 = a[2] if xp.shape(a)[0] == 3 else 0.0
    b3 = b[2] if xp.shape(b)[0] == 3 else 0.0
    third = a[0] * b[1] - a[1] * b[0]
    if planar:
        return third
    return xp.stack([a[1] * b3 - a3 * b[1], a3 * b[0] - a[0] * b3, third], axisc)
