"""Reverse mode: a tape of what a function does to numbers and arrays, and the sweep that takes cotangents back."""

from ndual.reverse._tape import Tape
from ndual.reverse.apply import tape

__all__ = ["Tape", "tape"]
