"""The text of every generated kernel, by number type: tests compile it for the host, and for devices."""

from __future__ import annotations

import numpy as np

from ndual.gpu import source, sums
from ndual.rules.elementwise import TABLE

CTYPES = {
    "double": np.dtype("f8"),
    "float": np.dtype("f4"),
    "half": np.dtype("f2"),
    "complex<double>": np.dtype("c16"),
    "complex<float>": np.dtype("c8"),
}
LANES = 2


def partials_of(row):
    return tuple(p is not None for p in row.partial_exprs)


def kinds_of(row):
    return "".join("d" if on else "c" for on in partials_of(row))


def usable(row, ctype):
    """Whether a row has kernels of this type: its function has, and value and all partials have a form in C."""
    if not source.has_loop(row, CTYPES[ctype].char):
        return False
    return source.forward(row, ctype, kinds_of(row), False, LANES) is not None


# Without those of numbers alone, those that read whole numbers or conditions, and those that widen.
ROWS = [
    name
    for name, row in TABLE.items()
    if usable(row, "double")
    and source.has_loop(row, "f")
    and name != "where"
    and row.serves[0].startswith(("numpy.", "scipy."))
]
CASES = [(name, ctype) for name in ROWS for ctype in CTYPES if usable(TABLE[name], ctype)]
SUMMED = ("double", "float")
STRIDED = ("sin", "multiply", "hypot", "arctan2")


def tag(name, ctype):
    return f"{name}_{CTYPES[ctype].str[1:]}"


def letters_of(row, ctype):
    """The operands of a pullback."""
    return "".join("a" if on else "-" for on in source.reads(row, partials_of(row), ctype)) + "a"


SECOND = [
    (name, ctype, i)
    for name, ctype in CASES
    for i, on in enumerate(partials_of(TABLE[name]))
    if on and source.second(TABLE[name], ctype, f"{kinds_of(TABLE[name])}cd", False, LANES, i) is not None
]


def texts():
    """The name and the source of every kernel that is tested."""
    for name, ctype in CASES:
        row = TABLE[name]
        for strided in (False, True) if name in STRIDED else (False,):
            tail = f"{tag(name, ctype)}{'_strided' if strided else ''}"
            yield f"forward_{tail}", source.forward(row, ctype, kinds_of(row), strided, LANES)
            yield f"pullback_{tail}", source.pullback(row, ctype, letters_of(row, ctype), strided, partials_of(row))
            if ctype in SUMMED:
                yield f"total_{tail}", sums.total(row, ctype, kinds_of(row), strided, LANES, strided)
                if name in STRIDED and not strided:
                    yield f"total_{tail}_alone", sums.total(row, ctype, "c" * row.nin, False, 0, True)
    for name, ctype, i in SECOND:
        row = TABLE[name]
        yield f"second_{tag(name, ctype)}_{i}", source.second(row, ctype, f"{kinds_of(row)}cd", False, LANES, i)


def in_one_file(parts):
    """The texts of several kernels behind each other, each in a namespace of its own."""
    for name, text in parts:
        kind = name.partition("_")[0]
        yield f"#define ndual_{kind} {name}\nnamespace in_{name} {{\n{text}}}\n#undef ndual_{kind}\n"
        yield "#undef ND_BODY\n#undef ND_APART\n#undef ND_UNROLL\n#undef nd_sincos\n"
