"""``wrt=``: derivatives with respect to what a function reaches by closures, globals, partials and its object."""

from __future__ import annotations

import functools
import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from numpy import zeros

import ndual

WAYS = [("forward", 1), ("forward", 2), ("forward", 3), ("forward", 8), ("reverse", None)]


@dataclass
class Layer:
    w: np.ndarray
    rate: float = 2.0


class Model:
    def __init__(self):
        self.layers = [Layer(np.array([1.0, 2.0])), Layer(np.array([3.0, 4.0]), 5.0)]
        self.scale, self.calls = 10.0, 0

    def __call__(self, x):
        self.calls += 1
        return self.scale * np.sum(self.layers[0].w * self.layers[1].w * x)

    def loss(self, x):
        return self(x) ** 2 / self.scale

    def held(self, x):
        out = zeros(2)  # a name that is intercepted
        out[0] = self.scale * x[0]
        return out[0] ** 2


MODEL, LIMIT, CALLS = Model(), 3.0, 0
X = np.array([1.0, 10.0])


def by_global(x):
    return MODEL(x) * LIMIT


def through_another(x):
    return by_global(x) + MODEL.scale


def make(model):
    """A function with a closure."""
    return lambda x: model(x)


@pytest.fixture(params=WAYS, ids=[f"{mode} {chunk}" for mode, chunk in WAYS])
def value_and_grad(request):
    mode, chunk = request.param
    return lambda f, wrt: ndual.value_and_grad(f, mode=mode, chunk_size=chunk, wrt=wrt)


def check(value, g, factor=1.0):
    """Value 830 and the gradient of a model, times a factor."""
    assert value == 830.0 * factor
    assert type(g) is Model
    assert (g.scale, g.layers[0].w.tolist(), g.layers[1].w.tolist()) == (
        83.0 * factor, (np.array([30.0, 400.0]) * factor).tolist(), (np.array([10.0, 200.0]) * factor).tolist(),
    )  # fmt: skip
    assert (g.layers[0].rate, g.calls) == (0.0, None)


FUNCTIONS = {
    "closure": lambda m: make(m),
    "object": lambda m: m,
    "method": lambda m: m.__call__,
    "partial": lambda m: functools.partial(lambda model, x: model(x), m),
    "keyword": lambda m: functools.partial(lambda x, model: model(x), model=m),
    "default": lambda m: lambda x, model=m: model(x),
    "keyword default": lambda m: lambda x, *, model=m: model(x),
    "of a function": lambda m: (lambda inner: lambda x: inner(x))(make(m)),
    "in a list": lambda m: (lambda held: lambda x: held["a"][0][1](x))({"a": [(1, m)]}),
    "decorated": lambda m: functools.wraps(make(m))((lambda f: lambda *args: f(*args))(make(m))),
    "in another object": lambda m: (lambda o: lambda x: o.deep.model(x))(
        SimpleNamespace(deep=SimpleNamespace(model=m))
    ),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_an_object(value_and_grad, kind):
    model = Model()
    f = FUNCTIONS[kind](model)
    call = value_and_grad(f, model)
    check(*call(X))
    model.scale = 1.0  # what it is at the time of the call
    assert call(X)[0] == 83.0
    assert type(model.scale) is float
    assert model.calls == 0


def test_globals(value_and_grad):
    check(*value_and_grad(by_global, MODEL)(X), 3.0)
    check(*value_and_grad(by_global, "MODEL")(X), 3.0)
    value, g = value_and_grad(through_another, MODEL)(X)
    assert (value, g.scale) == (2500.0, 250.0)
    value, g = value_and_grad(by_global, "LIMIT")(X)
    assert (value, g) == (2490.0, 830.0)
    value, g = value_and_grad(through_another, ["LIMIT", "MODEL.layers[-1]"])(X)
    assert (g[0], g[1].w.tolist()) == (830.0, [30.0, 600.0])


def test_paths(value_and_grad):
    model, rate = Model(), 3.0

    def f(x):
        return model(x) * rate + model.layers[1].rate ** 2

    assert value_and_grad(f, "rate")(X)[1] == 830.0
    assert value_and_grad(f, "model.scale")(X)[1] == 249.0
    assert value_and_grad(f, "model.layers[1].rate")(X)[1] == 10.0
    assert value_and_grad(f, "model.layers[0].w")(X)[1].tolist() == [90.0, 1200.0]
    assert value_and_grad(f, "model.layers")(X)[1][1].rate == 10.0
    g = value_and_grad(f, ["rate", "model.layers[0].w", "model.scale"])(X)[1]
    assert (g[0], g[1].tolist(), g[2]) == (830.0, [90.0, 1200.0], 249.0)
    assert value_and_grad(f, ["rate"])(X)[1] == (830.0,)
    rate = 4.0
    assert value_and_grad(f, "model.scale")(X)[1] == 332.0
    for path in ("self.scale", "scale"):
        assert value_and_grad(model.loss, path)(X)[1] == 2 * 830.0 * 83.0 / 10.0 - 830.0**2 / 100.0
        assert value_and_grad(model, path)(X)[1] == 83.0
    partial = functools.partial(lambda a, b, x, c: a * b["k"] * c * x, 2.0, {"k": 3.0}, c=5.0)
    for path, want in (("a", 15.0), ("b['k']", 10.0), ("c", 6.0)):
        assert value_and_grad(partial, path)(1.0)[1] == want
    assert value_and_grad(lambda x, a=3.0, *, b=(1.0, 4.0): a * b[1] * x, ["a", "b[1]"])(2.0)[1] == (8.0, 6.0)


def test_arrays_and_lists(value_and_grad):
    w, held = np.array([1.0, 2.0]), [3.0, np.array([4.0])]

    def f(x):
        w[0] *= 2.0
        return np.sum(w) * held[0] * held[1][0] * x

    for _ in range(2):
        assert value_and_grad(f, w)(1.0)[1].tolist() == [24.0, 12.0]
        assert w.tolist() == [1.0, 2.0]
    value, g = value_and_grad(lambda x: held[0] * held[1][0] * x, held)(2.0)
    assert (value, g[0], g[1].tolist()) == (24.0, 8.0, [6.0])


def test_a_part_by_another_name(value_and_grad):
    model = Model()
    first, arrays = model.layers[0], (model.layers[1].w,)

    def f(x):
        return np.sum(first.w * arrays[0] * x) * model.scale

    check(*value_and_grad(f, model)(X))
    view = first.w[1:]
    with pytest.raises(ndual.AliasError, match="share no memory"):
        value_and_grad(lambda x: model(x) * view[0], model)(X)


def test_circles(value_and_grad):
    node = SimpleNamespace(v=3.0)
    node.me = node

    def f(x, depth=1):
        return f(x, 0) * node.me.v if depth else node.v * x

    value, g = value_and_grad(f, node)(2.0)
    assert (value, g.v) == (18.0, 12.0)
    assert g.me is g


def test_what_is_intercepted(value_and_grad):
    model = Model()
    assert value_and_grad(model.held, model)(X)[1].scale == 20.0
    assert value_and_grad(lambda x: model.held(x), "model.scale")(X)[1] == 20.0
    assert ndual.prepare_gradient(model.held, X, wrt=model)(X)[1].scale == 20.0


def counting(x):
    global CALLS
    CALLS += 1
    return MODEL.scale * x


def rebinding(x):
    global MODEL
    MODEL = SimpleNamespace(scale=x)
    return MODEL.scale


def test_assignments(value_and_grad):
    before = CALLS
    assert value_and_grad(counting, MODEL)(3.0)[1].scale == 3.0
    assert before + 1 <= CALLS <= before + 16
    kept = MODEL
    with pytest.raises(ndual.AliasError, match="assignment to the global MODEL"):
        value_and_grad(rebinding, MODEL)(3.0)
    assert MODEL is kept
    model, calls = Model(), 0

    def f(x):
        nonlocal calls
        calls += 1
        return model.scale * x

    assert value_and_grad(f, model)(3.0)[1].scale == 3.0
    assert calls >= 1

    def g(x):
        nonlocal model
        found, model = model.scale * x, None
        return found

    with pytest.raises(ndual.AliasError, match="assignment to the variable of a closure"):
        value_and_grad(g, model)(3.0)
    assert type(model) is Model


def test_every_operator():
    model = SimpleNamespace(a=2.0, w=np.array([1.0, 3.0]))

    def f(x):
        return model.a**3 * np.sum(model.w**2) * x

    one = SimpleNamespace(a=1.0, w=np.zeros(2))
    assert ndual.grad(f, wrt=model)(2.0).a == 240.0
    assert ndual.jacobian(f, wrt=model)(2.0).a == 240.0
    assert ndual.jacfwd(f, wrt="model.w")(2.0).tolist() == [32.0, 96.0]
    assert ndual.jacrev(f, wrt="model.w")(2.0).tolist() == [32.0, 96.0]
    assert ndual.derivative(f, wrt="model.a")(2.0) == 240.0
    assert ndual.hessian(f, wrt=model)(2.0).a.a == 240.0
    assert ndual.hessian(f, wrt="model.w")(2.0).tolist() == [[32.0, 0.0], [0.0, 32.0]]
    assert ndual.jvp(f, (2.0,), (one,), wrt=model) == (160.0, 240.0)
    assert ndual.hvp(f, (2.0,), (one,), wrt=model)[2].a == 240.0
    value, pullback = ndual.vjp(f, 2.0, wrt=model)
    assert (value, pullback(10.0)[0].a, len(pullback(1.0))) == (160.0, 2400.0, 1)
    assert ndual.linearize(f, 2.0, wrt=model)[1](one) == 240.0
    assert ndual.prepare_derivative(f, 1.0, wrt=model)((2.0,), (one,)) == (160.0, 240.0)
    assert ndual.prepare_jacobian(f, 1.0, wrt=model)(2.0)[1].a == 240.0
    assert ndual.prepare_hessian(f, 1.0, wrt=model)(2.0)[2].a.a == 240.0
    assert ndual.prepare_vjp(f, 1.0, wrt=model)((2.0,))[1][0].a == 240.0
    assert ndual.prepare_hvp(f, 1.0, wrt=model)((2.0,), (one,))[2].a == 240.0
    assert ndual.grad(lambda x: (f(x), "aux"), wrt=model, has_aux=True)(2.0)[1] == "aux"


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_prepared(mode):
    model = Model()
    prepared = ndual.prepare_gradient(make(model), X, mode=mode, wrt=model)
    for call in (prepared, prepared.clone()):
        for scale in (10.0, 20.0, 10.0):
            model.scale = scale
            value, g = call(X)
            assert (value, g.scale, g.layers[0].w.tolist()) == (83.0 * scale, 83.0, [3.0 * scale, 40.0 * scale])
        assert f"mode {mode}" in repr(call)
    model.layers.append(Layer(np.ones(2)))
    with pytest.raises(ndual.CacheMismatchError, match=r"args\[0\]\.layers: expected a list of 2.*got a list of 3"):
        prepared(X)
    again = ndual.prepare_gradient(make(model), X, mode=mode, wrt=model, reprepare=True)
    model.layers.append(Layer(np.ones(2)))
    assert again(X)[1].scale == 83.0
    loaded = pickle.loads(pickle.dumps(ndual.prepare_gradient(by_global, X, mode=mode, wrt="MODEL.layers[0].w")))
    assert loaded(X)[1].tolist() == [90.0, 1200.0]
    with pytest.raises(ndual.ArgumentTypeError, match="expected a path as wrt"):
        pickle.dumps(prepared)


def test_refusals():
    model = Model()
    f = make(model)
    for wrt, kind, words in (
        (Model(), ndual.ArgumentValueError, "expected what f reaches"),
        (np.ones(2), ndual.ArgumentValueError, "expected what f reaches"),
        (1.0, ndual.ArgumentTypeError, "A number has a path"),
        (print, ndual.ArgumentTypeError, "expects an object"),
        ("nothing", ndual.ArgumentValueError, "expected a name"),
        ("x", ndual.ArgumentValueError, "Arguments of f have argnums"),
        ("model.none", ndual.ArgumentValueError, r"expected model to have \.none; got Model"),
        ("model.layers[7]", ndual.ArgumentValueError, r"expected model.layers to have \[7\]; got list"),
        ("model.layers[0].w[1]", ndual.ArgumentTypeError, "a whole array"),
        ("model.calls", ndual.ArgumentTypeError, "expected floats; got int 0"),
        ("model(3)", ndual.ArgumentValueError, "expects a path such as"),
        ("model.layers[", ndual.ArgumentValueError, "expects a path such as"),
    ):
        with pytest.raises(kind, match=words):
            ndual.grad(f, wrt=wrt)(X)
    with pytest.raises(ndual.ArgumentValueError, match="wrt or argnums"):
        ndual.grad(f, 1, wrt=model)
    held = {"n": 3}
    with pytest.raises(ndual.ArgumentTypeError, match="at least one float"):
        ndual.grad(lambda x: held["n"] * x, wrt="held")(1.0)

    class Uses:
        def value(self, x):
            return MODEL.scale * x

    uses = Uses()
    uses.model = MODEL
    with pytest.raises(ndual.ArgumentTypeError, match="a method that reaches it by a global"):
        ndual.grad(lambda x: uses.value(x) * uses.model.scale, wrt=MODEL)(1.0)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("again", ["model.scale", "model.layers[0].w", "model.layers[1]", "model"])
def test_what_is_named_twice_is_refused(again, mode):
    model = Model()
    for named in (["model", again], [again, "model"], [again, again]):
        with pytest.raises(ndual.AliasError, match="named twice or lies in another"):
            ndual.grad(lambda x: np.sum(model(x)), wrt=named, mode=mode)(np.array([1.0, 2.0]))
    whole = ndual.grad(lambda x: np.sum(model(x)), wrt=["model.layers[0]", "model.layers[1].w"], mode=mode)
    assert all(np.any(part != 0) for part in (whole(np.array([1.0, 2.0]))[0].w, whole(np.array([1.0, 2.0]))[1]))
