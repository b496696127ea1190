"""Second derivatives of every row by nested calls, against the second-order expressions of the table.

Those are checked against mpmath elsewhere; here nothing of them is used, so that levels and formulas are held together.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import ndual
from ndual import _core
from ndual.rules.elementwise import TABLE
from ndual.rules.language import to_numpy

PAIRS = [
    (name, i, j)
    for name, row in TABLE.items()
    for i in range(row.nin)
    for j in range(i, row.nin)
    if row.partials[i] is not None and row.partials[j] is not None and not row.serves[0].startswith("math.")
]

# Pairs of operands without a second derivative: a partial is written with a function that has none by that operand.
_FIRST_ONLY = """
agm:00,01,11 beta_ppf:11,12,22 betainc:00,01,02,11,12 betaincc:00,01,02,11,12 betainccinv:00,01,02,11,12
betaincinv:00,01,02,11,12 chdtr:00,01 chdtrc:00,01 chdtri:00,01 ellipe:00 ellipeinc:11 ellipk:00 ellipkinc:11
ellipkm1:00 elliprc:00,01,11 elliprf:00,01,02,11,12,22 fdtr:00,01,02,11,12 fdtrc:00,01,02,11,12 fdtri:00,01,02,11,12
gammainc:00,01 gammaincc:00,01 gammainccinv:00,01 gammaincinv:00,01 gdtr:11,12 gdtrc:11,12 iv:00,01 ive:00,01 jv:00,01
jve:00,01 kolmogi:00 kolmogorov:00 kv:00,01 kve:00,01 nbinom_cdf:11,12 nbinom_sf:11,12 smirnov:11 smirnovi:11
stdtr:00,01 stdtrit:00,01 yv:00,01 yve:00,01
"""
FIRST_ONLY = {
    (name, int(pair[0]), int(pair[1]))
    for name, pairs in (entry.split(":") for entry in _FIRST_ONLY.split())
    for pair in pairs.split(",")
}


@pytest.mark.parametrize(("name", "i", "j"), PAIRS, ids=lambda v: str(v))
def test_second_derivative(name, i, j):
    row = TABLE[name]
    draw = random.Random(name)
    x = [np.array(domain.sample(draw, 5), int if domain.integer else float) for domain in row.domain]
    ones = np.ones(5)

    def first(z):
        def inner(w):
            operands = list(x)
            operands[j] = z
            operands[i] = w
            return _core.apply_row(name, *operands)

        return ndual.jvp(inner, (z if i == j else x[i],), (ones,))[1]

    if (name, i, j) in FIRST_ONLY:
        with pytest.raises(ndual.NoRuleError, match="no second derivative"):
            ndual.jvp(first, (x[j],), (ones,))
        return
    found = ndual.jvp(first, (x[j],), (ones,))[1]
    with np.errstate(all="ignore"):
        expression = row.second_expr(i, j)
        y = _core.HOST._value_function(row, None)(*x)
        expected = np.broadcast_to(to_numpy(expression, _core.HOST.function)(tuple(x), y), (5,))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * max(1.0, float(np.max(np.abs(expected)))))
