"""The build: writes the generated sources, compiles the kernels once per instruction set, and links the core.

Everything that is data stands in pyproject.toml; here is only what setuptools cannot say. Environment variables:
NDUAL_DEBUG=1 (-O0 -g), NDUAL_SANITIZE=address,undefined, NDUAL_COVERAGE=1 (line tracing), NDUAL_WERROR=1,
NDUAL_JOBS (compilers at once, default one per core).
"""

from __future__ import annotations

import os
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
CORE = Path("ndual", "_core")
SOURCES = CORE / "src"
DEBUG = os.environ.get("NDUAL_DEBUG") == "1"
COVERAGE = os.environ.get("NDUAL_COVERAGE") == "1"
SANITIZE = os.environ.get("NDUAL_SANITIZE", "")
JOBS = int(os.environ.get("NDUAL_JOBS", os.cpu_count() or 1))

# -ffp-contract=off keeps the bits equal between instruction sets and to NumPy. The two -fno-… change no result: they
# drop errno and the exception flags, which nobody reads here and which keep loops from becoming vectors.
KERNEL_FLAGS = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]
# Debug information of the 100,000 generated lines would cost 6 of 29 seconds and nine tenths of the file.
# gcc would clear the objects of a freelist with `rep stos`, which costs 10 ns for 150 bytes.
CORE_FLAGS = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
MSVC_FLAGS = ["/O2", "/std:c11", "/fp:precise"]
MEMSET_FLAG = "-mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
# The full vector width is stated because some compilers prefer half of it for v4.
ISA_FLAGS = {"v3": ["-march=x86-64-v3"], "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"]}


def mend_links() -> None:
    """Replace links that a zip archive or a checkout without symlinks turned into text files."""
    for name in ("reverse", "gpu"):
        link = ROOT / "ndual" / name
        if link.is_dir() or not (ROOT / name).is_dir():
            continue
        link.unlink(missing_ok=True)
        try:
            link.symlink_to(Path("..", name), target_is_directory=True)
        except OSError:
            shutil.copytree(ROOT / name, link)


def extra_flags() -> list[str]:
    """Flags that the environment asks for, in the compiler and the linker alike."""
    flags = ["-O0", "-g"] if DEBUG else []
    if SANITIZE:
        flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g"]
    return flags


class BuildKernels(build_ext):
    """Compiles `kernels.c` with the flags of each instruction set, and everything on all cores."""

    def build_extensions(self) -> None:
        """Probe the compiler, then build all objects of the kernels before the extensions link them."""
        unix = self.compiler.compiler_type == "unix"
        werror = WARNINGS if unix and os.environ.get("NDUAL_WERROR") == "1" else []
        core = [f for f in (*CORE_FLAGS, MEMSET_FLAG) if self.accepts(f)] if unix else MSVC_FLAGS
        kernel = [f for f in KERNEL_FLAGS if self.accepts(f)] if unix else MSVC_FLAGS
        x86 = unix and platform.machine().lower() in ("x86_64", "amd64") and sys.platform != "darwin"
        isas = {name: flags for name, flags in ISA_FLAGS.items() if x86 and all(map(self.accepts, flags))}
        jobs: list[tuple[Path, str, list[str], list[str]]] = [(SOURCES / "kernels.c", "baseline", [], kernel)]
        jobs += [(SOURCES / "kernels.c", name, flags, kernel) for name, flags in isas.items()]
        jobs += [(path, "", [], kernel) for path in sorted(SOURCES.glob("*.c")) if path.name != "kernels.c"]
        have = [(f"NDUAL_HAVE_{name.upper()}", None) for name in isas]

        def compile_kernel(job: tuple[Path, str, list[str], list[str]]) -> str:
            source, isa, flags, base = job
            folder = Path(self.build_temp, isa or "plain")
            known = self.compiler.object_filenames([str(source)], output_dir=str(folder))[0]
            if not self.force and not is_older(Path(known), [ROOT / "setup.py", *INPUTS]):
                return str(known)
            (built,) = self.compiler.compile(
                [str(source)],
                output_dir=str(folder),
                include_dirs=[str(SOURCES), str(CORE / "generated"), *self.extensions[0].include_dirs],
                macros=[*have, ("NDUAL_ISA", isa)] if isa else have,
                extra_postargs=[*base, *flags, *extra_flags(), *werror],
            )
            return str(built)

        with ThreadPoolExecutor(JOBS) as pool:
            objects = list(pool.map(compile_kernel, jobs))
        for extension in self.extensions:
            extension.extra_compile_args = [*core, *extra_flags(), *werror]
            extension.extra_link_args = extra_flags()
            if extension.name == "ndual._core._dual":
                extension.extra_objects = objects
        self.parallel = JOBS
        super().build_extensions()

    def accepts(self, flag: str) -> bool:
        """Whether the compiler takes a flag, tried on an empty function."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("int probe(void) { return 0; }\n")
            command = [*self.compiler.compiler_so, "-Werror", flag, "-c", str(source), "-o", str(source) + ".o"]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0


def is_older(path: Path, inputs: list[Path]) -> bool:
    """Whether a file is missing or older than one of its inputs."""
    return not path.is_file() or any(source.stat().st_mtime > path.stat().st_mtime for source in inputs)


def extensions() -> list[Any]:
    """The Cython extensions, each rebuilt when any file beside it changes."""
    macros: list[tuple[str, str | None]] = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]
    if COVERAGE:
        macros += [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]
    includes = [numpy.get_include(), str(SOURCES), str(CORE / "generated")]
    core = Extension(
        "ndual._core._dual",
        [str(CORE / "_dual.pyx")],
        include_dirs=includes,
        define_macros=macros,
        depends=[str(path) for path in INPUTS],
    )
    frontend = [
        Extension(
            f"ndual.frontend.{name}",
            [f"ndual/frontend/{name}.pyx"],
            include_dirs=includes,
            define_macros=macros,
            depends=[str(CORE / "_dual.pxd")],
        )
        for name in ("_gate", "_methods")
    ]
    reverse = Extension(
        "ndual.reverse._tape",
        ["ndual/reverse/_tape.pyx"],
        include_dirs=includes,
        define_macros=macros,
        depends=[str(path) for path in (*INPUTS, CORE / "_dual.pxd", *Path("ndual", "reverse").glob("*.pxi"))],
    )
    return list(cythonize([core, *frontend, reverse], compiler_directives={"linetrace": COVERAGE}, nthreads=0))


os.chdir(ROOT)
mend_links()
runpy.run_path(str(CORE / "generate.py"), run_name="__main__")
INPUTS = [p for p in sorted(CORE.rglob("*")) if p.suffix in (".pxi", ".h", ".c", ".pxd") and p.name != "_dual.c"]
setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
