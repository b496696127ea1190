"""Benchmarks for asv, named as users think. Fixed seeds, prepared objects, and one NumPy floor beside each group."""

import os

# One BLAS thread, set before NumPy is imported: threads make small products slower and every time unsteady.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
