"""Views of dual arrays: what shares memory in NumPy shares it here, lanes included, and writes go through."""

from __future__ import annotations

import operator

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


VIEWS = {
    "slice": lambda x: x[1:],
    "negative": lambda x: x[::-1, ::2],
    "row": lambda x: x[0],
    "newaxis": lambda x: x[:, None],
    "ellipsis": lambda x: x[...],
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(1, 0),
    "transpose()": lambda x: x.transpose(),
    "mT": lambda x: x.mT,
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "reshape": lambda x: x.reshape(4, 3),
    "reshape -1": lambda x: x.reshape(2, -1),
    "reshape F": lambda x: x.reshape((4, 3), order="F"),
    "reshape of a view": lambda x: x[:, ::2].reshape(-1),
    "ravel": lambda x: x.ravel(),
    "ravel F": lambda x: x.ravel("F"),
    "flatten": lambda x: x.flatten(),
    "np.reshape": lambda x: np.reshape(x, (2, 6)),
    "np.ravel": np.ravel,
    "np.transpose": np.transpose,
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "squeeze": lambda x: x[:1].squeeze(),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "atleast_3d": np.atleast_3d,
    "diagonal": lambda x: x.diagonal(),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "flip": lambda x: np.flip(x, 0),
    "rot90": np.rot90,
    "split": lambda x: np.split(x, 3)[1],
    "real": lambda x: x.real,
    "np.real": np.real,
    "conj": lambda x: x.conj(),
    "np.conjugate": np.conjugate,
    "view": lambda x: x.view(),
    "positive": operator.pos,
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(float),
    "astype without copy": lambda x: x.astype(float, copy=False),
    "fancy": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > 0],
    "take": lambda x: np.take(x, [0, 1], 0),
    "item": lambda x: x.reshape(-1)[:],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_views_are_numpys_views(name, order):
    """What shares memory in NumPy does here, lanes included; a write through either is seen by the other."""
    view = VIEWS[name]
    x = np.array(X, order=order)

    def write(a):
        v = view(a)
        if v.flags.writeable:
            v[...] = v * 2 + 1
        else:
            a *= 2
        return v

    plain = x.copy(order="K")
    want = write(plain)

    def f(a):
        a = a + 0.0
        v = write(a)
        assert shared(v, a) == np.shares_memory(want, plain)
        return a, v

    (got, seen), (t, s) = ndual.jvp(f, (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(got, plain)
    np.testing.assert_array_equal(seen, want)
    np.testing.assert_array_equal(t, np.where(plain == x, 1.0, 2.0))
    np.testing.assert_array_equal(s, np.full(want.shape, 2.0))


def test_complex_parts_are_views(lift):
    z = lift(X + 1j * X[::-1])
    z.real[0] = 5.0
    z.imag[1] = z.real[0]
    np.real(z)[2] = 7.0
    value, lanes = state(z)
    np.testing.assert_array_equal(value.real[[0, 2]], [[5] * 4, [7] * 4])
    np.testing.assert_array_equal(value.imag[1], [5] * 4)
    assert (lanes.real[:, [0, 2]] == 0).all()
    assert (lanes.imag[:, 1] == 0).all()
    z.imag = 0.0
    assert (state(z)[1].imag == 0).all()


def test_writing_through_aliases():
    def f(x):
        y = x[1:3]
        y *= 2
        return np.sum(x**2)

    value, gradient = ndual.value_and_grad(f)(np.array([1.0, 2, 3, 4]))
    assert value == 69
    np.testing.assert_array_equal(gradient, [2, 16, 24, 8])

    def g(d):
        d["w"][0] *= 3
        return d["w"][0] * d["w"][1]

    value, gradient = ndual.value_and_grad(g)({"w": np.array([2.0, 5.0])})
    assert value == 30
    np.testing.assert_array_equal(gradient["w"], [15, 6])


def test_views_taken_before_the_first_write_follow_it():
    """The borrowed argument is copied at the first write, and every view moves with it."""
    x = np.arange(6.0)

    def f(a):
        early, reverse = a[2:], a[::-1]
        a[3] = 10 * a[0]
        reverse[0] = a[1]
        early[0] += 1
        return early * 1.0, reverse * 1.0

    (early, reverse), (t, s) = ndual.jvp(f, (x,), (np.arange(6.0),))
    np.testing.assert_array_equal(early, [3, 0, 4, 1])
    np.testing.assert_array_equal(reverse, [1, 4, 0, 3, 1, 0])
    np.testing.assert_array_equal(t, [2, 0, 4, 1])
    np.testing.assert_array_equal(s, [1, 4, 0, 2, 1, 0])
    np.testing.assert_array_equal(x, np.arange(6.0))
