"""Run the examples of every docstring in the package, as installed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import sys

import ndual


def main() -> int:
    """Import every module and run what its docstrings show."""
    failed = attempted = 0
    for info in pkgutil.walk_packages(ndual.__path__, "ndual."):
        if info.name.endswith("__main__") or "generate" in info.name:
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if error.name != "cupy":
                raise
            print(f"skipped: {info.name} needs CuPy")
            continue
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        failed += result.failed
        attempted += result.attempted
    result = doctest.testmod(ndual)
    print(f"{attempted + result.attempted} examples, {failed + result.failed} failed")
    return int(failed + result.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
