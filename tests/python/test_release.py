# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured.release: results that lie in memory of a pool."""
from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
from mooncake._structured.release import (
    pool_array, release_result, row_array, with_owner)
from mooncake.buffer_pool import BufferPool


class Lease:
    """Memory, and how often it has been given back."""

    def __init__(self) -> None:
        self.buffer, self.released = memoryview(bytearray(64)), 0

    def release(self) -> None:
        self.released += 1


def of(lease: Lease, count: int = 8) -> np.ndarray:
    return pool_array(lease, np.dtype(np.int64), (count,))


def test_views_of_a_pool_have_its_owner_and_copies_have_none():
    array = of(Lease())
    owner = array._mooncake_pool_owner
    for view in (array[2:], array.reshape(4, 2)[1], array.view(np.int32)):
        assert view._mooncake_pool_owner is owner
        assert np.shares_memory(view, array)
    assert array.copy()._mooncake_pool_owner is None
    assert type(array + 1) is type(np.exp(array)) is np.ndarray
    assert type(array.sum()) is np.int64
    array += 1
    assert array._mooncake_pool_owner is owner


def test_rows_keep_their_owner():
    array = of(Lease())
    rows = with_owner([array[:2], array[2:], None], array._mooncake_pool_owner)
    table = row_array(rows)
    assert table.dtype == object and table.shape == (3,)
    for made in (rows, table, table.tolist(), table[1:]):
        assert made._mooncake_pool_owner is array._mooncake_pool_owner
    assert isinstance(table.tolist(), list)
    plain = row_array([np.zeros(2), np.zeros(2)])
    assert type(plain) is np.ndarray and plain.shape == (2,)
    assert with_owner(rows, None) is rows


def test_copies_of_results_are_ordinary():
    array = of(Lease())
    rows = with_owner([array[:2], None], array._mooncake_pool_owner)
    for copied in (copy.deepcopy, lambda value: pickle.loads(pickle.dumps(
            value, 5)), lambda value: pickle.loads(pickle.dumps(value, 2))):
        for value, kind in ((array, np.ndarray), (rows, list),
                            (row_array(rows), np.ndarray)):
            got = copied(value)
            assert type(got) is kind
            assert getattr(got, "_mooncake_pool_owner", None) is None
        assert copied(rows)[0].tolist() == array[:2].tolist()
        assert copied(array).tolist() == array.tolist()
        assert type(copied(row_array(rows))[0]) is np.ndarray


def test_all_memory_of_a_result_is_given_back_once():
    leases = [Lease() for _ in range(6)]
    arrays = list(map(of, leases))
    looped: list = [arrays[0]]
    looped.append(looped)
    result = {"batch": {"a": arrays[1], "b": arrays[1][2:]},
              "non_tensor_batch": {"c": row_array([arrays[2], {"d": arrays[3]}]),
                                   "e": with_owner([arrays[4]], arrays[4]
                                                   ._mooncake_pool_owner)},
              "meta_info": (looped, "text", np.zeros(3), 5),
              "g": [np.zeros(2), row_array([arrays[5], 1]), None]}
    assert release_result(result) is None
    assert [lease.released for lease in leases] == [1] * 6
    release_result(result)
    arrays[1]._mooncake_pool_owner.release()
    assert [lease.released for lease in leases] == [1] * 6


def test_memory_is_given_back_with_the_last_array():
    lease = Lease()
    array = of(lease)
    part = array[2:]
    del array
    gc.collect()
    assert not lease.released
    del part
    gc.collect()
    assert lease.released == 1


def test_memory_of_a_pool_is_never_anothers_while_it_is_seen(joined):
    with BufferPool(joined, max_bytes=1, block_on_exhaustion=False) as pool:
        array = of(pool.acquire(64))
        array[:] = 7
        release_result(array)
        other = pool.acquire(64)
        other.buffer[:] = bytes(64)
        assert (array == 7).all()
        other.release()
        del array
    with pytest.raises(RuntimeError, match="clos"):
        pool.acquire(64)
