# SPDX-License-Identifier: Apache-2.0
"""As SGLang's HiCache: a storage backend that probes what the package can."""
from __future__ import annotations

import ctypes
import urllib.request

import pytest
from mooncake.store import (MooncakeDistributedStore, MooncakeHostMemAllocator,
                            ReplicateConfig)
from peer import free_port
from pool import MB, Master, Memory, register_gpu, until

PAGE = 16384


def set_up(master: Master, segment: int, **options: object):
    """With every option that the package takes, as SGLang finds out."""
    store = MooncakeDistributedStore()
    arguments = ("127.0.0.1", "P2PHANDSHAKE", segment, 16 * MB, "rdma", "",
                 master.address, None)
    try:
        rc = store.setup(*arguments, **options)
    except TypeError as error:
        known = {name: value for name, value in options.items()
                 if name not in str(error)}
        assert len(known) < len(options)
        rc = store.setup(*arguments, **known)
    assert not rc
    return store


def warm_up(store: MooncakeDistributedStore) -> None:
    value = bytes(4096)
    assert store.put("sglang_mooncake_store_warmup_key", value) == 0
    assert store.is_exist("sglang_mooncake_store_warmup_key") == 1
    assert store.get("sglang_mooncake_store_warmup_key") == value


def test_options_are_probed_by_what_a_type_error_says(master):
    store = set_up(master, 16 * MB, enable_ssd_offload=True,
                   ssd_offload_path="", tenant_id="default",
                   enable_client_http_server=True, client_http_port=0,
                   option_of_next_year=1)
    warm_up(store)


def test_eight_ranks_share_sixteen_megabytes_and_never_close(master):
    stores = [set_up(master, 16 * MB // 8 - 4096 * i) for i in range(8)]
    for store in stores:
        warm_up(store)
    del stores, store
    warm_up(set_up(master, 2 * MB))


@pytest.mark.parametrize("with_groups", [False, True])
def test_pages_are_backed_up_and_prefetched(master, with_groups):
    assert hasattr(ReplicateConfig, "group_ids")
    store = set_up(master, 16 * MB)
    memory = Memory(64 * PAGE)
    assert store.register_buffer(memory.addr, memory.size) == 0
    keys = [f"{with_groups}_{i:032x}_0_{half}" for i in range(8)
            for half in "kv"]
    addrs = [memory.fill(bytes([i + 1]) * PAGE, i * PAGE) for i in range(16)]
    config = ReplicateConfig()
    if with_groups:
        config.group_ids = [f"group{i // 2}" for i in range(16)]
    assert store.batch_is_exist(keys) == [0] * 16
    assert store.batch_put_from(keys, addrs, [PAGE] * 16, config) == [0] * 16
    assert store.batch_put_from([], [], []) == []
    assert store.batch_is_exist(keys) == [1] * 16
    assert store.batch_get_into(
        keys, [addr + 16 * PAGE for addr in addrs], [PAGE] * 16) == [PAGE] * 16
    assert memory.read(0, 16 * PAGE) == memory.read(16 * PAGE, 16 * PAGE)
    embeddings = store.batch_put_from_multi_buffers(
        [f"{with_groups}embedding"], [addrs[:2]], [[PAGE, 100]])
    assert embeddings == [0]
    assert store.batch_get_into_multi_buffers(
        [f"{with_groups}embedding"], [addrs[:2]], [[PAGE, 100]]) == [PAGE + 100]
    store.close()


def test_layers_are_linked_through_a_session(master):
    store = set_up(master, 16 * MB)
    memory = Memory(8 * PAGE)
    register_gpu(store, memory)
    keys = ["layered_0", "layered_1"]
    for name in ("batch_get_session_start_with_sources",
                 "record_prefetched_tokens"):
        assert getattr(store, name, None) is None
    assert store.put_batch(keys, [bytes(range(256)) * 64] * 2) == 0
    assert store.batch_get_session_start(keys) == [0, 0]
    for layer in range(4):
        offset = layer * PAGE // 4
        addrs = [[memory.addr + i * PAGE, memory.addr + i * PAGE + 1000]
                 for i in range(2)]
        assert store.batch_get_into_multi_buffer_ranges(
            keys, addrs, [[1000, PAGE // 4 - 1000]] * 2,
            [[offset, offset + 1000]] * 2) == [PAGE // 4] * 2
        assert memory.read(PAGE, PAGE // 4) == bytes(range(256)) * 16
    assert store.batch_get_session_end(keys) == 0
    store.close()


def test_five_stores_of_one_process_go_one_after_another(master):
    """None is closed; those that are left hold what they hold."""
    stores = [set_up(master, 4 * MB) for _ in range(5)]
    for i, store in enumerate(stores):
        config = ReplicateConfig()
        config.preferred_segment = store.get_hostname()
        assert store.put(f"of {i}", bytes([i]) * PAGE, config) == 0
    keys = [f"of {i}" for i in range(5)]
    while stores:
        n = len(stores)
        for store in stores:
            assert store.get_batch(keys[-n:]) == [
                bytes([i]) * PAGE for i in range(5 - n, 5)]
            warm_up(store)
        del stores[0], store


def test_standalone_storage_is_of_the_hosts_client(master):
    """Pages lie in memory of the allocator; the store has none of its own."""
    port = free_port()
    daemon = master.owner(port=port)
    store = MooncakeDistributedStore()
    assert not store.setup_dummy(4 * MB, 16 * MB, f"127.0.0.1:{port}")
    warm_up(store)
    addr = MooncakeHostMemAllocator().alloc(16 * PAGE)
    pages = (ctypes.c_char * (16 * PAGE)).from_address(addr)
    pages[:8 * PAGE] = b"kv cache" * PAGE
    assert store.register_buffer(addr, 16 * PAGE) == 0
    keys = [f"standalone_{i}" for i in range(8)]
    addrs = [addr + i * PAGE for i in range(8)]
    assert store.batch_put_from(keys, addrs, [PAGE] * 8) == [0] * 8
    assert store.batch_put_from([], [], []) == []
    assert store.batch_is_exist(keys + ["none"]) == [1] * 8 + [0]
    assert store.batch_get_into(
        keys, [one + 8 * PAGE for one in addrs], [PAGE] * 8) == [PAGE] * 8
    assert pages[:8 * PAGE] == pages[8 * PAGE:]
    assert store.remove_all() >= 0
    del store
    daemon.kill()


def test_a_server_is_there_when_it_lists_segments(master):
    """Asked again and again, at the port of the master's metrics."""
    def answer() -> bytes:
        url = f"http://{master.admin}/get_all_segments"
        with urllib.request.urlopen(url) as body:
            return body.read()

    assert answer() == b""
    store = set_up(master, 16 * MB)
    until(lambda: store.get_hostname() in answer().decode())
