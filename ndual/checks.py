"""Checks of what operators are told about a call: the function, the mode, the positions of arguments, their names."""

from __future__ import annotations

import operator
import types
from typing import Any

from ndual.errors import ArgumentTypeError, ArgumentValueError

Argnums = int | tuple[int, ...]
MODES = ("auto", "forward", "reverse")
NAMES = tuple(f"args[{i}]" for i in range(32))


def check_function(f: Any, operator: str) -> None:
    """Refuse what cannot be called."""
    if not callable(f):
        raise ArgumentTypeError(
            f"{operator} expects a function; got {type(f).__name__}. Write {operator}(f)(x), not {operator}(f(x))"
        )
    if type(getattr(f, "py_func", None)) is types.FunctionType:  # numba's dispatchers, and what looks like them
        raise ArgumentTypeError(
            f"{operator} expects a function of Python; got {f.py_func.__name__} as compiled by {type(f).__name__}, "
            f"which takes no duals. Write {operator}({f.py_func.__name__}.py_func), and call other compiled functions "
            "inside it by their py_func too; or keep it compiled, "
            f'ndual.differentiate_with({f.py_func.__name__}, "finite_differences")'
        )


def check_mode(mode: Any) -> Any:
    """The mode that will run."""
    if mode not in MODES:
        raise ArgumentValueError(f"mode expects one of {', '.join(map(repr, MODES))}; got {mode!r}")
    return mode


def check_forward(mode: Any, operator: str) -> None:
    """Refuse a mode in which no tangents can be taken."""
    if check_mode(mode) == "reverse":
        raise ArgumentValueError(
            f"{operator} expects mode='auto' or mode='forward': tangents are carried forward; got 'reverse'. "
            "Leave mode out, or use vjp for cotangents"
        )


def check_argnums(argnums: Any) -> Argnums:
    """Argnums as an int or a tuple of different ints."""
    several = isinstance(argnums, list | tuple)
    given = argnums if several else (argnums,)
    if given and not any(isinstance(i, bool) for i in given):
        try:
            found = tuple([operator.index(i) for i in given])
        except TypeError:
            pass
        else:
            return found if several else found[0]
    raise ArgumentTypeError(
        f"argnums expects an int or a tuple of ints; got {argnums!r}. What f is differentiated at goes to the function "
        "that is returned: grad(f)(x)"
    )


def places(argnums: Argnums, count: int) -> tuple[int, ...]:
    """The positions that argnums means among `count` arguments."""
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    for i in chosen:
        if not -count <= i < count:
            raise ArgumentValueError(
                f"argnums: expected positions of the {count} arguments of this call; got {i}. "
                "Pass what is differentiated by position, not by keyword"
            )
    found = tuple(i % count for i in chosen)
    if len(set(found)) < len(found):
        raise ArgumentValueError(f"argnums: expected different positions; got {argnums}")
    return found


def name_of(i: int) -> str:
    """How messages call the i-th argument."""
    return NAMES[i] if i < len(NAMES) else f"args[{i}]"
