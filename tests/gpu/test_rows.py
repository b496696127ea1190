"""Every row of the table that CuPy can evaluate: on the device as on the host, in both modes and at second order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from kernel_texts import CASES, CTYPES, SECOND

import ndual
from ndual import _core
from ndual.rules.elementwise import TABLE

ROWS = [name for name, row in TABLE.items() if row.serves[0].startswith(("numpy.", "scipy."))]
LOOSE = 1e-10


def points(row, count):
    draw = random.Random(row.name)
    found = []
    for domain, partial in zip(row.domain, row.partials, strict=True):
        x = np.array(domain.sample(draw, count))
        found.append(x if partial is not None else x.astype(int))
    return found


def lacks(error):
    """Whether an error says that CuPy cannot evaluate something."""
    return "expected a function that CuPy has" in str(error)


def same(found, expected, rtol):
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("name", ROWS)
def test_row(device, name):
    row = TABLE[name]
    xs = points(row, 5)
    moving = tuple(i for i, partial in enumerate(row.partials) if partial is not None)

    def f(*x):
        return np.sum(_core.apply_row(name, *x))

    there = [device.asarray(x) for x in xs]
    if not moving:
        pytest.skip("no derivative with respect to any operand")
    try:
        found = {mode: ndual.value_and_grad(f, argnums=moving, mode=mode)(*there) for mode in ("forward", "reverse")}
    except ndual.NoRuleError as error:
        if not lacks(error):
            raise
        pytest.skip(f"CuPy cannot: {error}"[:100])
    value, gradients = ndual.value_and_grad(f, argnums=moving)(*xs)
    for mode in found:
        same(found[mode][0].get(), value, LOOSE)
        for got, expected in zip(found[mode][1], gradients, strict=True):
            same(got.get(), expected, LOOSE)
    if len(xs) == 1:
        try:
            expected = ndual.hessian(f)(xs[0])
        except ndual.NoRuleError:
            return
        try:
            same(ndual.hessian(f)(there[0]).get(), expected, LOOSE)
        except ndual.NoRuleError as error:
            if not lacks(error):
                raise


@pytest.mark.parametrize("name", ["sin", "exp", "multiply", "divide", "hypot", "tanh", "log1p", "arctan2", "power"])
def test_precision(device, name):
    """float64 to 1e-12 and float32 to 1e-5, for rows with kernels."""
    row = TABLE[name]
    for dtype, rtol in (("f8", 1e-12), ("f4", 1e-5)):
        xs = [x.astype(dtype) for x in points(row, 50)]
        argnums = tuple(range(len(xs)))

        def f(*x):
            return np.sum(_core.apply_row(name, *x))

        expected = ndual.grad(f, argnums=argnums, mode="reverse")(*xs)
        for mode in ("forward", "reverse"):
            found = ndual.grad(f, argnums=argnums, mode=mode)(*[device.asarray(x) for x in xs])
            for got, reference in zip(found, expected, strict=True):
                assert got.dtype == dtype
                same(got.get(), reference, rtol)


@pytest.mark.parametrize(("name", "ctype"), CASES)
def test_types(device, name, ctype):
    """Every number type that has kernels takes them, in both modes, with the derivatives of the host."""
    row, dtype = TABLE[name], CTYPES[ctype]
    xs = points(row, 7)
    if dtype.kind == "c":
        xs = [x + 0.3j * np.linspace(-1, 1, 7) for x in xs]
    xs = [x.astype(dtype) for x in xs]
    moving = tuple(i for i, partial in enumerate(row.partials) if partial is not None)

    def f(*x):
        return np.sum(np.abs(_core.apply_row(name, *x)))

    rtol = {"e": 2e-2, "f": 1e-4, "F": 1e-4}.get(dtype.char, 1e-10)
    expected = ndual.grad(f, argnums=moving, mode="reverse")(*xs)
    there = [device.asarray(x) for x in xs]
    for mode, what in (("forward", "forward"), ("reverse", "pullback")):
        found = ndual.grad(f, argnums=moving, mode=mode)(*there)
        for got, reference in zip(found, expected, strict=True):
            assert got.dtype == dtype
            same(got.get(), reference, rtol)
        from ndual.gpu.calls import STORAGE

        kernels = [kernel for key, kernel in STORAGE._kernels.items() if key[:3] == (what, name, dtype.char)]
        assert any(kernel is not None for kernel in kernels) or all(p in ("0", "1", "-1") for p in row.partials)


@pytest.mark.parametrize(("name", "ctype"), sorted({(name, ctype) for name, ctype, _ in SECOND}))
def test_second_order(device, name, ctype):
    """Hessians by all operands come from kernels of second order, in both modes."""
    row, dtype = TABLE[name], CTYPES[ctype]
    xs = [x.astype(dtype) for x in points(row, 3)]
    moving = tuple(i for i, partial in enumerate(row.partials) if partial is not None)

    def f(*x):
        y = _core.apply_row(name, *x)
        return np.sum(y * y)

    expected = ndual.hessian(f, argnums=moving)(*xs)
    there = [device.asarray(x) for x in xs]
    for mode in ("forward", "reverse"):
        found = ndual.hessian(f, argnums=moving, mode=mode)(*there)
        for got, reference in zip(_leaves(found), _leaves(expected), strict=True):
            same(got.get(), reference, 1e-9 if ctype == "double" else 1e-3)
    from ndual.gpu.calls import STORAGE

    assert any(key[0] == "second" and kernel is not None for key, kernel in STORAGE._kernels.items())


def _leaves(obj):
    return [leaf for part in obj for leaf in _leaves(part)] if isinstance(obj, tuple) else [obj]
