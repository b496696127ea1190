"""Rows of the table for the ufuncs behind scipy.stats, which have no public name: its distributions call them."""

from __future__ import annotations

from ndual.rules.row import UNIT, Elementwise, Interval, row

SHAPE = Interval(0.0, draw=(0.5, 6.0))
SCALE = Interval(0.0, draw=(0.5, 3.0))
PLACE = Interval(draw=(-2.0, 2.0))
SUCCESSES = Interval(0.0, 12.0, "[]", draw=(1.0, 5.0), integer=True)
TRIALS = Interval(0.0, 40.0, "[]", draw=(6.0, 12.0), integer=True)

BETA_DENSITY = "exp(xlogy(x1 - 1, y) + xlog1py(x2 - 1, -y) - betaln(x1, x2))"
BINOMIAL = "exp(xlogy(x0, x2) + xlog1py(x1 - x0 - 1, -x2) - betaln(x0 + 1, x1 - x0))"
NEGATIVE_BINOMIAL = "exp(xlogy(x1 - 1, x2) + xlog1py(x0, -x2) - betaln(x1, x0 + 1))"
CAUCHY_SLOPE = "x2 * pi / sin(pi * x0) ** 2"

STATS: tuple[Elementwise, ...] = (
    row(
        "beta_pdf",
        "beta_pdf(x0, x1, x2)",
        (
            "y * ((x1 - 1) / x0 - (x2 - 1) / (1 - x0))",
            "y * (log(x0) + digamma(x1 + x2) - digamma(x1))",
            "y * (log1p(-x0) + digamma(x1 + x2) - digamma(x2))",
        ),
        (UNIT, SHAPE, SHAPE),
        "scipy.special._ufuncs._beta_pdf",
    ),
    row(
        "beta_ppf",
        "beta_ppf(x0, x1, x2)",
        (f"1 / {BETA_DENSITY}", None, None),
        (UNIT, SHAPE, SHAPE),
        "scipy.special._ufuncs._beta_ppf",
    ),
    row(
        "binom_pmf",
        "binom_pmf(x0, x1, x2)",
        (None, None, "y * (x0 - x1 * x2) / (x2 * (1 - x2))"),
        (SUCCESSES, TRIALS, UNIT),
        "scipy.special._ufuncs._binom_pmf",
    ),
    row(
        "binom_cdf",
        "binom_cdf(x0, x1, x2)",
        (None, None, f"-{BINOMIAL}"),
        (SUCCESSES, TRIALS, UNIT),
        "scipy.special._ufuncs._binom_cdf",
    ),
    row(
        "binom_sf",
        "binom_sf(x0, x1, x2)",
        (None, None, BINOMIAL),
        (SUCCESSES, TRIALS, UNIT),
        "scipy.special._ufuncs._binom_sf",
    ),
    row(
        "nbinom_pmf",
        "nbinom_pmf(x0, x1, x2)",
        (None, "y * (digamma(x0 + x1) - digamma(x1) + log(x2))", "y * (x1 / x2 - x0 / (1 - x2))"),
        (SUCCESSES, SHAPE, UNIT),
        "scipy.special._ufuncs._nbinom_pmf",
    ),
    row(
        "nbinom_cdf",
        "nbinom_cdf(x0, x1, x2)",
        (None, None, NEGATIVE_BINOMIAL),
        (SUCCESSES, SHAPE, UNIT),
        "scipy.special._ufuncs._nbinom_cdf",
    ),
    row(
        "nbinom_sf",
        "nbinom_sf(x0, x1, x2)",
        (None, None, f"-{NEGATIVE_BINOMIAL}"),
        (SUCCESSES, SHAPE, UNIT),
        "scipy.special._ufuncs._nbinom_sf",
    ),
    row(
        "cauchy_ppf",
        "x1 - x2 / tan(pi * x0)",
        (CAUCHY_SLOPE, "1", "(y - x1) / x2"),
        (UNIT, PLACE, SCALE),
        "scipy.special._ufuncs._cauchy_ppf",
    ),
    row(
        "cauchy_isf",
        "x1 + x2 / tan(pi * x0)",
        (f"-{CAUCHY_SLOPE}", "1", "(y - x1) / x2"),
        (UNIT, PLACE, SCALE),
        "scipy.special._ufuncs._cauchy_isf",
    ),
)
