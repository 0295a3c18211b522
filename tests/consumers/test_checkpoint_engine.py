# SPDX-License-Identifier: Apache-2.0
"""As checkpoint-engine and loaders of weights: many read what one publishes."""
from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import vram
from mooncake.engine import TransferEngine
from peer import ADDRESS, LENGTH, Peer, free_port
from pool import Memory

BUCKETS = 64
READERS = 4


class P2PStore:
    """Starts with up to eight tries, and registers what it reads into."""

    def __init__(self) -> None:
        for _ in range(8):
            self.engine = TransferEngine()
            if self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma",
                                      "") == 0:
                break
        assert self.engine.get_rpc_port() > 0
        self.memory = Memory(LENGTH)
        size = LENGTH // BUCKETS
        self.offsets = [i * size for i in range(BUCKETS)]
        self.sizes = [size] * BUCKETS
        self.buckets = [self.memory.addr + offset for offset in self.offsets]

    def register(self) -> None:
        assert self.engine.batch_register_memory(self.buckets,
                                                 self.sizes) == 0

    def unregister(self) -> None:
        assert self.engine.batch_unregister_memory(self.buckets) == 0

    def load(self, session: str, seed: int = 0) -> int:
        order = list(range(BUCKETS))
        random.Random(seed).shuffle(order)
        return self.engine.batch_transfer_sync_read(
            session, [self.buckets[i] for i in order],
            [ADDRESS + self.offsets[i] for i in order], self.sizes)

    def holds(self, owner: Peer) -> bool:
        return owner.digest(0, LENGTH) == Peer.digest_of(
            self.memory.read(0, LENGTH))


def test_weights_are_read_by_all_and_registered_anew_each_time():
    readers = [P2PStore() for _ in range(READERS)]
    with Peer() as owner, ThreadPoolExecutor(READERS) as pool:
        for version in range(3):
            owner.ask(do="write", offset=version * 4096,
                      text=f"version {version}" * 100)
            for reader in readers:
                reader.register()
            assert list(pool.map(lambda i: readers[i].load(owner.name, i),
                                 range(READERS))) == [0] * READERS
            assert all(reader.holds(owner) for reader in readers)
            for reader in readers:
                reader.unregister()
        if not vram.GPU:  # unregistered memory, too
            assert readers[0].load(owner.name) == 0


def test_owner_that_died_is_an_error_and_its_successor_is_read(monkeypatch):
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "15")
    reader, port = P2PStore(), free_port()
    reader.register()
    with Peer(port) as owner:
        assert reader.load(owner.name) == 0
    assert reader.load(f"127.0.0.1:{port}") != 0
    with Peer(port) as owner:
        owner.ask(do="write", text="successor")
        assert reader.load(owner.name) == 0
        assert reader.holds(owner)
    reader.unregister()
