# SPDX-License-Identifier: Apache-2.0
"""The RPC classes of mooncake.engine."""
from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import threading

import pytest

from mooncake import _rpc
from mooncake.engine import (CoroRPCInterface, RpcInterface, create_rpc_client)
from mooncake._rpc import HEAD, MAGIC, TOLD
from peer import DEADLINE_S, free_port, until
from pool import ANOTHER_USER, ask_as, only_root


class Array:
    """What numpy's arrays are to send_tensor()."""

    dtype, shape = "int16", (2, 3)

    def tobytes(self) -> bytes:
        return bytes(range(12))


@pytest.fixture
def server():
    one = RpcInterface()
    one.address = f"127.0.0.1:{free_port()}"
    one.got = []
    assert one.initialize(one.address)
    one.set_data_receive_callback(one.got.append)
    one.set_tensor_receive_callback(one.got.append)
    assert one.start_server_async()
    yield one
    one.stop_server()


@pytest.fixture
def client():
    return create_rpc_client()


@pytest.mark.parametrize("length", [0, 1, 100_000, 20 << 20])
def test_data_arrives(server, client, length):
    content = os.urandom(length)
    assert client.send_data(server.address, content) == 0
    one, = server.got
    assert one.get_bytes() == content and one.data_size == length
    assert bytes(one.get_memory_view()) == content
    assert one.source_address.startswith("127.0.0.1:")


def test_tensor_arrives(server, client):
    assert client.send_tensor(server.address, Array()) == 0
    one, = server.got
    assert (one.shape, one.dtype, one.total_bytes) == ([2, 3], 5, 12)
    assert one.get_data_as_bytes() == Array().tobytes()
    with pytest.raises(AttributeError):
        client.send_tensor(server.address, b"no tensor")


def test_a_process_may_have_many_descriptors(server, client):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("2,048 descriptors are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert [client.send_data(server.address, b"x") for _ in range(3)] == [0] * 3
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_asynchronous_sends(server, client):
    async def send():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(client.send_data_async(server.address, bytes([i]), loop)
              for i in range(50)),
            client.send_tensor_async(server.address, Array(), loop))

    assert asyncio.run(send()) == [0] * 51
    assert sorted(one.get_bytes() for one in server.got)[:2] == [
        b"\0", Array().tobytes()]


def test_nobody_there_is_an_error(server, client):
    assert client.send_data(f"127.0.0.1:{free_port()}", b"x") == -1
    assert client.send_data("nonsense", b"x") == -1
    assert RpcInterface().send_data(server.address, b"x") == -1
    address = server.address
    server.stop_server()
    assert client.send_data(address, b"x") == -1


def test_what_was_not_sent_is_in_the_log(server, client, caplog):
    address = f"127.0.0.1:{free_port()}"
    for target, words in ((address, "refused"), ("nonsense", "host:port"),
                          (server.address, "callback")):
        server._on_data = None
        caplog.clear()
        assert client.send_data(target, b"x") == -1
        (line,) = caplog.messages
        assert target in line and words in line
    caplog.clear()
    assert RpcInterface().send_data(address, b"x") == -1
    assert "initialize_client" in caplog.text
    assert not RpcInterface().initialize_server(server.address)
    assert server.address in caplog.messages[-1]


def test_an_answer_that_trickles_is_not_waited_for():
    listener = socket.create_server(("127.0.0.1", 0))
    sent = []

    def trickle() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(TOLD + _rpc.TEXT.pack(1000))
            connection.settimeout(0.05)
            for _ in range(1000):
                try:
                    if not connection.recv(1):
                        return
                except TimeoutError:
                    pass
                except ConnectionError:
                    return
                connection.send(b"x")
                sent.append(1)

    with listener:
        thread = threading.Thread(target=trickle)
        thread.start()
        one = RpcInterface()
        assert one.initialize_client(timeout_seconds=1)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert one.send_data(address, b"x") == -1
        thread.join()
    assert len(sent) < 1000


def test_who_is_refused_is_told_why(server, client, caplog, monkeypatch):
    server._server.members.refusal = lambda _: "only friends\n are served"
    assert client.send_data(server.address, bytes(1 << 20)) == -1
    refused, said = caplog.messages
    assert refused.startswith("RPC: refused 127.0.0.1:")
    assert said == f"message to {server.address}: only friends? are served"
    server._server.members.refusal = lambda _: None
    monkeypatch.setattr(_rpc, "PAYLOAD_MAX", 10)
    caplog.clear()
    assert client.send_data(server.address, bytes(11)) == -1
    assert caplog.messages[0].endswith("11 bytes in one message: 10 are the most")
    with socket.create_connection(
            ("127.0.0.1", int(server.address.rpartition(":")[2]))) as one:
        one.sendall(HEAD.pack(MAGIC, 2, 11) + b"{}")
        assert one.recv(1) == TOLD
        assert "10 and 4096 are the most" in _rpc.read_text(one)


def test_wrong_types_are_named(server, client):
    with pytest.raises(TypeError, match="target_address"):
        client.send_data(5, b"x")
    with pytest.raises(TypeError, match="callback"):
        client.set_data_receive_callback("no function")


@pytest.mark.parametrize("started", [False, True])
def test_a_server_that_is_stopped_leaves_nothing(client, started):
    def descriptors() -> int:
        gc.collect()  # those of earlier tests
        return len(os.listdir("/proc/self/fd"))

    address, before = f"127.0.0.1:{free_port()}", descriptors()
    for _ in range(3):
        one = RpcInterface()
        assert one.initialize_server(address)
        if started:
            assert one.start_server_async()
            with socket.create_connection(
                    ("127.0.0.1", int(address.split(":")[1])), DEADLINE_S):
                one.stop_server()
        one.stop_server()
        one.stop_server()
    assert descriptors() == before


def test_callback_that_fails_is_an_error_of_the_sender(server, client):
    def fail(_):
        raise RuntimeError("on purpose")

    server.set_data_receive_callback(fail)
    assert client.send_data(server.address, b"x") == -1
    server.set_data_receive_callback(server.got.append)
    assert client.send_data(server.address, b"x") == 0


@pytest.mark.parametrize("rubbish", [
    b"TERP\0\x10\0\0" + b"\0" * 8 + b"[" * 4096,
    b"GET / HTTP/1.0\r\n\r\n", b"TERP" + b"\xff" * 12,
    b"TERP\2\0\0\0" + b"\0" * 8 + b"{]", b"TERP\2\0\0\0" + b"\0" * 7])
def test_rubbish_costs_only_who_sends_it(server, client, rubbish):
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as stranger:
        stranger.sendall(rubbish)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(1) in (b"", TOLD)
    assert client.send_data(server.address, b"x") == 0
    assert len(server.got) == 1


MESSAGE = HEAD.pack(MAGIC, 2, 1) + b"{}x"


def message_of(user: int, server) -> bytes:
    """The server's answer to one of a process of that user."""
    return ask_as(user, int(server.address.rpartition(":")[2]), MESSAGE, "head -c1")


@only_root
def test_another_user_is_not_served(server, client, caplog):
    assert message_of(ANOTHER_USER, server) == TOLD
    (line,) = caplog.messages
    assert line.startswith("RPC: refused 127.0.0.1:")
    assert f"this is user {ANOTHER_USER}" in line and "allow_uids" in line
    assert message_of(0, server) == b"\0"
    assert client.send_data(server.address, b"x") == 0
    assert len(server.got) == 2


@only_root
@pytest.mark.parametrize("name, value", [
    ("MOONCAKE_ALLOW_UIDS", f"5,{ANOTHER_USER}"), ("MOONCAKE_ALLOW_UIDS", "any"),
    ("MOONCAKE_INSECURE", "1")])
def test_another_user_is_served_where_it_may(monkeypatch, name, value, request):
    monkeypatch.setenv(name, value)
    assert message_of(ANOTHER_USER, request.getfixturevalue("server")) == b"\0"


def test_users_that_are_none_are_refused(monkeypatch, caplog):
    monkeypatch.setenv("MOONCAKE_ALLOW_UIDS", "me")
    assert not RpcInterface().initialize("127.0.0.1:0")
    assert "'me' is not a list of user ids" in caplog.text


def test_server_that_was_started_again_is_found_again(server, client):
    assert client.send_data(server.address, b"1") == 0
    server.stop_server()
    assert server.initialize_server(server.address)
    assert server.start_server_async()
    assert client.send_data(server.address, b"2") == 0
    assert [one.get_bytes() for one in server.got] == [b"1", b"2"]


def test_server_in_the_foreground_ends_when_told():
    server = CoroRPCInterface()
    assert not server.start_server_async()
    assert server.initialize_server(f"127.0.0.1:{free_port()}")
    assert not server.initialize_server("127.0.0.1:0")
    thread = threading.Thread(target=server.start_server)
    thread.start()
    running = server._server.thread
    assert until(running.is_alive)
    server.stop_server()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
