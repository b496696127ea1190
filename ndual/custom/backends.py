"""The engines that may differentiate a function: one class for each, of functions of flat leaves.

``linearize`` runs the function and keeps the engine's record of it, from which tangents and cotangents come without a
second run. ``derived`` is the engine's derivative as a function that the engine can differentiate again.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ndual.custom.records import Function, Leaves, Linear, copies, filled, has_float_dtype, mapped, numpy_of, taken
from ndual.custom.stepping import ComplexStep, Differences


def imported(module: str, extra: str) -> Any:
    """A module of an engine."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'expected {extra} to be installed, since a function is to be differentiated with "{extra}"; got {error}. '
            f'Install it: pip install "ndual[{extra}]"'
        ) from error


class Jax:
    """JAX, with double precision where the arguments have it."""

    def __init__(self) -> None:
        self.jax = imported("jax", "jax")
        self.jnp = imported("jax.numpy", "jax")

    def precise(self) -> Any:
        """JAX keeps NumPy's dtypes in here."""
        if hasattr(self.jax, "enable_x64"):
            return self.jax.enable_x64(True)
        return imported("jax.experimental", "jax").enable_x64()

    def plain(self, part: Any) -> Any:
        """An array of JAX as one of NumPy."""
        return np.array(part) if isinstance(part, self.jax.Array) else part

    def arrays(self, leaves: Leaves) -> Leaves:
        """Leaves as arrays of JAX."""
        return [self.jnp.array(leaf) for leaf in leaves]  # which shares no memory with NumPy

    def constants(self, leaves: Leaves) -> Leaves:
        """Leaves as arrays of JAX; None stays."""
        with self.precise():
            return [None if leaf is None else self.jnp.array(leaf) for leaf in leaves]

    def call(self, f: Function, leaves: Leaves) -> Any:
        """The value."""
        with self.precise():
            return mapped(f(*self.arrays(leaves)), lambda part: numpy_of(self.plain(part)))

    def flat(self, f: Function, box: list[Any]) -> Function:
        """The function with a list of floats as its output; what else there is goes into the box."""

        def g(*leaves: Any) -> Leaves:
            floats, skeleton = taken(f(*leaves), has_float_dtype)
            box[:] = [skeleton]
            return floats

        return g

    def linearize(self, f: Function, leaves: Leaves) -> tuple[Any, Linear]:
        """The value, and its derivative."""
        box: list[Any] = []
        with self.precise():
            xs = self.arrays(leaves)
            ys, forth = self.jax.linearize(self.flat(f, box), *xs)
            return filled(box[0], ys, self.plain), _JaxLinear(self, xs, ys, forth)

    def derived(self, f: Function, way: str, count: int, name: str) -> Function:
        """The derivative as a function of the arguments and of tangents or cotangents."""
        jax, g, conj = self.jax, self.flat(f, []), self.jnp.conj

        def push(*args: Any) -> tuple[Any, ...]:
            return tuple(jax.jvp(g, args[:count], args[count:])[1])

        def pull(*args: Any) -> tuple[Any, ...]:
            return tuple(conj(part) for part in jax.vjp(g, *args[:count])[1]([conj(w) for w in args[count:]]))

        return push if way == "push" else pull


class _JaxLinear(Linear):
    """Its cotangents are the conjugates of ours."""

    def __init__(self, backend: Jax, xs: Leaves, ys: Leaves, forth: Function) -> None:
        self.backend, self.xs, self.ys, self.forth = backend, xs, ys, forth
        self.back: Any = None

    def push(self, ts: Leaves) -> Leaves:
        b = self.backend
        with b.precise():
            found = self.forth(*[b.jnp.asarray(t, x.dtype) for t, x in zip(ts, self.xs, strict=True)])
            return [np.array(part) for part in found]

    def pull(self, ws: Leaves) -> Leaves:
        b = self.backend
        with b.precise():
            if self.back is None:
                self.back = b.jax.linear_transpose(self.forth, *self.xs)
            given = [b.jnp.asarray(np.conj(w), b.jnp.result_type(y)) for w, y in zip(ws, self.ys, strict=True)]
            return [np.conj(np.array(part)) for part in self.back(given)]


class Torch:
    """PyTorch on the CPU, eagerly."""

    def __init__(self) -> None:
        self.torch = imported("torch", "torch")

    def is_float(self, part: Any) -> bool:
        """Whether something is a float of PyTorch or NumPy."""
        if self.torch.is_tensor(part):
            return bool(part.is_floating_point() or part.is_complex())
        return has_float_dtype(part)

    def plain(self, part: Any) -> Any:
        """A tensor as an array."""
        return part.detach().cpu().resolve_conj().resolve_neg().numpy().copy() if self.torch.is_tensor(part) else part

    def tensors(self, leaves: Leaves, like: Leaves | None = None) -> Leaves:
        """Leaves as tensors."""
        made = [leaf if self.torch.is_tensor(leaf) else self.torch.tensor(np.array(leaf, order="C")) for leaf in leaves]
        return made if like is None else [t.to(model.dtype) for t, model in zip(made, like, strict=True)]

    def constants(self, leaves: Leaves) -> Leaves:
        """Leaves as tensors; None stays."""
        return [None if leaf is None else self.tensors([leaf])[0] for leaf in leaves]

    def call(self, f: Function, leaves: Leaves) -> Any:
        """The value."""
        return mapped(f(*self.tensors(leaves)), lambda part: numpy_of(self.plain(part)))

    def linearize(self, f: Function, leaves: Leaves) -> tuple[Any, Linear]:
        """The value, and its derivative."""
        with self.torch.enable_grad():
            xs = [x.requires_grad_() for x in self.tensors(leaves)]
            floats, skeleton = taken(f(*xs), self.is_float)
        return filled(skeleton, floats, self.plain), _TorchLinear(self, xs, self.tensors(floats))

    def derived(self, f: Function, way: str, count: int, name: str) -> Function:
        """The derivative as a function of the arguments and of tangents or cotangents."""

        def function(*args: Any) -> tuple[Any, ...]:
            with self.torch.enable_grad():
                xs = self.tensors(list(args[:count]))
                xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]
                floats, _ = taken(f(*xs), self.is_float)
                linear = _TorchLinear(self, xs, self.tensors(floats))
                given = self.tensors(list(args[count:]), xs if way == "push" else linear.ys)
                return tuple(linear.along(given) if way == "push" else linear.back(given, True))

        return function


class _TorchLinear(Linear):
    """The graph that a run left; the way forth is the transpose of the way back."""

    def __init__(self, backend: Torch, xs: Leaves, ys: Leaves) -> None:
        self.backend, self.xs, self.ys = backend, xs, ys
        self.twice: Any = None

    def back(self, ws: Leaves, again: bool = False) -> Leaves:
        torch = self.backend.torch
        pairs = [(y, w) for y, w in zip(self.ys, ws, strict=True) if y.requires_grad]
        if not pairs:
            return [torch.zeros_like(x) for x in self.xs]
        found = torch.autograd.grad(
            [y for y, _ in pairs], self.xs, [w for _, w in pairs], retain_graph=True, create_graph=again,
            allow_unused=True,
        )  # fmt: skip
        return [torch.zeros_like(x) if g is None else g for g, x in zip(found, self.xs, strict=True)]

    def along(self, ts: Leaves) -> Leaves:
        torch = self.backend.torch
        if self.twice is None:
            with torch.enable_grad():
                vs = [torch.zeros_like(y).requires_grad_() for y in self.ys]
                self.twice = vs, self.back(vs, True)
        vs, gs = self.twice
        pairs = [(g, t) for g, t in zip(gs, ts, strict=True) if g.requires_grad]
        if not pairs:
            return [torch.zeros_like(y) for y in self.ys]
        found = torch.autograd.grad(
            [g for g, _ in pairs], vs, [t for _, t in pairs], retain_graph=True, create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )  # fmt: skip
        return [torch.zeros_like(y) if t is None else t for t, y in zip(found, self.ys, strict=True)]

    def push(self, ts: Leaves) -> Leaves:
        with self.backend.torch.no_grad():
            return list(map(self.backend.plain, self.along(self.backend.tensors(ts, self.xs))))

    def pull(self, ws: Leaves) -> Leaves:
        return list(map(self.backend.plain, self.back(self.backend.tensors(ws, self.ys))))


class Autograd:
    """The package of that name."""

    def __init__(self) -> None:
        self.core = imported("autograd.core", "autograd")
        self.pack = imported("autograd.builtins", "autograd").tuple
        imported("autograd.numpy", "autograd")
        self.conj = imported("autograd.numpy", "autograd").conj

    def constants(self, leaves: Leaves) -> Leaves:
        """Copies of leaves; None stays."""
        return copies(leaves)

    def call(self, f: Function, leaves: Leaves) -> Any:
        """The value."""
        return f(*leaves)

    def flat(self, f: Function, box: list[Any]) -> Function:
        """The function of one tuple, with a tuple of floats as its output."""

        def g(xs: Any) -> Any:
            floats, skeleton = taken(f(*[xs[k] for k in range(len(xs))]), has_float_dtype)
            box[:] = [skeleton]
            return self.pack(tuple(floats))

        return g

    def linearize(self, f: Function, leaves: Leaves) -> tuple[Any, Linear]:
        """The value, and its derivative."""
        box: list[Any] = []
        back, ys = self.core.make_vjp(self.flat(f, box), tuple(copies(leaves)))
        return filled(box[0], list(ys), lambda part: part), _AutogradLinear(self, back, ys)

    def derived(self, f: Function, way: str, count: int, name: str) -> Function:
        """The derivative as a function of the arguments and of tangents or cotangents."""
        g = self.flat(f, [])

        def function(*args: Any) -> Any:
            back, ys = self.core.make_vjp(g, self.pack(args[:count]))
            if way == "push":
                forth, _ = self.core.make_vjp(back, self.core.vspace(ys).zeros())
                return tuple(forth(self.pack(args[count:])))
            found = back(self.pack([self.conj(w) for w in args[count:]]))
            return tuple(self.conj(found[k]) for k in range(count))

        return function


class _AutogradLinear(Linear):
    """Its cotangents are the conjugates of ours."""

    def __init__(self, backend: Autograd, back: Function, ys: Any) -> None:
        self.backend, self.back, self.ys = backend, back, ys
        self.forth: Any = None

    def push(self, ts: Leaves) -> Leaves:
        if self.forth is None:
            self.forth, _ = self.backend.core.make_vjp(self.back, self.backend.core.vspace(self.ys).zeros())
        return list(self.forth(tuple(ts)))

    def pull(self, ws: Leaves) -> Leaves:
        return [np.conj(part) for part in self.back(tuple(map(np.conj, ws)))]


BACKENDS: dict[str, Any] = {
    "jax": Jax,
    "torch": Torch,
    "autograd": Autograd,
    "complex_step": ComplexStep,
    "finite_differences": Differences,
}
