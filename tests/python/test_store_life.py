# SPDX-License-Identifier: Apache-2.0
"""mooncake.store: setup in all its forms, and calls at the wrong time."""
from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest
from mooncake.engine import TransferEngine
from mooncake.store import (BufferHandle, MooncakeDistributedStore,
                            MooncakeHostMemAllocator, ReplicateConfig,
                            bind_to_numa_node)
from peer import free_port
from pool import MB, Master, Memory, only_host_forks, lend, until
from sanitizers import needs_fork


def usable(store: MooncakeDistributedStore) -> bool:
    return store.put("k", b"v") == 0 and store.get("k") == b"v"


# ---- forms of setup ----


def test_setup_by_position(master):
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 16 * MB, 16 * MB, "tcp", "",
                       master.address, None) == 0
    assert usable(store)
    host, _, port = store.get_hostname().rpartition(":")
    assert host == "127.0.0.1" and int(port) > 0
    assert store.health_check() == 0
    assert store.close() == 0
    assert store.health_check() == 1
    assert store.close() == 0


@pytest.mark.parametrize("devices, address", [
    ("rdma_devices", "master_server_addr"),
    ("device_name", "master_server_address")])
def test_setup_by_keyword(master, devices, address):
    store = MooncakeDistributedStore()
    assert store.setup(
        local_hostname="127.0.0.1", metadata_server="P2PHANDSHAKE",
        global_segment_size=16 * MB, local_buffer_size=0, protocol="tcp",
        **{devices: "", address: master.address}, enable_ssd_offload=True,
        ssd_offload_path="", tenant_id="default",
        enable_client_http_server=False, client_http_port=9300) == 0
    assert usable(store)
    store.close()


@pytest.mark.parametrize("address", ["master_server_addr",
                                     "master_server_address"])
def test_setup_by_dictionary(master, address):
    store = MooncakeDistributedStore()
    assert store.setup({
        "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "16 MB", "local_buffer_size": 0,
        "protocol": "tcp", "device_name": "", address: master.address,
        "enable_ssd_offload": "False", "something_new": True}) == 0
    assert usable(store)
    store.close()


def ask(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}",
                                timeout=60) as answer:
        return answer.read().decode()


def with_http(master) -> tuple[MooncakeDistributedStore, int]:
    """A store with an HTTP port; others may take a free one before it."""
    for _ in range(20):
        store, port = MooncakeDistributedStore(), free_port()
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 16 * MB, 0, "tcp", "",
                           master.address, enable_client_http_server=True,
                           client_http_port=port) == 0
        try:
            if "te_store_healthy" in ask(port, "/metrics"):
                return store, port
        except OSError:
            pass
        store.close()
    raise AssertionError("no free port")


def test_a_client_has_a_port_for_http(master, capfd):
    store, port = with_http(master)
    assert ask(port, "/health") == "OK\n"
    assert "\nte_store_healthy 1\n" in ask(port, "/metrics")
    assert ask(port, "/metrics/summary").startswith("Client Metrics: healthy")
    second = MooncakeDistributedStore()
    capfd.readouterr()
    assert second.setup("127.0.0.1", "P2PHANDSHAKE", MB, 0, "tcp", "",
                        master.address, enable_client_http_server=True,
                        client_http_port=port) == 0
    assert f"{port}" in capfd.readouterr().err
    assert usable(second)
    second.close()
    store.close()
    with pytest.raises(OSError):
        ask(port, "/health")


def test_disks_are_not_here_and_that_is_said(master, capfd):
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 16 * MB, 0, "tcp", "",
                       master.address, enable_ssd_offload=True) == 0
    assert capfd.readouterr().err.count("no disks") == 1
    assert usable(store)
    store.close()


def test_rdma_without_devices_goes_by_tcp(master):
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", MB, 0, "rdma", "",
                       master.address) == 0
    assert usable(store)
    store.close()


@pytest.mark.parametrize("config", [
    {}, {"local_hostname": "127.0.0.1"}, {1: 2},
    {"local_hostname": "127.0.0.1", "metadata_server": ""},
    {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
     "global_segment_size": "much"},
    {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
     "global_segment_size": 1000},
    {"local_hostname": "a\0b", "metadata_server": "P2PHANDSHAKE"}])
def test_a_dictionary_never_raises(config):
    assert MooncakeDistributedStore().setup(config) == -600


def test_an_unknown_keyword_is_named_and_no_other():
    known = ["enable_ssd_offload", "ssd_offload_path", "tenant_id",
             "enable_client_http_server", "client_http_port"]
    with pytest.raises(TypeError) as raised:
        MooncakeDistributedStore().setup(
            "127.0.0.1", "P2PHANDSHAKE", MB, MB, "tcp", "", "127.0.0.1:1", None,
            enable_magic=True, tenant_id="default", enable_ssd_offload=True)
    assert "enable_magic" in str(raised.value)
    assert not [name for name in known if name in str(raised.value)]


def test_wrong_types_of_setup_name_the_argument():
    store = MooncakeDistributedStore()
    with pytest.raises(TypeError, match="^global_segment_size must be"):
        store.setup("a", "b", "16", 0, "tcp", "", "c")
    with pytest.raises(TypeError, match="^protocol must be"):
        store.setup("a", "b", 0, 0, None, "", "c")
    with pytest.raises(TypeError, match="^engine must be"):
        store.setup("a", "b", 0, 0, "tcp", "", "c", object())
    with pytest.raises(TypeError, match="'master_server_addr'"):
        store.setup("a", "b", 0, 0, "tcp", "")
    assert store.setup("a", "b", -1, 0, "tcp", "", "c") == -600


def test_the_signature_lists_the_parameters():
    names = ["local_hostname", "metadata_server", "global_segment_size",
             "local_buffer_size", "protocol", "rdma_devices",
             "master_server_addr", "engine", "enable_ssd_offload",
             "ssd_offload_path", "tenant_id", "enable_client_http_server",
             "client_http_port"]
    store = MooncakeDistributedStore()
    assert list(inspect.signature(store.setup).parameters) == names
    assert not [name for name in names if name not in store.setup.__doc__]


def test_every_method_has_a_signature_and_words():
    for kind in (MooncakeDistributedStore, MooncakeHostMemAllocator):
        for name in dir(kind):
            if not name.startswith("_"):
                assert inspect.signature(getattr(kind, name)) is not None
                assert getattr(kind, name).__doc__


def test_an_engine_is_shared_and_outlives_its_object(master):
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    store = MooncakeDistributedStore()
    name = f"127.0.0.1:{engine.get_rpc_port()}"
    assert store.setup(name, "P2PHANDSHAKE", 16 * MB, 0, "tcp", "",
                       master.address, engine.get_engine()) == 0
    assert store.get_hostname() == name
    assert usable(store)
    del engine
    assert store.put("shared", b"v") == 0 and store.get("shared") == b"v"
    assert store.close() == 0


def test_setup_again_needs_a_close(master):
    store = master.store()
    again = ("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", master.address)
    assert store.setup(*again) == -600
    assert usable(store)
    store.close()
    assert store.setup(*again) == 0
    store.close()


def test_a_client_without_memory_reads_and_writes(master):
    owner = master.store()
    clients = [master.store(segment=0, local=0) for _ in range(3)]
    assert all(usable(client) for client in clients)
    for one in (owner, *clients):
        one.close()


def test_a_large_local_buffer_is_not_committed(master):
    store = master.store(segment=MB, local=4096 * MB)
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident = int(statm.read().split()[1]) * 4096
    assert resident < 1024 * MB
    store.close()


def test_an_absent_master_is_a_code():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        store = MooncakeDistributedStore()
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "",
                           f"127.0.0.1:{port}") == -900
    assert store.put("k", b"v") == -600


def test_dummies_share_memory_with_the_daemon(master, tmp_path):
    daemon = master.owner("--socket_path", str(tmp_path / "socket"))
    store = MooncakeDistributedStore()
    assert store.setup_dummy(4 * MB, 4 * MB, str(tmp_path / "socket")) == 0
    assert usable(store)
    addr = store.alloc_from_mem_pool(4096)
    assert addr != 0
    assert store.batch_get_into(["k", "none"], [addr, addr + 100],
                                [100, 100]) == [1, -704]
    assert store.batch_put_session_start(["s"], [1]) == [-600]
    handle = store.get_buffer("k")
    assert bytes(handle) == b"v" and memoryview(handle).readonly
    del handle
    assert store.close() == 0
    daemon.kill()


# ---- without a client ----


def calls(store: MooncakeDistributedStore) -> list:
    """What every method returns when there is no client."""
    memory = Memory(8)
    one, addr, size = ["k"], [memory.addr], [8]
    many, pieces, sizes = ["k", "l"], [addr, addr], [size, size]
    config = ReplicateConfig()
    return [
        store.put("k", b"v", config), store.put_batch(one, [b"v"]),
        store.put_parts("k", b"v"), store.put_from("k", memory.addr, 8),
        store.put_from_with_metadata("k", memory.addr, memory.addr, 4, 4),
        store.upsert("k", b"v"), store.upsert_from("k", memory.addr, 8),
        store.upsert_batch(one, [b"v"]), store.upsert_parts("k", b"v"),
        *store.batch_upsert_from(one, addr, size),
        *store.batch_upsert_from_multi_buffers(many, pieces, sizes),
        store.get_into("k", memory.addr, 8), store.is_exist("k"),
        store.get_size("k"), store.remove("k"), store.remove_all(),
        store.remove_by_regex("k"), store.register_buffer(memory.addr, 8),
        store.unregister_buffer(memory.addr), store.unmount_segment([(1, 2)]),
        store.batch_get_session_end(one),
        *store.batch_put_from(one, addr, size),
        *store.batch_get_into(one, addr, size), *store.batch_is_exist(one),
        *store.batch_remove(one), *store.batch_put_session_start(one, size),
        *store.batch_put_session_end(one),
        *store.batch_put_session_revoke(one),
        *store.batch_get_session_start(one),
        *store.batch_put_from_multi_buffers(many, pieces, sizes),
        *store.batch_get_into_multi_buffers(many, pieces, sizes),
        *store.batch_put_from_multi_buffer_ranges(many, pieces, sizes,
                                                  [[0], [0]]),
        *store.batch_get_into_multi_buffer_ranges(many, pieces, sizes,
                                                  [[0], [0]]),
        *store.get_into_ranges(addr, [one], [[[0]]], [[[0]]], [[[1]]])[0][0],
        store.create_copy_task("k", ["a"])[1],
        store.create_move_task("k", "a", "b")[1], store.query_task((0, 0))[1],
    ]


def check_without_client(store: MooncakeDistributedStore) -> None:
    assert set(calls(store)) == {-600}
    assert store.get("k") == b"" and store.get_batch(["k", "l"]) == [b"", b""]
    assert store.get_buffer("k") is None
    assert store.batch_get_buffer(["k"]) == [None]
    assert store.get_replica_desc("k") == []
    assert store.batch_get_replica_desc(["k"]) == {}
    assert store.batch_replica_clear(["k"]) == []
    assert store.mount_segment("/none", MB)["ret"] == -1
    assert store.allocate_and_mount_segment(MB)["ret"] == -1
    assert store.alloc_from_mem_pool(8) == 0
    assert store.get_hostname() == ""
    assert store.health_check() == 1
    assert store.close() == 0


def test_before_setup_and_after_close_there_are_codes(master):
    check_without_client(MooncakeDistributedStore())
    store = master.store()
    store.close()
    check_without_client(store)


def test_after_a_failed_setup_there_are_codes():
    store = MooncakeDistributedStore()
    assert store.setup({"local_hostname": "127.0.0.1"}) == -600
    check_without_client(store)


@needs_fork
@only_host_forks
def test_a_forked_child_has_no_client(master):
    store = master.store()
    store.put("k", b"v")
    handle = store.get_buffer("k")
    pid = os.fork()
    if not pid:
        try:
            check_without_client(store)
            del handle
            child = MooncakeDistributedStore()
            rc = child.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "",
                             master.address)
            os._exit(0 if rc == 0 and child.get("k") == b"v" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert bytes(handle) == b"v" and usable(store)
    del handle
    store.close()


# ---- threads and ends ----


def test_sixty_four_threads_share_a_store(master):
    """Calls have a second, and more than one where others want the CPU too."""
    store = master.store()
    wrong: list[str] = []

    def work(number: int) -> None:
        memory = lend(store, 64)
        for turn in range(20):
            keys = [f"{number}/{turn}/{i}" for i in range(4)]
            value = f"{number:08}{turn:08}".encode()
            memory.fill(value)
            got: list[bytes] = []
            # 0 also of one that an earlier try has begun and not ended.
            until(lambda: store.batch_put_from(
                keys, [memory.addr] * 4, [16] * 4) == [0] * 4
                and store.batch_is_exist(keys) == [1] * 4)
            until(lambda: got.append(store.get(keys[3])) or got[-1])
            if got[-1] != value:
                wrong.append(keys[3])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    store.close()


def test_close_disturbs_no_call_under_way(master):
    """Each of them has a result or finds the store closed."""
    for _ in range(5):
        store = master.store()
        begun = threading.Barrier(9)
        seen: set[int] = set()

        def work() -> None:
            begun.wait()
            while store.health_check() != 1:
                seen.update(store.batch_is_exist(["a", "b"]))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        begun.wait()
        assert store.close() == 0
        for thread in threads:
            thread.join()
        assert seen <= {0, -600}


def test_setup_lets_other_threads_run():
    """A master that says nothing keeps setup() waiting, and nobody else."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        store = MooncakeDistributedStore()
        results: list[int] = []
        thread = threading.Thread(target=lambda: results.append(store.setup(
            "127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", address)))
        thread.start()
        connection, _ = listener.accept()
        # With the GIL held, setup() would have ended before we came here.
        assert not results
        listener.close()
        connection.close()
        thread.join()
    assert results and results[0] < 0


END = """
import sys, threading
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 1 << 24, 1 << 24, "tcp", "",
                   sys.argv[1]) == 0
assert store.put("end", b"v") == 0
handle = store.get_buffer("end")
began = threading.Event()
def work():
    while True:
        store.batch_is_exist(["end"] * 100)
        began.set()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
began.wait()
print("ended")
"""


def test_the_interpreter_may_end_without_close(master):
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", END, master.address],
                               capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr


def test_an_object_that_goes_leaves_the_pool(master):
    for _ in range(3):
        store = master.store()
        assert usable(store)
        store.remove("k", True)
        del store
    last = master.store()
    assert usable(last)
    last.close()


def joined(master, **more: str) -> MooncakeDistributedStore:
    """A client whose own memory has one value, "left"."""
    store, config = MooncakeDistributedStore(), ReplicateConfig()
    assert store.setup({"local_hostname": "127.0.0.1", "global_segment_size": "16 MB",
                        "metadata_server": "P2PHANDSHAKE",
                        "master_server_addr": master.address, **more}) == 0
    config.preferred_segment = store.get_hostname()
    assert store.put("left", b"value" * 1000, config) == 0
    return store


def test_what_a_client_has_goes_to_others_when_it_leaves(monkeypatch):
    master = Master()
    others = MooncakeDistributedStore()  # which lends nothing
    assert others.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "",
                        master.address) == 0
    assert joined(master).close() == 0  # nobody has room for it
    assert others.is_exist("left") == 0
    owner = master.store()
    for leave in (lambda store: store.close(), lambda store: None):  # or is dropped
        leave(joined(master))
        assert others.get("left") == b"value" * 1000
        assert others.remove("left", True) == 0
    joined(master, drain_timeout="0").close()
    assert others.is_exist("left") == 0
    monkeypatch.setenv("TE_DRAIN_TIMEOUT", "0")
    joined(master).close()
    assert others.is_exist("left") == 0
    for one in (owner, others):
        one.close()
    master.kill()


# ---- beside the store ----


def test_memory_is_allocated_by_address():
    allocator = MooncakeHostMemAllocator()
    addr = allocator.alloc(1 << 20)
    assert addr and addr % 4096 == 0
    assert Memory(1).fill(b"x")
    allocator.free(addr)
    allocator.free(addr)  # once more: a line of the log
    allocator.free(-1)
    assert allocator.alloc(0) == 0 and allocator.alloc(-1) == 0
    with pytest.raises(TypeError, match="size"):
        allocator.alloc("1")


def test_binding_to_a_node_never_fails():
    for node in (0, 12345, -1):
        assert bind_to_numa_node(node) is None
    with pytest.raises(TypeError, match="node"):
        bind_to_numa_node("0")


def test_handles_are_not_made_by_hand():
    with pytest.raises(TypeError):
        BufferHandle()
