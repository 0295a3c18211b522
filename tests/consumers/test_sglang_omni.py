# SPDX-License-Identifier: Apache-2.0
"""As the relay of SGLang's omni models: reads by tcp, and a word when done."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode
from peer import ADDRESS, Peer, free_port
from pool import Memory

PARTS, SIZE = 32, 256 * 1024


class Relay:
    def __init__(self) -> None:
        self.engine = TransferEngine()
        assert self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp",
                                      "") == 0
        self.memory = Memory(PARTS * SIZE)
        assert self.engine.register_memory(self.memory.addr,
                                           self.memory.size) == 0

    def fetch(self, session: str, part: int, uid: str) -> int:
        offset = part * SIZE
        return self.engine.transfer_sync(
            session, self.memory.addr + offset, ADDRESS + offset, SIZE,
            TransferOpcode.Read, TransferNotify(uid, f"part {part}"))


@pytest.fixture
def relay(monkeypatch) -> Relay:
    monkeypatch.setenv("MC_FORCE_TCP", "1")
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "15")
    return Relay()


def test_each_part_that_is_read_is_told_once(relay):
    with Peer() as sender:
        sender.ask(do="write", text="tensor" * 1000)
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(
                lambda part: relay.fetch(sender.name, part, f"uid{part}"),
                range(PARTS)))
        assert done == [0] * PARTS
        assert sender.digest(0, relay.memory.size) == Peer.digest_of(
            relay.memory.read(0, relay.memory.size))
        assert sorted(sender.ask(do="notifies")) == sorted(
            [f"uid{part}", f"part {part}"] for part in range(PARTS))
        assert sender.ask(do="notifies") == []


def test_nothing_is_told_of_what_was_not_read(relay):
    port = free_port()
    with Peer(port) as sender:
        assert relay.engine.transfer_sync(
            sender.name, relay.memory.addr, 4096, SIZE, TransferOpcode.Read,
            TransferNotify("bad", "address")) != 0
        assert sender.ask(do="notifies") == []
    assert relay.fetch(f"127.0.0.1:{port}", 0, "nobody") != 0
    with Peer(port) as sender:
        assert relay.fetch(sender.name, 0, "again") == 0
        assert sender.ask(do="notifies") == [["again", "part 0"]]
    assert relay.engine.get_notifies() == []
