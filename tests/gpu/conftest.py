"""Two memories that are not the host's: one made of NumPy for every machine, and CuPy's where there is a device."""

from __future__ import annotations

import numpy as np
import pytest
from fake_device import Device, FakeStorage, Namespace

from ndual import _core

try:
    import cupy

    cupy.cuda.runtime.getDeviceCount()
    REASON = ""
except Exception as error:  # CuPy has errors of its own for a missing driver
    REASON = f"needs CuPy and a device: {type(error).__name__}"


class Memory:
    """Arrays of a device: from the host's, and back."""

    def __init__(self, xp, array, host):
        self.xp, self.array, self._host = xp, array, host

    def host(self, obj):
        """The arrays of a result as the host's, in whatever they are nested."""
        if isinstance(obj, tuple | list):
            return type(obj)(map(self.host, obj))
        return self._host(obj) if isinstance(obj, self.xp.ndarray) else obj


@pytest.fixture(params=["fake", "cupy"])
def memory(request):
    """A memory that the host cannot read."""
    if request.param == "cupy":
        if REASON:
            pytest.skip(REASON)
        yield Memory(cupy, cupy.asarray, cupy.asnumpy)
        return
    storage = FakeStorage(Namespace())
    _core.register_storage(storage)
    yield Memory(storage.xp, lambda a: Device(np.array(a)), lambda x: x._hidden)
    _core.unregister_storage(storage)


@pytest.fixture
def device():
    """CuPy, where there is a device."""
    if REASON:
        pytest.skip(REASON)
    return cupy
