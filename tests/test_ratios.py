"""Reverse mode where an array is known to be a number times another: cotangents of both are put together.

What is known ends with the next write to either, so that every way to write has a function here.
"""

import numpy as np
import pytest

import ndual


def halves(z):
    return np.sum((0.5 * z) * z)


def halves_with_a_write_between(z):
    h = 0.5 * z
    z += 1.0
    return np.sum(h * z)


def halves_with_a_cell_written(z):
    h = 0.5 * z
    z[3] = 2.0
    return np.sum(h * z)


def halves_written_to(z):
    h = 0.5 * z
    h += 1.0
    return np.sum(h * z)


def halves_with_a_cell_of_their_own(z):
    h = 0.5 * z
    h[3] = z[5]
    return np.sum(h * z)


def halves_of_shifted_views(z):
    h = 0.5 * z
    return np.sum(h[5:] * z[:-5])


def halves_shifted_beside_another(z):
    h, p = 0.5 * z, np.cos(z[5:])
    return np.sum(p * h[5:]) + np.sum(p * z[:-5])


def halves_beside_another(z):
    h, p = 0.5 * z, np.cos(z[5:])
    return np.sum(p * h[5:]) + 3.0 * np.sum(p * z[5:])


def halves_of_equal_views(z):
    h = 0.5 * z
    return np.sum(h[5:] * z[5:])


def halves_overwritten_later(z):
    h = 0.5 * z
    w = h * z
    z *= 0.0
    h -= 7.0
    return np.sum(w)


def halves_of_halves(z):
    h = -(z / 4.0)
    k = h * 6
    return np.sum(k * h) + np.sum(h * z) * 2.0 + np.sum(z * k)


def halves_that_become_others(z):
    h = 0.5 * z
    z *= 3.0
    k = 0.5 * z
    return np.sum(h * k) + np.sum(h * z) + np.sum(k * z)


def halves_of_a_reshaped_array(z):
    h = 0.5 * z
    return np.sum(h.reshape(2, -1) * z.reshape(-1, 2).T)


@pytest.mark.parametrize("n", [64, 400, 5000])
@pytest.mark.parametrize("f", [f for name, f in list(globals().items()) if name.startswith("halves")])
def test_arrays_that_are_multiples_of_each_other(f, n):
    """Against forward mode, where nothing is handed on."""
    rng = np.random.default_rng(n)
    x, v = rng.standard_normal(n), rng.standard_normal(n)

    def of_made(x):
        return f(np.sin(x))

    value, slope = ndual.jvp(of_made, (x,), (v,))
    same, found = ndual.value_and_grad(of_made, mode="reverse")(x)
    assert same == pytest.approx(value, rel=1e-13)
    assert found @ v == pytest.approx(slope, rel=1e-12)


def test_the_gradient_of_halves():
    x = np.linspace(0.1, 1.0, 500)
    found = ndual.grad(lambda x: halves(np.exp(x)), mode="reverse")(x)
    np.testing.assert_allclose(found, np.exp(2 * x), rtol=1e-14)


def chain_of_small_factors(z):
    """Sixteen factors that are each harmless; together they are not."""
    h = z
    for _ in range(16):
        h = 1e-19 * h
    k = 3.0 * h
    return (np.sum(z * h) + np.sum(z * k)) * 1e-19


WRITES = {
    "+=": lambda a, b: a.__iadd__(1.0),
    "*=": lambda a, b: a.__imul__(3.0),
    "setitem": lambda a, b: a.__setitem__(slice(None), b),
    "cell": lambda a, b: a.__setitem__(3, b[5]),
    "constant cell": lambda a, b: a.__setitem__(3, 2.0),
    "mask": lambda a, b: a.__setitem__(np.arange(a.size) % 3 == 0, 0.5),
    "indices": lambda a, b: a.__setitem__([1, 5, 7], b[:3]),
    "view": lambda a, b: a[2:9].__setitem__(slice(None), 1.5),
    "reshaped": lambda a, b: a.reshape(2, -1).__setitem__(1, b[: a.size // 2]),
    "flat": lambda a, b: a.flat.__setitem__(4, 7.0),
    "fill": lambda a, b: a.fill(2.0),
    "out=": lambda a, b: np.multiply(b, 2.0, out=a),
    "where=": lambda a, b: np.add(a, b, out=a, where=np.arange(a.size) % 2 == 0),
    "copyto": lambda a, b: np.copyto(a, b),
    "put": lambda a, b: np.put(a, [1, 2], [3.0, 4.0]),
    "add.at": lambda a, b: np.add.at(a, [1, 1, 3], 2.0),
    "sort": lambda a, b: a.sort(),
    "place": lambda a, b: np.place(a, np.arange(a.size) % 5 == 0, [9.0]),
    "partition": lambda a, b: a.partition(7),
}


@pytest.mark.parametrize("which", ["the number times it", "the array"])
@pytest.mark.parametrize("write", WRITES)
def test_writes_end_it(write, which):
    x = np.cos(np.arange(300.0))
    v = np.sin(np.arange(300.0))

    def f(x):
        z, b = np.sin(x), np.exp(x)
        h = 0.5 * z
        WRITES[write](h if which.startswith("the number") else z, b)
        return np.sum(h * z) + 3.0 * np.sum(z * z) + np.sum(h * h)

    value, slope = ndual.jvp(f, (x,), (v,))
    same, found = ndual.value_and_grad(f, mode="reverse")(x)
    assert same == pytest.approx(value, rel=1e-13)
    assert found @ v == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "times", [lambda z: z * 0.5, lambda z: 0.5 * z, lambda z: z / 2.0, lambda z: 1 / 2 * z, np.negative]
)
def test_ways_to_be_a_multiple(times, dtype):
    x = np.linspace(0.5, 1.5, 400).astype(dtype)
    ratio = float(times(np.ones(1))[0])

    def f(x):
        z = np.exp(x)
        h, k = times(z), times(times(z))
        return np.sum(h * z) + np.sum(k * h) + np.sum(k * k)

    found = ndual.grad(f, mode="reverse")(x)
    want = 2 * (ratio + ratio**3 + ratio**4) * np.exp(2 * x.astype(float))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, want, rtol=1e-5 if dtype is np.float32 else 1e-14)


def test_factors_that_are_small_together():
    """In forward mode the sums are denormal before they are made large again."""
    x = np.linspace(0.5, 1.5, 400)
    found = ndual.grad(lambda x: chain_of_small_factors(np.sin(x)) * 1e300, mode="reverse")(x)
    np.testing.assert_allclose(found, 8e-23 * np.sin(x) * np.cos(x), rtol=1e-12)
