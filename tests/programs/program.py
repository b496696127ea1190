"""A program: ordinary Python source over NumPy, made of blocks; compiled against NumPy or against a stand-in for it.

Lines that start with ``#?`` are conditions on the values that NumPy has there (no tie, no kink near): they are checked
where a program is drawn or reduced, and are comments to everyone else.
"""

from __future__ import annotations

import linecache
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

import numpy as np

LARGEST = 6.0  # of any value: far from overflow, and from where sine-like functions lose digits


class RefusedError(Exception):
    """A condition of a program does not hold: it is not a test of anything."""


@dataclass(frozen=True)
class Family:
    """What the steps of one program may be, so that one reference fits all of them.

    ``smooth``: complex steps; otherwise differences. ``single``: float32 is among the dtypes. ``gap``: how far from
    ties and kinks the compared values stay, which is more than the reference moves them.
    """

    name: str
    smooth: bool
    single: bool
    gap: float
    tolerance: float
    agreement: float  # of two modes


FAMILIES = {
    family.name: family
    for family in (
        Family("smooth", True, False, 1e-9, 1e-9, 1e-10),
        Family("single", True, True, 2e-3, 2e-3, 1e-3),
        Family("kinks", False, False, 1e-2, 2e-6, 1e-10),
    )
}


@dataclass(frozen=True)
class Argument:
    """Values drawn from a seed, laid out in memory in one of several ways."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str

    def source(self, seed: int) -> str:
        if self.layout == "number":
            return f"{self.name} = {np.random.default_rng(seed).uniform(-1.0, 1.0):.3f}"
        draw = f"np.random.default_rng({seed}).uniform(-1.0, 1.0, {self.shape})"
        if self.dtype != "float64":
            draw += f".astype(np.{self.dtype})"
        after = {
            "plain": "",
            "fortran": ".copy(order='F')",
            "backwards": "[::-1].copy()[::-1]",
            "spaced": f".repeat(2, -1)[{'..., ' if len(self.shape) > 1 else ''}::2]",
            "scalar": "[()]",
        }[self.layout]
        return f"{self.name} = {draw}{after}"


@dataclass(frozen=True)
class Block:
    """Consecutive lines that stand or fall together, and the kind of step that wrote them."""

    kind: str
    text: str


def _require(condition: Any) -> None:
    if not condition:
        raise RefusedError


def _apart(gap: float) -> Callable[..., bool]:
    def apart(x: Any, y: Any) -> bool:
        return bool(np.all(np.abs(np.subtract(x, y)) > gap))

    return apart


def _distinct(gap: float) -> Callable[..., bool]:
    def distinct(x: Any, axis: int | None = None) -> bool:
        flat = np.sort(np.ravel(x) if axis is None else x, -1 if axis is None else axis)
        return bool(np.all(np.diff(flat, axis=-1 if axis is None else axis) > gap))

    return distinct


def compiled(text: str, name: str = "<step>") -> CodeType:
    """Code with its conditions made statements."""
    return compile(re.sub(r"^( *)#\? (.*)$", r"\1_require(\2)", text, flags=re.MULTILINE), name, "exec")


def conditions(family: Family) -> dict[str, Any]:
    """The names that a condition may use."""
    return {"_require": _require, "apart": _apart(family.gap), "distinct": _distinct(family.gap)}


def too_large(value: Any) -> bool:
    return isinstance(value, float | np.ndarray | np.floating) and not np.all(np.abs(value) <= LARGEST)


@dataclass(frozen=True)
class Program:
    """Arguments, constants from outside, blocks, and which variables the result sums up."""

    seed: int
    family: Family
    arguments: tuple[Argument, ...]
    constants: tuple[Argument, ...]
    blocks: tuple[Block, ...]
    summed: tuple[str, ...]
    kept: tuple[str, ...]

    def function_source(self) -> str:
        lines = [f"def f({', '.join(a.name for a in self.arguments)}):"]
        lines += [textwrap.indent(block.text, "    ") for block in self.blocks]
        lines += ["    total = 0.0"]
        for name in self.summed:
            lines.append(
                f"    total = total + np.sum({name} * np.cos(np.arange(np.size({name}))).reshape(np.shape({name})))"
            )
        kept = "".join(f"{name}, " for name in self.kept)
        return "\n".join([*lines, f"    return total, ({kept})", ""])

    def inputs_source(self) -> str:
        named = [*self.arguments, *self.constants]
        return "\n".join(a.source(self.seed * 16 + i) for i, a in enumerate(named)) + "\n"

    def script(self, mode: str) -> str:
        """A file that shows value and gradient when run."""
        names = ", ".join(a.name for a in self.arguments)
        call = ", ".join(f"np.copy({a.name}, subok=True)[()]" for a in self.arguments)
        places = tuple(range(len(self.arguments)))
        return (
            "import math\n\nimport numpy as np\n\nimport ndual\n\n"
            + self.inputs_source()
            + "\n\n"
            + self.function_source()
            + f"\n\nprint(f({call})[0])\n"
            + f"print(ndual.value_and_grad(f, {places}, has_aux=True, mode={mode!r})({names}))\n"
        )

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh arguments and constants."""
        namespace: dict[str, Any] = {"np": np}
        exec(self.inputs_source(), namespace)
        return (
            tuple(namespace[a.name] for a in self.arguments),
            {a.name: namespace[a.name] for a in self.constants},
        )

    def function(
        self, constants: dict[str, Any], numpy: Any = np, mathematics: ModuleType = math, checked: bool = False
    ) -> Callable[..., Any]:
        """The program as a function; checked: a condition that does not hold raises."""
        name = f"<program {self.seed}>"
        source = self.function_source()
        namespace = {"np": numpy, "math": mathematics, "__name__": "program", **constants}
        if checked:
            exec(compiled(source, name), namespace | conditions(self.family), namespace)
            namespace |= conditions(self.family)
        else:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            exec(compile(source, name, "exec"), namespace)
        return namespace["f"]
