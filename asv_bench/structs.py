"""The loop of the Cython example on the public structs, beside the same loop on doubles.

    python asv_bench/structs.py

Builds tests/cython_user/logistic.pyx with -O3 -march=x86-64-v3, where the processor has that, and prints ratios of
minima over short windows that take turns. 1500 steps: after some 2000 the derivative overflows, and from there on the
time would be that of the strong zero.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cython_user"))
from test_logistic import build

ROUNDS, STEPS = 2000, 1500


def main() -> None:
    """Print nanoseconds a step, and the ratios to the loop on doubles."""
    with tempfile.TemporaryDirectory() as folder:
        module = build(Path(folder))
        loops = {"double": module.plain, "width 1": module.by_parameter, "width 8": module.by_both}
        best = dict.fromkeys(loops, float("inf"))
        for _ in range(ROUNDS):
            for name, loop in loops.items():
                start = time.perf_counter_ns()
                loop(3.7, 0.3, STEPS)
                best[name] = min(best[name], (time.perf_counter_ns() - start) / STEPS)
    for name, nanoseconds in best.items():
        print(f"{name:8s} {nanoseconds:6.2f} ns a step = {nanoseconds / best['double']:.2f}")


if __name__ == "__main__":
    main()
