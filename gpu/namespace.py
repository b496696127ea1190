"""CuPy as the rules call it: NumPy's names and keywords that CuPy does not have, filled in."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import cupy
import cupyx
import numpy as np
from cupy_backends.cuda.libs import cublas, cusolver

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


_LOWER_OF = cupy.ElementwiseKernel(
    "T x, int64 n", "T y", "y = i % n <= (i / n) % n ? x : T(0)", "ndual_lower_triangle"
)  # fmt: skip


def _cholesky(a: Any, upper: bool = False) -> Any:
    """As NumPy's, by the routine of lower triangles."""
    # That of upper ones, which CuPy takes, takes 2.2 times as long (n = 2048, float64), 2.5 times in float32.
    if upper:
        return cupy.conj(_cholesky(cupy.conj(cupy.swapaxes(a, -1, -2))).swapaxes(-1, -2))
    prefix = {"f": "s", "d": "d", "F": "c", "D": "z"}.get(a.dtype.char)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or a.size == 0 or prefix is None:
        return cupy.linalg.cholesky(a)  # batches, and what is refused
    n = a.shape[0]
    x = a.astype(a.dtype, order="F", copy=True)
    info = cupy.empty(1, np.int32)
    handle = cupy.cuda.device.get_cusolver_handle()
    low = cublas.CUBLAS_FILL_MODE_LOWER
    size = getattr(cusolver, f"{prefix}potrf_bufferSize")(handle, low, n, x.data.ptr, n)
    space = cupy.empty(size, a.dtype)
    getattr(cusolver, f"{prefix}potrf")(handle, low, n, x.data.ptr, n, space.data.ptr, size, info.data.ptr)
    if cupyx.geterr()["linalg"] == "raise" and int(info[0]):
        raise np.linalg.LinAlgError(
            f"expected a positive definite matrix; got one whose leading minor of order {int(info[0])} is not. "
            "Check that it is symmetric, or add a small multiple of the identity"
        )
    return _LOWER_OF(x, n, cupy.empty((n, n), a.dtype))


def _solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, **options: Any) -> Any:
    """CuPy's, of a real matrix in C order as the transpose that it is in the order of columns: CuPy would copy it."""
    op = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if a.ndim == 2 and a.dtype.kind == "f" and a.flags.c_contiguous and not a.flags.f_contiguous:
        return cupyx.scipy.linalg.solve_triangular(a.T, b, int(op == 0), not lower, **options)
    return cupyx.scipy.linalg.solve_triangular(a, b, trans, lower, **options)


def _beside(module: Any) -> Any:
    """The part of CuPy that stands for a library beside NumPy."""
    name = module.__name__.removeprefix("cupyx.")
    found = importlib.import_module(f"cupyx.{name}")
    return Namespace(found, {"solve_triangular": _solve_triangular}) if name == "scipy.linalg" else found


_EXTRA = {
    "beside": _beside,
    "errstate": _errstate,
    "insert": _insert,
    "cholesky": _cholesky,
    "linalg": Namespace(cupy.linalg, {"cholesky": _cholesky, "solve": _solve}),
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
