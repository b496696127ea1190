"""Lists and tuples of duals may be handed to functions of NumPy, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import ndual


def pair(x):
    return x[0], x[1] * x[2]


def rest(x):
    first, *others = x
    return np.mean(others) * first


@dataclass
class Weights:
    parts: list


def pairs(x):
    total = 0.0
    for pair in zip(x, x, strict=True):
        total = total + np.sum(np.square(pair))
    return total


FUNCTIONS = {
    "pairs": (pairs, [4.0, 8.0, 16.0]),
    "mean": (lambda p: np.mean(p), [1 / 3, 1 / 3, 1 / 3]),
    "dot": (lambda p: np.dot(p, p), [2.0, 4.0, 8.0]),
    "cumsum": (lambda p: np.sum(np.cumsum(p)), [3.0, 2.0, 1.0]),
    "norm": (lambda p: np.linalg.norm(p) ** 2, [2.0, 4.0, 8.0]),
    "tuple": (lambda p: np.sum(np.square(tuple(p))), [2.0, 4.0, 8.0]),
    "sorted": (lambda p: np.median(sorted(p)), [0.0, 1.0, 0.0]),
    "helper": (lambda p: np.sum(np.square(pair(p))), [2.0, 64.0, 32.0]),
    "unpacked": (rest, [3.0, 0.5, 0.5]),
    "polynomial": (lambda p: np.polyval(p, 2.0), [4.0, 2.0, 1.0]),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kind", [list, tuple, np.array])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sequences(name, kind, mode):
    f, want = FUNCTIONS[name]
    x = kind([1.0, 2.0, 4.0])
    for _ in range(3):  # the plan is remembered, and code is made for the structure
        value, found = ndual.value_and_grad(f, mode=mode)(x)
        assert value == pytest.approx(f(x), rel=1e-14)
        np.testing.assert_allclose(found, want, rtol=1e-14)
    assert type(found) is type(x)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_after_a_call_with_an_array(mode):
    """What was proved for arrays does not serve lists."""

    def f(p):
        return np.mean(p) * 2.0

    gradient = ndual.grad(f, mode=mode)
    np.testing.assert_array_equal(gradient(np.ones(2)), [1.0, 1.0])
    assert gradient([1.0, 1.0]) == [1.0, 1.0]
    np.testing.assert_array_equal(gradient(np.ones(2)), [1.0, 1.0])
    assert ndual.jvp(f, ([1.0, 3.0],), ([1.0, 0.0],)) == (4.0, 1.0)


def test_lists_in_containers_and_starred_arguments():
    assert ndual.grad(lambda w: np.mean(w.parts))(Weights([1.0, 2.0])).parts == [0.5, 0.5]
    assert ndual.grad(lambda d: np.mean(d["a"]))({"a": (1.0, 3.0)}) == {"a": (0.5, 0.5)}

    def mean(*parts):
        return np.mean(parts)

    assert ndual.grad(mean, argnums=(0, 1))(1.0, 2.0) == (0.5, 0.5)


def test_a_number_without_its_cotangent():
    def right(du, u, p):
        du[:] = p * np.sin(u)

    def augmented(du, u, p):
        right(du, u, p)
        return None, (u, p)

    def back(tape, ddu, du, dp):
        ddu[:] = 0.0

    f = ndual.custom_rule(right, augmented=augmented, reverse=back, overwritten=["du"])

    def h(p):
        du = np.zeros(3)
        f(du, np.ones(3), p)
        return np.sum(du)

    for mode in ("forward", "reverse"):
        with pytest.raises(ndual.RuleError, match=r"expected the cotangent of .* a number, to be returned"):
            ndual.grad(h, mode=mode)(1.5)


@pytest.mark.parametrize("x", [np.ones(3), (np.ones(3),), [0.5], 1.5])
def test_lists_and_arrays_in_the_place_of_argnums(x):
    with pytest.raises(ndual.ArgumentTypeError, match=r"argnums expects an int .* grad\(f\)\(x\)"):
        ndual.grad(np.sum, x)
