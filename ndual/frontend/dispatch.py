"""From a called function to its rule: ufuncs to the rows of the table, everything else to the structured rules.

The tables are filled when ndual is imported, and again when a library that has rules (scipy.linalg …) turns up later.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual._core import forward
from ndual._core._dual import set_variables
from ndual._core.lapack import solve_and_keep
from ndual.errors import NoRuleError
from ndual.frontend import _methods, ahead, creation, foreign, interpolants, routines, solvers
from ndual.rules import elementwise, refused, registry

JOINS = (np.concatenate, np.stack)  # themselves: stand-ins have the names while a derivative is taken
_RULES: dict[Any, registry.Rule | Callable[..., Any]] = {}
_LIBRARIES: set[str] = set()
_seen: set[str] = set()
_refused: dict[Any, str] = {}


def fill() -> bool:
    """Bind rows and rules of the libraries that have been imported since the last time; False if there are none."""
    if not _LIBRARIES:
        _LIBRARIES.update(
            dotted.rpartition(".")[0] for dotted in (*registry.RULES, *creation.HANDLERS, *interpolants.FUNCTIONS)
        )
        _LIBRARIES.update(name.rpartition(".")[0] for row in elementwise.TABLE.values() for name in row.serves)
    fresh = [name for name in _LIBRARIES if name in sys.modules and name not in _seen]
    if not fresh:
        return False
    _seen.update(fresh)
    for row in elementwise.TABLE.values():
        _bind_row(row)
    for rule_names, reason in (elementwise.REFUSED | refused.REFUSED).items():
        function = registry.lookup(rule_names)
        if function is not None:
            _refused[function] = reason
    for root in ("numpy", "scipy", "cupy", "math", "cmath", "ndual"):
        _RULES.update(registry.resolve(root))
    for dotted, handler in creation.HANDLERS.items():
        function = registry.lookup(dotted)
        if function is not None:
            _RULES[function] = handler
    for dotted, handler in (interpolants.FUNCTIONS | routines.FUNCTIONS).items():
        function = registry.lookup(dotted)
        if function is not None:
            _RULES[function] = _bound(handler, function)
    # Views, as in NumPy; the rows of these names would copy.
    _RULES[np.real] = operator.attrgetter("real")
    _RULES[np.imag] = operator.attrgetter("imag")
    return True


def _bound(handler: Callable[..., Any], function: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: handler(function, args, kwargs)


def _bind_row(row: Any) -> None:
    ufunc = None
    for dotted in row.serves:
        function = registry.lookup(dotted)
        if function is None:
            continue
        if dotted.startswith(("math.", "cmath.")):
            _RULES.setdefault(function, _number_call(row.name, function))
        elif isinstance(function, np.ufunc):
            ufunc = ufunc or function
            _core.register_row(row, function)
        else:
            _RULES.setdefault(function, _row_call(row.name, row.nin))
    if ufunc is None:
        _core.register_row(row, None)


def _row_call(name: str, nin: int) -> Callable[..., Any]:
    """A public function that is a row but no ufunc (np.where, np.sinc …): positional operands only."""

    def call(*args: Any, out: Any = None, where: Any = None, dtype: Any = None) -> Any:
        if len(args) != nin:
            raise NoRuleError(
                f"{name} has a derivative for {nin} operand(s) by position; got {len(args)}"
                f"{_core.user_location()}. Call it with {nin}"
            )
        return _core.apply_row(name, *args, out=out, where=where, dtype=dtype)

    return call


def _number_call(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``math`` or ``cmath``: the row, with the value and the errors of the function itself."""
    wanted = "c" if function.__module__ == "cmath" else "f"

    def call(*args: Any) -> Any:
        if len(args) == 1 and wanted == "f" and _core.is_scalar_dual(args[0]):
            return _core.apply_number(name, function, args[0])
        operands = [_number(a, wanted) for a in args]
        value = dispatch(function, tuple(map(_core.primal, operands)), {})
        if len(operands) == 2 and name == "log":
            one, base = (_core.apply_row(name, x) if _core.is_dual(x) else function(x) for x in operands)
            return _core.with_value(one / base, value)
        return _core.with_value(_core.apply_row(name, *operands), value)

    return call


def _number(obj: Any, wanted: str) -> Any:
    """A dual of one cell as a number of double precision."""
    if not _core.is_dual(obj):
        return obj
    if obj.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    if obj.dtype.kind == "c" and wanted == "f":
        raise TypeError(f"must be real number, not {obj.dtype}")
    if wanted == "c":
        return obj.reshape(())[()].astype(np.complex128)[()]
    return obj if _core.is_scalar_dual(obj) else obj.reshape(()).astype(np.float64)[()]


def convert(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A number type of NumPy called on a dual: floats keep the derivative, integers and bools have none."""
    if len(args) != 1 or kwargs or not _core.is_dual(args[0]):
        return kind(*(_core.primal(a) for a in args), **kwargs)
    out: Any = args[0].astype(kind)
    return out if np.ndim(out) else out[()]


def handled(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that calls the user's, in which duals may be hidden."""
    return solvers.HANDLERS[f"scipy.integrate.{function.__name__}"](function, *args, **kwargs)


# Where the array stands among the arguments of NumPy's functions that call the user's.
CALLERS = {"numpy.piecewise": 0, "numpy.apply_along_axis": 2}


def calling(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of these: the functions may give duals for an array that is plain."""
    at = CALLERS[f"numpy.{function.__name__}"]
    if len(args) > at and not _core.is_dual(args[at]):
        args = (*args[:at], _core.call_plain(np.array, (args[at],), {}, False), *args[at + 1 :])
    rule: Any = _RULES[function]
    return forward.apply(rule, function, args, kwargs)


def called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An instance of np.vectorize."""
    return foreign.vectorized(function, args, kwargs)


# Their first argument is a sequence of arrays; that of block may be nested, and NumPy looks into it.
_SEQUENCE_NAMES = """
stack concatenate concat vstack hstack dstack column_stack select choose multi_dot broadcast_arrays
"""
_SEQUENCES = frozenset(_SEQUENCE_NAMES.split())


def with_lists(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that NumPy's protocols hand over, with duals in lists, or in arguments that these do not look at."""
    if function.__name__ in _SEQUENCES:
        args = tuple([_joined(part) for part in a] if isinstance(a, list | tuple) else a for a in args)
    elif function.__name__ != "block":
        args = tuple(map(_joined, args))
        kwargs = {key: value if key == "out" else _joined(value) for key, value in kwargs.items()}
    return dispatch(function, args, kwargs) if function in _RULES else function(*args, **kwargs)


def _joined(obj: Any) -> Any:
    return _core.build(obj) if isinstance(obj, list | tuple) and _core.activity(obj) == 2 else obj


def listed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that takes iterators, which are used up here."""
    return dispatch(function, tuple(list(a) if isinstance(a, Iterator) else a for a in args), kwargs)


_ADDING_UP = frozenset({np.sum, np.prod, np.mean, np.cumsum, np.cumprod}) | {
    (ufunc, method) for ufunc in (np.add, np.multiply) for method in ("reduce", "accumulate")
}


_DEFAULTS_OF_UFUNCS = {
    "casting": "same_kind", "dtype": None, "keepdims": False, "order": "K", "signature": None, "subok": True,
    "where": True,
}  # fmt: skip


def _goes_without_saying(key: str, value: Any) -> bool:
    if key not in _DEFAULTS_OF_UFUNCS:
        return False
    default = _DEFAULTS_OF_UFUNCS[key]
    return value is default or (type(value) in (str, np.bool) and value == default)


def dispatch(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of NumPy, SciPy or math, by its rule if any of its arguments carry a derivative."""
    if len(args) > 2 and type(function) is not tuple:
        place, names = _from_out(function)
        if len(args) > place:
            given = dict(zip(names, args[place:], strict=False)) if names else {"out": args[place:]}
            args, kwargs = args[:place], given | kwargs
    if "out" in kwargs and kwargs["out"] is None:
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    if not kwargs:
        active = _core.activity(args)
    elif "out" not in kwargs:
        active = _core.activity(args, kwargs)
    else:
        active = 2
    if active < 2:
        if type(function) is tuple and function[1] == "at" and _core.is_dual(args[0]):
            _core.own_memory(args[0])
        plain: Any = getattr(*function) if type(function) is tuple else function
        return _core.call_plain(plain, args, kwargs, active == 1)
    rule = _RULES.get(function)
    if rule is None:
        if fill() and isinstance(function, np.ufunc):
            return function(*args, **kwargs)
        rule = _RULES.get(function)
        if rule is None:
            if _core.all_inert(args, kwargs):
                return function(*_core.constants(args, True), **_core.constants(kwargs, True))
            return without_rule(function, args, kwargs)
    out = None if getattr(rule, "reads_out", False) else kwargs.get("out")
    if out is not None:
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        target = out[0] if type(out) is tuple else out
        if not _core.is_dual(target) and _core.activity(args, kwargs) < 2:  # constants into a plain array
            return function(*_core.constants(args), out=out, **_core.constants(kwargs))
        if function in JOINS and _join_within(target, function, *args, **kwargs):
            return target
        if function in _ADDING_UP and len(args) < 3 and kwargs.get("dtype") is None and target.dtype.kind in "fc":
            kwargs["dtype"] = np.promote_types(np.result_type(args[0]), target.dtype)  # what NumPy adds up in
        result = dispatch(function, args, kwargs)
        if isinstance(result, tuple) and type(out) is tuple:
            return tuple(map(_into, out, result))
        return _into(target, result)
    if isinstance(rule, registry.Rule):
        if kwargs and (type(function) is tuple or isinstance(function, np.ufunc)):
            kwargs = {key: value for key, value in kwargs.items() if not _goes_without_saying(key, value)}
        if type(function) is tuple:  # a ufunc and the name of its method
            function = getattr(*function)
        if not kwargs and getattr(rule, "total", None) is not None:
            found = ahead.total_here(sys._getframe(1), rule, function, args)
            if found is not None:
                return found
        return forward.apply(rule, function, args, kwargs)
    return rule(*args, **kwargs)


@functools.lru_cache(maxsize=1024)  # ufuncs can be made at run time
def _from_out(function: Any) -> tuple[int, tuple[str, ...]]:
    """The place of the parameter ``out`` of a function, and the names from there on; none for outputs of a ufunc."""
    if isinstance(function, np.ufunc):
        return function.nin, ()
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return sys.maxsize, ()
    names = tuple([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
    if "out" not in names or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return sys.maxsize, ()
    return names.index("out"), names[names.index("out") :]


def bind(function: Any, original: Any) -> bool:
    """Give a function of another library the rule of its namesake; False if that has none."""
    fill()
    rule = _RULES.get(original)
    if rule is not None:
        _RULES[function] = rule
    return rule is not None


def _into(target: Any, result: Any) -> Any:
    """An output that was given, with a result in it; the result where none was."""
    if target is None:
        return result
    if _core.is_dual(target) or _core.is_dual(result):
        _core.assign_to(target, ..., result)
    else:
        target[...] = result
    return target


def _join_within(target: Any, function: Any, arrays: Any, axis: Any = 0, **kwargs: Any) -> bool:
    """Join parts of the target in it, one after the other as NumPy does: what was overwritten first is read as it is.

    False if that is not the case, or not to be done like this.
    """
    arrays = [part for part in arrays if isinstance(part, np.ndarray)] if _core.is_dual(target) and not kwargs else []
    if axis is None or not any(np.may_share_memory(part, target) for part in arrays):
        return False
    parts = [np.expand_dims(part, axis) for part in arrays] if function is JOINS[1] else arrays
    if any(part.ndim != target.ndim or not -part.ndim <= axis < part.ndim for part in parts):
        return False
    cuts = np.cumsum([0] + [part.shape[axis] for part in parts]).tolist()
    rows = [(slice(None),) * (axis % target.ndim) + (slice(a, b),) for a, b in itertools.pairwise(cuts)]
    if cuts[-1] != target.shape[axis] or any(
        target[r].shape != part.shape for r, part in zip(rows, parts, strict=True)
    ):
        return False  # the usual way raises NumPy's error
    for r, part in zip(rows, parts, strict=True):
        _core.assign_to(target, r, part)
    return True


def entry(function: Any) -> Any:
    """What to call for a function that is itself to be differentiated: gates only see calls made by user code.

    A function of SciPy with a rule, or a partial of one, is taken to its rule; anything else is returned as it is.
    """
    if type(function) is functools.partial:
        inner = entry(function.func)
        return function if inner is function.func else functools.partial(inner, *function.args, **function.keywords)
    fill()
    try:
        ruled = function in _RULES
    except TypeError:  # an unhashable callable
        return function
    if not ruled or isinstance(function, np.ufunc) or type(function) is type(np.sum):
        return function
    return functools.wraps(function)(lambda *args, **kwargs: dispatch(function, args, kwargs))


def rule_of(function: Any) -> registry.Rule | Callable[..., Any] | None:
    """What a function is taken to."""
    fill()
    return _RULES.get(function)


def set_rule(function: Any, rule: Callable[..., Any]) -> None:
    """Have a function taken to another rule."""
    _RULES[function] = rule


def without_rule(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is done with a function that has no rule: an error, but for Python's functions in ufuncs."""
    if type(function) is np.ufunc and not kwargs:
        written = _core.python_function(function)
        if written is not None:
            return foreign.cell_by_cell(written, args)
    name = _public_name(function)
    reason = _refused.get(function, "it has no derivative rule")
    raise NoRuleError(
        f"expected a function that ndual can differentiate; got {name}, but {reason}{_core.user_location()}. "
        "Rewrite the line with functions that have rules, or pass ndual.stop_gradient(x) if no derivative is meant"
    )


def _public_name(function: Any) -> str:
    if isinstance(function, tuple):
        return f"{_public_name(function[0])}.{function[1]}"
    module = getattr(function, "__module__", None)
    name = getattr(function, "__name__", repr(function))
    return f"{module or 'numpy'}.{name}"


def _method(name: str, array_at: int = 0) -> Callable[..., Any]:
    """A method of arrays that is a NumPy function taking the array as argument number `array_at`."""
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return dispatch(function, (*args[:array_at], self, *args[array_at:]), kwargs)

    return method


def _array_namespace(self: Any, *, api_version: Any = None) -> Any:
    """What the array API asks of arrays: the namespace of functions that take them."""
    np.empty(0).__array_namespace__(api_version=api_version)  # raises where there is no such version
    return importlib.import_module("ndual.numpy")


_METHOD_NAMES = """
prod max min var std ptp cumsum cumprod argmax argmin argsort any all clip round trace diagonal repeat squeeze
swapaxes take choose nonzero searchsorted put argpartition
"""


def _partition(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    """The method works in place, the function does not."""
    self[...] = dispatch(np.partition, (self, kth, axis, kind, order), {})


def install() -> None:
    """Fill the core's dispatcher slot and its methods; called once, when ndual is imported."""
    importlib.import_module("ndual.rules")
    fill()
    _core.set_dispatcher(dispatch)
    _core.set_summed_next(ahead.summed_here)
    _methods.install(with_lists)
    set_variables()
    registry.on_undefined(_core.note_undefined)
    registry.KERNELS["cholesky_lanes"] = _core.cholesky_lanes
    registry.KERNELS["cholesky_cotangent"] = _core.cholesky_cotangent
    registry.KERNELS["outer_triangle"] = _core.outer_triangle
    registry.KERNELS["solve"] = solve_and_keep
    registry.KERNELS["tri_apply"] = _core.triangle_times_vector
    special: dict[str, Callable[..., Any]] = {
        "compress": _method("compress", 1),
        "partition": _partition,
        "__array_namespace__": _array_namespace,
    }
    _core.set_methods({name: _method(name) for name in _METHOD_NAMES.split()} | special)
