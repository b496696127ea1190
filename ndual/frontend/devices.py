"""Libraries whose arrays lie on a device: their functions, and what these are called in NumPy and SciPy.

Nothing here imports such a library. Where one has been imported, its add-on registers its memory with the core and says
here which of its functions are to be handed over.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ndual import _core

Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

ADDONS = {"cupy": "ndual.gpu.calls"}
_loaded: dict[str, Any] = {}
UFUNCS: set[type] = set()  # that ask their operands who is to compute
_functions: list[tuple[str, Any, Handler, bool]] = []


def load() -> None:
    """Have the add-ons ready for the libraries that have been imported."""
    for library, addon in ADDONS.items():
        if library not in sys.modules or not hasattr(sys.modules[library], "ndarray"):
            continue
        if library not in _loaded:
            _loaded[library] = importlib.import_module(addon)
            _loaded[library].install()
        _loaded[library].update()


def offer(dotted: str, function: Any, handler: Handler, makes: bool = False) -> None:
    """Have calls of a function from user code go to a handler; `makes` marks one that makes arrays."""
    _functions.append((dotted, function, handler, makes))


def functions() -> Iterator[tuple[str, Any, Handler, bool]]:
    """Every function that was offered: its dotted name, itself, who handles it, whether it makes arrays."""
    return iter(_functions)


def plainly(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function if no argument carries a derivative; NotImplemented otherwise."""
    active = _core.activity(args, kwargs)
    return NotImplemented if active == 2 else _core.call_plain(function, args, kwargs, active == 1)
