# SPDX-License-Identifier: Apache-2.0
"""As vLLM's MooncakeStoreConnector: a rank that stores and loads blocks.

One thread stores, four load, one looks up, all on one object. A block is one
object of 32 pieces. Only codes decide: negative is a failure, -200 means that
the pool is full and that storing pauses until a batch succeeds.
"""
from __future__ import annotations

import queue
import threading

from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from pool import MB, Master, Memory

PIECES, PIECE = 32, 4096
BLOCK = PIECES * PIECE


def key_of(block: int) -> str:
    return f"cache@some/model-7B@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@{block:064x}"


class Rank:
    """The worker half of the connector, with pages in memory of the host."""

    def __init__(self, master: Master, n_blocks: int, segment: int) -> None:
        self.store = MooncakeDistributedStore()
        assert self.store.setup("127.0.0.1", "P2PHANDSHAKE", segment, 4096 * MB,
                                "rdma", "", master.address) == 0
        self.memory = Memory(n_blocks * BLOCK)
        assert self.store.register_buffer(self.memory.addr,
                                          self.memory.size) == 0
        self.config = ReplicateConfig()
        self.config.preferred_segment = self.store.get_hostname()

    def pieces(self, blocks: range) -> tuple[list[list[int]], list[list[int]]]:
        addrs = [[self.memory.addr + block * BLOCK + i * PIECE
                  for i in range(PIECES)] for block in blocks]
        return addrs, [[PIECE] * PIECES for _ in blocks]

    def save(self, blocks: range) -> list[int]:
        """Codes of those that were not there."""
        keys = [key_of(block) for block in blocks]
        there = self.store.batch_is_exist(keys)
        assert len(there) == len(keys)
        missing = [i for i, found in enumerate(there) if found != 1]
        addrs, sizes = self.pieces(blocks)
        codes = self.store.batch_put_from_multi_buffers(
            [keys[i] for i in missing], [addrs[i] for i in missing],
            [sizes[i] for i in missing], self.config)
        assert len(codes) == len(missing)
        return codes

    def load(self, blocks: range) -> list[int]:
        addrs, sizes = self.pieces(blocks)
        keys = [key_of(block) for block in blocks]
        codes = self.store.batch_get_into_multi_buffers(keys, addrs, sizes)
        assert len(codes) == len(keys)
        return codes

    def fill(self, block: int) -> None:
        self.memory.fill(bytes([block % 251]) * BLOCK, block * BLOCK)

    def holds(self, block: int) -> bool:
        return self.memory.read(block * BLOCK, BLOCK) == (
            bytes([block % 251]) * BLOCK)


def test_one_stores_while_four_load_and_one_looks_up(master):
    n_blocks, step = 64, 8
    saver = Rank(master, n_blocks, 64 * MB)
    loader = Rank(master, n_blocks, 0)
    ready: queue.Queue[range | None] = queue.Queue()
    wrong: list[str] = []
    done = threading.Event()

    def receive() -> None:
        while (blocks := ready.get()) is not None:
            if loader.load(blocks) != [BLOCK] * len(blocks):
                wrong.append(f"load {blocks}")
            wrong.extend(f"bytes of {b}" for b in blocks if not loader.holds(b))

    def look_up() -> None:
        keys = [key_of(block) for block in range(2000)]
        while not done.is_set():
            if len(loader.store.batch_is_exist(keys)) != len(keys):
                wrong.append("lookup")

    threads = [threading.Thread(target=receive) for _ in range(4)]
    threads.append(threading.Thread(target=look_up))
    for thread in threads:
        thread.start()
    for block in range(n_blocks):
        saver.fill(block)
    for first in range(0, n_blocks, step):
        blocks = range(first, first + step)
        if saver.save(blocks) != [0] * step:
            wrong.append(f"save {blocks}")
        ready.put(blocks)
    for _ in range(4):
        ready.put(None)
    for thread in threads[:4]:
        thread.join()
    done.set()
    threads[4].join()
    assert not wrong
    assert saver.save(range(n_blocks)) == []  # all are there
    assert saver.store.remove_all(force=True) == n_blocks
    for rank in (saver, loader):
        assert rank.store.close() == 0


def test_a_pool_that_is_too_small_forgets_and_goes_on(master):
    rank = Rank(master, 8, 4 * MB)
    for first in range(0, 96, 8):  # three times what fits
        keys = [key_of(1000 + first + i) for i in range(8)]
        addrs, sizes = rank.pieces(range(8))
        assert rank.store.batch_put_from_multi_buffers(
            keys, addrs, sizes, rank.config) == [0] * 8
    rank.store.close()



def test_one_bad_key_fails_alone(master):
    rank = Rank(master, 2, 16 * MB)
    rank.fill(0)
    assert rank.save(range(1)) == [0]
    addrs, sizes = rank.pieces(range(2))
    assert rank.store.batch_get_into_multi_buffers(
        [key_of(0), key_of(1)], addrs, sizes) == [BLOCK, -704]
    rank.store.close()


def test_tiers_are_told_of_what_is_there(master):
    rank = Rank(master, 2, 16 * MB)
    assert rank.save(range(1)) == [0]
    found = rank.store.batch_get_replica_desc([key_of(0), key_of(1)])
    assert found.get(key_of(1)) is None
    replica = found[key_of(0)][0]
    assert (replica.is_memory_replica(), replica.is_disk_replica(),
            replica.is_local_disk_replica()) == (True, False, False)
    rank.store.close()
