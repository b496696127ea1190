"""What importing costs: in a fresh process each time, with NumPy and SciPy already loaded."""


def timeraw_import_ndual():
    """Import ndual where NumPy is there already."""
    return "import ndual", "import numpy"


def timeraw_import_ndual_scipy():
    """Import the adapters where SciPy is there already."""
    return "import ndual.scipy", "import numpy, scipy.optimize, scipy.special, scipy.linalg"
