"""Write ``manifest.txt`` from what ndual does now, and show what changed: ``python tests/real/write_manifest.py``.

A wrong derivative is never written: it is shown, and the exit status is 1. Words after the command pick functions by
parts of their names; then nothing is written.
"""

from __future__ import annotations

import sys

from real_code import manifest, proof


def main(parts: list[str]) -> int:
    """Prove all, or those named."""
    before = manifest.read() if manifest.PATH.exists() else {}
    chosen = [e for e in proof.entries() if not parts or any(part in e.name for part in parts)]
    results = {entry.name: proof.prove(entry) for entry in chosen}
    wrong = False
    for name in sorted(results.keys() | (set() if parts else before.keys())):
        old, new = before.get(name, "absent"), results.get(name, "absent")
        if old != new or parts:
            print(f"{name}: {new}" + (f" (was: {old})" if old != new else ""))
        wrong = wrong or manifest.kind_of(new) == manifest.WRONG
    print(*manifest.heading(results)[2:])
    if not wrong and not parts:
        manifest.write(results)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
