"""Functions that only the array API has: compositions of NumPy's own.

The namespace of duals is asked for them by code that is written for any array library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ndual.rules.registry import composition


class UniqueAll(NamedTuple):
    """What ``unique_all`` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` returns."""

    values: Any
    inverse_indices: Any


@composition("numpy.astype")
def astype(xp: Any, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The method."""
    return x.astype(dtype, copy=copy)


@composition("numpy.unique_values")
def unique_values(xp: Any, x: Any) -> Any:
    """The values alone, each NaN by itself, in the order in which NumPy finds them."""
    return xp.unique(x, equal_nan=False, sorted=False)


@composition("numpy.unique_counts")
def unique_counts(xp: Any, x: Any) -> UniqueCounts:
    """The values, and how often each occurs."""
    return UniqueCounts(*xp.unique(x, return_counts=True, equal_nan=False))


@composition("numpy.unique_inverse")
def unique_inverse(xp: Any, x: Any) -> UniqueInverse:
    """The values, and the place of each cell among them."""
    values, inverse = xp.unique(x, return_inverse=True, equal_nan=False)
    return UniqueInverse(values, inverse.reshape(x.shape))


@composition("numpy.unique_all")
def unique_all(xp: Any, x: Any) -> UniqueAll:
    """The values with everything that is known about them."""
    keywords = {"return_index": True, "return_inverse": True, "return_counts": True}
    values, indices, inverse, counts = xp.unique(x, **keywords, equal_nan=False)
    return UniqueAll(values, indices, inverse.reshape(x.shape), counts)
