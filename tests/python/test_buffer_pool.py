# SPDX-License-Identifier: Apache-2.0
"""mooncake.buffer_pool and mooncake.async_store, on top of the store."""
from __future__ import annotations

import asyncio
import threading

import mooncake.store
import pytest
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.buffer_pool import BufferPool
from pool import MB


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
    with pytest.raises(ValueError):
        _ = first.buffer
    held = [pool.acquire(MB) for _ in range(8)]
    assert len({lease.ptr for lease in held}) == 8
    with pytest.raises(MemoryError):
        pool.acquire(MB, block=False)
    with pytest.raises(TimeoutError):
        pool.buffer(MB, timeout=0)
    gone = held.pop()
    gone.release()
    assert pool.acquire(MB).ptr == gone.ptr
    pool.close()


def test_who_waits_gets_what_comes_back(store):
    pool = BufferPool(store, max_bytes=8 * MB, alignment=8 * MB)
    lease = pool.acquire(8 * MB)
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(
        pool.acquire(8 * MB).ptr))
    thread.start()
    lease.release()
    thread.join()
    assert got == [lease.ptr]
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


def test_memory_outlives_a_pool_that_is_closed(store):
    pool = BufferPool(store)
    lease = pool.acquire(MB)
    pool.close()
    lease.buffer[:3] = b"abc"
    assert store.put_from("late", lease.ptr, 3) == 0
    lease.release()
    assert store.get("late") == b"abc"


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
