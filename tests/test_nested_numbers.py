"""Numbers inside derivatives of derivatives: what views, parts and copies make of one carries on in every level."""

import itertools

import numpy as np
import pytest

import ndual

X = np.array([1.5, -2.0, 0.5])
Z = np.array([1.0 + 2.0j, 3.0 - 1.0j])
MODES = ("forward", "reverse")

SAME = {
    "x[()]": lambda s: s[()],
    "x[...]": lambda s: s[...],
    "x[None]": lambda s: s[None][0],
    "x.T": lambda s: s.T,
    "reshape": lambda s: s.reshape(1)[0],
    "reshape to nothing": lambda s: s.reshape(()),
    "squeeze": lambda s: s.squeeze(),
    "copy": lambda s: s.copy(),
    "atleast_1d": lambda s: np.atleast_1d(s)[0],
    "ravel": lambda s: s.ravel()[0],
    "flatten": lambda s: s.flatten()[0],
    "flat": lambda s: s.flat[0],
    "broadcast_to": lambda s: np.broadcast_to(s, (3,)).sum() / 3,
    "transpose": lambda s: s.transpose(),
    "moveaxis": lambda s: np.moveaxis(s[None, None], 0, 1)[0, 0],
    "stack": lambda s: np.stack([s, s])[1],
    "array": lambda s: np.array([s, 2.0])[0],
    "sum": lambda s: s.sum(),
    "mean": lambda s: s.mean(),
    "positive": lambda s: +s,
}
REAL = {
    "x.item()": lambda s: s.item(),
    "float64": lambda s: np.float64(s),
    "astype": lambda s: s.astype(float),
    "max": lambda s: s.max(),
    "clip": lambda s: s.clip(-1e9, 1e9),
    "real": lambda s: s.real,
    "conj": lambda s: s.conj(),
}


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(MODES, MODES)))
@pytest.mark.parametrize("name", [*SAME, *REAL])
def test_second_derivative_of_a_number(name, outer, inner):
    """The sum of cubes has the Hessian diag(6 x)."""
    way = {**SAME, **REAL}[name]
    gradient = ndual.grad(lambda x: way(np.sum(x**3)), mode=inner)
    assert np.allclose(ndual.jacobian(gradient, mode=outer)(X), np.diag(6 * X), rtol=1e-13)


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("name", SAME)
def test_second_derivative_of_a_complex_number(name, inner):
    """By the convention of the library the gradient of Re f is the conjugate of f', here 3 z², moved along z."""
    gradient = ndual.grad(lambda z: SAME[name](np.sum(z**3)).real, mode=inner)
    assert np.allclose(ndual.jvp(gradient, (Z,), (Z,))[1], 6 * np.conj(Z * Z), rtol=1e-13)


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda z: np.sum(z**3).real, 6 * np.conj(Z * Z)),
        (lambda z: np.real(np.sum(z**3)), 6 * np.conj(Z * Z)),
        (lambda z: np.sum(z**3).imag, 6j * np.conj(Z * Z)),
        (lambda z: np.vdot(z, z).real, 2 * Z),
        (lambda z: (z[0] * z[1]).real, np.conj(Z[::-1])),
    ],
)
def test_parts_of_complex_numbers(f, expected, inner):
    assert np.allclose(ndual.jvp(ndual.grad(f, mode=inner), (Z,), (Z,))[1], expected, rtol=1e-13)


D = np.array([0.3, 0.6, 1.0])
ARRAYS = {
    "to complex": lambda x: np.sum(x.astype(complex).real ** 3),
    "of a product": lambda x: np.sum((x * x).astype(complex).real * x),
    "np.array": lambda x: np.sum(np.array(x * x, dtype=complex).real * x),
    "a complex number added": lambda x: np.sum((x * x + 0j).real * x),
}
SCALARS = {
    "to complex": lambda s: s.astype(complex).real,
    "a complex number added": lambda s: (s + 0j).real,
    "ravel": lambda s: s.ravel()[0],
    "atleast_1d": lambda s: np.sum(np.atleast_1d(s)),
    "reshape": lambda s: s.reshape(1)[0],
    "stack": lambda s: np.stack([s, s])[0],
}


def third(f, modes):
    """The third derivative along D, twice, as a gradient of a gradient of a gradient."""
    inner, middle, outer = modes
    second = ndual.grad(lambda x: np.sum(ndual.grad(f, mode=inner)(x) * D), mode=middle)
    return ndual.grad(lambda x: np.sum(second(x) * D), mode=outer)(X)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)), ids="-".join)
@pytest.mark.parametrize("name", ARRAYS)
def test_third_derivative_through_other_types(name, modes):
    """Sums of cubes."""
    assert np.allclose(third(ARRAYS[name], modes), 6 * D * D, rtol=1e-13)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)), ids="-".join)
@pytest.mark.parametrize("name", SCALARS)
def test_third_derivative_of_a_number_that_is_used_twice(name, modes):
    """x1 s s for s = x0 x1 is x0² x1³, whose derivatives are plain."""
    way = SCALARS[name]

    def f(x):
        s = x[0] * x[1]
        return x[1] * s * way(s)

    a, b = X[:2]
    u, v = D[:2]
    first = 12 * u * v * b**2 + 12 * v * v * a * b
    second = 6 * u * u * b**2 + 24 * u * v * a * b + 6 * v * v * a**2
    expected = [first, second, 0.0]
    assert np.allclose(third(f, modes), expected, rtol=1e-12)
