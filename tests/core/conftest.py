"""The C kernels as a shared object of their own, compiled once a session, and a thin NumPy face on them."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

CORE = Path(__file__).resolve().parents[2] / "ndual" / "_core"
FLAGS = ["-O3", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
ISAS = {"baseline": [], "v3": ["-march=x86-64-v3"], "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"]}
PTR, SSIZE = ctypes.c_void_p, ctypes.c_ssize_t


class Loop(ctypes.Structure):
    _fields_ = [("fn", PTR), ("data", PTR)]


class Result(ctypes.Structure):
    _fields_ = [("v", PTR), ("vs", ctypes.POINTER(SSIZE)), ("t", PTR), ("ts", ctypes.POINTER(SSIZE)), ("lane", SSIZE)]


class Operand(ctypes.Structure):
    _fields_ = [*Result._fields_, ("lo", SSIZE), ("hi", SSIZE)]


class Shadow(ctypes.Structure):
    _fields_ = [("t", PTR), ("ts", ctypes.POINTER(SSIZE)), ("fresh", ctypes.c_int)]


class RowStruct(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("nin", ctypes.c_int),
        ("value_inside", ctypes.c_ubyte),
        ("coef", ctypes.c_ubyte * 3),
        ("needs", ctypes.c_ubyte * 3),
        ("scale", ctypes.c_ubyte * 3),
        ("fill", PTR * 2),
        ("fill_exact", PTR * 2),
        ("back", PTR * 2),
    ]


class Cells(ctypes.Structure):
    _fields_ = [
        ("give", PTR),
        ("sums", PTR),
        ("fold", PTR),
        ("affine", ctypes.CFUNCTYPE(None, SSIZE, PTR, ctypes.c_double, ctypes.c_double, PTR, ctypes.c_double, PTR)),
        ("sum", ctypes.CFUNCTYPE(ctypes.c_double, PTR, SSIZE)),
        ("dot", ctypes.CFUNCTYPE(ctypes.c_double, PTR, PTR, SSIZE)),
    ]


class Isa(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("rows", ctypes.POINTER(RowStruct)),
        ("nrows", ctypes.c_int),
        ("combine", PTR * 2),
        ("finite", PTR * 2),
        ("cells", Cells * 2),
    ]


class UFunc(ctypes.Structure):
    """The head of NumPy's PyUFuncObject."""

    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(PTR)),
        ("data", ctypes.POINTER(PTR)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", PTR),
    ]


def numpy_loop(ufunc: np.ufunc, dtype: np.dtype) -> Loop:
    """The inner loop of a ufunc whose operands and results all have one dtype."""
    wanted = dtype.char * (ufunc.nin + ufunc.nout)
    found = [t.replace("->", "") for t in ufunc.types].index(wanted)
    head = UFunc.from_address(id(ufunc))
    return Loop(head.functions[found], head.data[found])


class Kernels:
    """One instruction set."""

    loop = staticmethod(numpy_loop)

    def __init__(self, library: ctypes.CDLL, isa: str) -> None:
        library.nd_select.restype = ctypes.POINTER(Isa)
        self.library, self.isa = library, library.nd_select(isa.encode())
        if not self.isa:
            pytest.skip(f"this processor lacks {isa}")
        rows = self.isa.contents.rows
        self.rows = {rows[i].name.decode(): i for i in range(self.isa.contents.nrows)}

    def row(self, name: str) -> RowStruct:
        return self.isa.contents.rows[self.rows[name]]

    def cells(self, dtype: type) -> Cells:
        """The loops over cells of one dtype."""
        return self.isa.contents.cells[int(dtype == np.float64)]

    def map(self, name, operands, out, loop=None, exact=False, windows=None):
        """Call nd_map and return its status.

        An operand is a value and its tangent (or None), views already broadcast; a window says which of the output's
        lanes the tangent holds.
        """
        value, tangent = out
        width = 0 if tangent is None else len(tangent)
        keep = []

        def pointer(numbers):
            keep.append((SSIZE * max(len(numbers), 1))(*numbers))
            return keep[-1]

        def fields(v, t):
            if t is None:
                return v.ctypes.data, pointer(v.strides), None, pointer(v.strides), 0
            return v.ctypes.data, pointer(v.strides), t.ctypes.data, pointer(t.strides[1:]), t.strides[0]

        windows = windows or [(0, width)] * len(operands)
        ins = [Operand(*fields(v, t), *window) for (v, t), window in zip(operands, windows, strict=True)]
        outs = Result(*fields(value, tangent))
        return self.library.nd_map(
            self.isa, self.rows[name], int(value.dtype == np.float64), loop or Loop(None, None), len(operands),
            (Operand * len(ins))(*ins), ctypes.byref(outs), value.ndim, pointer(value.shape), SSIZE(width), int(exact),
        )  # fmt: skip

    def pull(self, name, values, y, w, shadows, fresh=None, everything=False):
        """Call nd_pull and return its status; values, y and shadows (or None) are views already broadcast to w's shape.

        Only what the row says that it needs is handed over, unless `everything` is.
        """
        keep = []

        def pointer(array):
            keep.append((SSIZE * max(w.ndim, 1))(*array.strides))
            return keep[-1]

        needs = 0
        for k, shadow in enumerate(shadows):
            needs |= 0 if shadow is None else self.row(name).needs[k]
        given = [v if everything or needs >> k & 1 else None for k, v in enumerate(values)]
        ins = [Operand(v=None if v is None else v.ctypes.data, vs=None if v is None else pointer(v)) for v in given]
        to = [
            Shadow(None, None, 0) if t is None else Shadow(t.ctypes.data, pointer(t), bool(fresh and fresh[k]))
            for k, t in enumerate(shadows)
        ]
        y = y if everything or needs & 8 else None
        value = (None, None) if y is None else (PTR(y.ctypes.data), pointer(y))
        return self.library.nd_pull(
            self.isa, self.rows[name], int(w.dtype == np.float64), len(ins), (Operand * len(ins))(*ins), *value,
            PTR(w.ctypes.data), pointer(w), (Shadow * len(to))(*to), w.ndim, (SSIZE * max(w.ndim, 1))(*w.shape),
        )  # fmt: skip

    def copy(self, dst: np.ndarray, src: np.ndarray) -> None:
        """Call nd_copy."""
        dims = SSIZE * max(dst.ndim, 1)
        self.library.nd_copy(
            ctypes.c_size_t(dst.itemsize), dst.ndim, dims(*dst.shape), PTR(dst.ctypes.data), dims(*dst.strides),
            PTR(src.ctypes.data), dims(*src.strides),
        )  # fmt: skip


@pytest.fixture(scope="session")
def kernel_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if os.name != "posix":
        pytest.skip("needs a Unix compiler")
    subprocess.run([sys.executable, str(CORE / "generate.py")], check=True)
    folder = tmp_path_factory.mktemp("kernels")
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    x86 = platform.machine() in ("x86_64", "AMD64") and sys.platform == "linux"
    isas = ISAS if x86 else {"baseline": []}
    base = [*compiler, *FLAGS, f"-I{CORE / 'src'}", f"-I{CORE / 'generated'}"]
    base += [f"-DNDUAL_HAVE_{name.upper()}" for name in isas]
    running = [
        subprocess.Popen(
            [*base, *flags, f"-DNDUAL_ISA={name}", "-c", CORE / "src/kernels.c", "-o", folder / f"{name}.o"]
        )
        for name, flags in isas.items()
    ]
    assert all(process.wait() == 0 for process in running)
    objects = [str(folder / f"{name}.o") for name in isas]
    plain = [str(path) for path in (CORE / "src").glob("*.c") if path.name != "kernels.c"]
    subprocess.run([*base, "-shared", *plain, *objects, "-lm", "-o", folder / "libkernels.so"], check=True)
    return ctypes.CDLL(str(folder / "libkernels.so"))


@pytest.fixture(params=list(ISAS))
def kernels(request: pytest.FixtureRequest, kernel_library: ctypes.CDLL) -> Kernels:
    return Kernels(kernel_library, request.param)


@pytest.fixture
def baseline_kernels(kernel_library: ctypes.CDLL) -> Kernels:
    return Kernels(kernel_library, "baseline")


@pytest.fixture
def best_kernels(kernel_library: ctypes.CDLL) -> Kernels:
    kernel_library.nd_select.restype = ctypes.POINTER(Isa)
    return Kernels(kernel_library, kernel_library.nd_select(None).contents.name.decode())
