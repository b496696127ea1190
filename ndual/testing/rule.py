"""check_rule: the one entry point, for rows of the table and for every other kind of rule."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.rules import registry
from ndual.rules.elementwise import TABLE
from ndual.rules.registry import Rule
from ndual.rules.row import Elementwise
from ndual.testing import row_cases, writes
from ndual.testing.call import CallCheck
from ndual.testing.inputs import WIDTHS
from ndual.testing.row import RowCheck

DTYPES = "edfDF"


def check_rule(
    rule: Any, *args: Any, dtypes: str = DTYPES, widths: tuple[int, ...] = WIDTHS,
    reference: Callable[..., Any] | None = None, rtol: float = 1e-7, seed: int = 0, **kwargs: Any,
) -> None:  # fmt: skip
    """Check one rule fully; an AssertionError says what does not hold, and in which case.

    Values and dtypes are compared with the plain call, derivatives with differences (or `reference`), in every width,
    dtype and memory layout, for every choice of active operands, with ``out=`` and ``where=``, and memory with NumPy's:
    a result is a view of an operand exactly if NumPy's is, lanes included, and the caller's arrays never change. In
    reverse the same call is held against the formulas or against forward mode: dtypes, layouts, broadcast operands,
    singular points, operands used twice or overwritten afterwards, and second derivatives by both modes over either.

    Parameters
    ----------
    rule : str, callable, row or rule
        The name of a row of the table, a public function or its dotted name, or a row or rule object.
    *args : array_like
        Example arguments of the function; rows of the table bring their own.
    dtypes : str
        The type characters to try, as far as the function takes them.
    widths : tuple of int
        The numbers of lanes to try.
    reference : callable, optional
        For a row: the function in mpmath. The default are extrapolated differences.
    rtol : float
        For other rules: the relative error allowed against differences in double precision.
    seed : int
        Of the random points and lanes.
    **kwargs : any
        Keyword arguments of the function.

    Raises
    ------
    AssertionError
        Something does not hold.
    ArgumentValueError
        There is no such row or function, or a function comes without example arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from ndual.testing import check_rule
    >>> check_rule("tanh", widths=(1, 4))
    >>> check_rule(np.linalg.solve, np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]), widths=(1, 4))
    """
    row = _row_of(rule) if not args else None
    if row is not None:
        row_cases.run(RowCheck(row, reference, seed), dtypes, widths)
        return
    function, found = _rule_of(rule)
    if not args:
        raise ArgumentValueError(
            "check_rule expects example arguments for a rule that is no row of the table; got none"
        )
    writing = writes.rule_of(function)
    if writing is not None:
        said = writes.not_added(writing, args, kwargs, np.random.default_rng(seed))
        if said is not None:
            raise AssertionError(f"rule {writing.name!r}: {said}")
        function = writes.returning(function, writing.overwritten)
    CallCheck(function, found, args, kwargs, rtol, seed).run(dtypes, widths)


def _row_of(rule: Any) -> Elementwise | None:
    if isinstance(rule, Elementwise):
        return rule
    if isinstance(rule, str):
        found = TABLE.get(rule)
        return found if found is not None else _serving(rule)
    if isinstance(rule, np.ufunc):
        return next((row for row in TABLE.values() if any(registry.lookup(s) is rule for s in row.serves)), None)
    return None


def _serving(dotted: str) -> Elementwise | None:
    return next((row for row in TABLE.values() if dotted in row.serves), None)


def _rule_of(rule: Any) -> tuple[Any, Rule | None]:
    if isinstance(rule, Rule):
        return _import(rule.serves[0]), rule
    if isinstance(rule, str):
        function = _import(rule)
        return function, registry.RULES.get(rule)
    if not callable(rule):
        raise ArgumentTypeError(f"check_rule expects a row, a rule, a function or its name; got {type(rule).__name__}")
    return rule, next((r for name, r in registry.RULES.items() if registry.lookup(name) is rule), None)


def _import(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    if not module:
        raise ArgumentValueError(
            f"expected the name of a row or a dotted name such as numpy.linalg.solve; got {dotted!r}"
        )
    return getattr(importlib.import_module(module), name)
