# SPDX-License-Identifier: Apache-2.0
"""Peers that announce, stall, trickle and crowd the server of RPC in Python.

Beside them callers that mean it are served. TE_TEST_ATTACKS=full: more of them.
"""
from __future__ import annotations

import os
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mooncake import _rpc, _traffic
from mooncake.engine import RpcInterface, create_rpc_client
from peer import free_port
from pool import MB, until

FULL = os.environ.get("TE_TEST_ATTACKS") == "full"
GIB = 1 << 30
DEADLINE_S = 120


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The shorter form waits for fewer of the servers' own deadlines."""
    if not FULL:
        monkeypatch.setattr(_traffic, "GRACE_S", 1)


class Crowd:
    """Connections that send something and then nothing; closed at the end."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.all: list[socket.socket] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.all:
            one.close()

    def come(self, n: int, sent: bytes) -> None:
        for _ in range(n):
            one = socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)
            self.all.append(one)
            try:
                one.sendall(sent)
            except ConnectionError:
                pass  # it had to give way

    def said(self) -> list[bytes]:
        """All that each is told until it is cut off."""
        return [read_all(one) for one in self.all]


def read_all(one: socket.socket) -> bytes:
    said = b""
    try:
        while piece := one.recv(1 << 16):
            said += piece
    except ConnectionResetError:
        pass
    return said


# ---- messages of RPC ----

@pytest.fixture
def server():
    one = RpcInterface()
    one.address = f"127.0.0.1:{free_port()}"
    one.got = 0

    def count(data) -> None:
        one.got += data.data_size

    assert one.initialize(one.address)
    one.set_data_receive_callback(count)
    assert one.start_server_async()
    yield one
    one.stop_server()


@pytest.fixture
def crowd(server):
    with Crowd(int(server.address.rpartition(":")[2])) as one:
        yield one


def announcement(length: int) -> bytes:
    return _rpc.HEAD.pack(_rpc.MAGIC, 2, length) + b"{}"


def send(server, lengths: list[int]) -> list[int]:
    """By as many callers at a time; each may take the time that a call has."""
    client = create_rpc_client()
    with ThreadPoolExecutor(len(lengths)) as callers:
        return list(callers.map(
            lambda n: client.send_data(server.address, bytes(n)), lengths))


@pytest.mark.parametrize("sent", [0, 64 << 10], ids=["nothing", "a piece"])
def test_a_message_that_is_announced_takes_nobodys_room(server, crowd, sent):
    crowd.come(64 if FULL else 16, announcement(GIB) + bytes(sent))
    assert send(server, [1, MB, 20 * MB]) == [0, 0, 0]
    assert server._server.traffic.held <= len(crowd.all) * (sent + 32)
    assert crowd.said() == [b""] * len(crowd.all)  # each is cut off
    until(lambda: not server._server.traffic.flows)
    assert send(server, [20 * MB]) == [0]


def test_a_head_that_does_not_go_on_is_cut_off(server, crowd):
    for part in (b"T", announcement(5)[:10], announcement(5)[:-1]):
        crowd.come(4, part)
    assert crowd.said() == [b""] * 12


@pytest.mark.parametrize("extra", [-100, MB // 4], ids=["alone", "in line"])
def test_who_holds_the_room_and_stalls_gives_way(server, crowd, extra):
    traffic = server._server.traffic
    traffic.room = (512 if FULL else 32) * MB
    crowd.come(3 * traffic.room // MB // 2,
               announcement(traffic.room // 2) + bytes(MB + extra))
    assert send(server, [traffic.room // 4] * 2) == [0, 0]
    assert traffic.held <= traffic.room
    assert traffic.full.count > 0


def test_a_burst_of_large_messages_is_served(server):
    traffic = server._server.traffic
    traffic.room = 32 * MB
    assert send(server, [8 * MB] * 12) == [0] * 12
    assert (traffic.full.count, traffic.held) == (0, 0)


def test_a_crowd_of_connections_shuts_nobody_out(server, crowd):
    server._server.listener.max = 512 if FULL else 64
    crowd.come(2 * server._server.listener.max, b"")
    for _ in range(20):
        assert send(server, [10]) == [0]
    crowd.come(server._server.listener.max, announcement(GIB))
    assert send(server, [MB] * 4) == [0] * 4
    assert len(server._server.listener.connections) <= server._server.listener.max


def test_lines_about_others_are_few(server, crowd, caplog):
    crowd.come(50, announcement(GIB) + b"x")
    crowd.said()
    lines = [one.message for one in caplog.records if "slower than" in one.message]
    assert 1 <= len(lines) <= 10
    assert server._server.traffic.slow.count == 50
