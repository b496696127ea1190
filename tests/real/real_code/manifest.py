"""The committed results: one line a function, ``name: result``, in alphabetical order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "manifest.txt"
RIGHT, WITH_LIFT, REFUSED, WRONG, LEFT_OUT = "right", "right with lift", "refused", "wrong", "left out"


def read() -> dict[str, str]:
    """The manifest as it is committed."""
    lines = PATH.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def write(results: Mapping[str, str]) -> None:
    """Replace it."""
    PATH.write_text("\n".join([*heading(results), *(f"{name}: {results[name]}" for name in sorted(results))]) + "\n")


def kind_of(result: str) -> str:
    """A result without its reason."""
    return result.partition(":")[0]


def count(results: Mapping[str, str]) -> Counter[str]:
    """How many functions went which way; those without a derivative to take do not count."""
    return Counter(kind_of(result) for result in results.values() if kind_of(result) != LEFT_OUT)


def heading(results: Mapping[str, str]) -> list[str]:
    """What the file says about itself."""
    counts = count(results)
    return [
        "# Functions that nobody here wrote, differentiated forward and compared with fourth-order differences.",
        "# Written by: python tests/real/write_manifest.py",
        f"# {sum(counts.values())} functions: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()),
    ]
