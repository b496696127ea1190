"""Functions of NumPy, differentiated by ndual, inside of what JAX and PyTorch differentiate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndual.custom.backends import imported
from ndual.custom.records import numpy_of
from ndual.errors import ArgumentTypeError
from ndual.outputs import zeros_of
from ndual.pullback import vjp

__all__ = ["jax_function", "torch_function"]

Function = Callable[..., Any]


def jax_function(f: Function, result: Any = None) -> Function:
    """A function of NumPy as one of JAX: it may be jitted, mapped and differentiated in reverse (``jax.grad``) there.

    Parameters
    ----------
    f : callable
        A function of numbers, arrays and containers of them, which ndual can differentiate.
    result : pytree of jax.ShapeDtypeStruct or array_like, optional
        What the output looks like. Without it, `f` is called once for each combination of shapes and dtypes, with ones.

    Returns
    -------
    callable
        Takes and returns JAX's arrays. Its values come by ``jax.pure_callback``, its gradient by ``jax.custom_vjp``;
        the gradient of a single number comes with its value, other cotangents take a second run of `f`. JAX rounds
        float64 to float32 unless it is told ``jax.config.update("jax_enable_x64", True)``.

    Raises
    ------
    ImportError
        JAX is not installed.

    Examples
    --------
    >>> import jax, numpy as np, ndual.interop  # doctest: +SKIP
    >>> f = ndual.interop.jax_function(lambda x: np.sum(np.sin(x)))  # doctest: +SKIP
    >>> jax.jit(jax.grad(lambda x: f(x) ** 2))(np.zeros(2)).tolist()  # doctest: +SKIP
    [0.0, 0.0]
    """
    jax = imported("jax", "jax")
    shapes: dict[Any, Any] = {}

    def host(values: Any) -> Any:
        return jax.tree.map(lambda part: numpy_of(np.array(part)), values)

    def shape_of(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.canonicalize_dtype(_dtype(leaf)))

    def expected(args: Any) -> Any:
        if result is not None:
            return jax.tree.map(shape_of, result)
        leaves, tree = jax.tree.flatten(args)
        key = tree, tuple((np.shape(leaf), str(_dtype(leaf))) for leaf in leaves)
        if key not in shapes:
            ones = jax.tree.unflatten(tree, [np.ones(np.shape(leaf), _dtype(leaf))[()] for leaf in leaves])
            shapes[key] = jax.tree.map(shape_of, f(*ones))
        return shapes[key]

    def cast(values: Any, like: Any) -> Any:
        return jax.tree.map(lambda value, model: np.asarray(value, model.dtype), values, like)

    def called(args: Any, like: Any) -> Any:
        return jax.pure_callback(lambda *a: cast(f(*host(a)), like), like, *args, vmap_method="sequential")

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def function(*args: Any) -> Any:
        return called(args, expected(args))

    def is_float(leaf: Any) -> bool:
        return _dtype(leaf).kind in "fc"

    def pulled(args: Any, w: Any, like: Any) -> tuple[Any, Any]:
        """The value, and the cotangents of the floats among the arguments; JAX's are the conjugates of ours."""
        value, pullback = vjp(f, *args)
        found = pullback(jax.tree.map(np.conj, w))
        given = jax.tree.flatten(args)[0]
        parts = jax.tree.flatten(found, is_leaf=lambda part: part is None)[0]
        return value, [np.conj(part).astype(_dtype(leaf)) for part, leaf in zip(parts, given, strict=True) if
                       is_float(leaf)]  # fmt: skip

    def floats_of(args: Any) -> Any:
        return [shape_of(leaf) for leaf in jax.tree.flatten(args)[0] if is_float(leaf)]

    def forth(*args: Any) -> tuple[Any, Any]:
        like = expected(args)
        if not (hasattr(like, "shape") and like.shape == () and like.dtype.kind == "f"):
            return called(args, like), (args, None)

        def both(*a: Any) -> Any:
            values = host(a)
            value, parts = pulled(values, like.dtype.type(1), like)
            return cast(value, like), parts

        value, parts = jax.pure_callback(both, (like, floats_of(args)), *args, vmap_method="sequential")
        return value, (args, parts)

    def back(kept: Any, w: Any) -> Any:
        args, parts = kept
        if parts is None:
            wanted = floats_of(args)
            parts = jax.pure_callback(
                lambda a, u: pulled(host(a), host(u), None)[1], wanted, args, w, vmap_method="sequential"
            )
        else:
            parts = [part * w for part in parts]
        given, tree = jax.tree.flatten(args)
        found = iter(parts)
        zero = jax.dtypes.float0
        return jax.tree.unflatten(
            tree, [next(found) if is_float(leaf) else np.zeros(np.shape(leaf), zero) for leaf in given]
        )

    function.defvjp(forth, back)
    return function  # type: ignore[no-any-return]


def torch_function(f: Function) -> Function:
    """A function of NumPy as one of PyTorch, whose backward pass is ndual's pullback.

    Parameters
    ----------
    f : callable
        A function of numbers and arrays, which ndual can differentiate; it returns one of these, or a tuple of them.

    Returns
    -------
    callable
        Takes tensors (on the CPU) and whatever else, and returns tensors. `f` runs once for value and gradients.

    Raises
    ------
    ImportError
        PyTorch is not installed.

    Examples
    --------
    >>> import torch, numpy as np, ndual.interop  # doctest: +SKIP
    >>> f = ndual.interop.torch_function(lambda x: np.sum(np.sin(x)))  # doctest: +SKIP
    >>> x = torch.zeros(2, dtype=torch.float64, requires_grad=True)  # doctest: +SKIP
    >>> f(x).backward(); x.grad.tolist()  # doctest: +SKIP
    [1.0, 1.0]
    """
    torch = imported("torch", "torch")

    def host(value: Any) -> Any:
        return numpy_of(value.detach().cpu().numpy().copy()) if torch.is_tensor(value) else value

    def tensor(value: Any) -> Any:
        if not isinstance(value, np.ndarray | np.generic | float | complex | int):
            raise ArgumentTypeError(
                f"torch_function expects a function that returns numbers and arrays, or a tuple of them; got "
                f"{type(value).__name__}. Return a tuple"
            )
        return torch.from_numpy(np.array(value))

    class Function(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            values = tuple(map(host, args))
            ctx.dtypes = [arg.dtype if torch.is_tensor(arg) else None for arg in args]
            if any(ctx.needs_input_grad):
                active = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]

                def g(*xs: Any) -> Any:
                    whole = list(values)
                    for i, x in zip(active, xs, strict=True):
                        whole[i] = x
                    return f(*whole)

                value, ctx.pullback = vjp(g, *(values[i] for i in active))
                ctx.active, ctx.several = active, isinstance(value, tuple)
                ctx.value = value
            else:
                value = f(*values)
            return tuple(map(tensor, value)) if isinstance(value, tuple) else tensor(value)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *ws: Any) -> Any:
            values = ctx.value if ctx.several else (ctx.value,)
            given = [zeros_of(v) if w is None else host(w) for v, w in zip(values, ws, strict=True)]
            parts = ctx.pullback(tuple(given) if ctx.several else given[0])
            found: list[Any] = [None] * len(ctx.dtypes)
            for i, part in zip(ctx.active, parts, strict=True):
                found[i] = tensor(part).to(ctx.dtypes[i])
            return tuple(found)

    def call(*args: Any) -> Any:
        return Function.apply(*args)

    return call


def _dtype(leaf: Any) -> np.dtype[Any]:
    found = getattr(leaf, "dtype", None)
    return np.dtype(found) if found is not None else np.asarray(leaf).dtype
