"""``ndual.numpy``: NumPy's namespace, whole, and what it adds to NumPy."""

import importlib
import pickle
import subprocess
import sys

import numpy
import numpy as onp
import pytest

import ndual
import ndual.numpy as np

X = onp.array([0.5, 2.0, 3.0])
SUBMODULES = (
    "char", "ctypeslib", "dtypes", "exceptions", "fft", "lib", "linalg", "ma", "polynomial", "random", "rec", "strings",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({*numpy.__all__, *(n for n in dir(numpy) if not n.startswith("_"))}))
def test_every_name_is_there_and_is_numpys(name):
    mine, theirs = getattr(np, name), getattr(numpy, name)
    assert mine is theirs or mine.original is theirs
    assert mine is theirs or mine == theirs or name == "vectorize"  # NaN is not
    assert name in dir(np)


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match=r"module 'ndual\.numpy' has no attribute 'nosuch'"):
        _ = np.nosuch
    with pytest.raises(ImportError):
        from ndual.numpy import nosuch  # noqa: F401
    assert not hasattr(np, "__path__")


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules(name):
    assert importlib.import_module(f"ndual.numpy.{name}") is getattr(numpy, name) is getattr(np, name)


def test_star_import():
    scope = {}
    exec("from ndual.numpy import *", scope)
    assert set(numpy.__all__) <= set(scope)


def test_without_a_derivative_it_is_numpy():
    for made in (np.zeros(3), np.array([1.0, 2.0]), np.eye(2), np.linspace(0, 1, 3), np.ones((2, 2), np.float32)):
        assert type(made) is onp.ndarray
    assert type(np.float64(2.0)) is onp.float64
    assert np.zeros(1, dtype=np.float32).dtype == onp.float32 == np.float32
    assert isinstance(onp.float64(1.0), np.float64)
    assert issubclass(np.float64, np.floating)
    assert pickle.loads(pickle.dumps(np.zeros)) is onp.zeros
    assert pickle.loads(pickle.dumps(np.float64)) is onp.float64


def creates(x):
    out = np.zeros(3)
    out[0] = x[0] * x[1]
    out[1:] = np.array([x[1], np.float64(x[2]) ** 2])
    return np.sum(np.asarray(out))


@pytest.mark.parametrize("intercept", [True, False])
def test_derivatives_do_not_need_the_interception(intercept):
    with ndual.config(intercept=intercept):
        assert ndual.grad(creates)(X).tolist() == [2.0, 1.5, 6.0]
        assert ndual.grad(creates, chunk_size=2)(X).tolist() == [2.0, 1.5, 6.0]


def test_imported_inside():
    code = (
        "import numpy, ndual\n"
        "def f(x):\n"
        "    import ndual.numpy as np\n"
        "    out = np.zeros(2)\n"
        "    out[0] = x[0] ** 2\n"
        "    return np.sum(out)\n"
        "assert ndual.grad(f)(numpy.ones(2)).tolist() == [2.0, 0.0]\n"
        "import ndual.numpy as np\n"
        "assert np.zeros.original is numpy.zeros and type(numpy.zeros).__name__ != 'Gate'\n"
        "assert np.sin is numpy.sin and type(np.zeros(2)) is numpy.ndarray\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- the array API -------------------------------------------------------------------------------------------------


def test_duals_name_their_namespace():
    def f(x):
        xp = x.__array_namespace__()
        assert xp is np
        assert x.__array_namespace__(api_version="2022.12") is np
        assert x[0].__array_namespace__() is np
        assert (x > 1).__array_namespace__() is onp
        with pytest.raises(ValueError, match="1999"):
            x.__array_namespace__(api_version="1999.12")
        return xp.sum(xp.pow(x, 2.0))

    assert ndual.grad(f)(X).tolist() == (2 * X).tolist()
    assert np.__array_api_version__ == onp.__array_api_version__
    assert np.__array_namespace_info__().default_dtypes()["real floating"] == onp.float64
    assert np.isdtype(np.float32, "real floating")


W = onp.array([0.25, -1.0, 4.0])
API = {
    "acos": (lambda x, xp: xp.sum(W * xp.acos(x / 4)), -W / 4 / onp.sqrt(1 - X**2 / 16)),
    "astype": (lambda x, xp: xp.sum(W * xp.astype(x, xp.float64)), W),
    "astype float32": (lambda x, xp: xp.sum(xp.astype(x * W, xp.float32)), W),
    "concat": (lambda x, xp: xp.sum(xp.concat([x, x * x]) * onp.tile(W, 2)), W + 2 * X * W),
    "permute_dims": (lambda x, xp: xp.sum(xp.permute_dims(x[None] * W[:, None], (1, 0))[0]), W.sum() * (X[0] == X)),
    "matrix_transpose": (lambda x, xp: xp.sum(xp.matrix_transpose(x[None]) * W[:, None]), W),
    "vecdot": (lambda x, xp: xp.vecdot(x, x), 2 * X),
    "cumulative_sum": (lambda x, xp: xp.sum(xp.cumulative_sum(x) * W), onp.cumsum(W[::-1])[::-1]),
    "unstack": (lambda x, xp: sum(w * v for w, v in zip(W, xp.unstack(x), strict=True)), W),
    "vector_norm": (lambda x, xp: xp.linalg.vector_norm(x), X / onp.sqrt(X @ X)),
    "unique_values": (lambda x, xp: xp.sum(xp.sort(xp.unique_values(x)) * W), W),
    "unique_counts": (lambda x, xp: xp.sum(xp.unique_counts(x).values * xp.unique_counts(x).counts), onp.ones(3)),
    "unique_inverse": (lambda x, xp: xp.sum(xp.unique_inverse(x).values[xp.unique_inverse(x).inverse_indices] * W), W),
    "unique_all": (lambda x, xp: xp.sum(xp.unique_all(x).values * W[xp.unique_all(x).indices]), W),
}


@pytest.mark.parametrize("name", API)
def test_array_api_functions(name):
    f, gradient = API[name]

    got = ndual.grad(lambda x: f(x, x.__array_namespace__()))(X)
    np.testing.assert_allclose(got, gradient, rtol=1e-7 if "32" in name else 1e-14)
    assert f(X, onp) == pytest.approx(float(ndual.value_and_grad(lambda x: f(x, np))(X)[0]), rel=1e-6)
