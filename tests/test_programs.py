"""Random programs of operations, views and writes: values bit for bit as NumPy's, lanes as complex steps give them.

Every program runs twice: on plain arrays (real ones for the values, complex ones for the reference) and on duals.
Nothing here knows a rule. NDUAL_TEST_PROFILE=deep tries far more programs.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ndual
from ndual import _core

SHAPE = (3, 4)
STEP = 1e-30

UNARY = {
    "sin": np.sin,
    "cos": np.cos,
    "exp": lambda x: np.exp(0.1 * x),
    "tanh": np.tanh,
    "square": np.square,
    "sqrt": lambda x: np.sqrt(x * x + 1.0),
    "negative": np.negative,
    "log1p": lambda x: np.log1p(x * x),
    "reciprocal": lambda x: 1.0 / (2.0 + x * x),
    "arctan": np.arctan,
    "cumsum": lambda x: np.cumsum(x, -1) if x.ndim else x,
    "sum axis": lambda x: np.sum(x, 0, keepdims=True) if x.ndim else x,
    "power": lambda x: x**3,
    "scale": lambda x: 0.5 * x,
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": lambda x, y: x / (3.0 + y * y),
    "where": lambda x, y: np.where(x.real > y.real, x, y),
}
INDICES = [
    ..., 0, -1, (0, 1), slice(1, None), slice(None, None, -1), slice(0, 2), (slice(None), 0),
    (slice(None), slice(1, 3)), (slice(None), slice(None, None, 2)), (None, 1), (..., slice(None, None, -2)),
    [0, 2, 1], [1, 1], (slice(None), [3, 0]), ([0, 1], [1, 2]),
    np.arange(12).reshape(SHAPE) % 3 == 0, np.array([True, False, True]),
]  # fmt: skip
VIEWS = {
    "T": lambda x: x.T,
    "ravel": lambda x: x.ravel(),
    "reshape": lambda x: x.reshape(-1),
    "reshape 2": lambda x: x.reshape(2, -1) if x.size % 2 == 0 else x,
    "newaxis": lambda x: x[None],
    "swapaxes": lambda x: x.swapaxes(0, -1) if x.ndim else x,
    "flip": lambda x: np.flip(x, 0) if x.ndim else x,
    "diagonal": lambda x: x.diagonal() if x.ndim == 2 else x,
    "copy": lambda x: x.copy(),
    "item": lambda x: x[(0,) * x.ndim] if x.size else x,
}


@st.composite
def programs(draw):
    """A list of instructions; operands are numbered, and numbers wrap around what exists by then."""
    kinds = st.sampled_from(["unary", "binary", "view", "read", "write", "write", "inplace", "out", "mask"])
    number = st.integers(0, 12)
    steps = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(kinds)
        table = {"unary": UNARY, "binary": BINARY, "view": VIEWS, "inplace": BINARY, "out": BINARY, "mask": BINARY}.get(
            kind
        )
        name = draw(st.sampled_from(list(table))) if table else draw(st.integers(0, len(INDICES) - 1))
        steps.append((kind, name, draw(number), draw(number), draw(st.integers(0, 4))))
    return steps


def run(program, arguments):
    """Run a program on arrays; an instruction that NumPy refuses is left out, and reported as such."""
    memory = list(arguments)
    refused = []
    for at, (kind, name, i, j, k) in enumerate(program):
        a, b = memory[i % len(memory)], memory[j % len(memory)]
        try:
            result = step(kind, name, a, b, k, memory)
        except (IndexError, ValueError, TypeError) as error:
            if isinstance(error, ndual.NdualError):
                raise
            refused.append(at)
            continue
        if result is not None:
            memory.append(result)
    return memory, refused


def step(kind, name, a, b, k, memory):
    if kind == "unary":
        return UNARY[name](a)
    if kind == "binary":
        return BINARY[name](a, b)
    if kind == "view":
        return VIEWS[name](a)
    if kind == "read":
        return a[INDICES[name]]
    if kind == "write":
        if k == 0:
            a[INDICES[name]] = 0.75
        elif k == 1:
            a[INDICES[name]] = a[INDICES[(name + 1) % len(INDICES)]]
        else:
            a[INDICES[name]] = b
        return None
    if kind == "inplace":
        if a.ndim == 0:
            return None
        before = a
        if k == 0:
            a += b
        elif k == 1:
            a *= 0.5
        elif k == 2:
            a[1:] -= a[:-1]
        elif k == 3:
            a[...] = a[::-1]
        else:
            a *= b
        assert a is before
        return None
    if kind == "out":
        if name in ("divide", "where") or a.ndim == 0:
            return None
        ufunc = BINARY[name]
        if k == 0:
            ufunc(a, 2.0, out=a)
        elif k == 1:
            ufunc(a[1:], a[:-1], out=a[1:])
        else:
            ufunc(a, b, out=a)
        return None
    a[a.real > 0.25 * k] = 0.5 * b[a.real > 0.25 * k] if b.shape == a.shape and k % 2 else 0.125
    return None


def same_bits(a, b):
    return (
        np.asarray(a).dtype == np.asarray(b).dtype
        and np.shape(a) == np.shape(b)
        and np.array_equal(a, b, equal_nan=True)
    )


def inputs(seed):
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, *SHAPE))
    return x, y, np.float64(0.3)


def laid(x, y, s, layout):
    """Fresh copies of the inputs, laid out in memory in one of three ways: what is a view depends on it."""
    x, y = x.copy(), y.copy()
    if layout == 1:
        x, y = np.asfortranarray(x), y[::-1].copy()[::-1]
    elif layout == 2:
        wide = np.zeros((6, 4), x.dtype)
        wide[::2] = x
        x = wide[::2]
    return x, y, s


@given(programs(), st.integers(0, 2**20), st.integers(0, 2), st.sampled_from([1, 2, 3, 5]))
def test_random_programs(program, seed, layout, width):
    arguments = laid(*inputs(seed), layout)
    with np.errstate(all="ignore"), ndual.config(exact=True):
        start = laid(*arguments, layout)
        plain, refused = run(program, start)
        rng = np.random.default_rng(seed + 1)
        lanes = [rng.uniform(-1, 1, (width, *np.shape(v))) for v in arguments]
        before = [np.copy(v) for v in (*arguments, *lanes)]
        with _core.Level(width) as level:
            duals = [_core.dual(v, t, level) for v, t in zip(arguments, lanes, strict=True)]
            memory, dual_refused = run(program, duals)
            found = [(_core.primal(d), _core.lanes(d)) if _core.is_dual(d) else (d, None) for d in memory]
            shares = [shared(d, duals[0]) for d in memory]
        assert dual_refused == refused
        for value, ((got, _), share) in zip(plain, zip(found, shares, strict=True), strict=True):
            assert close_bits(got, value), program
            if share is not None and isinstance(value, np.ndarray):
                assert share == np.shares_memory(value, start[0]), program
        for saved, now in zip(before, (*arguments, *lanes), strict=True):
            np.testing.assert_array_equal(now, saved)
        for lane in range(width):
            moved = (v + 1j * STEP * t[lane] for v, t in zip(arguments, lanes, strict=True))
            reference, _ = run(program, laid(*moved, layout))
            for (value, t), want in zip(found, reference, strict=True):
                wanted = np.imag(want) / STEP
                got = np.zeros(np.shape(value)) if t is None else t[lane]
                finite = np.isfinite(wanted) & np.isfinite(got)
                size = np.max(np.abs(wanted[finite]), initial=1.0)
                assert (abs(got - wanted)[finite] <= 1e-9 * size).all(), program


def close_bits(got, want):
    """Equal bits; NumPy's own loops differ by a last bit between layouts, and duals may be laid out otherwise."""
    if same_bits(got, want):
        return True
    got, want = np.asarray(got), np.asarray(want)
    return (
        got.shape == want.shape
        and got.dtype == want.dtype
        and np.allclose(got, want, rtol=1e-13, atol=1e-13, equal_nan=True)
    )


def shared(dual, whole):
    """Whether a dual shares memory with another, lanes and values alike."""
    if not _core.is_dual(dual) or not isinstance(dual, np.ndarray):
        return None
    value, lanes = (np.shares_memory(a, b) for a, b in zip(_core.split(dual), _core.split(whole), strict=True))
    assert value == lanes
    return value


@given(programs(), st.integers(0, 2**20))
def test_chunks_agree(program, seed):
    """A whole gradient in passes of any width, on the program's last result."""
    x, y, s = inputs(seed)

    def f(x, y, s):
        memory, _ = run(program, [x, y, s])
        return sum((np.sum(v) for v in memory), 0.0)

    with np.errstate(all="ignore"):
        want, one = ndual.value_and_grad(f, argnums=(0, 1, 2), chunk_size=1)(x, y, s)
        for chunk in (5, 25, 7):
            value, gradient = ndual.value_and_grad(f, argnums=(0, 1, 2), chunk_size=chunk)(x, y, s)
            assert value == want or np.isnan(want)
            for a, b in zip(gradient, one, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.max(np.abs(b), initial=1.0))
