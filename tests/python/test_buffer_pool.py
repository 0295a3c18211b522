# SPDX-License-Identifier: Apache-2.0
"""mooncake.buffer_pool and mooncake.async_store, on top of the store."""
from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import threading

import mooncake
import mooncake.buffer_pool
import mooncake.store
import pytest
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.buffer_pool import BufferPool
from mooncake.store import BufferLeaseView, MooncakeDistributedStore
from pool import MB, until

CAPACITY = 16 * MB  # of the fixture's local buffer, which a pool has at least
MAX = (1 << 64) - 1


def small_pool(store, **others: object) -> BufferPool:
    return BufferPool(store, max_bytes=1, **others)


def refused(words: str):
    return pytest.raises(RuntimeError, match=words)


def test_pieces_carry_values(store):
    with BufferPool(store) as pool:
        with pool.acquire(100_000) as lease:
            assert (lease.size, len(lease.buffer)) == (100_000, 100_000)
            lease.buffer[:5] = b"value"
            assert store.put_from("pooled", lease.ptr, 5) == 0
            assert store.get_into("pooled", lease.ptr + 1000, 5) == 5
            assert lease.buffer[1000:1005] == b"value"


def test_pieces_are_registered_and_used_again(store):
    pool = small_pool(store)
    first = pool.acquire(MB)
    assert first.ptr % MB == 0
    assert store.unregister_buffer(first.ptr + 1) == -600
    first.release()
    first.release()
    for name in ("buffer", "ptr"):
        with refused("closed"):
            getattr(first, name)
    held = [pool.acquire(MB) for _ in range(16)]
    assert len({lease.ptr for lease in held}) == 16
    with refused("exhausted"):
        pool.acquire(1, block=False)
    with refused("timed out"):
        pool.buffer(MB, timeout=0)
    gone = held[-1].ptr
    held.pop().release()
    held.append(pool.acquire(MB))
    assert held[-1].ptr == gone
    for lease in held:
        lease.release()
    pool.close()
    pool.close()


@pytest.mark.parametrize("lost", [False, True], ids=["released", "lost"])
def test_who_waits_gets_what_comes_back(store, lost):
    pool = small_pool(store)
    lease = pool.acquire(CAPACITY)
    ptr = lease.ptr
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(
        pool.acquire(CAPACITY).ptr))
    thread.start()
    until(lambda: pool._waiters)
    if lost:
        lease.itself = lease  # only the collector finds it
        del lease
        gc.collect()
    else:
        lease.release()
    thread.join()
    assert got == [ptr]
    pool.close()


# ---- sizes ----


@pytest.mark.parametrize("max_bytes,capacity", [
    (0, 2 * CAPACITY), (1, CAPACITY), (CAPACITY + 1, CAPACITY + 1)])
def test_a_pool_has_what_the_local_buffer_has_at_least(store, max_bytes,
                                                       capacity):
    pool = BufferPool(store, max_bytes)
    with pool.acquire(capacity) as all_of_it:
        assert len(all_of_it.buffer) == capacity
        with refused("exhausted"):
            pool.acquire(0, block=False)
    for size in (capacity + 1, MAX):
        with refused("capacity"):
            pool.acquire(size)
    pool.close()


@pytest.mark.parametrize("size", [0, 1, 63, 4097, 3 * MB + 1])
def test_any_size_is_a_size(store, size):
    pool = BufferPool(store, min_size_class=MB, max_size_class=MB)
    with pool.acquire(size) as lease, lease.buffer as view:
        assert (lease.size, len(view), view.nbytes) == (size, size, size)
        assert view.format == "B" and not view.readonly
        assert lease.ptr % 64 == 0
        if size:
            view[size - 1] = 7
            assert lease.buffer[size - 1] == 7
        else:
            with refused("exported views"):
                lease.release()
    pool.close()


def test_leases_are_counted_by_what_was_asked_for(store):
    pool = small_pool(store)
    held = [pool.acquire(CAPACITY // 2 + 1), pool.acquire(CAPACITY // 2 - 2)]
    held.append(pool.acquire(0, block=False))
    with refused("exhausted"):
        pool.acquire(0, block=False)
    del held
    pool.close()


def test_memory_goes_from_one_size_to_another(store):
    pool = small_pool(store)
    for size in (1, 100_000, MB, CAPACITY, 5 * MB, 1):
        held = [pool.acquire(size) for _ in range(min(40, CAPACITY // size))]
        assert pool._bytes <= 2 * CAPACITY
        del held
    pool.close()


def test_leases_have_a_number_too(store):
    pool = BufferPool(store, max_regions=2, block_on_exhaustion=False)
    with pool.acquire(1), pool.acquire(1):
        with refused("exhausted"):
            pool.acquire(1)
        with refused("timed out"):
            pool.acquire(1, True, 0)
    pool.close()
    none = BufferPool(store, max_regions=0)
    with refused("exhausted"):
        none.acquire(1)


def test_warming_up_changes_no_bounds(store):
    pool = BufferPool(store, max_bytes=1, prewarm_size=MB, prewarm_count=3)
    assert pool.prewarm(MB, 8) == 8
    assert pool.prewarm(64 << 10, MAX) <= CAPACITY
    pool.acquire(CAPACITY).release()
    pool.close()
    BufferPool(store, prewarm_size=MAX, prewarm_count=1).close()


# ---- views ----


def views(lease) -> list[object]:
    """One of each kind that shows memory of a lease."""
    whole = lease.buffer
    return [whole, whole[10:20], memoryview(whole), whole.toreadonly(),
            ctypes.c_char.from_buffer(whole),
            pytest.importorskip("numpy").frombuffer(whole, "u1")[5:]]


@pytest.mark.parametrize("kind", range(6))
def test_a_lease_of_which_there_is_a_view_is_not_released(store, kind):
    pool = small_pool(store)
    lease = pool.acquire(CAPACITY)
    view = views(lease)[kind]
    for _ in range(2):
        with refused("exported views"):
            lease.release()
    with refused("exhausted"):
        pool.acquire(MB, block=False)
    lease.buffer[:3] = b"abc"  # it goes on
    assert store.put_from(f"seen{kind}", lease.ptr, 3) == 0
    del view
    lease.release()
    pool.acquire(CAPACITY, block=False).release()
    pool.close()


def test_a_view_that_is_released_is_none(store):
    pool = BufferPool(store)
    with pool.acquire(MB) as lease:
        with lease.buffer as view:
            view[:1] = b"x"
            assert isinstance(view.obj, BufferLeaseView)
    pool.close()


def test_a_view_keeps_memory_of_a_lease_that_is_lost(store):
    pool = small_pool(store)
    view = pool.acquire(CAPACITY).buffer
    view[:3] = b"abc"
    with refused("exhausted"):
        pool.acquire(MB, block=False)
    with refused("active leases"):
        pool.close()
    del view
    pool.acquire(CAPACITY, block=False).release()
    pool.close()


def test_a_pool_with_leases_is_not_closed(store):
    pool = BufferPool(store)
    lease = pool.acquire(MB)
    for _ in range(2):
        with refused("active leases: 1 "):
            pool.close()
    pool.acquire(MB).release()  # it goes on
    lease.buffer[:3] = b"abc"
    assert store.put_from("late", lease.ptr, 3) == 0
    lease.release()
    pool.close()
    with refused("closed"):
        pool.acquire(MB)
    assert store.get("late") == b"abc"


def test_what_is_raised_under_a_lease_is_what_is_seen(store):
    pool = BufferPool(store)
    with pytest.raises(KeyError) as raised:
        with pool, pool.acquire(MB) as lease:
            view = lease.buffer
            view[:3] = b"abc"
            raise KeyError
    assert bytes(view[:3]) == b"abc" and raised
    with refused("closed"):
        pool.acquire(MB)
    with refused("active leases"):
        pool.close()
    del view, raised
    pool.close()


def test_a_pool_that_is_dropped_leaves_nothing_registered(store):
    pool = BufferPool(store)
    lease = pool.acquire(MB)
    ptr = lease.ptr
    view = lease.buffer
    del pool, lease
    assert store.put_from("dropped", ptr, 8) == 0
    begin = ptr - ptr % (8 * MB)
    del view
    assert store.unregister_buffer(begin) == -600


# ---- what is refused ----


def test_a_store_without_a_buffer_or_a_client_has_no_pool(master):
    for none in (None, MooncakeDistributedStore()):
        with refused("not initialized"):
            BufferPool(none)
    for wrong in (5, "store", object()):
        with refused("store"):
            BufferPool(wrong)
    bare = master.store(local=0)
    with refused("local buffer"):
        BufferPool(bare)
    bare.close()
    with refused("not initialized"):
        BufferPool(bare)


@pytest.mark.parametrize("words,wrong", [
    ("alignment must be positive", dict(min_size_class=0)),
    ("alignment must be positive", dict(alignment=0)),
    ("alignment", dict(alignment=4)), ("alignment", dict(alignment=48))])
def test_classes_and_alignments_are_checked(store, words, wrong):
    with refused(words):
        BufferPool(store, **wrong)


@pytest.mark.parametrize("wrong", [
    dict(max_bytes=-1), dict(max_bytes=1 << 64), dict(max_bytes=1.5),
    dict(max_regions=-1), dict(alignment="8"), dict(min_size_class=None),
    dict(default_timeout="1"), dict(block_on_exhaustion=2)])
def test_types_are_type_errors(store, wrong):
    with pytest.raises(TypeError, match=next(iter(wrong))):
        BufferPool(store, **wrong)


def test_acquire_checks_its_arguments(store):
    pool = BufferPool(store)
    for wrong in (-1, 1 << 64, 1.0, "1", None):
        with pytest.raises(TypeError, match="size"):
            pool.acquire(wrong)
    with pytest.raises(TypeError, match="timeout"):
        pool.acquire(1, timeout="1")
    with pytest.raises(TypeError, match="block"):
        pool.acquire(1, block=1)
    for wrong in (-1, -0.001, float("nan")):
        with refused("timeout"):
            pool.acquire(1, timeout=wrong)
    pool.acquire(1, timeout=float("inf")).release()
    with refused("timeout"):
        BufferPool(store, default_timeout=-1).acquire(1)
    pool.close()


def test_what_the_store_does_not_register_is_refused(master):
    store = master.store()
    pool = BufferPool(store)
    store.close()
    with refused("registration failed"):
        pool.acquire(MB)
    pool.close()


# ---- names ----


def test_the_class_has_four_names():
    for module in (mooncake, mooncake.buffer_pool, mooncake.store):
        assert module.BufferPool is module.RegisteredBufferPool is BufferPool
    for module in (mooncake, mooncake.buffer_pool):
        assert sorted(module.__all__) == ["BufferPool", "RegisteredBufferPool"]
    names = mooncake.store
    assert names.BufferLease is names.RegisteredBufferLease
    assert names.BufferLeaseView is names.RegisteredBufferLeaseView
    for module in (mooncake, mooncake.store):
        with pytest.raises(AttributeError):
            _ = module.NoSuchName


def test_the_package_needs_no_store(tmp_path):
    """And shares its name with other distributions."""
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake" / "of_others.py").write_text("here = 1\n")
    code = ("import sys; sys.modules['mooncake.store'] = None\n"
            "import mooncake, mooncake.buffer_pool, mooncake.of_others\n"
            "assert mooncake.BufferPool is None\n"
            "assert mooncake.buffer_pool.RegisteredBufferPool is None\n")
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(tmp_path)])
    subprocess.run([sys.executable, "-c", code], check=True,
                   env=os.environ | {"PYTHONPATH": path})


def test_every_method_has_an_asynchronous_form(master):
    store = MooncakeDistributedStoreAsync()

    async def run() -> None:
        assert await store.async_setup(
            "127.0.0.1", "P2PHANDSHAKE", 16 * MB, 0, "tcp", "",
            master.address) == 0
        codes = await asyncio.gather(*(
            store.async_put(f"async{i}", b"value") for i in range(32)))
        assert codes == [0] * 32
        assert await store.async_get(key="async7") == b"value"
        assert store.get("async8") == b"value"
        assert await store.async_close() == 0

    asyncio.run(run())
    for name in dir(mooncake.store.MooncakeDistributedStore):
        if not name.startswith("_"):
            assert asyncio.iscoroutinefunction(
                getattr(store, f"async_{name}"))
