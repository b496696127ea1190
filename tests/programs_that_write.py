"""Functions that write into arrays, one for each way of doing it. Not a test itself."""

import numpy as np

X = np.array([0.7, -1.3, 2.1, 0.4, 1.6, -0.9])
W = np.array([0.3, 1.2, -0.8, 0.5, 0.9, 1.1])
MASK = np.array([True, False, True, True, False, False])
ROWS = np.array([2, 0, 2, 1])


def setting(write):
    """A function that makes an array of x, writes into it, and reads all of it."""

    def f(x):
        u = np.sin(x) * W
        v = u * u  # its pullback reads u
        write(u, x)
        return np.sum(v) + np.sum(np.cos(u) * W)

    return f


def setting_matrix(write):
    def f(x):
        u = np.outer(np.sin(x[:3]), W[:4]) + x[3:, None]
        v = np.exp(u)
        write(u, x)
        return np.sum(v * 0.1) + np.sum(np.cos(u) * np.arange(12.0).reshape(3, 4))

    return f


def assign(u, index, value):
    u[index] = value


def iop(name, index, value):
    def write(u, x):
        part = u[index]
        operand = value(u, x) if callable(value) else value
        getattr(part, f"__{name}__")(operand)

    return write


VECTOR = {
    "cell": lambda u, x: assign(u, 2, x[1] * x[3]),
    "negative cell": lambda u, x: assign(u, -1, x[1] ** 2),
    "constant cell": lambda u, x: assign(u, 2, 4.0),
    "integer cell": lambda u, x: assign(u, np.int64(2), 4),
    "slice": lambda u, x: assign(u, slice(1, 4), x[3:] * x[0]),
    "slice of one": lambda u, x: assign(u, slice(1, 4), x[3]),
    "stepped slice": lambda u, x: assign(u, slice(None, None, 2), x[3:]),
    "reversed slice": lambda u, x: assign(u, slice(None, None, -1), x * 2),
    "constant slice": lambda u, x: assign(u, slice(1, 4), 3.0),
    "constant array": lambda u, x: assign(u, slice(0, 3), W[:3]),
    "everything": lambda u, x: assign(u, ..., x * x),
    "everything constant": lambda u, x: assign(u, ..., 1.5),
    "list of numbers": lambda u, x: assign(u, slice(0, 3), [x[0], 2.0, x[1] * x[2]]),
    "empty slice": lambda u, x: assign(u, slice(2, 2), x[0]),
    "mask": lambda u, x: assign(u, MASK, x[3:] ** 2),
    "mask of one": lambda u, x: assign(u, MASK, x[3]),
    "constant mask": lambda u, x: assign(u, MASK, -1.0),
    "mask of values": lambda u, x: assign(u, u > 0, x[5]),
    "list": lambda u, x: assign(u, [3, 0, 4], x[:3] * x[3:]),
    "array": lambda u, x: assign(u, np.array([[3, 0], [1, 4]]), x[:4].reshape(2, 2)),
    "array twice": lambda u, x: assign(u, np.array([3, 0, 3]), x[:3]),
    "constant array index": lambda u, x: assign(u, np.array([3, 0, 3]), 0.5),
    "negative indices": lambda u, x: assign(u, np.array([-1, 0]), x[:2]),
    "new axis": lambda u, x: assign(u, (None, slice(0, 3)), x[None, 3:]),
    "ellipsis": lambda u, x: assign(u, (Ellipsis, slice(0, 3)), x[3:]),
    "own part": lambda u, x: assign(u, slice(0, 3), u[3:]),
    "overlapping part": lambda u, x: assign(u, slice(1, None), u[:-1]),
    "overlapping reversed": lambda u, x: assign(u, slice(None), u[::-1]),
    "overlapping steps": lambda u, x: assign(u, slice(0, 3), u[::2]),
    "mask of own": lambda u, x: assign(u, MASK, u[::-1][:3]),
    "array of own": lambda u, x: assign(u, np.array([0, 2, 1]), u[:3]),
    "own gather": lambda u, x: assign(u, slice(0, 3), u[[2, 1, 0]]),
    "own broadcast": lambda u, x: assign(u, slice(0, 3), u[1:2]),
    "+=": iop("iadd", slice(1, 4), lambda u, x: x[:3]),
    "-=": iop("isub", slice(1, 4), lambda u, x: x[:3]),
    "*=": iop("imul", slice(1, 4), lambda u, x: x[:3]),
    "/=": iop("itruediv", slice(1, 4), lambda u, x: x[:3]),
    "//=": iop("ifloordiv", slice(1, 4), 0.3),
    "%=": iop("imod", slice(1, 4), lambda u, x: x[:3]),
    "**=": iop("ipow", slice(1, 4), 3),
    "**= 2": iop("ipow", slice(None), 2),
    "*= number": iop("imul", slice(None), lambda u, x: x[0]),
    "+= constant": iop("iadd", slice(None), 2.0),
    "*= constant": iop("imul", slice(0, 3), W[:3]),
    "*= itself": lambda u, x: iop("imul", slice(None), lambda u, x: u)(u, x),
    "/= of itself": lambda u, x: iop("itruediv", slice(None), lambda u, x: u[::-1])(u, x),
    "+= next": lambda u, x: iop("iadd", slice(1, None), lambda u, x: u[:-1])(u, x),
    "*= next": lambda u, x: iop("imul", slice(1, None), lambda u, x: u[:-1])(u, x),
    "+= at indices": lambda u, x: assign(u, [0, 2, 0], u[[0, 2, 0]] + x[:3]),
    "out": lambda u, x: np.multiply(x, x[::-1], out=u),
    "out is operand": lambda u, x: np.multiply(u, x, out=u),
    "out is both": lambda u, x: np.multiply(u, u, out=u),
    "out overlaps": lambda u, x: np.subtract(u[1:], u[:-1], out=u[:-1]),
    "out overlaps product": lambda u, x: np.multiply(u[1:], u[:-1], out=u[1:]),
    "out keeps value": lambda u, x: np.exp(u, out=u),
    "out constant operand": lambda u, x: np.divide(W, u, out=u),
    "out of constants": lambda u, x: np.add(W[:3], 1.0, out=u[:3]),
    "out where": lambda u, x: np.multiply(x, x[::-1], out=u, where=MASK),
    "out where itself": lambda u, x: np.multiply(u, x, out=u, where=MASK),
    "out unary where": lambda u, x: np.exp(x, out=u, where=MASK),
    "cumsum out": lambda u, x: np.cumsum(x, out=u),
    "cumsum into itself": lambda u, x: np.cumsum(u, out=u),
    "add.accumulate out": lambda u, x: np.add.accumulate(x * x, out=u),
    "sum out": lambda u, x: np.sum(x.reshape(2, 3) ** 2, axis=0, out=u[:3]),
    "concatenate out": lambda u, x: np.concatenate([x[3:], x[:3] * 2], out=u),
    "concatenate of itself": lambda u, x: np.concatenate([u[3:], u[:3]], out=u),
    "take out": lambda u, x: np.take(x, [1, 1, 0], out=u[:3], mode="clip"),
    "clip out": lambda u, x: np.clip(u, -0.2, 0.5, out=u),
    "dot out": lambda u, x: np.dot(np.outer(x, W)[:3], x, out=u[:3]),
    "matmul out": lambda u, x: np.matmul(np.outer(x, W), x, out=u),
    "maximum out": lambda u, x: np.maximum(u, x, out=u),
    "sqrt out": lambda u, x: np.sqrt(x * x + 1.0, out=u),
    "copyto": lambda u, x: np.copyto(u, x * x),
    "copyto where": lambda u, x: np.copyto(u, x, where=MASK),
    "copyto constant": lambda u, x: np.copyto(u, 2.0, where=MASK),
    "put": lambda u, x: np.put(u, [0, 5, 2], x[:3] ** 2),
    "put again": lambda u, x: np.put(u, [0, 5, 0], x[:2]),
    "put constant": lambda u, x: np.put(u, [0, 5], [1.0, 2.0]),
    "u.put": lambda u, x: u.put([1, 2], x[3:5]),
    "put_along_axis": lambda u, x: np.put_along_axis(u, np.array([4, 1]), x[:2], 0),
    "place": lambda u, x: np.place(u, MASK, x[3:5] ** 2),
    "putmask": lambda u, x: np.putmask(u, MASK, x[3:5] ** 2),
    "add.at": lambda u, x: np.add.at(u, [0, 2, 0], x[:3] * x[3:]),
    "subtract.at": lambda u, x: np.subtract.at(u, [0, 2, 0], x[:3] * x[3:]),
    "multiply.at": lambda u, x: np.multiply.at(u, [0, 2, 0], x[:3] * x[3:]),
    "divide.at": lambda u, x: np.divide.at(u, [0, 2, 0], x[:3]),
    "maximum.at": lambda u, x: np.maximum.at(u, [0, 2, 0], x[:3] * x[3:]),
    "minimum.at": lambda u, x: np.minimum.at(u, [0, 2, 0], x[:3]),
    "add.at of a number": lambda u, x: np.add.at(u, [0, 2, 0], x[1]),
    "add.at constant": lambda u, x: np.add.at(u, [0, 2, 0], 2.0),
    "multiply.at constant": lambda u, x: np.multiply.at(u, [0, 2, 0], W[:3]),
    "add.at of itself": lambda u, x: np.add.at(u, [0, 2, 0], u[:3]),
    "sort": lambda u, x: u.sort(),
    "sort part": lambda u, x: u[1:5].sort(),
    "partition": lambda u, x: u.partition(3),
    "fill": lambda u, x: u.fill(x[2] ** 2),
    "fill constant": lambda u, x: u.fill(2.0),
    "flat cell": lambda u, x: assign(u.flat, 3, x[0] ** 2),
    "flat slice": lambda u, x: assign(u.flat, slice(1, 4), x[3:] * x[1]),
    "flat list": lambda u, x: assign(u.flat, [0, 1], x[3:5]),
    "real": lambda u, x: setattr(u, "real", x * x),
    "swap": lambda u, x: assign(u, [0, 5], u[[5, 0]]),
    "swap by tuple": lambda u, x: (lambda a, b: (assign(u, 0, b), assign(u, 5, a)))(u[0], u[5]),
    "twice": lambda u, x: (assign(u, slice(0, 3), x[:3] ** 2), assign(u, slice(2, 5), u[1:4] * u[0])),
    "window view": lambda u, x: assign(np.lib.stride_tricks.sliding_window_view(u, 2, writeable=True), (2, 1), x[0]),
    "through reshape": lambda u, x: assign(u.reshape(2, 3), (slice(None), 1), x[:2] ** 2),
    "through ravel": lambda u, x: assign(u.reshape(2, 3).T, (0, slice(None)), x[:2] ** 2),
    "through split": lambda u, x: assign(np.split(u, 2)[1], slice(None), x[:3] ** 2),
    "through atleast_2d": lambda u, x: assign(np.atleast_2d(u), (0, slice(2, 4)), x[:2] ** 2),
    "through expand_dims": lambda u, x: assign(np.expand_dims(u, 1), (slice(2, 4), 0), x[:2] ** 2),
    "through split with an empty part": lambda u, x: assign(np.split(u, [6])[0], slice(1, 3), x[:2] * x[2:4]),
    "whole view by a number": lambda u, x: assign(u, ..., np.sum(x * x)),
    "masked read of a broadcast": lambda u, x: assign(
        u, slice(0, 3), np.broadcast_to(x[:3, None] * 1, (3, 2))[np.array([[0, 1], [1, 1], [0, 0]], bool)]
    ),
    "read of a broadcast number": lambda u, x: assign(u, slice(0, 3), np.broadcast_to(x[1] * 1, (3,))[[0, 2, 0]]),
    "half of a buffer stretched": lambda u, x: assign(
        u, slice(0, 2), np.sin(np.broadcast_to((x[:2] * 1)[:1], (2,))) * W[:2]
    ),
    "through flip": lambda u, x: assign(np.flip(u), slice(0, 2), x[:2] ** 2),
    "write x": lambda u, x: (assign(x, slice(0, 2), u[:2] * x[1:3]), assign(u, slice(3, 5), x[0:2] * x[4])),
    "write x cell": lambda u, x: (assign(x, 0, u[1] * x[0]), assign(u, slice(3, 5), x[0:2] * x[4])),
    "shuffle": lambda u, x: np.random.default_rng(3).shuffle(u),
    "loop of cells": lambda u, x: [assign(u, i, u[i - 1] * x[i] + u[i]) for i in range(1, 6)],
    "march": lambda u, x: [assign(u, slice(i, i + 2), np.tanh(u[i - 1 : i + 1]) * x[i]) for i in range(1, 5)],
}
MATRIX = {
    "row": lambda u, x: assign(u, 1, x[:4] ** 2),
    "column": lambda u, x: assign(u, (slice(None), 1), x[:3] ** 2),
    "block": lambda u, x: assign(u, (slice(0, 2), slice(1, 3)), x[:4].reshape(2, 2) ** 2),
    "broadcast row": lambda u, x: assign(u, slice(None), x[:4]),
    "broadcast column": lambda u, x: assign(u, (slice(None), slice(0, 2)), x[:3, None]),
    "mask": lambda u, x: assign(u, u > 0.5, x[0]),
    "row mask": lambda u, x: assign(u, np.array([True, False, True]), x[:4] ** 2),
    "mask and cell": lambda u, x: assign(u, (np.array([True, False, True]), 1), x[:2]),
    "pairs": lambda u, x: assign(u, ([0, 2, 1], [3, 3, 0]), x[:3]),
    "apart": lambda u, x: assign(u, (slice(None), [0, 3]), x.reshape(3, 2)),
    "ix": lambda u, x: assign(u, np.ix_([0, 2], [1, 3]), x[:4].reshape(2, 2)),
    "transpose": lambda u, x: assign(u.T, (slice(1, 3), slice(None)), x.reshape(2, 3)),
    "transpose of itself": lambda u, x: assign(u[:3, :3], slice(None), u[:3, :3].T),
    "triangle": lambda u, x: assign(u, np.tril_indices(3), x),
    "diagonal of einsum": lambda u, x: assign(np.einsum("ii->i", u[:, :3]), slice(None), x[:3] ** 2),
    "fill_diagonal": lambda u, x: np.fill_diagonal(u, x[0] ** 2),
    "fill_diagonal array": lambda u, x: np.fill_diagonal(u[:, :3], x[:3] ** 2),
    "fill_diagonal constant": lambda u, x: np.fill_diagonal(u, 2.0),
    "put_along_axis": lambda u, x: np.put_along_axis(u, np.array([[3], [0], [1]]), x[:3, None], 1),
    "put_along_axis constant": lambda u, x: np.put_along_axis(u, np.array([[3], [0], [1]]), 9.0, 1),
    "@=": iop("imatmul", (slice(None), slice(0, 3)), lambda u, x: np.outer(x[:3], W[:3])),
    "outer difference": lambda u, x: iop("isub", slice(None), lambda u, x: np.outer(u[:, 1], u[1]))(u, x),
    "elimination": lambda u, x: [assign(u, i, u[i] - u[i, 0] / u[0, 0] * u[0]) for i in (1, 2)],
    "sort rows": lambda u, x: u.sort(axis=0),
    "partition rows": lambda u, x: u.partition(2, axis=1),
    "cumsum out": lambda u, x: np.cumsum(u, axis=1, out=u),
    "flat": lambda u, x: assign(u.flat, slice(2, 8), x),
    "flat of transpose": lambda u, x: assign(u.T.flat, slice(2, 8), x),
    "flat all": lambda u, x: setattr(u, "flat", np.concatenate([x, x * x])),
    "add.at rows": lambda u, x: np.add.at(u, [0, 2, 0], x[:4]),
    "add.at pairs": lambda u, x: np.add.at(u, ([0, 2, 0], [1, 1, 1]), x[:3]),
    "multiply.at rows": lambda u, x: np.multiply.at(u, [0, 2, 0], x[:4]),
    "mean out": lambda u, x: np.mean(u, axis=0, out=u[0]),
    "moveaxis": lambda u, x: assign(np.moveaxis(u, 0, 1), slice(1, 3), x.reshape(2, 3)),
    "swapaxes": lambda u, x: assign(u.swapaxes(0, 1), (0, slice(None)), x[:3]),
    "squeeze": lambda u, x: assign(u[:, None].squeeze(), (0, slice(None)), x[:4]),
    "broadcast +=": iop("iadd", slice(None), lambda u, x: x[:4]),
    "row of itself +=": lambda u, x: iop("iadd", slice(None), lambda u, x: u[1])(u, x),
    "windows": lambda u, x: iop("imul", slice(None), lambda u, x: np.lib.stride_tricks.sliding_window_view(x, 4)[:3])(
        u, x
    ),
    "heat": lambda u, x: [
        iop("iadd", (slice(1, -1)), lambda u, x: 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]))(u, x) for _ in range(3)
    ],
    "Gauss-Seidel": lambda u, x: [
        assign(u, (1, j), 0.25 * (u[0, j] + u[2, j] + u[1, j - 1] * u[1, j + 1])) for j in (1, 2)
    ],
}
FUNCTIONS = {f"vector {k}": setting(v) for k, v in VECTOR.items()} | {
    f"matrix {k}": setting_matrix(v) for k, v in MATRIX.items()
}
