# SPDX-License-Identifier: Apache-2.0
"""mooncake._fast_copy: arrays one behind the other, and what cannot be copied."""
from __future__ import annotations

import numpy as np
import pytest
from mooncake._fast_copy import concat_arrays_into


def some(n: int) -> list:
    """Of different lengths, and one that is empty."""
    return [np.arange(i, dtype=np.int32) + 1000 * i for i in range(n)]


def others(n: int) -> list:
    """The same of several types and dimensions."""
    made = [one.astype(np.int16).reshape(-1, 1) if i % 2 else one
            for i, one in enumerate(some(n))]
    return [np.array(3), *made[1:]]


@pytest.mark.parametrize("make", [some, others])
@pytest.mark.parametrize("start, count", [
    (0, -1), (3, -1), (0, 4), (2, 3), (5, 99), (-4, 2), (8, 5), (99, 1), (2, 0)])
@pytest.mark.parametrize("n_threads", [-1, 0, 1, 2, 3, 8, 100])
def test_what_is_chosen_lies_there_in_its_order(make, start, count,
                                                 n_threads):
    arrays, to = make(8), np.zeros(257, np.uint8)[1:]
    first = min(max(start, 0), 8)
    chosen = arrays[first:] if count < 0 else arrays[first:first + count]
    expected = b"".join(one.tobytes() for one in chosen)
    assert concat_arrays_into(arrays, to.ctypes.data, 256, start, count,
                              n_threads) == len(expected)
    assert to.tobytes() == expected + bytes(256 - len(expected))


def test_of_nothing_the_destination_is_not_looked_at():
    assert concat_arrays_into([], 0, 0) == 0
    assert concat_arrays_into(some(3), 0, 0, 3) == 0
    assert concat_arrays_into(some(3), 8, 0, 0, 1) == 0  # an empty one


def test_what_cannot_be_copied_is_said():
    arrays, to = some(4), np.zeros(24, np.uint8)
    at = to.ctypes.data
    with pytest.raises(TypeError):
        concat_arrays_into(tuple(arrays), at, 24)
    with pytest.raises(TypeError, match=r"arrays\[2\] is not an ndarray"):
        concat_arrays_into([*arrays[:2], b"x"], at, 24, 1)
    with pytest.raises(ValueError, match=r"arrays\[1\] is not C-contiguous"):
        concat_arrays_into([arrays[1], np.ones((2, 2)).T], at, 24)
    with pytest.raises(ValueError, match="destination buffer too small: need 24 "
                                         "bytes, have 23"):
        concat_arrays_into(arrays, at, 23)
    with pytest.raises(ValueError, match="dest_ptr"):
        concat_arrays_into(arrays, 8, 24)
    with pytest.raises(TypeError):
        concat_arrays_into(arrays, at, dest_size=24)
    assert not to.any()


def test_a_sum_beyond_memory_is_an_overflow():
    class Huge(np.ndarray):
        nbytes = 1 << 62

    with pytest.raises(OverflowError):
        concat_arrays_into([np.zeros(1).view(Huge)] * 2, 0, (1 << 63) - 1)
