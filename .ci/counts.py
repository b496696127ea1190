"""The gate on instruction counts: the hot paths under callgrind, against the committed counts.

    python .ci/counts.py            compare with counts.json; exit status 1 where a path grew by more than TOLERANCE
    python .ci/counts.py --update   write counts.json

Counts do not depend on how busy the machine is, but on compiler, Python and libraries: with another set of those than
in counts.json the counts are shown and nothing fails. They miss cache and memory effects, which asv sees.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "counts.json"
TOLERANCE = 0.02
# Valgrind takes minutes for fifty runs of what is nearly all fused multiplications of BLAS: a few do for them.
BLAS = ("reverse: simple_mlp", "reverse: gp_lml")
# What the first derivative in each mode imports is most of the work under valgrind: done once, before the forks.
FIRST = ("small arrays, 10 lanes", "reverse: small arrays, 10")
TOGGLE = "#include <valgrind/callgrind.h>\nvoid toggle(void) { CALLGRIND_TOGGLE_COLLECT; }\n"


def tools() -> str:
    """Name what the counts depend on."""
    import numpy

    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    python = platform.python_version()
    return f"{platform.machine()}, gcc {gcc}, Python {python}, NumPy {numpy.__version__}, {valgrind}"


def times(name: str) -> tuple[int, int]:
    """How often a path runs before it is counted, and while it is."""
    return (2, 2) if name in BLAS else (30, 20)


def child(library: str) -> int:
    """Run each hot path in a process forked for it, collecting only while it repeats; print who was which."""
    from hotpaths import paths

    toggle = ctypes.CDLL(library).toggle
    for name in FIRST:
        paths()[name]()()
    for name, make in paths().items():
        process = os.fork()
        if not process:
            status = 1
            try:
                call = make()
                warm_up, repeats = times(name)
                for _ in range(warm_up):
                    call()
                toggle()
                for _ in range(repeats):
                    call()
                toggle()
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(process, 0)[1]:
            print(f"{name!r} failed", file=sys.stderr)
            return 1
        print(process, name)
    return 0


def count(folder: Path, library: Path) -> dict[str, int]:
    """Count the instructions of one execution of each hot path."""
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/out.%p"]
    command += [sys.executable, str(Path(__file__).resolve()), "--child", str(library)]
    settings = os.environ | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # Address randomisation moves buffers against cache lines, and with that the paths that memcpy takes.
    run = subprocess.run(["setarch", "-R", *command], capture_output=True, text=True, check=False, env=settings)
    if run.returncode:
        raise SystemExit(f"callgrind failed:\n{run.stdout}\n{run.stderr}")
    counts = {}
    for process, _, name in (line.partition(" ") for line in run.stdout.splitlines()):
        written = (folder / f"out.{process}").read_text().splitlines()
        totals = [line for line in written if line.startswith(("totals:", "summary:"))]
        counts[name] = int(totals[-1].split()[1]) // times(name)[1]
    return counts


def main() -> int:
    """Count all paths, then compare or write."""
    sys.path.insert(0, str(HERE))
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2])

    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "toggle.so")
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", "-xc", "-", "-o", str(library)], input=TOGGLE, text=True, check=True
        )
        counts = count(Path(folder), library)
    if "--update" in sys.argv:
        BASELINE.write_text(json.dumps({"tools": tools(), "instructions": counts}, indent=2) + "\n")
        print(f"wrote {BASELINE}")
        return 0
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"tools": "none", "instructions": {}}
    same = baseline["tools"] == tools()
    grown = False
    for name, now in counts.items():
        before = baseline["instructions"].get(name)
        change = f"{now / before - 1.0:+.2%}" if before else "new"
        bad = bool(before) and now > before * (1.0 + TOLERANCE)
        grown = grown or bad
        print(f"{name:36s} {now:12,d} instructions  {change}{'  GREW' if bad else ''}")
    if not same:
        print(f"The committed counts are from other tools, so nothing fails:\n  {baseline['tools']}\n  {tools()}")
        return 0
    if grown:
        print(f"Grew by more than {TOLERANCE:.0%}. If that is meant, say why and run: python .ci/counts.py --update")
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
