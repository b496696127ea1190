"""CUDA that differentiates the body of somebody else's elementwise kernel: its own text, over the dual type.

In the body, and in the functions of its preamble, ``float`` and ``double`` are duals, and so are the type letters of
float parameters. Nothing here needs CuPy.
"""

from __future__ import annotations

from dataclasses import dataclass

from ndual.gpu.dual_type import dual_type
from ndual.gpu.head import BASE, layout_text
from ndual.gpu.source import BLOCK, loop

__all__ = ["BLOCK", "TYPES", "Body", "Parameter", "forward", "pullback", "share"]

TYPES = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int",
    "I": "unsigned", "l": "long", "L": "unsigned long", "q": "long long", "Q": "unsigned long long", "f": "float",
    "d": "double",
}  # fmt: skip
"""The number types of C by the characters of NumPy's."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the body: its name, its dtype's character, and the letter by which the body calls its type."""

    name: str
    char: str
    letter: str | None = None
    raw: bool = False
    active: bool = False

    @property
    def real(self) -> str:
        """The type of its cells."""
        return TYPES[self.char]

    @property
    def type(self) -> str:
        """Its type in the body."""
        return f"nd_dual<{self.real}>" if self.char in "fd" else self.real


@dataclass(frozen=True)
class Body:
    """The text of a kernel and its parameters.

    Where outputs are given, to be overwritten or added to, they stand among the inputs too, behind these.
    """

    operation: str
    preamble: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    given: bool = False

    @property
    def taken(self) -> int:
        """How many inputs the body takes as such."""
        return len(self.inputs) - (len(self.outputs) if self.given else 0)


RAW = """\
// An array that the body indexes itself: constant.
template <class R> struct nd_raw {
    const R *p;
    nd_int n;
    ND_MEMBER R operator[](nd_int i) const { return p[i]; }
    ND_MEMBER nd_int size() const { return n; }
};
struct nd_indexer {
    nd_int n;
    ND_MEMBER nd_int size() const { return n; }
};
typedef nd_dual<double> nd_f64;
typedef nd_dual<float> nd_f32;
"""

BODY = """\
#define double nd_f64
#define float nd_f32
{preamble}
ND_BODY void nd_body({parameters}) {{
{operation};
}}
#undef double
#undef float
"""

ELEMENT_TYPES = "struct nd_in {{ {fields} }};\n"
ELEMENT = """\
ND_BODY nd_in load({given}, nd_int i) {{
    nd_in in;
{loads}
    return in;
}}
ND_BODY void element({given}, const nd_in &in, nd_int i) {{
{lines}
}}
"""


def share(body: Body) -> int:
    """How many elements a block takes: 16 bytes of an input for each thread."""
    return BLOCK * (2 if any(p.char == "d" for p in body.inputs) else 4)


def forward(body: Body, strided: bool, lanes: int) -> str:
    """A kernel that writes these lanes of every output.

    Notes
    -----
    It takes the inputs, each with its lanes and the cells from one of these to the next where it is active, and with
    its size where it is raw; then the lanes of the outputs, the layout of the inputs that are not raw if they are
    strided, and the number of elements. Outputs of whole numbers have no lanes.
    """
    parameters, loads, lines = _loaded(body, strided)
    for j, p in enumerate(body.inputs):
        if p.active:
            parameters[j] += [f"const {p.real} *__restrict__ t{j}", f"nd_int p{j}"]
            lines += [
                f"for (int k = 0; k < {lanes}; k++)",
                f"    x{j}.d[k] = t{j}[k * p{j} + {_at(body, j, strided)}];",
            ]
    lines.append(_called(body))
    for j, p in enumerate(body.outputs):
        if p.char in "fd":
            parameters.append([f"{p.real} *__restrict__ dout{j}"])
            lines += [f"for (int k = 0; k < {lanes}; k++)", f"    dout{j}[k * n + i] = y{j}.d[k];"]
    return _text(body, "ndual_body_forward", strided, lanes, parameters, loads, lines)


def pullback(body: Body, strided: bool, uniform: tuple[bool, ...]) -> str:
    """A kernel that writes the cotangents of the active inputs, in the shape of the outputs.

    Each active input is a lane of its own; the lanes of the outputs are then multiplied with the cotangents, which are
    one number everywhere where `uniform` says so of an output.

    Notes
    -----
    It takes the inputs as the other one, without lanes; the cotangents of the outputs that are floats, which lie side
    by side; those to be written; and the rest as the other one.
    """
    parameters, loads, lines = _loaded(body, strided)
    active = [j for j, p in enumerate(body.inputs) if p.active]
    lines += [f"x{j}.d[{k}] = 1;" for k, j in enumerate(active)]
    lines.append(_called(body))
    floats = [j for j, p in enumerate(body.outputs) if p.char in "fd"]
    for j in floats:
        real = body.outputs[j].real
        parameters.append([f"const {real} *__restrict__ w{j}"])
        loads.append((real, f"u{j}", f"w{j}[{'0' if uniform[j] else 'i'}]"))
    for k, j in enumerate(active):
        real = body.inputs[j].real
        parameters.append([f"{real} *__restrict__ g{j}"])
        wide = {o: "double" if "d" in (body.outputs[o].char, body.inputs[j].char) else "float" for o in floats}
        terms = [f"nd_times(({wide[o]})y{o}.d[{k}], ({wide[o]})in.u{o})" for o in floats]
        lines.append(f"g{j}[i] = ({real})({' + '.join(terms) or '0'});")
    return _text(body, "ndual_body_pullback", strided, len(active), parameters, loads, lines)


def _at(body: Body, j: int, strided: bool) -> str:
    """Where the cell of an input lies."""
    return f"in.at[{[k for k, p in enumerate(body.inputs) if not p.raw].index(j)}]" if strided else "i"


def _loaded(body: Body, strided: bool) -> tuple[list[list[str]], list[tuple[str, str, str]], list[str]]:
    """The parameters of each input, what is loaded, and the lines that make variables of it."""
    parameters: list[list[str]] = []
    loads, lines = [], []
    for j, p in enumerate(body.inputs):
        parameters.append([f"const {p.real} *__restrict__ v{j}", *([f"nd_int n{j}"] if p.raw else [])])
        if p.raw:
            lines.append(f"const nd_raw<{p.real}> x{j} = {{v{j}, n{j}}};")
        else:
            loads.append((p.real, f"c{j}", f"v{j}[{_at(body, j, strided)}]"))
            lines.append(f"{p.type} x{j}(in.c{j});")
    return parameters, loads, lines


def _called(body: Body) -> str:
    first = [f"x{body.taken + j}" if body.given else "0" for j in range(len(body.outputs))]
    results = " ".join(f"{p.type} y{j} = {first[j]};" for j, p in enumerate(body.outputs))
    names = [*(f"x{j}" for j in range(body.taken)), *(f"y{j}" for j in range(len(body.outputs)))]
    return f"{results} nd_body(i, nd_indexer{{n}}, {', '.join(names)});"


def _text(
    body: Body, name: str, strided: bool, lanes: int, groups: list[list[str]], loads: list[tuple[str, str, str]],
    lines: list[str],
) -> str:  # fmt: skip
    """All of it: what the preamble includes stays outside of what is a dual."""
    count = sum(not p.raw for p in body.inputs)
    parameters = [p for group in groups for p in group] + (["nd_layout layout"] if strided else []) + ["nd_int n"]
    fields = [f"nd_int at[{count}];"] if strided else []
    found = [f"nd_places(layout, {count}, i, in.at);"] if strided else []
    found += [f"in.{name} = {cell};" for _, name, cell in loads]
    included = [line for line in body.preamble.splitlines() if line.lstrip().startswith("#include")]
    rest = [line for line in body.preamble.splitlines() if not line.lstrip().startswith("#include")]
    letters = {p.letter: p.type for p in (*body.inputs, *body.outputs) if p.letter is not None}
    taken = [f"const {_spelled(p)} &{p.name}" for p in body.inputs[: body.taken]]
    taken += [f"{_spelled(p)} &{p.name}" for p in body.outputs]
    return "".join([
        BASE, *[f"{line}\n" for line in included], dual_type(lanes), layout_text(max(count, 1)), RAW,
        ELEMENT_TYPES.format(fields=" ".join([*fields, *(f"{kind} {name};" for kind, name, _ in loads)])),
        "".join(f"typedef {kind} {letter};\n" for letter, kind in letters.items()),
        BODY.format(
            preamble="\n".join(rest), operation=body.operation,
            parameters=", ".join(["const nd_int i", "const nd_indexer _ind", *taken]),
        ),
        ELEMENT.format(
            given=", ".join(parameters).replace("nd_layout layout", "const nd_layout &layout"),
            loads="\n".join(f"    {line}" for line in found), lines="\n".join(f"    {line}" for line in lines),
        ),
        loop(name, parameters, share(body), not strided),
    ])  # fmt: skip


def _spelled(p: Parameter) -> str:
    """The type of a parameter of the body; there "double" is the dual."""
    return f"nd_raw<nd_plain<{p.real}>::type>" if p.raw else p.real
