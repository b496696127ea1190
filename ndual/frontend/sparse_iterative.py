"""Iterative solvers of SciPy with duals in the matrix, the operator or the right-hand side.

The user's routine finds the solution once, with the user's tolerance, and the same routine then solves for tangents and
cotangents, with A and with A^H. Preconditioners and first guesses do not move a solution.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend import dispatch
from ndual.frontend.detached import detached
from ndual.frontend.implicit import settled, still, valued
from ndual.frontend.operators import Operand, adjoint_of
from ndual.frontend.sparse_matrix import Sparse, dense, is_plain, lifted, refuse
from ndual.rules import registry
from ndual.rules.sparse import superlu_solve

SOLVERS = "cg cgs bicg bicgstab gmres lgmres minres qmr gcrotmk tfqmr"
LEAST_SQUARES = "lsqr lsmr"
# Their matrices are their own adjoints; an operator of theirs needs no rmatvec.
_HERMITIAN = ("cg", "minres")
# What belongs to the user's own run: a first guess, what watches it, and what it keeps for the next one.
_ONCE = ("A", "b", "x0", "callback", "callback_type", "show", "check", "outer_v", "prepend_outer_v", "CU", "discard_C")


class Iterated:
    """The user's routine for constants, as the solve of a factorisation."""

    def __init__(self, routine: Any, matrix: Any, options: dict[str, Any], relative: float) -> None:
        self.routine, self.matrix = routine, matrix
        self.options = {key: value for key, value in options.items() if key not in _ONCE}
        if "rtol" in options:
            # An absolute tolerance is one of the residual; right-hand sides of any size are brought to length one.
            self.options |= {"rtol": max(options["rtol"], relative)} | ({"atol": 0.0} if "atol" in options else {})

    def solve(self, b: Any, trans: str) -> Any:
        """The solutions for the columns of a right-hand side."""
        if b.ndim == 2:
            return np.stack([self.solve(column, trans) for column in b.T], -1)
        if trans == "T":
            return np.conj(self.solve(np.conj(b), "H"))
        matrix, options = self.matrix, self.options
        if trans == "H" and self.routine.__name__ not in _HERMITIAN:
            matrix = adjoint_of(matrix)
            turned = {key: _turned(options[key], b) for key in options if key[0] == "M"}
            if "M1" in turned:
                turned = {"M1": turned["M2"], "M2": turned["M1"]}
            options = options | turned
        size = np.linalg.norm(b)
        if not size:
            return np.zeros(b.shape, np.result_type(b, matrix.dtype or b.dtype))
        try:
            with _core.Pause():  # an operator's code is the user's, and runs on constants here
                x, info = self.routine(matrix, b / size, **options)
        except NotImplementedError:
            raise refuse(
                f"{self.routine.__name__} with an operator without rmatvec", 'Give it one, or take mode="forward"'
            ) from None
        return x.reshape(-1) * size if info == 0 else self.failed(x, info)

    def failed(self, x: Any, info: Any) -> Any:
        """What there is instead of a derivative."""
        return unsolved(self.routine, x, f"info={info}")


def _turned(preconditioner: Any, b: Any) -> Any:
    """Its adjoint; None where there is none, for the solution is the same without."""
    if preconditioner is None:
        return None
    found = adjoint_of(preconditioner)
    try:
        if hasattr(found, "matvec"):
            with _core.Pause():
                found.matvec(b)
    except NotImplementedError:
        return None
    return found


def unsolved(routine: Any, x: Any, said: str) -> Any:
    """NaN for a derivative that hangs on a run without convergence, which raises an error in the end."""
    registry.undefined(f"{routine.__name__} returned {said}: it did not converge, and there is no derivative")
    return np.full(x.size, np.nan, x.dtype)


class Unsolved:
    """What there is instead of a solver where the user's own run did not converge."""

    def __init__(self, solver: Iterated, info: Any) -> None:
        self.solver, self.info = solver, info

    def solve(self, b: Any, trans: str) -> Any:
        """No solution."""
        return self.solver.failed(b.reshape(-1), self.info).reshape(b.shape)


def given_to(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], defaults: bool = True) -> dict[str, Any]:
    """The arguments of a call by name, with the defaults or without."""
    bound = inspect.signature(original).bind(*args, **kwargs)
    if defaults:
        bound.apply_defaults()
    return dict(bound.arguments)


def backed(b: Any, solver: Any) -> Any:
    """The solution for a right-hand side that may be dual, by a solver of constants."""
    return dispatch.dispatch(superlu_solve, (b, solver, "N"), {})


def is_quiet(*objs: Any) -> bool:
    """Whether nothing can carry a derivative: plain matrices and arrays."""
    return _core.activity(objs) < 2 and not any(
        type(lifted(obj)) is Sparse or hasattr(obj, "matvec") for obj in objs if obj is not None
    )


def iterative(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The solution, of which ``A x = b`` says how it moves."""
    given = given_to(original, args, kwargs)
    if is_quiet(*(given.get(key) for key in ("A", "b", "x0", "shift", "M", "M1", "M2"))):
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    a, b = Operand(given["A"]), lifted(given["b"])
    if type(b) is Sparse or is_plain(b):
        raise refuse(f"{original.__name__} with a sparse right-hand side", "Pass b.toarray()")
    b, shift = dense(b), given.get("shift", 0.0)
    for key in ("M", "M1", "M2"):
        if given.get(key) is not None:
            given[key] = detached(lifted(given[key]), {})
    given |= {key: _core.bottom(dense(given[key])) for key in ("x0", "shift") if given.get(key) is not None}
    given["b"] = value = _core.bottom(b)
    x, info = original(a.plain, **{key: given[key] for key in given if key != "A"})
    if not a.active and _core.activity((b, shift)) < 2:
        return x, info
    scale = np.linalg.norm(value)
    solver: Any = Iterated(original, a.kept(x.reshape(-1)), given, given.get("atol", 0.0) / scale if scale else 0.0)
    if info != 0:
        solver = Unsolved(solver, info)

    def improve(x: Any) -> tuple[Any, ...]:
        residual = b.reshape(-1) - a.times(x)
        if "shift" in given:
            residual = residual + shift * x
        return (x + backed(still(residual), solver) if _core.is_dual(residual) else x,)

    (moved,) = settled((x.reshape(-1),), improve)
    return moved.reshape(x.shape), info


class _Augmented:
    """A least-squares problem with its damping: min |A x - b|² + damp² |x - x0|²."""

    def __init__(self, a: Operand, b: Any, damp: Any, x0: Any) -> None:
        self.a, self.damp, self.damped = a, damp, bool(_core.bottom(damp) != 0) or _core.is_dual(damp)
        self.size = b.size
        self.right = b.reshape(-1) if not self.damped else np.concatenate([b.reshape(-1), damp * x0])

    def times(self, x: Any) -> Any:
        """The matrix, and the damping below it, times a vector."""
        top = self.a.times(x)
        return top if not self.damped else np.concatenate([top, self.damp * x])

    def adjoint_times(self, r: Any) -> Any:
        """Their adjoint times a vector."""
        top = self.a.adjoint_times(r[: self.size])
        return top if not self.damped else top + self.damp * r[self.size :]

    def kept(self, x: Any) -> Any:
        """Both as an operator on constants."""
        from scipy.sparse.linalg import LinearOperator, aslinearoperator

        plain, damp = aslinearoperator(self.a.kept(x)), float(_core.bottom(self.damp))
        if not self.damped:
            return plain
        (m, n), a = plain.shape, Operand(plain)

        def above(x: Any) -> Any:
            return np.concatenate([a.times(x), damp * x])

        def back(r: Any) -> Any:
            return a.adjoint_times(r[:m]) + damp * r[m:]

        return LinearOperator((m + n, n), above, back, dtype=np.result_type(plain.dtype or float, float))


def _stopped(routine: Any, found: tuple[Any, ...]) -> bool:
    """Whether lsqr or lsmr stopped for the number of iterations, short even of what they ask for by default, 1e-6."""
    if found[1] != 7:
        return False
    name = routine.__name__
    residual, across, norm, size = (found[k] for k in ((3, 7, 5, 8) if name == "lsqr" else (3, 4, 5, 7)))
    return bool(across > 1e-6 * norm * residual and residual > 1e-6 * norm * size)


class _LeastSquares:
    """The pseudoinverse of constants, by the user's routine."""

    def __init__(self, routine: Any, operator: Any, options: dict[str, Any]) -> None:
        self.routine, self.operators = routine, {"N": operator, "H": operator.H}
        self.lost = False  # the user's own run did not converge
        dropped = ("A", "b", "damp", "show", "calc_var", "x0")
        self.options = {key: value for key, value in options.items() if key not in dropped}

    def solve(self, b: Any, trans: str) -> Any:
        """The least solutions for the columns of a right-hand side."""
        if b.ndim == 2:
            return np.stack([self.solve(column, trans) for column in b.T], -1)
        if trans in "TC":
            return np.conj(self.solve(np.conj(b), "H" if trans == "T" else "N"))
        operator = self.operators[trans]
        if not self.lost:
            with _core.Pause():
                found: Any = self.routine(operator, b, **self.options)
            if not _stopped(self.routine, found):
                return found[0]
        return unsolved(self.routine, np.zeros(operator.shape[1], np.result_type(operator.dtype, b)), "istop=7")


class _Adjoint:
    """The same with the adjoint in the place of the matrix."""

    def __init__(self, solver: _LeastSquares) -> None:
        self.solver = solver

    def solve(self, b: Any, trans: str) -> Any:
        """Solve with the other of both."""
        return self.solver.solve(b, {"N": "H", "H": "N", "T": "C", "C": "T"}[trans])


def least_squares(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The least solution and its norms, at constant rank.

    With P the pseudoinverse, r = b - A x and q = P^H x: dx = P dr + P P^H dA^H r + (1 - P A) dA^H q.
    """
    given = given_to(original, args, kwargs)
    if is_quiet(given["A"], given["b"], given["damp"], given["x0"]):
        return original(*_core.constants(args, True), **_core.constants(kwargs, True))
    a, b, damp = Operand(given["A"]), dense(given["b"]), given["damp"]
    start = dense(given["x0"]) if given["x0"] is not None else None
    given |= {"b": _core.bottom(b), "damp": float(_core.bottom(damp))}
    # SciPy's lsqr turns its rows by a damping above zero alone; the square of any enters its first norm.
    ignored = original.__name__ == "lsqr" and given["damp"] < 0
    damp = 0.0 if ignored else damp
    given |= {"x0": None if start is None else _core.bottom(start)}
    found = original(a.plain, **{key: given[key] for key in given if key != "A"})
    x = found[0]
    if not a.active and _core.activity((b, damp, start)) < 2:
        return found
    start = np.zeros_like(x) if start is None else start
    problem = _Augmented(a, b, damp, start)
    plain = problem.kept(x)
    solver, operator = _LeastSquares(original, plain, given), Operand(plain)
    turned = _Adjoint(solver)
    moving = a.active or _core.is_dual(damp)

    def improve(x: Any, q: Any) -> tuple[Any, ...]:
        residual = problem.right - problem.times(x)
        better = x + backed(still(residual), solver)
        if not moving:
            return better, q
        back = problem.adjoint_times(residual)
        better = better + backed(backed(still(back - operator.adjoint_times(residual)), turned), solver)
        if problem.damped:  # full rank
            return better, q
        # Beyond the range of A^H, where x stays where it was guessed.
        beyond = still(start + problem.adjoint_times(q) - x)
        better = better + beyond - backed(operator.times(beyond), solver)
        return better, q + backed(still(better - start - problem.adjoint_times(q)), turned)

    q = turned.solve(x - _core.bottom(start), "N")
    solver.lost = _stopped(original, found)  # from here on: q is a value
    moved = settled((x, q), improve)[0]
    return _with_norms(original.__name__, found, moved, problem, ignored)


def _with_norms(name: str, found: tuple[Any, ...], x: Any, problem: _Augmented, ignored: bool) -> tuple[Any, ...]:
    """The results of lsqr or lsmr; what the iteration estimates on its way has a derivative of NaN.

    So has the first norm of lsqr where it `ignored` the damping, which is then no norm of a residual.
    """
    residual = problem.right - problem.times(x)
    whole, part = np.linalg.norm(residual), np.linalg.norm(residual[: problem.size])
    size = np.linalg.norm(x)
    unknown = size * np.nan
    known = {3: unknown if ignored else part, 4: whole, 8: size} if name == "lsqr" else {3: whole, 7: size}

    def one(k: int, value: Any) -> Any:
        if k == 0:
            return x
        if not isinstance(value, float | np.ndarray):  # counts, and a variance that was not asked for
            return value
        return valued(known.get(k, unknown) + np.zeros(np.shape(value)), np.asarray(value))[()]

    return tuple(one(k, value) for k, value in enumerate(found))


HANDLERS: dict[str, Callable[..., Any]] = {
    **{f"scipy.sparse.linalg.{name}": iterative for name in SOLVERS.split()},
    **{f"scipy.sparse.linalg.{name}": least_squares for name in LEAST_SQUARES.split()},
}
