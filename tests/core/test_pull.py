"""nd_pull against nd_map, the definition and exact sums: every row, geometry, strong zeros, shared memory."""

from __future__ import annotations

import importlib
import itertools
import math
import random

import numpy as np
import pytest

from ndual.rules.elementwise import TABLE

DTYPES = [np.float32, np.float64]
COEF_NONE, COEF_ZERO, COEF_ARRAY, COEF_X0 = 0, 1, 4, 5


def loop_for(kernels, name, dtype):
    """NumPy's loop of a row, or None if it has none of one dtype."""
    public = next((text for text in TABLE[name].serves if text.startswith(("numpy.", "scipy."))), None)
    if public is None:
        return None
    module, _, function = public.rpartition(".")
    try:
        return kernels.loop(getattr(importlib.import_module(module), function), np.dtype(dtype))
    except (ValueError, AttributeError):
        return None


def value_of(kernels, name, values, shape):
    """The value of a row, by nd_map."""
    dtype = values[0].dtype
    y = np.empty(shape, dtype)
    full = [(np.broadcast_to(v, shape), None) for v in values]
    assert kernels.map(name, full, (y, None), loop_for(kernels, name, dtype)) == 0
    return y


def forward(kernels, name, values, w, i):
    """What the operand receives by the forward kernel: w as its tangent; and the size of what was summed."""
    shape, dtype = w.shape, w.dtype
    full = [(np.broadcast_to(v, shape), w[None] if k == i else None) for k, v in enumerate(values)]
    out = np.empty(shape, dtype), np.empty((1, *shape), dtype)
    assert kernels.map(name, full, out, loop_for(kernels, name, dtype)) == 0
    return gathered(out[1][0], values[i].shape)


def gathered(products, shape):
    """Sums over the axes along which an operand of a shape was stretched, and of the sizes of what was summed."""
    lead = products.ndim - len(shape)
    axes = [k for k, n in enumerate(products.shape) if k < lead or (shape[k - lead] == 1 and n > 1)]
    # In rows: only along the last axis NumPy's own sums are pairwise.
    last = np.moveaxis(products.astype(float), axes, range(-len(axes), 0))
    rows = np.ascontiguousarray(last).reshape(math.prod(shape), -1) if products.size else np.zeros((0, 1))
    return rows.sum(axis=1).reshape(shape), abs(rows).sum(axis=1).reshape(shape)


def stretch(shadow, shape):
    """A view of a shadow with stride 0 where it is stretched, to write through."""
    lead = len(shape) - shadow.ndim
    strides = [0] * lead + [
        0 if n == 1 and shape[k + lead] != 1 else step
        for k, (n, step) in enumerate(zip(shadow.shape, shadow.strides, strict=True))
    ]
    return np.lib.stride_tricks.as_strided(shadow, shape, strides)


def laid_out(array, layout):
    """A copy of an array in one of the layouts that users meet."""
    if layout == "reversed":
        back = (..., *(slice(None, None, -1) for _ in array.shape))
        return array[back].copy()[back]
    if layout == "strided":
        wide = np.zeros(tuple(2 * n + 1 for n in array.shape), array.dtype)
        view = wide[(..., *(slice(1, 2 * n + 1, 2) for n in array.shape))]
        view[...] = array
        return view
    return array.copy(layout)


def check(kernels, name, values, w, wanted=None, layout="C", fresh=False, everything=False, rtol=None):
    """One pullback against the forward kernel; shadows hold numbers before, unless fresh."""
    shape, dtype = w.shape, w.dtype
    rng = np.random.default_rng(17)
    wanted = wanted or [True] * len(values)
    before = [np.asarray(rng.uniform(-1, 1, v.shape), dtype) for v in values]
    shadows = [laid_out(np.full_like(b, np.nan) if fresh else b, layout) for b in before]
    views = [stretch(s, shape) if yes else None for s, yes in zip(shadows, wanted, strict=True)]
    y = value_of(kernels, name, values, shape)
    full = [np.broadcast_to(v, shape) for v in values]
    assert kernels.pull(name, full, y, w, views, [fresh] * len(values), everything) == 0
    eps = np.finfo(dtype).eps
    for i, yes in enumerate(wanted):
        if not yes:
            continue
        expected, size = forward(kernels, name, values, w, i)
        start = 0 if fresh else before[i]
        error = abs(shadows[i].astype(float) - (expected + start))
        assert (error <= (rtol or 8 * eps) * size + 2 * eps * abs(start)).all(), (name, i, error.max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", list(TABLE))
def test_every_row(best_kernels, name, dtype):
    if name not in best_kernels.rows:
        pytest.skip("no kernel")
    row, kernel = TABLE[name], best_kernels.row(name)
    if not kernel.value_inside and loop_for(best_kernels, name, dtype) is None:
        pytest.skip("no loop of one dtype")
    draw, rng = random.Random(5), np.random.default_rng(5)
    values = [np.array(domain.sample(draw, 100), dtype) for domain in row.domain]
    w = rng.uniform(-2, 2, 100).astype(dtype)
    able = [kernel.coef[k] != COEF_NONE for k in range(row.nin)]
    rtol = 1e-12 if dtype == np.float64 else 1e-3
    for wanted in itertools.product(*([True, False] if yes else [False] for yes in able)):
        for fresh, everything in ((False, False), (True, True)):
            check(best_kernels, name, values, w, list(wanted), fresh=fresh, everything=everything, rtol=rtol)


def test_what_a_row_needs_is_what_it_reads(best_kernels):
    """Values that are not needed may be anything; a needed one that is missing is refused."""
    seen, draw = 0, random.Random(5)
    w, nan = np.linspace(1, 2, 40), np.full(40, np.nan)
    for name in best_kernels.rows:
        kernel, nin = best_kernels.row(name), TABLE[name].nin
        values = [np.array(domain.sample(draw, 40)) for domain in TABLE[name].domain]
        if not kernel.value_inside and loop_for(best_kernels, name, np.float64) is None:
            continue
        y = value_of(best_kernels, name, values, (40,))
        for i in range(nin):
            coef, needs = kernel.coef[i], kernel.needs[i]
            if coef < COEF_ARRAY:
                assert needs == 0, name
            elif coef >= COEF_X0:
                assert needs == 1 << coef - COEF_X0, name
            if coef == COEF_NONE:
                continue
            results = []
            for spoiled in (False, True):
                shadows = [np.zeros(40) if k == i else None for k in range(nin)]
                given = [nan if spoiled and not needs >> k & 1 else v for k, v in enumerate(values)]
                given_y = nan if spoiled and not needs & 8 else y
                assert best_kernels.pull(name, given, given_y, w, shadows, everything=True) == 0, name
                results.append(shadows[i])
            np.testing.assert_array_equal(*results, err_msg=name)
            shadows = [np.zeros(40) if k == i else None for k in range(nin)]
            assert best_kernels.pull(name, [None] * nin, None, w, shadows) == (-1 if needs else 0), name
            seen += 1
    assert seen > 150


def test_no_row_asks_for_more(best_kernels):
    """A tape keeps what is asked for: dividing in place by a number must not keep what was divided."""
    known = {
        "divide": [2, 10], "sqrt": [8], "reciprocal": [8], "square": [1], "exp": [8], "log": [1], "where": [0, 1, 1],
        "power": [11, 11], "multiply": [2, 1], "add": [0, 0], "arctan2": [3, 3], "deg2rad": [0], "sin": [1],
    }  # fmt: skip
    for name, needs in known.items():
        assert list(best_kernels.row(name).needs)[: len(needs)] == needs, name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["C", "F", "reversed", "strided"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (1300,), (3, 5), (40, 61), (2, 3, 4, 5), (0,), (3, 0, 2), (513, 2)])
@pytest.mark.parametrize("name", ["multiply", "sin", "divide", "subtract"])
def test_geometry(kernels, name, shape, layout, dtype):
    rng = np.random.default_rng(1)
    values = [laid_out(np.asarray(rng.uniform(0.3, 3, shape), dtype), layout) for _ in range(TABLE[name].nin)]
    w = laid_out(np.asarray(rng.uniform(-2, 2, shape), dtype), layout)
    for fresh, to in itertools.product((False, True), {layout, "C"}):
        check(kernels, name, values, w, layout=to, fresh=fresh)
    check(kernels, name, values, np.broadcast_to(np.asarray(1.5, dtype), shape), layout=layout)


BROADCASTS = [
    ((4, 1), (1, 50)),
    ((1, 3), (600, 3)),
    ((), (1000,)),
    ((), (2, 700)),
    ((6, 1, 9, 1), (1, 20, 1, 40)),
    ((1, 2, 1), (3, 1, 700)),
    ((5,), (2, 5)),
    ((700, 1), (700, 40)),
    ((3, 1300), (1, 1300)),
    ((40, 1, 3), (40, 50, 3)),
    ((9, 1, 3), (9, 2, 3)),
    ((1, 600, 1), (2, 600, 2)),
    ((1, 1), (30, 40)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", BROADCASTS)
@pytest.mark.parametrize("name", ["multiply", "subtract", "arctan2", "divide"])
def test_broadcast(best_kernels, name, shapes, dtype):
    rng = np.random.default_rng(2)
    shape = np.broadcast_shapes(*shapes)
    for layout in ("C", "F", "strided"):
        values = [laid_out(np.asarray(rng.uniform(0.3, 3, s), dtype), layout) for s in shapes]
        for of_w in (shape, *shapes, ()):
            w = np.broadcast_to(laid_out(np.asarray(rng.uniform(-2, 2, of_w), dtype), layout), shape)
            check(best_kernels, name, values, w, layout=layout)
            check(best_kernels, name, values[::-1], w, layout="C", fresh=True)


def test_random_geometry(kernels):
    """Axes stretched, cut, turned round and swapped at random."""
    rng = np.random.default_rng(20)
    names = ["multiply", "subtract", "divide", "hypot", "power", "add", "where", "clip"]
    for _ in range(150):
        name = names[rng.integers(len(names))]
        ndim = int(rng.integers(1, 5))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 7, 40], ndim))
        dtype = DTYPES[rng.integers(2)]

        def operand(shape=shape, dtype=dtype):
            own = tuple(1 if rng.random() < 0.35 else n for n in shape)[int(rng.integers(0, len(shape) + 1)) :]
            order = rng.permutation(len(own))
            made = np.asarray(rng.uniform(0.5, 2, [own[k] for k in order]), dtype)
            return laid_out(made, ["C", "F", "reversed", "strided"][rng.integers(4)]).transpose(np.argsort(order))

        values = [operand() for _ in range(TABLE[name].nin)]
        w = np.broadcast_to(operand(), shape)
        wanted = [bool(rng.random() < 0.7) for _ in values]
        check(kernels, name, values, w, wanted, layout=["C", "F", "reversed", "strided"][rng.integers(4)])


@pytest.mark.parametrize("n", [1, 5, 700])
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("stretched", [False, True])
def test_strong_zero(kernels, n, fresh, stretched):
    """An infinite derivative times a zero cotangent, and a zero derivative times an infinite one, are nothing."""
    cases = {"sqrt": 0.0, "log": 0.0, "exp": 1000.0, "arctanh": 1.0, "reciprocal": 0.0}
    for name, point in cases.items():
        x = np.broadcast_to(np.array(point), (n,)) if stretched else np.full(n, point)
        y = value_of(kernels, name, [x], (n,))
        w = np.zeros(n)
        w[-1] = 2.0
        t = np.full(() if stretched else n, 3.0)
        assert kernels.pull(name, [x], y, w, [stretch(t, (n,))], [fresh]) == 0
        inf = -np.inf if name == "reciprocal" else np.inf
        np.testing.assert_array_equal(np.atleast_1d(t)[:-1], 0.0 if fresh else 3.0)
        assert np.atleast_1d(t)[-1] == inf
    zeros, w = np.zeros(n), np.full(n, np.inf)
    t = [np.full(n, 3.0), np.full(n, 3.0)]
    assert kernels.pull("multiply", [zeros, zeros], None, w, t) == 0
    np.testing.assert_array_equal(t, np.full((2, n), 3.0))
    assert kernels.pull("multiply", [zeros, zeros], None, np.broadcast_to(np.nan, (n,)), t) == 0
    np.testing.assert_array_equal(t, np.full((2, n), 3.0))


def test_a_true_nan_stays(kernels):
    t = np.ones(3)
    assert kernels.pull("square", [np.array([1.0, np.nan, 2.0])], None, np.array([np.nan, 1.0, 1.0]), [t]) == 0
    np.testing.assert_array_equal(t, [np.nan, np.nan, 5.0])
    t = np.array([np.nan, 1.0, np.inf])
    assert kernels.pull("square", [np.ones(3)], None, np.array([1.0, 1.0, -np.inf]), [t]) == 0
    np.testing.assert_array_equal(t, [np.nan, 3.0, np.nan])


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("layout", ["C", "strided", "reversed"])
@pytest.mark.parametrize("name", ["multiply", "divide", "add", "subtract", "power"])
def test_same_memory(kernels, name, layout, fresh):
    """x * x: both contributions arrive, also where the first one is assigned."""
    for shape in ((), (10,), (700,), (30, 41)):
        x = laid_out(np.random.default_rng(3).uniform(0.5, 2, shape), layout)
        w = np.random.default_rng(4).uniform(-1, 1, shape)
        t = laid_out(np.ones(shape), layout)
        y = value_of(kernels, name, [x, x], shape)
        assert kernels.pull(name, [x, x], y, w, [t, t], [fresh, fresh]) == 0
        both = sum(forward(kernels, name, [x, x], w, i)[0] for i in range(2))
        np.testing.assert_allclose(t, both + (not fresh), rtol=1e-13, atol=1e-13)


def test_overlapping_shadows(kernels):
    """u[1:] * u[:-1], and a window that slides."""
    rng = np.random.default_rng(6)
    u, w, t = rng.uniform(0.5, 2, 900), rng.uniform(-1, 1, 899), np.zeros(900)
    assert kernels.pull("multiply", [u[1:], u[:-1]], None, w, [t[1:], t[:-1]]) == 0
    expected = np.zeros(900)
    expected[1:] += w * u[:-1]
    expected[:-1] += w * u[1:]
    np.testing.assert_allclose(t, expected, rtol=1e-14, atol=1e-15)
    slide = np.lib.stride_tricks.sliding_window_view
    for width in (3, 50):
        windows, t = slide(u, width), np.zeros(900)
        w = rng.uniform(-1, 1, windows.shape)
        shadow = slide(t, width, writeable=True)
        assert kernels.pull("square", [windows], None, w, [shadow]) == 0
        expected = np.zeros(900)
        for k in range(width):
            expected[k : k + len(w)] += 2 * windows[:, k] * w[:, k]
        np.testing.assert_allclose(t, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["floor", "sign", "floor_divide"])
def test_no_derivative_is_zero(kernels, name):
    nin = TABLE[name].nin
    x, w = [np.full((3, 5), 1.5)] * nin, np.full((3, 5), np.nan)
    for layout in ("C", "strided"):
        t = [laid_out(np.full((3, 5), 7.0), layout) for _ in range(nin)]
        assert kernels.pull(name, x, None, w, t) == 0
        np.testing.assert_array_equal(t, np.full((nin, 3, 5), 7.0))
        assert kernels.pull(name, x, None, w, t, [True] * nin) == 0
        np.testing.assert_array_equal(t, np.zeros((nin, 3, 5)))


def test_an_operand_without_derivative_is_refused(kernels):
    x, w = np.ones(3), np.ones(3)
    t = [np.full(3, 7.0), np.full(3, 7.0)]
    assert kernels.pull("ldexp", [x, x], x, w, t, [True, True]) == 2
    np.testing.assert_array_equal(t, np.full((2, 3), 7.0))
    assert kernels.pull("ldexp", [x, x], x, w, [t[0], None]) == 0
    np.testing.assert_array_equal(t[0], np.full(3, 9.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sums_are_exact_to_the_last_place(best_kernels, dtype):
    """A running sum would lose four digits here; float32 products are summed in double."""
    rng = np.random.default_rng(9)
    n = 600_000
    for shape, axes in (((n,), (0,)), ((n // 4, 4), (0,)), ((4, n // 4), (1,)), ((200, n // 200), (0, 1))):
        w = rng.uniform(0.5, 1, shape).astype(dtype)
        own = tuple(1 if k in axes else m for k, m in enumerate(shape))
        x, t = np.ones(own, dtype), np.zeros(own, dtype)
        full = np.broadcast_to(x, shape)
        assert best_kernels.pull("negative", [full], None, w, [stretch(t, shape)]) == 0
        columns = np.moveaxis(w, axes, range(len(axes))).reshape(math.prod(shape[k] for k in axes), -1)
        exact = np.array([-math.fsum(map(float, column)) for column in columns.T]).reshape(own)
        np.testing.assert_allclose(t, exact.astype(dtype), rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("shape", [(8,), (400,), (8, 3), (3, 8), (2, 4, 5), (700, 40), (8, 700)])
def test_float32_sums_keep_what_cancels(best_kernels, shape):
    """Large numbers that cancel leave the small ones beside them, as in double."""
    rng = np.random.default_rng(21)
    for axis in range(len(shape)):
        own = tuple(1 if k == axis else m for k, m in enumerate(shape))
        w = np.where(rng.random(shape) < 0.5, 1.0, 2.0**-26).astype(np.float32)
        w = np.concatenate([w, np.where(w == 1, np.float32(-1), w)], axis)
        w = rng.permuted(w, axis=axis)
        t = np.zeros(own, np.float32)
        x = np.broadcast_to(np.ones(own, np.float32), w.shape)
        assert best_kernels.pull("positive", [x], None, w, [stretch(t, w.shape)]) == 0
        np.testing.assert_array_equal(t, w.sum(axis=axis, keepdims=True, dtype=float).astype(np.float32))


@pytest.mark.parametrize("fresh", [False, True])
def test_nothing_is_written_for_an_empty_shape(kernels, fresh):
    x, w, t = np.broadcast_to(2.0, (3, 0)), np.ones((3, 0)), np.full((), 7.0)
    assert kernels.pull("multiply", [x, w], None, w, [stretch(t, (3, 0)), None], [fresh, False]) == 0
    assert t == 7.0


def test_a_factor_stands_for_what_does_not_vary(best_kernels):
    """The outer product of two arrays, summed: more elements than could be walked one by one."""
    n = 3_000_000
    x, y = np.linspace(1, 2, 5), np.linspace(-1, 3, 7)
    shape = (n, 5, n, 7)
    w = np.broadcast_to(0.5, shape)
    tx, ty = np.zeros(5), np.zeros(7)
    views = [np.broadcast_to(x[:, None, None], shape), np.broadcast_to(y, shape)]
    to = [np.lib.stride_tricks.as_strided(t, shape, (0, 8 * (t is tx), 0, 8 * (t is ty))) for t in (tx, ty)]
    assert best_kernels.pull("multiply", views, None, w, to) == 0
    np.testing.assert_allclose(tx, 0.5 * n * n * y.sum() * np.ones(5), rtol=1e-14)
    np.testing.assert_allclose(ty, 0.5 * n * n * x.sum() * np.ones(7), rtol=1e-14)


def test_bad_arguments_are_refused(kernels):
    x, t = np.ones(3), np.ones(3)
    assert kernels.pull("sin", [x, x], None, x, [t, None]) == -1
    np.testing.assert_array_equal(t, np.ones(3))
