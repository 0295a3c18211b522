# SPDX-License-Identifier: Apache-2.0
"""mooncake.mooncake_store_service in a program of others, with stores of theirs."""
from __future__ import annotations

import asyncio
import json
import signal
import types

import pytest

service_of = pytest.importorskip("mooncake.mooncake_store_service")

DECODE = {"mode": "Decode", "path": "/dev/shm/new", "size": 64}


class Store:
    """Answers what it is told to, else 0; calls are told in their order."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.calls: list[tuple] = []

    def __getattr__(self, name: str):
        def call(*args: object) -> object:
            self.calls.append((name, *args))
            said = self.answers.get(name, 0)
            if isinstance(said, list):
                said = said.pop(0)
            if callable(said):
                said = said(*args)
            if isinstance(said, Exception):
                raise said
            return said
        return call


class Request:
    def __init__(self, body: object = None, key: str = "") -> None:
        self.body = body
        self.match_info = {"key": key}

    async def json(self) -> object:
        if isinstance(self.body, str):
            return json.loads(self.body)
        return self.body


def made(store: Store, ids: tuple[str, ...] = (), mode: str = "prefill"):
    one = service_of.MooncakeStoreService.__new__(service_of.MooncakeStoreService)
    one.store = store
    one.config = types.SimpleNamespace(protocol="rdma")
    one.current_mode = mode
    one.mounted_segment_ids = list(ids)
    one.last_mount_info = {}
    one._state_lock = asyncio.Lock()
    return one


def ask(service, handler: str, body: object = None, key: str = ""):
    """Status and what the JSON says."""
    said = asyncio.run(getattr(service, f"handle_{handler}")(Request(body, key)))
    assert said.content_type == "application/json"
    return said.status, json.loads(said.text)


def mounts(*ids: str, ret: int = 0) -> dict[str, object]:
    return {"ret": ret, "segment_ids": list(ids)}


# ---- reconfigure ----

def test_the_new_segments_are_there_before_the_old_ones_go():
    store = Store(mount_segment=mounts("n1", "n2"))
    one = made(store, ("o1", "o2"), "decode")
    assert ask(one, "reconfigure", DECODE) == (200, {
        "status": "success", "mode": "decode", "segment_ids": ["n1", "n2"]})
    assert store.calls == [
        ("mount_segment", "/dev/shm/new", 64, 0, "rdma", ""),
        ("unmount_segment", ["o1"]), ("unmount_segment", ["o2"])]
    assert one.mounted_segment_ids == ["n1", "n2"]
    assert one.current_mode == "decode"
    assert one.last_mount_info == {"path": "/dev/shm/new", "offset": 0, "size": 64,
                                   "protocol": "rdma", "location": ""}


def test_an_old_segment_that_does_not_go_is_kept_for_later():
    store = Store(mount_segment=mounts("n"), unmount_segment=[-1, 0, 0])
    one = made(store, ("o1", "o2"), "decode")
    assert ask(one, "reconfigure", {**DECODE, "offset": 8, "protocol": "tcp",
                                    "location": "cpu:0"})[0] == 200
    assert store.calls[0] == ("mount_segment", "/dev/shm/new", 64, 8, "tcp", "cpu:0")
    assert one.mounted_segment_ids == ["n", "o1"]
    assert ask(one, "reconfigure", {"mode": "PREFILL"}) == (
        200, {"status": "success", "mode": "prefill"})
    assert store.calls[-1] == ("unmount_segment", ["n", "o1"])
    assert (one.mounted_segment_ids, one.last_mount_info) == ([], {})


def test_a_mount_that_fails_says_in_which_mode_the_node_is_now():
    store = Store(mount_segment=mounts(ret=-200))
    one = made(store, ("o",), "decode")
    code, said = ask(one, "reconfigure", DECODE)
    assert (code, said["mode"]) == (500, "decode")
    assert "ret=-200: keeping previous decode segments" in said["error"]
    assert (one.current_mode, one.mounted_segment_ids) == ("decode", ["o"])
    one = made(store, (), "decode")
    code, said = ask(one, "reconfigure", DECODE)
    assert (code, said["mode"]) == (500, "prefill")
    assert "ret=-200: rolled back to prefill" in said["error"]
    assert one.current_mode == "prefill"
    assert [call[0] for call in store.calls] == ["mount_segment"] * 2


def test_an_unmount_that_fails_leaves_the_mode_as_it_is():
    store = Store(unmount_segment=[-1, 0])
    one = made(store, ("a", "b"), "decode")
    code, said = ask(one, "reconfigure", {"mode": "prefill"})
    assert (code, said["mode"]) == (500, "decode")
    assert "Unmount failed, ret=-1" in said["error"]
    assert one.mounted_segment_ids == ["a", "b"]
    assert ask(one, "reconfigure", {"mode": "prefill"})[0] == 200
    assert ask(one, "reconfigure", {"mode": "prefill"})[0] == 200
    assert store.calls == [("unmount_segment", ["a", "b"])] * 2


def test_segments_that_have_gone_another_way_are_nothing_to_wait_for():
    store = Store(unmount_segment=[-101, 0, -101])
    one = made(store, ("a", "b"), "decode")
    assert ask(one, "reconfigure", {"mode": "prefill"})[0] == 200
    assert one.mounted_segment_ids == []
    store = Store(unmount_segment=[-101, -101, -1])
    one = made(store, ("a", "b"), "decode")
    assert ask(one, "reconfigure", {"mode": "prefill"})[0] == 500
    assert one.mounted_segment_ids == ["b"]


@pytest.mark.parametrize("body, words", [
    ({}, "Invalid mode"), ({"mode": None}, "Invalid mode"),
    ({"mode": "other"}, "Invalid mode"), ({"mode": 5}, "Invalid mode"),
    ({"mode": "decode", "size": 1}, "Missing path or size"),
    ({"mode": "decode", "path": "", "size": 1}, "Missing path or size"),
    ({"mode": "decode", "path": "/dev/shm/x"}, "Missing path or size"),
])
def test_what_is_no_role_is_refused(body, words):
    store = Store()
    code, said = ask(made(store), "reconfigure", body)
    assert code == 400 and words in said["error"]
    assert store.calls == []


def test_a_size_of_0_is_one():
    store = Store(mount_segment=mounts("n"))
    assert ask(made(store), "reconfigure", {**DECODE, "size": 0})[0] == 200
    assert store.calls[0][2] == 0


# ---- shared memory ----

def test_shared_memory_is_lent_by_its_name():
    store = Store(mount_segment=[mounts("a"), mounts(ret=-1)])
    one = made(store, ("d",), "decode")
    body = {"name": "/x", "size": 5}
    assert ask(one, "mount_shm", body) == (
        200, {"status": "success", "segment_ids": ["a"]})
    assert store.calls == [("mount_segment", "/dev/shm/x", 5, 0, "rdma", "")]
    assert (one.mounted_segment_ids, one.current_mode) == (["d"], "decode")
    code, said = ask(one, "mount_shm", body)
    assert code == 500 and "Mount failed" in said["error"]
    for name in (None, "", "/", ".", "..", "a/b", "//a", 5):
        code, said = ask(one, "mount_shm", {"name": name, "size": 5})
        assert code == 400 and "name or size" in said["error"]
        assert service_of._shm_name_to_path(name) is None


def test_what_is_unmounted_is_not_reconfigures_any_more():
    store = Store(unmount_segment=[0, -1, 0])
    one = made(store, ("a", "b"), "decode")
    code, said = ask(one, "unmount_shm", {"segment_ids": ["a", "b"],
                                          "grace_period_seconds": 3})
    assert code == 500 and "Unmount failed" in said["error"]
    assert said["failed_segment_ids"] == ["b"]
    assert store.calls == [("unmount_segment", ["a"], 3),
                           ("unmount_segment", ["b"], 3)]
    assert (one.mounted_segment_ids, one.current_mode) == (["b"], "decode")
    assert ask(one, "unmount_shm", {"segment_ids": "b"})[0] == 200
    assert store.calls[-1] == ("unmount_segment", ["b"], 0)
    assert (one.mounted_segment_ids, one.current_mode) == ([], "prefill")
    assert ask(one, "reconfigure", {"mode": "prefill"})[0] == 200
    assert len(store.calls) == 3


# ---- fresh memory and disks ----

def test_fresh_memory_is_lent_and_taken_back():
    store = Store(allocate_and_mount_segment={"ret": 0, "segment_ids": ["a"],
                                              "allocated_size": 8},
                  unmount_and_free_segment=[0, -1])
    one = made(store)
    assert ask(one, "mount", {"size": 7}) == (200, {
        "status": "success", "segment_ids": ["a"], "allocated_size": 8})
    assert store.calls == [("allocate_and_mount_segment", 7, "rdma", "")]
    assert ask(one, "unmount", {"segment_ids": "a"})[0] == 200
    assert ask(one, "unmount", {"segment_ids": ["a", "b"],
                                "grace_period_seconds": 1})[0] == 500
    assert store.calls[1:] == [("unmount_and_free_segment", ["a"], 0),
                               ("unmount_and_free_segment", ["a", "b"], 1)]
    for size in (None, 0, -1, True, 1.0, "1"):
        code, said = ask(one, "mount", {"size": size})
        assert code == 400 and "Invalid size" in said["error"]


def test_a_disk_is_unmounted_by_the_store():
    store = Store(unmount_local_disk_segment=[0, 0, -1])
    one = made(store)
    assert ask(one, "unmount_local_disk", {}) == (200, {"status": "success"})
    assert ask(one, "unmount_local_disk", {"grace_period_seconds": 3600})[0] == 200
    assert ask(one, "unmount_local_disk", {})[0] == 500
    assert store.calls == [("unmount_local_disk_segment", 0),
                           ("unmount_local_disk_segment", 3600),
                           ("unmount_local_disk_segment", 0)]
    for body in ("{", "[]", *({"grace_period_seconds": grace}
                              for grace in (True, -1, 3601, 1.0, "1", None))):
        assert ask(one, "unmount_local_disk", body)[0] == 400
    assert len(store.calls) == 3


# ---- objects ----

def test_objects():
    store = Store(put=[0, -200], is_exist=[1, -1, 0], remove=[0, -704],
                  remove_all=[3, -1])
    one = made(store)
    assert ask(one, "put", {"key": "k", "value": "ö"}) == (
        200, {"status": "success"})
    code, said = ask(one, "put", {"key": "k", "value": ""})
    assert code == 500 and "PUT operation failed" in said["error"]
    assert store.calls == [("put", "k", "ö".encode()), ("put", "k", b"")]
    assert ask(one, "exist", key="k") == (200, {"exists": True})
    code, said = ask(one, "exist", key="k")
    assert code == 500 and "Exist check failed" in said["error"]
    assert ask(one, "exist", key="k") == (200, {"exists": False})
    assert ask(one, "remove", key="k") == (200, {"status": "success"})
    code, said = ask(one, "remove", key="k")
    assert code == 500 and "Remove operation failed" in said["error"]
    code, said = ask(one, "remove_all")
    assert code == 200 and "3" in said["status"]
    code, said = ask(one, "remove_all")
    assert code == 500 and "RemoveAll operation failed" in said["error"]


@pytest.mark.parametrize("there, value, code, words", [
    ([0], None, 404, "Key not found"), ([-1], None, 500, "Exist check failed"),
    ([1], None, 500, "GET operation failed"), ([1, 0], b"", 404, "Key not found"),
    ([1, -1], b"", 500, "Exist check failed")])
def test_a_value_that_cannot_be_got(there, value, code, words):
    said = ask(made(Store(is_exist=there, get=value)), "get", key="k")
    assert said[0] == code and words in said[1]["error"]


def test_a_value_is_got():
    for value in (b"abc", b""):
        store = Store(is_exist=[1, 1], get=value)
        said = asyncio.run(made(store).handle_get(Request(key="k")))
        assert (said.status, said.body) == (200, value)
        assert said.content_type == "application/octet-stream"
        assert store.calls[:2] == [("is_exist", "k"), ("get", "k")]


def test_what_a_store_raises_is_an_answer(caplog):
    caplog.set_level("INFO")
    one = made(Store(put=RuntimeError("no way")))
    assert ask(one, "put", {"key": "k", "value": "x"}) == (
        500, {"error": "no way"})
    assert "PUT took" in caplog.text


# ---- starting and ending ----

CONFIG = {"local_hostname": "here", "metadata_server": "P2PHANDSHAKE",
          "master_server_address": "m:1", "global_segment_size": 5,
          "local_buffer_size": 6, "protocol": "tcp", "device_name": "d",
          "enable_ssd_offload": False, "ssd_offload_path": "", "tenant_id": "t"}
SETUP = {"local_hostname": "here", "metadata_server": "P2PHANDSHAKE",
         "global_segment_size": 5, "local_buffer_size": 6, "protocol": "tcp",
         "rdma_devices": "d", "master_server_addr": "m:1",
         "enable_ssd_offload": False, "ssd_offload_path": "", "tenant_id": "t",
         "enable_client_http_server": False, "client_http_port": 9300}


@pytest.fixture
def stores(monkeypatch):
    """The next ones that a service makes; those that it has made."""
    ready: list[Store | Exception] = []
    used: list[Store | Exception] = []

    def make() -> Store:
        used.append(ready.pop(0))
        if isinstance(used[-1], Exception):
            raise used[-1]
        return used[-1]

    monkeypatch.setattr(service_of, "MooncakeDistributedStore", make)
    monkeypatch.setattr(service_of, "RETRY_S", 0.001)
    return ready, used


def unstarted():
    one = made(None)
    one.config = types.SimpleNamespace(**CONFIG)
    return one


def test_each_round_has_a_store_of_its_own(stores, caplog):
    ready, used = stores
    ready += [Store(setup=1), Store(setup=OSError("away")), Store()]
    one = unstarted()
    assert asyncio.run(one.start_store_service())
    assert [store.calls for store in used] == [[("setup", SETUP)]] * 3
    assert one.store is used[2]
    assert "setup returned 1" in caplog.text and "away" in caplog.text
    used[2].answers["close"] = 7
    asyncio.run(one.stop())
    asyncio.run(one.stop())
    assert one.store is None
    assert used[2].calls[1:] == [("close",)]
    assert "close returned 7" in caplog.text


def test_a_store_that_cannot_be_made_is_tried_again(stores, caplog):
    ready, used = stores
    ready += [OSError("no room"), Store(setup=1), OSError("no room"), Store()]
    one = unstarted()
    assert asyncio.run(one.start_store_service())
    assert one.store is used[3] and not ready
    assert caplog.text.count("could not be joined yet: no room") == 2
    ready.append(OSError("no room"))
    assert one._set_up() is None and one.store is None


def test_no_time_is_no_round(stores):
    assert not asyncio.run(unstarted().start_store_service(0))
    assert stores[1] == []


def test_who_waits_for_the_next_round_hears_that_it_is_to_end(stores, monkeypatch):
    async def start() -> bool:
        ended = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, ended.set)
        return await unstarted().start_store_service(60, ended)

    monkeypatch.setattr(service_of, "RETRY_S", 60)
    stores[0].append(Store(setup=1))
    assert not asyncio.run(start())
    assert len(stores[1]) == 1


def test_what_cannot_become_right_is_not_tried_again(stores):
    stores[0].append(Store(setup=-600))
    assert not asyncio.run(unstarted().start_store_service())


@pytest.mark.parametrize("code", [0, 1])
def test_who_is_told_to_end_while_it_joins_leaves(stores, code):
    async def start() -> bool:
        ended = asyncio.Event()

        def set_up(_: object) -> int:
            asyncio.get_running_loop().call_soon(ended.set)
            return code

        stores[0].append(Store(setup=set_up))
        return await one.start_store_service(60, ended)

    one = unstarted()
    assert not asyncio.run(start())
    assert one.store is None
    assert [call[0] for call in stores[1][0].calls] == ["setup", "close"]


def test_who_is_told_to_end_before_does_not_begin(stores):
    async def start() -> bool:
        ended = asyncio.Event()
        asyncio.get_running_loop().call_soon(ended.set)
        return await unstarted().start_store_service(60, ended)

    assert not asyncio.run(start())
    assert stores[1] == []


def test_definitions_go_before_as_they_are(monkeypatch, tmp_path, caplog):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    one = service_of.MooncakeStoreService(str(path), {
        "global_segment_size": "16 MB", "tenant_id": "u", "nobodys": "x"})
    assert (one.config.global_segment_size, one.config.tenant_id) == ("16 MB", "u")
    assert not hasattr(one.config, "nobodys") and "nobodys" in caplog.text
    assert (one.store, one.current_mode, one.mounted_segment_ids) == (
        None, "prefill", [])
    monkeypatch.setattr(service_of, "MooncakeConfig", types.SimpleNamespace(
        load_from_env=lambda: types.SimpleNamespace(protocol="ours")))
    assert service_of.MooncakeStoreService().config.protocol == "ours"


def test_signals_end_it():
    class Loop:
        def __init__(self, *, deaf: bool) -> None:
            self.deaf = deaf
            self.told: dict[int, tuple] = {}
            self.called: list[tuple] = []

        def add_signal_handler(self, number: int, *call: object) -> None:
            if self.deaf:
                raise NotImplementedError
            self.told[number] = call

        def call_soon_threadsafe(self, *call: object) -> None:
            self.called.append(call)

    loop, ended = Loop(deaf=False), asyncio.Event()
    service_of._install_shutdown_signal_handlers(loop, ended)
    assert set(loop.told) == {signal.SIGINT, signal.SIGTERM}
    callback, number = loop.told[signal.SIGTERM]
    callback(number)
    assert ended.is_set() and number == signal.SIGTERM
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        loop, ended = Loop(deaf=True), asyncio.Event()
        service_of._install_shutdown_signal_handlers(loop, ended)
        signal.getsignal(signal.SIGINT)(signal.SIGINT, None)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert not ended.is_set()
    (callback, *args), = loop.called
    callback(*args)
    assert ended.is_set()


def test_signals_are_let_through():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    service_of._unblock_shutdown_signals()
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


# ---- main ----

@pytest.fixture
def told(monkeypatch):
    """What main() does, with a service that answers as `starts` says."""
    seen: list[object] = []
    options = {"joins": True, "ended": False}

    class Service:
        def __init__(self, *args: object) -> None:
            seen.append(("made", *args))

        async def start_store_service(self, max_wait_time: float = 60,
                                      shutdown_event: object = None) -> bool:
            seen.append(("join", max_wait_time))
            if options["ended"]:
                shutdown_event.set()
            self.ended = shutdown_event
            return options["joins"]

        async def start_http_service(self, port: int = 8080) -> bool:
            seen.append(("http", port))
            self.ended.set()
            return True

        async def stop(self) -> None:
            seen.append("stop")

    monkeypatch.setattr(service_of, "MooncakeStoreService", Service)
    monkeypatch.setattr(service_of, "parse_arguments", lambda: types.SimpleNamespace(
        config="c", define=["a=1", "b", "c = x=y"], port=5, max_wait_time=3))
    for name in ("_install_shutdown_signal_handlers", "_unblock_shutdown_signals"):
        monkeypatch.setattr(service_of, name,
                            lambda *_, name=name: seen.append(name))
    return seen, options


BEGUN = [("made", "c", {"a": "1", "c": " x=y"}), "_install_shutdown_signal_handlers",
         "_unblock_shutdown_signals", ("join", 3)]


def test_main_serves_until_it_is_told_to_end(told, caplog):
    seen, _ = told
    asyncio.run(service_of.main())
    assert seen == [*BEGUN, "_unblock_shutdown_signals", ("http", 5), "stop"]
    assert "-D b" in caplog.text


def test_main_says_when_it_cannot_join(told):
    seen, options = told
    options["joins"] = False
    with pytest.raises(RuntimeError):
        asyncio.run(service_of.main())
    assert seen == [*BEGUN, "stop"]


@pytest.mark.parametrize("joins", [True, False])
def test_main_ends_quietly_when_told_to(told, joins):
    seen, options = told
    options.update(joins=joins, ended=True)
    asyncio.run(service_of.main())
    assert "stop" in seen and ("http", 5) not in seen
