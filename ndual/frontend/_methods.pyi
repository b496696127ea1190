"""Types of the stand-in for ``numpy.ndarray.dot``."""

from collections.abc import Callable
from typing import Any

__test__: dict[str, str]

def install(rule: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> bool: ...
