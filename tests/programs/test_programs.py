"""Random programs: straight lines and loops over arrays, views of views, writes of every kind, branches on values.

Every program is a plain function of NumPy arrays that comes from a seed; what must hold of it is in checks.py, and
nothing here knows a rule. A failing one is made small and printed as a file that runs. NDUAL_TEST_PROFILE=deep tries
thousands.
"""

from __future__ import annotations

import warnings
from collections import Counter

import checks
import numpy as np
import pytest
from drawing import STEPS, draw
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from program import Block, Program
from reduction import reduced, valid

MANY = max(settings().max_examples, 240)


def explanation(program):
    """The program made small, what is wrong with it, and how to see it again."""
    fault = checks.failure(program)
    first = fault.splitlines()[0]
    small = reduced(program, lambda p: checks.failure(p).splitlines()[:1] == [first])
    mode = next((m for m in reversed(checks.MODES) if m in fault), checks.MODES[-1])
    return f"draw({program.seed})\n{checks.failure(small)}\n\n{small.script(mode)}"


@settings(max_examples=MANY, phases=[Phase.reuse, Phase.generate], print_blob=True)
@given(st.integers(0, 2**32 - 1))
def test_random_programs(seed):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = draw(seed)
        if checks.failure(program):
            pytest.fail(explanation(program), pytrace=False)


def test_programs_are_what_they_claim_to_be():
    """Every kind of step is drawn, conditions hold, long and large programs are among them."""
    with np.errstate(all="ignore"):
        programs = [draw(seed) for seed in range(120)]
    kinds = Counter(block.kind for program in programs for block in program.blocks)
    assert set(STEPS) <= set(kinds)
    assert max(len(program.blocks) for program in programs) >= 60
    assert {program.family.name for program in programs} == {"smooth", "single", "kinks"}
    assert sum(np.size(v) > 512 for program in programs for v in program.inputs()[0]) > 10
    assert all(valid(program) for program in programs)


def with_body(program, *lines):
    return Program(
        program.seed, program.family, program.arguments, program.constants, tuple(Block("by hand", x) for x in lines),
        ("a",), ("a",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("a = wrong_value(a)",), "NumPy has"),
        (("a = wrong_slope(a)",), "the slope along a direction"),
        (("a = np.abs(a - a)",), ""),
    ],
)
def test_faults_are_seen(lines, said, monkeypatch):
    """A last bit of a value and a millionth of a slope are seen; what is right is not complained about."""
    import ndual

    plain = (p for p in map(draw, range(200)) if {a.layout for a in p.arguments} == {"plain"})
    program = with_body(next(p for p in plain if p.family.name == "smooth"), *lines)
    original = Program.function

    def function(self, constants, *args, **kwargs):
        f = original(self, constants, *args, **kwargs)
        f.__globals__["wrong_value"] = lambda a: a * (1.0 + 3e-16 * np.any(active(a)))
        f.__globals__["wrong_slope"] = lambda a: a + 1e-6 * (a - ndual.stop_gradient(a)) if np.any(active(a)) else a
        return f

    monkeypatch.setattr(Program, "function", function)
    assert said in checks.failure(program)
    assert bool(said) == bool(checks.failure(program))


def active(a):
    from ndual import _core

    return _core.is_dual(a)


def test_small_programs_come_of_large_ones():
    """Reduction leaves the one step that matters."""
    program = next(p for p in map(draw, range(200)) if len(p.blocks) > 30)
    wanted = program.blocks[len(program.blocks) // 2]

    def fails(p):
        return wanted in p.blocks

    small = reduced(program, fails, 300)
    assert wanted in small.blocks
    assert len(small.blocks) < len(program.blocks)
    assert valid(small)
