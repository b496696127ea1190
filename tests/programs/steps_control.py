"""Steps with control flow: loops over cells, marching, branches on values, inner functions, lists of numbers."""

from __future__ import annotations

import textwrap

import numpy as np
from drawing import STEPS, Drawing, step
from steps_memory import stored

FORMULAS = [
    "0.5 * {p} + {q}",
    "np.sin({p}) - {q}",
    "{p} * {q}",
    "math.tanh({p} + {q})",
    "{q} / (2.0 + {p} * {p})",
    "{p} - 0.3 * {q} * {q}",
]


def formula(d: Drawing, p: str, q: str) -> str:
    chosen = d.rng.choice(FORMULAS)
    return (chosen.replace("math", "np") if d.family.single else chosen).format(p=p, q=q)


@step(7)
def march(d):
    """u[i + 1] = f(u[i]), by cells or by rows."""
    x = d.target(least=2)
    if x is None or d.env[x].shape[0] < 2:
        return None
    n = min(d.env[x].shape[0], 12)
    cell = d.env[x].ndim == 1
    y = d.array(where=lambda v: v.ndim == 1 and v.shape[0] >= n) if cell else None
    q = f"{y}[i]" if y else d.scalar()
    f = formula(d, f"{x}[i - 1]", q)
    f = f if cell else f.replace("math.tanh", "np.tanh")
    sign = d.pick("=", "=", "+=", "*=")
    order = d.pick(f"range(1, {n})", f"range({n} - 1, 0, -1)", f"range(1, {n}, 2)")
    return stored(d, x, f"for i in {order}:\n    {x}[i] {sign} {f}")


@step(5)
def accumulate(d):
    """A sum over cells in a Python loop."""
    x = d.array(where=lambda v: v.ndim in (1, 2))
    if x is None:
        return None
    shape = d.env[x].shape
    s = d.new("s")
    if len(shape) == 1:
        y = d.array(1) or x
        m = min(shape[0], d.env[y].shape[0], 10)
        term = formula(d, f"{x}[i]", f"{y}[-1 - i]")
        return f"{s} = {d.pick('0.0', d.scalar())}\nfor i in range({m}):\n    {s} {d.pick('+=', '-=')} 0.3 * ({term})"
    n, m = (min(k, 4) for k in shape)
    term = formula(d, f"{x}[i, j]", f"{x}[i][j]")
    return f"{s} = 0.0\nfor i in range({n}):\n    for j in range({m}):\n        {s} += 0.2 * ({term})"


@step(4)
def stencil(d):
    """A step of a difference scheme."""
    u = d.target(least=3)
    if u is None or d.env[u].shape[0] < 3:
        return None
    steps = d.rng.randint(1, 4)
    body = d.pick(
        f"{u}[1:-1] += 0.2 * ({u}[2:] - 2.0 * {u}[1:-1] + {u}[:-2])",
        f"{u}[1:-1] = 0.5 * ({u}[2:] + {u}[:-2])",
        f"{u}[1:] -= 0.1 * {u}[1:] * ({u}[1:] - {u}[:-1])",
        f"w = {u}.copy()\n    {u}[1:] = w[:-1]\n    {u}[0] = w[-1]",
        f"{u}[:-1], {u}[1:] = 0.5 * {u}[1:], 0.5 * {u}[:-1]",
        f"{u}[0], {u}[-1] = {u}[-1], {u}[0]",
    )
    return f"for k in range({steps}):\n    {body}"


@step(5)
def gather_loop(d):
    """Numbers put one by one into an array that the loop also reads, or into a list."""
    x = d.array(where=lambda v: v.ndim == 1)
    if x is None:
        return None
    n = min(d.env[x].size, 8)
    v = d.new()
    kind = d.pick("buffer", "list", "comprehension", "grid", "rows", "iterate")
    q = d.scalar()
    if kind == "buffer":
        return f"{v} = np.zeros({n})\nfor i in range({n}):\n    {v}[i] = {formula(d, f'{x}[i]', f'{v}[i - 1]')}"
    if kind == "list":
        return f"t = []\nfor i in range({n}):\n    t.append({formula(d, f'{x}[i]', q)})\n{v} = np.array(t)"
    if kind == "comprehension":
        return f"{v} = np.array([{formula(d, 'z', q)} for z in {x}[:{n}]])"
    if kind == "grid":
        cell = formula(d, f"{x}[i - j]", f"{x}[i]")
        return f"{v} = np.zeros(({n}, 2))\nfor i in range({n}):\n    for j in range(2):\n        {v}[i, j] = {cell}"
    if kind == "rows":
        return f"{v} = np.stack([{d.pick(f'{x} * {x}[i]', f'np.sin({x}) + i')} for i in range(2)])"
    return f"{v} = np.empty({n})\nfor i, z in enumerate({x}[:{n}]):\n    {v}[i] = {formula(d, 'z', q)}"


@step(4)
def branch(d):
    """One of two steps, by a value."""
    s = d.scalar()
    if s.lstrip("-")[0].isdigit():
        return None
    bound = f"{d.rng.uniform(-0.4, 0.4):.2f}"
    x = d.target(sources=s)
    if x is None:
        return None
    lines = [
        d.pick(
            f"{x} *= 0.5", f"{x}[0] = {d.scalar()}", f"{x} += {d.scalar()}", f"{x} = np.sin({x})", f"{x} = {x}[::-1]"
        )
        for _ in range(2)
    ]
    text = f"#? apart({s}, {bound})\nif {s} > {bound}:\n    {lines[0]}\nelse:\n    {lines[1]}"
    return stored(d, x, text)


@step(3)
def while_loop(d):
    """Repeats until a value is small."""
    x = d.target()
    if x is None:
        return None
    s = f"{x}[{d.place(d.env[x].shape)}]"
    apart = f"#? apart({s} * {s}, 0.05)"
    less = d.pick(f"{x} *= 0.7", f"{x} = 0.6 * {x}", f"{s} *= 0.5")
    return f"k = 0\nwhile {s} * {s} > 0.05 and k < 8:\n    {apart}\n    {less}\n    k += 1\n{apart}"


@step(4)
def helper(d):
    """A function that writes into what it is handed."""
    x = d.target()
    if x is None:
        return None
    view = f"{x}[{d.basic(d.env[x].shape)}]"
    if np.ndim(d.value(view)) == 0:
        view = x
    h, v = f"h{d.count}", d.new()
    body = d.pick(
        "z *= 0.5\nreturn z[::-1]",
        "z[0] = 0.25\nreturn z * z",
        "w = z.copy()\nz[...] = np.sin(w)\nreturn w",
        "z += z\nreturn z",
        "w = np.sum(z)\nz[...] = 0.1 * w\nreturn w",
        "z[...], w = z[::-1], 2.0 * z\nreturn w",
    )
    return f"def {h}(z):\n{textwrap.indent(body, '    ')}\n\n{v} = {h}({view})"


@step(3)
def repeat(d):
    """Other steps, in a loop."""
    kinds = ["update", "write", "out", "writers", "unary", "binary", "view", "stencil", "read", "reduction"]
    texts = []
    for _ in range(d.rng.randint(1, 3)):
        kind = d.rng.choice([k for k in kinds if k in d.kinds] or ["unary"])
        text = STEPS[kind][0](d)
        if text:
            texts.append(text)
    if not texts:
        return None
    return f"for k in range({d.rng.randint(1, 3)}):\n{textwrap.indent(chr(10).join(texts), '    ')}"


@step(2)
def rebind(d):
    x, y = d.array(), d.array()
    if x is None or y is None or (x in d.tracked) != (y in d.tracked):
        return None
    return d.pick(f"{x}, {y} = {y}, {x}", f"{x} = {x}[...]", f"{x} = {x} + 0.1", f"{d.new()} = {y}")
