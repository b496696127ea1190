"""Rows of the table for SciPy's distribution functions and their inverses, by the variate (not by the parameters).

The derivative of a distribution function is its density, that of an inverse is one over it.
"""

from __future__ import annotations

from ndual.rules.row import NONNEGATIVE, POSITIVE, REAL, UNIT, Elementwise, Interval, row
from ndual.rules.special_rows import ORDER, SHAPE

TRIALS = Interval(6.0, 40.0, "[]", draw=(6.0, 9.0), integer=True)

GAMMA_DENSITY = "exp(xlogy(x0 - 1, {x}) - {x} - gammaln(x0))"
BETA_DENSITY = "exp(xlogy(x0 - 1, {x}) + xlog1py(x1 - 1, -{x}) - betaln(x0, x1))"
T_DENSITY = "exp(-0.5 * (x0 + 1) * log1p({x} * {x} / x0) - betaln(0.5 * x0, 0.5) - 0.5 * log(x0))"
F_DENSITY = (
    "exp(0.5 * x0 * log(x0 * x2 / (x1 + x0 * x2)) - 0.5 * x1 * log1p(x0 * x2 / x1) - betaln(0.5 * x0, 0.5 * x1)) / x2"
)
BINOMIAL = "exp(xlogy(floor(x0), x2) + xlog1py(x1 - floor(x0) - 1, -x2) - betaln(x1 - floor(x0), floor(x0) + 1))"
NEGATIVE_BINOMIAL = "exp(xlogy(x1 - 1, x2) + xlog1py(x0, -x2) - betaln(x1, x0 + 1))"
POISSON = "exp(xlogy(floor(x0), x1) - x1 - gammaln(floor(x0) + 1))"
CHI2_DENSITY = "0.5 * exp(xlogy(0.5 * x0 - 1, 0.5 * x1) - 0.5 * x1 - gammaln(0.5 * x0))"

DISTRIBUTIONS: tuple[Elementwise, ...] = (
    row(
        "gammainc",
        "gammainc(x0, x1)",
        (None, GAMMA_DENSITY.format(x="x1")),
        (SHAPE, NONNEGATIVE),
        "scipy.special.gammainc",
    ),
    row(
        "gammaincc",
        "gammaincc(x0, x1)",
        (None, "-" + GAMMA_DENSITY.format(x="x1")),
        (SHAPE, NONNEGATIVE),
        "scipy.special.gammaincc",
    ),
    row(
        "gammaincinv",
        "gammaincinv(x0, x1)",
        (None, "1 / " + GAMMA_DENSITY.format(x="y")),
        (SHAPE, UNIT),
        "scipy.special.gammaincinv",
    ),
    row(
        "gammainccinv",
        "gammainccinv(x0, x1)",
        (None, "-1 / " + GAMMA_DENSITY.format(x="y")),
        (SHAPE, UNIT),
        "scipy.special.gammainccinv",
    ),
    row(
        "betainc",
        "betainc(x0, x1, x2)",
        (None, None, BETA_DENSITY.format(x="x2")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betainc",
    ),
    row(
        "betaincc",
        "betaincc(x0, x1, x2)",
        (None, None, "-" + BETA_DENSITY.format(x="x2")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betaincc",
    ),
    row(
        "betaincinv",
        "betaincinv(x0, x1, x2)",
        (None, None, "1 / " + BETA_DENSITY.format(x="y")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betaincinv",
    ),
    row("stdtr", "stdtr(x0, x1)", (None, T_DENSITY.format(x="x1")), (SHAPE, REAL), "scipy.special.stdtr"),
    row("stdtrit", "stdtrit(x0, x1)", (None, "1 / " + T_DENSITY.format(x="y")), (SHAPE, UNIT), "scipy.special.stdtrit"),
    row("chdtr", "chdtr(x0, x1)", (None, CHI2_DENSITY), (SHAPE, POSITIVE), "scipy.special.chdtr"),
    row("chdtrc", "chdtrc(x0, x1)", (None, f"-{CHI2_DENSITY}"), (SHAPE, POSITIVE), "scipy.special.chdtrc"),
    row("pdtr", "pdtr(x0, x1)", (None, f"-{POISSON}"), (ORDER, POSITIVE), "scipy.special.pdtr"),
    row("pdtrc", "pdtrc(x0, x1)", (None, POISSON), (ORDER, POSITIVE), "scipy.special.pdtrc"),
    row("fdtr", "fdtr(x0, x1, x2)", (None, None, F_DENSITY), (SHAPE, SHAPE, POSITIVE), "scipy.special.fdtr"),
    row("fdtrc", "fdtrc(x0, x1, x2)", (None, None, f"-{F_DENSITY}"), (SHAPE, SHAPE, POSITIVE), "scipy.special.fdtrc"),
    row(
        "gdtr",
        "gdtr(x0, x1, x2)",
        (
            "x2 * exp(xlogy(x1 - 1, x0 * x2) - x0 * x2 - gammaln(x1))",
            None,
            "x0 * exp(xlogy(x1 - 1, x0 * x2) - x0 * x2 - gammaln(x1))",
        ),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.gdtr",
    ),
    row(
        "gdtrc",
        "gdtrc(x0, x1, x2)",
        (
            "-x2 * exp(xlogy(x1 - 1, x0 * x2) - x0 * x2 - gammaln(x1))",
            None,
            "-x0 * exp(xlogy(x1 - 1, x0 * x2) - x0 * x2 - gammaln(x1))",
        ),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.gdtrc",
    ),
    row(
        "chdtri",
        "chdtri(x0, x1)",
        (None, f"-1 / ({CHI2_DENSITY.replace('x1', 'y')})"),
        (SHAPE, UNIT),
        "scipy.special.chdtri",
    ),
    row(
        "fdtri",
        "fdtri(x0, x1, x2)",
        (None, None, f"1 / ({F_DENSITY.replace('x2', 'y')})"),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.fdtri",
    ),
    row("bdtr", "bdtr(x0, x1, x2)", (None, None, f"-{BINOMIAL}"), (ORDER, TRIALS, UNIT), "scipy.special.bdtr"),
    row("bdtrc", "bdtrc(x0, x1, x2)", (None, None, BINOMIAL), (ORDER, TRIALS, UNIT), "scipy.special.bdtrc"),
    row("nbdtr", "nbdtr(x0, x1, x2)", (None, None, NEGATIVE_BINOMIAL), (ORDER, TRIALS, UNIT), "scipy.special.nbdtr"),
    row(
        "nbdtrc",
        "nbdtrc(x0, x1, x2)",
        (None, None, f"-{NEGATIVE_BINOMIAL}"),
        (ORDER, TRIALS, UNIT),
        "scipy.special.nbdtrc",
    ),
)
