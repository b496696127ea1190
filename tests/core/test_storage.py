"""Duals of a memory that the host cannot read: what the core does must go through the storage protocol alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fake_device import Device, FakeStorage, Namespace, outside

import ndual
from ndual import _core
from ndual.rules.elementwise import TABLE

WIDTH = 3


@pytest.fixture
def pair():
    """``pair(value)``: the same dual in host memory and on the device."""
    storage = FakeStorage(Namespace())
    _core.register_storage(storage)
    rng = np.random.default_rng(3)
    with _core.Level(WIDTH) as level:

        def make(value):
            value = np.asarray(value)
            t = rng.uniform(-1, 1, (WIDTH, *value.shape)).astype(value.dtype)
            return _core.dual(value, t, level), _core.dual(Device(value.copy()), Device(t.copy()), level)

        yield make
    _core.unregister_storage(storage)


def agree(host, device, rtol=1e-13):
    if isinstance(host, tuple | list):
        for a, b in zip(host, device, strict=True):
            agree(a, b, rtol)
        return
    assert _core.is_dual(host) == _core.is_dual(device)
    if not _core.is_dual(host):
        np.testing.assert_array_equal(outside(device), host)
        return
    value, t = (part._hidden for part in _core.split(device))
    np.testing.assert_allclose(value, _core.primal(host), rtol=rtol)
    np.testing.assert_allclose(t, _core.lanes(host), rtol=rtol, atol=1e-14)
    assert device.dtype == host.dtype
    assert device.shape == host.shape


X = np.arange(1.0, 13.0).reshape(3, 4) / 4
A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
NUMPY_ROWS = [name for name, row in TABLE.items() if row.serves[0].startswith("numpy.") and name not in ("clip",)]


@pytest.mark.parametrize("name", NUMPY_ROWS)
def test_rows(pair, name):
    row = TABLE[name]
    draw = random.Random(name)
    points = [np.array(domain.sample(draw, 6)) for domain in row.domain]
    hosts, devices = [], []
    for v, partial in zip(points, row.partials, strict=True):
        if partial is None:
            hosts.append(v.astype(int))
            devices.append(Device(v.astype(int)))
        else:
            host, device = pair(v)
            hosts.append(host)
            devices.append(device)
    agree(_core.apply_row(name, *hosts), _core.apply_row(name, *devices), rtol=1e-11)


def test_it_is_of_the_devices_class(pair):
    _, d = pair(X)
    assert isinstance(d, Device)
    assert not isinstance(d, np.ndarray)
    assert d.device == "fake"
    assert d.shape == (3, 4)
    assert d.dtype == float


CALLS = {
    "operators": lambda x: (x + 1) * x / (2 - x) ** 2 - (-x) + 1 / x + 2**x,
    "inplace": lambda x: x.__imul__(2.0).__iadd__(x).__isub__(1.0).__itruediv__(x),
    "sum": np.sum,
    "sum axis": lambda x: np.sum(x, axis=0),
    "method": lambda x: x.sum(1),
    "mean": lambda x: np.mean(x, axis=1, keepdims=True),
    "prod": lambda x: np.prod(x, axis=0),
    "max": lambda x: np.max(x, axis=1),
    "var": np.var,
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "matmul": lambda x: x @ x.T,
    "dot": lambda x: np.dot(x, x.T),
    "outer": lambda x: np.outer(x[0], x[1]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "transpose": lambda x: x.transpose(1, 0),
    "reshape": lambda x: x.reshape(2, -1),
    "ravel": lambda x: x.ravel(),
    "basic": lambda x: (x[0], x[1, 2], x[:, ::-1], x[..., None], x[1:, 1]),
    "advanced": lambda x: (x[[0, 2]], x[:, [1, 1]], x[[0, 1], [2, 3]]),
    "concatenate": lambda x: np.concatenate([x, x * 2], axis=1),
    "stack": lambda x: np.stack([x, -x]),
    "sort": lambda x: np.sort(x[::-1], axis=0),
    "where": lambda x: np.where(x > 1, x, x * x),
    "maximum": lambda x: np.maximum(x, 1.0),
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(np.float32),
    "solve": lambda x: np.linalg.solve(x[:, :3] * x[:, :3].T + x[:, :3], x),
    "real": lambda x: x.real,
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)) * 1.0,
    "norm": lambda x: np.linalg.norm(x),
    "exp sum": lambda x: np.log(np.sum(np.exp(x))),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(pair, name):
    host, device = pair(X)
    agree(CALLS[name](host), CALLS[name](device))


@pytest.mark.parametrize(
    "f", [np.linalg.inv, np.linalg.det, np.linalg.cholesky, np.linalg.slogdet, np.trace, np.diag, np.tril]
)
def test_matrices(pair, f):
    host, device = pair(A)
    agree(f(host), f(device), rtol=1e-12)


@pytest.mark.parametrize("index", [0, (1, 2), slice(1, None), (..., 0), [0, 2], (slice(None), [1, 0])], ids=range(6))
def test_writes(pair, index):
    host, device = pair(X)
    value, other = pair(np.full(X[index].shape, 7.0))
    host[index] = value
    device[index] = other
    agree(host, device)
    host[index] = 1.5
    device[index] = 1.5
    agree(host, device)


def test_writes_through_views(pair):
    host, device = pair(X)
    for d in (host, device):
        view = d[1:].T
        view[0] = 3.0
        d[0] *= 2.0
    agree(host, device)


def test_the_users_memory_is_not_changed(pair):
    value, t = Device(X.copy()), Device(np.ones((WIDTH, 3, 4)))
    pair(X)
    d = _core.dual(value, t, _core.current_level())
    d *= 2.0
    d[0] = 1.0
    assert (value._hidden == X).all()
    assert (t._hidden == 1).all()


def test_out_and_where(pair):
    host, device = pair(X)
    out, device_out = pair(X * 0)
    mask = X > 1
    np.sin(host, out=out)
    assert np.sin(device, out=device_out) is device_out
    agree(out, device_out)
    np.multiply(host, 3.0, out=out, where=mask)
    np.multiply(device, 3.0, out=device_out, where=Device(mask))
    agree(out, device_out)


def test_host_and_device_do_not_mix(pair):
    host, device = pair(X)
    for mix in (lambda: host + device, lambda: device * host, lambda: device.__setitem__(0, host[0]),
                lambda: host.__setitem__(0, device[0]), lambda: np.add(device, host)):  # fmt: skip
        with pytest.raises((ndual.NdualError, TypeError)):
            mix()


def test_a_stale_device_dual_raises(pair):
    _, d = pair(X)
    _core.current_level().__exit__()
    for use in (lambda: d + 1, lambda: d[0], lambda: np.sin(d), lambda: d.__setitem__(0, 1.0)):
        with pytest.raises(ndual.StaleDualError):
            use()
