# SPDX-License-Identifier: Apache-2.0
"""mooncake.http_metadata_server: what it answers, and its life."""
from __future__ import annotations

import asyncio
import enum
import gc
import weakref

import pytest
from mooncake.http_metadata_server import KVBootstrapServer, KVPoll
from rest import ask

RPC = "mooncake/rpc_meta/here:1"


class Request:
    def __init__(self, method: str, body: bytes = b"", **query: str) -> None:
        self.method, self.body, self.query = method, body, query

    async def read(self) -> bytes:
        return self.body


def told(server, *args: object, **query: str) -> tuple[int, bytes]:
    said = asyncio.run(server._handle_metadata(Request(*args, **query)))
    assert said.content_type == "application/json"
    assert said.text == said.body.decode()
    return said.status, said.body


def test_requests_are_answered_without_a_server():
    server = KVBootstrapServer(8080)
    assert told(server, "GET", key="k") == (404, b"metadata not found")
    assert told(server, "PUT", b"\xc3\xb6", key=" k\n") == (200, b"metadata updated")
    assert server.store == {"k": b"\xc3\xb6"}
    assert told(server, "GET", key="\tk ") == (200, b"\xc3\xb6")
    assert told(server, "PUT", b"", key="k") == (200, b"metadata updated")
    assert told(server, "POST", key="k")[0] == 405
    assert told(server, "DELETE", key="k") == (200, b"metadata deleted")
    assert told(server, "DELETE", key="k") == (404, b"metadata not found")
    assert told(server, "PUT", b"1", key=RPC)[0] == 200
    assert told(server, "PUT", b"2", key=RPC)[0] == 400
    assert server.store == {RPC: b"1"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("query", [{}, {"key": ""}, {"key": " \t"}])
def test_a_request_needs_a_key(method, query):
    server = KVBootstrapServer(8080)
    assert told(server, method, b"x", **query) == (400, b"metadata key is required")
    assert server.store == {}


def test_it_serves_as_long_as_its_thread_lives():
    server = KVBootstrapServer(0, "127.0.0.1")
    assert server.poll() is KVPoll.Failed
    thread = server.run()
    assert thread.is_alive() and thread.daemon
    assert server.run() is thread
    assert server.poll() is KVPoll.Success
    url = f"http://127.0.0.1:{server.port}/metadata?key="
    assert ask(url + "%20k", "PUT", b"v") == (200, b"metadata updated")
    assert ask(url + "k+") == (200, b"v")
    assert ask(url + "+") == (400, b"metadata key is required")
    server.close()
    assert not thread.is_alive()
    assert server.poll() is KVPoll.Failed
    server.close()


def test_it_serves_though_nobody_keeps_it():
    server = KVBootstrapServer(0, "127.0.0.1")
    thread, kept = server.run(), weakref.ref(server)
    url = f"http://127.0.0.1:{server.port}/metadata?key=k"
    del server
    gc.collect()
    assert ask(url, "PUT", b"v")[0] == 200 and thread.is_alive()
    kept().close()
    assert not thread.is_alive()


def test_states_are_no_numbers():
    assert [(one.name, one.value) for one in KVPoll] == [
        ("Failed", 0), ("Bootstrapping", 1), ("WaitingForInput", 2),
        ("Transferring", 3), ("Success", 4)]
    assert issubclass(KVPoll, enum.Enum) and KVPoll.Failed != 0
