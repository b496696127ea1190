"""The kinds of rules and the map from public names to rules.

A rule is registered under the dotted names that it serves ("numpy.linalg.solve"), never under an object, so
that this module needs neither NumPy nor any mode. A mode (forward lanes, reverse tape) asks a rule for what its
kind offers; a front end asks :func:`resolve` for the functions of the libraries that are really there.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

from ndual.errors import NoRuleError

RULES: dict[str, Rule] = {}

_on_undefined: list[Callable[[str], None]] = []


def on_undefined(listener: Callable[[str], None]) -> None:
    """Have `listener` told when a rule meets a point without derivative."""
    _on_undefined.append(listener)


def undefined(message: str) -> None:
    """Say that what a rule returns holds NaN because no derivative exists, which matters only if it reaches the end."""
    for listener in _on_undefined:
        listener(message)


# Compiled forms of formulas over real host arrays, by the name of the function they stand in for. The core fills this;
# a rule states its formula in any case, since other arrays need it and tests hold the two against each other.
KERNELS: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True, eq=False)
class Rule:
    """What all kinds share: a short name for messages and the public names that the rule serves."""

    name: str
    serves: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Linear(Rule):
    """A map that is linear in its one array: ``lanes(xp, t, x, *args, **kwargs)`` maps ``(N, *x.shape)``.

    `x` is the primal (for its shape and dtype), the other arguments are those of the public call.
    ``transpose(xp, w, x, *args, **kwargs)`` maps a cotangent of the output to one of `x`.
    Where the value is a view of its input, `lanes` must be the same view of the lanes. Of a step function `lanes`
    returns None, and `transpose` is None. A function with several
    results (split) has lanes that return a list, and a transpose that takes one, None for an unused result.
    """

    lanes: Callable[..., Any]
    transpose: Callable[..., Any] | None
    own: ClassVar[int] = 3  # parameters of `lanes` that are not those of the public call

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Split a public call into the array, the other positional arguments and the keywords."""
        (array,), rest, keywords = _leading(self, 1, args, kwargs)
        if keywords:
            _check_covered(self.name, self.lanes, self.own, keywords)
        return array, rest, keywords


@dataclass(frozen=True, eq=False)
class Bilinear(Rule):
    """A map that is linear in each of its two arrays.

    ``lanes(xp, a, b, lane_a, lane_b, *args, **kwargs)`` computes the map where the operands whose flag is true
    carry one leading lane axis; the result carries one if either flag is set. ``transposes`` is a pair:
    ``(xp, w, a, b, *args, **kwargs)`` gives the cotangent of a, and of b.
    """

    lanes: Callable[..., Any]
    transposes: tuple[Callable[..., Any], Callable[..., Any]]
    own: ClassVar[int] = 5

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, tuple[Any, ...], dict[str, Any]]:
        """Split a public call into the two arrays, the other positional arguments and the keywords."""
        (a, b), rest, keywords = _leading(self, 2, args, kwargs)
        if keywords:
            _check_covered(self.name, self.lanes, self.own, keywords)
        return a, b, rest, keywords


@dataclass(frozen=True, eq=False)
class Structured(Rule):
    """Any differentiable function: its value is the public call on the primals.

    `arrays` describes the array parameters, in order (:func:`structured` has the notation); ``jvp(xp, y, x, dx,
    **params)`` takes the output, the tuple of primals and the tuple of lane-major tangents (None where constant) and
    returns the lane-major tangent (a tuple for several outputs; None in it for an output without derivative).
    ``vjp(xp, w, y, x, **params)`` returns the tuple of cotangents of the primals (None for no dependence); that of a
    `selective` rule also takes ``active``, which says of each primal whether its cotangent is wanted.

    ``keeping(xp, x, **params)`` of a rule that has it computes the value in place of the public call, with what the
    formulas would compute again, or returns None. They get it as the keyword ``kept``, None where there is nothing.
    """

    arrays: tuple[str, ...]
    jvp: Callable[..., Any]
    vjp: Callable[..., Any]
    defaults: dict[str, Any]
    binder: Callable[..., Any] | None = None
    selective: bool = False
    keeping: Callable[..., Any] | None = None
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        plain = self.binder is None and all(token.isidentifier() for token in self.arrays)
        object.__setattr__(self, "plain", plain)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Split a public call into its array operands, flat and in order, and all other parameters by name.

        An optional array that was not given is None. The parameters are a fresh dictionary without ``out``, which
        is the caller's to handle. `binder` replaces all this for a function with a calling form of its own.
        """
        if self.plain and len(args) == len(self.arrays) and not kwargs:
            return args, {key: value for key, value in self.defaults.items() if key != "out"}
        if self.binder is not None:
            arrays, params = self.binder(args, kwargs)
        else:
            arrays, params = _bind(self, list(args), dict(kwargs))
        if params.pop("out", None) is not None:
            raise NoRuleError(f"{self.name} takes out= by keyword when it is differentiated; got it by position.")
        return arrays, params


@dataclass(frozen=True, eq=False)
class Composition(Rule):
    """A function written once with differentiable ones; both modes follow from those.

    ``body(xp, *args, **kwargs)`` takes the array namespace and then the public call's arguments, duals among them. With
    `reads_out` it is given ``out=`` too, which it reads; otherwise the result is written there afterwards. ``total`` of
    one that has it is the sum of all cells of the result, from finite arguments that do not overflow.
    """

    body: Callable[..., Any]
    reads_out: bool = False
    total: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False)
class Passive(Rule):
    """A function without derivative (argmax, shape, isclose …): it is called on the primals.

    `looks` says that its result depends on values, and not only on shapes and types.
    """

    looks: bool = True


def _register(rule: Rule) -> None:
    for dotted in rule.serves:
        if dotted in RULES:
            raise ValueError(f"{dotted} has two rules: {RULES[dotted].name} and {rule.name}")
        RULES[dotted] = rule


def _names(serves: str) -> tuple[str, tuple[str, ...]]:
    dotted = tuple(serves.split())
    return dotted[0], dotted


def _leading(
    rule: Rule, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
    if len(args) >= count:
        return args[:count], args[count:], kwargs
    for dotted in rule.serves:
        missing = (_parameters(dotted) or ("a", "b"))[len(args) : count]
        if len(missing) == count - len(args) and all(key in kwargs for key in missing):
            rest = {key: value for key, value in kwargs.items() if key not in missing}
            return (*args, *[kwargs[key] for key in missing]), (), rest
    raise NoRuleError(f"{rule.name} expects {count} array argument(s); got {len(args)}. Pass them by position.")


@functools.lru_cache(maxsize=1024)
def _parameters(dotted: str) -> tuple[str, ...]:
    """The names of the parameters of a public function, in its order; none where it does not tell.

    Before NumPy 2.4 its compiled functions do not; those with such rules call their arrays a and b.
    """
    try:
        return tuple(inspect.signature(lookup(dotted)).parameters)
    except (TypeError, ValueError):
        return ()


@functools.lru_cache(maxsize=1024)
def _keywords(formula: Callable[..., Any], own: int) -> frozenset[str] | None:
    """The public names that a formula takes behind so many of its own; None if it takes any."""
    parameters = list(inspect.signature(formula).parameters.values())[own:]
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else frozenset([p.name for p in parameters])


def _check_covered(name: str, formula: Callable[..., Any], own: int, keywords: dict[str, Any]) -> None:
    known = _keywords(formula, own)
    extra = [] if known is None else [key for key in keywords if key not in known]
    if extra:
        raise _not_covered(name, ", ".join(extra))


def _not_covered(name: str, extra: str) -> NoRuleError:
    return NoRuleError(
        f"{name}: the derivative does not cover these arguments: {extra}. "
        "Leave them out, or wrap the array in stop_gradient if no derivative is meant."
    )


def _bind(rule: Structured, args: list[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arrays: list[Any] = []
    params: dict[str, Any] = {}
    for token in rule.arrays:
        key = token.strip("*?=().")
        if token.endswith("..."):
            arrays += args
            args = []
        elif args and not token.endswith("="):
            value = args.pop(0)
            if token.startswith("("):
                params[key] = value
            else:
                arrays.extend(value if token.startswith("*") else [value])
        elif key in kwargs:
            value = kwargs.pop(key)
            if token.startswith("("):
                params[key] = value
            else:
                arrays.extend(value if token.startswith("*") else [value])
        elif token[-1] in "?=":
            arrays.append(None)
        elif key in rule.defaults:
            params[key] = rule.defaults[key]
        else:
            raise NoRuleError(f"{rule.name} needs an argument {key!r}; got none. Check the call.")
    for key, default in rule.defaults.items():
        if key in params:
            continue
        params[key] = args.pop(0) if args else kwargs.pop(key, default)
    if args or kwargs:
        raise _not_covered(rule.name, ", ".join(kwargs) or f"{len(args)} more positional")
    return tuple(arrays), params


def linear(serves: str, transpose: Callable[..., Any] | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the lane map of a linear rule."""

    def decorate(lanes: Callable[..., Any]) -> Callable[..., Any]:
        _register(Linear(*_names(serves), lanes=lanes, transpose=transpose))
        return lanes

    return decorate


def bilinear(
    serves: str, transposes: tuple[Callable[..., Any], Callable[..., Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the lane map of a bilinear rule."""

    def decorate(lanes: Callable[..., Any]) -> Callable[..., Any]:
        _register(Bilinear(*_names(serves), lanes=lanes, transposes=transposes))
        return lanes

    return decorate


def structured(
    serves: str,
    arrays: str,
    vjp: Callable[..., Any],
    binder: Callable[..., Any] | None = None,
    selective: bool = False,
    keeping: Callable[..., Any] | None = None,
    **defaults: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the jvp of a structured rule.

    `arrays` names the array parameters; `defaults` names every other parameter in the public function's order with
    its default, and both jvp and vjp receive all of those as keywords (all but ``out``). In `arrays`, ``name?`` is
    an optional array, ``name=`` one that is passed by keyword only, ``*name`` a sequence of arrays whose elements
    are spread, ``name...`` all remaining positional arguments, and ``(name)`` a parameter
    among them that is not differentiated (optional if it has a default). A function with a calling form of its own
    brings a `binder`. `selective` says that vjp takes the keyword ``active``, `keeping` is that of `Structured`.
    """

    def decorate(jvp: Callable[..., Any]) -> Callable[..., Any]:
        tokens = tuple(arrays.split())
        _register(Structured(*_names(serves), tokens, jvp, vjp, defaults, binder, selective, keeping))
        return jvp

    return decorate


def composition(
    serves: str, reads_out: bool = False, total: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the body of a composition."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        _register(Composition(*_names(serves), body=body, reads_out=reads_out, total=total))
        return body

    return decorate


def passive(serves: str, looks: bool = True) -> None:
    """Register functions that have no derivative; `looks` says that they depend on values."""
    for dotted in serves.split():
        _register(Passive(dotted, (dotted,), looks))


def lookup(dotted: str) -> Any:
    """The object behind a dotted name, or None if its library is not loaded or lacks it.

    Never imports: a rule for a library that the program does not use costs nothing.
    """
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found = sys.modules.get(".".join(parts[:cut]))
        if found is not None:
            for part in parts[cut:]:
                # A module that imports its parts when they are asked for is not asked.
                found = vars(found).get(part) if isinstance(found, ModuleType) else getattr(found, part, None)
                if found is None:
                    return None
            return found
    return None


def load_parts(module: ModuleType) -> None:
    """Import the parts with rules of a library that imports its parts when they are asked for, as SciPy does."""
    name = module.__name__
    for part in {dotted.split(".")[1] for dotted in RULES if dotted.startswith(f"{name}.")} & set(dir(module)):
        getattr(module, part)


def resolve(root: str) -> dict[Any, Rule]:
    """Map the public functions of a loaded library (``"numpy"``) to their rules; ``(ufunc, name)`` for a method."""
    found = {}
    for dotted, rule in RULES.items():
        if dotted.partition(".")[0] == root:
            function = lookup(dotted)
            if function is not None:
                owner, _, method = dotted.rpartition(".")
                parent = lookup(owner)
                found[(parent, method) if type(parent).__name__ == "ufunc" else function] = rule
    return found
