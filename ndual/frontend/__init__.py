"""The front end: calls of NumPy and SciPy functions find their rules. It knows no mode and no formula."""
