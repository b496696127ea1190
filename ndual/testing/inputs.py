"""Arrays in every layout that users have, and arrays of lanes beside them. No derivative is computed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

WIDTHS = (*range(1, 13), 17, 33)


def layouts(value: Any) -> Iterator[tuple[str, Any]]:
    """The same numbers as a C, F, strided, backwards, offset and read-only array.

    Examples
    --------
    >>> import numpy as np
    >>> all((a == np.arange(6.0).reshape(2, 3)).all() for _, a in layouts(np.arange(6.0).reshape(2, 3)))
    True
    """
    value = np.asarray(value)
    yield "C-contiguous", value.copy()
    if value.ndim == 0:
        return
    yield "F-contiguous", np.asfortranarray(value)
    wide = np.zeros(tuple(2 * n + 1 for n in value.shape), value.dtype)
    every_other = wide[tuple(slice(1, 2 * n + 1, 2) for n in value.shape)]
    every_other[...] = value
    yield "strided", every_other
    back = (slice(None, None, -1),) * value.ndim
    yield "negative strides", np.ascontiguousarray(value[back])[back]
    if value.ndim > 1:
        mixed = (slice(None, None, -1), *(slice(None),) * (value.ndim - 1))
        yield "transposed and reversed", np.asfortranarray(value[mixed])[mixed]
    locked = value.copy()
    locked.flags.writeable = False
    yield "read-only", locked


def random_lanes(rng: np.random.Generator, value: Any, width: int) -> Any:
    """Lanes of moderate size, one of them zero where there are more than two.

    Examples
    --------
    >>> import numpy as np
    >>> random_lanes(np.random.default_rng(0), np.ones((2, 3), np.float32), 4).shape
    (4, 2, 3)
    """
    value = np.asarray(value)
    t = rng.uniform(-2.0, 2.0, (width, *value.shape))
    if value.dtype.kind == "c":
        t = t + 1j * rng.uniform(-2.0, 2.0, t.shape)
    if width > 2:
        t[1] = 0
    return t.astype(value.dtype)


def is_float(obj: Any) -> bool:
    """Whether an argument can carry a derivative.

    Examples
    --------
    >>> import numpy as np
    >>> is_float(1.0), is_float(np.arange(3)), is_float("x")
    (True, False, False)
    """
    if isinstance(obj, float | complex):
        return True
    return isinstance(obj, np.ndarray | np.generic) and obj.dtype.kind in "fc"


def replace_leaves(obj: Any, visit: Any) -> Any:
    """A copy of nested lists, tuples and dictionaries with each leaf replaced by ``visit(leaf)``, from left to right.

    Examples
    --------
    >>> replace_leaves([1, (2, {"a": 3})], lambda leaf: leaf * 10)
    [10, (20, {'a': 30})]
    """
    if type(obj) in (list, tuple):
        return type(obj)(replace_leaves(item, visit) for item in obj)
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(replace_leaves(item, visit) for item in obj))
    if type(obj) is dict:
        return {key: replace_leaves(item, visit) for key, item in obj.items()}
    return visit(obj)


def leaves(obj: Any) -> list[Any]:
    """The leaves of nested lists, tuples and dictionaries, from left to right.

    Examples
    --------
    >>> leaves([1, (2, {"a": 3})])
    [1, 2, 3]
    """
    found: list[Any] = []
    replace_leaves(obj, found.append)
    return found


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays share a cell.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros(4)
    >>> same_memory(x[:2], x[2:]), same_memory(x[:2], x[1:])
    (False, True)
    """
    return np.shares_memory(a, b)
