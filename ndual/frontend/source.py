"""The source of a function: found by its code, changed, and compiled to a code object that fits the same function.

Nothing here knows derivatives. What changes the tree is given by the caller; what is found is the very function that
was asked for, or an error: never another one of the same name or on the same line.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import linecache
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ndual.errors import ArgumentValueError

FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
REMEDY = "Replace float(x) by x[()], np.ndarray(n) by np.empty(n), and make default buffers inside, instead of lifting"


def rewritten(
    function: types.FunctionType, rewriter: Callable[[types.CodeType], ast.NodeTransformer], key: Any,
    constants: dict[str, Any],
) -> types.CodeType:  # fmt: skip
    """The code of a function after a rewriter has been at the top-level statement of its file that holds it.

    `rewriter` gets the code of that statement; with a `key`, the result serves all functions of the statement that come
    with the same one. String constants of the new code that are keys of `constants` are replaced by their objects.
    """
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    place = _place(source, code.co_filename, code.co_flags & FUTURE, _which(source, function))
    path = _path(place.code, code)
    if path is None and "@pytest_ar" in function.__globals__:
        path = _asserted(place.statement, place.code, code)
    if path is None:
        raise ArgumentValueError(
            f"expected the source of {function.__qualname__} at {code.co_filename}:{code.co_firstlineno} to be what it "
            "was compiled from; got something else: the file was changed, or a tool rewrote the code. "
            f"Import it afresh. {REMEDY}"
        )
    found = place.changed(rewriter, key)
    for step in path:
        found = _inner(found)[step]
    return _with_constants(found, constants)


def _which(source: str, function: types.FunctionType) -> int:
    """The number of the top-level statement around a function."""
    code = function.__code__
    for number, statement in enumerate(_parsed(source)):
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        if first <= code.co_firstlineno <= (statement.end_lineno or 0) and code.co_firstlineno > 0:
            return number
    raise ArgumentValueError(
        f"expected {function.__qualname__} to have its source in a file; "
        f"got no source at {code.co_filename}:{code.co_firstlineno}. Define it in a file or a notebook. {REMEDY}"
    )


@functools.lru_cache(maxsize=1)
def _parsed(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:
        return []


class _Place:
    """A top-level statement in its file without other functions and classes, as source, as code, and rewritten.

    What else stands there stays: the compiler calls attributes of imported names in a way of its own.
    """

    def __init__(self, source: str, filename: str, flags: int, number: int) -> None:
        body = _parsed(source)
        self.statement = body[number]
        self._before = [s for s in body[:number] if not isinstance(s, DEFINITIONS)]
        self._after = [s for s in body[number + 1 :] if not isinstance(s, DEFINITIONS)]
        self._filename, self._flags = filename, flags
        self.code = self._compiled(self.statement)
        self._changed: dict[Any, types.CodeType] = {}

    def _compiled(self, statement: ast.stmt) -> types.CodeType:
        module = ast.Module([*self._before, statement, *self._after], [])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler has warned of this source before
            found: types.CodeType = compile(module, self._filename, "exec", self._flags, dont_inherit=True)
            return found

    def changed(self, rewriter: Callable[[types.CodeType], ast.NodeTransformer], key: Any) -> types.CodeType:
        """The code after a rewriter; that for a key is kept."""
        if key in self._changed:
            return self._changed[key]
        found = self._compiled(rewriter(self.code).visit(copy.deepcopy(self.statement)))
        if key is not None:
            self._changed[key] = found
        return found


_place = functools.lru_cache(maxsize=4)(_Place)


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _paths(code: types.CodeType, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], types.CodeType]]:
    for step, inner in enumerate(_inner(code)):
        yield (*path, step), inner
        yield from _paths(inner, (*path, step))


def _path(module: types.CodeType, code: types.CodeType) -> tuple[int, ...] | None:
    """Where in a compiled module a code object is, by all that it is made of, columns included."""
    for path, candidate in _paths(module):
        if _same(candidate, code):
            return path
    return None


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    # Equality of code objects leaves the columns out in some versions, and two lambdas of a line differ by them alone.
    # Without columns (-X no_debug_ranges) functions that are taken for one another are equal in all that they do.
    return a == b and list(a.co_positions()) == list(b.co_positions()) and a.co_qualname == b.co_qualname


def _asserted(statement: ast.stmt, module: types.CodeType, code: types.CodeType) -> tuple[int, ...] | None:
    """The place of a function whose assert statements pytest has rewritten, if only one can be meant."""
    keys = ("co_qualname", "co_firstlineno", "co_argcount", "co_kwonlyargcount", "co_freevars", "co_cellvars")
    found = [
        path
        for path, candidate in _paths(module)
        if all(getattr(candidate, key) == getattr(code, key) for key in keys)
        and set(candidate.co_varnames) <= set(code.co_varnames)
        and candidate.co_name != "<lambda>"
    ]
    checks = any(isinstance(node, ast.Assert) for node in ast.walk(statement))
    return found[0] if checks and len(found) == 1 else None


def _with_constants(code: types.CodeType, constants: dict[str, Any]) -> types.CodeType:
    def exchange(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _with_constants(constant, constants)
        return constants.get(constant, constant) if type(constant) is str else constant

    return code.replace(co_consts=tuple(map(exchange, code.co_consts)))
