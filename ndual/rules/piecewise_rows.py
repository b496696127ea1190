"""Rows of the table that are piecewise: selections, roundings, remainders, and the parts of complex numbers.

Ties of maxima and minima are shared equally, clipping follows NumPy's comparisons, and steps have derivative 0.
"""

from __future__ import annotations

import math

from ndual.rules.row import NONZERO, REAL, Interval, row

INTEGER = Interval(-1000.0, 1000.0, "[]", draw=(-4.0, 4.0), integer=True)
SIGN = "1 if x0 > 0 else -1 if x0 < 0 else 0 if x0 == 0 else x0"
# The series of sinc'(x), with t = (pi x)**2; the direct form loses 1/t of its digits.
SINC_SERIES = (
    "-(pi * pi / 3) * x0 * (1 - {t} * (1 / 10 - {t} * (1 / 280 - {t} * (1 / 15120 - {t} * (1 / 1330560 "
    "- {t} * (1 / 172972800 - {t} * (1 / 31135104000 - {t} / 7410154752000)))))))"
).format(t="((pi * x0) * (pi * x0))")

SELECTIONS = (
    row(
        "maximum",
        "x0 if x0 > x1 or x0 != x0 else x1",
        (
            "1 if x0 > x1 or x0 != x0 else 0.5 if x0 == x1 else 0",
            "0 if x0 > x1 or x0 != x0 else 0.5 if x0 == x1 else 1",
        ),
        REAL,
        "numpy.maximum",
    ),
    row(
        "minimum",
        "x0 if x0 < x1 or x0 != x0 else x1",
        (
            "1 if x0 < x1 or x0 != x0 else 0.5 if x0 == x1 else 0",
            "0 if x0 < x1 or x0 != x0 else 0.5 if x0 == x1 else 1",
        ),
        REAL,
        "numpy.minimum",
    ),
    row(
        "fmax",
        "x0 if x0 > x1 or x1 != x1 else x1",
        (
            "1 if x0 > x1 or x1 != x1 else 0.5 if x0 == x1 else 0",
            "0 if x0 > x1 or x1 != x1 else 0.5 if x0 == x1 else 1",
        ),
        REAL,
        "numpy.fmax",
    ),
    row(
        "fmin",
        "x0 if x0 < x1 or x1 != x1 else x1",
        (
            "1 if x0 < x1 or x1 != x1 else 0.5 if x0 == x1 else 0",
            "0 if x0 < x1 or x1 != x1 else 0.5 if x0 == x1 else 1",
        ),
        REAL,
        "numpy.fmin",
    ),
    # An absent bound is an infinite one. Of NaNs the first of x, low, high passes, as in NumPy.
    row(
        "clip",
        "x0 if x0 != x0 else x1 if x1 != x1 else x2 if x2 != x2 or x0 > x2 or x1 > x2 else x1 if x0 < x1 else x0",
        (
            "1 if x0 != x0 or (x1 <= x0 and x0 <= x2) else 0",
            "1 if x0 == x0 and (x1 != x1 or (x0 < x1 and x1 <= x2)) else 0",
            "1 if x0 == x0 and x1 == x1 and (x2 != x2 or x0 > x2 or x1 > x2) else 0",
        ),
        REAL,
        "numpy._core.umath.clip",
    ),
    row(
        "where",
        "x1 if x0 != 0 else x2",
        ("0", "1 if x0 != 0 else 0", "0 if x0 != 0 else 1"),
        REAL,
        "numpy.where",
        kind="holomorphic",
    ),
    row(
        "heaviside",
        "x1 if x0 == 0 else 0 if x0 < 0 else 1 if x0 > 0 else x0",
        ("0", "1 if x0 == 0 else 0"),
        REAL,
        "numpy.heaviside",
    ),
)

STEPS = (
    row("floor", "floor(x0)", ("0",), REAL, "numpy.floor"),
    row("ceil", "ceil(x0)", ("0",), REAL, "numpy.ceil"),
    row("trunc", "trunc(x0)", ("0",), REAL, "numpy.trunc"),
    row("rint", "rint(x0)", ("0",), REAL, "numpy.rint"),
    row("spacing", "spacing(x0)", ("0",), REAL, "numpy.spacing math.ulp"),
    row("nextafter", "nextafter(x0, x1)", ("1", "0"), REAL, "numpy.nextafter math.nextafter"),
    row("floor_divide", "floor_divide(x0, x1)", ("0", "0"), (REAL, NONZERO), "numpy.floor_divide"),
    # (x0 - y) / x1 is the integer quotient to within a rounding; floor(x0 / x1) can be the next one.
    row("remainder", "remainder(x0, x1)", ("1", "-rint((x0 - y) / x1)"), (REAL, NONZERO), "numpy.remainder"),
    row("fmod", "fmod(x0, x1)", ("1", "-rint((x0 - y) / x1)"), (REAL, NONZERO), "numpy.fmod math.fmod"),
    row(
        "math_remainder",
        "math_remainder(x0, x1)",
        ("1", "-rint((x0 - y) / x1)"),
        (REAL, NONZERO),
        "math.remainder",
    ),
    row(
        "copysign",
        "copysign(x0, x1)",
        ("sign(x0) * copysign(1, x1)", "0"),
        REAL,
        "numpy.copysign math.copysign",
    ),
    row(
        "ldexp",
        "ldexp(x0, x1)",
        # copysign gives a one of x0's own type; beside an integer a plain 1 would be a float16.
        ("copysign(1, x0) * ldexp(copysign(1, x0), x1)", None),
        (REAL, INTEGER),
        "numpy.ldexp math.ldexp",
    ),
    row(
        "sinc",
        "sin(pi * x0) / (pi * x0) if x0 != 0 else 1",
        (f"{SINC_SERIES} if abs(x0) < 0.25 else (cos(pi * x0) - y) / x0",),
        REAL,
        "numpy.sinc",
        kind="holomorphic",
        at={(0,): (0, -math.pi * math.pi / 3)},
        second={(0, 0): "-(pi * pi) * y - 2 * d0 / x0"},
    ),
)

PARTS = (
    row(
        "absolute",
        "abs(x0)",
        ("sign(x0)",),
        REAL,
        "numpy.absolute",
        kind="real_linear",
        jvp="real(x0 / y) * real(dx0) + imag(x0 / y) * imag(dx0) if y != 0 else 0",
        vjp="w * (x0 / y) if y != 0 else 0",
    ),
    row("fabs", "abs(x0)", ("sign(x0)",), REAL, "numpy.fabs math.fabs"),
    row(
        "sign",
        SIGN,
        ("0",),
        REAL,
        "numpy.sign",
        kind="real_linear",
        jvp="1j * y * imag(dx0 / x0) if x0 != 0 else 0",
        vjp="imag(w * conj(y)) * (1j / conj(x0)) if x0 != 0 else 0",
    ),
    row(
        "conjugate",
        "x0",
        ("1",),
        REAL,
        "numpy.conjugate",
        kind="real_linear",
        jvp="conj(dx0)",
        vjp="conj(w)",
    ),
    row("real", "x0", ("1",), REAL, "numpy.real", kind="real_linear", jvp="real(dx0)", vjp="w"),
    row("imag", "0 * x0", ("0",), REAL, "numpy.imag", kind="real_linear", jvp="imag(dx0)", vjp="1j * w"),
    row(
        "angle",
        "angle(x0)",
        ("0",),
        REAL,
        "numpy.angle cmath.phase",
        kind="real_linear",
        jvp="imag(dx0 / x0)",
        vjp="w * (1j / conj(x0))",
    ),
)
