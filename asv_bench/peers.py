"""The other libraries, each behind one function: a :class:`suite.Case` becomes a call.

In forward mode the call gives (value, slope), in reverse mode (value, gradient with a part for each active argument).

Two kinds: those that take the Python code as it stands (with plain NumPy, or with their own namespace in NumPy's place
if that is faster) and those for which it was rewritten (``rewritten_torch``, ``rewritten_jax``). A peer that is not
installed is missing; one that cannot do a case says why. Every call starts from the arrays x and v, so that libraries
whose arrays are NumPy object arrays of dual numbers make those inside it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from suite import Case

Call = Callable[[], tuple[Any, Any]]
SLOW = 1.0  # seconds: no second way is tried after one that took longer


def _with_namespace(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """The same code with other globals, as if the user had changed an import line."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__)


def _fastest(ways: list[Callable[[], Call]]) -> Call:
    """The quickest of several ways that work; the error of the last if none does."""
    best: Call | None = None
    shortest = np.inf
    trouble: Exception | None = None
    for make in ways:
        try:
            call = make()
            begin = time.perf_counter()
            call()
            if time.perf_counter() - begin < SLOW:
                begin = time.perf_counter()
                call()
            taken = time.perf_counter() - begin
        except Exception as error:
            trouble = error
            continue
        if taken < shortest:
            best, shortest = call, taken
        if taken > SLOW:
            break
    if best is None:
        raise trouble or RuntimeError("no way to call it")
    return best


def _autograd(case: Case) -> Call:
    import autograd.numpy as anp
    import autograd.scipy.linalg as linalg
    from autograd import make_jvp

    active, passive, direction = case.inputs()

    def make(function: Callable[..., Any]) -> Call:
        at = make_jvp(lambda z: function(*z, *passive))(active)
        return lambda: at(direction)

    own = _with_namespace(case.function, np=anp, solve_triangular=linalg.solve_triangular)
    return _fastest([lambda: make(own), lambda: make(case.function)])


def _dualpy(case: Case) -> Call:
    from dualpy import jvp

    active, passive, direction = case.inputs()
    function = case.function

    def closed(*z: Any) -> Any:
        return function(*z, *passive)

    return lambda: jvp(closed, active, direction)


def _num_dual(case: Case) -> Call:
    from num_dual import Dual64

    active, passive, direction = case.inputs()

    def lift(value: Any, slope: Any) -> Any:
        if np.ndim(value) == 0:
            return Dual64(value, slope)
        cells = np.empty(value.size, dtype=object)
        cells[:] = list(map(Dual64, value.ravel().tolist(), slope.ravel().tolist()))
        return cells.reshape(value.shape)

    def call() -> tuple[Any, Any]:
        out = case.function(*map(lift, active, direction), *passive)
        return out.value, out.first_derivative

    return call


def _fastdual(case: Case) -> Call:
    from fastdual import Dual, DualArray, der

    active, passive, direction = case.inputs()

    def make(own: bool) -> Call:
        def lift(value: Any, slope: Any, seed: Any) -> Any:
            if np.ndim(value) == 0:
                return float(value) + float(slope) * seed
            cells = np.empty(value.size, dtype=object)
            cells[:] = [x + v * seed for x, v in zip(value.ravel().tolist(), slope.ravel().tolist(), strict=True)]
            cells = cells.reshape(value.shape)
            return cells.view(DualArray) if own else cells

        def call() -> tuple[Any, Any]:
            seed = Dual(0.0)
            out = case.function(*(lift(x, v, seed) for x, v in zip(active, direction, strict=True)), *passive)
            return out.val, der(out, seed)

        return call

    return _fastest([lambda: make(False), lambda: make(True)])


def _torch(case: Case) -> Call:
    return importlib.import_module("rewritten_torch").jvp(case)


def _jax(case: Case) -> Call:
    return importlib.import_module("rewritten_jax").jvp(case)


def _autograd_reverse(case: Case) -> Call:
    import autograd.numpy as anp
    import autograd.scipy.linalg as linalg
    from autograd import value_and_grad

    active, passive, _ = case.inputs()

    def make(function: Callable[..., Any]) -> Call:
        evaluate = value_and_grad(function, tuple(range(len(active))))
        return lambda: evaluate(*active, *passive)

    own = _with_namespace(case.function, np=anp, solve_triangular=linalg.solve_triangular)
    return _fastest([lambda: make(own), lambda: make(case.function)])


def _torch_reverse(case: Case) -> Call:
    module = importlib.import_module("rewritten_torch")
    return _fastest([lambda: module.backward(case), lambda: module.value_and_grad(case)])


def _jax_reverse(case: Case) -> Call:
    return importlib.import_module("rewritten_jax").value_and_grad(case)


Peers = dict[str, Callable[[Case], Call]]
FORWARD: Peers = {
    "autograd": _autograd,
    "dualpy": _dualpy,
    "num-dual": _num_dual,
    "fastdual": _fastdual,
    "torch.func*": _torch,
    "jax.jit*": _jax,
}
REVERSE: Peers = {"autograd": _autograd_reverse, "torch*": _torch_reverse, "jax.jit*": _jax_reverse}


def is_rewritten(name: str) -> bool:
    """Whether the library needs the function in other words than NumPy's."""
    return name.endswith("*")


def parts(result: tuple[Any, Any]) -> list[np.ndarray]:
    """Value and derivative as a flat list of arrays."""
    value, derivative = result
    rest = derivative if isinstance(derivative, tuple | list) else [derivative]
    return [np.asarray(x.detach() if hasattr(x, "detach") else x, dtype=float) for x in (value, *rest)]


def calls(case: Case, makers: Peers, want: tuple[Any, Any]) -> tuple[dict[str, Call], dict[str, str]]:
    """The peers that do this case rightly, and for the others the reason in a word or two."""
    good: dict[str, Call] = {}
    reasons: dict[str, str] = {}
    for name, make in makers.items():
        try:
            call = make(case)
            pairs = list(zip(parts(call()), parts(want), strict=True))
        except ImportError:
            reasons[name] = "missing"
        except Exception as error:
            reasons[name] = type(error).__name__
        else:
            if all(a.shape == b.shape and np.allclose(a, b, rtol=1e-8, atol=1e-10) for a, b in pairs):
                good[name] = call
            else:
                reasons[name] = "wrong"
    return good, reasons
