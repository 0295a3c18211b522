# SPDX-License-Identifier: Apache-2.0
"""As vLLM-Ascend's pool: an engine that is shared, sessions by layers."""
from __future__ import annotations

import inspect

from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from pool import MB, Master, Memory, register_gpu

LAYERS, LAYER = 4, 8192


def knows(store: MooncakeDistributedStore, option: str) -> bool:
    return (option in inspect.signature(store.setup).parameters
            or option in (store.setup.__doc__ or ""))


def set_up(master: Master) -> MooncakeDistributedStore:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    store = MooncakeDistributedStore()
    options = {}
    if knows(store, "enable_ssd_offload"):
        options = {"enable_ssd_offload": False, "ssd_offload_path": ""}
    assert store.setup(f"127.0.0.1:{engine.get_rpc_port()}", "P2PHANDSHAKE",
                       16 * MB, 0, "tcp", "", master.address,
                       engine.get_engine(), **options) == 0
    return store


def test_options_are_found_in_signature_and_words():
    store = MooncakeDistributedStore()
    assert knows(store, "enable_ssd_offload")
    assert "enable_ssd_offload" in store.setup.__doc__


def test_blocks_stay_together_where_they_fit(master):
    store = set_up(master)
    memory = Memory(4 * LAYER)
    register_gpu(store, memory)
    config = ReplicateConfig()
    config.preferred_segment = store.get_hostname()
    config.prefer_alloc_in_same_node = True
    keys = ["together0", "together1"]
    addrs = [[memory.addr, memory.addr + LAYER]] * 2
    sizes = [[LAYER, LAYER]] * 2
    assert store.batch_put_from_multi_buffers(keys, addrs, sizes,
                                              config) == [0, 0]
    assert store.batch_get_into_multi_buffers(keys, addrs, sizes,
                                              True) == [2 * LAYER] * 2
    store.close()


def test_layers_are_written_and_read_one_by_one(master):
    writer, reader = set_up(master), set_up(master)
    memory, room = Memory(2 * LAYERS * LAYER), Memory(2 * LAYERS * LAYER)
    register_gpu(writer, memory)
    register_gpu(reader, room)
    keys = ["layered0", "layered1"]
    config = ReplicateConfig()
    assert writer.batch_put_session_start(keys, [LAYERS * LAYER] * 2,
                                          config) == [0, 0]
    for layer in range(LAYERS):
        addrs = [[memory.fill(bytes([16 * i + layer]) * LAYER,
                              (i * LAYERS + layer) * LAYER)] for i in range(2)]
        assert writer.batch_put_from_multi_buffer_ranges(
            keys, addrs, [[LAYER]] * 2, [[layer * LAYER]] * 2) == [LAYER] * 2
        assert reader.batch_is_exist(keys) == [0, 0]
    assert writer.batch_put_session_end(keys) == [0, 0]
    assert reader.batch_get_session_start(keys) == [0, 0]
    for layer in reversed(range(LAYERS)):
        addrs = [[room.addr + (i * LAYERS + layer) * LAYER] for i in range(2)]
        assert reader.batch_get_into_multi_buffer_ranges(
            keys, addrs, [[LAYER]] * 2, [[layer * LAYER]] * 2) == [LAYER] * 2
    assert reader.batch_get_session_end(keys) == 0
    assert room.read(0, room.size) == memory.read(0, memory.size)
    writer.close()
    reader.close()


def test_what_is_given_up_is_not_seen(master):
    store = set_up(master)
    assert store.batch_put_session_start(["given up"], [LAYER]) == [0]
    assert store.batch_put_session_revoke(["given up"]) == [0]
    assert store.batch_is_exist(["given up"]) == [0]
    assert store.batch_put_session_start(["given up"], [LAYER]) == [0]
    assert store.batch_put_session_revoke(["given up"]) == [0]
    store.close()
