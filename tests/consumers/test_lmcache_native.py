# SPDX-License-Identifier: Apache-2.0
"""LMCache's L2 adapter in C++, by a program of its shape, and the trouble it meets.

The program is adapter.cpp, by whichever compiler of C++ there is.
"""
from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from peer import free_port
from pool import MB, Master, until

BLOCK = 128 * 1024
NO_SPACE, NO_KEY, NOT_SET_UP = -200, -704, -600
PROGRAMS = sorted(Path(os.environ.get("TE_TESTS_DIR", "/none")).glob(
    "compat_adapter_*"))

pytestmark = pytest.mark.skipif(not PROGRAMS, reason="no compiler of C++")


class Adapter:
    """Any thread may call it; calls go one after the other."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(PROGRAMS[0])], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = threading.Lock()

    def ask(self, *words: object) -> list[int]:
        with self.lock:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        assert answer.startswith(">"), f"it has ended: {answer!r}"
        return [int(word) for word in answer[1:].split()]

    def set_up(self, master: Master, segment: int = 0) -> Adapter:
        assert self.ask("setup", master.address, segment) == [0]
        return self

    def end(self) -> int:
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        return code


@pytest.fixture
def adapter() -> Iterator[Adapter]:
    one = Adapter()
    yield one
    assert one.end() == 0


def test_blocks_are_saved_and_loaded(adapter, master):
    adapter.set_up(master, 16 * MB)
    assert adapter.ask("exist", 0, 10) == [0] * 10
    assert adapter.ask("save", 0, 10) == [0] * 10
    assert adapter.ask("exist", 0, 11) == [1] * 10 + [0]
    assert adapter.ask("load", 0, 11) == [BLOCK] * 10 + [NO_KEY]
    assert adapter.ask("remove", 0, 5) == [0] * 5
    assert adapter.ask("load", 0, 10) == [NO_KEY] * 5 + [BLOCK] * 5
    assert adapter.ask("close") == [0]


def test_a_full_pool_says_so_and_recovers(adapter):
    """Full it is while all that is there is being read."""
    master = Master("--default_kv_lease_ttl", "600000",
                    "--eviction_high_watermark_ratio", "1")
    store = master.store(4 * MB)
    adapter.set_up(master)
    keys: list[str] = []
    while store.put(f"held{len(keys)}", bytes(BLOCK)) == 0:
        keys.append(f"held{len(keys)}")
        assert store.batch_get_session_start(keys[-1:]) == [0]
    assert adapter.ask("save", 0, 4) == [NO_SPACE] * 4
    assert adapter.ask("load", 0, 4) == [NO_KEY] * 4
    assert store.batch_get_session_end(keys) == 0
    until(lambda: adapter.ask("save", 0, 4) == [0] * 4)
    assert adapter.ask("load", 0, 4) == [BLOCK] * 4
    store.close()
    master.kill()


def test_a_master_that_is_killed_comes_back(adapter, master):
    adapter.set_up(master, 16 * MB)
    assert adapter.ask("save", 0, 8) == [0] * 8
    master.restart()
    until(lambda: adapter.ask("load", 0, 8) == [BLOCK] * 8)
    until(lambda: adapter.ask("save", 8, 16) == [0] * 8)
    assert adapter.ask("load", 8, 16) == [BLOCK] * 8


def test_an_owner_that_is_killed_and_restarts_on_its_port(adapter, master):
    port = free_port()
    memory = master.owner(port=port)
    adapter.set_up(master)
    until(lambda: adapter.ask("save", 0, 4) == [0] * 4)
    memory.kill()
    assert all(code < 0 for code in adapter.ask("load", 0, 4))
    memory = master.owner(port=port)
    until(lambda: adapter.ask("save", 4, 8) == [0] * 4)
    assert adapter.ask("load", 4, 8) == [BLOCK] * 4
    memory.kill()


def test_calls_that_are_given_up_after_a_second_end_late(adapter, master):
    memory = master.owner()
    adapter.set_up(master)
    until(lambda: adapter.ask("save", 0, 4) == [0] * 4)
    os.kill(memory.process.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as pool:
        late = [pool.submit(adapter.ask, "save", 4, 8),
                pool.submit(adapter.ask, "load", 0, 4)]
        wait(late, 1)
        os.kill(memory.process.pid, signal.SIGCONT)
        saved, loaded = (one.result() for one in late)
    assert len(saved) == 4 and all(code <= 0 for code in saved)
    assert len(loaded) == 4 and all(size == BLOCK or NO_KEY >= size > -9999
                                    for size in loaded)
    until(lambda: adapter.ask("save", 4, 8) == [0] * 4)
    until(lambda: adapter.ask("load", 0, 8) == [BLOCK] * 8)
    memory.kill()


def test_results_are_as_many_as_keys(adapter, master):
    for what in ("exist", "save", "load", "remove"):
        assert adapter.ask(what, 0, 0) == []
        assert adapter.ask(what, 0, 3) == [NOT_SET_UP] * 3
    adapter.set_up(master, 16 * MB)
    for what in ("exist", "save", "load", "remove"):
        assert adapter.ask(what, 0, 0) == []
    assert adapter.ask("close") == [0]
    for what in ("exist", "save", "load", "remove"):
        assert adapter.ask(what, 0, 3) == [NOT_SET_UP] * 3


def test_a_buffer_may_be_larger_than_what_it_gets(adapter, master):
    adapter.set_up(master, 16 * MB)
    assert adapter.ask("save", 0, 4) == [0] * 4
    assert adapter.ask("larger", 0, 5) == [BLOCK] * 4 + [NO_KEY]
