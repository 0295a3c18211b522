# SPDX-License-Identifier: Apache-2.0
"""As LMCache's remote connector: chunks by put_parts and by address, asyncio."""
from __future__ import annotations

import asyncio
import os
import signal

import numpy
import pytest
from mooncake.store import (MooncakeDistributedStore, ReplicateConfig,
                            bind_to_numa_node)
from pool import MB, Master, Memory, until

METADATA = 28
CHUNK = 256 * 1024
PATIENCE = 60  # one second there, which a crowded machine may not have


def settings(master: Master, **more: object) -> dict[str, str]:
    """All values are texts, and the keys are the older ones."""
    values = {
        "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": 16 * MB, "local_buffer_size": 0,
        "protocol": "tcp", "device_name": "",
        "master_server_address": master.address, "transfer_timeout": 1,
        "storage_root_dir": "", **more}
    return {name: str(value) for name, value in values.items()}


class Connector:
    def __init__(self, master: Master, **more: object) -> None:
        bind_to_numa_node(0)
        self.store = MooncakeDistributedStore()
        self.store.setup(settings(master, **more))
        self.config = ReplicateConfig()
        self.config.replica_num = 1
        self.config.preferred_segment = self.store.get_hostname()
        self.memory = Memory(8 * CHUNK)
        assert self.store.register_buffer(self.memory.addr,
                                          self.memory.size) == 0

    async def put(self, key: str, chunk: int, size: int = CHUNK) -> None:
        await asyncio.wait_for(asyncio.to_thread(
            self.store.put_from, key, self.memory.addr + chunk * CHUNK, size,
            self.config), PATIENCE)

    async def get(self, keys: list[str], chunks: list[int]) -> list[int]:
        return await asyncio.to_thread(
            self.store.batch_get_into, keys,
            [self.memory.addr + chunk * CHUNK for chunk in chunks],
            [CHUNK] * len(keys))

    def close(self) -> None:
        assert self.store.unregister_buffer(self.memory.addr) == 0
        assert self.store.close() == 0


def test_chunks_with_metadata_are_parts_and_buffers(master):
    connector = Connector(master, local_buffer_size="16 MB")
    metadata = bytearray(range(METADATA))
    chunk = memoryview(os.urandom(CHUNK))
    assert not connector.store.is_exist("chunk")
    connector.store.put_parts("chunk", metadata, chunk)
    assert connector.store.is_exist("chunk")
    buffers = connector.store.batch_get_buffer(["chunk", "none"])
    assert buffers[1] is None
    view = memoryview(buffers[0])
    assert view[:METADATA] == metadata
    assert view[METADATA:] == chunk
    array = numpy.frombuffer(buffers[0], numpy.uint8, offset=METADATA)
    assert array.tobytes() == chunk and not array.flags.owndata
    view.release()
    del buffers
    connector.store.remove("chunk", True)
    assert array.tobytes() == chunk  # its memory is held by it
    del array
    connector.close()


def test_without_a_local_buffer_parts_and_addresses_work(master):
    connector = Connector(master)
    connector.store.put_parts("parts", b"metadata", memoryview(bytes(CHUNK)))
    (buffer,) = connector.store.batch_get_buffer(["parts"])
    assert bytes(buffer)[:8] == b"metadata"
    del buffer
    connector.close()


def test_the_last_chunk_may_be_smaller_than_its_buffer(master):
    connector = Connector(master)

    async def run() -> None:
        connector.memory.fill(b"full" * (CHUNK // 4))
        connector.memory.fill(b"part" * 100, CHUNK)
        await asyncio.gather(connector.put("a", 0), connector.put("b", 1, 400))
        assert await connector.get(["a", "b", "c"], [2, 3, 4]) == [
            CHUNK, 400, -704]
        assert connector.memory.read(2 * CHUNK, 8) == b"fullfull"
        assert connector.memory.read(3 * CHUNK, 400) == b"part" * 100

    asyncio.run(run())
    connector.close()


def test_a_put_that_was_given_up_ends_late_and_harms_nothing(master):
    """Its memory is used again, as LMCache does; the value is whole or absent."""
    connector = Connector(master)

    async def run() -> None:
        connector.memory.fill(b"a" * CHUNK)
        os.kill(master.program.process.pid, signal.SIGSTOP)
        late = asyncio.create_task(asyncio.to_thread(
            connector.store.put_from, "late", connector.memory.addr, CHUNK,
            connector.config))
        try:
            await asyncio.wait_for(asyncio.shield(late), 0.1)
        except asyncio.TimeoutError:
            pass  # mostly: it waits for the master
        os.kill(master.program.process.pid, signal.SIGCONT)
        assert await late <= 0
        there = connector.store.get("late")
        assert there in (b"", b"a" * CHUNK)
        until(lambda: connector.store.put("after", b"x") == 0)
        assert connector.store.get("after") == b"x"

    asyncio.run(run())
    connector.close()


def test_a_setup_that_failed_unseen_costs_misses_only():
    store = MooncakeDistributedStore()
    try:
        store.setup({"local_hostname": "127.0.0.1"})
    except TypeError:
        pytest.fail("LMCache would go on with the older form")
    memory = Memory(64)
    store.put_parts("k", b"metadata", b"value")
    assert store.batch_get_buffer(["k"]) == [None]
    assert store.batch_get_into(["k"], [memory.addr], [64])[0] <= 0
    store.close()


def test_lookup_clients_named_alike_share_a_host(master):
    owner = Connector(master)
    owner.store.put("there", b"x")
    lookups = []
    for _ in range(3):
        store = MooncakeDistributedStore()
        store.setup("localhost", "P2PHANDSHAKE", 0, 16 * MB, "tcp", "",
                    master.address)
        assert store.batch_is_exist(["there", "not"]) == [1, 0]
        lookups.append(store)
    del lookups
    owner.close()
