"""The two tables of the suite: what is called, what it must give, and who else can do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import peers
from suite import Case

import ndual


@dataclass(frozen=True)
class Mode:
    """How a case becomes calls that give (value, derivative), and what is right."""

    name: str
    title: str
    prepared: Callable[[Case], peers.Call]
    unprepared: Callable[[Case], peers.Call]
    want: Callable[[Case], tuple[Any, Any]]
    peers: peers.Peers

    def target(self, case: Case) -> float | None:
        """What the ratio should not exceed."""
        return case.target if self.name == "reverse" else None

    def error(self, case: Case, derivative: Any) -> float:
        """The largest relative error of a part of the derivative."""
        value, want = self.want(case)
        pairs = zip(peers.parts((value, derivative)), peers.parts((value, want)), strict=True)
        return max(float(np.linalg.norm(got - right) / np.linalg.norm(right)) for got, right in pairs)


def _forward(case: Case) -> peers.Call:
    active, passive, direction = case.inputs()
    derivative = ndual.prepare_derivative(case.function, *active, *passive, argnums=tuple(range(len(active))))
    primals = (*active, *passive)
    return lambda: derivative(primals, direction)


def _forward_unprepared(case: Case) -> peers.Call:
    active, passive, direction = case.inputs()
    primals, tangents = (*active, *passive), (*direction, *(None for _ in passive))
    return lambda: ndual.jvp(case.function, primals, tangents)


def _reverse(case: Case) -> peers.Call:
    active, passive, _ = case.inputs()
    args = (*active, *passive)
    gradient = ndual.prepare_gradient(case.function, *args, argnums=tuple(range(len(active))), mode="reverse")
    return lambda: gradient(*args)


def _reverse_unprepared(case: Case) -> peers.Call:
    active, passive, _ = case.inputs()
    args = (*active, *passive)
    evaluate = ndual.value_and_grad(case.function, tuple(range(len(active))), mode="reverse")
    return lambda: evaluate(*args)


MODES = {
    mode.name: mode
    for mode in (
        Mode(
            "forward",
            "Forward derivative in one direction, prepared, all array arguments active.",
            _forward,
            _forward_unprepared,
            Case.reference,
            peers.FORWARD,
        ),
        Mode(
            "reverse",
            "Value and gradient in reverse mode, prepared, all array arguments active.",
            _reverse,
            _reverse_unprepared,
            Case.gradient,
            peers.REVERSE,
        ),
    )
}
