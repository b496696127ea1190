"""Functions that write into their arguments: split rules, and by delegation; values by hand."""

import numpy as np
import pytest

import ndual
from ndual.testing import check_rule

MODES = ("forward", "reverse")
both_modes = pytest.mark.parametrize("mode", MODES)
U, P = np.array([1.5, 2.0]), np.array([2.0, 3.0])


def plain(a):
    """Memory that no dual gets through."""
    return np.frombuffer(np.ascontiguousarray(a).tobytes(), a.dtype)


def rate(du, u, p):
    """du = [p0 u0, p1 u1²], compiled so to say."""
    u, p = plain(u), plain(p)
    du[:] = [p[0] * u[0], p[1] * u[1] ** 2]


def python_rate(du, u, p):
    du[0] = p[0] * u[0]
    du[1] = p[1] * u[1] ** 2


def augmented(du, u, p):
    rate(du, u, p)
    return None, (u, p)


def reverse(tape, ddu, du, dp):
    u, p = tape
    if du is not None:
        du += np.stack([ddu[0] * p[0], ddu[1] * p[1] * 2 * u[1]])
    if dp is not None:
        dp += np.stack([ddu[0] * u[0], ddu[1] * u[1] ** 2])
    ddu[:] = 0.0


def delegated(du, u, p):
    """The pullback of ndual is the tape."""

    def functional(u, p):
        out = np.empty(2)
        python_rate(out, u, p)
        return out

    value, pullback = ndual.vjp(functional, u, p)
    du[:] = value
    return None, pullback


def by_pullback(pullback, ddu, du, dp):
    to_u, to_p = pullback(ddu)
    if du is not None:
        du += to_u
    if dp is not None:
        dp += to_p
    ddu[:] = 0.0


SPLIT = ndual.custom_rule(rate, augmented=augmented, reverse=reverse, overwritten=["du"])
WITHIN = ndual.custom_rule(rate, augmented=delegated, reverse=by_pullback, overwritten=[0])
NDUALS = ndual.custom_rule(python_rate, overwritten="du")
rules = pytest.mark.parametrize("f", [SPLIT, WITHIN, NDUALS], ids=["split", "pullback", "delegated"])


def twice(f, u, p, h=0.1):
    """Two Euler steps in place, in the same two buffers."""
    du = np.zeros(2)
    for _ in range(2):
        f(du, u, p)
        u += h * du
    return u


@both_modes
def test_layouts_stay(mode):
    """The function gets memory in the order of its caller's."""
    orders = []

    def fill(out, x):
        orders.append(out.flags.f_contiguous)
        out[...] = x * 2

    def rev(tape, dout, dx):
        dx += 2 * np.sum(dout, axis=0)
        dout[...] = 0.0

    f = ndual.custom_rule(fill, augmented=lambda out, x: (fill(out, x), None), overwritten=["out"], reverse=rev)

    def loss(x):
        out = np.zeros((2, 2), order="F")
        f(out, x)
        return np.sum(out[0] * x)

    assert ndual.grad(loss, mode=mode)(U).tolist() == (U * 4).tolist()
    assert all(orders)


@both_modes
@rules
def test_what_the_caller_overwrites_is_as_it_was(f, mode):
    def loss(p, u0):
        u, du = u0.copy(), np.empty(2)
        f(du, u, p)
        u[:] = 0.0
        return np.sum(du)

    value, (dp, du0) = ndual.value_and_grad(loss, (0, 1), mode=mode)(P, U)
    assert value == 15.0 and dp.tolist() == [1.5, 4.0] and du0.tolist() == [2.0, 12.0]
    assert ndual.grad(lambda p: loss(p, U), mode=mode)(P).tolist() == [1.5, 4.0]
    assert ndual.grad(lambda u: loss(P, u), mode=mode)(U).tolist() == [2.0, 12.0]


@both_modes
@rules
def test_two_steps_in_place(f, mode):
    value, (dp, du) = ndual.value_and_grad(lambda p, u: np.sum(twice(f, u.copy(), p)), (0, 1), mode=mode)(P, U)
    assert value == pytest.approx(8.432, rel=1e-14)
    assert np.allclose(dp, [0.36, 2.192], rtol=1e-13) and np.allclose(du, [1.44, 6.424], rtol=1e-13)


@both_modes
@rules
def test_an_ensemble_of_trajectories(f, mode):
    scales = np.linspace(0.5, 1.5, 100)

    def ensemble(p, u):
        total = 0.0
        for s in scales:
            total = total + np.sum(twice(f, s * u, p))
        return total / len(scales)

    value, (dp, du) = ndual.value_and_grad(ensemble, (0, 1), mode=mode)(P, U)

    # Each trajectory by hand: u0 -> u0 (1 + h p0)², u1 -> v + h p1 v² with v = u1 + h p1 u1².
    def one(s):
        u, h = s * U, 0.1
        v = u[1] + h * P[1] * u[1] ** 2
        dv_u, dv_p = 1 + 2 * h * P[1] * u[1], h * u[1] ** 2
        out = 1 + 2 * h * P[1] * v
        return (
            [u[0] * 1.2**2 + v + h * P[1] * v**2],
            [2 * h * 1.2 * u[0], out * dv_p + h * v**2],
            [s * 1.2**2, s * out * dv_u],
        )

    want = [np.mean([one(s)[k] for s in scales], axis=0) for k in range(3)]
    assert np.allclose(value, want[0], rtol=1e-13)
    assert np.allclose(dp, want[1], rtol=1e-13) and np.allclose(du, want[2], rtol=1e-13)
    again = ndual.grad(ensemble, (0, 1), mode=mode)(P, U)  # nothing is left of the first call
    assert np.array_equal(again[0], dp) and np.array_equal(again[1], du)


@both_modes
@rules
def test_one_trajectory_is_the_ensemble_of_one(f, mode):
    got = ndual.grad(lambda p: np.sum(twice(f, np.array(U), p)), mode=mode)(P)
    assert np.allclose(got, [0.36, 2.192], rtol=1e-13)


@both_modes
@rules
def test_calls_within_calls(f, mode):
    """A trajectory is itself a function that overwrites its argument, differentiated on a tape of its own."""

    def trajectory(u, p, h):
        twice(f, u, p, h)
        return u[0] * h

    run = ndual.custom_rule(trajectory, overwritten=["u"])

    def loss(p, u0, h):
        total = 0.0
        for s in (0.5, 1.0):
            u = s * u0
            first = run(u, p, h)
            run(u, p, h)  # goes on where the first one ended
            total = total + np.sum(u) + first
        return total

    def direct(p, u0, h):
        total = 0.0
        for s in (0.5, 1.0):
            u = s * u0
            first = twice(python_rate, u, p, h)[0] * h
            twice(python_rate, u, p, h)
            total = total + np.sum(u) + first
        return total

    got = ndual.grad(loss, (0, 1, 2), mode=mode)(P, U, 0.1)
    want = [ndual.grad(direct, k, mode="forward")(P, U, 0.1) for k in range(3)]
    steps = [(direct(P, U, 0.1 + e) - direct(P, U, 0.1 - e)) / (2 * e) for e in (2e-4, 1e-4)]
    assert want[2] == pytest.approx((4 * steps[1] - steps[0]) / 3, rel=1e-8)
    for a, b in zip(got, want, strict=True):
        assert np.allclose(a, b, rtol=1e-12)


def scaled(out, x, a, n):
    out[:] += plain(x) * float(a) * n
    return float(a) ** 2 + n


def scaled_augmented(out, x, a, n):
    assert type(n) is int
    return scaled(out, x, a, n), (x, a, n)


def scaled_reverse(tape, w, dout, dx, da, dn):
    x, a, n = tape
    assert da is None and dn is None
    if dx is not None:
        dx += dout * a * n
    return None, None, w * 2 * a + np.sum(dout * x) * n, None


SCALED = ndual.custom_rule(scaled, augmented=scaled_augmented, reverse=scaled_reverse, overwritten=["out"])


@both_modes
def test_constants_arrays_and_numbers_mixed_with_an_output(mode):
    # out = x; out += 3 a x; result sum(out · [1, 10]) + (a² + 3)
    def loss(x, a):
        out = np.array(x)
        result = SCALED(out, x, a, 3)
        return out[0] + 10 * out[1] + result

    value, (dx, da) = ndual.value_and_grad(loss, (0, 1), mode=mode)(U, 0.5)
    assert value == 21.5 * 2.5 + 3.25
    assert dx.tolist() == [2.5, 25.0] and type(dx) is np.ndarray
    assert da == 3 * 21.5 + 1.0 and np.asarray(da).dtype == np.float64
    assert ndual.grad(lambda a: loss(U, a), mode=mode)(0.5) == 65.5
    assert ndual.grad(lambda x: loss(x, 0.5), mode=mode)(U).tolist() == [2.5, 25.0]
    narrow = ndual.grad(lambda a: loss(U.astype(np.float32), a), mode=mode)(np.float32(0.5))
    assert narrow.dtype == np.float32 and narrow == 65.5


def test_exactly_what_is_overwritten_is_copied():
    seen = {}

    def aug(du, u, p):
        rate(du, u, p)
        seen["u"], seen["p"] = u, p
        return None, {"u": u, "half": (p[1:], p)}

    def rev(tape, ddu, du, dp):
        u, (half, p) = tape["u"], tape["half"]
        seen["u is"], seen["p is"] = np.shares_memory(u, seen["u"]), np.shares_memory(p, seen["p"])
        assert half.tolist() == [P[1]]
        du += np.stack([ddu[0] * p[0], ddu[1] * p[1] * 2 * u[1]])
        ddu[:] = 0.0

    f = ndual.custom_rule(rate, augmented=aug, reverse=rev, overwritten=["du"])

    def loss(u0, overwrite):
        u, du = u0 * 1.0, np.empty(2)
        f(du, u, P)
        if overwrite:
            u[:] = 0.0
        return np.sum(du)

    for overwrite in (False, True):
        assert ndual.grad(lambda u: loss(u, overwrite), mode="reverse")(U).tolist() == [2.0, 12.0]  # noqa: B023
        assert seen["u is"] is not overwrite


@both_modes
@rules
def test_second_derivatives(f, mode):
    def loss(p):
        u, du = np.array(U), np.empty(2)
        f(du, u, p)
        return np.sum(du**2)

    if f is SPLIT:
        pytest.skip("the rule calls compiled code, which has no second derivative")
    # sum = p0² u0² + p1² u1⁴
    want = np.diag([2 * 1.5**2, 2 * 2.0**4])
    assert np.allclose(ndual.jacobian(ndual.grad(loss, mode="reverse"), mode=mode)(P), want)
    assert np.allclose(ndual.jacobian(ndual.grad(loss, mode="forward"), mode=mode)(P), want)


@both_modes
def test_one_array_in_two_places(mode):
    def square(out, x):
        out[:] = plain(x) ** 2

    def rev(tape, dout, dx):
        if dx is None:
            return
        if dx is dout:
            dout *= 2 * tape
        else:
            dx += dout * 2 * tape
            dout[:] = 0.0

    def keep(out, x):
        before = x.copy()
        square(out, before)
        return None, before

    f = ndual.custom_rule(square, augmented=keep, reverse=rev, overwritten=["out"])

    def loss(x):
        y = 1.0 * x
        f(y, y)
        f(y, y)
        return np.sum(y)

    assert np.allclose(ndual.grad(loss, mode=mode)(P), 4 * P**3)  # x⁴


@both_modes
def test_what_cannot_be_written_into(mode):
    outside = np.zeros(2)
    with pytest.raises(ndual.DerivativeLostError, match=r"test_custom_writes\.py"):
        ndual.grad(lambda p: SPLIT(outside, U, p) or np.sum(outside), mode=mode)(P)

    def overlap(p):
        buffer = np.zeros(3)
        SPLIT(buffer[:2], buffer[1:], p)
        return np.sum(buffer)

    with pytest.raises(ndual.AliasError, match="expected memory of its own, since the function overwrites it"):
        ndual.grad(overlap, mode=mode)(P)
    with pytest.raises(ndual.ArgumentTypeError, match="expected an array, since the function overwrites it; got list"):
        ndual.grad(lambda p: SPLIT([p[0], p[1]], U, p), mode=mode)(P)


WRONG = [
    ({"augmented": lambda du, u, p: None}, r"augmented run of rate: expected \(output, tape\); got NoneType"),
    ({"reverse": lambda tape, ddu, du, dp: (None, None)}, r"reverse run of rate: .*each of the 3 arguments.*2 entries"),
    ({"reverse": lambda tape, ddu, du, dp: (None, None, dp)}, r"reverse run of rate: .*added to in place; got one ret"),
]


@pytest.mark.parametrize(("parts", "message"), WRONG)
def test_wrong_rules(parts, message):
    f = ndual.custom_rule(rate, **{"augmented": augmented, "reverse": reverse, "overwritten": ["du"]} | parts)
    with pytest.raises(ndual.RuleError, match=message):
        ndual.grad(lambda p: np.sum(twice(f, np.array(U), p)), mode="reverse")(P)


def test_a_jvp_of_its_own():
    def opaque_reverse(tape, ddu, du, dp):
        reverse(tape, plain(ddu) * 1.0, du, dp)

    def jvp(y, primals, ts):
        _, u, p = primals
        du, tu, tp = (np.zeros(2) if t is None else t for t in ts)
        du[:] = [tp[0] * u[0] + p[0] * tu[0], tp[1] * u[1] ** 2 + p[1] * 2 * u[1] * tu[1]]

    parts = {"augmented": augmented, "reverse": opaque_reverse, "overwritten": ["du"]}
    f = ndual.custom_rule(rate, jvp=jvp, **parts)
    got = ndual.grad(lambda p: np.sum(twice(f, np.array(U), p)), mode="forward")(P)
    assert np.allclose(got, [0.36, 2.192], rtol=1e-13)


@pytest.mark.parametrize("f", [SPLIT, WITHIN, NDUALS], ids=["split", "pullback", "delegated"])
def test_check_rule(f):
    check_rule(f, np.zeros(2), U, P, dtypes="d", widths=(1, 3))
    if f is SPLIT:
        check_rule(SCALED, np.ones(2), U, 0.5, 3, dtypes="d", widths=(1,))


PLANTED = {
    "overwrites": ("dp[:] = [ddu[0] * u[0], ddu[1] * u[1] ** 2]", "adds to cotangents"),
    "looks at what was left": ("dp += u * 0.0", "rate"),
    "leaves what was overwritten": ("dp += [ddu[0] * u[0], ddu[1] * u[1] ** 2]", "rate"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_check_rule_finds_faults(fault):
    line, message = PLANTED[fault]
    scope = {"np": np}
    zero = "" if fault.startswith("leaves") else "    ddu[:] = 0\n"
    exec(
        "def wrong(tape, ddu, du, dp):\n    u, p = tape\n"
        "    if du is not None:\n        du[0] += ddu[0] * p[0]; du[1] += ddu[1] * p[1] * 2 * u[1]\n"
        f"    if dp is not None:\n        {line}\n{zero}",
        scope,
    )
    f = ndual.custom_rule(rate, augmented=augmented, reverse=scope["wrong"], overwritten=["du"])
    with pytest.raises(AssertionError, match=message):
        check_rule(f, np.zeros(2), U, P, dtypes="d", widths=(1,))
