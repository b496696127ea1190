"""Rows of the table for SciPy's distribution functions and their inverses, by the variate and by their parameters.

The derivative of a distribution function is its density, that of an inverse is one over it. By parameters there are
integrals (``parameters``), which rows declared here make known to formulas.
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

BETA_SHIFTS = tuple(f"-betainc_{p}(x0, x1, y) / {BETA_DENSITY.format(x='y')}" for p in "ab")

# By parameters; "order" is that of a Bessel function. These serve formulas, not users.
PARAMETERS: tuple[Elementwise, ...] = tuple(
    row(
        name,
        f"{name}({', '.join(f'x{i}' for i in range(nin))})",
        (None,) * nin,
        POSITIVE,
        f"ndual.rules.parameters.{name}",
    )
    for name, nin in {
        "gammainc_a": 2,
        "betainc_a": 3,
        "betainc_b": 3,
        "stdtr_df": 2,
        "fdtr_dfn": 3,
        "fdtr_dfd": 3,
        "jv_order": 2,
        "yv_order": 2,
        "iv_order": 2,
        "kve_order": 2,
    }.items()
)

DISTRIBUTIONS: tuple[Elementwise, ...] = (
    row(
        "gammainc",
        "gammainc(x0, x1)",
        ("gammainc_a(x0, x1)", GAMMA_DENSITY.format(x="x1")),
        (SHAPE, NONNEGATIVE),
        "scipy.special.gammainc",
    ),
    row(
        "gammaincc",
        "gammaincc(x0, x1)",
        ("-gammainc_a(x0, x1)", "-" + GAMMA_DENSITY.format(x="x1")),
        (SHAPE, NONNEGATIVE),
        "scipy.special.gammaincc",
    ),
    row(
        "gammaincinv",
        "gammaincinv(x0, x1)",
        (f"-gammainc_a(x0, y) / {GAMMA_DENSITY.format(x='y')}", "1 / " + GAMMA_DENSITY.format(x="y")),
        (SHAPE, UNIT),
        "scipy.special.gammaincinv",
    ),
    row(
        "gammainccinv",
        "gammainccinv(x0, x1)",
        (f"-gammainc_a(x0, y) / {GAMMA_DENSITY.format(x='y')}", "-1 / " + GAMMA_DENSITY.format(x="y")),
        (SHAPE, UNIT),
        "scipy.special.gammainccinv",
    ),
    row(
        "betainc",
        "betainc(x0, x1, x2)",
        ("betainc_a(x0, x1, x2)", "betainc_b(x0, x1, x2)", BETA_DENSITY.format(x="x2")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betainc",
    ),
    row(
        "betaincc",
        "betaincc(x0, x1, x2)",
        ("-betainc_a(x0, x1, x2)", "-betainc_b(x0, x1, x2)", "-" + BETA_DENSITY.format(x="x2")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betaincc",
    ),
    row(
        "betaincinv",
        "betaincinv(x0, x1, x2)",
        (*BETA_SHIFTS, "1 / " + BETA_DENSITY.format(x="y")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betaincinv",
    ),
    row(
        "betainccinv",
        "betainccinv(x0, x1, x2)",
        (*BETA_SHIFTS, "-1 / " + BETA_DENSITY.format(x="y")),
        (SHAPE, SHAPE, UNIT),
        "scipy.special.betainccinv",
    ),
    row("stdtr", "stdtr(x0, x1)", ("stdtr_df(x0, x1)", T_DENSITY.format(x="x1")), (SHAPE, REAL), "scipy.special.stdtr"),
    row(
        "stdtrit",
        "stdtrit(x0, x1)",
        (f"-stdtr_df(x0, y) / {T_DENSITY.format(x='y')}", "1 / " + T_DENSITY.format(x="y")),
        (SHAPE, UNIT),
        "scipy.special.stdtrit",
    ),
    row(
        "chdtr",
        "chdtr(x0, x1)",
        ("0.5 * gammainc_a(0.5 * x0, 0.5 * x1)", CHI2_DENSITY),
        (SHAPE, POSITIVE),
        "scipy.special.chdtr",
    ),
    row(
        "chdtrc",
        "chdtrc(x0, x1)",
        ("-0.5 * gammainc_a(0.5 * x0, 0.5 * x1)", f"-{CHI2_DENSITY}"),
        (SHAPE, POSITIVE),
        "scipy.special.chdtrc",
    ),
    row("pdtr", "pdtr(x0, x1)", (None, f"-{POISSON}"), (ORDER, POSITIVE), "scipy.special.pdtr"),
    row("pdtrc", "pdtrc(x0, x1)", (None, POISSON), (ORDER, POSITIVE), "scipy.special.pdtrc"),
    row(
        "fdtr",
        "fdtr(x0, x1, x2)",
        ("fdtr_dfn(x0, x1, x2)", "fdtr_dfd(x0, x1, x2)", F_DENSITY),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.fdtr",
    ),
    row(
        "fdtrc",
        "fdtrc(x0, x1, x2)",
        ("-fdtr_dfn(x0, x1, x2)", "-fdtr_dfd(x0, x1, x2)", f"-{F_DENSITY}"),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.fdtrc",
    ),
    row(
        "gdtr",
        "gdtr(x0, x1, x2)",
        (
            "x2 * exp(xlogy(x1 - 1, x0 * x2) - x0 * x2 - gammaln(x1))",
            "gammainc_a(x1, x0 * x2)",
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
            "-gammainc_a(x1, x0 * x2)",
            "-x0 * exp(xlogy(x1 - 1, x0 * x2) - x0 * x2 - gammaln(x1))",
        ),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.gdtrc",
    ),
    row(
        "chdtri",
        "chdtri(x0, x1)",
        (
            f"-0.5 * gammainc_a(0.5 * x0, 0.5 * y) / ({CHI2_DENSITY.replace('x1', 'y')})",
            f"-1 / ({CHI2_DENSITY.replace('x1', 'y')})",
        ),
        (SHAPE, UNIT),
        "scipy.special.chdtri",
    ),
    row(
        "fdtri",
        "fdtri(x0, x1, x2)",
        (
            f"-fdtr_dfn(x0, x1, y) / ({F_DENSITY.replace('x2', 'y')})",
            f"-fdtr_dfd(x0, x1, y) / ({F_DENSITY.replace('x2', 'y')})",
            f"1 / ({F_DENSITY.replace('x2', 'y')})",
        ),
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
