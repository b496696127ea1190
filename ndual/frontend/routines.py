"""BLAS and LAPACK called directly: which operands a routine writes into, and what to say where there is no rule.

SciPy's wrappers write into an operand where it has the routine's type and Fortran's order, and its flag says so, and
copy it otherwise. Memory marked as read-only is no obstacle to them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual.errors import NoRuleError
from ndual.rules import registry
from ndual.rules.blas_terms import STORED, TYPES

MODULES = ("scipy.linalg.blas", "scipy.linalg.lapack")
GETTERS = (
    "scipy.linalg.get_blas_funcs", "scipy.linalg.blas.get_blas_funcs",
    "scipy.linalg.get_lapack_funcs", "scipy.linalg.lapack.get_lapack_funcs",
)  # fmt: skip
_names: dict[int, str] = {}

_BANDED = "take a dense matrix and gemv, symv, trsv or gemm, or scipy.linalg.solve_banded and solveh_banded"
_PACKED = "take a full matrix and the routine for it (symv, syr, trsv, potrf …)"
_KINDS = dict.fromkeys(["gb", "sb", "hb", "tb", "pb", "gt", "pt"], _BANDED)
_KINDS |= dict.fromkeys(["sp", "hp", "tp", "pp", "pf", "tf", "sf", "hf"], _PACKED)
_OTHERWISE = "take the functions of numpy.linalg and scipy.linalg (solve, qr, eigh, svd, lstsq …), which have rules"


def routines() -> Iterator[tuple[str, Any]]:
    """All routines of the modules that are loaded, with their dotted names."""
    for path in MODULES:
        for name, value in list(vars(registry.lookup(path) or types.SimpleNamespace()).items()):
            if name[0] in "sdczi" and callable(value) and not isinstance(value, type | types.FunctionType):
                _names[id(value)] = f"{path}.{name}"
                yield f"{path}.{name}", value


def is_routine(function: Any) -> bool:
    """Whether a function is one of them, or finds them: then what it is given may be written to."""
    return id(function) in _names or getattr(function, "__name__", "") in ("get_blas_funcs", "get_lapack_funcs")


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a routine on anything."""
    active = _core.activity(args, kwargs)
    if not active:
        return _core.call_plain(function, args, kwargs, False)
    name = _names[id(function)]
    rule = registry.RULES.get(name)
    if active == 1:
        for array in (*args, *kwargs.values()):
            if _core.is_dual(array) and array.ndim and _may_write(name, rule, args, kwargs):
                _core.own_memory(array)
        return _core.call_plain(function, args, kwargs, True)
    if rule is None:
        raise NoRuleError(
            f"expected a routine that ndual can differentiate; got {name}, which has no derivative rule"
            f"{_core.user_location()}. Instead, {_KINDS.get(name.rpartition('.')[2][1:3], _OTHERWISE)}; "
            "or pass ndual.stop_gradient(x) if no derivative is meant"
        )
    result = forward.apply(rule, function, args, kwargs)
    return _stored(rule, name, args, kwargs, result) if _may_write(name, rule, args, kwargs) else result


def _may_write(name: str, rule: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a routine may have been told to write into an operand; a flag by position comes after all operands."""
    if rule is None:
        return True
    places = STORED.get(name, ())
    return any(flag is None or kwargs.get(flag) for _, _, flag in places) or (
        bool(places) and len(args) > len(rule.arrays)
    )


def _stored(rule: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """The results, of which those that the routine writes into an operand are that operand."""
    arrays, params = rule.bind(args, kwargs)
    results = list(result) if isinstance(result, tuple) else [result]
    for number, operand, flag in STORED[name]:
        target = arrays[operand]
        if (flag is None or params[flag]) and in_place(name, target):
            _core.assign_to(target, ..., results[number])
            results[number] = target
    return tuple(results) if isinstance(result, tuple) else results[0]


def in_place(name: str, array: Any) -> bool:
    """Whether a routine takes an array as it is, and not a copy of it."""
    return (
        hasattr(array, "flags")
        and array.dtype.char == TYPES[name.rpartition(".")[2][0]]
        and bool(array.flags.f_contiguous)
        and array.ndim > 0
    )


def qr(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """scipy.linalg.qr; its raw form, a tuple in a tuple, is what LAPACK's routine returns."""
    rule = registry.RULES["scipy.linalg.qr"]
    arrays, given = rule.bind(args, kwargs)  # type: ignore[attr-defined]
    if given["mode"] != "raw":
        return forward.apply(rule, function, args, kwargs)
    (a,) = arrays
    letter = {"f": "s", "F": "c", "D": "z"}.get(a.dtype.char, "d")
    name = f"scipy.linalg.lapack.{letter}{'geqp3' if given['pivoting'] else 'geqrf'}"
    routine = registry.lookup(name)
    size = routine(_core.bottom(a), lwork=-1)[-2][0]
    packed, *rest, _work, _info = forward.apply(registry.RULES[name], routine, (a,), {"lwork": int(size.real)})
    tau = rest.pop()
    return (packed, tau), np.triu(packed[: min(a.shape)]), *(pivots - 1 for pivots in rest)


FUNCTIONS = {"scipy.linalg.qr": qr}


def getter(gate_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """A stand-in for get_blas_funcs and get_lapack_funcs, which find the routines for the types of arrays."""

    def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = function(*_core.constants(args, True), **_core.constants(kwargs, True))
        if isinstance(found, list | tuple):
            return [gate_of(one) or one for one in found]
        return gate_of(found) or found

    return call
