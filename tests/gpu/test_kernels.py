"""Every generated kernel, compiled as host C++: its numbers are those of the kernels of the host."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess

import numpy as np
import pytest

from ndual import _core
from ndual.gpu import source
from ndual.gpu.layout import layout
from ndual.rules.elementwise import TABLE

COMPILER = shutil.which("g++") or shutil.which("c++")
CTYPES = {"double": np.float64, "float": np.float32}
LANES = 2
N = 6
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


def partials_of(row):
    return tuple(p is not None for p in row.partial_exprs)


def usable(row, ctype):
    """Whether the kernels of a row can be written: value and all partials have a form in C."""
    return source.forward(row, ctype, kinds_of(row), False, LANES) is not None


def kinds_of(row):
    return "".join("d" if on else "c" for on in partials_of(row))


# Without those of numbers alone, those that read whole numbers or conditions, and those that widen.
ROWS = [
    name
    for name, row in TABLE.items()
    if usable(row, "double")
    and source.has_loop(row, "f")
    and name != "where"
    and row.serves[0].startswith(("numpy.", "scipy."))
]
STRIDED = ("sin", "multiply", "hypot", "arctan2")


def texts():
    """The name and the source of every kernel that is tested."""
    for name in ROWS:
        row = TABLE[name]
        wanted = partials_of(row)
        letters = "".join("a" if on else "-" for on in source.reads(row, wanted)) + "a"
        for ctype in CTYPES:
            for strided in (False, True) if name in STRIDED else (False,):
                tail = f"{name}_{ctype}{'_strided' if strided else ''}"
                yield f"forward_{tail}", source.forward(row, ctype, kinds_of(row), strided, LANES)
                yield f"pullback_{tail}", source.pullback(row, ctype, letters, strided, wanted)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All kernels in one shared library, each in a namespace of its own."""
    folder = tmp_path_factory.mktemp("kernels")
    parts = ["#include <cmath>\n#include <cstddef>\n"]
    for name, text in texts():
        kind = name.partition("_")[0]
        parts.append(f"#define ndual_{kind} {name}\nnamespace in_{name} {{\n{text}}}\n#undef ndual_{kind}\n")
    (folder / "kernels.cpp").write_text("".join(parts))
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-DND_HOST", "-Wall", "-Wextra", "-Werror"]
    quiet = ["-Wno-unused-parameter", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-const-variable"]
    subprocess.run([COMPILER, *flags, *quiet, "kernels.cpp", "-o", "kernels.so"], cwd=folder, check=True, timeout=300)
    return ctypes.CDLL(str(folder / "kernels.so"))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def words(number):
    return ctypes.c_longlong(number)


def points(row, dtype):
    draw = random.Random(row.name)
    return [np.array(domain.sample(draw, N)).astype(dtype) for domain in row.domain]


def reference(row, dtype, xs, ts):
    """Value, lanes, and the lanes of each operand alone, by the kernels of the host."""
    with _core.Level(LANES) as level:
        duals = [x if t is None else _core.dual(x, t, level) for x, t in zip(xs, ts, strict=True)]
        out = _core.apply_row(row.name, *duals)
        alone = []
        for i, t in enumerate(ts):
            if t is not None:
                only = [_core.dual(x, ts[i], level) if i == k else x for k, x in enumerate(xs)]
                alone.append(_core.lanes(_core.apply_row(row.name, *only)))
            else:
                alone.append(None)
        return _core.primal(out), _core.lanes(out), alone


@pytest.mark.parametrize("ctype", CTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_kernels_of_rows(library, name, ctype):
    row, dtype = TABLE[name], CTYPES[ctype]
    rtol = 1e-12 if ctype == "double" else 2e-4
    xs = points(row, dtype)
    rng = np.random.default_rng(5)
    ts = [rng.uniform(-1, 1, (LANES, N)).astype(dtype) if on else None for on in partials_of(row)]
    value, lanes, alone = reference(row, dtype, xs, ts)
    y, dy = np.empty(N, dtype), np.empty((LANES, N), dtype)
    arguments = []
    for x, t in zip(xs, ts, strict=True):
        arguments += [pointer(x)] if t is None else [pointer(x), pointer(t), words(N)]
    getattr(library, f"forward_{name}_{ctype}")(*arguments, pointer(y), pointer(dy), words(N))
    np.testing.assert_allclose(y, value, rtol=rtol)
    scale = max(1.0, float(np.max(np.abs(lanes), initial=0.0)))
    np.testing.assert_allclose(dy, lanes, rtol=rtol, atol=rtol * scale)
    # The map along one operand is its own transpose.
    for i, t in enumerate(ts):
        if t is None:
            continue
        found = [np.empty(N, dtype) if on is not None else None for on in ts]
        reads = source.reads(row, partials_of(row))
        given = [pointer(x) for x, on in zip([*xs, value], reads, strict=True) if on]
        w = np.ascontiguousarray(t[0])
        getattr(library, f"pullback_{name}_{ctype}")(
            *given, pointer(w), *[pointer(g) for g in found if g is not None], words(N)
        )
        np.testing.assert_allclose(found[i], alone[i][0], rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("ctype", CTYPES)
@pytest.mark.parametrize("name", STRIDED)
def test_kernels_over_strides(library, name, ctype):
    row, dtype = TABLE[name], CTYPES[ctype]
    base = np.linspace(0.2, 1.5, 24).astype(dtype).reshape(4, 6)
    xs = [base.T[::-1, ::2], base[0, :2]][: row.nin]
    ts = [np.concatenate([np.broadcast_to(x * c, (1, *x.shape)) for c in (0.5, 2.0)]) for x in xs]
    xs = [np.ascontiguousarray(x) for x in xs]
    shape = np.broadcast_shapes(*[x.shape for x in xs])
    size = int(np.prod(shape))
    value, lanes, _ = reference(row, dtype, xs, ts)
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
    getattr(library, f"forward_{name}_{ctype}_strided")(*arguments, pointer(y), pointer(dy), struct, words(size))
    rtol = 1e-12 if ctype == "double" else 1e-4
    np.testing.assert_allclose(y, value, rtol=rtol)
    np.testing.assert_allclose(dy, lanes, rtol=rtol)


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
    library.forward_reciprocal_double(pointer(x), pointer(t), words(2), pointer(y), pointer(dy), words(2))
    np.testing.assert_array_equal(dy, [[0.0, -0.25], [0.0, 0.0]])


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
