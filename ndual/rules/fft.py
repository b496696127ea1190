"""Rules for numpy.fft: every transform is linear, and its transpose is a transform again.

A discrete Fourier transform F is symmetric, so its conjugate transpose maps w to conj(F conj(w)). Real transforms are
linear over the reals: what a transform ignores or mirrors enters its transpose as a weight of 0 or 2.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import composition, linear, passive
from ndual.rules.support import axis_tuple, function, one_axis

passive("numpy.fft.fftfreq numpy.fft.rfftfreq")


def _resized(xp: Any, g: Any, axis: int, n: int) -> Any:
    """The first n entries along an axis, zeros where there are fewer."""
    have = g.shape[axis]
    if have >= n:
        return g[(slice(None),) * axis + (slice(0, n),)]
    missing = (*g.shape[:axis], n - have, *g.shape[axis + 1 :])
    return xp.concatenate((g, xp.zeros(missing, g.dtype)), axis)


def _as(a: Any, g: Any) -> Any:
    return g.real if a.dtype.kind != "c" else g


def _one_dimensional(name: str) -> None:
    def transpose(xp: Any, w: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        axis = one_axis(axis, a.ndim)
        g = xp.conj(function(xp, name)(xp.conj(w), w.shape[axis], axis, norm))
        return _as(a, _resized(xp, g, axis, a.shape[axis]))

    @linear(f"numpy.{name}", transpose)
    def lanes(xp: Any, t: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        return function(xp, name)(t, n, one_axis(axis, a.ndim) + 1, norm)

    lanes.__doc__ = f"{name} of every lane; F^H w is conj(F conj(w)), cut or filled to the length of the input."


_one_dimensional("fft.fft")
_one_dimensional("fft.ifft")


def _transformed_axes(a: Any, s: Any, axes: Any) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(a.ndim)) if s is None else tuple(range(a.ndim - len(s), a.ndim))
    return axis_tuple(tuple(axes), a.ndim)


def _many_dimensional(name: str, of: str, default: Any) -> None:
    def transpose(xp: Any, w: Any, a: Any, s: Any = None, axes: Any = default, norm: Any = None) -> Any:
        along = _transformed_axes(a, s, axes)
        g = xp.conj(function(xp, of)(xp.conj(w), tuple(w.shape[i] for i in along), along, norm))
        for i in along:
            g = _resized(xp, g, i, a.shape[i])
        return _as(a, g)

    @linear(f"numpy.{name}", transpose)
    def lanes(xp: Any, t: Any, a: Any, s: Any = None, axes: Any = default, norm: Any = None) -> Any:
        along = _transformed_axes(a, s, axes)
        return function(xp, of)(t, s, tuple(i + 1 for i in along), norm)

    lanes.__doc__ = f"{name} of every lane; the transpose as in one dimension."


_many_dimensional("fft.fft2", "fft.fftn", (-2, -1))
_many_dimensional("fft.ifft2", "fft.ifftn", (-2, -1))
_many_dimensional("fft.fftn", "fft.fftn", None)
_many_dimensional("fft.ifftn", "fft.ifftn", None)


def _rfft_t(xp: Any, w: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    axis = one_axis(axis, a.ndim)
    n = a.shape[axis] if n is None else n
    g = xp.conj(xp.fft.fft(xp.conj(_resized(xp, w, axis, n)), n, axis, norm))
    return _resized(xp, g.real, axis, a.shape[axis])


@linear("numpy.fft.rfft", _rfft_t)
def rfft(xp: Any, t: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """Half of the transform of every lane; the transpose fills the other half with zeros and keeps the real part."""
    return xp.fft.rfft(t, n, one_axis(axis, a.ndim) + 1, norm)


_INVERSE_NORM = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _irfft_t(xp: Any, w: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    axis = one_axis(axis, a.ndim)
    n = w.shape[axis]
    g = xp.fft.rfft(w, n, axis, _INVERSE_NORM[norm])
    last = g.shape[axis]
    weight = xp.full(last, 2.0, g.real.dtype)
    weight[0] = 1.0
    if n % 2 == 0:
        weight[-1] = 1.0
    g = g * weight.reshape(tuple(last if i == axis else 1 for i in range(g.ndim)))
    return _as(a, _resized(xp, g, axis, a.shape[axis]))


@linear("numpy.fft.irfft", _irfft_t)
def irfft(xp: Any, t: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The inverse for half-spectra; entries that stand for a mirrored one too count twice in the transpose."""
    return xp.fft.irfft(t, n, one_axis(axis, a.ndim) + 1, norm)


def _lengths(s: Any, axes: tuple[int, ...]) -> list[Any]:
    return [None if s is None or s[k] == -1 else s[k] for k in range(len(axes))]


def _shape(xp: Any, a: Any) -> Any:
    return a if hasattr(a, "shape") else xp.asarray(a)


@composition("numpy.fft.rfftn")
def rfftn(xp: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The real transform along the last axis, then complex ones along the others."""
    a = _shape(xp, a)
    axes = _transformed_axes(a, s, axes)
    lengths = _lengths(s, axes)
    out = xp.fft.rfft(a, lengths[-1], axes[-1], norm)
    for k in range(len(axes) - 2, -1, -1):
        out = xp.fft.fft(out, lengths[k], axes[k], norm)
    return out


@composition("numpy.fft.rfft2")
def rfft2(xp: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The real transform along the last axis, then a complex one along the other."""
    return rfftn(xp, a, s, axes, norm)


@composition("numpy.fft.irfftn")
def irfftn(xp: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Complex inverses along all axes but the last, then the inverse for half-spectra."""
    out = _shape(xp, a)
    axes = _transformed_axes(out, s, axes)
    lengths = _lengths(s, axes)
    for k in range(len(axes) - 1):
        out = xp.fft.ifft(out, lengths[k], axes[k], norm)
    return xp.fft.irfft(out, lengths[-1], axes[-1], norm)


@composition("numpy.fft.irfft2")
def irfft2(xp: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """A complex inverse along the first axis, then the inverse for half-spectra."""
    return irfftn(xp, a, s, axes, norm)


def _fftshift_t(xp: Any, w: Any, x: Any, axes: Any = None) -> Any:
    return xp.fft.ifftshift(w, axes)


@linear("numpy.fft.fftshift", _fftshift_t)
def fftshift(xp: Any, t: Any, x: Any, axes: Any = None) -> Any:
    """A roll; the transpose rolls back."""
    return xp.fft.fftshift(t, tuple(i + 1 for i in axis_tuple(axes, x.ndim)))


def _ifftshift_t(xp: Any, w: Any, x: Any, axes: Any = None) -> Any:
    return xp.fft.fftshift(w, axes)


@linear("numpy.fft.ifftshift", _ifftshift_t)
def ifftshift(xp: Any, t: Any, x: Any, axes: Any = None) -> Any:
    """A roll; the transpose rolls back."""
    return xp.fft.ifftshift(t, tuple(i + 1 for i in axis_tuple(axes, x.ndim)))


_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@composition("numpy.fft.hfft")
def hfft(xp: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The spectrum of a signal that is its own conjugate mirror image."""
    a = _shape(xp, a)
    n = (xp.shape(a)[axis] - 1) * 2 if n is None else n
    return xp.fft.irfft(xp.conj(a), n, axis, _SWAPPED[norm])


@composition("numpy.fft.ihfft")
def ihfft(xp: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The inverse of `hfft`."""
    a = _shape(xp, a)
    return xp.conj(xp.fft.rfft(a, xp.shape(a)[axis] if n is None else n, axis, _SWAPPED[norm]))
