"""Steps on memory: views, reads, writes, updates in place, ``out=``, functions that write into their arguments."""

from __future__ import annotations

import numpy as np
from drawing import Drawing, step


@step(10)
def view(d):
    x = d.array()
    if x is None:
        return None
    value = d.env[x]
    m = d.base[1]
    if value.ndim == 0:
        return f"{d.new()} = {x}[None]"
    axis = d.rng.randrange(-value.ndim, value.ndim)
    call = d.pick(
        f"{x}[{d.basic(value.shape)}]",
        f"{x}[{d.basic(value.shape)}]",
        f"{x}[{d.slice(value.shape[0])}]",
        f"{x}.T",
        f"{x}.ravel()",
        f"{x}.reshape(-1)",
        f"{x}.reshape({value.size // 2}, 2)" if value.size % 2 == 0 else f"{x}[::-1]",
        f"np.swapaxes({x}, 0, {axis})",
        f"np.expand_dims({x}, {axis})",
        f"np.flip({x}, {axis})",
        f"np.diagonal({x})" if value.ndim == 2 else f"{x}.view()",
        f"np.broadcast_to({x}, (2, *{value.shape}))",
        f"np.squeeze({x})",
        f"np.moveaxis({x}, {axis}, 0)",
        f"np.split({x}, [1], axis={axis})[1]",
        f"np.atleast_2d({x})",
        f"{x}.transpose()",
        f"np.reshape({x}, ({m}, -1), order='F')" if value.size % m == 0 else f"{x}[..., ::-1]",
        f"{x}",
        f"np.fliplr({x})" if value.ndim > 1 else f"{x}[:]",
        f"np.lib.stride_tricks.sliding_window_view({x}, 2, axis={axis})",
    )
    return f"{d.new()} = {call}"


@step(4)
def copy(d):
    x = d.operand()
    return x and f"{d.new()} = {d.pick(f'{x}.copy()', f'np.copy({x})', f'{x}.flatten()', f'np.array({x})')}"


@step(6)
def read(d):
    x = d.array(where=lambda v: v.ndim > 0)
    if x is None:
        return None
    shape = d.env[x].shape
    guard, mask = d.mask(x)
    axis = d.rng.randrange(len(shape))
    rows = d.integers(shape[axis])
    narrow = tuple(1 if i == axis else n for i, n in enumerate(shape))
    guard_free = [
        f"{x}[{d.fancy(shape)}]",
        f"{x}[{d.fancy(shape)}]",
        f"{x}[{d.place(shape)}]",
        f"np.take({x}, {rows}, axis={axis})",
        f"{x}.take({d.integers(d.env[x].size)})",
        f"{x}.flat[{d.rng.randrange(d.env[x].size)}]",
        f"{x}.flat[1::2]",
        f"np.take_along_axis({x}, np.zeros({narrow}, int), axis={axis})",
    ]
    if d.chance(0.3):
        call = d.pick(f"{x}[{mask}]", f"np.extract({mask}, {x})", f"np.compress({mask}.ravel(), {x}.ravel())")
        return f"{guard}{d.new()} = {call}"
    return f"{d.new()} = {d.rng.choice(guard_free)}"


@step(14)
def write(d):
    """An assignment to cells, often from the array itself."""
    x = d.target()
    if x is None:
        return None
    shape = d.env[x].shape
    kind = d.pick("basic", "basic", "fancy", "mask", "cell", "self", "self mask", "rows")
    guard = ""
    if kind == "cell":
        place = d.place(shape)
        return stored(d, x, f"{x}[{place}] = {d.scalar()}")
    if kind == "self":
        index = d.slice(shape[0])
        length = len(range(shape[0])[slice(*[int(p) if p else None for p in index.split(":")])])
        other = d.pick(
            f"{x}[::-1][:{length}]",
            f"{x}[:{length}]",
            f"{x}[{shape[0] - length}:]",
            f"0.5 * {x}[:{length}]",
            f"{x}[[{', '.join('0' * length)}]]",
        )
        return f"{x}[{index}] = {other}"
    if kind in ("mask", "self mask"):
        guard, mask = d.mask(x)
        if kind == "self mask":
            return f"{guard}m = {mask}\n{x}[m] = {x}{d.pick('[::-1]', '')}[m]{d.pick('', '[::-1]')}"
        if d.chance(0.5):
            return stored(d, x, f"{guard}{x}[{mask}] = {d.scalar()}")
        return stored(d, x, f"{guard}m = {mask}\n{x}[m] = np.broadcast_to({d.fitting(shape, grow=False)}, {shape})[m]")
    if kind == "rows":
        return stored(d, x, f"{x}[{d.integers(shape[0])}] = {d.fitting(shape[1:], grow=False)}")
    index = d.fancy(shape) if kind == "fancy" else d.basic(shape)
    cells = np.shape(d.value(f"{x}[{index}]"))
    return stored(d, x, f"{x}[{index}] = {d.fitting(cells, grow=False)}")


def stored(d: Drawing, target: str, text: str) -> str | None:
    return text if d.storable(target, text) else None


@step(12)
def update(d):
    """An update in place, often overlapping itself."""
    x = d.target()
    if x is None:
        return None
    shape = d.env[x].shape
    kind = d.pick("whole", "whole", "basic", "overlap", "overlap", "fancy", "mask", "cell", "power")
    sign = d.pick("+=", "-=", "*=", "+=")
    if kind == "power":
        return d.pick(f"{x} /= 2.0 + {x} * {x}", f"{x} **= 2", f"{x} /= {d.pick(2.0, -3.0, 4)}", f"{x} *= {x}")
    if kind == "overlap" and shape[0] > 1:
        pairs = [
            ("[1:]", "[:-1]"),
            ("[:-1]", "[1:]"),
            ("", "[::-1]"),
            ("[::-1]", ""),
            ("", "[0]"),
            ("[1:]", "[0]"),
            ("[:-1]", "[::-1][1:]"),
        ]
        here, there = d.rng.choice(pairs)
        if len(shape) == 2 and shape[0] == shape[1] and d.chance(0.3):
            here, there = "", ".T"
        factor = d.pick("", "0.5 * ", "")
        return f"{x}{here} {sign} {factor}{x}{there}"
    if kind == "cell":
        return stored(d, x, f"{x}[{d.place(shape)}] {sign} {d.scalar()}")
    if kind == "mask":
        guard, mask = d.mask(x)
        return stored(d, x, f"{guard}{x}[{mask}] {sign} {d.scalar()}")
    index = {"fancy": d.fancy, "basic": d.basic}.get(kind, lambda _: "...")(shape)
    where = x if kind == "whole" else f"{x}[{index}]"
    cells = np.shape(d.value(where))
    return stored(d, x, f"{where} {sign} {d.fitting(cells, grow=False)}")


@step(9)
def out(d):
    """A function told where to put its result; what it reads may lie there."""
    x = d.target()
    if x is None:
        return None
    shape = d.env[x].shape
    y, z = d.fitting(shape, grow=False), d.fitting(shape, grow=False)
    first = d.pick(x, y, f"{x}[::-1]")
    guard, mask = d.mask(x)
    one = d.pick("np.sin", "np.cos", "np.tanh", "np.negative", "np.square", "np.arctan", "np.positive", "np.exp")
    two = d.pick("np.add", "np.subtract", "np.multiply", "np.add")
    calls = [
        f"{one}({first}, out={x})",
        f"{two}({first}, {z}, out={x})",
        f"{two}({y}, {first}, {x})",
        f"{two}({first}, {z}, out={x}, where={mask})",
        f"{d.pick('np.negative', 'np.square', 'np.reciprocal')}({first}, out={x}, where={mask})",
        f"np.add({x}[1:], {x}[:-1], out={x}[1:])",
        f"np.multiply({x}[1:], {x}[:-1], out={x}[:-1])",
        f"np.cumsum({x}, axis=0, out={x})",
        f"np.clip({x}, -1.0, 1.0, out={x})",
        f"np.divide({first}, 4.0, out={x})",
        f"np.copyto({x}, {y})",
        f"np.copyto({x}, {y}, where={mask})",
        f"np.add({y}, {z}, {x}, where={mask})",
        f"np.take({x}, {d.integers(shape[0], shape[0])}, axis=0, out={x}, mode='wrap')",
        f"np.concatenate([{x}[1:], {x}[:1]], axis=0, out={x})",
        f"np.multiply({y}, {x}, out={x}[...])",
    ]
    total = d.array(where=lambda v: v.ndim == len(shape) + 1 and v.shape[1:] == shape)
    if total and d.chance(0.4):
        calls = [f"np.sum({total}, axis=0, out={x})", f"{total}.sum(0, out={x})"]
        if not d.family.single:  # there NumPy rounds twice
            calls.append(f"np.mean({total}, 0, out={x})")
    guard += f"#? apart({x}, 1.0)\n#? apart({x}, -1.0)\n"
    call = d.rng.choice(calls)
    if "clip" not in call:
        guard = guard if "where" in call else ""
        guard = "".join(line + "\n" for line in guard.splitlines() if "1.0)" not in line or line.count("1.0") > 1)
    if d.chance(0.15) and call.endswith(f"out={x})"):
        call = f"{d.new()} = {call}"
    return stored(d, x, guard + call)


@step(2)
def out_products(d):
    x = d.target(2)
    if x is None:
        return None
    n, m = d.env[x].shape
    a = d.array(2, where=lambda v: v.shape[0] == n)
    if a is None:
        return None
    k = d.env[a].shape[1]
    b = d.array(2, where=lambda v: v.shape == (k, m))
    if b is None or not d.storable(x, a, b):
        return None
    return (
        d.pick(
            f"np.matmul({a}, {b}, out={x})", f"np.dot({a}, {b}, out={x})", f"np.einsum('ij,jk->ik', {a}, {b}, out={x})"
        )
        + f"\n{x} *= {0.3 if k < 9 else 0.02}"
    )


@step(9)
def writers(d):
    """NumPy's functions that write."""
    x = d.target()
    if x is None:
        return None
    value = d.env[x]
    n, shape, size = value.shape[0], value.shape, value.size
    guard, mask = d.mask(x)
    rows = d.integers(n)
    values = f"[{d.scalar()}, {d.number()}]"
    y = d.fitting(shape, grow=False)
    axis = d.rng.randrange(len(shape))
    narrow = tuple(1 if i == axis else k for i, k in enumerate(shape))
    call = d.pick(
        f"np.put({x}, {d.integers(size)}, {values})",
        f"{x}.put({d.integers(size)}, {d.scalar()})",
        f"np.put({x}, {d.integers(size, 3)}, {x}.ravel()[:2], mode='wrap')",
        f"np.put_along_axis({x}, np.full({narrow}, {d.rng.randrange(shape[axis])}), {d.scalar()}, axis={axis})",
        f"np.place({x}, {mask}, {values})",
        f"np.putmask({x}, {mask}, {y})",
        f"np.putmask({x}, {mask}, {values})",
        f"np.add.at({x}, {rows}, {d.scalar()})",
        f"np.subtract.at({x}, {rows}, {d.fitting(shape[1:], grow=False)})",
        f"np.multiply.at({x}, {rows}, {d.scalar()})",
        f"np.add.at({x}, {rows}, {x}[0])",
        f"{x}.fill({d.scalar()})",
        f"{x}.flat[{d.rng.randrange(size)}] = {d.scalar()}",
        f"{x}.flat[:] = {d.scalar()}",
        f"np.fill_diagonal({x}, {d.scalar()})" if len(shape) == 2 else f"{x}[:] = {d.scalar()}",
        f"np.fill_diagonal({x}, {values})" if len(shape) == 2 else f"{x}[...] = {d.scalar()}",
        f"np.copyto({x}[:1], {x}[-1:])",
        f"np.divide.at({x}, {rows}, {d.pick(2.0, -4.0)})",
    )
    return stored(d, x, (guard if "where" in call or mask in call else "") + call)


@step(2)
def sort_in_place(d):
    x = d.target()
    if x is None:
        return None
    return f"#? distinct({x}, -1)\n{x}.sort()" if d.chance(0.7) else f"#? distinct({x}, 0)\n{x}.sort(axis=0)"


@step(6)
def buffer(d):
    """An array made inside, partly filled."""
    shape = d.shape() or (3,)
    if d.chance(0.4) and (x := d.array(where=lambda v: v.ndim > 0)):
        shape = d.env[x].shape
        make = d.pick(
            f"np.zeros_like({x})", f"np.full_like({x}, {d.number()})", f"np.ones_like({x})", f"np.empty_like({x})"
        )
    else:
        dtype = ", dtype=np.float32" if d.family.single and d.chance(0.3) else ""
        make = d.pick(
            f"np.zeros({shape}{dtype})",
            f"np.ones({shape}{dtype})",
            f"np.full({shape}, {d.number()}{dtype})",
            f"np.empty({shape}{dtype})",
            f"np.zeros({shape}, order='F')",
            f"np.full({shape}, {d.scalar()})",
            f"np.linspace(-0.5, 0.7, {int(np.prod(shape))}).reshape({shape})",
        )
    name = d.new()
    text = f"{name} = {make}"
    if "empty" in make:
        return f"{text}\n{name}[...] = {d.number()}"
    if d.chance(0.7):
        half = shape[0] // 2
        y = d.fitting((shape[0] - half, *shape[1:]), grow=False)
        text += d.pick(f"\n{name}[{half}:] = {y}", f"\n{name}[{half}:] += {y}", f"\n{name}[{half}:][::-1] = {y}")
    return text


@step(3)
def outside(d):
    """A plain copy of an array from outside: an operand, then overwritten by constants."""
    if not d.constants:
        return None
    k = d.rng.choice(d.constants).name
    value = d.env[k]
    if np.ndim(value) == 0:
        return f"{d.new()} = {k} * {d.scalar()}"
    p, v = d.new("p"), d.new()
    y = d.fitting(value.shape, grow=False)
    make = d.pick(f"{k}.copy()", f"np.sin({k})", f"{k} * 0.5", f"{k}[::-1].copy()")
    later = d.pick(
        f"{p} *= 0.5",
        f"{p}[...] = 0.25",
        f"{p}[0] = 0.1",
        f"{p}[1:] = {p}[:-1].copy()",
        f"np.negative({p}, out={p})",
        f"{p}.fill(-0.5)",
        f"{p}[{d.integers(value.shape[0])}] += 0.2",
    )
    use = d.pick(
        f"{v} = {p} * {y}",
        f"{v} = {y} / (3.0 + {p} ** 2)",
        f"{v} = np.where({p} > 0.0, {y}, {p})",
        f"{v} = {y} + 0.0\n{v} *= {p}" if "[" not in y else f"{v} = {y} - {p}",
    )
    return f"{p} = {make}\n{use}\n{later}"
