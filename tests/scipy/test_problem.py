"""What a problem hands out, and what it remembers."""

import pickle
import threading

import numpy as np
import pytest
from scipy import optimize

import ndual
import ndual.scipy


def counted():
    calls = []

    def f(x):
        calls.append(x)
        return np.sum(x * x)

    return f, calls


def test_results_are_fresh_float64():
    p = ndual.scipy.problem(lambda x: np.outer(x, x)[0])
    x = np.array([1.0, 2.0], np.float32)
    for get in (p.fun, p.jac):
        one, two = get(x), get(x)
        assert one.dtype == np.float64
        assert one.flags.c_contiguous
        assert one.flags.owndata or one.base is not None
        assert not np.shares_memory(one, two)
    value, jac = p.fun_and_jac(np.array([1, 2], np.int8))
    assert jac.tolist() == [[2.0, 0.0], [2.0, 1.0]]
    assert value.tolist() == [1.0, 2.0]
    assert isinstance(ndual.scipy.problem(np.sum).fun(x), float)
    assert p.jac(x).flags.c_contiguous


def test_identity_does_not_alias():
    p = ndual.scipy.problem(lambda x: x)
    x = np.ones(2)
    assert not np.shares_memory(p.fun(x), x)


def test_work_is_shared_once():
    f, calls = counted()
    p = ndual.scipy.problem(f)
    x = np.ones(3)
    jac = p.jac(x)
    assert len(calls) == 1
    assert p.fun(x) == 3.0
    assert len(calls) == 1
    assert p.fun(x) == 3.0
    assert len(calls) == 2
    jac[:] = 0.0
    assert p.jac(x).tolist() == [2.0, 2.0, 2.0]


def test_fun_learns_to_compute_both():
    f, calls = counted()
    p = ndual.scipy.problem(f)
    for k in range(8):
        x = np.full(3, 1.0 + k)
        assert p.fun(x) == 3.0 * (1 + k) ** 2
        assert p.jac(x).tolist() == [2.0 + 2 * k] * 3
    assert len(calls) == 2 * 2 + 6
    before = len(calls)
    for k in range(5):
        p.fun(np.full(3, 20.0 + k))
    assert len(calls) == before + 5
    assert calls[-1].__class__ is np.ndarray
    assert type(calls[-1]) is np.ndarray


def test_a_vector_that_is_overwritten():
    p = ndual.scipy.problem(lambda x: np.sum(x * x))
    x = np.ones(2)
    for k in range(6):
        x[:] = k
        assert p.fun(x) == 2.0 * k * k
        assert p.jac(x).tolist() == [2.0 * k] * 2


def test_f_may_write_into_its_argument():
    def f(x):
        x *= x
        return np.sum(x)

    p = ndual.scipy.problem(f)
    x = np.array([1.0, 2.0])
    assert (p.fun(x), p.jac(x).tolist(), x.tolist()) == (5.0, [2.0, 4.0], [1.0, 2.0])


def test_other_arguments_are_part_of_the_key():
    p = ndual.scipy.problem(lambda x, s, data: s * np.sum(x * data))
    x, data = np.ones(2), np.ones(2)
    for k in range(4):
        data[:] = k
        for s in (1.0, 2.0):
            assert p.jac(x, s, data).tolist() == [s * k, s * k]
            assert p.fun(x, s, data) == 2 * s * k


def test_a_list_of_numbers_is_an_array():
    p = ndual.scipy.problem(lambda x: [x[0] * x[1], 3, x[1] ** 2, 0.5])
    x = np.array([2.0, 3.0])
    assert p.fun(x).tolist() == [6.0, 3.0, 9.0, 0.5]
    assert p.jac(x).tolist() == [[3.0, 2.0], [0.0, 0.0], [0.0, 6.0], [0.0, 0.0]]
    assert ndual.scipy.problem(lambda x: (x[:1], x[1:])).jac(x).tolist() == [[[1.0, 0.0]], [[0.0, 1.0]]]


def test_a_constant_has_a_derivative_of_zeros():
    for f, shape in (
        (lambda x: 3, (2,)),
        (lambda x: 1.0, (2,)),
        (lambda x: np.arange(3), (3, 2)),
        (lambda x: [1], (2,)),
    ):
        found = ndual.scipy.problem(f).jac(np.ones(2))
        assert found.shape == shape and found.dtype == np.float64 and not found.any()


@pytest.mark.parametrize(
    "f", [lambda x: x, lambda x: x[::-1], lambda x: x[:1], lambda x: x[0], lambda x: np.eye(3) @ x]
)
@pytest.mark.parametrize("n", [1, 3])
def test_nothing_handed_out_comes_back(f, n):
    if n == 1:
        p = ndual.scipy.problem(lambda x: f(np.concatenate([x, x, x]))[..., :1] if np.ndim(f(np.ones(3))) else f(x))
    else:
        p = ndual.scipy.problem(f)
    x = np.arange(1.0, n + 1.0)
    want = p.fun_and_jac(x)
    want = np.copy(want[0]), np.copy(want[1])
    for get in (p.jac, p.jac_transposed, lambda x: p.fun_and_jac(x)[1]):
        for _ in range(4):
            got = get(x)
            assert got.flags.c_contiguous and got.flags.writeable
            np.testing.assert_array_equal(got, want[1].T if get == p.jac_transposed else want[1])
            got[...] = np.nan
            assert x.tolist() == list(np.arange(1.0, n + 1.0))
    for _ in range(4):
        got = p.fun(x)
        np.testing.assert_array_equal(got, want[0])
        if np.ndim(got):
            got[...] = np.nan
            np.testing.assert_array_equal(x, np.arange(1.0, n + 1.0))


def test_not_a_number_is_recognised():
    f, calls = counted()
    p = ndual.scipy.problem(f)
    x = np.array([np.nan, 1.0])
    p.jac(x)
    assert np.isnan(p.fun(x)) and len(calls) == 1


def test_a_view_with_strides():
    x = np.arange(8.0)[::2]
    p = ndual.scipy.problem(lambda x: np.sum(x**2))
    assert p.fun(x) == 56.0
    assert p.jac(x).tolist() == [0.0, 4.0, 8.0, 12.0]


def test_what_is_no_tuple_is_one_argument():
    data = np.array([1.0, 2.0])
    p = ndual.scipy.problem(lambda x, data: np.sum(x * data), args=data)
    assert p.jac(np.ones(2)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda a: ndual.scipy.problem(np.sum).fun(np.ones(2) * a),
        lambda a: ndual.scipy.problem(np.sum).jac(np.ones(2) * a)[0],
        lambda a: ndual.scipy.problem(lambda x, a: a * np.sum(x)).fun(np.ones(2), a),
        lambda a: ndual.scipy.curve(lambda t, a: a * t).fun(np.ones(2), a)[0],
        lambda a: ndual.scipy.curve(lambda t, a: a * t).fun(np.ones(2) * a, 1.0)[0],
        lambda a: ndual.scipy.scalar(np.sin).fun(a),
        lambda a: ndual.scipy.scalar(lambda x, a: a - x).fun(1.0, a),
        lambda a: ndual.scipy.ode(lambda t, y: y).fun(0.0, np.ones(2) * a)[0],
        lambda a: ndual.scipy.ode(lambda t, y: t * y).fun(a, np.ones(2))[0],
        lambda a: ndual.scipy.ode(lambda t, y: t * y).jac(a, np.ones(2))[0, 0],
        lambda a: ndual.scipy.bvp(lambda x, y: y, lambda ya, yb: ya).bc(np.ones(2) * a, np.ones(2))[0],
        lambda a: optimize.minimize(lambda x: np.sum((x - a) ** 2), [0.0], jac=lambda x: 2.0 * (x - a)).fun,
    ],
)
def test_a_derivative_through_an_adapter_is_never_lost(call):
    with pytest.raises(ndual.DerivativeLostError):
        ndual.derivative(call)(2.0)


def cubes(x):
    return np.sum(x**3)


def test_a_problem_can_be_sent_to_another_process():
    x = np.array([1.0, 2.0])
    p = ndual.scipy.problem(cubes, chunk_size=1)
    p.jac(x)
    fun, jac = pickle.loads(pickle.dumps((p.fun, p.jac)))
    assert fun(x) == 9.0 and jac(x).tolist() == [3.0, 12.0]


def test_threads_do_not_share():
    p = ndual.scipy.problem(lambda x: np.sum(x**3))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.standard_normal(5)
            if not np.allclose(p.fun(x), np.sum(x**3)) or not np.allclose(p.jac(x), 3 * x * x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_changing_sizes():
    p = ndual.scipy.problem(lambda x: np.sum(x * x))
    for n in (1, 3, 0, 2):
        assert p.jac(np.ones(n)).tolist() == [2.0] * n


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndual.scipy.problem(3.0), TypeError, "expects a function"),
        (lambda: ndual.scipy.problem(np.sum).jac(np.ones(2) * 1j), TypeError, "real numbers"),
        (
            lambda: ndual.scipy.problem(lambda x: x * 1j).jac(np.ones(2)),
            TypeError,
            "return real numbers; got complex128",
        ),
        (lambda: ndual.scipy.problem(lambda x: "a").fun(np.ones(2)), TypeError, "return real numbers"),
        (lambda: ndual.scipy.problem(np.sum, chunk_size=0), ValueError, "chunk_size"),
        (lambda: ndual.scipy.problem(np.sum, mode="back"), ValueError, "mode expects one of"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ndual.NdualError)
