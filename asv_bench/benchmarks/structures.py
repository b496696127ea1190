"""Value and gradient of small functions of structures: what finding, building and checking them costs."""

import sys
from pathlib import Path

import ndual

sys.path.insert(0, str(Path(__file__).parents[1]))
from structures import CASES


class Structures:
    """An object of ten numbers beside an array of ten."""

    params = (list(CASES), ["forward", "reverse"])
    param_names = ("case", "mode")

    def setup(self, case, mode):
        self.function, self.x = CASES[case]
        self.prepared = ndual.prepare_gradient(self.function, self.x, mode=mode)
        self.plain = ndual.value_and_grad(self.function, mode=mode)
        for _ in range(3):
            self.plain(self.x)

    def time_prepared(self, case, mode):
        self.prepared(self.x)

    def time_value_and_grad(self, case, mode):
        self.plain(self.x)

    def time_prepare(self, case, mode):
        ndual.prepare_gradient(self.function, self.x, mode=mode)
