"""Bodies of users' kernels over the dual type, compiled as host C++: their derivatives are those of Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from kernel_bodies import CASES, X, body_of

import ndual
from ndual.gpu import bodies
from ndual.gpu.bodies import Body, Parameter
from ndual.gpu.layout import layout

COMPILER = shutil.which("g++") or shutil.which("c++")
LANES = 3
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


def compiled(folder, name, text):
    (folder / f"{name}.cpp").write_text(text)
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-DND_HOST", "-Wall", "-Werror", "-Wno-unused-function"]
    quiet = ["-Wno-unused-variable", "-Wno-parentheses"]
    subprocess.run([COMPILER, *flags, *quiet, f"{name}.cpp", "-o", f"{name}.so"], cwd=folder, check=True, timeout=100)
    return getattr(ctypes.CDLL(str(folder / f"{name}.so")), f"ndual_body_{name.split('_')[0]}")


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def words(number):
    return ctypes.c_longlong(number)


def lanes_of(case, operands, tangents):
    """By ndual on the host, element by element."""
    n = np.broadcast_shapes(*[a.shape for j, a in enumerate(operands) if not raw(case, j)])[0]
    found = []
    for i in range(n):
        at = [a if raw(case, j) else a[i % len(a)].item() for j, a in enumerate(operands)]
        t = [None if s is None else float(s[i % len(s)]) for s in tangents]

        def f(*x):
            out = case.function(np, *x)
            return tuple(part for part in out if part is not None) if isinstance(out, tuple) else (out,)

        found.append(ndual.jvp(f, tuple(at), tuple(t))[1])
    return np.array(found, float).T


def raw(case, j):
    return "raw" in case.inputs.split(",")[j]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_bodies(tmp_path, name, strided):
    case = CASES[name]
    body = body_of(case)
    n = len(X)
    operands = list(case.operands)
    if strided:  # the last operand of several is one cell for all, and the first lies backwards
        operands = [
            a if p.raw else np.ascontiguousarray(a[::-1])[::-1] for p, a in zip(body.inputs, operands, strict=True)
        ]
        if len(operands) > 1 and not body.inputs[-1].raw:
            operands[-1] = operands[-1][1:2]
    rng = np.random.default_rng(3)
    ts = []
    for p, a in zip(body.inputs, operands, strict=True):
        whole = rng.uniform(-1, 1, (LANES, n)).astype(a.dtype)
        own = whole[:, ::-1] if strided and len(a) == n else whole[:, : len(a)].copy()
        ts.append(own if p.active else None)
    rtol = 1e-5 if "f" in {p.char for p in body.inputs} else 1e-12
    expected = np.array([lanes_of(case, operands, [None if t is None else t[k] for t in ts]) for k in range(LANES)])

    def given(with_lanes):
        for p, a, t in zip(body.inputs, operands, ts, strict=True):
            yield pointer(a)
            if p.raw:
                yield words(a.size)
            if with_lanes and t is not None:
                yield from (pointer(t), words(t.strides[0] // t.itemsize))

    def ends():
        if strided:
            own = [a for p, a in zip(body.inputs, operands, strict=True) if not p.raw]
            field = ctypes.c_longlong * (1 + 8 * (1 + len(own)))
            kind = type("Layout", (ctypes.Structure,), {"_fields_": [("words", field)]})
            yield kind(field(*layout((n,), own)["words"].tolist()))
        yield words(n)

    floats = [p for p in body.outputs if p.char in "fd"]
    dys = [np.empty((LANES, n), p.char) for p in floats]
    run = compiled(tmp_path, f"forward_{name}", bodies.forward(body, strided, LANES))
    run(*given(True), *map(pointer, dys), *ends())
    for j, dy in enumerate(dys):
        np.testing.assert_allclose(dy, expected[:, j], rtol=rtol, atol=rtol)
    ws = [rng.uniform(-1, 1, n).astype(p.char) for p in floats]
    gs = [np.empty(n, p.char) if p.active else None for p in body.inputs]
    run = compiled(tmp_path, f"pullback_{name}", bodies.pullback(body, strided, (False,) * len(body.outputs)))
    run(*given(False), *map(pointer, ws), *[pointer(g) for g in gs if g is not None], *ends())
    for j, g in enumerate(gs):
        if g is not None:
            alone = [np.ones(len(a)) if i == j else None for i, a in enumerate(operands)]
            each = lanes_of(case, operands, alone)
            reference = sum(w * share for w, share in zip(ws, each, strict=True))
            np.testing.assert_allclose(g, reference, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("operation", "lost"),
    [
        ("double *p = &x; y = *p", "a pointer"),
        ("y = __builtin_fabs(x)", "a function without a rule"),
        ("int k = x; y = k", ""),
    ],
)
def test_what_would_lose_lanes_does_not_compile(tmp_path, operation, lost):
    body = Body(operation, "", (Parameter("x", "d", "T", False, True),), (Parameter("y", "d", "T"),))
    (tmp_path / "lost.cpp").write_text(bodies.forward(body, False, 2))
    run = subprocess.run(
        [COMPILER, "-std=c++17", "-fsyntax-only", "-DND_HOST", "lost.cpp"], cwd=tmp_path, capture_output=True
    )
    assert run.returncode != 0
