"""Derivatives of CuPy code, from the same rules.

The add-on is installed when a function is differentiated and CuPy has been imported. `source` writes CUDA from the
table and needs no device; `storage` and `calls` need CuPy.
"""
