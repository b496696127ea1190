"""The main job behind ``python -m ndual``: real problems, solved with exact derivatives and with differences.

Everything in here is a user of the public surface; the library itself never imports it.
"""

from __future__ import annotations

from ndual.job.run import main

__all__ = ["main"]
