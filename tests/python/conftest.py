# SPDX-License-Identifier: Apache-2.0
"""What tests of the package share: a master, an engine, a peer, memory."""
from __future__ import annotations

from collections.abc import Iterator

import pytest

import vram
from gpu import LIBRARY, Gpu
from mooncake.engine import TransferEngine
from peer import Peer
from pool import MB, Master
from pool import Memory as Bytes


class Memory:
    """Local memory with an address, of the kind that TE_TEST_MEMORY names."""

    def __init__(self, length: int) -> None:
        self.bytes = Bytes(length)
        self.address = self.bytes.addr
        self.length = length

    def set(self, content: bytes, offset: int = 0) -> None:
        self.bytes.fill(content, offset)

    def get(self, offset: int, length: int) -> bytes:
        return self.bytes.read(offset, length)


def make_engine(host: str = "127.0.0.1") -> TransferEngine:
    engine = TransferEngine()
    assert engine.initialize(host, "P2PHANDSHAKE", "tcp", "") == 0
    return engine


@pytest.fixture
def engine() -> TransferEngine:
    return make_engine()


@pytest.fixture(scope="module")
def peer():
    with Peer() as one:
        yield one


@pytest.fixture
def memory() -> Memory:
    return Memory(1 << 20)


@pytest.fixture
def lent(engine, memory) -> Iterator[Memory]:
    """Memory that the engine may move: the host's is not registered for that."""
    if vram.GPU:
        assert engine.register_memory(memory.address, memory.length) == 0
    yield memory
    if vram.GPU:
        assert engine.unregister_memory(memory.address) == 0


@pytest.fixture(scope="module")
def master():
    one = Master()
    yield one
    one.kill()


@pytest.fixture(scope="module")
def joined(master):
    """A client of the pool, with memory for it."""
    one = master.store(segment=64 * MB)
    yield one
    one.close()


@pytest.fixture
def store(joined):
    """The same, and nothing is in the pool."""
    assert joined.remove_all(force=True) >= 0
    return joined


@pytest.fixture
def gpu(monkeypatch):
    """cuda:0, and its driver is the one that engines load."""
    monkeypatch.setenv("TE_CUDA_LIBRARY", LIBRARY)
    one = Gpu()
    yield one
    one.close()
