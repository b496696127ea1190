"""CuPy as the rules call it: NumPy's names and keywords that CuPy does not have, filled in."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import cupy
import numpy as np

__all__ = ["NAMESPACE", "counterpart"]


class Namespace:
    """A module of CuPy, with what `extra` has in place of its own."""

    def __init__(self, module: Any, extra: dict[str, Any]) -> None:
        self.__name__ = module.__name__
        self._module = module
        self.__dict__.update(extra)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._module, name)
        return found


def _errstate(**kwargs: Any) -> Any:
    """Devices set no flags."""
    return contextlib.nullcontext()


def _insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Of whole numbers that say where parts go, which are few."""
    host: Any = [cupy.asnumpy(a) if isinstance(a, cupy.ndarray) else a for a in (arr, obj, values)]
    return cupy.asarray(np.insert(host[0], host[1], host[2], axis=axis))


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """CuPy's wraps, whatever is asked for; clipping is done before."""
    indices = cupy.asarray(indices)
    if mode == "clip":
        indices = cupy.clip(indices, 0, (a.size if axis is None else a.shape[axis]) - 1)
    return cupy.take(a, indices, axis, out)


def _solve(a: Any, b: Any) -> Any:
    """CuPy's, with the axes before the last two broadcast as NumPy's; one factorisation serves one matrix."""
    if b.ndim < 2 or a.shape[:-2] == b.shape[:-2]:
        return cupy.linalg.solve(a, b)
    if a.ndim == 2:
        columns = cupy.moveaxis(b, -2, 0)
        found = cupy.linalg.solve(a, columns.reshape(len(a), -1)).reshape(columns.shape)
        return cupy.moveaxis(found, 0, -2)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return cupy.linalg.solve(*[cupy.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b)])


def _beside(module: Any) -> Any:
    """The part of CuPy that stands for a library beside NumPy."""
    return importlib.import_module(f"cupyx.{module.__name__}")


_EXTRA = {
    "beside": _beside,
    "errstate": _errstate,
    "insert": _insert,
    "linalg": Namespace(cupy.linalg, {"solve": _solve}),
    "take": _take,
}
NAMESPACE: Any = Namespace(cupy, _EXTRA)


def counterpart(dotted: str) -> Any:
    """CuPy's function for a public name of NumPy or SciPy; None if there is none."""
    root, *names = dotted.split(".")
    found: Any = None
    if root == "numpy":
        found = cupy
    elif root == "scipy" and names[0] in ("special", "linalg", "sparse", "ndimage", "signal", "fft"):
        found = importlib.import_module(f"cupyx.scipy.{names.pop(0)}")
    for name in names:
        found = getattr(found, name, None)
    return found
