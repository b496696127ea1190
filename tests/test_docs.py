"""Every program of the README and of the pages runs, one after the other on a page, as far as what it imports is there.

Fragments that are no programs are marked ``py``, programs ``python``. A page runs in a process of its own, for which
this file is the program: what a page registers stays there.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ALL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [page for page in ALL if PROGRAM.search(page.read_text())]
NOT_OURS = {"cupy", "jax", "torch", "autograd", "numba"}


def bound_by(program: str) -> set[str]:
    """The names that a program would have bound at its top level."""
    names = set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def run(page: Path) -> None:
    """Run the programs of a page; one that needs what is not there is left out, and so is what needs its names."""
    text = page.read_text()
    # With the lines of the page, which tracebacks name and functions that read their source look for.
    file = Path(f"{page.stem}_page.py").resolve()
    programs = [(text.count("\n", 0, found.start(1)), found[1]) for found in PROGRAM.finditer(text)]
    lines = [""] * text.count("\n")
    for start, program in programs:
        lines[start : start + program.count("\n")] = program.splitlines()
    file.write_text("\n".join(lines))
    space = {"__name__": "__main__", "__file__": str(file)}
    left_out: list[str] = []
    unbound: set[str] = set()
    for start, program in programs:
        try:
            exec(compile("\n" * start + program, str(file), "exec"), space)
        except (ModuleNotFoundError, NameError) as missing:
            if missing.name not in NOT_OURS | unbound:
                raise
            left_out.append(f"the program at line {start + 1} needs {missing.name}")
            unbound |= bound_by(program)
    print("left out:", *left_out, sep="\n")


def test_there_are_pages():
    assert {"README", "quickstart", "custom", "structures", "reverse"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of(page, tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, str(page)], capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    left_out = done.stdout.rpartition("left out:")[2].strip()
    if left_out:
        pytest.skip(left_out)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    run(Path(sys.argv[1]))
