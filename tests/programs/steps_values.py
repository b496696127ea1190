"""Steps that compute: elementwise functions, reductions, products, joins, orders, casts."""

from __future__ import annotations

import numpy as np
from drawing import Drawing, step

UNARY = [
    "np.sin({x})",
    "np.cos({x})",
    "np.tanh({x})",
    "np.exp(0.3 * {x})",
    "np.sqrt({x} * {x} + 1.0)",
    "1.0 / (2.0 + {x} * {x})",
    "np.arctan({x})",
    "{x} ** 3 * 0.1",
    "{x} ** 2",
    "np.log1p({x} * {x})",
    "np.square({x})",
    "-{x}",
    "np.expm1(0.2 * {x})",
    "0.5 * {x}",
    "{x} / 3.0",
    "2.0 - {x}",
    "np.reciprocal(3.0 + {x} * {x})",
    "np.log(4.0 + {x} * {x})",
    "np.sinh(0.3 * {x})",
    "({x} * {x} + 1.0) ** 0.7",
    "2.0 ** (0.3 * {x})",
    "np.arcsinh({x})",
    "np.exp2(0.2 * {x})",
    "np.log2(3.0 + {x} * {x})",
    "+{x}",
    "np.negative({x})",
    "np.tan(0.2 * {x})",
    "np.power(1.5 + 0.2 * {x}, 2.5)",
    "np.arctanh(0.1 * {x})",
    "np.cosh(0.3 * {x})",
    "np.true_divide({x}, 2)",
]
KINKED = [
    ("np.abs({x})", "0.0"),
    ("abs({x})", "0.0"),
    ("np.sign({x}) * {x}", "0.0"),
    ("np.floor(0.2 * {x})", "0.0"),
    ("np.cbrt(3.0 + {x} * {x})", None),
    ("np.hypot({x}, 1.0)", None),
    ("np.logaddexp({x}, 0.5)", None),
    ("np.arctan2({x}, 2.0)", None),
    ("np.fabs({x})", "0.0"),
    ("np.copysign({x}, 0.3)", "0.0"),
    ("np.heaviside({x}, 0.5) + {x}", "0.0"),
    ("np.deg2rad({x})", None),
    ("np.nan_to_num({x})", None),
    ("{x}.real", None),
    ("np.conj({x})", None),
    ("np.fmod({x}, 10.0)", None),
    ("np.mod({x} + 20.0, 40.0) - 20.0", None),
    ("np.fmax({x}, 0.1)", "0.1"),
    ("np.std({x})", None),
    ("np.var({x}, ddof=0)", None),
    ("np.linalg.norm({x} + 9.0)", None),
]
BINARY = [
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{y} * {x}",
    "{x} / (3.0 + {y} * {y})",
    "np.add({x}, {y})",
    "np.multiply({x}, {y})",
    "np.divide({x}, 2.0 + {y} ** 2)",
    "({x} * {x} + 1.0) ** (0.3 * {y})",
    "0.3 * {x} + 0.7 * {y}",
    "np.subtract({y}, {x})",
]
CHOICES = [
    "np.maximum({x}, {y})",
    "np.minimum({x}, {y})",
    "np.where({x} > {y}, {x}, 0.5 * {y})",
    "np.clip({x}, {y}, 3.0)",
    "np.where({x} < {y}, np.sin({x}), {y})",
    "({x} > {y}) * {x}",
    "np.select([{x} > {y}], [{x}], {y})",
    "np.maximum({y}, {x})",
]


def axes(d: Drawing, ndim: int) -> str:
    axis = d.rng.choice([None, *range(-ndim, ndim)])
    pair = "0, 1" if ndim > 1 and d.chance(0.1) else None
    chosen = f"axis=({pair})" if pair else f"axis={axis}"
    return chosen + (", keepdims=True" if d.chance(0.3) else "")


@step(12)
def unary(d):
    x = d.operand() if d.chance(0.85) else d.scalar()
    return x and f"{d.new('v')} = {d.rng.choice(UNARY).format(x=x)}"


@step(6)
def kinked(d):
    x = d.operand() if d.chance(0.85) else d.scalar()
    if x is None or d.family.smooth:
        return None
    form, kink = d.rng.choice(KINKED)
    guard = f"#? apart({x}, {kink})\n" if kink else ""
    return f"{guard}{d.new()} = {form.format(x=x)}"


@step(12)
def binary(d):
    x = d.operand()
    return x and f"{d.new()} = {d.rng.choice(BINARY).format(x=x, y=d.fitting(np.shape(d.value(x))))}"


@step(5)
def choice(d):
    x = d.operand()
    if x is None:
        return None
    y = d.fitting(np.shape(d.value(x)))
    return f"#? apart({x}, {y})\n{d.new()} = {d.rng.choice(CHOICES).format(x=x, y=y)}"


@step(4)
def scalar_arithmetic(d):
    x, y = d.scalar(), d.scalar()
    forms = [*UNARY, *BINARY]
    if not d.family.single:  # Python's floats are weak beside float32, numbers that carry derivatives are not
        forms += ["math.sin({x})", "math.exp(0.2 * {x})", "math.sqrt({x} * {x} + 1)", "math.cos({x})"] * 3
    form = d.rng.choice(forms)
    return f"{d.new('s')} = {form.format(x=x, y=y)}"


@step(7)
def reduction(d):
    x = d.operand()
    if x is None:
        return None
    value = d.value(x)
    how, guard = axes(d, value.ndim), ""
    name = d.pick("sum", "mean", "sum", "prod", "max", "min")
    if name in ("max", "min"):
        axis = how.split(",")[0].removeprefix("axis=") if "(" not in how else "None"
        how = how if "(" not in how else "axis=None"
        guard = f"#? distinct({x}, {axis})\n"
    call = f"{x}.{name}({how})" if d.chance(0.4) else f"np.{name}({x}, {how})"
    if name == "sum" and d.chance(0.2):
        call = f"np.add.reduce({x}.ravel())"
    return f"{guard}{d.new()} = {call}" if name != "sum" else f"{d.new()} = 0.3 * {call}"


@step(3)
def running(d):
    x = d.array(where=lambda v: v.ndim > 0)
    if x is None:
        return None
    axis = d.rng.randrange(-d.env[x].ndim, d.env[x].ndim)
    call = d.pick(
        f"np.cumsum({x}, axis={axis})",
        f"np.cumprod(0.5 * {x}, axis={axis})",
        f"np.diff({x}, axis={axis})",
        f"np.add.accumulate({x}, axis={axis})",
        f"{x}.cumsum()",
        f"np.gradient({x}, axis={axis})",
        f"np.trapezoid({x}, axis={axis})",
    )
    return f"{d.new()} = 0.5 * {call}"


@step(5)
def product(d):
    x = d.array(where=lambda v: 0 < v.ndim < 3)
    if x is None:
        return None
    n = d.env[x].shape[-1]
    y = d.array(where=lambda v: 0 < v.ndim < 3 and n in (v.shape[0], v.shape[-1]))
    if y is None:
        return None
    vector = d.env[y].ndim == 1
    right = y if vector or d.env[y].shape[0] == n else f"{y}.T"
    ix, iy = "ij"[-d.env[x].ndim :], "j" if vector else "jk"
    out = (ix + iy).replace("j", "")
    call = d.pick(
        f"{x} @ {right}",
        f"np.dot({x}, {right})",
        f"np.matmul({x}, {right})",
        f"{x}.dot({right})",
        f"np.einsum('{ix},{iy}->{out}', {x}, {right})",
        f"np.tensordot({x}, {right}, 1)",
        f"np.inner({x}, {right}.T)",
        f"np.outer({x}[..., 0], {y})",
    )
    return f"{d.new()} = {0.5 if n < 20 else 0.01} * ({call})"


@step(2)
def square_matrix(d):
    x = d.array(2, where=lambda v: v.shape[0] == v.shape[1] < 12 and v.dtype == np.float64)
    if x is None:
        return None
    n = d.env[x].shape[0]
    matrix = f"({x} * 0.1 + 2.0 * np.eye({n}))"
    call = d.pick(
        f"np.linalg.solve({matrix}, {d.array(1, where=lambda v: v.size == n) or x})",
        f"np.linalg.inv({matrix})",
        f"np.linalg.det(0.5 * {matrix})",
        f"np.trace({x})",
        f"np.triu({x})",
        f"np.tril({x}, -1)",
        f"{x}.trace(1)",
    )
    return f"{d.new()} = {call}"


@step(5)
def join(d):
    x = d.array(where=lambda v: v.ndim > 0)
    if x is None:
        return None
    shape = d.env[x].shape
    same = [d.array(where=lambda v: v.shape == shape) or x for _ in range(d.rng.randint(1, 2))]
    if d.chance(0.3):
        same.append(f"np.zeros({shape})")
    if d.constants and np.shape(d.env[d.constants[0].name]) == shape:
        same.append(d.constants[0].name)
    parts, axis = ", ".join([x, *same]), d.rng.randrange(-len(shape), len(shape))
    call = d.pick(
        f"np.concatenate([{parts}], axis={axis})",
        f"np.stack(({parts}), axis={axis})",
        f"np.hstack([{parts}])",
        f"np.vstack([{parts}])",
        f"np.column_stack([{parts}])",
        f"np.array([{parts}])",
        f"np.append({x}, {same[0]})",
        f"np.concatenate([{x}.ravel(), [{d.scalar()}, {d.number()}]])",
        f"np.dstack([{parts}])",
        f"np.block([{parts}])",
        f"np.r_[{x}.ravel(), {d.scalar()}]",
    )
    return f"{d.new()} = {call}"


@step(3)
def rearrange(d):
    x = d.array(where=lambda v: v.ndim > 0)
    if x is None:
        return None
    n, axis = d.env[x].ndim, d.rng.randrange(d.env[x].ndim)
    call = d.pick(
        f"np.roll({x}, {d.pick(1, -1, 2)}, axis={axis})",
        f"np.repeat({x}, 2, axis={axis})",
        f"np.tile({x}, 2)",
        f"np.pad({x}, 1)",
        f"np.pad({x}, 1, mode='edge')",
        f"np.pad({x}, 1, mode='wrap')",
        f"np.delete({x}, 0, axis={axis})",
        f"np.rot90({x})" if n > 1 else f"np.flip({x})",
        f"np.insert({x}, 0, {d.scalar()}, axis={axis})",
        f"np.convolve({x}.ravel()[:5], {x}.ravel()[:3])",
        f"np.kron({x}[..., 0], [1.0, 0.5])",
        f"np.resize({x}, {d.env[x].size + 2})",
        f"np.interp(0.4, [0.0, 1.0], {x}.ravel()[:2])",
    )
    return f"{d.new()} = 0.7 * {call}"


@step(3)
def order(d):
    x = d.array(where=lambda v: v.ndim > 0)
    if x is None:
        return None
    axis = d.rng.randrange(-d.env[x].ndim, d.env[x].ndim)
    call = d.pick(
        f"np.sort({x}, axis={axis})",
        f"np.take_along_axis({x}, np.argsort({x}, axis={axis}), axis={axis})",
        f"np.median({x}, axis={axis})",
        f"{x}[np.argmax({x}, axis=0)]" if d.env[x].ndim == 1 else f"{x}[np.argmin({x}[:, 0])]",
        f"np.take(np.partition({x}, 0, axis={axis}), 0, axis={axis})",
        f"np.ptp({x}, axis={axis})",
        f"{x}.ravel()[{x}.argsort(axis=None)[::-1]]",
    )
    if "median" in call and d.family.smooth:
        return None
    if "argm" in call:
        return f"#? distinct({x if d.env[x].ndim == 1 else f'{x}[:, 0]'}, 0)\n{d.new()} = {call}"
    return f"#? distinct({x}, {axis if 'axis=None' not in call else None})\n{d.new()} = {call}"


@step(3)
def cast(d):
    x = d.operand()
    if x is None:
        return None
    wanted = d.pick("float32", "float64") if d.family.single else "float64"
    if d.chance(0.3) and not d.family.single:  # the same array, where the reference must not have another dtype
        return f"{d.new()} = {d.pick(f'np.asarray({x}, dtype=np.float64)', f'{x}.astype(np.float64, copy=False)')}"
    call = d.pick(
        f"{x}.astype(np.{wanted})",
        f"np.array({x}, dtype=np.{wanted})",
        f"np.asarray({x})",
        f"np.array({x})",
        f"np.ascontiguousarray({x})" if not d.plain(x) else f"np.copy({x})",
    )
    return f"{d.new()} = {call}"


@step(1)
def number(d):
    value = d.scalar()
    form = d.pick("np.float64({x})", "{x} + 0", "np.float32({x})" if d.family.single else "{x}")
    return f"{d.new('s')} = {form.format(x=value)}"
