"""The house: imports point only down, files stay small, ``__init__`` files are lists of names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    p for p in (ROOT / "ndual").glob("**/*.py") if "generated" not in p.parts and p.parts[-2] not in ("gpu", "reverse")
)
LONGEST = 450

# Each room with the rooms it may import, beside itself. What is not named here is part of the top room, "ndual".
ROOMS = {
    "errors": set(),
    "rules.language": {"rules.registry"},
    "rules": {"errors"},
    "_core": {"errors", "rules"},
    "config": {"errors", "_core"},
    "frontend": {"errors", "rules", "_core", "config"},
    "objects": {"errors", "_core"},
    "structure": {"errors", "_core", "objects"},
    "outputs": {"errors", "_core", "objects", "structure"},
    "tangents": {"errors", "objects", "structure"},
    "layout": {"errors", "objects", "structure", "tangents"},
    "lifted": {"errors", "_core", "structure", "tangents"},
    "checks": {"errors"},
    "chunk": {"errors", "_core", "config"},
    "plan": {"errors", "_core", "config", "frontend", "structure", "tangents", "layout", "outputs", "chunk", "rules"}
    | {"objects"},
    "api": {"errors", "_core", "config", "frontend", "structure", "outputs", "chunk", "plan", "rules", "reverse"},
    "prepare": (
        {"errors", "_core", "config", "frontend", "structure", "outputs", "chunk", "plan", "rules", "api", "reverse"}
        | {"tangents"}
    ),
    "reached": {"frontend", "objects"},
    "places": {"errors", "_core", "objects", "reached"},
    "wrt": {"errors", "objects", "places", "reached", "structure"},
    "jacobians": {"errors", "frontend", "outputs", "plan", "api"},
    "pullback": {"errors", "_core", "rules", "structure", "tangents", "outputs", "plan"},
    "second": {"errors", "outputs", "plan", "api", "prepare"},
    "products": {"errors", "structure", "outputs", "plan", "prepare", "pullback", "second"},
    "trace": {"errors", "_core", "outputs", "plan"},
    "testing": {"errors", "_core", "config", "frontend", "rules", "api", "jacobians", "reverse"},
    "recompute": {"errors", "_core", "outputs", "plan", "reverse"},
    "custom": {"errors", "_core", "frontend", "objects", "rules", "structure", "outputs", "plan", "pullback", "api"},
    "interop": {"errors", "custom", "outputs", "pullback"},
    "numpy": {"frontend"},
    "scipy": {"errors", "_core", "config", "structure", "outputs", "chunk", "plan", "api", "prepare", "second"},
    "job": {"", "scipy"},
    "__main__": {"job"},
}


for _room in ("api", "custom", "jacobians", "layout", "plan", "prepare", "products", "pullback", "recompute", "scipy"):
    ROOMS[_room].add("checks")
for _room in ("second", "trace"):
    ROOMS[_room].add("checks")
for _room in ("api", "jacobians", "prepare", "products", "pullback", "second"):
    ROOMS[_room].add("wrt")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    inner = module.removeprefix("ndual").lstrip(".")
    if inner.startswith("rules."):
        return "rules"
    return inner.partition(".")[0]


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports; those under ``if TYPE_CHECKING`` do not count."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    branches = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    typing = {node for branch in branches for node in ast.walk(branch)}
    for node in ast.walk(tree):
        if node in typing:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "ndual"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "ndual":
                found |= {f"ndual.{alias.name}" if is_module(alias.name) else "ndual" for alias in node.names}
            elif (node.module or "").startswith("ndual."):
                found.add(node.module or "")
    return found


def is_module(name: str) -> bool:
    return (ROOT / "ndual" / name).is_dir() or (ROOT / "ndual" / f"{name}.py").exists()


@pytest.mark.parametrize("path", SOURCES, ids=dotted)
def test_imports_point_down(path):
    room = room_of(dotted(path))
    if room == "":
        return
    assert room in ROOMS, f"{path}: add the room {room!r} to the list, with what it may import"
    for module in imports(path):
        other = room_of(module)
        allowed = ROOMS[room] | {room}
        assert other in allowed, f"{dotted(path)} imports {module}; {room} may import {sorted(allowed)}"


def test_the_language_is_standard_library_only():
    code = (
        "import sys, types\n"
        "for name, folder in (('ndual', ''), ('ndual.rules', '/rules')):\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    module.__path__ = [sys.argv[1] + folder]\n"
        "import ndual.rules.elementwise; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(ROOT / "ndual")], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_importing_ndual_leaves_the_rest_alone():
    rest = ("cupy", "ndual.numpy", "ndual.reverse", "ndual.gpu", "ndual.testing", "mpmath")
    code = f"import sys, ndual; print([m for m in {rest} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def files():
    for folder, patterns in {
        "ndual": ("**/*.py", "**/*.pyx", "**/*.pxi", "**/*.pxd", "**/*.pyi", "**/*.in", "**/src/*.[ch]"),
        "tests": ("**/*.py", "**/*.pyx"),
        "asv_bench": ("**/*.py",),
        "docs": ("*.md", "*.py"),
        ".": ("*.py", "*.md"),
    }.items():
        for pattern in patterns:
            for path in (ROOT / folder).glob(pattern):
                if not {"generated", "env", "build", "_build", ".venv"} & set(path.relative_to(ROOT).parts):
                    yield path


def test_files_stay_small():
    long = {str(p.relative_to(ROOT)): n for p in files() if (n := len(p.read_text().splitlines())) > LONGEST}
    assert not long


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=dotted)
def test_init_files_are_lists_of_names(path):
    """Imports, ``__all__``, and what must happen once at import; nothing is defined there."""
    for node in ast.parse(path.read_text()).body:
        assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.If), (path, node.lineno)


@pytest.mark.parametrize("path", SOURCES, ids=dotted)
def test_files_say_what_lives_in_them(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path}: no opening docstring"
