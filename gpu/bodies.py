"""CUDA that differentiates the body of somebody else's elementwise kernel: its own text, over the dual type.

In the body, and in the functions of its preamble, ``float`` and ``double`` are duals, and so are the type letters of
float parameters. Nothing here needs CuPy.
"""

from __future__ import annotations

from dataclasses import dataclass

from ndual.gpu.dual_type import dual_type
from ndual.gpu.head import BASE, layout_text

__all__ = ["BLOCK", "TYPES", "Body", "Parameter", "forward", "pullback"]

BLOCK = 128
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

LOOP = """\
ND_BODY void element({given}, nd_int i) {{
{lines}
}}
#ifdef ND_HOST
extern "C" void {name}({parameters}) {{
    for (nd_int i = 0; i < n; i++)
        element({arguments}, i);
}}
#else
extern "C" __global__ void {name}({parameters}) {{
    const nd_int step = (nd_int)gridDim.x * {block};
    for (nd_int i = (nd_int)blockIdx.x * {block} + threadIdx.x; i < n; i += step)
        element({arguments}, i);
}}
#endif
"""


def forward(body: Body, strided: bool, lanes: int) -> str:
    """A kernel that writes these lanes of every output.

    Notes
    -----
    It takes the inputs, each with its lanes and the cells from one of these to the next where it is active, and with
    its size where it is raw; then the lanes of the outputs, the layout of the inputs that are not raw if they are
    strided, and the number of elements. Outputs of whole numbers have no lanes.
    """
    parameters, lines = _loaded(body, strided)
    for j, p in enumerate(body.inputs):
        if p.active:
            parameters[j] += f", const {p.real} *__restrict__ t{j}, nd_int p{j}"
            lines += [
                f"for (int k = 0; k < {lanes}; k++)",
                f"    x{j}.d[k] = t{j}[k * p{j} + {_place(body, j, strided)}];",
            ]
    lines.append(_called(body))
    for j, p in enumerate(body.outputs):
        if p.char in "fd":
            parameters.append(f"{p.real} *__restrict__ dout{j}")
            lines += [f"for (int k = 0; k < {lanes}; k++)", f"    dout{j}[k * n + i] = y{j}.d[k];"]
    return _text(body, "ndual_body_forward", strided, lanes, parameters, lines)


def pullback(body: Body, strided: bool) -> str:
    """A kernel that writes the cotangents of the active inputs, in the shape of the outputs.

    Each active input is a lane of its own; the lanes of the outputs are then multiplied with the cotangents.

    Notes
    -----
    It takes the inputs as the other one, without lanes; the cotangents of the outputs that are floats, which lie side
    by side; those to be written; and the rest as the other one.
    """
    parameters, lines = _loaded(body, strided)
    active = [j for j, p in enumerate(body.inputs) if p.active]
    lines += [f"x{j}.d[{k}] = 1;" for k, j in enumerate(active)]
    lines.append(_called(body))
    floats = [j for j, p in enumerate(body.outputs) if p.char in "fd"]
    parameters += [f"const {body.outputs[j].real} *__restrict__ w{j}" for j in floats]
    for k, j in enumerate(active):
        real = body.inputs[j].real
        parameters.append(f"{real} *__restrict__ g{j}")
        wide = {o: "double" if "d" in (body.outputs[o].char, body.inputs[j].char) else "float" for o in floats}
        terms = [f"nd_times(({wide[o]})y{o}.d[{k}], ({wide[o]})w{o}[i])" for o in floats]
        lines.append(f"g{j}[i] = ({real})({' + '.join(terms) or '0'});")
    return _text(body, "ndual_body_pullback", strided, len(active), parameters, lines)


def _place(body: Body, j: int, strided: bool) -> str:
    return f"at[{[k for k, p in enumerate(body.inputs) if not p.raw].index(j)}]" if strided else "i"


def _loaded(body: Body, strided: bool) -> tuple[list[str], list[str]]:
    """A parameter for each input, and the lines that make its variable."""
    parameters, lines = [], []
    for j, p in enumerate(body.inputs):
        parameters.append(f"const {p.real} *__restrict__ v{j}" + (f", nd_int n{j}" if p.raw else ""))
        if p.raw:
            lines.append(f"const nd_raw<{p.real}> x{j} = {{v{j}, n{j}}};")
        else:
            lines.append(f"{p.type} x{j}(v{j}[{_place(body, j, strided)}]);")
    return parameters, lines


def _called(body: Body) -> str:
    first = [f"x{body.taken + j}" if body.given else "0" for j in range(len(body.outputs))]
    results = " ".join(f"{p.type} y{j} = {first[j]};" for j, p in enumerate(body.outputs))
    names = [*(f"x{j}" for j in range(body.taken)), *(f"y{j}" for j in range(len(body.outputs)))]
    return f"{results} nd_body(i, nd_indexer{{n}}, {', '.join(names)});"


def _text(body: Body, name: str, strided: bool, lanes: int, parameters: list[str], lines: list[str]) -> str:
    """All of it: what the preamble includes stays outside of what is a dual."""
    count = sum(not p.raw for p in body.inputs)
    if strided:
        parameters = [*parameters, "nd_layout layout"]
        lines = [f"nd_int at[{count}];", f"nd_places(layout, {count}, i, at);", *lines]
    given = ", ".join([*parameters, "nd_int n"])
    included = [line for line in body.preamble.splitlines() if line.lstrip().startswith("#include")]
    rest = [line for line in body.preamble.splitlines() if not line.lstrip().startswith("#include")]
    letters = {p.letter: p.type for p in (*body.inputs, *body.outputs) if p.letter is not None}
    taken = [f"const {_spelled(p)} &{p.name}" for p in body.inputs[: body.taken]]
    taken += [f"{_spelled(p)} &{p.name}" for p in body.outputs]
    arguments = ", ".join([p.split()[-1].lstrip("*") for p in given.split(", ")])
    indented = "\n".join(f"    {line}" for line in lines)
    by_reference = given.replace("nd_layout layout", "const nd_layout &layout")
    return "".join([
        BASE, *[f"{line}\n" for line in included], dual_type(lanes), layout_text(max(count, 1)), RAW,
        "".join(f"typedef {kind} {letter};\n" for letter, kind in letters.items()),
        BODY.format(
            preamble="\n".join(rest), operation=body.operation,
            parameters=", ".join(["const nd_int i", "const nd_indexer _ind", *taken]),
        ),
        LOOP.format(given=by_reference, lines=indented, name=name, block=BLOCK, parameters=given, arguments=arguments),
    ])  # fmt: skip


def _spelled(p: Parameter) -> str:
    """The type of a parameter of the body; there "double" is the dual."""
    return f"nd_raw<nd_plain<{p.real}>::type>" if p.raw else p.real
