"""Exact derivatives of the NumPy code you already have."""

from ndual import errors
from ndual._core.include import get_include
from ndual.api import grad, jvp, stop_gradient, value_and_grad
from ndual.config import config
from ndual.custom import custom_rule, defrule, differentiate_with, elementwise, nondiff, using
from ndual.errors import (
    AliasError,
    ArgumentTypeError,
    ArgumentValueError,
    CacheMismatchError,
    ConstantOutputWarning,
    DerivativeLostError,
    NdualError,
    NoRuleError,
    NotANumberError,
    RuleError,
    StaleDualError,
    StrongZeroWarning,
    UndefinedDerivativeError,
    UnsupportedDtype,
)
from ndual.frontend.dispatch import install as _install
from ndual.frontend.lift import lift
from ndual.jacobians import derivative, jacfwd, jacobian, jacrev
from ndual.lifted import Lifted, lift_value, primal, tangent, zero_lifted
from ndual.prepare import prepare_derivative, prepare_gradient, prepare_jacobian
from ndual.products import prepare_hvp, prepare_vjp
from ndual.pullback import linearize, vjp
from ndual.recompute import checkpoint
from ndual.second import hessian, hvp, prepare_hessian
from ndual.trace import TraceTable, trace_table

_install()
__version__ = "0.1.0"

__all__ = [
    "AliasError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "CacheMismatchError",
    "ConstantOutputWarning",
    "DerivativeLostError",
    "Lifted",
    "NdualError",
    "NoRuleError",
    "NotANumberError",
    "RuleError",
    "StaleDualError",
    "StrongZeroWarning",
    "TraceTable",
    "UndefinedDerivativeError",
    "UnsupportedDtype",
    "checkpoint",
    "config",
    "custom_rule",
    "defrule",
    "derivative",
    "differentiate_with",
    "elementwise",
    "errors",
    "get_include",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "lift",
    "lift_value",
    "linearize",
    "nondiff",
    "prepare_derivative",
    "prepare_gradient",
    "prepare_hessian",
    "prepare_hvp",
    "prepare_jacobian",
    "prepare_vjp",
    "primal",
    "stop_gradient",
    "tangent",
    "trace_table",
    "using",
    "value_and_grad",
    "vjp",
    "zero_lifted",
]
