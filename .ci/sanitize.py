"""Run the core under the sanitizers: a short subset of the tests, then the hot paths with leak detection.

Expects a build in place with NDUAL_SANITIZE=address,undefined. The interpreter and its libraries leak on their own
account when they end, so a leak counts only where one of its inner frames is ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUBSET = (
    "tests/core",
    "tests/test_api.py",
    "tests/test_prepare.py",
    "tests/test_reverse_api.py",
    "tests/test_reverse_errors.py",
    "tests/test_reverse_memory.py",
)
INNER = 6  # frames: deeper ones only say that the interpreter was called from us
WORKLOAD = """
import os, sys; sys.path.insert(0, ".ci")
from hotpaths import paths
import ndual, numpy as np
assert ndual.__file__.startswith(os.getcwd()), ndual.__file__
def broken(x):
    y = np.exp(x); y[0] = y[1] * 2.0
    raise KeyError("stop")
for make in paths().values():
    call = make()
    for _ in range(20): call()
for _ in range(20):
    try: ndual.grad(broken)(np.ones(50))
    except KeyError: pass
"""


def runtime(name: str) -> str:
    """Find a sanitizer's library; it must be loaded before the interpreter's first allocation."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run(command: list[str], leaks: bool) -> subprocess.CompletedProcess[str]:
    """Run under the sanitizers, memory straight from malloc."""
    settings = os.environ | {
        "LD_PRELOAD": " ".join(map(runtime, ("libasan.so", "libubsan.so"))),
        "ASAN_OPTIONS": f"detect_leaks={int(leaks)}:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "LSAN_OPTIONS": "exitcode=0:report_objects=0:max_leaks=0",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(command, cwd=ROOT, env=settings, text=True, capture_output=leaks, check=False)


def our_leaks(report: str) -> list[str]:
    """Pick the leaks that one of our inner frames allocated."""
    blocks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", report)[1:]
    found = []
    for block in blocks:
        frames = [line for line in block.splitlines() if line.lstrip().startswith("#")]
        if any("ndual/" in frame for frame in frames[:INNER]):
            found.append("\n".join([block.splitlines()[0], *frames[: 2 * INNER]]))
    return found


def main() -> int:
    """Run the tests, then look for leaks."""
    tests = [path for path in SUBSET if (ROOT / path).exists()]
    status = run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests], leaks=False).returncode
    if status:
        return status
    watched = run([sys.executable, "-c", WORKLOAD], leaks=True)
    if watched.returncode or "LeakSanitizer has encountered a fatal error" in watched.stderr:
        print(watched.stdout, watched.stderr[-8000:])
        return watched.returncode or 1
    leaks = our_leaks(watched.stderr)
    print("\n\n".join(leaks) or "no leaks of ours")
    return int(bool(leaks))


if __name__ == "__main__":
    sys.exit(main())
