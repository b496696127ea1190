"""``A @ x`` with a sparse A: SciPy's matrix comes first, looks at the class of x alone and takes its memory.

So one method of SciPy's sparse classes is replaced by one that hands duals to the rule, the first time a derivative is
taken while ``scipy.sparse`` is loaded. It stays: it costs 0.1 µs of the microseconds that a product takes, and a change
to a type empties the interpreter's caches of its attributes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ndual import _core
from ndual.frontend import dispatch
from ndual.rules.sparse import product

_replaced: set[type] = set()


def install() -> None:
    """Replace the method in the classes that are loaded now."""
    base = getattr(sys.modules.get("scipy.sparse._base"), "_spbase", None)
    if base is None:
        return
    for kind in _kinds(base):
        original = vars(kind).get("_matmul_dispatch")
        if original is not None and kind not in _replaced:
            _replaced.add(kind)
            type.__setattr__(kind, "_matmul_dispatch", _stand_in(original))


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    below: type
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _stand_in(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def matmul(self: Any, other: Any) -> Any:
        if not _core.is_dual(other) or other.ndim == 0:
            return original(self, other)
        if _core.activity((other,)) == 2:
            return dispatch.dispatch(product, (self, other), {})
        return _core.call_plain(original, (self, other), {}, True)

    return matmul
