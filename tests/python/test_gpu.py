# SPDX-License-Identifier: Apache-2.0
"""Pointers of a GPU's memory in calls of store and engine, with a driver in memory.

Nobody may touch that memory; its bytes lie elsewhere (tests/lib/fake_cuda).
"""
from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from mooncake.engine import TransferEngine
from pool import MB

SIZE = 3 * MB
PATTERN = bytes(range(256)) * (SIZE // 256)


class Gpu:
    """Memory of cuda:0."""

    def __init__(self) -> None:
        file = Path(os.environ["TE_TESTS_DIR"]) / "fake_cuda.so"
        self.cuda = ctypes.CDLL(str(file))
        self.cuda.fake_cuda_bytes.restype = ctypes.c_void_p
        self.cuda.fake_cuda_bytes.argtypes = [ctypes.c_uint64]
        self.context, address = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(SIZE))
        self.address = address.value

    def call(self, name: str, *args: object) -> None:
        assert getattr(self.cuda, name)(*args) == 0

    def set(self, value: bytes) -> None:
        ctypes.memmove(self.cuda.fake_cuda_bytes(self.address), value, len(value))

    def get(self, length: int) -> bytes:
        return ctypes.string_at(self.cuda.fake_cuda_bytes(self.address), length)

    def close(self) -> None:
        self.call("cuMemFree_v2", ctypes.c_uint64(self.address))
        self.call("cuCtxPopCurrent_v2", ctypes.byref(self.context))
        self.call("cuDevicePrimaryCtxRelease_v2", 0)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setenv("TE_CUDA_LIBRARY", str(
        Path(os.environ["TE_TESTS_DIR"]) / "fake_cuda.so"))
    one = Gpu()
    yield one
    one.close()


@pytest.fixture(params=["", "1"], ids=["by default", "by tcp"])
def pair(request, monkeypatch, master, gpu):
    """An owner, and a client that lends nothing."""
    if request.param:
        monkeypatch.setenv("MC_FORCE_TCP", request.param)
    owner = master.store(segment=64 * MB)
    client = master.store(segment=0)
    assert client.register_buffer(gpu.address, SIZE) == 0
    yield client
    assert client.unregister_buffer(gpu.address) == 0
    client.close()
    owner.close()


def test_values_go_to_and_from_a_gpu(pair, gpu):
    gpu.set(PATTERN)
    assert pair.put_from("a", gpu.address, SIZE) == 0
    assert pair.get("a") == PATTERN
    gpu.set(bytes(SIZE))
    assert pair.get_into("a", gpu.address, SIZE) == SIZE
    assert gpu.get(SIZE) == PATTERN


def test_blocks_of_a_cache_go_to_and_from_a_gpu(pair, gpu):
    """As connectors move them: many blocks, several layers a key."""
    block, n = 16384, 24
    keys = [f"b{i}" for i in range(n)]
    at = [[gpu.address + (2 * i + k) * block for k in range(2)] for i in range(n)]
    sizes = [[block, block]] * n
    gpu.set(PATTERN)
    assert pair.batch_put_from_multi_buffers(keys, at, sizes) == [0] * n
    gpu.set(bytes(SIZE))
    assert pair.batch_get_into_multi_buffers(keys, at, sizes) == [2 * block] * n
    assert gpu.get(2 * block * n) == PATTERN[:2 * block * n]
    assert pair.batch_put_from(["c", "d"], [gpu.address, gpu.address + block],
                               [block, block]) == [0, 0]
    assert pair.batch_get_into(["d", "c"], [gpu.address, gpu.address + block],
                               [block, block]) == [block, block]
    assert gpu.get(2 * block) == PATTERN[block:2 * block] + PATTERN[:block]


def test_memory_of_a_gpu_that_is_not_registered_is_refused(pair, gpu):
    assert pair.unregister_buffer(gpu.address) == 0
    assert pair.put_from("a", gpu.address, 100) == -600
    assert pair.register_buffer(gpu.address, SIZE + 1) == -600
    assert pair.register_buffer(gpu.address, SIZE) == 0


@pytest.fixture
def ends(gpu):
    """Two engines, of which the first has the GPU's memory; the second's."""
    engines = TransferEngine(), TransferEngine()
    for engine in engines:
        assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    memory = (ctypes.c_char * SIZE)()
    assert engines[0].register_memory(gpu.address, SIZE) == 0
    assert engines[1].register_memory(ctypes.addressof(memory), SIZE) == 0
    yield *engines, memory
    assert engines[0].unregister_memory(gpu.address) == 0
    assert engines[1].unregister_memory(ctypes.addressof(memory)) == 0


def test_peers_write_to_and_read_from_a_gpu(ends, gpu):
    owner, user, memory = ends
    name = f"127.0.0.1:{owner.get_rpc_port()}"
    there, here = gpu.address, ctypes.addressof(memory)
    memory[:] = PATTERN
    assert user.transfer_sync_write(name, here, there, SIZE) == 0
    assert gpu.get(SIZE) == PATTERN
    gpu.set(PATTERN[::-1])
    assert user.transfer_sync_read(name, here, there, SIZE) == 0
    assert bytes(memory) == PATTERN[::-1]
    block, n = 16384, 100
    here, there = ([at + i * block for i in range(n)] for at in (here, there))
    memory[:] = PATTERN
    assert user.batch_transfer_sync_write(name, here, there, [block] * n) == 0
    assert gpu.get(block * n) == PATTERN[:block * n]


def test_a_gpu_writes_to_its_peers(ends, gpu):
    owner, user, memory = ends
    gpu.set(PATTERN)
    assert owner.transfer_sync_write(
        f"127.0.0.1:{user.get_rpc_port()}", gpu.address,
        ctypes.addressof(memory), SIZE) == 0
    assert bytes(memory) == PATTERN
