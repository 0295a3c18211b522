# SPDX-License-Identifier: Apache-2.0
"""Pointers of a GPU's memory in calls of store and engine, with a driver in memory.

Nobody may touch that memory; its bytes lie elsewhere (tests/lib/fake_cuda).
"""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu import SIZE
from mooncake import allocator
from mooncake._layout import FULL, HEADER, LAYOUT, MAGIC, METADATA, NAMES, VERSION
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore
from peer import ADDRESS, LENGTH, Peer
from pool import MB

PATTERN = bytes(range(256)) * (SIZE // 256)


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


def test_a_buffer_may_span_regions_side_by_side(ends, gpu):
    user, owner, memory = ends
    name = f"127.0.0.1:{owner.get_rpc_port()}"
    there, half = ctypes.addressof(memory), SIZE // 2
    here = [name, gpu.address, there, SIZE]
    assert user.unregister_memory(gpu.address) == 0
    assert user.batch_register_memory([gpu.address, gpu.address + half],
                                      [half, half]) == 0
    gpu.set(PATTERN)
    assert user.transfer_sync_write(*here) == 0
    assert memory.raw == PATTERN
    gpu.set(bytes(SIZE))
    assert user.transfer_sync_read(*here) == 0
    assert gpu.get(SIZE) == PATTERN
    assert user.unregister_memory(gpu.address) == 0
    assert user.transfer_sync_read(*here) == -1
    assert user.unregister_memory(gpu.address + half) == 0
    assert user.register_memory(gpu.address, SIZE) == 0


def test_no_processor_touches_it(ends, gpu, capfd):
    user = ends[0]
    assert user.write_bytes_to_buffer(gpu.address, b"abc", 3) == -1
    assert "dest_address: memory of a GPU" in capfd.readouterr().err
    with pytest.raises(ValueError, match="source_address: memory of a GPU"):
        user.read_bytes_from_buffer(gpu.address + 8, 3)


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


# ---- tensors, without torch ----


class Tensor:
    """What is asked of a tensor of a GPU."""

    is_cuda = True

    def __init__(self, address: int, count: int, dtype: str = "float32") -> None:
        self.address, self.count, self.dtype = address, count, f"torch.{dtype}"
        self.contiguous = True

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return 4

    def is_contiguous(self) -> bool:
        return self.contiguous


def stored(data: bytes, dtype: str = "float32") -> bytes:
    """A value as put_tensor() makes it of one dimension."""
    count = len(data) // 4
    shape = [count, *[-1] * 7]
    head = HEADER.pack(MAGIC, VERSION, METADATA, NAMES.index(dtype), 1, FULL, 0,
                       METADATA, len(data))
    return (head + LAYOUT.pack(*shape, *shape, 0, 0)).ljust(METADATA, b"\0") + data


@pytest.fixture(params=["registered", "not registered", "dummy"])
def reader(request, master, gpu, tmp_path):
    """A client that reads tensors into the GPU."""
    socket = str(tmp_path / "socket")
    owner = master.owner("--socket_path", socket)
    if request.param == "dummy":
        client = MooncakeDistributedStore()
        assert client.setup_dummy(4 * MB, 16 * MB, socket) == 0
    else:
        client = master.store(segment=0)
    if request.param == "registered":
        assert client.register_buffer(gpu.address, SIZE) == 0
    assert client.remove_all(force=True) >= 0
    yield client
    client.close()
    owner.kill()


def test_tensors_are_read_into_a_gpu(reader, gpu):
    size, n = MB, 3
    values = [PATTERN[i:i + size] for i in range(n)]
    for i, value in enumerate(values):
        assert reader.put(f"t{i}", stored(value)) == 0
    gpu.set(bytes(SIZE))
    one = Tensor(gpu.address + 256, size // 4)
    assert reader.get_tensor_into_cuda("t1", one) == size
    assert gpu.get(size + 512) == bytes(256) + values[1] + bytes(256)
    tensors = [Tensor(gpu.address + i * size, size // 4) for i in range(n)]
    assert reader.batch_get_tensor_into_cuda(
        [f"t{i}" for i in range(n)], tensors) == [size] * n
    assert gpu.get(SIZE) == b"".join(values)
    assert reader.put("empty", stored(b"")) == 0
    assert reader.get_tensor_into_cuda(
        "empty", Tensor(gpu.address, 0)) == 0


def test_what_cannot_be_read_into_a_gpu_leaves_it_as_it_was(reader, gpu):
    assert reader.put("t", stored(bytes(400))) == 0
    assert reader.put("short", b"no tensor") == 0
    assert reader.put("long", bytes(1000)) == 0
    gpu.set(PATTERN)
    at = gpu.address
    ragged = Tensor(at, 100)
    ragged.contiguous = False
    wrong = [Tensor(at, 99), Tensor(at, 101), Tensor(at, 100, "int32"), ragged]
    assert reader.batch_get_tensor_into_cuda(["t"] * 4, wrong) == [-600] * 4
    good = Tensor(at, 100)
    assert reader.batch_get_tensor_into_cuda(
        ["none", "short", "long"], [good] * 3) == [-704, -600, -600]
    assert gpu.get(SIZE) == PATTERN
    # One that can be is read beside those that cannot.
    assert reader.batch_get_tensor_into_cuda(
        ["none", "t"], [good, good]) == [-704, 400]
    assert gpu.get(401) == bytes(400) + PATTERN[400:401]
    assert reader.batch_get_tensor_into_cuda(["t"], []) == [-600]
    assert reader.batch_get_tensor_into_cuda(["t"], good) == [-600]
    # Past the end of what is allocated, and memory that no GPU has.
    assert reader.get_tensor_into_cuda("t", Tensor(at + SIZE - 399, 100)) == -800
    memory = (ctypes.c_char * 400)(*b"x" * 400)
    assert reader.batch_get_tensor_into_cuda(
        ["t", "t"], [Tensor(ctypes.addressof(memory), 100), good]) == [-800, 400]
    assert bytes(memory) == b"x" * 400


def test_a_store_without_a_pool_reads_nothing_into_a_gpu(gpu):
    one = Tensor(gpu.address, 100)
    assert MooncakeDistributedStore().get_tensor_into_cuda("t", one) == -600


# ---- the allocator of torch's pools ----


@pytest.fixture
def pool(gpu):
    """What torch calls of the allocator's library."""
    library = ctypes.CDLL(str(allocator.LIBRARY))
    library.mc_nvlink_malloc.restype = ctypes.c_void_p
    library.mc_nvlink_malloc.argtypes = [
        ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    library.mc_nvlink_free.restype = None
    library.mc_nvlink_free.argtypes = [
        ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    return library


def test_memory_of_a_pool_is_registered_and_written_to(pool, gpu):
    assert (allocator.NVLinkAllocator.detect_mem_backend()
            == allocator.MemoryBackend.USE_CUMEMCREATE)
    at = pool.mc_nvlink_malloc(SIZE, 0, None)
    assert at and at % (2 * MB) == 0
    engines = TransferEngine(), TransferEngine()
    for engine in engines:
        assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "nvlink_intra", "") == 0
    assert engines[0].register_memory(at, SIZE) == 0
    memory = (ctypes.c_char * SIZE)(*PATTERN)
    assert engines[1].register_memory(ctypes.addressof(memory), SIZE) == 0
    name = f"127.0.0.1:{engines[0].get_rpc_port()}"
    assert engines[1].transfer_sync_write(
        name, ctypes.addressof(memory), at, SIZE) == 0
    assert ctypes.string_at(gpu.cuda.fake_cuda_bytes(at), SIZE) == PATTERN
    assert engines[0].unregister_memory(at) == 0
    assert engines[1].unregister_memory(ctypes.addressof(memory)) == 0
    pool.mc_nvlink_free(at, SIZE, 0, None)
    assert not gpu.cuda.fake_cuda_bytes(at)


@pytest.mark.skipif("TE_TEST_MEMORY" in os.environ, reason="has a driver of its own")
def test_gpus_copy_between_pools_of_two_processes(pool, gpu):
    """Whole chunks at both ends: the GPU copies from one's to the other's."""
    at = pool.mc_nvlink_malloc(LENGTH, 0, None)
    content = PATTERN * (LENGTH // SIZE) + PATTERN[:LENGTH % SIZE]
    ctypes.memmove(gpu.cuda.fake_cuda_bytes(at), content, LENGTH)
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "nvlink_intra", "") == 0
    assert engine.register_memory(at, LENGTH) == 0
    with Peer(TE_TEST_MEMORY="cuda:1") as peer:
        assert engine.transfer_sync_write(peer.name, at, ADDRESS, LENGTH) == 0
        assert gpu.cuda.fake_cuda_n_imported() == 1
        assert peer.digest(0, LENGTH) == Peer.digest_of(content)
        peer.ask(do="write", offset=MB, text="from the peer")
        assert engine.transfer_sync_read(peer.name, at, ADDRESS, LENGTH) == 0
        assert ctypes.string_at(gpu.cuda.fake_cuda_bytes(at + MB),
                                13) == b"from the peer"
        assert engine.unregister_memory(at) == 0
        assert gpu.cuda.fake_cuda_n_imported() == 0
    pool.mc_nvlink_free(at, LENGTH, 0, None)
    assert not gpu.cuda.fake_cuda_bytes(at)


def test_memory_that_a_gpu_has_not_is_null_with_a_line(pool, gpu, capfd):
    assert not pool.mc_nvlink_malloc(SIZE, 9, None)
    assert "sees no cuda:9" in capfd.readouterr().err
    gpu.cuda.fake_cuda_fail(b"cuMemCreate", 2)
    assert not pool.mc_nvlink_malloc(SIZE, 0, None)
    gpu.cuda.fake_cuda_fail(b"cuMemCreate", 0)
    assert f"has no {SIZE} bytes left" in capfd.readouterr().err
    assert not pool.mc_nvlink_malloc(0, 0, None)
    pool.mc_nvlink_free(None, 0, 0, None)
    pool.mc_nvlink_free(gpu.address, SIZE, 0, None)  # not of the pool
    assert gpu.cuda.fake_cuda_bytes(gpu.address)


def test_the_allocator_is_imported_without_torch():
    script = ("import sys; sys.modules['torch'] = None\n"
              "from mooncake.allocator import NVLinkAllocator, BarexAllocator\n"
              "for one in NVLinkAllocator, BarexAllocator:\n"
              "    try: one.get_allocator('cuda:0')\n"
              "    except ImportError as error: print(error)\n")
    done = subprocess.run([sys.executable, "-c", script], text=True,
                          capture_output=True, check=True)
    torch, barex = done.stdout.splitlines()
    assert "mooncake needs torch" in torch and "libaccl_barex.so" in barex
