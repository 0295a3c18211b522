# SPDX-License-Identifier: Apache-2.0
"""get_into_ranges: a number for every range, whatever the arguments."""
from __future__ import annotations

import pytest
import vram
from mooncake.store import MooncakeDistributedStore
from pool import MB, Memory

VALUE = bytes(range(64))
REGISTERED = 256
MAX = (1 << 64) - 1


@pytest.fixture
def memory(store):
    """Memory of which REGISTERED bytes are registered, at 1024."""
    whole = Memory(4096)
    assert store.register_buffer(whole.addr + 1024, REGISTERED) == 0
    if vram.GPU:  # of which the rest may not be used else
        assert store.register_buffer(whole.addr, 512) == 0
    assert store.put_batch(["k", "l"], [VALUE, VALUE[::-1]]) == 0
    yield whole
    if vram.GPU:
        assert store.unregister_buffer(whole.addr) == 0
    assert store.unregister_buffer(whole.addr + 1024) == 0


def test_ranges_are_results_of_the_same_shape(store, memory):
    addr = memory.addr + 1024
    assert store.get_into_ranges(
        [addr, addr + 128], [["k", "none", "l"], ["l"]],
        [[[0, 16], [32], [48]], [[8, 0]]], [[[0, 60], [0], [4]], [[56, 0]]],
        [[[8, 4], [1], [2]], [[8, 8]]]) == [[[8, 4], [-704], [2]], [[8, 8]]]
    assert memory.read(1024, 8) == VALUE[:8]
    assert memory.read(1024 + 16, 4) == VALUE[60:]
    assert memory.read(1024 + 48, 2) == VALUE[::-1][4:6]
    assert memory.read(1024 + 128, 16) == VALUE[::-1][:8] + VALUE[::-1][56:]


def test_empty_ranges_are_read(store, memory):
    addr = memory.addr + 1024
    before = memory.read(0, memory.size)
    assert store.get_into_ranges(
        [addr], [["k", "none"]], [[[0, REGISTERED, REGISTERED + 1, 0], [0]]],
        [[[0, 64, 0, 65], [0]]], [[[0, 0, 0, 0], [0]]]) == [
            [[0, 0, -600, -600], [-704]]]
    assert store.get_into_ranges([0, 8], [["k"], ["k"]], [[[0]], [[0]]],
                                 [[[0]], [[0]]], [[[0]], [[0]]]) == [
        [[-600]], [[-600]]]
    assert store.get_into_ranges([memory.addr], [["k"]], [[[5]]], [[[0]]],
                                 [[[0]]]) == [[[0]]]
    assert memory.read(0, memory.size) == before


def test_no_range_leaves_its_memory_or_its_value(store, memory):
    addr = memory.addr + 1024
    before = memory.read(0, memory.size)
    bad = [(REGISTERED - 3, 0, 4), (REGISTERED, 0, 1), (MAX, 0, 1),
           (MAX - addr, 0, MAX), (0, 0, MAX), (0, 61, 4), (0, MAX, 8),
           (0, 64, 1), (0, MAX, MAX)]
    dst, src, sizes = (list(column) for column in zip(*bad))
    assert store.get_into_ranges([addr], [["k"]], [[dst]], [[src]],
                                 [[sizes]]) == [[[-600] * len(bad)]]
    assert memory.read(0, memory.size) == before
    assert store.get_into_ranges(
        [addr], [["k"]], [[[REGISTERED - 3, 100]]], [[[0, 0]]],
        [[[4, 4]]]) == [[[-600, 4]]]
    assert memory.read(1024 + 100, 4) == VALUE[:4]
    assert store.get_into_ranges([addr], [["none"]], [[[REGISTERED]]], [[[0]]],
                                 [[[8]]]) == [[[-704]]]


@pytest.mark.parametrize("wrong", [-1, 1 << 64])
def test_numbers_that_cannot_be_are_codes(store, memory, wrong):
    addr = memory.addr + 1024
    assert store.get_into_ranges(
        [wrong, addr], [["k"], ["k", "l"]], [[[0]], [[0, wrong], [0]]],
        [[[0]], [[0, 0], [0]]], [[[1]], [[1, 1], [1]]]) == [
            [[-600]], [[-600, -600], [1]]]


def test_lists_that_do_not_go_together_are_codes(store, memory):
    addr = memory.addr + 1024
    get = store.get_into_ranges
    # Of the whole call.
    assert get([addr] * 2, [["k", "l"]], [[[0, 1], []]], [[[0]]], [[[1]]]) == [
        [[-600, -600], []], [[-600]]]
    assert get([addr], [], [], [], []) == [[[-600]]]
    assert get([addr], [["k"]], [[[0]]] * 2, [[[0]]], [[[1]]]) == [[[-600]]]
    assert get([], [["k"]], [], [], []) == []
    # Of one buffer.
    assert get([addr, addr], [["k", "l"], ["k"]], [[[0, 8]], [[0]]],
               [[[0, 0]], [[0]]], [[[1, 1]], [[1]]]) == [
                   [[-600, -600], [-600]], [[1]]]
    assert get([addr], [[]], [[[0]]], [[[0]]], [[[1]]]) == [[]]
    # Of one key.
    assert get([addr], [["k", "l"]], [[[0, 8], [0]]], [[[0], [0]]],
               [[[1, 1], [1]]]) == [[[-600, -600], [1]]]
    assert get([addr], [["k", "l"]], [[[], [0]]], [[[], [0]]],
               [[[], [1]]]) == [[[], [1]]]


class Lying(list):
    """Says that it has nothing."""

    def __len__(self) -> int:
        return 0


def test_lists_are_as_long_as_they_are(store, memory):
    addr = memory.addr + 1024
    assert store.get_into_ranges(
        Lying([addr]), Lying([Lying(["k"])]), Lying([Lying([Lying([0])])]),
        [[Lying([0])]], [[[4]]]) == [[[4]]]
    for wrong in (5, "text", None):
        for at in range(5):
            lists = [[addr], [["k"]], [[[0]]], [[[0]]], [[[1]]]]
            lists[at] = wrong
            with pytest.raises(TypeError):
                store.get_into_ranges(*lists)


def test_without_a_client_all_are_codes():
    memory = Memory(64)
    assert MooncakeDistributedStore().get_into_ranges(
        [memory.addr], [["k", "l"]], [[[0, 1], []]], [[[0, 1], []]],
        [[[1, 1], []]]) == [[[-600, -600], []]]


def test_a_block_of_a_dummy_ends_where_it_was_asked_to(master, store, memory,
                                                       tmp_path):
    daemon = master.owner("--socket_path", str(tmp_path / "socket"))
    dummy = MooncakeDistributedStore()
    assert dummy.setup_dummy(4 * MB, 4 * MB, str(tmp_path / "socket")) == 0
    addr = dummy.alloc_from_mem_pool(100)
    after = dummy.alloc_from_mem_pool(100)
    assert after > addr
    assert dummy.get_into_ranges(
        [addr, addr + 96, after], [["k"], ["k"], ["none"]],
        [[[0, 97, 96, 100]], [[0, 1]], [[0]]],
        [[[0, 0, 0, 0]], [[0, 0]], [[0]]],
        [[[64, 4, 4, 0]], [[4, 4]], [[1]]]) == [
            [[64, -600, 4, 0]], [[4, -600]], [[-704]]]
    assert dummy.close() == 0
    daemon.kill()
