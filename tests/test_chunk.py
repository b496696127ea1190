"""How sweeps are cut into passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndual
from ndual.chunk import check_chunk_size, default_width, split


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_split_covers_and_is_even(dof, limit):
    passes, width = split(dof, limit)
    assert passes * width >= dof
    assert width <= max(limit, 1)
    assert passes == max(-(-dof // limit), 1)
    assert dof == 0 or (passes - 1) * width < dof


@given(st.integers(0, 10_000), st.integers(0, 10**9))
def test_default_width(dof, nbytes):
    assert 1 <= default_width(dof, nbytes) <= max(dof, 1)


@pytest.mark.parametrize("bad", [0, -3, 1.0, True, "4", [2]])
def test_bad_chunk_sizes(bad):
    with pytest.raises(ValueError, match="positive int or None") as caught:
        check_chunk_size(bad)
    assert isinstance(caught.value, ndual.NdualError)
