"""The rules inside of a derivative of a derivative, two lanes on either side, against differences of first order."""

from __future__ import annotations

import numpy as np
import pytest
from test_through_ndual import CASES

import ndual

STEP = 1e-3
# np.select compares types by identity with np.bool, for which interception has a stand-in.
CASES = [case for case in CASES if not case[0].startswith("select")]


def flat(out):
    """All float outputs of a function in one row."""
    parts = list(out) if isinstance(out, tuple | list) else [out]
    return np.concatenate([np.ravel(part) for part in parts if getattr(part, "dtype", np.dtype(float)).kind == "f"])


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_second_order(case):
    _, f, *args = case
    rng = np.random.default_rng(5)
    directions = [[rng.uniform(-1, 1, np.shape(a)) for a in args] for _ in range(2)]

    def along(t):
        u, v = directions
        return flat(f(*[a + t[0] * du + t[1] * dv for a, du, dv in zip(args, u, v, strict=True)]))

    first = ndual.jacobian(along)
    zero = np.zeros(2)
    found = ndual.jacobian(first)(zero)
    for k in range(2):
        e = np.eye(2)[k]
        near = (first(STEP * e) - first(-STEP * e)) / (2 * STEP)
        far = (first(2 * STEP * e) - first(-2 * STEP * e)) / (4 * STEP)
        expected = (4 * near - far) / 3
        scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
        np.testing.assert_allclose(found[..., k], expected, rtol=2e-6, atol=2e-7 * scale)
    np.testing.assert_allclose(found[:, 0, 1], found[:, 1, 0], rtol=1e-8, atol=1e-9)
