"""Derivatives of CuPy code, an add-on to ndual that is not written yet."""
