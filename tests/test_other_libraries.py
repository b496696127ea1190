"""Arrays and functions of other libraries: taken apart by the user, refused in plain words, never a silent constant."""

import importlib.util
import sys
import types

import numpy as np
import pytest

import ndual

X = np.array([1.0, 2.0, 3.0])


def installed(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def holder(library, name):
    """A class that looks like the array class of a library."""

    class Holder:
        def __init__(self, data):
            self.data = data

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.data, dtype)

    Holder.__module__, Holder.__name__ = f"{library}.core", name
    return Holder


# ---- look-alikes, which need nothing installed ---------------------------------------------------------------------

LOOK_ALIKES = [
    ("pandas", "Series", r"x\.to_numpy\(\)"),
    ("polars", "Series", r"x\.to_numpy\(\)"),
    ("xarray", "DataArray", r"x\.values"),
    ("torch", "Tensor", r"x\.detach\(\)\.cpu\(\)\.numpy\(\)"),
    ("jaxlib", "Array", r"np\.asarray\(x\)"),
    ("tensorflow", "Tensor", r"x\.numpy\(\)"),
]


@pytest.mark.parametrize(("library", "name", "remedy"), LOOK_ALIKES)
def test_arguments_are_refused_with_what_to_write(library, name, remedy):
    value = holder(library, name)(X)
    message = rf"got {library}\.{name}\. Pass {remedy}"
    for operator in (ndual.grad, ndual.value_and_grad, ndual.jacobian, ndual.jacfwd):
        with pytest.raises(ndual.ArgumentTypeError, match=rf"args\[0\]: .*{message}"):
            operator(np.sum)(value)
        with pytest.raises(ndual.ArgumentTypeError, match=rf"args\[0\]\['w'\]: .*{message}"):
            operator(lambda p: np.sum(p["w"]))({"w": value, "b": X})
    with pytest.raises(ndual.ArgumentTypeError, match=message):
        ndual.prepare_gradient(np.sum, value)


@pytest.mark.parametrize(("library", "name", "remedy"), LOOK_ALIKES)
def test_outputs_are_refused_with_what_to_write(library, name, remedy):
    kind = holder(library, name)
    for f in (lambda x: kind(X), lambda x: kind(x), lambda x: {"a": x, "b": kind(x)}):
        with pytest.raises(ndual.ArgumentTypeError, match=rf"got {library}\.{name}\. Return {remedy}"):
            ndual.jacobian(f)(X)


def test_constant_arguments_reach_the_function_as_they_are():
    value = holder("pandas", "Series")(X)
    got = ndual.grad(lambda x, s: np.sum(x * np.asarray(s)) * (type(s) is type(value)))(X, value)
    assert got.tolist() == X.tolist()


class Dispatcher:
    """As numba's: callable, with the Python function behind it."""

    def __init__(self, py_func):
        self.py_func = py_func

    def __call__(self, x):
        return self.py_func(float(x))


def square(x):
    return x * x


def test_compiled_functions_are_refused_with_their_python_function():
    compiled = Dispatcher(square)
    for operator in (ndual.grad, ndual.value_and_grad, ndual.jacobian, ndual.derivative):
        with pytest.raises(ndual.ArgumentTypeError, match=r"square as compiled by Dispatcher.*square\.py_func"):
            operator(compiled)(3.0)
    with pytest.raises(ndual.ArgumentTypeError, match=r"square\.py_func"):
        ndual.jvp(compiled, (3.0,), (1.0,))
    with pytest.raises(ndual.ArgumentTypeError, match=r"square\.py_func"):
        ndual.prepare_gradient(compiled, 3.0)
    assert ndual.grad(compiled.py_func)(3.0) == 6.0


def test_messages_speak_of_numba_where_it_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", types.ModuleType("numba"))
    with pytest.raises(ndual.DerivativeLostError, match=r"test_other_libraries\.py:\d.*f\.py_func"):
        ndual.grad(lambda x: Dispatcher(square)(x))(3.0)
    monkeypatch.delitem(sys.modules, "numba")
    with pytest.raises(ndual.DerivativeLostError, match=r"intended$"):
        ndual.grad(lambda x: Dispatcher(square)(x))(3.0)


def test_the_line_is_the_users_though_another_library_raises(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "pandas"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("import numpy\ndef mean(x):\n    return float(x)\n")
    namespace = types.ModuleType("pandas")
    exec(compile((folder / "__init__.py").read_text(), str(folder / "__init__.py"), "exec"), vars(namespace))
    monkeypatch.setitem(sys.modules, "pandas", namespace)
    with pytest.raises(ndual.DerivativeLostError) as caught:
        ndual.grad(lambda x: namespace.mean(x))(3.0)
    said = str(caught.value)
    assert "test_other_libraries.py:" in said
    assert "within pandas). pandas keeps no derivatives: take its array first, x.to_numpy()" in said


# ---- the libraries themselves --------------------------------------------------------------------------------------


def refused(f, x=X):
    with pytest.raises(ndual.NdualError) as caught:
        ndual.grad(f)(x)
    return str(caught.value)


def right_or_refused(f, gradient, remedy):
    """What of these libraries happens to work is theirs to change: right, or an error with the line and what to do."""
    try:
        got = ndual.grad(f)(X)
    except (ndual.ArgumentTypeError, ndual.DerivativeLostError) as error:
        said = str(error)
    else:
        np.testing.assert_allclose(got, gradient, rtol=1e-14)
        return
    assert remedy in said or "test_other_libraries.py:" in said


@installed("pandas")
def test_pandas():
    import pandas as pd

    series, frame = pd.Series(X), pd.DataFrame({"a": X, "b": 2 * X})
    for value in (series, frame, frame["a"]):
        with pytest.raises(ndual.ArgumentTypeError, match=r"pandas\.\w+\. Pass x\.to_numpy\(\)"):
            ndual.grad(np.sum)(value)
    assert ndual.grad(lambda x: np.sum(series.to_numpy() * x))(X).tolist() == X.tolist()
    assert ndual.grad(lambda x: np.sum(frame.values.T @ x))(X).tolist() == (3 * X).tolist()
    assert ndual.grad(lambda x: np.sum(x[series > 1.5]))(X).tolist() == [0.0, 1.0, 1.0]
    assert ndual.grad(lambda x, s: np.dot(x, s.to_numpy()))(X, series).tolist() == X.tolist()

    def column(x):
        copy = frame.copy()
        copy["a"] = x
        return copy.sum().sum()

    def cell(x):
        copy = series.copy()
        copy.iloc[0] = x[0]
        return copy.sum()

    for f, gradient in (
        (lambda x: np.sum(series * x), X),
        (lambda x: np.sum(x * series), X),
        (lambda x: np.sum(series - x), -np.ones(3)),
        (lambda x: np.sum(frame @ x[:2]), [6.0, 12.0, 0.0]),
        (lambda x: (frame * x[0]).sum().sum(), [18.0, 0.0, 0.0]),
        (lambda x: series.dot(x), X),
        (lambda x: pd.Series(x).sum(), np.ones(3)),
        (lambda x: pd.DataFrame({"a": x}).sum().sum(), np.ones(3)),
        (lambda x: np.sum(np.sin(series) * x), np.sin(X)),
        (lambda x: series.map(lambda v: v * x[0]).sum(), [6.0, 0.0, 0.0]),
        (column, np.ones(3)),
        (cell, [1.0, 0.0, 0.0]),
    ):
        right_or_refused(f, gradient, "x.to_numpy()")
    assert "Return x.to_numpy()" in refused(lambda x: pd.Series(x))


@installed("xarray")
def test_xarray():
    import xarray as xr

    array = xr.DataArray(X, dims="t")
    with pytest.raises(ndual.ArgumentTypeError, match=r"xarray\.DataArray\. Pass x\.values"):
        ndual.grad(np.sum)(array)
    assert ndual.grad(lambda x: np.sum(array.values * x))(X).tolist() == X.tolist()
    for f, gradient in (
        (lambda x: np.sum(array * x), X),
        (lambda x: float((x * array).values.sum()), X),
        (lambda x: (array * x).values.sum(), X),
        (lambda x: xr.DataArray(x, dims="t").sum().item(), np.ones(3)),
    ):
        right_or_refused(f, gradient, "x.values")


@installed("numba")
def test_numba():
    import numba

    compiled = numba.njit(square)
    makes = numba.njit(lambda n: np.zeros(n) + 1.0)
    with pytest.raises(ndual.ArgumentTypeError, match=r"square\.py_func"):
        ndual.grad(compiled)(3.0)
    for f, x in ((lambda x: compiled(x), 3.0), (lambda x: np.sum(compiled(x)), X)):
        said = refused(f, x)
        assert "test_other_libraries.py:" in said and "f.py_func" in said, said
    assert ndual.grad(lambda x: compiled.py_func(x))(3.0) == 6.0
    # Compiled inside, where gates are in place: numba must know the functions that it compiles.
    assert ndual.grad(lambda x: np.sum(makes(3) * np.zeros(3) + makes(3) * x))(X).tolist() == [1.0, 1.0, 1.0]
