"""The switches of ndual, one set for each thread.

Only the values live here; whoever obeys a switch reads it from :data:`settings`, and the core is told of its own.
"""

from __future__ import annotations

import threading
from typing import Any

from ndual import _core
from ndual._core._dual import set_interception
from ndual.errors import ArgumentTypeError, ArgumentValueError


class Settings(threading.local):
    """What holds in this thread; a fresh thread starts from the defaults."""

    exact: bool = False
    debug: bool = False
    intercept: bool = True
    copy_constants: bool = False
    pool_limit: int | None = None


settings = Settings()
KEYS = ("exact", "debug", "intercept", "copy_constants", "pool_limit")
_DEFAULT_LIMIT = _core.pool_info()["limit"]


def _check(key: str, value: Any) -> None:
    if key not in KEYS:
        raise ArgumentTypeError(f"config expects one of the keys {', '.join(KEYS)}; got {key}")
    if key == "pool_limit":
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentTypeError(f"config(pool_limit=) expects a number of bytes or None; got {value!r}")
        if value < 0:
            raise ArgumentValueError(f"config(pool_limit=) expects at least 0 bytes; got {value}")
    elif not isinstance(value, bool):
        raise ArgumentTypeError(f"config({key}=) expects True or False; got {value!r}")


def _apply(values: dict[str, Any]) -> None:
    for key, value in values.items():
        setattr(settings, key, value)
        if key in ("exact", "debug", "copy_constants"):
            _core.set_flags(**{key: value})
        elif key == "intercept":
            set_interception(value)
        elif key == "pool_limit":
            _core.set_pool_limit(_DEFAULT_LIMIT if value is None else value)


class config:  # noqa: N801 (reads as a function where it is used)
    """Change switches inside a ``with`` block, for this thread only.

    Parameters
    ----------
    exact : bool
        Values equal to NumPy's to the bit, slower: of functions such as the sine, whose derivative comes with them, and
        of sums and products that are otherwise rounded in another order.
    debug : bool
        Check every rule's types, shapes and aliasing, and name the first operation that makes a NaN.
    intercept : bool
        Follow calls that NumPy's protocols do not hand over (SciPy's Python functions) while a derivative is taken.
    copy_constants : bool
        Copy every constant array that reverse mode must remember, instead of making the larger ones (above 32 KiB)
        read-only until its sweep has ended.
    pool_limit : int or None
        The most bytes of freed memory to keep for reuse; None keeps the default.

    Raises
    ------
    ArgumentTypeError
        There is no such switch, or its value is of another type.
    ArgumentValueError
        `pool_limit` is negative.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> with ndual.config(exact=True):
    ...     value, slope = ndual.jvp(np.sin, (0.5,), (1.0,))
    >>> bool(value == np.sin(0.5))
    True
    """

    def __init__(self, **switches: Any) -> None:
        for key, value in switches.items():
            _check(key, value)
        self._switches = switches
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> config:
        self._before.append({key: getattr(settings, key) for key in self._switches})
        _apply(self._switches)
        return self

    def __exit__(self, *unused: object) -> None:
        _apply(self._before.pop())

    def __repr__(self) -> str:
        return f"config({', '.join(f'{k}={v!r}' for k, v in self._switches.items())})"
