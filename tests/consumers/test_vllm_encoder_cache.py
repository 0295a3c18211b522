# SPDX-License-Identifier: Apache-2.0
"""As vLLM's encoder cache on the store: a header and a tensor as one value.

Buffers are registered for one put each. Codes are sorted: after some of them the
memory is as good as new, after any other the client would be given up.
"""
from __future__ import annotations

import struct

from mooncake.store import (MooncakeDistributedStore, ObjectDataType,
                            ReplicateConfig)
from pool import MB, Memory

HEADER = struct.Struct("<QQQ")
HARMLESS = {-200, -703, -704, -705, -900, -901}
HARMLESS_GET = HARMLESS | {-600, -702, -707}
HARMLESS_PUT = HARMLESS | {-1700}


def checked(results: object, n: int) -> list[int]:
    assert type(results) is list and len(results) == n
    assert all(type(result) is int for result in results)
    return results


def put(store: MooncakeDistributedStore, key: str, tensor: bytes) -> int:
    header = HEADER.pack(1, len(tensor), sum(tensor))
    memory = Memory(HEADER.size + len(tensor))
    memory.fill(header + tensor)
    config = ReplicateConfig()
    config.data_type = ObjectDataType.TENSOR
    assert store.register_buffer(memory.addr, memory.size) == 0
    code, = checked(store.batch_put_from_multi_buffers(
        [key], [[memory.addr, memory.addr + HEADER.size]],
        [[HEADER.size, len(tensor)]], config), 1)
    assert store.unregister_buffer(memory.addr) == 0
    memory.fill(b"\xff" * memory.size)  # nobody reads it any more
    return code


def test_embeddings_are_put_once_and_got_whole(master):
    producer, consumer = master.store(segment=64 * MB), master.store(segment=0)
    tensors = {f"mm_hash_{i}": bytes([i]) * (100_000 + i) for i in range(16)}
    for key, tensor in tensors.items():
        assert put(producer, key, tensor) == 0
        assert put(producer, key, tensor) == 0
    room = Memory(128 * MB)
    assert consumer.register_buffer(room.addr, room.size) == 0
    keys = [*tensors, "mm_hash_none"]
    assert checked(consumer.batch_is_exist(keys), 17) == [1] * 16 + [0]
    sizes = [HEADER.size + len(tensor) for tensor in tensors.values()] + [24]
    offsets = [i * 256 * 1024 for i in range(17)]
    got = checked(consumer.batch_get_into(
        keys, [room.addr + offset for offset in offsets], sizes), 17)
    assert got[:16] == sizes[:16] and got[16] == -704
    for offset, tensor in zip(offsets, tensors.values()):
        header = HEADER.unpack(room.read(offset, HEADER.size))
        assert header == (1, len(tensor), sum(tensor))
        assert room.read(offset + HEADER.size, len(tensor)) == tensor
    assert consumer.unregister_buffer(room.addr) == 0
    assert producer.close() == 0 and consumer.close() == 0


def test_codes_of_trouble_say_that_the_memory_is_left_alone(master):
    store = master.store(segment=2 * MB)
    room = Memory(8 * MB)
    assert put(store, "too large", bytes(4 * MB)) in HARMLESS_PUT
    assert put(store, "small", b"x" * 1000) == 0
    assert checked(store.batch_get_into(["small"], [room.addr], [10]),
                   1)[0] in HARMLESS_GET
    master.kill()
    assert put(store, "away", b"x") in HARMLESS_PUT
    assert checked(store.batch_get_into(["other"], [room.addr], [10]),
                   1)[0] in HARMLESS_GET
    assert store.close() == 0
