"""Every prepared object: clones, copies by pickle, other shapes, other threads, what it says of itself."""

from __future__ import annotations

import pickle
import re
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import ndual


@dataclass
class Inner:
    a: float


@dataclass(frozen=True)
class Outer:
    i: object
    x: object
    n: object = 3


def f(p, scale):
    return p.i.a**2 * np.sum(p.x**p.n) * scale


P = Outer(Inner(2.0), np.array([1.0, 2.0]))
ONE = Outer(Inner(1.0), np.zeros(2))
KINDS = {
    "derivative": lambda **options: ndual.prepare_derivative(f, P, 3.0, argnums=0, **options),
    "gradient": lambda **options: ndual.prepare_gradient(f, P, 3.0, **options),
    "jacobian": lambda **options: ndual.prepare_jacobian(f, P, 3.0, **options),
    "hessian": lambda **options: ndual.prepare_hessian(f, P, 3.0, **options),
    "vjp": lambda **options: ndual.prepare_vjp(f, P, 3.0, argnums=0, **options),
    "hvp": lambda **options: ndual.prepare_hvp(f, P, 3.0, **options),
}
ALL = [(kind, "auto") for kind in KINDS] + [
    (kind, mode) for kind in ("gradient", "jacobian", "hessian", "hvp") for mode in ("forward", "reverse")
]


def made(kind, mode="auto", **options):
    return KINDS[kind](**options) if kind in ("derivative", "vjp") else KINDS[kind](mode=mode, **options)


def called(prepared, kind, p=P, scale=3.0):
    """What a prepared object gives, as numbers: of the value, and of the derivative by ``p.i.a``."""
    if kind == "derivative":
        one = Outer(Inner(1.0), np.zeros_like(p.x), None)
        return tuple(map(float, prepared((p, scale), (one,))))
    if kind == "vjp":
        value, g = prepared((p, scale))
        return float(value), float(g.i.a)
    if kind == "hvp":
        value, _, product = prepared((p, scale), (Outer(Inner(1.0), np.zeros_like(p.x), None),))
        return float(value), float(product.i.a)
    found = prepared(p, scale)
    if kind == "hessian":
        return float(found[0]), float(found[2].i.a.i.a)
    return float(found[0]), float(found[1].i.a)


def expected(kind, p=P, scale=3.0):
    total = float(np.sum(p.x**p.n))
    second = kind in ("hessian", "hvp")
    return p.i.a**2 * total * scale, (2.0 if second else 2.0 * p.i.a) * total * scale


@pytest.mark.parametrize(("kind", "mode"), ALL)
def test_values_clones_and_copies(kind, mode):
    prepared = made(kind, mode)
    other = Outer(Inner(5.0), np.array([3.0, 1.0]), 2)
    for one in (prepared, prepared.clone(), pickle.loads(pickle.dumps(prepared)), prepared):
        assert type(one) is type(prepared)
        assert called(one, kind) == expected(kind)
        assert called(one, kind, other, 0.5) == expected(kind, other, 0.5)
        assert repr(one).startswith(f"<prepared {kind} of f: mode ")
        with pytest.raises(ndual.CacheMismatchError, match=r"args\[0\]\.x: expected a float64 array of shape \(2,\)"):
            called(one, kind, Outer(Inner(1.0), np.ones(3)))
        with pytest.raises(ndual.CacheMismatchError, match=r"args\[0\]: expected an? Outer"):
            one(*((({"i": 1.0}, 1.0), (1.0,)) if kind in ("derivative", "hvp", "vjp") else ({"i": 1.0}, 1.0)))


@pytest.mark.parametrize(("kind", "mode"), ALL)
def test_prepared_again(kind, mode):
    prepared = made(kind, mode, reprepare=True)
    assert called(prepared, kind) == expected(kind)
    for p in (Outer(Inner(1.0), np.array([1.0, 3.0, 5.0])), P, Outer(Inner(4.0), np.ones((2, 2), np.float32), 2)):
        for one in (prepared, pickle.loads(pickle.dumps(prepared)), prepared.clone()):
            assert called(one, kind, p) == pytest.approx(expected(kind, p), rel=1e-6)
    assert repr(prepared).startswith(f"<prepared {kind} of f: mode ")
    with pytest.raises(ndual.ArgumentTypeError, match="set"):
        prepared(*(((Outer(Inner(1.0), {1.0}), 1.0), (ONE,)) if kind in ("derivative", "hvp", "vjp") else (
            Outer(Inner(1.0), {1.0}), 1.0)))  # fmt: skip
    assert called(prepared, kind) == expected(kind)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_an_error_of_the_function_prepares_nothing_again(mode):
    runs = []

    def wrong(x):
        runs.append(1)
        raise ndual.CacheMismatchError("from inside")

    prepared = ndual.prepare_gradient(wrong, np.ones(2), mode=mode, reprepare=True)
    with pytest.raises(ndual.CacheMismatchError, match="from inside"):
        prepared(np.ones(2))
    assert len(runs) == 1


@pytest.mark.parametrize(("kind", "mode"), ALL)
@pytest.mark.parametrize("reprepare", [False, True])
def test_two_threads(kind, mode, reprepare):
    inside, go = threading.Event(), threading.Event()

    def slow(p, scale):
        inside.set()
        go.wait(10)
        return f(p, scale)

    options = {} if kind in ("derivative", "vjp") else {"mode": mode}
    if kind in ("derivative", "vjp"):
        options["argnums"] = 0
    prepared = getattr(ndual, f"prepare_{kind}")(slow, P, 3.0, reprepare=reprepare, **options)
    clone = prepared.clone()
    found = []
    thread = threading.Thread(target=lambda: found.append(called(prepared, kind)))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(ndual.NdualError, match=r"one call at a time.*\.clone\(\)"):
        called(prepared, kind)
    if reprepare:
        for other in (Outer(Inner(1.0), np.ones(3)), Outer(Outer(1.0, 1.0), np.ones(2))):
            with pytest.raises(ndual.NdualError, match=r"one call at a time.*\.clone\(\)"):
                prepared(*(((other, 3.0), (other,)) if kind in ("derivative", "hvp", "vjp") else (other, 3.0)))
    go.set()
    thread.join()
    assert found == [expected(kind)]
    assert called(clone, kind) == called(prepared, kind) == expected(kind)


def test_vjp_of_structures():
    def g(p, n, q):
        return {"s": p.i.a * p.x, "t": (q * n, "text")}

    assert ndual.prepare_vjp(lambda q, s: q, 2.0, "text")((3.0, "other"))[1] == (1.0, None)
    pull = ndual.prepare_vjp(g, P, 3, 2.0)
    value, (to_p, to_n, to_q) = pull((P, 3, 2.0), {"s": np.array([1.0, 10.0]), "t": (100.0, None)})
    assert (value["s"].tolist(), value["t"]) == ([2.0, 4.0], (6.0, "text"))
    assert (to_p.i.a, to_p.x.tolist(), to_p.n, to_n, to_q) == (21.0, [2.0, 20.0], None, 200.0, 300.0)
    with pytest.raises(ndual.ArgumentValueError, match=r"cotangent of the output: expected a dict of 2"):
        pull((P, 3, 2.0), 1.0)
    with pytest.raises(ndual.ArgumentTypeError, match="a prepared vjp expects a cotangent of the output"):
        pull((P, 3, 2.0))
    assert pull((P, 3, 2.0), {"s": None, "t": (1.0, None)})[1][2] == 3.0
    value, (to_q, to_p) = ndual.prepare_vjp(g, P, 3, 2.0, argnums=(2, 0))(
        (P, 3, 2.0), {"s": np.array([1.0, 10.0]), "t": (100.0, None)}
    )
    assert (to_q, to_p.i.a) == (300.0, 21.0)
    value, (gradient,), aux = ndual.prepare_vjp(lambda x: (x * x, "aux"), 1.0, has_aux=True)((3.0,))
    assert (value, gradient, aux) == (9.0, 6.0, "aux")
    z = np.array([1.0 + 2.0j])
    assert (
        ndual.prepare_vjp(lambda z: z * z, z)((z,), np.array([1.0 + 0j]))[1][0]
        == ndual.vjp(lambda z: z * z, z)[1](np.array([1.0 + 0j]))[0]
    )


def test_refusals():
    for make in (ndual.prepare_vjp, ndual.prepare_hvp):
        with pytest.raises(ndual.ArgumentValueError, match=f"{make.__name__} expects example arguments"):
            make(f)
        with pytest.raises(ndual.ArgumentTypeError, match=f"{make.__name__} expects a function"):
            make(2.0, 1.0)
    with pytest.raises(ndual.ArgumentTypeError, match="prepare_vjp expects at least one float"):
        ndual.prepare_vjp(f, "text")
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(ndual.prepare_gradient(lambda x: x, 1.0))


def test_large_arguments_make_no_large_copies():
    x = np.ones(100_000)
    assert len(pickle.dumps(ndual.prepare_gradient(np.sum, x))) < 2000


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_copy_false(mode):
    prepared = ndual.prepare_gradient(f, P, 3.0, mode=mode, copy=False)
    _, first = prepared(P, 3.0)
    _, second = prepared(Outer(Inner(1.0), np.array([5.0, 7.0])), 3.0)
    assert np.shares_memory(first.x, second.x)
    assert second.x.tolist() == [225.0, 441.0]
    again = pickle.loads(pickle.dumps(prepared))
    assert np.shares_memory(again(P, 3.0)[1].x, again(P, 3.0)[1].x)


@pytest.mark.parametrize("kind", KINDS)
def test_repr(kind):
    text = repr(made(kind))
    assert re.search(r"passes \d+, (tape )?\d+ bytes>$", text)
