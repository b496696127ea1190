"""The exceptions and warnings of ndual. Each says what was expected, what was got and what to do.

Nothing else lives here; every module may import it, and it imports nothing.
"""

from __future__ import annotations

from collections.abc import Callable

# How to get at the NumPy array that an object of another library holds, for messages.
ARRAY_OF = {
    "dask": "x.compute()",
    "jax": "np.asarray(x)",
    "jaxlib": "np.asarray(x)",
    "pandas": "x.to_numpy()",
    "polars": "x.to_numpy()",
    "tensorflow": "x.numpy()",
    "torch": "x.detach().cpu().numpy()",
    "xarray": "x.values",
}
_on_loss: list[Callable[[NdualError], None]] = []


class NdualError(Exception):
    """Base of every error that ndual raises on its own account."""

    # Whether code that catches the error and goes on would go on without the derivative.
    _loses = False

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if self._loses:
            for listener in _on_loss:
                listener(self)


def on_loss(listener: Callable[[NdualError], None]) -> None:
    """Have `listener` told of every error that stands for a lost derivative, when it is made."""
    _on_loss.append(listener)


class DerivativeLostError(NdualError, TypeError):
    """An operation would have kept the value of a dual and dropped its derivative.

    Typical causes are ``float(x)``, storing a dual into a float array that was made outside the
    differentiated call, and C code that reads the buffer of an array. Rewrite the line so that the value
    stays a dual, or wrap it in :func:`ndual.stop_gradient` if the derivative is meant to end there.
    """

    _loses = True


class NoRuleError(NdualError, TypeError):
    """A function was called on a dual and ndual has no derivative rule for it."""

    _loses = True


class AliasError(NdualError, ValueError):
    """Memory is shared in a way for which the derivative is not defined."""

    _loses = True


class CacheMismatchError(NdualError, ValueError):
    """A prepared object was called with arguments unlike the ones it was prepared for."""


class UnsupportedDtype(NdualError, TypeError):  # noqa: N818 - the public name
    """A dtype that cannot carry a derivative here, such as ``longdouble``."""

    _loses = True


class UndefinedDerivativeError(NdualError, ArithmeticError):
    """The result hangs on a point without derivative, such as an eigenvector of a repeated eigenvalue."""


class NotANumberError(NdualError, ArithmeticError):
    """With ``config(debug=True)``: the first operation that makes a NaN of numbers, by its name and the user's line."""


class RuleError(NdualError, RuntimeError):
    """With ``config(debug=True)``: a rule returned a derivative of another shape or type than it must have."""


class StaleDualError(NdualError, RuntimeError):
    """A dual was used after its derivative call had ended, or in another thread."""

    _loses = True


class ConstantOutputWarning(UserWarning):
    """The output carries no derivative although active values were compared on the way."""


class StrongZeroWarning(UserWarning):
    """With ``config(debug=True)``: zero times a number that is not finite was taken as zero in a derivative."""


class ArgumentTypeError(NdualError, TypeError):
    """An argument or an output of the differentiated function has a type for which the call has no meaning."""


class ArgumentValueError(NdualError, ValueError):
    """An argument has the right type and a value or shape that does not fit."""
