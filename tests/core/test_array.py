"""Dual arrays: borrowed arguments, in-place operators, copies, casts, and what they answer when asked."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import ndual
from ndual import _core

X = np.arange(12.0).reshape(3, 4) + 1


def state(d):
    return _core.primal(d), _core.lanes(d)


def shared(a, b):
    """Whether values and lanes are shared, which must be the same."""
    value, lanes = (np.shares_memory(p, q) for p, q in zip(_core.split(a), _core.split(b), strict=True))
    assert value == lanes
    return value


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 7, 10, 12])
def test_arguments_come_back_untouched_from_every_pass(chunk):
    x = np.arange(1.0, 11.0)

    def f(a):
        a *= a
        return a.sum()

    value, gradient = ndual.value_and_grad(f, chunk_size=chunk)(x)
    assert value == 385
    np.testing.assert_array_equal(gradient, 2 * x)
    np.testing.assert_array_equal(x, np.arange(1.0, 11.0))


@pytest.mark.parametrize(
    "x",
    [
        X[::-1],
        X.T,
        X[:, ::2],
        np.broadcast_to(X[0], (3, 4)),
        np.asfortranarray(X)[::-1],
        np.frombuffer(X.tobytes()).reshape(3, 4),
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(float).reshape(3, 4),
    ],
    ids=["reversed", "transposed", "strided", "stride 0", "F reversed", "read-only", "unaligned"],
)
def test_arguments_of_any_layout(x):
    before = x.tobytes()

    def f(a):
        a[0] = a[0] * 2 if a.flags.writeable else a[0]
        return np.sum(a * a)

    plain = np.array(x, float)
    value, gradient = ndual.value_and_grad(f)(x)
    plain[0] *= 2
    assert value == np.sum(plain * plain)
    plain[0] *= 2
    np.testing.assert_array_equal(gradient, 2 * plain)
    assert x.tobytes() == before


def test_the_other_byte_order_is_refused():
    with pytest.raises(ndual.UnsupportedDtype, match="byte order"):
        ndual.grad(np.sum)(X.astype(">f8"))


INPLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
}


@pytest.mark.parametrize("op", INPLACE, ids=lambda op: op.__name__)
@pytest.mark.parametrize("other", ["array", "row", "constant", "number", "self", "reversed", "scalar"])
def test_inplace_operators(lift, op, other):
    x = lift(X)
    operand = {
        "array": lift(X[::-1] / 3),
        "row": lift(X[0]),
        "constant": X[::-1] / 3,
        "number": 2.0,
        "self": x,
        "reversed": x[::-1],
        "scalar": lift(np.float64(1.5)),
    }[other]
    want = state(INPLACE[op](x.copy(), operand.copy() if hasattr(operand, "copy") else operand))
    alias, kept = x.T, x
    x = op(x, operand)
    assert x is kept
    for got, expected in zip(state(x), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(_core.primal(alias), want[0].T)


def test_inplace_matmul(lift):
    x = lift(X[:, :3])
    want = state(x @ X[:, :3])
    alias = x[0]
    x @= X[:, :3]
    np.testing.assert_array_equal(state(x)[1], want[1])
    np.testing.assert_array_equal(_core.primal(alias), want[0][0])


@pytest.mark.parametrize(
    ("dtype", "other", "error"),
    [
        ("f", np.ones(4), None),
        ("d", 1j, TypeError),
        ("f", np.ones((2, 3, 4)), ValueError),
        ("d", np.ones(3), ValueError),
    ],
)
def test_inplace_casting_is_numpys(lift, dtype, other, error):
    plain, x = X.astype(dtype), lift(X.astype(dtype))
    if error is None:
        plain += other
        x += other
        np.testing.assert_array_equal(_core.primal(x), plain)
        assert x.dtype == dtype
        return
    with pytest.raises(error):
        plain += other
    before = state(x)
    with pytest.raises(error):
        x += other
    for got, want in zip(state(x), before, strict=True):
        np.testing.assert_array_equal(got, want)


def test_constants_are_not_changed_by_inplace_operators(lift):
    constant = np.ones(4)
    with pytest.raises(ndual.DerivativeLostError):
        constant += lift(X[0])
    with pytest.raises(ndual.DerivativeLostError):
        np.add(constant, lift(X[0]), out=constant)
    with pytest.raises(ndual.DerivativeLostError):
        constant[1:] = lift(X[0])[1:]
    assert (constant == 1).all()


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_copies_have_numpys_order(lift, order):
    for x in (X, np.asfortranarray(X), X[::-1], X.T):
        want, d = x.copy(order), lift(x)
        got = d.copy(order)
        assert got.strides == want.strides
        assert not shared(got, d)
        for a, b in zip(state(got), state(d), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda d: copy.deepcopy({"a": d})["a"], lambda d: d.__copy__()]
)
def test_copy_and_deepcopy_keep_partials(lift, again):
    d = lift(X)
    twin = again(d)
    assert not shared(twin, d)
    for a, b in zip(state(twin), state(d), strict=True):
        np.testing.assert_array_equal(a, b)


def test_reduce_keeps_partials(lift):
    for d in (lift(X), lift(np.float64(2.0)), lift(X.astype("f")), lift(X[0] + 1j)):
        rebuild, arguments = d.__reduce__()[:2]
        twin = rebuild(*arguments)
        assert type(twin) is type(d)
        for a, b in zip(state(twin), state(d), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError, ndual.NdualError)):
        hash(pickle.dumps(lift(X)) and lift(X))


@pytest.mark.parametrize("to", ["e", "f", "d", "F", "D"])
@pytest.mark.parametrize("source", ["e", "f", "d", "F", "D"])
def test_astype_keeps_the_derivative(lift, source, to):
    d = lift(X.astype(source))
    if source in "FD" and to in "efd":
        with pytest.raises(ndual.DerivativeLostError):
            d.astype(to)
        return
    got = d.astype(to)
    for a, b in zip(state(got), state(d), strict=True):
        assert a.dtype == to
        np.testing.assert_array_equal(a, b.astype(to))


@pytest.mark.parametrize("to", [int, bool, str, np.int8, object])
def test_astype_to_what_carries_no_derivative(lift, to):
    d = lift(X)
    if to is object:
        with pytest.raises(ndual.NdualError):
            d.astype(to)
        return
    got = d.astype(to)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, X.astype(to))


@pytest.mark.parametrize(
    "lose",
    [
        np.array,
        lambda d: np.asarray(d, float),
        float,
        memoryview,
        hash,
        lambda d: d.view(np.int64),
        lambda d: d.tobytes(),
        lambda d: np.ones(12).__setitem__(slice(None), d),
        lambda d: np.ones(12).put([0], d),
        lambda d: np.copyto(np.ones(12), d),
        lambda d: bytes(d),
        lambda d: "%f" % d,  # noqa: UP031
        lambda d: d.tofile("nowhere"),
        lambda d: d.dumps(),
        lambda d: np.ones(12).__iadd__(d),
    ],
    ids=range(15),
)
def test_nothing_drops_the_derivative_silently(level, lift, lose):
    d = lift(np.arange(12.0))
    with pytest.raises((ndual.DerivativeLostError, ndual.NoRuleError, TypeError)):
        lose(d)


def test_what_it_answers(lift):
    d = lift(np.asfortranarray(X))
    assert isinstance(d, np.ndarray)
    assert d.shape == (3, 4)
    assert d.ndim == 2
    assert d.size == 12
    assert len(d) == 3
    assert d.dtype == float
    assert d.itemsize == 8
    assert d.nbytes == 96
    assert d.strides == np.asfortranarray(X).strides
    assert d.flags.f_contiguous
    assert d.device == "cpu"
    assert np.shape(d) == (3, 4)
    assert np.ndim(d) == 2
    assert np.size(d) == 12
    assert np.result_type(d.dtype, np.float32) == np.dtype(float)
    with pytest.raises(TypeError):
        hash(d)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(d)
    assert bool(lift(np.ones(1)))
    assert int(lift(np.array([2.5]))[0]) == 2


def test_printing_shows_the_primal(lift):
    d = lift(np.array([1.0, 2.5]))
    assert str(d) == "~[1.  2.5]"
    assert f"{d}" == "~[1.  2.5]"
    assert np.array2string(d) == "~[1.  2.5]"
    assert "2.5" in repr(d)
    assert f"{d[1]:.3f}" == "~2.500"
    with pytest.raises(TypeError):
        f"{d:.3f}"
    assert f"{lift(np.array(1.5, 'f')):.2f}" == "~1.50"


def test_setting_the_shape(lift):
    d = lift(X) * 1.0
    d.shape = (2, 6)
    assert d.shape == (2, 6)
    d.shape = -1
    assert d.shape == (12,)
    with pytest.raises((AttributeError, ValueError)):
        d.shape = (5,)
    e = lift(X) * 1.0
    view = e.T
    with pytest.raises(AttributeError):
        view.shape = (12,)


@pytest.mark.parametrize("shape", [(5,), (-1, -1), (7, -1), (0, -1), "x"])
def test_bad_shapes_raise_as_in_numpy(lift, shape):
    with pytest.raises((ValueError, TypeError)) as numpys:
        X.reshape(shape)
    with pytest.raises(type(numpys.value)):
        lift(X).reshape(shape)


def test_items(lift):
    d = lift(X)
    t = _core.lanes(d)
    for index in ((), (3,), (1, 2), ((1, 2),), (-1,)):
        if not index:
            with pytest.raises(ValueError, match="size 1"):
                d.item()
            continue
        got = d.item(*index)
        assert _core.primal(got) == X.item(*index)
        np.testing.assert_array_equal(_core.lanes(got), [lane.item(*index) for lane in t])
    assert _core.primal(lift(np.array([[4.0]])).item()) == 4
    nested = d.tolist()
    assert len(nested) == 3
    np.testing.assert_array_equal([[float(_core.primal(v)) for v in row] for row in nested], X)
    np.testing.assert_array_equal(_core.lanes(nested[1][2]), t[:, 1, 2])


def test_methods_are_the_functions(lift):
    d = lift(X)
    for name, args in {
        "sum": (0,), "mean": (), "prod": (1,), "max": (), "min": (0,), "var": (), "std": (), "cumsum": (1,),
        "cumprod": (0,), "clip": (2.0, 5.0), "round": (1,), "trace": (), "diagonal": (), "repeat": (2,),
        "squeeze": (), "swapaxes": (0, 1), "take": ([0, 2],), "dot": (X.T,),
    }.items():  # fmt: skip
        got, want = getattr(d, name)(*args), getattr(np, name)(d, *args)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(_core.primal(got), getattr(X, name)(*args), err_msg=name)
        np.testing.assert_array_equal(_core.lanes(got), _core.lanes(want), err_msg=name)
    for name, args in {"argmax": (), "argmin": (0,), "argsort": (), "any": (), "all": (), "nonzero": ()}.items():
        np.testing.assert_array_equal(getattr(d, name)(*args), getattr(X, name)(*args))
    e = lift(X[::-1, ::-1])
    e.sort()
    np.testing.assert_array_equal(_core.primal(e), np.sort(X[::-1, ::-1]))
    e.fill(3.0)
    assert (_core.lanes(e) == 0).all()
    with pytest.raises(ndual.NoRuleError, match="stop_gradient"):
        d.byteswap()
    with pytest.raises(AttributeError):
        _ = d.nothing


@pytest.mark.parametrize("ndim", [5, 20, 63])
def test_many_dimensions(lift, ndim):
    x = np.arange(4.0).reshape((1,) * (ndim - 1) + (4,))
    d = lift(x)
    for got, want in ((d * d, x * x), (d.T, x.T), (np.sin(d.T), np.sin(x.T)), (d[..., 1:], x[..., 1:])):
        np.testing.assert_allclose(_core.primal(got), want, rtol=1e-15)
        assert _core.lanes(got).shape == (3, *want.shape)


def test_64_dimensions_are_one_too_many(lift):
    with pytest.raises((ndual.NdualError, ValueError)):
        lift(np.zeros((1,) * 64)) * 2.0
