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

WITHOUT = {"ellipk", "ellipkm1", "ellipe", "elliprf"}  # their derivatives are written with elliprd


@pytest.mark.parametrize(("name", "i", "j"), PAIRS, ids=lambda v: str(v))
def test_second_derivative(name, i, j):
    row = TABLE[name]
    draw = random.Random(name)
    x = [np.array(domain.sample(draw, 5), int if domain.integer else float) for domain in row.domain]
    ones = np.ones(5)

    if name in WITHOUT:
        with pytest.raises(ndual.NoRuleError, match="no second derivative"):
            ndual.grad(ndual.grad(lambda t: _core.apply_row(name, *[t if k == i else v[0] for k, v in enumerate(x)])))(
                float(x[i][0])
            )
        return

    def first(z):
        def inner(w):
            operands = list(x)
            operands[j] = z
            operands[i] = w
            return _core.apply_row(name, *operands)

        return ndual.jvp(inner, (z if i == j else x[i],), (ones,))[1]

    found = ndual.jvp(first, (x[j],), (ones,))[1]
    with np.errstate(all="ignore"):
        expression = row.second_expr(i, j)
        y = _core.HOST._value_function(row, None)(*x)
        expected = np.broadcast_to(to_numpy(expression, _core.HOST.function)(tuple(x), y), (5,))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * max(1.0, float(np.max(np.abs(expected)))))
