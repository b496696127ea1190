"""Code written with CuPy, unmodified."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ndual
from ndual.rules.elementwise import TABLE

MODES = ["forward", "reverse"]


def equal(found, expected, rtol=1e-12):
    import cupy as cp

    np.testing.assert_allclose(cp.asnumpy(found), expected, rtol=rtol, atol=1e-14)


def both(f, x, **options):
    """The gradient in both modes, which must agree."""
    found = [ndual.grad(f, mode=mode, **options)(x) for mode in MODES]
    equal(found[0], found[1].get())
    return found[1]


def test_a_sum_of_cosines(device):
    cp = device
    x = cp.array([0.0, math.pi / 2])
    for mode in MODES:
        value, gradient = ndual.value_and_grad(lambda x: cp.sum(cp.cos(x)), mode=mode)(x)
        equal(value, 1.0)
        equal(gradient, [0.0, -1.0])


def test_gather_with_repeats(device):
    cp = device
    weights = cp.array([1.0, 2.0, 3.0, 4.0])
    equal(both(lambda x: cp.sum(x[[0, 2, 0, 3]] * weights), cp.array([1.0, 2.0, 3.0, 4.0])), [4, 0, 2, 4])
    index = cp.array([0, 2, 0, 3])
    equal(both(lambda x: cp.sum(x[index] * weights), cp.array([1.0, 2.0, 3.0, 4.0])), [4, 0, 2, 4])
    equal(both(lambda x: cp.sum(cp.take(x, index) * weights), cp.array([1.0, 2.0, 3.0, 4.0])), [4, 0, 2, 4])


def test_scatter_with_repeats(device):
    cp = device
    import cupyx

    def f(x):
        y = cp.zeros(3)
        cupyx.scatter_add(y, cp.array([0, 0, 2, 1]), x)
        y.scatter_add([0, 0], x[:2])
        return cp.sum(y**2)

    equal(both(f, cp.array([1.0, 2.0, 3.0, 4.0])), [24, 24, 6, 8])


def test_prod_with_a_zero(device):
    cp = device
    equal(both(lambda x: cp.prod(x), cp.array([2.0, 0.0, 3.0])), [0, 6, 0])


@pytest.mark.parametrize("axis", [-1, None])
def test_concatenate_three(device, axis):
    cp = device
    others = [cp.arange(4).reshape(2, 2), cp.ones((2, 2), bool), cp.ones((2, 2), cp.float16)]
    x = cp.arange(4.0).reshape(2, 2)
    for other in others:

        def f(x, other=other):
            joined = cp.concatenate([x, other, x * x], axis=axis)
            return cp.sum(joined * cp.arange(12.0).reshape(joined.shape))

        weights = np.arange(12.0).reshape((2, 6) if axis == -1 else (12,))
        first = weights[:, :2] if axis == -1 else weights[:4].reshape(2, 2)
        last = weights[:, 4:] if axis == -1 else weights[8:].reshape(2, 2)
        equal(both(f, x), first + last * 2 * np.arange(4.0).reshape(2, 2))


def test_stacks(device):
    cp = device
    x = cp.arange(1.0, 5.0)
    w = cp.arange(12.0).reshape(3, 4)
    equal(both(lambda x: cp.sum(cp.vstack([x, 2 * x, x]) * w), x), (w[0] + 2 * w[1] + w[2]).get())
    equal(both(lambda x: cp.sum(cp.hstack([x, 2 * x, x]) * w.ravel()), x), (w[0] + 2 * w[1] + w[2]).get())
    equal(both(lambda x: cp.sum(cp.stack([x, 2 * x, x]) * w), x), (w[0] + 2 * w[1] + w[2]).get())


def test_arrays_of_cells(device):
    cp = device
    x = cp.arange(1.0, 5.0)
    functions = [
        lambda xp, x: xp.sum(xp.array([x[0], x[1] * 2]) ** 2),
        lambda xp, x: xp.sum(xp.array([[x[0], 1.0], [2, x[1] * x[3]]]) ** 2),
        lambda xp, x: xp.sum(xp.asarray([x, 2 * x]) ** 3),
        lambda xp, x: xp.sum(xp.stack([x[0], x[1] * 2]) ** 2),
        lambda xp, x: xp.sum(xp.hstack([x[0], x[1:3], x[1] * 2]) ** 2),
    ]
    for f in functions:
        equal(both(lambda x, f=f: f(cp, x), x), ndual.grad(lambda x, f=f: f(np, x))(x.get()))


def test_logsumexp_of_either_library(device):
    cp = device
    import cupyx.scipy.special
    import scipy.special

    x = cp.linspace(-1.0, 2.0, 6).reshape(2, 3)
    expected = ndual.grad(lambda x: np.sum(scipy.special.logsumexp(x * x, axis=1)))(x.get())
    for special in (cupyx.scipy.special, scipy.special):
        equal(both(lambda x, special=special: cp.sum(special.logsumexp(x * x, axis=1)), x), expected)


def test_numbers_of_numpy_beside_arrays(device):
    cp = device
    x = cp.array([1.0, 2.0])
    number = np.float64(3.0)
    equal(both(lambda x: cp.sum(x * number + number / x - np.float32(2.0) * x), x), 3 - 3 / x.get() ** 2 - 2)
    equal(both(lambda x: cp.sum(np.int64(2) * x ** np.float64(2.0)), x), 4 * x.get())
    for mode in MODES:
        found = ndual.grad(lambda x: cp.sum(x * number), mode=mode)(x.astype("f4"))
        assert found.dtype == "f4"


def test_transpose_axes(device):
    cp = device
    x = cp.arange(24.0).reshape(2, 3, 4)
    w = cp.arange(24.0).reshape(4, 2, 3)
    equal(both(lambda x: cp.sum(cp.transpose(x, (2, 0, 1)) * w), x), w.get().transpose(1, 2, 0))


def test_mixed_operands_are_refused(device):
    cp = device
    x, host = cp.ones(3), np.ones(3)
    for mode in MODES:
        with pytest.raises(TypeError, match=r"argument 0\[1\].*host memory"):
            ndual.grad(lambda x: cp.sum(cp.concatenate([x, host])), mode=mode)(x)
    assert np.concatenate([host, host]).shape == (6,)


def test_writes_of_duals_into_plain_arrays(device):
    cp = device
    x = cp.ones(3)

    def adds(x):
        out = cp.zeros(3)
        out += x * 2
        return cp.sum(out)

    def writes(x):
        out = cp.zeros(3)
        cp.multiply(x, 2.0, out=out)
        out[0] = x[1] * x[2]
        return cp.sum(out)

    equal(both(adds, x), [2, 2, 2])
    equal(both(writes, x), [0, 3, 3])
    outside = cp.zeros(3)
    for mode in MODES:
        for lose in (
            lambda x: cp.sum(outside.__iadd__(x)),
            lambda x: cp.sum(cp.add(x, 1.0, out=outside)),
            lambda x: outside.__setitem__(0, x[0]),
        ):
            with pytest.raises((ndual.NdualError, TypeError)):
                ndual.grad(lose, mode=mode)(x)


def test_special_functions(device):
    cp = device
    import cupyx.scipy.special as special
    import scipy.special

    x = cp.linspace(0.2, 2.0, 7)
    for name in ("erf", "gammaln", "digamma", "expit", "ndtr", "j0"):
        g, h = getattr(special, name), getattr(scipy.special, name)
        expected = ndual.grad(lambda x, h=h: np.sum(h(x)))(x.get())
        equal(both(lambda x, g=g: cp.sum(g(x)), x), expected, 1e-10)


def test_fft(device):
    cp = device
    x = cp.arange(8.0)
    expected = ndual.grad(lambda x: np.sum(abs(np.fft.rfft(x)) ** 2))(x.get())
    equal(both(lambda x: cp.sum(abs(cp.fft.rfft(x)) ** 2), x), expected)


def test_layouts(device):
    cp = device
    base = cp.arange(1.0, 25.0).reshape(4, 6) / 10
    for x in (base, base[::2], base.T, base[:, ::-1], base[1:2], base[:0], base[0, 0], base[None, :, None]):
        for dtype in ("f4", "f8"):
            y = x.astype(dtype) if dtype == "f4" else x
            expected = np.cos(y.get()) * y.get() + np.sin(y.get())
            for mode in MODES:
                found = ndual.grad(lambda x: cp.sum(cp.sin(x) * x), mode=mode)(y)
                assert found.dtype == dtype
                equal(found, expected, 1e-12 if dtype == "f8" else 1e-5)


def test_isinstance_and_methods(device):
    cp = device

    def f(x):
        assert isinstance(x, cp.ndarray)
        y = x.reshape(2, 2).T.copy().ravel()
        return (y.sum() + y.mean() + y.max() - y.min()) * y.dot(y)

    def host(x):
        return (x.sum() + x.mean() + x.max() - x.min()) * x.dot(x)

    x = cp.array([1.0, 2.0, 3.0, 5.0])
    equal(both(f, x), ndual.grad(host)(x.get()))


def test_products_with_constants(device):
    cp = device
    a = cp.arange(6.0).reshape(2, 3)
    x = cp.array([1.0, -2.0, 0.5])
    equal(both(lambda x: cp.sum((a @ x) ** 2), x), (2 * a.T @ (a @ x)).get())
    equal(both(lambda x: cp.sum((x @ a.T) ** 2), x), (2 * a.T @ (a @ x)).get())
    equal(both(lambda x: cp.sum(cp.dot(a, x) ** 2), x), (2 * a.T @ (a @ x)).get())
    equal(both(lambda x: cp.sum((a * x - x / (1 + a)) ** 2), x), ndual.grad(
        lambda x: np.sum((a.get() * x - x / (1 + a.get())) ** 2))(x.get()))  # fmt: skip
    equal((a @ x).get(), a.get() @ x.get())


def test_moves_between_memories(device):
    cp = device
    x = cp.array([1.0, 2.0, 3.0])
    equal(both(lambda x: cp.sum(cp.asarray(np.sin(x.get()))), x), np.cos(x.get()))
    found = ndual.grad(lambda a: cp.sum(cp.sin(cp.asarray(a))))(x.get())
    np.testing.assert_allclose(found, np.cos(x.get()))


def test_unknown_kernels_raise(device):
    cp = device
    reduction = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squares")
    raw = cp.RawKernel('extern "C" __global__ void raw_squares(double *x) {}', "raw_squares")
    for mode in MODES:
        for lose in (lambda x: cp.sum(reduction(x)), lambda x: raw((1,), (1,), (x,)) or cp.sum(x)):
            with pytest.raises(ndual.NdualError, match="Unsupported type"):
                ndual.grad(lose, mode=mode)(cp.ones(3))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", [1, 3, 2048, 2049, 4096, 4097, 20_000_003])
def test_sums_by_one_block_and_by_several(device, n, dtype):
    """Of a block or less, of more than one, and of more cells than all blocks take at once; the same each time."""
    cp = device
    x, t = cp.linspace(0, 1, n, dtype=dtype), cp.linspace(1, 2, n, dtype=dtype)
    exact = x.get().astype("f8")
    rtol = 1e-12 if dtype == "f8" else 1e-6
    sums = []
    for _ in range(2):
        value, gradient = ndual.value_and_grad(lambda x: cp.sum(cp.cos(x)), mode="reverse")(x)
        forward, tangent = ndual.jvp(lambda x: cp.sum(cp.cos(x)), (x,), (t,))
        sums.append([float(value), float(forward), float(tangent)])
    equal(value, np.sum(np.cos(exact)), rtol)
    equal(forward, np.sum(np.cos(exact)), rtol)
    equal(tangent, -np.sum(np.sin(exact) * t.get()), rtol)
    np.testing.assert_allclose(gradient.get(), -np.sin(exact), rtol=rtol, atol=rtol)
    assert sums[0] == sums[1]


def test_the_seed_of_a_sweep_stays_one(device):
    cp = device
    for _ in range(2):
        found = ndual.grad(lambda x: x, mode="reverse")(cp.array(3.0))
        equal(found, 1.0)
        found[...] = 5.0
        equal(ndual.grad(lambda x: cp.sum(x) + x[0] * cp.sum(x), mode="reverse")(cp.ones(2)), [4.0, 2.0])


def test_pullbacks_compiled_beside_the_run(device, monkeypatch):
    """In a thread; the sweep is told where one does not compile."""
    cp = device
    from ndual.gpu import storage

    monkeypatch.setattr(storage, "pullback", lambda *args: "no CUDA")
    memory, row, x = storage.CupyStorage(), TABLE["arctan"], cp.ones(3)
    equal(memory.value(row, None, [x], None), np.full(3, math.pi / 4))
    with pytest.raises(cp.cuda.compiler.CompileException):
        memory.pull_all(row, None, [x], None, [True], x)
    monkeypatch.undo()
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr(storage, "COMPILERS", ended)  # as at the end of the interpreter: they are compiled in turn
    memory = storage.CupyStorage()
    memory.value(row, None, [x], None)
    equal(memory.pull_all(row, None, [x], None, [True], x)[0], np.full(3, 0.5))


def test_memory_returns(device):
    cp = device
    x = cp.linspace(0.0, 1.0, 1000)
    gradient = ndual.grad(lambda x: cp.sum(cp.sin(cp.cos(cp.exp(x)))))
    gradient(x)
    pool = cp.get_default_memory_pool()
    before = pool.used_bytes()
    for _ in range(200):
        gradient(x)
    assert pool.used_bytes() == before


def test_two_devices(device):
    cp = device
    if cp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two devices")
    here = cp.ones(3)
    with cp.cuda.Device(1):
        there = cp.arange(3.0)
        gradient = ndual.grad(lambda x: cp.sum(cp.sin(x) * x))(there)
        assert gradient.device.id == 1
        equal(gradient, np.cos([0.0, 1, 2]) * [0, 1, 2] + np.sin([0.0, 1, 2]))
    for mode in MODES:
        with pytest.raises(ndual.NdualError, match="one device; got devices 0 and 1"):
            ndual.grad(lambda x: cp.sum(x * there), mode=mode)(here)
        with pytest.raises(ndual.NdualError, match=r"args\[0\]: expected an array on the current device, 0"):
            ndual.grad(lambda x: cp.sum(x), mode=mode)(there)


def test_block_diag(device):
    cp = device
    from cupyx.scipy.linalg import block_diag

    weights = cp.arange(1.0, 10.0).reshape(3, 3)
    a, b = cp.array([[1.0, 2.0]]), cp.array([[3.0], [4.0]])
    for mode in MODES:
        da, db = ndual.grad(lambda a, b: cp.sum(block_diag(a, b) * weights), argnums=(0, 1), mode=mode)(a, b)
        equal(da, [[1, 2]])
        equal(db, [[6], [9]])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("axis", [-1, None])
def test_concatenate_types(device, dtype, axis):
    """Three parts, of which one is of another type and constant."""
    cp = device
    x = cp.arange(1.0, 5.0).reshape(2, 2).astype(dtype)
    for other in ("i4", "?", "f2", "c8"):

        def f(xp, x, other=other):
            joined = xp.concatenate([x, xp.ones((2, 2), other), x * x], axis=axis)
            return xp.sum(xp.abs(joined) * xp.arange(12.0).reshape(joined.shape))

        expected = ndual.grad(lambda x, f=f: f(np, x))(x.get())
        for mode in MODES:
            found = ndual.grad(lambda x, f=f: f(cp, x), mode=mode)(x)
            assert found.dtype == dtype
            equal(found, expected, 1e-12 if dtype in ("f8", "c16") else 2e-3 if dtype == "f2" else 1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_rules_over_layouts(device, dtype):
    """What reduces, gathers, joins and multiplies, over arrays that lie in memory in every way."""
    cp = device
    base = (cp.arange(1.0, 25.0).reshape(4, 6) / 8 - (1j if dtype[0] == "c" else 0)).astype(dtype)
    rules = {
        "sum": lambda xp, x: xp.sum(x, axis=0),
        "mean": lambda xp, x: xp.mean(x),
        "max": lambda xp, x: xp.max(abs(x), axis=-1),
        "prod": lambda xp, x: xp.prod(x, axis=0),
        "cumsum": lambda xp, x: xp.cumsum(x, axis=0),
        "take": lambda xp, x: x[xp.asarray([0, 1, 0])],
        "slice": lambda xp, x: x[1:, ::-1],
        "transpose": lambda xp, x: x.T @ x,
        "reshape": lambda xp, x: x.reshape(-1)[::2],
        "stack": lambda xp, x: xp.stack([x, x * 2, -x], axis=1),
        "where": lambda xp, x: xp.where(xp.abs(x) > 1, x, x * x),
        "roll": lambda xp, x: xp.roll(x, 1, axis=0),
        "tile": lambda xp, x: xp.tile(x, (2, 1)),
    }
    layouts = (base, base[::2], base.T, base[:, ::-1], base[1:3, 1:4], base[:0])
    for name, rule in rules.items():
        for x in layouts:
            if x.size == 0 and name in ("max", "mean", "take"):
                continue

            def f(xp, x, rule=rule):
                return xp.sum(xp.abs(rule(xp, x)))

            expected = ndual.grad(lambda x, f=f: f(np, x), mode="reverse")(x.get())
            for mode in MODES:
                found = ndual.grad(lambda x, f=f: f(cp, x), mode=mode)(x)
                assert found.dtype == dtype, name
                scale = float(np.max(np.abs(expected), initial=1.0))
                rtol = 1e-12 if dtype in ("f8", "c16") else 5e-3 if dtype == "f2" else 1e-5
                np.testing.assert_allclose(found.get(), expected, rtol=rtol, atol=rtol * scale, err_msg=name)
