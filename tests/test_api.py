"""The operators: values against analytic derivatives, complex steps and mpmath; and what they refuse."""

import warnings
from collections import namedtuple

import mpmath
import numpy as np
import pytest

import ndual
from ndual import _core

Point = namedtuple("Point", "x y")


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] += -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    g[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    return g


def complex_step(f, x, h=1e-30):
    """Gradient of an analytic f, exact to rounding."""
    return np.array([np.imag(f(x + 1j * h * e)) / h for e in np.eye(x.size)])


# ---- jvp ---------------------------------------------------------------------------------------------------------


def test_jvp_of_several_arguments():
    x, y = np.array([1.0, 2.0]), 3.0
    value, tangent = ndual.jvp(lambda a, b: a * b, (x, y), (np.array([1.0, 0.0]), 2.0))
    assert value.tolist() == [3.0, 6.0]
    assert tangent.tolist() == [5.0, 4.0]


def test_jvp_with_constants():
    value, tangent = ndual.jvp(lambda a, n: a**n, (2.0, 3), (1.0, None))
    assert (float(value), float(tangent)) == (8.0, 12.0)


def test_jvp_with_constants_again_and_again():
    def f(a, b, n):
        return np.sum(a * b) * n

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for _ in range(2):
        assert ndual.jvp(f, (a, b, 2), (a, None, None)) == (22.0, 22.0)
        assert ndual.jvp(f, (a, b, 2), (None, np.ones(2), None)) == (22.0, 6.0)
        assert ndual.jvp(f, (a, b, 2.0), (a, b, None))[1] == 44.0
        assert ndual.jvp(f, (a, b, 2.0), (None, None, 1.0))[1] == 11.0


def test_jvp_of_containers():
    def f(p):
        return {"s": p["a"] * p["b"][0], "t": (np.sum(p["a"]), 7.0, "label")}

    primal = {"a": np.array([1.0, 2.0]), "b": [3.0, 5]}
    value, tangent = ndual.jvp(f, (primal,), ({"a": np.array([1.0, 1.0]), "b": [10.0, None]},))
    assert value["s"].tolist() == [3.0, 6.0]
    assert tangent["s"].tolist() == [13.0, 23.0]
    assert value["t"] == (3.0, 7.0, "label")
    assert tangent["t"] == (2.0, 0.0, None)


def test_jvp_has_aux():
    value, tangent, aux = ndual.jvp(lambda x: (x * x, {"twice": 2 * x}), (3.0,), (1.0,), has_aux=True)
    assert (float(value), float(tangent)) == (9.0, 6.0)
    assert aux == {"twice": 6.0}
    assert not _core.is_dual(aux["twice"])


def test_jvp_casts_tangents():
    x = np.ones(3, np.float32)
    value, tangent = ndual.jvp(lambda x: 2 * x, (x,), (np.array([1, 2, 3], np.int8),))
    assert tangent.dtype == value.dtype == np.float32
    assert tangent.tolist() == [2.0, 4.0, 6.0]


def test_jvp_is_the_same_again_with_other_shapes():
    def f(x):
        return x * x

    for x in (np.ones(3), np.ones((2, 2)), 2.0, np.ones(3), np.float32(2)):
        value, tangent = ndual.jvp(f, (x,), (np.ones_like(x),))
        assert np.array_equal(value, x * x)
        assert np.array_equal(tangent, 2 * x)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndual.jvp(np.sum, np.ones(2), np.ones(2)), TypeError, "primals as a tuple.*got ndarray"),
        (lambda: ndual.jvp(np.sum, (np.ones(2),), ()), ValueError, "a tangent for each of the 1 primals; got 0"),
        (lambda: ndual.jvp(np.sum, (np.ones(2),), (None,)), ValueError, "at least one argument"),
        (lambda: ndual.jvp(np.sum, (np.ones(2),), (np.ones(3),)), ValueError, r"tangent of args\[0\].*\(2,\).*\(3,\)"),
        (lambda: ndual.jvp(np.sum, (np.ones(2),), (np.ones(2) * 1j,)), TypeError, "complex128"),
        (lambda: ndual.jvp(np.sum, (np.ones(2),), (["a", "b"],)), TypeError, r"tangent of args\[0\]"),
        (lambda: ndual.jvp(lambda p: p[0], ([1.0, 2.0],), ([1.0],)), ValueError, "a list of 2.*got list"),
        (lambda: ndual.jvp(3.0, (1.0,), (1.0,)), TypeError, "expects a function; got float"),
        (lambda: ndual.jvp(np.sin, (1.0,), (1.0,), mode="backward"), ValueError, "'auto', 'forward', 'reverse'"),
        (
            lambda: ndual.jvp(np.sin, (1.0,), (1.0,), mode="reverse"),
            ValueError,
            "tangents are carried forward; got 'reverse'",
        ),
    ],
)
def test_jvp_refuses(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ndual.NdualError)


# ---- derivative --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "exact", "x"),
    [
        (np.sin, mpmath.sin, 0.7),
        (lambda t: np.exp(-t * t) / (1 + t), lambda t: mpmath.exp(-t * t) / (1 + t), 0.3),
        (lambda t: np.log1p(np.tanh(t)), lambda t: mpmath.log1p(mpmath.tanh(t)), 1.1),
        (lambda t: t**2.5 * np.cos(3 * t), lambda t: t ** mpmath.mpf(2.5) * mpmath.cos(3 * t), 2.0),
    ],
)
def test_derivative_against_mpmath(f, exact, x):
    with mpmath.workdps(40):
        want = float(mpmath.diff(exact, mpmath.mpf(x)))
    assert ndual.derivative(f)(x) == pytest.approx(want, rel=1e-14)


def test_derivative_types_and_outputs():
    got = ndual.derivative(lambda t: (t * np.array([1.0, 2.0]), {"k": t * t}))(3)
    assert got[0].tolist() == [1.0, 2.0]
    assert got[1]["k"] == 6.0
    assert isinstance(ndual.derivative(lambda t: t * t)(3.0), float)
    assert ndual.derivative(lambda a, b: a * b, argnums=(0, 1))(2.0, 5.0) == (5.0, 2.0)


def test_derivative_of_a_holomorphic_function():
    z = 0.3 + 0.4j
    got = ndual.derivative(lambda z: np.exp(z) * z, holomorphic=True)(z)
    assert got == pytest.approx(np.exp(z) * (1 + z), rel=1e-14)


def test_derivative_wants_one_number():
    with pytest.raises(TypeError, match=r"one number as args\[0\]; got a float64 array of shape \(3,\)"):
        ndual.derivative(np.sum)(np.ones(3))


# ---- grad --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3, 4, 7, 10, 12, 64])
@pytest.mark.parametrize("n", [1, 2, 10])
def test_gradient_at_every_width(n, chunk_size):
    x = np.linspace(-1.0, 1.5, n)
    before = x.copy()
    value, gradient = ndual.value_and_grad(rosenbrock, chunk_size=chunk_size)(x)
    assert value == pytest.approx(rosenbrock(x), rel=1e-15)
    assert gradient == pytest.approx(rosenbrock_gradient(x), rel=1e-13, abs=1e-13)
    assert np.array_equal(x, before)


def test_gradient_against_complex_step():
    def f(x):
        y = np.sin(x) * np.exp(-0.1 * x * x)
        return np.sum(y * y) + np.prod(x[:3])

    x = np.random.default_rng(0).standard_normal(23)
    assert ndual.grad(f)(x) == pytest.approx(complex_step(f, x), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("chunk_size", [1, 4, 10])
def test_inputs_are_restored(chunk_size):
    def f(x):
        x *= x
        return x.sum()

    x = np.arange(1.0, 11.0)
    value, gradient = ndual.value_and_grad(f, chunk_size=chunk_size)(x)
    assert value == 385.0
    assert gradient.tolist() == (2 * x).tolist()
    assert x.tolist() == list(np.arange(1.0, 11.0))


def test_loops_and_branches():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + x[i] * x[i] if x[i] > 0 else total - 3.0 * x[i]
        return total

    assert ndual.grad(f)(np.array([2.0, -1.0, 0.5])).tolist() == [4.0, -3.0, 1.0]


def test_nested_argument():
    def f(p):
        return np.sum(p["w"] ** 2) * p["pair"].x + p["pair"].y * p["list"][0][1]

    p = {"w": np.array([1.0, 2.0]), "pair": Point(3.0, np.float64(4.0)), "list": [(1, 5.0), None]}
    g = ndual.grad(f)(p)
    assert g["w"].tolist() == [6.0, 12.0]
    assert g["pair"] == Point(5.0, 5.0)
    assert g["list"] == [(None, 4.0), None]
    assert list(g) == ["w", "pair", "list"]


def test_one_array_twice_in_one_argument():
    x = np.array([1.0, 2.0])
    g = ndual.grad(lambda pair: np.sum(pair[0] * pair[1]))((x, x))
    assert g[0] is g[1]
    assert g[0].tolist() == [2.0, 4.0]


def test_one_array_as_two_arguments():
    x = np.array([1.0, 2.0])
    a, b = ndual.grad(lambda a, b: np.sum(a * b * b), argnums=(0, 1))(x, x)
    assert a.tolist() == [1.0, 4.0]
    assert b.tolist() == [2.0, 8.0]


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), (0, 2), [0, 1]])
def test_argnums(argnums):
    def f(a, b, c):
        return np.sum(a) * b + np.sum(c * c)

    args = np.ones(3), 2.0, np.array([1.0, 4.0])
    parts = [np.full(3, 2.0), 3.0, np.array([2.0, 8.0])]
    got = ndual.grad(f, argnums)(*args)
    if isinstance(argnums, int):
        assert np.array_equal(got, parts[argnums])
    else:
        assert len(got) == len(argnums)
        assert all(np.array_equal(g, parts[i]) for g, i in zip(got, argnums, strict=True))


def test_keywords_are_constants():
    assert ndual.grad(lambda x, scale=1.0: scale * x * x)(3.0, scale=2.0) == 12.0


def test_has_aux():
    value, gradient = ndual.value_and_grad(lambda x: (np.sum(x * x), [x, "note"]), has_aux=True, chunk_size=1)(
        np.ones(2)
    )
    assert value[0] == 2.0
    assert value[1][0].tolist() == [1.0, 1.0]
    assert value[1][1] == "note"
    assert gradient.tolist() == [2.0, 2.0]
    gradient, aux = ndual.grad(lambda x: (x * x, "note"), has_aux=True)(3.0)
    assert (gradient, aux) == (6.0, "note")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_of_gradients(dtype):
    x = np.array([1.0, 2.0, 3.0], dtype)
    value, gradient = ndual.value_and_grad(lambda x: np.sum(x * x))(x)
    assert value.dtype == gradient.dtype == dtype
    assert gradient.tolist() == [2.0, 4.0, 6.0]


def test_mixed_dtypes():
    a, b = np.ones(2, np.float32), np.ones(2)
    ga, gb = ndual.grad(lambda a, b: np.sum(a * b * b), argnums=(0, 1))(a, b)
    assert (ga.dtype, gb.dtype) == (np.float32, np.float64)
    assert (ga.tolist(), gb.tolist()) == ([1.0, 1.0], [2.0, 2.0])


def test_scalars_and_empty():
    assert ndual.grad(lambda x: x * x)(3) == 6.0
    assert isinstance(ndual.grad(lambda x: x * x)(3), float)
    assert ndual.grad(lambda x: x * x)(np.float32(3)).dtype == np.float32
    g = ndual.grad(lambda x: x * x)(np.array(3.0))
    assert isinstance(g, np.ndarray)
    assert g.shape == ()
    value, gradient = ndual.value_and_grad(lambda x: np.sum(x) + 1.0)(np.empty((0, 2)))
    assert value == 1.0
    assert gradient.shape == (0, 2)


@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_strided_and_ordered_inputs(chunk_size):
    base = np.arange(24.0).reshape(4, 6)
    weights = np.arange(1.0, 25.0).reshape(4, 6)
    for x, w in ((base.T, weights.T), (base[::-1, ::2], weights[::-1, ::2]), (np.asfortranarray(base), weights)):
        gradient = ndual.grad(lambda x, w=w: np.sum(w * x * x), chunk_size=chunk_size)(x)
        assert np.array_equal(gradient, 2 * w * x)
    row = np.broadcast_to(np.array([1.0, 2.0]), (3, 2))
    assert ndual.grad(lambda x: np.sum(x * x))(row).tolist() == [[2.0, 4.0]] * 3


def test_complex_arguments():
    z = np.array([1 + 2j, 3 - 4j])
    gradient = ndual.grad(lambda z: np.sum(z.real**2 + 3.0 * z.imag))(z)
    assert gradient.tolist() == [2 + 3j, 6 + 3j]
    assert ndual.grad(lambda z: (z * z).real)(1 + 2j) == pytest.approx(2 - 4j)
    assert ndual.grad(lambda z: z * z * z, holomorphic=True)(1 + 2j) == pytest.approx(3 * (1 + 2j) ** 2)


def test_identity_and_no_alias_of_the_argument():
    x = np.array([1.0, 2.0])
    jacobian = ndual.jacobian(lambda x: x)(x)
    assert jacobian.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    value, tangent = ndual.jvp(lambda x: x, (x,), (np.array([5.0, 6.0]),))
    assert not np.shares_memory(value, x)
    assert tangent.tolist() == [5.0, 6.0]


# ---- outputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [2.0, 3, np.float64(4.0), np.array(5.0)])
def test_constant_output(constant):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = ndual.value_and_grad(lambda x: constant)(np.ones(3))
    assert value == constant
    assert gradient.tolist() == [0.0, 0.0, 0.0]


def test_constant_output_after_a_comparison():
    with pytest.warns(ndual.ConstantOutputWarning, match="compared on the way") as caught:
        gradient = ndual.grad(lambda x: 1.0 if x[0] > 0 else 0.0)(np.ones(2))
    assert gradient.tolist() == [0.0, 0.0]
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: x, r"real scalar; got shape \(3,\). Use jacobian, or sum the output"),
        (lambda x: x[:1], r"got shape \(1,\)"),
        (lambda x: (x[0], x[1]), "got a tuple of 2. Use jacobian"),
        (lambda x: None, "got None. Return a float"),
        (lambda x: "text", "got str 'text'"),
        (lambda x: np.sum(x > 0), "got int64"),
        (lambda x: x[0] > 0, "got bool"),
        (lambda x: x[0] * 1j, "got a complex one"),
        (lambda x: np.ones(3), r"got shape \(3,\)"),
    ],
)
def test_grad_wants_a_real_scalar(f, words):
    with pytest.raises(TypeError, match=words) as caught:
        ndual.grad(f)(np.ones(3))
    assert isinstance(caught.value, ndual.NdualError)


def test_has_aux_wants_a_pair():
    with pytest.raises(TypeError, match=r"to return \(output, aux\); got"):
        ndual.grad(lambda x: x, has_aux=True)(1.0)


# ---- jacobian ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 5])
def test_jacobian_shapes(chunk_size):
    x = np.arange(1.0, 7.0).reshape(2, 3)
    got = ndual.jacobian(lambda x: x.T @ x, chunk_size=chunk_size)(x)
    want = np.zeros((3, 3, 2, 3))
    for i in range(2):
        for j in range(3):
            e = np.zeros((2, 3))
            e[i, j] = 1.0
            want[:, :, i, j] = e.T @ x + x.T @ e
    assert got.shape == (3, 3, 2, 3)
    assert np.array_equal(got, want)


def test_jacobian_of_structures():
    got = ndual.jacobian(lambda p, q: {"s": p[0] * q, "t": (np.sum(p[1]), 1.0)}, argnums=(0, 1))(
        [2.0, np.ones(2)], np.array([3.0, 4.0])
    )
    (by_scalar, by_array), by_q = got["s"]
    assert by_scalar.tolist() == [3.0, 4.0]
    assert by_array.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert by_q.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert got["t"][0][0][1].tolist() == [1.0, 1.0]
    assert got["t"][1][1].tolist() == [0.0, 0.0]


def test_jacobian_of_a_scalar_function_is_the_gradient():
    x = np.linspace(-1, 1, 5)
    assert ndual.jacfwd(rosenbrock)(x) == pytest.approx(rosenbrock_gradient(x))


def test_jacobian_complex():
    z = np.array([1 + 1j, 2.0])
    assert np.allclose(ndual.jacobian(lambda z: z * z, holomorphic=True)(z), np.diag(2 * z))
    with pytest.raises(TypeError, match=r"expected real arguments; got args\[0\].*holomorphic=True"):
        ndual.jacobian(lambda z: z * z)(z)
    with pytest.raises(TypeError, match="expected a complex argument with holomorphic=True"):
        ndual.jacobian(lambda z: z * z, holomorphic=True)(np.ones(2))
    got = ndual.jacobian(lambda x: x * 1j)(np.array([1.0, 2.0]))
    assert got.tolist() == [[1j, 0], [0, 1j]]


def test_jacobian_has_aux():
    jacobian, aux = ndual.jacobian(lambda x: (2 * x, x[0]), has_aux=True)(np.ones(2))
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert aux == 1.0


# ---- stop_gradient -----------------------------------------------------------------------------------------------


def test_stop_gradient():
    x = np.array([3.0, 4.0])
    assert ndual.grad(lambda x: x[0] * ndual.stop_gradient(x)[1])(x).tolist() == [4.0, 0.0]
    assert ndual.grad(lambda x: x[0] * ndual.stop_gradient({"k": [x]})["k"][0][1])(x).tolist() == [4.0, 0.0]
    assert ndual.stop_gradient(x) is x
    assert ndual.stop_gradient("text") == "text"

    def f(x):
        stopped = ndual.stop_gradient(x)
        stopped[0] = 100.0
        return np.sum(x * x)

    assert ndual.grad(f)(x).tolist() == [6.0, 8.0]
    assert x.tolist() == [3.0, 4.0]
