"""NumPy's namespace as type checkers know it."""

from numpy import *  # noqa: F403
from numpy import __array_api_version__ as __array_api_version__
from numpy import __array_namespace_info__ as __array_namespace_info__
from numpy import __version__ as __version__
