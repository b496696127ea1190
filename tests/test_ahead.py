"""Sums of what is not formed: rows on the host that are added up as they are computed, products of all cells."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from numpy import kron

import ndual
from ndual import NdualError
from ndual.frontend import ahead
from ndual.rules.elementwise import TABLE

N = 20_001  # cells: no multiple of a block, and enough for rows to wait
MODES = ["forward", "reverse"]


def gradient(f, *args, mode):
    """Value and gradient; in forward mode by three directions, which is what one lane a pass can see of so many."""
    if mode == "reverse":
        return ndual.value_and_grad(f, tuple(range(len(args))), mode="reverse")(*args)
    rng = np.random.default_rng(7)
    slopes = []
    for _ in range(3):
        value, slope = ndual.jvp(f, args, tuple(rng.standard_normal(a.shape) for a in args))
        slopes.append(slope)
    return value, np.array(slopes)


def agree(f, named, *args, mode, rtol=1e-12):
    """Both functions have one value and one derivative, which are finite where NumPy's value is."""
    value, got = gradient(f, *args, mode=mode)
    same, want = gradient(named, *args, mode=mode)
    np.testing.assert_allclose(value, named(*args), rtol=rtol)
    np.testing.assert_allclose(value, same, rtol=rtol)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-300)


ONE = [
    name for name, row in TABLE.items() if row.nin == 1 and hasattr(np, name) and type(getattr(np, name)) is np.ufunc
]
BINARY = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ONE)
def test_rows_of_one_operand(told, name, mode):
    x = np.linspace(1.1, 1.9, N) if name == "arccosh" else np.linspace(0.1, 0.9, N)
    space = {"np": np}
    exec(f"def f(x): return np.sum(np.{name}(x))\ndef named(x):\n    y = np.{name}(x)\n    return np.sum(y)", space)
    if not np.issubdtype(np.asarray(space["f"](x)).dtype, np.floating):
        pytest.skip("not a number with a derivative")
    agree(space["f"], space["named"], x, mode=mode)
    if mode == "forward":  # steps are not asked about
        assert told.count(True) == told.count(False) == (3 if told else 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sign", BINARY)
@pytest.mark.parametrize("operands", ["x {} y", "x {} 1.5", "1.5 {} x", "x {} x", "(x * y) {} y"])
def test_operators(told, sign, operands, mode):
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0.5, 2.0, N), rng.uniform(0.5, 2.0, N)
    text, space = operands.format(sign), {"np": np}
    exec(f"def f(x, y): return ({text}).sum() + np.sum({text})", space)
    exec(f"def named(x, y):\n    z = {text}\n    return np.sum(z) + np.sum(z)", space)
    agree(space["f"], space["named"], x, y, mode=mode)
    assert any(told) or (mode == "reverse" and sign in ("**", "/"))  # whose pullback reads the value


@pytest.fixture
def told():
    """What the core asked of the code that runs, and was told."""
    answers = []

    def summed_here(row):
        answers.append(ahead.summed_next(sys._getframe(1), row, ahead.registry.lookup, ahead.SUMS))
        return answers[-1]

    ndual._core.set_summed_next(summed_here)
    yield answers
    ndual._core.set_summed_next(ahead.summed_here)


@pytest.mark.parametrize("mode", MODES)
def test_only_the_last_operation_waits(told, mode):
    x = np.linspace(0.0, 1.0, N)
    gradient(lambda x: np.sum(x * 2.0 + x), x, mode=mode)
    assert told.count(True) == told.count(False) == (1 if mode == "reverse" else 3)


def test_what_the_pullback_reads_is_computed(told):
    """The pullback of hypot reads its value."""
    x = np.linspace(1.0, 2.0, N)
    value, got = ndual.value_and_grad(lambda x: np.sum(np.hypot(x, 2.0)), mode="reverse")(x)
    assert not any(told)
    np.testing.assert_allclose(got, x / np.hypot(x, 2.0), rtol=1e-14)
    assert value == pytest.approx(np.hypot(x, 2.0).sum(), rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_exact_sums_are_numpys(mode):
    x = np.random.default_rng(0).standard_normal(N)
    y = np.random.default_rng(1).standard_normal(N)
    with ndual.config(exact=True):
        assert gradient(lambda x, y: np.sum(x * y), x, y, mode=mode)[0] == np.sum(x * y)
        assert gradient(lambda x, y: np.sum(np.outer(x, y)), x[:99], y[:77], mode=mode)[0] == np.sum(
            np.outer(x[:99], y[:77])
        )


def test_a_sum_is_right_to_rounding():
    """Of numbers of one sign, whatever their order."""
    x = np.random.default_rng(0).uniform(0.0, 1.0, 300_001)
    value, _ = ndual.value_and_grad(lambda x: np.sum(x * 3.0), mode="reverse")(x)
    assert value == pytest.approx(math.fsum((x * 3.0).tolist()), rel=4e-16)


def test_second_derivatives():
    x = np.linspace(0.1, 1.0, N)
    got = ndual.hvp(lambda x: np.sum(np.exp(x) * x), (x,), (np.ones(N),))
    got = got[-1] if isinstance(got, tuple) else got
    np.testing.assert_allclose(got, (x + 2) * np.exp(x), rtol=1e-12)


def test_lines_of_the_users_are_not_skipped():
    """Names that are bound, or calls between, have the array."""
    x = np.linspace(0.0, 1.0, N)
    held = []

    def f(x):
        held.append(z := x * 2.0)
        return np.sum(z) + np.sum(w := x * 3.0) + w[0]

    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(x), np.r_[8.0, np.full(N - 1, 5.0)])


# Products of all cells -----------------------------------------------------------------------------------------------

PRODUCTS = {
    "kron": (lambda x, y: np.sum(np.kron(x, y)), lambda x, y: np.kron(x, y)),
    "method": (lambda x, y: np.kron(x, y).sum(), lambda x, y: np.kron(x, y)),
    "from-import": (lambda x, y: np.sum(kron(x, y)), lambda x, y: np.kron(x, y)),
    "outer": (lambda x, y: np.sum(np.outer(x, y)), lambda x, y: np.outer(x, y)),
    "of a view": (lambda x, y: np.sum(np.kron(x[:2, 1:], np.triu(y))), lambda x, y: np.kron(x[:2, 1:], np.triu(y))),
}


def named_sum(product):
    def f(x, y):
        z = product(x, y)
        return np.sum(z)

    return f


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_of_products(name, mode):
    f, product = PRODUCTS[name]
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((3, 4)), rng.standard_normal((5, 5))
    agree(f, named_sum(product), x, y, mode=mode)


def test_the_product_is_not_formed():
    """Not even where it would not fit into memory."""
    x = np.linspace(0.0, 1.0, 100_000).reshape(100, 1000)
    value, (gx, gy) = ndual.value_and_grad(lambda x, y: np.sum(np.kron(x, y)), (0, 1), mode="reverse")(x, x + 1.0)
    assert value == pytest.approx(x.sum() * (x + 1.0).sum(), rel=1e-14)
    np.testing.assert_allclose(gx, np.full(x.shape, (x + 1.0).sum()), rtol=1e-14)
    np.testing.assert_allclose(gy, np.full(x.shape, x.sum()), rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1.0, np.inf], [0.0, 1.0]),
        ([1.0, np.nan], [0.0, 1.0]),
        ([1e200, -1e200], [1e200, 1e200]),
        ([1e308, 1e308], [1.0, -1.0]),
        ([np.inf, 1.0], [1.0, 2.0]),
    ],
)
def test_sums_of_what_is_not_finite(x, y, mode):
    """Infinities that meet, or cells that overflow, give what they give NumPy."""
    x, y = np.array(x), np.array(y)
    with np.errstate(all="ignore"):
        want = np.sum(np.kron(x, y))
        value, got = gradient(lambda x, y: np.sum(np.kron(x, y)), x, y, mode=mode)
        _, same = gradient(named_sum(np.kron), x, y, mode=mode)
    np.testing.assert_equal(value, want)
    for a, b in zip(got, same, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_other_types_are_formed(mode):
    x, y = np.arange(3, dtype=np.float32), np.arange(1, 4, dtype=np.float32)
    value, got = ndual.value_and_grad(lambda x: np.sum(np.kron(x, y)), mode=mode)(x)
    assert (value, value.dtype, got.tolist()) == (18.0, np.float32, [6.0, 6.0, 6.0])


def test_an_integer_factor():
    x = np.linspace(0.0, 1.0, 4)
    assert ndual.grad(lambda x: np.sum(np.kron(x, np.arange(4))))(x).tolist() == [6.0] * 4


@pytest.mark.parametrize("mode", MODES)
def test_a_part_of_the_product_is_that(mode):
    """A sum along one axis, a name in between and another function have the array."""
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])

    def f(x, y):
        z = np.kron(x, y)
        return np.sum(z[1:]) + np.sum(np.kron(x, y), axis=0) + np.max(np.kron(x, y)) + np.kron(x, y)[0]

    value, (gx, gy) = ndual.value_and_grad(f, (0, 1), mode=mode)(x, y)
    assert value == 21 + 24 + 10 + 3
    assert gx.tolist() == [5.0 + 8.0 + 3.0, 8.0 + 8.0 + 5.0]
    assert gy.tolist() == [2.0 + 3.0 + 1.0, 3.0 + 3.0 + 2.0]


def test_hessians_of_products():
    x = np.array([1.0, 2.0, 3.0])
    got = ndual.hessian(lambda x: np.sum(np.outer(x, x * x)))(x)
    s, q = x.sum(), (x * x).sum()
    want = 2 * x[None, :] + 2 * x[:, None] + 2 * s * np.eye(3)
    assert s * q == ndual.value_and_grad(lambda x: np.sum(np.outer(x, x * x)))(x)[0]
    np.testing.assert_allclose(got, want)


# Other uses of what stands for an array -------------------------------------------------------------------------------

USES = {
    "sum of objects": lambda c: (c * c).sum(),
    "sum of one": lambda c: (c[:1] * c[:1]).sum(),
    "size": lambda c: np.sum((c[:1] * c[:1]).sum()) / (c[:1] * c[:1]).sum().size,
    "mean": lambda c: np.mean((c[:1] * c[:1]).sum()),
    "cell": lambda c: (c[:1] * c[:1]).sum()[3],
    "difference": lambda c: (c[:1] * c[:1]).sum() - 1.0,
    "reflected": lambda c: 2.0 / (1.0 + (c[:1] * c[:1]).sum()),
    "absolute": lambda c: abs((c[:1] * c[:1]).sum()),
    "negative": lambda c: -(c[:1] * c[:1]).sum(),
    "ufunc": lambda c: np.sin((c[:1] * c[:1]).sum()),
    "function": lambda c: np.concatenate([(c[:1] * c[:1]).sum(), np.ones(2)]),
    "comparison": lambda c: c[0] * ((c[:1] * c[:1]).sum() > 0.2),
    "loop": lambda c: sum(list((c[:1] * c[:1]).sum())[:5]),
    "length": lambda c: c[0] * len((c[:1] * c[:1]).sum()),
    "method": lambda c: (c[:1] * c[:1]).sum().max(),
    "sum by axis": lambda c: (c[:1] * c[:1]).sum().sum(axis=0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("use", USES)
def test_other_uses_have_the_array(use, mode):
    """In arrays of objects one instruction makes several results, of which the next one sees none."""
    x = np.linspace(0.1, 1.0, N)

    def f(x):
        cells = np.empty(2, dtype=object)
        cells[0], cells[1] = x, x + 1.0
        return np.sum(USES[use](cells))

    def plain(x):
        return f(x)

    value, _ = gradient(f, x, mode=mode)
    np.testing.assert_allclose(value, plain(x), rtol=1e-12)
    _, slope = ndual.jvp(f, (x,), (np.ones(N),))
    step = 1e-30j
    if use not in ("comparison", "absolute", "method", "length"):
        np.testing.assert_allclose(slope, f(x + step).imag / 1e-30, rtol=1e-11)
    got = ndual.grad(f, mode="reverse")(x)
    np.testing.assert_allclose(got.sum(), slope, rtol=1e-11)


def test_operands_that_were_written_to_since():
    x = np.linspace(0.1, 1.0, N)

    def f(x):
        x = x + 0.0
        cells = np.empty(1, dtype=object)
        cells[0] = x
        y = (cells * cells).sum()
        x[0] = 5.0
        return np.max(y)

    with pytest.raises(NdualError, match="Give the result a name first"):
        ndual.grad(f, mode="reverse")(x)


# Passes whose values are compared -------------------------------------------------------------------------------------

A, B = np.random.default_rng(3).standard_normal((2, 30, 3000))
PARTS = {
    "product": lambda p: A @ np.sin(B.T[:, :8] @ p[:8]) + np.sum(p[8:]),
    "product with a last pass": lambda p: A @ np.sin(B.T @ p[:30] + p[30]),
    "sum": lambda p: np.sum((p[0] * np.linspace(1.0, 2.0, N)) * 1.7) + p[1] * 0.5,
    "kron": lambda p: np.sum(np.kron(p[0] * A[:, :9], B[:, :7])) + p[1],
    "outer": lambda p: np.sum(np.outer(p[0] * A[0], B[0])) + p[1],
}


@pytest.mark.parametrize("width", [1, 20, 32])
@pytest.mark.parametrize("part", PARTS)
def test_values_are_those_of_every_pass(part, width):
    """Whatever moves in it: an operand without lanes is a plain array in some."""
    p = np.random.default_rng(4).standard_normal(60)
    f = PARTS[part]
    got = ndual.jacobian(f, mode="forward", chunk_size=width)(p)
    np.testing.assert_allclose(got, ndual.jacobian(f, mode="reverse")(p), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("product", [np.kron, np.outer])
def test_arguments_that_f_has_written_to(product, mode):
    """The array by its outer name still holds what the caller passed."""
    x = np.ones(20)

    def direct(y):
        y[0] = 10.0
        return np.sum(np.kron(y, x)) if product is np.kron else np.sum(np.outer(y, x))

    with pytest.raises(ndual.AliasError):
        gradient(direct, x, mode=mode)


def test_code_is_read_once():
    """And not at all where no instruction leads to a sum: it takes time that grows with the length of a function."""
    x = np.linspace(0.0, 1.0, N)
    chain = [f"    y = y * {1 + i / 1e5} + x" for i in range(100)]
    sums = [f"    s = s + np.sum(y * {i}.5)" for i in range(50)]
    for lines, reads, waiting in ((chain, False, 0), (chain + sums, True, 50)):
        space = {"np": np}
        exec("\n".join(["def f(x):", "    y, s = x, 0.0", *lines, "    return s + np.sum(y)"]), space)
        assert ndual.grad(space["f"], mode="reverse")(x).shape == x.shape
        known = ahead._codes[id(space["f"].__code__)]
        assert ("steps" in vars(known)) is reads
        assert len(known.found) >= len(lines)
        assert sum(step is not None for step in known.found.values()) == waiting
