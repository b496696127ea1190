"""All of NumPy's indexing, for reading and for writing: values as NumPy has them, and every lane like a value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ndual import _core

X = np.arange(60.0).reshape(3, 4, 5)

ATOMS = [
    1,
    -1,
    np.int32(2),
    True,
    np.bool_(False),
    None,
    ...,
    slice(None),
    slice(1, None),
    slice(None, None, -2),
    slice(5, 1, -1),
    slice(2, 2),
    [0, 2],
    [[1], [0]],
    [],
    np.array([1, 1, 0]),
    np.array(2),
    np.array([], int),
    np.array([True, False, True]),
    np.array([True, False, True, True]),
    np.array([False, True, False, True, True]),
    np.arange(12).reshape(3, 4) % 3 == 0,
    X > 30,
]

WHOLE = [(), X[0] > 7, (np.array([0, 1]), np.array([1, 2]), np.array([4, 0])), np.ix_([0, 2], [1, 3], [0])]
PAIRS = list(itertools.product(range(len(ATOMS)), repeat=2))
TRIPLES = list(itertools.product(range(0, len(ATOMS), 3), range(1, len(ATOMS), 3), range(2, len(ATOMS), 3)))


def index_of(numbers):
    return tuple(ATOMS[n] for n in numbers)


def outcome(call):
    """The result, or the kind of error."""
    try:
        return call(), None
    except (IndexError, ValueError, TypeError) as error:
        return None, type(error)


INDICES = [*((n,) for n in range(len(ATOMS))), *PAIRS, *TRIPLES]
BLOCKS = [INDICES[k::12] for k in range(12)]


def check_read(x, t, d, index):
    want, error = outcome(lambda: x[index])
    got, found = outcome(lambda: d[index])
    assert found is error, (index, found, error)
    if error:
        return
    assert _core.is_dual(got), index
    assert isinstance(got, np.ndarray) == isinstance(want, np.ndarray), index
    np.testing.assert_array_equal(_core.primal(got), want, err_msg=str(index))
    for lane, expected in zip(_core.lanes(got), t, strict=True):
        np.testing.assert_array_equal(lane, expected[index], err_msg=str(index))
    if isinstance(want, np.ndarray):
        for mine, whole in zip(_core.split(got), _core.split(d), strict=True):
            assert np.shares_memory(mine, whole) == np.shares_memory(want, x), index


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_reading(lift, block):
    d = lift(X)
    t = _core.lanes(d)
    for numbers in block:
        check_read(X, t, d, index_of(numbers))


@pytest.mark.parametrize("index", WHOLE, ids=range(len(WHOLE)))
def test_reading_whole(lift, index):
    d = lift(X[0] if getattr(index, "ndim", 0) == 2 else X)
    check_read(_core.primal(d), _core.lanes(d), d, index)


def layouts(x):
    wide = np.zeros((x.shape[0] * 2, *x.shape[1:]))
    wide[::2] = x
    yield wide[::2]
    yield np.asfortranarray(x)
    yield x[::-1, :, ::-1].copy()[::-1, :, ::-1]


def test_reading_other_layouts(lift):
    for x in layouts(X):
        d = lift(x)
        t = _core.lanes(d)
        for numbers in INDICES[::7]:
            check_read(x, t, d, index_of(numbers))


def check_write(lift, x, index, value):
    """Write a dual and a constant through an index; both must be what NumPy does on values and on each lane."""
    for active in (True, False):
        want, error = x.copy(), None
        d, source = lift(x), value
        t = _core.lanes(d)
        if active:
            source = lift(value)
        s = _core.lanes(source) if active else np.zeros((len(t), *np.shape(value)))
        try:
            want[index] = value
        except (IndexError, ValueError, TypeError) as e:
            error = type(e)
        try:
            d[index] = source
        except (IndexError, ValueError, TypeError) as e:
            assert type(e) is error, (index, e, error)  # noqa: PT017 - or it does not raise at all, as NumPy
            np.testing.assert_array_equal(_core.primal(d), x)
            np.testing.assert_array_equal(_core.lanes(d), t)
            return
        assert error is None, (index, error)
        np.testing.assert_array_equal(_core.primal(d), want, err_msg=str(index))
        for k in range(len(t)):
            t[k][index] = s[k]
        np.testing.assert_array_equal(_core.lanes(d), t, err_msg=f"{index}, active {active}")


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_writing(lift, block):
    for numbers in block:
        index = index_of(numbers)
        shape, error = outcome(lambda index=index: X[index].shape)
        check_write(lift, X, index, np.float64(-7.5))
        if error is None:
            check_write(lift, X, index, -np.arange(np.prod(shape, dtype=int) * 1.0).reshape(shape))


@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 1), (4, 5), (1, 4, 5), (1, 1, 1, 5), (3,), (2, 4, 5), ()])
def test_writing_broadcasts_as_numpy_does(lift, shape):
    for index in (
        0,
        slice(1, 2),
        ...,
        [2, 0],
        X[:, 0, 0] > -1,
        (slice(None), [1, 0, 2, 3]),
        (0, slice(None), [0, 1, 2, 3, 4]),
    ):
        check_write(lift, X, index, -np.arange(np.prod(shape, dtype=int) * 1.0).reshape(shape))


def test_repeated_indices_keep_the_last_write(lift):
    check_write(lift, X, [0, 1, 0], -np.arange(60.0).reshape(3, 4, 5))


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
def test_every_dtype_and_casts_on_writing(lift, dtype):
    x = X.astype(dtype)
    for source in "efdFD":
        value = (-X[0]).astype(source)
        if source in "FD" and dtype in "efd":
            d, s = lift(x), lift(value)
            with pytest.warns(np.exceptions.ComplexWarning):
                d[1] = s
            np.testing.assert_array_equal(_core.lanes(d)[:, 1], _core.lanes(s).real.astype(dtype))
            continue
        d, s = lift(x), lift(value)
        t = _core.lanes(d)
        d[1] = s
        t[:, 1] = _core.lanes(s)
        want = x.copy()
        want[1] = value
        np.testing.assert_array_equal(_core.primal(d), want)
        np.testing.assert_array_equal(_core.lanes(d), t)
    for numbers in INDICES[::11]:
        d = lift(x)
        check_read(x, _core.lanes(d), d, index_of(numbers))


@pytest.mark.parametrize(
    ("to", "source"),
    [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None), slice(None, None, -1)),
        (slice(0, 6), slice(0, 12, 2)),
        ([3, 1, 2], [1, 2, 3]),
        (np.arange(12) % 2 == 0, slice(0, 6)),
        (slice(2, 8), np.arange(6)),
    ],
    ids=range(7),
)
def test_overlapping_writes_are_numpys(lift, to, source):
    x = np.arange(12.0)
    d = lift(x)
    t = _core.lanes(d)
    d[to] = d[source]
    want = x.copy()
    want[to] = want[source]
    np.testing.assert_array_equal(_core.primal(d), want)
    for lane in t:
        lane[to] = lane[source]
    np.testing.assert_array_equal(_core.lanes(d), t)


def test_a_transposed_write_onto_itself(lift):
    x = np.arange(16.0).reshape(4, 4)
    d = lift(x)
    t = _core.lanes(d)
    d[...] = d.T
    np.testing.assert_array_equal(_core.primal(d), x.T)
    np.testing.assert_array_equal(_core.lanes(d), t.transpose(0, 2, 1))


def test_a_dual_as_an_index_selects_by_its_value(lift):
    d = lift(X)
    with pytest.raises(IndexError):
        d[lift(np.array([1.0]))]
    order = np.argsort(lift(np.array([3.0, 1.0, 2.0])))
    np.testing.assert_array_equal(_core.primal(d[order]), X[[1, 2, 0]])
    np.testing.assert_array_equal(_core.primal(d[d > 30]), X[X > 30])


def test_lists_of_duals_are_written_as_arrays(lift):
    d = lift(np.zeros(4))
    a, b = lift(np.float64(1.0)), lift(np.float64(2.0))
    d[:2] = [a, b]
    d[2:] = [3.0, a * b]
    np.testing.assert_array_equal(_core.primal(d), [1, 2, 3, 2])
    lanes = _core.lanes(d)
    np.testing.assert_array_equal(lanes[:, 0], _core.lanes(a))
    np.testing.assert_array_equal(lanes[:, 2], 0)
    np.testing.assert_array_equal(lanes[:, 3], _core.lanes(a * b))


def test_fields_and_strings_are_refused_as_numpy_does(lift):
    d = lift(np.arange(3.0))
    for index in ("field", 1.5, object()):
        with pytest.raises(IndexError):
            d[index]
        with pytest.raises(IndexError):
            d[index] = 1.0


@pytest.mark.parametrize("index", [3, -4, (0, 0), (..., ...), slice(None, None, 0)])
def test_messages_of_bad_indices(lift, index):
    d, x = lift(np.arange(3.0)), np.arange(3.0)
    with pytest.raises((IndexError, ValueError)) as numpy_error:
        x[index]
    with pytest.raises(type(numpy_error.value)) as error:
        d[index]
    assert str(error.value) == str(numpy_error.value)


def test_iteration_length_and_membership(lift):
    d = lift(np.arange(6.0).reshape(3, 2))
    assert len(d) == 3
    rows = list(d)
    np.testing.assert_array_equal(_core.primal(rows[1]), [2, 3])
    rows[1][0] = 7.0
    assert _core.primal(d)[1, 0] == 7
    assert 7.0 in d
    assert 8.0 not in d
    with pytest.raises(TypeError, match="len"):
        len(lift(np.float64(1.0)))


def test_flat(lift):
    x = np.arange(6.0).reshape(2, 3)
    d = lift(np.asfortranarray(x))
    t = _core.lanes(d)
    for k, cell in enumerate(d.flat):
        assert _core.primal(cell) == k
        np.testing.assert_array_equal(_core.lanes(cell), t.reshape(3, -1)[:, k])
    d.flat[[0, 5]] = [10.0, 11.0]
    d.flat[1:3] = lift(np.array([8.0, 9.0]))
    np.testing.assert_array_equal(_core.primal(d), [[10, 8, 9], [3, 4, 11]])
    assert len(d.flat) == 6


def test_assignment_to_a_scalar_or_a_read_only_view_raises(lift):
    d = lift(np.arange(3.0))
    with pytest.raises(TypeError, match="item assignment"):
        d[0][...] = 1.0
    fixed = np.broadcast_to(d, (2, 3))
    for write in (lambda: fixed.__setitem__(0, 1.0), lambda: fixed[0].__setitem__(0, 1.0), lambda: fixed.__iadd__(1.0)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(ValueError, match="read-only"):
        np.sin(fixed, out=fixed)
    assert not fixed.flags.writeable
