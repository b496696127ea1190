"""SciPy's factorisations, solvers and functions of matrices with their options, checked as NumPy's are."""

from __future__ import annotations

import linalg_cases as cases
import pytest

GROUPS = (
    cases.factors_of_scipy,
    cases.stacks_of_scipy,
    cases.solvers_of_scipy,
    cases.functions_of_scipy,
    cases.riccati_equations,
)


@pytest.mark.parametrize(("f", "args", "options"), list(cases.parameters(*GROUPS)))
def test_both_modes(f, args, options):
    cases.check(f, args, options)
