"""Every generated kernel is accepted by CUDA's own compiler, where there is one; no device is needed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_bodies import CASES, body_of
from kernel_texts import in_one_file, texts

from ndual.gpu import bodies

NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc")
FILES = 2
"""Translation units, compiled side by side."""


def headers():
    """CuPy's, which hold its complex numbers; found without importing it."""
    spec = importlib.util.find_spec("cupy")
    return [] if spec is None else [Path(part) / "_core" / "include" for part in spec.submodule_search_locations]


def architecture():
    """The H200's, or the oldest that this nvcc has."""
    found = subprocess.run([NVCC, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    known = re.findall(r"compute_(\d+)", found)
    return "90" if "90" in known else known[0]


def compiling(source, folders=()):
    flags = ["-std=c++17", f"-arch=compute_{architecture()}", "-ptx", *(f"-I{folder}" for folder in folders)]
    command = [NVCC, *flags, str(source), "-o", str(source.with_suffix(".ptx"))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("of_complex", [False, True])
def test_nvcc_compiles_every_kernel(tmp_path, of_complex):
    folders = headers()
    if of_complex and not folders:
        pytest.skip("complex numbers need CuPy's headers")
    parts = [(name, text) for name, text in texts() if ("complex<" in text) == of_complex]
    include = "#include <cupy/complex.cuh>\n" if of_complex else "#include <cuda_fp16.h>\n"
    runs = []
    for k in range(FILES):
        source = tmp_path / f"kernels{k}.cu"
        source.write_text(include + "".join(in_one_file(parts[k::FILES])))
        runs.append(compiling(source, folders))
    for k, run in enumerate(runs):
        said = run.communicate(timeout=300)[0]
        assert run.returncode == 0, said[:3000]
        compiled = (tmp_path / f"kernels{k}.ptx").read_text()
        for name, _ in parts[k::FILES]:
            assert f".entry {name}(" in compiled


@pytest.mark.parametrize("name", CASES)
def test_nvcc_compiles_bodies_over_duals(tmp_path, name):
    body = body_of(CASES[name])
    uniform = (True,) * len(body.outputs)
    runs = []
    for what, text in (
        ("forward", bodies.forward(body, True, 2)),
        ("pullback", bodies.pullback(body, False, uniform)),
    ):
        (tmp_path / f"{what}.cu").write_text(text)
        runs.append(compiling(tmp_path / f"{what}.cu"))
    for run in runs:
        said = run.communicate(timeout=100)[0]
        assert run.returncode == 0, said[:3000]
