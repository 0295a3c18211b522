# SPDX-License-Identifier: Apache-2.0
"""mooncake.buffer_pool and mooncake.async_store, on top of the store."""
from __future__ import annotations

import asyncio
import ctypes
import gc
import threading

import mooncake.store
import pytest
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.buffer_pool import BufferPool
from pool import MB, until


def test_pieces_carry_values(store):
    with BufferPool(store) as pool:
        with pool.acquire(100_000) as lease:
            assert (lease.size, len(lease.buffer)) == (100_000, 100_000)
            lease.buffer[:5] = b"value"
            assert store.put_from("pooled", lease.ptr, 5) == 0
            assert store.get_into("pooled", lease.ptr + 1000, 5) == 5
            assert lease.buffer[1000:1005] == b"value"


def test_pieces_are_registered_and_used_again(store):
    pool = BufferPool(store, max_bytes=8 * MB)
    first = pool.acquire(MB)
    assert first.ptr % (8 * MB) in range(0, 8 * MB, MB)
    assert store.unregister_buffer(first.ptr + 1) == -600
    first.release()
    first.release()
    for name in ("buffer", "ptr"):
        with pytest.raises(RuntimeError, match="closed"):
            getattr(first, name)
    held = [pool.acquire(MB) for _ in range(8)]
    assert len({lease.ptr for lease in held}) == 8
    with pytest.raises(MemoryError):
        pool.acquire(MB, block=False)
    with pytest.raises(TimeoutError):
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
    pool = BufferPool(store, max_bytes=8 * MB, alignment=8 * MB)
    lease = pool.acquire(8 * MB)
    ptr = lease.ptr
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(
        pool.acquire(8 * MB).ptr))
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


def test_a_pool_warms_up_and_has_bounds(store):
    pool = BufferPool(store, max_regions=1, max_size_class=MB, prewarm_size=MB,
                      prewarm_count=3)
    assert pool.prewarm(MB, 8) == 8
    assert pool.prewarm(64 << 10, 1) == 0
    with pytest.raises(ValueError):
        pool.acquire(MB + 1)
    with pytest.raises(ValueError):
        pool.acquire(0)
    pool.close()
    with pytest.raises(RuntimeError):
        pool.acquire(MB)


def one_piece(store) -> BufferPool:
    """A pool that has no other memory to give than what came back."""
    return BufferPool(store, max_bytes=MB, min_size_class=MB)


def views(lease) -> list[object]:
    """One of each kind that shows memory of a lease."""
    whole = lease.buffer
    return [whole, whole[10:20], memoryview(whole), whole.toreadonly(),
            ctypes.c_char.from_buffer(whole),
            pytest.importorskip("numpy").frombuffer(whole, "u1")[5:]]


@pytest.mark.parametrize("kind", range(6))
def test_a_lease_of_which_there_is_a_view_is_not_released(store, kind):
    pool = one_piece(store)
    lease = pool.acquire(MB)
    view = views(lease)[kind]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exported views"):
            lease.release()
    with pytest.raises(MemoryError):
        pool.acquire(MB, block=False)
    lease.buffer[:3] = b"abc"  # it goes on
    assert store.put_from(f"seen{kind}", lease.ptr, 3) == 0
    del view
    lease.release()
    pool.acquire(MB, block=False).release()
    pool.close()


def test_a_view_that_is_released_is_none(store):
    pool = one_piece(store)
    with pool.acquire(MB) as lease:
        with lease.buffer as view:
            view[:1] = b"x"
    pool.close()


def test_a_view_keeps_memory_of_a_lease_that_is_lost(store):
    pool = one_piece(store)
    view = pool.acquire(MB).buffer
    view[:3] = b"abc"
    with pytest.raises(MemoryError):
        pool.acquire(MB, block=False)
    with pytest.raises(RuntimeError, match="active leases"):
        pool.close()
    del view
    pool.acquire(MB, block=False).release()
    pool.close()


def test_a_pool_with_leases_is_not_closed(store):
    pool = BufferPool(store)
    lease = pool.acquire(MB)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="active leases: 1 "):
            pool.close()
    pool.acquire(MB).release()  # it goes on
    lease.buffer[:3] = b"abc"
    assert store.put_from("late", lease.ptr, 3) == 0
    lease.release()
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.acquire(MB)
    assert store.get("late") == b"abc"


def test_what_is_raised_under_a_lease_is_what_is_seen(store):
    pool = one_piece(store)
    with pytest.raises(KeyError) as raised:
        with pool, pool.acquire(MB) as lease:
            view = lease.buffer
            view[:3] = b"abc"
            raise KeyError
    assert bytes(view[:3]) == b"abc" and raised
    with pytest.raises(RuntimeError, match="closed"):
        pool.acquire(MB)
    with pytest.raises(RuntimeError, match="active leases"):
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


def test_wrong_arguments_are_named(store):
    for wrong in (None, 5, "store"):
        with pytest.raises(TypeError, match="store"):
            BufferPool(wrong)
    for wrong in (dict(max_bytes=-1), dict(max_regions=-1)):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            BufferPool(store, **wrong)
    for wrong in (dict(alignment=3), dict(min_size_class=0)):
        with pytest.raises(ValueError):
            BufferPool(store, **wrong)


def test_the_store_has_the_class_as_well():
    assert mooncake.store.BufferPool is BufferPool
    with pytest.raises(AttributeError):
        _ = mooncake.store.NoSuchName


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
