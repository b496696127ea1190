"""Every generated kernel, compiled as host C++: its numbers are those of the kernels of the host."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess

import numpy as np
import pytest
from kernel_texts import CASES, CTYPES, LANES, SECOND, STRIDED, SUMMED, in_one_file, letters_of, partials_of, tag, texts

from ndual import _core
from ndual._core.nested import NESTED
from ndual._core.storage import HOST
from ndual.gpu import source
from ndual.gpu.layout import layout
from ndual.rules.elementwise import TABLE

COMPILER = shutil.which("g++") or shutil.which("c++")
RTOL = {"d": 1e-12, "f": 2e-4, "e": 1e-3, "D": 1e-11, "F": 2e-4}
N = 6
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All kernels in one shared library."""
    folder = tmp_path_factory.mktemp("kernels")
    parts = ["#include <cmath>\n#include <complex>\n#include <cstddef>\n#include <cstring>\n", *in_one_file(texts())]
    (folder / "kernels.cpp").write_text("".join(parts))
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-DND_HOST", "-Wall", "-Wextra", "-Werror"]
    quiet = ["-Wno-unused-parameter", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-const-variable"]
    subprocess.run([COMPILER, *flags, *quiet, "kernels.cpp", "-o", "kernels.so"], cwd=folder, check=True, timeout=300)
    return ctypes.CDLL(str(folder / "kernels.so"))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def places(sums):
    """Where a kernel leaves its sums: that of the value, those of the lanes, and nothing of one block alone."""
    return pointer(sums), pointer(sums[1:]), None


def words(number):
    return ctypes.c_longlong(number)


def points(row, dtype):
    draw = random.Random(row.name)
    xs = [np.array(domain.sample(draw, N)) for domain in row.domain]
    if dtype.kind == "c":
        xs = [x + 1j * np.array([draw.uniform(-0.5, 0.5) for _ in x]) for x in xs]
    return [x.astype(dtype) for x in xs]


def directions(row, dtype, count=LANES):
    rng = np.random.default_rng(5)

    def some():
        t = rng.uniform(-1, 1, (count, N))
        return (t + 1j * rng.uniform(-1, 1, (count, N)) if dtype.kind == "c" else t).astype(dtype)

    return [some() if on else None for on in partials_of(row)]


def reference(row, xs, ts):
    """Value and lanes by the kernels of the host."""
    with _core.Level(LANES) as level:
        duals = [x if t is None else _core.dual(x, t, level) for x, t in zip(xs, ts, strict=True)]
        out = _core.apply_row(row.name, *duals)
        return _core.primal(out), _core.lanes(out)


def close(found, expected):
    rtol = RTOL[expected.dtype.char]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * max(1.0, float(np.max(np.abs(expected)))))


@pytest.mark.parametrize(("name", "ctype"), CASES)
def test_kernels_of_rows(library, name, ctype):
    row, dtype = TABLE[name], CTYPES[ctype]
    xs, ts = points(row, dtype), directions(row, dtype)
    value, lanes = reference(row, xs, ts)
    y, dy = np.empty(N, value.dtype), np.empty((LANES, N), value.dtype)
    arguments = []
    for x, t in zip(xs, ts, strict=True):
        arguments += [pointer(x)] if t is None else [pointer(x), pointer(t), words(N)]
    getattr(library, f"forward_{tag(name, ctype)}")(*arguments, pointer(y), pointer(dy), words(N))
    close(y, value)
    close(dy, lanes)
    # As the storage without kernels has it, by NumPy's functions.
    wanted = partials_of(row)
    w = lanes[0]
    expected = HOST.pull_all(row, None, xs, value, wanted, w)
    found = [np.empty(N, dtype) if on else None for on in wanted]
    given = [x for x, letter in zip([*xs, value], letters_of(row, ctype), strict=False) if letter == "a"]
    outputs = [g for g in found if g is not None]
    getattr(library, f"pullback_{tag(name, ctype)}")(*map(pointer, [*given, w, *outputs]), words(N))
    for g, there in zip(found, expected, strict=True):
        if g is not None:
            close(g, np.zeros(N, dtype) if there is None else there.astype(dtype))


@pytest.mark.parametrize(("name", "ctype", "i"), SECOND)
def test_kernels_of_second_order(library, name, ctype, i):
    """A partial times a factor with lanes through both, beside the same by duals of duals."""
    row, dtype = TABLE[name], CTYPES[ctype]
    xs, ts = points(row, dtype), directions(row, dtype)
    w, tw = np.linspace(0.5, 2, N).astype(dtype), np.linspace(-1, 1, LANES * N).reshape(LANES, N).astype(dtype)
    with _core.Level(LANES) as level:
        duals = [x if t is None else _core.dual(x, t, level) for x, t in zip(xs, ts, strict=True)]
        value = _core.apply_row(row.name, *duals)
        out = NESTED.pull(row, None, duals, value, i, _core.dual(w, tw, level))
        y = np.ascontiguousarray(_core.primal(value))
        if out is not None:
            expected = _core.primal(out), _core.lanes(out)
        else:
            expected = np.zeros(N, dtype), np.zeros((LANES, N), dtype)
    g, dg = np.empty(N, dtype), np.empty((LANES, N), dtype)
    arguments = []
    for x, t in zip([*xs, y, w], [*ts, None, tw], strict=True):
        arguments += [pointer(x)] if t is None else [pointer(x), pointer(t), words(N)]
    getattr(library, f"second_{tag(name, ctype)}_{i}")(*arguments, pointer(g), pointer(dg), words(N))
    close(g, expected[0].astype(dtype))
    close(dg, expected[1].astype(dtype))


@pytest.mark.parametrize(("name", "ctype"), [case for case in CASES if case[1] in SUMMED])
def test_sums_of_rows(library, name, ctype):
    row, dtype = TABLE[name], CTYPES[ctype]
    xs, ts = points(row, dtype), directions(row, dtype)
    value, lanes = reference(row, xs, ts)
    arguments = []
    for x, t in zip(xs, ts, strict=True):
        arguments += [pointer(x)] if t is None else [pointer(x), pointer(t), words(N)]
    found = np.zeros(1 + LANES, dtype)
    getattr(library, f"total_{tag(name, ctype)}")(*arguments, *places(found), words(N))
    expected = np.concatenate([[value.sum(dtype="f8")], lanes.sum(1, dtype="f8")])
    sizes = np.concatenate([[abs(value).sum(dtype="f8")], abs(lanes).sum(1, dtype="f8")])
    rtol = RTOL[dtype.char]
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * max(1.0, sizes.max()))
    if name in STRIDED:
        y, alone = np.zeros(N, dtype), np.zeros(1, dtype)
        getattr(library, f"total_{tag(name, ctype)}_alone")(*map(pointer, xs), pointer(y), *places(alone), words(N))
        np.testing.assert_allclose(y, value, rtol=rtol)
        np.testing.assert_allclose(alone, expected[:1], rtol=rtol, atol=rtol * sizes[0])


def test_sums_are_of_float64(library):
    """Numbers that cancel in float32 do not: 2^25 and ones, of which each would be lost beside it."""
    x = np.ones(40_001, np.float32)
    x[0], x[-1] = 2.0**25, -(2.0**25)
    y, found = np.zeros_like(x), np.zeros(1, np.float32)
    one = np.ones_like(x)
    library.total_multiply_f4_alone(pointer(x), pointer(one), pointer(y), *places(found), words(x.size))
    assert found[0] == 39_999


@pytest.mark.parametrize(("name", "ctype"), [(name, ctype) for name, ctype in CASES if name in STRIDED])
def test_kernels_over_strides(library, name, ctype):
    row, dtype = TABLE[name], CTYPES[ctype]
    base = np.linspace(0.2, 1.5, 24).astype(dtype).reshape(4, 6)
    xs = [base.T[::-1, ::2], base[0, :2]][: row.nin]
    ts = [np.concatenate([np.broadcast_to(x * c, (1, *x.shape)) for c in (0.5, 2.0)]) for x in xs]
    xs = [np.ascontiguousarray(x) for x in xs]
    shape = np.broadcast_shapes(*[x.shape for x in xs])
    size = int(np.prod(shape))
    value, lanes = reference(row, xs, ts)
    views = [np.asfortranarray(x) for x in xs]  # cells at strides that are not those of the result
    moved = [np.stack([np.asfortranarray(part) for part in t]) for t in ts]
    moved = [np.ascontiguousarray(t.transpose(0, *range(t.ndim - 1, 0, -1))) for t in moved]
    y, dy = np.empty(shape, dtype), np.empty((LANES, *shape), dtype)
    arguments = []
    for x, t in zip(views, moved, strict=True):
        arguments += [pointer(x), pointer(t), words(x.size)]
    forward = ctypes.c_longlong * (1 + source.DIMS * (1 + row.nin))

    class Layout(ctypes.Structure):
        _fields_ = (("words", forward),)

    struct = Layout(forward(*layout(shape, views)["words"].tolist()))
    getattr(library, f"forward_{tag(name, ctype)}_strided")(*arguments, pointer(y), pointer(dy), struct, words(size))
    close(y, value)
    close(dy, lanes)
    if ctype in SUMMED:
        y[...], sums = 0, np.zeros(1 + LANES, dtype)
        summing = getattr(library, f"total_{tag(name, ctype)}_strided")
        summing(*arguments, pointer(y), *places(sums), struct, words(size))
        close(y, value)
        rtol = 20 * RTOL[dtype.char]
        np.testing.assert_allclose(sums, [value.sum(), *lanes.reshape(LANES, -1).sum(1)], rtol=rtol)


def test_sine_and_cosine_in_float32(library):
    """Within 2 ulp of NumPy's in double precision: near multiples of pi/2, above the fast reduction, and at -0."""
    near = np.arange(-70000, 70000) * (np.pi / 2)
    bits = np.random.default_rng(1).integers(0, 2**31 - 2**23, 300_000, dtype=np.uint32)
    special = np.array([0.0, -0.0, 1e5, -1e5, 3.4e38, 1e-45, np.inf, np.nan])
    x = np.concatenate([near, bits.view(np.float32), special]).astype(np.float32)
    one = np.ones((LANES, len(x)), np.float32)
    y, dy = np.empty_like(x), np.empty_like(one)
    library.forward_sin_f4(pointer(x), pointer(one), words(len(x)), pointer(y), pointer(dy), words(len(x)))
    with np.errstate(invalid="ignore"):
        for found, exact in ((y, np.sin(x.astype(float))), (dy[0], np.cos(x.astype(float)))):
            finite = np.isfinite(exact)
            assert np.isnan(found[~finite]).all()
            ulp = np.spacing(np.abs(exact[finite]).astype(np.float32)).astype(float)
            assert np.max(np.abs(found[finite] - exact[finite]) / ulp) < 2
    assert np.signbit(y[-7]) and not np.signbit(y[-8])


def test_axes_that_lie_side_by_side_are_one():
    x = np.zeros((4, 5, 6))
    assert layout((4, 5, 6), [x, x])["words"][0] == 1
    assert layout((4, 5, 6), [x[:, ::-1], x])["words"][0] == 3
    assert layout((4, 5, 6), [x[:, :, :1], x])["words"][:3].tolist() == [2, 20, 6]
    with pytest.raises(ValueError, match="at most 8 axes"):
        layout((2,) * 9, [np.zeros((2,) * 9).transpose(*range(8, -1, -1))])


def test_lanes_that_are_zero_stay_zero(library):
    """Zero times anything is zero, in every kernel: here at the pole of the reciprocal."""
    x, t = np.array([0.0, 2.0]), np.array([[0.0, 1.0], [0.0, 0.0]])
    y, dy = np.empty(2), np.empty((2, 2))
    library.forward_reciprocal_f8(pointer(x), pointer(t), words(2), pointer(y), pointer(dy), words(2))
    np.testing.assert_array_equal(dy, [[0.0, -0.25], [0.0, 0.0]])
    sums_ = np.empty(1 + LANES)
    library.total_reciprocal_f8(pointer(x), pointer(t), words(2), *places(sums_), words(2))
    np.testing.assert_array_equal(sums_[1:], [-0.25, 0.0])


def test_no_kernel_where_numpy_gives_another_type():
    """The value's type is NumPy's: float_power of float32 is float64, and ldexp reads whole numbers."""
    assert not source.has_loop(TABLE["float_power"], "f")
    assert source.has_loop(TABLE["float_power"], "d")
    assert not source.has_loop(TABLE["ldexp"], "d")
    assert source.has_loop(TABLE["sin"], "f")


def test_a_kernel_says_where_it_comes_from():
    for _, text in texts():
        assert text.startswith("// generated from ndual/rules")
        break
