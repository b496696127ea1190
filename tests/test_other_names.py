"""Arguments that f writes to by other names than its own: an error in every mode, and the caller's array as it was."""

import numpy as np
import pytest

import ndual

WAYS = {"forward": {}, "two": {"chunk_size": 2}, "reverse": {"mode": "reverse"}}
WRITES = {
    "method": lambda x: x.__imul__(2.0),
    "item": lambda x: x.__setitem__(0, 7.0),
    "ufunc": lambda x: np.add(x, 1.0, out=x),
    "function": lambda x: np.copyto(x, 3.0),
    "sort": lambda x: x.sort(),
    "fill": lambda x: x.fill(2.0),
    "whole view": lambda x: x.reshape(-1).__setitem__(slice(None), 5.0),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_by_another_name(write, way):
    x = np.array([3.0, 1.0, 2.0, 5.0])

    def f(a):
        WRITES[write](x)
        return np.sum(a * a)

    for call in (ndual.grad(f, **WAYS[way]), ndual.prepare_gradient(f, x, **WAYS[way])):
        with pytest.raises(ndual.AliasError, match=r"args\[0\]: expected f to change what it is given.*another name"):
            call(x)
        assert x.tolist() == [3.0, 1.0, 2.0, 5.0]
        assert x.flags.writeable
        call(x.copy())
        x[:] = [3.0, 1.0, 2.0, 5.0]


def test_a_write_by_another_name_in_other_operators():
    x = np.array([3.0, 1.0])

    def f(a):
        x[0] = 2.0
        return a * a

    for call in (
        lambda x: ndual.jvp(f, (x,), (np.ones(2),)),
        ndual.jacobian(f),
        lambda x: ndual.vjp(f, x),
        lambda x: ndual.linearize(f, x),
        lambda x: ndual.grad(lambda p: np.sum(f(p["w"])))({"w": x}),
        lambda x: ndual.grad(lambda a, b: np.sum(f(a) + b), (0, 1))(x, x),
        lambda x: ndual.grad(lambda a: np.sum(f(a)))(x.reshape(2, 1)),
    ):
        with pytest.raises(ndual.AliasError):
            call(x)
        assert x.tolist() == [3.0, 1.0]
        assert x.flags.writeable


@pytest.mark.parametrize("way", WAYS)
def test_what_may_be_written_while_an_argument_is_held(way):
    x, log = np.array([3.0, 1.0, 4.0]), np.zeros(3)

    def f(a):
        a[0] *= 2.0
        log[:] = ndual.stop_gradient(a)
        return np.sum(a * a)

    x.flags.writeable = False
    assert ndual.grad(f, **WAYS[way])(x).tolist() == [24.0, 2.0, 8.0]
    assert not x.flags.writeable
    x = np.array([3.0, 1.0, 4.0])
    assert ndual.grad(f, **WAYS[way])(x).tolist() == [24.0, 2.0, 8.0]
    assert ndual.grad(lambda a: np.sum(a * x), **WAYS[way])(x).tolist() == [3.0, 1.0, 4.0]

    def fails(a):
        raise ValueError("read-only, says the user")

    with pytest.raises(ValueError, match="says the user"):
        ndual.grad(fails, **WAYS[way])(x)
    assert x.flags.writeable
    with pytest.raises(ZeroDivisionError):
        ndual.grad(lambda a: 1 / 0, **WAYS[way])(x)
    assert x.flags.writeable
    assert ndual.hessian(lambda a: np.sum(a * a * x))(x).tolist() == np.diag(2 * x).tolist()


@pytest.mark.parametrize("way", [*WAYS, "one", "eight"])
def test_memory_that_is_shared_and_written_to(way):
    """A container or argument beside the differentiated one shares its tangent, or raises."""
    options = {"one": {"chunk_size": 1}, "eight": {"chunk_size": 8}}.get(way) or WAYS.get(way, {})
    x = np.array([2.0, 5.0])

    def arguments(a, b):
        a *= 3.0
        return np.sum(a * b)

    def container(a, c):
        a *= 3.0
        return np.sum(a * c["w"])

    def written(a, c):
        c["w"][0] *= 3.0
        return np.sum(a * c["w"])

    def closure(a):
        a *= 3.0
        return np.sum(a * x)

    def structures(a, c):
        a["w"] *= 3.0
        return np.sum(a["w"] * c["w"])

    for f, argnums, args in (
        (arguments, (0, 1), (x, x)),
        (arguments, 0, (x, x)),
        (container, 0, (x, {"w": x})),
        (written, 0, (x, {"w": x})),
        (closure, 0, (x,)),
        (structures, (0, 1), ({"w": x}, {"w": x})),
    ):
        with pytest.raises(ndual.AliasError):
            ndual.grad(f, argnums, **options)(*args)
        assert x.tolist() == [2.0, 5.0]
        assert x.flags.writeable
    outside = np.zeros(2)

    def lost(a):
        outside[0] = a[0]
        return outside[0]

    with pytest.raises(ndual.DerivativeLostError):
        ndual.grad(lost, **options)(x)
