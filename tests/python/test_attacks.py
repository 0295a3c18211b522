# SPDX-License-Identifier: Apache-2.0
"""Peers that announce, stall, trickle and crowd the servers written in Python.

Beside them callers that mean it are served. TE_TEST_ATTACKS=full: more of them.
"""
from __future__ import annotations

import asyncio
import logging
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
from rest import Service, ask
from speed import stretched

_rest = pytest.importorskip("mooncake._rest", exc_type=ImportError)
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
    """The shorter form waits for fewer of the servers' own deadlines.

    Honest senders need longer where others want the processors.
    """
    if not FULL:
        monkeypatch.setattr(_traffic, "GRACE_S", stretched(1))
        monkeypatch.setattr(_rest, "FIRST_S", stretched(1))
        monkeypatch.setattr(_rest, "LINGER_S", 0.1)


@pytest.fixture
def patient(monkeypatch, impatient):
    """For honest senders, which have the server's core, and are slow for that."""
    monkeypatch.setattr(_traffic, "GRACE_S", DEADLINE_S)
    monkeypatch.setattr(_traffic, "FAST_S", DEADLINE_S)
    monkeypatch.setattr(_traffic, "WAIT_S", DEADLINE_S)


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


def peak_rss(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status
                        if line.startswith("VmHWM")).split()[1]) << 10


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
    for said in crowd.said():
        assert said[:1] == _rpc.TOLD and b"slower than 64 KiB/s for" in said
    until(lambda: not server._server.traffic.flows)
    assert send(server, [20 * MB]) == [0]


def test_a_head_that_does_not_go_on_is_cut_off(server, crowd):
    for part in (b"T", announcement(5)[:10], announcement(5)[:-1]):
        crowd.come(4, part)
    said = crowd.said()
    assert len(said) == 12 and {one[:1] for one in said} == {_rpc.TOLD}


@pytest.mark.parametrize("announced", [MB, 16 * MB], ids=["alone", "in line"])
def test_who_holds_the_room_and_stalls_gives_way(server, crowd, announced):
    traffic = server._server.traffic
    traffic.room = (512 if FULL else 32) * MB
    crowd.come(3 * traffic.room // MB // 2,
               announcement(announced) + bytes(MB - 100))
    assert send(server, [traffic.room // 4] * 2) == [0, 0]
    assert traffic.held <= traffic.room
    until(lambda: traffic.full.count + traffic.slow.count > 0)


@pytest.mark.usefixtures("patient")
def test_a_burst_of_large_messages_is_served(server):
    traffic = server._server.traffic
    traffic.room = 32 * MB
    assert send(server, [8 * MB] * 12) == [0] * 12
    assert (traffic.full.count, traffic.held) == (0, 0)


def others_turn() -> asyncio.Future[None]:
    """Await it to let the other tasks of the loop run."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_soon(over.set_result, None)
    return over


@pytest.mark.usefixtures("patient")
def test_beginnings_of_a_burst_leave_room_for_who_was_let_in():
    """Whatever comes first: here those whose turn it is have all but the end."""
    async def message(traffic, go_on):
        with traffic.flow("peer") as flow:
            async def piece(n):
                if flow.held + n == 8 * MB:
                    await go_on.wait()
                await others_turn()
                return bytes(n)

            return len(await flow.read(8 * MB, piece))

    async def burst():
        traffic = _traffic.Traffic("messages", 32 * MB, DEADLINE_S,
                                   logging.getLogger("test"))
        go_on = asyncio.Event()
        tasks = [asyncio.create_task(message(traffic, go_on)) for _ in range(3)]
        while traffic.held < 3 * (8 * MB - _traffic.PIECE):
            await others_turn()
        tasks += [asyncio.create_task(message(traffic, go_on)) for _ in range(9)]
        while len(traffic._waiting) < 9:
            await others_turn()
        go_on.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(asyncio.wait_for(burst(), DEADLINE_S)) == [8 * MB] * 12


def test_a_crowd_of_connections_shuts_nobody_out(server, crowd, caplog):
    server._server.listener.max = 512 if FULL else 64
    crowd.come(2 * server._server.listener.max, b"")
    for _ in range(20):
        assert send(server, [10]) == [0]
    crowd.come(server._server.listener.max, announcement(GIB))
    assert send(server, [MB] * 4) == [0] * 4
    assert len(server._server.listener.connections) <= server._server.listener.max
    line = next(one for one in caplog.messages if "for that of" in one)
    assert line.startswith("RPC: closed the connection of 127.0.0.1:")
    assert "ulimit -n" in line


def test_lines_about_others_are_few(server, crowd, caplog):
    crowd.come(50, announcement(GIB) + b"x")
    crowd.said()
    lines = [one.message for one in caplog.records if "slower than" in one.message]
    assert 1 <= len(lines) <= 10
    assert server._server.traffic.slow.count == 50


# ---- bodies and values of REST ----

class Values:
    """A store in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> int:
        self.values[key] = value
        return 0

    def get_buffer(self, key: str) -> bytes | None:
        return self.values.get(key)

    def is_exist(self, key: str) -> int:
        return int(key in self.values)

    def close(self) -> int:
        return 0


class InThread:
    """The service in this process, with a store of its own."""

    def __init__(self) -> None:
        from mooncake.mooncake_store_service import MooncakeStoreService
        self.service = MooncakeStoreService(
            None, {"master_server_address": "127.0.0.1:1"})
        self.service.store = Values()
        self.serves = threading.Event()
        self.thread = threading.Thread(target=asyncio.run, args=(self.main(),))
        self.thread.start()
        assert self.serves.wait(DEADLINE_S)
        self.intake = self.service._intake
        self.url = f"http://127.0.0.1:{self.service.port}/api"

    async def main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        assert await self.service.start_http_service(0)
        self.serves.set()
        await self.ended.wait()
        await self.service.stop()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join()

    def put(self, key: str, length: int) -> int:
        body = b'{"key": "%s", "value": "%s"}' % (key.encode(), b"v" * length)
        return ask(f"{self.url}/put", "PUT", body)[0]

    def puts(self, lengths: list[int]) -> list[int]:
        """As many at a time."""
        with ThreadPoolExecutor(len(lengths)) as callers:
            return list(callers.map(
                lambda i: self.put(f"k{i}", lengths[i]), range(len(lengths))))


@pytest.fixture
def rest():
    one = InThread()
    yield one
    one.close()


def head(length: int) -> bytes:
    return (b"PUT /api/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
            % length)


def test_bodies_that_never_come_keep_nobody_waiting(rest):
    n = 128 if FULL else 64
    with Crowd(rest.service.port) as crowd:
        crowd.come(n, head(100))  # small ones
        crowd.come(n, head(100 * MB) + b"{")
        assert rest.puts([10, 10, 4 * MB, 20 * MB]) == [200] * 4
        for said in crowd.said():
            assert said.startswith(b"HTTP/1.1 408 ")
            assert b"slower than 64 KiB/s for" in said
    assert rest.intake.bodies.slow.count == 2 * n
    until(lambda: not rest.intake.bodies.flows and not rest.intake.bodies.held)


def test_a_body_that_trickles_is_cut_off(rest):
    with Crowd(rest.service.port) as crowd:
        crowd.come(1, head(MB))
        crowd.all[0].settimeout(0.1)
        said = b""
        for _ in range(DEADLINE_S * 10):
            try:
                crowd.all[0].send(b"x" * 100)
                said = crowd.all[0].recv(4096)
                break
            except TimeoutError:
                continue
        assert said.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("length, n", [(MB, 48), (100 * MB, 12)],
                         ids=["small", "large"])
def test_bodies_that_fill_the_room_give_way(rest, length, n):
    """Of large ones, which wait in line, only some are let in."""
    bodies = rest.intake.bodies
    bodies.room = (256 if FULL else 32) * MB
    with Crowd(rest.service.port) as crowd:
        crowd.come(n * bodies.room // (32 * MB), head(length) + bytes(MB - 1))
        assert rest.puts([10, 4 * MB, 8 * MB]) == [200] * 3
        assert bodies.held <= bodies.room
        told = {said.split(b" ", 2)[1] for said in crowd.said() if said}
        assert told <= {b"408", b"503"}
    assert bodies.full.count + bodies.slow.count > 0


@pytest.mark.usefixtures("patient")
def test_a_burst_of_large_bodies_is_served(rest):
    rest.intake.bodies.room = 32 * MB
    assert rest.puts([8 * MB] * 12) == [200] * 12
    assert rest.intake.bodies.full.count == 0


def test_who_does_not_read_keeps_nobody_waiting(rest):
    assert rest.puts([10, 16 * MB]) == [200] * 2
    with Crowd(rest.service.port) as crowd:
        crowd.come(64 if FULL else 16,
                   b"GET /api/get/k1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(3):
            assert ask(f"{rest.url}/get/k0")[1] == b"v" * 10
            assert len(ask(f"{rest.url}/get/k1")[1]) == 16 * MB
        until(lambda: not rest.intake.values.flows)
        assert all(len(said) < 16 * MB for said in crowd.said())
    assert rest.intake.values.held == 0


def test_a_crowd_of_http_connections_shuts_nobody_out(rest):
    listener = rest.intake.listener
    listener.max = 512 if FULL else 64
    with Crowd(rest.service.port) as crowd:
        crowd.come(2 * listener.max, b"PUT /api/put HTTP/1.1\r\nHost:")
        assert rest.puts([10] * 8) == [200] * 8
        crowd.come(listener.max, head(100))
        assert rest.puts([10, 4 * MB]) == [200] * 2
        crowd.said()  # who never comes with a request is closed, too
    assert len(listener.connections) <= listener.max


def test_a_body_that_is_malformed_is_no_fault_of_the_service(rest, caplog):
    with Crowd(rest.service.port) as crowd:
        crowd.come(1, b"PUT /api/put HTTP/1.1\r\nHost: localhost\r\n"
                      b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert crowd.all[0].recv(4096).split()[1] == b"400"
    with Crowd(rest.service.port) as crowd:
        crowd.come(4, head(100) + b"{")
    until(lambda: not rest.intake.bodies.flows)
    assert not [one for one in caplog.records if one.exc_info]


def test_what_is_no_http_is_a_short_line(rest, caplog, monkeypatch):
    lines, = _rest.http_logger.filters  # which may have said something just now
    monkeypatch.setattr(lines, "quiet", _traffic.Quiet(_rest.logger))
    with Crowd(rest.service.port) as crowd:
        crowd.come(1, b"GET /api/exist/k HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert crowd.all[0].recv(4096).split()[1] == b"200"
        crowd.all[0].sendall(b"x" * 60000)
        assert crowd.all[0].recv(4096).split()[1] == b"400"
    until(lambda: "Invalid method" in caplog.text)
    assert max(map(len, caplog.messages)) < 500


@pytest.mark.skipif(not FULL, reason="TE_TEST_ATTACKS=full: 400 MiB of bodies")
def test_a_service_keeps_within_its_memory(master):
    service = Service(master.address).started()
    with Crowd(service.port) as crowd:
        crowd.come(128, head(100 * MB) + bytes(8 * MB))
        assert service.put("k", "v")[0] == 200
        assert service.put("large", "v" * 4 * MB)[0] == 200
        peak = peak_rss(service.process.pid)
        print(f"peak: {peak // MB} MiB")
        assert peak < 1536 * MB
    service.kill()
