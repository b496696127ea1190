"""Reverse mode when something is wrong: stale numbers, no cotangents, errors and lack of memory midway, threads."""

import gc
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ndual
from ndual._core._dual import swaps

X = np.array([0.4, -1.3, 2.2])
LARGE = np.linspace(0.5, 1.5, 8192)


def chain(x):
    return np.sum(np.sin(x) * x[::-1])


CHAIN = np.cos(X) * X[::-1] + np.sin(X)[::-1]


def assert_sound():
    """Nothing of a failed call is left: interception, levels, read-only arrays."""
    assert swaps() == 0
    assert ndual._core.current_level() is None
    assert LARGE.flags.writeable
    assert_allclose(ndual.grad(chain, mode="reverse")(X), CHAIN, rtol=1e-14)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    assert_sound()


# ---- cotangents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "cotangent", "error", "words"),
    [
        (np.sin, (), TypeError, r"expects a cotangent of the output, a float64 array of shape \(3,\); got none"),
        (lambda x: (x[0], x), (), TypeError, "in the structure that f returned; got none"),
        (lambda x: np.sum(x * 1j), (), TypeError, "a complex128 number; got none"),
        (np.sin, (np.ones(2),), ValueError, r"expected the shape of the output, \(3,\); got \(2,\)"),
        (np.sin, (1.0,), ValueError, r"expected the shape of the output, \(3,\); got \(\)"),
        (np.sin, (np.ones(3) * 1j,), TypeError, "expected a float64 array.*got complex128"),
        (np.sin, ("a",), TypeError, "expected a float64 array.*got str"),
        (lambda x: (x[0], x), (1.0,), ValueError, "expected a tuple of 2, as f returned it; got float"),
        (lambda x: {"a": x[0]}, ({"b": 1.0},), ValueError, "with the keys 'a', as f returned it"),
    ],
)
def test_cotangents_that_do_not_fit(f, cotangent, error, words):
    _, pullback = ndual.vjp(f, X)
    with pytest.raises(error, match=words) as caught:
        pullback(*cotangent)
    assert isinstance(caught.value, ndual.NdualError)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndual.vjp(np.sin), ValueError, "the arguments of the function after it; got none"),
        (lambda: ndual.vjp(3.0, X), TypeError, "vjp expects a function; got float"),
        (lambda: ndual.vjp(len, "a"), TypeError, "at least one float number.*got str 'a'"),
        (lambda: ndual.vjp(np.sum, np.ones(2, np.longdouble)), ndual.UnsupportedDtype, "astype"),
        (lambda: ndual.vjp(lambda x: "a", X), TypeError, "value"),
        (lambda: ndual.grad(lambda x: x, mode="reverse")(X), TypeError, r"real scalar; got shape \(3,\). Use jacobian"),
        (lambda: ndual.grad(lambda x: x[0] * 1j, mode="reverse")(X), TypeError, "real scalar; got a complex one"),
        (lambda: ndual.grad(lambda x: "a", mode="reverse")(X), TypeError, "real scalar; got str"),
        (lambda: ndual.jacobian(np.sin, mode="reverse")(1j * X), TypeError, "expected real arguments"),
        (lambda: ndual.grad(lambda x: float(x[0]), mode="reverse")(X), ndual.DerivativeLostError, "float"),
        (lambda: ndual.derivative(np.sin, mode="reverse")(X), TypeError, "expects one number"),
    ],
)
def test_bad_input(call, error, words):
    if words == "value":
        value, pullback = call()
        assert value == "a"
        assert_array_equal(pullback(None)[0], np.zeros(3))
        return
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ndual.NdualError)


def test_a_point_without_derivative():
    degenerate = np.eye(2)
    vectors = lambda a: 2 * np.linalg.eigh(a)[1][0, 0] + np.linalg.eigh(a)[1][0, 1]  # noqa: E731
    for call in (
        ndual.grad(vectors, mode="reverse"),
        ndual.jacobian(vectors, mode="reverse"),
        lambda a: ndual.vjp(vectors, a)[1](),
    ):
        with pytest.raises(ndual.UndefinedDerivativeError, match="eigenvectors"):
            call(degenerate)


# ---- duals out of their place ------------------------------------------------------------------------------------


def escaped(mode="reverse"):
    """A number and an array of a reverse run that has ended."""
    kept = []

    def f(x):
        kept.extend([x[0] * 2, x * 2])
        return np.sum(x)

    ndual.grad(f, mode=mode)(X)
    return kept


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize(
    "use", [lambda d: d + 1, lambda d: np.sin(d), lambda d: ndual.grad(lambda x: np.sum(d * x), mode="reverse")(X)]
)
def test_a_dual_after_its_tape_ended(k, use):
    with pytest.raises(ndual.StaleDualError):
        use(escaped()[k])


@pytest.mark.parametrize("k", [0, 1])
def test_a_dual_of_one_tape_in_another(k):
    old = escaped()[k]
    with pytest.raises(ndual.StaleDualError):
        ndual.grad(lambda x: np.sum(x * old), mode="reverse")(X)
    with pytest.raises(ndual.StaleDualError):
        ndual.grad(lambda x: np.sum(x * old), mode="forward")(X)
    with pytest.raises(ndual.StaleDualError):
        ndual.vjp(np.sin, X)[1](old if k else np.array([1.0, 2.0, 3.0]) * old)


@pytest.mark.parametrize("k", [0, 1])
def test_a_dual_in_another_thread(k):
    seen = []

    def f(x):
        dual = (x[0] * 2, x * 2)[k]

        def other():
            try:
                seen.append(dual + 1)
            except Exception as error:
                seen.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return np.sum(x)

    with pytest.raises(ndual.StaleDualError):
        ndual.grad(f, mode="reverse")(X)
    assert isinstance(seen[0], ndual.StaleDualError)


def test_writing_to_an_array_from_outside():
    outside = np.zeros(3)

    def f(x):
        outside[0] = x[0]
        return np.sum(outside)

    with pytest.raises(ndual.DerivativeLostError):
        ndual.grad(f, mode="reverse")(X)
    assert_array_equal(outside, np.zeros(3))


# ---- errors midway -----------------------------------------------------------------------------------------------


class Midway(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("operator", [ndual.grad, ndual.jacobian, ndual.value_and_grad])
def test_an_error_of_the_function(operator):
    frozen = []

    def f(x):
        y = x * LARGE[:3] + np.sum(LARGE * np.sum(x))
        frozen.append(not LARGE.flags.writeable)
        if x[0] == X[0]:
            raise Midway
        return np.sum(y)

    prepared = ndual.prepare_gradient(f, X, mode="reverse")
    for _ in range(2):
        with pytest.raises(Midway):
            operator(f, mode="reverse")(X)
        assert LARGE.flags.writeable
        with pytest.raises(Midway):
            prepared(X)
        assert LARGE.flags.writeable
        assert_allclose(prepared(2 * X)[1], LARGE[:3] + 3 * np.sum(LARGE), rtol=1e-13)
        with pytest.raises(Midway):
            ndual.vjp(f, X)
    assert frozen == [True, True, True, False] * 2


def test_arrays_that_two_tapes_read():
    large = np.ones(20_000)
    view = large[::2]

    def inner(y, c):
        return np.sum(np.sum(y) * c)

    def outer(x):
        s = np.sum(large * np.sum(x))
        g = ndual.grad(inner, mode="reverse")(x, view)
        assert not large.flags.writeable
        return s + np.sum(g * x)

    assert_allclose(ndual.grad(outer, mode="reverse")(X), np.full(3, 30_000.0))
    assert large.flags.writeable
    assert view.flags.writeable
    frozen = np.ones(20_000)
    frozen.flags.writeable = False
    ndual.grad(lambda x: np.sum(np.sum(x) * frozen), mode="reverse")(X)
    assert not frozen.flags.writeable


def test_copied_constants_stay_writeable():
    def f(x):
        y = np.sum(x) * LARGE
        was = LARGE[0]
        LARGE[0] = 100.0
        LARGE[0] = was
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        ndual.grad(f, mode="reverse")(X)
    with ndual.config(copy_constants=True):
        assert_allclose(ndual.grad(f, mode="reverse")(X), np.full(3, LARGE.sum()))


def test_an_error_in_the_middle_of_a_sweep(monkeypatch):
    def f(x):
        return np.sum(np.linalg.solve(np.diag(x) + np.ones((3, 3)), x) * np.sum(LARGE * np.sum(x)))

    want = ndual.grad(f, mode="reverse")(X)
    _, pullback = ndual.vjp(f, X)
    prepared = ndual.prepare_gradient(f, X, mode="reverse")
    assert_allclose(prepared(X)[1], want)
    real = np.linalg.solve
    calls = []

    def fails(a, b):
        calls.append(1)
        raise MemoryError("none left")

    for call in (lambda: ndual.grad(f, mode="reverse")(X), pullback, lambda: prepared(X)):
        # The run solves once by the function as it is, the sweep by the one that fails.
        with monkeypatch.context() as patch:
            patch.setattr(np.linalg, "solve", SweepOnly(real, fails, 0 if call is pullback else 1))
            with pytest.raises(MemoryError, match="none left"):
                call()
        assert LARGE.flags.writeable
    assert_allclose(pullback()[0], want)
    assert_allclose(prepared(X)[1], want)
    assert len(calls) == 3


class SweepOnly:
    """A function for its first calls, another one after."""

    def __init__(self, real, other, count):
        self.real, self.other, self.count = real, other, count

    def __call__(self, *args):
        self.count -= 1
        return (self.real if self.count >= 0 else self.other)(*args)


OUT_OF_MEMORY = """
import resource, numpy as np, ndual
X = np.ones(1000)
ndual.grad(lambda x: np.sum(np.sin(x) * x), mode="reverse")(X)     # everything imported
def loop(x):
    s = x[0]
    while True:
        s = s * 1.0000001 + x[1]
def arrays(x):
    y = x
    while True:
        y = np.sin(np.concatenate([y, y]))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, -1))
for f in (loop, arrays, loop):
    for call in (ndual.grad(f, mode="reverse"), lambda x: ndual.vjp(f, x)):
        try:
            call(X)
        except MemoryError as error:
            print(f.__name__, str(error)[:40])
        x = np.array([0.5, 1.0])
        assert np.allclose(ndual.grad(lambda x: np.sum(np.sin(x) * x), mode="reverse")(x), np.cos(x) * x + np.sin(x))
print("sound", ndual._core.pool_info()["live"] < 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_out_of_memory():
    done = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, timeout=100)
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["sound True"], done.stderr[-2000:]
    assert [line.split()[0] for line in lines[:-1]] == ["loop", "loop", "arrays", "arrays", "loop", "loop"]


def test_nothing_leaks():
    def f(x):
        y = np.zeros(3)
        for i in range(3):
            y[i] = x[i] * 2
        return np.sum(np.sin(y) * LARGE[:3]) + np.sum(np.sum(y) * LARGE)

    def fails(x):
        f(x)
        raise Midway

    def once():
        ndual.grad(f, mode="reverse")(X)
        ndual.jacobian(lambda x: x * f(x), mode="reverse")(X)
        ndual.vjp(f, X)[1]()
        ndual.grad(lambda x: np.sum(ndual.grad(f, mode="reverse")(x)), mode="reverse")(X)
        with pytest.raises(Midway):
            ndual.grad(fails, mode="reverse")(X)

    for _ in range(30):
        once()
    gc.collect()
    live, peak = ndual._core.pool_info()["live"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):
        once()
    gc.collect()
    assert ndual._core.pool_info()["live"] <= live + 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= peak + 4096


# ---- threads -----------------------------------------------------------------------------------------------------


def test_threads_side_by_side():
    """The same function and the same remembered plan in many threads: each is right, and none is refused."""
    wrong = []

    def f(x):
        s = 0.0
        for k in range(30):
            s = s + np.sin(x[k % 3] * k) * x[(k + 1) % 3]
        return s + np.sum(np.exp(x) * LARGE[:3]) + np.sum(np.sum(x) * LARGE)

    evaluate = ndual.value_and_grad(f, mode="reverse")
    points = [X + 0.1 * k for k in range(4)]
    want = [ndual.value_and_grad(f, mode="forward")(x) for x in points]
    shared = ndual.vjp(lambda x: np.exp(x) * f(x), X)[1]
    pulled = shared(np.ones(3))[0]

    def work(k):
        try:
            for _ in range(60):
                value, g = evaluate(points[k])
                if abs(value - want[k][0]) > 1e-12 or not np.allclose(g, want[k][1], rtol=1e-12):
                    wrong.append((k, g))
                if not np.array_equal(shared(np.ones(3))[0], pulled):
                    wrong.append((k, "pullback"))
        except BaseException as error:
            wrong.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert LARGE.flags.writeable


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_remembered_plan_is_taken_by_one_thread_only(mode):
    """Whoever is told that a plan is free has it: no other thread may come between."""
    f = lambda x: np.sum(x * x)  # noqa: E731
    evaluate = ndual.grad(f, mode=mode)
    evaluate(X)
    from ndual.frontend.intercept import cached

    (plan,) = cached(f).plans.values()
    assert plan.run.suits((X,))
    assert not plan.run.suits((X,))
    assert_array_equal(evaluate(X), 2 * X)


def test_one_call_at_a_time():
    inside, go = threading.Event(), threading.Event()

    def f(x):
        inside.set()
        go.wait(10)
        return np.sum(x * x)

    prepared = ndual.prepare_gradient(f, X, mode="reverse")
    results = []
    thread = threading.Thread(target=lambda: results.append(prepared(X)))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(ndual.NdualError, match=r"one call at a time.*\.clone\(\)"):
        prepared(X)
    go.set()
    thread.join()
    assert_array_equal(results[0][1], 2 * X)
    assert_array_equal(prepared.clone()(X)[1], 2 * X)
