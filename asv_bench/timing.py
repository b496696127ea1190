"""How times are compared: one process, one core, short windows in turn, ratios of minima.

On a machine with other work the minimum over many short windows that take turns is steady to half a per cent where the
median of the same windows was off by a factor of two. Nothing in here knows what is timed.
"""

from __future__ import annotations

import os
import sys
import timeit
from collections.abc import Callable, Mapping
from typing import Any

WINDOW = 2e-4
ROUNDS = 200
LONG = 0.02  # seconds: what takes longer starts cold
PATIENCE = 4.0  # seconds for one contestant: a slow one leaves early, with three windows at least

_SINGLE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_X64": "1",
    "JAX_PLATFORMS": "cpu",
}
_UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # forced BLAS kernels would time another BLAS


def quiet_process() -> None:
    """Start this script again with one BLAS thread and plain settings, on one core. Call it before importing NumPy."""
    if any(os.environ.get(key) != value for key, value in _SINGLE.items()) or any(key in os.environ for key in _UNSET):
        settings = {key: value for key, value in os.environ.items() if key not in _UNSET} | _SINGLE
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], settings)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


class Statement:
    """A statement for what is too short for a function call: once a loop with global names, as timeit does it, or
    `unrolled` times with local names, which leaves little but the operation."""

    def __init__(self, text: str, unrolled: int = 0, **names: Any) -> None:
        setup = "; ".join(f"{name} = _{name}" for name in names) if unrolled else "pass"
        namespace = {f"_{name}" if unrolled else name: value for name, value in names.items()}
        self.repeat = max(unrolled, 1)
        self.timer = timeit.Timer("; ".join([text] * self.repeat), setup, globals=namespace)


Contestants = dict[str, Callable[[], Any] | Statement]


def contest(contestants: Mapping[str, Callable[[], Any] | Statement], rounds: int = ROUNDS) -> dict[str, float]:
    """The smallest time of one execution for each contestant, in seconds, all measured in turns."""
    timers = {name: one.timer if isinstance(one, Statement) else timeit.Timer(one) for name, one in contestants.items()}
    counts = {}
    best = {}
    spent = dict.fromkeys(timers, 0.0)
    for name, timer in timers.items():
        timer.timeit(1)
        once = max(min(timer.timeit(1), timer.timeit(1)), 1e-8)
        counts[name] = max(1, int(WINDOW / once))
        best[name] = once
    for turn in range(rounds):
        for name, timer in timers.items():
            if turn >= 3 and spent[name] > PATIENCE:
                continue
            if best[name] < LONG:
                timer.timeit(1)  # not timed: what the others left in the caches is not this one's price
            taken = timer.timeit(counts[name])
            spent[name] += taken
            best[name] = min(best[name], taken / counts[name])
    return {name: best[name] / (one.repeat if isinstance(one, Statement) else 1) for name, one in contestants.items()}
