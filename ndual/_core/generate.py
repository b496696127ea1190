"""Writes the C and Cython sources that follow from the rule table. Run by setup.py; needs nothing but the stdlib.

No formula lives here: a row's expressions are printed by the language. A file is written only if its text changed, so
that an unchanged table rebuilds nothing.
"""

from __future__ import annotations

import importlib
import re
import runpy
import struct
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
OUT = HERE / "generated"
NOTE = "generated from ndual/rules by ndual/_core/generate.py; do not edit"
WIDTHS = range(1, 17)
FLOAT32_WIDTHS = (*range(1, 9), 12, 16)
# Kernels in src/rows_by_hand.h: fill function and its exact variant, by the name that rows use for them.
BY_HAND = {"sincos": ("fill_{0}", "fill_{0}_exact"), "pow": ("fill_pow", "NULL")}
# What they read beyond the names in their expressions.
READ_BY_HAND = {"sincos": {"x0"}, "pow": {"x0", "x1", "y"}}
BITS = {"x0": 1, "x1": 2, "x2": 4, "y": 8}
# IEEE arithmetic gives NumPy's bits in any loop, so such rows write their value in the same pass.
EXACT_FUNCTIONS = {"absolute", "fabs", "sqrt"}
# np.where is no ufunc, so there is no loop to take its value from.
WITHOUT_LOOP = {"where"}
SHORT_NAMES = {"subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg"}


def load_table() -> tuple[dict[str, Any], ModuleType, ModuleType]:
    """The table, the language and its trees, loaded under bare packages: importing ndual would need the built core."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "ndual"}
    try:
        for name in ("ndual", "ndual.rules"):
            package = ModuleType(name)
            package.__path__ = [str(HERE.parents[1].joinpath(*name.split(".")))]
            sys.modules[name] = package
        table = importlib.import_module("ndual.rules.elementwise").TABLE
        language = importlib.import_module("ndual.rules.language")
        trees = importlib.import_module("ndual.rules.expressions")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "ndual"]:
            del sys.modules[name]
        sys.modules.update(kept)
    return table, language, trees


class Row:
    """A row as C: its coefficients and the texts of its expressions."""

    def __init__(self, row: Any, language: ModuleType, trees: ModuleType) -> None:
        self.name: str = row.name
        self.nin: int = row.nin
        self.kernel: str | None = row.kernel
        self.comment = f"{row.value}; {', '.join(str(p) for p in row.partials)}"
        self.partials = row.partial_exprs
        self.value = row.value_expr
        self._language, self._trees = language, trees

    def coefficient(self, i: int) -> str:
        """The kind of coefficient that the driver uses for operand `i`."""
        num, name = self._trees.Num, self._trees.Name
        known = {num(0.0): "ZERO", num(1.0): "ONE", num(-1.0): "NEG", name("x0"): "X0", name("x1"): "X1"}
        return "NONE" if self.partials[i] is None else known.get(self.partials[i], "ARRAY")

    def c(self, expr: Any, ctype: str) -> str | None:
        """An expression in C, or None."""
        text = self._language.to_c(expr, ctype)
        return None if text is None else strip_parentheses(text)

    def is_ieee(self) -> bool:
        """Whether the value is made of operations that IEEE rounds correctly."""
        trees = self._trees

        def check(expr: Any) -> bool:
            match expr:
                case trees.Num(value):
                    # A rounded constant (pi/180) may round differently in NumPy's float32 loop.
                    return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
                case trees.Name():
                    return True
                case trees.Negative(arg):
                    return check(arg)
                case trees.Binary("+" | "-" | "*" | "/", left, right):
                    return check(left) and check(right)
                case trees.Call(fn, args):
                    return fn in EXACT_FUNCTIONS and all(map(check, args))
            return False

        return check(self.value)

    @property
    def value_inside(self) -> bool:
        """Whether the fill function writes the value."""
        return self.kernel == "sincos" or self.name in WITHOUT_LOOP or self.is_ieee()

    @property
    def arrays(self) -> list[int]:
        """The operands whose coefficient is computed."""
        return [i for i in range(self.nin) if self.coefficient(i) == "ARRAY"]

    def needs(self, i: int) -> int:
        """What the derivative for operand `i` is computed from: bits 1, 2 and 4 for the operands, 8 for the value."""
        kind = self.coefficient(i)
        if kind != "ARRAY":
            return {"X0": 1, "X1": 2}.get(kind, 0)
        names = set(self._trees.names_of(self.partials[i])) | READ_BY_HAND.get(self.kernel or "", set())
        return sum(bit for name, bit in BITS.items() if name in names)

    def scale(self, i: int) -> int:
        """What that derivative is a multiple of, in the same bits."""
        partial = self.partials[i]
        names = self._trees.proportional_to(partial) if partial is not None and self.kernel is None else ()
        return sum(BITS[name] for name in names)

    def in_c(self) -> bool:
        """Whether every partial has a C form."""
        return self.nin <= 3 and all(p is None or self.c(p, "double") is not None for p in self.partials)


def strip_parentheses(text: str) -> str:
    """Without one pair of parentheses around the whole."""
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


def fill_function(row: Row, ctype: str, *, back: bool = False) -> str:
    """The fill function of a row: one loop for each choice of wanted derivatives, so that no loop decides.

    The one for the way back reads the value where the other one writes it.
    """
    name, wanted = row.name + "_back" * back, row.arrays
    # libm's exp is one call per element; see src/exponential.h.
    texts = {i: re.sub(r"\bexp(f?)\(", r"nd_exp\1(", row.c(row.partials[i], ctype) or "") for i in wanted}
    value = row.c(row.value, ctype) if row.value_inside and not back else None
    used = " ".join([*texts.values(), value or ""])
    inputs = [i for i in range(row.nin) if re.search(rf"\bx{i}\b", used)]
    reads_y = any(re.search(r"\by\b", t) for t in texts.values())
    pointers = [f"const {ctype} *restrict a{i}" for i in inputs]
    pointers += [f"{ctype} *restrict out"] if value else [f"const {ctype} *restrict out"] if reads_y else []
    pointers += [f"{ctype} *restrict e{i}" for i in wanted]
    body = [f"const {ctype} x{i} = a{i}[k];" for i in inputs]
    if value:
        body += [f"const {ctype} y = {value};", "out[k] = y;"]
    elif reads_y:
        body.append(f"const {ctype} y = out[k];")
    body += [f"if (e{i}) e{i}[k] = {texts[i]};" for i in wanted]
    arguments = [f"xs[{i}]" for i in inputs] + (["ys"] if value or reads_y else [])
    calls = []
    for choice in range(2 ** len(wanted) - 1, -1 if value else 0, -1):
        chosen = [i for bit, i in enumerate(wanted) if choice >> bit & 1]
        test = " && ".join(f"ds[{i}]" for i in chosen)
        call = ", ".join(["n", *arguments, *(f"ds[{i}]" if i in chosen else "NULL" for i in wanted)])
        calls.append((f"if ({test}) " if test else "") + f"N(loop_{name})({call});")
    head = f"static ND_ALWAYS_INLINE void N(loop_{name})(ptrdiff_t n, {', '.join(pointers)}) {{"
    return "\n".join(
        [
            *textwrap.wrap(f"/* {row.comment} */", 118, subsequent_indent=" * "),
            *textwrap.wrap(head, 118, subsequent_indent=" " * 8),
            "    for (ptrdiff_t k = 0; k < n; k++) {",
            *(f"        {line}" for line in body),
            "    }",
            "}",
            f"static void N(fill_{name})(ptrdiff_t n, const void *const *xs, void *ys, void *const *ds) {{",
            *(f"    {'else ' if k else ''}{call}" for k, call in enumerate(calls)),
            "}",
            "",
        ]
    )


def has_fill(row: Row) -> bool:
    """Whether a generated fill function has anything to do."""
    return row.kernel is None and (row.value_inside or bool(row.arrays))


def has_back(row: Row) -> bool:
    """Whether the way back has a fill function of its own: where the other one would compute the value once more."""
    return row.kernel is None and row.value_inside and bool(row.arrays)


def rows_header(rows: list[Row], ctype: str) -> str:
    """Every generated fill function for one dtype."""
    functions = [fill_function(row, ctype) for row in rows if has_fill(row)]
    functions += [fill_function(row, ctype, back=True) for row in rows if has_back(row)]
    return f"/* {NOTE}. */\n\n" + "\n".join(functions)


def table_source(rows: list[Row]) -> str:
    """The table that the driver reads."""
    lines = [f"/* {NOTE}. */", "", "static const nd_row rows[] = {"]
    for row in rows:
        coefs = ", ".join(f"ND_COEF_{row.coefficient(i)}" for i in range(row.nin))
        fill, exact = (f"fill_{row.name}" if has_fill(row) else "NULL"), "NULL"
        if row.kernel is not None:
            fill, exact = (text.format(row.name) for text in BY_HAND[row.kernel])
        back = f"fill_{row.name}_back" if has_back(row) else "NULL"
        pairs = ("{NULL, NULL}" if f == "NULL" else f"{{{f}_f32, {f}_f64}}" for f in (fill, exact, back))
        needs = ", ".join(str(row.needs(i)) for i in range(row.nin))
        scale = ", ".join(str(row.scale(i)) for i in range(row.nin))
        head = f'"{row.name}", {row.nin}, {int(row.value_inside)}, {{{coefs}}}, {{{needs}}}, {{{scale}}}'
        lines.append(f"    {{{head}, {', '.join(pairs)}}},")
    return "\n".join([*lines, "};", ""])


def expand_widths(template: str, note: str) -> str:
    """Repeat the lines between ``#: for each width`` and ``#: end``, with ``{W}`` replaced.

    The lines between ``#: common`` and ``#: end common`` are put where ``#: insert common`` stands.
    """
    before, _, rest = template.partition("#: common\n")
    common, _, after = rest.partition("#: end common\n")
    template = (before + after).replace("#: insert common\n", common)
    out: list[str] = [f"# {note}."]
    block: list[str] | None = None
    for line in template.splitlines():
        if line.strip() == "#: for each width":
            block = []
        elif line.strip() == "#: end":
            for width in WIDTHS:
                out += [text.replace("{W}", str(width)) for text in block or []]
            block = None
        else:
            (out if block is None else block).append(line)
    return "\n".join(out) + "\n"


def write(name: str, text: str) -> None:
    """Write a generated file unless it is there already."""
    path = OUT / name
    path.parent.mkdir(exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Write everything."""
    structs = runpy.run_path(str(HERE / "generate_structs.py"))
    table, language, trees = load_table()
    rows = [row for row in (Row(entry, language, trees) for entry in table.values()) if row.in_c()]
    write("rows_f64.h", rows_header(rows, "double"))
    write("rows_f32.h", rows_header(rows, "float"))
    write("table.h", table_source(rows))
    write("ndual_structs.h", structs["header"](rows, WIDTHS, FLOAT32_WIDTHS, NOTE))
    write("structs.pxi", structs["declarations"](rows, WIDTHS, FLOAT32_WIDTHS, NOTE, SHORT_NAMES))
    template = HERE / "scalar_class.pxi.in"
    if template.is_file():
        write("scalar_class.pxi", expand_widths(template.read_text(encoding="utf-8"), f"{NOTE} (from {template.name})"))


if __name__ == "__main__":
    main()
