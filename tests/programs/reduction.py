"""Makes a failing program small: blocks, lines, results and arguments go while it still fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from program import Block, Program, too_large

Fails = Callable[[Program], bool]


def valid(program: Program) -> bool:
    """Whether NumPy runs it, and its conditions hold."""
    values, constants = program.inputs()
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            total, kept = program.function(constants, checked=True)(*values)
        return np.isfinite(total) and not any(too_large(v) for v in kept)
    except Exception:
        return False


def smaller(program: Program) -> Iterator[Program]:
    """Programs with something left out, large pieces first."""
    blocks = program.blocks
    size = max(1, len(blocks) // 2)
    while size:
        for at in range(len(blocks) - size, -1, -size):
            yield replace(program, blocks=blocks[:at] + blocks[at + size :])
        size //= 2
    for at in range(len(program.summed) - 1, -1, -1):
        if len(program.summed) > 1:
            yield replace(program, summed=program.summed[:at] + program.summed[at + 1 :])
    for at in range(len(program.kept) - 1, -1, -1):
        yield replace(program, kept=program.kept[:at] + program.kept[at + 1 :])
    for at, block in enumerate(blocks):
        lines = block.text.splitlines()
        for i in range(len(lines)):
            if len(lines) > 1 and "#?" not in lines[i] and "empty" not in block.text:
                shorter = Block(block.kind, "\n".join(lines[:i] + lines[i + 1 :]))
                yield replace(program, blocks=(*blocks[:at], shorter, *blocks[at + 1 :]))
    for at, argument in enumerate(program.arguments):
        if argument.layout in ("fortran", "backwards", "spaced"):
            plain = replace(argument, layout="plain")
            yield replace(program, arguments=(*program.arguments[:at], plain, *program.arguments[at + 1 :]))


def dead(program: Program) -> Program:
    """Without results that do not exist any more."""
    text = "\n".join(b.text for b in program.blocks)
    here = {a.name for a in program.arguments}
    alive = [n for n in program.kept if n in here or f"{n} = " in text]
    summed = tuple(n for n in program.summed if n in here or f"{n} = " in text)
    return replace(program, kept=tuple(alive), summed=summed or (program.arguments[0].name,))


def reduced(program: Program, fails: Fails, most: int = 600) -> Program:
    """The smallest that was found within a number of tries."""
    tries = 0
    while True:
        for candidate in smaller(program):
            candidate = dead(candidate)
            if candidate == program:
                continue
            tries += 1
            if tries > most:
                return program
            if valid(candidate) and quietly(fails, candidate):
                program = candidate
                break
        else:
            return program


def quietly(fails: Fails, program: Program) -> Any:
    try:
        return fails(program)
    except Exception:
        return False
