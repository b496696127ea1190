"""Kernels and gradients on a device: bandwidth of every kernel, cold start, small arrays beside torch.

python asv_bench/gpu.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np


def best(call: Any, repeat: int = 7, number: int = 5) -> float:
    """The least seconds of a call on the device, by events."""
    import cupy as cp

    call()
    start, end = cp.cuda.Event(), cp.cuda.Event()
    times = []
    for _ in range(repeat):
        start.record()
        for _ in range(number):
            call()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end) / 1e3 / number)
    return min(times)


def kernels(sizes: list[int], widths: list[int]) -> None:
    """Forward kernels: bytes that must move, by the time."""
    import cupy as cp

    from ndual.gpu.storage import CupyStorage
    from ndual.rules.elementwise import TABLE

    storage = CupyStorage()
    print("| kernel | dtype | n | lanes | TB/s |\n|---|---|---|---|---|")
    for n in sizes:
        for dtype in ("f8", "f4"):
            for width in widths:
                item = np.dtype(dtype).itemsize
                if n * item * (3 * width + 3) > 110e9:
                    continue
                x, y = cp.linspace(0.1, 1, n, dtype=dtype), cp.linspace(1, 2, n, dtype=dtype)
                t = cp.ones((width, n), dtype)
                u = cp.ones((width, n), dtype)
                cases = {
                    "sin": (TABLE["sin"], [x], [t], 2 + 2 * width),
                    "exp": (TABLE["exp"], [x], [t], 2 + 2 * width),
                    "mul dual·const": (TABLE["multiply"], [x, y], [t, None], 3 + 2 * width),
                    "mul dual·dual": (TABLE["multiply"], [x, y], [t, u], 3 + 3 * width),
                    "add": (TABLE["add"], [x, y], [t, u], 3 + 3 * width),
                }
                for name, (row, values, lanes, moved) in cases.items():
                    seconds = best(lambda: storage.launch(row, None, values, lanes, width, None), number=3)
                    print(f"| {name} | {dtype} | {n:.0e} | {width} | {moved * n * item / seconds / 1e12:.2f} |")
                del x, y, t, u
            x, w = cp.linspace(0.1, 1, n, dtype=dtype), cp.ones(n, dtype)
            for name, moved in (("sin", 3), ("exp", 3), ("multiply", 5), ("add", 3)):
                row = TABLE[name]
                values = [x] * row.nin
                wanted = [True] * row.nin
                moved = {"multiply": 2 + 1 + 2, "add": 1 + 2}.get(name, 3)
                values = [x, x + 1] if row.nin == 2 else [x]
                seconds = best(lambda: storage.pull_all(row, None, values, x, wanted, w), number=3)
                print(
                    f"| {name} pullback | {dtype} | {n:.0e} | | {moved * n * dtype_size(dtype) / seconds / 1e12:.2f} |"
                )
            del x, w
            cp.get_default_memory_pool().free_all_blocks()


def dtype_size(dtype: str) -> int:
    """Bytes of a number."""
    return np.dtype(dtype).itemsize


COLD = """
import time, cupy as cp, ndual, ndual.gpu.calls
x = cp.linspace(0, 1, 1000); cp.cuda.Device().synchronize(); (x + 1).sum().get()
start = time.perf_counter()
g = ndual.value_and_grad(lambda x: cp.sum(cp.sin(cp.cos(cp.exp(x)))))(x)[1]
cp.cuda.Device().synchronize()
print(f"first gradient of sum(sin(cos(exp x))), empty kernel cache: {time.perf_counter() - start:.2f} s")
"""


def cold() -> None:
    """The first gradient of a process whose kernel cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", COLD], env={**os.environ, "CUPY_CACHE_DIR": folder}, check=True)


def gradients(sizes: list[int]) -> None:
    """Value and gradient of sum(sin(cos(exp x))), with a sync a call for small arrays."""
    import cupy as cp

    import ndual

    try:
        import torch
    except ImportError:
        torch = None
    print("| n | dtype | ndual µs | prepared µs | torch eager µs | CuPy value µs |\n|---|---|---|---|---|---|")
    for n in sizes:
        for dtype in ("f8", "f4"):
            x = cp.linspace(0, 1, n, dtype=dtype)

            def f(x: Any) -> Any:
                return cp.sum(cp.sin(cp.cos(cp.exp(x))))

            plain = ndual.value_and_grad(f, mode="reverse")
            prepared = ndual.prepare_gradient(f, x, mode="reverse")
            calls = {"ndual": lambda: plain(x), "prepared": lambda: prepared(x)}
            if torch is not None:
                z = torch.as_tensor(x.get(), device="cuda").requires_grad_()

                def eager() -> Any:
                    z.grad = None
                    torch.sum(torch.sin(torch.cos(torch.exp(z)))).backward()

                calls["torch"] = eager
            calls["value"] = lambda: f(x)
            times: dict[str, list[float]] = {name: [] for name in calls}
            sync = torch.cuda.synchronize if torch is not None else cp.cuda.Device().synchronize
            for _ in range(60 if n <= 1e6 else 8):
                for name, call in calls.items():
                    call()
                    cp.cuda.Device().synchronize()
                    start = time.perf_counter()
                    for _ in range(5):
                        call()
                        sync()
                        cp.cuda.Device().synchronize()
                    times[name].append((time.perf_counter() - start) / 5)
            row = [f"{min(times[k]) * 1e6:.0f}" if k in times else "" for k in ("ndual", "prepared", "torch", "value")]
            print(f"| {n:.0e} | {dtype} | {' | '.join(row)} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size")
    quick = parser.parse_args().quick
    cold()
    gradients([1000] if quick else [1000, 100_000, 10_000_000, 100_000_000])
    kernels([10_000_000] if quick else [10_000_000, 100_000_000], [1, 4] if quick else [1, 4, 8, 16])


if __name__ == "__main__":
    main()
