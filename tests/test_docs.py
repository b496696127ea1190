"""Every program of the README and of the pages runs, one after the other on a page, as far as what it imports is there.

Fragments that are no programs are marked ``py``, programs ``python``.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if PROGRAM.search(page.read_text())
]
NOT_OURS = {"cupy", "jax", "torch", "autograd", "numba"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of(page, tmp_path, monkeypatch):
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    # With the lines of the page, which tracebacks name and functions that read their source look for.
    file = tmp_path / f"{page.stem}_page.py"
    programs = [(text.count("\n", 0, found.start(1)), found[1]) for found in PROGRAM.finditer(text)]
    lines = [""] * text.count("\n")
    for start, program in programs:
        lines[start : start + program.count("\n")] = program.splitlines()
    file.write_text("\n".join(lines))
    space = {"__name__": "__main__", "__file__": str(file)}
    for start, program in programs:
        try:
            exec(compile("\n" * start + program, str(file), "exec"), space)
        except ModuleNotFoundError as missing:
            if missing.name not in NOT_OURS:
                raise
            pytest.skip(f"the program at line {start + 1} needs {missing.name}")
