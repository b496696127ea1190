"""Rows made at run time beside rows of the table that compute the like: value and derivatives, and the ratio.

Run it as a script. ELU takes an exponential as expit does; softplus is logaddexp of x and 0.
"""

import contextlib
import timeit

import numpy as np
import scipy.special

import ndual
from ndual import _core

ELU = ndual.elementwise("elu", "x0 if x0 > 0 else exp(x0) - 1", "1 if x0 > 0 else y + 1")
SOFTPLUS = ndual.elementwise("softplus", "log1p(exp(-abs(x0))) + maximum(x0, 0)", "expit(x0)")
PAIRS = {
    "elu / expm1": (ELU, np.expm1),
    "elu / expit": (ELU, scipy.special.expit),
    "softplus / log_expit": (SOFTPLUS, scipy.special.log_expit),
    "softplus / logaddexp": (SOFTPLUS, lambda x: np.logaddexp(x, 0.0)),
}


def way(kind, f, x, level):
    """What to time of a function."""

    def total(x):
        return np.sum(f(x))

    if kind == "tangent":
        push = ndual.prepare_derivative(total, x)
        return lambda: push((x,), (x,))
    if kind == "gradient":
        pull = ndual.prepare_gradient(total, x, mode="reverse")
        return lambda: pull(x)
    dual = _core.dual(x, np.random.default_rng(1).standard_normal((4, *x.shape)), level)
    return lambda: f(dual)


def pair_of_times(a, b):
    """The best times of two functions, measured in turn."""
    count = max(1, int(2e-3 / timeit.timeit(a, number=1)))
    times = [[timeit.timeit(g, number=count) / count for g in (a, b)] for _ in range(40)]
    return [min(column) for column in zip(*times, strict=True)]


def main():
    """Print the table."""
    print(f"{'row / built-in':22}{'n':>9}{'way':>10}{'made':>12}{'built-in':>12}{'ratio':>8}")
    for name, (made, built) in PAIRS.items():
        for n in (10, 1000, 100_000):
            x = np.random.default_rng(0).standard_normal(n)
            for kind in ("tangent", "gradient", "4 lanes"):
                level = _core.Level(4)
                with level if kind == "4 lanes" else contextlib.nullcontext():
                    a, b = pair_of_times(*(way(kind, f, x, level) for f in (made, built)))
                print(f"{name:22}{n:9}{kind:>10}{a * 1e6:10.2f}us{b * 1e6:10.2f}us{a / b:8.2f}")


if __name__ == "__main__":
    main()
