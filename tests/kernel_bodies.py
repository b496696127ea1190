"""Bodies of elementwise kernels as a user writes them, each beside the same in Python."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ndual.gpu.bodies import Body, Parameter

CHARS = {"float64": "d", "float32": "f", "int32": "i", "int64": "q"}


@dataclass(frozen=True)
class Case:
    """A kernel as it is given to CuPy, the function of one element, and operands."""

    inputs: str
    outputs: str
    operation: str
    function: object
    operands: tuple = ()
    preamble: str = ""
    constant: tuple = field(default=())


X = np.array([0.3, 1.7, 2.4, 0.9, 3.2])
Y = np.array([1.1, 0.4, 2.0, 1.5, 0.7])
TABLE = np.array([2.0, -1.0, 0.5])


def _newton(np, x):
    r = 1.0
    for _ in range(12):
        r = 0.5 * (r + x / r)
    return r if x > 1 else np.exp(-x * x)


def _horner(np, x, table):
    y = 0.0
    for c in table:
        y = y * x + c
    return y


def _functions(np, x, y):
    a = np.arctan2(x, y) + np.hypot(x, y) + np.fmax(x, y) * np.fmin(x, 1.5) + abs(x - y) ** 1.5
    return a + np.log1p(x) * np.cbrt(y) + 1 / np.sqrt(x) + math.pi * np.tanh(x) + np.floor(x)


CASES = {
    "product": Case(
        "T x, T z", "T y", "y = x * sin(z) + 2 * x - 1.0 / z", lambda np, x, z: x * np.sin(z) + 2 * x - 1 / z, (X, Y)),
    "newton": Case(
        "T x", "T y",
        "T r = 1; for (int k = 0; k < 12; k++) { r = 0.5 * (r + x / r); } if (x > 1) y = r; else y = exp(-x * x)",
        _newton, (X,)),
    "preamble": Case(
        "float64 x, int32 k", "float64 y, int64 whole, float64 z",
        "double s = square(x); y = s / (1 + s); y += k; whole = (int)s; z = -s; z *= x;",
        lambda np, x, k: (x * x / (1 + x * x) + k, None, -x * x * x), (X, np.arange(5, dtype=np.int32)),
        "#include <math.h>\n__device__ double square(double a) { return a * a; }",
        (1,)),
    "raw": Case(
        "T x, raw T table", "T y", "y = 0; for (int j = 0; j < table.size(); j++) y = y * x + table[j]", _horner,
        (X, TABLE), "", (1,)),
    "functions": Case(
        "T x, T z", "T y",
        "y = atan2(x, z) + hypot(x, z) + max(x, z) * fmin(x, 1.5) + pow(fabs(x - z), 1.5);"
        "y = y + log1p(x) * cbrt(z) + rsqrt(x) + 3.141592653589793 * tanh(x) + floor(x)", _functions, (X, Y)),
    "mixed": Case("T x, U z, U c", "U y", "float half = 0.5f; y = c * x * z + (x > z ? x : half) * sinf(x)",
                  lambda np, x, z, c: c * x * z + (x if x > z else 0.5) * np.sin(x), (X.astype("f4"), Y, Y + 1)),
}  # fmt: skip


def described(text, letters, moving=None):
    found = []
    for j, part in enumerate(text.split(",")):
        *raw, kind, name = part.split()
        char = CHARS.get(kind) or letters[kind]
        found.append(
            Parameter(name, char, None if kind in CHARS else kind, bool(raw), moving is not None and j in moving)
        )
    return tuple(found)


def body_of(case):
    """The body as the operands make it."""
    letters = {"T": "d", "U": "d"}
    for part, a in zip(case.inputs.split(","), case.operands, strict=True):
        letters[part.split()[-2]] = a.dtype.char
    moving = set(range(len(case.operands))) - set(case.constant)
    return Body(
        case.operation, case.preamble,
        described(case.inputs, letters, moving), described(case.outputs, letters),
    )  # fmt: skip
