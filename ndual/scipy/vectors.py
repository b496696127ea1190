"""What SciPy passes as float64, and what it gets as float64 arrays of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndual._core import is_constant, is_dual, user_location
from ndual.errors import ArgumentTypeError, DerivativeLostError, UnsupportedDtype

FLOAT64 = np.dtype(np.float64)


def check_callable(f: Any, adapter: str) -> None:
    """Refuse what is no function."""
    if not callable(f):
        raise ArgumentTypeError(f"{adapter} expects a function; got {type(f).__name__}. Pass f itself, not f(x)")


def refuse_dual(x: Any, what: str) -> None:
    """Adapters work for SciPy, whose compiled code knows no duals."""
    if is_dual(x) and not is_constant(x):
        raise DerivativeLostError(
            f"{what}: expected plain numbers, which SciPy works with; got a dual{user_location()}. "
            "Call the function itself and not its adapter, or pass ndual.stop_gradient(x) if no derivative is meant"
        )


def as_vector(x: Any) -> np.ndarray:
    """SciPy's vector as float64 in C order; it may pass float32, int8 or a view with strides."""
    if type(x) is np.ndarray and x.dtype is FLOAT64 and x.flags.c_contiguous:
        return x
    refuse_dual(x, "x")
    x = np.asarray(x)
    if x.dtype.kind not in "fiub" or x.dtype.num == np.dtype(np.longdouble).num:
        raise UnsupportedDtype(f"x: expected real numbers that fit float64; got {x.dtype}. Convert them to float64")
    return np.ascontiguousarray(x, np.float64).reshape(x.shape)


def as_state(y: Any) -> np.ndarray:
    """The state of an equation in C order: float64, or complex128 where SciPy works with complex numbers."""
    refuse_dual(y, "y")
    if np.iscomplexobj(y) and np.asarray(y).dtype.char in "FD":
        return np.ascontiguousarray(y, np.complex128)
    return as_vector(y)


def as_args(args: Any) -> tuple[Any, ...]:
    """Further arguments as SciPy understands them: anything but a tuple is one argument."""
    return args if isinstance(args, tuple) else (args,)


def fresh(result: Any, kinds: str = "fiub") -> Any:
    """A result as float64: a float for a number, a C-contiguous array of its own otherwise.

    With "c" among `kinds` complex numbers stay complex.
    """
    if type(result) is np.float64 or type(result) is float:
        return float(result)
    if type(result) is np.ndarray and result.dtype is FLOAT64 and result.ndim:
        return result.copy()  # in C order
    refuse_dual(result, "the result of f")
    array = np.asarray(result)
    if array.dtype.kind not in kinds:
        raise ArgumentTypeError(f"expected f to return real numbers; got {array.dtype}. Return floats")
    if array.ndim == 0:
        return array[()].item() if array.dtype.kind == "c" else float(array)
    return np.array(array, np.complex128 if array.dtype.kind == "c" else np.float64, order="C")


def fresh_jacobian(jac: Any, value: Any, n: int, kinds: str = "fiub") -> np.ndarray:
    """A derivative as float64 in C order, ``(*value.shape, n)``.

    A function that returns a list of numbers has a list of rows, None where a number does not depend on x.
    """
    if type(jac) is np.ndarray:
        # The rows of a derivative are memory of their own, so that only what lies otherwise is copied.
        if jac.dtype is FLOAT64:
            return jac if jac.flags.c_contiguous else jac.copy()
    else:
        jac = _stack(jac, value, n)
    found: np.ndarray = np.atleast_1d(fresh(jac, kinds))
    return found


def _stack(jac: Any, value: Any, n: int) -> Any:
    if jac is None:
        return np.zeros((*np.shape(value), n))
    if isinstance(jac, list | tuple):
        return np.stack([_stack(part, v, n) for part, v in zip(jac, value, strict=True)])
    return jac
