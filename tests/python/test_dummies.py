# SPDX-License-Identifier: Apache-2.0
"""Clients without an engine: tensors and pools by the daemon; needs torch."""
from __future__ import annotations

import threading

import pytest
from mooncake.store import (BufferPool, MooncakeDistributedStore, ParallelAxis,
                            ReadTarget, ReplicateConfig, TensorParallelism)
from pool import MB

torch = pytest.importorskip("torch")
METADATA = 304
WHOLE = torch.arange(96.0).reshape(8, 12)
SIZE = METADATA + 4 * 96


@pytest.fixture(scope="module")
def daemon(master, tmp_path_factory):
    socket = str(tmp_path_factory.mktemp("daemon") / "socket")
    one = master.owner("--socket_path", socket)
    yield socket
    one.kill()


@pytest.fixture
def dummy(daemon, store):
    """Nothing is in the pool."""
    one = MooncakeDistributedStore()
    assert one.setup_dummy(4 * MB, 4 * MB, daemon) == 0
    yield one
    assert one.close() == 0


def tp(rank: int, size: int) -> TensorParallelism:
    return TensorParallelism([ParallelAxis("tp", rank, size, 0)])


def test_tensors_are_put_and_got(dummy, store):
    config = ReplicateConfig()
    puts = {"put_tensor": (), "upsert_tensor": (), "pub_tensor": (config,),
            "upsert_pub_tensor": (config,)}
    for name, more in puts.items():
        assert getattr(dummy, name)(name, WHOLE, *more) == 0
        keys = [f"{name}{i}" for i in range(3)]
        batch = getattr(dummy, name.replace("put", "batch_put", 1) if
                        name == "put_tensor" else f"batch_{name}")
        assert batch(keys, [WHOLE + i for i in range(3)], *more) == [0] * 3
        assert torch.equal(dummy.get_tensor(name), WHOLE)
        got = dummy.batch_get_tensor([*keys, "none"])
        assert got.pop() is None
        assert all(torch.equal(one, WHOLE + i) for i, one in enumerate(got))
        assert torch.equal(store.get_tensor(name), WHOLE)
    assert dummy.batch_put_tensor(["a", "b"], [b"none", WHOLE]) == [-600, 0]


def test_tensors_lie_in_shared_blocks(dummy):
    block = dummy.alloc_from_mem_pool(2 * SIZE)
    assert dummy.put_tensor("k", WHOLE) == 0
    assert torch.equal(dummy.get_tensor_into("k", block, SIZE), WHOLE)
    got = dummy.batch_get_tensor_into(["none", "k"], [block, block + SIZE],
                                      [SIZE, SIZE])
    assert got[0] is None and torch.equal(got[1], WHOLE)
    assert got[1].data_ptr() == block + SIZE + METADATA
    del got
    assert dummy.batch_get_tensor_into(["k"], [0], [SIZE]) == [-600]
    assert dummy.batch_get_tensor_into(["k"], [block], []) == [-600]
    assert dummy.put_tensor_from("l", block, SIZE) == 0
    assert dummy.put_tensor_from("m", block, SIZE - 1) == -600
    assert torch.equal(dummy.get_tensor("l"), WHOLE)


def test_registering_blocks_has_codes_of_its_own(dummy):
    block = dummy.alloc_from_mem_pool(8192)
    parts = (block, 8193), (block, 8191), (block + 1, 8191), (block, 0)
    for addr, size in (*parts, (0, 8), (-1, 8)):
        assert dummy.register_buffer(addr, size) == -1
    assert dummy.register_buffer(block, 8192) == 0
    for addr, size in (*parts, (block, 8192)):
        assert dummy.register_buffer(addr, size) == -1
    for addr in (block + 1, 0, -1):
        assert dummy.unregister_buffer(addr) == -1
    assert dummy.unregister_buffer(block) == 0
    assert dummy.unregister_buffer(block) == -1
    # Without a client both kinds are one.
    closed = MooncakeDistributedStore()
    assert closed.register_buffer(block, 8192) == -600
    assert closed.unregister_buffer(block) == -600


def test_lists_are_as_long_as_their_keys(dummy):
    block = dummy.alloc_from_mem_pool(64)
    two, at, sizes = ["k", "l"], [block, block + 8], [8, 8]
    pieces = [[one] for one in at], [[8], [8]]
    assert dummy.batch_get_into(two, at, sizes) == [-704] * 2
    for name in ("batch_put_from", "batch_upsert_from"):
        assert getattr(dummy, name)(two, at, sizes) == [0] * 2
        assert getattr(dummy, name)(two, at, [8]) == [-600] * 2
        name += "_multi_buffers"
        assert getattr(dummy, name)(two, *pieces) == [0] * 2
        assert getattr(dummy, name)(two, pieces[0], [[8]]) == [-600] * 2
    assert dummy.batch_is_exist([*two, "none"]) == [1, 1, 0]
    assert dummy.batch_get_into([*two, "none"], [block] * 3, [8] * 3) == [8, 8, -704]
    assert dummy.batch_get_into_multi_buffers(two, *pieces) == [8, 8]
    assert dummy.get_batch(["none", "k"]) == [b"", bytes(8)]
    assert [one and len(one) for one in dummy.batch_get_buffer(["none", "k"])] == [
        None, 8]
    assert list(dummy.batch_get_replica_desc([*two, "none"])) == two
    # What is not for dummies.
    ranges = pieces + ([[0], [0]],)
    assert dummy.batch_put_session_start(["m", "n"], sizes) == [-600] * 2
    assert dummy.batch_put_session_end(["m", "n"]) == [-600] * 2
    assert dummy.batch_put_session_revoke(["m", "n"]) == [-600] * 2
    assert dummy.batch_put_from_multi_buffer_ranges(["m", "n"], *ranges) == [-600] * 2
    assert dummy.batch_get_session_start(two) == [-600] * 2
    assert dummy.batch_replica_clear(two) == []
    assert dummy.batch_remove(["none", *two], True) == [-704, 0, 0]


def test_shards_are_written(dummy, store):
    assert dummy.put_tensor_with_tp("k", WHOLE, 0, 2, 0) == 0
    assert torch.equal(dummy.get_tensor_with_tp("k", 1, 2, 0), WHOLE[4:])
    for rank, part in enumerate(WHOLE.chunk(2)):
        assert dummy.put_tensor_with_parallelism("l", part, tp(rank, 2)) == 0
    target = ReadTarget("shard", tp(3, 4))
    assert torch.equal(store.get_tensor_with_parallelism("l", target), WHOLE[6:])
    # Mooncake's cannot put shards together.
    assert torch.equal(dummy.get_tensor_with_parallelism("l", target), WHOLE[6:])


def test_what_has_no_room_is_a_code(dummy):
    large = torch.zeros(80 * MB, dtype=torch.uint8)
    assert dummy.batch_put_tensor(["large", "k"], [large, WHOLE]) == [-200, 0]
    assert dummy.put_tensor("large", large) == -200
    assert dummy.is_exist("large") == 0


def test_threads_put_at_once(dummy):
    codes: list[int] = []

    def work(me: int) -> None:
        for i in range(20):
            codes.append(dummy.put(f"v{me}-{i}", b"x" * 100_000))
            codes.append(dummy.put_tensor(f"t{me}-{i}", WHOLE))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 160
    assert dummy.batch_is_exist([f"t{me}-19" for me in range(4)]) == [1] * 4


def test_a_dummy_has_a_pool(dummy):
    with BufferPool(dummy) as pool, pool.acquire(1000) as lease:
        lease.buffer[:5] = b"value"
        assert dummy.put_from("k", lease.ptr, 5) == 0
        assert dummy.get_into("k", lease.ptr + 500, 500) == 5
        assert lease.buffer[500:505] == b"value"
