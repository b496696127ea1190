"""Run the core under the sanitizers: a short subset of the tests, then the hot paths with leak detection.

Expects a build in place with NDUAL_SANITIZE=address,undefined. The interpreter and its libraries leak on their own
account when they end, so a leak counts only where one of its inner frames is ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
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
FAULTS = """
#include <limits.h>
#include <stdlib.h>
int beyond(int n) { char *volatile p = calloc(8, 1); int found = p[n]; free(p); return found; }
int freed(int n) { char *p = calloc(8, 1); free(p); return ((volatile char *)p)[n - 8]; }
int overflow(int n) { return INT_MAX + n; }
int misplaced(int n) { char p[16] = {0}; return *(volatile int *)(p + n - 7); }
void *volatile kept;
void lost(int n) { kept = malloc(1000 * n); kept = NULL; }
"""
SIGNS = {
    "beyond": "heap-buffer-overflow",
    "freed": "heap-use-after-free",
    "overflow": "signed integer overflow",
    "misplaced": "misaligned address",
    "lost": "Direct leak of 8000 byte",
}
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


def run(command: list[str], leaks: bool, capture: bool = True) -> subprocess.CompletedProcess[str]:
    """Run under the sanitizers, memory straight from malloc; leaks are reported without an exit status of their own."""
    settings = os.environ | {
        "LD_PRELOAD": " ".join(map(runtime, ("libasan.so", "libubsan.so"))),
        "ASAN_OPTIONS": f"detect_leaks={int(leaks)}:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        # AddressSanitizer takes the exit code of LeakSanitizer over for its own errors.
        "LSAN_OPTIONS": f"exitcode={0 if leaks else 23}:report_objects=0:max_leaks=0",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(command, cwd=ROOT, env=settings, text=True, capture_output=capture, check=False)


def our_leaks(report: str) -> list[str]:
    """Pick the leaks that one of our inner frames allocated."""
    blocks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", report)[1:]
    found = []
    for block in blocks:
        frames = [line for line in block.splitlines() if line.lstrip().startswith("#")]
        if any("ndual/" in frame for frame in frames[:INNER]):
            found.append("\n".join([block.splitlines()[0], *frames[: 2 * INNER]]))
    return found


def overlooked() -> list[str]:
    """Which planted faults are not reported: one of every kind that is looked for, in a library built as ours is."""
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "ndual", "planted.c")
        source.parent.mkdir()
        source.write_text(FAULTS)
        library = source.with_suffix(".so")
        flags = ["-shared", "-fPIC", "-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]
        subprocess.run(["gcc", *flags, "-o", str(library), str(source)], check=True)
        for name, sign in SIGNS.items():
            call = f"import ctypes; ctypes.CDLL({str(library)!r}).{name}(8)"
            done = run([sys.executable, "-c", call], leaks=name == "lost")
            if sign not in done.stderr or not (our_leaks(done.stderr) if name == "lost" else done.returncode):
                missed.append(f"{name}: expected a report of {sign}; got {done.stderr[-2000:] or 'nothing'}")
    return missed


def main() -> int:
    """Run the tests, then look for leaks."""
    missed = overlooked()
    if missed:
        print("\n\n".join(missed))
        return 1
    print("every planted fault is reported")
    tests = [path for path in SUBSET if (ROOT / path).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    status = run(command, leaks=False, capture=False).returncode
    if status:
        return status
    watched = run([sys.executable, "-c", WORKLOAD], leaks=True)
    broken = "ERROR: AddressSanitizer", "LeakSanitizer has encountered a fatal error"
    if watched.returncode or any(words in watched.stderr for words in broken):
        print(watched.stdout, watched.stderr[-8000:])
        return watched.returncode or 1
    leaks = our_leaks(watched.stderr)
    print("\n\n".join(leaks) or "no leaks of ours")
    return int(bool(leaks))


if __name__ == "__main__":
    sys.exit(main())
