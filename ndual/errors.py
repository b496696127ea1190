"""The exceptions and warnings of ndual. Each says what was expected, what was got and what to do.

Nothing else lives here; every module may import it, and it imports nothing.
"""


class NdualError(Exception):
    """Base of every error that ndual raises on its own account."""


class DerivativeLostError(NdualError, TypeError):
    """An operation would have kept the value of a dual and dropped its derivative.

    Typical causes are ``float(x)``, storing a dual into a float array that was made outside the
    differentiated call, and C code that reads the buffer of an array. Rewrite the line so that the value
    stays a dual, or wrap it in :func:`ndual.stop_gradient` if the derivative is meant to end there.
    """


class NoRuleError(NdualError, TypeError):
    """A function was called on a dual and ndual has no derivative rule for it."""


class AliasError(NdualError, ValueError):
    """Memory is shared in a way for which the derivative is not defined."""


class CacheMismatchError(NdualError, ValueError):
    """A prepared object was called with arguments unlike the ones it was prepared for."""


class UnsupportedDtype(NdualError, TypeError):  # noqa: N818 - the public name
    """A dtype that cannot carry a derivative here, such as ``longdouble``."""


class UndefinedDerivativeError(NdualError, ArithmeticError):
    """The result hangs on a point without derivative, such as an eigenvector of a repeated eigenvalue."""


class StaleDualError(NdualError, RuntimeError):
    """A dual was used after its derivative call had ended, or in another thread."""


class ConstantOutputWarning(UserWarning):
    """The output carries no derivative although active values were compared on the way."""


class ArgumentTypeError(NdualError, TypeError):
    """An argument or an output of the differentiated function has a type for which the call has no meaning."""


class ArgumentValueError(NdualError, ValueError):
    """An argument has the right type and a value or shape that does not fit."""
