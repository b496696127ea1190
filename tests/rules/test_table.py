"""The table as a whole: every function in one class, points pinned analytically, complex rows, a planted fault."""

from __future__ import annotations

import cmath
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import scipy.special
from mpmath_reference import check_partials, reference

from ndual.rules import registry
from ndual.rules.elementwise import COMPOSED, PASSIVE, REFUSED, TABLE
from ndual.rules.language import to_numpy
from ndual.rules.row import Interval

INF, NAN = math.inf, math.nan
OWN_PRECISION = 4 * np.finfo(float).eps
_ = scipy.special
SERVED = {dotted: row for row in TABLE.values() for dotted in row.serves}


def found(dotted):
    return registry.lookup(dotted)


def partials(name: str, *x: float) -> list[float]:
    row = TABLE[name]
    operands = tuple(map(np.float64, x))
    with np.errstate(all="ignore"):
        y = np.float64(found(row.serves[0])(*operands))
        return [float(to_numpy(expr, found)(operands, y)) for expr in row.partial_exprs]


def second(name: str, i: int, j: int, *x: float) -> float:
    row = TABLE[name]
    operands = tuple(map(np.float64, x))
    with np.errstate(all="ignore"):
        y = np.float64(found(row.serves[0])(*operands))
        return float(to_numpy(row.second_expr(i, j), found)(operands, y))


def test_every_numpy_ufunc_is_in_exactly_one_class():
    classes = {
        "row": {id(found(d)) for d in SERVED},
        "passive": {id(found(d)) for d in PASSIVE},
        "refused": {id(found(d)) for d in REFUSED},
        "composed": {id(found(d)) for d in COMPOSED},
    }
    for name in dir(np):
        function = getattr(np, name)
        if isinstance(function, np.ufunc):
            where = [kind for kind, ids in classes.items() if id(function) in ids]
            assert len(where) == 1, (name, where)


def test_every_name_is_a_function_and_no_row_has_two_ufuncs():
    newer = {"math.fma", "math.sumprod"}
    for dotted in [*SERVED, *PASSIVE, *REFUSED, *COMPOSED]:
        assert found(dotted) is not None or dotted in newer, dotted
    assert sum(len(row.serves) for row in TABLE.values()) == len(SERVED)
    for row in TABLE.values():
        assert len({id(found(d)) for d in row.serves if isinstance(found(d), np.ufunc)}) <= 1, row.name


@pytest.mark.parametrize("module", [math, cmath])
def test_every_function_of_math_and_cmath_is_classified(module):
    known = {*SERVED, *PASSIVE, *REFUSED, *COMPOSED}
    names = [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]
    assert [name for name in names if f"{module.__name__}.{name}" not in known] == []


def test_composed_functions_have_rules():
    import ndual.rules  # noqa: F401

    assert set(registry.RULES) >= COMPOSED | PASSIVE


def test_every_row_has_a_domain_to_sample():
    for row in TABLE.values():
        for domain in row.domain:
            xs = domain.sample(random.Random(0), 50)
            assert all(domain.contains(x) for x in xs + domain.extremes())


def test_intervals():
    assert Interval(-INF, 2.0).drawn == (-2.0, 2.0)
    assert Interval(1.0, 3.0, "[]").contains(3.0)
    assert not Interval(1.0, 3.0).contains(3.0)
    assert Interval(0.0, 9.0, "[]", integer=True).extremes() == []
    assert Interval().extremes()[-1] == 1e300


PINS = [
    ("maximum", (1, 1), (0.5, 0.5)),
    ("maximum", (2, 1), (1, 0)),
    ("maximum", (NAN, 1), (1, 0)),
    ("maximum", (1, NAN), (0, 1)),
    ("minimum", (1, 1), (0.5, 0.5)),
    ("minimum", (2, 1), (0, 1)),
    ("minimum", (NAN, 1), (1, 0)),
    ("fmax", (NAN, 1), (0, 1)),
    ("fmax", (1, NAN), (1, 0)),
    ("fmin", (NAN, 1), (0, 1)),
    ("fmin", (3, 3), (0.5, 0.5)),
    ("clip", (0, 0, 1), (1, 0, 0)),
    ("clip", (1, 0, 1), (1, 0, 0)),
    ("clip", (-0.0, 0, 1), (1, 0, 0)),
    ("clip", (2, 0, 1), (0, 0, 1)),
    ("clip", (-1, 0, 1), (0, 1, 0)),
    ("clip", (0, 3, 2), (0, 0, 1)),
    ("clip", (2.5, 3, 2), (0, 0, 1)),
    ("clip", (2, 3, 2), (0, 0, 1)),
    ("clip", (5, 3, 2), (0, 0, 1)),
    ("clip", (NAN, 0, 1), (1, 0, 0)),
    ("clip", (0.5, NAN, 1), (0, 1, 0)),
    ("clip", (0.5, 0, NAN), (0, 0, 1)),
    ("clip", (0.5, -INF, INF), (1, 0, 0)),
    ("where", (1, 5, 6), (0, 1, 0)),
    ("where", (0, 5, 6), (0, 0, 1)),
    ("absolute", (0,), (0,)),
    ("absolute", (-0.0,), (0,)),
    ("absolute", (-INF,), (-1,)),
    ("sign", (0,), (0,)),
    ("hypot", (0, 0), (0, 0)),
    ("hypot", (3, 4), (0.6, 0.8)),
    ("hypot", (3e200, 4e200), (0.6, 0.8)),
    ("hypot", (3e-200, 4e-200), (0.6, 0.8)),
    ("sqrt", (0,), (INF,)),
    ("cbrt", (0,), (INF,)),
    ("log", (0,), (INF,)),
    ("reciprocal", (0,), (-INF,)),
    ("divide", (0, INF), (0, 0)),
    ("arctanh", (1,), (INF,)),
    ("arcsin", (1,), (INF,)),
    ("arccos", (-1,), (-INF,)),
    ("arccosh", (1,), (INF,)),
    ("exp", (1000,), (INF,)),
    ("expm1", (-800,), (0,)),
    ("power", (0, 0.5), (INF, 0)),
    ("power", (0, 1), (1, 0)),
    ("power", (0, 2), (0, 0)),
    ("power", (0, 0), (0, NAN)),
    ("power", (0, -1), (-INF, NAN)),
    ("power", (-2, 3), (12, NAN)),
    ("power", (INF, -1), (0, 0)),
    ("power", (7, 0), (0, math.log(7))),
    ("remainder", (-7.5, 2), (1, 4)),
    ("fmod", (-7.5, 2), (1, 3)),
    ("math_remainder", (7.5, 2), (1, -4)),
    ("remainder", (1.0, 0.1), (1, -9)),
    ("copysign", (-5, 3), (-1, 0)),
    ("copysign", (0, -3), (0, 0)),
    ("copysign", (5, -0.0), (-1, 0)),
    ("arctan2", (1, 2), (0.4, -0.2)),
    ("arctan2", (1, 0), (0, -1)),
    ("arctan2", (0, -1), (-1, 0)),
    ("arctan2", (1, INF), (0, 0)),
    ("arctan2", (1e200, 2e200), (4e-201, -2e-201)),
    ("arctan2", (1e-200, 2e-200), (4e199, -2e199)),
    ("heaviside", (0, 3), (0, 1)),
    ("heaviside", (2, 3), (0, 0)),
    ("nextafter", (1, 2), (1, 0)),
    ("tanh", (20,), (1.6993417021166356e-17,)),
    ("tanh", (800,), (0,)),
    ("tanh", (-INF,), (0,)),
    ("tanh", (0,), (1,)),
    ("sinh", (800,), (INF,)),
    ("arcsinh", (1e200,), (1e-200,)),
    ("arctan", (INF,), (0,)),
    ("expit", (0,), (0.25,)),
    ("expit", (-700,), (math.exp(-700),)),
    ("expit", (700,), (math.exp(-700),)),
    ("expit", (800,), (0,)),
    ("expit", (-800,), (0,)),
    ("log_expit", (-800,), (1,)),
    ("log_expit", (800,), (0,)),
    ("logaddexp", (-INF, 3), (0, 1)),
    ("logaddexp", (INF, 3), (1, 0)),
    ("logaddexp", (-INF, -INF), (0.5, 0.5)),
    ("logaddexp", (INF, INF), (0.5, 0.5)),
    ("logaddexp", (1e308, -1e308), (1, 0)),
    ("logaddexp2", (0, 0), (0.5, 0.5)),
    ("xlogy", (0, 3), (1.0986122886681098, 0)),
    ("xlogy", (0, 0), (-INF, 0)),
    ("xlog1py", (0, -0.5), (-0.6931471805599453, 0)),
    ("xlog1py", (0, -1), (-INF, 0)),
    ("entr", (0,), (INF,)),
    ("sinc", (0,), (0,)),
    ("sinc", (0.5,), (-1.2732395447351628,)),
    ("sinc", (1,), (-1,)),
    ("exprel", (0,), (0.5,)),
    ("exprel", (800,), (INF,)),
    ("boxcox", (3, 0), (1 / 3, math.log(3) ** 2 / 2)),
    ("j1", (0,), (0.5,)),
    ("i1e", (0,), (0.5,)),
    ("i1", (1000,), (INF,)),
    ("rgamma", (0,), (1,)),
    ("rgamma", (-3,), (-6,)),
    ("spence", (1,), (-1,)),
    ("ellipk", (0,), (math.pi / 8,)),
    ("ellipe", (0,), (-math.pi / 8,)),
    ("log_ndtr", (-1e8,), (1e8,)),
    ("ndtr", (-INF,), (0,)),
    ("huber", (1, 1), (0, 1)),
    ("huber", (1, -3), (2, -1)),
    ("pseudo_huber", (1, 1e-8), (2.5e-33, 1e-8)),
]


@pytest.mark.parametrize(("name", "x", "want"), PINS)
def test_pinned_partials(name, x, want):
    assert partials(name, *x) == pytest.approx(list(want), rel=OWN_PRECISION, abs=0, nan_ok=True)


def test_tanh_in_float32():
    x = np.float32(10)
    got = to_numpy(TABLE["tanh"].partial_exprs[0], found)((x,), np.tanh(x))
    assert got.dtype == np.float32
    assert got == pytest.approx(8.244614e-9, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "i", "j", "x", "want"),
    [
        ("tanh", 0, 0, (0,), 0),
        ("tanh", 0, 0, (20,), -2 * 1.6993417021166356e-17),
        ("tanh", 0, 0, (-900,), 0),
        ("expit", 0, 0, (900,), 0),
        ("expit", 0, 0, (1e-9,), -1.25e-10),
        ("log_expit", 0, 0, (900,), 0),
        ("log_expit", 0, 0, (0,), -0.25),
        ("logaddexp", 0, 0, (3, 3), 0.25),
        ("logaddexp", 0, 1, (-900, 900), 0),
        ("sinc", 0, 0, (0,), -(math.pi**2) / 3),
        ("spence", 0, 0, (1,), 0.5),
        ("absolute", 0, 0, (0,), 0),
        ("maximum", 0, 0, (1, 1), 0),
        ("power", 0, 0, (0, 2), 2),
        ("power", 0, 0, (0, 1), 0),
        ("power", 0, 0, (0, 3), 0),
        ("power", 1, 1, (0, 2), 0),
        ("power", 0, 1, (0, 2), 0),
        ("hypot", 0, 0, (3, 4), 0.128),
        ("hypot", 0, 1, (3, 4), -0.096),
        ("hypot", 0, 0, (0, 0), NAN),
        ("arctan2", 0, 1, (1, 2), -0.12),
        ("j1", 0, 0, (0,), 0),
        ("log1p", 0, 0, (1e-20,), -1),
    ],
)
def test_pinned_second_derivatives(name, i, j, x, want):
    assert second(name, i, j, *x) == pytest.approx(want, rel=8 * OWN_PRECISION, abs=1e-300, nan_ok=True)


def test_an_operand_without_derivative_has_no_second_one():
    assert TABLE["ldexp"].second_expr(0, 1) is None
    assert TABLE["power"].second_expr(1, 0) == TABLE["power"].second_expr(0, 1)


CUTS = [
    ("arcsin", 2), ("arcsin", -2), ("arccos", 2), ("arccos", -2), ("arccosh", -2), ("arccosh", 0.5), ("arctanh", 3),
    ("arcsinh", 2j), ("arcsinh", -2j), ("arctan", 3j), ("sqrt", -2), ("log", -2), ("log1p", -3),
]  # fmt: skip


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("name", "z"), CUTS)
def test_on_a_branch_cut_the_derivative_is_that_of_the_side(name, z, sign):
    row = TABLE[name]
    z = complex(sign * 0.0, z.imag) if isinstance(z, complex) else complex(z, sign * 0.0)
    off = z + (1e-12 * sign if z.real == 0 else 1e-12j * sign)
    form = to_numpy(row.complex_exprs[0], found)
    function = found(row.serves[0])
    on_cut, beside = (complex(form((np.complex128(v),), function(np.complex128(v)))) for v in (z, off))
    assert on_cut == pytest.approx(beside, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "z"), [("tan", 0.3 + 800j), ("tan", 0.3 - 800j), ("tanh", 800 + 1j), ("tanh", -20 + 1j)]
)
def test_complex_saturation(name, z):
    row = TABLE[name]
    got = complex(to_numpy(row.complex_exprs[0], found)((np.complex128(z),), found(row.serves[0])(np.complex128(z))))
    u = cmath.exp(2j * z * math.copysign(1, z.imag)) if name == "tan" else cmath.exp(-2 * z * math.copysign(1, z.real))
    assert got == pytest.approx(4 * u / (1 + u) ** 2, rel=1e-14)


def test_only_holomorphic_rows_have_complex_partials():
    for row in TABLE.values():
        assert (row.complex_exprs is not None) == (row.kind == "holomorphic")
        assert (row.jvp_expr is not None) == (row.kind == "real_linear")


REAL_LINEAR = [name for name, row in TABLE.items() if row.kind == "real_linear"]


@pytest.mark.parametrize("name", REAL_LINEAR)
def test_real_linear_rows(name):
    row = TABLE[name]
    function = found(row.serves[0])
    rng = np.random.default_rng(0)
    z, dz, w = (rng.normal(size=5) + 1j * rng.normal(size=5) for _ in range(3))
    h = 1e-6
    y = function(z)
    w = w if np.iscomplexobj(y) else w.real
    want = (function(z + h * dz) - function(z - h * dz)) / (2 * h)
    dy = to_numpy(row.jvp_expr, found)((z,), y, (dz,))
    assert np.iscomplexobj(dy) == np.iscomplexobj(y)
    assert dy == pytest.approx(want, rel=1e-8, abs=1e-9)
    back = to_numpy(row.vjp_expr, found)((z,), y, (w,))
    assert np.vdot(back, dz).real == pytest.approx(np.vdot(w, dy).real)


def test_real_linear_rows_at_zero_and_at_a_known_point():
    def jvp(name, z, dz):
        row = TABLE[name]
        z, dz = np.array([z]), np.array([dz])
        with np.errstate(all="ignore"):
            return to_numpy(row.jvp_expr, found)((z,), found(row.serves[0])(z), (dz,))[0]

    assert jvp("absolute", 0j, 1 + 1j) == 0
    assert jvp("sign", 0j, 1 + 1j) == 0
    assert jvp("absolute", 3 + 4j, 1.0 + 0j) == pytest.approx(0.6)
    assert jvp("absolute", 3 + 4j, 1j) == pytest.approx(0.8)
    assert jvp("angle", 2j, 1.0 + 0j) == pytest.approx(-0.5)


def test_a_planted_wrong_row_is_caught():
    right = TABLE["sqrt"]
    check_partials(right, (2.0,), reference("sqrt"))
    for wrong in ("0.5 * y", "0.5 / y + 1e-12", "-0.5 / y"):
        with pytest.raises(AssertionError, match="sqrt, operand 0"):
            check_partials(replace(right, partials=(wrong,)), (2.0,), reference("sqrt"))
    with pytest.raises(AssertionError, match="tanh"):
        check_partials(replace(TABLE["tanh"], partials=("1 - y * y",)), (15.0,), reference("tanh"))
