"""NumPy's namespace with the interception in it: ``import ndual.numpy as np`` instead of ``import numpy as np``.

Every public name of NumPy is here, and is NumPy's own object unless calls of it must be seen while a derivative is
taken (``zeros``, ``array``, ``float64`` …): those are the gates that interception would put in their place, so that
code which uses this module needs none. Where no derivative is taken, a gate is the function behind it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy

from ndual.frontend._gate import Gate
from ndual.frontend.intercept import room

_NAMES = "char ctypeslib dtypes exceptions fft lib linalg ma polynomial random rec strings"
DUNDERS = ("__array_api_version__", "__array_namespace_info__", "__version__")
__all__ = list(numpy.__all__)


def _resolved(name: str) -> Any:
    value = getattr(numpy, name)
    if type(value) is Gate and value.lists:  # a derivative is being taken at this moment
        return value.original
    return room.intercepted.get(id(value), value)


def __getattr__(name: str) -> Any:
    if (name.startswith("__") and name not in DUNDERS) or not hasattr(numpy, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = globals()[name] = _resolved(name)
    return value


def __dir__() -> list[str]:
    return sorted({*dir(numpy), *DUNDERS})


def _fill() -> None:
    """Take every name over that costs no import, and NumPy's public submodules as submodules of this one."""
    room.spare(globals())
    globals().update({name: _resolved(name) for name in vars(numpy) if not name.startswith("_")})
    for name in _NAMES.split():
        sys.modules[f"{__name__}.{name}"] = importlib.import_module(f"numpy.{name}")


_fill()
