"""Fourier transforms: all norms, lengths that cut and fill, real and complex inputs."""

from __future__ import annotations

import pytest
from harness import check

import ndual.rules.fft  # noqa: F401

NORMS = [None, "backward", "ortho", "forward"]


def sample(rng, shape, dtype):
    a = rng.standard_normal(shape)
    return a + 1j * rng.standard_normal(shape) if dtype is complex else a


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("n", [None, 3, 4, 5, 8])
def test_one_dimension(rng, norm, dtype, n):
    a = sample(rng, (3, 5), dtype)
    for axis in (-1, 0):
        check("numpy.fft.fft", a, n, axis, norm)
        check("numpy.fft.ifft", a, n=n, axis=axis, norm=norm)
        check("numpy.fft.irfft", a, n=n, axis=axis, norm=norm)
        if dtype is float:
            check("numpy.fft.rfft", a, n=n, axis=axis, norm=norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_more_dimensions(rng, norm, dtype):
    a = sample(rng, (2, 3, 4), dtype)
    for name in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn"):
        check(f"numpy.fft.{name}", a, norm=norm)
        check(f"numpy.fft.{name}", a, axes=(0, 2), norm=norm)
        check(f"numpy.fft.{name}", a, (3, 5), (0, -1), norm)
    if dtype is float:
        for name in ("rfft2", "rfftn"):
            check(f"numpy.fft.{name}", a, norm=norm)
            check(f"numpy.fft.{name}", a, (3, 5), (0, -1), norm)


def test_shifts(rng):
    a = rng.standard_normal((3, 4))
    for name in ("fftshift", "ifftshift"):
        check(f"numpy.fft.{name}", a)
        check(f"numpy.fft.{name}", a, 1)
        check(f"numpy.fft.{name}", a, axes=(0,))
