"""Rows of the table for SciPy's special functions: the logistic, error, gamma and beta families.

One row per function, where an exact formula exists; an operand without one is None and must not be active.
Distribution functions are in ``distribution_rows``, Bessel functions, integrals and polynomials in ``bessel_rows``.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ndual.rules.row import NONNEGATIVE, POSITIVE, REAL, UNIT, Elementwise, Interval, row


def horner(x: str, coefficients: list[Fraction]) -> str:
    """The polynomial ``c0 + c1 x + …`` as an expression in which every coefficient is a rounded number."""
    text = repr(float(coefficients[-1]))
    for c in reversed(coefficients[:-1]):
        text = f"{float(c)!r} + {x} * ({text})"
    return text


ORDER = Interval(0.0, 40.0, "[]", draw=(0.0, 5.0), integer=True)
SHAPE = Interval(0.0, draw=(0.5, 6.0))
NARROW = Interval(draw=(-3.0, 3.0))

WOFZ_SLOPE = "(2j / sqrt(pi) - 2 * {z} * wofz({z}))"
# Voigt's profile is the real part of wofz(z) over sqrt(2 pi) sigma.
VOIGT_Z = "((x0 + 1j * x2) / (sqrt(2) * x1))"
VOIGT_SLOPE = WOFZ_SLOPE.format(z=VOIGT_Z)
LOGISTIC = "exp(-abs(x0)) / (1 + exp(-abs(x0))) ** 2"


def exprel_slope(u: str, direct: str) -> str:
    """The derivative of (exp(u) - 1) / u, by its series where the direct form loses its digits."""
    series = horner(u, [Fraction(k + 1, math.factorial(k + 2)) for k in range(18)])
    return f"({series} if abs({u}) < 1 else {direct})"


def boxcox_slope(log: str) -> str:
    """The derivative of (exp(x1 log) - 1) / x1 by x1."""
    u = f"(x1 * {log})"
    return f"{log} * {log} * {exprel_slope(u, f'(exp({u}) * ({u} - 1) + 1) / ({u} * {u})')}"


# (u / (1 + u) - log1p(u)) / u² with u = x0 x1, which is what the inverse moves by in x1 over its value and x0².
_SERIES = horner("(x0 * x1)", [Fraction((-1) ** (k + 1) * (k + 1), k + 2) for k in range(26)])
_DIRECT = "(x0 * x1 / (1 + x0 * x1) - log1p(x0 * x1)) / (x0 * x1 * x0 * x1)"
INVERSE_BOXCOX = f"x0 * x0 * ({_SERIES} if abs(x0 * x1) < 0.25 else {_DIRECT})"


def tail(sign: int) -> str:
    """The sum of (sign t)^k (2k+1)!! with t = 1 / (2 x²), which is what is left where 2 x y cancels a constant."""
    odd = [Fraction(math.factorial(2 * k + 1), 2**k * math.factorial(k)) for k in range(15)]
    return horner("(0.5 / (x0 * x0))", [c * sign**k for k, c in enumerate(odd)])


LOGISTIC_ROWS = (
    row(
        "expit",
        "1 / (1 + exp(-x0))",
        (LOGISTIC,),
        REAL,
        "scipy.special.expit",
        second={(0, 0): "-d0 * tanh(x0 / 2)"},
    ),
    row("logit", "log(x0 / (1 - x0))", ("1 / (x0 * (1 - x0))",), UNIT, "scipy.special.logit"),
    row(
        "log_expit",
        "-log1p(exp(-x0)) if x0 > 0 else x0 - log1p(exp(x0))",
        ("1 / (1 + exp(x0))",),
        REAL,
        "scipy.special.log_expit",
        second={(0, 0): f"-{LOGISTIC}"},
    ),
    row("exp10", "exp10(x0)", ("ln10 * y",), REAL, "scipy.special.exp10"),
    row(
        "exprel",
        "exprel(x0)",
        (exprel_slope("x0", "y * (1 - 1 / x0) + 1 / x0 if x0 > 0 else (exp(x0) - y) / x0"),),
        REAL,
        "scipy.special.exprel",
    ),
    row("cosm1", "cosm1(x0)", ("-sin(x0)",), REAL, "scipy.special.cosm1", second={(0, 0): "-cos(x0)"}),
    row(
        "powm1",
        "powm1(x0, x1)",
        ("x1 * power(x0, x1 - 1) if x1 != 0 else 0", "0 if y == -1 else (y + 1) * log(x0) if x0 != 0 else nan"),
        (POSITIVE, REAL),
        "scipy.special.powm1",
    ),
    # A quotient of 0 by 0 is a removable point: xlogy(0, 0) is 0 for every first factor 0.
    row(
        "xlogy",
        "xlogy(x0, x1)",
        ("log(x1)", "x0 / x1"),
        (REAL, POSITIVE),
        "scipy.special.xlogy",
        at={(0, 0): (-math.inf, 0)},
        kind="holomorphic",
    ),
    row(
        "xlog1py",
        "xlog1py(x0, x1)",
        ("log1p(x1)", "x0 / (1 + x1)"),
        (REAL, Interval(-1.0)),
        "scipy.special.xlog1py",
        at={(0, -1): (-math.inf, 0)},
        kind="holomorphic",
    ),
    row("entr", "-x0 * log(x0)", ("-log(x0) - 1",), POSITIVE, "scipy.special.entr"),
    row(
        "rel_entr",
        "rel_entr(x0, x1)",
        ("log(x0 / x1) + 1", "-x0 / x1"),
        POSITIVE,
        "scipy.special.rel_entr",
    ),
    row("kl_div", "kl_div(x0, x1)", ("log(x0 / x1)", "(x1 - x0) / x1"), POSITIVE, "scipy.special.kl_div"),
    row(
        "boxcox",
        "boxcox(x0, x1)",
        ("power(x0, x1 - 1)", boxcox_slope("log(x0)")),
        (POSITIVE, NARROW),
        "scipy.special.boxcox",
    ),
    row(
        "boxcox1p",
        "boxcox1p(x0, x1)",
        ("exp((x1 - 1) * log1p(x0))", boxcox_slope("log1p(x0)")),
        (Interval(-1.0), NARROW),
        "scipy.special.boxcox1p",
    ),
    row(
        "inv_boxcox",
        "inv_boxcox(x0, x1)",
        ("power(y, 1 - x1)", f"y * {INVERSE_BOXCOX}"),
        (NONNEGATIVE, SHAPE),
        "scipy.special.inv_boxcox",
    ),
    row(
        "inv_boxcox1p",
        "inv_boxcox1p(x0, x1)",
        ("power(1 + y, 1 - x1)", f"(1 + y) * {INVERSE_BOXCOX}"),
        (NONNEGATIVE, SHAPE),
        "scipy.special.inv_boxcox1p",
    ),
    row(
        "huber",
        "huber(x0, x1)",
        ("abs(x1) - x0 if abs(x1) > x0 else 0", "x1 if abs(x1) <= x0 else x0 * sign(x1)"),
        (POSITIVE, REAL),
        "scipy.special.huber",
    ),
    # With s = sqrt(1 + (r/d)²): the derivative by d, 2 (s - 1) - (r/d)²/s, rewritten without its cancellation.
    row(
        "pseudo_huber",
        "pseudo_huber(x0, x1)",
        (
            "x0 * (x1 / x0) ** 4 / (hypot(1, x1 / x0) * (1 + hypot(1, x1 / x0)) ** 2)",
            "x1 / hypot(1, x1 / x0)",
        ),
        (POSITIVE, REAL),
        "scipy.special.pseudo_huber",
    ),
)

ERROR_ROWS = (
    row(
        "erf",
        "erf(x0)",
        ("2 / sqrt(pi) * exp(-x0 * x0)",),
        REAL,
        "scipy.special.erf math.erf",
        kind="holomorphic",
        second={(0, 0): "-2 * x0 * d0"},
    ),
    row(
        "erfc",
        "erfc(x0)",
        ("-2 / sqrt(pi) * exp(-x0 * x0)",),
        REAL,
        "scipy.special.erfc math.erfc",
        kind="holomorphic",
        second={(0, 0): "-2 * x0 * d0"},
    ),
    row(
        "erfcx",
        "erfcx(x0)",
        (f"2 * x0 * y - 2 / sqrt(pi) if x0 < 8 else -1 / sqrt(pi) / x0 / x0 * ({tail(-1)})",),
        REAL,
        "scipy.special.erfcx",
        second={(0, 0): f"2 * y + 2 * x0 * d0 if x0 < 8 else 2 / sqrt(pi) / x0 / x0 / x0 * ({tail(-1)})"},
    ),
    row("erfi", "erfi(x0)", ("2 / sqrt(pi) * exp(x0 * x0)",), REAL, "scipy.special.erfi", kind="holomorphic"),
    row(
        "dawsn",
        "dawsn(x0)",
        (f"1 - 2 * x0 * y if abs(x0) < 8 else -0.5 / x0 / x0 * ({tail(1)})",),
        REAL,
        "scipy.special.dawsn",
    ),
    row("erfinv", "erfinv(x0)", ("0.5 * sqrt(pi) * exp(y * y)",), Interval(-1.0, 1.0), "scipy.special.erfinv"),
    row("erfcinv", "erfcinv(x0)", ("-0.5 * sqrt(pi) * exp(y * y)",), Interval(0.0, 2.0), "scipy.special.erfcinv"),
    row(
        "ndtr",
        "ndtr(x0)",
        ("exp(-0.5 * x0 * x0) / sqrt(2 * pi)",),
        REAL,
        "scipy.special.ndtr",
        second={(0, 0): "-x0 * d0"},
    ),
    row("ndtri", "ndtri(x0)", ("sqrt(2 * pi) * exp(0.5 * y * y)",), UNIT, "scipy.special.ndtri"),
    row(
        "log_ndtr",
        "log_ndtr(x0)",
        ("sqrt(2 / pi) / erfcx(x0 * (-1 / sqrt(2)))",),
        REAL,
        "scipy.special.log_ndtr",
        second={(0, 0): "-d0 * (x0 + d0)"},
    ),
    row(
        "ndtri_exp",
        "ndtri_exp(x0)",
        ("sqrt(2 * pi) * exp(x0 + 0.5 * y * y)",),
        Interval(-math.inf, 0.0),
        "scipy.special.ndtri_exp",
    ),
    row("wofz", "wofz(x0)", (WOFZ_SLOPE.format(z="x0"),), REAL, "scipy.special.wofz", kind="holomorphic"),
    row(
        "voigt_profile",
        "voigt_profile(x0, x1, x2)",
        (
            f"real({VOIGT_SLOPE}) / (2 * sqrt(pi) * x1 * x1)",
            f"-y / x1 - real({VOIGT_SLOPE} * {VOIGT_Z}) / (sqrt(2 * pi) * x1 * x1)",
            f"real(1j * {VOIGT_SLOPE}) / (2 * sqrt(pi) * x1 * x1)",
        ),
        (REAL, SHAPE, SHAPE),
        "scipy.special.voigt_profile",
    ),
    row(
        "owens_t",
        "owens_t(x0, x1)",
        (
            "-exp(-0.5 * x0 * x0) * erf(x0 * x1 / sqrt(2)) / (2 * sqrt(2 * pi))",
            "exp(-0.5 * x0 * x0 * (1 + x1 * x1)) / (2 * pi * (1 + x1 * x1))",
        ),
        REAL,
        "scipy.special.owens_t",
    ),
)

GAMMA_ROWS = (
    row("gamma", "gamma(x0)", ("y * digamma(x0)",), POSITIVE, "scipy.special.gamma math.gamma", kind="holomorphic"),
    row("gammaln", "gammaln(x0)", ("digamma(x0)",), POSITIVE, "scipy.special.gammaln math.lgamma"),
    row("loggamma", "loggamma(x0)", ("digamma(x0)",), POSITIVE, "scipy.special.loggamma", kind="holomorphic"),
    row(
        "rgamma",
        "rgamma(x0)",
        ("-y * digamma(x0)",),
        POSITIVE,
        "scipy.special.rgamma",
        at={(-n,): ((-1) ** n * math.factorial(n),) for n in range(9)},
        kind="holomorphic",
    ),
    row("digamma", "digamma(x0)", ("zeta(2, x0)",), POSITIVE, "scipy.special.digamma"),
    row(
        "polygamma",
        "polygamma(x0, x1)",
        (None, "polygamma(x0 + 1, x1)"),
        (ORDER, POSITIVE),
        "scipy.special.polygamma",
    ),
    row(
        "zeta",
        "zeta(x0, x1)",
        (None, "-x0 * zeta(x0 + 1, x1)"),
        (Interval(1.0), POSITIVE),
        "scipy.special.zeta scipy.special._ufuncs._zeta",
    ),
    row(
        "beta",
        "beta(x0, x1)",
        ("y * (digamma(x0) - digamma(x0 + x1))", "y * (digamma(x1) - digamma(x0 + x1))"),
        SHAPE,
        "scipy.special.beta",
    ),
    row(
        "betaln",
        "betaln(x0, x1)",
        ("digamma(x0) - digamma(x0 + x1)", "digamma(x1) - digamma(x0 + x1)"),
        SHAPE,
        "scipy.special.betaln",
    ),
    row(
        "binom",
        "binom(x0, x1)",
        (
            "y * (digamma(x0 + 1) - digamma(x0 - x1 + 1))",
            "y * (digamma(x0 - x1 + 1) - digamma(x1 + 1))",
        ),
        (Interval(4.0, draw=(4.0, 9.0)), Interval(0.0, 3.0)),
        "scipy.special.binom",
    ),
    row(
        "poch",
        "poch(x0, x1)",
        ("y * (digamma(x0 + x1) - digamma(x0))", "y * digamma(x0 + x1)"),
        SHAPE,
        "scipy.special.poch",
    ),
)

SPECIAL: tuple[Elementwise, ...] = LOGISTIC_ROWS + ERROR_ROWS + GAMMA_ROWS
