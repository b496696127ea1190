"""Draws programs. A step is run on NumPy as soon as it is drawn, so that the next one knows shapes, values and sharing.

A step that NumPy refuses, that comes near a kink or makes large values is taken back: the program is run anew without.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from program import FAMILIES, Argument, Block, Program, RefusedError, compiled, conditions, too_large

MOST_VARIABLES = 14
MOST_CELLS = 1500
STEPS: dict[str, tuple[Callable[[Drawing], str | None], int]] = {}
MAKERS = re.compile(r"\bnp\.(zeros|ones|empty|full|eye|array|linspace)(_like)?\b")
INDICES = re.compile(r"np\.(array\(\[[-\d, ]*\]\)|(zeros|full)\(\([^)]*\), (int|\d+)\))")
NAME = re.compile(r"\b[a-z]\d*\b")


def step(weight: int = 4) -> Callable[[Callable[[Drawing], str | None]], Callable[[Drawing], str | None]]:
    """Register a kind of step: a function that draws its lines, or None where there is nothing to work on."""

    def register(function: Callable[[Drawing], str | None]) -> Callable[[Drawing], str | None]:
        STEPS[function.__name__] = function, weight
        return function

    return register


class Drawing:
    """A program in the making: its random source, its variables as NumPy has them, its blocks.

    ``moving``: the variables that depend on the arguments. ``tracked``: those that ndual sees. A plain copy of an array
    from outside is not one of them, and no value that depends on the arguments may be stored in it.
    """

    def __init__(self, seed: int, without: Iterable[str] = ()) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.family = FAMILIES[self.rng.choices(["smooth", "single", "kinks"], [6, 2, 3])[0]]
        self.kinds = [kind for kind in STEPS if kind not in without]
        self.weights = [STEPS[kind][1] for kind in self.kinds]
        self.base = self.rng.choice(
            [(3, 4), (2, 3), (4, 4), (5, 2), (1, 3), (3, 3), (4, 3), (12, 10), (150, 2), (513, 1), (40, 30)]
        )
        self.large = max(self.base) > 5
        self.arguments = tuple(self.argument(name) for name in "abc"[: self.rng.choice([1, 2, 2, 3])])
        self.constants = tuple(self.argument(name) for name in ("K", "L")[: self.rng.choice([0, 1, 2])])
        self.program = Program(seed, self.family, self.arguments, self.constants, (), (), ())
        self.blocks: list[Block] = []
        self.codes: list[Any] = []
        self.count = 0
        self.refused: list[tuple[str, str]] = []
        self.tracked: set[str] = {a.name for a in self.arguments}
        self.moving = set(self.tracked)
        self.restart()

    # ---------------------------------------------------------------- running

    def restart(self) -> None:
        values, constants = self.program.inputs()
        self.env = {"np": np, "math": __import__("math"), **conditions(self.family), **constants}
        self.env |= {a.name: value for a, value in zip(self.arguments, values, strict=True)}
        for code in self.codes:
            exec(code, self.env)

    def attempt(self, kind: str, text: str) -> bool:
        """Run a block and keep it, or take it back."""
        code = compiled(text)
        before = {name: self.env[name] for name in self.variables()}
        try:
            exec(code, self.env)
            self.tame()
        except (
            RefusedError,
            ValueError,
            IndexError,
            TypeError,
            NameError,
            ArithmeticError,
            np.linalg.LinAlgError,
        ) as error:
            self.refused.append((kind, f"{type(error).__name__} {error}: {text}"))
            self.restart()
            return False
        self.blocks.append(Block(kind, text))
        self.codes.append(code)
        for name in self.variables():
            if before.get(name) is not self.env[name]:
                lines = [line for line in text.splitlines() if name in NAME.findall(line.partition(" = ")[0])]
                self.classify(name, "\n".join(lines))
        return True

    def classify(self, name: str, text: str) -> None:
        """Note of a variable made by these lines whether it depends on the arguments, and whether ndual sees it."""
        read = "\n".join(line.partition(" = ")[2] or line for line in text.splitlines())
        operands = set(NAME.findall(read)) & set(self.variables())
        outer = set(re.findall(r"\b[KL]\b", text))
        moving = bool(operands & self.moving)
        # a number from an array of constants is a plain one, and so is what it makes of a plain array
        tracked = (
            moving or MAKERS.search(INDICES.sub("", text)) or (operands and operands <= self.tracked and not outer)
        )
        (self.moving.add if moving else self.moving.discard)(name)
        (self.tracked.add if tracked else self.tracked.discard)(name)

    def tame(self) -> None:
        """Refuse what has become too large, or is too big to go on with."""
        for name in self.variables():
            if too_large(self.env[name]):
                raise RefusedError(f"{name} is large")
            if np.size(self.env[name]) > MOST_CELLS:
                raise RefusedError(f"{name} is big")

    def grow(self) -> None:
        """Add one step."""
        names = self.variables()
        if len(names) > MOST_VARIABLES:
            spare = self.rng.choice(names[:-2])
            self.attempt("del", f"del {spare}")
            self.tracked.discard(spare)
        for name in names:
            value = self.env.get(name)
            if isinstance(value, np.ndarray) and value.size and np.max(np.abs(value)) > 2.5:
                scale = f"{self.rng.uniform(0.1, 0.4):.2f}"
                if value.flags.writeable and value.ndim and self.chance(0.8):
                    self.attempt("tame", f"{name} *= {scale}" if self.chance(0.5) else f"np.tanh({name}, out={name})")
                elif name in self.env:
                    self.attempt("tame", f"{name} = {name} * {scale}")
        for _ in range(20):
            kind = self.rng.choices(self.kinds, self.weights)[0]
            try:
                text = STEPS[kind][0](self)
            except (IndexError, ValueError):  # a place that another shape has
                continue
            if text is not None and self.attempt(kind, text):
                return

    def finish(self) -> Program:
        names = self.variables()
        most = [name for name in names if self.chance(0.7)] or names[-1:]
        program = self.program
        return Program(
            self.seed, self.family, self.arguments, program.constants, tuple(self.blocks), tuple(most), tuple(names)
        )

    # ---------------------------------------------------------------- choosing

    def argument(self, name: str) -> Argument:
        dtype = "float32" if self.family.single and self.chance(0.5) else "float64"
        shape = self.shape()
        if shape == ():
            return Argument(name, shape, dtype, "number" if not self.family.single and self.chance(0.5) else "scalar")
        layout = self.rng.choice(["plain", "plain", "fortran", "backwards", "spaced"])
        return Argument(name, shape, dtype, layout)

    def shape(self) -> tuple[int, ...]:
        n, m = self.base
        small = [(2, n, m)] if n * m < 60 else []
        return self.rng.choice([(n,), (n,), (n, m), (n, m), (m,), (m, n), (1, m), (n, 1), (), *small])

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def variables(self) -> list[str]:
        """Floats and arrays of floats, oldest first."""
        return [
            name for name, v in self.env.items()
            if name[0].islower() and (name[1:].isdigit() or name in "abc")
            and (isinstance(v, float) or (isinstance(v, np.floating | np.ndarray) and v.dtype.kind == "f"))
        ]  # fmt: skip

    def new(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def array(self, ndim: int | None = None, least: int = 1, where: Callable[[Any], bool] | None = None) -> str | None:
        """The name of an array; the younger, the likelier."""
        names = [
            name for name in self.variables()
            if isinstance(v := self.env[name], np.ndarray) and v.size >= least and (ndim is None or v.ndim == ndim)
            and (where is None or where(v))
        ]  # fmt: skip
        if not names:
            return None
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def target(self, ndim: int | None = None, least: int = 1, sources: str = "") -> str | None:
        """An array that may be written to with what depends on the sources."""
        active = any(name in self.tracked for name in NAME.findall(sources))
        name = self.array(ndim, least, lambda v: v.flags.writeable and v.ndim > 0)
        return None if name is None or (active and name not in self.tracked) else name

    def plain(self, *texts: str | None) -> bool:
        """Whether nothing in these expressions is tracked."""
        return not any(name in self.tracked for text in texts for name in NAME.findall(text or ""))

    def storable(self, target: str, *sources: str) -> bool:
        return target in self.tracked or self.plain(*sources)

    def number(self) -> str:
        return self.pick("0.5", "-0.25", "1.5", "0.8", "-1.0", f"{self.rng.uniform(-1.0, 1.0):.3f}")

    def value(self, expression: str) -> Any:
        return eval(expression, self.env)

    def scalar(self) -> str:
        """An expression for one number."""
        names = [name for name in self.variables() if np.ndim(self.env[name]) == 0]
        if names and self.chance(0.5):
            return self.rng.choice(names)
        name = self.array(where=lambda v: v.ndim > 0) if self.chance(0.8) else None
        if name is None:
            return self.number()
        load = f"{name}[{self.place(self.env[name].shape)}]"
        # a Python complex, which the reference would get, has no order
        return f"{load}.item()" if self.family.name == "kinks" and self.chance(0.1) else load

    def place(self, shape: tuple[int, ...]) -> str:
        """The index of one cell."""
        return ", ".join(str(self.rng.randrange(-n, n)) for n in shape) or "()"

    def slice(self, n: int) -> str:
        choices = [":", "::-1", "::2", "1:", ":-1", f"{n // 3}:{n - n // 3}", "::-2", f"{self.rng.randrange(n)}:"]
        return self.rng.choice(choices if n > 1 else [":", "::-1"])

    def basic(self, shape: tuple[int, ...]) -> str:
        """An index that gives a view."""
        indexed = shape[: self.rng.randint(0, len(shape))]
        parts = [self.slice(n) if self.chance(0.75) else str(self.rng.randrange(-n, n)) for n in indexed]
        if self.chance(0.15):
            parts.insert(self.rng.randint(0, len(parts)), "None")
        if self.chance(0.15):
            parts.insert(self.rng.randint(0, len(parts)), "...")
        return ", ".join(parts) or "..."

    def integers(self, n: int, count: int | None = None, repeats: bool = True) -> str:
        """A list of row numbers."""
        count = self.rng.randint(1, min(n + 1, 6)) if count is None else count
        if not repeats:
            return str(self.rng.sample(range(n), min(count, n)))
        rows = [self.rng.randrange(-n, n) for _ in range(count)]
        return str(rows) if self.chance(0.5) else f"np.array({rows})"

    def fancy(self, shape: tuple[int, ...], repeats: bool = True) -> str:
        """An index that gives a copy: lists and arrays of places, masks."""
        parts = [self.slice(n) if self.chance(0.6) else str(self.rng.randrange(-n, n)) for n in shape]
        kind = self.pick("list", "list", "pairs", "mask", "grid")
        axis = self.rng.randrange(len(shape))
        if kind == "pairs" and len(shape) > 1:
            count = self.rng.randint(1, 4)
            return ", ".join(self.integers(n, count, repeats) for n in shape[:2])
        if kind == "mask":
            cells = f"np.arange({shape[axis]}) % {self.pick(2, 3)} == {self.pick(0, 1)}"
            parts = [":"] * axis + [cells]
        elif kind == "grid" and len(shape) > 1:
            return f"np.ix_({self.integers(shape[0], None, repeats)}, {self.integers(shape[1], None, repeats)})"
        else:
            parts = [
                *parts[:axis],
                self.integers(shape[axis], None, repeats),
                *parts[axis + 1 :][: self.rng.randint(0, 2)],
            ]
        return ", ".join(parts)

    def mask(self, name: str) -> tuple[str, str]:
        """Conditions and a mask of an array's shape, of its values or not."""
        shape = self.env[name].shape
        if self.chance(0.4):
            count = int(np.prod(shape))
            return "", f"(np.arange({count}).reshape({shape}) % {self.pick(2, 3)} == 0)"
        bound = f"{self.rng.uniform(-0.6, 0.6):.2f}"
        other = self.fitting(shape, grow=False) if name in self.tracked and self.chance(0.3) else bound
        return f"#? apart({name}, {other})\n", f"({name} {self.pick('<', '>', '>=')} {other})"

    def operand(self) -> str | None:
        """An array, or a view of one in place."""
        name = self.array()
        if name is None or self.chance(0.6):
            return name
        shape = self.env[name].shape
        if self.chance(0.3):
            return f"{name}.T"
        index = self.fancy(shape) if shape and self.chance(0.15) else self.basic(shape)
        return f"{name}[{index}]" if np.size(self.value(f"{name}[{index}]")) else name

    def fitting(self, shape: tuple[int, ...], grow: bool = True) -> str:
        """An expression that broadcasts against a shape, or into it."""
        if self.chance(0.15):
            return self.scalar()
        candidates = [*self.variables(), *(a.name for a in self.constants)]
        self.rng.shuffle(candidates)
        for name in candidates[:4]:
            have = self.env[name].shape if isinstance(self.env[name], np.ndarray) else ()
            for text, there in ((name, have), (f"{name}.T", have[::-1]), (f"{name}[::-1]", have)):
                if have and fits(there, shape, grow) and self.chance(0.7):
                    return text
            if have and shape and self.env[name].size >= int(np.prod(shape)) > 0 and self.chance(0.5):
                return f"{name}.reshape(-1)[:{int(np.prod(shape))}].reshape({shape})"
            if have and len(have) == len(shape):
                index = ", ".join(f":{n}" for n in shape)
                if self.env[name][tuple(slice(n) for n in shape)].shape == shape:
                    return f"{name}[{index}]"
        count = int(np.prod(shape))
        if shape and self.chance(0.3):
            return f"np.linspace({self.number()}, {self.number()}, {count}).reshape({shape})"
        return self.scalar()


def fits(shape: tuple[int, ...], other: tuple[int, ...], grow: bool) -> bool:
    """Whether shapes broadcast; without growing the other one if not allowed to."""
    try:
        together = np.broadcast_shapes(shape, other)
    except ValueError:
        return False
    return grow or together == other


def draw(seed: int, most: int = 60, without: Iterable[str] = ()) -> Program:
    """The program of a seed."""
    drawing = Drawing(seed, without)
    low, high = drawing.rng.choice([(1, 8), (5, 20), (15, 60)])
    for _ in range(min(most, drawing.rng.randint(low, high))):
        drawing.grow()
    return drawing.finish()
