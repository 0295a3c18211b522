# SPDX-License-Identifier: Apache-2.0
"""Objects of a pool over HTTP: put, get, exist, remove.

What a client sends costs at most what the limits below say, and a fault of its own:
nobody waits for a body or for a reader that is slow, as mooncake/_traffic.py has it.
A call of the store runs on a thread; the loop goes on meanwhile.
"""
from __future__ import annotations

import asyncio
import io
import ipaddress
import json
import logging
import re
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from mooncake._accept import Connection, Listener
from mooncake._insecure import Members
from mooncake._traffic import PIECE, SMALL, Cut, Flow, Quiet, Traffic
from mooncake.store import MooncakeDistributedStore

logger = logging.getLogger(__name__)

BODY_MAX = 100 << 20
BODIES, BODY_S = 384 << 20, 60  # in memory together; one of them takes so long
VALUES, VALUE_S = 384 << 20, 600  # the same of those that are sent
VALUES_AT_ONCE = 16  # that clients take as fast as they can
CALLS_AT_ONCE, LARGE_AT_ONCE = 16, 2
FIRST_S = 10  # until the first request of a connection has come
KEPT_S = 75  # between two requests
LINGER_S = 2  # for what comes after the answer, so that it can be read
HOST = re.compile(r"(?:\[([\da-f.]*:[\da-f:.]*)\]|([^:\[\]]*?)\.?)(?::\d*)?",
                  re.ASCII | re.IGNORECASE)


class HttpLines(logging.Filter):
    """What aiohttp says of who speaks no HTTP: a line now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet = Quiet(logger)

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        self.quiet.warn(f"{record.getMessage()}: " + " ".join(str(error).split()))
        return False


http_logger = logging.getLogger(f"{__name__}.http")
http_logger.addFilter(HttpLines())


class Refusal(Exception):
    """The answer to a request that was not done, and why."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **more}


@web.middleware
async def answer_refusals(request: web.Request,
                          handler: Callable[..., Any]) -> web.StreamResponse:
    """Whatever happens is an answer. A browser's page may not change anything."""
    try:
        if request.method != "GET" and "Origin" in request.headers:
            raise Refusal(403, "a page of another site may not change anything")
        return await handler(request)
    except Refusal as refusal:
        return web.json_response(refusal.body, status=refusal.status)
    except Cut as cut:
        return web.json_response({"error": str(cut)},
                                 status=408 if cut.too_slow else 503,
                                 headers={"Retry-After": "1"})
    except web.RequestPayloadError as error:
        return web.json_response({"error": f"the body is malformed: {error}"},
                                 status=400)
    except web.HTTPException:
        raise
    except ConnectionError:
        return web.Response(status=400)  # which nobody is there to read
    except Exception:
        logger.exception("%s %r", request.method, request.path)
        return web.json_response({"error": "internal error, see the log"},
                                 status=500)


class Hosts:
    """Which names a request may be for, of a server that only this host reaches.

    A page of another site can have its own name point here (DNS rebinding), and
    what it asks for by that name is not of another site any more. Addresses,
    localhost and the machine's name are always meant; others have to be told.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {"localhost", socket.gethostname().lower(),
                      *map(_host_of, names)} - {""}
        self.any = False  # who reaches it from elsewhere may call it anything

    @web.middleware
    async def check(self, request: web.Request,
                    handler: Callable[..., Any]) -> web.StreamResponse:
        name = _host_of(request.headers.get("Host", "localhost"))
        if not self.any and name not in self.names and not _is_address(name):
            raise Refusal(403, f"this host has another name than {name!r}: "
                          "--allow-host says otherwise")
        return await handler(request)


def _host_of(header: str) -> str:
    """The name or address in "host", "host:port", "[v6]" or "[v6]:port", or "".

    Nothing else may follow: "[v6]host" is not this host's address.
    """
    found = HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _parse(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "Malformed JSON body", detail=str(error)) from None
    if not isinstance(data, dict):
        raise Refusal(400, "Malformed JSON body", detail="should be an object")
    return data


class Intake:
    """Connections, bodies and values of a service, and what they may cost."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.bodies = Traffic("bodies", BODIES, BODY_S, logger)
        self.values = Traffic("values", VALUES, VALUE_S, logger)
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)  # bodies that are worked on
        self.listener: Listener | None = None
        self._serve: Callable[[], asyncio.BaseProtocol] | None = None

    def open(self, sockets: list[socket.socket],
             serve: Callable[[], asyncio.BaseProtocol]) -> None:
        self._serve = serve
        self.listener = Listener("REST", sockets, self._begin, logger, FIRST_S)

    async def _begin(self, accepted: socket.socket,
                     connection: Connection) -> asyncio.Transport:
        del connection  # requests find it by the transport
        assert self._serve
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            self._serve, accepted)
        return transport

    def close(self) -> None:
        if self.listener:
            self.listener.close()

    def connection(self, request: web.Request) -> Connection:
        known = self.listener.connections if self.listener else {}
        transport = request.transport
        if transport not in known:
            raise ConnectionResetError("the client has gone")
        return known[transport]

    @web.middleware
    async def count(self, request: web.Request,
                    handler: Callable[..., Any]) -> web.StreamResponse:
        connection = self.connection(request)
        with connection.request():
            self._check_user(request, connection)
            return await handler(request)

    def _check_user(self, request: web.Request, connection: Connection) -> None:
        """All that there is reads or changes the pool: others get none of it."""
        if connection.is_member or request.transport is None:
            return
        words = self.members.refusal(request.transport.get_extra_info("socket"))
        if words:
            if self.listener:
                self.listener.refuse(connection, words)
            raise Refusal(403, words)
        connection.is_member = True


class Rest:
    """Base of what answers: bodies, and calls of the store on threads."""

    def __init__(self, store: MooncakeDistributedStore, intake: Intake) -> None:
        self.store = store
        self.intake = intake
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "mooncake-rest")

    async def call(self, method: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, method, *args)

    def close(self) -> None:
        """Waits for calls under way."""
        self._threads.shutdown()

    def with_body(self, handler: Callable[[dict[str, Any]], Any]
                  ) -> Callable[[web.Request], Any]:
        """A handler of what the body says, which is there as long as it runs."""
        async def handle(request: web.Request) -> web.Response:
            connection = self.intake.connection(request)
            flow = self.intake.bodies.flow(connection.peer)
            with connection.carry(flow):
                body = await _receive(request, flow)
                flow.pause()
                if len(body) <= SMALL:
                    return await handler(_parse(body))
                async with self.intake.large:
                    return await handler(_parse(body))
        return handle


async def _receive(request: web.Request, flow: Flow) -> bytes:
    length = request.content_length
    content = io.BytesIO()  # the bytes at its end are not one more copy
    while True:
        if max(length or 0, flow.held) > BODY_MAX:
            raise Refusal(413, f"a body has {BODY_MAX} bytes at most")
        piece = await request.content.readany()
        if not piece:
            return content.getvalue()
        flow.moved(len(piece))
        flow.hold(len(piece))
        content.write(piece)
        await flow.enter(BODY_MAX if length is None else length)


class Objects(Rest):
    def routes(self) -> list[web.RouteDef]:
        return [
            web.put("/api/put", self.with_body(self.put)),
            web.get("/api/get/{key}", self.get, allow_head=False),
            web.get("/api/exist/{key}", self.exist, allow_head=False),
            web.delete("/api/remove/{key}", self.remove),
            web.delete("/api/remove_all", self.remove_all),
        ]

    async def put(self, body: dict[str, Any]) -> web.Response:
        key, value = body.get("key"), body.get("value")
        if not key or value is None:
            raise Refusal(400, "Missing key or value")
        if not isinstance(key, str) or not isinstance(value, str) or not value:
            raise Refusal(400, "key and value should be texts, and not empty")
        try:
            data = value.encode()
            key.encode()
        except UnicodeEncodeError as error:
            raise Refusal(400, "key or value is no text", detail=str(error)
                          ) from None
        code = await self.call(self.store.put, key, data)
        if code:
            raise Refusal(500, "PUT operation failed", code=code)
        return web.json_response({"status": "success"})

    async def get(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        connection = self.intake.connection(request)
        response = web.StreamResponse()
        try:
            with connection.carry(
                    self.intake.values.flow(connection.peer)) as flow:
                await flow.enter(VALUES // VALUES_AT_ONCE, 0)
                flow.pause()
                value = await self.call(self.store.get_buffer, key)
                if value is None:
                    await self._there("GET", key)  # or why nobody knows
                    raise Refusal(404, "Key not found")
                flow.hold(len(value))
                flow.resume()
                await _send(request, response, memoryview(value), flow)
        except Cut:
            if not response.prepared:
                raise
            if request.transport:
                request.transport.abort()
        return response

    async def exist(self, request: web.Request) -> web.Response:
        there = await self._there("EXIST", request.match_info["key"])
        return web.json_response({"exists": there})

    async def _there(self, what: str, key: str) -> bool:
        code = await self.call(self.store.is_exist, key)
        if code < 0:
            raise Refusal(500, f"{what} operation failed", code=code)
        return bool(code)

    async def remove(self, request: web.Request) -> web.Response:
        code = await self.call(self.store.remove, request.match_info["key"])
        if code:
            raise Refusal(500, "Remove operation failed", code=code)
        return web.json_response({"status": "success"})

    async def remove_all(self, _: web.Request) -> web.Response:
        count = await self.call(self.store.remove_all)
        if count < 0:
            raise Refusal(500, "Remove all operation failed", code=count)
        return web.json_response({"status": f"success removed {count} keys"})


async def _send(request: web.Request, response: web.StreamResponse,
                value: memoryview, flow: Flow) -> None:
    """Without a copy."""
    response.content_type = "application/octet-stream"
    response.content_length = len(value)
    await response.prepare(request)
    for at in range(0, len(value), PIECE):
        piece = value[at:at + PIECE]
        await response.write(piece)
        flow.moved(len(piece))
    await response.write_eof()
