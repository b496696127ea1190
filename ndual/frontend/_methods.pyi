"""Types of the stand-ins for ``numpy.ndarray.dot`` and for ``shuffle``."""

from collections.abc import Callable
from typing import Any

__test__: dict[str, str]

def install(rule: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> bool: ...
def reorder(shuffle: Callable[..., None], generator: Any, x: Any, axis: int = ...) -> None: ...
def open_superlu(kind: type, dual: type, body: Callable[..., Any]) -> None: ...
