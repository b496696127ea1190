"""Matrices and linear operators that hold duals, or whose products do: as routines may have them, and as duals do.

Calls from here count as the user's, so that an operator's own code reaches the rules while SciPy runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual import _core
from ndual.frontend.detached import detached
from ndual.frontend.sparse_matrix import Sparse, lifted, refuse


class Operand:
    """A matrix or an operator, as a routine may have it and as duals are multiplied with it."""

    def __init__(self, matrix: Any) -> None:
        from scipy.sparse.linalg import LinearOperator

        if type(matrix).__name__ == "MatrixLinearOperator":
            matrix = matrix.A
        self.matrix = matrix = lifted(matrix)
        self.active = type(matrix) is Sparse or _core.activity(matrix) == 2
        if isinstance(matrix, LinearOperator):
            products = ("matvec", "rmatvec", "matmat", "rmatmat")
            watched = {name: self._watched(getattr(matrix, name)) for name in products}
            self.plain: Any = LinearOperator(matrix.shape, **watched, dtype=matrix.dtype)
        else:
            self.plain = detached(matrix, {})

    def _watched(self, product: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A product as a routine may call it, remembering whether a dual came out."""

        def call(x: Any) -> Any:
            y = product(x)
            self.active |= _core.activity(y) == 2
            return _core.bottom(y)

        return call

    def kept(self, x: Any) -> Any:
        """The same for constants, as it is now: cotangents ask for it when the function has run."""
        if not hasattr(self.matrix, "matvec"):
            return self.plain
        found = detached(self.matrix, {})
        y = found.matvec(x)
        if _core.activity(y) < 2 and np.array_equal(y, self.plain.matvec(x), equal_nan=True):
            return found
        raise refuse("a linear operator whose duals are out of reach", "Keep them in its closure or in its attributes")

    def times(self, x: Any) -> Any:
        """The product, of which either may be dual."""
        return self.matrix.matvec(x) if hasattr(self.matrix, "matvec") else self.matrix @ x

    def adjoint_times(self, x: Any) -> Any:
        """The product with the adjoint."""
        return self.matrix.rmatvec(x) if hasattr(self.matrix, "rmatvec") else adjoint_of(self.matrix) @ x


def adjoint_of(matrix: Any) -> Any:
    """The adjoint of a matrix or an operator."""
    if hasattr(matrix, "rmatvec"):  # whose own adjoint takes a missing product for a function
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(matrix.shape[::-1], matrix.rmatvec, matrix.matvec, dtype=matrix.dtype)
    return matrix.conj().T if matrix.dtype.kind == "c" else matrix.T
