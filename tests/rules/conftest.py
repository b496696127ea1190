"""Lets the rule tests run where the compiled core has not been built: the rules need none of it."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

try:
    import ndual  # noqa: F401
except ImportError:
    _spec = importlib.util.find_spec("ndual")
    _bare = types.ModuleType("ndual")
    _bare.__path__ = [str(HERE.parent.parent / "ndual")]
    for _name in [m for m in sys.modules if m == "ndual" or m.startswith("ndual.")]:
        del sys.modules[_name]
    sys.modules["ndual"] = _bare


@pytest.fixture
def rng() -> object:
    """A generator with a fixed seed."""
    import numpy as np

    return np.random.default_rng(20261129)
