"""nd_map, nd_copy and the row kernels against NumPy, for each instruction set: geometry, coefficients, strong zeros."""

from __future__ import annotations

import importlib
import math
import random

import mpmath
import numpy as np
import pytest

from ndual.rules.elementwise import TABLE
from ndual.rules.language import to_numpy

DTYPES = [np.float32, np.float64]
COEF_ARRAY = 4


def lookup(dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public(row):
    return lookup(next(name for name in row.serves if name.startswith(("numpy.", "scipy."))))


def loop_for(kernels, name, dtype):
    """NumPy's loop of a row, or None if it has none of one dtype."""
    try:
        return kernels.loop(public(TABLE[name]), np.dtype(dtype))
    except (ValueError, AttributeError):
        return None


def reference(name, operands, y):
    """Tangents by the definition, in float64, zero times anything being zero, and the size of what was summed."""
    row = TABLE[name]
    x = tuple(v for v, _ in operands)
    total, size = np.zeros(()), np.zeros(())
    with np.errstate(all="ignore"):
        for expr, (_, t) in zip(row.partial_exprs, operands, strict=True):
            if t is None:
                continue
            d = np.broadcast_to(np.asarray(to_numpy(expr, lookup)(x, y), dtype=y.dtype), y.shape)
            product = d.astype(float) * t.astype(float)
            term = np.where((d == 0) | (t == 0), 0.0, product)
            total, size = total + term, size + abs(term)
    return total, size


def block(rng, shape, dtype, layout, low=0.3, high=3.0):
    """An array of a shape in one of the layouts that users meet."""
    values = np.asarray(rng.uniform(low, high, shape), dtype)
    back = tuple(slice(None, None, -1) for _ in shape)
    if layout == "reversed":
        return values[back].copy()[back]
    if layout == "strided":
        wide = np.zeros(tuple(2 * n + 1 for n in shape), dtype)
        view = wide[(..., *(slice(1, 2 * n + 1, 2) for n in shape))]
        view[...] = values
        return view
    return values.copy(layout)


def lanes_like(rng, width, value, layout="C"):
    """Lanes of an array, outermost and contiguous, or innermost in memory."""
    lanes = rng.uniform(-2, 2, (width, *value.shape)).astype(value.dtype)
    return lanes if layout == "C" else np.moveaxis(np.moveaxis(lanes, 0, -1).copy(), -1, 0)


def spread(t, shape):
    """Lanes broadcast to a shape."""
    return np.broadcast_to(t.reshape(len(t), *(1,) * (len(shape) + 1 - t.ndim), *t.shape[1:]), (len(t), *shape))


def check(kernels, name, operands, shape, dtype, width, out=None, exact=False, rtol=None):
    value, tangent = out or (np.full(shape, np.nan, dtype), np.full((width, *shape), np.nan, dtype))
    plain = [(np.array(v), None if t is None else np.array(spread(t, shape))) for v, t in operands]
    with np.errstate(all="ignore"):
        expected = np.asarray(public(TABLE[name])(*(v for v, _ in plain)))
    wanted, size = reference(name, plain, expected)
    operands = [(np.broadcast_to(v, shape), None if t is None else spread(t, shape)) for v, t in operands]
    assert kernels.map(name, operands, (value, tangent), loop_for(kernels, name, dtype), exact) == 0
    if name not in ("sin", "cos") or exact:
        np.testing.assert_array_equal(value, expected)
    eps = np.finfo(dtype).eps
    assert (abs(tangent - wanted) <= (rtol or 8 * eps) * size + 16 * eps).all()
    return value, tangent


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["C", "F", "reversed", "strided"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (1300,), (3, 5), (40, 61), (2, 3, 4, 5), (0,), (3, 0, 2), (513, 2)])
@pytest.mark.parametrize("name", ["multiply", "sin", "divide", "add"])
def test_geometry(kernels, name, shape, layout, dtype):
    rng = np.random.default_rng(1)
    operands = []
    for _ in range(TABLE[name].nin):
        v = block(rng, shape, dtype, layout)
        operands.append((v, lanes_like(rng, 3, v, layout)))
    check(kernels, name, operands, shape, dtype, 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 1), (1, 50)),
        ((1, 3), (600, 3)),
        ((), (1000,)),
        ((20, 1, 20, 1), (1, 40, 1, 40)),
        ((1, 2, 1), (3, 1, 700)),
        ((5,), (2, 5)),
    ],
)
@pytest.mark.parametrize("name", ["multiply", "subtract", "arctan2", "power"])
def test_broadcast(kernels, name, shapes, dtype):
    rng = np.random.default_rng(2)
    operands = [(v, lanes_like(rng, 2, v)) for v in (block(rng, s, dtype, "C") for s in shapes)]
    check(kernels, name, operands, np.broadcast_shapes(*shapes), dtype, 2)
    check(kernels, name, [operands[0], (operands[1][0], None)], np.broadcast_shapes(*shapes), dtype, 2)
    check(kernels, name, [(operands[0][0], None), operands[1]], np.broadcast_shapes(*shapes), dtype, 2)


@pytest.mark.parametrize("width", [*range(1, 13), 17, 33])
@pytest.mark.parametrize("n", [1, 8, 10, 31, 512, 515])
def test_widths(kernels, width, n):
    rng = np.random.default_rng(width)
    operands = [(v, lanes_like(rng, width, v)) for v in (block(rng, (n,), np.float64, "C") for _ in range(2))]
    for name in ("multiply", "add", "divide"):
        check(kernels, name, operands, (n,), np.float64, width)


@pytest.mark.parametrize("name", ["multiply", "subtract", "sin", "sqrt", "divide", "exp", "power"])
@pytest.mark.parametrize("layout", ["C", "F", "reversed", "strided"])
def test_in_place(kernels, name, layout):
    rng = np.random.default_rng(4)
    for which in range(TABLE[name].nin):
        operands = []
        for _ in range(TABLE[name].nin):
            v = block(rng, (30, 40), np.float64, layout)
            operands.append((v, lanes_like(rng, 3, v, layout)))
        check(kernels, name, operands, (30, 40), np.float64, 3, out=operands[which])
    x = operands[0]
    if TABLE[name].nin == 2:
        check(kernels, name, [x, x], (30, 40), np.float64, 3, out=x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", list(TABLE))
def test_every_row(best_kernels, name, dtype):
    if name not in best_kernels.rows or name in ("elliprd", "math_remainder"):
        pytest.skip("no kernel, or no ufunc behind it")
    row, kernel = TABLE[name], best_kernels.row(name)
    if not kernel.value_inside and loop_for(best_kernels, name, dtype) is None:
        pytest.skip("no loop of one dtype")
    rng, draw = np.random.default_rng(5), random.Random(5)
    operands = []
    for partial, domain in zip(row.partials, row.domain, strict=True):
        v = np.array(domain.sample(draw, 100), dtype)
        operands.append((v, None if partial is None else lanes_like(rng, 2, v)))
    check(best_kernels, name, operands, (100,), dtype, 2, rtol=1e-12 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("shape", [(7,), (600,), (3, 300), (30, 4)])
@pytest.mark.parametrize(
    "windows", [((0, 2), (2, 5)), ((1, 3), (0, 5)), ((3, 5), (0, 1)), ((0, 0), (1, 2)), ((1, 4), (2, 3))]
)
@pytest.mark.parametrize("name", ["multiply", "add", "divide"])
def test_lane_windows(best_kernels, name, windows, shape):
    """Tangents that hold only some of five lanes count as zero in the others."""
    rng = np.random.default_rng(11)
    for layout in ("C", "strided"):
        whole, cut = [], []
        for lo, hi in windows:
            v = block(rng, shape, np.float64, layout)
            t = np.zeros((5, *shape))
            t[lo:hi] = rng.uniform(-1, 1, (hi - lo, *shape))
            whole.append((v, t))
            cut.append((v, t[lo:hi].copy()))
        expected, got = ((np.empty(shape), np.full((5, *shape), np.nan)) for _ in range(2))
        best_kernels.map(name, whole, expected)
        assert best_kernels.map(name, cut, got, windows=windows) == 0
        np.testing.assert_array_equal(got[0], expected[0])
        np.testing.assert_array_equal(got[1], expected[1])


@pytest.mark.parametrize("exact", [False, True])
def test_three_operands(kernels, exact):
    rng = np.random.default_rng(6)
    x, low, high = (block(rng, (700,), np.float64, "C") for _ in range(3))
    operands = [(v, lanes_like(rng, 2, v)) for v in (x, low, high)]
    check(kernels, "clip", operands, (700,), np.float64, 2, exact=exact)


def test_an_operand_without_derivative_is_refused(kernels):
    x, e = np.ones(3), np.ones(3)
    out, t = np.full(3, 7.0), np.full((1, 3), 7.0)
    loop = loop_for(kernels, "multiply", np.float64)
    assert kernels.map("ldexp", [(x, None), (e, np.ones((1, 3)))], (out, t), loop) == 2
    assert (out == 7).all() and (t == 7).all()


@pytest.mark.parametrize("n", [1, 5, 700])
@pytest.mark.parametrize("in_place", [False, True])
def test_strong_zero(kernels, n, in_place):
    """Lane 0 is seeded, lane 1 is zero: an infinite derivative leaves lane 1 at zero."""
    cases = {"sqrt": (0.0, np.inf), "log": (0.0, np.inf), "exp": (1000.0, np.inf), "arctanh": (1.0, np.inf),
             "reciprocal": (0.0, -np.inf)}  # fmt: skip
    for name, (point, wanted) in cases.items():
        x = np.full(n, point)
        t = np.stack([np.ones(n), np.zeros(n)])
        out = (x, t) if in_place else (np.empty(n), np.empty((2, n)))
        assert kernels.map(name, [(x, t)], out, loop_for(kernels, name, np.float64)) == 0
        assert (out[1][0] == wanted).all(), name
        assert (out[1][1] == 0).all(), name


def test_strong_zero_from_both_sides(kernels):
    inf, nan = np.inf, np.nan
    x, y = np.array([0.0, inf, 1.0, 0.0]), np.array([inf, 0.0, nan, 2.0])
    tx, ty = np.array([[1.0, inf, 0.0, inf]]), np.array([[inf, 1.0, 1.0, 0.0]])
    out = np.empty(4), np.empty((1, 4))
    kernels.map("multiply", [(x, tx), (y, ty)], out)
    np.testing.assert_array_equal(out[1], [[inf, inf, 1.0, inf]])
    kernels.map("multiply", [(x, tx), (y, None)], out)
    np.testing.assert_array_equal(out[1], [[inf, 0.0, 0.0, inf]])


def test_a_true_nan_stays(kernels):
    out = np.empty(2), np.empty((1, 2))
    kernels.map("multiply", [(np.array([1.0, np.nan]), np.array([[np.nan, 1.0]])), (np.ones(2), None)], out)
    assert np.isnan(out[1][0, 0]) and out[1][0, 1] == 1


def test_zero_derivative_and_no_tangent(kernels):
    x = np.array([1.5, -2.5])
    out = np.empty(2), np.full((3, 2), 9.0)
    assert kernels.map("floor", [(x, np.ones((3, 2)))], out, loop_for(kernels, "floor", np.float64)) == 0
    np.testing.assert_array_equal(out[1], np.zeros((3, 2)))
    assert kernels.map("sin", [(x, np.ones((3, 2)))], (out[0], None)) == 0
    np.testing.assert_allclose(out[0], np.sin(x), rtol=1e-15)


def ulps(got, exact):
    """The error of a float64 in units of its last place, against an mpmath number."""
    return abs(mpmath.mpf(float(got)) - exact) / mpmath.mpf(math.ulp(float(exact)))


def sin_cos(kernels, x, dtype=np.float64, exact=False):
    x = np.asarray(x, dtype)
    out = np.empty_like(x), np.empty((1, len(x)), dtype)
    loop = loop_for(kernels, "sin", dtype) if exact else None
    assert kernels.map("sin", [(x, np.ones((1, len(x)), dtype))], out, loop, exact) == 0
    return out[0], out[1][0]


def test_sincos_stays_below_one_ulp(kernels):
    rng = np.random.default_rng(7)
    multiples = np.round(rng.uniform(-6e4, 6e4, 300)) * (math.pi / 2)
    x = np.concatenate([rng.uniform(-1e5, 1e5, 1500), rng.uniform(-4, 4, 1500), multiples,
                        np.nextafter(multiples, np.inf), 10.0 ** rng.uniform(-300, 0, 100), [0.0, -0.0]])  # fmt: skip
    sine, cosine = sin_cos(kernels, x)
    with mpmath.workprec(200):
        worst = max(ulps(s, mpmath.sin(v)) for v, s in zip(x, sine, strict=True) if v)
        worst = max(worst, *(ulps(c, mpmath.cos(v)) for v, c in zip(x, cosine, strict=True)))
    assert worst < 0.8
    assert math.copysign(1.0, sine[-1]) == -1.0


def test_sincos_far_out_is_libm(kernels):
    x = np.array([1e5, -1e5, 123456.789, 1e22, 1e300, -3e8, 0.5])
    sine, cosine = sin_cos(kernels, x)
    np.testing.assert_array_equal(sine[:-1], [math.sin(v) for v in x[:-1]])
    np.testing.assert_array_equal(cosine[:-1], [math.cos(v) for v in x[:-1]])
    sine, cosine = sin_cos(kernels, [np.inf, -np.inf, np.nan, 1.0])
    assert np.isnan(sine[:3]).all() and np.isnan(cosine[:3]).all()
    assert abs(sine[3] - math.sin(1.0)) < 1e-15


def test_exponential_of_coefficients(kernels):
    """expm1 takes its derivative from the kernels' own exp: under one ulp, with the ends of the range as libm's."""
    ends = [0.0, 709.9, np.inf, -746.0, -np.inf, np.nan]
    x = np.concatenate([np.random.default_rng(12).uniform(-708, 709.7, 1000), ends])
    out = np.empty_like(x), np.empty((1, len(x)))
    with np.errstate(over="ignore"):
        kernels.map("expm1", [(x, np.ones((1, len(x))))], out, loop_for(kernels, "expm1", np.float64))
    with mpmath.workprec(200):
        assert max(ulps(got, mpmath.exp(v)) for v, got in zip(x[:-6], out[1][0], strict=False)) < 1.0
    np.testing.assert_array_equal(out[1][0, -6:], [1.0, np.inf, np.inf, 0.0, 0.0, np.nan])


def test_every_set_agrees_to_one_ulp(baseline_kernels, kernels):
    x = np.random.default_rng(8).uniform(-100, 100, 3001)
    for got, base in zip(sin_cos(kernels, x), sin_cos(baseline_kernels, x), strict=True):
        np.testing.assert_array_max_ulp(got, base, 1)


def test_one_set_gives_the_same_bits_to_arrays_and_scalars(kernels):
    x = np.random.default_rng(8).uniform(-100, 100, 301)
    for k, got in enumerate(sin_cos(kernels, x)):
        np.testing.assert_array_equal(got, [sin_cos(kernels, x[i : i + 1])[k][0] for i in range(len(x))])


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_sine_is_numpys(kernels, dtype):
    x = np.random.default_rng(9).uniform(-200, 200, 5000).astype(dtype)
    np.testing.assert_array_equal(sin_cos(kernels, x, dtype, exact=True)[0], np.sin(x))


def test_power(kernels):
    x = np.array([0.0, 0.0, 0.0, 0.0, -2.0, 1e200, 1e-200, 3.0, np.inf])
    p = np.array([0.5, 2.0, 1.0, 0.0, 3.0, 2.0, 2.0, 2.0, 2.0])
    t = np.ones((1, len(x)))
    out = np.empty_like(x), np.empty((1, len(x)))
    loop = loop_for(kernels, "power", np.float64)
    kernels.map("power", [(x, t), (p, None)], out, loop)
    np.testing.assert_allclose(out[1][0], [np.inf, 0.0, 1.0, 0.0, 12.0, 2e200, 2e-200, 6.0, np.inf])
    kernels.map("power", [(x, None), (p, t)], out, loop)
    np.testing.assert_allclose(out[1][0, [0, 1, 2, 7]], [0.0, 0.0, 0.0, 9 * math.log(3.0)])
    assert np.isnan(out[1][0, 3])
    kernels.map("power", [(x, t), (np.full_like(x, 2.0), None)], out, loop)
    np.testing.assert_array_equal(out[1][0], 2 * x)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16", "V3"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (30, 7), (2, 3, 4)])
def test_copy(best_kernels, dtype, shape):
    every_other, back = ((..., *(slice(None, None, step) for _ in shape)) for step in (2, -1))
    raw = np.random.default_rng(10).integers(0, 255, (*(2 * n for n in shape), np.dtype(dtype).itemsize), "u1")
    half = raw.view(dtype)[..., 0][every_other] if shape else raw.view(dtype).reshape(())
    layouts = [half, half.copy("C"), half.copy("F"), half[back]]
    stretched = [np.broadcast_to(half[..., :1], shape)] if shape and shape[-1] else []
    for src in layouts + stretched:
        for target in layouts:
            dst = np.zeros_like(raw).view(dtype)[..., 0][every_other] if target is half and shape else target.copy("K")
            best_kernels.copy(dst, src)
            assert dst.tobytes() == src.tobytes()


def test_an_unknown_set_is_refused(kernel_library):
    assert not kernel_library.nd_select(b"v9")
