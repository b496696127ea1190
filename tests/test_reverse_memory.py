"""Memory in reverse mode: what is copied and when, arrays that others hold, and memory that arguments share."""

import sys

import numpy as np
import pytest

import ndual

MODES = ["forward", "reverse"]
X = np.array([0.7, -1.3, 2.1, 0.4])


# ---- snapshots: only of values that a pullback reads and that a write really reaches -------------------------------


def march(x):
    u = np.empty((20, 4))
    u[0] = x
    for k in range(19):
        u[k + 1] = np.sin(u[k]) * u[k]
    return np.sum(u[-1])


def march_backwards(x):
    u = np.empty((20, 4))
    u[-1] = x
    for k in range(18, -1, -1):
        u[k] = np.sin(u[k + 1]) * u[k + 1]
    return np.sum(u[0])


def heat(x):
    u = x * 1.0
    for _ in range(20):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = u[1]
        u *= 0.99
    return np.sum(u)


def red_and_black(x):
    u = x * 1.0
    red = np.array([True, False, True, False])
    for _ in range(20):
        u[red] = np.sin(u[~red])
        u[~red] = np.exp(u[[0, 2]])
    return np.sum(u)


def cells_beside(x):
    u = np.sin(x)
    a = u[:2] * u[:2]
    for _ in range(20):
        u[[2, 3]] = 1.0
        u[2:] *= 2.0
        u[3] = x[0]
        np.put(u, [2], 3.0)
    return np.sum(a) + np.sum(u)


@pytest.mark.parametrize("f", [march, march_backwards, heat, red_and_black, cells_beside])
def test_no_snapshot_where_nothing_is_lost(f):
    table = ndual.trace_table(f, X)
    assert table.snapshots == 0
    assert len(table) > 20
    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(X), ndual.grad(f, mode="forward")(X), rtol=1e-12)


def twice_read(x):
    u = np.sin(x)
    a, b = np.exp(u), np.cos(u)  # both read u; exp keeps its value instead
    c = u * u
    u[0] = 0.0
    return np.sum(a) + np.sum(b) + np.sum(c) + np.sum(u)


def part_read(x):
    u = np.sin(x)
    a = u[:2] * u[:2]
    b = u[2:] * u[2:]
    u[[0, 0]] = 0.0
    return np.sum(a) + np.sum(b)


def old_factor(x):
    u = np.sin(x)
    u *= x
    u *= x
    return np.sum(u)


def constant_buffer(x):
    c = np.ones(4)
    a = x * c
    c[:] = 2.0
    return np.sum(a) + np.sum(x * c)


@pytest.mark.parametrize(
    ("f", "count", "nbytes"), [(twice_read, 1, 32), (part_read, 1, 16), (old_factor, 2, 64), (constant_buffer, 1, 32)]
)
def test_snapshots_of_what_is_lost(f, count, nbytes):
    table = ndual.trace_table(f, X)
    assert (table.snapshots, table.copied) == (count, nbytes)
    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(X), ndual.grad(f, mode="forward")(X), rtol=1e-12)


# ---- plain arrays that f reads: nothing tells when they are written to ---------------------------------------------

LARGE = 5000


def test_a_small_constant_may_change_afterwards():
    c = np.array([1.0, 2.0, 3.0, 4.0])

    def f(x):
        y = np.sum(x * c)
        c[:] = 100.0
        z = np.sum(x * c)
        c[:] = [1.0, 2.0, 3.0, 4.0]
        return y + z

    for mode in MODES:
        np.testing.assert_array_equal(ndual.grad(f, mode=mode)(X), np.array([101.0, 102.0, 103.0, 104.0]))
    assert c.flags.writeable


def test_an_index_may_change_afterwards():
    index = np.array([0, 1])

    def f(x):
        y = np.sum(x[index] * np.array([1.0, 10.0]))
        u = x * 2
        u[index] = 0.0
        index[:] = [2, 3]
        return y + np.sum(u)

    np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(X), [1.0, 10.0, 2.0, 2.0])


def test_a_large_constant_is_read_only_until_the_sweep_has_ended():
    base = np.ones((2, LARGE))
    c = base[1]
    seen = []

    def f(x):
        y = np.sum(x * c)
        seen.append((c.flags.writeable, base.flags.writeable))
        c[0] = 5.0
        return y

    with pytest.raises(ValueError, match="read-only") as caught:
        ndual.grad(f, mode="reverse")(np.ones(LARGE))
    assert "copy_constants=True" in caught.value.__notes__[0]
    assert seen == [(False, False)]
    assert c.flags.writeable and base.flags.writeable
    assert c[0] == 1.0

    with ndual.config(copy_constants=True):
        gradient = ndual.grad(f, mode="reverse")(np.ones(LARGE))
    np.testing.assert_array_equal(gradient, np.ones(LARGE))
    assert seen[-1] == (True, True)
    assert c[0] == 5.0


def test_read_only_arrays_of_the_user_stay_so():
    c = np.ones(LARGE)
    c.flags.writeable = False
    np.testing.assert_array_equal(ndual.grad(lambda x: np.sum(x * c), mode="reverse")(np.ones(LARGE)), c)
    assert not c.flags.writeable

    def g(x):
        c[0] = 1.0
        return np.sum(x)

    with pytest.raises(ValueError, match="read-only") as caught:
        ndual.grad(g, mode="reverse")(np.ones(LARGE))
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_arrays_are_released_when_f_fails(error):
    c = np.ones(LARGE)

    def f(x):
        np.sum(x * c)
        raise error("mine")

    with pytest.raises(error, match="mine"):
        ndual.grad(f, mode="reverse")(np.ones(LARGE))
    assert c.flags.writeable


def test_arrays_are_released_when_nested_runs_end():
    c = np.ones(LARGE)
    seen = []

    def inner(y):
        return np.sum(y * y * c)

    def f(x):
        a = np.sum(x * c)
        g = ndual.grad(inner, mode="reverse")(x)
        seen.append(c.flags.writeable)  # the run around still reads it
        return a + np.sum(g * c)

    np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(np.ones(LARGE)), np.full(LARGE, 3.0))
    assert seen == [False]
    assert c.flags.writeable


def test_the_same_constant_in_a_loop_is_copied_once():
    c = np.linspace(0.0, 1.0, 1000)

    def f(x):
        for _ in range(10):
            x = np.sin(x) * c
        return np.sum(x)

    x = np.ones(1000)
    assert ndual.trace_table(f, x).copied == c.nbytes
    np.testing.assert_allclose(ndual.grad(f, mode="reverse")(x), ndual.grad(f, mode="forward")(x), rtol=1e-12)


def test_memory_of_others_is_copied():
    raw = bytearray(8 * LARGE)
    c = np.frombuffer(raw)
    c[:] = 1.0

    def f(x):
        y = np.sum(x * c)
        memoryview(raw).cast("B")[:] = bytes(8 * LARGE)
        return y

    np.testing.assert_array_equal(ndual.grad(f, mode="reverse")(np.ones(LARGE)), np.ones(LARGE))


@pytest.mark.parametrize("mode", MODES)
def test_writing_into_an_array_of_the_closure(mode):
    out = np.zeros(4)

    def f(x):
        out[1] = x[1]
        return np.sum(x)

    with pytest.raises(ndual.DerivativeLostError, match=r"test_reverse_memory\.py"):
        ndual.grad(f, mode=mode)(X)
    assert out.tolist() == [0.0] * 4


@pytest.mark.parametrize("mode", MODES)
def test_arguments_are_never_changed(mode):
    backing = np.zeros((2, 8))
    view = backing[1, ::2]
    view[:] = X

    def f(x, c):
        x[0] *= 2.0
        x[1:] += x[:-1]
        c[0] = x[1]
        c *= c
        np.multiply(x, c, out=x)
        return np.sum(x)

    c = np.array([1.0, 2.0, 3.0, 4.0])
    before = backing.copy()
    value, gradient = ndual.value_and_grad(f, mode=mode)(view, c)
    assert value == f(X.copy(), c.copy())
    np.testing.assert_array_equal(backing, before)
    np.testing.assert_array_equal(c, [1.0, 2.0, 3.0, 4.0])
    other = ndual.grad(f, mode="forward" if mode == "reverse" else "reverse")(X, c)
    np.testing.assert_allclose(gradient, other, rtol=1e-12)


# ---- arguments that share memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_same_array_twice_is_two_arguments(mode):
    x = np.array([1.0])
    value, gradients = ndual.value_and_grad(lambda a, b: a[0] + 2 * b[0], (0, 1), mode=mode)(x, x)
    assert value == 3.0
    assert [g.tolist() for g in gradients] == [[1.0], [2.0]]


@pytest.mark.parametrize("mode", MODES)
def test_the_same_array_twice_in_one_argument_is_one(mode):
    x = np.array([1.0])
    value, (a, b) = ndual.value_and_grad(lambda p: p[0][0] + 2 * p[1][0], mode=mode)((x, x))
    assert value == 3.0
    assert a is b
    assert a.tolist() == [3.0]


def doubled(a, b):
    a[0] *= 2
    return b[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_a_write_into_memory_that_another_argument_shares(mode, argnums):
    x = np.array([1.0, 2.0, 3.0])
    for a, b in ((x, x), (x, x[:2]), (x[1:], x), (x[1:], x[:2])):
        with pytest.raises(ndual.AliasError, match=r"test_reverse_memory\.py.*x\.copy\(\)"):
            ndual.grad(doubled, argnums, mode=mode)(a, b)
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert ndual.grad(doubled, argnums, mode=mode)(x.copy(), x) is not None


@pytest.mark.parametrize("mode", MODES)
def test_writes_through_a_view(mode):
    x = np.array([1.0, 2.0, 3.0, 4.0])

    def f(x):
        y = x[1:3]
        y *= 2
        return np.sum(x**2)

    value, gradient = ndual.value_and_grad(f, mode=mode)(x)
    assert value == 69.0
    assert gradient.tolist() == [2.0, 16.0, 24.0, 8.0]
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


READS = {
    "operator": lambda x, own: np.sum(x * own),
    "other side": lambda x, own: np.sum(own * x),
    "a view of it": lambda x, own: np.sum(x[:2] + own[2:]),
    "product": lambda x, own: own @ x,
    "assignment": lambda x, own: x.__setitem__(slice(None), own),
    "function": lambda x, own: np.sum(np.concatenate([x, own])),
    "ufunc": lambda x, own: np.sum(np.hypot(x, own)),
    "copyto": lambda x, own: np.copyto(x, own),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", READS)
def test_an_argument_that_was_written_met_as_the_array_of_the_caller(name, mode):
    own = X.copy()

    def f(x):
        x[0] *= 2.0
        out = READS[name](x, own)
        return np.sum(x) if out is None else out

    with pytest.raises(ndual.AliasError, match=r"caller's own array.*test_reverse_memory\.py"):
        ndual.grad(f, mode=mode)(own)

    def reads_only(x):
        out = READS["operator"](x, own)
        x[0] *= 2.0
        return out + x[0]

    expected = own + np.array([2.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(ndual.grad(reads_only, mode=mode)(own), expected)
    assert own.tolist() == X.tolist()


def test_references_are_given_back():
    c = np.ones(LARGE)
    small = np.ones(500)
    gradient = ndual.grad(lambda x: np.sum(x * c) + np.sum(x[:500] * small), mode="reverse")
    gradient(np.ones(LARGE))
    before = sys.getrefcount(c), sys.getrefcount(small)
    for _ in range(3):
        gradient(np.ones(LARGE))
    assert (sys.getrefcount(c), sys.getrefcount(small)) == before


def test_a_large_argument_read_before_and_after_it_is_written_to():
    """It is kept itself, not by a stand-in; a write must leave what was read as it was."""

    def f(x):
        first = np.sum(x * x)
        x[1:] = x[:-1] * 2.0
        second = np.sum(x * x)
        x *= 3.0
        return first + second + np.sum(np.sin(x))

    x = np.random.default_rng(0).standard_normal(3000)
    prepared = ndual.prepare_gradient(f, x, mode="reverse")
    for _ in range(3):
        value, gradient = prepared(x)
    y = np.r_[x[0], 2 * x[:-1]]
    want = 2 * x
    into = 2 * y + 3 * np.cos(3 * y)
    want[0] += into[0]
    want[:-1] += 2 * into[1:]
    assert value == pytest.approx(np.sum(x * x) + np.sum(y * y) + np.sum(np.sin(3 * y)), rel=1e-13)
    np.testing.assert_allclose(gradient, want, rtol=1e-12, atol=1e-12)
