"""Three problems of NIST's Statistical Reference Datasets for nonlinear regression, with their certified answers.

Data and models only: public reference data (https://www.itl.nist.gov/div898/strd/), and the models as a user would
write them in plain NumPy. Nothing in here knows that derivatives exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def misra1a(b: Any, x: Any) -> Any:
    """Dental research, monomolecular adsorption: two parameters."""
    return b[0] * (1.0 - np.exp(-b[1] * x))


def mgh09(b: Any, x: Any) -> Any:
    """Kowalik and Osborne's rational function: four parameters, hard from the far start."""
    square = x * x
    return b[0] * (square + b[1] * x) / (square + b[2] * x + b[3])


def thurber(b: Any, x: Any) -> Any:
    """Semiconductor electron mobility, cubic over cubic: seven parameters."""
    top = b[0] + x * (b[1] + x * (b[2] + x * b[3]))
    return top / (1.0 + x * (b[4] + x * (b[5] + x * b[6])))


@dataclass(frozen=True, eq=False)
class Dataset:
    """One regression problem: the model, its data, NIST's two starting points and the certified solution."""

    name: str
    model: Callable[[Any, Any], Any]
    x: np.ndarray
    y: np.ndarray
    starts: tuple[tuple[float, ...], tuple[float, ...]]
    certified: tuple[float, ...]
    sum_of_squares: float

    def residual(self, b: Any) -> Any:
        """Model minus data, what ``scipy.optimize.least_squares`` minimises."""
        return self.model(b, self.x) - self.y


def digits(found: Any, certified: Any) -> float:
    """Count the leading digits that agree: the smallest log relative error of the parameters, at most 11.

    Examples
    --------
    >>> round(digits([2.0001], [2.0]), 1)
    4.3
    """
    want = np.asarray(certified, dtype=float)
    error = np.abs(np.asarray(found, dtype=float) - want) / np.abs(want)
    with np.errstate(divide="ignore", invalid="ignore"):
        agree = -np.log10(error)
    return float(np.clip(np.nan_to_num(np.min(agree), nan=0.0, posinf=11.0), 0.0, 11.0))


def _numbers(text: str) -> np.ndarray:
    return np.array([float(word) for word in text.split()])


_THURBER = _numbers(
    """
    80.574 -3.067  84.248 -2.981  87.264 -2.921  87.195 -2.912  89.076 -2.840  89.608 -2.797  89.868 -2.702
    90.101 -2.699  92.405 -2.633  95.854 -2.481  100.696 -2.363  101.060 -2.322  401.672 -1.501  390.724 -1.460
    567.534 -1.274  635.316 -1.212  733.054 -1.100  759.087 -1.046  894.206 -0.915  990.785 -0.714
    1090.109 -0.566  1080.914 -0.545  1122.643 -0.400  1178.351 -0.309  1260.531 -0.109  1273.514 -0.103
    1288.339 0.010  1327.543 0.119  1353.863 0.377  1414.509 0.790  1425.208 0.963  1421.384 1.006
    1442.962 1.115  1464.350 1.572  1468.705 1.841  1447.894 2.047  1457.628 2.200
    """
).reshape(-1, 2)

DATASETS = (
    Dataset(
        name="Misra1a",
        model=misra1a,
        x=_numbers("77.6 114.9 141.1 190.8 239.9 289.0 332.8 378.4 434.8 477.3 536.8 593.1 689.1 760.0"),
        y=_numbers("10.07 14.73 17.94 23.93 29.61 35.18 40.02 44.82 50.76 55.05 61.01 66.40 75.47 81.78"),
        starts=((500.0, 1e-4), (250.0, 5e-4)),
        certified=(2.3894212918e02, 5.5015643181e-04),
        sum_of_squares=1.2455138894e-01,
    ),
    Dataset(
        name="MGH09",
        model=mgh09,
        x=_numbers("4 2 1 .5 .25 .167 .125 .1 .0833 .0714 .0625"),
        y=_numbers(".1957 .1947 .1735 .16 .0844 .0627 .0456 .0342 .0323 .0235 .0246"),
        starts=((25.0, 39.0, 41.5, 39.0), (0.25, 0.39, 0.415, 0.39)),
        certified=(1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01),
        sum_of_squares=3.0750560385e-04,
    ),
    Dataset(
        name="Thurber",
        model=thurber,
        x=_THURBER[:, 1].copy(),
        y=_THURBER[:, 0].copy(),
        starts=((1000.0, 1000.0, 400.0, 40.0, 0.7, 0.3, 0.03), (1300.0, 1500.0, 500.0, 75.0, 1.0, 0.4, 0.05)),
        certified=(
            1.2881396800e03,
            1.4910792535e03,
            5.8323836877e02,
            7.5416644291e01,
            9.6629502864e-01,
            3.9797285797e-01,
            4.9727297349e-02,
        ),
        sum_of_squares=5.6427082397e03,
    ),
)
