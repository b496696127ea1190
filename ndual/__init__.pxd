# Marks the package for cimport; the declarations are in ndual/_core/__init__.pxd.
