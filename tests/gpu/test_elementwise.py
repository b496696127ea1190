"""A user's own ElementwiseKernel on a device: the value is its own, the derivatives are those of its body."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_bodies import CASES

import ndual

MODES = ["forward", "reverse"]


def kernel_of(cp, case):
    preamble = case.preamble.replace("<math.h>", "<cuda_fp16.h>")  # which its compiler has
    return cp.ElementwiseKernel(case.inputs, case.outputs, case.operation, "body", preamble=preamble)


def host(case, operands):
    """The same by NumPy's functions, element by element, as one array for each output that is a float."""
    raws = ["raw" in part for part in case.inputs.split(",")]

    def f(*moving):
        given = iter(moving)
        xs = [a if j in case.constant else next(given) for j, a in enumerate(operands)]
        n = max(len(x) for x, raw in zip(xs, raws, strict=True) if not raw)
        rows = [
            case.function(np, *[x if raw else x[i % len(x)] for x, raw in zip(xs, raws, strict=True)]) for i in range(n)
        ]
        rows = [[part for part in row if part is not None] if isinstance(row, tuple) else [row] for row in rows]
        return sum(k * np.sum(np.stack(column) ** 2) for k, column in enumerate(zip(*rows, strict=True), 1))

    return f


def there(cp, case, kernel, operands):
    def f(*moving):
        given = iter(moving)
        found = kernel(*[cp.asarray(a) if j in case.constant else next(given) for j, a in enumerate(operands)])
        floats = [y for y in (found if isinstance(found, tuple) else (found,)) if y.dtype.kind == "f"]
        return sum(k * cp.sum(y**2) for k, y in enumerate(floats, 1))

    return f


@pytest.mark.parametrize("layout", ["plain", "broadcast", "backwards"])
@pytest.mark.parametrize("name", CASES)
def test_bodies(device, name, layout):
    cp, case = device, CASES[name]
    operands = list(case.operands)
    if layout == "broadcast" and len(operands) > 1 and name != "raw":
        operands[-1] = operands[-1][1:2]
    moving = [a for j, a in enumerate(operands) if j not in case.constant]
    argnums = tuple(range(len(moving)))
    expected = ndual.grad(host(case, operands), argnums=argnums)(*moving)
    given = [cp.asarray(a[::-1])[::-1] if layout == "backwards" else cp.asarray(a) for a in moving]
    f = there(cp, case, kernel_of(cp, case), operands)
    rtol = 1e-5 if name == "mixed" else 1e-11
    for mode in MODES:
        for chunk in (None, 3) if mode == "forward" else (None,):
            value, found = ndual.value_and_grad(f, argnums=argnums, mode=mode, chunk_size=chunk)(*given)
            # Sums of CuPy take another order.
            np.testing.assert_allclose(value.get(), f(*given).get(), rtol=1e-6 if name == "mixed" else 2e-15)
            for got, reference, a in zip(found, expected, moving, strict=True):
                assert got.dtype == a.dtype
                np.testing.assert_allclose(got.get(), reference, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("mode", MODES)
def test_types_and_numbers(device, mode):
    cp = device
    scaled = cp.ElementwiseKernel("T x, T a", "T y", "y = a * x * x", "scaled")
    for dtype in ("f4", "f8"):
        x = cp.arange(1, 13, dtype=dtype).reshape(3, 4)
        for view in (x, x.T, x[:, ::2], x[1:1]):
            found = ndual.grad(lambda x: cp.sum(scaled(x, 2.5)), mode=mode)(view)
            assert found.dtype == dtype
            np.testing.assert_allclose(found.get(), 5 * view.get())
        found = ndual.jacobian(lambda x: scaled(x, x[0]), mode=mode)(cp.arange(1, 21, dtype=dtype))
        n = np.arange(1.0, 21)
        expected = np.diag(2 * n)
        expected[:, 0] += n * n
        np.testing.assert_allclose(found.get(), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_outputs_that_are_given(device, mode):
    cp = device
    adds = cp.ElementwiseKernel("T x", "T y", "y += x * x", "adds", no_return=True)
    doubles = cp.ElementwiseKernel("T x", "T y", "y = x + x", "doubles")
    x = cp.arange(1.0, 4.0)

    def f(x):
        y = cp.zeros_like(x)
        adds(x, y)
        adds(y, y)
        doubles(y, y)
        return cp.sum(y)

    n = np.arange(1.0, 4)
    value, found = ndual.value_and_grad(f, mode=mode)(x)
    np.testing.assert_allclose(value.get(), np.sum(2 * (n**2 + n**4)))
    np.testing.assert_allclose(found.get(), 2 * (2 * n + 4 * n**3))
    outside = cp.zeros(3)
    with pytest.raises(ndual.DerivativeLostError, match="doubles"):
        ndual.grad(lambda x: cp.sum(doubles(x, outside)), mode=mode)(x)


REFUSED = {
    "raw": ("raw T x, T a", "T y", "y = x[i] * a", "x is raw"),
    "output": ("T x, T a", "raw T y", "y[i] = x * a", "y is raw"),
    "compile": ("T x, T a", "T y", "int k = x; y = k * a", "its body does not compile for dual numbers: .*error: "),
    "function": ("T x, T a", "T y", "y = __double2int_rn(x) * a", "its body does not compile"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_done_is_said(device, mode, why):
    cp = device
    *texts, message = REFUSED[why]
    kernel = cp.ElementwiseKernel(*texts, "mine")
    with pytest.raises(ndual.NoRuleError, match=f"got mine, but {message}") as raised:
        ndual.grad(lambda x: cp.sum(kernel(x, cp.ones(3))), mode=mode)(cp.ones(3))
    assert "docs/custom.md" in str(raised.value)


def test_other_types_and_orders_are_refused(device):
    cp = device
    squares = cp.ElementwiseKernel("T x", "T y", "y = x * x", "squares")
    for dtype in ("f2", "c16"):
        with pytest.raises(ndual.NoRuleError, match="squares, but x is"):
            ndual.grad(lambda x: cp.sum(abs(squares(x))))(cp.ones(3, dtype))
    with pytest.raises(ndual.NoRuleError, match="second derivative"):
        ndual.hessian(lambda x: cp.sum(squares(x)))(cp.ones(3))
    assert cp.sum(squares(cp.ones(3))) == 3
