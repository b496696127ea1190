"""``@ndual.lift``: calls that no protocol and no gate can see keep their derivatives.

``float(x)`` and ``np.ndarray(n)`` are calls of types, which have no place for a gate; a function that is a default
argument, or lies in a container, is in no namespace; and a default buffer is older than the derivative. So the code of
a lifted function asks, at each call that may be one of these, what to call in its place.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
import weakref
from typing import Any, TypeVar

import numpy as np

from ndual.errors import ArgumentTypeError
from ndual.frontend._gate import Default, callee
from ndual.frontend.source import rewritten
from ndual.frontend.stand_in import TYPES

T = TypeVar("T")
CALLED = "\0ndual.lift: called"
DEFAULT = "\0ndual.lift: default "
MISSING = object()
_lifted: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def lift(target: T) -> T:
    """Let ``float(x)``, ``np.ndarray(n)`` and default arguments keep derivatives in a function.

    While a derivative is taken, ``float(x)`` and ``complex(x)`` of an active number keep it active, ``np.ndarray(n)``
    is a buffer that active values may be written into, and so are default arguments that are float arrays: each
    derivative call starts from what the array holds, and what is written there ends with the call. Functions that are
    handed over (``def f(x, solve=scipy.linalg.solve)``, ``self.solve(a, b)``) reach their rules. ``int(x)`` is the
    plain value. Where no derivative is taken, the function does what it did before.

    Parameters
    ----------
    target : function, method, class or module
        What to lift: the function with all functions inside it, but not those that it calls. Use it as a decorator, the
        one next to ``def``. A class or a module is changed in place: all functions defined in it are lifted, wherever
        they have been imported to; use that for code that is not your own.

    Returns
    -------
    function, method, class or module
        A new function with the same closure, defaults and names, or the changed class or module.

    Raises
    ------
    ArgumentTypeError
        `target` is no function written in Python, or a wrapper that hides one.
    ArgumentValueError
        The source of the function is missing, or has changed since it was imported.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> @ndual.lift
    ... def f(x, work=np.zeros(2)):
    ...     work[0] = float(x) ** 2
    ...     return np.sum(work)
    >>> ndual.grad(f)(3.0).item()
    6.0
    """
    return _lift(target, False)  # type: ignore[no-any-return]


def _lift(target: Any, inplace: bool) -> Any:
    kind = type(target)
    if kind is types.FunctionType:
        return _function(target, inplace)
    if kind is staticmethod or kind is classmethod:
        return kind(_lift(target.__func__, inplace))
    if kind is types.MethodType:
        return types.MethodType(_lift(target.__func__, inplace), target.__self__)
    if kind is property:
        get, write, delete = (part and _lift(part, inplace) for part in (target.fget, target.fset, target.fdel))
        return property(get, write, delete, target.__doc__)
    if kind is functools.partial:
        return functools.partial(_lift(target.func, inplace), *target.args, **target.keywords)
    if isinstance(target, type):
        for part in vars(target).values():
            _inside(part, target.__module__)
        return target
    if kind is types.ModuleType:
        for part in vars(target).values():
            if getattr(part, "__module__", None) == target.__name__:
                _inside(part, target.__name__)
        return target
    raise ArgumentTypeError(
        f"lift expects a function written in Python, a class or a module; got {kind.__name__}. "
        "Write @ndual.lift next to def, below other decorators"
    )


def _inside(part: Any, module: str) -> None:
    """Lift what a class or a module defines, in place; leave the rest of it alone."""
    if isinstance(part, staticmethod | classmethod):
        part = part.__func__
    if isinstance(part, property):
        for function in (part.fget, part.fset, part.fdel):
            _inside(function, module)
    elif isinstance(part, functools.cached_property):
        _inside(part.func, module)
    elif isinstance(part, types.FunctionType):
        # What dataclasses and namedtuples make has no source, and no calls that ask.
        if part.__module__ == module and not part.__code__.co_filename.startswith("<"):
            _function(part, True)
    elif isinstance(part, type) and part.__module__ == module:
        _lift(part, True)


def _function(function: types.FunctionType, inplace: bool) -> types.FunctionType:
    inner = function.__dict__.get("__wrapped__")
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if inner is not None:
        holders = [name for name, cell in cells.items() if _content(cell) is inner]
        if not holders:
            raise ArgumentTypeError(
                f"lift expects a function; got {function.__qualname__}, a wrapper that keeps the function from it. "
                "Write @ndual.lift next to def, below other decorators"
            )
        lifted = _lift(inner, inplace)
        if inplace:
            return function
        cells |= {name: types.CellType(lifted) for name in holders}
        code = function.__code__
    else:
        code = _code(function)
    if inplace:
        function.__code__ = code
        return function
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__ and dict(function.__kwdefaults__)
    names = (*functools.WRAPPER_ASSIGNMENTS, "__annotate__")  # the latter first of all: it resets the former
    for name in sorted(set(names), key=lambda name: name != "__annotate__"):
        if hasattr(function, name):
            setattr(made, name, getattr(function, name))
    made.__dict__.update(function.__dict__)
    if inner is not None:
        made.__dict__["__wrapped__"] = lifted
    return made


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return MISSING


def _code(function: types.FunctionType) -> types.CodeType:
    code = function.__code__
    if code in _lifted:
        return code
    buffers = {name: value for name, value in _defaults(function).items() if type(value) is np.ndarray}
    constants = {CALLED: callee} | {DEFAULT + name: Default(array) for name, array in buffers.items()}
    key = None if buffers else id(function.__globals__)
    lifted = rewritten(function, lambda whole: _Rewriter(function, frozenset(buffers), whole), key, constants)
    _lifted.add(lifted)
    return lifted


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    positional = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return dict(zip(names[len(names) - len(positional) :], positional, strict=True)) | (function.__kwdefaults__ or {})


class _Rewriter(ast.NodeTransformer):
    """Lets the calls in a statement ask, and puts the question for default buffers at the start of the function."""

    def __init__(self, function: types.FunctionType, buffers: frozenset[str], whole: types.CodeType) -> None:
        self._code = function.__code__
        self._scope = function.__globals__
        self._local = _local_names(whole)
        self._buffers = buffers

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("map", "filter") and node.args:  # these call what they are given, as key= does
            node.args[0] = self._asking(node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "key":
                keyword.value = self._asking(keyword.value)
        node.func = self._asking(node.func)
        return node

    def _asking(self, callee: ast.expr) -> ast.expr:
        if isinstance(callee, ast.Lambda | ast.Constant | ast.Starred) or self._settled(callee):
            return callee
        return _ask(CALLED, callee)

    def _settled(self, callee: ast.expr) -> bool:
        """Whether what is called is known: a global or builtin name, or an attribute of a module, that never asks.

        Gates take care of these where they are functions with rules.
        """
        if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Constant | ast.JoinedStr):
            return True
        value = self._known(callee)
        return value is not MISSING and not any(value is kind for kind in TYPES)

    def _known(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id not in self._local:
            return self._scope.get(node.id, getattr(builtins, node.id, MISSING))
        if isinstance(node, ast.Attribute):
            owner = self._known(node.value)
            if isinstance(owner, types.ModuleType):
                return getattr(owner, node.attr, MISSING)
        return MISSING

    def _function(self, node: Any) -> Any:
        self.generic_visit(node)
        decorators = getattr(node, "decorator_list", ())
        first = min([node.lineno, *(d.lineno for d in decorators)])
        name = getattr(node, "name", "<lambda>")
        if name != self._code.co_name or first != self._code.co_firstlineno:
            return node
        given = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)} & self._buffers
        if not given:
            return node
        names = sorted(given)
        where = 0 if isinstance(node, ast.Lambda) or ast.get_docstring(node, False) is None else 1
        place = node.body if isinstance(node, ast.Lambda) else node.body[min(where, len(node.body) - 1)]
        targets = [_at(place, ast.Name(name, ast.Store())) for name in names]
        buffers = [_ask(DEFAULT + name, _at(place, ast.Name(name, ast.Load()))) for name in names]
        if isinstance(node, ast.Lambda):  # (name := buffer, body)[-1]
            starts = [_at(place, ast.NamedExpr(*pair)) for pair in zip(targets, buffers, strict=True)]
            whole = _at(place, ast.Tuple([*starts, place], ast.Load()))
            node.body = _at(place, ast.Subscript(whole, _at(place, ast.Constant(-1)), ast.Load()))
        else:
            pairs = zip(targets, buffers, strict=True)
            node.body[where:where] = [_at(place, ast.Assign([target], value)) for target, value in pairs]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self._function(node)


def _local_names(code: types.CodeType) -> frozenset[str]:
    names = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _local_names(constant)
    return frozenset(names)


def _ask(constant: str, value: ast.expr) -> ast.expr:
    """``constant(value)`` at the place of `value`; the constant is exchanged after the code is compiled."""
    call: ast.expr = _at(value, ast.Call(_at(value, ast.Constant(constant)), [value], []))
    return call


def _at(place: ast.AST, node: Any) -> Any:
    return ast.copy_location(node, place)
