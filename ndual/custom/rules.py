"""``custom_rule``: a derivative that the author of a function states, once for both modes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ndual import _core
from ndual.checks import check_function
from ndual.custom.call import Call, Opaque, apply, settled
from ndual.custom.split import Delegated, Split
from ndual.custom.transpose import transposed
from ndual.errors import ArgumentTypeError, ArgumentValueError

Function = Callable[..., Any]


def custom_rule(
    f: Function | None = None, *, jvp: Function | None = None, vjp: Function | None = None,
    augmented: Function | None = None, reverse: Function | None = None, overwritten: Sequence[str | int] = (),
) -> Any:  # fmt: skip
    """A function with a derivative that you state, which both modes and nested derivatives take.

    Parameters
    ----------
    f : callable, optional
        The function, of numbers, arrays and containers of them; without it the result is a decorator. It sees values
        only, so that it may call anything. What is differentiated is passed by position.
    jvp : callable, optional
        ``jvp(value, primals, tangents)`` returns the tangent of the output. `primals` and `tangents` are tuples with
        one entry for each argument, None for the tangent of a constant. Keywords of the call are handed on.
    vjp : callable, optional
        ``vjp(value, primals, cotangent)`` returns a tuple with one cotangent for each argument, None where there is
        none. One of `jvp` and `vjp` is enough: the other one is had by transposition, where the code of the one that is
        given can be differentiated itself, in what enters it linearly.
    augmented, reverse : callable, optional
        The rule of a function that writes into its arguments, or keeps something for the way back.
        ``augmented(*args)`` does what `f` does and returns ``(output, tape)``, `tape` being anything;
        ``reverse(tape, *cotangents)`` gets, after that of the output if there is one, an entry for each argument: for
        an array its cotangent, to be added to in place; None for a constant and for a number. Cotangents of numbers are
        returned, in a tuple with one entry for each argument.
    overwritten : sequence of str or int
        The names or positions of the arguments that `f` writes into. The cotangent of such an argument comes as that of
        what was written, and `reverse` leaves in it that of what was there before: zero where all was overwritten.
        Without `augmented` and `reverse`, `f` is differentiated by ndual itself, in a record of its own. A `jvp` gets
        the arguments as they were before, writes into the tangents of the overwritten ones, and returns the output's.

    Returns
    -------
    callable
        With the signature of `f`.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        Here: no rule is given, or one that does not fit together.
    RuleError
        Of a derivative: the rule returned another number, shape or dtype of results than it must.
    DerivativeLostError
        Of a derivative: `f` uses an active value that is not an argument.

    Notes
    -----
    What `augmented` puts on the tape of its arguments, themselves or views of them, alone or in tuples, lists and
    dicts, is found there as it was, whoever overwrites them later: an argument that is overwritten is copied just
    before, others are not.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> @ndual.custom_rule(vjp=lambda y, primals, w: (w * 2 * primals[0],))
    ... def norm2(x):
    ...     return float(np.sum(np.asarray(x) ** 2))
    >>> ndual.grad(lambda x: norm2(x) + norm2(x))(np.array([1.0, 2.0])).tolist()
    [4.0, 8.0]
    >>> def augmented(du, u, p):
    ...     du[:] = p * u
    ...     return None, (u, p)
    >>> def reverse(tape, ddu, du, dp):
    ...     u, p = tape
    ...     if du is not None: du += ddu * p
    ...     if dp is not None: dp += ddu * u
    ...     ddu[:] = 0
    >>> @ndual.custom_rule(augmented=augmented, reverse=reverse, overwritten=["du"])
    ... def rate(du, u, p):
    ...     du[:] = p * u
    >>> def loss(p, u):
    ...     du = np.empty_like(p)
    ...     rate(du, u, p)
    ...     u[:] = 0.0
    ...     return np.sum(du)
    >>> ndual.grad(loss, mode="reverse")(np.array([2.0, 3.0]), np.array([1.5, 2.0])).tolist()
    [1.5, 2.0]
    """
    if f is None:
        return functools.partial(
            custom_rule, jvp=jvp, vjp=vjp, augmented=augmented, reverse=reverse, overwritten=overwritten
        )
    check_function(f, "custom_rule")
    rule = made(f, "custom_rule", jvp, vjp, augmented, reverse, overwritten)
    return ruled(f, rule)


def made(
    f: Function, who: str, jvp: Function | None, vjp: Function | None, augmented: Function | None,
    reverse: Function | None, overwritten: Sequence[str | int],
) -> Opaque:  # fmt: skip
    """The rule that these parts make."""
    for name, part in (("jvp", jvp), ("vjp", vjp), ("augmented", augmented), ("reverse", reverse)):
        if part is not None and not callable(part):
            raise ArgumentTypeError(f"{who} expects a function as {name}; got {type(part).__name__}")
    if (augmented is None) != (reverse is None):
        given, missing = ("augmented", "reverse") if reverse is None else ("reverse", "augmented")
        raise ArgumentValueError(f"{who} expects augmented and reverse together; got {given} alone. Give {missing} too")
    places = positions(f, who, overwritten)
    if augmented is not None and reverse is not None:
        if vjp is not None:
            raise ArgumentValueError(f"{who} expects either vjp, or augmented and reverse; got both. Leave out vjp")
        return Split(f, augmented, reverse, places, jvp)
    if jvp is None and vjp is None:
        if places:
            return Delegated(f, places)
        raise ArgumentValueError(
            f"{who} expects jvp, vjp or both, or augmented and reverse; got none. "
            "For a function without derivative write ndual.nondiff(f)"
        )
    if places:
        raise ArgumentValueError(
            f"{who} expects augmented and reverse for a function that overwrites arguments; got "
            f"{'vjp' if jvp is None else 'jvp'}. Return new arrays, or write the rule as augmented and reverse"
        )
    return Custom(f, jvp, vjp)


def positions(f: Function, who: str, overwritten: Sequence[str | int]) -> frozenset[int]:
    """The places of arguments that are named."""
    chosen: Sequence[str | int] = (overwritten,) if isinstance(overwritten, str | int) else overwritten
    if not chosen:
        return frozenset()
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):  # a compiled function that says nothing of itself
        names = []
    found = set()
    for entry in chosen:
        if isinstance(entry, int) and entry >= 0 and (not names or entry < len(names)):
            found.add(entry)
        elif entry in names:
            found.add(names.index(str(entry)))
        else:
            raise ArgumentValueError(
                f"{who} expects overwritten= to name arguments of {name_of(f)}{names and ' (' + ', '.join(names) + ')'}"
                f"; got {entry!r}"
            )
    return frozenset(found)


def name_of(f: Any) -> str:
    """How messages call a function."""
    return getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or repr(f)


def ruled(f: Function, rule: Opaque) -> Function:
    """A function that goes by its rule while a derivative is taken."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _core.current_level() is None:
            return f(*args, **kwargs)
        return apply(rule, *by_position(f, args, kwargs))

    call.__ndual_rule__ = rule  # type: ignore[attr-defined]
    return call


def by_position(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with as many as possible by position, if any come by keyword."""
    if not kwargs:
        return args, kwargs
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    return bound.args, bound.kwargs


class Custom(Opaque):
    """A rule of jvp and vjp, or of one of them."""

    def __init__(self, f: Function, jvp: Function | None, vjp: Function | None) -> None:
        self.f = f
        self.name = name_of(f)
        self.jvp = jvp
        self.vjp = vjp

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself, on values."""
        with _core.Pause():
            out = self.f(*_core.constants(args), **_core.constants(kwargs))
        return settled(out)

    def run(self, call: Call, args: tuple[Any, ...]) -> Any:
        """The function; where its arguments are duals of an outer derivative, by its rule."""
        if any(map(_core.is_dual, call.given)):
            return apply(self, args, call.kwargs)
        return self.f(*args, **call.kwargs)

    def push(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], lanes: list[list[Any]]) -> list[list[Any]]:
        """By jvp, or by vjp transposed."""
        primals, value = call.arguments(x), call.output(y)
        if self.jvp is not None:
            jvp = self.jvp
            return [call.output_parts(jvp(value, primals, call.tangents(ts), **call.kwargs), "the jvp") for ts in lanes]
        vjp = self.vjp
        assert vjp is not None
        active = [k for k, t in enumerate(lanes[0]) if t is not None]

        def back(*ws: Any) -> list[Any]:
            parts = call.argument_parts(vjp(value, primals, call.cotangent(ws), **call.kwargs), "the vjp")
            return [call.zero(call.leaves[k]) if parts[k] is None else parts[k] for k in active]

        forth = transposed(back, [call.zero(leaf) for leaf in call.out_leaves], self.name, "vjp", "jvp")
        return [forth([ts[k] for k in active]) for ts in lanes]

    def pull(self, call: Call, x: tuple[Any, ...], y: tuple[Any, ...], ws: list[Any]) -> list[Any]:
        """By vjp, or by jvp transposed."""
        primals, value = call.arguments(x), call.output(y)
        if self.vjp is not None:
            return call.argument_parts(self.vjp(value, primals, call.cotangent(ws), **call.kwargs), "the vjp")
        jvp = self.jvp
        assert jvp is not None
        active = [k for k, on in enumerate(call.active) if on]

        def forth(*ts: Any) -> list[Any]:
            whole: list[Any] = [None] * len(call.leaves)
            for k, t in zip(active, ts, strict=True):
                whole[k] = t
            parts = call.output_parts(jvp(value, primals, call.tangents(whole), **call.kwargs), "the jvp")
            return [
                call.zero(leaf) if part is None else part for leaf, part in zip(call.out_leaves, parts, strict=True)
            ]

        found = transposed(forth, [call.zero(call.leaves[k]) for k in active], self.name, "jvp", "vjp")(ws)
        result: list[Any] = [None] * len(call.leaves)
        for k, part in zip(active, found, strict=True):
            result[k] = part
        return result
