"""The expression language: what it reads and refuses, its derivative, and its two printed forms."""

from __future__ import annotations

import ctypes
import math
import random
import re
import subprocess
import sys

import numpy as np
import pytest

from ndual.rules import language
from ndual.rules.elementwise import TABLE
from ndual.rules.expressions import ONE, ZERO, Num, add, divide, multiply, negative, subtract
from ndual.rules.language import differentiate, names_of, parse, to_c, to_numpy, to_text
from ndual.rules.registry import lookup
from ndual.rules.row import Interval, build, row


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x0 +", "not an expression"),
        ("x1", "expected one of x0, y or a named constant; got 'x1'"),
        ("z", "got 'z'"),
        ("frobnicate(x0)", "'frobnicate' has no row"),
        ("sin(x0, x0)", "sin takes 1 arguments; got 2"),
        ("sin(x=x0)", "not in the language"),
        ("x0 // 2", "not in the language"),
        ("x0 if x0 else 1", "a number stands where a condition"),
        ("(x0 > 0) + 1", "a condition stands where a number"),
        ("x0 > 0", "a condition stands where a number"),
        ("1 if x0 is 0 else 2", "expected one of"),
        ("__import__('os')", "has no row"),
        ("x0.real", "not in the language"),
        ("[x0]", "not in the language"),
        ("lambda: x0", "not in the language"),
        ("'text'", "not in the language"),
        ("True", "not numbers"),
        ("1 / 0", "divided by zero"),
        ("sin(1)", "of constants only"),
    ],
)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_malformed_expressions_are_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        parse(text, 1)
    assert text in str(caught.value)


def test_a_malformed_row_is_refused_with_its_name():
    good = {"value": "sin(x0)", "partials": ("cos(x0)",), "domain": Interval(), "serves": "numpy.sin"}

    def refused(match, **changes):
        with pytest.raises(ValueError, match=match):
            build([row("planted", **(good | changes))])
        assert "planted" not in language.FUNCTIONS

    refused("row 'planted': 'cos\\(x7\\)'.*got 'x7'", partials=("cos(x7)",))
    refused("row 'planted': 'sin\\('", value="sin(")
    refused("row 'planted': 1 partials, but domains for 2", domain=(Interval(), Interval()))
    refused("row 'planted' serves no public function", serves="")
    refused("row 'planted': a real-linear row", kind="real_linear")
    refused("row 'planted': a real-linear row", jvp="dx0", vjp="w")
    refused("row 'planted': at=", at={(0,): (1, 2, 3)})
    refused("row 'planted': second=", second={(1, 0): "1"})
    refused("row 'planted': 'oops'", second={(0, 0): "oops"})
    with pytest.raises(ValueError, match="row 'planted' is in the table twice"):
        build([row("planted", **good)] * 2)
    with pytest.raises(ValueError, match="row 'sin' is in the table twice"):
        build([row("sin", **good)])
    assert "planted" not in language.FUNCTIONS


def test_constants_fold_to_python_numbers():
    assert parse("2 / sqrt(pi) - ln2 ** 2", 1) == Num(2 / math.sqrt(math.pi) - math.log(2) ** 2)
    assert parse("-3", 1) == Num(-3.0)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x0", "1"),
        ("x1", "0"),
        ("3 * x0 + x1", "3"),
        ("x0 * x0", "(x0 + x0)"),
        ("x0 ** 3", "(3 * (x0 ** 2))"),
        ("x0 ** 2", "(2 * x0)"),
        ("-x0", "-1"),
        ("x1 / x0", "-((x1 / x0) / x0)"),
        ("exp(2 * x0)", "(exp((2 * x0)) * 2)"),
        ("x0 if x1 > 0 else x1", "(1 if x1 > 0 else 0)"),
        ("abs(x0)", "(1 if x0 > 0 else (-1 if x0 < 0 else (0 if x0 == 0 else x0)))"),
        ("1 if x0 > 0 else 0", "0"),
        ("floor(x0)", "0"),
    ],
)
def test_derivatives(text, want):
    got = to_text(differentiate(parse(text, 2), "x0"))
    if text == "abs(x0)":
        got, want = to_text(parse(got.replace("sign(x0)", want), 2)), want
    assert got == want


def test_general_power_and_missing_derivative():
    d = differentiate(parse("x0 ** x1", 2), "x1")
    assert to_numpy(d, lookup)((np.float64(2.0), np.float64(3.0))) == pytest.approx(8 * math.log(2))
    with pytest.raises(language.NoDerivative, match="struve has no derivative by its operand 0"):
        differentiate(parse("struve(x0, x1)", 2), "x0")


def test_text_reads_back():
    for entry in TABLE.values():
        for expr in (entry.value_expr, *(p for p in entry.partial_exprs if p is not None)):
            assert repr(parse(to_text(expr), entry.nin)) == repr(expr)  # NaN is not equal to itself
    assert (
        to_text(parse("(-x0) ** 2 if not x0 > 1 else (-2) ** x0", 1))
        == "(((-x0) ** 2) if (not (x0 > 1)) else ((-2) ** x0))"
    )


def test_algebra_simplifies():
    x = language.Name("x0")
    assert add(ZERO, x) == add(x, ZERO) == x
    assert subtract(x, ZERO) == x
    assert subtract(ZERO, x) == negative(x)
    assert add(x, negative(x)) == subtract(x, x)
    assert subtract(x, negative(x)) == add(x, x)
    assert multiply(ZERO, Num(math.inf)) == ZERO
    assert multiply(ONE, x) == multiply(x, ONE) == divide(x, ONE) == x
    assert multiply(Num(-1.0), x) == multiply(x, Num(-1.0)) == divide(negative(x), ONE) == negative(x)
    assert multiply(negative(x), x) == multiply(x, negative(x)) == negative(multiply(x, x))
    assert divide(negative(x), x) == negative(divide(x, x))
    assert divide(ZERO, x) == ZERO
    assert negative(negative(x)) == x
    assert negative(ZERO) == ZERO


@pytest.mark.parametrize(
    ("text", "ctype", "want"),
    [
        ("0.5 / y", "double", "(0.5 / y)"),
        ("x0 ** 2", "float", "(x0 * x0)"),
        ("(1 + x0) ** 2", "float", "powf((1.0f + x0), 2.0f)"),
        ("inf if x0 == nan else -inf", "float", "((x0 == NAN) ? INFINITY : -INFINITY)"),
        ("1 if x0 > 0 and not x0 > 1 else 0", "double", "(((x0 > 0.0) & (!(x0 > 1.0))) ? 1.0 : 0.0)"),
        ("arctan2(x0, pi)", "double", "atan2(x0, 3.141592653589793)"),
        ("ldexp(x0, y)", "float", "ldexpf(x0, (int)(y))"),
        ("maximum(x0, y)", "double", "(((x0 > y) | (x0 != x0)) ? x0 : y)"),
    ],
)
def test_c(text, ctype, want):
    assert to_c(parse(text, 1), ctype) == want


def test_what_c_lacks():
    assert to_c(parse("digamma(x0)", 1), "double") is None
    assert to_c(parse("1j * x0", 1), "double") is None
    with pytest.raises(ValueError, match="expected one of 'double', 'float'"):
        to_c(parse("x0", 1), "int")


def test_c_computes_what_numpy_computes(tmp_path):
    compiler = pytest.importorskip("setuptools._distutils.ccompiler").new_compiler()
    if compiler.compiler_type != "unix":
        pytest.skip("needs a Unix C compiler")
    cases, lines = [], ["#include <math.h>"]
    for entry in TABLE.values():
        for k, expr in enumerate((entry.value_expr, *entry.partial_exprs)):
            text = None if expr is None else to_c(expr, "double")
            if text is not None and not any(d.integer for d in entry.domain):
                operands = ", ".join(f"double x{i}" for i in range(entry.nin))
                lines.append(f"double {entry.name}_{k}({operands}, double y) {{ return {text}; }}")
                cases.append((entry, k, expr))
    source, library = tmp_path / "rows.c", tmp_path / "rows.so"
    source.write_text("\n".join(lines))
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    assert len(cases) > 150
    for entry, k, expr in cases:
        c = getattr(loaded, f"{entry.name}_{k}")
        c.restype, c.argtypes = ctypes.c_double, [ctypes.c_double] * (entry.nin + 1)
        for x in zip(*(d.sample(random.Random(entry.name), 5) for d in entry.domain), strict=True):
            x = tuple(map(np.float64, x))
            with np.errstate(all="ignore"):
                y = np.float64(lookup(entry.serves[0])(*x))
                want = float(to_numpy(expr, lookup)(x, y))
            assert c(*x, y) == pytest.approx(want, rel=1e-13, abs=1e-300, nan_ok=True), (entry.name, k, x)


def test_numpy_form_asks_for_each_function_once():
    asked = []

    def find(dotted):
        asked.append(dotted)
        return lookup(dotted)

    form = to_numpy(parse("sin(x0) + sin(2 * x0) if x0 > 0 else y", 1), find)
    assert sorted(set(asked)) == ["numpy.sin", "numpy.where"]
    asked.clear()
    assert form((np.array([1.0, -1.0]),), np.array([5.0, 6.0])) == pytest.approx([np.sin(1) + np.sin(2), 6.0])
    assert not asked


def test_integral_numbers_stay_integers_for_integer_orders():
    form = to_numpy(parse("x0 - 1", 1), lookup)
    assert form((np.array([3]),)).dtype.kind == "i"


def test_names_of():
    assert names_of(parse("x0 if x1 > y else -sin(x0 ** 2)", 2)) == {"x0", "x1", "y"}
    assert TABLE["sqrt"].reads(0) == {"y"}
    assert TABLE["ldexp"].reads(1) == frozenset()


def test_the_table_needs_only_the_standard_library():
    code = (
        "import sys, types\n"
        "for name, path in (('ndual', sys.argv[1]), ('ndual.rules', sys.argv[1] + '/rules')):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__path__ = [path]\n"
        "from ndual.rules import elementwise, language\n"
        "assert not {'numpy', 'scipy', 'ndual._core'} & set(sys.modules), sys.modules\n"
        "print(len(elementwise.TABLE))\n"
    )
    root = language.__file__.rpartition("/rules/")[0]
    done = subprocess.run([sys.executable, "-I", "-c", code, root], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(TABLE)
