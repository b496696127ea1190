"""A user's own ``cupy.ElementwiseKernel``, differentiated by its body.

The value is what the kernel itself gives. Lanes and cotangents come from the body over the dual type, see ``bodies``.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np
from cupy.cuda.compiler import CompileException

from ndual import _core
from ndual._core import forward
from ndual._core.nested import Formula
from ndual.errors import DerivativeLostError, NoRuleError
from ndual.gpu import bodies
from ndual.gpu.bodies import BLOCK, TYPES, Body, Parameter
from ndual.gpu.layout import layout
from ndual.rules.registry import Structured
from ndual.rules.support import unbroadcast

__all__ = ["call"]

LANES = 8
"""The most lanes of one launch: each is a register of every variable of the body."""
GRID = 2**31 - 1


def call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The kernel called on duals; raises where its body cannot be differentiated."""
    active = _core.activity(args, kwargs)
    if active < 2 and not any(map(_core.is_dual, args[kernel.nin :])):
        return _core.call_plain(kernel, args, kwargs, active == 1)
    if kwargs.keys() - {"block_size"} or kernel.kwargs.keys() - {"options"}:
        raise refused(kernel, "it was made or called with more than its body and operands")
    raw = [p.name for p, a in zip(kernel.in_params, args, strict=False) if p.raw and _core.is_dual(a)]
    raw += [p.name for p in kernel.out_params if p.raw]
    if raw:
        raise refused(kernel, f"{raw[0]} is raw, so that any element may reach any of its cells")
    targets = args[kernel.nin :]
    if not all(map(_core.is_dual, targets)):
        raise DerivativeLostError(
            f"{kernel.name}: its output is an array that was made outside of what is differentiated"
            f"{_core.user_location()}. Take what {kernel.name}(…) returns without it"
        )
    whole = tuple([hasattr(a, "shape") and not isinstance(a, np.generic) and not _core.is_scalar_dual(a) for a in args])
    rule = Structured(
        kernel.name, (), ("args...",), functools.partial(_jvp, kernel), functools.partial(_vjp, kernel), {},
        lambda args, kwargs: (args, {"whole": whole}), selective=True,
    )  # fmt: skip
    evaluated = functools.partial(_written if targets else _returned, kernel, kwargs)
    found = forward.apply(rule, Formula(evaluated), args, {})
    if not targets:
        return found
    for target, result in zip(targets, found, strict=True):
        _core.assign_to(target, ..., result)
    return None if kernel.no_return else targets if kernel.return_tuple or len(targets) > 1 else targets[0]


def _returned(kernel: Any, kwargs: dict[str, Any], *args: Any) -> Any:
    """What a kernel returns."""
    return kernel(*args, **kwargs)


def _written(kernel: Any, kwargs: dict[str, Any], *args: Any) -> tuple[Any, ...]:
    """The outputs of a kernel that is given some to write into, in copies of these."""
    outputs = tuple([a.copy() for a in args[kernel.nin :]])
    kernel(*args[: kernel.nin], *outputs, **kwargs)
    return outputs


def refused(kernel: Any, why: str) -> NoRuleError:
    """The error for a kernel whose body cannot be differentiated."""
    return NoRuleError(
        f"expected a kernel that ndual can differentiate; got {kernel.name}, but {why}{_core.user_location()}. "
        "Give it a rule (ndual.custom_rule, see docs/custom.md), or pass ndual.stop_gradient(x)"
    )


class _Launch:
    """The operands of a launch of a kernel's body: of one type for each parameter, broadcast by strides."""

    def __init__(self, kernel: Any, y: Any, x: tuple[Any, ...], whole: tuple[bool, ...], active: list[bool]) -> None:
        self.kernel = kernel
        self.several = isinstance(y, tuple)
        self.results = y if self.several else (y,)
        if any(map(_core.is_dual, (*x, *self.results))):
            raise refused(kernel, "this is a second derivative, and its body gives a first one")
        self.shape = self.results[0].shape
        letters: dict[str, Any] = {}
        params = (*kernel.in_params, *(kernel.out_params if len(x) > kernel.nin else ()))
        for p, a, own in zip(params, x, whole, strict=True):
            if own and p.dtype is None:
                letters.setdefault(p.ctype, a.dtype)
        for p, a in zip(kernel.out_params, self.results, strict=True):
            if p.dtype is None:
                letters.setdefault(p.ctype, a.dtype)

        def described(p: Any, a: Any, moves: bool) -> Parameter:
            dtype = letters.get(p.ctype, a.dtype) if p.dtype is None else p.dtype
            if dtype.char not in (TYPES if not moves else "fd"):
                raise refused(kernel, f"{p.name} is {dtype}")
            return Parameter(p.name, dtype.char, p.ctype if p.dtype is None else None, p.raw, moves)

        inputs = tuple(map(described, params, x, active))
        outputs = tuple(map(described, kernel.out_params, self.results, [False] * kernel.nout))
        self.body = Body(kernel.operation, kernel.preamble, inputs, outputs, len(x) > kernel.nin)
        self.x = [cupy.asarray(a, dtype=p.char) for a, p in zip(x, inputs, strict=True)]

    def settle(self, lanes: list[Any]) -> bool:
        """Have raw arrays side by side, and lanes lie as their values do; whether cells are at strides of their own."""
        for j, (p, t) in enumerate(zip(self.body.inputs, lanes, strict=True)):
            if p.raw or (t is not None and t.strides[1:] != self.x[j].strides):
                self.x[j] = cupy.ascontiguousarray(self.x[j])
                lanes[j] = None if t is None else cupy.ascontiguousarray(t)
        return any(
            not p.raw and (a.shape != self.shape or not a.flags.c_contiguous)
            for p, a in zip(self.body.inputs, self.x, strict=True)
        )

    def run(self, compiled: Any, strided: bool, given: list[Any]) -> None:
        """Launch."""
        n = self.results[0].size
        if n:
            own = [a for p, a in zip(self.body.inputs, self.x, strict=True) if not p.raw]
            compiled(
                (min(-(-n // BLOCK), GRID),), (BLOCK,), (*given, *([layout(self.shape, own)] if strided else []), n)
            )

    def cells(self, p: Parameter, a: Any) -> list[Any]:
        """An input as the kernel takes it."""
        return [a, a.size] if p.raw else [a]


def _jvp(kernel: Any, xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], whole: tuple[bool, ...]) -> Any:
    """The tangents of the outputs."""
    if any(map(_core.is_dual, dx)):
        raise refused(kernel, "this is a second derivative, and its body gives a first one")
    launch = _Launch(kernel, y, x, whole, [t is not None for t in dx])
    inputs = launch.body.inputs
    lanes = [None if t is None else cupy.asarray(t, dtype=p.char) for t, p in zip(dx, inputs, strict=True)]
    strided = launch.settle(lanes)
    width = next(len(t) for t in lanes if t is not None)
    found = [
        cupy.empty((width, *launch.shape), p.char) if p.char in "fd" else None for p in launch.body.outputs
    ]  # fmt: skip
    for low in range(0, width, LANES):
        count = min(LANES, width - low)
        given: list[Any] = []
        for p, a, t in zip(inputs, launch.x, lanes, strict=True):
            given += launch.cells(p, a)
            if t is not None:
                given += [t[low : low + count], t.strides[0] // t.itemsize if width > 1 else 0]
        given += [t[low : low + count] for t in found if t is not None]
        launch.run(_compiled(kernel, launch.body, "forward", strided, count), strided, given)
    return tuple(found) if launch.several else found[0]


def _vjp(
    kernel: Any, xp: Any, w: Any, y: Any, x: tuple[Any, ...], active: tuple[bool, ...], whole: tuple[bool, ...]
) -> Any:  # fmt: skip
    """The cotangents of the inputs."""
    ws = w if isinstance(w, tuple | list) else (w,)
    if any(map(_core.is_dual, ws)):
        raise refused(kernel, "this is a second derivative, and its body gives a first one")
    launch = _Launch(kernel, y, x, whole, list(active))
    inputs, outputs = launch.body.inputs, launch.body.outputs
    strided = launch.settle([None] * len(inputs))
    given = [part for p, a in zip(inputs, launch.x, strict=True) for part in launch.cells(p, a)]
    uniform = []
    for p, part in zip(outputs, ws, strict=True):
        # The cotangent of a sum is one number everywhere.
        uniform.append(p.char in "fd" and part.size > 0 and not any(part.strides))
        if p.char in "fd":
            part = cupy.asarray(part, dtype=p.char)
            given.append(part if uniform[-1] else cupy.ascontiguousarray(cupy.broadcast_to(part, launch.shape)))
    found = [cupy.empty(launch.shape, p.char) if p.active else None for p in inputs]
    given += [g for g in found if g is not None]
    launch.run(_compiled(kernel, launch.body, "pullback", strided, tuple(uniform)), strided, given)
    return tuple(
        None if g is None else unbroadcast(g, a.shape).astype(a.dtype, copy=False)
        for g, a in zip(found, x, strict=True)
    )


def _compiled(kernel: Any, body: Body, what: str, *options: Any) -> Any:
    """The compiled text; the error of the compiler says what the dual type lacks."""
    try:
        return _compile(body, what, tuple(kernel.kwargs.get("options", ())), *options)
    except CompileException as error:
        said = next((line for line in str(error).splitlines() if "error" in line), str(error))
        raise refused(kernel, f"its body does not compile for dual numbers: {said.strip()}") from None


@functools.lru_cache(maxsize=256)
def _compile(body: Body, what: str, options: tuple[str, ...], *rest: Any) -> Any:
    source = bodies.forward if what == "forward" else bodies.pullback
    standard = () if any("std" in option for option in options) else ("-std=c++17",)
    kernel = cupy.RawKernel(source(body, *rest), f"ndual_body_{what}", (*standard, *options))
    kernel.compile()
    return kernel
