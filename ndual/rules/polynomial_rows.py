"""Rows of the table for SciPy's orthogonal polynomials by their argument, and for functions of angles in degrees."""

from __future__ import annotations

from ndual.rules.row import NONNEGATIVE, POSITIVE, REAL, UNIT, Elementwise, Interval, row
from ndual.rules.special_rows import ORDER, SHAPE

WITHIN_ONE = Interval(-1.0, 1.0, "[]")
WITHIN_TWO = Interval(-2.0, 2.0, "[]")
TURN = Interval(draw=(-400.0, 400.0))

POLYNOMIALS = (
    row(
        "eval_legendre",
        "eval_legendre(x0, x1)",
        (None, "eval_gegenbauer(x0 - 1, 1.5, x1)"),
        (ORDER, WITHIN_ONE),
        "scipy.special.eval_legendre",
    ),
    row(
        "eval_chebyt",
        "eval_chebyt(x0, x1)",
        (None, "x0 * eval_chebyu(x0 - 1, x1)"),
        (ORDER, WITHIN_ONE),
        "scipy.special.eval_chebyt",
    ),
    row(
        "eval_chebyu",
        "eval_chebyu(x0, x1)",
        (None, "2 * eval_gegenbauer(x0 - 1, 2, x1)"),
        (ORDER, WITHIN_ONE),
        "scipy.special.eval_chebyu",
    ),
    row(
        "eval_gegenbauer",
        "eval_gegenbauer(x0, x1, x2)",
        (None, None, "2 * x1 * eval_gegenbauer(x0 - 1, x1 + 1, x2)"),
        (ORDER, SHAPE, WITHIN_ONE),
        "scipy.special.eval_gegenbauer",
    ),
    row(
        "eval_jacobi",
        "eval_jacobi(x0, x1, x2, x3)",
        (None, None, None, "0.5 * (x0 + x1 + x2 + 1) * eval_jacobi(x0 - 1, x1 + 1, x2 + 1, x3)"),
        (ORDER, SHAPE, SHAPE, WITHIN_ONE),
        "scipy.special.eval_jacobi",
    ),
    row(
        "eval_hermite",
        "eval_hermite(x0, x1)",
        (None, "2 * x0 * eval_hermite(x0 - 1, x1) if x0 > 0 else 0"),
        (ORDER, REAL),
        "scipy.special.eval_hermite",
    ),
    row(
        "eval_hermitenorm",
        "eval_hermitenorm(x0, x1)",
        (None, "x0 * eval_hermitenorm(x0 - 1, x1) if x0 > 0 else 0"),
        (ORDER, REAL),
        "scipy.special.eval_hermitenorm",
    ),
    row(
        "eval_laguerre",
        "eval_laguerre(x0, x1)",
        (None, "-eval_genlaguerre(x0 - 1, 1, x1)"),
        (ORDER, NONNEGATIVE),
        "scipy.special.eval_laguerre",
    ),
    row(
        "eval_genlaguerre",
        "eval_genlaguerre(x0, x1, x2)",
        (None, None, "-eval_genlaguerre(x0 - 1, x1 + 1, x2)"),
        (ORDER, SHAPE, NONNEGATIVE),
        "scipy.special.eval_genlaguerre",
    ),
    row(
        "eval_chebyc",
        "eval_chebyc(x0, x1)",
        (None, "x0 * eval_chebyu(x0 - 1, 0.5 * x1)"),
        (ORDER, WITHIN_TWO),
        "scipy.special.eval_chebyc",
    ),
    row(
        "eval_chebys",
        "eval_chebys(x0, x1)",
        (None, "eval_gegenbauer(x0 - 1, 2, 0.5 * x1)"),
        (ORDER, WITHIN_TWO),
        "scipy.special.eval_chebys",
    ),
    row(
        "eval_sh_legendre",
        "eval_sh_legendre(x0, x1)",
        (None, "2 * eval_gegenbauer(x0 - 1, 1.5, 2 * x1 - 1)"),
        (ORDER, UNIT),
        "scipy.special.eval_sh_legendre",
    ),
    row(
        "eval_sh_chebyt",
        "eval_sh_chebyt(x0, x1)",
        (None, "2 * x0 * eval_chebyu(x0 - 1, 2 * x1 - 1)"),
        (ORDER, UNIT),
        "scipy.special.eval_sh_chebyt",
    ),
    row(
        "eval_sh_chebyu",
        "eval_sh_chebyu(x0, x1)",
        (None, "4 * eval_gegenbauer(x0 - 1, 2, 2 * x1 - 1)"),
        (ORDER, UNIT),
        "scipy.special.eval_sh_chebyu",
    ),
    row(
        "lpmv",
        "lpmv(x0, x1, x2)",
        (None, None, "((x0 + x1) * lpmv(x0, x1 - 1, x2) - x1 * x2 * y) / (1 - x2 * x2)"),
        (Interval(0.0, 2.0, "[]", integer=True), Interval(3.0, 6.0, "[]", integer=True), Interval(-1.0, 1.0)),
        "scipy.special.lpmv",
    ),
)

DEGREES = (
    row("sindg", "sindg(x0)", ("pi / 180 * cosdg(x0)",), TURN, "scipy.special.sindg"),
    row("cosdg", "cosdg(x0)", ("-pi / 180 * sindg(x0)",), TURN, "scipy.special.cosdg"),
    row("tandg", "tandg(x0)", ("pi / 180 * (1 + y * y)",), Interval(draw=(-80.0, 80.0)), "scipy.special.tandg"),
    row("cotdg", "cotdg(x0)", ("-pi / 180 * (1 + y * y)",), Interval(draw=(10.0, 170.0)), "scipy.special.cotdg"),
    row(
        "radian",
        "radian(x0, x1, x2)",
        ("pi / 180", "pi / 10800", "pi / 648000"),
        POSITIVE,
        "scipy.special.radian",
    ),
    row(
        "wright_bessel",
        "wright_bessel(x0, x1, x2)",
        (None, None, "wright_bessel(x0, x0 + x1, x2)"),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.wright_bessel",
    ),
)

POLYNOMIAL: tuple[Elementwise, ...] = POLYNOMIALS + DEGREES
