"""Whose memory is whose: what functions with rules return, keep, and must not write into. Values are analytic."""

from dataclasses import dataclass

import numpy as np
import pytest

import ndual

MODES = ("forward", "reverse")
X = np.array([1.0, 2.0])
both_modes = pytest.mark.parametrize("mode", MODES)


def second(f, mode):
    """The diagonal of the Hessian, by a Jacobian of the gradient."""
    return np.diag(ndual.jacobian(ndual.grad(f, mode=mode), mode=mode)(X))


def in_workspace():
    """exp, which returns the same array each time."""
    work = np.zeros(2)

    def f(x):
        return np.exp(x, out=work)

    return f


def add_exp(tape, w, dx):
    if dx is not None:
        dx += w * tape


def split_exp():
    """exp by a split rule with the output itself on the tape."""

    def augmented(x):
        y = np.exp(x)
        return y, y

    return ndual.custom_rule(lambda x: np.exp(x), augmented=augmented, reverse=add_exp)


def viewing_exp():
    """exp by a split rule with views of the output on the tape."""

    def augmented(x):
        y = np.exp(x)
        return y, [y[:1], y[1:]]

    def reverse(tape, w, dx):
        add_exp(np.concatenate(tape), w, dx)

    return ndual.custom_rule(lambda x: np.exp(x), augmented=augmented, reverse=reverse)


@both_modes
def test_a_function_may_return_its_workspace(mode):
    f = ndual.custom_rule(in_workspace(), vjp=lambda y, primals, w: (w * y,))
    found = ndual.grad(lambda x: np.sum(f(x)) + np.sum(f(2 * x)), mode=mode)(X)
    np.testing.assert_allclose(found, np.exp(X) + 2 * np.exp(2 * X), rtol=1e-14)


@both_modes
@pytest.mark.parametrize("engine", ["finite_differences"])
def test_so_may_one_that_an_engine_runs_several_times(engine, mode):
    f = ndual.differentiate_with(in_workspace(), engine)
    found = ndual.grad(lambda x: np.sum(f(x)) + np.sum(f(2 * x)), mode=mode)(X)
    np.testing.assert_allclose(found, np.exp(X) + 2 * np.exp(2 * X), rtol=1e-8)


@both_modes
@pytest.mark.parametrize("made", [split_exp, viewing_exp])
def test_the_output_on_the_tape_is_what_it_was(made, mode):
    f = made()

    def loss(x):
        y = f(x)
        total = np.sum(y)
        y[:] = 0.0
        return total + np.sum(y)

    np.testing.assert_allclose(ndual.grad(loss, mode=mode)(X), np.exp(X), rtol=1e-14)
    np.testing.assert_allclose(second(loss, mode), np.exp(X), rtol=1e-14)


def in_place_jvp(y, primals, tangents):
    t = tangents[0]
    t *= 2
    return t


def in_place_vjp(y, primals, w):
    w *= 2
    return (w,)


@both_modes
@pytest.mark.parametrize("rule", [{"jvp": in_place_jvp}, {"vjp": in_place_vjp}])
def test_rules_may_write_into_tangents_and_cotangents(rule, mode):
    double = ndual.custom_rule(lambda x: 2 * x, **rule)

    def loss(x):
        a = x * x
        return np.sum(a * double(a)) + np.sum(a)  # 2 x⁴ + x²

    np.testing.assert_allclose(ndual.grad(loss, mode=mode)(X), 8 * X**3 + 2 * X, rtol=1e-14)
    np.testing.assert_allclose(second(loss, mode), 24 * X**2 + 2, rtol=1e-14)


def writes(x):
    x[0] = 7.0
    return x * 2


def writing_vjp(y, primals, w):
    primals[0][0] = 7.0
    return (2 * w,)


WRITING = {
    "the function": ndual.custom_rule(writes, vjp=lambda y, primals, w: (2 * w,)),
    "the rule": ndual.custom_rule(lambda x: x * 2, vjp=writing_vjp),
    "nondiff": ndual.nondiff(writes),
    "an engine's": ndual.differentiate_with(writes, "finite_differences"),
}


@both_modes
@pytest.mark.parametrize("inner", [lambda x: x, lambda x: x * x])
@pytest.mark.parametrize("f", WRITING.values(), ids=WRITING)
def test_what_is_not_named_stays_as_it_is(f, inner, mode):
    x = X.copy()
    with pytest.raises(ndual.AliasError, match="to leave it as it is"):
        ndual.grad(lambda x: np.sum(f(inner(x)) * x), mode=mode)(x)
    np.testing.assert_array_equal(x, X)


def test_a_delegated_function_names_all_that_it_writes_into():
    def f(du, u):
        du[:] = u**2
        u[:] = 0.0

    def loss(rule, x):
        du, u = np.zeros(2), x * 1
        rule(du, u)
        return np.sum(du) + np.sum(u)

    with pytest.raises(ndual.AliasError, match="overwritten="):
        ndual.grad(lambda x: loss(ndual.custom_rule(f, overwritten=["du"]), x), mode="reverse")(X)
    for mode in MODES:
        whole = ndual.custom_rule(f, overwritten=["du", "u"])
        np.testing.assert_allclose(ndual.grad(lambda x: loss(whole, x), mode=mode)(X), 2 * X)  # noqa: B023


@pytest.mark.parametrize(
    ("rule", "mode"),
    [({"vjp": lambda y, p, w: (np.ones(2),)}, "forward"), ({"jvp": lambda y, p, t: np.ones(2)}, "reverse")],
)
def test_what_is_transposed_must_be_linear(rule, mode):
    f = ndual.custom_rule(lambda x: x * 1, **rule)
    with pytest.raises(ndual.RuleError, match="linear function"):
        ndual.grad(lambda x: np.sum(f(x)), mode=mode)(X)


@dataclass
class Settings:
    rate: float
    weights: object


def memory(a):
    """What compiled code takes."""
    if type(a) not in (np.ndarray, np.float64, float):
        raise TypeError(f"expected plain memory; got {type(a)}")
    return np.asarray(a)


def weighted(x, settings, *, scale=1.0):
    return memory(x) * memory(settings.weights) * settings.rate * memory(scale)


def weighted_complex(x, settings, *, scale=1.0):
    return x * memory(settings.weights) * settings.rate * scale


def augmented_weights(x, settings, *, scale=1.0):
    return weighted(x, settings, scale=scale), (settings, scale)


def reverse_weights(tape, w, dx, settings):
    if dx is not None:
        dx += w * tape[0].weights * tape[0].rate * tape[1]


OF_OBJECTS = {
    "vjp": ndual.custom_rule(weighted, vjp=lambda y, p, w, scale=1.0: (w * p[1].weights * p[1].rate * scale, None)),
    "jvp": ndual.custom_rule(weighted, jvp=lambda y, p, t, scale=1.0: t[0] * p[1].weights * p[1].rate * scale),
    "split": ndual.custom_rule(weighted, augmented=augmented_weights, reverse=reverse_weights),
    "finite differences": ndual.differentiate_with(weighted, "finite_differences"),
    "complex step": ndual.differentiate_with(weighted_complex, "complex_step"),
}
of_objects = pytest.mark.parametrize("f", OF_OBJECTS.values(), ids=OF_OBJECTS)


@both_modes
@of_objects
def test_objects_with_arrays_that_were_made_inside(f, mode):
    def loss(x):
        settings = Settings(2.0, np.full(2, 3.0))
        constant = f(np.ones(2), settings)  # 6
        return np.sum(f(x * x, settings, scale=np.full(2, 2.0))) + np.sum(constant * x)  # 12 x² + 6 x

    np.testing.assert_allclose(ndual.grad(loss, mode=mode)(X), 24 * X + 6, rtol=1e-8)
    assert ndual.nondiff(lambda s: float(memory(s.weights)[0]))(Settings(1.0, X)) == 1.0
    constant = ndual.nondiff(lambda s: float(memory(s.weights)[0]))
    assert ndual.grad(lambda x: x * constant(Settings(1.0, np.full(2, 3.0))), mode=mode)(2.0) == 3.0


@both_modes
@of_objects
def test_objects_and_keywords_that_change_before_the_way_back(f, mode):
    settings, scale = Settings(2.0, np.ones(2)), np.ones(2)

    def loss(x):
        settings.rate, settings.weights[:], scale[:] = 2.0, 3.0, 1.0
        y = f(x, settings, scale=scale)  # 6 x
        settings.rate, scale[:] = 5.0, 2.0
        z = f(x * y, settings, scale=scale)  # 30 x y = 180 x²
        settings.weights[:] = 7.0
        scale[:] = 11.0
        return np.sum(y * z)  # 1080 x³

    np.testing.assert_allclose(ndual.grad(loss, mode=mode)(X), 3240 * X**2, rtol=1e-8)


@both_modes
def test_methods_keep_their_object_and_what_it_counts(mode):
    class Solver:
        def __init__(self):
            self.calls, self.me, self.work = 0, self, np.zeros(2)

        def step(self, x):
            self.calls += 1
            self.work[:] = x
            return self.calls * x**2

        step = ndual.custom_rule(step, vjp=lambda y, p, w: (None, w * 2 * p[0].me.calls * p[0].work))

    solver = Solver()
    found = ndual.grad(lambda x: np.sum(solver.step(x)) + np.sum(solver.step(3 * x)), mode=mode)(X)  # x² + 18 x²
    np.testing.assert_allclose(found, 38 * X)
    assert solver.calls == (2 if mode == "reverse" else solver.calls) >= 2


@pytest.mark.parametrize("outer", MODES)
@both_modes
def test_keywords_made_inside_nested_derivatives(mode, outer):
    f = ndual.custom_rule(
        lambda x, *, k, s=None: x * k if s is None else x * k * s.weights,
        vjp=lambda y, p, w, k, s=None: (w * k if s is None else w * k * s.weights,),
    )

    def loss(x):
        y = f(x * x, k=np.full(2, 2.0))  # 2 x²
        return np.sum(f(y * x, k=np.ones(2), s=Settings(1.0, np.full(2, 3.0)))) + np.sum(
            f(np.ones(2), k=np.ones(2)) * x
        )

    hessian = ndual.jacobian(ndual.grad(loss, mode=mode), mode=outer)(X)
    np.testing.assert_allclose(hessian, np.diag(36 * X))


@both_modes
@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arguments_are_watched_too(mode, order):
    def sorts(x):
        x.sort(axis=0)
        return x * 2

    x = np.array(np.arange(10000.0)[::-1].reshape(100, 100), order=order)
    f = ndual.custom_rule(sorts, vjp=lambda y, p, w: (2 * w,))
    with pytest.raises(ndual.AliasError, match="to leave it as it is"):
        ndual.grad(lambda x: np.sum(f(x * 1)), mode=mode)(x)
    good = ndual.custom_rule(lambda x: x * 2, vjp=lambda y, p, w: (2 * w,))
    assert np.all(ndual.grad(lambda x: np.sum(good(x * 1)) + np.sum(good(x[::2, ::2])), mode=mode)(x) >= 2.0)
