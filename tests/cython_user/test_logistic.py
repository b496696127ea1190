"""A user's extension that cimports the structs: it builds, and its derivatives are right."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

import ndual

SOURCE = Path(__file__).with_name("logistic.pyx")


def build(folder: Path) -> ModuleType:
    """Compile logistic.pyx as a user would."""
    if os.name != "posix":
        pytest.skip("needs a Unix compiler")
    root = Path(ndual.__file__).resolve().parents[1]
    cython = [sys.executable, "-m", "cython", "-3", "-I", str(root), str(SOURCE), "-o", str(folder / "logistic.c")]
    subprocess.run(cython, check=True)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    march = ["-march=x86-64-v3"] if platform.machine() == "x86_64" and has_avx2() else []
    target = folder / ("logistic" + sysconfig.get_config_var("EXT_SUFFIX"))
    includes = ["-I" + sysconfig.get_paths()["include"], "-I" + ndual.get_include()]
    link = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    flags = ["-O3", *march, "-Wall", "-Wno-unused-function", "-shared", "-fPIC", *includes, *link]
    subprocess.run([*compiler, *flags, str(folder / "logistic.c"), "-o", str(target)], check=True)
    spec = importlib.util.spec_from_file_location("logistic", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has_avx2() -> bool:
    """Whether this processor can run what is built for x86-64-v3."""
    info = Path("/proc/cpuinfo")
    return info.is_file() and " avx2 " in info.read_text()


@pytest.fixture(scope="module")
def logistic(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build(tmp_path_factory.mktemp("user"))


def by_hand(a: float, y: float, steps: int) -> tuple[float, float, float]:
    """Value and derivatives of the logistic map by its recurrence."""
    da, dy = 0.0, 1.0
    for _ in range(steps):
        slope = a * (1.0 - 2.0 * y)
        da, dy, y = y * (1.0 - y) + slope * da, slope * dy, a * y * (1.0 - y)
    return y, da, dy


@pytest.mark.parametrize("steps", [0, 1, 7, 30])
def test_derivatives(logistic: ModuleType, steps: int) -> None:
    expected = by_hand(3.2, 0.3, steps)
    assert logistic.plain(3.2, 0.3, steps) == pytest.approx(expected[0], rel=1e-13)
    assert logistic.by_parameter(3.2, 0.3, steps) == pytest.approx(expected[:2], rel=1e-11)
    assert logistic.by_both(3.2, 0.3, steps) == pytest.approx(expected, rel=1e-11)


def test_the_strong_zero_holds(logistic: ModuleType) -> None:
    """A lane in which nothing was seeded stays zero when the value overflows."""
    value, slope = logistic.by_parameter(3.2, 0.0, 5)
    assert (value, slope) == (0.0, 0.0)
    assert logistic.zero_seed(float("inf"), 0.5) == (float("inf"), 0.0)
