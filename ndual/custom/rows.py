"""Rows of the table made at run time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from ndual import _core
from ndual._core.program import program
from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.frontend.rows import RowFunction
from ndual.rules import language
from ndual.rules.elementwise import TABLE
from ndual.rules.row import REAL, Elementwise, Interval, Kind

_names: set[str] = set()
_made: dict[Any, RowFunction] = {}


def elementwise(
    name: str, value: str, *partials: str | None, domain: Interval | tuple[Interval, ...] = REAL,
    at: Mapping[tuple[float, ...], tuple[float, ...]] | None = None,
    second: Mapping[tuple[int, int], str] | None = None, holomorphic: bool = False,
) -> RowFunction:  # fmt: skip
    """An elementwise function as a row of the rule table, made at run time.

    Parameters
    ----------
    name : str
        What messages call it. Another row of the same name does not change the functions that there are; the same row
        again is the same function.
    value : str
        The function as an expression in the operands ``x0``, ``x1``, ``x2``: arithmetic, comparisons,
        ``a if condition else b``, numbers, ``pi``, ``e``, ``inf``, ``nan``, and the functions of the table by their
        names (exp, log1p, expit, gammaln …).
    *partials : str or None
        The derivative by each operand, which may use the output as ``y``; None for an operand that must not be active.
        Without any they are had by differentiating `value`.
    domain : Interval or tuple of Interval
        Where the operands may lie, for tests: an ``ndual.rules.row.Interval`` for all, or one for each.
    at : dict, optional
        Partials at points where the expressions say NaN: ``{(0.0,): (1.0,)}``.
    second : dict, optional
        Second derivatives by pairs of operands, where those had from the partials are inaccurate: ``{(0, 0): "-y"}``.
    holomorphic : bool
        The expressions hold for complex operands too.

    Returns
    -------
    callable
        Takes numbers and arrays, broadcast against each other, and ``out=``.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        An expression is not one, has other names in it, or there are more or fewer partials than operands.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> elu = ndual.elementwise("elu", "x0 if x0 > 0 else exp(x0) - 1", "1 if x0 > 0 else y + 1")
    >>> elu(np.array([1.0, 0.0])).tolist()
    [1.0, 0.0]
    >>> ndual.grad(lambda x: np.sum(elu(x)))(np.array([2.0, -np.log(2.0)])).round(12).tolist()
    [1.0, 0.5]
    """
    given = [("a partial as an expression", p) for p in partials if p is not None]
    for what, text in (("a name", name), ("an expression", value), *given):
        if not isinstance(text, str):
            raise ArgumentTypeError(f"elementwise expects {what} as text; got {type(text).__name__}")
    if name in TABLE:
        raise ArgumentValueError(f"elementwise expects a name that is not in the table; got {name!r}. Take another one")
    operands = {int(k) for k in re.findall(r"\bx(\d+)\b", value)}
    nin = max(operands, default=-1) + 1
    if operands != set(range(nin)) or not 1 <= nin <= 3:
        raise ArgumentValueError(
            f"elementwise expects an expression in one to three operands, x0, x1 and x2; got {value!r}"
        )
    if partials and len(partials) != nin:
        raise ArgumentValueError(
            f"elementwise expects a partial for each of the {nin} operands of {name}, or none; got {len(partials)}"
        )
    domains = (domain,) * nin if isinstance(domain, Interval) else tuple(domain)
    key = (
        name,
        value,
        partials,
        domain,
        tuple((tuple(k), tuple(v)) for k, v in (at or {}).items()),
        tuple((second or {}).items()),
        holomorphic,
    )
    if key in _made:
        return _made[key]
    kind: Kind = "holomorphic" if holomorphic else "real"
    try:
        chosen = partials or _derived(value, nin)
        row = Elementwise(_fresh(name), value, tuple(chosen), domains, (), at or {}, kind=kind, second=second or {})
        row.check()
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"elementwise expects a row that can be read; got {error}") from error
    _names.add(row.name)
    made = _made[key] = RowFunction(row, _core.add_row(row, program(row)), (remade, key))
    return made


def remade(name: str, value: str, partials: Any, domain: Any, at: Any, second: Any, holomorphic: bool) -> RowFunction:
    """What a pickled function becomes."""
    return elementwise(name, value, *partials, domain=domain, at=dict(at), second=dict(second), holomorphic=holomorphic)


def _fresh(name: str) -> str:
    """The name, with a number if there was such a row before, whose functions go on."""
    count = next(k for k in itertools.count(1) if (f"{name}#{k}" if k > 1 else name) not in _names)
    return f"{name}#{count}" if count > 1 else name


def _derived(value: str, nin: int) -> list[str | None]:
    expr = language.parse(value, nin)
    if "y" in language.names_of(expr):
        raise ValueError(f"{value!r}: the value is written in terms of itself, y")
    return [language.to_text(language.differentiate(expr, f"x{i}")) for i in range(nin)]
