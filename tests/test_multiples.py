"""Shadows that are a number times something: against forward mode, which has none, and against numbers by hand."""

import numpy as np
import pytest

import ndual
from ndual import _core

N = 300  # cells: more than what is handed on by a copy


def arrays(dtype=np.float64, count=3, n=N):
    rng = np.random.default_rng(5)
    return tuple((1.5 + rng.uniform(-1.0, 1.0, n)).astype(dtype) for _ in range(count))


def weights(x):
    return np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape)


CHAINS = {
    "affine": lambda x, y, z: np.sum((3.0 * (x - y) + 2.0) / 4.0 - z),
    "affine, weighed": lambda x, y, z: np.sum(weights(x) * ((3.0 * (x - y) + 2.0) / 4.0 - z)),
    "twice the same": lambda x, y, z: np.sum(x + x) + np.sum(x - x) + np.sum(y * y) + np.sum((z * z) * 0.5),
    "twice the same, weighed": lambda x, y, z: np.sum(weights(x) * (2.0 * (x + x) - (y - y))) + np.sum(z),
    "a product in a chain": lambda x, y, z: np.sum(-(0.5 * x * y - z) * 2.0),
    "a product of products": lambda x, y, z: np.sum((x * y) * (y * z)),
    "partials that are multiples": lambda x, y, z: np.sum(np.square(x)) + np.sum(np.exp(y)) + np.sum(z / (x + 2.0)),
    "two chains that meet": lambda x, y, z: (
        np.sum(2.0 * x * y) + np.sum(3.0 * x) + np.sum(weights(x) * x) + np.sum(x * z)
    ),
    "numbers as operands": lambda x, y, z: np.sum(np.square((x - y[0]) / z[1]) * y[2]) - np.sum((x * z[3] + y) - z[4]),
    "a result that is used twice": lambda x, y, z: (lambda p: np.sum(p * 2.0) + np.sum(p * z) + np.sum(p))(x * y),
    "parts": lambda x, y, z: np.sum(2.0 * (x * y)[5:]) + np.sum((x * y)[::-1] * z) + np.sum((3.0 * x)[::3]),
    "reshaped": lambda x, y, z: np.sum((0.5 * (x * y)).reshape(30, -1) * z.reshape(30, -1)),
    "transposed": lambda x, y, z: np.sum((2.0 * (x.reshape(20, -1) + y.reshape(20, -1))).T * z.reshape(-1, 20)),
    "stretched": lambda x, y, z: np.sum(2.0 * (x.reshape(20, -1) * y[:15]) - z[:20, None]),
    "rules": lambda x, y, z: np.sum(0.5 * np.roll(x * y, 3)) + np.sum(np.square(0.5 * np.roll(2.0 * x, 1))) + np.sum(z),
    "no derivative": lambda x, y, z: np.sum(x * np.floor(y)) + np.sum(np.where(z > 1.5, x * z, 2.0 * y)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name, dtype):
    f, args = CHAINS[name], arrays(dtype)
    value, found = ndual.value_and_grad(f, (0, 1, 2), mode="reverse")(*args)
    want = ndual.grad(f, (0, 1, 2), mode="forward")(*args)
    assert np.isclose(
        value, f(*args), rtol=1e-5 if dtype == np.float32 else 1e-14, atol=1e-4 if dtype == np.float32 else 0
    )
    for g, w in zip(found, want, strict=True):
        assert g.dtype == dtype
        np.testing.assert_allclose(
            g, w, rtol=4e-6 if dtype == np.float32 else 1e-13, atol=1e-6 if dtype == np.float32 else 0
        )


def minus(y, x):
    y -= 1.0


def scaled(y, x):
    y *= -0.5


def own_terms(y, x):
    y += 0.1 * np.sin(y)


def part_of_itself(y, x):
    y[1:] += y[:-1]


def doubled(y, x):
    y += y


def every_other(y, x):
    y[::2] *= 0.5
    y -= x


def subtracted_from(y, x):
    np.subtract(1.0, y, out=y)


def negated(y, x):
    np.negative(y, out=y)
    y /= 3.0


def backwards(y, x):
    np.subtract(y, y[::-1].copy(), out=y)
    y[::-1] += 1.0


@pytest.mark.parametrize(
    "step", [minus, scaled, own_terms, part_of_itself, doubled, every_other, subtracted_from, negated, backwards]
)
@pytest.mark.parametrize("end", [np.sum, lambda y: np.sum(weights(y) * y * y), lambda y: np.sum(y[3:] * 2.0)])
def test_steps_in_place(step, end):
    def f(x):
        y = x.copy()
        for _ in range(3):
            step(y, x)
        return end(y)

    (x,) = arrays(count=1)
    np.testing.assert_allclose(
        ndual.grad(f, mode="reverse")(x), ndual.grad(f, mode="forward")(x), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize(("small", "large"), [(1e-200, 1e200), (1e-150, 1e150), (1e-99, 1e99), (1e-90, 1e150)])
def test_factors_that_make_up_for_each_other(small, large):
    """What would vanish or overflow as a factor of its own does not where cells take it in at once."""
    x, y, _ = arrays()
    gx, gy = ndual.grad(
        lambda x, y: np.sum(((x * (small * y)) * large) * (1.0 / (small * large))), (0, 1), mode="reverse"
    )(x, y)
    np.testing.assert_allclose(gx, y, rtol=1e-14)
    np.testing.assert_allclose(gy, x, rtol=1e-14)


def test_a_factor_that_vanishes_without_the_cells():
    """1e-150 times 1e-200 is nothing, and 1e-150 where the cells are 1e200."""
    x, y = np.ones(N), np.full(N, 1e200)
    found = ndual.grad(lambda x: np.sum(((x * 1e-200) * y) * 1e-150), mode="reverse")(x)
    np.testing.assert_allclose(found, np.full(N, 1e-150), rtol=1e-14)


def test_zeros_annihilate():
    """A cell without cotangent stays so, whatever its factor: 0 times infinity is 0."""
    x, y, _ = arrays()
    y[7] = 0.0
    zero = 0.0
    with np.errstate(all="ignore"):
        g = ndual.grad(lambda x, zero: np.sum(((x * y) / zero) * zero), mode="reverse")(x, zero)
        want = ndual.grad(lambda x, zero: np.sum(((x * y) / zero) * zero), mode="forward")(x, zero)
    np.testing.assert_array_equal(g, want)
    g = ndual.grad(lambda s: np.sum(weights(x) * (y / s)), mode="reverse")(np.inf)
    assert g == 0.0


def test_sweeps_after_the_first():
    """Every sweep starts from nothing."""
    x, y, z = arrays()
    _, pull = ndual.vjp(lambda x, y: (2.0 * (x * y), np.sum(x * y)), x, y)
    for scale in (1.0, 3.0):
        gx, gy = pull((scale * z, scale))
        np.testing.assert_allclose(gx, scale * (2.0 * z + 1.0) * y, rtol=1e-14)
        np.testing.assert_allclose(gy, scale * (2.0 * z + 1.0) * x, rtol=1e-14)
    rows = ndual.jacobian(lambda x: 3.0 * (x - 1.0) * y, mode="reverse")(x)
    np.testing.assert_array_equal(rows, np.diag(3.0 * y))


def test_second_order():
    x, y, _ = arrays(n=160)
    found = ndual.hessian(lambda x: np.sum(0.5 * x * x * y - 2.0 * x))(x)
    np.testing.assert_allclose(found, np.diag(y), rtol=1e-14, atol=0)


def test_arrays_that_a_rule_keeps():
    """A rule of one's own may write into what it returned before: nothing of it is taken as it is."""
    room = np.empty(N)

    def vjp(value, primals, w):
        np.multiply(w, 3.0, out=room)
        return (room,)

    triple = ndual.custom_rule(lambda x: 3.0 * x, vjp=vjp)
    x, y, _ = arrays()
    gx, gy = ndual.grad(lambda x, y: np.sum(weights(x) * triple(x)) + np.sum(triple(y)), (0, 1), mode="reverse")(x, y)
    np.testing.assert_allclose(gx, 3.0 * weights(x), rtol=1e-15)
    np.testing.assert_array_equal(gy, np.full(N, 3.0))


def test_results_are_arrays_of_their_own():
    """Gradients share no memory with each other, with arguments or with constants."""
    x, y, z = arrays()
    found = ndual.grad(
        lambda x, y, z: np.sum(x * y) + np.sum(z * weights(z)) + np.sum(x + y), (0, 1, 2), mode="reverse"
    )(x, y, z)
    everything = [*found, x, y, z]
    for i, a in enumerate(everything):
        assert a.flags.writeable
        assert not any(np.shares_memory(a, b) for b in everything[:i])


def test_inputs_stay_as_they_are():
    x, y, z = arrays()
    before = [a.copy() for a in (x, y, z)]
    ndual.grad(lambda x, y, z: np.sum((x * y - z) * 2.0), (0, 1, 2), mode="reverse")(x, y, z)
    for a, b in zip((x, y, z), before, strict=True):
        np.testing.assert_array_equal(a, b)


VIEWS = {
    "corner": lambda a: a[:5, :4],
    "column": lambda a: a[:, 3],
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-2, ::-1],
    "diagonal": lambda a: np.diagonal(a),
    "empty": lambda a: a[3:3],
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", VIEWS)
def test_sums_of_views(name, mode):
    a = np.random.default_rng(2).standard_normal((12, 9))
    value, found = ndual.value_and_grad(lambda a: np.sum(VIEWS[name](a * 2.0)) + np.sum(VIEWS[name](a)), mode=mode)(a)
    want = np.zeros_like(a)
    want.reshape(-1)[VIEWS[name](np.arange(a.size).reshape(a.shape))] = 3.0
    np.testing.assert_array_equal(found, want)
    assert value == np.sum(VIEWS[name](a * 2.0)) + np.sum(VIEWS[name](a))


SHAPES = [
    ((4, 3), (3, 5)),
    ((4, 3), (3,)),
    ((3,), (3, 5)),
    ((3,), (3,)),
    ((1, 3), (3, 1)),
    ((40, 30), (30, 20)),
    ((2, 1), (1, 3)),
]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("order", ["C", "F", "view"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products(shapes, order, dtype):
    """Both factors, one of them, and one that gets cotangents from several products."""
    rng = np.random.default_rng(1)

    def laid_out(shape):
        x = rng.standard_normal(shape).astype(dtype)
        return np.repeat(x, 2, axis=-1)[..., ::2] if order == "view" else np.asarray(x, order=order)

    a, b = map(laid_out, shapes)
    w = rng.standard_normal(np.shape(a @ b)).astype(dtype)
    wide = np.atleast_2d(w) if a.ndim != 2 or b.ndim != 1 else w[:, None]
    left = np.atleast_2d(a)
    right = b[:, None] if b.ndim == 1 else b
    ga, gb = (wide @ right.T).reshape(a.shape), (left.T @ wide).reshape(b.shape)
    close = {"rtol": 1e-4 if dtype == np.float32 else 1e-12, "atol": 1e-5 if dtype == np.float32 else 1e-13}
    for f, want in (
        (lambda a, b: np.sum(w * (a @ b)), (ga, gb)),
        (lambda a, b: np.sum(w * (a @ b)) + np.sum(w * (2.0 * a @ b)), (3.0 * ga, 3.0 * gb)),
        (lambda a, b: np.sum(w * ((a.T.copy().T) @ b)), (ga, gb)),
    ):
        found = ndual.grad(f, (0, 1), mode="reverse")(a, b)
        for g, right_one in zip(found, want, strict=True):
            assert g.dtype == dtype
            np.testing.assert_allclose(g, right_one, **close)
    np.testing.assert_allclose(ndual.grad(lambda a: np.sum(w * (a @ b)), mode="reverse")(a), ga, **close)
    np.testing.assert_allclose(ndual.grad(lambda b: np.sum(w * (a @ b)), mode="reverse")(b), gb, **close)


@pytest.mark.parametrize("again", [False, True])
def test_products_with_infinities(again):
    """No cotangent, no derivative: the row of zeros does not meet the infinity."""
    a, b = np.ones((3, 2)), np.array([[np.inf, 1.0], [2.0, 3.0]])
    w = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])

    def f(a, b):
        with np.errstate(all="ignore"):
            c = a @ b
            return np.sum(np.where(w != 0.0, w * c, 0.0)) + (np.sum(3.0 * a) if again else 0.0)

    ga, gb = ndual.grad(f, (0, 1), mode="reverse")(a, b)
    np.testing.assert_array_equal(ga, np.outer([1.0, 2.0, 3.0], [1.0, 3.0]) + 3.0 * again)
    np.testing.assert_array_equal(gb, [[0.0, 6.0], [0.0, 6.0]])


@pytest.mark.parametrize("name", CHAINS)
def test_nothing_stays_in_memory(name):
    """Shadows that are multiples of their own values, or of each other's, hold nobody back."""
    args = arrays()
    prepared = ndual.prepare_gradient(CHAINS[name], *args, argnums=(0, 1, 2), mode="reverse")
    prepared(*args)
    before = _core.pool_info()["live"]
    for _ in range(3):
        prepared(*args)
    assert _core.pool_info()["live"] <= before


def test_nothing_stays_in_memory_after_an_error():
    def fails(value, primals, w):
        raise RuntimeError("expected")

    def f(x):
        y = once(x)
        p = y * 2.0
        q = y * 3.0
        return np.sum(p * p) + np.sum(p * q)

    once = ndual.custom_rule(lambda x: 1.0 * x, vjp=fails)
    x, _, _ = arrays(n=4 * N)
    before = None
    for _ in range(4):
        with pytest.raises(RuntimeError, match="expected"):
            ndual.grad(f, mode="reverse")(x)
        before = _core.pool_info()["live"] if before is None else before
    assert _core.pool_info()["live"] <= before


@pytest.mark.parametrize("n", [3, 400])
def test_sums_of_shared_cells_at_second_order(n):
    """What is stretched or a window has cells that count several times, in every order of modes."""
    x = np.linspace(0.5, 1.5, n)
    windows = np.lib.stride_tricks.sliding_window_view
    twice = np.full(n, 2.0)
    twice[[0, -1]] = 1.0
    for f, count in (
        (lambda a: np.sum(np.broadcast_to(a * a, (4, n))), np.full(n, 4.0)),
        (lambda a: np.sum(windows(a * a, 2)), twice),
    ):
        np.testing.assert_array_equal(ndual.hessian(f)(x), np.diag(2.0 * count))
        slope = ndual.grad(f, mode="reverse")
        np.testing.assert_array_equal(ndual.jvp(slope, (x,), (x,))[1], 2.0 * count * x)
        np.testing.assert_array_equal(
            ndual.grad(lambda a, slope=slope: np.sum(slope(a) * x), mode="reverse")(x), 2.0 * count * x
        )


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.float16])
def test_other_types_are_not_handed_on(dtype):
    """Cotangents of rules over complex and half numbers: a complex number is not to be multiplied as two floats."""
    rng = np.random.default_rng(8)
    a = rng.standard_normal((30, 20)) + (1j * rng.standard_normal((30, 20)) if np.dtype(dtype).kind == "c" else 0)
    a = a.astype(dtype)

    def f(a):
        return np.sum(np.abs(np.stack([np.roll(a, 1), 2 * a])) ** 2)

    found = ndual.grad(f, mode="reverse")(a)
    np.testing.assert_allclose(found, 10 * a, rtol={2: 4e-3, 8: 1e-6, 16: 1e-14}[a.itemsize])


def test_parts_of_a_shadow_that_is_a_multiple():
    """A number that was added to one part gets the cotangents of that part."""
    w = np.cos(np.arange(9.0))

    def f(a):
        v = np.zeros(9)
        v[4:] += a
        return np.sum(v * w * 2.0)

    assert ndual.grad(f, mode="reverse")(np.array([0.5])).tolist() == pytest.approx([2.0 * w[4:].sum()])
    assert ndual.grad(f, mode="reverse")(0.5) == pytest.approx(2.0 * w[4:].sum())


@pytest.mark.parametrize("c", [1e-154, 1e-158, 1e-160])
def test_small_sums_with_factors(c):
    """Products of cells that are denormal, and are not with the factor."""
    cells = np.full(200, c)
    found = ndual.grad(lambda x: np.sum(weights(cells) * ((x * cells) * 1e18 * cells)), mode="reverse")(1.0)
    want = 1e18 * c * np.sum(weights(cells)) * c
    assert found == pytest.approx(want, rel=1e-10, abs=0)


def test_small_sums_with_large_factors():
    """A sum of products that vanish without the factor is not taken apart."""
    c = np.full(200, 1e-160)
    found = ndual.grad(lambda x: np.sum(((x * c) * 1e80) * c), mode="reverse")(1.0)
    assert found == pytest.approx(2e-238, rel=1e-14, abs=0)
    c = np.full(200, 1e-200)
    assert ndual.grad(lambda x: np.sum(((x * c) * 1e99) * c), mode="reverse")(1.0) == pytest.approx(
        2e-299, rel=1e-14, abs=0
    )


@pytest.mark.parametrize("n", [64, 3000])
def test_products_added_to_what_is_not_finite(n):
    """An infinity in a cell leaves the other cells alone, however far away they are."""
    a = np.random.default_rng(4).uniform(1.0, 2.0, (5, n))
    x = np.linspace(0.0, 1.0, n)
    with np.errstate(all="ignore"):
        found = ndual.grad(lambda x: np.sum(a @ x) + np.sum(np.sqrt(x)), mode="reverse")(x)
        want = a.sum(0) + 0.5 / np.sqrt(x)
    assert found[0] == np.inf
    np.testing.assert_allclose(found[1:], want[1:], rtol=1e-14)


BESIDE = {
    "sum": lambda m, s: np.sum(m + s),
    "difference": lambda m, s: np.sum(s - m),
    "product": lambda m, s: np.sum(m * s),
    "quotient": lambda m, s: np.sum(m / s),
    "quotient of it": lambda m, s: np.sum(s / m),
    "neither": lambda m, s: np.sum(np.hypot(m, s)),
    "turned": lambda m, s: np.sum((m.T * s).T) + np.sum(m.T + s),
    "a cell of an array": lambda m, s: np.sum(m * np.stack([s, s])[:1]),
    "an array of one cell": lambda m, s: np.sum(m * s.reshape(1, 1)) + np.sum(m - s.reshape(1, 1)),
    "twice": lambda m, s: np.sum(m * s * s) + np.sum(s * m + s),
    "a factor of a sum": lambda m, s: 3.0 * np.sum(m * s),
}


@pytest.mark.parametrize("shape", [(7, 9), (60, 70)])
@pytest.mark.parametrize("name", BESIDE)
def test_numbers_beside_a_cotangent_that_is_one_number(name, shape):
    """Against forward mode, which adds up cells."""
    rng = np.random.default_rng(3)
    m, s = rng.uniform(0.5, 2.0, shape), np.array(1.3)

    def f(m, s):
        return BESIDE[name](np.exp(m), s)

    v, w = rng.standard_normal(shape), 0.7
    value, slope = ndual.jvp(f, (m, s), (v, np.array(w)))
    same, (gm, gs) = ndual.value_and_grad(f, (0, 1), mode="reverse")(m, s)
    assert same == pytest.approx(value, rel=1e-13)
    assert np.sum(gm * v) + gs * w == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_numbers_beside_cells_that_are_not_finite(bad):
    m = np.linspace(0.5, 1.5, 3000)
    m[[5, 9]] = bad, np.abs(bad)
    for f in (lambda s: np.sum(m * s), lambda s: np.sum(s * m) * 0.0, lambda s: np.sum(m + s)):
        with np.errstate(all="ignore"):
            _, slope = ndual.jvp(f, (1.3,), (1.0,))
            np.testing.assert_equal(float(ndual.grad(f, mode="reverse")(1.3)), float(slope))
