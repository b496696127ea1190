"""Whole functions that work in place. Not a test itself."""

import numpy as np
from programs_that_write import MASK, W

FUNCTIONS = {}


def program(f):
    FUNCTIONS[f.__name__] = f
    return f


@program
def lazy_zeros(x):
    out = np.zeros(6)
    for i in range(1, 6):
        out[i] = x[i] * out[i - 1] + x[0]
    return np.sum(out * W)


@program
def lazy_empty_rows(x):
    out = np.empty((3, 6))
    out[0] = x
    for k in range(2):
        out[k + 1] = np.sin(out[k]) * out[k]
    return np.sum(out[-1] * W) + out[1, 2]


@program
def lazy_full_mask(x):
    out = np.full(6, 2.0)
    first = out * x  # reads out while it is constant
    out[MASK] = x[:3]
    second = out * x
    out[:2] = 7.0
    return np.sum(first) + np.sum(second * W) + np.sum(out * x * x)


@program
def constant_buffer_changes(x):
    c = np.ones(6)
    a = x * c
    c *= 3.0
    b = x * x * c
    c[1:3] = 0.5
    np.copyto(c[3:], 4.0)
    d = np.sin(x) * c
    np.add.at(c, [0, 0], 1.0)
    e = np.cos(x) * c
    c.fill(2.0)
    c.sort()
    return np.sum(a) + np.sum(b) + np.sum(d) + np.sum(e)


@program
def constant_buffer_functions(x):
    c = np.arange(1.0, 7.0)
    out = 0.0
    for write in (
        lambda: np.multiply(c, 2.0, out=c),
        lambda: np.put(c, [1], 9.0),
        lambda: np.place(c, MASK, [3.0]),
        lambda: np.putmask(c, MASK, 2.5),
        lambda: np.fill_diagonal(c.reshape(2, 3), 0.3),
        lambda: np.cumsum(c, out=c),
        lambda: c[::-1].sort(),
        lambda: c.partition(2),
        lambda: np.clip(c, 1, 2, out=c),
        lambda: np.add.at(c, [1, 2], 3.0),
        lambda: np.random.default_rng(1).shuffle(c),
        lambda: np.random.default_rng(1).random(out=c),
        lambda: c.__setitem__(slice(None), 1.5),
        lambda: c.reshape(3, 2).T.__setitem__((0, 1), 2.5),
        lambda: c.put([0], 4.5),
        lambda: c.itemset(0, 1.0) if hasattr(c, "itemset") else c.__setitem__(0, 1.0),
        lambda: c.flat.__setitem__(slice(2, 4), 0.1),
    ):
        out = out + np.sum(c * np.sin(x))
        write()
    return out + np.sum(c * x)


@program
def partly_active(x):
    c = np.zeros((2, 6))
    c[0] = x
    y = c * c
    c[1] = 2.0
    z = c[1] * x
    c[1] *= 5.0
    c[0, 2:4] = c[1, 2:4]
    return np.sum(y) + np.sum(z * z) + np.sum(c * W)


@program
def accumulate_in_a_list(x):
    rows = [np.zeros(6) for _ in range(3)]
    rows[0] += x
    rows[1] += rows[0] * rows[0]
    rows[2] -= rows[1] * x
    rows[0][:] = rows[2]
    return np.sum(rows[0] * rows[1]) + rows[2][3]


@program
def temporary_is_overwritten(x):
    t = np.empty(6)
    total = 0.0
    for k in range(4):
        np.multiply(x, k + 1.0, out=t)
        np.sin(t, out=t)
        t *= t
        total = total + t.sum()
    return total


@program
def burgers(x):
    u = x.copy()
    for _ in range(5):
        u[1:] -= 0.05 * u[1:] * (u[1:] - u[:-1])
        u[0] = u[-1]
    return np.sum(u * u)


@program
def cholesky_by_hand(x):
    a = np.outer(x, x) * 0.1 + np.diag(2.0 + x * x)
    n = len(a)
    for j in range(n):
        a[j, j] = np.sqrt(a[j, j] - a[j, :j] @ a[j, :j])
        for i in range(j + 1, n):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
    return np.sum(np.log(np.diag(a))) + a[5, 2]


@program
def lu_in_place(x):
    a = np.outer(x, W) * 0.1 + np.diag(2.0 + x * x)
    for k in range(5):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(np.log(np.diag(a))) + a[5, 2]


@program
def sorting_by_swaps(x):
    u = x * x
    n = len(u)
    for i in range(n):
        for j in range(n - 1 - i):
            if u[j] > u[j + 1]:
                u[j], u[j + 1] = u[j + 1], u[j]
    return np.sum(u * W)


@program
def dictionary_of_views(x):
    u = np.sin(x)
    parts = {"a": u[:3], "b": u[3:]}
    parts["a"] *= parts["b"]
    parts["b"][...] = parts["a"] ** 2
    return np.sum(u * W)


@program
def x_is_overwritten(x):
    y = x[1:3]
    y *= 2
    return np.sum(x**2)


@program
def x_becomes_constant(x):
    y = np.sum(x * x)
    x[...] = 3.0
    return y + np.sum(x)


@program
def complex_parts(x):
    z = x[:3] + 1j * x[3:]
    w = z * z
    z.real[...] = x[3:] ** 2
    z.imag *= 2.0
    z[1] = w[0]
    return np.sum(np.abs(z) ** 2) + np.sum(w.real)


@program
def numbers_in_and_out(x):
    u = np.zeros(3)
    a = x[0] * x[1]
    u[0] = a
    b = u[0] * x[2]
    u[0] = b
    u[1] = u[0] * u[0]
    u[2] = 1.0
    u[2] += u[1]
    c = u[2]
    u[2] = 0.0
    return c * x[3] + u.sum()


@program
def nested_lists_of_numbers(x):
    u = [0.0] * 6
    for i in range(6):
        u[i] = x[i] * (u[i - 1] if i else 1.0)
    return np.sum(np.array(u) * W)


@program
def float32_buffer(x):
    u = np.zeros(6)
    u[:3] = (x[:3] * x[3:]).astype(np.float64)
    v = u.reshape(2, 3)
    v[1] = v[0] ** 2
    return np.sum(u * W)


@program
def insertion(x):
    u = np.insert(x, 2, x[0] * x[1])
    u = np.append(u, u[2])
    u[np.argmax(u)] *= 0.5
    return np.sum(u * u)


@program
def rolled(x):
    u = np.roll(x, 1)
    u[0] = 0.0
    u += np.roll(u, -1) * x
    return np.sum(u * W)


@program
def snapshots_by_name(x):
    old = x.copy()
    u = x.copy()
    for _ in range(3):
        old[:] = u
        u[1:-1] = old[1:-1] + 0.2 * (old[2:] - 2 * old[1:-1] + old[:-2]) * old[1:-1]
    return np.sum(u * u)


@program
def loaded_then_overwritten(x):
    u = np.sin(x)
    a = u[2]
    row = u[1:4]
    b = row * row
    c = np.exp(row)
    row /= c
    u[2] = a * a
    row **= 2
    return np.sum(b) + np.sum(c) + np.sum(row) + np.sum(u * W)


@program
def matrix_products(x):
    a = np.outer(x[:3], x[3:])
    b = a @ a
    a[0] = b[1]
    c = a @ b
    b *= 0.5
    a @= b
    np.matmul(a, c, out=b)
    return np.sum(b) + np.sum(a)


@program
def solve_then_overwritten(x):
    a = np.outer(x[:3], x[3:]) + 3 * np.eye(3)
    b = np.linalg.solve(a, x[:3])
    a[1] = 0.0
    c = np.linalg.norm(b) * b
    b[:] = 1.0
    return np.sum(c) + np.sum(a)
