# SPDX-License-Identifier: Apache-2.0
"""As vLLM's MooncakeStoreConnector: a rank that stores and loads blocks.

One thread stores, four load, one looks up, all on one object. A block is one
object of 32 pieces. Only codes decide: negative is a failure, -200 means that
the pool is full and that storing pauses until a batch succeeds.
"""
from __future__ import annotations

import queue
import threading

from clients import BLOCK, N_BLOCKS, Blocks, Vllm
from pool import MB


class Rank(Vllm):
    """The worker half of the connector, with pages in memory of the host."""

    def save(self, blocks: Blocks) -> list[int]:
        """Codes of those that were not there."""
        there = self.store.batch_is_exist(self.keys(blocks))
        assert len(there) == len(blocks)
        return super().save([block for block, found in zip(blocks, there)
                             if found != 1])


def test_one_stores_while_four_load_and_one_looks_up(master):
    step = 8
    saver, loader = Rank(master, 64 * MB), Rank(master, 0)
    ready: queue.Queue[range | None] = queue.Queue()
    wrong: list[str] = []
    done = threading.Event()

    def receive() -> None:
        while (blocks := ready.get()) is not None:
            if loader.load(blocks) != [BLOCK] * len(blocks):
                wrong.append(f"load {blocks}")
            wrong.extend(f"bytes of {b}" for b in blocks if not loader.holds(b))

    def look_up() -> None:
        keys = loader.keys(range(2000))
        while not done.is_set():
            if len(loader.store.batch_is_exist(keys)) != len(keys):
                wrong.append("lookup")

    threads = [threading.Thread(target=receive) for _ in range(4)]
    threads.append(threading.Thread(target=look_up))
    for thread in threads:
        thread.start()
    for first in range(0, N_BLOCKS, step):
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
    assert saver.save(range(N_BLOCKS)) == []  # all are there
    assert saver.store.remove_all(force=True) == N_BLOCKS
    for rank in (saver, loader):
        assert rank.store.close() == 0


def test_a_pool_that_is_too_small_forgets_and_goes_on(master):
    rank = Rank(master, 4 * MB)
    for _ in range(2):
        for first in range(0, N_BLOCKS, 8):  # twice what fits
            assert not any(rank.save(range(first, first + 8)))
    rank.store.close()


def test_one_bad_key_fails_alone(master):
    rank = Rank(master)
    assert rank.save([0]) == [0]
    assert rank.load([0, 1]) == [BLOCK, -704]
    assert rank.holds(0)
    rank.store.close()


def test_tiers_are_told_of_what_is_there(master):
    rank = Rank(master)
    there, absent = rank.keys([0, 1])
    assert rank.save([0]) == [0]
    found = rank.store.batch_get_replica_desc([there, absent])
    assert found.get(absent) is None
    replica = found[there][0]
    assert (replica.is_memory_replica(), replica.is_disk_replica(),
            replica.is_local_disk_replica()) == (True, False, False)
    rank.store.close()
