"""Copies of what holds duals, with constants in their place, for what runs when the function has ended."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend._gate import is_library
from ndual.frontend.sparse_matrix import Sparse, is_plain


def detached(obj: Any, known: dict[int, Any]) -> Any:
    """A copy in which all duals are constants, and which nothing that is written later changes."""
    if id(obj) in known:
        return known[id(obj)][0]
    if type(obj) is Sparse:
        found: Any = obj._form.filled(_core.bottom(obj.data).copy())
    elif _core.is_dual(obj):
        found = np.array(_core.bottom(obj))
    elif isinstance(obj, np.ndarray) or is_plain(obj):
        found = obj.copy()
    elif type(obj) in (list, tuple, set):
        found = type(obj)(detached(part, known) for part in obj)
    elif type(obj) is dict:
        found = {key: detached(part, known) for key, part in obj.items()}
    elif type(obj) is types.FunctionType:
        found = _function(obj, known)
    elif type(obj) is types.MethodType:
        found = getattr(detached(obj.__self__, known), obj.__name__)
    elif type(obj) is functools.partial:
        given = detached(obj.args, known), detached(obj.keywords, known)
        found = functools.partial(detached(obj.func, known), *given[0], **given[1])
    elif hasattr(type(obj), "as_constant"):
        found = obj.as_constant()
    elif _is_object(obj):
        found = copy.copy(obj)
        known[id(obj)] = found, obj  # which may refer to itself
        vars(found).update(detached(vars(obj), known))
    else:
        return obj
    known[id(obj)] = found, obj
    return found


def _is_object(obj: Any) -> bool:
    """Whether something has attributes that its operator may read: the user's objects, and SciPy's operators."""
    if not hasattr(obj, "__dict__") or isinstance(obj, type | types.ModuleType | BaseException):
        return False
    return hasattr(obj, "matvec") or not is_library(type(obj).__module__)


def _function(function: types.FunctionType, known: dict[int, Any]) -> Any:
    if is_library(function.__module__ or "") or not (function.__closure__ or function.__defaults__):
        return function
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    found = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, detached(function.__defaults__, known), cells
    )
    found.__kwdefaults__ = detached(function.__kwdefaults__, known)
    known[id(function)] = found, function  # which may call itself
    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = detached(original.cell_contents, known)
        except ValueError:  # nothing in it yet
            continue
    return found
