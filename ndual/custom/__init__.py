"""Derivatives that users define: rules of their own, run-time rows, and those of other engines."""

from ndual.custom.define import defrule, nondiff
from ndual.custom.engines import differentiate_with, using
from ndual.custom.rows import elementwise
from ndual.custom.rules import custom_rule

__all__ = ["custom_rule", "defrule", "differentiate_with", "elementwise", "nondiff", "using"]
