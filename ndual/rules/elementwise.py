"""The table of elementwise rules: one row per primitive, for NumPy's functions and those of ``math`` and ``cmath``.

A row is data: see ``row`` for its fields. SciPy's functions are in ``special_rows``; rules that look beyond one element
belong to the other files of this folder.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from ndual.rules.bessel_rows import BESSEL
from ndual.rules.distribution_rows import DISTRIBUTIONS, PARAMETERS
from ndual.rules.piecewise_rows import PARTS, SELECTIONS, STEPS
from ndual.rules.polynomial_rows import POLYNOMIAL
from ndual.rules.row import NONNEGATIVE, NONZERO, POSITIVE, REAL, Elementwise, Interval, Kind, build, row
from ndual.rules.special_rows import ORDER, SPECIAL
from ndual.rules.stats_rows import STATS

INF = math.inf

# exp(-2|x|) carries tanh' and sech² to the last representable number; 1 - y*y is 0 from x = 19 on.
SECH2 = "4 * exp(-2 * abs(x0)) / (1 + exp(-2 * abs(x0))) ** 2"
# The same with the half plane chosen so that the exponential stays small.
COMPLEX_SECH2 = "4 * exp({u}) / (1 + exp({u})) ** 2"
TANH_U = "(-2 if real(x0) >= 0 else 2) * x0"
TAN_U = "(2j if imag(x0) >= 0 else -2j) * x0"
# The square overflows above 1e154 (1e19 in float32), where the root is the operand itself long before.
ROOT_PLUS = "(sqrt(1 + {v} * {v}) if abs({v}) < 1e9 else abs({v}))"

ARITHMETIC = (
    row("add", "x0 + x1", ("1", "1"), REAL, "numpy.add", kind="holomorphic"),
    row("subtract", "x0 - x1", ("1", "-1"), REAL, "numpy.subtract", kind="holomorphic"),
    row("multiply", "x0 * x1", ("x1", "x0"), REAL, "numpy.multiply", kind="holomorphic"),
    row("divide", "x0 / x1", ("1 / x1", "-y * (1 / x1)"), (REAL, NONZERO), "numpy.divide", kind="holomorphic"),
    row("negative", "-x0", ("-1",), REAL, "numpy.negative", kind="holomorphic"),
    row("positive", "x0", ("1",), REAL, "numpy.positive", kind="holomorphic"),
    row("reciprocal", "1 / x0", ("-y * y",), NONZERO, "numpy.reciprocal", kind="holomorphic"),
    row("square", "x0 * x0", ("2 * x0",), REAL, "numpy.square", kind="holomorphic"),
    row("sqrt", "sqrt(x0)", ("0.5 / y",), NONNEGATIVE, "numpy.sqrt math.sqrt cmath.sqrt", kind="holomorphic"),
    row("cbrt", "cbrt(x0)", ("1 / (3 * y * y)",), REAL, "numpy.cbrt math.cbrt"),
    row(
        "power",
        "power(x0, x1)",
        ("x1 * power(x0, x1 - 1) if x1 != 0 else 0", "0 if y == 0 else y * log(x0) if x0 != 0 else nan"),
        (POSITIVE, REAL),
        "numpy.power math.pow",
        kind="holomorphic",
        kernel="pow",
    ),
    row(
        "hypot",
        "hypot(x0, x1)",
        ("x0 / y", "x1 / y"),
        REAL,
        "numpy.hypot",
        at={(0, 0): (0, 0)},
        second={(0, 0): "d1 * d1 / y", (0, 1): "-d0 * d1 / y", (1, 1): "d0 * d0 / y"},
    ),
)

EXPONENTIAL = (
    row("exp", "exp(x0)", ("y",), REAL, "numpy.exp math.exp cmath.exp", kind="holomorphic"),
    row("exp2", "exp2(x0)", ("ln2 * y",), REAL, "numpy.exp2 math.exp2", kind="holomorphic"),
    # y + 1 would lose every digit for x0 < -37.
    row("expm1", "expm1(x0)", ("exp(x0)",), REAL, "numpy.expm1 math.expm1", kind="holomorphic"),
    row("log", "log(x0)", ("1 / x0",), POSITIVE, "numpy.log math.log cmath.log", kind="holomorphic"),
    row("log2", "log2(x0)", ("log2e / x0",), POSITIVE, "numpy.log2 math.log2", kind="holomorphic"),
    row("log10", "log10(x0)", ("log10e / x0",), POSITIVE, "numpy.log10 math.log10 cmath.log10", kind="holomorphic"),
    row(
        "log1p",
        "log1p(x0)",
        ("1 / (1 + x0)",),
        Interval(-1.0),
        "numpy.log1p math.log1p",
        kind="holomorphic",
    ),
    # exp(x0 - y) would carry the rounding of y: 1e-10 at operands of 1e6.
    row(
        "logaddexp",
        "logaddexp(x0, x1)",
        ("1 / (1 + exp(x1 - x0))", "1 / (1 + exp(x0 - x1))"),
        REAL,
        "numpy.logaddexp",
        at={(INF, INF): (0.5, 0.5), (-INF, -INF): (0.5, 0.5)},
        second={(0, 0): "d0 * d1", (0, 1): "-d0 * d1", (1, 1): "d0 * d1"},
    ),
    row(
        "logaddexp2",
        "logaddexp2(x0, x1)",
        ("1 / (1 + exp2(x1 - x0))", "1 / (1 + exp2(x0 - x1))"),
        REAL,
        "numpy.logaddexp2",
        at={(INF, INF): (0.5, 0.5), (-INF, -INF): (0.5, 0.5)},
        second={(0, 0): "ln2 * d0 * d1", (0, 1): "-ln2 * d0 * d1", (1, 1): "ln2 * d0 * d1"},
    ),
)

TRIGONOMETRIC = (
    row(
        "sin",
        "sin(x0)",
        ("cos(x0)",),
        REAL,
        "numpy.sin math.sin cmath.sin",
        kind="holomorphic",
        kernel="sincos",
        second={(0, 0): "-y"},
    ),
    row(
        "cos",
        "cos(x0)",
        ("-sin(x0)",),
        REAL,
        "numpy.cos math.cos cmath.cos",
        kind="holomorphic",
        kernel="sincos",
        second={(0, 0): "-y"},
    ),
    row(
        "tan",
        "tan(x0)",
        ("1 + y * y",),
        Interval(draw=(-1.5, 1.5)),
        "numpy.tan math.tan cmath.tan",
        kind="holomorphic",
        complex_partials=(COMPLEX_SECH2.format(u=TAN_U),),
    ),
    # On a branch cut only the output knows which side was meant, hence cos(y) and its like for complex operands.
    row(
        "arcsin",
        "arcsin(x0)",
        ("1 / sqrt((1 - x0) * (1 + x0))",),
        Interval(-1.0, 1.0, "[]"),
        "numpy.arcsin math.asin cmath.asin",
        kind="holomorphic",
        complex_partials=("1 / cos(y)",),
    ),
    row(
        "arccos",
        "arccos(x0)",
        ("-1 / sqrt((1 - x0) * (1 + x0))",),
        Interval(-1.0, 1.0, "[]"),
        "numpy.arccos math.acos cmath.acos",
        kind="holomorphic",
        complex_partials=("-1 / sin(y)",),
    ),
    row(
        "arctan",
        "arctan(x0)",
        ("1 / (1 + x0 * x0)",),
        REAL,
        "numpy.arctan math.atan cmath.atan",
        kind="holomorphic",
        complex_partials=("1 / (x0 + 1j) / (x0 - 1j)",),
    ),
    # Divided through by the larger operand: x0*x0 + x1*x1 leaves the range at 1e±154 (1e±19 in float32).
    row(
        "arctan2",
        "arctan2(x0, x1)",
        (
            "1 / (x1 + x0 * (x0 / x1)) if abs(x0) < abs(x1) else (x1 / x0) / (x0 + x1 * (x1 / x0))",
            "-(x0 / x1) / (x1 + x0 * (x0 / x1)) if abs(x0) < abs(x1) else -1 / (x0 + x1 * (x1 / x0))",
        ),
        REAL,
        "numpy.arctan2 math.atan2",
        second={(0, 0): "2 * d0 * d1", (0, 1): "(d1 - d0) * (d1 + d0)", (1, 1): "-2 * d0 * d1"},
    ),
    row("deg2rad", "x0 * (pi / 180)", ("pi / 180",), REAL, "numpy.deg2rad math.radians"),
    row("rad2deg", "x0 * (180 / pi)", ("180 / pi",), REAL, "numpy.rad2deg math.degrees"),
)

HYPERBOLIC = (
    row(
        "sinh",
        "sinh(x0)",
        (ROOT_PLUS.format(v="y"),),
        REAL,
        "numpy.sinh math.sinh cmath.sinh",
        kind="holomorphic",
        complex_partials=("cosh(x0)",),
        second={(0, 0): "y"},
    ),
    row(
        "cosh",
        "cosh(x0)",
        ("sinh(x0)",),
        REAL,
        "numpy.cosh math.cosh cmath.cosh",
        kind="holomorphic",
        second={(0, 0): "y"},
    ),
    row(
        "tanh",
        "tanh(x0)",
        (SECH2,),
        REAL,
        "numpy.tanh math.tanh cmath.tanh",
        kind="holomorphic",
        complex_partials=(COMPLEX_SECH2.format(u=TANH_U),),
        second={(0, 0): "-2 * y * d0"},
    ),
    row(
        "arcsinh",
        "arcsinh(x0)",
        (f"1 / {ROOT_PLUS.format(v='x0')}",),
        REAL,
        "numpy.arcsinh math.asinh cmath.asinh",
        kind="holomorphic",
        complex_partials=("1 / cosh(y)",),
    ),
    row(
        "arccosh",
        "arccosh(x0)",
        ("1 / (sqrt(x0 - 1) * sqrt(x0 + 1))",),
        Interval(1.0, INF, "["),
        "numpy.arccosh math.acosh cmath.acosh",
        kind="holomorphic",
        complex_partials=("1 / sinh(y)",),
    ),
    row(
        "arctanh",
        "arctanh(x0)",
        ("1 / ((1 - x0) * (1 + x0))",),
        Interval(-1.0, 1.0),
        "numpy.arctanh math.atanh cmath.atanh",
        kind="holomorphic",
        complex_partials=("1 / (1 - x0) / (1 + x0)",),
    ),
)

GROUPS = (
    ARITHMETIC, EXPONENTIAL, TRIGONOMETRIC, HYPERBOLIC, SELECTIONS, STEPS, PARTS, SPECIAL, DISTRIBUTIONS, BESSEL,
    POLYNOMIAL, PARAMETERS, STATS,
)  # fmt: skip

# The same functions once more in other libraries, or under other ufuncs: each with its own loop for the value.
TWINS: tuple[tuple[str, str, str, Kind], ...] = (
    ("float_power", "power", "numpy.float_power", "holomorphic"),
    ("radians", "deg2rad", "numpy.radians", "real"),
    ("degrees", "rad2deg", "numpy.degrees", "real"),
    ("special_cbrt", "cbrt", "scipy.special.cbrt", "real"),
    ("special_exp2", "exp2", "scipy.special.exp2", "real"),
    ("special_expm1", "expm1", "scipy.special.expm1", "holomorphic"),
    ("special_log1p", "log1p", "scipy.special.log1p", "holomorphic"),
    ("special_round", "rint", "scipy.special.round", "real"),
    ("numpy_i0", "i0", "numpy.i0", "real"),
    ("yn", "yv", "scipy.special.yn", "real"),
    ("kn", "kv", "scipy.special.kn", "real"),
)


# Of these only whole orders are meant.
WHOLE_ORDERS = ("yn", "kn")


def _twins() -> Iterator[Elementwise]:
    rows = {entry.name: entry for entry in itertools.chain(*GROUPS)}
    for name, of, public, kind in TWINS:
        twin = replace(rows[of], name=name, serves=(public,), kind=kind)
        yield (
            replace(twin, partials=(None, twin.partials[1]), domain=(ORDER, POSITIVE)) if name in WHOLE_ORDERS else twin
        )


# Called by formulas only: wofz is complex even for real operands, and elliprd has no rule of its own.
HELPERS = ("wofz", "elliprd", "kolmogp", "smirnovp", *(entry.name for entry in PARAMETERS))

TABLE: dict[str, Elementwise] = build(*GROUPS, _twins())
for _name in HELPERS:
    del TABLE[_name]

# Called on the primals; what they return carries no derivative.
_PASSIVE = (
    "numpy.equal numpy.not_equal numpy.less numpy.less_equal numpy.greater numpy.greater_equal numpy.isfinite "
    "numpy.isinf numpy.isnan numpy.isnat numpy.signbit numpy.logical_and numpy.logical_or numpy.logical_xor "
    "numpy.logical_not math.isclose math.isfinite math.isinf math.isnan math.floor math.ceil math.trunc "
    "cmath.isclose cmath.isfinite cmath.isinf cmath.isnan scipy.special.gammasgn"
)
PASSIVE = frozenset(_PASSIVE.split())

_INTEGERS = (
    "numpy.bitwise_and numpy.bitwise_or numpy.bitwise_xor numpy.invert numpy.left_shift numpy.right_shift "
    "numpy.bitwise_count numpy.gcd numpy.lcm math.comb math.factorial math.gcd math.isqrt math.lcm math.perm"
)
REFUSED: dict[str, str] = dict.fromkeys(_INTEGERS.split(), "it is defined on integers and bits only")

# Elementwise functions with several outputs or sequences for arguments, and ufuncs over whole vectors: they have rules
# of other kinds.
_COMPOSED = (
    "numpy.divmod numpy.modf numpy.frexp math.modf math.frexp math.dist math.fsum math.hypot math.prod "
    "math.sumprod math.fma cmath.polar cmath.rect numpy.matmul numpy.vecdot numpy.vecmat numpy.matvec"
)
COMPOSED = frozenset(_COMPOSED.split())
