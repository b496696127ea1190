"""Where the public C header lies. Nothing else belongs here: it must import without the compiled core."""

from __future__ import annotations

from pathlib import Path


def get_include() -> str:
    """Return the folder of ``ndual_structs.h``, for the ``include_dirs`` of an extension.

    Returns
    -------
    str
        An absolute path.

    Examples
    --------
    >>> import os, ndual
    >>> os.path.isfile(os.path.join(ndual.get_include(), "ndual_structs.h"))
    True
    """
    return str(Path(__file__).resolve().parent / "generated")
