"""Checks for rules and for gradients, to be called from test suites."""

from ndual.testing.gradient import check_gradient
from ndual.testing.rule import check_rule

__all__ = ["check_gradient", "check_rule"]
