"""Rows of the table for what SciPy's distributions call beneath their public names, and for the tests' statistics.

SciPy's statistics are Python code over ufuncs, most of them private ones; with rows for these, a distribution is
differentiated as it is written there.
"""

from __future__ import annotations

from ndual.rules.distribution_rows import (
    BETA_DENSITY,
    BINOMIAL,
    NEGATIVE_BINOMIAL,
    POISSON,
    TRIALS,
)
from ndual.rules.row import POSITIVE, REAL, UNIT, Elementwise, Interval, row
from ndual.rules.special_rows import ORDER, SHAPE

_PRIVATE = "scipy.special._ufuncs."
# The density of beta by the variate x0 and the parameters x1, x2, at `v`.
_AT = BETA_DENSITY.replace("x1", "q").replace("x0", "x1").replace("q", "x2")
_PPF_DENSITY = _AT.format(x="y")
_NEGATIVE_AT = "exp(xlogy(x1 - 1, x2) + xlog1py(x0, -x2) - betaln(x1, x0 + 1))"

PRIVATE_ROWS = (
    row(
        "beta_pdf",
        "beta_pdf(x0, x1, x2)",
        (
            "y * ((x1 - 1) / x0 - (x2 - 1) / (1 - x0))",
            "y * (log(x0) - digamma(x1) + digamma(x1 + x2))",
            "y * (log1p(-x0) - digamma(x2) + digamma(x1 + x2))",
        ),
        (UNIT, SHAPE, SHAPE),
        f"{_PRIVATE}_beta_pdf",
    ),
    row(
        "beta_ppf",
        "beta_ppf(x0, x1, x2)",
        (
            f"1 / {_PPF_DENSITY}",
            f"-betainc_a(x1, x2, y) / {_PPF_DENSITY}",
            f"-betainc_b(x1, x2, y) / {_PPF_DENSITY}",
        ),
        (UNIT, SHAPE, SHAPE),
        f"{_PRIVATE}_beta_ppf",
    ),
    row(
        "binom_pmf",
        "binom_pmf(x0, x1, x2)",
        (None, None, "y * ((x0 / x2 if x0 > 0 else 0) - ((x1 - x0) / (1 - x2) if x1 > x0 else 0))"),
        (ORDER, TRIALS, UNIT),
        f"{_PRIVATE}_binom_pmf",
    ),
    row(
        "binom_cdf",
        "binom_cdf(x0, x1, x2)",
        (None, None, f"-{BINOMIAL}"),
        (ORDER, TRIALS, UNIT),
        f"{_PRIVATE}_binom_cdf",
    ),
    row(
        "binom_sf",
        "binom_sf(x0, x1, x2)",
        (None, None, BINOMIAL),
        (ORDER, TRIALS, UNIT),
        f"{_PRIVATE}_binom_sf",
    ),
    row(
        "nbinom_pmf",
        "nbinom_pmf(x0, x1, x2)",
        (None, "y * (digamma(x0 + x1) - digamma(x1) + log(x2))", "y * (x1 / x2 - x0 / (1 - x2))"),
        (ORDER, SHAPE, UNIT),
        f"{_PRIVATE}_nbinom_pmf",
    ),
    row(
        "nbinom_cdf",
        "nbinom_cdf(x0, x1, x2)",
        (None, "betainc_a(x1, x0 + 1, x2)", _NEGATIVE_AT),
        (ORDER, SHAPE, UNIT),
        f"{_PRIVATE}_nbinom_cdf",
    ),
    row(
        "nbinom_sf",
        "nbinom_sf(x0, x1, x2)",
        (None, "-betainc_a(x1, x0 + 1, x2)", f"-{_NEGATIVE_AT}"),
        (ORDER, SHAPE, UNIT),
        f"{_PRIVATE}_nbinom_sf",
    ),
    row("log1mexp", "log1mexp(x0)", ("-1 / expm1(-x0)",), Interval(high=0.0), f"{_PRIVATE}_log1mexp"),
    row("log1pmx", "log1pmx(x0)", ("-x0 / (1 + x0)",), Interval(-1.0), f"{_PRIVATE}_log1pmx"),
    row("lgam1p", "lgam1p(x0)", ("digamma(1 + x0)",), POSITIVE, f"{_PRIVATE}_lgam1p"),
    row(
        "scaled_exp1",
        "scaled_exp1(x0)",
        ("y * (1 + 1 / x0) - 1",),
        Interval(0.0, draw=(0.1, 4.0)),
        f"{_PRIVATE}_scaled_exp1",
    ),
    row("cospi", "cospi(x0)", ("-pi * sinpi(x0)",), REAL, f"{_PRIVATE}_cospi"),
    row("sinpi", "sinpi(x0)", ("pi * cospi(x0)",), REAL, f"{_PRIVATE}_sinpi"),
)

_CAUCHY = "pi * x2 * (1 + ((y - x1) / x2) ** 2)"

LOCATED_ROWS = (
    row(
        "cauchy_ppf",
        "cauchy_ppf(x0, x1, x2)",
        (_CAUCHY, "1", "(y - x1) / x2"),
        (UNIT, REAL, POSITIVE),
        f"{_PRIVATE}_cauchy_ppf",
    ),
    row(
        "cauchy_isf",
        "cauchy_isf(x0, x1, x2)",
        (f"-{_CAUCHY}", "1", "(y - x1) / x2"),
        (UNIT, REAL, POSITIVE),
        f"{_PRIVATE}_cauchy_isf",
    ),
    row("cosine_cdf", "cosine_cdf(x0)", ("(1 + cos(x0)) / (2 * pi)",), Interval(-3.0, 3.0), f"{_PRIVATE}_cosine_cdf"),
    row("cosine_invcdf", "cosine_invcdf(x0)", ("2 * pi / (1 + cos(y))",), UNIT, f"{_PRIVATE}_cosine_invcdf"),
)

INVERSE_ROWS = (
    row(
        "bdtri",
        "bdtri(x0, x1, x2)",
        (None, None, f"-1 / {BINOMIAL.replace('x2', 'y')}"),
        (ORDER, TRIALS, UNIT),
        "scipy.special.bdtri",
    ),
    row(
        "nbdtri",
        "nbdtri(x0, x1, x2)",
        (None, None, f"1 / {NEGATIVE_BINOMIAL.replace('x2', 'y')}"),
        (ORDER, TRIALS, UNIT),
        "scipy.special.nbdtri",
    ),
    row("pdtri", "pdtri(x0, x1)", (None, f"-1 / {POISSON.replace('x1', 'y')}"), (ORDER, UNIT), "scipy.special.pdtri"),
    row(
        "kolmogp",
        "kolmogp(x0)",
        (None,),
        POSITIVE,
        f"{_PRIVATE}_kolmogp",
    ),
    row("smirnovp", "smirnovp(x0, x1)", (None, None), (ORDER, UNIT), f"{_PRIVATE}_smirnovp"),
    row("kolmogorov", "kolmogorov(x0)", ("kolmogp(x0)",), Interval(0.0, draw=(0.3, 3.0)), "scipy.special.kolmogorov"),
    row("kolmogi", "kolmogi(x0)", ("1 / kolmogp(y)",), UNIT, "scipy.special.kolmogi"),
    row("smirnov", "smirnov(x0, x1)", (None, "smirnovp(x0, x1)"), (TRIALS, UNIT), "scipy.special.smirnov"),
    row("smirnovi", "smirnovi(x0, x1)", (None, "1 / smirnovp(x0, y)"), (TRIALS, UNIT), "scipy.special.smirnovi"),
)

STATS: tuple[Elementwise, ...] = PRIVATE_ROWS + LOCATED_ROWS + INVERSE_ROWS
