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
WARM_UP, REPEATS = 30, 20
TOGGLE = "#include <valgrind/callgrind.h>\nvoid toggle(void) { CALLGRIND_TOGGLE_COLLECT; }\n"


def tools() -> str:
    """Name what the counts depend on."""
    import numpy

    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    python = platform.python_version()
    return f"{platform.machine()}, gcc {gcc}, Python {python}, NumPy {numpy.__version__}, {valgrind}"


def child(name: str, library: str) -> None:
    """Run one hot path, collecting only while it repeats."""
    from hotpaths import paths

    call = paths()[name]()
    toggle = ctypes.CDLL(library).toggle
    for _ in range(WARM_UP):
        call()
    toggle()
    for _ in range(REPEATS):
        call()
    toggle()


def count(name: str, folder: Path, library: Path) -> int:
    """Count the instructions of one execution of a hot path."""
    out = folder / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={out}"]
    command += [sys.executable, str(Path(__file__).resolve()), "--child", name, str(library)]
    settings = os.environ | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # Address randomisation moves buffers against cache lines, and with that the paths that memcpy takes.
    run = subprocess.run(["setarch", "-R", *command], capture_output=True, text=True, check=False, env=settings)
    if run.returncode:
        raise SystemExit(f"callgrind failed on {name!r}:\n{run.stdout}\n{run.stderr}")
    totals = [line for line in out.read_text().splitlines() if line.startswith(("totals:", "summary:"))]
    return int(totals[-1].split()[1]) // REPEATS


def main() -> int:
    """Count all paths, then compare or write."""
    sys.path.insert(0, str(HERE))
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4])
        return 0
    from hotpaths import paths

    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "toggle.so")
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", "-xc", "-", "-o", str(library)], input=TOGGLE, text=True, check=True
        )
        counts = {name: count(name, Path(folder), library) for name in paths()}
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
