"""Kernels and gradients on a device: sums, factors, bandwidth of every kernel, cold start, arrays beside torch.

python asv_bench/gpu.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import cupy as cp
import numpy as np

import ndual
from ndual import _core
from ndual.gpu.namespace import NAMESPACE
from ndual.gpu.storage import CupyStorage
from ndual.reverse.apply import tape
from ndual.rules.elementwise import TABLE

MOST = 110e9
"""Bytes of device memory that a case may take."""


def best(call: Callable[[], Any], n: int = 100_000_000, repeat: int = 12) -> float:
    """The least seconds of a call over arrays of n cells, by events around so many that the host is ahead.

    For a fifth of a second at least: after a heavy load the clock is down for some tens of milliseconds.
    """
    call()
    number = min(max(8, 500_000_000 // n), 50)
    start, end = cp.cuda.Event(), cp.cuda.Event()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < repeat or time.perf_counter() - begin < 0.2:
        for _ in range(2):  # else the device waits for the host within the first one that is timed
            call()
        start.record()
        for _ in range(number):
            call()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end) / 1e3 / number)
    return min(times)


def cases(n: int, dtype: str, width: int) -> dict[str, tuple[str, list[Any], list[Any], int]]:
    """Rows, operands, their lanes, and how many arrays of n cells must move at least."""
    x, y = cp.linspace(0.1, 1, n).astype(dtype), cp.linspace(1, 2, n).astype(dtype)
    t, u = cp.ones((width, n), dtype), cp.ones((width, n), dtype)
    cp.get_default_memory_pool().free_all_blocks()  # of which results would be parts
    return {
        "sin": ("sin", [x], [t], 2 + 2 * width),
        "exp": ("exp", [x], [t], 2 + 2 * width),
        "mul dual·const": ("multiply", [x, y], [t, None], 3 + 2 * width),
        "mul dual·dual": ("multiply", [x, y], [t, u], 3 + 3 * width),
        "add": ("add", [x, y], [t, u], 3 + 3 * width),
    }


def kernels(sizes: list[int], widths: list[int], dtypes: tuple[str, ...]) -> None:
    """Bytes that must move, by the time."""
    storage = CupyStorage()
    print(f"\n| kernel | dtype | n | {' | '.join(f'{w} lanes' for w in widths)} |")
    print(f"|---|---|---|{'---|' * len(widths)}")
    for n in sizes:
        for dtype in dtypes:
            nbytes = n * np.dtype(dtype).itemsize
            found: dict[str, list[str]] = {}
            for width in widths:
                if nbytes * (3 * width + 3) > MOST:
                    continue
                for name, (row, values, lanes, moved) in cases(n, dtype, width).items():
                    seconds = best(partial(storage.launch, TABLE[row], None, values, lanes, width, None), n)
                    found.setdefault(name, []).append(f"{moved * nbytes / seconds / 1e12:.2f}")
                cp.get_default_memory_pool().free_all_blocks()
            for name, speeds in found.items():
                print(f"| {name} | {dtype} | {n:.0e} | {' | '.join(speeds)} |")
    print("\n| pullback | dtype | n | TB/s |\n|---|---|---|---|")
    for n in sizes:
        for dtype in dtypes:
            x, w = cp.linspace(0.1, 1, n).astype(dtype), cp.ones(n, dtype)
            for name, values, moved in (
                ("sin", [x], 3),
                ("exp", [x], 3),
                ("multiply", [x, x + 1], 5),
                ("add", [x, x], 3),
            ):
                call = partial(storage.pull_all, TABLE[name], None, values, x, [True] * len(values), w)
                print(f"| {name} | {dtype} | {n:.0e} | {moved * x.nbytes / best(call, n) / 1e12:.2f} |")


SUMS = {
    "sum(cos x)": lambda x: cp.cos(x).sum(),
    "sum(x * x)": lambda x: (x * x).sum(),
    "sum(x)": lambda x: x.sum(),
}


def sums(n: int, widths: list[int]) -> None:
    """Times of sums, divided by what it takes to read their operands at 4.3 TB/s; value alone as a tape has it."""
    print(f"\n| sum, n = {n:.0e} | dtype | value | {' | '.join(f'{w} lanes' for w in widths)} |")
    print(f"|---|---|---|{'---|' * len(widths)}")
    for dtype in ("f8", "f4"):
        x = cp.linspace(0, 1, n, dtype=dtype)
        least = x.nbytes / 4.3e12
        for name, f in SUMS.items():
            with _core.Level(1, tape()) as level:
                found = [best(partial(f, _core.lift_traced(x, level, False))) / least]
            for width in widths:
                with _core.Level(width) as level:
                    d = _core.dual(x, cp.ones((width, n), dtype), level)
                    found.append(best(partial(f, d)) / (1 + width) / least)
                    del d
                cp.get_default_memory_pool().free_all_blocks()
            print(f"| {name} | {dtype} | {' | '.join(f'{ratio:.2f}' for ratio in found)} |")


def factors(sizes: list[int]) -> None:
    """Cholesky factors: CuPy's, those of derivatives, and value and gradient of a function of one."""
    print("\n| cholesky, n | dtype | CuPy µs | ours µs | value and gradient µs |\n|---|---|---|---|---|")
    for n in sizes:
        for dtype in ("f8", "f4"):
            a = cp.random.default_rng(1).standard_normal((n, n))
            a = (a @ a.T + n * cp.eye(n)).astype(dtype)
            gradient = ndual.value_and_grad(lambda a: cp.sum(cp.log(cp.diag(cp.linalg.cholesky(a)))), mode="reverse")
            calls = [partial(f, a) for f in (cp.linalg.cholesky, NAMESPACE.cholesky, gradient)]
            print(f"| {n} | {dtype} | {' | '.join(f'{best(call, repeat=5) * 1e6:.0f}' for call in calls)} |")


COLD = """
import time, cupy as cp, ndual, ndual.gpu.calls
x = cp.linspace(0, 1, 1000); (x + 1).sum().get()
start = time.perf_counter()
g = ndual.value_and_grad(lambda x: cp.sum(cp.sin(cp.cos(cp.exp(x)))))(x)[1]
cp.cuda.Device().synchronize()
print(f"first gradient of sum(sin(cos(exp x))), empty kernel cache: {time.perf_counter() - start:.2f} s")
"""


def cold() -> None:
    """The first gradient of a process whose kernel cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", COLD], env={**os.environ, "CUPY_CACHE_DIR": folder}, check=True)


def calls_at(n: int, dtype: str) -> dict[str, Callable[[], Any]]:
    """What computes value and gradient of sum(sin(cos(exp x))), and the value alone."""
    x = cp.linspace(0, 1, n, dtype=dtype)

    def f(x: Any) -> Any:
        return cp.sum(cp.sin(cp.cos(cp.exp(x))))

    calls = {
        "ndual": partial(ndual.value_and_grad(f, mode="reverse"), x),
        "prepared": partial(ndual.prepare_gradient(f, x, mode="reverse"), x),
        "value": partial(f, x),
    }
    try:
        import torch
    except ImportError:
        return calls
    z = torch.as_tensor(x.get(), device="cuda").requires_grad_()

    def eager() -> None:
        z.grad = None
        torch.sum(torch.sin(torch.cos(torch.exp(z)))).backward()

    return calls | {"torch": eager}


def gradients(sizes: list[int]) -> None:
    """Least times of one call and a sync, in turns; the last column is a quotient of medians."""
    sync = cp.cuda.runtime.deviceSynchronize
    columns = ("ndual", "prepared", "torch", "value")
    print(f"\n| n | dtype | {' | '.join(f'{c} µs' for c in columns)} | prepared / torch |")
    print(f"|---|---|{'---|' * len(columns)}---|")
    for n in sizes:
        for dtype in ("f8", "f4"):
            calls = calls_at(n, dtype)
            times: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(200 if n <= 1e6 else 12):
                for name, call in calls.items():
                    call()
                    sync()
                    start = time.perf_counter()
                    for _ in range(5):
                        call()
                        sync()
                    times[name].append((time.perf_counter() - start) / 5)
            row = [f"{min(times[k]) * 1e6:.0f}" if k in times else "" for k in columns]
            if "torch" in times:
                row.append(f"{median(times['prepared']) / median(times['torch']):.2f}")
            print(f"| {n:.0e} | {dtype} | {' | '.join(row)} |")
            del calls
            cp.get_default_memory_pool().free_all_blocks()


def bodies(sizes: list[int]) -> None:
    """A kernel of one's own: its value, and value and gradient of the sum of its results by its body."""
    own = cp.ElementwiseKernel("T x", "T y", "T r = exp(x); y = x > 0.5 ? sin(r) * x : r * r", "own")
    print("\n| kernel of one's own | n | dtype | value µs | value and gradient µs |\n|---|---|---|---|---|")
    for n in sizes:
        for dtype in ("f8", "f4"):
            x = cp.linspace(0, 1, n, dtype=dtype)
            gradient = ndual.prepare_gradient(lambda x: cp.sum(own(x)), x, mode="reverse")
            times = [best(partial(call, x), n, 5) * 1e6 for call in (lambda x: cp.sum(own(x)), gradient)]
            print(f"| own | {n:.0e} | {dtype} | {times[0]:.0f} | {times[1]:.0f} |")


def second(sizes: list[int]) -> None:
    """Value, gradient and the product of the Hessian with a vector."""
    print("\n| product with the Hessian | n | dtype | µs |\n|---|---|---|---|")
    for n in sizes:
        x = cp.linspace(0, 1, n)
        call = partial(ndual.hvp, lambda x: cp.sum(cp.sin(cp.cos(cp.exp(x))) * x), (x,), (cp.ones(n),))
        print(f"| sum(x sin(cos(exp x))) | {n:.0e} | f8 | {best(call, 10_000_000, 5) * 1e6:.0f} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size")
    quick = parser.parse_args().quick
    cold()
    gradients([1000] if quick else [1000, 100_000, 10_000_000, 100_000_000])
    sums(10_000_000 if quick else 100_000_000, [1, 4, 8])
    factors([2048])
    kernels([10_000_000] if quick else [10_000_000, 100_000_000], [1, 4] if quick else [1, 4, 8, 16], ("f8", "f4"))
    kernels([10_000_000 if quick else 100_000_000], [1, 4], ("f2", "c8", "c16"))
    bodies([1000] if quick else [1000, 100_000_000])
    second([1000] if quick else [1000, 1_000_000, 10_000_000])


if __name__ == "__main__":
    main()
