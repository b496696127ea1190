"""Rows of the table for SciPy's Bessel and related functions and elliptic integrals.

Derivatives follow from the neighbouring orders; by the order of J, Y, I and K there are integrals (``parameters``).
"""

from __future__ import annotations

import math
from fractions import Fraction

from ndual.rules.row import NONZERO, POSITIVE, REAL, Elementwise, Interval, row
from ndual.rules.special_rows import ORDER, SHAPE, horner

BESSEL_ORDER = Interval(0.0, 40.0, "[", draw=(0.1, 5.0))
BELOW_ONE = Interval(-math.inf, 1.0, draw=(-2.0, 1.0))
ANGLE = Interval(draw=(-1.5, 1.5))


def scaled_tail(order: int, sign: int) -> str:
    """The derivative of exp(-|x|) I or exp(x) K of this order over -sqrt(1/|x|)/|x|, for large |x|.

    The functions are c (1 + a1 s/|x| + a2 (s/|x|)² + …) / sqrt(|x|) with s = `sign`. Differentiated term by term, since
    the difference of two neighbouring orders loses 2 |x| of its digits.
    """
    mu, a = 4 * order * order, Fraction(1)
    terms = []
    for k in range(16):
        terms.append(a * Fraction(2 * k + 1, 2) * sign**k)
        a = a * (mu - (2 * k + 1) ** 2) / (8 * (k + 1))
    return horner("(1 / abs(x0))", terms)


# 1 / sqrt(2 pi) and sqrt(pi / 2) are the constants c of the scaled I and K.
I0E_TAIL = f"-sign(x0) / sqrt(2 * pi) / (abs(x0) * sqrt(abs(x0))) * ({scaled_tail(0, -1)})"
I1E_TAIL = f"-1 / sqrt(2 * pi) / (abs(x0) * sqrt(abs(x0))) * ({scaled_tail(1, -1)})"
K0E_TAIL = f"-sqrt(pi / 2) / (x0 * sqrt(x0)) * ({scaled_tail(0, 1)})"
K1E_TAIL = f"-sqrt(pi / 2) / (x0 * sqrt(x0)) * ({scaled_tail(1, 1)})"

BESSEL_ROWS = (
    row("j0", "j0(x0)", ("-j1(x0)",), REAL, "scipy.special.j0"),
    row("j1", "j1(x0)", ("j0(x0) - y / x0",), REAL, "scipy.special.j1", at={(0,): (0.5, 0)}),
    row("y0", "y0(x0)", ("-y1(x0)",), POSITIVE, "scipy.special.y0"),
    row("y1", "y1(x0)", ("y0(x0) - y / x0",), POSITIVE, "scipy.special.y1"),
    row("i0", "i0(x0)", ("i1(x0)",), REAL, "scipy.special.i0"),
    # i0(x0) - y / x0 would be inf - inf from 714 on.
    row("i1", "i1(x0)", ("0.5 * (i0(x0) + iv(2, x0))",), REAL, "scipy.special.i1"),
    row("k0", "k0(x0)", ("-k1(x0)",), POSITIVE, "scipy.special.k0"),
    row("k1", "k1(x0)", ("-k0(x0) - y / x0",), POSITIVE, "scipy.special.k1"),
    row(
        "i0e",
        "i0e(x0)",
        (f"i1e(x0) - sign(x0) * y if abs(x0) < 30 else {I0E_TAIL}",),
        REAL,
        "scipy.special.i0e",
    ),
    row(
        "i1e",
        "i1e(x0)",
        (f"i0e(x0) - (sign(x0) + 1 / x0) * y if abs(x0) < 30 else {I1E_TAIL}",),
        REAL,
        "scipy.special.i1e",
        at={(0,): (0.5,)},
    ),
    row("k0e", "k0e(x0)", (f"y - k1e(x0) if x0 < 30 else {K0E_TAIL}",), POSITIVE, "scipy.special.k0e"),
    row(
        "k1e",
        "k1e(x0)",
        (f"(1 - 1 / x0) * y - k0e(x0) if x0 < 30 else {K1E_TAIL}",),
        POSITIVE,
        "scipy.special.k1e",
    ),
    row(
        "jv",
        "jv(x0, x1)",
        ("jv_order(x0, x1)", "0.5 * (jv(x0 - 1, x1) - jv(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.jv scipy.special.jn",
        kind="holomorphic",
        complex_partials=(None, "0.5 * (jv(x0 - 1, x1) - jv(x0 + 1, x1))"),
    ),
    row(
        "yv",
        "yv(x0, x1)",
        ("yv_order(x0, x1)", "0.5 * (yv(x0 - 1, x1) - yv(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.yv",
        kind="holomorphic",
        complex_partials=(None, "0.5 * (yv(x0 - 1, x1) - yv(x0 + 1, x1))"),
    ),
    row(
        "iv",
        "iv(x0, x1)",
        ("y * iv_order(x0, x1)", "0.5 * (iv(x0 - 1, x1) + iv(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.iv",
        kind="holomorphic",
        complex_partials=(None, "0.5 * (iv(x0 - 1, x1) + iv(x0 + 1, x1))"),
    ),
    row(
        "kv",
        "kv(x0, x1)",
        ("exp(-x1) * kve_order(x0, x1)", "-0.5 * (kv(x0 - 1, x1) + kv(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.kv",
        kind="holomorphic",
        complex_partials=(None, "-0.5 * (kv(x0 - 1, x1) + kv(x0 + 1, x1))"),
    ),
    row(
        "jve",
        "jve(x0, x1)",
        ("jv_order(x0, x1)", "0.5 * (jve(x0 - 1, x1) - jve(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.jve",
    ),
    row(
        "yve",
        "yve(x0, x1)",
        ("yv_order(x0, x1)", "0.5 * (yve(x0 - 1, x1) - yve(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.yve",
    ),
    row(
        "ive",
        "ive(x0, x1)",
        ("y * iv_order(x0, x1)", "0.5 * (ive(x0 - 1, x1) + ive(x0 + 1, x1)) - sign(x1) * y"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.ive",
    ),
    row(
        "kve",
        "kve(x0, x1)",
        ("kve_order(x0, x1)", "y - 0.5 * (kve(x0 - 1, x1) + kve(x0 + 1, x1))"),
        (BESSEL_ORDER, POSITIVE),
        "scipy.special.kve",
    ),
    row(
        "struve",
        "struve(x0, x1)",
        (None, "0.5 * (struve(x0 - 1, x1) - struve(x0 + 1, x1) + power(0.5 * x1, x0) * rgamma(x0 + 1.5) / sqrt(pi))"),
        (ORDER, POSITIVE),
        "scipy.special.struve",
    ),
    row(
        "modstruve",
        "modstruve(x0, x1)",
        (
            None,
            "0.5 * (modstruve(x0 - 1, x1) + modstruve(x0 + 1, x1) + power(0.5 * x1, x0) * rgamma(x0 + 1.5) / sqrt(pi))",
        ),
        (ORDER, POSITIVE),
        "scipy.special.modstruve",
    ),
    # The public functions are Python around these ufuncs, which a dual reaches through them.
    row(
        "spherical_jn",
        "spherical_jn(x0, x1)",
        (None, "x0 / x1 * y - spherical_jn(x0 + 1, x1)"),
        (ORDER, POSITIVE),
        "scipy.special._ufuncs._spherical_jn",
        kind="holomorphic",
    ),
    row(
        "spherical_yn",
        "spherical_yn(x0, x1)",
        (None, "x0 / x1 * y - spherical_yn(x0 + 1, x1)"),
        (ORDER, POSITIVE),
        "scipy.special._ufuncs._spherical_yn",
        kind="holomorphic",
    ),
    row(
        "spherical_in",
        "spherical_in(x0, x1)",
        (None, "x0 / x1 * y + spherical_in(x0 + 1, x1)"),
        (ORDER, POSITIVE),
        "scipy.special._ufuncs._spherical_in",
        kind="holomorphic",
    ),
    row(
        "spherical_kn",
        "spherical_kn(x0, x1)",
        (None, "x0 / x1 * y - spherical_kn(x0 + 1, x1)"),
        (ORDER, POSITIVE),
        "scipy.special._ufuncs._spherical_kn",
        kind="holomorphic",
    ),
    row("ber", "ber(x0)", ("berp(x0)",), POSITIVE, "scipy.special.ber"),
    row("bei", "bei(x0)", ("beip(x0)",), POSITIVE, "scipy.special.bei"),
    row("ker", "ker(x0)", ("kerp(x0)",), POSITIVE, "scipy.special.ker"),
    row("kei", "kei(x0)", ("keip(x0)",), POSITIVE, "scipy.special.kei"),
    row("berp", "berp(x0)", ("-bei(x0) - y / x0",), POSITIVE, "scipy.special.berp", at={(0,): (0,)}),
    row("beip", "beip(x0)", ("ber(x0) - y / x0",), POSITIVE, "scipy.special.beip", at={(0,): (0.5,)}),
    row("kerp", "kerp(x0)", ("-kei(x0) - y / x0",), POSITIVE, "scipy.special.kerp"),
    row("keip", "keip(x0)", ("ker(x0) - y / x0",), POSITIVE, "scipy.special.keip"),
)

# An amplitude is a number of half turns, each of which adds two complete integrals, and a rest.
TURNS = "rint(x0 / pi)"
TURN = f"sin(x0 - pi * {TURNS})"
ANGLES = "cos(x0) ** 2, 1, 1 - x1 * sin(x0) ** 2"
OTHER = "cos(x0) ** 2, 1 - x1 * sin(x0) ** 2, 1"

INTEGRALS = (
    row("exp1", "exp1(x0)", ("-exp(-x0) / x0",), POSITIVE, "scipy.special.exp1", kind="holomorphic"),
    row("expi", "expi(x0)", ("exp(x0) / x0",), NONZERO, "scipy.special.expi", kind="holomorphic"),
    row(
        "expn",
        "expn(x0, x1)",
        (None, "-expn(x0 - 1, x1) if x0 > 0 else -y * (1 + 1 / x1)"),
        (ORDER, POSITIVE),
        "scipy.special.expn",
    ),
    # spence(z) is the integral of log(t) / (1 - t) from 1 to z.
    row(
        "spence",
        "spence(x0)",
        ("log(x0) / (1 - x0)",),
        POSITIVE,
        "scipy.special.spence",
        at={(1,): (-1, 0.5)},
        kind="holomorphic",
    ),
    row("wrightomega", "wrightomega(x0)", ("y / (1 + y)",), REAL, "scipy.special.wrightomega", kind="holomorphic"),
    row("itstruve0", "itstruve0(x0)", ("struve(0, x0)",), POSITIVE, "scipy.special.itstruve0"),
    row("it2struve0", "it2struve0(x0)", ("-struve(0, x0) / x0",), POSITIVE, "scipy.special.it2struve0"),
    row("itmodstruve0", "itmodstruve0(x0)", ("modstruve(0, x0)",), POSITIVE, "scipy.special.itmodstruve0"),
    # By Carlson's form RD: the textbook quotients of E and K cancel at m = 0.
    row("ellipk", "ellipk(x0)", ("elliprd(0, 1, 1 - x0) / 6",), BELOW_ONE, "scipy.special.ellipk"),
    row("ellipkm1", "ellipkm1(x0)", ("-elliprd(0, 1, x0) / 6",), POSITIVE, "scipy.special.ellipkm1"),
    row("ellipe", "ellipe(x0)", ("-elliprd(0, 1 - x0, 1) / 6",), BELOW_ONE, "scipy.special.ellipe"),
    row(
        "ellipkinc",
        "ellipkinc(x0, x1)",
        (
            "1 / sqrt(1 - x1 * sin(x0) ** 2)",
            f"({TURN} ** 3 * elliprd({ANGLES}) / 2 + {TURNS} * elliprd(0, 1, 1 - x1)) / 3",
        ),
        (ANGLE, Interval(-4.0, 1.0, draw=(-2.0, 0.9))),
        "scipy.special.ellipkinc",
    ),
    row(
        "ellipeinc",
        "ellipeinc(x0, x1)",
        ("sqrt(1 - x1 * sin(x0) ** 2)", f"-({TURN} ** 3 * elliprd({OTHER}) / 2 + {TURNS} * elliprd(0, 1 - x1, 1)) / 3"),
        (ANGLE, Interval(-4.0, 1.0, draw=(-2.0, 0.9))),
        "scipy.special.ellipeinc",
    ),
    row(
        "elliprc",
        "elliprc(x0, x1)",
        ("-elliprd(x1, x1, x0) / 6", "-elliprd(x0, x1, x1) / 3"),
        POSITIVE,
        "scipy.special.elliprc",
    ),
    # The arithmetic-geometric mean of a and b is pi / (2 RF(0, a², b²)).
    row(
        "agm",
        "agm(x0, x1)",
        (
            "2 / (3 * pi) * x0 * y * y * elliprd(0, x1 * x1, x0 * x0)",
            "2 / (3 * pi) * x1 * y * y * elliprd(0, x0 * x0, x1 * x1)",
        ),
        POSITIVE,
        "scipy.special.agm",
    ),
    row("elliprd", "elliprd(x0, x1, x2)", (None, None, None), POSITIVE, "scipy.special.elliprd"),
    row(
        "elliprf",
        "elliprf(x0, x1, x2)",
        ("-elliprd(x1, x2, x0) / 6", "-elliprd(x0, x2, x1) / 6", "-elliprd(x0, x1, x2) / 6"),
        POSITIVE,
        "scipy.special.elliprf",
    ),
)

HYPERGEOMETRIC = (
    row("hyp0f1", "hyp0f1(x0, x1)", (None, "hyp0f1(x0 + 1, x1) / x0"), (SHAPE, REAL), "scipy.special.hyp0f1"),
    row(
        "hyp1f1",
        "hyp1f1(x0, x1, x2)",
        (None, None, "x0 / x1 * hyp1f1(x0 + 1, x1 + 1, x2)"),
        (SHAPE, SHAPE, REAL),
        "scipy.special.hyp1f1",
    ),
    row(
        "hyp2f1",
        "hyp2f1(x0, x1, x2, x3)",
        (None, None, None, "x0 * x1 / x2 * hyp2f1(x0 + 1, x1 + 1, x2 + 1, x3)"),
        (SHAPE, SHAPE, SHAPE, Interval(-1.0, 1.0)),
        "scipy.special.hyp2f1",
    ),
    row(
        "hyperu",
        "hyperu(x0, x1, x2)",
        (None, None, "-x0 * hyperu(x0 + 1, x1 + 1, x2)"),
        (SHAPE, SHAPE, POSITIVE),
        "scipy.special.hyperu",
    ),
)

BESSEL: tuple[Elementwise, ...] = BESSEL_ROWS + INTEGRALS + HYPERGEOMETRIC
