"""Reverse mode: a tape of what a function does to numbers and arrays, and the sweep that takes cotangents back."""

from ndual.reverse._tape import Tape
from ndual.reverse.apply import RULES, TRANSPOSES

__all__ = ["RULES", "TRANSPOSES", "Tape", "tape"]


def tape() -> Tape:
    """A fresh tape for one run of a function."""
    return Tape(RULES, TRANSPOSES)
