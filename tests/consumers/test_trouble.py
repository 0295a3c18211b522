# SPDX-License-Identifier: Apache-2.0
"""The trouble that every consumer of the store meets, in the shape of each."""
from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from clients import BLOCK, CLIENTS, N_BLOCKS, Client
from mooncake.store import MooncakeDistributedStore
from pool import MB, Master, Memory, register_gpu, until

NO_SPACE, NO_KEY = -200, -704

pytestmark = pytest.mark.parametrize("shape", CLIENTS)


def loads_again(client: Client, blocks: range) -> None:
    client.forget()
    assert client.load(blocks) == [BLOCK] * len(blocks)
    assert [block for block in blocks if not client.holds(block)] == []


def test_a_full_pool_says_so_and_recovers(shape):
    """Full it is while all that is there is being read."""
    master = Master("--default_kv_lease_ttl", "600000",
                    "--eviction_high_watermark_ratio", "1")
    client = shape(master, 4 * MB)
    codes, n = [0], 0
    while codes == [0] and n < N_BLOCKS:
        codes = client.save(range(n, n + 1))
        if codes == [0]:
            keys = client.keys(range(n, n + 1))
            assert client.store.batch_get_session_start(keys) == [0]
            n += 1
    assert codes == [NO_SPACE] and n > 0
    loads_again(client, range(n))
    assert client.store.batch_get_session_end(client.keys(range(n))) == 0
    until(lambda: client.save(range(n, n + 1)) == [0])
    loads_again(client, range(n, n + 1))
    assert client.store.close() == 0
    master.kill()


class Traffic:
    """Saves and loads all the time, and notes what is not as it should be."""

    def __init__(self, client: Client, blocks: range) -> None:
        self.client, self.blocks = client, blocks
        self.turns, self.failures, self.wrong = 0, 0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _turn(self) -> None:
        client, blocks = self.client, self.blocks
        codes = client.save(blocks)
        client.forget()
        sizes = client.load(blocks)
        self.failures += sum(code != 0 for code in codes)
        self.wrong += [f"save: {codes}"] * (
            len(codes) != len(blocks) or max(codes) > 0)
        self.wrong += [f"load: {sizes}"] * (len(sizes) != len(blocks))
        self.wrong += [
            f"bytes of {block}" for block, size in zip(blocks, sizes)
            if size == BLOCK and not client.holds(block)]
        self.wrong += [f"size {size}" for size in sizes if 0 <= size != BLOCK]

    def _run(self) -> None:
        while not self.over.is_set():
            try:
                self._turn()
            except Exception as error:
                self.wrong.append(repr(error))
            self.turns += 1


def test_a_master_that_is_killed_amid_traffic_comes_back(shape, master):
    client = shape(master)
    kept = range(N_BLOCKS - 4, N_BLOCKS)
    assert client.save(kept) == [0] * 4
    with Traffic(client, range(8)) as traffic:
        for _ in range(2):
            before = traffic.turns
            until(lambda: traffic.turns > before + 1)  # noqa: B023
            master.restart()
            until(lambda: not any(client.save(range(16, 20))))
    assert traffic.wrong == []
    loads_again(client, range(16, 20))
    until(lambda: client.load(kept) == [BLOCK] * 4)
    loads_again(client, kept)
    assert client.store.close() == 0


def test_an_owner_that_is_killed_amid_traffic_costs_misses(shape, master):
    client, memory = shape(master, 0), master.owner()
    until(lambda: not any(client.save(range(4))))
    with Traffic(client, range(8, 16)) as traffic:
        before = traffic.turns
        until(lambda: traffic.turns > before + 1)
        memory.kill()
        lost = client.load(range(4))
        memory = master.owner()
        until(lambda: not any(client.save(range(4, 8))))
    assert len(lost) == 4 and all(code < 0 for code in lost)
    assert traffic.wrong == []
    loads_again(client, range(4, 8))
    assert client.store.close() == 0
    memory.kill()


def test_calls_that_are_given_up_after_a_second_end_late(shape, master):
    """Who gave them up goes on; nothing is wrong when their owner goes on, too."""
    client, memory = shape(master, 0), master.owner()
    until(lambda: not any(client.save(range(4))))
    os.kill(memory.process.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as pool:
        late = [pool.submit(client.save, range(4, 8)),
                pool.submit(client.load, range(4))]
        wait(late, 1)
        os.kill(memory.process.pid, signal.SIGCONT)
        saved, loaded = (one.result() for one in late)
    assert len(saved) == 4 and all(code <= 0 for code in saved)
    assert len(loaded) == 4 and all(size < 0 or size == BLOCK
                                    for size in loaded)
    until(lambda: not any(client.save(range(4, 8))))
    until(lambda: client.load(range(8)) == [BLOCK] * 8)
    loads_again(client, range(8))
    assert client.store.close() == 0
    memory.kill()


def test_a_buffer_may_be_larger_than_what_it_gets(shape, master):
    client = shape(master)
    assert client.save(range(2)) == [0, 0]
    room = Memory(2 * BLOCK)
    register_gpu(client.store, room)
    room.fill(b"\xee" * room.size)
    keys = client.keys(range(1)) + ["none"]
    assert client.store.batch_get_into(
        keys, [room.addr, room.addr], [2 * BLOCK, BLOCK]) == [BLOCK, NO_KEY]
    assert room.read(0, BLOCK) == client.saved.read(0, BLOCK)
    assert room.read(BLOCK, BLOCK) == b"\xee" * BLOCK
    assert client.store.batch_get_into_multi_buffers(
        client.keys(range(1, 2)), [[room.addr, room.addr + 100]],
        [[100, 2 * BLOCK - 100]]) == [BLOCK]
    assert room.read(0, BLOCK) == client.saved.read(BLOCK, BLOCK)
    assert room.read(BLOCK, BLOCK) == b"\xee" * BLOCK
    assert client.store.close() == 0


def no_keys_no_results(store: MooncakeDistributedStore) -> None:
    for method, arguments in (
            ("batch_is_exist", 1), ("batch_put_from", 3), ("batch_get_into", 3),
            ("batch_put_from_multi_buffers", 3), ("batch_get_buffer", 1),
            ("batch_get_into_multi_buffers", 3), ("batch_remove", 1),
            ("batch_put_session_start", 2), ("batch_put_session_end", 1),
            ("batch_get_session_start", 1)):
        assert getattr(store, method)(*[[]] * arguments) == [], method


def one_result_a_key(client: Client) -> None:
    """All of them failures, whatever the reason."""
    keys = client.keys(range(3))
    results = [client.save(range(3)), client.load(range(3)),
               client.store.batch_is_exist(keys),
               client.store.batch_remove(keys, True)]
    assert [len(codes) for codes in results] == [3] * 4
    assert all(code < 0 for codes in results for code in codes), results


def test_results_are_as_many_as_keys_whatever_is_wrong(shape, master):
    client = shape(master)
    no_keys_no_results(client.store)
    assert client.save(range(0)) == [] and client.load(range(0)) == []
    assert client.store.close() == 0
    one_result_a_key(client)
    no_keys_no_results(client.store)
    client.store = MooncakeDistributedStore()
    one_result_a_key(client)
    no_keys_no_results(client.store)
    assert client.set_up("127.0.0.1:0", 16 * MB) < 0
    one_result_a_key(client)
    no_keys_no_results(client.store)
