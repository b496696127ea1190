# The structs of ndual for other people's Cython code: ``from ndual._core cimport NDual8, nd8_multiply``. They need the
# header in ndual.get_include(), and nothing of ndual at run time.
include "generated/structs.pxi"
