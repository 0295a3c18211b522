# SPDX-License-Identifier: Apache-2.0
"""What may block gives the GIL away: other threads run in the midst of it."""
from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from conftest import make_engine
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore
from peer import ADDRESS, DEADLINE_S
from pool import MB, Memory, lend

PAGE = 4096
Call = Callable[[], object]


class Other:
    """A thread that wants the GIL, and gets it from who gives it away."""

    def __init__(self) -> None:
        self.wants, self.ran = threading.Event(), False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.wants.wait()
        self.ran = True


@pytest.fixture(autouse=True)
def nobody_takes_the_gil() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e6)
    yield
    sys.setswitchinterval(before)


def others_run_in(prepare: Callable[[], Iterable[Call]]) -> bool:
    """In one of these calls; many are needed where they are quick."""
    end = time.monotonic() + DEADLINE_S
    ran = False
    while not ran and time.monotonic() < end:
        calls = list(prepare())
        other = Other()
        other.wants.set()
        for call in calls:
            call()
            ran = other.ran
            if ran:
                break
        other.thread.join()
    return ran


# ---- the store ----


def test_setup_and_close(master):
    """Each of a store that has only that."""
    stores: list[MooncakeDistributedStore] = []

    def to_set_up() -> list[Call]:
        stores.append(MooncakeDistributedStore())
        return [lambda: stores[-1].setup("127.0.0.1", "P2PHANDSHAKE", MB, MB,
                                         "tcp", "", master.address)]

    def to_close() -> list[Call]:
        return [master.store(MB).close]

    assert others_run_in(to_set_up)
    assert all(store.close() == 0 for store in stores)
    assert others_run_in(to_close)


def test_registration_with_the_store(joined):
    memory = Memory(1000 * PAGE)
    pages = [memory.addr + i * PAGE for i in range(999)]

    def give_back() -> None:
        for page in pages:
            joined.unregister_buffer(page)

    def to_register() -> list[Call]:
        give_back()
        return [lambda p=page: joined.register_buffer(p, PAGE)
                for page in pages]

    def to_unregister() -> list[Call]:
        for page in pages:
            joined.register_buffer(page, PAGE)
        return [lambda p=page: joined.unregister_buffer(p) for page in pages]

    assert others_run_in(to_register)
    assert others_run_in(to_unregister)
    give_back()


@pytest.mark.parametrize("name, arguments", [
    ("put", ["new", b"v"]), ("upsert", ["k", b"v" * 64]), ("get", ["k"]),
    ("get_buffer", ["k"]), ("is_exist", ["k"]), ("get_size", ["k"]),
    ("batch_is_exist", [["k", "none"]]), ("remove", ["none"]),
    ("remove_by_regex", ["^none$"]), ("get_replica_desc", ["k"]),
    ("batch_get_session_start", [["k"]]), ("query_task", [(1, 2)]),
    ("create_copy_task", ["none", ["nobody"]]),
    ("batch_put_session_revoke", [["none"]]),
    ("allocate_and_mount_segment", [MB]), ("unmount_segment", [["1-2"]]),
])
def test_calls_of_the_store(store, name, arguments):
    assert store.put("k", b"v" * 64) == 0
    method = getattr(store, name)
    assert others_run_in(lambda: [lambda: method(*arguments)] * 10)
    store.batch_get_session_end(["k"])


@pytest.mark.parametrize("name", ["put_from", "get_into"])
def test_memory_of_the_callers(store, name):
    memory = lend(store, MB)
    assert store.put_from("k", memory.addr, MB) == 0
    method = getattr(store, name)
    assert others_run_in(lambda: [lambda: method("k", memory.addr, MB)] * 10)


# ---- the engine ----


def test_life_of_an_engine():
    engines: list[TransferEngine] = []

    def to_start() -> list[Call]:
        engines.append(TransferEngine())
        return [lambda: engines[-1].initialize("127.0.0.1", "P2PHANDSHAKE",
                                               "tcp", "")]

    def to_end() -> list[Call]:
        one = [make_engine()]
        return [one.clear]

    assert others_run_in(to_start)
    assert others_run_in(to_end)


def test_registration_with_an_engine(engine):
    memory = Memory(1000 * PAGE)
    pages = [memory.addr + i * PAGE for i in range(999)]

    def give_back() -> None:
        for page in pages:
            engine.unregister_memory(page)

    def to_register() -> list[Call]:
        give_back()
        return [lambda p=page: engine.register_memory(p, PAGE) for page in pages]

    def to_unregister() -> list[Call]:
        assert engine.batch_register_memory(pages, [PAGE] * len(pages)) == 0
        return [lambda p=page: engine.unregister_memory(p) for page in pages]

    assert others_run_in(to_register)
    give_back()
    assert others_run_in(to_unregister)


@pytest.mark.parametrize("name, arguments", [
    ("transfer_sync_write", ["", 0, ADDRESS, 4096]),
    ("batch_transfer_sync_read", ["", [0], [ADDRESS], [4096]]),
    ("send_probe", [""]), ("get_first_buffer_address", [""]),
    ("warmup_efa_segment", [""]),
    ("transfer_submit_write", ["", 0, ADDRESS, 4096]),
])
def test_calls_of_an_engine(engine, peer, lent, name, arguments):
    here = {"": peer.name, 0: lent.address}
    given = [[here.get(one[0], one[0])] if isinstance(one, list)
             else here.get(one, one) for one in arguments]
    method = getattr(engine, name)
    assert others_run_in(lambda: [lambda: method(*given)] * 10)


def test_waiting_for_what_was_submitted(engine, peer, lent):
    def to_wait() -> list[Call]:
        number = engine.transfer_submit_write(peer.name, lent.address, ADDRESS,
                                              lent.length)
        return [lambda: engine.get_batch_transfer_status([number])]

    assert others_run_in(to_wait)
