"""Every row of the table of elementwise rules, value and four lanes at a thousand elements, beside the plain call.

The rows are read from the table itself: a row that cannot be timed stops the whole file, so none goes without.
"""

import random

import numpy as np
import scipy.special

import ndual
from ndual import _core
from ndual.rules.elementwise import TABLE
from ndual.rules.registry import lookup

SIZE, LANES = 1000, 4


def public(row):
    """The owner and the name of a function that the row serves, and whether it takes arrays (math's do not)."""
    assert scipy.special  # looked up by name below
    for root in ("numpy", "scipy", "math"):
        for dotted in row.serves:
            if dotted.startswith(root) and lookup(dotted) is not None:
                owner, _, name = dotted.rpartition(".")
                return lookup(owner) if "." in owner else __import__(owner), name, root != "math"
    return None


missing = [name for name, row in TABLE.items() if public(row) is None]
if missing:
    raise RuntimeError(f"rows of the table without a benchmark: {', '.join(missing)}")


class Row:
    """One call of the function that the row serves, at samples of the row's own domain."""

    params = tuple(TABLE)
    param_names = ("row",)

    def setup(self, row):
        row = TABLE[row]
        owner, name, arrays = public(row)
        rng = random.Random(row.name)
        x = [np.array(domain.sample(rng, SIZE if arrays else 1)) for domain in row.domain]
        x = [v.astype(int) if domain.integer else v for v, domain in zip(x, row.domain, strict=True)]
        x = x if arrays else [v[0] for v in x]
        active = {i for i, partial in enumerate(row.partials) if partial is not None}

        rule = row.name

        def along(p):
            """Four directions that reach every active operand, so that one pass carries four lanes."""
            operands = (v + p[i % LANES] if i in active else v for i, v in enumerate(x))
            # math's functions take no duals; the others are looked up at the call, as user code does.
            return getattr(owner, name)(*operands) if arrays else _core.apply_row(rule, *operands)

        def plain(p):
            return getattr(owner, name)(*x)

        self.plain = plain
        self.jacobian = ndual.prepare_jacobian(along, np.zeros(LANES)) if active else plain
        self.p = np.zeros(LANES)

    def time_jacobian(self, row):
        self.jacobian(self.p)

    def time_plain(self, row):
        self.plain(self.p)
