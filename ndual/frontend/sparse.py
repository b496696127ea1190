"""Sparse matrices of SciPy: made of duals, multiplied by them, and solved with.

``A @ x`` with a sparse A: SciPy's matrix comes first, looks at the class of x alone and takes its memory. So some
methods of SciPy's sparse classes are replaced by ones that hand duals on, the first time a derivative is taken while
``scipy.sparse`` is loaded. They stay: that costs 0.1 µs of the microseconds that a product takes, and a change to a
type empties the interpreter's caches of its attributes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend import dispatch, sparse_functions, sparse_iterative, sparse_methods, sparse_spectra
from ndual.frontend._methods import open_superlu
from ndual.frontend.detached import detached
from ndual.frontend.implicit import valued
from ndual.frontend.sparse_assembly import FORMATS, mark, set_item
from ndual.frontend.sparse_functions import full
from ndual.frontend.sparse_matrix import Sparse, dense, from_numbers, is_plain, lifted, numbered, of, placed, refuse
from ndual.rules.sparse import Factors, Form, factors_of_spsolve, product, solved, superlu_solve

_replaced: set[type] = set()
sparse_methods.attach()


def install() -> None:
    """Replace the methods in the classes that are loaded now."""
    base = getattr(sys.modules.get("scipy.sparse._base"), "_spbase", None)
    if base is None:
        return
    for kind in _kinds(base):
        if kind not in _replaced:
            _replaced.add(kind)
            for name, stand_in in _STAND_INS.items():
                original = vars(kind).get(name)
                if name == "__setitem__":
                    original = _writer(kind)
                if original is not None:
                    type.__setattr__(kind, name, stand_in(name, original))
    if "__new__" not in vars(base):
        type.__setattr__(base, "__new__", _new)
    library = sys.modules.get("scipy.sparse.linalg")
    if library is not None:
        open_superlu(library.SuperLU, _core.NDualArray, _superlu)


def _writer(kind: type) -> Any:
    """The method that writes into matrices of lil and dok, in the first class of each."""
    return getattr(kind, "__setitem__", None) if kind.__name__ in [f"_{name}_base" for name in FORMATS] else None


def _superlu(lu: Any, rhs: Any, trans: str = "N") -> Any:
    """``lu.solve(dual)``."""
    if _core.activity((rhs,)) == 2:
        return dispatch.dispatch(superlu_solve, (rhs, lu, trans), {})
    return lu.solve(_core.constants(rhs, True), trans)


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    below: type
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _matmul(name: str, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def matmul(self: Any, other: Any) -> Any:
        if type(other) is np.ndarray and type(getattr(self, "data", None)) is np.ndarray:  # in every step of a solver
            return original(self, other)
        other = lifted(other)
        if type(other) is Sparse or _core.is_dual(getattr(self, "data", None)):
            return of(self).dot(other)
        if not _core.is_dual(other):
            return original(self, other)
        if _core.activity((other,)) < 2:
            return _core.call_plain(original, (self, other), {}, True)
        if other.ndim == 0:
            return of(self).scaled(other)
        return dispatch.dispatch(product, (self, other), {})

    return matmul


def _operator(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes the way of matrices of duals if the other operand is dual."""
    reached = {"_divide": "__truediv__", "_rmatmul_dispatch": "__rmul__"}.get(name, name)
    reached = {"_add_dense": "__add__", "_sub_dense": "__sub__", "_rsub_dense": "__rsub__"}.get(reached, reached)
    reached = {"_add_sparse": "__add__", "_sub_sparse": "__sub__"}.get(reached, reached)

    @functools.wraps(original)
    def method(self: Any, other: Any, **kwargs: Any) -> Any:
        other = lifted(other)
        if type(other) is not Sparse and not _core.is_dual(other):
            return original(self, other, **kwargs)
        if name == "_rmatmul_dispatch" and np.ndim(other):
            return original(self, other, **kwargs)  # which transposes both
        if type(other) is not Sparse and _core.activity((other,)) < 2:
            return _core.call_plain(original, (self, other), kwargs, True)
        return getattr(of(self), reached)(other)

    return method


_STAND_INS: dict[str, Callable[..., Any]] = {
    "__setitem__": set_item,
    "_matmul_dispatch": _matmul,
    **dict.fromkeys(
        (
            "multiply",
            "_divide",
            "_rmatmul_dispatch",
            "_add_dense",
            "_sub_dense",
            "_rsub_dense",
            "_add_sparse",
            "_sub_sparse",
        ),
        _operator,
    ),
}


# ---- matrices made of duals ------------------------------------------------------------------------------------------


def _new(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A class of SciPy's called: what is made of duals is no instance of it, and needs no ``__init__``."""
    if (args or kwargs) and _core.current_level() is not None:
        held = args[0] if args else kwargs.get("arg1")
        if type(held) is Sparse or is_plain(held):
            held = lifted(held)
            if type(held) is Sparse:
                return _made(cls, held, args, kwargs)
        elif _core.activity((held,)) == 2:
            return _made(cls, held, args, kwargs)
    found = (dict if issubclass(cls, dict) else object).__new__(cls)
    return mark(found) if _format(cls) in FORMATS else found


def _made(kind: Any, held: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = _core.constants(dict(zip(("shape", "dtype", "copy"), args[1:], strict=False)) | kwargs)
    given.pop("arg1", None)
    if _format(kind) in FORMATS:
        found = _made(_coordinates(kind), held, args, kwargs)
        return found.tolil() if _format(kind) == "lil" else found.todok()
    dtype, copied = given.pop("dtype", None), given.pop("copy", False)
    if type(held) is Sparse:
        out = held.asformat(_format(kind))
        if out._is_matrix != ("matrix" in kind.__name__):
            out = Sparse(Form(numbered(kind(out._form.pattern))), out.data)
    elif isinstance(held, tuple):
        out = _of_cells(kind, held, given)
    else:
        out = _of_dense(kind, dense(held), given)
    out = out if dtype is None else out.astype(dtype)
    return out.copy() if copied else out


def _of_cells(kind: Any, held: tuple[Any, ...], given: dict[str, Any]) -> Sparse:
    data, where = dense(held[0]), _core.constants(held[1:])
    if _core.activity(where) == 2:
        raise refuse("dual indices", "Indices are constants")
    scattered = len(where) == 1 and _format(kind) != "dia"
    first = _coordinates(kind) if scattered else kind
    form = Form(first((np.arange(1.0, data.size + 1).reshape(data.shape), *where), **given))
    if len(form.pattern.shape) != 2:
        raise refuse("a sparse array of one dimension", "Use two-dimensional ones")
    out = Sparse(form, data)
    wanted = _format(kind)
    return out if wanted == form.format else out.asformat(wanted)


def _of_dense(kind: Any, array: Any, given: dict[str, Any]) -> Sparse:
    """All cells are kept: one that is zero may have a derivative."""
    if array.ndim == 1 and "matrix" in kind.__name__:
        array = array[None]
    if array.ndim != 2:
        raise refuse("a sparse array of one dimension", "Use two-dimensional ones")
    like = kind(array.shape)
    cells = np.indices(array.shape).reshape(2, -1)
    return placed(like, (cells[0], cells[1]), array.reshape(-1))


def _coordinates(kind: Any) -> Any:
    from scipy import sparse

    return sparse.coo_array if issubclass(kind, sparse.sparray) else sparse.coo_matrix


def _format(kind: Any) -> str:
    return str(kind.__name__[:3])


class _Numbering:
    """Values taken out of nested operands, with their numbers in their places."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.count = 0
        self.active = False

    def _next(self, data: Any, shape: tuple[int, ...]) -> Any:
        first = self.count + 1
        self.parts.append(np.reshape(data, -1))
        self.count += int(np.prod(shape))
        return np.arange(first, self.count + 1, dtype=float).reshape(shape)

    def of_matrices(self, obj: Any) -> Any:
        """Sparse matrices, and arrays that stand for such."""
        if isinstance(obj, list | tuple):
            return type(obj)(self.of_matrices(item) for item in obj)
        obj = lifted(obj)
        self.active |= type(obj) is Sparse or _core.is_dual(obj)
        if is_plain(obj):
            obj = of(obj)
        elif isinstance(obj, np.ndarray) or _core.is_dual(obj):
            obj = of(_array_kind()(obj))
        if type(obj) is not Sparse:
            return obj
        obj = obj._merged()
        return obj._form.filled(self._next(obj.data, obj.data.shape))

    def of_arrays(self, obj: Any) -> Any:
        """Vectors and numbers."""
        if isinstance(obj, list | tuple):
            return [self.of_arrays(item) for item in obj]
        self.active |= _core.is_dual(obj)
        numbers = self._next(np.stack([obj]) if np.ndim(obj) == 0 else obj, np.shape(obj))
        return numbers if numbers.ndim else float(numbers)


def _array_kind() -> Any:
    from scipy.sparse import coo_array

    return coo_array


def diagonals(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``diags`` and its like."""
    name = "data" if original.__name__ == "spdiags" else "diagonals"
    first, rest = (args[0], args[1:]) if args else (kwargs[name], ())
    if _core.activity(first) < 2:
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    options = {key: value for key, value in kwargs.items() if key not in (name, "dtype")}
    dtype = kwargs.get("dtype") if len(rest) < 4 else rest[3]
    numbering = _Numbering()
    pattern = original(numbering.of_arrays(first), *_core.constants(rest[:3]), **_core.constants(options))
    out = from_numbers(pattern, np.concatenate(numbering.parts))
    return out if dtype is None else out.astype(dtype)


def joined(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Functions that put matrices together, or leave out some of their cells."""
    numbering = _Numbering()
    numbers = numbering.of_matrices(args[0])
    if not numbering.active:
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    dtype = kwargs.pop("dtype", None)
    pattern = original(numbers, *_core.constants(args[1:]), **_core.constants(kwargs))
    parts = [part.astype(dense_type(numbering.parts), copy=False) for part in numbering.parts]
    out = from_numbers(pattern, np.concatenate(parts))
    return out if dtype is None else out.astype(dtype)


def dense_type(parts: list[Any]) -> Any:
    """The type of all parts together."""
    return np.result_type(*(part.dtype for part in parts))


def kron(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The Kronecker product."""
    a, b, *rest = (lifted(arg) for arg in args)
    if type(a) is not Sparse and type(b) is not Sparse:
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    a, b = (of(m if type(m) is Sparse or is_plain(m) else _array_kind()(m))._merged() for m in (a, b))
    p, q = a._form.pattern, b._form.pattern
    ones = [Form(m).filled((m.data != 0).astype(float)) for m in (p, q)]
    mine, its = (original(*pair, "coo", **kwargs) for pair in ((p, ones[1]), (ones[0], q)))
    left, right = (from_numbers(numbers, m.data) for numbers, m in ((mine, a), (its, b)))
    out = Sparse(left._form, left.data * right.data)
    return out.asformat((rest[0] if rest else kwargs.get("format")) or "csr")


# ---- solving ---------------------------------------------------------------------------------------------------------


class Factored:
    """What splu returns for a matrix of duals."""

    def __init__(self, matrix: Sparse, make: Callable[[Any], Any]) -> None:
        self._factors, self._data, self.shape = Factors(matrix._form, make), matrix.data.copy(), matrix.shape
        self._factors.of(_core.bottom(self._data))  # which raises where the matrix is singular

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """The solution for a right-hand side or for several."""
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        return dispatch.dispatch(solved, (self._data, dense(rhs), self._factors, trans), {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._factors.of(_core.bottom(self._data)), name)
        if name in ("L", "U"):
            raise refuse(f"splu(A).{name}", "Use splu(A).solve, or scipy.linalg.lu of A.toarray()")
        return found


def splu(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``splu``, or ``factorized``."""
    given = {"A": args[0]} | kwargs if args else kwargs
    matrix = lifted(given.pop("A"))
    if type(matrix) is not Sparse:
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    if original.__name__ == "factorized":
        return Factored(matrix, _splu()).solve
    options = _core.constants((args[1:], given))
    return Factored(matrix, lambda m: original(m, *options[0], **options[1]))


class Incomplete:
    """What spilu returns for a matrix of duals: it serves as a preconditioner, which moves no solution."""

    def __init__(self, lu: Any) -> None:
        self._lu, self.shape = lu, lu.shape

    def as_constant(self) -> Any:
        """What a routine is given."""
        return self._lu

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Zeros for zeros, by which an operator learns its type."""
        if _core.activity(rhs) == 2 or np.any(_core.constants(rhs)):
            raise refuse("spilu(A).solve other than as a preconditioner", "Use splu(A)")
        return np.zeros(np.shape(rhs), self._lu.L.dtype)


def spilu(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An incomplete factorisation of constants."""
    held = lifted(args[0] if args else kwargs["A"])
    found = original(*detached(args, {}), **detached(kwargs, {}))
    return Incomplete(found) if type(held) is Sparse else found


def spsolve(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A solution of which value, tangents and cotangents come from one factorisation."""
    given = dict(zip(("A", "b", "permc_spec", "use_umfpack"), args, strict=False)) | kwargs
    a, b = lifted(given["A"]), lifted(given["b"])
    if type(a) is not Sparse and type(b) is not Sparse and _core.activity((b,)) < 2:
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    if type(b) is Sparse or is_plain(b):
        return _sparse_solution(original, a, b, given)
    b = dense(b)
    plain = a if type(a) is not Sparse else a._form.filled(_core.bottom(a.data))
    if not is_plain(plain) or a.shape[0] != a.shape[1] or b.shape[:1] != a.shape[:1]:
        return original(plain, _core.bottom(b), **{key: given[key] for key in given if key not in "Ab"})  # raises
    matrix = of(a)
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.asformat("csc")
    dtype = np.result_type(matrix.dtype, b.dtype)
    dtype = dtype if dtype.char in "fdFD" else np.dtype(float)
    data = matrix.data if matrix.dtype == dtype else matrix.data.astype(dtype)
    b = b if b.dtype == dtype else b.astype(dtype)
    factors = Factors(matrix._form, lambda m: factors_of_spsolve(m, given.get("permc_spec")))
    return dispatch.dispatch(solved, (data, b.reshape(-1) if b.ndim == 2 and b.shape[1] == 1 else b, factors), {})


def _sparse_solution(original: Any, a: Any, b: Any, given: dict[str, Any]) -> Any:
    """The solution for sparse right-hand sides: a vector, or a sparse matrix of all cells."""
    if b.shape[1] == 1:
        return spsolve(original, (), given | {"A": a, "b": b.toarray().reshape(-1)})
    a = of(a) if is_plain(a) else a
    like = original(*(m._form.filled(_core.bottom(m.data)) for m in (a, of(b))))
    found = Factored(a.asformat("csc"), _splu()).solve(b.toarray())
    return full(like, valued(found, like.toarray()))


def _splu() -> Any:
    from scipy.sparse import linalg

    return getattr(linalg.splu, "original", linalg.splu)


def is_sparse(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``issparse`` and its like."""
    return original(args[0]._form.pattern if type(args[0]) is Sparse else args[0])


def refused(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of matrices that has no rule."""
    if any(type(lifted(a)) is Sparse for a in args):
        raise refuse(f"{original.__module__}.{original.__name__}", "Use spsolve or splu(A), or pass A.toarray()")
    return original(*args, **kwargs)


_SPARSE = "scipy.sparse."
_LINALG = _SPARSE + "linalg."
_JOINED = "hstack vstack bmat block_array block_diag tril triu"
_REFUSED = "onenormest funm_multiply_krylov"
HANDLERS: dict[str, Callable[..., Any]] = {
    **{f"{_SPARSE}{name}": diagonals for name in ("diags", "diags_array", "spdiags")},
    **{f"{_SPARSE}{name}": joined for name in _JOINED.split()},
    **{f"{_SPARSE}{name}": is_sparse for name in ("issparse", "isspmatrix")},
    **{f"{_SPARSE}{name}": refused for name in ("save_npz", "swapaxes", "permute_dims", "expand_dims")},
    **{f"{_LINALG}{name}": refused for name in _REFUSED.split()},
    **sparse_iterative.HANDLERS,
    **sparse_spectra.HANDLERS,
    **sparse_functions.HANDLERS,
    f"{_SPARSE}kron": kron,
    f"{_LINALG}splu": splu,
    f"{_LINALG}spilu": spilu,
    f"{_LINALG}factorized": splu,
    f"{_LINALG}spsolve": spsolve,
}


def handled(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of SciPy's that may be handed matrices of duals."""
    name = f"{_SPARSE}{'linalg.' if '.linalg.' in function.__module__ else ''}{function.__name__}"
    return HANDLERS[name](function, args, dict(kwargs))
