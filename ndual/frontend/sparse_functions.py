"""Functions of sparse matrices with duals: norms, powers, inverses, exponentials, triangular solves.

The value is SciPy's own; where its way to it has no derivative, the same function is written with operations that have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend import dispatch
from ndual.frontend.detached import detached
from ndual.frontend.implicit import valued
from ndual.frontend.operators import Operand
from ndual.frontend.sparse_iterative import given_to, is_quiet
from ndual.frontend.sparse_matrix import Sparse, dense, from_numbers, is_plain, lifted, of, placed, refuse, taken
from ndual.rules.sparse import Factors, solved

# Terms of a Taylor series of exp at norms up to one: the next would be 1/19!, less than the rounding of its derivative.
TERMS = 18


def _plainly(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return original(*_core.constants(args, True), **_core.constants(kwargs, True))


def _constant(matrix: Any) -> Any:
    """A matrix or an array as SciPy's function may have it."""
    return detached(lifted(matrix), {})


def full(like: Any, array: Any) -> Sparse:
    """A dense array of duals as a sparse matrix of some kind; all of its cells are kept."""
    cells = np.indices(array.shape).reshape(2, -1)
    return placed(like, (cells[0], cells[1]), array.reshape(-1))


def norm(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The norms of matrices from the sums of their rows and columns, those of rows or columns from dense ones."""
    given = given_to(original, args, kwargs)
    matrix, order, axis = lifted(given["x"]), given["ord"], given["axis"]
    if type(matrix) is not Sparse:
        return _plainly(original, args, kwargs)
    value = original(_constant(matrix), order, axis)  # which also raises where there is no such norm
    if isinstance(value, np.matrix):
        raise refuse("norm along an axis with a numpy.matrix as its result", "Take a sparse array (csr_array)")
    if axis is not None and np.size(axis) == 1:
        axis = axis[0] if isinstance(axis, tuple) else axis
        return valued(np.linalg.norm(matrix.toarray(), order, axis), value)
    matrix = matrix._merged()
    if order in (None, "fro", "f"):
        return _with_number(np.linalg.norm(matrix.data.reshape(-1)), value)
    if order == 2:
        from scipy.sparse.linalg import svds

        from ndual.frontend.sparse_spectra import singular

        routine = getattr(svds, "original", svds)
        given = {"k": 1, "return_singular_vectors": False, "v0": np.ones(min(matrix.shape))}
        return _with_number(singular(routine, (matrix,), given)[0], value)
    along = 0 if axis is None else axis[0] % 2  # the axis that the sums of order 1 run along
    rows = (along == 0) == (abs(order) == np.inf)
    sizes = abs(matrix) if rows else abs(matrix).T
    sums = sizes @ np.ones(sizes.shape[1], sizes.dtype)
    return _with_number(sums.max() if order > 0 else sums.min(), value)


def _with_number(dual: Any, value: Any) -> Any:
    return valued(dual.reshape(1), np.asarray(value, dual.dtype).reshape(1))[0]


def matrix_power(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Products in SciPy's order."""
    given = given_to(original, args, kwargs)
    matrix, power = lifted(given["A"]), given["power"]
    if type(matrix) is not Sparse or power == 0:
        return original(_constant(matrix), power)
    original(_constant(matrix)[:1, :1], power)  # which raises where there is no such power
    return _power(matrix, int(power))


def _power(matrix: Sparse, power: int) -> Any:
    if matrix.shape[0] != matrix.shape[1]:
        raise TypeError("sparse matrix is not square")
    if power == 1:
        return matrix.copy()
    half = _power(matrix, power // 2)
    return matrix @ half @ half if power % 2 else half @ half


def inverse(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The inverse with all of its cells: one that is zero may move."""
    (matrix,) = given_to(original, args, kwargs).values()
    matrix = lifted(matrix)
    if type(matrix) is not Sparse:
        return _plainly(original, args, kwargs)
    from scipy.sparse.linalg import splu

    like, matrix = original(_constant(matrix)), matrix.asformat("csc")
    factors = Factors(matrix._form, getattr(splu, "original", splu))
    found = dispatch.dispatch(solved, (matrix.data, np.eye(matrix.shape[0], dtype=matrix.dtype), factors), {})
    return full(like, valued(found, like.toarray()))


class _Triangle:
    """A triangle, as a factorisation of itself."""

    def __init__(self, routine: Any, matrix: Any, lower: bool, unit: bool) -> None:
        self.routine, self.matrix, self.lower, self.unit = routine, matrix, lower, unit

    def solve(self, b: Any, trans: str) -> Any:
        """Solve with the triangle or its transpose."""
        if trans == "N":
            return self.routine(self.matrix, b, lower=self.lower, unit_diagonal=self.unit)
        turned = self.matrix.T if trans == "T" else self.matrix.conj().T
        return self.routine(turned, b, lower=not self.lower, unit_diagonal=self.unit)


def triangular(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The solution with a triangle, as that with a factorisation."""
    given = given_to(original, args, kwargs)
    matrix, b = lifted(given["A"]), given["b"]
    if type(matrix) is not Sparse and _core.activity(b) < 2:
        return _plainly(original, args, kwargs)
    lower, unit, b = bool(given["lower"]), bool(given["unit_diagonal"]), dense(b)
    matrix = of(matrix)._merged()
    rows, columns, _ = matrix._form.cells
    if bool((rows < columns if lower else rows > columns).any()):
        raise refuse(
            "spsolve_triangular with cells in the other triangle", "Take scipy.sparse.tril or triu of it first"
        )
    if unit and bool((rows == columns).any()):
        raise refuse(
            "spsolve_triangular with unit_diagonal=True and cells on the diagonal",
            "Leave them out: scipy.sparse.tril(A, -1) or triu(A, 1)",
        )
    matrix = matrix if matrix.format in ("csr", "csc") else matrix.asformat("csr")
    dtype = np.result_type(matrix.dtype, b.dtype, np.float32)
    data = matrix.data if matrix.dtype == dtype else matrix.data.astype(dtype)
    factors = Factors(matrix._form, lambda m: _Triangle(original, m, lower, unit))
    return dispatch.dispatch(solved, (data, b if b.dtype == dtype else b.astype(dtype), factors), {})


def exponential(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The exponential of the dense matrix, as a sparse one of all cells."""
    (matrix,) = given_to(original, args, kwargs).values()
    matrix = lifted(matrix)
    if type(matrix) is not Sparse:
        if _core.activity((matrix,)) < 2:
            return _plainly(original, args, kwargs)
        raise refuse("scipy.sparse.linalg.expm of a dense array", "Take scipy.linalg.expm")
    from scipy import linalg

    expm = getattr(linalg.expm, "original", linalg.expm)
    like = original(_constant(matrix))
    return full(like, valued(dispatch.dispatch(expm, (matrix.toarray(),), {}), like.toarray()))


def exponential_times(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """exp(t A) B by a Taylor series in steps, in which every term is a product that has derivatives."""
    given = given_to(original, args, kwargs)
    matrix, b = lifted(given["A"]), given["B"]
    if is_quiet(matrix, b, given["start"], given["stop"], given["traceA"]):
        return _plainly(original, args, kwargs)
    a, b = Operand(matrix), dense(b)
    if hasattr(a.matrix, "matvec"):
        raise refuse("expm_multiply of a linear operator and duals", "Pass a sparse or a dense matrix")
    if _core.activity((given["start"], given["stop"])) == 2:
        raise refuse("expm_multiply with dual times", "Scale the matrix: expm_multiply(t * A, B)")
    given |= {"A": a.plain, "B": _core.bottom(b), "traceA": _core.bottom(given["traceA"])}
    value = original(**given)
    times = [1.0]
    single = all(given[key] is None for key in ("start", "stop", "num", "endpoint"))
    if not single:
        ends = {key: given[key] for key in ("start", "stop", "num", "endpoint") if given[key] is not None}
        times = np.linspace(**{"start": 0.0, "stop": 1.0} | ends).tolist()
    found, now = [], 0.0
    for t in times:
        b, now = _step(a, b, t - now), t
        found.append(b)
    moved = found[0] if single else np.stack(found)
    return valued(moved if moved.dtype == value.dtype else moved.astype(value.dtype), value)


def _step(a: Operand, b: Any, t: float) -> Any:
    """exp(t A) b: powers of A less the mean of its diagonal, in steps short enough for the series."""
    n = a.plain.shape[0]
    if not t or not n:
        return b
    shift = a.plain.trace() / n
    size = abs(a.plain - shift * _unit(a.plain)).sum(axis=0).max()
    steps = max(1, int(np.ceil(abs(t) * size)))
    factor = np.exp(t / steps * shift)
    for _ in range(steps):
        total = term = b
        for k in range(1, TERMS + 1):
            term = (a.times(term) - shift * term) * (t / (steps * k))
            total = total + term
        b = factor * total
    return b


def _unit(like: Any) -> Any:
    from scipy import sparse

    n = like.shape[0]
    return sparse.eye_array(n, format="csr") if is_plain(like) else np.eye(n)


def kronsum(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sum of both Kronecker products with unit matrices."""
    given = given_to(original, args, kwargs)
    a, b = lifted(given["A"]), lifted(given["B"])
    if type(a) is not Sparse and type(b) is not Sparse:
        return _plainly(original, args, kwargs)
    from scipy import sparse

    # The numbers of the cells of both: a unit matrix repeats them.
    a, b = of(a)._merged(), of(b)._merged()
    one, other = (sparse.eye_array(m.shape[0]) for m in (b, a))
    kron = getattr(sparse.kron, "original", sparse.kron)
    parts = (
        from_numbers(kron(one, a._form.pattern, "coo"), a.data),
        from_numbers(kron(b._form.pattern, other, "coo"), b.data),
    )
    total = (parts[0] + parts[1]).tocoo()
    like = original(_constant(a), _constant(b), format=given["format"])
    return placed(like, (total.row, total.col), total.data)


def find(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Rows, columns and values of the cells that are not zero."""
    matrix = lifted(given_to(original, args, kwargs)["A"])
    if type(matrix) is not Sparse:
        return _plainly(original, args, kwargs)
    matrix = matrix._merged()
    rows, columns, numbers = original(matrix._form.pattern)
    data = taken(matrix.data, numbers)
    kept = _core.bottom(data) != 0
    return rows[kept], columns[kept], data[kept]


_LINALG = "scipy.sparse.linalg."
HANDLERS: dict[str, Callable[..., Any]] = {
    f"{_LINALG}norm": norm,
    f"{_LINALG}matrix_power": matrix_power,
    f"{_LINALG}inv": inverse,
    f"{_LINALG}spsolve_triangular": triangular,
    f"{_LINALG}expm": exponential,
    f"{_LINALG}expm_multiply": exponential_times,
    "scipy.sparse.kronsum": kronsum,
    "scipy.sparse.find": find,
}
