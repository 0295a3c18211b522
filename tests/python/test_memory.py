# SPDX-License-Identifier: Apache-2.0
"""Memory that is registered and then gone, or that cannot be used as asked."""
from __future__ import annotations

import ctypes
import mmap

import pytest

import vram
from conftest import make_engine
from mooncake.engine import TransferEngine
from mooncake.store import TaskStatus
from peer import ADDRESS, Peer
from pool import Master, lend, until

LENGTH = 1 << 20
READ, BOTH = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
NONE = 0


class Mapped:
    """Memory with an address, whose protection and end the test decides."""

    def __init__(self, protection: int) -> None:
        self.libc = ctypes.CDLL(None)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
            ctypes.c_int, ctypes.c_long]
        self.libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.address = self.libc.mmap(
            None, LENGTH, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            -1, 0)

    def protect(self, offset: int, protection: int) -> None:
        """One page of it."""
        assert self.libc.mprotect(
            ctypes.c_void_p(self.address + offset),
            ctypes.c_size_t(mmap.PAGESIZE), protection) == 0

    def free(self) -> None:
        assert self.libc.munmap(self.address, LENGTH) == 0


@pytest.fixture(scope="module")
def store():
    master = Master()
    store = master.store()
    assert store.put("k", b"value") == 0
    yield store
    store.close()
    master.kill()


def test_a_store_refuses_registered_memory_that_is_gone(store):
    memory = Mapped(BOTH)
    here = memory.address
    assert store.register_buffer(here, LENGTH) == 0
    assert store.get_into("k", here + 8, 100) == 5
    memory.free()
    assert store.put_from("gone", here, 100) == -600
    assert store.get_into("k", here, 100) == -600
    assert store.batch_get_into_multi_buffers(
        ["k"], [[here, here + 8]], [[8, 8]]) == [-600]
    assert store.get_into_ranges(
        [here], [["k"]], [[[0]]], [[[0]]], [[[5]]]) == [[[-600]]]
    assert store.unregister_buffer(here) == 0


def test_a_store_writes_to_no_registered_memory_that_is_for_reading(store):
    memory = Mapped(READ)
    assert store.register_buffer(memory.address, LENGTH) == 0
    assert store.get_into("k", memory.address, 100) == -600
    assert store.put_from("zeros", memory.address, 100) == 0
    assert store.get("zeros") == bytes(100)
    assert store.unregister_buffer(memory.address) == 0


def test_a_store_reads_no_registered_memory_that_nobody_may(store):
    memory = Mapped(NONE)
    # With a driver of GPUs it is taken for memory of one that was freed.
    code = -600 if vram.GPU else 0
    assert store.register_buffer(memory.address, LENGTH) == code
    assert store.put_from("none", memory.address, 100) == -600
    assert store.unregister_buffer(memory.address) == code


PAGE = mmap.PAGESIZE


@pytest.mark.parametrize("registered", [False, True])
def test_a_store_finds_a_page_without_access_in_the_middle(store, registered):
    memory = Mapped(BOTH)
    here, size = memory.address, 3 * PAGE
    assert store.put("large", bytes(size)) == 0
    memory.protect(PAGE, NONE)
    if registered:
        assert store.register_buffer(here, LENGTH) == 0
    assert store.put_from("none", here, size) == -600
    assert store.is_exist("none") == 0
    assert store.upsert_from("none", here, size) == -600
    assert store.batch_put_from_multi_buffers(
        ["none"], [[here, here + 8]], [[8, size - 8]]) == [-600]
    assert store.get_into("large", here, size) == -600
    assert store.batch_get_into(["large", "k"], [here, here + size],
                                [size, 100]) == [-600, 5]
    assert store.batch_get_into_multi_buffers(
        ["large"], [[here, here + 8]], [[8, size - 8]]) == [-600]
    assert store.get_into_ranges(
        [here], [["large"]], [[[0]]], [[[0]]], [[[size]]]) == [[[-600]]]
    memory.protect(PAGE, READ)
    assert store.put_from("zeros", here, size) == 0
    assert store.get_into("large", here, size) == -600
    memory.protect(PAGE, BOTH)
    assert store.get_into("large", here, size) == size
    if registered:
        assert store.unregister_buffer(here) == 0
    assert store.batch_remove(["large", "zeros"], True) == [0, 0]
    memory.free()


@pytest.fixture(scope="module", params=["", "1"], ids=["shm", "tcp"])
def force_tcp(request):
    return request.param


@pytest.fixture
def engine(force_tcp, monkeypatch) -> TransferEngine:
    monkeypatch.setenv("MC_FORCE_TCP", force_tcp)
    return make_engine()


@pytest.fixture(scope="module")
def peer(force_tcp):
    with Peer(MC_FORCE_TCP=force_tcp) as one:
        yield one


def test_an_engine_refuses_registered_memory_that_is_gone(engine, peer):
    memory = Mapped(BOTH)
    here = memory.address
    assert engine.register_memory(here, LENGTH) == 0
    assert engine.transfer_sync_write(peer.name, here, ADDRESS, 64) == 0
    memory.free()
    assert engine.transfer_sync_write(peer.name, here, ADDRESS, 64) == -1
    assert engine.transfer_sync_read(peer.name, here, ADDRESS, 64) == -1
    assert engine.write_bytes_to_buffer(here, b"12345", 5) == -1
    with pytest.raises(ValueError):
        engine.read_bytes_from_buffer(here, 5)
    assert engine.unregister_memory(here) == 0


def test_an_engine_writes_to_no_registered_memory_that_is_for_reading(
        engine, peer):
    here = Mapped(READ).address
    assert engine.register_memory(here, LENGTH) == 0
    assert engine.transfer_sync_write(peer.name, here, ADDRESS, 64) == 0
    assert engine.transfer_sync_read(peer.name, here, ADDRESS, 64) == -1
    assert engine.write_bytes_to_buffer(here, b"12345", 5) == -1
    assert engine.read_bytes_from_buffer(here, 5) == bytes(5)


def test_an_engine_finds_a_page_without_access_in_the_middle(engine, peer):
    memory = Mapped(BOTH)
    here = memory.address
    memory.protect(PAGE, NONE)
    assert engine.register_memory(here, LENGTH) == 0
    for at, length, code in ((here, 3 * PAGE, -1), (here, PAGE, 0),
                             (here + 2 * PAGE, PAGE, 0)):
        for move in (engine.transfer_sync_write, engine.transfer_sync_read):
            assert move(peer.name, at, ADDRESS, length) == code
    assert engine.write_bytes_to_buffer(here, bytes(3 * PAGE), 3 * PAGE) == -1
    memory.protect(PAGE, BOTH)
    assert engine.transfer_sync_read(peer.name, here, ADDRESS, 3 * PAGE) == 0
    assert engine.unregister_memory(here) == 0
    memory.free()


def test_peers_write_to_no_memory_that_is_for_reading(engine, force_tcp):
    here, mine = Mapped(READ).address, Mapped(BOTH).address
    assert engine.register_memory(here, LENGTH) == 0
    other = make_engine()
    name = f"127.0.0.1:{engine.get_rpc_port()}"
    assert other.transfer_sync_read(name, mine, here, 64) == 0
    assert other.transfer_sync_write(name, mine, here, 64) == -1


def test_an_engine_registers_no_memory_that_nobody_may_read(engine):
    assert engine.register_memory(Mapped(NONE).address, LENGTH) == -1


# ---- files that are made shorter ----

N, SIZE = 8, 200_000
KEYS = [f"short{i}" for i in range(N)]


@pytest.fixture
def shortened(tmp_path):
    """A master, its owner and a user: all memory of the pool has just gone."""
    path = tmp_path / "segment"
    path.write_bytes(b"")
    with open(path, "r+b") as file:
        file.truncate(4 << 20)
        master = Master()
        owner, user = master.store(0), master.store(0)
        assert owner.mount_segment(str(path), 8 << 20)["ret"] == -600
        ids = owner.mount_segment(str(path), 4 << 20)["segment_ids"]
        assert [user.put(key, bytes(SIZE)) for key in KEYS] == [0] * N
        file.truncate(0)
        yield master, owner, user, ids
    user.close()
    owner.close()
    master.kill()


@pytest.mark.parametrize("who", [1, 2])
def test_what_lay_in_a_file_that_is_shorter_now_is_a_miss(shortened, who):
    store = shortened[who]
    assert store.get_batch(KEYS) == [b""] * N
    assert store.put("new", b"value") < 0
    assert store.upsert(KEYS[0], b"value") < 0
    memory = lend(store, LENGTH)
    assert store.get_into(KEYS[1], memory.addr, LENGTH) == -704
    assert [store.remove(key, force=True) for key in KEYS[2:]] == [0] * (N - 2)


def test_it_is_offered_to_no_other_master(shortened):
    master, owner, user, ids = shortened
    master.restart()
    until(lambda: owner.health_check() == 0 and user.health_check() == 0)
    assert user.get(KEYS[0]) == b""
    until(lambda: owner.unmount_segment(ids) == 0)


def test_it_is_not_copied(shortened):
    master, owner, user, _ = shortened
    other = master.store(4 << 20)
    task, code = user.create_copy_task(KEYS[0], [other.get_hostname()])
    assert code == 0
    until(lambda: user.query_task(task)[0].status in (
        TaskStatus.FAILED, TaskStatus.SUCCESS))
    assert user.query_task(task)[0].status == TaskStatus.FAILED
    assert owner.health_check() == 0
    other.close()
