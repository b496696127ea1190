"""``python -m ndual`` runs the main job. The work is in :mod:`ndual.job`; only the exit status is decided here."""

from __future__ import annotations

import sys

from ndual.job import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
