"""NumPy's linear algebra with its options, in both modes, at second order, in all dtypes."""

from __future__ import annotations

import linalg_cases as cases
import numpy as np
import pytest
import scipy.linalg as sl

import ndual
from ndual.frontend.dispatch import dispatch
from ndual.testing.inputs import leaves

la = np.linalg


@pytest.mark.parametrize(("f", "args", "options"), list(cases.parameters(cases.of_numpy)))
def test_both_modes(f, args, options):
    cases.check(f, args, options)


A = np.array([[4.0, 1.0], [2.0, 5.0]])
REFUSED = [
    (la.qr, (A,), {"mode": "raw"}),
    (sl.qr, (A,), {"mode": "raw"}),
    (sl.inv, (np.diag([1.0, 2.0]),), {"assume_a": "diagonal"}),
    (sl.eig, (A,), {"left": True}),
    (sl.eig, (A.T @ A,), {"homogeneous_eigvals": True}),
    (sl.eigh, (A @ A.T, A @ A.T + 1), {"type": 2}),
    (sl.eigh, (A @ A.T,), {"subset_by_index": (0, 0)}),
    (sl.rq, (A,), {}),
    (sl.ldl, (A @ A.T,), {}),
    (sl.cholesky_banded, (np.array([[0.0, 1.0], [4.0, 5.0]]),), {}),
    (sl.solve_circulant, (np.array([4.0, 1.0]), np.array([1.0, 2.0])), {}),
]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("f", "args", "options"), REFUSED, ids=lambda v: getattr(v, "__name__", None))
def test_what_has_no_derivative_says_so(f, args, options, mode):
    def total(a):
        found = leaves(dispatch(f, (a, *args[1:]), options))
        return sum(np.sum(np.real(part)) for part in found)

    with pytest.raises(ndual.NoRuleError):
        ndual.grad(total, mode=mode)(args[0])
