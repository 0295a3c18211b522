# SPDX-License-Identifier: Apache-2.0
"""Pointers of a GPU's memory in calls of the store, with a driver in memory.

Nobody may touch that memory; its bytes lie elsewhere (tests/lib/fake_cuda).
"""
from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
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
